/*
 * layer_gat.c - graph attention (Velickovic et al., 2018), as torch_geometric.nn.GATConv.
 *
 *   att_src (1, H, C), att_dst (1, H, C), bias, lin.weight (H*C, d_in), with model.edge_features
 *   att_edge (1, H, C) and lin_edge.weight (H*C, edge_dim), and with model.residual res.weight
 *   (d_out, d_in)
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
 * Scores and shares, and the term of edges: attention.h.
 *
 * INFERENCE keeps z and what it adds to the scores of each vertex from piece to piece where there
 * is memory (source_row_cache.h); else it computes z for the different sources of a piece, a group
 * of heads at a time (sources.h): heads are independent of each other, so a group goes all the way
 * to columns of y.
 */
#include "trainer/model/layer.h"

#include "common/base/bits.h"
#include "common/base/error.h"
#include "trainer/model/attention.h"
#include "trainer/model/heads.h"
#include "trainer/model/source_row_cache.h"
#include "trainer/model/sources.h"

enum { ATT_SRC, ATT_DST, ATT_EDGE, BIAS, LIN_WEIGHT, LIN_EDGE, RES_WEIGHT, N_TENSORS };

// What forward leaves for backward.
struct own {
    float *z;                     // (n_src, H*C)
    struct sl_csr_view scored;    // the hop's edges as scores have them (attention.h)
    float *score_src, *score_dst; // (n_src of scored, H), (n_dst, H)
    float *alpha;                 // (n_edges, H)
    float *kept;                  // (n_edges, H) alpha after dropout; alpha itself without
};

static uint32_t describe(const struct sl_layer *layer, struct sl_tensor tensors[SL_LAYER_TENSORS])
{
    const struct sl_layer_options *o = layer->options;
    const struct sl_tensor none = {0};
    const uint32_t all = sl_heads_columns(layer);
    tensors[ATT_SRC] = sl_heads_vectors(layer, "att_src");
    tensors[ATT_DST] = sl_heads_vectors(layer, "att_dst");
    tensors[ATT_EDGE] = o->edge_dim ? sl_heads_vectors(layer, "att_edge") : none;
    tensors[BIAS] = sl_layer_vector(layer, "bias", layer->d_out, 0);
    tensors[LIN_WEIGHT] = sl_layer_matrix(layer, "lin.weight", all, layer->d_in,
                                          sl_layer_glorot_bound(all, layer->d_in));
    tensors[LIN_EDGE] = o->edge_dim ? sl_heads_of_edges(layer) : none;
    tensors[RES_WEIGHT] = o->residual ? sl_heads_residual(layer) : none;
    return N_TENSORS;
}

static struct sl_attention attention_of(const struct sl_layer *layer)
{
    return (struct sl_attention){sl_heads_count(layer), sl_heads_width(layer)};
}

static struct sl_attention_side side_of(const struct sl_layer *layer, const float *params, int att,
                                        const float *x, uint64_t rows)
{
    return (struct sl_attention_side){.x = x,
                                      .rows = rows,
                                      .d_in = layer->d_in,
                                      .lin = params + layer->offset[LIN_WEIGHT],
                                      .att = params + layer->offset[att]};
}

// The edges of some heads, whose columns begin at `column`.
static struct sl_attention_side edge_side(const struct sl_layer *layer, const float *params,
                                          const float *rows, uint64_t n, uint64_t column)
{
    const uint32_t dim = layer->options->edge_dim;
    return (struct sl_attention_side){.x = rows,
                                      .rows = n,
                                      .d_in = dim,
                                      .lin = params + layer->offset[LIN_EDGE] + column * dim,
                                      .att = params + layer->offset[ATT_EDGE] + column};
}

