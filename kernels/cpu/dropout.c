/*
 * Dropout: the mask is drawn where it is used and never stored.
 *
 * Philox words for a window of elements are drawn into a buffer that stays in the first-level
 * cache, then one vector loop compares and scales. "unit(word) >= rate" is an integer comparison:
 * unit(word) is (word >> 8) * 2^-24 exactly, so a draw survives iff word >> 8 is at least
 * ceil(rate * 2^24).
 */
#include "kernels/kernels_internal.h"

#include <math.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/philox.h"
#include "kernels/check.h"
#include "kernels/cpu/cpu_internal.h"

enum {
    WINDOW = 1024, // elements
    GRAIN = 1 << 14,
};

_Static_assert(WINDOW % (4 * SL_CPU_PHILOX_LANES) == 0, "whole blocks of the generator");

SL_SIMD_VOID(apply_words,
             (float *restrict x, const uint32_t *restrict words, uint32_t n, uint32_t threshold,
              float scale),
             (x, words, n, threshold, scale))
{
    for (uint32_t i = 0; i < n; i++) {
        float scaled = x[i] * scale;
        x[i] = words[i] >> 8 >= threshold ? scaled : 0.0f;
    }
}

void sl_cpu_dropout_span(const struct sl_dropout *dropout, uint64_t first, uint64_t n, float *x)
{
    _Alignas(64) uint32_t words[WINDOW];
    uint32_t threshold = (uint32_t)ceil((double)dropout->rate * 16777216.0);
    float scale = 1.0f / (1.0f - dropout->rate);
    while (n > 0) {
        uint32_t skip = (uint32_t)(first & 3);
        uint32_t count = (uint32_t)SL_MIN(n, (uint64_t)WINDOW - skip); // then windows are aligned
        uint32_t positions = (uint32_t)sl_align_up(sl_div_up(skip + count, 4), SL_CPU_PHILOX_LANES);
        sl_cpu_philox_words(dropout->seed, SL_RNG_DROPOUT, dropout->layer, dropout->batch,
                            dropout->epoch, first / 4, positions, words);
        apply_words(x, words + skip, count, threshold, scale);
        first += count;
        x += count;
        n -= count;
    }
}

struct job {
    const struct sl_dropout *dropout;
    float *x;
};

static void run_range(void *context, uint64_t begin, uint64_t end)
{
    const struct job *job = context;
    sl_cpu_dropout_span(job->dropout, begin, end - begin, job->x + begin);
}

int sl_cpu_dropout(float *x, uint64_t rows, uint32_t dim, const struct sl_dropout *dropout)
{
    SL_TRY(sl_check_dropout(x, rows, dim, dropout));
    if (!sl_cpu_dropout_is_on(dropout))
        return SL_OK;
    struct job job = {.dropout = dropout, .x = x};
    sl_cpu_parallel_range(rows * dim, GRAIN, 4 * SL_CPU_PHILOX_LANES, run_range, &job);
    return SL_OK;
}
