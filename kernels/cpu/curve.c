/*
 * Functions whose slope is told by what goes in, in lanes.
 *
 * GELU is x Phi(x), and all of Phi comes from its tail Q = Phi(-|x|) = e^(-x^2 / 2) P(t) / 2, t =
 * 1 / (1 + p |x| / sqrt 2), where P is the polynomial of Abramowitz and Stegun 7.1.26: Q is off by
 * less than 1e-7. The slope Phi + x phi takes the same exponential.
 */
#include "kernels/kernels_internal.h"

#include "common/base/error.h"
#include "kernels/check.h"
#include "kernels/cpu/cpu_internal.h"
#include "kernels/cpu/exp.h"

enum { GRAIN = 1 << 13 };

SL_INLINE void size_lanes(const sl_v16 *x, sl_v16 *out)
{
    *out = (sl_v16)((sl_v16_i32)*x & 0x7fffffff);
}

// e^-|x| / (1 + e^-|x|), or what it lacks to 1.
SL_INLINE void sigmoid_lanes(const sl_v16 *x, sl_v16 *out)
{
    const sl_v16 zero = {0};
    sl_v16 low, high;
    sl_v16_i32 above = *x > zero;
    size_lanes(x, &low);
    low = -low;
    sl_v16_exp_negative(&low, &low);
    low /= 1.0f + low;
    high = 1.0f - low;
    sl_v16_choose(&above, &high, &low, out);
}

// Phi and its density times sqrt(2 pi).
SL_INLINE void normal_lanes(const sl_v16 *x, sl_v16 *distribution, sl_v16 *bell)
{
    const sl_v16 zero = {0};
    sl_v16_i32 above = *x > zero;
    sl_v16 size, half = -0.5f * *x * *x, tail, rest;
    size_lanes(x, &size);
    const sl_v16 t = 1.0f / (1.0f + 0.3275911f * 0.70710678f * size);
    sl_v16_exp_negative(&half, bell);
    sl_v16 p = 1.061405429f * t - 1.453152027f;
    p = p * t + 1.421413741f;
    p = p * t - 0.284496736f;
    p = p * t + 0.254829592f;
    tail = 0.5f * p * t * *bell;
    rest = 1.0f - tail;
    sl_v16_choose(&above, &rest, &tail, distribution);
}

SL_INLINE void curve_lanes(enum sl_curve_kind f, const sl_v16 *x, sl_v16 *y)
{
    sl_v16 distribution, bell;
    if (f == SL_CURVE_SIGMOID) {
        sigmoid_lanes(x, y);
        return;
    }
    normal_lanes(x, &distribution, &bell);
    *y = *x * distribution;
}

SL_INLINE void slope_lanes(enum sl_curve_kind f, const sl_v16 *x, sl_v16 *slope)
{
    sl_v16 distribution, bell;
    if (f == SL_CURVE_SIGMOID) {
        sigmoid_lanes(x, &distribution);
        *slope = distribution * (1.0f - distribution);
        return;
    }
    normal_lanes(x, &distribution, &bell);
    *slope = distribution + *x * bell * 0.39894228f;
}

struct curve {
    enum sl_curve_kind f;
    const float *x;
    float *y;
};

SL_CPU_RANGE(run_curve)
{
    const struct curve *c = context;
    uint64_t i = begin;
    for (; i + SL_LANES <= end; i += SL_LANES) {
        sl_v16 x = *(const sl_v16_at *)(c->x + i), y;
        curve_lanes(c->f, &x, &y);
        *(sl_v16_at *)(c->y + i) = y;
    }
    if (i < end) {
        sl_v16 x = {0}, y;
        memcpy(&x, c->x + i, (end - i) * sizeof *c->x);
        curve_lanes(c->f, &x, &y);
        memcpy(c->y + i, &y, (end - i) * sizeof *c->y);
    }
}

SL_CPU_RANGE(run_slope)
{
    const struct curve *c = context;
    uint64_t i = begin;
    for (; i + SL_LANES <= end; i += SL_LANES) {
        sl_v16 x = *(const sl_v16_at *)(c->x + i), slope;
        slope_lanes(c->f, &x, &slope);
        *(sl_v16_at *)(c->y + i) *= slope;
    }
    if (i < end) {
        sl_v16 x = {0}, slope;
        float slopes[SL_LANES];
        memcpy(&x, c->x + i, (end - i) * sizeof *c->x);
        slope_lanes(c->f, &x, &slope);
        memcpy(slopes, &slope, sizeof slopes);
        for (uint64_t k = i; k < end; k++)
            c->y[k] *= slopes[k - i];
    }
}

int sl_cpu_curve(enum sl_curve_kind f, uint64_t n, const float *x, float *y)
{
    SL_TRY(sl_check_curve(f, n, x, y));
    struct curve c = {f, x, y};
    sl_cpu_parallel_range(n, GRAIN, SL_LANES, run_curve, &c);
    return SL_OK;
}

int sl_cpu_curve_backward(enum sl_curve_kind f, uint64_t n, const float *x, float *dy)
{
    SL_TRY(sl_check_curve_backward(f, n, x, dy));
    struct curve c = {f, x, dy};
    sl_cpu_parallel_range(n, GRAIN, SL_LANES, run_slope, &c);
    return SL_OK;
}
