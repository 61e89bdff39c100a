/*
 * Optimizer steps: one pass over the arrays, each step's constants made once in f64.
 *
 * Floors: adam reads g, p, m, v and writes p, m, v (28 bytes a parameter), sgd 20. Elements are
 * independent. The arrays may be mapped host memory (the parameter board): every byte crosses the
 * bus once, in runs of 512 bytes a warp.
 */
#include "kernels/cuda/dense.cuh"

#include "kernels/check.h"
#include "kernels/optimizer_internal.h"

struct adam_arrays {
    const float *g, *p, *m, *v;
    float *p_out, *m_out, *v_out;
};

template <bool ALIGNED>
static __global__ void adam_kernel(struct adam_arrays a, struct sl_adam_constants k, uint64_t n)
{
    uint64_t step = sl_group_step();
    for (uint64_t group = sl_first_group(); 4 * group < n; group += step) {
        uint64_t at = 4 * group;
        uint32_t width = sl_group_width(at, n);
        float g[4], p[4], m[4], v[4];
        sl_load4<ALIGNED>(a.g + at, width, g);
        sl_load4<ALIGNED>(a.p + at, width, p);
        sl_load4<ALIGNED>(a.m + at, width, m);
        sl_load4<ALIGNED>(a.v + at, width, v);
#pragma unroll
        for (uint32_t j = 0; j < 4; j++) {
            float grad = g[j] + k.decay * p[j];
            m[j] = k.beta1 * m[j] + k.rest1 * grad;
            v[j] = k.beta2 * v[j] + k.rest2 * (grad * grad);
            p[j] = k.kept * p[j] - k.rate * (m[j] / (sqrtf(v[j]) * k.square_scale + k.eps));
        }
        sl_store4<ALIGNED>(a.p_out + at, width, p);
        sl_store4<ALIGNED>(a.m_out + at, width, m);
        sl_store4<ALIGNED>(a.v_out + at, width, v);
    }
}

int sl_cuda_adam(const struct sl_adam_step *step, uint64_t n, const float *g, const float *p,
                 const float *m, const float *v, float *p_out, float *m_out, float *v_out)
{
    SL_TRY(sl_check_adam(step, n, g, p, m, v, p_out, m_out, v_out));
    if (n == 0)
        return SL_OK;
    struct adam_arrays a = {g, p, m, v, p_out, m_out, v_out};
    struct sl_adam_constants k = sl_adam_constants(step);
    bool aligned = sl_aligned16(g, p, m, v, p_out, m_out, v_out);
    SL_LAUNCH_ALIGNED(aligned, adam_kernel, sl_element_blocks(n), SL_BLOCK, 0, a, k, n);
    SL_LAUNCHED(adam);
    return SL_OK;
}

struct sgd_arrays {
    const float *g, *p, *m;
    float *p_out, *m_out;
};

template <bool ALIGNED>
static __global__ void sgd_kernel(struct sgd_arrays a, struct sl_sgd_step k, uint64_t n)
{
    uint64_t step = sl_group_step();
    for (uint64_t group = sl_first_group(); 4 * group < n; group += step) {
        uint64_t at = 4 * group;
        uint32_t width = sl_group_width(at, n);
        float g[4], p[4], m[4];
        sl_load4<ALIGNED>(a.g + at, width, g);
        sl_load4<ALIGNED>(a.p + at, width, p);
        sl_load4<ALIGNED>(a.m + at, width, m);
#pragma unroll
        for (uint32_t j = 0; j < 4; j++) {
            float grad = g[j] + k.weight_decay * p[j];
            m[j] = k.momentum * m[j] + grad;
            p[j] = p[j] - k.lr * m[j];
        }
        sl_store4<ALIGNED>(a.p_out + at, width, p);
        sl_store4<ALIGNED>(a.m_out + at, width, m);
    }
}

int sl_cuda_sgd(const struct sl_sgd_step *step, uint64_t n, const float *g, const float *p,
                const float *m, float *p_out, float *m_out)
{
    SL_TRY(sl_check_sgd(step, n, g, p, m, p_out, m_out));
    if (n == 0)
        return SL_OK;
    struct sgd_arrays a = {g, p, m, p_out, m_out};
    bool aligned = sl_aligned16(g, p, m, p_out, m_out);
    SL_LAUNCH_ALIGNED(aligned, sgd_kernel, sl_element_blocks(n), SL_BLOCK, 0, a, *step, n);
    SL_LAUNCHED(sgd);
    return SL_OK;
}
