/*
 * sync.h - ordered updates: which version a batch is computed on, and who makes the next one.
 *
 * PROBLEM. One, two or eight trainers, any of which may be killed at any instruction, must give
 * the same parameters bit for bit.
 *
 * DESIGN. The board (common/ipc/board.h) fixes what an update is: a run of consecutive batches,
 * computed on one version, reduced in batch order. A trainer waits until the version of its batch
 * is there, writes the gradient of the summed loss into the batch's slot, completes the lease, and
 * then looks whether that made an update possible. Whoever holds the apply lock reduces the slots,
 * steps the optimizer from the current bank into the other one and flips the version. Everything
 * is a function of the slots and of the current bank, so a second try after a death writes the
 * same bits; parameters and optimizer state are read and written where they lie in the arena.
 *
 * HELPING. A trainer that waits for a version tries to make it each time it wakes: the one that
 * held the apply lock may have died, and the broker only releases the lock.
 */
#ifndef SL_TRAINER_SYNC_H
#define SL_TRAINER_SYNC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/ipc/board.h"
#include "config/config.h"
#include "kernels/kernels.h"

struct sl_sync {
    struct sl_arena *arena;
    uint32_t worker;
    const struct sl_kernels *kernels;
    enum sl_optimizer_kind optimizer;
    struct sl_adam_step adam;
    struct sl_sgd_step sgd;
    uint64_t n_params;
    float *scratch;      // one piece of the reduced gradient
    const float **slots; // (batches_per_update)
    uint64_t applied;    // updates this trainer made
    uint64_t apply_ns;   // time it took
    const _Atomic bool *stop;
};

// Arrays of optimizer state that this job needs on the board.
uint32_t sl_sync_state_arrays(enum sl_optimizer_kind kind);

// SL_EPROTO when the arena has not the shape that this job's model and optimizer need.
int sl_sync_init(struct sl_sync *s, const struct sl_config *config, uint64_t n_params,
                 struct sl_arena *arena, uint32_t worker, const struct sl_kernels *kernels,
                 const _Atomic bool *stop);
void sl_sync_fini(struct sl_sync *s); // safe on a zeroed struct

// Applies every update that is due. SL_OK also when none was.
int sl_sync_help(struct sl_sync *s);

// Waits until a TRAIN cell's version is current, helping meanwhile. SL_OK; SL_ETIMEDOUT;
// SL_EABORTED; SL_ESTALE when the version has passed: the batch was somebody else's after all.
int sl_sync_wait(struct sl_sync *s, const struct sl_lease *lease, uint32_t timeout_ms);

#endif
