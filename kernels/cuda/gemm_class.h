/*
 * gemm_class.h - classes of sizes, for which an algorithm is chosen once (gemm_lt.cc).
 *
 * A size above 1024 is rounded up to the next of eight steps an octave, but never beyond a leading
 * dimension: matrices of the class's sizes have to be possible with the product's own, or the
 * library has no algorithm for any of them. So a class is a function of the rounded sizes and the
 * leading dimensions, and products of one class have both in common.
 */
#ifndef SL_KERNELS_CUDA_GEMM_CLASS_H
#define SL_KERNELS_CUDA_GEMM_CLASS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/bits.h"

enum { SL_GEMM_EXACT_BELOW = 1024, SL_GEMM_STEPS_AN_OCTAVE_LOG2 = 3 };

// c (m, n) = op(a) op(b), all row-major, with what lies between two rows of each.
struct sl_gemm_sizes {
    uint64_t m, n, k;
    uint64_t lda, ldb, ldc; // elements
    bool ta, tb;
};

static inline uint64_t sl_gemm_size_class(uint64_t size)
{
    if (size <= SL_GEMM_EXACT_BELOW)
        return size;
    uint64_t step = 1ull << (63 - __builtin_clzll(size) - SL_GEMM_STEPS_AN_OCTAVE_LOG2);
    return (size + step - 1) / step * step;
}

// The class: a row of each matrix is at most as long as its leading dimension.
static inline struct sl_gemm_sizes sl_gemm_class(struct sl_gemm_sizes s)
{
    s.m = sl_gemm_size_class(s.m);
    s.n = SL_MIN(sl_gemm_size_class(s.n), s.ldc);
    s.k = sl_gemm_size_class(s.k);
    uint64_t *along_a = s.ta ? &s.m : &s.k, *along_b = s.tb ? &s.k : &s.n;
    *along_a = SL_MIN(*along_a, s.lda);
    *along_b = SL_MIN(*along_b, s.ldb);
    return s;
}

#endif
