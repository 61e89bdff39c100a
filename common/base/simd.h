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
 * is inlined always, and for the baseline otherwise. In the body `simd` is the instruction set that
 * it is being compiled for, a constant, for the few instructions that the vectoriser does not find.
 */
#ifndef SL_BASE_SIMD_H
#define SL_BASE_SIMD_H

#include "common/base/isa.h"

#define SL_SIMD_INLINE static inline __attribute__((always_inline))

#define SL_SIMD_LIST(...) __VA_ARGS__ // a list without its parentheses

// The levels of the x86-64 psABI, not names of processors: a level is whatever has its features.
// Sanitizer builds, which take long to compile, have the baseline alone.
#if defined(__x86_64__) && !defined(SL_SANITIZED)
#define SL_SIMD(type, name, params, args)                                                          \
    SL_SIMD_INLINE type name##_body(const enum sl_isa simd, SL_SIMD_LIST params);                  \
    __attribute__((target("arch=x86-64-v4"))) static type name##_avx512 params                     \
    {                                                                                              \
        return name##_body(SL_ISA_AVX512, SL_SIMD_LIST args);                                      \
    }                                                                                              \
    __attribute__((target("arch=x86-64-v3"))) static type name##_avx2 params                       \
    {                                                                                              \
        return name##_body(SL_ISA_AVX2, SL_SIMD_LIST args);                                        \
    }                                                                                              \
    static type name params                                                                        \
    {                                                                                              \
        const enum sl_isa isa = sl_isa();                                                          \
        return isa >= SL_ISA_AVX512 ? name##_avx512 args                                           \
               : isa >= SL_ISA_AVX2 ? name##_avx2 args                                             \
                                    : name##_body(SL_ISA_BASELINE, SL_SIMD_LIST args);             \
    }                                                                                              \
    SL_SIMD_INLINE type name##_body(const enum sl_isa simd, SL_SIMD_LIST params)
#else
#define SL_SIMD(type, name, params, args)                                                          \
    SL_SIMD_INLINE type name##_body(const enum sl_isa simd, SL_SIMD_LIST params);                  \
    static type name params                                                                        \
    {                                                                                              \
        return name##_body(SL_ISA_BASELINE, SL_SIMD_LIST args);                                    \
    }                                                                                              \
    SL_SIMD_INLINE type name##_body(const enum sl_isa simd, SL_SIMD_LIST params)
#endif
#define SL_SIMD_VOID(name, params, args) SL_SIMD(void, name, params, args)

#endif
