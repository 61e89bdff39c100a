/*
 * typed_rgat.c - graph attention by relation, as torch_geometric.nn.HeteroConv of GATConv((-1, -1),
 * d / H, heads=H, add_self_loops=False), the reference of MLPerf's benchmark on IGBH:
 *
 *   y_i = sum or mean over the relations r that lead to i's type of
 *         sum over i's drawn neighbours j in r of alpha_ij lin_src_r(x_j), and bias_r
 *
 *   of each relation att_src (1, H, C), att_dst (1, H, C), bias (d_out), lin_src.weight (H*C, d_in
 *   of the source type), lin_dst.weight (H*C, d_in of the target type); with model.share_weights
 *   lin.weight is both, as of GATConv(d_in, d / H, ...), and the two types are of one width
 *
 * alpha is as in layer_gat.c, of scores <att_src_h, lin_src_r(x_j)_h> + <att_dst_h,
 * lin_dst_r(x_i)_h>. A vertex is no neighbour of itself unless there is such an edge, and a row
 * without edges has the bias alone. The heads are side by side (H*C = d_out) in every layer.
 *
 * With model.residual a relation adds res_r(x_i), too, res.weight (d_out, d_in of the target type),
 * with edges or without: so all of a type are one product with their weights' sum.
 *
 * EDGES with features e_ij, where model.edge_features reads them, have a term in the scores
 * (attention.h): att_edge (1, H, C), lin_edge.weight (H*C, width of the relation's features).
 * Relations without features have neither.
 *
 * SOURCES of a relation are all vertices of their type that the batch knows, and it may touch few
 * of them, where others found them. A relation with fewer edges than sources reads a row for each
 * of its edges, gathered before the product with lin_src: its sources are its edges then.
 *
 * MEMORY. What lin_src makes of a relation's sources are heads x C floats for each of them, far
 * more than all else that backward needs. They are kept for it as long as the batch has taken less
 * than kept_bytes (layer.h). Those of the other relations are made again, to the same bits, by one
 * product more beside the three that training has: of them no more than one relation's are there at
 * a time, as of all that backward alone needs. Without training none are kept.
 */
#include "trainer/model/typed_layer.h"

#include "common/base/error.h"
#include "common/base/philox.h"
#include "trainer/model/attention.h"

enum { ATT_SRC, ATT_DST, ATT_EDGE, BIAS, LIN_SRC, LIN_DST, LIN_EDGE, RES, N_TENSORS };

// What forward leaves of a run: its edges, of which z is NULL where it is to be made again.
struct run {
    struct sl_attention_edges edges;
    bool picks;          // its sources are its edges
    const float *picked; // then their rows (n_edges, d_in of the source type), as long as z
    bool has_term;       // of its edges' features
};

static bool is_shared(const struct sl_typed_layer *layer)
{
    return layer->options->share_weights;
}

// One weight is in the place of LIN_SRC.
static bool has(const struct sl_typed_layer *layer, uint32_t relation, uint32_t k)
{
    if (k == ATT_EDGE || k == LIN_EDGE)
        return layer->options->edge_features && layer->typed->relation[relation].feat_dim > 0;
    if (k == RES)
        return layer->options->residual;
    return k != LIN_DST || !is_shared(layer);
}

static struct sl_attention attention_of(const struct sl_typed_layer *layer)
{
    const uint32_t heads = layer->options->heads;
    return (struct sl_attention){heads, layer->d_out / heads};
}

static int check(const struct sl_typed_layer *layer)
{
    const struct sl_typed *typed = layer->typed;
    for (uint32_t i = 0; i < typed->n_relations && is_shared(layer); i++) {
        const struct sl_relation *r = &typed->relation[i];
        if (layer->d_in[r->source] != layer->d_in[r->target])
            return sl_fail(
                SL_EINVAL,
                "model.share_weights: found true with relation '%s' from '%s', of "
                "width %u, to '%s', of %u, wanted the same width of both (a type without "
                "features has 1): set it to false",
                r->name, typed->type[r->source].name, layer->d_in[r->source],
                typed->type[r->target].name, layer->d_in[r->target]);
    }
    return sl_typed_check_heads(layer);
}

static uint32_t count(const struct sl_typed_layer *layer)
{
    return layer->n_placed;
}

