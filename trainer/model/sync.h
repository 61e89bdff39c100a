/*
 * sync.h - which version of the parameters a batch is computed on, and who makes the next one.
 *
 * ORDERED. One, two or eight trainers, any of which may be killed at any instruction, must give the
 * same parameters bit for bit. The parameter store (common/arena/param_store.h) fixes what an
 * update is: a run of consecutive batches, computed on one version, reduced in batch order. A
 * trainer waits until the version of its batch is there, writes the gradient of the summed loss
 * into the batch's slot, completes the lease, and then looks whether that made an update possible.
 * Whoever holds the apply lock reduces the slots, steps the optimizer from the current bank into
 * the other one and flips the version. Everything is a function of the slots and of the current
 * bank, so a second try after a death writes the same bits; parameters and optimizer state are read
 * and written where they lie in the arena.
 *
 * Where trainers form a group (allreduce.h), a batch's gradient stays on its device, the batch is
 * held, and its completion waits until the sum of all of the update's gradients is in slot 0; from
 * there on it is the same.
 *
 * ASYNC (FGNN 5.2). Each batch is an update of its own. A trainer *joins* before it computes: it
 * copies the current parameters, since others go on and write the bank over, and its gradient is
 * outstanding from then on. Where one gradient more would make it impossible to apply all of them
 * within the bound, joining waits until others are applied. A gradient that is outstanding waits
 * for nothing but its own computation, so nobody waits in a circle. The gradient goes into the
 * device's slot and is *offered* before the lease is completed; then it is applied by whoever comes
 * first, in any order that keeps the bound.
 *
 * WHAT AN UPDATE DOES. The flat vector is cut into runs of tensors that have the same rule
 * (update_runs.h: by sl_tensor_role, and which of them decay):
 *
 *   step      gradient = (sum over batches of the gradient of the summed loss) / (sum of weights),
 *             scaled down where its norm over all learned tensors is above clip_norm; then the
 *             optimizer's step with the learning rate of this update (learning_rate.h)
 *   running   a statistic r: r += momentum (s - r) for each batch's own s, in batch order
 *   keep      is copied
 *
 * All of it is a function of version, slots, weights and bank: the same whoever does it, and after
 * a resume.
 *
 * LEARNED ROWS (row_step.h) that the update's batches met are stepped where they lie, behind
 * everything that may find a number that is not finite and before the version is advanced;
 * clip_norm counts their gradient, too. An applier that dies over them leaves what the next one
 * goes on from (common/arena/row_table.h).
 *
 * SEVERAL NODES (common/arena/nodes.h). A node's trainers step its slice of the flat vector alone,
 * in the same way; the norm for clip_norm is of the whole gradient everywhere.
 *
 * WHAT IS NOT FINITE. A loss, a gradient or a result of the step that is not a finite number (the
 * steps tell, kernels.h) ends the job: the update is not committed, so the parameters in the store,
 * and whatever is made of them, are finite; the worker that tried says which number it is
 * (broken_update.h) and keeps the lock until it ends.
 *
 * WHERE. The processor makes every update, with the operations on this process's memory, whatever
 * the trainers compute on: an update's bits then depend neither on which trainer came first, of a
 * GPU or of CPU cores, nor on whether a GPU could be given the arena in place, which the system may
 * allow one process and refuse another. A model of half a million parameters is 14 MB to read and
 * write, by a few cores in about the time that a GPU would spend on its bus. What a GPU trainer
 * does beside is to fetch the new version and to deliver a gradient (parameters.h).
 *
 * HELPING. A trainer that waits, for a version or to join, tries to make the next version each time
 * it wakes: the one that held the apply lock may have died, and the broker only releases the lock.
 */
#ifndef SL_TRAINER_MODEL_SYNC_H
#define SL_TRAINER_MODEL_SYNC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/arena/param_store.h"
#include "common/arena/heartbeat.h"
#include "config/config.h"
#include "kernels/kernels.h"
#include "trainer/model/allreduce.h"
#include "trainer/model/layer.h"
#include "trainer/model/row_step.h"
#include "config/learning_rate.h"
#include "trainer/model/update_runs.h"

// Borrowed for as long as the sync lives, but for the config.
struct sl_sync_spec {
    const struct sl_config *config;
    uint64_t n_params;               // of the model
    const struct sl_tensor *tensors; // (n_tensors) of the model, in the order of their offsets
    uint32_t n_tensors;
    struct sl_arena *arena;
    uint32_t worker; // id
    uint32_t device;
    const struct sl_kernels *kernels; // on this process's memory, whatever the device
    const struct sl_device *memory;   // where gradients are computed; NULL: on cores
    const struct sl_heartbeat *pulse;
    const struct sl_row_table *rows; // learned ones; NULL: there are none
};

struct sl_sync {
    struct sl_arena *arena;
    uint32_t worker, device;
    const struct sl_kernels *kernels;
    const struct sl_device *memory; // of `joined`, which goes to the device with every batch
    bool async;
    float *joined; // (n_params) async: the parameters that the gradient is computed on
    enum sl_optimizer_kind optimizer;
    struct sl_adam_step adam;
    struct sl_sgd_step sgd;
    struct sl_learning_rate rate;
    double clip_norm; // 0 = gradients are not clipped
    uint64_t n_params;
    const struct sl_tensor *tensors; // (n_tensors) borrowed
    uint32_t n_tensors;
    struct sl_update_runs runs;
    float *scratch;               // one piece of the reduced gradient
    float *whole;                 // (n_params) all of it, where it is clipped; else NULL
    const float **slots;          // (batches_per_update)
    struct sl_row_step rows;      // without a table: there are none
    uint64_t applied;             // updates this trainer made
    uint64_t apply_ns;            // time it took, and the sums with other trainers
    struct sl_exchange *exchange; // borrowed; NULL: gradients go to the store
    const struct sl_heartbeat *pulse;
};

// Arrays of optimizer state that this optimizer needs in the parameter store.
uint32_t sl_sync_state_arrays(enum sl_optimizer_kind kind);

// SL_EPROTO when the arena does not fit this job's model and optimizer.
int sl_sync_init(struct sl_sync *s, const struct sl_sync_spec *spec);
void sl_sync_fini(struct sl_sync *s); // safe on a zeroed struct

// Applies every update that is due. SL_OK also when none was. SL_ENOTFINITE: the next one cannot be
// made; the message says which number is not finite.
int sl_sync_help(struct sl_sync *s);

// Ordered: waits until a TRAIN cell's version is current, helping meanwhile. SL_OK; SL_ETIMEDOUT;
// SL_EABORTED; SL_ESTALE when the version has passed: the batch was somebody else's after all.
int sl_sync_wait(struct sl_sync *s, const struct sl_lease *lease, uint32_t timeout_ms);

// Async: waits until one more gradient may be outstanding, helping meanwhile, and registers it;
// s->joined then holds the parameters of *version. SL_OK; SL_ETIMEDOUT; SL_EABORTED.
int sl_sync_join(struct sl_sync *s, uint32_t timeout_ms, uint64_t *version);

#endif
