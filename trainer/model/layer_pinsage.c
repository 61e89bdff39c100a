/*
 * layer_pinsage.c - PinSAGE's convolution (Ying et al., KDD 2018, Algorithm 1).
 *
 *   lin_q.weight (d_out, d_in), lin_q.bias (d_out), lin_self.weight (d_out, d_in),
 *   lin_nbr.weight (d_out, d_out), lin_nbr.bias (d_out)
 *
 *   q_j = ReLU(Q x_j + q)
 *   n_i = sum over j of w_ij q_j / sum over j of w_ij       importance pooling (section 3.2)
 *   z_i = ReLU(W_self x_i + W_nbr n_i + b)
 *   y_i = z_i / |z_i|
 *
 * w are the visits of the random walks that found the neighbours; from other samplers all are the
 * same. A row without neighbours has n_i = 0. The layer that gives the model's output ends with the
 * products: W_self x_i + W_nbr n_i + b, since logits are neither positive nor of length 1. PyTorch
 * Geometric has no such layer: the names are sluice's, in the style of its modules. (W_self, W_nbr)
 * is the paper's W on the concatenation of x_i and n_i.
 *
 * The bias is within the layer, not behind it, so the kind names none for the model to add.
 *
 * INFERENCE keeps q of each vertex from piece to piece where there is memory (source_row_cache.h);
 * else it computes q for the different sources of a piece, a group of columns at a time
 * (sources.h): the group's neighbours are summed up and multiplied by its columns of W_nbr.
 */
#include "trainer/model/layer.h"

#include "common/base/bits.h"
#include "common/base/error.h"
#include "trainer/model/source_row_cache.h"
#include "trainer/model/sources.h"

enum { Q_WEIGHT, Q_BIAS, SELF_WEIGHT, NBR_WEIGHT, NBR_BIAS, N_TENSORS };

enum { COLUMN_UNIT = 16 };

static const struct sl_dropout NO_DROPOUT;

// What forward leaves for backward.
struct own {
    float *q;     // (n_src, d_out)
    void *pooled; // (n_dst, d_out) n, where sl_layer_rounds() as bf16
    float *z;     // (n_dst, d_out); NULL for the model's last layer
};

static uint32_t describe(const struct sl_layer *layer, struct sl_tensor tensors[SL_LAYER_TENSORS])
{
    uint32_t d_in = layer->d_in, d_out = layer->d_out;
    float bound_in = sl_layer_linear_bound(d_in), bound_out = sl_layer_linear_bound(d_out);
    tensors[Q_WEIGHT] = sl_layer_matrix(layer, "lin_q.weight", d_out, d_in, bound_in);
    tensors[Q_BIAS] = sl_layer_vector(layer, "lin_q.bias", d_out, bound_in);
    tensors[SELF_WEIGHT] = sl_layer_matrix(layer, "lin_self.weight", d_out, d_in, bound_in);
    tensors[NBR_WEIGHT] = sl_layer_matrix(layer, "lin_nbr.weight", d_out, d_out, bound_out);
    tensors[NBR_BIAS] = sl_layer_vector(layer, "lin_nbr.bias", d_out, bound_out);
    return N_TENSORS;
}

static enum sl_activation activation_of(const struct sl_layer *layer)
{
    return layer->last ? SL_ACT_NONE : SL_ACT_RELU;
}

// Everything behind the activation, in place where `normal` is z. `normal` (rows, d_out) gets y.
static int finish(const struct sl_layer_env *env, const struct sl_layer *layer, float *z,
                  uint64_t rows, float *normal)
{
    if (layer->last)
        return SL_OK;
    float *inverse = sl_layer_floats(env, rows);
    if (!inverse)
        return SL_ENOMEM;
    return env->kernels->normalize_rows(z, rows, layer->d_out, normal, inverse);
}

