/*
 * simd.h - one source, several instruction sets.
 *
 * A function marked SL_SIMD is compiled for AVX-512, AVX2 and the baseline and chosen once at load
 * time, so one binary runs everywhere. Its loops are plain C for the vectoriser. Sanitizer builds
 * use the baseline alone: their run-time is not up when the choice is made.
 */
#ifndef SL_COMMON_BASE_SIMD_H
#define SL_COMMON_BASE_SIMD_H

// The levels of the x86-64 psABI, not names of processors: a name matches that model alone (GCC
// takes "default" for arch=skylake-avx512 on a Cascade Lake), a level whatever has its features.
#if defined(__x86_64__) && !defined(SL_SANITIZED) && !defined(__clang__) && __GNUC__ >= 12
#define SL_SIMD __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#elif defined(__x86_64__) && !defined(SL_SANITIZED) && !defined(__clang__)
#define SL_SIMD __attribute__((target_clones("avx2", "default")))
#else
#define SL_SIMD
#endif

#endif
