/*
 * row_step.h - the optimizer's step of the learned rows that an update met.
 *
 * The update's slots (common/arena/row_table.h) name the rows that its batches met, each with the
 * gradient of the summed loss. Gradients of a row that several batches met are added in batch
 * order; rows are taken in the order of their vertices, or where there is one batch in its own. So
 * the result is a function of the slots, whoever computes it and however often.
 *
 * A step is the optimizer's of dense parameters, for rows that were met; others keep values and
 * moments (no decay, no momentum). Adam's bias correction goes by the job's step count, and eps is
 * added where torch.optim.SparseAdam adds it, before the correction of the second moment: rows are
 * that optimizer's. Weight decay, which it has not, is applied to rows that were met.
 */
#ifndef SL_TRAINER_MODEL_ROW_STEP_H
#define SL_TRAINER_MODEL_ROW_STEP_H

#include <stdint.h>

#include "common/arena/param_store.h"
#include "common/arena/row_table.h"
#include "config/config.h"
#include "kernels/kernels.h"

struct sl_row_entry; // row_step.c

// Memory grows to the largest update, and then nothing is allocated.
struct sl_row_step {
    const struct sl_row_table *table; // borrowed
    const struct sl_kernels *kernels;
    enum sl_optimizer_kind optimizer;
    // The rows of the update in hand.
    uint32_t n;
    const uint32_t *ids;    // (n)
    const float *gradients; // (n, dim) added up
    // Memory of several batches' rows.
    struct sl_row_entry *entries, *sorted;
    const float **slots;   // gradients of the batches
    uint32_t *first, *met; // (rows + 1), (rows)
    float *sums;
    uint64_t entry_room, row_room;
};

// What is the same for all rows of an update.
struct sl_row_rates {
    float scale; // of the sums, clipping included
    uint64_t version;
    struct sl_adam_step adam; // with this update's rate and step; or
    struct sl_sgd_step sgd;
};

// SL_ENOMEM.
int sl_row_step_init(struct sl_row_step *s, const struct sl_row_table *table,
                     const struct sl_kernels *kernels, enum sl_optimizer_kind optimizer);
void sl_row_step_fini(struct sl_row_step *s); // safe on a zeroed struct

// Adds the update's gradients up; *squares of the sums, which is not finite where one of them is
// not. Nothing is written that others read.
int sl_row_step_sum(struct sl_row_step *s, const struct sl_update *u, double *squares);

// Steps the rows of the last sum, from wherever whoever was at it before has left it: they are
// those of version + 1 then. SL_ENOTFINITE names the first vertex whose row is not finite.
int sl_row_step_apply(struct sl_row_step *s, const struct sl_row_rates *rates);

#endif
