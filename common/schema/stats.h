/*
 * stats.h - sluice.stats/1, a line of live statistics: every figure that there is, once.
 *
 * A line X(object, type, member, output) is a member of a struct, a key of the JSON line (of the
 * same name, in that object) and, by its output, a family of Prometheus. So a new figure is a line
 * here and the place in broker/live_json.c that measures it. What the keys mean stands in
 * broker/README.md.
 *
 * The members are in the order of the line. A family's number is its place in /metrics: a new one
 * comes last.
 */
#ifndef SL_COMMON_SCHEMA_STATS_H
#define SL_COMMON_SCHEMA_STATS_H

#include "common/schema/fields.h"

// Outputs: the JSON line alone; and Prometheus, as a gauge or a counter.
#define SL_JSON                                                                                    \
    {                                                                                              \
        .number = 0                                                                                \
    }
#define SL_GAUGE(number, name, help)                                                               \
    {                                                                                              \
        number, "gauge", name, help                                                                \
    }
#define SL_TOTAL(number, name, help)                                                               \
    {                                                                                              \
        number, "counter", name, help                                                              \
    }

#define SL_STATS_JOB(X)                                                                            \
    X(, text, schema, SL_JSON)                                                                     \
    X(, time, time, SL_JSON)                                                                       \
    X(, text, job, SL_JSON)                                                                        \
    X(, text, id, SL_JSON)                                                                         \
    X(, text, state, SL_JSON)                                                                      \
    X(, text, phase, SL_JSON)                                                                      \
    X(, whole, epoch, SL_GAUGE(1, "sluice_job_epoch", "Epoch the job is in, from 0."))             \
    X(, whole, epochs, SL_GAUGE(2, "sluice_job_epochs", "Epochs the job has in all."))             \
    X(, whole, done,                                                                               \
      SL_GAUGE(3, "sluice_phase_cells_done", "Batches of the present phase that are done."))       \
    X(, whole, total, SL_GAUGE(4, "sluice_phase_cells", "Batches of the present phase."))          \
    X(, real, seconds, SL_GAUGE(5, "sluice_job_running_seconds", "Seconds since the job began."))  \
    X(, real, epoch_seconds, SL_JSON)                                                              \
    X(, real, seconds_left,                                                                        \
      SL_GAUGE(6, "sluice_job_left_seconds", "Seconds until the job is expected to end."))         \
    X(, real, loss, SL_GAUGE(7, "sluice_loss", "Mean training loss of this epoch so far."))

#define SL_STATS_METRIC(X)                                                                         \
    X(metric., text, name, SL_JSON)                                                                \
    X(metric., real, value, SL_JSON)                                                               \
    X(metric., whole, epoch, SL_JSON)

#define SL_STATS_BEST(X)                                                                           \
    X(best., real, value, SL_JSON)                                                                 \
    X(best., whole, epoch, SL_JSON)

#define SL_STATS_SPLIT(X)                                                                          \
    X(, whole, samplers, SL_GAUGE(8, "sluice_samplers", "Sampler processes."))                     \
    X(, whole, trainers,                                                                           \
      SL_GAUGE(9, "sluice_trainers", "Trainer processes, standby trainers left out."))

#define SL_STATS_STANDBY(X)                                                                        \
    X(standby., whole, there,                                                                      \
      SL_GAUGE(10, "sluice_standby_trainers", "Standby trainers on sampler devices."))             \
    X(standby., whole, awake,                                                                      \
      SL_GAUGE(11, "sluice_standby_trainers_awake", "Standby trainers that train now."))           \
    X(standby., real, busy, SL_JSON)                                                               \
    X(standby., real, wait, SL_JSON)

#define SL_STATS_PLACES(X) X(, whole, places, SL_JSON)

#define SL_STATS_RATES(X)                                                                          \
    X(rates., real, batches, SL_JSON)                                                              \
    X(rates., real, edges, SL_JSON)                                                                \
    X(rates., real, input_nodes, SL_JSON)                                                          \
    X(rates., real, updates, SL_JSON)                                                              \
    X(rates., real, seconds, SL_JSON)

#define SL_STATS_BYTES(X)                                                                          \
    X(bytes., real, blocks, SL_JSON)                                                               \
    X(bytes., real, features_cache, SL_JSON)                                                       \
    X(bytes., real, features_store, SL_JSON)

