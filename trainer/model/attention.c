#include "trainer/model/attention.h"

#include "common/base/error.h"
#include "trainer/model/heads.h"

// *out (heads, heads * width, in the pool): att on the diagonal blocks, zero elsewhere.
static int attention_matrix(const struct sl_layer_env *env, const struct sl_attention *a,
                            const float *att, float **out)
{
    *out = sl_layer_floats(env, (uint64_t)a->heads * a->heads * a->width);
    return *out ? env->kernels->block_diagonal(att, a->heads, a->width, *out) : SL_ENOMEM;
}

// score (rows, heads) of x (rows, k) and what its columns count for each head, (heads, k).
static int scores(const struct sl_layer_env *env, const float *x, uint64_t rows, uint64_t k,
                  const float *matrix, uint32_t heads, float *score)
{
    return env->kernels->gemm(SL_PRECISION_F32, SL_NO_TRANS, SL_TRANS, rows, heads, k, 1, x, k,
                              matrix, k, 0, score, heads, env->pool);
}

int sl_attention_scores_of_z(const struct sl_layer_env *env, const struct sl_attention *a,
                             const float *z, uint64_t rows, const float *att, float *score)
{
    float *matrix;
    SL_TRY(attention_matrix(env, a, att, &matrix));
    return scores(env, z, rows, (uint64_t)a->heads * a->width, matrix, a->heads, score);
}

// *out (heads, d_in, in the pool): the attention matrix times lin.
static int attention_of_x(const struct sl_layer_env *env, const struct sl_attention *a,
                          const struct sl_attention_side *side, const float *matrix, float **out)
{
    const uint64_t heads = a->heads, columns = heads * a->width;
    *out = sl_layer_floats(env, heads * side->d_in);
    if (!*out)
        return SL_ENOMEM;
    return env->kernels->gemm(SL_PRECISION_F32, SL_NO_TRANS, SL_NO_TRANS, heads, side->d_in,
                              columns, 1, matrix, columns, side->lin, side->d_in, 0, *out,
                              side->d_in, env->pool);
}

int sl_attention_scores(const struct sl_layer_env *env, const struct sl_attention *a,
                        const struct sl_attention_side *side, float **score)
{
    float *matrix, *of_x;
    SL_TRY(attention_matrix(env, a, side->att, &matrix));
    SL_TRY(attention_of_x(env, a, side, matrix, &of_x));
    *score = sl_layer_floats(env, side->rows * a->heads);
    return *score ? scores(env, side->x, side->rows, side->d_in, of_x, a->heads, *score)
                  : SL_ENOMEM;
}

int sl_attention_scores_backward(const struct sl_layer_env *env, const struct sl_attention *a,
                                 const struct sl_attention_side *side, const float *dscore,
                                 const struct sl_attention_gradient *gradient)
{
    const uint64_t heads = a->heads, columns = heads * a->width, d_in = side->d_in;
    float *matrix, *of_x, *g = sl_layer_floats(env, heads * d_in);
    float *products = sl_layer_floats(env, heads * columns);
    if (!g || !products)
        return SL_ENOMEM;
    SL_TRY(attention_matrix(env, a, side->att, &matrix));
    SL_TRY(env->kernels->gemm(SL_PRECISION_F32, SL_TRANS, SL_NO_TRANS, heads, d_in, side->rows, 1,
                              dscore, heads, side->x, d_in, 0, g, d_in, env->pool));
    SL_TRY(env->kernels->gemm(SL_PRECISION_F32, SL_TRANS, SL_NO_TRANS, columns, d_in, heads, 1,
                              matrix, columns, g, d_in, 1, gradient->lin, d_in, env->pool));
    SL_TRY(env->kernels->gemm(SL_PRECISION_F32, SL_NO_TRANS, SL_TRANS, heads, columns, d_in, 1, g,
                              d_in, side->lin, d_in, 0, products, columns, env->pool));
    SL_TRY(env->kernels->add_block_diagonal(products, a->heads, a->width, gradient->att));
    if (!gradient->dx)
        return SL_OK;
    SL_TRY(attention_of_x(env, a, side, matrix, &of_x));
    return env->kernels->gemm(SL_PRECISION_F32, SL_NO_TRANS, SL_NO_TRANS, side->rows, d_in, heads,
                              1, dscore, heads, of_x, d_in, 1, gradient->dx, d_in, env->pool);
}

int sl_attention_own_sources(const struct sl_layer_env *env, const struct sl_csr_view *csr,
                             struct sl_csr_view *out)
{
    uint32_t *numbers = sl_layer_note(env, csr->n_edges * sizeof *numbers);
    if (!numbers)
        return SL_ENOMEM;
    for (uint32_t i = 0; i < csr->n_edges; i++)
        numbers[i] = i;
    *out = *csr;
    out->n_src = csr->n_edges;
    return sl_layer_upload_words(env, numbers, csr->n_edges, &out->indices);
}

