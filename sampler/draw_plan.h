// draw_plan.h - how the batches of a phase are drawn, on the processor and on a device alike.
#ifndef SL_SAMPLER_DRAW_PLAN_H
#define SL_SAMPLER_DRAW_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/sampler_kind.h"
#include "common/arena/block.h"

// How a batch is drawn; the same for all batches of a phase.
struct sl_draw_plan {
    enum sl_sampler_kind kind;
    uint32_t n_hops;
    int64_t fanout[SL_MAX_HOPS]; // fanout[0] next to the seeds, -1 = all neighbours
    bool expand_new; // a vertex is drawn once, in the hop after the one that found it, and its row
                     // is the same in all later hops; else each hop draws for all it knows
    bool replace;    // with replacement; of kinds with SL_SAMPLER_REPLACES
    uint32_t stream; // SL_RNG_SAMPLE or SL_RNG_EVAL_SAMPLE
    uint64_t seed;
    enum sl_subgraph subgraph; // others than directional: one hop more; with expand_new, not of
                               // walks
    bool disjoint;             // each seed has a tree of its own (forest.h)
    // No edge of a seed's tree is later than the seed, which is then disjoint; strict: nor as late.
    // Not of walks, pairs and subgraphs, nor with degrees. (timed_rows.h)
    enum sl_time_rule time;
    bool time_strict;
    bool edge_ids;          // the block carries its edges' numbers; not of walks
    bool degrees;           // the block carries the in-degrees of its input nodes, without
                            // self-loops where the topology has looked for them
    uint32_t paths, length; // random walks: of each vertex; steps of each, or times that it goes
                            // through its metapath
    float restart;          // ... probability of starting over
    bool pairs;             // a job of links: each batch has pairs (pairs.h)
    // Of a typed graph: (n_hops, its relations) fanout of each relation in each hop; 0 leaves it
    // out. NULL: the hop's, for all of them. Borrowed.
    const int64_t *by_relation;
};

// Whether each edge of a block carries how often it was walked.
static inline bool sl_draw_plan_has_visits(const struct sl_draw_plan *plan)
{
    return sl_sampler_flags[plan->kind] & SL_SAMPLER_VISITS;
}

// Vertices that the walks of one row meet at most, of which `fanout` are kept (-1: all).
static inline uint64_t sl_draw_plan_most_met(const struct sl_draw_plan *plan, int64_t fanout)
{
    const uint64_t met = (uint64_t)plan->paths * plan->length;
    return fanout < 0 || (uint64_t)fanout > met ? met : (uint64_t)fanout;
}

// Whether only the processor can draw it.
static inline bool sl_draw_plan_on_cores(const struct sl_draw_plan *plan)
{
    return plan->disjoint || plan->subgraph != SL_SUBGRAPH_DIRECTIONAL || plan->pairs;
}

// Hops of a block: those drawn, and the subgraph of its vertices.
static inline uint32_t sl_draw_plan_hops(const struct sl_draw_plan *plan)
{
    return plan->n_hops + (plan->subgraph != SL_SUBGRAPH_DIRECTIONAL);
}

// Bytes of what a block has beside each edge's source.
static inline uint32_t sl_draw_plan_beside(const struct sl_draw_plan *plan)
{
    return sl_draw_plan_has_visits(plan) ? sizeof(float) : plan->edge_ids ? sizeof(uint64_t) : 0;
}

#endif
