/*
 * kernels_internal.h - what the files of this folder share and nobody else sees.
 *
 * Every operation is a function sl_ref_<op> in ref/<family>.c and a function sl_cpu_<op> in
 * cpu/<family>.c with the signature of its slot in kernels.h; backends.c puts them into the tables.
 * Both call the same sl_check_<op> first: that is the one place where arguments are validated,
 * the loops behind it do not check again.
 */
#ifndef SL_KERNELS_KERNELS_INTERNAL_H
#define SL_KERNELS_KERNELS_INTERNAL_H

#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

SL_KERNELS_SLOTS(SL_KERNELS_DECLARE, ref)
SL_KERNELS_SLOTS(SL_KERNELS_DECLARE, cpu)
#define SL_KERNELS_SAMPLE(backend, constant, word, kernel, flags)                                  \
    int sl_##backend##_##kernel(const struct sl_khop_args *args);
SL_SAMPLER_LIST(SL_KERNELS_SAMPLE, ref)
SL_SAMPLER_LIST(SL_KERNELS_SAMPLE, cpu)
#undef SL_KERNELS_SAMPLE

// torch.nn.LeakyReLU's.
#define SL_LEAKY_RELU_SLOPE 0.01f

enum { SL_HEADS_MAX = 1024 }; // of edge_softmax

// normalize_rows: the least norm that a row is divided by, and what such a row is multiplied with.
#define SL_NORMALIZE_BOUND       1e-12f
#define SL_NORMALIZE_INVERSE_MAX 1e12f

// Threads of the cpu back end, at least 1; set by sl_kernels_set_threads.
int sl_cpu_threads(void);

#ifdef __cplusplus
}
#endif

#endif
