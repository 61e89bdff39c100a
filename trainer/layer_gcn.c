/*
 * layer_gcn.c - graph convolution (Kipf and Welling, 2017), as torch_geometric.nn.GCNConv.
 *
 *   bias (d_out), lin.weight (d_out, d_in)
 *
 * With d the in-degree in the whole graph and d~ = d + 1 for the self loop,
 *
 *   y_i = W ( x_i / d~_i + sum over in-neighbours j of x_j / sqrt(d~_i d~_j) ) + b.
 *
 * A sampled row sees s_i of its d_i neighbours, each equally likely, so its sum is scaled by
 * d_i / s_i: an unbiased estimate, and at full fanout exactly the formula. The self term is exact
 * and is not scaled. Degrees travel with the block; in inference they come from the topology.
 */
#include "trainer/layer.h"

#include <math.h>
#include <stdio.h>

#include "common/base/error.h"

enum { BIAS, LIN_WEIGHT, N_TENSORS };

static uint32_t describe(uint32_t index, uint32_t d_in, uint32_t d_out,
                         struct sl_tensor tensors[SL_LAYER_TENSORS])
{
    tensors[BIAS] = (struct sl_tensor){.rank = 1, .shape = {d_out, 0}}; // zeros
    snprintf(tensors[BIAS].name, SL_TENSOR_NAME_BYTES, "convs.%u.bias", index);
    tensors[LIN_WEIGHT] = (struct sl_tensor){
        .rank = 2,
        .shape = {d_out, d_in},
        .init_bound = sqrtf(6.0f / ((float)d_in + (float)d_out)), // glorot
    };
    snprintf(tensors[LIN_WEIGHT].name, SL_TENSOR_NAME_BYTES, "convs.%u.lin.weight", index);
    return N_TENSORS;
}

static float inverse_root(uint64_t degree)
{
    return 1.0f / sqrtf((float)(degree + 1));
}

static int scales(const struct sl_layer_env *env, struct sl_layer_tape *tape)
{
    const struct sl_csr_view *csr = &tape->hop.csr;
    const uint32_t *degrees = tape->hop.degrees;
    if (!degrees)
        return sl_fail(SL_EPROTO, "a block for a GCN carries no in-degrees: sampler and trainer "
                                  "are not of the same build");
    tape->row_scale = sl_layer_edge_sums(env, csr, tape->hop.weights);
    tape->self_scale = sl_layer_floats(env, csr->n_dst);
    tape->col_scale = sl_layer_floats(env, csr->n_src);
    if (!tape->row_scale || !tape->self_scale || !tape->col_scale)
        return SL_ENOMEM;
    for (uint32_t j = 0; j < csr->n_src; j++)
        tape->col_scale[j] = inverse_root(degrees[j]);
    for (uint32_t i = 0; i < csr->n_dst; i++) {
        float sampled = tape->row_scale[i];
        float up = sampled > 0 ? (float)degrees[i] / sampled : 0.0f;
        tape->row_scale[i] = up * tape->col_scale[i];
        tape->self_scale[i] = tape->col_scale[i] * tape->col_scale[i];
    }
    return SL_OK;
}

static int forward(const struct sl_layer_env *env, const struct sl_layer *layer,
                   const float *params, bool input_gradient, struct sl_layer_tape *tape)
{
    SL_TRY(scales(env, tape));
    SL_TRY(
        sl_layer_propagate(env, layer, params + layer->offset[LIN_WEIGHT], input_gradient, tape));
    return env->kernels->bias_act(tape->y, tape->hop.csr.n_dst, layer->d_out,
                                  params + layer->offset[BIAS], layer->relu, &tape->dropout);
}

static int backward(const struct sl_layer_env *env, const struct sl_layer *layer,
                    const float *params, const struct sl_layer_tape *tape, float *dy,
                    float *gradient, float *dx)
{
    SL_TRY(env->kernels->bias_act_backward(dy, tape->y, tape->hop.csr.n_dst, layer->d_out,
                                           layer->relu, &tape->dropout,
                                           gradient + layer->offset[BIAS]));
    return sl_layer_propagate_backward(env, layer, params + layer->offset[LIN_WEIGHT], tape, dy,
                                       gradient + layer->offset[LIN_WEIGHT], dx);
}

// The vertex itself is the last entry of its list, so both terms of the formula are edges with
// the weight 1/sqrt(d~_j) under the row's 1/sqrt(d~_i). A weight an edge of the piece, rather than
// a scale for each vertex of the graph, keeps the memory bounded.
static int infer(const struct sl_layer_env *env, const struct sl_layer *layer, const float *params,
                 const struct sl_infer_piece *piece)
{
    const struct sl_csr_view *csr = &piece->csr;
    uint32_t n_edges = csr->indptr[csr->n_dst];
    float *row_scale = sl_layer_floats(env, csr->n_dst);
    float *edge_weight = sl_layer_floats(env, n_edges);
    float *sum = sl_layer_floats(env, (uint64_t)csr->n_dst * layer->d_in);
    if (!row_scale || !edge_weight || !sum)
        return SL_ENOMEM;
    for (uint32_t i = 0; i < csr->n_dst; i++) {
        uint64_t v = piece->ids[i];
        row_scale[i] = inverse_root(piece->indptr[v + 1] - piece->indptr[v]);
    }
    for (uint32_t e = 0; e < n_edges; e++) {
        uint64_t v = csr->indices[e];
        edge_weight[e] = inverse_root(piece->indptr[v + 1] - piece->indptr[v]);
    }
    struct sl_aggregate_args args = {
        .csr = *csr,
        .dim = layer->d_in,
        .x_dtype = piece->x_dtype,
        .x = piece->x,
        .row_scale = row_scale,
        .edge_weight = edge_weight,
        .y = sum,
    };
    SL_TRY(env->kernels->aggregate(&args));
    SL_TRY(sl_layer_product(env, layer, sum, csr->n_dst, params + layer->offset[LIN_WEIGHT], 0,
                            piece->y));
    const struct sl_dropout none = {0};
    return env->kernels->bias_act(piece->y, csr->n_dst, layer->d_out, params + layer->offset[BIAS],
                                  layer->relu, &none);
}

const struct sl_layer_kind sl_layer_gcn = {
    .name = "gcn",
    .needs_degrees = true,
    .self_edge = true,
    .describe = describe,
    .forward = forward,
    .backward = backward,
    .infer = infer,
};
