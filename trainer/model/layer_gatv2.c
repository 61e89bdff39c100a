/*
 * layer_gatv2.c - attention that looks at both vertices at once (Brody, Alon and Yahav, 2022,
 * "How attentive are graph attention networks?"), as torch_geometric.nn.GATv2Conv.
 *
 *   att (1, H, C), bias, lin_l.weight (H*C, d_in), lin_l.bias, lin_r.weight (H*C, d_in),
 *   lin_r.bias, with model.edge_features lin_edge.weight (H*C, edge_dim), and with model.residual
 *   res.weight (d_out, d_in)
 *
 * With l = x lin_l' and r = x lin_r', biases added, for each head h and each edge j -> i, the
 * vertex i itself among them:
 *
 *   score_ij = <att_h, leaky_relu(l_jh + r_ih)>,  slope 0.2
 *   alpha_ij = softmax of the scores over i's edges, then attention dropout
 *   y_ih     = sum over j of alpha_ij l_jh
 *
 * The rest is GAT's (heads.h), but for what the scores cost (pair_attention.h). l and r are rounded
 * as products are, the scores computed in f32.
 *
 * EDGES with features e_ij have lin_edge(e_ij) in that sum: H*C floats an edge, which training
 * keeps and inference makes for as many heads as SL_SOURCES_FLOATS takes.
 *
 * INFERENCE keeps l of each vertex from piece to piece where there is memory (source_row_cache.h);
 * else it computes l for the different sources of a piece, a group of heads at a time (sources.h).
 * r is that of the piece's own vertices, each of which has one piece.
 */
#include "trainer/model/layer.h"

#include "common/base/bits.h"
#include "common/base/error.h"
#include "trainer/model/heads.h"
#include "trainer/model/pair_attention.h"
#include "trainer/model/source_row_cache.h"
#include "trainer/model/sources.h"

enum { ATT, BIAS, L_WEIGHT, L_BIAS, R_WEIGHT, R_BIAS, LIN_EDGE, RES_WEIGHT, N_TENSORS };

static const struct sl_dropout NO_DROPOUT;

static uint32_t describe(const struct sl_layer *layer, struct sl_tensor tensors[SL_LAYER_TENSORS])
{
    static const struct {
        uint32_t weight, bias;
        const char *weight_name, *bias_name;
    } sides[] = {{L_WEIGHT, L_BIAS, "lin_l.weight", "lin_l.bias"},
                 {R_WEIGHT, R_BIAS, "lin_r.weight", "lin_r.bias"}};
    const uint32_t all = sl_heads_columns(layer), d_in = layer->d_in;
    tensors[ATT] = sl_heads_vectors(layer, "att");
    tensors[BIAS] = sl_layer_vector(layer, "bias", layer->d_out, 0);
    for (size_t s = 0; s < SL_COUNT_OF(sides); s++) {
        tensors[sides[s].weight] = sl_layer_matrix(layer, sides[s].weight_name, all, d_in,
                                                   sl_layer_glorot_bound(all, d_in));
        tensors[sides[s].bias] =
            sl_layer_vector(layer, sides[s].bias_name, all, sl_layer_linear_bound(d_in));
    }
    tensors[LIN_EDGE] = layer->options->edge_dim ? sl_heads_of_edges(layer) : (struct sl_tensor){0};
    tensors[RES_WEIGHT] =
        layer->options->residual ? sl_heads_residual(layer) : (struct sl_tensor){0};
    return N_TENSORS;
}

// out (rows, columns) = x weight' + bias, of that many columns from `first` on.
static int transform(const struct sl_layer_env *env, const struct sl_layer *layer,
                     struct sl_layer_term x, uint64_t rows, const float *bias, uint32_t first,
                     uint32_t columns, float *out)
{
    struct sl_layer some = *layer;
    some.d_out = columns;
    struct sl_layer_epilogue add = {.offered = true, .bias = bias + first, .act = SL_ACT_NONE};
    x.weight += (uint64_t)first * layer->d_in;
    const struct sl_layer_term terms[2] = {x};
    return sl_layer_last_products(env, &some, terms, rows, 0, out, &add);
}

