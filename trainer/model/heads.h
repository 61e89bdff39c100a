/*
 * heads.h - what layers of several attention heads share, whatever their scores are (GAT, GATv2).
 *
 * A row of "all heads" has the heads' columns side by side. Hidden layers give these (d_out =
 * heads * width); the layer that gives the model's output takes the heads' mean (d_out = width).
 * Each vertex is its own neighbour once, and the graph's own self-loops are dropped.
 */
#ifndef SL_TRAINER_MODEL_HEADS_H
#define SL_TRAINER_MODEL_HEADS_H

#include <stdbool.h>
#include <stdint.h>

#include "trainer/model/layer.h"

#define SL_HEADS_NEGATIVE_SLOPE 0.2f // of the leaky relu in the scores

uint32_t sl_heads_count(const struct sl_layer *layer);
uint32_t sl_heads_width(const struct sl_layer *layer);          // columns of a head
uint32_t sl_heads_columns(const struct sl_layer *layer);        // of all heads
struct sl_layer sl_heads_widened(const struct sl_layer *layer); // d_out: the columns of all heads

// As of struct sl_layer_kind.
int sl_heads_check(const struct sl_layer *layer);
bool sl_heads_self_edge(const struct sl_layer *layer);

// A vector a head, (1, heads, width).
struct sl_tensor sl_heads_vectors(const struct sl_layer *layer, const char *name);
// What is made of an edge's features, lin_edge.weight (all heads, edge_dim).
struct sl_tensor sl_heads_of_edges(const struct sl_layer *layer);
// The linear map of a layer's input that model.residual adds to its output.
struct sl_tensor sl_heads_residual(const struct sl_layer *layer);

// *kept (n_edges, heads): alpha after the tape's dropout, a copy; alpha itself where there is none.
int sl_heads_drop(const struct sl_layer_env *env, const struct sl_layer *layer,
                  const struct sl_layer_tape *tape, float *alpha, float **kept);

/*
 * Training, behind the shares: tape->y (assigned) of the neighbours' rows z (n_src, all heads)
 * under the shares `kept`, and with model.residual of the layer's own input.
 */
int sl_heads_sum(const struct sl_layer_env *env, const struct sl_layer *layer, const float *z,
                 const float *kept, const float *residual, struct sl_layer_tape *tape);
// *all (n_dst, all heads): the gradient of all heads for that of the output, dy itself where it is.
int sl_heads_spread(const struct sl_layer_env *env, const struct sl_layer *layer, float *dy,
                    uint32_t n_dst, float **all);
// The residual's part of backward: its gradient, and dx (NULL: not asked for) +=.
int sl_heads_residual_backward(const struct sl_layer_env *env, const struct sl_layer *layer,
                               const float *dy, const struct sl_layer_tape *tape,
                               const float *weight, float *dweight, float *dx);

// Inference: z (n_dst, heads * width) of `heads` heads from `first` on becomes part of piece->y.
int sl_heads_put(const struct sl_layer_env *env, const struct sl_layer *layer,
                 const struct sl_infer_piece *piece, const float *z, uint32_t first,
                 uint32_t heads);
// piece->y += the residual.
int sl_heads_infer_residual(const struct sl_layer_env *env, const struct sl_layer *layer,
                            const struct sl_infer_piece *piece, const float *weight);

#endif
