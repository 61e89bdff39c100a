/*
 * measure.h - what measurements ask of the plug-in beside the table: other ways to the same result.
 *
 * PROBLEM. A kernel's speed means something beside that of another way on the same arrays in the
 * same run: the naive sum, other tiles, NVIDIA's libraries alone. No program needs them.
 *
 * DESIGN. The plug-in exports a second symbol for tests/bench/kernels alone. Everything here takes
 * device pointers and queues its work as a slot does. The libraries (compare.cc) are looked for at
 * run time as cuBLASLt is; the emulation has none of them.
 *
 * Neither CUDA's headers nor kernels are wanted to include this: C11 and C++17.
 */
#ifndef SL_KERNELS_CUDA_MEASURE_H
#define SL_KERNELS_CUDA_MEASURE_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

// c (m, n) = op(a) op(b), row-major; what cuBLAS is asked for as it is.
struct sl_cuda_product {
    enum sl_precision precision; // BF16: a and b are bf16 already
    bool ta, tb;
    uint64_t m, n, k;
    const void *a, *b;
    uint64_t lda, ldb;
    float *c;
};

struct sl_cuda_measure {
    uint32_t bytes; // sizeof *this
    // The tiles of aggregate_way ("16x2", lanes x packs a lane), NULL behind the last.
    const char *const *tiles;
    // How `aggregate` sums from now on: "naive", a tile, or NULL for the table. SL_EINVAL.
    int (*aggregate_way)(const char *way);
    // Whether `gemm` uses cuBLASLt where it is (the start), or always its own kernel.
    void (*gemm_own)(bool own);
    /*
     * The same product by cuBLAS, the same sum of f32 rows by cuSPARSE's SpMM (csr, edge_weight; no
     * scales and no self term). The first call of a shape sets up, later ones of it compute only.
     * SL_EUNSUPPORTED where the library is not there, with where it was looked for.
     */
    int (*gemm)(const struct sl_cuda_product *product);
    int (*spmm)(const struct sl_aggregate_args *args);
};

#define SL_CUDA_MEASURE_SYMBOL "sluice_cuda_measure"
typedef const struct sl_cuda_measure *(*sl_cuda_measure_entry)(void);

// compare.cc; `stream` is a cudaStream_t. scratch(n): n bytes of device memory that stay.
int sl_cuda_compare_gemm(const struct sl_cuda_product *product, void *stream);
int sl_cuda_compare_spmm(const struct sl_aggregate_args *args, void *stream,
                         void *(*scratch)(uint64_t n));

#ifdef __cplusplus
}
#endif

#endif
