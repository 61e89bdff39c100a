/*
 * stats.h - sluice.stats/1, a line of live statistics: every figure that there is, once.
 *
 * A line X(object, type, member, output) is a member of a struct, a key of the JSON line (of the
 * same name, in that object) and, by its output, a family of Prometheus. So a new figure is a line
 * here and the place in broker/telemetry/live_json.c that measures it. broker/telemetry/README.md
 * explains the keys.
 *
 * The members are in the order of the line. A family's number is its place in /metrics: a new one
 * comes last.
 */
#ifndef SL_SCHEMA_STATS_H
#define SL_SCHEMA_STATS_H

#include "common/schema/fields.h"

// clang-format off

// Outputs: the JSON line alone; and Prometheus, as a gauge or a counter, "sluice_" before its name.
#define SL_JSON                      {.number = 0}
#define SL_GAUGE(number, name, help) {number, "gauge", "sluice_" #name, help}
#define SL_TOTAL(number, name, help) {number, "counter", "sluice_" #name, help}

/*
 * The line. BEGIN and END are around the members of an object; one that is NULLABLE is null where
 * nothing in it is known. What is PART of the line and no member is written by hand.
 */
#define SL_STATS(X, BEGIN, END, NULLABLE, PART) \
    X(, TEXT, schema, SL_JSON) X(, TIME, time, SL_JSON) X(, TEXT, job, SL_JSON) \
    X(, TEXT, id, SL_JSON) X(, TEXT, state, SL_JSON) X(, TEXT, phase, SL_JSON) \
    X(, WHOLE, epoch, SL_GAUGE(1, job_epoch, "Epoch the job is in, from 0.")) \
    X(, WHOLE, epochs, SL_GAUGE(2, job_epochs, "Epochs the job has in all.")) \
    X(, WHOLE, done, SL_GAUGE(3, phase_cells_done, "Batches of the present phase that are done.")) \
    X(, WHOLE, total, SL_GAUGE(4, phase_cells, "Batches of the present phase.")) \
    X(, REAL, seconds, SL_GAUGE(5, job_running_seconds, "Seconds since the job began.")) \
    X(, REAL, epoch_seconds, SL_JSON) \
    X(, REAL, seconds_left, \
      SL_GAUGE(6, job_left_seconds, "Seconds until the job is expected to end.")) \
    X(, REAL, loss, SL_GAUGE(7, loss, "Mean training loss of this epoch so far.")) \
    BEGIN() NULLABLE(metric) \
    X(metric., TEXT, name, SL_JSON) X(metric., TEXT, title, SL_JSON) \
    X(metric., REAL, value, SL_JSON) X(metric., WHOLE, epoch, SL_JSON) \
    X(metric., NOTE, relation, SL_JSON) /* of links of a typed graph: whose metric it is */ \
    END(metric) \
    BEGIN() NULLABLE(best) \
    X(best., REAL, value, SL_JSON) X(best., WHOLE, epoch, SL_JSON) \
    END(best) \
    X(, WHOLE, samplers, SL_GAUGE(8, samplers, "Sampler processes.")) \
    X(, WHOLE, trainers, SL_GAUGE(9, trainers, "Trainer processes, standby trainers left out.")) \
    BEGIN() \
    X(standby., WHOLE, there, \
      SL_GAUGE(10, standby_trainers, "Standby trainers on sampler devices.")) \
    X(standby., WHOLE, awake, \
      SL_GAUGE(11, standby_trainers_awake, "Standby trainers that train now.")) \
    X(standby., REAL, busy, SL_JSON) X(standby., REAL, wait, SL_JSON) \
    END(standby) \
    PART(devices) \
    X(, WHOLE, places, SL_JSON) X(, TEXT, cores, SL_JSON) \
    PART(workers) \
    PART(stages) \
    BEGIN() \
    X(rates., REAL, batches, SL_JSON) X(rates., REAL, edges, SL_JSON) \
    X(rates., REAL, input_nodes, SL_JSON) X(rates., REAL, updates, SL_JSON) \
    X(rates., REAL, positives, SL_JSON) X(rates., REAL, negatives, SL_JSON) \
    X(rates., REAL, seconds, SL_JSON) \
    END(rates) \
    BEGIN() \
    X(bytes., REAL, blocks, SL_JSON) X(bytes., REAL, blocks_near, SL_JSON) \
    X(bytes., REAL, features_cache, SL_JSON) X(bytes., REAL, features_store, SL_JSON) \
    END(bytes) \
    BEGIN() \
    X(queue., WHOLE, batches, SL_GAUGE(12, queue_batches, "Batches that lie ready in the queue.")) \
    X(queue., WHOLE, bytes, SL_GAUGE(13, queue_bytes, "Bytes of the batches that lie ready.")) \
    X(queue., WHOLE, capacity_bytes, \
      SL_GAUGE(17, arena_capacity_bytes, "Bytes of the arena for blocks.")) \
    X(queue., WHOLE, used_bytes, \
      SL_GAUGE(16, arena_used_bytes, "Bytes of the arena that are taken.")) \
    X(queue., WHOLE, sampling, SL_GAUGE(14, queue_sampling_batches, "Batches being sampled.")) \
    X(queue., WHOLE, training, SL_GAUGE(15, queue_training_batches, "Batches being trained on.")) \
    END(queue) \
    BEGIN() \
    X(cache., TEXT, policy, SL_JSON) X(cache., FLAG, ranked, SL_JSON) \
    X(cache., REAL, hit_rate, \
      SL_GAUGE(18, cache_hit_ratio, \
               "Share of input rows found in a cache, over the last seconds.")) \
    X(cache., REAL, hit_rate_total, SL_JSON) \
    END(cache) \
    BEGIN() \
    X(updates., TEXT, mode, SL_JSON) \
    X(updates., WHOLE, version, SL_GAUGE(19, parameters_version, "Version of the parameters.")) \
    X(updates., REAL, staleness_mean, \
      SL_GAUGE(20, staleness_mean_updates, "Mean number of updates that a gradient fell behind.")) \
    X(updates., REAL, staleness_max, \
      SL_GAUGE(21, staleness_max_updates, "Most updates that a gradient fell behind.")) \
    X(updates., TEXT, exchange, SL_JSON) \
    BEGIN() NULLABLE(updates.group) \
    X(updates.group., WHOLE, members, SL_JSON) X(updates.group., WHOLE, generation, SL_JSON) \
    END(group) \
    END(updates) \
    BEGIN() \
    X(profile., REAL, t_sample, SL_JSON) X(profile., REAL, t_train, SL_JSON) \
    X(profile., REAL, t_standby, SL_JSON) \
    END(profile) \
    X(, TEXT, bottleneck, SL_JSON) X(, TEXT, bottleneck_role, SL_JSON) \
    BEGIN() NULLABLE(advice) \
    X(advice., WHOLE, samplers, SL_JSON) X(advice., WHOLE, trainers, SL_JSON) \
    X(advice., REAL, epoch_seconds_now, SL_JSON) X(advice., REAL, epoch_seconds_then, SL_JSON) \
    END(advice) \
    BEGIN() \
    X(totals., WHOLE, batches, SL_TOTAL(26, batches_total, "Batches trained on.")) \
    X(totals., WHOLE, edges, SL_TOTAL(27, edges_total, "Edges sampled.")) \
    X(totals., WHOLE, input_nodes, SL_TOTAL(28, input_nodes_total, "Input nodes of all batches.")) \
    X(totals., WHOLE, cache_hits, SL_TOTAL(29, cache_hits_total, "Input rows found in a cache.")) \
    X(totals., WHOLE, cache_misses, \
      SL_TOTAL(30, cache_misses_total, "Input rows that no cache had.")) \
    X(totals., WHOLE, block_bytes, SL_TOTAL(31, block_bytes_total, "Bytes of sampled blocks.")) \
    X(totals., WHOLE, blocks_near_bytes, \
      SL_TOTAL(40, blocks_near_bytes_total, \
               "Bytes of blocks that were copied within a GPU that samples and trains.")) \
    X(totals., WHOLE, hit_bytes, SL_JSON) X(totals., WHOLE, miss_bytes, SL_JSON) \
    X(totals., WHOLE, matched_bytes, SL_JSON) X(totals., WHOLE, peer_bytes, SL_JSON) \
    X(totals., WHOLE, updates, SL_TOTAL(32, updates_total, "Updates of the parameters.")) \
    X(totals., WHOLE, epochs, SL_TOTAL(33, epochs_total, "Epochs that are complete.")) \
    X(totals., WHOLE, switches, \
      SL_TOTAL(34, switches_total, "Times a standby trainer was woken.")) \
    X(totals., WHOLE, resampled, \
      SL_TOTAL(35, resampled_total, "Batches drawn again after a death.")) \
    X(totals., WHOLE, retrained, \
      SL_TOTAL(36, retrained_total, "Batches trained again after a death.")) \
    X(totals., WHOLE, evicted, SL_TOTAL(37, evicted_total, "Ready batches given up for memory.")) \
    X(totals., WHOLE, restarts, \
      SL_TOTAL(38, restarts_total, "Workers that died and were replaced.")) \
    X(totals., WHOLE, checkpoints, SL_TOTAL(39, checkpoints_total, "Checkpoints written.")) \
    END(totals) \
    PART(histograms) \
    BEGIN() \
    X(memory., WHOLE, used, SL_GAUGE(22, memory_used_bytes, "Memory of the job's processes.")) \
    X(memory., WHOLE, peak, \
      SL_GAUGE(23, memory_peak_bytes, "Most memory of the job's processes.")) \
    X(memory., WHOLE, limit, SL_GAUGE(24, memory_limit_bytes, "Memory the job may use.")) \
    END(memory) \
    X(, REAL, cpu_load, SL_GAUGE(25, cpu_load_cores, "Cores that the job's processes keep busy.")) \
    PART(links) \
    PART(nodes) \
    PART(wires) \
    PART(types) \
    PART(relations) \
    PART(held)

