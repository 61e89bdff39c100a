/*
 * typed_attention.h - what kinds of attention by relation share, whatever their scores are (rgat,
 * rgatv2): torch_geometric.nn.HeteroConv of convolutions of several heads, all side by side.
 *
 *   y_i = sum or mean over the relations r that lead to i's type of
 *         sum over i's drawn neighbours j in r of alpha_ij z_r(x_j), and bias_r
 *
 * alpha are shares of the heads' scores over i's neighbours in r. A vertex is no neighbour of
 * itself unless there is such an edge, and a row without edges has the bias alone. The heads are
 * side by side (H*C = d_out) in every layer.
 *
 * With model.residual a relation adds res_r(x_i), too, res.weight (d_out, d_in of the target type),
 * with edges or without: so all of a type are one product with their weights' sum.
 *
 * SOURCES of a relation are all vertices of their type that the batch knows, and it may touch few
 * of them, where others found them. A relation with fewer edges than sources reads a row for each
 * of its edges, gathered before the product: its sources are its edges then.
 *
 * MEMORY. z of a relation's sources, and what else a kind makes of rows, are heads x C floats for
 * each of them, far more than all else that backward needs. They are kept for it as long as the
 * batch has taken less than kept_bytes (layer.h). Those of the other relations are made again, to
 * the same bits, by one product more beside the three that training has: of them no more than one
 * relation's are there at a time, as of all that backward alone needs. Without training none are
 * kept.
 */
#ifndef SL_TRAINER_MODEL_TYPED_ATTENTION_H
#define SL_TRAINER_MODEL_TYPED_ATTENTION_H

#include "trainer/model/attention.h"
#include "trainer/model/typed_layer.h"

// What forward leaves of a run.
struct sl_attention_run {
    struct sl_attention_edges edges; // whose z is NULL where matrices are to be made again
    bool picks;                      // its sources are its edges
    const float *picked; // then their rows (n_edges, d_in of the source type), as long as z
    bool has_term;       // of its edges' features
};

// Where a run's gradient of rows goes; NULL: not asked for.
struct sl_attention_rows_gradient {
    float *src;  // (n_src, d_in of the source type) +=
    float *dst;  // (n_dst, d_in of the target type) +=
    bool assign; // src is assigned instead
};

// What a kind does with run i of a tape, in this order.
struct sl_typed_attention {
    uint32_t residual; // which of a relation's tensors is res.weight
    // Floats of matrices beside those of the sources that make() leaves; NULL: none.
    uint64_t (*more_floats)(const struct sl_typed_layer *layer, const struct sl_typed_run *run,
                            const struct sl_attention_run *own);
    // The matrices of rows that backward reads, too: by sl_typed_attention_sources(), and more.
    int (*make)(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                const float *params, const struct sl_typed_tape *tape, uint32_t i,
                struct sl_attention_run *own);
    // own->edges' shares at alpha (n_edges, H).
    int (*attend)(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                  const float *params, const struct sl_typed_tape *tape, uint32_t i,
                  struct sl_attention_run *own, float *alpha);
    // For dheads (n_dst, H*C): the gradient += , and dx's.
    int (*backward)(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                    const float *params, const struct sl_typed_tape *tape, uint32_t i,
                    const struct sl_attention_run *own, const float *dheads, float *gradient,
                    const struct sl_attention_rows_gradient *dx);
};

// As of struct sl_typed_kind. SL_EINVAL: heads, or model.share_weights with ends of two widths.
int sl_typed_attention_check(const struct sl_typed_layer *layer);
struct sl_attention sl_typed_attention_of(const struct sl_typed_layer *layer);
// Whether a relation's scores have a term of its edges' features.
bool sl_typed_attention_has_term(const struct sl_typed_layer *layer, uint32_t relation);

// The rows that run i has of its sources, as backward multiplies them.
const float *sl_typed_attention_rows(const struct sl_typed_layer *layer,
                                     const struct sl_typed_tape *tape, uint32_t i,
                                     const struct sl_attention_run *own);
// own->picked, of a run that picks, and own->edges.z: the sources' rows times weight (d_out, d_in)
// and bias (NULL: none).
int sl_typed_attention_sources(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                               const struct sl_typed_tape *tape, uint32_t i, const float *weight,
                               const float *bias, struct sl_attention_run *own);

// As of struct sl_typed_kind, which has an attention.
int sl_typed_attention_forward(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                               const float *params, struct sl_typed_tape *tape);
int sl_typed_attention_backward(const struct sl_layer_env *env, const struct sl_typed_layer *layer,
                                const float *params, const struct sl_typed_tape *tape, float **dy,
                                float *gradient, float **dx);

#endif
