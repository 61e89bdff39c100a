#include "kernels/weighted_internal.h"

#include <float.h>
#include <string.h>

#include "common/base/error.h"

int sl_check_khop_weighted(const struct sl_khop_args *args)
{
    SL_TRY(sl_check_khop_uniform(args));
    if (!args->topology->weight_prefix)
        return sl_fail(SL_EINVAL,
                       "sampling hop %u by weight: the topology has no running sums of weights "
                       "(weight_prefix)",
                       args->hop);
    return SL_OK;
}

// 2^exponent, for exponents of normal numbers.
static double power_of_two(int exponent)
{
    uint64_t bits = (uint64_t)(1023 + exponent) << 52;
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

// e of 2^(e-1) <= x < 2^e, for a normal number; some small one for 0.
static int exponent_of(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return x > 0 ? (int)(bits >> 52) - 1022 : 0;
}

uint64_t sl_weighted_prefix_row(const float *weight, uint64_t n, double *prefix)
{
    double sum = 0; // of f32 numbers: neither subnormal nor infinite
    for (uint64_t j = 0; j < n; j++) {
        if (!(weight[j] >= 0.0f && weight[j] <= FLT_MAX))
            return j;
        sum += (double)weight[j];
    }
    const int exponent = exponent_of(sum);
    const double unit = power_of_two(exponent - 52), per_unit = power_of_two(52 - exponent);
    int64_t units = 0;
    for (uint64_t j = 0; j < n; j++) {
        // Scaling by a power of two is exact, and so is adding a half where there is a fraction.
        int64_t share = (int64_t)((double)weight[j] * per_unit + 0.5);
        units += share + ((share == 0) & (weight[j] > 0.0f));
        prefix[j] = (double)units * unit;
    }
    return n;
}
