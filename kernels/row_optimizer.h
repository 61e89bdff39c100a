// row_optimizer.h - steps of rows that lie anywhere in large tables (kernels.h, whose conventions
// hold). On cores.
#ifndef SL_KERNELS_ROW_OPTIMIZER_H
#define SL_KERNELS_ROW_OPTIMIZER_H

#include <stdint.h>

#include "kernels/kernels.h"

enum { SL_ROW_OPTIMIZER_STATES = 2 };

// New values and optimizer arrays of rows go to where they are asked for; the tables stay as they
// are. Ids are not looked at.
struct sl_row_optimizer_args {
    uint64_t n;
    uint32_t dim;
    const uint32_t *ids;                         // (n)
    const float *gradient;                       // (n, dim)
    float scale;                                 // each of its numbers is multiplied by it first
    const float *values;                         // (any, dim)
    const float *state[SL_ROW_OPTIMIZER_STATES]; // (any, dim)
    float *values_out;                           // out (n, dim)
    float *state_out[SL_ROW_OPTIMIZER_STATES];   // out (n, dim)
};

// The bits are those of reduce, gather_rows and adam or sgd one after the other; each table row is
// read once, while the ones before are computed. *broken as there.
int sl_adam_rows(const struct sl_adam_step *step, const struct sl_row_optimizer_args *args,
                 uint32_t *broken);
int sl_sgd_rows(const struct sl_sgd_step *step, const struct sl_row_optimizer_args *args,
                uint32_t *broken);

#endif
