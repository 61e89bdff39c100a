/*
 * layer_gat.c - graph attention (Velickovic et al., 2018), as torch_geometric.nn.GATConv.
 *
 *   att_src (1, H, C), att_dst (1, H, C), bias, lin.weight (H*C, d_in), and with model.residual
 *   res.weight (d_out, d_in)
 *
 * With z = x lin', for each head h and each edge j -> i, the vertex i itself among them:
 *
 *   score_ij = leaky_relu(<att_src_h, z_jh> + <att_dst_h, z_ih>),  slope 0.2
 *   alpha_ij = softmax of the scores over i's edges, then attention dropout
 *   y_ih     = sum over j of alpha_ij z_jh
 *
 * Hidden layers put the heads side by side (H*C = d_out); the layer that gives the model's output
 * takes their mean (C = d_out). The residual adds res(x_i). The graph's own self-loops are dropped
 * and each vertex is its own neighbour once. Edge weights (visits of random walks) are not looked
 * at: attention is what says how much a neighbour counts.
 *
 * SCORES are products: with the att vectors as the blocks of a block-diagonal matrix (H, H*C) they
 * are z times its transpose. That is H times the arithmetic of a loop, still far less than that of
 * lin, and takes the products' threads and SIMD. Scores are always computed in f32: the
 * exponential multiplies what is rounded there.
 *
 * TRAINING takes the scores from x instead: z matrix' = x (matrix lin)', where matrix lin is (H,
 * d_in). Then z, the widest matrix of a layer, is not read for them, and backward adds nothing to
 * dz: with G = dscore' x, (H, d_in), the scores' part of the gradient of lin is matrix' G, that of
 * att the diagonal blocks of G lin', and that of x is dscore (matrix lin).
 *
 * INFERENCE keeps z and what it adds to the scores of each vertex from piece to piece where there
 * is memory (source_row_cache.h); else it computes z for the different sources of a piece, a group
 * of heads at a time (sources.h): heads are independent of each other, so a group goes all the way
 * to columns of y.
 */
#include "trainer/model/layer.h"

#include "common/base/bits.h"
#include "common/base/error.h"
#include "trainer/model/heads.h"
#include "trainer/model/source_row_cache.h"
#include "trainer/model/sources.h"

enum { ATT_SRC, ATT_DST, BIAS, LIN_WEIGHT, RES_WEIGHT };

// What forward leaves for backward.
struct own {
    float *z;                     // (n_src, H*C)
    float *score_src, *score_dst; // (n_src, H), (n_dst, H)
    float *alpha;                 // (n_edges, H)
    float *kept;                  // (n_edges, H) alpha after dropout; alpha itself without
};

static uint32_t describe(const struct sl_layer *layer, struct sl_tensor tensors[SL_LAYER_TENSORS])
{
    const uint32_t all = sl_heads_columns(layer);
    tensors[ATT_SRC] = sl_heads_vectors(layer, "att_src");
    tensors[ATT_DST] = sl_heads_vectors(layer, "att_dst");
    tensors[BIAS] = sl_layer_vector(layer, "bias", layer->d_out, 0);
    tensors[LIN_WEIGHT] = sl_layer_matrix(layer, "lin.weight", all, layer->d_in,
                                          sl_layer_glorot_bound(all, layer->d_in));
    if (!layer->options->residual)
        return RES_WEIGHT;
    tensors[RES_WEIGHT] = sl_heads_residual(layer);
    return RES_WEIGHT + 1;
}

// *out (heads, heads * width, in the pool): att on the diagonal blocks, zero elsewhere.
static int attention_matrix(const struct sl_layer_env *env, const float *att, uint32_t heads,
                            uint32_t width, float **out)
{
    *out = sl_layer_floats(env, (uint64_t)heads * heads * width);
    return *out ? env->kernels->block_diagonal(att, heads, width, *out) : SL_ENOMEM;
}

// score (rows, heads) of x (rows, k) and what its columns count for each head, (heads, k).
static int scores(const struct sl_layer_env *env, const float *x, uint64_t rows, uint64_t k,
                  const float *matrix, uint32_t heads, float *score)
{
    return env->kernels->gemm(SL_PRECISION_F32, SL_NO_TRANS, SL_TRANS, rows, heads, k, 1, x, k,
                              matrix, k, 0, score, heads, env->pool);
}