#define SL_STATS_QUEUE(X)                                                                          \
    X(queue., whole, batches,                                                                      \
      SL_GAUGE(12, "sluice_queue_batches", "Batches that lie ready in the queue."))                \
    X(queue., whole, bytes,                                                                        \
      SL_GAUGE(13, "sluice_queue_bytes", "Bytes of the batches that lie ready."))                  \
    X(queue., whole, capacity_bytes,                                                               \
      SL_GAUGE(17, "sluice_arena_capacity_bytes", "Bytes of the arena for blocks."))               \
    X(queue., whole, used_bytes,                                                                   \
      SL_GAUGE(16, "sluice_arena_used_bytes", "Bytes of the arena that are taken."))               \
    X(queue., whole, sampling,                                                                     \
      SL_GAUGE(14, "sluice_queue_sampling_batches", "Batches being sampled."))                     \
    X(queue., whole, training,                                                                     \
      SL_GAUGE(15, "sluice_queue_training_batches", "Batches being trained on."))

#define SL_STATS_CACHE(X)                                                                          \
    X(cache., text, policy, SL_JSON)                                                               \
    X(cache., flag, ranked, SL_JSON)                                                               \
    X(cache., real, hit_rate,                                                                      \
      SL_GAUGE(18, "sluice_cache_hit_ratio",                                                       \
               "Share of input rows found in a cache, over the last seconds."))                    \
    X(cache., real, hit_rate_total, SL_JSON)

#define SL_STATS_UPDATES(X)                                                                        \
    X(updates., text, mode, SL_JSON)                                                               \
    X(updates., whole, version,                                                                    \
      SL_GAUGE(19, "sluice_parameters_version", "Version of the parameters."))                     \
    X(updates., real, staleness_mean,                                                              \
      SL_GAUGE(20, "sluice_staleness_mean_updates",                                                \
               "Mean number of updates that a gradient fell behind."))                             \
    X(updates., real, staleness_max,                                                               \
      SL_GAUGE(21, "sluice_staleness_max_updates", "Most updates that a gradient fell behind."))   \
    X(updates., text, exchange, SL_JSON)

#define SL_STATS_GROUP(X)                                                                          \
    X(updates.group., whole, members, SL_JSON)                                                     \
    X(updates.group., whole, generation, SL_JSON)

#define SL_STATS_PROFILE(X)                                                                        \
    X(profile., real, t_sample, SL_JSON)                                                           \
    X(profile., real, t_train, SL_JSON)                                                            \
    X(profile., real, t_standby, SL_JSON)

#define SL_STATS_BOTTLENECK(X)                                                                     \
    X(, text, bottleneck, SL_JSON)                                                                 \
    X(, text, bottleneck_role, SL_JSON)

#define SL_STATS_ADVICE(X)                                                                         \
    X(advice., whole, samplers, SL_JSON)                                                           \
    X(advice., whole, trainers, SL_JSON)                                                           \
    X(advice., real, epoch_seconds_now, SL_JSON)                                                   \
    X(advice., real, epoch_seconds_then, SL_JSON)

#define SL_STATS_TOTALS(X)                                                                         \
    X(totals., whole, batches, SL_TOTAL(26, "sluice_batches_total", "Batches trained on."))        \
    X(totals., whole, edges, SL_TOTAL(27, "sluice_edges_total", "Edges sampled."))                 \
    X(totals., whole, input_nodes,                                                                 \
      SL_TOTAL(28, "sluice_input_nodes_total", "Input nodes of all batches."))                     \
    X(totals., whole, cache_hits,                                                                  \
      SL_TOTAL(29, "sluice_cache_hits_total", "Input rows found in a cache."))                     \
    X(totals., whole, cache_misses,                                                                \
      SL_TOTAL(30, "sluice_cache_misses_total", "Input rows read from the store."))                \
    X(totals., whole, block_bytes,                                                                 \
      SL_TOTAL(31, "sluice_block_bytes_total", "Bytes of sampled blocks."))                        \
    X(totals., whole, hit_bytes, SL_JSON)                                                          \
    X(totals., whole, miss_bytes, SL_JSON)                                                         \
    X(totals., whole, updates, SL_TOTAL(32, "sluice_updates_total", "Updates of the parameters.")) \
    X(totals., whole, epochs, SL_TOTAL(33, "sluice_epochs_total", "Epochs that are complete."))    \
    X(totals., whole, switches,                                                                    \
      SL_TOTAL(34, "sluice_switches_total", "Times a standby trainer was woken."))                 \
    X(totals., whole, resampled,                                                                   \
      SL_TOTAL(35, "sluice_resampled_total", "Batches drawn again after a death."))                \
    X(totals., whole, retrained,                                                                   \
      SL_TOTAL(36, "sluice_retrained_total", "Batches trained again after a death."))              \
    X(totals., whole, evicted,                                                                     \
      SL_TOTAL(37, "sluice_evicted_total", "Ready batches given up for memory."))                  \
    X(totals., whole, restarts,                                                                    \
      SL_TOTAL(38, "sluice_restarts_total", "Workers that died and were replaced."))               \
    X(totals., whole, checkpoints, SL_TOTAL(39, "sluice_checkpoints_total", "Checkpoints written."))

