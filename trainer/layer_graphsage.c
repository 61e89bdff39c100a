/*
 * layer_graphsage.c - GraphSAGE with the mean aggregator (Hamilton et al., 2017), as
 * torch_geometric.nn.SAGEConv: y_i = lin_l(mean of x_j over the sampled neighbours) + lin_r(x_i).
 *
 *   lin_l.weight (d_out, d_in), lin_l.bias (d_out), lin_r.weight (d_out, d_in)
 *
 * The mean of no neighbours is zero. Where the block's edges carry weights (how often random walks
 * met a neighbour) it is the weighted mean, as in PinSAGE's importance pooling. The rows of the
 * vertices themselves are the first n_dst rows of the source, so the second product needs no
 * gathering.
 */
#include "trainer/layer.h"

#include <math.h>
#include <stdio.h>

#include "common/base/error.h"

enum { LIN_L_WEIGHT, LIN_L_BIAS, LIN_R_WEIGHT, N_TENSORS };

static uint32_t describe(uint32_t index, uint32_t d_in, uint32_t d_out,
                         struct sl_tensor tensors[SL_LAYER_TENSORS])
{
    // kaiming_uniform(a = sqrt(5)) over fan_in is U(-1/sqrt(fan_in), 1/sqrt(fan_in)), and so is
    // the default of a bias.
    float bound = 1.0f / sqrtf((float)d_in);
    for (uint32_t t = 0; t < N_TENSORS; t++) {
        static const char *const names[] = {"lin_l.weight", "lin_l.bias", "lin_r.weight"};
        struct sl_tensor *out = &tensors[t];
        *out = (struct sl_tensor){.rank = 2, .shape = {d_out, d_in}, .init_bound = bound};
        if (t == LIN_L_BIAS) {
            out->rank = 1;
            out->shape[1] = 0;
        }
        snprintf(out->name, sizeof out->name, "convs.%u.%s", index, names[t]);
    }
    return N_TENSORS;
}

// (n_dst) what makes a mean of a row's sum.
static float *mean_scale(const struct sl_layer_env *env, const struct sl_csr_view *csr,
                         const float *weights)
{
    float *scale = sl_layer_edge_sums(env, csr, weights);
    for (uint32_t i = 0; scale && i < csr->n_dst; i++)
        scale[i] = scale[i] > 0 ? 1.0f / scale[i] : 0.0f;
    return scale;
}

static int forward(const struct sl_layer_env *env, const struct sl_layer *layer,
                   const float *params, bool input_gradient, struct sl_layer_tape *tape)
{
    uint32_t n_dst = tape->hop.csr.n_dst;
    tape->row_scale = mean_scale(env, &tape->hop.csr, tape->hop.weights);
    if (!tape->row_scale)
        return SL_ENOMEM;
    tape->col_scale = NULL;
    tape->self_scale = NULL;
    SL_TRY(
        sl_layer_propagate(env, layer, params + layer->offset[LIN_L_WEIGHT], input_gradient, tape));
    SL_TRY(sl_layer_product(env, layer, tape->x, n_dst, params + layer->offset[LIN_R_WEIGHT], 1,
                            tape->y));
    return env->kernels->bias_act(tape->y, n_dst, layer->d_out, params + layer->offset[LIN_L_BIAS],
                                  layer->relu, &tape->dropout);
}

static int backward(const struct sl_layer_env *env, const struct sl_layer *layer,
                    const float *params, const struct sl_layer_tape *tape, float *dy,
                    float *gradient, float *dx)
{
    uint32_t n_dst = tape->hop.csr.n_dst;
    SL_TRY(env->kernels->bias_act_backward(dy, tape->y, n_dst, layer->d_out, layer->relu,
                                           &tape->dropout, gradient + layer->offset[LIN_L_BIAS]));
    SL_TRY(sl_layer_product_gradient(env, layer, dy, tape->x, n_dst,
                                     gradient + layer->offset[LIN_R_WEIGHT]));
    SL_TRY(sl_layer_propagate_backward(env, layer, params + layer->offset[LIN_L_WEIGHT], tape, dy,
                                       gradient + layer->offset[LIN_L_WEIGHT], dx));
    if (!dx)
        return SL_OK;
    return sl_layer_product_backward(env, layer, dy, n_dst, params + layer->offset[LIN_R_WEIGHT], 1,
                                     dx);
}

static int infer(const struct sl_layer_env *env, const struct sl_layer *layer, const float *params,
                 const struct sl_infer_piece *piece)
{
    uint32_t n_dst = piece->csr.n_dst;
    float *scale = mean_scale(env, &piece->csr, NULL);
    float *mean = sl_layer_floats(env, (uint64_t)n_dst * layer->d_in);
    float *self = sl_layer_floats(env, (uint64_t)n_dst * layer->d_in);
    if (!scale || !mean || !self)
        return SL_ENOMEM;
    struct sl_aggregate_args args = {
        .csr = piece->csr,
        .dim = layer->d_in,
        .x_dtype = piece->x_dtype,
        .x = piece->x,
        .row_scale = scale,
        .y = mean,
    };
    SL_TRY(env->kernels->aggregate(&args));
    SL_TRY(env->kernels->gather_rows(piece->x, piece->x_dtype, piece->csr.n_src, layer->d_in,
                                     piece->ids, n_dst, self));
    SL_TRY(sl_layer_product(env, layer, mean, n_dst, params + layer->offset[LIN_L_WEIGHT], 0,
                            piece->y));
    SL_TRY(sl_layer_product(env, layer, self, n_dst, params + layer->offset[LIN_R_WEIGHT], 1,
                            piece->y));
    const struct sl_dropout none = {0};
    return env->kernels->bias_act(piece->y, n_dst, layer->d_out, params + layer->offset[LIN_L_BIAS],
                                  layer->relu, &none);
}

const struct sl_layer_kind sl_layer_graphsage = {
    .name = "graphsage",
    .describe = describe,
    .forward = forward,
    .backward = backward,
    .infer = infer,
};