static struct sl_attention attention_of(const struct sl_layer *layer)
{
    return (struct sl_attention){sl_heads_count(layer), sl_heads_width(layer)};
}

// The edges' features and their map to some columns, from `first` on.
static struct sl_attention_side term_of(const struct sl_layer *layer, const float *params,
                                        const float *features, uint32_t n_edges, uint32_t first)
{
    const uint32_t dim = layer->options->edge_dim;
    return (struct sl_attention_side){.x = features,
                                      .rows = n_edges,
                                      .d_in = dim,
                                      .lin =
                                          params + layer->offset[LIN_EDGE] + (uint64_t)first * dim};
}

// What scores read of some heads, whose columns begin at `first`: *scored and *out are csr and l;
// or the edges and, at `room` (n_edges, columns), the rows that they make with their features.
static int score_rows(const struct sl_layer_env *env, const struct sl_layer *layer,
                      const float *params, const float *features, const struct sl_csr_view *csr,
                      const float *l, uint32_t first, uint32_t columns, float *room,
                      struct sl_csr_view *scored, const float **out)
{
    const struct sl_attention_side term = term_of(layer, params, features, csr->n_edges, first);
    *scored = *csr;
    if (term.d_in > 0)
        SL_TRY(sl_attention_own_sources(env, csr, scored));
    return sl_pairs_rows(env, &term, csr, l, columns, room, out);
}

static int forward(const struct sl_layer_env *env, const struct sl_layer *layer,
                   const float *params, bool input_gradient, struct sl_layer_tape *tape)
{
    (void)input_gradient;
    tape->hop.weights = NULL;
    SL_TRY(sl_layer_fix_loops(env, &tape->hop, true));
    const struct sl_csr_view *csr = &tape->hop.csr;
    const struct sl_attention a = attention_of(layer);
    const uint32_t all = sl_heads_columns(layer);
    struct sl_attention_edges *own = sl_layer_note(env, sizeof *own);
    float *l = sl_layer_floats(env, (uint64_t)csr->n_src * all);
    float *r = sl_layer_floats(env, (uint64_t)csr->n_dst * all);
    float *kept, *alpha = sl_layer_floats(env, (uint64_t)csr->n_edges * a.heads);
    if (!own || !l || !r || !alpha)
        return SL_ENOMEM;
    *own = (struct sl_attention_edges){
        .csr = *csr, .z = l, .own = r, .alpha = alpha, .dropout = tape->dropout, .scale = 1};
    tape->own = own;
    SL_TRY(transform(env, layer, sl_layer_source(layer, tape, params + layer->offset[L_WEIGHT]),
                     csr->n_src, params + layer->offset[L_BIAS], 0, all, l));
    SL_TRY(transform(env, layer, sl_layer_source(layer, tape, params + layer->offset[R_WEIGHT]),
                     csr->n_dst, params + layer->offset[R_BIAS], 0, all, r));
    float *room = layer->options->edge_dim ? sl_layer_floats(env, (uint64_t)csr->n_edges * all) : l;
    if (!room)
        return SL_ENOMEM;
    SL_TRY(score_rows(env, layer, params, tape->hop.edges, csr, l, 0, all, room, &own->scored,
                      &own->rows));
    SL_TRY(
        sl_pairs_shares(env, &a, &own->scored, own->rows, r, params + layer->offset[ATT], alpha));
    SL_TRY(sl_heads_drop(env, layer, tape, alpha, &kept));
    own->kept = kept;
    return sl_heads_sum(env, layer, l, kept, params + layer->offset[RES_WEIGHT], tape);
}

// What dz (rows, H*C) of one side gives its weight, its bias and dx (NULL: not asked for).
static int transform_backward(const struct sl_layer_env *env, const struct sl_layer *layer,
                              const struct sl_layer_tape *tape, float *dz, uint64_t rows,
                              const float *weight, float *dweight, float *dbias, float beta,
                              float *dx)
{
    const struct sl_layer wide = sl_heads_widened(layer);
    const struct sl_bias_act_gradient before = {.dbias = dbias};
    const struct sl_layer_gradient of[2] = {sl_layer_source_gradient(layer, tape, dweight)};
    SL_TRY(sl_layer_product_gradients(env, &wide, &before, dz, of, rows));
    return dx ? sl_layer_product_backward(env, &wide, dz, rows, weight, beta, dx) : SL_OK;
}

