// rank.cuh - a vertex's place in the hotness order.
#ifndef SL_KERNELS_CUDA_RANK_CUH
#define SL_KERNELS_CUDA_RANK_CUH

#include "kernels/cuda/cuda.cuh"

// Of a vertex of the index. Its tiers' words are side by side, one line a vertex.
static __device__ __forceinline__ uint32_t sl_rank_of(const struct sl_rank_index &index,
                                                      uint32_t node)
{
    const uint64_t *mine = index.words + (uint64_t)(node / 32) * index.n_tiers;
    for (uint32_t t = 0; t < index.n_tiers; t++) {
        uint64_t word = mine[t];
        uint32_t members = (uint32_t)word;
        if (members >> node % 32 & 1)
            return (uint32_t)(word >> 32) + (uint32_t)__popc(members & ((1u << node % 32) - 1));
    }
    return SL_RANK_NONE;
}

#endif
