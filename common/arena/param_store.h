/*
 * param_store.h - the parameter store: parameters, optimizer state and their version, in the arena.
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
 *
 * In async mode (FGNN 5.2) every mini-batch is an update of its own and gradients are applied as
 * they come, with a bound: a gradient computed on version b is applied to a version v with
 * v - b <= staleness, always, and none is dropped. A trainer *joins* with its next gradient on the
 * current version, which it copies, since the bank may be written over while it computes. A
 * gradient is outstanding from joining to being applied. Joining is refused, and an apply put off,
 * where it could make it impossible to apply all outstanding ones in time; sorted by base version
 * b_0 <= b_1 <= .., that is possible at version v while v + i - b_i <= staleness for every i. So at
 * most staleness + 1 gradients are outstanding at once. A trainer that dies before its gradient is
 * done is taken off the list by the broker; one that dies after it has left the gradient in its
 * seat's slot, and anybody applies it.
 *
 * The commit of an async update must name which gradient it was, in one step: the target bank
 * carries the tag of the batch that made it, so after the flip of the version everybody can tell
 * that the slot with this tag has been used, even when the applier died before it cleared it.
 *
 * How it survives a kill at any instruction stands at the top of param_store.c.
 */
#ifndef SL_ARENA_PARAM_STORE_H
#define SL_ARENA_PARAM_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/arena/phase.h"

struct sl_param_store {
    _Alignas(64) _Atomic uint64_t version; // updates applied so far
    _Alignas(64) _Atomic uint64_t apply;   // (update + 1) << 16 | worker, 0 = free
    _Atomic uint64_t made_by[2];           // async: tag of the batch that made each bank
    // Several nodes (nodes.h).
    _Alignas(64) _Atomic uint64_t made; // the highest version of which this node's slice is made
    _Atomic uint64_t heard;             // version << 8 | nodes without a cell of it that said so
    _Atomic uint64_t whole;             // the version of which all of the state was here
    _Atomic uint64_t asked_ns;          // the broker asked for the state; 0: it does not
};

// async: one for each device, behind the store. The gradient of the trainer on that device.
struct sl_param_store_seat {
    _Alignas(64) _Atomic uint64_t base; // version + 1 that it is computed on, 0 = none outstanding
    _Atomic uint64_t word;              // the lease's word once it is there, 0 = being computed
    _Atomic uint64_t seq, tag;          // of the cell; valid once word is set
    _Atomic uint32_t cell;
    _Atomic uint32_t worker; // who computes it
};

static inline struct sl_param_store *sl_param_store_of(const struct sl_arena *a)
{
    return (struct sl_param_store *)sl_arena_region(a, SL_REGION_BOARD);
}

static inline uint64_t sl_param_store_version(const struct sl_arena *a)
{
    return atomic_load_explicit(&sl_param_store_of(a)->version, memory_order_acquire);
}

// Parameters of a version that is current or being made. (n_params)
float *sl_param_store_params(const struct sl_arena *a, uint64_t version);
// Optimizer array i of n_state of a version. (n_params)
float *sl_param_store_state(const struct sl_arena *a, uint64_t version, uint32_t i);
// The best parameters so far, written by the broker alone. (n_params)
float *sl_param_store_best(const struct sl_arena *a);
// Parameters that evaluation beside updates uses (the side lane, ledger.h). Written by the broker
// alone, while no phase of the side lane is open to trainers. (n_params)
float *sl_param_store_pinned(const struct sl_arena *a);
// Ordered: gradient slot of a batch: cell % batches_per_update. (n_params)
float *sl_param_store_gradient(const struct sl_arena *a, uint32_t cell);

// Ordered: version on which a TRAIN cell's gradient is computed.
uint64_t sl_param_store_cell_version(const struct sl_arena *a, const struct sl_phase *phase,
                                     uint32_t cell);

// --- async mode ---

