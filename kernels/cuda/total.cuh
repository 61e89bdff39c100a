/*
 * total.cuh - sums over a whole array that the processor gets: losses, counts, squares.
 *
 * Each block adds up its threads' tallies in a fixed order and writes one; a last block adds those,
 * and the total is copied to the processor. The number of blocks depends on the array's size alone,
 * so that the bits do not depend on the GPU. Into pinned memory the copy is queued, and a training
 * step goes on with its gradient: the total is there when the processor waits for that.
 */
#ifndef SL_KERNELS_CUDA_TOTAL_CUH
#define SL_KERNELS_CUDA_TOTAL_CUH

#include "kernels/cuda/dense.cuh"

// Blocks for n elements, four a thread and SL_BLOCK threads; loops stride over the rest.
static inline uint32_t sl_tally_blocks(uint64_t n)
{
    uint64_t wanted = (n + 4 * SL_BLOCK - 1) / (4 * SL_BLOCK);
    return (uint32_t)SL_MIN(SL_MAX(wanted, (uint64_t)1), (uint64_t)SL_TALLY_BLOCKS);
}

static __device__ __forceinline__ void sl_add_tally(struct sl_loss_result *to,
                                                    const struct sl_loss_result *t)
{
    to->loss += t->loss;
    to->weight += t->weight;
    to->correct += t->correct;
    to->counted += t->counted;
}

// The block's total into out[blockIdx.x]. All SL_BLOCK threads call it, once. 16 threads add 16
// tallies each, then one adds theirs: fewer steps than a tree of 32-byte shuffles would take.
static __device__ __forceinline__ void sl_block_tally(const struct sl_loss_result *tally,
                                                      struct sl_loss_result *out)
{
    enum { PARTS = 16 };
    __shared__ struct sl_loss_result all[SL_BLOCK];
    all[threadIdx.x] = *tally;
    __syncthreads();
    if (threadIdx.x < PARTS)
        for (uint32_t i = threadIdx.x + PARTS; i < SL_BLOCK; i += PARTS)
            sl_add_tally(&all[threadIdx.x], &all[i]);
    __syncthreads();
    if (threadIdx.x != 0)
        return;
    for (uint32_t i = 1; i < PARTS; i++)
        sl_add_tally(&all[0], &all[i]);
    out[blockIdx.x] = all[0];
}

// total.cu. Where blocks write, SL_TALLY_BLOCKS of them: the thread's scratch.
int sl_cuda_tallies(struct sl_loss_result **partial);
// *out (the processor's) = the sum of the first n of them: there after the next sync(), and on
// return where `out` is not pinned.
int sl_cuda_total(struct sl_loss_result *partial, uint32_t n, struct sl_loss_result *out);

#endif
