#include "kernels/kernels_internal.h"

#include "common/base/error.h"
#include "kernels/check.h"

int sl_ref_aggregate_heads(const struct sl_aggregate_heads_args *args)
{
    SL_TRY(sl_check_aggregate_heads(args));
    const struct sl_csr_view *csr = &args->csr;
    uint64_t heads = args->heads, width = heads * args->dim;
    for (uint32_t i = 0; i < csr->n_dst; i++)
        for (uint64_t c = 0; c < width; c++) {
            double sum = 0.0;
            for (uint32_t e = csr->indptr[i]; e < csr->indptr[i + 1]; e++) {
                uint64_t at = args->edge ? args->edge[e] : e;
                sum += (double)args->weight[at * heads + c / args->dim] *
                       (double)args->x[csr->indices[e] * width + c];
            }
            args->y[i * width + c] = (float)sum;
        }
    return SL_OK;
}

int sl_ref_edge_dot(const struct sl_csr_view *csr, uint32_t heads, uint32_t dim, const float *a,
                    const float *b, float *out)
{
    SL_TRY(sl_check_edge_dot(csr, heads, dim, a, b, out));
    uint64_t width = (uint64_t)heads * dim;
    for (uint32_t i = 0; i < csr->n_dst; i++)
        for (uint32_t e = csr->indptr[i]; e < csr->indptr[i + 1]; e++)
            for (uint64_t h = 0; h < heads; h++) {
                const float *left = a + i * width + h * dim;
                const float *right = b + csr->indices[e] * width + h * dim;
                double sum = 0.0;
                for (uint32_t c = 0; c < dim; c++)
                    sum += (double)left[c] * (double)right[c];
                out[(uint64_t)e * heads + h] = (float)sum;
            }
    return SL_OK;
}
