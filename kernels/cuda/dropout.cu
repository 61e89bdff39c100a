// Dropout alone: reads and writes x once, the mask is drawn where it is used and never stored.
#include "kernels/cuda/dense.cuh"

#include "kernels/check.h"

template <bool ALIGNED>
static __global__ void dropout_kernel(float *x, uint64_t n, struct sl_mask mask)
{
    uint64_t step = sl_group_step();
    for (uint64_t group = sl_first_group(); 4 * group < n; group += step) {
        uint64_t at = 4 * group;
        uint32_t width = sl_group_width(at, n), alive = sl_mask_group(mask, group);
        float v[4];
        sl_load4<ALIGNED>(x + at, width, v);
#pragma unroll
        for (uint32_t j = 0; j < 4; j++)
            v[j] = alive >> j & 1 ? v[j] * mask.scale : 0.0f;
        sl_store4<ALIGNED>(x + at, width, v);
    }
}

int sl_cuda_dropout(float *x, uint64_t rows, uint32_t dim, const struct sl_dropout *dropout)
{
    SL_TRY(sl_check_dropout(x, rows, dim, dropout));
    struct sl_mask mask = sl_mask_of(dropout);
    uint64_t n = rows * dim;
    if (n == 0 || !mask.on)
        return SL_OK;
    SL_LAUNCH_ALIGNED(sl_aligned16(x), dropout_kernel, sl_element_blocks(n), SL_BLOCK, 0, x, n,
                      mask);
    return SL_OK;
}
