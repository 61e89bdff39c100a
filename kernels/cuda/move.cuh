// move.cuh - what the files that move rows and edges share. The slots are those of kernels.h.
#ifndef SL_KERNELS_CUDA_MOVE_CUH
#define SL_KERNELS_CUDA_MOVE_CUH

#include "kernels/cuda/cuda.cuh"

// gather.cu
int sl_cuda_gather_rows(const void *table, enum sl_dtype dtype, uint64_t n_rows, uint32_t dim,
                        const uint32_t *rows, uint64_t n, float *out);
int sl_cuda_gather_rows_to(const void *table, enum sl_dtype dtype, uint64_t n_rows, uint32_t dim,
                           const uint32_t *rows, const uint32_t *to, uint64_t n, uint64_t n_out,
                           float *out);
int sl_cuda_gather_ranked(const struct sl_gather_ranked_args *args);
int sl_cuda_scatter_rows(const float *x, uint32_t dim, const uint32_t *to, uint64_t n,
                         uint64_t n_out, float *out);

// transpose.cu
int sl_cuda_transpose(const struct sl_csr_view *csr, uint32_t *t_indptr, uint32_t *t_indices,
                      uint32_t *t_edge, struct sl_mempool *ws);
// row[e - indptr[0]] = the row that edge e is of, for all edges of the view.
int sl_cuda_rows_of_edges(const struct sl_csr_view *csr, uint32_t *row);

// Bytes of ws, or SL_ENOMEM in the words of `op`.
int sl_cuda_take(struct sl_mempool *ws, const char *op, size_t bytes, void **out);
// *value = *on_device (4 bytes), which the thread's queue has to have come to: waits for it.
int sl_cuda_fetch(uint32_t *value, const uint32_t *on_device);

#endif