#define SL_STATS_DEVICE(X, PART) \
    X(, WHOLE, index, SL_JSON) X(, TEXT, kind, SL_JSON) X(, TEXT, name, SL_JSON) \
    X(, TEXT, cores, SL_JSON) X(, WHOLE, gpu, SL_JSON) \
    PART(roles) \
    X(, WHOLE, memory_used, SL_GAUGE(1, device_memory_bytes, "Memory the job uses on a device.")) \
    X(, WHOLE, memory_budget, SL_GAUGE(2, device_memory_budget_bytes, "Memory a device may use.")) \
    X(, WHOLE, gpu_memory_used, \
      SL_GAUGE(3, device_gpu_memory_used_bytes, "Memory in use on a device's GPU, by whomever.")) \
    X(, WHOLE, gpu_memory_total, \
      SL_GAUGE(4, device_gpu_memory_bytes, "Memory of a device's GPU.")) \
    X(, REAL, cpu_load, SL_GAUGE(5, device_cpu_load_ratio, "Share of a device's cores in use.")) \
    X(, REAL, gpu_load, \
      SL_GAUGE(6, device_gpu_load_ratio, \
               "Share of the last second in which a device's GPU ran a kernel, of whomever.")) \
    X(, REAL, gpu_memory_load, \
      SL_GAUGE(7, device_gpu_memory_load_ratio, \
               "Share of the last second in which a device's GPU read or wrote its memory."))

