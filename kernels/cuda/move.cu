// move.cu - what the files that move rows and edges share.
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
    SL_CUDA_TRY(
        cudaMemcpyAsync(value, on_device, sizeof *value, cudaMemcpyDeviceToHost, sl_cuda_stream()));
    return SL_OK;
}
