/*
 * model.h - a stack of layers with its parameter layout, forward, backward and the memory of a
 * mini-batch.
 *
 * A model owns no parameters: they are the flat vector of a board version, read where it lies,
 * and the gradient is a slot of the board, written where it lies. What it owns is a pool that
 * holds the activations of one mini-batch and grows to the largest one.
 *
 * Dropout keys: the input's dropout is layer 0 of the Philox stream, the one after hidden layer l
 * is layer l + 1; epoch and batch come from the block. A mask thus depends on what it is for and
 * never on which trainer computes it.
 */
#ifndef SL_TRAINER_MODEL_H
#define SL_TRAINER_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/ipc/arena.h"
#include "common/ipc/block.h"
#include "config/config.h"
#include "trainer/layer.h"

struct sl_model {
    uint32_t n_layers;
    struct sl_layer layer[SL_CONFIG_MAX_LAYERS];
    uint32_t n_tensors;
    struct sl_tensor tensor[SL_CONFIG_MAX_LAYERS * SL_LAYER_TENSORS]; // order of the file
    uint64_t n_params;

    float dropout, input_dropout;
    uint64_t seed;
    struct sl_layer_env env;
    const struct sl_arena *arena; // its abort word is looked at between layers; NULL for none

    struct sl_mempool pool;
    struct sl_layer_tape tape[SL_CONFIG_MAX_LAYERS]; // of the last forward
};

struct sl_model_result {
    double loss; // sum over counted seeds
    uint64_t correct, counted;
};

// Layers and tensors for this job and data set. SL_EUNSUPPORTED for a kind that is not in the
// table. The configuration is not kept. The struct must not move afterwards.
int sl_model_init(struct sl_model *model, const struct sl_config *config, uint32_t feat_dim,
                  uint32_t n_classes, const struct sl_kernels *kernels);
void sl_model_fini(struct sl_model *model); // safe on a zeroed struct

// Floats a row of the widest hidden activation; 0 for a model of one layer.
uint32_t sl_model_infer_width(const struct sl_model *model);

// SL_EPROTO when the block's header can not belong to this model.
int sl_model_check_block(const struct sl_model *model, const struct sl_block *block,
                         uint64_t payload_bytes);

/*
 * Logits (n_seeds, n_classes) of a block, in the pool, valid until the next call that resets it.
 * x (n_input, feat_dim) are the features of its input nodes; training masks them in place and
 * applies dropout. SL_EABORTED when the arena's abort word is set half way.
 */
int sl_model_forward(struct sl_model *model, const float *params, const struct sl_block *block,
                     float *x, bool training, float **logits);

// Gradient (n_params, assigned) of the last training forward for dlogits (n_seeds, n_classes),
// which is overwritten.
int sl_model_backward(struct sl_model *model, const float *params, float *dlogits, float *gradient);

// Forward, loss and backward: gradient (n_params, assigned) of the summed loss.
int sl_model_train(struct sl_model *model, const float *params, const struct sl_block *block,
                   float *x, float *gradient, struct sl_model_result *result);

// Forward without dropout and loss: counts correct predictions.
int sl_model_evaluate(struct sl_model *model, const float *params, const struct sl_block *block,
                      float *x, struct sl_model_result *result);

#endif
