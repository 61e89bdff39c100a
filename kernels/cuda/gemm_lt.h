/*
 * gemm_lt.h - matrix products by cuBLASLt, where it can be found.
 *
 * The library is looked for at run time, so that the plug-in loads without it; the emulated plug-in
 * has one where a test names it. What rounds how: gemm.cu.
 *
 * Neither CUDA's headers nor kernels are wanted to include this.
 */
#ifndef SL_KERNELS_CUDA_GEMM_LT_H
#define SL_KERNELS_CUDA_GEMM_LT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// All row-major: c (m, n) = alpha op(a) op(b) + beta c + bias.
struct sl_lt_product {
    uint64_t m, n, k;
    bool ta, tb;
    bool bf16; // a and b are bf16; else f32
    bool tf32; // f32 operands may be rounded to tf32
    float alpha, beta;
    const void *a, *b;
    uint64_t lda, ldb, ldc; // elements
    float *c;
    const float *bias; // (n) or NULL
    void *workspace;   // SL_LT_WORKSPACE_BYTES of device memory, the calling thread's
    void *stream;      // cudaStream_t
};

// What NVIDIA recommends for sm_90. Always the same: the choice of an algorithm depends on it.
enum { SL_LT_WORKSPACE_BYTES = 32 << 20 };

// The library was found, now or before, and has what is needed.
bool sl_lt_is_there(void);

/*
 * Queues the product. *done is false, with SL_OK, where the library is missing or has no algorithm
 * for it, and with an error (SL_EDEVICE, SL_ENOMEM) where it refuses: nothing is queued then, and
 * the caller can multiply by itself. What is refused is logged once.
 */
int sl_lt_multiply(const struct sl_lt_product *p, bool *done);

#endif