int sl_attention_sum_edges(const struct sl_layer_env *env, const struct sl_csr_view *csr,
                           uint32_t dim, const float *rows, float **out)
{
    struct sl_csr_view transposed;
    uint32_t *edge;
    *out = sl_layer_floats(env, (uint64_t)csr->n_src * dim);
    if (!*out)
        return SL_ENOMEM;
    SL_TRY(sl_layer_transpose(env, csr, &transposed, &edge));
    transposed.n_src = csr->n_edges; // each source's edges
    transposed.indices = edge;
    const struct sl_aggregate_args args = {
        .csr = transposed, .dim = dim, .x_dtype = SL_DTYPE_F32, .x = rows, .y = *out};
    return env->kernels->aggregate(&args);
}

int sl_attention_add_term(const struct sl_layer_env *env, const struct sl_attention *a,
                          const struct sl_attention_side *edges, const struct sl_csr_view *csr,
                          float **score)
{
    const uint64_t n = (uint64_t)csr->n_edges * a->heads;
    float *term, *of_edges = sl_layer_floats(env, n), *zero = sl_layer_floats(env, 1);
    if (!of_edges || !zero)
        return SL_ENOMEM;
    SL_TRY(env->device->fill(zero, 0, sizeof *zero));
    SL_TRY(env->kernels->gather_rows(*score, SL_DTYPE_F32, csr->n_src, a->heads, csr->indices,
                                     csr->n_edges, of_edges));
    SL_TRY(sl_attention_scores(env, a, edges, &term));
    *score = of_edges;
    return env->kernels->add_scaled(n, 1, zero, term, of_edges);
}

int sl_attention_term_backward(const struct sl_layer_env *env, const struct sl_attention *a,
                               const struct sl_attention_side *edges, const struct sl_csr_view *csr,
                               const struct sl_attention_gradient *gradient, float **dscore)
{
    SL_TRY(sl_attention_scores_backward(env, a, edges, *dscore, gradient));
    return csr ? sl_attention_sum_edges(env, csr, a->heads, *dscore, dscore) : SL_OK;
}

int sl_attention_shares(const struct sl_layer_env *env, const struct sl_csr_view *csr,
                        uint32_t heads, const float *score_src, const float *score_dst,
                        float *alpha)
{
    const struct sl_edge_softmax_args args = {
        .csr = *csr,
        .heads = heads,
        .negative_slope = SL_HEADS_NEGATIVE_SLOPE,
        .score_src = score_src,
        .score_dst = score_dst,
        .alpha = alpha,
    };
    return env->kernels->edge_softmax(&args);
}

int sl_attention_shares_gradient(const struct sl_layer_env *env, const struct sl_attention *a,
                                 const struct sl_attention_edges *edges, const float *dheads,
                                 float **dalpha)
{
    const struct sl_csr_view *csr = &edges->csr;
    const uint64_t n = (uint64_t)csr->n_edges * a->heads;
    float *of_kept = *dalpha = sl_layer_floats(env, n);
    if (!of_kept)
        return SL_ENOMEM;
    SL_TRY(env->kernels->edge_dot(csr, a->heads, a->width, dheads, edges->z, of_kept));
    if (edges->dropout.rate > 0)
        SL_TRY(env->kernels->dropout(of_kept, csr->n_edges, a->heads, &edges->dropout));
    if (edges->scale == 1)
        return SL_OK;
    *dalpha = sl_layer_floats(env, n);
    const float *slots[] = {of_kept};
    return *dalpha ? env->kernels->reduce(slots, 1, n, edges->scale, *dalpha) : SL_ENOMEM;
}

int sl_attention_backward(const struct sl_layer_env *env, const struct sl_attention *a,
                          const struct sl_attention_edges *edges, const float *dheads, float *dz,
                          float **dscore_src, float **dscore_dst)
{
    const struct sl_csr_view *csr = &edges->csr, *scored = &edges->scored;
    struct sl_csr_view transposed, t_scored;
    uint32_t *edge, *t_edge;
    float *dalpha;
    SL_TRY(sl_layer_transpose(env, csr, &transposed, &edge));
    t_scored = transposed;
    t_edge = edge;
    if (scored->indices != csr->indices)
        SL_TRY(sl_layer_transpose(env, scored, &t_scored, &t_edge));
    *dscore_src = sl_layer_floats(env, (uint64_t)scored->n_src * a->heads);
    *dscore_dst = sl_layer_floats(env, (uint64_t)csr->n_dst * a->heads);
    if (!*dscore_src || !*dscore_dst)
        return SL_ENOMEM;
    SL_TRY(sl_attention_shares_gradient(env, a, edges, dheads, &dalpha));
    const struct sl_edge_softmax_grad_args softmax = {
        .csr = *scored,
        .transposed = t_scored,
        .t_edge = t_edge,
        .heads = a->heads,
        .negative_slope = SL_HEADS_NEGATIVE_SLOPE,
        .score_src = edges->score_src,
        .score_dst = edges->score_dst,
        .alpha = edges->alpha,
        .dalpha = dalpha,
        .dscore_src = *dscore_src,
        .dscore_dst = *dscore_dst,
    };
    SL_TRY(env->kernels->edge_softmax_backward(&softmax));
    const struct sl_aggregate_heads_args args = {
        .csr = transposed,
        .heads = a->heads,
        .dim = a->width,
        .x = dheads,
        .weight = edges->kept,
        .edge = edge,
        .y = dz,
    };
    return env->kernels->aggregate_heads(&args);
}
