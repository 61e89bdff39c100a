/*
 * layer_graphsage.c - GraphSAGE (Hamilton et al., 2017), as torch_geometric.nn.SAGEConv:
 * y_i = lin_l(aggregate of x_j over the sampled neighbours) + lin_r(x_i).
 *
 *   lin_l.weight (d_out, d_in), lin_l.bias (d_out), lin_r.weight (d_out, d_in)
 *
 *   mean   the mean of no neighbours is zero. Where the block's edges carry weights (how often
 *          random walks met a neighbour) it is the weighted mean, PinSAGE's importance pooling
 *   max    the element-wise maximum, zero without neighbours; weights are not looked at
 *   gcn    the mean of the neighbours and the vertex itself, and no lin_r: SAGEConv(root_weight =
 *          False) on a graph whose vertices all have one self-loop, DGL's aggregator of this name.
 *          Self-loops of the graph are dropped first. Under weights the vertex itself counts as
 *          much as its average neighbour
 *
 * The rows of the vertices themselves are the first n_dst rows of the source, so the second product
 * needs no gathering. Means are linear and the product with lin_l may come first
 * (sl_layer_propagate); a maximum is not, and always comes first.
 */
#include "trainer/model/layer.h"

#include "common/base/error.h"
#include "trainer/model/source_row_cache.h"

enum { LIN_L_WEIGHT, LIN_L_BIAS, LIN_R_WEIGHT };

// What forward leaves for backward, with the aggregator max.
struct own {
    void *max;      // (n_dst, d_in), where sl_layer_rounds() as bf16: products alone read it
    uint32_t *from; // (n_dst, d_in) the edges that it came from
};

static bool is_gcn(const struct sl_layer *layer)
{
    return layer->options->aggregator == SL_AGGREGATOR_GCN;
}

static bool is_max(const struct sl_layer *layer)
{
    return layer->options->aggregator == SL_AGGREGATOR_MAX;
}

static uint32_t describe(const struct sl_layer *layer, struct sl_tensor tensors[SL_LAYER_TENSORS])
{
    uint32_t d_in = layer->d_in, d_out = layer->d_out;
    float bound = sl_layer_linear_bound(d_in);
    tensors[LIN_L_WEIGHT] = sl_layer_matrix(layer, "lin_l.weight", d_out, d_in, bound);
    tensors[LIN_L_BIAS] = sl_layer_vector(layer, "lin_l.bias", d_out, bound);
    if (is_gcn(layer))
        return LIN_R_WEIGHT;
    tensors[LIN_R_WEIGHT] = sl_layer_matrix(layer, "lin_r.weight", d_out, d_in, bound);
    return LIN_R_WEIGHT + 1;
}

static uint32_t linear(const struct sl_layer *layer, uint32_t weight[2])
{
    weight[0] = LIN_L_WEIGHT;
    weight[1] = LIN_R_WEIGHT;
    return is_max(layer) ? 0 : is_gcn(layer) ? 1 : 2;
}

static int forward_max(const struct sl_layer_env *env, const struct sl_layer *layer,
                       const float *params, bool input_gradient, struct sl_layer_tape *tape)
{
    const struct sl_csr_view *csr = &tape->hop.csr;
    struct own *own = sl_layer_note(env, sizeof *own);
    if (!own)
        return SL_ENOMEM;
    *own = (struct own){0};
    tape->own = own;
    const bool rounds = sl_layer_rounds(env);
    const uint64_t n = (uint64_t)csr->n_dst * layer->d_in, pitch = sl_layer_pitch(layer->d_in);
    own->max = rounds ? (void *)sl_layer_bf16(env, csr->n_dst, layer->d_in)
                      : (void *)sl_layer_floats(env, n);
    own->from = input_gradient ? sl_layer_words(env, n) : NULL;
    if (!own->max || (input_gradient && !own->from))
        return SL_ENOMEM;
    SL_TRY(sl_layer_output(env, layer, &tape->after, tape));
    SL_TRY(sl_layer_widen(env, layer, csr->n_dst, tape));
    const struct sl_layer_rows rows = sl_layer_far_rows(tape);
    struct sl_csr_view far;
    SL_TRY(sl_layer_far_hop(env, tape, &far));
    const struct sl_aggregate_max_args args = {
        .csr = far,
        .dim = layer->d_in,
        .x_dtype = rows.dtype,
        .x = rows.p,
        .x_ld = pitch,
        .y = rounds ? NULL : own->max,
        .y_bf16 = rounds ? own->max : NULL,
        .y_ld = pitch,
        .from = own->from,
    };
    SL_TRY(env->kernels->aggregate_max(&args));
    const struct sl_layer_term terms[] = {
        {own->max, params + layer->offset[LIN_L_WEIGHT], layer->d_in, rounds},
        sl_layer_source(layer, tape, params + layer->offset[LIN_R_WEIGHT])};
    return sl_layer_last_products(env, layer, terms, csr->n_dst, 0, tape->y, &tape->after);
}

