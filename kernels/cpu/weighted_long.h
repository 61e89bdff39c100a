/*
 * weighted_long.h - the draws by weight of rows of many edges, many rows side by side.
 *
 * As weighted_lane.h: the row stays where it is, in its running sums, and what has been drawn is
 * kept in the order of the file, each edge with its weight and with the point where its interval
 * would begin if all that was drawn before it were closed up. But here the drawn edges of all rows
 * lie side by side, so that a comparison, and an edge's way to its place among the others, is one
 * instruction for several rows; for fanouts up to SL_WEIGHTED_LONG_FANOUT.
 *
 * What depends on a row alone is the search. Between two drawn edges it begins where the edge would
 * lie if all weighed the same: SL_WEIGHTED_WINDOW sums there are compared at once. With weights
 * that do not depend on their place they contain the edge mostly, or those do that lie as far from
 * them as they were wrong. After SL_WEIGHTED_GUESSES of these the search halves what is left, so
 * that no weights make it long. Where it looks changes nothing about what it finds. The windows
 * that the draws of a group begin with hardly depend on what is drawn: all are asked for together,
 * before any is looked at.
 */
#ifndef SL_KERNELS_CPU_WEIGHTED_LONG_H
#define SL_KERNELS_CPU_WEIGHTED_LONG_H

#include <stdint.h>
#include <string.h>

#include "kernels/cpu/weighted_points.h"

enum {
    SL_WEIGHTED_LONG_ROWS = SL_WEIGHTED_ROWS,
    SL_WEIGHTED_LONG_FANOUT = SL_WEIGHTED_SLOTS,
    SL_WEIGHTED_LONG_DEGREE = INT32_MAX,
    SL_WEIGHTED_WINDOW = 16, // sums that are compared at once; a row has more
    SL_WEIGHTED_GUESSES = 3,
};

typedef double sl_weighted_row_doubles[SL_WEIGHTED_LONG_ROWS];

struct sl_weighted_longs {
    uint32_t n;                              // rows that were taken up
    uint32_t slot;                           // the next one
    uint32_t row[SL_WEIGHTED_LONG_ROWS];     // which row of the group it is
    uint32_t n_drawn[SL_WEIGHTED_LONG_ROWS]; // fewer than slots where no weight is left
    const double *prefix[SL_WEIGHTED_LONG_ROWS];
    uint32_t degree[SL_WEIGHTED_LONG_ROWS];
    _Alignas(32) sl_weighted_row_doubles left; // weight that has not been drawn
    // What has been drawn, in the order of the file. Behind it the row's end.
    sl_weighted_row_doubles at[SL_WEIGHTED_LONG_FANOUT + 1]; // position in the row
    sl_weighted_row_doubles start[SL_WEIGHTED_LONG_FANOUT + 1];
    sl_weighted_row_doubles weight[SL_WEIGHTED_LONG_FANOUT + 1];
    struct sl_weighted_drawn *drawn; // (SL_WEIGHTED_ROWS) of the group
};

// Before the first rows that ask for k neighbours: numbers in what no row uses.
static inline void sl_weighted_longs_init(struct sl_weighted_longs *s, uint32_t k)
{
    memset(s->left, 0, sizeof s->left);
    memset(s->at, 0, (k + 1) * sizeof s->at[0]);
    memset(s->start, 0, (k + 1) * sizeof s->start[0]);
    memset(s->weight, 0, (k + 1) * sizeof s->weight[0]);
}

static inline void sl_weighted_longs_reset(struct sl_weighted_longs *s)
{
    s->n = s->slot = 0;
}

// Takes up a row of the group with these running sums: more than SL_WEIGHTED_WINDOW and at most
// SL_WEIGHTED_LONG_DEGREE edges.
static inline void sl_weighted_longs_open(struct sl_weighted_longs *s, uint32_t row,
                                          const double *prefix, uint32_t degree)
{
    uint32_t r = s->n++;
    s->row[r] = row;
    s->n_drawn[r] = 0;
    s->prefix[r] = prefix;
    s->degree[r] = degree;
}

// Asks for what k draws of the rows will look at first.
void sl_weighted_longs_ask(const struct sl_weighted_longs *s, uint32_t k,
                           const struct sl_weighted_points *points);

// Draws k edges for each row that was taken up, while it has weight left.
void sl_weighted_longs_draw(struct sl_weighted_longs *s, uint32_t k,
                            const struct sl_weighted_points *points);

#endif
