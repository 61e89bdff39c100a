/*
 * typed_rsage.c - GraphSAGE by relation, as torch_geometric.nn.HeteroConv of SAGEConv((-1, -1), d):
 *
 *   y_i = sum or mean over the relations r that lead to i's type of
 *         lin_l_r(mean of x_j over i's drawn neighbours in r) + lin_r_r(x_i)
 *
 *   of each relation lin_l.weight (d_out, d_in of the source type), lin_l.bias (d_out),
 *   lin_r.weight (d_out, d_in of the target type)
 *
 * The mean of no neighbours is zero, and a relation without edges still adds its bias and its
 * lin_r. All lin_r of a type are one product, with the sum of their weights; it and the products
 * with the means are made two at a time, in one pass over y.
 */
#include "trainer/model/typed_layer.h"

#include "common/base/error.h"

enum { LIN_L_WEIGHT, LIN_L_BIAS, LIN_R_WEIGHT, N_TENSORS };

static void describe(const struct sl_typed_layer *layer, struct sl_tensor *tensors)
{
    for (uint32_t r = 0; r < layer->typed->n_relations; r++, tensors += N_TENSORS) {
        const struct sl_relation *relation = &layer->typed->relation[r];
        const uint64_t left[] = {layer->d_out, layer->d_in[relation->source]};
        const uint64_t right[] = {layer->d_out, layer->d_in[relation->target]};
        const float bound = sl_layer_linear_bound(left[1]);
        tensors[LIN_L_WEIGHT] = sl_relation_tensor(layer, r, "lin_l.weight", 2, left, bound);
        tensors[LIN_L_BIAS] = sl_relation_tensor(layer, r, "lin_l.bias", 1, left, bound);
        tensors[LIN_R_WEIGHT] =
            sl_relation_tensor(layer, r, "lin_r.weight", 2, right, sl_layer_linear_bound(right[1]));
    }
}

// Of the rows of a type: its own, and then the means of its runs.
struct terms {
    uint32_t t, run, end; // runs that are left
    bool own;             // still to come
};

static bool is_run_of(const struct sl_typed_layer *layer, const struct sl_typed_tape *tape,
                      const struct terms *at)
{
    return layer->typed->relation[tape->run[at->run].relation].target == at->t;
}

static struct terms terms_of(const struct sl_typed_layer *layer, const struct sl_typed_tape *tape,
                             uint32_t t)
{
    struct terms at = {.t = t, .end = tape->n_runs, .own = true};
    while (at.run < at.end && !is_run_of(layer, tape, &at))
        at.run++;
    return at;
}

// The next run of the type, or NULL.
static struct sl_typed_run *next_run(const struct sl_typed_layer *layer,
                                     const struct sl_typed_tape *tape, struct terms *at)
{
    if (at->run == at->end)
        return NULL;
    struct sl_typed_run *run = &tape->run[at->run++];
    while (at->run < at->end && !is_run_of(layer, tape, at))
        at->run++;
    return run;
}

static bool is_more(const struct terms *at)
{
    return at->own || at->run < at->end;
}

static struct sl_layer as_layer(const struct sl_typed_layer *layer)
{
    return (struct sl_layer){.d_out = layer->d_out};
}

static int forward_type(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                        const float *params, struct sl_typed_tape *tape, uint32_t t)
{
    const struct sl_layer wide = as_layer(layer);
    const float *own_weight;
    SL_TRY(sl_typed_combine(env, layer, params, t, LIN_R_WEIGHT, &own_weight));
    tape->y[t] = sl_layer_floats(env, (uint64_t)tape->n_dst[t] * layer->d_out);
    if (!tape->y[t])
        return SL_ENOMEM;
    float beta = 0;
    for (struct terms at = terms_of(layer, tape, t); is_more(&at); beta = 1) {
        struct sl_layer_term terms[2] = {{0}};
        for (int i = 0; i < 2 && is_more(&at); i++) {
            struct sl_typed_run *run = at.own ? NULL : next_run(layer, tape, &at);
            at.own = false;
            if (!run) {
                terms[i] = (struct sl_layer_term){tape->x[t], own_weight, layer->d_in[t], false};
                continue;
            }
            const uint32_t source = layer->typed->relation[run->relation].source;
            SL_TRY(sl_typed_means(env, layer, tape, sl_typed_scale(layer, t), run));
            terms[i] = (struct sl_layer_term){
                run->aggregated, params + sl_relation_offset(layer, run->relation, LIN_L_WEIGHT),
                layer->d_in[source], false};
        }
        SL_TRY(sl_layer_last_products(env, &wide, terms, tape->n_dst[t], beta, tape->y[t],
                                      is_more(&at) ? NULL : &tape->after[t]));
    }
    return SL_OK;
}

