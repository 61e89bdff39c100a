/*
 * weighted_short.h - the draws by weight of rows of few edges.
 *
 * A row of up to SL_WEIGHTED_SHORT edges has its running sums copied, and every edge that is drawn
 * is closed up in them: its weight is taken from its own sum and all behind it. What is left is
 * then laid end to end as kernels/weighted_internal.h has it, and the edge over which a point lies
 * is the first one whose sum is above it: one comparison of whole vectors in place of a search, and
 * the edges that it finds are those from which the weight is taken. All sums are exact (the grid),
 * so that this is the definition's edge. A drawn edge has an empty interval and is never found.
 */
#ifndef SL_KERNELS_CPU_WEIGHTED_SHORT_H
#define SL_KERNELS_CPU_WEIGHTED_SHORT_H

#include <stdint.h>

#include "kernels/cpu/weighted_points.h"

enum {
    SL_WEIGHTED_SHORT = 64,
    SL_WEIGHTED_SHORT_SIZES = 4, // up to 8, 16, 32 and 64 edges
};

// Rows of the group, each of 1 .. SL_WEIGHTED_SHORT edges.
struct sl_weighted_shorts {
    const double *prefix[SL_WEIGHTED_ROWS];
    uint32_t degree[SL_WEIGHTED_ROWS];
    struct sl_weighted_drawn *drawn;       // (SL_WEIGHTED_ROWS)
    uint32_t *n;                           // (SL_WEIGHTED_SHORT_SIZES)
    uint32_t (*of_size)[SL_WEIGHTED_ROWS]; // (SL_WEIGHTED_SHORT_SIZES) rows by size
};

// Where a row of so many edges belongs; SL_WEIGHTED_SHORT_SIZES: it is not short.
static inline uint32_t sl_weighted_size(uint64_t degree)
{
    return (uint32_t)((degree > 8) + (degree > 16) + (degree > 32) + (degree > SL_WEIGHTED_SHORT));
}

// Draws k edges, fewer than it has, for each of the rows, while it has weight left. Row r has the
// points of row r.
void sl_weighted_shorts_draw(struct sl_weighted_shorts *s, uint32_t k,
                             const struct sl_weighted_points *points);

#endif
