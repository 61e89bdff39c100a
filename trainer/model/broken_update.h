/*
 * broken_update.h - explains why an update cannot be made: which of its numbers is not finite.
 *
 * An update whose loss, gradient or result is not finite is not committed (sync.h): the parameter
 * store keeps the parameters before it, which are. What is wrong is then looked for, at leisure, in
 * the order in which numbers come about: parameters and optimizer state that the update begins
 * with, the losses of its batches, their gradient, what the step made of it. All of that lies in
 * the arena, so whoever tries the update says the same.
 */
#ifndef SL_TRAINER_MODEL_BROKEN_UPDATE_H
#define SL_TRAINER_MODEL_BROKEN_UPDATE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/arena/param_store.h"
#include "trainer/model/tensor.h"

// Borrowed for the call.
struct sl_broken_update {
    const struct sl_arena *arena;
    const struct sl_update *update;  // whose lock the caller has
    const struct sl_tensor *tensors; // (n_tensors) of the model
    uint32_t n_tensors;
    float scale;  // of the sum of the gradient slots
    bool of_rows; // the gradient of learned rows is not finite
    double lr;    // of this update, whose step is in the bank of the next version
};

// Records what is wrong and returns SL_ENOTFINITE: "update 7 (epoch 2, 2 of 5) at a learning rate
// of 1000: the loss of batch 2 is nan; ...".
int sl_broken_update_explain(const struct sl_broken_update *b);

#endif
