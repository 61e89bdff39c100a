// layer.cuh - the slots of what model layers need beside sums and products (kernels.h).
#ifndef SL_KERNELS_CUDA_LAYER_CUH
#define SL_KERNELS_CUDA_LAYER_CUH

#include "kernels/cuda/cuda.cuh"

// hop.cu
int sl_cuda_row_sums(const struct sl_csr_view *csr, const float *weight, enum sl_row_sum what,
                     float *out);
int sl_cuda_count_loops(const struct sl_csr_view *csr, uint32_t *n_loops);
int sl_cuda_fix_loops(const struct sl_fix_loops_args *args, struct sl_mempool *ws);
int sl_cuda_gcn_scales(const struct sl_gcn_scales_args *args, struct sl_mempool *ws);

// elements.cu
int sl_cuda_block_diagonal(const float *a, uint32_t heads, uint32_t width, float *matrix);
int sl_cuda_add_block_diagonal(const float *matrix, uint32_t heads, uint32_t width, float *a);
int sl_cuda_sum_heads(const float *x, uint64_t rows, uint32_t heads, uint32_t width, float scale,
                      float beta, float *y);
int sl_cuda_spread_heads(const float *x, uint64_t rows, uint32_t heads, uint32_t width, float scale,
                         float *y);
int sl_cuda_fill_sum(uint64_t n, float c, const float *a, float *y);
int sl_cuda_add_scaled(uint64_t n, float c, const float *a, const float *x, float *y);
int sl_cuda_add_dot(uint64_t n, const float *x, const float *y, float *sum, struct sl_mempool *ws);
int sl_cuda_maximum(uint64_t n, const float *x, float *y);
int sl_cuda_maximum_backward(uint64_t n, const float *const *h, uint32_t layer, const float *max,
                             const float *dmax, float *dy);

// elements_running.cu
int sl_cuda_running_scale(uint32_t dim, float eps, const float *gamma, const float *beta,
                          const float *mean, const float *variance, float *scale, float *shift);
int sl_cuda_running_backward(uint64_t rows, uint32_t dim, float eps, const float *x,
                             const float *gamma, const float *mean, const float *variance,
                             const float *dy, float *dgamma, float *dbeta, float *dx);
int sl_cuda_running_average(uint64_t n, float momentum, const float *batch, float *r);

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
