/*
 * simd.h - one source, several instruction sets.
 *
 * A function marked SL_SIMD is compiled for AVX-512, AVX2 and the baseline and chosen once at load
 * time, so one binary runs everywhere. Its loops are plain C for the vectoriser. Sanitizer builds
 * use the baseline alone: their run-time is not up when the choice is made.
 */
#ifndef SL_COMMON_BASE_SIMD_H
#define SL_COMMON_BASE_SIMD_H

#if defined(__x86_64__) && !defined(SL_SANITIZED) && !defined(__clang__)
#define SL_SIMD __attribute__((target_clones("arch=skylake-avx512", "arch=haswell", "default")))
#else
#define SL_SIMD
#endif

#endif