static int scores_of_z(const struct sl_layer_env *env, const float *z, uint64_t rows,
                       const float *att, uint32_t heads, uint32_t width, float *score)
{
    float *matrix;
    SL_TRY(attention_matrix(env, att, heads, width, &matrix));
    return scores(env, z, rows, (uint64_t)heads * width, matrix, heads, score);
}

// *out (heads, d_in, in the pool): the attention matrix times lin.
static int attention_of_x(const struct sl_layer_env *env, const struct sl_layer *layer,
                          const float *params, const float *matrix, float **out)
{
    const uint64_t heads = sl_heads_count(layer), columns = sl_heads_columns(layer);
    *out = sl_layer_floats(env, heads * layer->d_in);
    if (!*out)
        return SL_ENOMEM;
    return env->kernels->gemm(SL_PRECISION_F32, SL_NO_TRANS, SL_NO_TRANS, heads, layer->d_in,
                              columns, 1, matrix, columns, params + layer->offset[LIN_WEIGHT],
                              layer->d_in, 0, *out, layer->d_in, env->pool);
}

// *score (rows, heads, in the pool) of x under the att vectors of one side.
static int scores_of_x(const struct sl_layer_env *env, const struct sl_layer *layer,
                       const float *params, int att, const float *x, uint64_t rows, float **score)
{
    const uint32_t heads = sl_heads_count(layer);
    float *matrix, *of_x;
    SL_TRY(
        attention_matrix(env, params + layer->offset[att], heads, sl_heads_width(layer), &matrix));
    SL_TRY(attention_of_x(env, layer, params, matrix, &of_x));
    *score = sl_layer_floats(env, rows * heads);
    return *score ? scores(env, x, rows, layer->d_in, of_x, heads, *score) : SL_ENOMEM;
}

// What dscore (rows, heads) of one side gives: lin's and att's gradients +=, and dx += unless NULL.
static int scores_backward(const struct sl_layer_env *env, const struct sl_layer *layer,
                           const float *params, int att, const float *dscore, const float *x,
                           uint64_t rows, float *gradient, float *dx)
{
    const uint32_t heads = sl_heads_count(layer), width = sl_heads_width(layer);
    const uint64_t columns = sl_heads_columns(layer), d_in = layer->d_in;
    const float *lin = params + layer->offset[LIN_WEIGHT];
    float *matrix, *of_x, *g = sl_layer_floats(env, heads * d_in);
    float *products = sl_layer_floats(env, heads * columns);
    if (!g || !products)
        return SL_ENOMEM;
    SL_TRY(attention_matrix(env, params + layer->offset[att], heads, width, &matrix));
    SL_TRY(env->kernels->gemm(SL_PRECISION_F32, SL_TRANS, SL_NO_TRANS, heads, d_in, rows, 1, dscore,
                              heads, x, d_in, 0, g, d_in, env->pool));
    SL_TRY(env->kernels->gemm(SL_PRECISION_F32, SL_TRANS, SL_NO_TRANS, columns, d_in, heads, 1,
                              matrix, columns, g, d_in, 1, gradient + layer->offset[LIN_WEIGHT],
                              d_in, env->pool));
    SL_TRY(env->kernels->gemm(SL_PRECISION_F32, SL_NO_TRANS, SL_TRANS, heads, columns, d_in, 1, g,
                              d_in, lin, d_in, 0, products, columns, env->pool));
    SL_TRY(env->kernels->add_block_diagonal(products, heads, width, gradient + layer->offset[att]));
    if (!dx)
        return SL_OK;
    SL_TRY(attention_of_x(env, layer, params, matrix, &of_x));
    return env->kernels->gemm(SL_PRECISION_F32, SL_NO_TRANS, SL_NO_TRANS, rows, d_in, heads, 1,
                              dscore, heads, of_x, d_in, 1, dx, d_in, env->pool);
}

// alpha (n_edges, heads)
static int shares(const struct sl_layer_env *env, const struct sl_csr_view *csr, uint32_t heads,
                  const float *score_src, const float *score_dst, float *alpha)
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

static int attend(const struct sl_layer_env *env, const struct sl_layer *layer, const float *params,
                  struct sl_layer_tape *tape, struct own *own)
{
    const struct sl_csr_view *csr = &tape->hop.csr;
    uint32_t heads = sl_heads_count(layer);
    own->alpha = sl_layer_floats(env, (uint64_t)csr->n_edges * heads);
    if (!own->alpha)
        return SL_ENOMEM;
    SL_TRY(scores_of_x(env, layer, params, ATT_SRC, tape->x, csr->n_src, &own->score_src));
    SL_TRY(scores_of_x(env, layer, params, ATT_DST, tape->x, csr->n_dst, &own->score_dst));
    SL_TRY(shares(env, csr, heads, own->score_src, own->score_dst, own->alpha));
    return sl_heads_drop(env, layer, tape, own->alpha, &own->kept);
}

