#include "kernels/kernels_internal.h"

#include "common/base/error.h"
#include "kernels/check.h"
#include "kernels/ref/mask.h"

int sl_ref_bias_act(float *y, uint64_t rows, uint32_t dim, const float *bias, int relu,
                    const struct sl_dropout *dropout)
{
    SL_TRY(sl_check_bias_act(y, rows, dim, bias, dropout));
    for (uint64_t e = 0; e < rows * dim; e++) {
        float v = y[e] + bias[e % dim];
        if (relu && v < 0.0f) // written so that a NaN passes and is seen in the loss
            v = 0.0f;
        y[e] = sl_ref_survives(dropout, e) ? v * sl_ref_survivor_scale(dropout) : 0.0f;
    }
    return SL_OK;
}

int sl_ref_bias_act_backward(float *dy, const float *y, uint64_t rows, uint32_t dim, int relu,
                             const struct sl_dropout *dropout, float *dbias)
{
    SL_TRY(sl_check_bias_act_backward(dy, y, rows, dim, relu, dropout));
    for (uint64_t e = 0; e < rows * dim; e++) {
        int alive = sl_ref_survives(dropout, e) && (!relu || y[e] > 0.0f);
        dy[e] = alive ? dy[e] * sl_ref_survivor_scale(dropout) : 0.0f;
    }
    for (uint32_t c = 0; dbias && c < dim; c++) {
        double sum = 0.0;
        for (uint64_t r = 0; r < rows; r++)
            sum += dy[r * dim + c];
        dbias[c] += (float)sum;
    }
    return SL_OK;
}
