/*
 * functions.h - the intrinsics and overloads that kernels use and C++ has not: bits, conversions
 * between bits and numbers, min and max. Results are those that CUDA documents.
 */
#ifndef SL_TESTS_SIMT_FUNCTIONS_H
#define SL_TESTS_SIMT_FUNCTIONS_H

#include <math.h>
#include <stdint.h>
#include <string.h>
#include <type_traits>

// ---- bits ---------------------------------------------------------------------------------------

static inline int __popc(unsigned x)
{
    return __builtin_popcount(x);
}
static inline int __ffs(int x)
{
    return __builtin_ffs(x);
}

// ---- numbers as bits ----------------------------------------------------------------------------

template <class To, class From> static inline To simt_bits(From from)
{
    static_assert(sizeof(To) == sizeof(From), "bits of one size");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}
static inline unsigned __float_as_uint(float x)
{
    return simt_bits<unsigned>(x);
}
static inline float __uint_as_float(unsigned x)
{
    return simt_bits<float>(x);
}

// ---- arithmetic ---------------------------------------------------------------------------------

// min and max of numbers of one kind, or of two that C++ makes one of.
template <class A, class B> using simt_common = typename std::common_type<A, B>::type;
template <class A, class B>
static inline typename std::enable_if<std::is_arithmetic<A>::value && std::is_arithmetic<B>::value,
                                      simt_common<A, B>>::type
min(A a, B b)
{
    simt_common<A, B> x = a, y = b;
    if (x != x)
        return y;
    return y < x ? y : x;
}
template <class A, class B>
static inline typename std::enable_if<std::is_arithmetic<A>::value && std::is_arithmetic<B>::value,
                                      simt_common<A, B>>::type
max(A a, B b)
{
    simt_common<A, B> x = a, y = b;
    if (x != x)
        return y;
    return y > x ? y : x;
}

#endif
