/*
 * types.h - CUDA's vector types, dim3 and __half, for the emulation.
 *
 * Sizes and alignments are CUDA's: a float4 that is not at a multiple of 16 bytes is a fault on a
 * GPU, and is found here by the checked build.
 */
#ifndef SL_TESTS_SIMT_TYPES_H
#define SL_TESTS_SIMT_TYPES_H

#include <stdint.h>

#include "common/base/half.h"

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

struct uint3 {
    unsigned x, y, z;
};

#define SIMT_VECTORS(type, name, align1, align2, align4)                                           \
    struct name##1                                                                                 \
    {                                                                                              \
        type x;                                                                                    \
    };                                                                                             \
    struct alignas(align2) name##2                                                                 \
    {                                                                                              \
        type x, y;                                                                                 \
    };                                                                                             \
    struct alignas(align4) name##4                                                                 \
    {                                                                                              \
        type x, y, z, w;                                                                           \
    };                                                                                             \
    static inline name##1 make_##name##1(type x)                                                   \
    {                                                                                              \
        return {x};                                                                                \
    }                                                                                              \
    static inline name##2 make_##name##2(type x, type y)                                           \
    {                                                                                              \
        return {x, y};                                                                             \
    }                                                                                              \
    static inline name##4 make_##name##4(type x, type y, type z, type w)                           \
    {                                                                                              \
        return {x, y, z, w};                                                                       \
    }

SIMT_VECTORS(signed char, char, 1, 2, 4)
SIMT_VECTORS(unsigned char, uchar, 1, 2, 4)
SIMT_VECTORS(short, short, 2, 4, 8)
SIMT_VECTORS(unsigned short, ushort, 2, 4, 8)
SIMT_VECTORS(int, int, 4, 8, 16)
SIMT_VECTORS(unsigned, uint, 4, 8, 16)
SIMT_VECTORS(long long, longlong, 8, 16, 16)
SIMT_VECTORS(unsigned long long, ulonglong, 8, 16, 16)
SIMT_VECTORS(float, float, 4, 8, 16)
SIMT_VECTORS(double, double, 8, 16, 16)

struct float3 {
    float x, y, z;
};
static inline float3 make_float3(float x, float y, float z)
{
    return {x, y, z};
}
static inline uint3 make_uint3(unsigned x, unsigned y, unsigned z)
{
    return {x, y, z};
}

// ---- half ---------------------------------------------------------------------------------------

struct __half_raw {
    unsigned short x;
};

struct __half {
    unsigned short bits;

    __half() = default;
    __half(float f) : bits(sl_half_from_float(f)) {}
    __half(const __half_raw &r) : bits(r.x) {}
    operator float() const
    {
        return sl_half_to_float(bits);
    }
    operator __half_raw() const
    {
        return {bits};
    }
};
typedef __half half;

struct alignas(4) __half2 {
    __half x, y;

    __half2() = default;
    __half2(__half a, __half b) : x(a), y(b) {}
};
typedef __half2 half2;

static inline float __half2float(__half h)
{
    return sl_half_to_float(h.bits);
}
static inline __half __float2half(float f)
{
    return __half(f);
}
static inline __half __float2half_rn(float f)
{
    return __half(f);
}
static inline float2 __half22float2(__half2 h)
{
    return {sl_half_to_float(h.x.bits), sl_half_to_float(h.y.bits)};
}
static inline __half2 __floats2half2_rn(float a, float b)
{
    return __half2(__half(a), __half(b));
}
static inline __half2 __float22half2_rn(float2 f)
{
    return __half2(__half(f.x), __half(f.y));
}
static inline __half __ushort_as_half(unsigned short bits)
{
    return __half(__half_raw{bits});
}
static inline unsigned short __half_as_ushort(__half h)
{
    return h.bits;
}
static inline float __low2float(__half2 h)
{
    return sl_half_to_float(h.x.bits);
}
static inline float __high2float(__half2 h)
{
    return sl_half_to_float(h.y.bits);
}

#endif
