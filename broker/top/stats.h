/*
 * stats.h - the JSON lines that a view shows, taken apart: sluice.stats/1, sluice.event/1 and
 * sluice.jobs/1. broker/README.md documents them.
 *
 * A line comes from another process, perhaps of another version: what is missing, null or of the
 * wrong type is NaN or "", and what is not known here is left alone.
 */
#ifndef SL_BROKER_TOP_STATS_H
#define SL_BROKER_TOP_STATS_H

#include <stdbool.h>
#include <stddef.h>

enum sl_top_stage {
    SL_TOP_SAMPLE,
    SL_TOP_MARK,
    SL_TOP_COPY,
    SL_TOP_EXTRACT,
    SL_TOP_TRAIN,
    SL_TOP_EVALUATE,
    SL_TOP_WAIT,
    SL_TOP_BACKPRESSURE,
    SL_TOP_STAGES
};
extern const char *const sl_top_stage_names[SL_TOP_STAGES];

enum sl_top_histogram {
    SL_TOP_HIST_SAMPLE,
    SL_TOP_HIST_EXTRACT,
    SL_TOP_HIST_TRAIN,
    SL_TOP_HIST_WAIT,
    SL_TOP_HISTS
};
extern const char *const sl_top_hist_names[SL_TOP_HISTS];

enum {
    SL_TOP_NAME = 128,
    SL_TOP_WORD = 32,
    SL_TOP_SENTENCE = 512,
    SL_TOP_WORKERS_MAX = 1024, // shown; there can be no more of them
    SL_TOP_DEVICES_MAX = 512,
    SL_TOP_BUCKETS_MAX = 64,
};

struct sl_top_stage_time {
    double busy, count, seconds, per_second, p50, p99;
};

struct sl_top_device {
    double index;
    char kind[SL_TOP_WORD], name[SL_TOP_WORD], cores[SL_TOP_WORD], roles[SL_TOP_NAME];
    double memory_used, memory_budget, cpu_load, gpu_load;
};

struct sl_top_worker {
    char name[SL_TOP_WORD], role[SL_TOP_WORD], state[SL_TOP_WORD], batch[SL_TOP_NAME];
    double device, pid, busy, wait, batches, batches_per_second, edges_per_second;
    double bytes_per_second, restarts, memory;
};

struct sl_top_stats {
    double time, seconds, epoch_seconds, seconds_left, epoch, epochs, done, total, loss;
    char job[SL_TOP_NAME], id[SL_TOP_WORD], state[SL_TOP_WORD], phase[SL_TOP_WORD];
    char metric_name[SL_TOP_WORD];
    double metric, metric_epoch, best, best_epoch;
    double samplers, trainers, standby_there, standby_awake;
    struct sl_top_stage_time stages[SL_TOP_STAGES];
    double batches_per_second, edges_per_second, nodes_per_second, updates_per_second;
    double block_bytes, cache_bytes, store_bytes; // a second
    double queue_batches, queue_bytes, queue_capacity, queue_used, sampling, training;
    char cache_policy[SL_TOP_WORD];
    double hit_rate, hit_rate_total;
    char mode[SL_TOP_WORD];
    double version, staleness_mean, staleness_max;
    double t_sample, t_train, t_standby;
    double batches, edges, input_nodes, switches, resampled, retrained, restarts, checkpoints;
    double memory_used, memory_peak, memory_limit, cpu_load;
    char bottleneck[SL_TOP_SENTENCE], bottleneck_role[SL_TOP_WORD];
    double advice_samplers, advice_trainers, advice_now, advice_then;

    struct sl_top_device *devices; // owned
    size_t n_devices;
    double places;                 // devices that there could be workers on
    struct sl_top_worker *workers; // owned
    size_t n_workers;
    size_t n_buckets;
    double le[SL_TOP_BUCKETS_MAX]; // n_buckets - 1 upper edges in seconds; the last is open
    double counts[SL_TOP_HISTS][SL_TOP_BUCKETS_MAX];
};

// *out is replaced as a whole, or left as it was. SL_EFORMAT: not a line of this schema; SL_ENOMEM.
int sl_top_stats_parse(const char *json, struct sl_top_stats *out);
void sl_top_stats_fini(struct sl_top_stats *s); // safe on a zeroed struct

struct sl_top_event {
    double time, seconds;
    bool ok;
    char kind[SL_TOP_WORD], text[SL_TOP_SENTENCE];
};

int sl_top_event_parse(const char *json, struct sl_top_event *out);

struct sl_top_job {
    char id[SL_TOP_WORD], name[SL_TOP_NAME], state[SL_TOP_WORD], why[SL_TOP_SENTENCE];
    char message[SL_TOP_SENTENCE], output[4096], cores[SL_TOP_WORD];
    double position, submitted, started, ended, exit_status, epoch, epochs, progress;
    double samplers, trainers, loss, seconds_left;
};

struct sl_top_jobs {
    struct sl_top_job *jobs; // owned
    size_t n;
    bool daemon;
    double daemon_pid;
    char version[SL_TOP_WORD], cores[SL_TOP_WORD], free_cores[SL_TOP_WORD], page[SL_TOP_NAME];
};

// The list (sluice.jobs/1). As sl_top_stats_parse().
int sl_top_jobs_parse(const char *json, struct sl_top_jobs *out);
// One entry of the list, as the daemon tells of a change: it replaces the one of its id, or is new.
int sl_top_jobs_update(struct sl_top_jobs *jobs, const char *json);
void sl_top_jobs_fini(struct sl_top_jobs *jobs);

/*
 * A job's history (sluice.describe/1): calls `on_event` for each event in order, and *stats gets
 * the newest statistics as text (owned: free()), or NULL.
 */
int sl_top_describe_parse(const char *json, void (*on_event)(void *arg, const char *line),
                          void *arg, char **stats);

struct sl_top_scale {
    bool ok, dry_run;
    double from_samplers, from_trainers, samplers, trainers, now, then, gain, move;
    char message[SL_TOP_SENTENCE], steps[SL_TOP_SENTENCE]; // steps joined by "; "
};

// The answer to a change of the split (sluice.scale/1).
int sl_top_scale_parse(const char *json, struct sl_top_scale *out);

#endif