// Where edges have features (rows) their term in the scores, and *scored.
static int add_edges(const struct sl_layer_env *env, const struct sl_layer *layer,
                     const float *params, const struct sl_attention *a, const float *rows,
                     uint64_t column, const struct sl_csr_view *csr, struct sl_csr_view *scored,
                     float **score_src)
{
    const struct sl_attention_side edges = edge_side(layer, params, rows, csr->n_edges, column);
    *scored = *csr;
    if (layer->options->edge_dim == 0)
        return SL_OK;
    SL_TRY(sl_attention_own_sources(env, csr, scored));
    return sl_attention_add_term(env, a, &edges, csr, score_src);
}

static int attend(const struct sl_layer_env *env, const struct sl_layer *layer, const float *params,
                  struct sl_layer_tape *tape, struct own *own)
{
    const struct sl_csr_view *csr = &tape->hop.csr;
    uint32_t heads = sl_heads_count(layer);
    own->alpha = sl_layer_floats(env, (uint64_t)csr->n_edges * heads);
    if (!own->alpha)
        return SL_ENOMEM;
    const struct sl_attention a = attention_of(layer);
    const struct sl_attention_side src = side_of(layer, params, ATT_SRC, tape->x, csr->n_src);
    const struct sl_attention_side dst = side_of(layer, params, ATT_DST, tape->x, csr->n_dst);
    SL_TRY(sl_attention_scores(env, &a, &src, &own->score_src));
    SL_TRY(sl_attention_scores(env, &a, &dst, &own->score_dst));
    SL_TRY(
        add_edges(env, layer, params, &a, tape->hop.edges, 0, csr, &own->scored, &own->score_src));
    SL_TRY(
        sl_attention_shares(env, &own->scored, heads, own->score_src, own->score_dst, own->alpha));
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

// Of the edges' term, as sl_attention_term_backward().
static int edges_backward(const struct sl_layer_env *env, const struct sl_layer *layer,
                          const float *params, const struct sl_layer_tape *tape, float *gradient,
                          float **dscore)
{
    const struct sl_attention a = attention_of(layer);
    const struct sl_csr_view *csr = &tape->hop.csr;
    const struct sl_attention_side edges =
        edge_side(layer, params, tape->hop.edges, csr->n_edges, 0);
    const struct sl_attention_gradient to = {gradient + layer->offset[LIN_EDGE],
                                             gradient + layer->offset[ATT_EDGE], NULL};
    return sl_attention_term_backward(env, &a, &edges, csr, &to, dscore);
}

static int backward(const struct sl_layer_env *env, const struct sl_layer *layer,
                    const float *params, const struct sl_layer_tape *tape, float *dy,
                    float *gradient, float *dx)
{
    const struct own *own = tape->own;
    const struct sl_csr_view *csr = &tape->hop.csr;
    const struct sl_layer wide = sl_heads_widened(layer);
    float *dheads, *dscore_src, *dscore_dst,
        *dz = sl_layer_floats(env, (uint64_t)csr->n_src * wide.d_out);
    if (!dz)
        return SL_ENOMEM;
    SL_TRY(sl_layer_apply_before(env, layer, &tape->before, dy, csr->n_dst));
    SL_TRY(sl_heads_spread(env, layer, dy, csr->n_dst, &dheads));
    const struct sl_attention a = attention_of(layer);
    const struct sl_attention_edges edges = {.csr = *csr,
                                             .scored = own->scored,
                                             .z = own->z,
                                             .score_src = own->score_src,
                                             .score_dst = own->score_dst,
                                             .alpha = own->alpha,
                                             .kept = own->kept,
                                             .dropout = tape->dropout,
                                             .scale = 1};
    SL_TRY(sl_attention_backward(env, &a, &edges, dheads, dz, &dscore_src, &dscore_dst));
    const struct sl_layer_gradient lin =
        sl_layer_source_gradient(layer, tape, gradient + layer->offset[LIN_WEIGHT]);
    SL_TRY(sl_layer_product_gradient(env, &wide, dz, &lin, csr->n_src));
    if (dx)
        SL_TRY(sl_layer_product_backward(env, &wide, dz, csr->n_src,
                                         params + layer->offset[LIN_WEIGHT], 0, dx));
    const struct sl_attention_side src = side_of(layer, params, ATT_SRC, tape->x, csr->n_src);
    const struct sl_attention_side dst = side_of(layer, params, ATT_DST, tape->x, csr->n_dst);
    const struct sl_attention_gradient to_src = {gradient + layer->offset[LIN_WEIGHT],
                                                 gradient + layer->offset[ATT_SRC], dx};
    const struct sl_attention_gradient to_dst = {gradient + layer->offset[LIN_WEIGHT],
                                                 gradient + layer->offset[ATT_DST], dx};
    if (layer->options->edge_dim > 0)
        SL_TRY(edges_backward(env, layer, params, tape, gradient, &dscore_src));
    SL_TRY(sl_attention_scores_backward(env, &a, &src, dscore_src, &to_src));
    SL_TRY(sl_attention_scores_backward(env, &a, &dst, dscore_dst, &to_dst));
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
    const struct sl_attention a = {g->heads, g->width};
    SL_TRY(sl_attention_scores_of_z(env, &a, g->z, sources->n,
                                    params + layer->offset[ATT_SRC] + column, g->score_src));
    // The rows' own z: until the sums are made, g->y has room for them.
    SL_TRY(env->kernels->gather_rows(g->z, SL_DTYPE_F32, sources->n, g->heads * g->width, g->own,
                                     csr->n_dst, g->y));
    SL_TRY(sl_attention_scores_of_z(env, &a, g->y, csr->n_dst,
                                    params + layer->offset[ATT_DST] + column, g->score_dst));
    struct sl_csr_view scored;
    float *score_src = g->score_src;
    SL_TRY(add_edges(env, layer, params, &a, piece->edges, column, csr, &scored, &score_src));
    SL_TRY(sl_attention_shares(env, &scored, g->heads, score_src, g->score_dst, g->alpha));
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
    const struct sl_attention a = attention_of(layer);
    SL_TRY(
        sl_layer_product(env, &wide, x, rows, params + layer->offset[LIN_WEIGHT], 0, out[KEPT_Z]));
    SL_TRY(sl_attention_scores_of_z(env, &a, out[KEPT_Z], rows, params + layer->offset[ATT_SRC],
                                    out[KEPT_SRC]));
    return sl_attention_scores_of_z(env, &a, out[KEPT_Z], rows, params + layer->offset[ATT_DST],
                                    out[KEPT_DST]);
}

// All heads, of rows that are kept.
static int infer_kept(const struct sl_layer_env *env, const struct sl_layer *layer,
                      const float *params, const struct sl_infer_piece *piece)
{
    const struct sl_source_row_cache *kept = piece->kept;
    const struct sl_csr_view *csr = &piece->csr;
    const uint32_t heads = sl_heads_count(layer), width = sl_heads_width(layer);
    const struct sl_attention a = attention_of(layer);
    struct sl_csr_view scored;
    float *score_src = kept->matrix[KEPT_SRC];
    float *score_dst = sl_layer_floats(env, (uint64_t)csr->n_dst * heads);
    float *alpha = sl_layer_floats(env, (uint64_t)csr->n_edges * heads);
    float *y = layer->last ? sl_layer_floats(env, (uint64_t)csr->n_dst * heads * width) : piece->y;
    if (!score_dst || !alpha || !y)
        return SL_ENOMEM;
    SL_TRY(env->kernels->gather_rows(kept->matrix[KEPT_DST], SL_DTYPE_F32, csr->n_src, heads,
                                     piece->self, csr->n_dst, score_dst));
    SL_TRY(add_edges(env, layer, params, &a, piece->edges, 0, csr, &scored, &score_src));
    SL_TRY(sl_attention_shares(env, &scored, heads, score_src, score_dst, alpha));
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
    SL_TRY(kept ? infer_kept(env, layer, params, piece) : infer_sources(env, layer, params, piece));
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