static int forward(const struct sl_layer_env *env, const struct sl_layer *layer,
                   const float *params, bool input_gradient, struct sl_layer_tape *tape)
{
    (void)input_gradient;
    tape->hop.weights = NULL;
    SL_TRY(sl_layer_fix_loops(env, &tape->hop, true));
    const struct sl_csr_view *csr = &tape->hop.csr;
    const struct sl_layer wide = sl_heads_widened(layer);
    struct own *own = sl_layer_note(env, sizeof *own);
    if (!own)
        return SL_ENOMEM;
    *own = (struct own){0};
    tape->own = own;
    own->z = sl_layer_floats(env, (uint64_t)csr->n_src * wide.d_out);
    if (!own->z)
        return SL_ENOMEM;
    const struct sl_layer_term lin[2] = {
        sl_layer_source(layer, tape, params + layer->offset[LIN_WEIGHT])};
    SL_TRY(sl_layer_last_products(env, &wide, lin, csr->n_src, 0, own->z, NULL));
    SL_TRY(attend(env, layer, params, tape, own));
    return sl_heads_sum(env, layer, own->z, own->kept, params + layer->offset[RES_WEIGHT], tape);
}

// For the gradient dheads of all heads: dz (n_src, H*C, assigned) but for what comes by way of the
// scores, and the gradients of these, (n_src, H) and (n_dst, H) in the pool.
static int attend_backward(const struct sl_layer_env *env, const struct sl_layer *layer,
                           const struct sl_layer_tape *tape, const float *dheads, float *dz,
                           float **dscore_src, float **dscore_dst)
{
    const struct own *own = tape->own;
    const struct sl_csr_view *csr = &tape->hop.csr;
    uint32_t heads = sl_heads_count(layer), width = sl_heads_width(layer);
    uint32_t n_edges = csr->n_edges;
    struct sl_csr_view transposed;
    uint32_t *edge;
    SL_TRY(sl_layer_transpose(env, csr, &transposed, &edge));
    float *dalpha = sl_layer_floats(env, (uint64_t)n_edges * heads);
    *dscore_src = sl_layer_floats(env, (uint64_t)csr->n_src * heads);
    *dscore_dst = sl_layer_floats(env, (uint64_t)csr->n_dst * heads);
    if (!dalpha || !*dscore_src || !*dscore_dst)
        return SL_ENOMEM;
    SL_TRY(env->kernels->edge_dot(csr, heads, width, dheads, own->z, dalpha));
    if (own->kept != own->alpha)
        SL_TRY(env->kernels->dropout(dalpha, n_edges, heads, &tape->dropout));
    const struct sl_edge_softmax_grad_args softmax = {
        .csr = *csr,
        .transposed = transposed,
        .t_edge = edge,
        .heads = heads,
        .negative_slope = SL_HEADS_NEGATIVE_SLOPE,
        .score_src = own->score_src,
        .score_dst = own->score_dst,
        .alpha = own->alpha,
        .dalpha = dalpha,
        .dscore_src = *dscore_src,
        .dscore_dst = *dscore_dst,
    };
    SL_TRY(env->kernels->edge_softmax_backward(&softmax));
    const struct sl_aggregate_heads_args args = {
        .csr = transposed,
        .heads = heads,
        .dim = width,
        .x = dheads,
        .weight = own->kept,
        .edge = edge,
        .y = dz,
    };
    return env->kernels->aggregate_heads(&args);
}

