#include "kernels/kernels_internal.h"

#include <math.h>

#include "common/base/error.h"
#include "kernels/check.h"

int sl_ref_pair_dot(const struct sl_pair_dot_args *args)
{
    SL_TRY(sl_check_pair_dot(args));
    const uint64_t dim = args->dim;
    for (uint64_t p = 0; p < args->n; p++) {
        const float *a = args->a + args->ids[2 * p] * dim,
                    *b = args->b + args->ids[2 * p + 1] * dim;
        double sum = 0.0;
        for (uint64_t c = 0; c < dim; c++)
            sum += (args->scale ? (double)args->scale[c] : 1.0) * (double)a[c] * (double)b[c];
        args->score[p] = (float)sum;
    }
    return SL_OK;
}

int sl_ref_pair_rows(uint64_t n, const uint32_t *ids, uint32_t dim, enum sl_pair_combine combine,
                     const float *x, float *out)
{
    SL_TRY(sl_check_pair_rows(n, ids, dim, combine, x, out));
    for (uint64_t p = 0; p < n; p++) {
        const float *a = x + (uint64_t)ids[2 * p] * dim, *b = x + (uint64_t)ids[2 * p + 1] * dim;
        for (uint32_t c = 0; c < dim; c++)
            out[p * dim + c] = combine == SL_PAIR_PRODUCT ? a[c] * b[c] : fabsf(a[c] - b[c]);
    }
    return SL_OK;
}

int sl_ref_pair_gradient(const struct sl_pair_gradient_args *args)
{
    SL_TRY(sl_check_pair_gradient(args));
    const uint64_t dim = args->dim;
    for (uint64_t i = 0; i < args->n_rows; i++)
        for (uint64_t c = 0; c < dim; c++) {
            double sum = 0.0;
            for (uint32_t k = args->indptr[i]; k < args->indptr[i + 1]; k++) {
                const uint32_t end = args->ends[k], pair = end / 2;
                if (args->side != SL_PAIR_BOTH && (end & 1) != (args->side == SL_PAIR_TARGET))
                    continue;
                const double other = args->other[args->ids[end ^ 1] * dim + c];
                const double g = args->dscore ? args->dscore[pair] : args->drows[pair * dim + c];
                if (args->combine == SL_PAIR_PRODUCT)
                    sum += g * other;
                else if (args->own[i * dim + c] > other)
                    sum += g;
                else if (args->own[i * dim + c] < other)
                    sum -= g;
            }
            args->dx[i * dim + c] = (float)(sum * (args->scale ? (double)args->scale[c] : 1.0));
        }
    return SL_OK;
}
