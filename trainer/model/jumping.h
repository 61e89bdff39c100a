/*
 * jumping.h - jumping knowledge (Xu et al., ICML 2018) and the linear layer behind it, as PyTorch
 * Geometric's models have them: outputs = lin(J(h_1, ..., h_L)).
 *
 *   last   J = h_L
 *   cat    J = [h_1 ... h_L]
 *   max    J = element-wise maximum; the gradient goes to the first layer that has it
 *
 * Only the seeds' rows count, and they are the first rows of every layer's output. The
 * concatenation is never made: lin(J) = sum over l of h_l W_l', where W_l is a run of columns of
 * the weight.
 *
 * LAYER-WISE INFERENCE sees one layer at a time over all vertices, so what the layers before have
 * given is gathered in a third bank of the arena (sl_arena_jumping), of sl_jumping_width() floats a
 * vertex: for cat the sum of the h_l W_l', for max the maximum. A piece of a layer may be computed
 * twice, when its trainer died half way, and must give the same then. A maximum does. The sums are
 * kept twice over: layer l reads those of half (l - 1) & 1 and writes half l & 1, so what it reads
 * is there until the layer is complete.
 */
#ifndef SL_TRAINER_MODEL_JUMPING_H
#define SL_TRAINER_MODEL_JUMPING_H

#include <stdint.h>

#include "config/config.h"
#include "trainer/model/layer.h"

enum { SL_JUMPING_TENSORS = 2 };

struct sl_jumping {
    enum sl_jumping_kind kind;
    uint32_t n_layers, hidden, n_outputs;
    uint64_t offset[SL_JUMPING_TENSORS]; // of lin.weight and lin.bias
};

// What forward leaves for backward. Valid until the pool is reset.
struct sl_jumping_tape {
    uint64_t rows;
    // (at least `rows`, hidden) the layers' outputs; NULL where `rounded` is enough: but for max.
    const float *h[SL_CONFIG_MAX_LAYERS];
    const uint16_t *rounded[SL_CONFIG_MAX_LAYERS]; // the same as bf16 in padded rows, or NULL
    float *max;                                    // (rows, hidden), of SL_JUMPING_MAX
    float *outputs;                                // (rows, n_outputs)
};

// lin.weight and lin.bias; returns how many: 0 for SL_JUMPING_NONE.
uint32_t sl_jumping_describe(const struct sl_jumping *jumping,
                             struct sl_tensor tensors[SL_JUMPING_TENSORS]);

// outputs (rows, n_outputs, in the pool); tape->rows, h and rounded are given. kind is not
// SL_JUMPING_NONE. SL_ENOMEM.
int sl_jumping_forward(const struct sl_layer_env *env, const struct sl_jumping *jumping,
                       const float *params, struct sl_jumping_tape *tape, float **outputs);

/*
 * The gradient's way back, once for each layer from the last to the first: for dy (at least `rows`,
 * hidden) what jumping gives to the layer's output is assigned for the last layer, whose output has
 * no other reader, and added for the others.
 */
int sl_jumping_backward(const struct sl_layer_env *env, const struct sl_jumping *jumping,
                        const float *params, const struct sl_jumping_tape *tape, uint32_t layer,
                        const float *doutputs, float *dy);
// gradient (flat) += those of lin.weight and lin.bias.
int sl_jumping_gradient(const struct sl_layer_env *env, const struct sl_jumping *jumping,
                        const struct sl_jumping_tape *tape, float *doutputs, float *gradient);

// Floats a vertex of the third bank; 0: none is needed.
uint32_t sl_jumping_width(const struct sl_jumping *jumping);

/*
 * Inference, `rows` vertices of one layer that is not the last: their rows of the bank
 * (rows, sl_jumping_width) take in h (rows, hidden). Layer 0 finds anything there.
 */
int sl_jumping_gather(const struct sl_layer_env *env, const struct sl_jumping *jumping,
                      const float *params, uint32_t layer, const float *h, uint64_t rows,
                      float *bank);
// The last layer: outputs (rows, n_outputs) of h (rows, hidden), which is overwritten, and of the
// bank.
int sl_jumping_finish(const struct sl_layer_env *env, const struct sl_jumping *jumping,
                      const float *params, float *h, uint64_t rows, const float *bank,
                      float *outputs);

#endif