static int backward_max(const struct sl_layer_env *env, const struct sl_layer *layer,
                        const float *params, const struct sl_layer_tape *tape, float *dy,
                        float *gradient, float *dx)
{
    const struct sl_csr_view *csr = &tape->hop.csr;
    const struct own *own = tape->own;
    const struct sl_layer_gradient both[] = {
        {own->max, gradient + layer->offset[LIN_L_WEIGHT], layer->d_in, sl_layer_rounds(env)},
        sl_layer_source_gradient(layer, tape, gradient + layer->offset[LIN_R_WEIGHT])};
    SL_TRY(sl_layer_product_gradients(env, layer, &tape->before, dy, both, csr->n_dst));
    if (!dx)
        return SL_OK;
    float *dmax = sl_layer_floats(env, (uint64_t)csr->n_dst * layer->d_in);
    if (!dmax)
        return SL_ENOMEM;
    SL_TRY(sl_layer_product_backward(env, layer, dy, csr->n_dst,
                                     params + layer->offset[LIN_L_WEIGHT], 0, dmax));
    struct sl_csr_view transposed;
    uint32_t *edge;
    SL_TRY(sl_layer_transpose(env, csr, &transposed, &edge));
    const struct sl_aggregate_max_grad_args args = {
        .csr = *csr,
        .transposed = transposed,
        .t_edge = edge,
        .dim = layer->d_in,
        .from = own->from,
        .dy = dmax,
        .dx = dx,
    };
    SL_TRY(env->kernels->aggregate_max_backward(&args));
    return sl_layer_product_backward(env, layer, dy, csr->n_dst,
                                     params + layer->offset[LIN_R_WEIGHT], 1, dx);
}

static int forward_mean(const struct sl_layer_env *env, const struct sl_layer *layer,
                        const float *params, bool input_gradient, struct sl_layer_tape *tape)
{
    if (is_gcn(layer))
        SL_TRY(sl_layer_fix_loops(env, &tape->hop, true));
    SL_TRY(sl_layer_row_sums(env, &tape->hop.csr, tape->hop.weights, NULL, SL_ROW_INVERSE,
                             &tape->row_scale));
    tape->col_scale = NULL;
    tape->self_scale = NULL;
    const float *own = is_gcn(layer) ? NULL : params + layer->offset[LIN_R_WEIGHT];
    return sl_layer_propagate(env, layer, params + layer->offset[LIN_L_WEIGHT], own, input_gradient,
                              &tape->after, tape);
}

static int forward(const struct sl_layer_env *env, const struct sl_layer *layer,
                   const float *params, bool input_gradient, struct sl_layer_tape *tape)
{
    return is_max(layer) ? forward_max(env, layer, params, input_gradient, tape)
                         : forward_mean(env, layer, params, input_gradient, tape);
}

static int backward(const struct sl_layer_env *env, const struct sl_layer *layer,
                    const float *params, const struct sl_layer_tape *tape, float *dy,
                    float *gradient, float *dx)
{
    if (is_max(layer))
        return backward_max(env, layer, params, tape, dy, gradient, dx);
    const bool own = !is_gcn(layer);
    return sl_layer_propagate_backward(env, layer, params + layer->offset[LIN_L_WEIGHT],
                                       own ? params + layer->offset[LIN_R_WEIGHT] : NULL, tape,
                                       &tape->before, dy, gradient + layer->offset[LIN_L_WEIGHT],
                                       own ? gradient + layer->offset[LIN_R_WEIGHT] : NULL, dx);
}

