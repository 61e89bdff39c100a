/*
 * snapshot.h - everything a job needs to go on from this very moment, copied out of the arena.
 *
 * PROBLEM. Trainers write parameters all the time, and a checkpoint must not hold them up: it has
 * to be a state that really was, of which it is known which mini-batches are in it.
 *
 * DESIGN. The broker takes the parameter store's apply lock, if nobody has it (else it tries again
 * at the next tick), which takes as long as copying parameters and optimizer state does: no version
 * is made meanwhile, trainers go on computing gradients. Everything else is the broker's own or
 * does not change any more, and is copied afterwards; a thread of libuv's pool then writes the
 * files (checkpoint.h).
 *
 * Learned rows (common/arena/row_table.h) are of that version where they are whole: an applier that
 * died over them is waited for, until another one has made that update. They may be many: the lock
 * stays taken, any thread copies them, and then the loop lets updates go on. Meanwhile workers draw
 * and compute gradients, and best rows stay as they are (sl_phases_hold_best). Where no worker is
 * left (`alone`) they are written from where they lie; if an update was broken off in the middle of
 * them, no checkpoint can be made.
 *
 * On several nodes (common/arena/nodes.h) each has a part of the optimizer's state: the first
 * attempt asks for the others', and a later one finds it; the version waits for that.
 *
 * A position is (epoch, the batches of it whose gradients are applied). Epochs before it are
 * complete, evaluation and all. In ordered mode these batches are a prefix, in async mode any set.
 * While an epoch is evaluated its position is "all batches done": what is kept of every batch
 * (struct sl_cell_record) is enough to read the epoch once more and to evaluate it again. Where the
 * next epoch is trained meanwhile, its batches that are applied are kept too, behind those of this
 * one, and the parameters that this one is evaluated with (pinned). So every moment has a
 * position, but for the one between an update of the next epoch and the broker's reading of this
 * one.
 */
#ifndef SL_BROKER_RUNDIR_SNAPSHOT_H
#define SL_BROKER_RUNDIR_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "broker/epochs/phases.h"
#include "broker/rundir/row_files.h"

enum { SL_SNAPSHOT_STATES = 2 };

struct sl_snapshot {
    uint64_t version;               // updates applied
    uint32_t epoch;                 // the first one that is not complete
    uint32_t n_batches;             // of an epoch
    uint32_t n_records;             // batches of it that are in this version, and of the next epoch
    struct sl_cell_record *records; // (2 n_batches)
    uint64_t n_params;
    float *params; // (n_params)
    uint32_t n_state;
    float *state[SL_SNAPSHOT_STATES]; // (n_params)
    struct sl_early_stopping best;
    float *best_params;      // (n_params)
    float *pinned_params;    // (n_params) with batches of the next epoch
    struct sl_row_view rows; // learned ones, where there are any
    struct sl_row_copy copy; // of them: made by whoever takes snapshots while workers live
    bool frozen, new_best;   // while they are being copied; with the best ones
    bool has_digest;
    uint8_t digest[SL_PHASES_DIGEST_BYTES]; // of the samples of the epochs before
};

// Takes all the memory that it will ever need.
int sl_snapshot_init(struct sl_snapshot *s, const struct sl_phases *p);
void sl_snapshot_fini(struct sl_snapshot *s); // safe on a zeroed struct

// SL_EAGAIN: not at this moment; nothing has been changed. `alone`: no worker is left. With
// s->frozen learned rows are to be copied (on any thread), and until sl_snapshot_thaw no update is
// made.
int sl_snapshot_take(struct sl_snapshot *s, struct sl_phases *p, bool alone);
void sl_snapshot_copy_rows(struct sl_snapshot *s, const struct sl_phases *p);
void sl_snapshot_thaw(struct sl_snapshot *s, struct sl_phases *p); // on the loop

// Moves a position that has batches of the next epoch to that one: where training is.
void sl_position_of_training(uint32_t *epoch, uint32_t *n_records, uint32_t n_batches);
// "update 105, epoch 3, batch 7 of 49", counted from 1 as people see them; "update 98, after epoch
// 2". Returns buf.
char *sl_position_text(uint64_t version, uint32_t epoch, uint32_t n_records, uint32_t n_batches,
                       char *buf, size_t bytes);

// Batches of the next epoch, which is trained beside the evaluation of this one.
static inline uint32_t sl_snapshot_beside(const struct sl_snapshot *s)
{
    return s->n_records > s->n_batches ? s->n_records - s->n_batches : 0;
}

// Batches trained in all.
static inline uint64_t sl_snapshot_batches(const struct sl_snapshot *s)
{
    return (uint64_t)s->epoch * s->n_batches + s->n_records;
}

#endif
