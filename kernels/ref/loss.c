#include "kernels/kernels_internal.h"

#include <math.h>

#include "common/base/error.h"
#include "kernels/check.h"

int sl_ref_softmax_xent(const float *logits, const int32_t *labels, uint64_t rows, uint32_t classes,
                        float *dlogits, double *loss, uint64_t *correct, uint64_t *counted)
{
    SL_TRY(sl_check_softmax_xent(logits, labels, rows, classes, loss, correct, counted));
    *loss = 0.0;
    *correct = 0;
    *counted = 0;
    for (uint64_t i = 0; i < rows; i++) {
        const float *x = logits + i * classes;
        float *dx = dlogits ? dlogits + i * classes : NULL;
        int32_t label = labels[i];
        if (label < 0) {
            for (uint32_t c = 0; dx && c < classes; c++)
                dx[c] = 0.0f;
            continue;
        }
        uint32_t best = 0; // ties go to the lowest class
        for (uint32_t c = 1; c < classes; c++)
            if (x[c] > x[best])
                best = c;
        double top = x[best], sum = 0.0;
        for (uint32_t c = 0; c < classes; c++)
            sum += exp(x[c] - top);
        *loss += log(sum) - (x[label] - top);
        *correct += best == (uint32_t)label;
        *counted += 1;
        for (uint32_t c = 0; dx && c < classes; c++)
            dx[c] = (float)(exp(x[c] - top) / sum - (c == (uint32_t)label));
    }
    return SL_OK;
}
