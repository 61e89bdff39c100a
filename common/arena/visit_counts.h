/*
 * visit_counts.h - visit counts, the hotness order and the probe block, which a job's processes
 * share.
 *
 * VISITS. Samplers count how often each vertex is an input node (pre-sampling, FGNN 6.3, and the
 * optimal hit rate). One atomic counter a vertex, added once a batch: a batch that is drawn again
 * (a dead sampler's, an evicted one) is not counted again, since its ledger entry remembers; one
 * whose sampler died while it counted may be counted partly twice, which an estimate can bear. The
 * add is locked and takes 7.0 ns a vertex, most of it the miss of the counter (Zen 4, 2 samplers);
 * a table of bytes for each sampler, without a lock, took 5.6 ns and V bytes a sampler more: for
 * 0.1 ms of a batch that takes 7 to draw the one array stays.
 *
 * ORDER. The broker computes the order (common/data/hotness.h) into the hot region and then
 * publishes a generation > 0. From then on phases are opened with rank_generation set: their blocks
 * carry ranks, and trainers fill their caches with order[0 .. capacity).
 *
 * TIERS. Caches have few different sizes: what cache.ratio says, or what the devices' budgets leave
 * a normal and a standby trainer. Between two of these sizes it makes no difference to any cache
 * which vertex stands where, so the order is by hotness from tier to tier and by vertex id within
 * one. A rank is then a count of vertices, for which a quarter of a byte a vertex is enough
 * (struct sl_rank_index in kernels/kernels.h), and a cache is filled by reading the store forwards.
 * Behind the last tier nothing can be a hit: such vertices have no rank, and the order is by
 * hotness alone. A cache of a size in between (there was no memory for more) is a good one still,
 * but holds an arbitrary part of its last tier and not the hottest.
 *
 * TYPES. Rows of a graph with types are of several widths. A cache's size is counted in rows of the
 * mean width then (sl_features_row_bytes()), and the order of hotness is by what a row saves a byte
 * (broker/epochs/ranking.c): a size holds its first rows, as many as it has bytes for. Within a
 * tier the vertices of a type stand side by side, since their ids do. How many of each type a size
 * holds is noted beside the tiers, and ranks are counted within the type: rank < what the cache has
 * of the type is a hit, whatever the other types' rows are. A size in between has of each type the
 * same share of its last tier.
 *
 * PROBE. The largest probe batch a sampler measured with, kept for as long as the job: a trainer
 * simulates one training step on it when it starts (FGNN 6.1), and so knows what a step takes of
 * its device's memory and how long it lasts, before the first batch.
 */
#ifndef SL_ARENA_VISIT_COUNTS_H
#define SL_ARENA_VISIT_COUNTS_H

#include <stdatomic.h>
#include <stdint.h>

#include "common/arena/block.h"
#include "common/arena/segment.h"

enum { SL_VISIT_COUNTS_TIERS_MAX = 8 };

// Sizes that a cache may have: tier t of the hotness order is [end[t - 1], end[t]).
struct sl_visit_counts_tiers {
    uint32_t n;
    uint64_t end[SL_VISIT_COUNTS_TIERS_MAX]; // rising
};

// The hotness order stands behind it.
struct sl_visit_counts {
    _Alignas(64) struct sl_visit_counts_tiers tiers; // by the broker before `generation`
    _Atomic uint32_t generation;
    _Alignas(64) _Atomic uint64_t probe; // 0 none, worker << 8 | 1 being written, 2 there
};

static inline struct sl_visit_counts *sl_visit_counts_of(const struct sl_arena *a)
{
    return (struct sl_visit_counts *)sl_arena_region(a, SL_REGION_HOT);
}

// (visit_rows), NULL when nobody counts.
_Atomic uint32_t *sl_visit_counts_visits(const struct sl_arena *a);
// Adds one visit for each of nodes (n).
void sl_visit_counts_count(struct sl_arena *a, const uint32_t *nodes, uint32_t n);
// Broker: all counts to zero; gives the memory back.
void sl_visit_counts_forget_visits(struct sl_arena *a);

// Bytes of the region: tiers, what they hold of each type, and the order.
uint64_t sl_visit_counts_bytes(const struct sl_arena_spec *spec);

// (hot_rows) vertices, the hottest tier first; NULL without a cache.
uint32_t *sl_visit_counts_order(const struct sl_arena *a);
// Broker, before it makes the order: the sizes that caches may have, in any order, repeated or not.
// 0 means no cache, hot_rows is the largest; of more than SL_VISIT_COUNTS_TIERS_MAX different ones
// the largest and an even choice of the others become tiers.
void sl_visit_counts_set_tiers(struct sl_arena *a, const uint64_t *capacity, uint32_t n);
// As they were set; none to begin with. They stay as they are once a generation is published.
const struct sl_visit_counts_tiers *sl_visit_counts_tiers(const struct sl_arena *a);

// Broker, once it has made the order of a graph with types: rows of each type (n_types) that caches
// of this tier's size hold, without which there is none of any. NULL: a plain graph.
uint64_t *sl_visit_counts_held(const struct sl_arena *a, uint32_t tier);

// The vertices of a type (0 of a plain graph) in one tier of the order.
struct sl_visit_counts_run {
    uint64_t place; // where they stand in the order
    uint64_t rank;  // of the first of them
    uint64_t n;
};
struct sl_visit_counts_run sl_visit_counts_run(const struct sl_arena *a, uint32_t tier,
                                               uint32_t type);
// Rows of a type that a cache of so many rows of the mean width holds; of a plain graph all.
uint64_t sl_visit_counts_rows(const struct sl_arena *a, uint32_t type, uint64_t size);

// Generation of the published order: 0 = none yet.
uint32_t sl_visit_counts_generation(const struct sl_arena *a);
// Broker: publishes tiers and order, which do not change any more. Wakes standby trainers, so that
// they can fill their caches before they are needed.
void sl_visit_counts_publish(struct sl_arena *a, uint32_t generation);

// Sampler: leaves the probe block unless somebody has, or it is larger than probe_bytes.
void sl_probe_offer(struct sl_arena *a, uint32_t worker, const struct sl_block *block);
// Trainer: waits for it. SL_OK; SL_ETIMEDOUT; SL_EABORTED.
int sl_probe_wait(struct sl_arena *a, uint32_t timeout_ms, const struct sl_block **out);
// Broker: a sampler died; if it was writing the probe, somebody else shall.
void sl_probe_reclaim(struct sl_arena *a, uint32_t worker);

#endif