#define SL_STATS_WORKER(X) \
    X(, TEXT, name, SL_JSON) X(, TEXT, role, SL_JSON) X(, WHOLE, device, SL_JSON) \
    X(, TEXT, cores, SL_JSON) \
    X(, WHOLE, pid, SL_JSON) X(, TEXT, state, SL_JSON) X(, TEXT, batch, SL_JSON) \
    X(, REAL, busy, SL_GAUGE(1, worker_busy_ratio, "Share of the last seconds a worker worked.")) \
    X(, REAL, wait, SL_GAUGE(2, worker_wait_ratio, "Share of the last seconds a worker waited.")) \
    X(, WHOLE, batches, \
      SL_TOTAL(4, worker_batches_total, "Training batches that a worker has done.")) \
    X(, REAL, batches_per_second, SL_JSON) X(, REAL, edges_per_second, SL_JSON) \
    X(, REAL, bytes_per_second, SL_JSON) X(, WHOLE, rounds, SL_JSON) \
    X(, WHOLE, restarts, SL_TOTAL(5, worker_restarts_total, "Times a worker was replaced.")) \
    X(, WHOLE, memory, SL_GAUGE(3, worker_memory_bytes, "Memory of a worker's process."))

// What a device has read in somebody's memory, of those that hold features or the graph together.
#define SL_STATS_LINK(X) \
    X(, TEXT, kind, SL_JSON) /* "features", "graph" */ \
    X(, WHOLE, reader, SL_JSON) \
    X(, TEXT, from, SL_JSON) /* a device's number (the reader's: its own), or "memory" */ \
    X(, WHOLE, bytes, \
      SL_TOTAL(1, link_bytes_total, \
               "Bytes that a device has read in the memory of each, of what GPUs hold together."))

