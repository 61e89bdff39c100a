/*
 * board.h - the parameter board: parameters, optimizer state and their version, in the arena.
 *
 * Two banks of {parameters, optimizer state}; the version's lowest bit says which one is current.
 * An update reads the current bank and the gradient slots and writes the other bank; the version is
 * then advanced, which is the commit. Whoever finds all gradients of the next update done takes the
 * apply lock and does it; killed half way, it has changed nothing that anybody reads, and the next
 * one does it again with the same result. Trainers keep no state of their own.
 *
 * In ordered mode update u (counted from 0 over the whole run) is the fixed run of
 * batches_per_update consecutive mini-batches of an epoch (the last of an epoch may be shorter).
 * Their gradients are computed on version u and reduced in batch order.
 */
#ifndef SL_COMMON_IPC_BOARD_H
#define SL_COMMON_IPC_BOARD_H

#include <stdint.h>

#include "common/ipc/ledger.h"

struct sl_board {
    _Alignas(64) _Atomic uint64_t version; // updates applied so far
    _Alignas(64) _Atomic uint64_t apply;   // (update + 1) << 16 | worker, 0 = free
};

struct sl_board *sl_board_of(const struct sl_arena *a);

static inline uint64_t sl_board_version(const struct sl_arena *a)
{
    return atomic_load_explicit(&sl_board_of(a)->version, memory_order_acquire);
}

// Parameters of a version that is current or being made. (n_params)
float *sl_board_params(const struct sl_arena *a, uint64_t version);
// Optimizer array i of n_state of a version. (n_params)
float *sl_board_state(const struct sl_arena *a, uint64_t version, uint32_t i);
// The best parameters so far, written by the broker alone. (n_params)
float *sl_board_best(const struct sl_arena *a);
// Gradient slot of a batch: cell % batches_per_update. (n_params)
float *sl_board_gradient(const struct sl_arena *a, uint32_t cell);

// Version on which a TRAIN cell's gradient is computed.
uint64_t sl_board_cell_version(const struct sl_arena *a, const struct sl_phase *phase,
                               uint32_t cell);

struct sl_update {
    uint64_t version;    // the update reads this version and makes version + 1
    uint64_t seq;        // phase
    uint32_t first_cell; // gradients of [first_cell, first_cell + n_cells), all done
    uint32_t n_cells;
};

// When every gradient of the next update of the current TRAIN phase is done and nobody applies it,
// takes the apply lock and describes the update. SL_OK, or SL_EAGAIN when there is nothing to do.
int sl_board_begin_update(struct sl_arena *a, uint32_t worker, struct sl_update *out);
// Commits: version + 1, releases the lock, wakes the waiters.
void sl_board_commit_update(struct sl_arena *a, const struct sl_update *u);

// Broker, for a dead worker: releases its apply lock if it has it.
void sl_board_reclaim(struct sl_arena *a, uint32_t worker);

#endif