static int backward(const struct sl_layer_env *env, const struct sl_layer *layer,
                    const float *params, const struct sl_layer_tape *tape, float *dy,
                    float *gradient, float *dx)
{
    const struct sl_csr_view *csr = &tape->hop.csr;
    const struct sl_layer wide = sl_heads_widened(layer);
    float *dheads, *dscore_src, *dscore_dst,
        *dz = sl_layer_floats(env, (uint64_t)csr->n_src * wide.d_out);
    if (!dz)
        return SL_ENOMEM;
    SL_TRY(sl_layer_apply_before(env, layer, &tape->before, dy, csr->n_dst));
    SL_TRY(sl_heads_spread(env, layer, dy, csr->n_dst, &dheads));
    SL_TRY(attend_backward(env, layer, tape, dheads, dz, &dscore_src, &dscore_dst));
    const struct sl_layer_gradient lin =
        sl_layer_source_gradient(layer, tape, gradient + layer->offset[LIN_WEIGHT]);
    SL_TRY(sl_layer_product_gradient(env, &wide, dz, &lin, csr->n_src));
    if (dx)
        SL_TRY(sl_layer_product_backward(env, &wide, dz, csr->n_src,
                                         params + layer->offset[LIN_WEIGHT], 0, dx));
    SL_TRY(scores_backward(env, layer, params, ATT_SRC, dscore_src, tape->x, csr->n_src, gradient,
                           dx));
    SL_TRY(scores_backward(env, layer, params, ATT_DST, dscore_dst, tape->x, csr->n_dst, gradient,
                           dx));
    return sl_heads_residual_backward(env, layer, dy, tape, params + layer->offset[RES_WEIGHT],
                                      gradient + layer->offset[RES_WEIGHT], dx);
}

// Memory for one group of heads of a piece.
struct group {
    uint32_t heads, width;
    float *z;                     // (n sources, heads * width)
    float *score_src, *score_dst; // (n sources, heads), (n_dst, heads)
    float *alpha;                 // (n_edges, heads)
    float *y;                     // (n_dst, heads * width)
    float *chunk;
    const uint32_t *own; // (n_dst) the rows' own places among the sources
};

// A row's list ends with the vertex itself.
static int find_own(const struct sl_layer_env *env, const struct sl_sources *sources,
                    const uint32_t **out)
{
    const struct sl_csr_view *lists = &sources->lists;
    uint32_t *own = sl_layer_note(env, lists->n_dst * sizeof *own);
    if (!own)
        return SL_ENOMEM;
    for (uint32_t i = 0; i < lists->n_dst; i++)
        own[i] = lists->indices[lists->indptr[i + 1] - 1];
    return sl_layer_upload_words(env, own, lists->n_dst, out);
}

static int group_alloc(const struct sl_layer_env *env, const struct sl_sources *sources,
                       struct group *g)
{
    uint64_t columns = (uint64_t)g->heads * g->width, n_dst = sources->csr.n_dst;
    g->z = sl_layer_floats(env, sources->n * columns);
    g->score_src = sl_layer_floats(env, (uint64_t)sources->n * g->heads);
    g->score_dst = sl_layer_floats(env, n_dst * g->heads);
    g->alpha = sl_layer_floats(env, (uint64_t)sources->csr.n_edges * g->heads);
    g->y = sl_layer_floats(env, n_dst * columns);
    if (!g->z || !g->score_src || !g->score_dst || !g->alpha || !g->y)
        return SL_ENOMEM;
    return find_own(env, sources, &g->own);
}

// g->y of the heads first .. first + g->heads - 1.
static int infer_heads(const struct sl_layer_env *env, const struct sl_layer *layer,
                       const float *params, const struct sl_infer_piece *piece,
                       const struct sl_sources *sources, uint32_t first, struct group *g)
{
    const struct sl_csr_view *csr = &sources->csr;
    uint64_t column = (uint64_t)first * g->width;
    SL_TRY(sl_sources_product(env, piece, sources, layer->d_in,
                              params + layer->offset[LIN_WEIGHT] + column * layer->d_in,
                              g->heads * g->width, &g->chunk, g->z));
    SL_TRY(scores_of_z(env, g->z, sources->n, params + layer->offset[ATT_SRC] + column, g->heads,
                       g->width, g->score_src));
    // The rows' own z: until the sums are made, g->y has room for them.
    SL_TRY(env->kernels->gather_rows(g->z, SL_DTYPE_F32, sources->n, g->heads * g->width, g->own,
                                     csr->n_dst, g->y));
    SL_TRY(scores_of_z(env, g->y, csr->n_dst, params + layer->offset[ATT_DST] + column, g->heads,
                       g->width, g->score_dst));
    SL_TRY(shares(env, csr, g->heads, g->score_src, g->score_dst, g->alpha));
    const struct sl_aggregate_heads_args args = {
        .csr = *csr, .heads = g->heads, .dim = g->width, .x = g->z, .weight = g->alpha, .y = g->y};
    return env->kernels->aggregate_heads(&args);
}

enum { KEPT_Z, KEPT_SRC, KEPT_DST, N_KEPT };