// A node of a job on several: what its processes have done since they began. In the report, too.
#define SL_STATS_NODE_TOTALS(X) \
    X(, WHOLE, rank, SL_JSON) X(, TEXT, host, SL_JSON) \
    X(, WHOLE, samplers, SL_GAUGE(1, node_samplers, "Sampler processes of a node.")) \
    X(, WHOLE, trainers, \
      SL_GAUGE(2, node_trainers, "Trainer processes of a node, standby trainers left out.")) \
    X(, WHOLE, batches, SL_TOTAL(8, node_batches_total, "Batches that a node trained on.")) \
    X(, WHOLE, input_nodes, \
      SL_TOTAL(9, node_input_nodes_total, "Input nodes of a node's batches of all kinds.")) \
    X(, WHOLE, sent_bytes, \
      SL_TOTAL(10, node_sent_bytes_total, "Bytes that a node sent to the others.")) \
    X(, WHOLE, received_bytes, \
      SL_TOTAL(11, node_received_bytes_total, "Bytes that a node received from the others.")) \
    X(, REAL, late_seconds, \
      SL_TOTAL(12, node_late_seconds_total, \
               "Seconds that a node's updates waited for what others had not done yet.")) \
    X(, REAL, wire_seconds, \
      SL_TOTAL(13, node_wire_seconds_total, \
               "Seconds that a node's updates waited for what was on its way.")) \
    X(, WHOLE, remote_rows, \
      SL_TOTAL(14, node_remote_rows_total, "Feature rows that a node got from others.")) \
    X(, WHOLE, remote_bytes, SL_JSON) \
    X(, REAL, remote_share, SL_JSON) /* of its input nodes */ \
    X(, REAL, remote_seconds, SL_JSON) /* from an ask to its rows, on average */ \
    X(, WHOLE, memory, SL_GAUGE(3, node_memory_bytes, "Memory of a node's processes."))

// ... and in the last seconds; shares of its samplers' or trainers' time.
#define SL_STATS_NODE(X) \
    SL_STATS_NODE_TOTALS(X) \
    X(, REAL, age, SL_GAUGE(4, node_age_seconds, "Age of what is known of a node.")) \
    X(, WHOLE, queue, SL_GAUGE(5, node_queue_batches, "Batches that lie ready on a node.")) \
    X(, REAL, batches_per_second, SL_JSON) \
    X(, REAL, sent_per_second, SL_JSON) X(, REAL, received_per_second, SL_JSON) \
    X(, REAL, draws, SL_JSON) X(, REAL, blocked, SL_JSON) \
    X(, REAL, trains, SL_GAUGE(6, node_trains_ratio, "Share of a node's trainers' time.")) \
    X(, REAL, extracts, SL_JSON) \
    X(, REAL, waits, SL_GAUGE(7, node_waits_ratio, "Share that a node's trainers waited.")) \
    X(, REAL, late, SL_JSON) X(, REAL, wire, SL_JSON) /* of the seconds, as above */ \
    X(, REAL, asks, SL_JSON) /* likewise that it waited for rows, all asks together */ \
    X(, REAL, cpu_load, SL_JSON)