static int forward(const struct sl_layer_env *env, const struct sl_layer *layer,
                   const float *params, bool input_gradient, struct sl_layer_tape *tape)
{
    (void)input_gradient;
    const struct sl_csr_view *csr = &tape->hop.csr;
    uint64_t n = (uint64_t)csr->n_dst * layer->d_out;
    struct sl_layer_epilogue q = {
        .offered = true, .bias = params + layer->offset[Q_BIAS], .act = SL_ACT_RELU};
    struct sl_layer_epilogue z = {
        .offered = true, .bias = params + layer->offset[NBR_BIAS], .act = activation_of(layer)};
    struct own *own = sl_layer_note(env, sizeof *own);
    if (!own)
        return SL_ENOMEM;
    *own = (struct own){0};
    tape->own = own;
    SL_TRY(sl_layer_row_sums(env, csr, tape->hop.weights, NULL, SL_ROW_INVERSE, &tape->row_scale));
    tape->col_scale = tape->self_scale = NULL;
    own->q = sl_layer_floats(env, (uint64_t)csr->n_src * layer->d_out);
    own->z = sl_layer_floats(env, n);
    tape->y = layer->last ? own->z : sl_layer_floats(env, n);
    if (!own->q || !own->z || !tape->y)
        return SL_ENOMEM;
    const struct sl_layer_term for_q[2] = {
        sl_layer_source(layer, tape, params + layer->offset[Q_WEIGHT])};
    SL_TRY(sl_layer_last_products(env, layer, for_q, csr->n_src, 0, own->q, &q));
    SL_TRY(sl_layer_aggregate_for_products(env, tape, own->q, SL_DTYPE_F32, layer->d_out,
                                           &own->pooled));
    const struct sl_layer_term terms[] = {
        {own->pooled, params + layer->offset[NBR_WEIGHT], layer->d_out, sl_layer_rounds(env)},
        sl_layer_source(layer, tape, params + layer->offset[SELF_WEIGHT])};
    SL_TRY(sl_layer_last_products(env, layer, terms, csr->n_dst, 0, own->z, &z));
    return finish(env, layer, own->z, csr->n_dst, tape->y);
}

// dy of y becomes that of z. What follows the layer has written over y: it is made again from z.
static int finish_backward(const struct sl_layer_env *env, const struct sl_layer *layer,
                           const struct sl_layer_tape *tape, float *dy)
{
    const struct own *own = tape->own;
    uint32_t n_dst = tape->hop.csr.n_dst;
    SL_TRY(sl_layer_apply_before(env, layer, &tape->before, dy, n_dst));
    if (layer->last)
        return SL_OK;
    float *y = sl_layer_floats(env, (uint64_t)n_dst * layer->d_out);
    float *inverse = sl_layer_floats(env, n_dst);
    if (!y || !inverse)
        return SL_ENOMEM;
    SL_TRY(env->kernels->normalize_rows(own->z, n_dst, layer->d_out, y, inverse));
    return env->kernels->normalize_rows_backward(dy, y, inverse, n_dst, layer->d_out, dy);
}

static int backward(const struct sl_layer_env *env, const struct sl_layer *layer,
                    const float *params, const struct sl_layer_tape *tape, float *dy,
                    float *gradient, float *dx)
{
    const struct own *own = tape->own;
    const struct sl_csr_view *csr = &tape->hop.csr;
    const struct sl_layer square = sl_layer_square(layer);
    const struct sl_bias_act_gradient z = {
        .y = own->z, .act = activation_of(layer), .dbias = gradient + layer->offset[NBR_BIAS]};
    const struct sl_bias_act_gradient q = {
        .y = own->q, .act = SL_ACT_RELU, .dbias = gradient + layer->offset[Q_BIAS]};
    const struct sl_layer_gradient of_q[2] = {
        sl_layer_source_gradient(layer, tape, gradient + layer->offset[Q_WEIGHT])};
    SL_TRY(finish_backward(env, layer, tape, dy));
    const struct sl_layer_gradient both[] = {
        sl_layer_source_gradient(layer, tape, gradient + layer->offset[SELF_WEIGHT]),
        {own->pooled, gradient + layer->offset[NBR_WEIGHT], layer->d_out, sl_layer_rounds(env)}};
    SL_TRY(sl_layer_product_gradients(env, layer, &z, dy, both, csr->n_dst));
    float *dpooled = sl_layer_floats(env, (uint64_t)csr->n_dst * layer->d_out);
    float *dq = sl_layer_floats(env, (uint64_t)csr->n_src * layer->d_out);
    if (!dpooled || !dq)
        return SL_ENOMEM;
    SL_TRY(sl_layer_product_backward(env, &square, dy, csr->n_dst,
                                     params + layer->offset[NBR_WEIGHT], 0, dpooled));
    SL_TRY(sl_layer_aggregate_backward(env, tape, dpooled, layer->d_out, dq));
    SL_TRY(sl_layer_product_gradients(env, layer, &q, dq, of_q, csr->n_src));
    if (!dx)
        return SL_OK;
    SL_TRY(sl_layer_product_backward(env, layer, dq, csr->n_src, params + layer->offset[Q_WEIGHT],
                                     0, dx));
    return sl_layer_product_backward(env, layer, dy, csr->n_dst,
                                     params + layer->offset[SELF_WEIGHT], 1, dx);
}

static int make_kept(const struct sl_layer_env *env, const struct sl_layer *layer,
                     const float *params, const float *x, uint32_t rows, float **out)
{
    struct sl_layer_epilogue q = {
        .offered = true, .bias = params + layer->offset[Q_BIAS], .act = SL_ACT_RELU};
    return sl_layer_last_product(env, layer, x, rows, params + layer->offset[Q_WEIGHT], 0, out[0],
                                 &q);
}

