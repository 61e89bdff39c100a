// move.cuh - what the files that move rows and edges share.
#ifndef SL_KERNELS_CUDA_MOVE_CUH
#define SL_KERNELS_CUDA_MOVE_CUH

#include "kernels/cuda/cuda.cuh"

// transpose.cu. row[e - indptr[0]] = the row that edge e is of, for all edges of the view.
int sl_cuda_rows_of_edges(const struct sl_csr_view *csr, uint32_t *row);

// Bytes of ws, or SL_ENOMEM in the words of `op`.
int sl_cuda_take(struct sl_mempool *ws, const char *op, size_t bytes, void **out);
// *value = *on_device (4 bytes) once the thread's queue comes to it: there after the next sync(),
// and on return where `value` is not pinned.
int sl_cuda_fetch(uint32_t *value, const uint32_t *on_device);

#endif
