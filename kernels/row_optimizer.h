/*
 * row_optimizer.h - steps of rows that lie anywhere in large tables (kernels.h, whose conventions
 * hold). On cores.
 *
 * All rows of an update are told at once and stepped a few at a time, so that those behind are on
 * their way to the cache meanwhile. The bits are those of reduce, gather_rows and adam or sgd one
 * after the other, however the rows are cut.
 */
#ifndef SL_KERNELS_ROW_OPTIMIZER_H
#define SL_KERNELS_ROW_OPTIMIZER_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/kernels.h"
#include "kernels/optimizer_internal.h"

enum { SL_ROW_OPTIMIZER_STATES = 2 };

// Gradients lie in pages of so many rows, wherever each of them is.
enum { SL_GRADIENT_PAGE_BITS = 12, SL_GRADIENT_PAGE = 1 << SL_GRADIENT_PAGE_BITS };

// Row `at` of all pages is the gradient of row `id`, or a part of it.
struct sl_gradient_row {
    uint32_t id, at;
};

struct sl_row_optimizer_args {
    uint64_t n;
    uint32_t dim;
    const uint32_t *ids;   // (n) rows of the tables; not looked at
    const uint32_t *first; // (n + 1) row i's gradient: parts [first[i], first[i + 1]) in that order
    const struct sl_gradient_row *parts; // (first[n])
    const float *const *pages;           // of gradients: (SL_GRADIENT_PAGE, dim) each
    float scale;                         // each number of the sum is multiplied by it
    // Tables, which stay as they are: (any, dim).
    const float *values, *state[SL_ROW_OPTIMIZER_STATES];
};

// Made by the two below; its arrays are those of the arguments.
struct sl_row_optimizer {
    struct sl_row_optimizer_args args;
    const float *table[1 + SL_ROW_OPTIMIZER_STATES]; // values, arrays
    uint32_t n_tables, ahead;                        // rows that are asked for
    bool is_sgd;
    struct sl_adam_constants adam;
    struct sl_sgd_step sgd;
};

int sl_adam_rows(const struct sl_adam_step *step, const struct sl_row_optimizer_args *args,
                 struct sl_row_optimizer *out);
int sl_sgd_rows(const struct sl_sgd_step *step, const struct sl_row_optimizer_args *args,
                struct sl_row_optimizer *out);

// New values and arrays of rows [begin, end): out[0], and out[1 ..] of as many arrays as there are,
// each (end - begin, dim). By the calling thread. False where one is not finite.
bool sl_row_optimizer_step(const struct sl_row_optimizer *o, uint64_t begin, uint64_t end,
                           float *const out[1 + SL_ROW_OPTIMIZER_STATES]);

// Rows of (n, dim) to where they lie in a table.
void sl_row_optimizer_write(const float *rows, const uint32_t *ids, uint64_t n, uint32_t dim,
                            float *table);

// The gradients of these rows, not scaled: out (end - begin, dim). Likewise.
void sl_row_optimizer_sum(const struct sl_row_optimizer_args *args, uint64_t begin, uint64_t end,
                          float *out);

#endif
