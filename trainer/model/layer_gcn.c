/*
 * layer_gcn.c - graph convolution (Kipf and Welling, 2017), as torch_geometric.nn.GCNConv.
 *
 *   bias (d_out), lin.weight (d_out, d_in)
 *
 *   y_i = r_i sum over in-neighbours j of c_j W x_j  +  r_i c_i W x_i,      r, c = 1 / sqrt(degree)
 *
 * WHICH SELF-LOOPS (model.self_loops). true: the graph's own self-loops, one or several a vertex,
 * are dropped and every vertex is its own neighbour exactly once: the second term, which PyTorch
 * Geometric's add_remaining_self_loops() and DGL's add_self_loop() after remove_self_loop() come
 * to. false: the second term is absent and self-loops of the graph are edges like any other.
 *
 * WHICH DEGREES (model.degrees).
 *   graph   in-degrees in the whole graph for both r and c: without own self-loops and plus 1, or
 *           with them, as they stand. Blocks carry them; in inference they come from the topology.
 *           A sampled row sees s_i of its d_i neighbours, each equally likely, so its sum is scaled
 *           by d_i / s_i: an unbiased estimate, and at full fanout exactly the formula. So batches
 *           of full fanout equal training on the whole graph. The self term is not scaled. Where
 *           self-loops are dropped s_i are the others among the sampled; a row of which nothing but
 *           self-loops was sampled has no sum to scale.
 *   block   those of the hop, DGL's norm="both" on a block: r from the in-edges of i and c from the
 *           out-edges of j in this hop; with self_loops each destination has one of both more. In
 *           inference the hop is the whole graph, with its in- and out-degrees.
 * A vertex of degree 0 has r = c = 0.
 *
 * Where edges carry weights (visits of random walks) the row's weighted mean takes the place of the
 * mean of its sampled neighbours.
 */
#include "trainer/model/layer.h"

#include <math.h>

#include "common/base/error.h"
#include "common/data/self_loops.h"
#include "common/data/weightless.h"
#include "trainer/model/source_row_cache.h"

enum { BIAS, LIN_WEIGHT, N_TENSORS };

static bool own_loop(const struct sl_layer *layer)
{
    return layer->options->self_loops;
}

static uint32_t describe(const struct sl_layer *layer, struct sl_tensor tensors[SL_LAYER_TENSORS])
{
    uint32_t d_in = layer->d_in, d_out = layer->d_out;
    tensors[BIAS] = sl_layer_vector(layer, "bias", d_out, 0);
    tensors[LIN_WEIGHT] =
        sl_layer_matrix(layer, "lin.weight", d_out, d_in, sl_layer_glorot_bound(d_out, d_in));
    return N_TENSORS;
}

static uint32_t linear(const struct sl_layer *layer, uint32_t weight[2])
{
    (void)layer;
    weight[0] = LIN_WEIGHT;
    return 1;
}

static int scales(const struct sl_layer_env *env, const struct sl_layer *layer,
                  struct sl_layer_tape *tape)
{
    const struct sl_csr_view *csr = &tape->hop.csr;
    bool graph = layer->options->degrees == SL_DEGREES_GRAPH;
    if (graph && !tape->hop.degrees)
        return sl_fail(SL_EPROTO, "a block for a GCN carries no in-degrees: sampler and trainer "
                                  "are not of the same build");
    tape->row_scale = sl_layer_floats(env, csr->n_dst);
    tape->col_scale = sl_layer_floats(env, csr->n_src);
    tape->self_scale = own_loop(layer) ? sl_layer_floats(env, csr->n_dst) : NULL;
    if (!tape->row_scale || !tape->col_scale || (own_loop(layer) && !tape->self_scale))
        return SL_ENOMEM;
    const struct sl_gcn_scales_args args = {
        .csr = *csr,
        .degrees = graph ? tape->hop.degrees : NULL,
        .weight = tape->hop.weights,
        .own_loop = own_loop(layer),
        .row_scale = tape->row_scale,
        .col_scale = tape->col_scale,
        .self_scale = tape->self_scale,
    };
    return env->kernels->gcn_scales(&args, env->pool);
}

static int forward(const struct sl_layer_env *env, const struct sl_layer *layer,
                   const float *params, bool input_gradient, struct sl_layer_tape *tape)
{
    if (own_loop(layer))
        SL_TRY(sl_layer_fix_loops(env, &tape->hop, false));
    SL_TRY(scales(env, layer, tape));
    return sl_layer_propagate(env, layer, params + layer->offset[LIN_WEIGHT], NULL, input_gradient,
                              &tape->after, tape);
}

static int backward(const struct sl_layer_env *env, const struct sl_layer *layer,
                    const float *params, const struct sl_layer_tape *tape, float *dy,
                    float *gradient, float *dx)
{
    return sl_layer_propagate_backward(env, layer, params + layer->offset[LIN_WEIGHT], NULL, tape,
                                       &tape->before, dy, gradient + layer->offset[LIN_WEIGHT],
                                       NULL, dx);
}