static void describe(const struct sl_typed_layer *layer, struct sl_tensor *tensors)
{
    const struct sl_attention a = attention_of(layer);
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
                                        const struct run *own, bool source)
{
    const struct sl_typed_run *run = &tape->run[i];
    const struct sl_relation *r = &layer->typed->relation[run->relation];
    const uint32_t t = source ? r->source : r->target;
    return (struct sl_attention_side){
        .x = source && own->picked ? own->picked : tape->x[t],
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
                                                float **dx, bool source)
{
    const struct sl_relation *r = &layer->typed->relation[run->relation];
    return (struct sl_attention_gradient){
        .lin = gradient + sl_relation_offset(layer, run->relation, lin_of(layer, source)),
        .att = gradient + sl_relation_offset(layer, run->relation, source ? ATT_SRC : ATT_DST),
        .dx = dx ? dx[source ? r->source : r->target] : NULL,
    };
}

// What rows of z are multiplied by: the shares after dropout, times the scale.
static int keep(const struct sl_layer_env *env, uint32_t heads, float *alpha,
                struct sl_attention_edges *edges)
{
    const uint64_t n = (uint64_t)edges->csr.n_edges * heads;
    const float *slots[] = {alpha};
    edges->alpha = edges->kept = alpha;
    if (edges->dropout.rate <= 0 && edges->scale == 1)
        return SL_OK;
    float *kept = sl_layer_floats(env, n);
    if (!kept)
        return SL_ENOMEM;
    edges->kept = kept;
    SL_TRY(env->kernels->reduce(slots, 1, n, edges->scale, kept));
    return edges->dropout.rate > 0
               ? env->kernels->dropout(kept, edges->csr.n_edges, heads, &edges->dropout)
               : SL_OK;
}

// The edges of a run, whose sources are themselves where that is less, or where scores need it.
static int take_edges(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                      const struct sl_typed_run *run, struct run *own)
{
    const struct sl_csr_view *csr = &run->csr;
    *own = (struct run){.edges = {.csr = *csr, .scored = *csr},
                        .picks = csr->n_edges < csr->n_src,
                        .has_term = run->edges && has(layer, run->relation, ATT_EDGE)};
    if (!own->picks && !own->has_term)
        return SL_OK;
    SL_TRY(sl_attention_own_sources(env, csr, &own->edges.scored));
    if (own->picks)
        own->edges.csr = own->edges.scored;
    return SL_OK;
}

// Memory of a run that lasts until the next one.
static struct sl_layer_env passing(const struct sl_layer_env *env)
{
    struct sl_layer_env once = *env;
    once.pool = env->scratch;
    sl_mempool_reset(once.pool);
    return once;
}

static bool is_kept(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                    const struct sl_typed_tape *tape, uint32_t i)
{
    const struct run *own = (const struct run *)tape->own + i;
    const uint32_t d_in = layer->d_in[layer->typed->relation[tape->run[i].relation].source];
    const uint64_t row = (layer->d_out + (own->picks ? d_in : 0)) * sizeof(float);
    return tape->training &&
           env->pool->used_bytes + own->edges.csr.n_src * row <= layer->options->kept_bytes;
}

// What lin_src makes of the run's sources, and of a run that picks their rows.
static int make_sources(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                        const float *params, const struct sl_typed_tape *tape, uint32_t i,
                        struct run *own)
{
    const struct sl_typed_run *run = &tape->run[i];
    const struct sl_csr_view *csr = &run->csr;
    const uint32_t source = layer->typed->relation[run->relation].source;
    const struct sl_layer lin = {.d_in = layer->d_in[source], .d_out = layer->d_out};
    const float *weight = params + sl_relation_offset(layer, run->relation, LIN_SRC);
    const uint64_t rows = own->edges.csr.n_src;
    float *picked = own->picks ? sl_layer_floats(env, rows * lin.d_in) : NULL;
    float *z = sl_layer_floats(env, rows * layer->d_out);
    if (!z || (own->picks && !picked))
        return SL_ENOMEM;
    if (picked)
        SL_TRY(env->kernels->gather_rows(tape->x[source], SL_DTYPE_F32, csr->n_src, lin.d_in,
                                         csr->indices, csr->n_edges, picked));
    own->picked = picked;
    own->edges.z = z;
    return sl_layer_product(env, &lin, picked ? picked : tape->x[source], rows, weight, 0, z);
}

static int attend(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                  const float *params, const struct sl_typed_tape *tape, uint32_t i)
{
    const struct sl_typed_run *run = &tape->run[i];
    struct run *own = (struct run *)tape->own + i;
    struct sl_attention_edges *edges = &own->edges;
    const struct sl_attention a = attention_of(layer);
    const struct sl_attention_side src = side_of(layer, params, tape, i, own, true);
    const struct sl_attention_side dst = side_of(layer, params, tape, i, own, false);
    float *score_src, *score_dst;
    float *alpha = sl_layer_floats(env, (uint64_t)run->csr.n_edges * a.heads);
    if (!alpha)
        return SL_ENOMEM;
    edges->dropout = tape->dropout;
    edges->dropout.seed = sl_rng_relation_seed(tape->dropout.seed, run->relation);
    edges->scale = sl_typed_scale(layer, layer->typed->relation[run->relation].target);
    SL_TRY(sl_attention_scores(env, &a, &src, &score_src));
    SL_TRY(sl_attention_scores(env, &a, &dst, &score_dst));
    if (own->has_term) {
        const struct sl_attention_side of_edges = edge_side_of(layer, params, run);
        SL_TRY(sl_attention_add_term(env, &a, &of_edges, &edges->csr, &score_src));
    }
    edges->score_src = score_src;
    edges->score_dst = score_dst;
    SL_TRY(sl_attention_shares(env, &edges->scored, a.heads, score_src, score_dst, alpha));
    return keep(env, a.heads, alpha, edges);
}

// y[t] = or += the sums over a run's neighbours; these are in memory of `once`.
static int add_run(const struct sl_layer_env *env, const struct sl_layer_env *once,
                   const struct sl_typed_layer *layer, const struct sl_attention_edges *edges,
                   const float *zero, float **y)
{
    const struct sl_attention a = attention_of(layer);
    const uint64_t n = (uint64_t)edges->csr.n_dst * layer->d_out;
    float *sums = sl_layer_floats(*y ? once : env, n);
    if (!sums)
        return SL_ENOMEM;
    const struct sl_aggregate_heads_args args = {.csr = edges->csr,
                                                 .heads = a.heads,
                                                 .dim = a.width,
                                                 .x = edges->z,
                                                 .weight = edges->kept,
                                                 .y = sums};
    SL_TRY(env->kernels->aggregate_heads(&args));
    if (*y)
        return env->kernels->add_scaled(n, 1, zero, sums, *y);
    *y = sums;
    return SL_OK;
}

// y[t] += what the relations that lead to t add of its own rows.
static int add_residual(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                        const float *params, const struct sl_typed_tape *tape, uint32_t t)
{
    const struct sl_layer as = {.d_in = layer->d_in[t], .d_out = layer->d_out};
    const float *weight;
    if (!layer->options->residual)
        return SL_OK;
    SL_TRY(sl_typed_combine(env, layer, params, t, RES, &weight));
    return weight ? sl_layer_product(env, &as, tape->x[t], tape->n_dst[t], weight, 1, tape->y[t])
                  : SL_OK;
}

static int forward(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                   const float *params, struct sl_typed_tape *tape)
{
    struct run *own = sl_layer_note(env, (tape->n_runs + 1) * sizeof *own);
    float *zero = sl_layer_floats(env, 1);
    if (!own || !zero)
        return SL_ENOMEM;
    tape->own = own;
    SL_TRY(env->device->fill(zero, 0, sizeof *zero));
    for (uint32_t i = 0; i < tape->n_runs; i++) {
        const struct sl_layer_env once = passing(env);
        SL_TRY(take_edges(env, layer, &tape->run[i], &own[i]));
        const bool keeps = is_kept(env, layer, tape, i);
        SL_TRY(make_sources(keeps ? env : &once, layer, params, tape, i, &own[i]));
        SL_TRY(attend(env, layer, params, tape, i));
        SL_TRY(add_run(env, &once, layer, &own[i].edges, zero,
                       &tape->y[layer->typed->relation[tape->run[i].relation].target]));
        if (!keeps)
            own[i].picked = own[i].edges.z = NULL;
    }
    for (uint32_t t = 0; t < layer->typed->n_types; t++) {
        const uint64_t n = (uint64_t)tape->n_dst[t] * layer->d_out;
        if (n == 0)
            continue;
        if (!tape->y[t]) {
            tape->y[t] = sl_layer_floats(env, n);
            if (!tape->y[t])
                return SL_ENOMEM;
            SL_TRY(env->device->fill(tape->y[t], 0, n * sizeof *tape->y[t]));
        }
        SL_TRY(add_residual(env, layer, params, tape, t));
    }
    return SL_OK;
}

// Gives the gradient of picked rows to the rows that they are copies of.
static int unpick(const struct sl_layer_env *env, const struct sl_typed_run *run, uint32_t dim,
                  const float *dpicked, float *dx)
{
    float *sums, *zero = sl_layer_floats(env, 1);
    if (!zero)
        return SL_ENOMEM;
    SL_TRY(env->device->fill(zero, 0, sizeof *zero));
    SL_TRY(sl_attention_sum_edges(env, &run->csr, dim, dpicked, &sums));
    return env->kernels->add_scaled((uint64_t)run->csr.n_src * dim, 1, zero, sums, dx);
}

// Of the run's term, as sl_attention_term_backward().
static int term_backward(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                         const float *params, const struct sl_typed_run *run, const struct run *own,
                         float *gradient, float **dscore)
{
    const struct sl_attention a = attention_of(layer);
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
                        const float *dheads, float *gradient, float **dx)
{
    const struct sl_typed_run *run = &tape->run[i];
    const struct sl_attention a = attention_of(layer);
    const struct sl_layer_env once = passing(env);
    struct run own = ((const struct run *)tape->own)[i];
    if (!own.edges.z)
        SL_TRY(make_sources(&once, layer, params, tape, i, &own));
    const struct sl_attention_side src = side_of(layer, params, tape, i, &own, true);
    const struct sl_attention_side dst = side_of(layer, params, tape, i, &own, false);
    struct sl_attention_gradient to_src = gradient_of(layer, run, gradient, dx, true);
    const struct sl_attention_gradient to_dst = gradient_of(layer, run, gradient, dx, false);
    const struct sl_layer lin = {.d_in = src.d_in, .d_out = layer->d_out};
    const struct sl_layer_gradient of = {src.x, to_src.lin, src.d_in, false};
    const bool picks = own.picked && to_src.dx;
    float *const to = to_src.dx;
    float *dscore_src, *dscore_dst, *dz = sl_layer_floats(&once, src.rows * layer->d_out);
    if (picks)
        to_src.dx = sl_layer_floats(&once, src.rows * src.d_in);
    if (!dz || (picks && !to_src.dx))
        return SL_ENOMEM;
    SL_TRY(sl_attention_backward(&once, &a, &own.edges, dheads, dz, &dscore_src, &dscore_dst));
    SL_TRY(sl_layer_product_gradient(&once, &lin, dz, &of, src.rows));
    if (to_src.dx)
        SL_TRY(sl_layer_product_backward(&once, &lin, dz, src.rows, src.lin, !picks, to_src.dx));
    if (own.has_term)
        SL_TRY(term_backward(&once, layer, params, run, &own, gradient, &dscore_src));
    SL_TRY(sl_attention_scores_backward(&once, &a, &src, dscore_src, &to_src));
    SL_TRY(sl_attention_scores_backward(&once, &a, &dst, dscore_dst, &to_dst));
    return picks ? unpick(&once, run, src.d_in, to_src.dx, to) : SL_OK;
}

// Of add_residual(): its gradient, and dx (NULL: not asked for) +=.
static int residual_backward(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                             const float *params, const struct sl_typed_tape *tape, uint32_t t,
                             const float *dy, float *gradient, float *dx)
{
    const struct sl_layer as = {.d_in = layer->d_in[t], .d_out = layer->d_out};
    const float *weight;
    float *room;
    if (!layer->options->residual || tape->n_dst[t] == 0)
        return SL_OK;
    SL_TRY(sl_typed_combine(env, layer, params, t, RES, &weight));
    SL_TRY(sl_typed_gradient_room(env, layer, gradient, t, RES, &room));
    if (!weight)
        return SL_OK;
    const struct sl_layer_gradient own = {tape->x[t], room, as.d_in, false};
    SL_TRY(sl_layer_product_gradient(env, &as, dy, &own, tape->n_dst[t]));
    SL_TRY(sl_typed_spread(env, layer, room, t, RES, gradient));
    return dx ? sl_layer_product_backward(env, &as, dy, tape->n_dst[t], weight, 1, dx) : SL_OK;
}

static int backward(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                    const float *params, const struct sl_typed_tape *tape, float **dy,
                    float *gradient, float **dx)
{
    const struct sl_layer as = {.d_out = layer->d_out};
    for (uint32_t t = 0; t < layer->typed->n_types; t++) {
        if (tape->n_dst[t] > 0)
            SL_TRY(sl_layer_apply_before(env, &as, &tape->before[t], dy[t], tape->n_dst[t]));
        if (dx && dx[t] && tape->n_src[t] > 0)
            SL_TRY(env->device->fill(dx[t], 0,
                                     (uint64_t)tape->n_src[t] * layer->d_in[t] * sizeof *dx[t]));
    }
    for (uint32_t i = 0; i < tape->n_runs; i++)
        SL_TRY(run_backward(env, layer, params, tape, i,
                            dy[layer->typed->relation[tape->run[i].relation].target], gradient,
                            dx));
    for (uint32_t t = 0; t < layer->typed->n_types; t++)
        SL_TRY(residual_backward(env, layer, params, tape, t, dy[t], gradient, dx ? dx[t] : NULL));
    return SL_OK;
}

const struct sl_typed_kind sl_typed_rgat = {
    .name = "rgat",
    .per_relation = N_TENSORS,
    .has = has,
    .bias = BIAS,
    .check = check,
    .count = count,
    .describe = describe,
    .forward = forward,
    .backward = backward,
};
