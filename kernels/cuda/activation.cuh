/*
 * activation.cuh - the activations and their slopes, an element at a time.
 *
 * The same words as kernels/ref/bias_act.c, so that what is selected and multiplied has the same
 * bits. A NaN passes, so that it shows in the loss.
 */
#ifndef SL_KERNELS_CUDA_ACTIVATION_CUH
#define SL_KERNELS_CUDA_ACTIVATION_CUH

#include "kernels/cuda/cuda.cuh"
#include "kernels/kernels_internal.h"

static __device__ __forceinline__ float sl_activate(enum sl_activation act, float v)
{
    switch (act) {
    case SL_ACT_RELU: return v < 0.0f ? 0.0f : v;
    case SL_ACT_ELU: return v > 0.0f ? v : expm1f(v);
    case SL_ACT_LEAKY_RELU: return v > 0.0f ? v : v * SL_LEAKY_RELU_SLOPE;
    case SL_ACT_NONE: break;
    }
    return v;
}

// The derivative from the output y, which dropout may have scaled: `keep` undoes that.
static __device__ __forceinline__ float sl_activation_slope(enum sl_activation act, float y,
                                                            float keep)
{
    switch (act) {
    case SL_ACT_RELU: return y > 0.0f ? 1.0f : 0.0f;
    case SL_ACT_ELU: return y > 0.0f ? 1.0f : fmaf(y, keep, 1.0f);
    case SL_ACT_LEAKY_RELU: return y > 0.0f ? 1.0f : SL_LEAKY_RELU_SLOPE;
    case SL_ACT_NONE: break;
    }
    return 1.0f;
}

#endif
