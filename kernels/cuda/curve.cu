/*
 * Functions whose slope is told by what goes in: one pass, a thread an element. Floor: what is read
 * and written, once.
 */
#include "kernels/cuda/layer.cuh"

#include "kernels/check.h"

enum { BLOCK = 256 };

static __device__ float sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

static __device__ float normal(float x)
{
    return 0.5f * erfcf(-x * 0.70710678f);
}

static __device__ float curve_at(enum sl_curve_kind f, float x)
{
    return f == SL_CURVE_GELU ? x * normal(x) : sigmoid(x);
}

static __device__ float slope_at(enum sl_curve_kind f, float x)
{
    if (f == SL_CURVE_GELU)
        return normal(x) + x * 0.39894228f * expf(-0.5f * x * x);
    float y = sigmoid(x);
    return y * (1.0f - y);
}

// y = f(x), or y *= f'(x).
template <bool SLOPE>
static __global__ void __launch_bounds__(BLOCK)
    each_point(enum sl_curve_kind f, uint64_t n, const float *x, float *y)
{
    uint64_t stride = (uint64_t)gridDim.x * BLOCK;
    for (uint64_t i = (uint64_t)blockIdx.x * BLOCK + threadIdx.x; i < n; i += stride)
        y[i] = SLOPE ? y[i] * slope_at(f, x[i]) : curve_at(f, x[i]);
}

static unsigned blocks_of(uint64_t n)
{
    return (unsigned)SL_MIN(sl_div_up(n, BLOCK), (uint64_t)sl_cuda_processors() * 32);
}

int sl_cuda_curve(enum sl_curve_kind f, uint64_t n, const float *x, float *y)
{
    SL_TRY(sl_check_curve(f, n, x, y));
    if (n > 0)
        SL_LAUNCH(each_point<false>, blocks_of(n), BLOCK, 0, f, n, x, y);
    return SL_OK;
}

int sl_cuda_curve_backward(enum sl_curve_kind f, uint64_t n, const float *x, float *dy)
{
    SL_TRY(sl_check_curve_backward(f, n, x, dy));
    if (n > 0)
        SL_LAUNCH(each_point<true>, blocks_of(n), BLOCK, 0, f, n, x, dy);
    return SL_OK;
}
