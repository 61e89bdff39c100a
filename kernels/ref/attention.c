#include "kernels/kernels_internal.h"

#include <math.h>

#include "common/base/error.h"
#include "kernels/check.h"

static double leaky(double x, float negative_slope)
{
    return x > 0.0 ? x : x * (double)negative_slope;
}

// An edge's score of head h, without the leaky relu; slope 1 where scores are the edges' own.
struct scores {
    const struct sl_csr_view *csr;
    uint64_t heads;
    const float *src, *dst, *own;
    float slope;
};

static double score_of(const struct scores *s, uint32_t i, uint32_t e, uint64_t h)
{
    return s->src ? (double)s->src[s->csr->indices[e] * s->heads + h] +
                        (double)s->dst[i * s->heads + h]
                  : (double)s->own[e * s->heads + h];
}

static struct scores scores_of(const struct sl_csr_view *csr, uint64_t heads, const float *src,
                               const float *dst, const float *own, float negative_slope)
{
    return (struct scores){csr, heads, src, dst, own, src ? negative_slope : 1.0f};
}

int sl_ref_edge_softmax(const struct sl_edge_softmax_args *args)
{
    SL_TRY(sl_check_edge_softmax(args));
    const struct sl_csr_view *csr = &args->csr;
    uint64_t heads = args->heads;
    const struct scores scores =
        scores_of(csr, heads, args->score_src, args->score_dst, args->alpha, args->negative_slope);
    for (uint32_t i = 0; i < csr->n_dst; i++)
        for (uint64_t h = 0; h < heads; h++) {
            double top = -INFINITY, sum = 0.0;
            for (uint32_t e = csr->indptr[i]; e < csr->indptr[i + 1]; e++)
                top = fmax(top, leaky(score_of(&scores, i, e, h), scores.slope));
            for (int pass = 0; pass < 2; pass++) // the sum first, then the shares
                for (uint32_t e = csr->indptr[i]; e < csr->indptr[i + 1]; e++) {
                    double share = exp(leaky(score_of(&scores, i, e, h), scores.slope) - top);
                    if (pass == 0)
                        sum += share;
                    else
                        args->alpha[e * heads + h] = (float)(share / sum);
                }
        }
    return SL_OK;
}

int sl_ref_edge_softmax_backward(const struct sl_edge_softmax_grad_args *args)
{
    SL_TRY(sl_check_edge_softmax_backward(args));
    const struct sl_csr_view *csr = &args->csr;
    uint64_t heads = args->heads;
    const struct scores scores =
        scores_of(csr, heads, args->score_src, args->score_dst, args->alpha, args->negative_slope);
    for (uint32_t i = 0; i < csr->n_dst; i++)
        for (uint64_t h = 0; h < heads; h++) {
            double dot = 0.0, sum = 0.0;
            for (uint32_t e = csr->indptr[i]; e < csr->indptr[i + 1]; e++)
                dot += (double)args->alpha[e * heads + h] * (double)args->dalpha[e * heads + h];
            for (uint32_t e = csr->indptr[i]; e < csr->indptr[i + 1]; e++) {
                double score = score_of(&scores, i, e, h);
                double slope = score > 0.0 ? 1.0 : (double)scores.slope;
                double grad = (double)args->alpha[e * heads + h] *
                              ((double)args->dalpha[e * heads + h] - dot) * slope;
                args->dalpha[e * heads + h] = (float)grad;
                sum += grad;
            }
            if (args->score_src)
                args->dscore_dst[i * heads + h] = (float)sum;
        }
    if (!args->score_src)
        return SL_OK;
    const uint32_t *t_indptr = args->transposed.indptr;
    for (uint32_t j = 0; j < csr->n_src; j++)
        for (uint64_t h = 0; h < heads; h++) {
            double sum = 0.0;
            for (uint32_t e = t_indptr[j]; e < t_indptr[j + 1]; e++)
                sum += (double)args->dalpha[args->t_edge[e] * heads + h];
            args->dscore_src[j * heads + h] = (float)sum;
        }
    return SL_OK;
}
