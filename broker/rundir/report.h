/*
 * report.h - the results of a run: report.json, one line of metrics.jsonl an epoch.
 *
 * Schema "sluice.report/1" (README.md explains the keys). Keys may be added; those that exist
 * keep their meaning. A run that was stopped or failed has a report of what was done by then.
 */
#ifndef SL_BROKER_RUNDIR_REPORT_H
#define SL_BROKER_RUNDIR_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "broker/epochs/early_stopping.h"
#include "broker/epochs/epoch.h"
#include "broker/epochs/metrics.h"
#include "broker/sharding/shard_plan.h"
#include "broker/workers/worker_pool.h"
#include "config/config.h"

enum { SL_REPORT_NEWEST = 200 }; // entries of a list that nothing else bounds

// What a checkpoint keeps (history.h): lists, of which some are the newest entries, and sums.
// clang-format off
#define SL_REPORT_KEPT(X, BEGIN, END) \
    X(, TREE, epochs) \
    X(, TREE, allocations) /* the first and the newest */ \
    X(, TREE, scales) X(, TREE, restarts) /* the newest */ \
    X(, TREE, resumes) /* times that the job went on from a checkpoint */ \
    BEGIN() \
    X(sums., WHOLE, allocations_left_out) X(sums., WHOLE, scales_left_out) \
    X(sums., WHOLE, restarts_left_out) X(sums., WHOLE, resampled) X(sums., WHOLE, retrained) \
    X(sums., WHOLE, evicted) \
    X(sums., WHOLE, unranked) X(sums., WHOLE, ranked) /* epochs without a cache, and with one */ \
    X(sums., REAL, unranked_seconds) X(sums., REAL, ranked_seconds) \
    X(sums., WHOLE, hits) X(sums., WHOLE, misses) /* of ranked epochs */ \
    X(sums., WHOLE, has_optimal) /* 1: the next is known, the last one over all ranked epochs */ \
    X(sums., REAL, optimal_hit_rate) \
    X(sums., WHOLE, switches) X(sums., WHOLE, standby_batches) \
    X(sums., WHOLE, has_saved) /* 1: seconds_saved is known of an epoch at least */ \
    X(sums., REAL, seconds_saved) \
    END(sums)
// clang-format on

struct sl_report {
    SL_REPORT_KEPT(SL_MEMBER, SL_MEMBER_BEGIN, SL_MEMBER_END) // lists: owned
    cJSON *processes;                                         // owned
    double epochs_left_out;                                   // of a job for external trainers
};

extern const struct sl_fields sl_report_kept;

// Who sits on a device.
struct sl_report_seat {
    uint32_t device;     // as it is shown (placement.h)
    const char *name;    // "sampler 0"
    const char *role;    // "sampler", "trainer", "standby"
    bool has_cache;      // the rest is about it
    uint64_t cache_rows; // capacity
    double load_seconds; // filling it took, in all
};

// What is known at the end: of `totals` what follows neither from epochs nor from what is below.
struct sl_report_outcome {
    struct sl_report_totals totals;
    const char *config_json;
    const struct sl_report_seat *seats; // (n_seats), as they are at the end
    uint32_t n_seats;
    uint64_t n_nodes; // that a cache may have
    // NULL: there are no GPUs that could hold rows together, or edges
    const struct sl_shard_plan *plan[SL_PEER_MEMORY_PLANNED];
    uint64_t edge_bytes;
    const struct sl_arena *arena; // what was read over which link
    const struct sl_early_stopping *best;
    const struct sl_measure_choice *judged; // that `best` is of
    const struct sl_evaluation *test;       // NULL: there was none
};

int sl_report_init(struct sl_report *r);
void sl_report_fini(struct sl_report *r); // safe on a zeroed struct

// Adds an epoch and returns its entry as one line of JSON (owned: free()); NULL without memory.
char *sl_report_add_epoch(struct sl_report *r, const struct sl_epoch *f,
                          const double worker_seconds[SL_ROLE_COUNT]);
void sl_report_add_allocation(struct sl_report *r, const struct sl_report_allocation *a);
void sl_report_add_scale(struct sl_report *r, const struct sl_report_scale *s);
void sl_report_add_restart(struct sl_report *r, const struct sl_report_restart *restart);
void sl_report_add_process(struct sl_report *r, const struct sl_report_process *process);
void sl_report_add_resume(struct sl_report *r, const struct sl_report_resume *resume);

// The whole report as indented JSON text (owned: free()); NULL without memory. Once, at the end.
char *sl_report_finish(struct sl_report *r, const struct sl_config *config,
                       const struct sl_report_outcome *outcome);

// What all runs before the last one have taken, of a report's list "resumes"; 0 without any.
double sl_report_seconds_before(const cJSON *resumes);

// Writes it; the file appears whole or not at all.
int sl_report_write(const char *path, const char *text);

#endif