#define SL_STATS_MEMORY(X)                                                                         \
    X(memory., whole, used,                                                                        \
      SL_GAUGE(22, "sluice_memory_used_bytes", "Memory of the job's processes."))                  \
    X(memory., whole, peak,                                                                        \
      SL_GAUGE(23, "sluice_memory_peak_bytes", "Most memory of the job's processes."))             \
    X(memory., whole, limit, SL_GAUGE(24, "sluice_memory_limit_bytes", "Memory the job may use."))

#define SL_STATS_LOAD(X)                                                                           \
    X(, real, cpu_load,                                                                            \
      SL_GAUGE(25, "sluice_cpu_load_cores", "Cores that the job's processes keep busy."))

#define SL_STATS_DEVICE(X)                                                                         \
    X(, whole, index, SL_JSON)                                                                     \
    X(, text, kind, SL_JSON)                                                                       \
    X(, text, name, SL_JSON)                                                                       \
    X(, text, cores, SL_JSON)                                                                      \
    X(, whole, gpu, SL_JSON)

#define SL_STATS_DEVICE_USE(X)                                                                     \
    X(, whole, memory_used,                                                                        \
      SL_GAUGE(1, "sluice_device_memory_bytes", "Memory the job uses on a device."))               \
    X(, whole, memory_budget,                                                                      \
      SL_GAUGE(2, "sluice_device_memory_budget_bytes", "Memory a device may use."))                \
    X(, whole, gpu_memory_used,                                                                    \
      SL_GAUGE(3, "sluice_device_gpu_memory_used_bytes",                                           \
               "Memory in use on a device's GPU, by whomever."))                                   \
    X(, whole, gpu_memory_total,                                                                   \
      SL_GAUGE(4, "sluice_device_gpu_memory_bytes", "Memory of a device's GPU."))                  \
    X(, real, cpu_load,                                                                            \
      SL_GAUGE(5, "sluice_device_cpu_load_ratio", "Share of a device's cores in use."))            \
    X(, real, gpu_load,                                                                            \
      SL_GAUGE(6, "sluice_device_gpu_load_ratio",                                                  \
               "Share of the last second in which a device's GPU ran a kernel, of whomever."))     \
    X(, real, gpu_memory_load,                                                                     \
      SL_GAUGE(7, "sluice_device_gpu_memory_load_ratio",                                           \
               "Share of the last second in which a device's GPU read or wrote its memory."))

#define SL_STATS_WORKER(X)                                                                         \
    X(, text, name, SL_JSON)                                                                       \
    X(, text, role, SL_JSON)                                                                       \
    X(, whole, device, SL_JSON)                                                                    \
    X(, whole, pid, SL_JSON)                                                                       \
    X(, text, state, SL_JSON)                                                                      \
    X(, text, batch, SL_JSON)                                                                      \
    X(, real, busy,                                                                                \
      SL_GAUGE(1, "sluice_worker_busy_ratio", "Share of the last seconds a worker worked."))       \
    X(, real, wait,                                                                                \
      SL_GAUGE(2, "sluice_worker_wait_ratio", "Share of the last seconds a worker waited."))       \
    X(, whole, batches,                                                                            \
      SL_TOTAL(4, "sluice_worker_batches_total", "Batches that a worker has done."))               \
    X(, real, batches_per_second, SL_JSON)                                                         \
    X(, real, edges_per_second, SL_JSON)                                                           \
    X(, real, bytes_per_second, SL_JSON)                                                           \
    X(, whole, rounds, SL_JSON)                                                                    \
    X(, whole, restarts,                                                                           \
      SL_TOTAL(5, "sluice_worker_restarts_total", "Times a worker was replaced."))                 \
    X(, whole, memory, SL_GAUGE(3, "sluice_worker_memory_bytes", "Memory of a worker's process."))

