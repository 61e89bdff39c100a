// scan.cu - running sums of an array of numbers; how they are taken is in scan.cuh.
#include "kernels/cuda/scan.cuh"

int sl_cuda_scan(const uint32_t *in, uint32_t n, const uint32_t *n_device, uint32_t *out,
                 uint64_t *total, struct sl_mempool *ws)
{
    uint64_t *sums = (uint64_t *)sl_mempool_alloc(ws, SL_SCAN_BYTES);
    if (!sums)
        return sl_fail(SL_ENOMEM, "scan: no device memory for %d bytes of scratch", SL_SCAN_BYTES);
    struct sl_scan_length length = {n, n_device, 1, NULL};
    struct sl_scan_read read = {in};
    struct sl_scan_offsets write = {out, total};
    return sl_scan_launch(read, read, write, length, sums);
}
