/*
 * report.h - the account of a run: report.json, one line of metrics.jsonl an epoch.
 *
 * Schema "sluice.report/1" (broker/README.md lists the keys). Keys may be added; those that exist
 * keep their meaning. A run that was stopped or failed has a report of what was done by then.
 */
#ifndef SL_BROKER_REPORT_H
#define SL_BROKER_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "broker/best.h"
#include "broker/figures.h"
#include "broker/metrics.h"
#include "common/data/safetensors.h"
#include "config/config.h"

enum { SL_REPORT_NEWEST = 200 }; // entries of a list that nothing else bounds

// What a checkpoint keeps beside the lists (history.h): X(type, member and key).
#define SL_REPORT_SUMS(X)                                                                          \
    X(uint64_t, allocations_left_out)                                                              \
    X(uint64_t, scales_left_out)                                                                   \
    X(uint64_t, restarts_left_out)                                                                 \
    X(uint64_t, resampled)                                                                         \
    X(uint64_t, retrained)                                                                         \
    X(uint64_t, evicted)                                                                           \
    X(uint32_t, unranked) /* epochs without a cache, and with one */                               \
    X(uint32_t, ranked)                                                                            \
    X(double, unranked_seconds)                                                                    \
    X(double, ranked_seconds)                                                                      \
    X(uint64_t, hits) /* of ranked epochs */                                                       \
    X(uint64_t, misses)                                                                            \
    X(bool, has_optimal)                                                                           \
    X(double, optimal_hit_rate) /* the last one known: over all ranked epochs */                   \
    X(uint64_t, switches)                                                                          \
    X(uint64_t, standby_batches)                                                                   \
    X(bool, has_saved) /* seconds_saved is known of an epoch at least */                           \
    X(double, seconds_saved)

struct sl_report {
    cJSON *epochs;      // owned
    cJSON *allocations; // owned; the first and the newest
    cJSON *scales;      // owned; the newest
    cJSON *restarts;    // owned; the newest
    cJSON *processes;   // owned
    cJSON *resumes;     // owned; times that the job went on from a checkpoint
#define SL_REPORT_MEMBER(type, name) type name;
    SL_REPORT_SUMS(SL_REPORT_MEMBER)
#undef SL_REPORT_MEMBER
};

// One decision on the split. Times are seconds; 0 or NaN = not known (null in the report).
struct sl_report_allocation {
    uint32_t epoch;              // from which it holds, or would have
    uint32_t samplers, trainers; // the split from then on
    double t_sample, t_train, t_standby;
    double k;                  // t_train / t_sample
    uint32_t formula_samplers; // what the formula alone gives; 0 = it was not asked
    bool moved;                // other than before
    double gain_seconds;       // expected, over what is left of the job
    double cost_seconds;       // expected, of moving
    const char *reason;        // in words
};

// A change of the split while the job ran, or a refused one.
struct sl_report_scale {
    double seconds; // since the job began
    uint32_t epoch;
    const char *by; // "user", "schedule", "profile"
    uint32_t from_samplers, from_trainers;
    uint32_t to_samplers, to_trainers;
    double took_seconds; // until the new split held
    bool ok;
    const char *message; // what was done, or why not
};

// Who sits on a device.
struct sl_report_seat {
    uint32_t device;
    const char *name;    // "sampler 0"
    const char *role;    // "sampler", "trainer", "standby"
    bool has_cache;      // the rest is about it
    uint64_t cache_rows; // capacity
    double load_seconds; // filling it took, in all
};

// What the report can not tell from epochs and seats.
struct sl_report_cache {
    uint64_t n_nodes;
    uint64_t row_bytes;
    double rank_seconds;      // making the hotness order took (sl_phases.ranking.seconds)
    double presample_seconds; // sampling ahead of training took (sl_phases.presample_seconds)
};

// A worker that died and was replaced, or was not.
struct sl_report_restart {
    const char *name; // "sampler 0"
    int64_t pid;
    double seconds; // since the job began
    const char *cause;
    const char *held; // "batch 17 of epoch 3", or NULL
    uint32_t resampled, retrained;
};

// What is known at the end.
struct sl_report_outcome {
    const char *status;  // "done", "failed", "stopped"
    const char *message; // why, or NULL
    const char *config_json;
    const struct sl_report_seat *seats; // (n_seats), as they are at the end
    uint32_t n_seats;
    struct sl_report_cache cache; // of use only with a cache policy
    uint64_t scheduled, trained;
    const struct sl_best *best;
    enum sl_measure measure; // that `best` is of
    const char *stop_reason; // of an early stop; NULL: there was none
    uint32_t trained_epochs;
    const struct sl_evaluation *test; // NULL: there was none
    double test_seconds;
    const char *params_sha256;                  // NULL: no parameters
    const char *samples_digest;                 // NULL: not asked for
    double start_seconds, first_update_seconds; // NaN: not known, or there was none
    double wall_seconds, paused_seconds;
    uint64_t peak_memory;
    uint64_t arena_bytes, acts_bytes, payload_bytes, block_bytes_max;
};

int sl_report_init(struct sl_report *r);
void sl_report_fini(struct sl_report *r); // safe on a zeroed struct

// Adds an epoch and returns its entry as one line of JSON (owned: free()); NULL without memory.
char *sl_report_add_epoch(struct sl_report *r, const struct sl_epoch_figures *f);
void sl_report_add_allocation(struct sl_report *r, const struct sl_report_allocation *a);
void sl_report_add_scale(struct sl_report *r, const struct sl_report_scale *s);
void sl_report_add_restart(struct sl_report *r, const struct sl_report_restart *restart);
void sl_report_add_process(struct sl_report *r, const char *name, int64_t pid, uint64_t peak_bytes,
                           uint32_t starts);

// The whole report as indented JSON text (owned: free()); NULL without memory. Once, at the end.
char *sl_report_finish(struct sl_report *r, const struct sl_config *config,
                       const struct sl_report_outcome *outcome);

// What all runs before the last one have taken, of a report's list "resumes"; 0 without any.
double sl_report_seconds_before(const cJSON *resumes);

// Writes it; the file appears whole or not at all.
int sl_report_write(const char *path, const char *text);

#endif
