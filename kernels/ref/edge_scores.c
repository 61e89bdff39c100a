#include "kernels/kernels_internal.h"

#include "common/base/error.h"
#include "kernels/check.h"

static double slope_at(double x, float negative_slope)
{
    return x > 0.0 ? 1.0 : (double)negative_slope;
}

int sl_ref_edge_scores(const struct sl_edge_scores_args *args)
{
    SL_TRY(sl_check_edge_scores(args));
    const struct sl_csr_view *csr = &args->csr;
    uint64_t heads = args->heads, width = heads * args->dim;
    for (uint32_t i = 0; i < csr->n_dst; i++)
        for (uint32_t e = csr->indptr[i]; e < csr->indptr[i + 1]; e++)
            for (uint64_t h = 0; h < heads; h++) {
                double sum = 0.0;
                for (uint64_t c = h * args->dim; c < (h + 1) * args->dim; c++) {
                    // As f32 adds them: the sign of a sum near zero decides.
                    double x =
                        (double)(args->dst[i * width + c] + args->src[csr->indices[e] * width + c]);
                    sum += (double)args->att[c] * x * slope_at(x, args->negative_slope);
                }
                args->score[e * heads + h] = (float)sum;
            }
    return SL_OK;
}

int sl_ref_edge_scores_backward(const struct sl_edge_scores_grad_args *args)
{
    SL_TRY(sl_check_edge_scores_backward(args));
    const struct sl_csr_view *csr = &args->csr;
    uint64_t heads = args->heads, width = heads * args->dim;
    for (uint32_t i = 0; i < csr->n_dst; i++)
        for (uint64_t c = 0; c < width; c++) {
            double slopes = 0.0, sums = 0.0;
            for (uint32_t e = csr->indptr[i]; e < csr->indptr[i + 1]; e++) {
                uint64_t at = args->edge ? args->edge[e] : e;
                double x =
                    (double)(args->own[i * width + c] + args->other[csr->indices[e] * width + c]);
                double part = (double)args->dscore[at * heads + c / args->dim] *
                              slope_at(x, args->negative_slope);
                slopes += part;
                sums += part * x;
            }
            float *out = &args->down[i * width + c];
            *out = (float)(args->beta != 0.0f ? (double)*out : 0.0) +
                   (float)((double)args->att[c] * slopes);
            if (args->datt)
                args->datt[i * width + c] = (float)sums;
        }
    return SL_OK;
}