static int backward(const struct sl_layer_env *env, const struct sl_layer *layer,
                    const float *params, const struct sl_layer_tape *tape, float *dy,
                    float *gradient, float *dx)
{
    const struct sl_csr_view *csr = &tape->hop.csr;
    const uint32_t all = sl_heads_columns(layer);
    const struct sl_attention a = attention_of(layer);
    const struct sl_attention_side term = term_of(layer, params, tape->hop.edges, csr->n_edges, 0);
    const uint64_t *at = layer->offset;
    const struct sl_attention_gradient to = {gradient + at[LIN_EDGE], gradient + at[ATT], NULL};
    float *dheads, *dl = sl_layer_floats(env, (uint64_t)csr->n_src * all);
    float *dr = sl_layer_floats(env, (uint64_t)csr->n_dst * all);
    if (!dl || !dr)
        return SL_ENOMEM;
    SL_TRY(sl_layer_apply_before(env, layer, &tape->before, dy, csr->n_dst));
    SL_TRY(sl_heads_spread(env, layer, dy, csr->n_dst, &dheads));
    SL_TRY(sl_pairs_backward(env, &a, tape->own, params + at[ATT], &term, dheads, &to, dl, dr));
    SL_TRY(transform_backward(env, layer, tape, dl, csr->n_src, params + at[L_WEIGHT],
                              gradient + at[L_WEIGHT], gradient + at[L_BIAS], 0, dx));
    SL_TRY(transform_backward(env, layer, tape, dr, csr->n_dst, params + at[R_WEIGHT],
                              gradient + at[R_WEIGHT], gradient + at[R_BIAS], 1, dx));
    return sl_heads_residual_backward(env, layer, dy, tape, params + at[RES_WEIGHT],
                                      gradient + at[RES_WEIGHT], dx);
}

// l of some rows.
static int make_kept(const struct sl_layer_env *env, const struct sl_layer *layer,
                     const float *params, const float *x, uint32_t rows, float **out)
{
    const struct sl_layer_term of_x = {x, params + layer->offset[L_WEIGHT], layer->d_in, false};
    return transform(env, layer, of_x, rows, params + layer->offset[L_BIAS], 0,
                     sl_heads_columns(layer), out[0]);
}

// What some heads of a piece are computed from, and memory for as many.
struct group {
    struct sl_csr_view csr;
    const float *own_x; // (n_dst, d_in)
    float *l;           // (n_src, heads * width)
    float *r;           // (n_dst, heads * width)
    float *room;        // (n_edges, heads * width) where edges have features
    float *alpha;       // (n_edges, heads)
    float *y;           // (n_dst, heads * width); the piece's own where that is all of it
};

static int group_alloc(const struct sl_layer_env *env, const struct sl_layer *layer,
                       const struct sl_infer_piece *piece, uint32_t heads, struct group *g)
{
    const uint64_t n = (uint64_t)g->csr.n_dst * heads * sl_heads_width(layer);
    const bool is_all = !layer->last && heads == sl_heads_count(layer);
    g->r = sl_layer_floats(env, n);
    g->room = g->r;
    if (layer->options->edge_dim > 0)
        g->room = sl_layer_floats(env, (uint64_t)g->csr.n_edges * heads * sl_heads_width(layer));
    g->alpha = sl_layer_floats(env, (uint64_t)g->csr.n_edges * heads);
    g->y = is_all ? piece->y : sl_layer_floats(env, n);
    return g->r && g->room && g->alpha && g->y ? SL_OK : SL_ENOMEM;
}

