/*
 * placement.h - which partitions of the hottest rows each GPU holds (XGNN 4.2).
 *
 * PROBLEM. n GPUs that read one another's memory can hold more together than each by itself: the
 * hottest rows are dealt out to n partitions, row r to partition r mod n. But not every GPU reaches
 * every other one, so some partitions have to lie in several places, and each copy takes room
 * from everybody: a partition is as large as 1 / `most` of a GPU's room, where `most` is the number
 * of partitions of the GPU that has the most.
 *
 * DESIGN. Partition p lies on GPU p at least. A plan is a set of GPUs for each partition, from
 * which all can read it. Of all plans is taken, by the paper's three rules in their order,
 *
 *   1. balance         the one with the smallest `most`: it caches n / most times a GPU's room;
 *   2. replication     of these one with the fewest copies in all;
 *   3. bandwidth       of these one whose slowest link is the fastest: the rate of a link over the
 *                      number of partitions that are read over it, the least of all links.
 *
 * The paper walks over GPUs and keeps whatever its first two rules like best at each step. Here
 * partitions are walked over, each with the sets of GPUs that serve everybody and can lose no
 * member, and branches that cannot win are cut; so what comes out is the best plan and not a good
 * one. The search has a bound of steps, never of time, so that all processes of a job find the same
 * plan; `proved` says that it was not needed.
 */
#ifndef SL_STORE_PLACEMENT_H
#define SL_STORE_PLACEMENT_H

#include <stdbool.h>
#include <stdint.h>

enum { SL_PLACEMENT_DEVICES = 16 };

// Between the GPUs of a job, in the job's order.
struct sl_links {
    uint32_t n;
    // [i][j]: GB/s at which i reads the memory of j, 0 where it cannot; [i][i]: its own
    double rate[SL_PLACEMENT_DEVICES][SL_PLACEMENT_DEVICES];
};

struct sl_placement {
    uint32_t n;
    uint32_t held[SL_PLACEMENT_DEVICES]; // bit p: GPU g holds partition p
    // [g][p]: the GPU whose copy of partition p GPU g reads
    uint8_t from[SL_PLACEMENT_DEVICES][SL_PLACEMENT_DEVICES];
    uint32_t most, total; // of the partitions that a GPU holds; of all
    double bandwidth;     // GB/s a partition on the slowest link; infinite where all is at home
    uint64_t steps;       // that the search took
    bool proved;          // there is no better plan
};

// SL_EINVAL: no GPU or too many, a rate that is none, a GPU that does not reach its own memory.
// SL_ENOMEM.
int sl_placement_solve(const struct sl_links *links, struct sl_placement *out);

// For comparison: the GPUs in cliques of one size, as large as possible, in each of which all
// partitions lie once (Quiver). The same errors.
int sl_placement_cliques(const struct sl_links *links, struct sl_placement *out);

// The rows that are cached anywhere, in the number of rows that one GPU has room for.
static inline double sl_placement_capacity(const struct sl_placement *p)
{
    return (double)p->n / p->most;
}

#endif
