/*
 * layer_gin.c - graph isomorphism network (Xu et al., 2019), as torch_geometric.nn.GINConv with the
 * MLP that torch_geometric.nn.models.GIN gives it.
 *
 *   eps (1), nn.lins.0.weight (d_out, d_in), nn.lins.0.bias, nn.lins.1.weight (d_out, d_out),
 *   nn.lins.1.bias, and with a norm nn.norms.0.*
 *
 *   y_i = lins.1( act( norm( lins.0( (1 + eps) x_i + sum over in-neighbours j of x_j ))))
 *
 * The bias of lins.1 is the layer's: what follows it adds it. The MLP's first half is linear up to
 * the norm, so the sum and lins.0 may change places (sl_layer_propagate).
 *
 * UNDER SAMPLING (model.degrees).
 *   graph   the sum over the s_i neighbours that were sampled is scaled by d_i / s_i, the in-degree
 *           in the whole graph over their number. Each neighbour is equally likely to be among
 *           them, so its expectation is the sum over all, which inference computes. Blocks carry
 *           the degrees.
 *   block   the sum is that of the neighbours that were sampled, as with PyTorch Geometric's
 *           NeighborLoader: where a fanout cuts rows it is smaller than that of inference, and a
 *           model that was trained on the one need not do on the other.
 * Either way a row that is whole has the formula's sum. Where edges carry weights (visits of random
 * walks) each neighbour counts by its share of the row's weights, and the row as d_i (graph) or as
 * its number of neighbours (block). Self-loops of the graph are neighbours like any other.
 *
 * eps is learned with model.train_eps; otherwise it is a tensor of the file that no update touches.
 */
#include "trainer/model/layer.h"

#include <stdio.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/data/weightless.h"
#include "trainer/model/norm.h"

enum { EPS, LIN0_WEIGHT, LIN0_BIAS, LIN1_WEIGHT, LIN1_BIAS, NORM };

static const struct sl_dropout NO_DROPOUT;

// What forward leaves for backward.
struct own {
    float *before; // (n_dst, d_out) the sum after lins.0 with its bias; after the activation too
                   // where there is no norm
    float *after;  // (n_dst, d_out) the input of lins.1; `before` where there is no norm
    uint16_t *rounded; // the same as bf16 in padded rows, where sl_layer_rounds(); or NULL
    struct sl_norm_tape norm;
};

static struct sl_norm norm_of(const struct sl_layer *layer)
{
    return (struct sl_norm){
        .kind = layer->options->norm, .dim = layer->d_out, .offset = layer->offset + NORM};
}

static uint32_t describe(const struct sl_layer *layer, struct sl_tensor tensors[SL_LAYER_TENSORS])
{
    const struct sl_layer_options *o = layer->options;
    uint32_t d_in = layer->d_in, d_out = layer->d_out;
    float bound0 = sl_layer_linear_bound(d_in), bound1 = sl_layer_linear_bound(d_out);
    tensors[EPS] = sl_layer_vector(layer, "eps", 1, 0);
    tensors[EPS].init_constant = o->eps;
    tensors[EPS].role = o->train_eps ? SL_TENSOR_LEARNED : SL_TENSOR_FIXED;
    tensors[LIN0_WEIGHT] = sl_layer_matrix(layer, "nn.lins.0.weight", d_out, d_in, bound0);
    tensors[LIN0_BIAS] = sl_layer_vector(layer, "nn.lins.0.bias", d_out, bound0);
    tensors[LIN1_WEIGHT] = sl_layer_matrix(layer, "nn.lins.1.weight", d_out, d_out, bound1);
    tensors[LIN1_BIAS] = sl_layer_vector(layer, "nn.lins.1.bias", d_out, bound1);
    char prefix[SL_TENSOR_NAME_BYTES];
    snprintf(prefix, sizeof prefix, "convs.%u.nn.norms.0", layer->index);
    return NORM + sl_norm_describe(o->norm, d_out, prefix, tensors + NORM);
}

// *out (n_dst, in the pool): what makes of a row's sum that of `degrees` neighbours, or (NULL) of
// as many as it has edges, which without weights it is: then *out is NULL.
static int sum_scale(const struct sl_layer_env *env, const struct sl_csr_view *csr,
                     const float *weights, const uint32_t *degrees, float **out)
{
    *out = NULL;
    return weights || degrees ? sl_layer_row_sums(env, csr, weights, degrees, SL_ROW_SCALE_UP, out)
                              : SL_OK;
}

static bool scales_up(const struct sl_layer *layer)
{
    return layer->options->degrees == SL_DEGREES_GRAPH;
}

