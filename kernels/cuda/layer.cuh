// layer.cuh - what the files share that have what model layers need beside sums and products.
#ifndef SL_KERNELS_CUDA_LAYER_CUH
#define SL_KERNELS_CUDA_LAYER_CUH

#include "kernels/cuda/cuda.cuh"

// The sum over the block's threads, in a fixed order, for thread 0. All BLOCK of them call it, as
// often as they like.
template <int BLOCK> __device__ double sl_block_sum(double sum)
{
    __shared__ double sums[BLOCK];
    sums[threadIdx.x] = sum;
    __syncthreads();
    for (uint32_t step = BLOCK / 2; step > 0; step /= 2) {
        if (threadIdx.x < step)
            sums[threadIdx.x] += sums[threadIdx.x + step];
        __syncthreads();
    }
    sum = sums[0];
    __syncthreads(); // before the next sum takes the place
    return sum;
}

#endif
