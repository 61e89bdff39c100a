#include "kernels/kernels_internal.h"

#include "common/base/error.h"
#include "kernels/check.h"

// In f32 and in slot order: an update's bits depend on this order, so it is part of the contract.
int sl_ref_reduce(const float *const *slots, uint32_t n_slots, uint64_t n, float scale, float *out)
{
    SL_TRY(sl_check_reduce(slots, n_slots, n, scale, out));
    for (uint64_t i = 0; i < n; i++) {
        float sum = slots[0][i];
        for (uint32_t s = 1; s < n_slots; s++)
            sum += slots[s][i];
        out[i] = scale * sum;
    }
    return SL_OK;
}

int sl_ref_sum_squares(uint64_t n, const float *x, double *out)
{
    SL_TRY(sl_check_sum_squares(n, x, out));
    double sum = 0.0;
    for (uint64_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    *out = sum;
    return SL_OK;
}
