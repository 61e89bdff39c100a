/*
 * layer_tail.h - what comes between two layers: bias, norm, activation, dropout, in this order.
 *
 * A layer's kind computes PyTorch Geometric's `conv` without the bias that it adds last; all that
 * follows is here, the same for all kinds. A layer whose output is the model's gets its bias alone.
 * Without a norm all is one pass over the rows, in place.
 *
 * ROUNDING. On a GPU that multiplies in bf16 the last pass of a hidden layer writes its output as
 * bf16, elsewhere, where the next layer's aggregation and products read it. What a layer's product
 * has left is then of no use to anybody, unless somebody reads the output as f32 too (model.h says
 * who), and the pass is none of the product's own.
 */
#ifndef SL_TRAINER_MODEL_LAYER_TAIL_H
#define SL_TRAINER_MODEL_LAYER_TAIL_H

#include <stdbool.h>
#include <stdint.h>

#include "trainer/model/layer.h"
#include "trainer/model/norm.h"

struct sl_layer_tail {
    bool hidden; // norm, activation and dropout follow the bias
    bool rounds; // the output of a batch is bf16 then
    bool keeps;  // and f32 beside it
    enum sl_activation activation;
    enum sl_norm_kind norm;
    uint64_t norm_offset[SL_NORM_TENSORS];
};

// What forward leaves for backward. Valid until the pool is reset.
struct sl_layer_tail_tape {
    uint64_t rows;
    struct sl_dropout dropout;
    float *y;          // (rows, d_out) the output; NULL where it is bf16 alone
    uint16_t *rounded; // (rows, sl_layer_pitch(d_out)) the output as bf16, or NULL
    struct sl_norm_tape norm;
};

// What the layer's own last product may do of it: bias, activation and dropout, where there is no
// norm.
struct sl_layer_epilogue sl_layer_tail_offer(const struct sl_layer_tail *around,
                                             const struct sl_layer *layer, const float *params,
                                             bool training, const struct sl_dropout *dropout);

// x (rows, d_out) is what the layer computed; the bias is added to it in place. tape->y is the
// output: x itself where there is no norm. `applied`: the layer has taken the offer, and x is the
// output already. SL_ENOMEM.
int sl_layer_tail_forward(const struct sl_layer_env *env, const struct sl_layer_tail *around,
                          const struct sl_layer *layer, const float *params, float *x,
                          uint64_t rows, bool applied, bool training,
                          const struct sl_dropout *dropout, struct sl_layer_tail_tape *tape);

// dy (rows, d_out) in: gradient of the output; out: with `before` applied to it, of what the layer
// computed. gradient (flat) += .
int sl_layer_tail_backward(const struct sl_layer_env *env, const struct sl_layer_tail *around,
                           const struct sl_layer *layer, const float *params,
                           const struct sl_layer_tail_tape *tape, float *dy, float *gradient,
                           struct sl_bias_act_gradient *before);

// The same as forward outside training, in place.
int sl_layer_tail_infer(const struct sl_layer_env *env, const struct sl_layer_tail *around,
                        const struct sl_layer *layer, const float *params, float *x, uint64_t rows,
                        bool applied);

#endif
