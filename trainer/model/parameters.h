/*
 * parameters.h - parameters and gradient of a batch in the device's memory.
 *
 * The parameters of a version lie in the parameter store (common/arena/param_store.h), in the
 * machine's memory, and gradients go there. On a CPU device they are read and written where they
 * lie. A GPU computes on a copy, made once a version: a few megabytes against the gigabytes that a
 * batch touches. Its gradient is collected in the device's memory and copied to its slot when the
 * batch is done.
 *
 * Where the model multiplies in bf16 its weights are rounded with the copy (rounded_weights.h).
 *
 * A version's parameters never change, so a copy is good for as long as it is asked for by the same
 * name, in training and in evaluation.
 */
#ifndef SL_TRAINER_MODEL_PARAMETERS_H
#define SL_TRAINER_MODEL_PARAMETERS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/device/device.h"
#include "trainer/model/rounded_weights.h"

enum sl_parameters_name {
    SL_PARAMETERS_NONE,
    SL_PARAMETERS_VERSION, // stamp: the store's version
    SL_PARAMETERS_PHASE,   // the best or the pinned ones; stamp: the phase of the evaluation
};

struct sl_parameters {
    const struct sl_device *device;
    uint64_t n_params;
    struct sl_rounded_weights *rounded; // of the model; NULL: none
    float *copy;                        // (n_params) device memory; NULL on a CPU device
    enum sl_parameters_name name;
    uint64_t stamp;
    float *gradient; // (n_params) likewise, but where it is apart from the store
};

/*
 * `rounded` are those of the model that computes on them, which it outlives; or NULL. `apart`: on a
 * CPU device, too, gradients are computed apart from the parameter store: a member of a group that
 * is over may still write its part of a sum to a slot that another one computes in. SL_ENOMEM.
 */
int sl_parameters_init(struct sl_parameters *p, const struct sl_device *device, uint64_t n_params,
                       struct sl_rounded_weights *rounded, bool apart);
void sl_parameters_fini(struct sl_parameters *p); // safe on a zeroed struct

// Device memory that it takes, without the rounded weights.
uint64_t sl_parameters_bytes(const struct sl_parameters *p);

// *out (n_params): the parameters of that name where the device computes with them. They are at
// `board` in the machine's memory, and must stay there until the calling thread's next sync().
int sl_parameters_take(struct sl_parameters *p, enum sl_parameters_name name, uint64_t stamp,
                       const float *board, const float **out);

// Where to compute the gradient (n_params) that goes to `slot` of the parameter store ...
float *sl_parameters_gradient(const struct sl_parameters *p, float *slot);
// ... and brings it there once it is computed. Waits for all operations of this thread on the
// device.
int sl_parameters_deliver(const struct sl_parameters *p, float *slot);

#endif
