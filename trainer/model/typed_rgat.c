/*
 * typed_rgat.c - graph attention by relation, as torch_geometric.nn.HeteroConv of GATConv((-1, -1),
 * d / H, heads=H, add_self_loops=False), the reference of MLPerf's benchmark on IGBH; the sums are
 * typed_attention.h's, z_r = lin_src_r.
 *
 *   of each relation att_src (1, H, C), att_dst (1, H, C), bias (d_out), lin_src.weight (H*C, d_in
 *   of the source type), lin_dst.weight (H*C, d_in of the target type), res.weight; with
 *   model.share_weights lin.weight is both, as of GATConv(d_in, d / H, ...), and the two types are
 *   of one width
 *
 * alpha is as in layer_gat.c, of scores <att_src_h, lin_src_r(x_j)_h> + <att_dst_h,
 * lin_dst_r(x_i)_h>.
 *
 * EDGES with features e_ij, where model.edge_features reads them, have a term in the scores
 * (attention.h): att_edge (1, H, C), lin_edge.weight (H*C, width of the relation's features).
 * Relations without features have neither.
 */
#include "trainer/model/typed_attention.h"

#include "common/base/error.h"

enum { ATT_SRC, ATT_DST, ATT_EDGE, BIAS, LIN_SRC, LIN_DST, LIN_EDGE, RES, N_TENSORS };

static bool is_shared(const struct sl_typed_layer *layer)
{
    return layer->options->share_weights;
}

// One weight is in the place of LIN_SRC.
static bool has(const struct sl_typed_layer *layer, uint32_t relation, uint32_t k)
{
    if (k == ATT_EDGE || k == LIN_EDGE)
        return sl_typed_attention_has_term(layer, relation);
    if (k == RES)
        return layer->options->residual;
    return k != LIN_DST || !is_shared(layer);
}

static void describe(const struct sl_typed_layer *layer, struct sl_tensor *tensors)
{
    const struct sl_attention a = sl_typed_attention_of(layer);
    const uint64_t rows = layer->d_out, vector[] = {1, a.heads, a.width};
    const float of_vector = sl_layer_glorot_bound(a.heads, a.width);
    for (uint32_t r = 0; r < layer->typed->n_relations; r++) {
        const struct sl_relation *relation = &layer->typed->relation[r];
        const struct {
            const char *name;
            uint32_t rank;
            uint64_t columns;
        } own[N_TENSORS] = {
            [ATT_SRC] = {"att_src", 3, 0},
            [ATT_DST] = {"att_dst", 3, 0},
            [ATT_EDGE] = {"att_edge", 3, 0},
            [BIAS] = {"bias", 1, 0},
            [LIN_SRC] = {is_shared(layer) ? "lin.weight" : "lin_src.weight", 2,
                         layer->d_in[relation->source]},
            [LIN_DST] = {"lin_dst.weight", 2, layer->d_in[relation->target]},
            [LIN_EDGE] = {"lin_edge.weight", 2, relation->feat_dim},
            [RES] = {"res.weight", 2, layer->d_in[relation->target]},
        };
        for (uint32_t k = 0; k < N_TENSORS; k++) {
            const uint64_t matrix[] = {rows, own[k].columns};
            if (!has(layer, r, k))
                continue;
            tensors[sl_relation_place(layer, r, k)] = sl_relation_tensor(
                layer, r, own[k].name, own[k].rank, own[k].rank == 3 ? vector : matrix,
                k == BIAS          ? 0
                : own[k].rank == 3 ? of_vector
                                   : sl_layer_glorot_bound(rows, own[k].columns));
        }
    }
}

static uint32_t lin_of(const struct sl_typed_layer *layer, bool source)
{
    return source || is_shared(layer) ? LIN_SRC : LIN_DST;
}

static struct sl_attention_side side_of(const struct sl_typed_layer *layer, const float *params,
                                        const struct sl_typed_tape *tape, uint32_t i,
                                        const struct sl_attention_run *own, bool source)
{
    const struct sl_typed_run *run = &tape->run[i];
    const struct sl_relation *r = &layer->typed->relation[run->relation];
    const uint32_t t = source ? r->source : r->target;
    return (struct sl_attention_side){
        .x = source ? sl_typed_attention_rows(layer, tape, i, own) : tape->x[t],
        .rows = source ? own->edges.csr.n_src : run->csr.n_dst,
        .d_in = layer->d_in[t],
        .lin = params + sl_relation_offset(layer, run->relation, lin_of(layer, source)),
        .att = params + sl_relation_offset(layer, run->relation, source ? ATT_SRC : ATT_DST),
    };
}

static struct sl_attention_side edge_side_of(const struct sl_typed_layer *layer,
                                             const float *params, const struct sl_typed_run *run)
{
    return (struct sl_attention_side){
        .x = run->edges,
        .rows = run->csr.n_edges,
        .d_in = layer->typed->relation[run->relation].feat_dim,
        .lin = params + sl_relation_offset(layer, run->relation, LIN_EDGE),
        .att = params + sl_relation_offset(layer, run->relation, ATT_EDGE),
    };
}

