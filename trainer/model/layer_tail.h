/*
 * layer_tail.h - what comes between two layers: bias, norm, activation, dropout, in this order.
 *
 * A layer's kind computes PyTorch Geometric's `conv` without the bias that it adds last; all that
 * follows is here, the same for all kinds. A layer whose output is the model's gets its bias alone.
 * Without a norm all is one pass over the rows, in place.
 *
 * ROUNDING. In a job of bf16 the last pass of a hidden layer writes its output as
 * bf16, elsewhere, where the next layer's aggregation and products read it. What a layer's product
 * has left is then of no use to anybody, unless somebody reads the output as f32 too (model.h says
 * who), and the pass is none of the product's own, but on cores, which keep f32 alone then.
 */
#ifndef SL_TRAINER_MODEL_LAYER_TAIL_H
#define SL_TRAINER_MODEL_LAYER_TAIL_H

#include <stdbool.h>
#include <stdint.h>

#include "trainer/model/layer.h"
#include "trainer/model/norm.h"

struct sl_layer_tail {
    uint32_t dim; // of its rows
    bool hidden;  // norm, activation and dropout follow the bias
    bool rounds;  // the output of a batch is bf16 then
    bool keeps;   // and f32 beside it
    bool fuses;   // products round their results: on cores
    enum sl_activation activation;
    enum sl_norm_kind norm;
    uint64_t norm_offset[SL_NORM_TENSORS];
};

// What forward leaves for backward. Valid until the pool is reset.
struct sl_layer_tail_tape {
    uint64_t rows;
    struct sl_dropout dropout;
    float *y;          // (rows, dim) the output; NULL where it is bf16 alone
    uint16_t *rounded; // (rows, sl_layer_pitch(dim)) the output as bf16, or NULL
    struct sl_norm_tape norm;
};

// The layer's bias, NULL where it has none.
static inline const float *sl_layer_bias(const struct sl_layer *layer, const float *params)
{
    return layer->kind->bias == SL_LAYER_NO_BIAS ? NULL : params + layer->offset[layer->kind->bias];
}

// What the layer's own last product may do of it: bias (dim; NULL: none), activation and dropout,
// where there is no norm.
struct sl_layer_epilogue sl_layer_tail_offer(const struct sl_layer_tail *around, const float *bias,
                                             bool training, const struct sl_dropout *dropout);

// x (rows, dim) is what the layer computed; the bias is added to it in place. tape->y is the
// output: x itself where there is no norm. `after` is the offer: where the layer has taken it, x is
// the output already. SL_ENOMEM.
int sl_layer_tail_forward(const struct sl_layer_env *env, const struct sl_layer_tail *around,
                          const float *params, const struct sl_layer_epilogue *after, float *x,
                          uint64_t rows, bool training, const struct sl_dropout *dropout,
                          struct sl_layer_tail_tape *tape);

// dy (rows, dim) in: gradient of the output; out: with `before` applied to it, of what the layer
// computed. gradient (flat) += ; dbias, that of the bias, likewise by `before`, or NULL.
int sl_layer_tail_backward(const struct sl_layer_env *env, const struct sl_layer_tail *around,
                           const float *params, const struct sl_layer_tail_tape *tape, float *dy,
                           float *gradient, float *dbias, struct sl_bias_act_gradient *before);

// The same as forward outside training, in place.
int sl_layer_tail_infer(const struct sl_layer_env *env, const struct sl_layer_tail *around,
                        const float *params, const struct sl_layer_epilogue *after, float *x,
                        uint64_t rows);

#endif
