#include "kernels/kernels_internal.h"

#include <math.h>

#include "common/base/error.h"
#include "kernels/check.h"
#include "kernels/ref/half.h"
#include "kernels/ref/mask.h"

// Written so that a NaN passes and is seen in the loss.
static float activate(enum sl_activation act, float v)
{
    switch (act) {
    case SL_ACT_RELU: return v < 0.0f ? 0.0f : v;
    case SL_ACT_ELU: return v > 0.0f ? v : (float)expm1((double)v);
    case SL_ACT_LEAKY_RELU: return v > 0.0f ? v : v * SL_LEAKY_RELU_SLOPE;
    case SL_ACT_NONE: break;
    }
    return v;
}

// The activation's derivative from its output, dropout undone: y may be scaled, never dropped.
static float derivative(enum sl_activation act, float y, float keep)
{
    switch (act) {
    case SL_ACT_RELU: return y > 0.0f ? 1.0f : 0.0f;
    case SL_ACT_ELU: return y > 0.0f ? 1.0f : (float)((double)y * (double)keep + 1.0);
    case SL_ACT_LEAKY_RELU: return y > 0.0f ? 1.0f : SL_LEAKY_RELU_SLOPE;
    case SL_ACT_NONE: break;
    }
    return 1.0f;
}

// Element e of the rows, which is x before.
static float follow(float x, uint64_t e, uint32_t dim, const float *bias, enum sl_activation act,
                    const struct sl_dropout *dropout)
{
    float v = activate(act, bias ? x + bias[e % dim] : x);
    return sl_ref_survives(dropout, e) ? v * sl_ref_survivor_scale(dropout) : 0.0f;
}

int sl_ref_bias_act(float *y, uint64_t rows, uint32_t dim, const float *bias,
                    enum sl_activation act, const struct sl_dropout *dropout)
{
    SL_TRY(sl_check_bias_act(y, rows, dim, bias, act, dropout));
    for (uint64_t e = 0; e < rows * dim; e++)
        y[e] = follow(y[e], e, dim, bias, act, dropout);
    return SL_OK;
}

int sl_ref_bias_act_bf16(const float *x, uint64_t rows, uint32_t dim, const float *bias,
                         enum sl_activation act, const struct sl_dropout *dropout, float *y,
                         uint16_t *out, uint64_t ld)
{
    SL_TRY(sl_check_bias_act_bf16(x, rows, dim, bias, act, dropout, y, out, ld));
    for (uint64_t e = 0; e < rows * dim; e++) {
        const float v = follow(x[e], e, dim, bias, act, dropout);
        out[e / dim * ld + e % dim] = sl_ref_to_bf16(v);
        if (y)
            y[e] = v;
    }
    return SL_OK;
}

int sl_ref_bias_act_backward(float *dy, const void *y, uint64_t y_bf16_ld, uint64_t rows,
                             uint32_t dim, enum sl_activation act, const struct sl_dropout *dropout,
                             float *dbias)
{
    SL_TRY(sl_check_bias_act_backward(dy, y, y_bf16_ld, rows, dim, act, dropout, dbias));
    const enum sl_dtype dtype = y_bf16_ld ? SL_DTYPE_BF16 : SL_DTYPE_F32;
    const uint64_t ld = y_bf16_ld ? y_bf16_ld : dim;
    float keep = dropout ? 1.0f - dropout->rate : 1.0f;
    for (uint64_t e = 0; e < rows * dim; e++) {
        const uint64_t at = e / dim * ld + e % dim;
        float slope = act == SL_ACT_NONE ? 1.0f : derivative(act, sl_ref_load(y, dtype, at), keep);
        int alive = sl_ref_survives(dropout, e) && slope != 0.0f;
        dy[e] = alive ? dy[e] * sl_ref_survivor_scale(dropout) * slope : 0.0f;
    }
    for (uint32_t c = 0; dbias && c < dim; c++) {
        double sum = 0.0;
        for (uint64_t r = 0; r < rows; r++)
            sum += dy[r * dim + c];
        dbias[c] += (float)sum;
    }
    return SL_OK;
}