static int scales(const struct sl_layer_env *env, const struct sl_layer *layer, const float *eps,
                  struct sl_layer_tape *tape)
{
    const struct sl_csr_view *csr = &tape->hop.csr;
    const uint32_t *degrees = scales_up(layer) ? tape->hop.degrees : NULL;
    if (scales_up(layer) && !degrees)
        return sl_fail(SL_EPROTO, "a block for a GIN carries no in-degrees: sampler and trainer "
                                  "are not of the same build");
    tape->col_scale = NULL;
    SL_TRY(sum_scale(env, csr, tape->hop.weights, degrees, &tape->row_scale));
    tape->self_scale = sl_layer_floats(env, csr->n_dst);
    if (!tape->self_scale)
        return SL_ENOMEM;
    return env->kernels->fill_sum(csr->n_dst, 1.0f, eps, tape->self_scale);
}

// The input of lins.1 as products read it.
static struct sl_layer_term inner_rows(const struct sl_layer *layer, const struct own *own,
                                       const float *weight)
{
    const bool bf16 = own->rounded != NULL;
    return (struct sl_layer_term){bf16 ? (const void *)own->rounded : own->after, weight,
                                  layer->d_out, bf16};
}

// What is rounded beside f32 is for GPUs: on cores it would take more memory, and a pass.
static bool rounds_beside(const struct sl_layer_env *env)
{
    return sl_layer_rounds(env) && !env->device->is_host;
}

// own->after by `bias` (NULL: it has it) and the activation; rounded beside where products want it.
static int activate(const struct sl_layer_env *env, const struct sl_layer *layer, uint32_t rows,
                    const float *bias, enum sl_activation act, struct own *own)
{
    const uint32_t dim = layer->d_out;
    if (!rounds_beside(env))
        return env->kernels->bias_act(own->after, rows, dim, bias, act, &NO_DROPOUT);
    own->rounded = sl_layer_bf16(env, rows, dim);
    if (!own->rounded)
        return SL_ENOMEM;
    return env->kernels->bias_act_bf16(own->after, rows, dim, bias, act, &NO_DROPOUT, own->after,
                                       own->rounded, sl_layer_pitch(dim));
}

static int forward(const struct sl_layer_env *env, const struct sl_layer *layer,
                   const float *params, bool input_gradient, struct sl_layer_tape *tape)
{
    const struct sl_kernels *k = env->kernels;
    uint32_t n_dst = tape->hop.csr.n_dst, d_out = layer->d_out;
    enum sl_activation act = layer->options->activation;
    const float *bias = params + layer->offset[LIN0_BIAS];
    const bool normal = layer->options->norm != SL_NORM_NONE;
    struct sl_layer_epilogue inner = {
        .offered = normal || !rounds_beside(env), .bias = bias, .act = normal ? SL_ACT_NONE : act};
    struct own *own = sl_layer_note(env, sizeof *own);
    if (!own)
        return SL_ENOMEM;
    *own = (struct own){0};
    tape->own = own;
    SL_TRY(scales(env, layer, params + layer->offset[EPS], tape));
    if (layer->options->train_eps)
        SL_TRY(sl_layer_widen(env, layer, n_dst, tape));
    SL_TRY(sl_layer_propagate(env, layer, params + layer->offset[LIN0_WEIGHT], NULL, input_gradient,
                              &inner, tape));
    own->before = own->after = tape->y;
    if (!normal && !inner.applied)
        SL_TRY(activate(env, layer, n_dst, bias, act, own));
    if (normal) {
        if (!inner.applied)
            SL_TRY(k->bias_act(own->before, n_dst, d_out, bias, SL_ACT_NONE, &NO_DROPOUT));
        const struct sl_norm norm = norm_of(layer);
        own->after = sl_layer_floats(env, (uint64_t)n_dst * d_out);
        if (!own->after)
            return SL_ENOMEM;
        SL_TRY(sl_norm_forward(env, &norm, params, own->before, n_dst, tape->training, own->after,
                               &own->norm));
        SL_TRY(activate(env, layer, n_dst, NULL, act, own));
    }
    SL_TRY(sl_layer_output(env, layer, &tape->after, tape));
    const struct sl_layer square = sl_layer_square(layer);
    const struct sl_layer_term lin1[2] = {
        inner_rows(layer, own, params + layer->offset[LIN1_WEIGHT])};
    return sl_layer_last_products(env, &square, lin1, n_dst, 0, tape->y, &tape->after);
}

// The sum of <dsum_i, x_i> over the destinations, where dsum = d lins.0.
static int eps_gradient(const struct sl_layer_env *env, const struct sl_layer *layer,
                        const float *params, const struct sl_layer_tape *tape, const float *d,
                        float *gradient)
{
    uint64_t n_dst = tape->hop.csr.n_dst, n = n_dst * layer->d_in;
    float *dsum = sl_layer_floats(env, n);
    if (!dsum)
        return SL_ENOMEM;
    SL_TRY(sl_layer_product_backward(env, layer, d, n_dst, params + layer->offset[LIN0_WEIGHT], 0,
                                     dsum));
    return env->kernels->add_dot(n, dsum, tape->x, gradient + layer->offset[EPS], env->pool);
}

