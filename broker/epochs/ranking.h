/*
 * ranking.h - the hotness order of a job, and how good any order could have been.
 *
 * PROBLEM. Ordering a hundred million vertices takes seconds, and the broker must not block.
 *
 * DESIGN. Both computations run on libuv's thread pool and end in a call back on the loop; where
 * the graph is so small that a thread costs more than the work, they run at once. The order is
 * written in place, into the arena's hot region, and cut into the arena's tiers
 * (common/arena/visit_counts.h): nobody reads it before its generation is published, which is the
 * caller's to do. The visits that an order was made from are forgotten in the same go, so that what
 * is counted afterwards is of ranked epochs alone.
 *
 * What the order is by, and when that is known, is the policy's row (common/data/cache_kind.h).
 *
 * ROWS OF SEVERAL WIDTHS, of a graph with types. What a cache has room for is bytes, and what it
 * saves is time. A row from elsewhere takes one core 37 ns and 0.12 a byte to gather (512 bytes in
 * 100 ns, 1,024 in 163, anywhere in memory), and a bus about 0.04 more: as if it had 256 bytes
 * more. So the order is by
 *
 *      visits * (bytes + 256) / bytes
 *
 * which for wide rows is close to the visits alone: a row of 64 bytes comes before one of 4,096
 * that is met up to 4.7 times as often. How many rows of each type a cache gets follows from it.
 */
#ifndef SL_BROKER_EPOCHS_RANKING_H
#define SL_BROKER_EPOCHS_RANKING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "common/data/cache_kind.h"
#include "common/arena/arena.h"
#include "config/config.h"

// --- what a job's cache policy asks for ---

// Whether an order is made at all: there is a policy, and epochs that could use it.
bool sl_ranking_is_needed(const struct sl_config *config);
// The first training epoch whose blocks carry ranks; `epochs` when none does.
uint32_t sl_ranking_first_epoch(const struct sl_config *config);
// Epochs whose visits the order is made of; 0 when it is made of the data set alone.
uint32_t sl_ranking_counted_epochs(const struct sl_config *config);
// Epochs that are sampled ahead of training, for their visits alone.
uint32_t sl_ranking_presample_phases(const struct sl_config *config);
// Whether samplers count visits at any time: the arena then needs a counter for each vertex.
bool sl_ranking_needs_visits(const struct sl_config *config);
// cache.report_optimal, where there is a cache to compare.
bool sl_ranking_reports_optimal(const struct sl_config *config);

// --- the order ---

// Of rows of several widths: a hotness of every vertex, in place, becomes what its row saves a
// byte, as the bits of a float (is_visits: it is some already).
void sl_ranking_weigh(const struct sl_typed *typed, bool is_visits, uint32_t *hotness);

struct sl_ranking_setup {
    uv_loop_t *loop;
    struct sl_arena *arena;
    const struct sl_config *config;
    const struct sl_dataset *dataset;
    uint64_t n_nodes; // == hot_rows of the arena, and visit_rows where there are visits
    // On the loop, or from within sl_ranking_start(); r->rc says how it went.
    void (*on_done)(void *ctx);
    void *ctx;
};

enum sl_ranking_state { SL_RANKING_NONE, SL_RANKING_BUSY, SL_RANKING_DONE };

struct sl_ranking {
    struct sl_ranking_setup setup;
    const struct sl_cache_kind *kind;
    enum sl_ranking_state state;
    int rc;            // once DONE
    char message[256]; // when rc < 0
    double seconds;    // it took
    uv_work_t work;
    atomic_bool cancel;
};

// Fills the order of the arena, tier by tier, and forgets the visits. The struct must stay where it
// is.
void sl_ranking_start(struct sl_ranking *r, const struct sl_ranking_setup *setup);
// Ends it soon, with SL_EABORTED.
void sl_ranking_cancel(struct sl_ranking *r);

// --- the best there could have been ---

struct sl_optimum {
    struct sl_arena *arena;
    const struct sl_dataset *dataset;
    uint64_t capacity; // in rows, with types of the mean width
    double hit_rate;   // NaN when there was no memory to find out
    bool busy;
    void (*on_done)(void *ctx); // on the loop
    void *ctx;
    uv_work_t work;
};

// Takes the visits as they are at this moment (samplers may go on counting) and finds the hit rate
// that the `capacity` most visited vertices had, or with types those that save most. True when that
// is done already; false when it will be, and on_done says so.
bool sl_optimum_start(struct sl_optimum *o, uv_loop_t *loop, struct sl_arena *arena,
                      const struct sl_dataset *dataset, uint64_t capacity, void (*on_done)(void *),
                      void *ctx);

#endif
