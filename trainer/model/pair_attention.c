#include "trainer/model/pair_attention.h"

#include "common/base/error.h"
#include "trainer/model/heads.h"

static const struct sl_dropout NO_DROPOUT;

int sl_pairs_rows(const struct sl_layer_env *env, const struct sl_attention_side *term,
                  const struct sl_csr_view *csr, const float *z, uint32_t columns, float *room,
                  const float **out)
{
    const struct sl_layer lin = {.d_in = term->d_in, .d_out = columns};
    *out = z;
    if (term->d_in == 0)
        return SL_OK;
    *out = room;
    SL_TRY(env->kernels->gather_rows(z, SL_DTYPE_F32, csr->n_src, columns, csr->indices,
                                     csr->n_edges, room));
    return sl_layer_product(env, &lin, term->x, csr->n_edges, term->lin, 1, room);
}

int sl_pairs_shares(const struct sl_layer_env *env, const struct sl_attention *a,
                    const struct sl_csr_view *scored, const float *rows, const float *own,
                    const float *att, float *alpha)
{
    const struct sl_edge_scores_args scores = {
        .csr = *scored,
        .heads = a->heads,
        .dim = a->width,
        .negative_slope = SL_HEADS_NEGATIVE_SLOPE,
        .src = rows,
        .dst = own,
        .att = att,
        .score = alpha,
    };
    const struct sl_edge_softmax_args softmax = {.csr = *scored, .heads = a->heads, .alpha = alpha};
    SL_TRY(env->kernels->edge_scores(&scores));
    return env->kernels->edge_softmax(&softmax);
}

// The part of dz that comes by way of the scores, and the gradient of the term's map. `side` is
// that of the destinations; transposed, and edge, are of edges->csr.
static int sources_backward(const struct sl_layer_env *env, const struct sl_attention_edges *edges,
                            const struct sl_attention_side *term,
                            struct sl_edge_scores_grad_args side,
                            const struct sl_csr_view *transposed, const uint32_t *edge,
                            float *dlin_edge, float *dz)
{
    const struct sl_csr_view *csr = &edges->csr;
    const uint32_t all = side.heads * side.dim;
    const bool has_term = term->d_in > 0, apart = edges->scored.indices != csr->indices;
    const struct sl_layer lin = {.d_in = term->d_in, .d_out = all};
    const struct sl_layer_gradient of = {term->x, dlin_edge, term->d_in, false};
    struct sl_csr_view t_scored = *transposed;
    float *zero, *sums, *drows = dz;
    uint32_t *t_edge;
    side.edge = edge;
    if (apart) {
        SL_TRY(sl_layer_transpose(env, &edges->scored, &t_scored, &t_edge));
        side.edge = t_edge;
    }
    if (has_term)
        drows = sl_layer_floats(env, (uint64_t)csr->n_edges * all);
    if (!drows)
        return SL_ENOMEM;
    side.csr = t_scored;
    side.own = edges->rows;
    side.other = edges->own;
    side.beta = !has_term;
    side.down = drows;
    side.datt = NULL;
    SL_TRY(env->kernels->edge_scores_backward(&side));
    if (!has_term)
        return SL_OK;
    SL_TRY(sl_layer_product_gradient(env, &lin, drows, &of, csr->n_edges));
    sums = drows;
    if (apart)
        SL_TRY(sl_attention_sum_edges(env, csr, all, drows, &sums));
    zero = sl_layer_floats(env, 1);
    if (!zero)
        return SL_ENOMEM;
    SL_TRY(env->device->fill(zero, 0, sizeof *zero));
    return env->kernels->add_scaled((uint64_t)csr->n_src * all, 1, zero, sums, dz);
}

int sl_pairs_backward(const struct sl_layer_env *env, const struct sl_attention *a,
                      const struct sl_attention_edges *edges, const float *att,
                      const struct sl_attention_side *term, const float *dheads,
                      const struct sl_attention_gradient *to, float *dz, float *down)
{
    const struct sl_csr_view *csr = &edges->csr;
    const uint32_t all = a->heads * a->width;
    struct sl_csr_view transposed;
    uint32_t *edge;
    float *dscore, *parts = sl_layer_floats(env, (uint64_t)csr->n_dst * all);
    if (!parts)
        return SL_ENOMEM;
    SL_TRY(sl_attention_shares_gradient(env, a, edges, dheads, &dscore));
    const struct sl_edge_softmax_grad_args softmax = {
        .csr = *csr, .heads = a->heads, .alpha = edges->alpha, .dalpha = dscore};
    SL_TRY(env->kernels->edge_softmax_backward(&softmax));
    const struct sl_edge_scores_grad_args side = {
        .csr = edges->scored,
        .heads = a->heads,
        .dim = a->width,
        .negative_slope = SL_HEADS_NEGATIVE_SLOPE,
        .own = edges->own,
        .other = edges->rows,
        .att = att,
        .dscore = dscore,
        .down = down,
        .datt = parts,
    };
    SL_TRY(env->kernels->edge_scores_backward(&side));
    SL_TRY(env->kernels->bias_act_backward(parts, NULL, 0, csr->n_dst, all, SL_ACT_NONE,
                                           &NO_DROPOUT, to->att));
    SL_TRY(sl_layer_transpose(env, csr, &transposed, &edge));
    const struct sl_aggregate_heads_args sums = {
        .csr = transposed,
        .heads = a->heads,
        .dim = a->width,
        .x = dheads,
        .weight = edges->kept,
        .edge = edge,
        .y = dz,
    };
    SL_TRY(env->kernels->aggregate_heads(&sums));
    return sources_backward(env, edges, term, side, &transposed, edge, to->lin, dz);
}
