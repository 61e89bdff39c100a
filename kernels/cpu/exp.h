/*
 * exp.h - selection, e^x, e^x - 1 and log(1 + x) in 16-lane vectors: what softmax, attention,
 * activations and the other losses share.
 *
 * Polynomials of our own: the vectoriser has none of these functions without -ffast-math. Relative
 * errors are below 3e-7 all over the stated ranges; tests/kernels compares them with libm.
 */
#ifndef SL_KERNELS_CPU_EXP_H
#define SL_KERNELS_CPU_EXP_H

#include "kernels/cpu/vector.h"

// mask has all bits of a lane set or none.
SL_INLINE void sl_v16_choose(const sl_v16_i32 *mask, const sl_v16 *yes, const sl_v16 *no,
                             sl_v16 *out)
{
    *out = (sl_v16)((*mask & (sl_v16_i32)*yes) | (~*mask & (sl_v16_i32)*no));
}

// Whether x < -bound, of x <= 0; of a NaN not. By whole numbers: GCC 12 compares vectors that are
// longer than the registers lane by lane, which with AVX2 took a third of e^x.
SL_INLINE void sl_v16_far_below(const sl_v16 *x, float bound, sl_v16_i32 *out)
{
    const sl_v16 limit = (sl_v16){0} + bound;
    const sl_v16_i32 magnitude = (sl_v16_i32)*x & 0x7fffffff;
    // cppcheck-suppress shiftTooManyBitsSigned; GCC shifts copies of the sign in
    *out = ((sl_v16_i32)limit - magnitude) >> 31 & ~((0x7f800000 - magnitude) >> 31);
}

/*
 * For -87 <= x <= 0, after Cephes: x = n ln 2 + r, e^r - 1 by a polynomial, 2^n through the
 * exponent bits.
 */
SL_INLINE void sl_v16_exp_parts(const sl_v16 *x, sl_v16 *power, sl_v16 *rest)
{
    const float shift = 12582912.0f; // 1.5 * 2^23: adding it rounds to an integer
    sl_v16 n = (*x * 1.44269504f + shift) - shift;
    sl_v16 r = (*x - n * 0.693359375f) + n * 2.12194440e-4f; // ln 2 in two parts
    sl_v16 p = 1.9875691500e-4f * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    *rest = p * (r * r) + r;
    *power = (sl_v16)((__builtin_convertvector(n, sl_v16_i32) + 127) << 23);
}

// e^x for x <= 0: 0 below -87, where it would leave the normal numbers. A NaN stays one.
SL_INLINE void sl_v16_exp_negative(const sl_v16 *x, sl_v16 *out)
{
    const sl_v16 lowest = (sl_v16){0} - 87.0f, zero = {0};
    sl_v16_i32 below;
    sl_v16_far_below(x, 87.0f, &below);
    sl_v16 clamped, power, rest;
    sl_v16_choose(&below, &lowest, x, &clamped);
    sl_v16_exp_parts(&clamped, &power, &rest);
    rest = (rest + 1.0f) * power;
    sl_v16_choose(&below, &zero, &rest, out);
}

// e^x - 1 for x <= 0, without the cancellation near 0. A NaN stays one.
SL_INLINE void sl_v16_expm1_negative(const sl_v16 *x, sl_v16 *out)
{
    const sl_v16 lowest = (sl_v16){0} - 87.0f;
    sl_v16_i32 below;
    sl_v16_far_below(x, 87.0f, &below);
    sl_v16 clamped, power, rest;
    sl_v16_choose(&below, &lowest, x, &clamped);
    sl_v16_exp_parts(&clamped, &power, &rest);
    *out = rest * power + (power - 1.0f); // 2^n (e^r - 1) + (2^n - 1); the last is exact
}

/*
 * log(1 + z) for 0 <= z <= 1, as 2 atanh(s) with s = z / (2 + z): s is at most 1/3, so seven terms
 * of the series leave less than 2e-8.
 */
SL_INLINE void sl_v16_log1p_unit(const sl_v16 *z, sl_v16 *out)
{
    sl_v16 s = *z / (*z + 2.0f), q = s * s;
    sl_v16 p = q * (1.0f / 13.0f) + 1.0f / 11.0f;
    p = p * q + 1.0f / 9.0f;
    p = p * q + 1.0f / 7.0f;
    p = p * q + 1.0f / 5.0f;
    p = p * q + 1.0f / 3.0f;
    *out = s * (p * q + 1.0f) * 2.0f;
}

#endif
