#include "trainer/model/typed_attention.h"

#include "common/base/error.h"
#include "common/base/philox.h"

int sl_typed_attention_check(const struct sl_typed_layer *layer)
{
    const struct sl_typed *typed = layer->typed;
    for (uint32_t i = 0; i < typed->n_relations && layer->options->share_weights; i++) {
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

struct sl_attention sl_typed_attention_of(const struct sl_typed_layer *layer)
{
    const uint32_t heads = layer->options->heads;
    return (struct sl_attention){heads, layer->d_out / heads};
}

bool sl_typed_attention_has_term(const struct sl_typed_layer *layer, uint32_t relation)
{
    return layer->options->edge_features && layer->typed->relation[relation].feat_dim > 0;
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
                      const struct sl_typed_run *run, struct sl_attention_run *own)
{
    const struct sl_csr_view *csr = &run->csr;
    *own = (struct sl_attention_run){.edges = {.csr = *csr, .scored = *csr},
                                     .picks = csr->n_edges < csr->n_src,
                                     .has_term = run->edges &&
                                                 sl_typed_attention_has_term(layer, run->relation)};
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

static uint32_t source_of(const struct sl_typed_layer *layer, const struct sl_typed_run *run)
{
    return layer->typed->relation[run->relation].source;
}

static uint32_t target_of(const struct sl_typed_layer *layer, const struct sl_typed_run *run)
{
    return layer->typed->relation[run->relation].target;
}

static bool is_kept(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                    const struct sl_typed_attention *kind, const struct sl_typed_tape *tape,
                    uint32_t i)
{
    const struct sl_typed_run *run = &tape->run[i];
    const struct sl_attention_run *own = (const struct sl_attention_run *)tape->own + i;
    const uint32_t d_in = layer->d_in[source_of(layer, run)];
    const uint64_t floats =
        own->edges.csr.n_src * ((uint64_t)layer->d_out + (own->picks ? d_in : 0)) +
        (kind->more_floats ? kind->more_floats(layer, run, own) : 0);
    return tape->training &&
           env->pool->used_bytes + floats * sizeof(float) <= layer->options->kept_bytes;
}

const float *sl_typed_attention_rows(const struct sl_typed_layer *layer,
                                     const struct sl_typed_tape *tape, uint32_t i,
                                     const struct sl_attention_run *own)
{
    return own->picked ? own->picked : tape->x[source_of(layer, &tape->run[i])];
}

int sl_typed_attention_sources(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                               const struct sl_typed_tape *tape, uint32_t i, const float *weight,
                               const float *bias, struct sl_attention_run *own)
{
    const struct sl_csr_view *csr = &tape->run[i].csr;
    const uint32_t source = source_of(layer, &tape->run[i]);
    const struct sl_layer lin = {.d_in = layer->d_in[source], .d_out = layer->d_out};
    struct sl_layer_epilogue add = {.offered = bias, .bias = bias, .act = SL_ACT_NONE};
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
    return sl_layer_last_product(env, &lin, sl_typed_attention_rows(layer, tape, i, own), rows,
                                 weight, 0, z, &add);
}

// The shares of a run, from its matrices.
static int attend(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                  const struct sl_typed_attention *kind, const float *params,
                  const struct sl_typed_tape *tape, uint32_t i)
{
    const struct sl_typed_run *run = &tape->run[i];
    struct sl_attention_run *own = (struct sl_attention_run *)tape->own + i;
    const uint32_t heads = layer->options->heads;
    float *alpha = sl_layer_floats(env, (uint64_t)run->csr.n_edges * heads);
    if (!alpha)
        return SL_ENOMEM;
    own->edges.dropout = tape->dropout;
    own->edges.dropout.seed = sl_rng_relation_seed(tape->dropout.seed, run->relation);
    own->edges.scale = sl_typed_scale(layer, target_of(layer, run));
    SL_TRY(kind->attend(env, layer, params, tape, i, own, alpha));
    return keep(env, heads, alpha, &own->edges);
}

// y[t] = or += the sums over a run's neighbours; these are in memory of `once`.
static int add_run(const struct sl_layer_env *env, const struct sl_layer_env *once,
                   const struct sl_typed_layer *layer, const struct sl_attention_edges *edges,
                   const float *zero, float **y)
{
    const struct sl_attention a = sl_typed_attention_of(layer);
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
                        uint32_t k, const float *params, const struct sl_typed_tape *tape,
                        uint32_t t)
{
    const struct sl_layer as = {.d_in = layer->d_in[t], .d_out = layer->d_out};
    const float *weight;
    if (!layer->options->residual)
        return SL_OK;
    SL_TRY(sl_typed_combine(env, layer, params, t, k, &weight));
    return weight ? sl_layer_product(env, &as, tape->x[t], tape->n_dst[t], weight, 1, tape->y[t])
                  : SL_OK;
}

int sl_typed_attention_forward(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                               const float *params, struct sl_typed_tape *tape)
{
    const struct sl_typed_attention *kind = layer->kind->attention;
    struct sl_attention_run *own = sl_layer_note(env, (tape->n_runs + 1) * sizeof *own);
    float *zero = sl_layer_floats(env, 1);
    if (!own || !zero)
        return SL_ENOMEM;
    tape->own = own;
    SL_TRY(env->device->fill(zero, 0, sizeof *zero));
    for (uint32_t i = 0; i < tape->n_runs; i++) {
        const struct sl_layer_env once = passing(env);
        SL_TRY(take_edges(env, layer, &tape->run[i], &own[i]));
        const bool keeps = is_kept(env, layer, kind, tape, i);
        SL_TRY(kind->make(keeps ? env : &once, layer, params, tape, i, &own[i]));
        SL_TRY(attend(env, layer, kind, params, tape, i));
        SL_TRY(add_run(env, &once, layer, &own[i].edges, zero,
                       &tape->y[target_of(layer, &tape->run[i])]));
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
        SL_TRY(add_residual(env, layer, kind->residual, params, tape, t));
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

static int run_backward(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                        const struct sl_typed_attention *kind, const float *params,
                        const struct sl_typed_tape *tape, uint32_t i, const float *dheads,
                        float *gradient, float **dx)
{
    const struct sl_typed_run *run = &tape->run[i];
    const struct sl_layer_env once = passing(env);
    const uint32_t source = source_of(layer, run), dim = layer->d_in[source];
    struct sl_attention_run own = ((const struct sl_attention_run *)tape->own)[i];
    float *const to = dx ? dx[source] : NULL;
    if (!own.edges.z)
        SL_TRY(kind->make(&once, layer, params, tape, i, &own));
    struct sl_attention_rows_gradient rows = {
        .src = to, .dst = dx ? dx[target_of(layer, run)] : NULL, .assign = own.picked && to};
    if (rows.assign)
        rows.src = sl_layer_floats(&once, (uint64_t)own.edges.csr.n_src * dim);
    if (rows.assign && !rows.src)
        return SL_ENOMEM;
    SL_TRY(kind->backward(&once, layer, params, tape, i, &own, dheads, gradient, &rows));
    return rows.assign ? unpick(&once, run, dim, rows.src, to) : SL_OK;
}

// Of add_residual(): its gradient, and dx (NULL: not asked for) +=.
static int residual_backward(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                             uint32_t k, const float *params, const struct sl_typed_tape *tape,
                             uint32_t t, const float *dy, float *gradient, float *dx)
{
    const struct sl_layer as = {.d_in = layer->d_in[t], .d_out = layer->d_out};
    const float *weight;
    float *room;
    if (!layer->options->residual || tape->n_dst[t] == 0)
        return SL_OK;
    SL_TRY(sl_typed_combine(env, layer, params, t, k, &weight));
    SL_TRY(sl_typed_gradient_room(env, layer, gradient, t, k, &room));
    if (!weight)
        return SL_OK;
    const struct sl_layer_gradient own = {tape->x[t], room, as.d_in, false};
    SL_TRY(sl_layer_product_gradient(env, &as, dy, &own, tape->n_dst[t]));
    SL_TRY(sl_typed_spread(env, layer, room, t, k, gradient));
    return dx ? sl_layer_product_backward(env, &as, dy, tape->n_dst[t], weight, 1, dx) : SL_OK;
}

int sl_typed_attention_backward(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                                const float *params, const struct sl_typed_tape *tape, float **dy,
                                float *gradient, float **dx)
{
    const struct sl_typed_attention *kind = layer->kind->attention;
    const struct sl_layer as = {.d_out = layer->d_out};
    for (uint32_t t = 0; t < layer->typed->n_types; t++) {
        if (tape->n_dst[t] > 0)
            SL_TRY(sl_layer_apply_before(env, &as, &tape->before[t], dy[t], tape->n_dst[t]));
        if (dx && dx[t] && tape->n_src[t] > 0)
            SL_TRY(env->device->fill(dx[t], 0,
                                     (uint64_t)tape->n_src[t] * layer->d_in[t] * sizeof *dx[t]));
    }
    for (uint32_t i = 0; i < tape->n_runs; i++)
        SL_TRY(run_backward(env, layer, kind, params, tape, i, dy[target_of(layer, &tape->run[i])],
                            gradient, dx));
    for (uint32_t t = 0; t < layer->typed->n_types; t++)
        SL_TRY(residual_backward(env, layer, kind->residual, params, tape, t, dy[t], gradient,
                                 dx ? dx[t] : NULL));
    return SL_OK;
}
