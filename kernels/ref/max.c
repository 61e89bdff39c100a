#include "kernels/kernels_internal.h"

#include <math.h>

#include "common/base/error.h"
#include "kernels/check.h"
#include "kernels/ref/half.h"

int sl_ref_aggregate_max(const struct sl_aggregate_max_args *args)
{
    SL_TRY(sl_check_aggregate_max(args));
    const struct sl_csr_view *csr = &args->csr;
    uint64_t dim = args->dim, x_ld = args->x_dtype == SL_DTYPE_BF16 ? args->x_ld : dim;
    for (uint32_t i = 0; i < csr->n_dst; i++)
        for (uint32_t c = 0; c < dim; c++) {
            float best = 0.0f;
            uint32_t from = UINT32_MAX;
            for (uint32_t e = csr->indptr[i]; e < csr->indptr[i + 1]; e++) {
                float x = sl_ref_load(args->x, args->x_dtype, csr->indices[e] * x_ld + c);
                // The first NaN wins, as the first of equals does.
                if (from == UINT32_MAX || x > best || (isnan(x) && !isnan(best))) {
                    best = x;
                    from = e;
                }
            }
            if (args->y)
                args->y[i * dim + c] = best;
            else
                args->y_bf16[i * args->y_ld + c] = sl_ref_to_bf16(best);
            if (args->from)
                args->from[i * dim + c] = from;
        }
    return SL_OK;
}

int sl_ref_aggregate_max_backward(const struct sl_aggregate_max_grad_args *args)
{
    SL_TRY(sl_check_aggregate_max_backward(args));
    const struct sl_csr_view *t = &args->transposed;
    uint64_t dim = args->dim;
    for (uint32_t j = 0; j < t->n_dst; j++)
        for (uint32_t c = 0; c < dim; c++) {
            double sum = 0.0;
            for (uint32_t e = t->indptr[j]; e < t->indptr[j + 1]; e++) {
                uint64_t at = t->indices[e] * dim + c;
                if (args->from[at] == args->t_edge[e])
                    sum += (double)args->dy[at];
            }
            args->dx[j * dim + c] = (float)sum;
        }
    return SL_OK;
}