// The heads first .. first + n - 1 of the piece's rows.
static int infer_heads(const struct sl_layer_env *env, const struct sl_layer *layer,
                       const float *params, const struct sl_infer_piece *piece,
                       const struct group *g, uint32_t first, uint32_t n)
{
    const uint32_t width = sl_heads_width(layer), column = first * width;
    const struct sl_layer_term own = {g->own_x, params + layer->offset[R_WEIGHT], layer->d_in,
                                      false};
    SL_TRY(transform(env, layer, own, g->csr.n_dst, params + layer->offset[R_BIAS], column,
                     n * width, g->r));
    struct sl_csr_view scored;
    const float *rows;
    SL_TRY(score_rows(env, layer, params, piece->edges, &g->csr, g->l, column, n * width, g->room,
                      &scored, &rows));
    const struct sl_attention a = {n, width};
    SL_TRY(sl_pairs_shares(env, &a, &scored, rows, g->r, params + layer->offset[ATT] + column,
                           g->alpha));
    const struct sl_aggregate_heads_args args = {
        .csr = g->csr, .heads = n, .dim = width, .x = g->l, .weight = g->alpha, .y = g->y};
    SL_TRY(env->kernels->aggregate_heads(&args));
    return sl_heads_put(env, layer, piece, g->y, first, n);
}

// All heads, of rows that are kept.
static int infer_kept(const struct sl_layer_env *env, const struct sl_layer *layer,
                      const float *params, const struct sl_infer_piece *piece, const float *own_x)
{
    const uint32_t heads = sl_heads_count(layer);
    struct group g = {.csr = piece->csr, .own_x = own_x, .l = piece->kept->matrix[0]};
    SL_TRY(group_alloc(env, layer, piece, heads, &g));
    return infer_heads(env, layer, params, piece, &g, 0, heads);
}

// Rows of the piece's own sources, some heads at a time.
static int infer_sources(const struct sl_layer_env *env, const struct sl_layer *layer,
                         const float *params, const struct sl_infer_piece *piece,
                         const float *own_x)
{
    const uint32_t heads = sl_heads_count(layer), width = sl_heads_width(layer);
    struct sl_sources sources;
    SL_TRY(sl_sources_find(env, piece, &sources));
    struct sl_sources widest = sources; // what has most rows
    if (layer->options->edge_dim > 0)
        widest.n = SL_MAX(sources.n, sources.csr.n_edges);
    uint32_t step = sl_sources_columns(&widest, width, heads * width) / width;
    struct group g = {.csr = sources.csr, .own_x = own_x};
    float *chunk = NULL;
    g.l = sl_layer_floats(env, (uint64_t)sources.n * step * width);
    if (!g.l)
        return SL_ENOMEM;
    SL_TRY(group_alloc(env, layer, piece, step, &g));
    for (uint32_t first = 0; first < heads; first += step) {
        const uint32_t n = SL_MIN(step, heads - first), column = first * width;
        SL_TRY(sl_sources_product(env, piece, &sources, layer->d_in,
                                  params + layer->offset[L_WEIGHT] + (uint64_t)column * layer->d_in,
                                  n * width, &chunk, g.l));
        SL_TRY(env->kernels->bias_act(g.l, sources.n, n * width,
                                      params + layer->offset[L_BIAS] + column, SL_ACT_NONE,
                                      &NO_DROPOUT));
        SL_TRY(infer_heads(env, layer, params, piece, &g, first, n));
    }
    return SL_OK;
}

static int infer(const struct sl_layer_env *env, const struct sl_layer *layer, const float *params,
                 const struct sl_infer_piece *piece)
{
    const uint32_t all = sl_heads_columns(layer);
    const float *own_x;
    // All heads at a time want room for all of an edge's columns: not of a vertex with so many.
    const bool fits = layer->options->edge_dim == 0 ||
                      (uint64_t)piece->csr.n_edges * all <= SL_INFER_PIECE_FLOATS;
    bool kept = false;
    SL_TRY(sl_layer_own_rows(env, layer, piece, &own_x));
    if (fits)
        SL_TRY(sl_source_row_cache_bring(env, layer, params, piece, 1, &all, make_kept, &kept));
    SL_TRY(kept ? infer_kept(env, layer, params, piece, own_x)
                : infer_sources(env, layer, params, piece, own_x));
    return sl_heads_infer_residual(env, layer, piece, params + layer->offset[RES_WEIGHT]);
}

const struct sl_layer_kind sl_layer_gatv2 = {
    .name = "gatv2",
    .self_edge = sl_heads_self_edge,
    .bias = BIAS,
    .check = sl_heads_check,
    .describe = describe,
    .forward = forward,
    .backward = backward,
    .infer = infer,
};
