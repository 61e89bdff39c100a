/*
 * Optimizer steps: one pass over the arrays, each step's constants made once in f64.
 *
 * Floors: adam reads g, p, m, v and writes p, m, v (28 bytes a parameter), sgd 20. Elements are
 * independent. The arrays may be mapped host memory (the parameter board): every byte crosses the
 * bus once, in runs of 512 bytes a warp. Numbers that are not finite are noted by who writes them;
 * where all are, nobody touches the note.
 */
#include "kernels/cuda/dense.cuh"

#include "kernels/check.h"
#include "kernels/optimizer_internal.h"

// The exponent is all ones.
static __device__ __forceinline__ bool sl_is_broken(float x)
{
    return (__float_as_uint(x) & 0x7f800000u) == 0x7f800000u;
}

static __device__ __forceinline__ void sl_note_broken(bool is, uint32_t *broken)
{
    if (is && broken)
        atomicOr(broken, 1u);
}

struct adam_arrays {
    const float *g, *p, *m, *v;
    float *p_out, *m_out, *v_out;
    uint32_t *broken;
};

template <bool ALIGNED>
static __global__ void adam_kernel(struct adam_arrays a, struct sl_adam_constants k, uint64_t n)
{
    uint64_t step = sl_group_step();
    bool broken = false;
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
            broken |= j < width && (sl_is_broken(p[j]) || sl_is_broken(m[j]) || sl_is_broken(v[j]));
        }
        sl_store4<ALIGNED>(a.p_out + at, width, p);
        sl_store4<ALIGNED>(a.m_out + at, width, m);
        sl_store4<ALIGNED>(a.v_out + at, width, v);
    }
    sl_note_broken(broken, a.broken);
}

int sl_cuda_adam(const struct sl_adam_step *step, uint64_t n, const float *g, const float *p,
                 const float *m, const float *v, float *p_out, float *m_out, float *v_out,
                 uint32_t *broken)
{
    SL_TRY(sl_check_adam(step, n, g, p, m, v, p_out, m_out, v_out, broken));
    if (n == 0)
        return SL_OK;
    struct adam_arrays a = {g, p, m, v, p_out, m_out, v_out, broken};
    struct sl_adam_constants k = sl_adam_constants(step);
    bool aligned = sl_aligned16(g, p, m, v, p_out, m_out, v_out);
    SL_LAUNCH_ALIGNED(aligned, adam_kernel, sl_element_blocks(n), SL_BLOCK, 0, a, k, n);
    return SL_OK;
}

struct sgd_arrays {
    const float *g, *p, *m;
    float *p_out, *m_out;
    uint32_t *broken;
};

template <bool ALIGNED>
static __global__ void sgd_kernel(struct sgd_arrays a, struct sl_sgd_step k, uint64_t n)
{
    uint64_t step = sl_group_step();
    bool broken = false;
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
            broken |= j < width && (sl_is_broken(p[j]) || sl_is_broken(m[j]));
        }
        sl_store4<ALIGNED>(a.p_out + at, width, p);
        sl_store4<ALIGNED>(a.m_out + at, width, m);
    }
    sl_note_broken(broken, a.broken);
}

int sl_cuda_sgd(const struct sl_sgd_step *step, uint64_t n, const float *g, const float *p,
                const float *m, float *p_out, float *m_out, uint32_t *broken)
{
    SL_TRY(sl_check_sgd(step, n, g, p, m, p_out, m_out, broken));
    if (n == 0)
        return SL_OK;
    struct sgd_arrays a = {g, p, m, p_out, m_out, broken};
    bool aligned = sl_aligned16(g, p, m, p_out, m_out);
    SL_LAUNCH_ALIGNED(aligned, sgd_kernel, sl_element_blocks(n), SL_BLOCK, 0, a, *step, n);
    return SL_OK;
}