static int infer_max(const struct sl_layer_env *env, const struct sl_layer *layer,
                     const struct sl_infer_piece *piece, float **rows)
{
    bool there;
    SL_TRY(sl_kept_sums_take(env, piece, layer->d_in, rows, &there));
    if (there)
        return SL_OK;
    const struct sl_aggregate_max_args args = {.csr = piece->csr,
                                               .dim = layer->d_in,
                                               .x_dtype = piece->x_dtype,
                                               .x = piece->x,
                                               .y = *rows};
    SL_TRY(env->kernels->aggregate_max(&args));
    return sl_kept_sums_leave(piece, layer->d_in, *rows);
}

// *out: edge weights (n_edges) of a piece whose lists end with the vertex itself, which counts as
// much as its average neighbour.
static int weights_with_self(const struct sl_layer_env *env, const struct sl_infer_piece *piece,
                             const float **out)
{
    const uint32_t *indptr = piece->lists.indptr;
    float *weights = sl_layer_note(env, piece->lists.n_edges * sizeof *weights);
    if (!weights)
        return SL_ENOMEM;
    for (uint32_t i = 0; i < piece->lists.n_dst; i++) {
        uint32_t self = indptr[i + 1] - 1;
        float sum = 0;
        for (uint32_t e = indptr[i]; e < self; e++)
            sum += weights[e] = piece->list_weights[e];
        weights[self] = self > indptr[i] ? sum / (float)(self - indptr[i]) : 1.0f;
    }
    return sl_layer_upload_floats(env, weights, piece->lists.n_edges, out);
}

static int infer_mean(const struct sl_layer_env *env, const struct sl_layer *layer,
                      const struct sl_infer_piece *piece, float **rows)
{
    const float *weights = piece->weights;
    float *scale;
    bool there;
    SL_TRY(sl_kept_sums_take(env, piece, layer->d_in, rows, &there));
    if (there)
        return SL_OK;
    if (weights && is_gcn(layer))
        SL_TRY(weights_with_self(env, piece, &weights));
    SL_TRY(sl_layer_row_sums(env, &piece->csr, weights, NULL, SL_ROW_INVERSE, &scale));
    SL_TRY(sl_layer_piece_sums(env, layer, piece, scale, weights, *rows));
    return sl_kept_sums_leave(piece, layer->d_in, *rows);
}

static int infer(const struct sl_layer_env *env, const struct sl_layer *layer, const float *params,
                 const struct sl_infer_piece *piece)
{
    uint32_t n_dst = piece->csr.n_dst;
    float *rows;
    if (piece->multiplied) {
        const struct sl_layer narrow = sl_layer_square(layer);
        SL_TRY(infer_mean(env, &narrow, piece, &rows));
        return sl_layer_add_own(env, layer, piece, rows);
    }
    if (is_max(layer))
        SL_TRY(infer_max(env, layer, piece, &rows));
    else
        SL_TRY(infer_mean(env, layer, piece, &rows));
    if (is_gcn(layer))
        return sl_layer_last_product(env, layer, rows, n_dst, params + layer->offset[LIN_L_WEIGHT],
                                     0, piece->y, piece->after);
    const float *own;
    SL_TRY(sl_layer_own_rows(env, layer, piece, &own));
    const struct sl_layer_term terms[] = {
        {rows, params + layer->offset[LIN_L_WEIGHT], layer->d_in, false},
        {own, params + layer->offset[LIN_R_WEIGHT], layer->d_in, false}};
    return sl_layer_last_products(env, layer, terms, n_dst, 0, piece->y, piece->after);
}

const struct sl_layer_kind sl_layer_graphsage = {
    .name = "graphsage",
    .reads_half = true,
    .reads_table = true,
    .self_edge = is_gcn,
    .bias = LIN_L_BIAS,
    .linear = linear,
    .describe = describe,
    .forward = forward,
    .backward = backward,
    .infer = infer,
};