static int backward(const struct sl_layer_env *env, const struct sl_layer *layer,
                    const float *params, const struct sl_layer_tape *tape, float *dy,
                    float *gradient, float *dx)
{
    const struct sl_kernels *k = env->kernels;
    const struct own *own = tape->own;
    uint32_t n_dst = tape->hop.csr.n_dst, d_out = layer->d_out;
    enum sl_activation act = layer->options->activation;
    const struct sl_layer square = sl_layer_square(layer);
    struct sl_bias_act_gradient before = {
        .y = own->after, .act = act, .dbias = gradient + layer->offset[LIN0_BIAS]};
    const struct sl_layer_term rows = inner_rows(layer, own, NULL);
    const struct sl_layer_gradient of_square[2] = {
        {rows.x, gradient + layer->offset[LIN1_WEIGHT], d_out, rows.bf16}};
    float *d = sl_layer_floats(env, (uint64_t)n_dst * d_out);
    if (!d)
        return SL_ENOMEM;
    SL_TRY(sl_layer_product_gradients(env, &square, &tape->before, dy, of_square, n_dst));
    SL_TRY(sl_layer_product_backward(env, &square, dy, n_dst, params + layer->offset[LIN1_WEIGHT],
                                     0, d));
    if (layer->options->norm != SL_NORM_NONE) {
        const struct sl_norm norm = norm_of(layer);
        SL_TRY(k->bias_act_backward(d, own->after, 0, n_dst, d_out, act, &NO_DROPOUT, NULL));
        SL_TRY(sl_norm_backward(env, &norm, params, &own->norm, d, gradient, d));
        before.act = SL_ACT_NONE;
    }
    SL_TRY(sl_layer_propagate_backward(env, layer, params + layer->offset[LIN0_WEIGHT], NULL, tape,
                                       &before, d, gradient + layer->offset[LIN0_WEIGHT], NULL,
                                       dx));
    return layer->options->train_eps ? eps_gradient(env, layer, params, tape, d, gradient) : SL_OK;
}

// Lists of inference are whole, but those that walks met (which carry weights) stand for all.
static int infer_scale(const struct sl_layer_env *env, const struct sl_layer *layer,
                       const struct sl_infer_piece *piece, float **out)
{
    const uint32_t n_dst = piece->csr.n_dst, *degrees = NULL;
    if (piece->weights && scales_up(layer)) {
        uint32_t *full = sl_layer_note(env, n_dst * sizeof *full);
        if (!full)
            return SL_ENOMEM;
        for (uint32_t i = 0; i < n_dst; i++)
            full[i] = (uint32_t)SL_MIN(sl_weightless_degree(piece->graph, piece->ids[i]),
                                       (uint64_t)UINT32_MAX);
        SL_TRY(sl_layer_upload_words(env, full, n_dst, &degrees));
    }
    return sum_scale(env, &piece->csr, piece->weights, degrees, out);
}

static int infer(const struct sl_layer_env *env, const struct sl_layer *layer, const float *params,
                 const struct sl_infer_piece *piece)
{
    const struct sl_kernels *k = env->kernels;
    uint32_t n_dst = piece->csr.n_dst, d_out = layer->d_out;
    enum sl_activation act = layer->options->activation;
    const float *bias = params + layer->offset[LIN0_BIAS];
    uint64_t n = (uint64_t)n_dst * layer->d_in;
    const float *self;
    float *sum = sl_layer_floats(env, n), *scale;
    float *inner = sl_layer_floats(env, (uint64_t)n_dst * d_out);
    if (!sum || !inner)
        return SL_ENOMEM;
    SL_TRY(infer_scale(env, layer, piece, &scale));
    SL_TRY(sl_layer_piece_sums(env, layer, piece, scale, piece->weights, sum));
    SL_TRY(sl_layer_own_rows(env, layer, piece, &self));
    SL_TRY(k->add_scaled(n, 1.0f, params + layer->offset[EPS], self, sum));
    const bool normal = layer->options->norm != SL_NORM_NONE;
    struct sl_layer_epilogue first = {
        .offered = true, .bias = bias, .act = normal ? SL_ACT_NONE : act};
    SL_TRY(sl_layer_last_product(env, layer, sum, n_dst, params + layer->offset[LIN0_WEIGHT], 0,
                                 inner, &first));
    if (normal) {
        const struct sl_norm norm = norm_of(layer);
        SL_TRY(sl_norm_infer(env, &norm, params, inner, n_dst));
        SL_TRY(k->bias_act(inner, n_dst, d_out, NULL, act, &NO_DROPOUT));
    }
    const struct sl_layer square = sl_layer_square(layer);
    return sl_layer_last_product(env, &square, inner, n_dst, params + layer->offset[LIN1_WEIGHT], 0,
                                 piece->y, piece->after);
}

// The gradient of eps does.
static bool reads_f32(const struct sl_layer *layer)
{
    return layer->options->train_eps;
}

const struct sl_layer_kind sl_layer_gin = {
    .name = "gin",
    .reads_half = true,
    .reads_f32 = reads_f32,
    .bias = LIN1_BIAS,
    .describe = describe,
    .forward = forward,
    .backward = backward,
    .infer = infer,
};
