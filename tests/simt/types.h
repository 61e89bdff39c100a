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

SIMT_VECTORS(unsigned short, ushort, 2, 4, 8)
SIMT_VECTORS(unsigned, uint, 4, 8, 16)
SIMT_VECTORS(float, float, 4, 8, 16)

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

static inline float __half2float(__half h)
{
    return sl_half_to_float(h.bits);
}
static inline __half __ushort_as_half(unsigned short bits)
{
    return __half(__half_raw{bits});
}
#endif
