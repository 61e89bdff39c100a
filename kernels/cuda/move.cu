// move.cu - rows and edges from one place to another: the slots, and what their files share.
#include "kernels/cuda/move.cuh"

int sl_cuda_take(struct sl_mempool *ws, const char *op, size_t bytes, void **out)
{
    *out = sl_mempool_alloc(ws, SL_MAX(bytes, (size_t)1));
    if (!*out)
        return sl_fail(SL_ENOMEM, "%s: no device memory for %zu bytes of scratch", op, bytes);
    return SL_OK;
}

int sl_cuda_fetch(uint32_t *value, const uint32_t *on_device)
{
    cudaStream_t stream = sl_cuda_stream();
    SL_CUDA_TRY(cudaMemcpyAsync(value, on_device, sizeof *value, cudaMemcpyDefault, stream));
    SL_CUDA_TRY(cudaStreamSynchronize(stream));
    return SL_OK;
}

void sl_cuda_fill_move(struct sl_kernels *table)
{
    table->gather_rows = sl_cuda_gather_rows;
    table->gather_rows_to = sl_cuda_gather_rows_to;
    table->gather_ranked = sl_cuda_gather_ranked;
    table->scatter_rows = sl_cuda_scatter_rows;
    table->transpose = sl_cuda_transpose;
}
