/*
 * simd.h - one source, several instruction sets.
 *
 * A function that SL_SIMD defines is compiled for AVX-512, AVX2 and the baseline; a call takes the
 * one of the instruction set in use (isa.h), so one binary runs everywhere. Its loops are plain C
 * for the vectoriser. It is static; the head is written in pieces, since calls are made of them:
 *
 *     SL_SIMD(float, row_max, (const float *x, uint32_t n), (x, n))
 *     {
 *         ...
 *     }
 *
 * SL_SIMD_VOID is the same without a type. What such a function calls is compiled with it when it
 * is inlined always, and for the baseline otherwise.
 */
#ifndef SL_COMMON_BASE_SIMD_H
#define SL_COMMON_BASE_SIMD_H

#include "common/base/isa.h"

#define SL_SIMD_INLINE static inline __attribute__((always_inline))

// The levels of the x86-64 psABI, not names of processors: a level is whatever has its features.
// Sanitizer builds, which take long to compile, have the baseline alone.
#if defined(__x86_64__) && !defined(SL_SANITIZED)
#define SL_SIMD(type, name, params, args)                                                          \
    SL_SIMD_INLINE type name##_body params;                                                        \
    __attribute__((target("arch=x86-64-v4"))) static type name##_avx512 params                     \
    {                                                                                              \
        return name##_body args;                                                                   \
    }                                                                                              \
    __attribute__((target("arch=x86-64-v3"))) static type name##_avx2 params                       \
    {                                                                                              \
        return name##_body args;                                                                   \
    }                                                                                              \
    static type name params                                                                        \
    {                                                                                              \
        const enum sl_isa isa = sl_isa();                                                          \
        return isa >= SL_ISA_AVX512 ? name##_avx512 args                                           \
               : isa >= SL_ISA_AVX2 ? name##_avx2 args                                             \
                                    : name##_body args;                                            \
    }                                                                                              \
    SL_SIMD_INLINE type name##_body params
#define SL_SIMD_VOID(name, params, args)                                                           \
    SL_SIMD_INLINE void name##_body params;                                                        \
    __attribute__((target("arch=x86-64-v4"))) static void name##_avx512 params                     \
    {                                                                                              \
        name##_body args;                                                                          \
    }                                                                                              \
    __attribute__((target("arch=x86-64-v3"))) static void name##_avx2 params                       \
    {                                                                                              \
        name##_body args;                                                                          \
    }                                                                                              \
    static void name params                                                                        \
    {                                                                                              \
        const enum sl_isa isa = sl_isa();                                                          \
        if (isa >= SL_ISA_AVX512)                                                                  \
            name##_avx512 args;                                                                    \
        else if (isa >= SL_ISA_AVX2)                                                               \
            name##_avx2 args;                                                                      \
        else                                                                                       \
            name##_body args;                                                                      \
    }                                                                                              \
    SL_SIMD_INLINE void name##_body params
#else
#define SL_SIMD(type, name, params, args) static type name params
#define SL_SIMD_VOID(name, params, args)  static void name params
#endif

#endif