// y (n_dst, d_out) += W_nbr n, where q is kept.
static int infer_kept(const struct sl_layer_env *env, const struct sl_layer *layer,
                      const float *params, const struct sl_infer_piece *piece)
{
    const struct sl_layer square = sl_layer_square(layer);
    const uint32_t n_dst = piece->csr.n_dst;
    float *pooled = sl_layer_floats(env, (uint64_t)n_dst * layer->d_out), *scale;
    if (!pooled)
        return SL_ENOMEM;
    SL_TRY(sl_layer_row_sums(env, &piece->csr, piece->weights, NULL, SL_ROW_INVERSE, &scale));
    const struct sl_aggregate_args args = {
        .csr = piece->csr,
        .dim = layer->d_out,
        .x_dtype = SL_DTYPE_F32,
        .x = piece->kept->matrix[0],
        .row_scale = scale,
        .edge_weight = piece->weights,
        .y = pooled,
    };
    SL_TRY(env->kernels->aggregate(&args));
    return sl_layer_product(env, &square, pooled, n_dst, params + layer->offset[NBR_WEIGHT], 1,
                            piece->y);
}

// y (n_dst, d_out) += W_nbr n, where n is made of `columns` columns of q at a time.
static int infer_neighbours(const struct sl_layer_env *env, const struct sl_layer *layer,
                            const float *params, const struct sl_infer_piece *piece)
{
    struct sl_sources sources;
    SL_TRY(sl_sources_find(env, piece, &sources));
    uint32_t n_dst = piece->csr.n_dst, d_out = layer->d_out;
    uint32_t step = sl_sources_columns(&sources, COLUMN_UNIT, d_out);
    float *q = sl_layer_floats(env, (uint64_t)sources.n * step), *chunk = NULL;
    float *pooled = sl_layer_floats(env, (uint64_t)n_dst * step), *scale;
    if (!q || !pooled)
        return SL_ENOMEM;
    SL_TRY(sl_layer_row_sums(env, &sources.csr, piece->weights, NULL, SL_ROW_INVERSE, &scale));
    for (uint32_t first = 0; first < d_out; first += step) {
        uint32_t columns = SL_MIN(step, d_out - first);
        SL_TRY(sl_sources_product(env, piece, &sources, layer->d_in,
                                  params + layer->offset[Q_WEIGHT] + (uint64_t)first * layer->d_in,
                                  columns, &chunk, q));
        SL_TRY(env->kernels->bias_act(q, sources.n, columns, params + layer->offset[Q_BIAS] + first,
                                      SL_ACT_RELU, &NO_DROPOUT));
        const struct sl_aggregate_args args = {
            .csr = sources.csr,
            .dim = columns,
            .x_dtype = SL_DTYPE_F32,
            .x = q,
            .row_scale = scale,
            .edge_weight = piece->weights,
            .y = pooled,
        };
        SL_TRY(env->kernels->aggregate(&args));
        const struct sl_rounded_operand w = sl_rounded_weights_find(
            env->rounded, params + layer->offset[NBR_WEIGHT] + first, d_out);
        SL_TRY(env->kernels->gemm(env->precision | (w.bf16 ? SL_PRECISION_B : 0), SL_NO_TRANS,
                                  SL_TRANS, n_dst, d_out, columns, 1, pooled, columns, w.p, w.ld, 1,
                                  piece->y, d_out, env->pool));
    }
    return SL_OK;
}

static int infer(const struct sl_layer_env *env, const struct sl_layer *layer, const float *params,
                 const struct sl_infer_piece *piece)
{
    uint32_t n_dst = piece->csr.n_dst;
    const float *self;
    SL_TRY(sl_layer_own_rows(env, layer, piece, &self));
    SL_TRY(sl_layer_product(env, layer, self, n_dst, params + layer->offset[SELF_WEIGHT], 0,
                            piece->y));
    bool kept;
    SL_TRY(
        sl_source_row_cache_bring(env, layer, params, piece, 1, &layer->d_out, make_kept, &kept));
    SL_TRY(kept ? infer_kept(env, layer, params, piece)
                : infer_neighbours(env, layer, params, piece));
    SL_TRY(env->kernels->bias_act(piece->y, n_dst, layer->d_out, params + layer->offset[NBR_BIAS],
                                  activation_of(layer), &NO_DROPOUT));
    return finish(env, layer, piece->y, n_dst, piece->y);
}

const struct sl_layer_kind sl_layer_pinsage = {
    .name = "pinsage",
    .bias = SL_LAYER_NO_BIAS,
    .describe = describe,
    .forward = forward,
    .backward = backward,
    .infer = infer,
};