static struct sl_attention_gradient gradient_of(const struct sl_typed_layer *layer,
                                                const struct sl_typed_run *run, float *gradient,
                                                float *dx, bool source)
{
    return (struct sl_attention_gradient){
        .lin = gradient + sl_relation_offset(layer, run->relation, lin_of(layer, source)),
        .att = gradient + sl_relation_offset(layer, run->relation, source ? ATT_SRC : ATT_DST),
        .dx = dx,
    };
}

static int make(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                const float *params, const struct sl_typed_tape *tape, uint32_t i,
                struct sl_attention_run *own)
{
    const uint64_t at = sl_relation_offset(layer, tape->run[i].relation, LIN_SRC);
    return sl_typed_attention_sources(env, layer, tape, i, params + at, NULL, own);
}

static int attend(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                  const float *params, const struct sl_typed_tape *tape, uint32_t i,
                  struct sl_attention_run *own, float *alpha)
{
    struct sl_attention_edges *edges = &own->edges;
    const struct sl_attention a = sl_typed_attention_of(layer);
    const struct sl_attention_side src = side_of(layer, params, tape, i, own, true);
    const struct sl_attention_side dst = side_of(layer, params, tape, i, own, false);
    float *score_src, *score_dst;
    SL_TRY(sl_attention_scores(env, &a, &src, &score_src));
    SL_TRY(sl_attention_scores(env, &a, &dst, &score_dst));
    if (own->has_term) {
        const struct sl_attention_side of_edges = edge_side_of(layer, params, &tape->run[i]);
        SL_TRY(sl_attention_add_term(env, &a, &of_edges, &edges->csr, &score_src));
    }
    edges->score_src = score_src;
    edges->score_dst = score_dst;
    return sl_attention_shares(env, &edges->scored, a.heads, score_src, score_dst, alpha);
}

// Of the run's term, as sl_attention_term_backward().
static int term_backward(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                         const float *params, const struct sl_typed_run *run,
                         const struct sl_attention_run *own, float *gradient, float **dscore)
{
    const struct sl_attention a = sl_typed_attention_of(layer);
    const struct sl_attention_side side = edge_side_of(layer, params, run);
    const struct sl_attention_gradient to = {
        .lin = gradient + sl_relation_offset(layer, run->relation, LIN_EDGE),
        .att = gradient + sl_relation_offset(layer, run->relation, ATT_EDGE),
    };
    return sl_attention_term_backward(env, &a, &side, own->picks ? NULL : &own->edges.csr, &to,
                                      dscore);
}

static int run_backward(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                        const float *params, const struct sl_typed_tape *tape, uint32_t i,
                        const struct sl_attention_run *own, const float *dheads, float *gradient,
                        const struct sl_attention_rows_gradient *dx)
{
    const struct sl_typed_run *run = &tape->run[i];
    const struct sl_attention a = sl_typed_attention_of(layer);
    const struct sl_attention_side src = side_of(layer, params, tape, i, own, true);
    const struct sl_attention_side dst = side_of(layer, params, tape, i, own, false);
    const struct sl_attention_gradient to_src = gradient_of(layer, run, gradient, dx->src, true);
    const struct sl_attention_gradient to_dst = gradient_of(layer, run, gradient, dx->dst, false);
    const struct sl_layer lin = {.d_in = src.d_in, .d_out = layer->d_out};
    const struct sl_layer_gradient of = {src.x, to_src.lin, src.d_in, false};
    float *dscore_src, *dscore_dst, *dz = sl_layer_floats(env, src.rows * layer->d_out);
    if (!dz)
        return SL_ENOMEM;
    SL_TRY(sl_attention_backward(env, &a, &own->edges, dheads, dz, &dscore_src, &dscore_dst));
    SL_TRY(sl_layer_product_gradient(env, &lin, dz, &of, src.rows));
    if (dx->src)
        SL_TRY(sl_layer_product_backward(env, &lin, dz, src.rows, src.lin, !dx->assign, dx->src));
    if (own->has_term)
        SL_TRY(term_backward(env, layer, params, run, own, gradient, &dscore_src));
    SL_TRY(sl_attention_scores_backward(env, &a, &src, dscore_src, &to_src));
    return sl_attention_scores_backward(env, &a, &dst, dscore_dst, &to_dst);
}

static const struct sl_typed_attention attention = {
    .residual = RES,
    .make = make,
    .attend = attend,
    .backward = run_backward,
};

const struct sl_typed_kind sl_typed_rgat = {
    .name = "rgat",
    .per_relation = N_TENSORS,
    .has = has,
    .bias = BIAS,
    .check = sl_typed_attention_check,
    .describe = describe,
    .attention = &attention,
    .forward = sl_typed_attention_forward,
    .backward = sl_typed_attention_backward,
};
