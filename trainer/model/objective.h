/*
 * objective.h - the loss of each task, and what an evaluation leaves behind.
 *
 *   multiclass   softmax cross-entropy, class weights        leaves the class (of two classes the
 *                                                             difference of the logits)
 *   multilabel   sigmoid cross-entropy, weights of positives  leaves the logits
 *   regression   squared error                                leaves the outputs
 *   link         of the scores of pairs (kernels.h, pair_loss); the model's outputs are embeddings
 *
 * Losses are summed; result->weight is what the sum, and its gradient, are divided by.
 */
#ifndef SL_TRAINER_MODEL_OBJECTIVE_H
#define SL_TRAINER_MODEL_OBJECTIVE_H

#include <stdint.h>

#include "common/data/dataset.h"
#include "common/arena/block.h"
#include "config/config.h"
#include "kernels/kernels.h"
#include "trainer/model/layer.h"

struct sl_objective {
    enum sl_task task;
    uint32_t n_outputs;  // of the model
    float *class_weight; // (n_outputs), owned; NULL: 1
    // Of links:
    enum sl_pair_loss pair_loss;
    float margin;
    uint32_t per_positive;
};

// "balanced" goes over the training vertices' labels once. SL_EINVAL for a list of another length,
// SL_ENOMEM.
int sl_objective_init(struct sl_objective *o, const struct sl_config *config,
                      const struct sl_dataset *dataset);
// *out: the objective with its class weights in the device's memory, for losses there. It borrows
// from `o` what a CPU device reads in place; released by sl_objective_unplace(). SL_ENOMEM.
int sl_objective_place(const struct sl_objective *o, const struct sl_device *device,
                       struct sl_objective *out);
void sl_objective_unplace(struct sl_objective *o, const struct sl_device *device);
void sl_objective_fini(struct sl_objective *o); // safe on a zeroed struct

// `targets` are those of `rows` vertices as a block has them: int32 classes, or floats. gradient
// (rows, n_outputs), NULL for none; may be outputs. All are of the kernels' memory, and so must be
// the class weights (sl_objective_place).
int sl_objective_loss(const struct sl_objective *o, const struct sl_kernels *kernels,
                      const void *targets, uint64_t rows, const float *outputs, float *gradient,
                      struct sl_loss_result *out);

// The loss of links: of the scores (pairs->n) less their shifts. gradient (pairs->n) or
// NULL. All arrays are of the kernels' memory.
int sl_objective_pair_loss(const struct sl_objective *o, const struct sl_kernels *kernels,
                           const struct sl_pairs *pairs, const float *scores, float *gradient,
                           struct sl_loss_result *out);

// sl_objective_loss() for vertices of the data set, whose targets are gathered in the notes and
// uploaded. ids are the processor's.
int sl_objective_loss_of(const struct sl_objective *o, const struct sl_layer_env *env,
                         const struct sl_dataset *dataset, const uint32_t *ids, uint64_t rows,
                         const float *outputs, struct sl_loss_result *out);

// Words (common/data/prediction.h) for each of `rows` vertices, whose outputs the processor reads.
void sl_objective_predict(const struct sl_objective *o, const float *outputs, uint64_t rows,
                          uint32_t *words);

#endif
