#include "common/data/prediction.h"

#include <math.h>
#include <string.h>

// Without a branch an element, so that several are looked at in one go.
bool sl_outputs_are_finite(const float *row, uint32_t n)
{
    const uint32_t exponent = 0x7f800000u;
    uint32_t bits, broken = 0;
    for (uint32_t c = 0; c < n; c++) {
        memcpy(&bits, &row[c], sizeof bits);
        broken |= (bits & exponent) == exponent;
    }
    return !broken;
}

int32_t sl_outputs_class(const float *row, uint32_t n)
{
    uint32_t best = 0;
    if (!sl_outputs_are_finite(row, n))
        return SL_NO_CLASS;
    for (uint32_t c = 1; c < n; c++)
        if (row[c] > row[best])
            best = c;
    return (int32_t)best;
}

void sl_prediction_write(enum sl_task task, const float *row, uint32_t n, uint32_t *words)
{
    if (task != SL_TASK_MULTICLASS) {
        memcpy(words, row, n * sizeof *words);
    } else if (n == 2) {
        // Finite outputs may be infinitely far from one another, which still ranks them.
        float margin = sl_outputs_are_finite(row, n) ? row[1] - row[0] : NAN;
        memcpy(words, &margin, sizeof margin);
    } else {
        *words = (uint32_t)sl_outputs_class(row, n);
    }
}

int32_t sl_prediction_class(uint32_t word, uint32_t n)
{
    if (n != 2)
        return word < n ? (int32_t)word : SL_NO_CLASS;
    const float margin = sl_prediction_margin(word);
    return isnan(margin) ? SL_NO_CLASS : margin > 0;
}

float sl_prediction_margin(uint32_t word)
{
    float margin;
    memcpy(&margin, &word, sizeof margin);
    return margin;
}
