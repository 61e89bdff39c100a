/*
 * excluded_internal.h - a hop's rows without the edges that it does not see (struct sl_excluded).
 *
 * A row of d edges of which m are excluded is drawn as one of d - m edges; what is drawn are then
 * places among those that are left. Place x of these is place x + j of the whole row where j of the
 * excluded edges have at most x of the others before them.
 */
#ifndef SL_KERNELS_EXCLUDED_INTERNAL_H
#define SL_KERNELS_EXCLUDED_INTERNAL_H

#include <stdint.h>

#include "kernels/exclusion.h"

// The excluded edges of one row.
struct sl_excluded_row {
    const uint32_t *at; // (n) places in the row, rising
    uint32_t n;
};

static inline struct sl_excluded_row sl_excluded_row(const struct sl_excluded *excluded,
                                                     uint32_t row)
{
    struct sl_excluded_row out = {0};
    if (__builtin_expect(excluded && row < excluded->n_rows, 0)) {
        out.at = excluded->place + excluded->offsets[row];
        out.n = excluded->offsets[row + 1] - excluded->offsets[row];
    }
    return out;
}

// Step k of a hop's walks.
static inline struct sl_walk_excluded sl_walk_excluded_of(const struct sl_khop_args *args,
                                                          uint32_t k)
{
    return args->excluded_along ? args->excluded_along[k]
                                : (struct sl_walk_excluded){args->excluded, args->map, args->rows};
}

// Where in the whole row the edge stands that is number x of those that are left.
static inline uint32_t sl_excluded_place(struct sl_excluded_row out, uint32_t x)
{
    uint32_t before = 0, n = out.n;
    while (n > 0) {
        const uint32_t half = n / 2, middle = before + half;
        const int is = out.at[middle] - middle <= x;
        before = is ? middle + 1 : before;
        n = is ? n - half - 1 : half;
    }
    return x + before;
}

#endif
