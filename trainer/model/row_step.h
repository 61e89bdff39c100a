/*
 * row_step.h - the optimizer's step of the learned rows that an update met.
 *
 * The update's slots (common/arena/row_table.h) name the rows that its batches met, each with the
 * gradient of the summed loss. Rows are taken in the order of their vertices, which is that of
 * memory; gradients of a row that several batches met are added in batch order. So the result is a
 * function of the slots, whoever computes it and however often.
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
#include "kernels/row_optimizer.h"

// Memory grows to the largest update, and then nothing is allocated.
struct sl_row_step {
    const struct sl_row_table *table; // borrowed
    const struct sl_kernels *kernels;
    enum sl_optimizer_kind optimizer;
    // The rows of the update in hand (kernels/row_optimizer.h).
    uint32_t n;
    uint32_t *ids, *first;
    struct sl_gradient_row *parts, *sorted;
    const float **pages; // of gradients
    uint64_t part_room, page_room;
    float *sums; // (n, dim) of several batches
    uint64_t sum_room;
};

// What is the same for all rows of an update.
struct sl_row_rates {
    float scale; // of the sums, clipping included
    uint64_t version;
    struct sl_adam_step adam; // with this update's rate and step; or
    struct sl_sgd_step sgd;
};

void sl_row_step_init(struct sl_row_step *s, const struct sl_row_table *table,
                      const struct sl_kernels *kernels, enum sl_optimizer_kind optimizer);
void sl_row_step_fini(struct sl_row_step *s); // safe on a zeroed struct

// Finds the rows that the update met and adds their gradients up; *squares of the sums, not finite
// where one of them is not, or NULL: nobody wants it, and reading all of them once more. Nothing is
// written that others read.
int sl_row_step_meet(struct sl_row_step *s, const struct sl_update *u, double *squares);

// Steps the rows that were met last, from wherever whoever was at it before has left it: they are
// those of version + 1 then. SL_ENOTFINITE names the first vertex whose row is not finite. Other
// rows have been stepped by then, and the table is of no version.
int sl_row_step_apply(struct sl_row_step *s, const struct sl_row_rates *rates);

#endif