// z of some rows, and what they add to the scores as sources and as destinations.
static int make_kept(const struct sl_layer_env *env, const struct sl_layer *layer,
                     const float *params, const float *x, uint32_t rows, float **out)
{
    const struct sl_layer wide = sl_heads_widened(layer);
    const uint32_t heads = sl_heads_count(layer), width = sl_heads_width(layer);
    SL_TRY(
        sl_layer_product(env, &wide, x, rows, params + layer->offset[LIN_WEIGHT], 0, out[KEPT_Z]));
    SL_TRY(scores_of_z(env, out[KEPT_Z], rows, params + layer->offset[ATT_SRC], heads, width,
                       out[KEPT_SRC]));
    return scores_of_z(env, out[KEPT_Z], rows, params + layer->offset[ATT_DST], heads, width,
                       out[KEPT_DST]);
}

// All heads, of rows that are kept.
static int infer_kept(const struct sl_layer_env *env, const struct sl_layer *layer,
                      const struct sl_infer_piece *piece)
{
    const struct sl_source_row_cache *kept = piece->kept;
    const struct sl_csr_view *csr = &piece->csr;
    const uint32_t heads = sl_heads_count(layer), width = sl_heads_width(layer);
    float *score_dst = sl_layer_floats(env, (uint64_t)csr->n_dst * heads);
    float *alpha = sl_layer_floats(env, (uint64_t)csr->n_edges * heads);
    float *y = layer->last ? sl_layer_floats(env, (uint64_t)csr->n_dst * heads * width) : piece->y;
    if (!score_dst || !alpha || !y)
        return SL_ENOMEM;
    SL_TRY(env->kernels->gather_rows(kept->matrix[KEPT_DST], SL_DTYPE_F32, csr->n_src, heads,
                                     piece->self, csr->n_dst, score_dst));
    SL_TRY(shares(env, csr, heads, kept->matrix[KEPT_SRC], score_dst, alpha));
    const struct sl_aggregate_heads_args args = {.csr = *csr,
                                                 .heads = heads,
                                                 .dim = width,
                                                 .x = kept->matrix[KEPT_Z],
                                                 .weight = alpha,
                                                 .y = y};
    SL_TRY(env->kernels->aggregate_heads(&args));
    return sl_heads_put(env, layer, piece, y, 0, heads);
}

// Rows of the piece's own sources, some heads at a time.
static int infer_sources(const struct sl_layer_env *env, const struct sl_layer *layer,
                         const float *params, const struct sl_infer_piece *piece)
{
    uint32_t heads = sl_heads_count(layer);
    struct sl_sources sources;
    SL_TRY(sl_sources_find(env, piece, &sources));
    struct group g = {.width = sl_heads_width(layer)};
    uint32_t step = sl_sources_columns(&sources, g.width, heads * g.width) / g.width;
    g.heads = step;
    SL_TRY(group_alloc(env, &sources, &g));
    for (uint32_t first = 0; first < heads; first += step) {
        g.heads = SL_MIN(step, heads - first);
        SL_TRY(infer_heads(env, layer, params, piece, &sources, first, &g));
        SL_TRY(sl_heads_put(env, layer, piece, g.y, first, g.heads));
    }
    return SL_OK;
}

static int infer(const struct sl_layer_env *env, const struct sl_layer *layer, const float *params,
                 const struct sl_infer_piece *piece)
{
    const uint32_t heads = sl_heads_count(layer);
    const uint32_t widths[N_KEPT] = {
        [KEPT_Z] = sl_heads_columns(layer), [KEPT_SRC] = heads, [KEPT_DST] = heads};
    bool kept;
    SL_TRY(sl_source_row_cache_bring(env, layer, params, piece, N_KEPT, widths, make_kept, &kept));
    SL_TRY(kept ? infer_kept(env, layer, piece) : infer_sources(env, layer, params, piece));
    return sl_heads_infer_residual(env, layer, piece, params + layer->offset[RES_WEIGHT]);
}

// The scores do.
static bool reads_f32(const struct sl_layer *layer)
{
    (void)layer;
    return true;
}

const struct sl_layer_kind sl_layer_gat = {
    .name = "gat",
    .reads_f32 = reads_f32,
    .self_edge = sl_heads_self_edge,
    .bias = BIAS,
    .check = sl_heads_check,
    .describe = describe,
    .forward = forward,
    .backward = backward,
    .infer = infer,
};
