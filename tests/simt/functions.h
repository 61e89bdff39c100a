/*
 * functions.h - the intrinsics and overloads that CUDA has and C++ has not: bits, rounding,
 * conversions between bits and numbers, min and max, loads with a hint.
 *
 * Results are those that CUDA documents; the fast approximations (__expf and so on) are computed
 * exactly here, so that their error does not show in the emulation.
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
static inline int __popcll(unsigned long long x)
{
    return __builtin_popcountll(x);
}
static inline int __ffs(int x)
{
    return __builtin_ffs(x);
}
static inline int __ffsll(long long x)
{
    return __builtin_ffsll(x);
}
static inline int __clz(int x)
{
    return x ? __builtin_clz((unsigned)x) : 32;
}
static inline int __clzll(long long x)
{
    return x ? __builtin_clzll((unsigned long long)x) : 64;
}
static inline unsigned __brev(unsigned x)
{
    x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
    x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
    x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
    return __builtin_bswap32(x);
}
static inline unsigned long long __brevll(unsigned long long x)
{
    return (unsigned long long)__brev((unsigned)x) << 32 | __brev((unsigned)(x >> 32));
}
static inline unsigned __umulhi(unsigned a, unsigned b)
{
    return (unsigned)((uint64_t)a * b >> 32);
}
static inline int __mulhi(int a, int b)
{
    return (int)((int64_t)a * b >> 32);
}
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b)
{
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
static inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift)
{
    return (unsigned)(((uint64_t)high << 32 | low) << (shift & 31) >> 32);
}
static inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift)
{
    return (unsigned)(((uint64_t)high << 32 | low) >> (shift & 31));
}
static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector)
{
    uint64_t both = (uint64_t)b << 32 | a;
    unsigned out = 0;
    for (int i = 0; i < 4; i++)
        out |= (unsigned)(both >> 8 * (selector >> 4 * i & 7) & 0xff) << 8 * i;
    return out;
}

// ---- numbers as bits ----------------------------------------------------------------------------

template <class To, class From> static inline To simt_bits(From from)
{
    static_assert(sizeof(To) == sizeof(From), "bits of one size");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}
static inline int __float_as_int(float x)
{
    return simt_bits<int>(x);
}
static inline unsigned __float_as_uint(float x)
{
    return simt_bits<unsigned>(x);
}
static inline float __int_as_float(int x)
{
    return simt_bits<float>(x);
}
static inline float __uint_as_float(unsigned x)
{
    return simt_bits<float>(x);
}
static inline long long __double_as_longlong(double x)
{
    return simt_bits<long long>(x);
}
static inline double __longlong_as_double(long long x)
{
    return simt_bits<double>(x);
}

// ---- arithmetic ---------------------------------------------------------------------------------

#define SIMT_BINARY(name, type, expression)                                                        \
    static inline type name(type a, type b)                                                        \
    {                                                                                              \
        return expression;                                                                         \
    }
SIMT_BINARY(__fadd_rn, float, a + b)
SIMT_BINARY(__fsub_rn, float, a - b)
SIMT_BINARY(__fmul_rn, float, a *b)
SIMT_BINARY(__fdiv_rn, float, a / b)
SIMT_BINARY(__fdividef, float, a / b)
SIMT_BINARY(__dadd_rn, double, a + b)
SIMT_BINARY(__dsub_rn, double, a - b)
SIMT_BINARY(__dmul_rn, double, a *b)
SIMT_BINARY(__ddiv_rn, double, a / b)
#undef SIMT_BINARY

#define SIMT_UNARY(name, out, in, expression)                                                      \
    static inline out name(in x)                                                                   \
    {                                                                                              \
        return expression;                                                                         \
    }
SIMT_UNARY(__frcp_rn, float, float, 1.0f / x)
SIMT_UNARY(__fsqrt_rn, float, float, sqrtf(x))
SIMT_UNARY(__frsqrt_rn, float, float, (float)(1.0 / sqrt((double)x)))
SIMT_UNARY(rsqrtf, float, float, (float)(1.0 / sqrt((double)x)))
SIMT_UNARY(rsqrt, double, double, 1.0 / sqrt(x))
SIMT_UNARY(__dsqrt_rn, double, double, sqrt(x))
SIMT_UNARY(__drcp_rn, double, double, 1.0 / x)
SIMT_UNARY(__saturatef, float, float, x<0 || x != x ? 0.0f : x> 1 ? 1.0f : x)
SIMT_UNARY(__double2float_rn, float, double, (float)x)
SIMT_UNARY(__int2float_rn, float, int, (float)x)
SIMT_UNARY(__uint2float_rn, float, unsigned, (float)x)
SIMT_UNARY(__ull2double_rn, double, unsigned long long, (double)x)
SIMT_UNARY(__uint2double_rn, double, unsigned, (double)x)
SIMT_UNARY(__float2int_rn, int, float, (int)rintf(x))
SIMT_UNARY(__float2int_rz, int, float, (int)x)
SIMT_UNARY(__float2uint_rz, unsigned, float, (unsigned)x)
SIMT_UNARY(__double2ull_rz, unsigned long long, double, (unsigned long long)x)
#undef SIMT_UNARY

// The C library has declarations of these names.
#define __expf(x)    expf(x)
#define __logf(x)    logf(x)
#define __log2f(x)   log2f(x)
#define __powf(x, y) powf(x, y)
#define __sinf(x)    sinf(x)
#define __cosf(x)    cosf(x)
#define __tanf(x)    tanf(x)

static inline float __fmaf_rn(float a, float b, float c)
{
    return fmaf(a, b, c);
}
static inline double __fma_rn(double a, double b, double c)
{
    return fma(a, b, c);
}

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

// ---- loads and stores with a hint to the cache --------------------------------------------------

template <class T> static inline T __ldg(const T *p)
{
    return *p;
}
template <class T> static inline T __ldcg(const T *p)
{
    return *p;
}
template <class T> static inline T __ldca(const T *p)
{
    return *p;
}
template <class T> static inline T __ldcs(const T *p)
{
    return *p;
}
template <class T> static inline T __ldlu(const T *p)
{
    return *p;
}
// Past the caches, so it may be called a look at what another thread is writing.
template <class T> static inline T __ldcv(const T *p)
{
    return *const_cast<const volatile T *>(p);
}
template <class T> static inline void __stcg(T *p, T v)
{
    *p = v;
}
template <class T> static inline void __stcs(T *p, T v)
{
    *p = v;
}
template <class T> static inline void __stwb(T *p, T v)
{
    *p = v;
}
template <class T> static inline void __stwt(T *p, T v)
{
    *p = v;
}

#endif
