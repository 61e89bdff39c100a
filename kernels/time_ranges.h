/*
 * time_ranges.h - a hop's rows as they were at some time: which edges of each row count.
 *
 * PROBLEM. Who samples by time sees, of every row, no edge that is later than the seed whose tree
 * is drawn (Temporal Graph Networks; torch_geometric's `time_attr`).
 *
 * DESIGN. The times of each row rise, so the edges that count are the first ones of the row. Where
 * they end is searched before anything is drawn, and the hop's rows then *are* these ranges: the
 * sampling kernels get them in the place of the graph's rows (struct sl_khop_args: rows, and
 * topology->indptr), and know of no time. What they draw of a row is what they would draw of a
 * graph without the later edges. "The latest k" is a range as well, one of k edges, which is taken
 * whole.
 *
 * A search waits for one cache line after another, log2(degree) of them: so those of many rows go
 * side by side.
 */
#ifndef SL_KERNELS_TIME_RANGES_H
#define SL_KERNELS_TIME_RANGES_H

#include <stdbool.h>
#include <stdint.h>

// Edges begin .. end - 1 of the graph.
struct sl_time_range {
    uint64_t begin, end;
};

struct sl_time_bound {
    int64_t until; // the latest time that counts
    bool none;     // not even that: no time counts
};

// The bound of a seed; strict: its own time is too late.
static inline struct sl_time_bound sl_time_bound(int64_t seed, bool strict)
{
    const bool none = strict && seed == INT64_MIN;
    return (struct sl_time_bound){none || !strict ? seed : seed - 1, none};
}

// Of the rows `nodes` (n) those edges that count. time: of each edge, rising in each row.
void sl_time_ranges(const uint64_t *indptr, const int64_t *time, struct sl_time_bound bound,
                    const uint32_t *nodes, uint32_t n, struct sl_time_range *out);

// The last k edges of a range; k below 0: all.
static inline struct sl_time_range sl_time_latest(struct sl_time_range r, int64_t k)
{
    if (k >= 0 && r.end - r.begin > (uint64_t)k)
        r.begin = r.end - (uint64_t)k;
    return r;
}

#endif
