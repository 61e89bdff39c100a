/*
 * shard_plan.h - which GPU holds which features, of all that train, and which edges of the graph,
 * of all that sample (XGNN 4.1, 4.2): arithmetic. What is said of rows holds for edges.
 *
 * PROBLEM. GPUs that reach one another's memory hold more rows together than each alone, and read
 * them over links that may be slow. How they are laid out follows from the rows that each has room
 * for, from the links, and from how often which rows are read.
 *
 * DESIGN. The GPUs that share are numbered in the job's order, and common/store/placement.h (or one
 * of its rivals) says which of them holds which parts. Parts of GPUs with more room reach further,
 * and every copy of a part may end elsewhere. A GPU with little room may cost the others more than
 * it brings, and those with the least are left out as long as that is better. A GPU that is left
 * out, or that no link joins to another, holds for itself what it has room for and reads the
 * others' parts as far as it reaches them.
 *
 * LEAST MOVEMENT. What is dealt out to n GPUs lies elsewhere for the most part when it is dealt
 * out to n + 1. So where a placement has each part once, and busiest links and buses have hardly
 * more to do for it, there are SL_PEER_MEMORY_PARTS_MAX parts, about as many on each GPU.
 * From one plan to the next (`before`) each keeps its parts as far as it may have that many; only
 * the others change hands, which is the least that can. `first` stays for the same price. Of other
 * placements parts stay where the GPUs and the rooms stay.
 *
 * FIRST. The hottest rows may lie on each GPU that shares, in room that parts then have not: more
 * is read at home and less over links, and more in the machine's memory. The share of the room is
 * the one of 32 steps, the least first, under which the busiest link or bus of a GPU, all of which
 * serve it at the same time, has the least to do: the bytes that go over it by its rate; the mean
 * over all GPUs that work. So little is held by all where links are much faster than the bus, and
 * all is where they are slower.
 *
 * RUNS. Edges are dealt out in runs of 1 << SL_PEER_MEMORY_EDGE_SHIFT, so parts have a multiple of
 * that. What does not fill a run of each part lies on every GPU that shares, where there is room.
 *
 * "auto" is the solver's plan where that leaves these less to do than each GPU alone. A GPU that
 * reads and holds nothing (a standby trainer beside the graph) does not count.
 *
 * The same question has the same answer in every process and run.
 */
#ifndef SL_BROKER_SHARDING_SHARD_PLAN_H
#define SL_BROKER_SHARDING_SHARD_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "common/arena/peer_memory.h"
#include "common/data/typed.h"
#include "config/config.h"

enum { SL_STORE_CURVE_POINTS = 4096, SL_STORE_REASON_BYTES = 256 };

// How much of all bytes that are read the first elements have: the hottest rows, edges as the file
// has them.
struct sl_store_curve {
    double met[SL_STORE_CURVE_POINTS + 1]; // [i]: of the first i / SL_STORE_CURVE_POINTS of them
};

/*
 * The rows in the order of their hotness, and how often each is read. Both (n_rows). Of a graph
 * with types rows differ in width, and elements are rows of the mean one: so many of the first as
 * fit these bytes. SL_ENOMEM.
 */
int sl_store_curve_make(const struct sl_typed *typed, const uint32_t *hotness, const float *visits,
                        uint64_t n_rows, struct sl_store_curve *out);

/*
 * Of the edges by their number; every edge of a list is read as often as the others of it.
 * offsets (n + 1) of lists, edge_reads (n) of all edges of one together.
 */
void sl_store_curve_of_edges(const uint64_t *offsets, const float *edge_reads, uint64_t n,
                             struct sl_store_curve *out);

struct sl_plan_question {
    enum sl_peer_memory_kind kind;
    uint32_t n_devices;
    uint64_t room[SL_PEER_MEMORY_DEVICES_MAX]; // elements that a device may hold
    uint64_t works, reads;                     // bit d: on a GPU, all the time; now and then
    // [d][e]: GB/s at which d reads the memory of e, 0: it does not; and the machine's
    float rate[SL_PEER_MEMORY_DEVICES_MAX][SL_PEER_MEMORY_DEVICES_MAX];
    double host;
    uint64_t n_elements;
    uint64_t most; // that may lie on GPUs, all together
    enum sl_store_placement placement;
    const struct sl_store_curve *curve; // NULL: all are read equally often
    const struct sl_peer_memory_plan
        *before; // that is to change as little as may be; NULL: there is none
};

struct sl_shard_plan {
    struct sl_peer_memory_plan lent;               // of generation 0; n_parts 0: nobody lends
    enum sl_store_placement placement;             // "auto" is one of the others
    uint64_t elements[SL_PEER_MEMORY_DEVICES_MAX]; // that each device holds
    uint64_t cached;                               // different ones, on all that work
    // Seconds that the busiest link or bus of a GPU has to do for a GB that it reads, in the mean.
    double busiest_seconds;
    bool proved;                        // no placement of this kind is better
    char reason[SL_STORE_REASON_BYTES]; // why it is this placement
};

// Elements of each part that device d holds.
static inline uint64_t sl_shard_plan_each(const struct sl_shard_plan *p, uint32_t d)
{
    const uint32_t n = (uint32_t)__builtin_popcount(p->lent.held[d]);
    return n ? (p->elements[d] - p->lent.first) / n : 0;
}

// SL_ENOMEM.
int sl_shard_plan_make(const struct sl_plan_question *q, struct sl_shard_plan *out);

// Of all that device d reads, the shares that come out of each device's memory and, at
// [n_devices], out of the machine's.
void sl_shard_plan_shares(const struct sl_plan_question *q, const struct sl_shard_plan *plan,
                          uint32_t d, double share[SL_PEER_MEMORY_DEVICES_MAX + 1]);

// Seconds that the busiest link or bus of device d has to do for a GB that it reads; all of them
// serve it at the same time.
double sl_shard_plan_busiest(const struct sl_plan_question *q, const struct sl_shard_plan *plan,
                             uint32_t d);

#endif
