/*
 * half.h - IEEE binary16 to and from float32, in plain C.
 *
 * For readers and writers of files; a kernel converts with the processor's own instructions.
 */
#ifndef SL_BASE_HALF_H
#define SL_BASE_HALF_H

#include <stdint.h>
#include <string.h>

static inline float sl_float_of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

// Exact: every binary16 is a float32.
static inline float sl_half_to_float(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exponent = h >> 10 & 0x1fu,
             fraction = h & 0x3ffu;
    if (exponent == 0) { // zero or subnormal: fraction * 2^-24
        float x = (float)fraction * 0x1p-24f;
        return sign ? -x : x;
    }
    uint32_t wide = exponent == 31 ? 255 : exponent + 112;
    return sl_float_of_bits(sign | wide << 23 | fraction << 13);
}

// To the nearest, ties to even; beyond +-65504 (from 65520 on) infinite; NaN stays NaN.
static inline uint16_t sl_half_from_float(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    uint32_t sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u);
    if (magnitude >= 0x477ff000u) // 65520
        return (uint16_t)(sign | 0x7c00u);
    if (magnitude < 0x38800000u) { // below 2^-14: subnormal, a multiple of 2^-24
        // 0.5 has an ulp of 2^-24 in float32: the addition rounds to that, ties to even.
        float shifted = sl_float_of_bits(magnitude) + 0.5f;
        memcpy(&bits, &shifted, sizeof bits);
        return (uint16_t)(sign | (bits - 0x3f000000u));
    }
    magnitude += 0xfffu + (magnitude >> 13 & 1u);
    return (uint16_t)(sign | (magnitude - 0x38000000u) >> 13);
}

#endif