static float inverse_root(uint64_t degree)
{
    return degree ? 1.0f / sqrtf((float)degree) : 0.0f;
}

// In-degree of v in the whole graph, as the layer counts self-loops of the graph.
static uint64_t in_degree(const struct sl_layer *layer, const struct sl_infer_piece *piece,
                          uint64_t v)
{
    return own_loop(layer) && piece->self_loops ? sl_self_loops_degree(piece->self_loops, v)
                                                : sl_weightless_degree(piece->graph, v);
}

// c of vertex v in the whole graph.
static float column_scale(const struct sl_layer *layer, const struct sl_infer_piece *piece,
                          uint64_t v)
{
    if (layer->options->degrees == SL_DEGREES_GRAPH)
        return inverse_root(in_degree(layer, piece, v) + own_loop(layer));
    uint64_t loops =
        sl_weightless_degree(piece->graph, v) - sl_self_loops_degree(piece->self_loops, v);
    return inverse_root(piece->self_loops->out_degree[v] + (own_loop(layer) ? 1 : loops));
}

/*
 * Both terms of the formula as edges of row i: the weights of its neighbours under row_scale, and
 * of the vertex itself, where it is the last entry of its list. A weight an edge of the piece,
 * rather than a scale for each vertex of the graph, keeps the memory bounded.
 */
static float weigh_row(const struct sl_layer *layer, const struct sl_infer_piece *piece, uint32_t i,
                       float *weight)
{
    const struct sl_csr_view *csr = &piece->lists;
    uint32_t first = csr->indptr[i], end = csr->indptr[i + 1] - own_loop(layer);
    uint64_t v = piece->ids[i], degree = in_degree(layer, piece, v);
    const float *counts = piece->list_weights;
    float sum = counts ? 0 : (float)(end - first);
    for (uint32_t e = first; counts && e < end; e++)
        sum += counts[e];
    float up = sum > 0 ? (float)degree / sum : 0.0f;
    for (uint32_t e = first; e < end; e++)
        weight[e] = (counts ? counts[e] : 1.0f) * up * column_scale(layer, piece, csr->indices[e]);
    if (own_loop(layer))
        weight[end] = column_scale(layer, piece, v);
    return inverse_root(degree + own_loop(layer));
}

// What each row's list adds up to under both terms' scales.
static int infer_sums(const struct sl_layer_env *env, const struct sl_layer *layer,
                      const struct sl_infer_piece *piece, float **sum)
{
    const struct sl_csr_view *csr = &piece->csr;
    bool there;
    SL_TRY(sl_kept_sums_take(env, piece, layer->d_in, sum, &there));
    if (there)
        return SL_OK;
    float *list_scale = sl_layer_note(env, csr->n_dst * sizeof *list_scale);
    float *list_weight = sl_layer_note(env, csr->n_edges * sizeof *list_weight);
    if (!list_scale || !list_weight)
        return SL_ENOMEM;
    for (uint32_t i = 0; i < csr->n_dst; i++)
        list_scale[i] = weigh_row(layer, piece, i, list_weight);
    const float *row_scale, *edge_weight;
    SL_TRY(sl_layer_upload_floats(env, list_scale, csr->n_dst, &row_scale));
    SL_TRY(sl_layer_upload_floats(env, list_weight, csr->n_edges, &edge_weight));
    SL_TRY(sl_layer_piece_sums(env, layer, piece, row_scale, edge_weight, *sum));
    return sl_kept_sums_leave(piece, layer->d_in, *sum);
}

static int infer(const struct sl_layer_env *env, const struct sl_layer *layer, const float *params,
                 const struct sl_infer_piece *piece)
{
    if (layer->options->degrees == SL_DEGREES_BLOCK &&
        (!piece->self_loops || !piece->self_loops->out_degree))
        return sl_fail(SL_EINVAL, "inference of a GCN with model.degrees \"block\": the graph's "
                                  "out-degrees were not counted");
    float *sum;
    if (piece->multiplied) {
        const struct sl_layer narrow = sl_layer_square(layer);
        SL_TRY(infer_sums(env, &narrow, piece, &sum));
        return sl_layer_add_own(env, layer, piece, sum);
    }
    SL_TRY(infer_sums(env, layer, piece, &sum));
    return sl_layer_last_product(env, layer, sum, piece->csr.n_dst,
                                 params + layer->offset[LIN_WEIGHT], 0, piece->y, piece->after);
}

const struct sl_layer_kind sl_layer_gcn = {
    .name = "gcn",
    .reads_half = true,
    .needs_degrees = true,
    .self_edge = own_loop,
    .bias = BIAS,
    .linear = linear,
    .describe = describe,
    .forward = forward,
    .backward = backward,
    .infer = infer,
};