#define SL_STATS_STAGE(X)                                                                          \
    X(, real, busy,                                                                                \
      SL_GAUGE(1, "sluice_stage_busy_ratio",                                                       \
               "Share of its role's time that a stage took over the last seconds."))               \
    X(, whole, count,                                                                              \
      SL_TOTAL(3, "sluice_stage_operations_total", "Times that a stage was gone through."))        \
    X(, real, seconds,                                                                             \
      SL_TOTAL(2, "sluice_stage_seconds_total", "Seconds that a stage took, over all workers."))   \
    X(, real, per_second, SL_JSON)                                                                 \
    X(, real, p50, SL_JSON)                                                                        \
    X(, real, p99, SL_JSON)

#define SL_STATS_real  double
#define SL_STATS_whole double
#define SL_STATS_time  double
#define SL_STATS_flag  bool
#define SL_STATS_text  const char *

#define SL_STATS_MEMBER(object, type, member, output) SL_STATS_##type member;

struct sl_stats_device {
    SL_STATS_DEVICE(SL_STATS_MEMBER)
    SL_STATS_DEVICE_USE(SL_STATS_MEMBER)
    char roles[128]; // read: joined by " + "
};

struct sl_stats_worker {
    SL_STATS_WORKER(SL_STATS_MEMBER)
};

struct sl_stats_stage {
    SL_STATS_STAGE(SL_STATS_MEMBER)
};

// What is timed of a batch, in the order of the line.
enum sl_live_stage {
    SL_LIVE_SAMPLE,
    SL_LIVE_MARK,
    SL_LIVE_COPY,
    SL_LIVE_EXTRACT,
    SL_LIVE_TRAIN,
    SL_LIVE_EVALUATE,
    SL_LIVE_WAIT,
    SL_LIVE_BACKPRESSURE,
    SL_LIVE_STAGES,
};
extern const char *const sl_stats_stage_names[SL_LIVE_STAGES];

// Those of which there are histograms.
enum { SL_STATS_HISTOGRAMS = 4 };
extern const enum sl_live_stage sl_stats_histograms[SL_STATS_HISTOGRAMS];

struct sl_stats {
    SL_STATS_JOB(SL_STATS_MEMBER)
    struct {
        SL_STATS_METRIC(SL_STATS_MEMBER)
    } metric;
    struct {
        SL_STATS_BEST(SL_STATS_MEMBER)
    } best;
    SL_STATS_SPLIT(SL_STATS_MEMBER)
    struct {
        SL_STATS_STANDBY(SL_STATS_MEMBER)
    } standby;
    SL_STATS_PLACES(SL_STATS_MEMBER)
    struct {
        SL_STATS_RATES(SL_STATS_MEMBER)
    } rates;
    struct {
        SL_STATS_BYTES(SL_STATS_MEMBER)
    } bytes;
    struct {
        SL_STATS_QUEUE(SL_STATS_MEMBER)
    } queue;
    struct {
        SL_STATS_CACHE(SL_STATS_MEMBER)
    } cache;
    struct {
        SL_STATS_UPDATES(SL_STATS_MEMBER)
        struct {
            SL_STATS_GROUP(SL_STATS_MEMBER)
        } group;
    } updates;
    struct {
        SL_STATS_PROFILE(SL_STATS_MEMBER)
    } profile;
    SL_STATS_BOTTLENECK(SL_STATS_MEMBER)
    struct {
        SL_STATS_ADVICE(SL_STATS_MEMBER)
    } advice;
    struct {
        SL_STATS_TOTALS(SL_STATS_MEMBER)
    } totals;
    struct {
        SL_STATS_MEMORY(SL_STATS_MEMBER)
    } memory;
    SL_STATS_LOAD(SL_STATS_MEMBER)
};

extern const struct sl_fields sl_stats_fields, sl_stats_device_fields, sl_stats_worker_fields,
    sl_stats_stage_fields;

#endif