// What a node got from another one, and how long its updates waited for it. In the report, too.
#define SL_STATS_WIRE(X) \
    X(, WHOLE, node, SL_JSON) X(, WHOLE, from, SL_JSON) /* ranks */ \
    X(, WHOLE, bytes, \
      SL_TOTAL(1, wire_bytes_total, "Bytes that a node received from another one.")) \
    X(, REAL, late_seconds, \
      SL_TOTAL(2, wire_late_seconds_total, "Seconds that a node waited for another one's work.")) \
    X(, REAL, wire_seconds, \
      SL_TOTAL(3, wire_seconds_total, "Seconds that a node waited for another one's messages.")) \
    X(, WHOLE, rows, \
      SL_TOTAL(4, wire_rows_total, "Feature rows that a node got from another one.")) \
    X(, WHOLE, row_bytes, SL_JSON) \
    X(, WHOLE, asks, SL_JSON) X(, REAL, ask_seconds, SL_JSON) /* messages; until their rows came */

// Of a graph of several types what was gathered of one and drawn of a relation. In the report, too.
#define SL_STATS_TYPE_COUNTS(X) \
    X(, WHOLE, input_nodes, \
      SL_TOTAL(1, type_input_nodes_total, "Rows of a type that trainers gathered.")) \
    X(, WHOLE, hits, SL_TOTAL(2, type_cache_hits_total, "Of these, rows found in a cache.")) \
    X(, WHOLE, hit_bytes, \
      SL_TOTAL(3, type_hit_bytes_total, "Bytes of features of a type that caches had.")) \
    X(, WHOLE, miss_bytes, \
      SL_TOTAL(4, type_miss_bytes_total, "Bytes of features of a type that no cache had."))
#define SL_STATS_TYPE(X) X(, TEXT, name, SL_JSON) SL_STATS_TYPE_COUNTS(X)
#define SL_STATS_RELATION_COUNTS(X) \
    X(, WHOLE, sampled_edges, \
      SL_TOTAL(1, relation_edges_total, "Edges of a relation that samplers drew."))
#define SL_STATS_RELATION(X) \
    X(, TEXT, source, SL_JSON) X(, TEXT, name, SL_JSON) X(, TEXT, target, SL_JSON) \
    SL_STATS_RELATION_COUNTS(X)

// What a trainer's cache holds of a type. In the report, too.
#define SL_STATS_HELD(X) \
    X(, TEXT, worker, SL_JSON) X(, WHOLE, device, SL_JSON) X(, TEXT, type, SL_JSON) \
    X(, WHOLE, rows, SL_GAUGE(1, held_rows, "Rows of a type that a trainer's cache holds.")) \
    X(, WHOLE, bytes, SL_GAUGE(2, held_bytes, "Bytes of these rows."))

#define SL_STATS_STAGE(X) \
    X(, REAL, busy, \
      SL_GAUGE(1, stage_busy_ratio, \
               "Share of its role's time that a stage took over the last seconds.")) \
    X(, WHOLE, count, SL_TOTAL(3, stage_operations_total, "Times that a stage was gone through.")) \
    X(, REAL, seconds, \
      SL_TOTAL(2, stage_seconds_total, "Seconds that a stage took, over all workers.")) \
    X(, REAL, per_second, SL_JSON) X(, REAL, p50, SL_JSON) X(, REAL, p99, SL_JSON)

// clang-format on