static int forward(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                   const float *params, struct sl_typed_tape *tape)
{
    for (uint32_t t = 0; t < layer->typed->n_types; t++)
        if (tape->n_dst[t] > 0)
            SL_TRY(forward_type(env, layer, params, tape, t));
    return SL_OK;
}

// Gradients of the weights that lead to a type.
static int weights_backward(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                            const struct sl_typed_tape *tape, uint32_t t, float *dy,
                            float *gradient)
{
    const struct sl_layer wide = as_layer(layer);
    struct sl_bias_act_gradient before = tape->before[t];
    float *down;
    SL_TRY(sl_typed_gradient_room(env, layer, gradient, t, LIN_R_WEIGHT, &down));
    for (struct terms at = terms_of(layer, tape, t); is_more(&at);) {
        struct sl_layer_gradient of[2] = {{0}};
        for (int i = 0; i < 2 && is_more(&at); i++) {
            const struct sl_typed_run *run = at.own ? NULL : next_run(layer, tape, &at);
            at.own = false;
            if (!run) {
                of[i] = (struct sl_layer_gradient){tape->x[t], down, layer->d_in[t], false};
                continue;
            }
            const uint32_t source = layer->typed->relation[run->relation].source;
            of[i] = (struct sl_layer_gradient){
                run->aggregated, gradient + sl_relation_offset(layer, run->relation, LIN_L_WEIGHT),
                layer->d_in[source], false};
        }
        SL_TRY(sl_layer_product_gradients(env, &wide, &before, dy, of, tape->n_dst[t]));
        before = (struct sl_bias_act_gradient){0};
    }
    return sl_typed_spread(env, layer, down, t, LIN_R_WEIGHT, gradient);
}

static int run_backward(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                        const float *params, const struct sl_typed_run *run, const float *dy,
                        struct sl_typed_sum *sum)
{
    const struct sl_layer as = {.d_in = layer->d_in[layer->typed->relation[run->relation].source],
                                .d_out = layer->d_out};
    const float *weight = params + sl_relation_offset(layer, run->relation, LIN_L_WEIGHT);
    float *dmeans = sl_layer_floats(env, (uint64_t)run->csr.n_dst * as.d_in);
    if (!dmeans)
        return SL_ENOMEM;
    SL_TRY(sl_layer_product_backward(env, &as, dy, run->csr.n_dst, weight, 0, dmeans));
    return sl_typed_means_backward(env, layer, run, dmeans, sum);
}

static int backward(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                    const float *params, const struct sl_typed_tape *tape, float **dy,
                    float *gradient, float **dx)
{
    const uint32_t n_types = layer->typed->n_types;
    for (uint32_t t = 0; t < n_types; t++)
        if (tape->n_dst[t] > 0)
            SL_TRY(weights_backward(env, layer, tape, t, dy[t], gradient));
    if (!dx)
        return SL_OK;
    struct sl_typed_sum sum;
    SL_TRY(sl_typed_sum_begin(env, layer, dx, &sum));
    for (uint32_t i = 0; i < tape->n_runs; i++) {
        const struct sl_typed_run *run = &tape->run[i];
        const uint32_t target = layer->typed->relation[run->relation].target;
        if (dx[layer->typed->relation[run->relation].source])
            SL_TRY(run_backward(env, layer, params, run, dy[target], &sum));
    }
    SL_TRY(sl_typed_fill_rest(env, layer, tape, &sum));
    for (uint32_t t = 0; t < n_types; t++) {
        const struct sl_layer as = {.d_in = layer->d_in[t], .d_out = layer->d_out};
        const float *own;
        if (tape->n_dst[t] == 0 || !dx[t])
            continue;
        SL_TRY(sl_typed_combine(env, layer, params, t, LIN_R_WEIGHT, &own));
        SL_TRY(sl_layer_product_backward(env, &as, dy[t], tape->n_dst[t], own, 1, dx[t]));
    }
    return SL_OK;
}

const struct sl_typed_kind sl_typed_rsage = {
    .name = "rsage",
    .per_relation = N_TENSORS,
    .bias = LIN_L_BIAS,
    .reads_table = true,
    .describe = describe,
    .forward = forward,
    .backward = backward,
};
