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

enum { ATT_SRC, ATT_DST, BIAS, LIN_SRC, LIN_DST, N_TENSORS };
enum { N_SHARED = LIN_DST }; // with one weight, in the place of LIN_SRC

// What forward leaves of a run: its edges, of which z is NULL where it is to be made again.
struct run {
    struct sl_attention_edges edges;
    bool picks;          // its sources are its edges
    const float *picked; // then their rows (n_edges, d_in of the source type), as long as z
};

static bool is_shared(const struct sl_typed_layer *layer)
{
    return layer->kind->per_relation == N_SHARED;
}

static struct sl_attention attention_of(const struct sl_typed_layer *layer)
{
    const uint32_t heads = layer->options->heads;
    return (struct sl_attention){heads, layer->d_out / heads};
}

static int check_shared(const struct sl_typed_layer *layer)
{
    const struct sl_typed *typed = layer->typed;
    for (uint32_t i = 0; i < typed->n_relations; i++) {
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
    return layer->typed->n_relations * layer->kind->per_relation;
}

static void describe(const struct sl_typed_layer *layer, struct sl_tensor *tensors)
{
    const struct sl_attention a = attention_of(layer);
    const uint64_t att[] = {1, a.heads, a.width}, bias[] = {layer->d_out};
    const float bound = sl_layer_glorot_bound(a.heads, a.width);
    for (uint32_t r = 0; r < layer->typed->n_relations; r++, tensors += layer->kind->per_relation) {
        const struct sl_relation *relation = &layer->typed->relation[r];
        const uint64_t src[] = {layer->d_out, layer->d_in[relation->source]};
        const uint64_t dst[] = {layer->d_out, layer->d_in[relation->target]};
        tensors[ATT_SRC] = sl_relation_tensor(layer, r, "att_src", 3, att, bound);
        tensors[ATT_DST] = sl_relation_tensor(layer, r, "att_dst", 3, att, bound);
        tensors[BIAS] = sl_relation_tensor(layer, r, "bias", 1, bias, 0);
        tensors[LIN_SRC] =
            sl_relation_tensor(layer, r, is_shared(layer) ? "lin.weight" : "lin_src.weight", 2, src,
                               sl_layer_glorot_bound(src[0], src[1]));
        if (is_shared(layer))
            continue;
        tensors[LIN_DST] = sl_relation_tensor(layer, r, "lin_dst.weight", 2, dst,
                                              sl_layer_glorot_bound(dst[0], dst[1]));
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

// *out (n, in the pool): 0, 1, ...
static int count_up(const struct sl_layer_env *env, uint32_t n, const uint32_t **out)
{
    uint32_t *numbers = sl_layer_note(env, n * sizeof *numbers);
    if (!numbers)
        return SL_ENOMEM;
    for (uint32_t i = 0; i < n; i++)
        numbers[i] = i;
    return sl_layer_upload_words(env, numbers, n, out);
}

// The edges of a run, whose sources are themselves where that is less.
static int take_edges(const struct sl_layer_env *env, const struct sl_typed_run *run,
                      struct run *own)
{
    const struct sl_csr_view *csr = &run->csr;
    *own = (struct run){.edges = {.csr = *csr}, .picks = csr->n_edges < csr->n_src};
    if (!own->picks)
        return SL_OK;
    own->edges.csr.n_src = csr->n_edges;
    return count_up(env, csr->n_edges, &own->edges.csr.indices);
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
    edges->score_src = score_src;
    edges->score_dst = score_dst;
    SL_TRY(sl_attention_shares(env, &edges->csr, a.heads, score_src, score_dst, alpha));
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
        SL_TRY(take_edges(env, &tape->run[i], &own[i]));
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
        if (n == 0 || tape->y[t])
            continue;
        tape->y[t] = sl_layer_floats(env, n);
        if (!tape->y[t])
            return SL_ENOMEM;
        SL_TRY(env->device->fill(tape->y[t], 0, n * sizeof *tape->y[t]));
    }
    return SL_OK;
}

// Gives the gradient of picked rows to the rows that they are copies of.
static int unpick(const struct sl_layer_env *env, const struct sl_typed_run *run, uint32_t dim,
                  const float *dpicked, float *dx)
{
    const struct sl_csr_view *csr = &run->csr;
    const uint64_t n = (uint64_t)csr->n_src * dim;
    struct sl_csr_view transposed;
    uint32_t *edge;
    float *sums = sl_layer_floats(env, n), *zero = sl_layer_floats(env, 1);
    if (!sums || !zero)
        return SL_ENOMEM;
    SL_TRY(env->device->fill(zero, 0, sizeof *zero));
    SL_TRY(sl_layer_transpose(env, csr, &transposed, &edge));
    transposed.n_src = csr->n_edges; // each source's edges
    transposed.indices = edge;
    const struct sl_aggregate_args args = {
        .csr = transposed, .dim = dim, .x_dtype = SL_DTYPE_F32, .x = dpicked, .y = sums};
    SL_TRY(env->kernels->aggregate(&args));
    return env->kernels->add_scaled(n, 1, zero, sums, dx);
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
    SL_TRY(sl_attention_scores_backward(&once, &a, &src, dscore_src, &to_src));
    SL_TRY(sl_attention_scores_backward(&once, &a, &dst, dscore_dst, &to_dst));
    return picks ? unpick(&once, run, src.d_in, to_src.dx, to) : SL_OK;
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
    return SL_OK;
}

static const struct sl_typed_kind with_one_weight = {
    .name = "rgat",
    .per_relation = N_SHARED,
    .bias = BIAS,
    .check = check_shared,
    .count = count,
    .describe = describe,
    .forward = forward,
    .backward = backward,
};

const struct sl_typed_kind sl_typed_rgat = {
    .name = "rgat",
    .shared = &with_one_weight,
    .per_relation = N_TENSORS,
    .bias = BIAS,
    .check = sl_typed_check_heads,
    .count = count,
    .describe = describe,
    .forward = forward,
    .backward = backward,
};
