#include "kernels/kernels_internal.h"

#include "common/base/error.h"
#include "kernels/check.h"
#include "kernels/ref/half.h"

static double weight_of(const struct sl_aggregate_args *args, uint32_t edge)
{
    double weight = 1.0;
    if (args->edge_weight)
        weight *= args->edge_weight[edge];
    if (args->col_scale)
        weight *= args->col_scale[args->csr.indices[edge]];
    return weight;
}

int sl_ref_aggregate(const struct sl_aggregate_args *args)
{
    SL_TRY(sl_check_aggregate(args));
    const struct sl_csr_view *csr = &args->csr;
    uint64_t dim = args->dim, x_ld = args->x_dtype == SL_DTYPE_BF16 ? args->x_ld : dim;
    for (uint32_t i = 0; i < csr->n_dst; i++) {
        for (uint32_t c = 0; c < dim; c++) {
            double sum = 0.0;
            for (uint32_t e = csr->indptr[i]; e < csr->indptr[i + 1]; e++)
                sum += weight_of(args, e) *
                       sl_ref_load(args->x, args->x_dtype, csr->indices[e] * x_ld + c);
            if (args->row_scale)
                sum *= args->row_scale[i];
            if (args->self_scale && i < args->n_self)
                sum +=
                    (double)args->self_scale[i] * sl_ref_load(args->x, args->x_dtype, i * x_ld + c);
            if (args->y)
                args->y[i * dim + c] = (float)sum;
            else
                args->y_bf16[i * args->y_ld + c] = sl_ref_to_bf16((float)sum);
        }
    }
    return SL_OK;
}