struct sl_stats_device {
    SL_STATS_DEVICE(SL_MEMBER, SL_MEMBER_NONE)
    char roles[128]; // read: joined by " + "
};

struct sl_stats_worker {
    SL_STATS_WORKER(SL_MEMBER)
};

struct sl_stats_link {
    SL_STATS_LINK(SL_MEMBER)
};

struct sl_stats_node {
    SL_STATS_NODE(SL_MEMBER)
};

struct sl_stats_wire {
    SL_STATS_WIRE(SL_MEMBER)
};

struct sl_stats_type {
    SL_STATS_TYPE(SL_MEMBER)
};

struct sl_stats_relation {
    SL_STATS_RELATION(SL_MEMBER)
};

struct sl_stats_held {
    SL_STATS_HELD(SL_MEMBER)
};

struct sl_stats_stage {
    SL_STATS_STAGE(SL_MEMBER)
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
enum {
    SL_STATS_HISTOGRAMS = 4,
    SL_STATS_BUCKETS_MAX = 64, // read, as are the next: there can be no more of them
    SL_STATS_DEVICES_MAX = 512,
    SL_STATS_WORKERS_MAX = 1024,
    SL_STATS_LINKS_MAX = 2 * 64 * 65,
    SL_STATS_NODES_MAX = 128,
    SL_STATS_WIRED_MAX = 32, // nodes: the wires of more are left out, their sums are with the nodes
    SL_STATS_WIRES_MAX = SL_STATS_WIRED_MAX * (SL_STATS_WIRED_MAX - 1),
    SL_STATS_TYPES_MAX = 256,
    SL_STATS_RELATIONS_MAX = 4096,
    SL_STATS_HELD_MAX = 8192,
};
extern const enum sl_live_stage sl_stats_histograms[SL_STATS_HISTOGRAMS];

struct sl_stats {
    SL_STATS(SL_MEMBER, SL_MEMBER_BEGIN, SL_MEMBER_END, SL_MEMBER_NONE, SL_MEMBER_NONE)

    struct sl_stats_stage stages[SL_LIVE_STAGES];

    // What sl_stats_take() alone sets.
    cJSON *line;                         // owned: the texts are in it
    struct sl_stats_device *devices;     // (n_devices), owned
    struct sl_stats_worker *workers;     // (n_workers), owned
    struct sl_stats_link *links;         // (n_links), owned
    struct sl_stats_node *nodes;         // (n_nodes), owned; none of a job on one node
    struct sl_stats_wire *wires;         // (n_wires), owned
    struct sl_stats_type *types;         // (n_types), owned; none of a plain graph
    struct sl_stats_relation *relations; // (n_relations), owned
    struct sl_stats_held *held;          // (n_held), owned
    size_t n_devices, n_workers, n_links, n_nodes, n_wires, n_types, n_relations, n_held, n_buckets;
    double le[SL_STATS_BUCKETS_MAX]; // n_buckets - 1 upper edges in seconds; the last is open
    double counts[SL_STATS_HISTOGRAMS][SL_STATS_BUCKETS_MAX];
};

extern const struct sl_fields sl_stats_fields, sl_stats_device_fields, sl_stats_worker_fields,
    sl_stats_stage_fields, sl_stats_link_fields, sl_stats_node_fields, sl_stats_wire_fields,
    sl_stats_type_fields, sl_stats_relation_fields, sl_stats_held_fields;
// Of struct sl_stats_node what the report has: without what it does now.
extern const struct sl_fields sl_stats_node_totals;
// ... and what it has of a type and of a relation beside their names.
extern const struct sl_fields sl_stats_type_counts, sl_stats_relation_counts;

// Whether it was read in another device's memory.
bool sl_stats_link_is_peer(const struct sl_stats_link *link);

// Takes a line apart, and takes it over, even if it fails. SL_ENOMEM.
int sl_stats_take(cJSON *line, struct sl_stats *out);
void sl_stats_fini(struct sl_stats *s); // safe on a zeroed struct

#endif
