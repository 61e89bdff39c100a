#include "kernels/cuda/total.cuh"

static_assert((SL_TALLY_BLOCKS + 1) * sizeof(struct sl_loss_result) <= SL_SCRATCH_BYTES,
              "the tallies and their total fit the scratch");

int sl_cuda_tallies(struct sl_loss_result **partial)
{
    void *scratch;
    SL_TRY(sl_cuda_scratch(&scratch));
    *partial = static_cast<struct sl_loss_result *>(scratch);
    return SL_OK;
}

// One block: each thread adds every SL_BLOCKth tally, then the block's tree.
static __global__ void add_tallies(const struct sl_loss_result *partial, uint32_t n,
                                   struct sl_loss_result *out)
{
    struct sl_loss_result tally = {};
    for (uint32_t i = threadIdx.x; i < n; i += SL_BLOCK)
        sl_add_tally(&tally, &partial[i]);
    sl_block_tally(&tally, out);
}

int sl_cuda_total(struct sl_loss_result *partial, uint32_t n, struct sl_loss_result *out)
{
    struct sl_loss_result *total = partial + SL_TALLY_BLOCKS;
    SL_LAUNCH(add_tallies, 1, SL_BLOCK, 0, partial, n, total);
    SL_CUDA_TRY(cudaMemcpyAsync(out, total, sizeof *out, cudaMemcpyDeviceToHost, sl_cuda_stream()));
    return SL_OK;
}