/*
 * Registers the device's next gradient as outstanding and copies the current parameters (n_params).
 * SL_OK with *version; SL_EAGAIN while the bound admits no other one, while the device's last one
 * has not been applied, or while the apply lock is taken: help, wait for `progress`, try again.
 */
int sl_param_store_join(struct sl_arena *a, uint32_t device, uint32_t worker, float *params,
                        uint64_t *version);
// There will be no gradient, since its batch goes back. Does nothing when it is done already.
void sl_param_store_withdraw(struct sl_arena *a, uint32_t device, uint32_t worker);
// Where it is written. (n_params)
float *sl_param_store_device_gradient(const struct sl_arena *a, uint32_t device);
// The device's slot holds the gradient of this lease: right before sl_ledger_complete(). It counts
// once the cell is done with this very lease, and never otherwise.
void sl_param_store_offer(struct sl_arena *a, uint32_t device, const struct sl_lease *lease);

// --- both modes ---

struct sl_update {
    uint64_t version;    // the update reads this version and makes version + 1
    uint64_t seq;        // phase
    uint32_t first_cell; // gradients of [first_cell, first_cell + n_cells), all done
    uint32_t n_cells;
    uint32_t device; // async: whose slot
};

// Gradients that an update adds up: one for each batch, or where trainers form a group their sum.
uint32_t sl_param_store_update_gradients(const struct sl_arena *a, const struct sl_update *u);
// Slot i of an update: the gradient of its batch i, and of a group's sum the statistics of batch i.
// (n_params)
const float *sl_param_store_update_gradient(const struct sl_arena *a, const struct sl_update *u,
                                            uint32_t i);

// When every gradient of the next update of the current TRAIN phase is done and nobody applies it,
// takes the apply lock and describes the update. SL_OK, or SL_EAGAIN when there is nothing to do.
// On several nodes the update is one of this node's slice.
// Async: the gradient with the oldest base that is done, unless one that is not done yet would
// then come too late.
int sl_param_store_begin_update(struct sl_arena *a, uint32_t worker, struct sl_update *out);
// The next update, when every one of its cells is held (group.h): the members of the group sum its
// gradients. SL_OK, or SL_EAGAIN. Takes no lock.
int sl_param_store_next_held(const struct sl_arena *a, struct sl_update *out);
// Where the lock's holder writes down what is known of it, before it commits. Each one who begins
// the update writes all of it: one before may have died.
struct sl_update_entry *sl_param_store_update_entry(const struct sl_arena *a,
                                                    const struct sl_update *u);
// Commits: version + 1, releases the lock, wakes the waiters. Async: the update's entry learns its
// base_version and applied_version before. On several nodes this node's slice is made, and the
// version waits for the others' (nodes.h).
void sl_param_store_commit_update(struct sl_arena *a, const struct sl_update *u);

// --- the broker's: what a checkpoint is made of ---

/*
 * Takes the apply lock for the broker: until sl_param_store_thaw() no version is made and no bank
 * is written. Does not wait: SL_EAGAIN while somebody has it. `alone`: no worker is left, so
 * whoever has it is dead.
 */
int sl_param_store_freeze(struct sl_arena *a, bool alone);
void sl_param_store_thaw(struct sl_arena *a);
// Whether the current version contains this cell's gradient: then so does every later one, and the
// entries of the cell and of its update are final. The TRAIN phase is open or has been complete
// since it was. It may say no for a moment longer than is true, unless frozen.
bool sl_param_store_is_applied(const struct sl_arena *a, uint64_t seq, uint32_t cell);
// Before the first phase is opened: the version that the run goes on from. The caller writes its
// parameters and state.
void sl_param_store_restore(struct sl_arena *a, uint64_t version);

// Broker, for a dead worker: releases its apply lock if it has it, and takes a gradient that it
// had not finished off the list.
void sl_param_store_reclaim(struct sl_arena *a, uint32_t worker);

#endif
