// half.h - the 16-bit number formats, decoded by their definition: slow, obvious, the oracle.
#ifndef SL_KERNELS_REF_HALF_H
#define SL_KERNELS_REF_HALF_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "common/base/dtype.h"

// IEEE 754 binary16: 1 sign, 5 exponent (bias 15), 10 mantissa bits. A NaN keeps its sign and
// mantissa, and is quiet.
static inline float sl_ref_half_to_float(uint16_t h)
{
    int exponent = h >> 10 & 0x1f;
    int mantissa = h & 0x3ff;
    float magnitude;
    if (exponent == 31 && mantissa) {
        uint32_t bits = (h & 0x8000u) << 16 | 0x7fc00000u | (uint32_t)mantissa << 13;
        memcpy(&magnitude, &bits, sizeof magnitude);
        return magnitude;
    }
    if (exponent == 0)
        magnitude = (float)mantissa * 0x1p-24f;
    else if (exponent == 31)
        magnitude = INFINITY;
    else
        magnitude = (float)(mantissa + 1024) * (float)(1 << exponent) * 0x1p-25f;
    return h & 0x8000 ? -magnitude : magnitude;
}

// The float nearest to x that has 8 significant bits, ties to the even one (bfloat16).
static inline float sl_ref_round_bf16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return x; // NaN stays NaN
    uint32_t low = bits & 0xffffu, even = bits >> 16 & 1;
    bits &= 0xffff0000u;
    if (low > 0x8000u || (low == 0x8000u && even))
        bits += 0x10000u;
    memcpy(&x, &bits, sizeof bits);
    return x;
}

// Its bits, and the float of them.
static inline uint16_t sl_ref_to_bf16(float x)
{
    uint32_t bits;
    x = sl_ref_round_bf16(x);
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)(bits >> 16 | (x != x ? 0x40u : 0u)); // a NaN that is all in the low half
}

static inline float sl_ref_bf16_to_float(uint16_t b)
{
    uint32_t bits = (uint32_t)b << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

// Element i of an array of f32, f16 or bf16.
static inline float sl_ref_load(const void *array, enum sl_dtype dtype, uint64_t i)
{
    if (dtype == SL_DTYPE_BF16)
        return sl_ref_bf16_to_float(((const uint16_t *)array)[i]);
    if (dtype == SL_DTYPE_F16)
        return sl_ref_half_to_float(((const uint16_t *)array)[i]);
    return ((const float *)array)[i];
}

#endif
