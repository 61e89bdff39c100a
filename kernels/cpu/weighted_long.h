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
 * that no weights make it long. Where it looks changes nothing about what it finds.
 */
#ifndef SL_KERNELS_CPU_WEIGHTED_LONG_H
#define SL_KERNELS_CPU_WEIGHTED_LONG_H

#include <stdint.h>
#include <string.h>

enum {
    SL_WEIGHTED_LONG_ROWS = 32,
    SL_WEIGHTED_LONG_FANOUT = 64,
    SL_WEIGHTED_LONG_DEGREE = INT32_MAX,
    SL_WEIGHTED_WINDOW = 16, // sums that are compared at once; a row has more
    SL_WEIGHTED_GUESSES = 3,
};

typedef double sl_weighted_row_doubles[SL_WEIGHTED_LONG_ROWS];

struct sl_weighted_longs {
    uint32_t n;                              // rows that were taken up
    uint32_t slot;                           // the next one
    uint32_t word[SL_WEIGHTED_LONG_ROWS];    // which of the words are the row's
    uint32_t n_drawn[SL_WEIGHTED_LONG_ROWS]; // fewer than slots where no weight is left
    const double *prefix[SL_WEIGHTED_LONG_ROWS];
    uint32_t degree[SL_WEIGHTED_LONG_ROWS];
    sl_weighted_row_doubles left; // weight that has not been drawn
    // What has been drawn, in the order of the file. Behind it the row's end.
    sl_weighted_row_doubles at[SL_WEIGHTED_LONG_FANOUT + 1]; // position in the row
    sl_weighted_row_doubles start[SL_WEIGHTED_LONG_FANOUT + 1];
    sl_weighted_row_doubles weight[SL_WEIGHTED_LONG_FANOUT + 1];
    uint32_t drawn[SL_WEIGHTED_LONG_ROWS][SL_WEIGHTED_LONG_FANOUT]; // in the order of the slots
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

// Takes up a row with these running sums, which has the words + 4 `word`: more than
// SL_WEIGHTED_WINDOW and at most SL_WEIGHTED_LONG_DEGREE edges.
// Returns its place.
static inline uint32_t sl_weighted_longs_open(struct sl_weighted_longs *s, uint32_t word,
                                              const double *prefix, uint32_t degree)
{
    uint32_t r = s->n++;
    s->word[r] = word;
    s->n_drawn[r] = 0;
    s->prefix[r] = prefix;
    s->degree[r] = degree;
    s->left[r] = prefix[degree - 1];
    s->at[0][r] = degree;
    s->start[0][r] = s->left[r];
    return r;
}

// Draws an edge for each row that was taken up and has weight left. words + 4 word: high and low
// word of a row's slot.
void sl_weighted_longs_draw(struct sl_weighted_longs *s, const uint32_t *words);

#endif
