/*
 * weighted_short.h - the draws by weight of rows of few edges, many rows side by side.
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
#include <string.h>

enum {
    SL_WEIGHTED_SHORT = 64,
    SL_WEIGHTED_SHORT_ROWS = 32,
    SL_WEIGHTED_SHORT_SIZES = 4, // up to 8, 16, 32 and 64 edges
};

struct sl_weighted_short {
    double none[8]; // the last one is the sum before the first edge, 0
    double sums[SL_WEIGHTED_SHORT];
    double left; // weight that has not been drawn
    uint32_t n_drawn;
    uint32_t drawn[SL_WEIGHTED_SHORT]; // in the order of the slots
} __attribute__((aligned(64)));

struct sl_weighted_shorts {
    const double *prefix[SL_WEIGHTED_SHORT_ROWS]; // of rows that have not been copied
    uint32_t degree[SL_WEIGHTED_SHORT_ROWS];
    struct sl_weighted_short row[SL_WEIGHTED_SHORT_ROWS];
    uint32_t n[SL_WEIGHTED_SHORT_SIZES];
    uint32_t of_size[SL_WEIGHTED_SHORT_SIZES][SL_WEIGHTED_SHORT_ROWS]; // rows by size
};

static inline void sl_weighted_shorts_reset(struct sl_weighted_shorts *s)
{
    memset(s->n, 0, sizeof s->n);
}

// Takes up a row of 1 .. SL_WEIGHTED_SHORT edges with these running sums as row[r].
static inline void sl_weighted_shorts_open(struct sl_weighted_shorts *s, uint32_t r,
                                           const double *prefix, uint32_t degree)
{
    uint32_t size = (degree > 8) + (degree > 16) + (degree > 32);
    s->prefix[r] = prefix;
    s->degree[r] = degree;
    s->of_size[size][s->n[size]++] = r;
}

// Copies the sums of the rows that were taken up.
void sl_weighted_shorts_copy(struct sl_weighted_shorts *s);

// Draws an edge for each row that was copied and has weight left. words + 4 r: high and low word
// of row r's slot.
void sl_weighted_shorts_draw(struct sl_weighted_shorts *s, const uint32_t *words);

#endif
