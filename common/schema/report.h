/*
 * report.h - sluice.report/1: every figure of report.json and metrics.jsonl, once.
 *
 * A line X(object, type, member, output) is a member of a struct and a key of the same name, in
 * that object; by its output it is a scalar of TensorBoard. So a new figure is a line here and the
 * place that measures it. broker/rundir/README.md explains the keys.
 *
 * The members are in the order of the report: new ones come last in their object.
 */
#ifndef SL_SCHEMA_REPORT_H
#define SL_SCHEMA_REPORT_H

#include "common/schema/fields.h"

// clang-format off

// Outputs: a scalar of that name; left out unless the flag (a member of the struct) is set.
#define SL_TAG(name)            .tag = name
#define SL_IF(record, flag)     .given = 1 + offsetof(struct record, flag)
#define SL_IF_CACHES            SL_IF(sl_report_totals, caches)
#define SL_IF_HOLDS             SL_IF(sl_report_totals, holds)
#define SL_IF_WALKS             SL_IF(sl_report_totals, walks)
#define SL_IF_READS             SL_IF(sl_report_totals, reads)
#define SL_IF_GPUS              SL_IF(sl_report_totals, gpus)
#define SL_IF_LENDS             SL_IF(sl_report_totals, lends)
#define SL_IF_LENDS_GRAPH       SL_IF(sl_report_totals, lends_graph)
#define SL_IF_GPU_SAMPLES       SL_IF(sl_report_totals, gpu_samples)
#define SL_IF_NODES             SL_IF(sl_report_totals, several_nodes)
// A record in a record.
#define SL_MEMBER_STAGE         struct sl_report_stage
#define SL_FIELD_STAGE          SL_FIELD_RECORD, .record = &sl_report_stage_fields

// The report. What is NULLABLE is null where nothing in it is known.
#define SL_REPORT(X, BEGIN, END, NULLABLE) \
    X(, TEXT, schema) X(, TEXT, job) X(, TEXT, status) X(, NOTE, message) X(, TREE, config) \
    X(, TEXT, isa) X(, TREE, devices) X(, TREE, allocations) X(, TREE, scales) \
    X(, WHOLE, allocations_left_out) X(, WHOLE, scales_left_out) X(, TREE, epochs) \
    BEGIN() \
    X(cache., TEXT, policy) X(cache., WHOLE, presample_epochs, SL_IF_CACHES) \
    X(cache., WHOLE, row_bytes, SL_IF_CACHES) X(cache., TREE, trainers, SL_IF_CACHES) \
    X(cache., REAL, presample_seconds, SL_IF_CACHES) X(cache., REAL, rank_seconds, SL_IF_CACHES) \
    X(cache., REAL, load_seconds, SL_IF_CACHES) \
    X(cache., REAL, presample_cost_epochs, SL_IF_CACHES) X(cache., REAL, hit_rate, SL_IF_CACHES) \
    X(cache., REAL, optimal_hit_rate, SL_IF(sl_report_totals, has_optimal)) \
    X(cache., NOTE, why) /* "auto" became this policy */ \
    X(cache., TREE, held, SL_IF_HOLDS) /* of each type; of stats.h */ \
    END(cache) \
    BEGIN() \
    X(switching., WHOLE, switches) X(switching., WHOLE, batches) \
    X(switching., REAL, seconds_saved) \
    END(switching) \
    BEGIN() \
    X(batches., WHOLE, scheduled) X(batches., WHOLE, trained) X(batches., WHOLE, resampled) \
    X(batches., WHOLE, retrained) X(batches., WHOLE, evicted) \
    END(batches) \
    X(, TREE, restarts) X(, WHOLE, restarts_left_out) X(, TREE, resumes) \
    X(, REAL, test_accuracy) X(, TREE, test) X(, WHOLE, best_epoch) X(, REAL, best_val_accuracy) \
    BEGIN() NULLABLE(best_metric) \
    X(best_metric., TEXT, name) X(best_metric., REAL, value) X(best_metric., WHOLE, epoch) \
    X(best_metric., NOTE, why) /* "auto" became this metric */ \
    END(best_metric) \
    X(, NOTE, epochs_reason) /* "auto" became so many */ \
    BEGIN() NULLABLE(stopped_early) \
    X(stopped_early., WHOLE, epoch) X(stopped_early., TEXT, reason) \
    END(stopped_early) \
    X(, REAL, test_seconds) X(, TEXT, params_sha256) X(, NOTE, samples_digest) \
    X(, NOTE, embedding_sha256) X(, NOTE, topology_digest) /* of learned rows, and their graph */ \
    X(, NOTE, pair_relation) /* of links: what was learned, and judged, of a typed graph */ \
    X(, REAL, start_seconds) X(, REAL, first_update_seconds) X(, REAL, wall_seconds) \
    X(, REAL, total_seconds) X(, REAL, paused_seconds) X(, WHOLE, peak_memory) \
    X(, WHOLE, peak_held) X(, TREE, processes) \
    BEGIN() \
    X(arena., WHOLE, bytes) X(arena., WHOLE, file_bytes) X(arena., WHOLE, payload_bytes) \
    X(arena., WHOLE, block_bytes_max) \
    END(arena) \
    BEGIN() \
    X(store., TEXT, features) X(store., WHOLE, feature_bytes) \
    X(store., WHOLE, cache_bytes, SL_IF_READS) X(store., WHOLE, cache_rows, SL_IF_READS) \
    X(store., WHOLE, window, SL_IF_READS) X(store., REAL, hit_rate, SL_IF_READS) \
    X(store., WHOLE, depth, SL_IF_READS) X(store., REAL, latency_seconds, SL_IF_READS) \
    X(store., REAL, reads_per_second, SL_IF_READS) \
    X(store., TEXT, gpu_way, SL_IF_GPUS) X(store., TEXT, gpu_reason, SL_IF_GPUS) \
    X(store., WHOLE, copy_bytes, SL_IF_GPUS) X(store., WHOLE, copy_page_bytes, SL_IF_GPUS) \
    X(store., TEXT, graph_way, SL_IF_GPU_SAMPLES) X(store., TEXT, graph_reason, SL_IF_GPU_SAMPLES) \
    X(store., WHOLE, graph_copy_bytes, SL_IF_GPU_SAMPLES) \
    X(store., WHOLE, graph_copy_page_bytes, SL_IF_GPU_SAMPLES) \
    X(store., TEXT, prefer, SL_IF_GPU_SAMPLES) X(store., NOTE, prefer_reason) \
    X(store., TEXT, placement, SL_IF_LENDS) X(store., TEXT, placement_reason, SL_IF_LENDS) \
    X(store., WHOLE, parts, SL_IF_LENDS) X(store., WHOLE, plans, SL_IF_LENDS) \
    X(store., WHOLE, gpu_rows, SL_IF_LENDS) X(store., TREE, held, SL_IF_LENDS) \
    X(store., TREE, links, SL_IF_LENDS_GRAPH) /* of both kinds */ \
    X(store., TEXT, graph_placement, SL_IF_LENDS_GRAPH) \
    X(store., TEXT, graph_placement_reason, SL_IF_LENDS_GRAPH) \
    X(store., WHOLE, graph_parts, SL_IF_LENDS_GRAPH) \
    X(store., WHOLE, graph_plans, SL_IF_LENDS_GRAPH) \
    X(store., WHOLE, gpu_edges, SL_IF_LENDS_GRAPH) X(store., TREE, graph_held, SL_IF_LENDS_GRAPH) \
    END(store) \
    BEGIN() \
    X(order., TEXT, kind) X(order., WHOLE, sequences, SL_IF_WALKS) \
    X(order., REAL, shuffling_error, SL_IF_WALKS) X(order., REAL, uniform_error, SL_IF_WALKS) \
    X(order., REAL, seconds, SL_IF_WALKS) X(order., REAL, input_nodes) \
    X(order., REAL, spread_input_nodes) \
    END(order) \
    BEGIN() X(precision., TEXT, asked) X(precision., TEXT, used) END(precision) \
    X(, TREE, warnings) /* texts: what a job that is done has to say against itself */ \
    X(, WHOLE, num_params) X(, WHOLE, epochs_left_out, SL_IF(sl_report_totals, lent)) \
    X(, TREE, nodes, SL_IF_NODES) X(, TREE, wires, SL_IF_NODES) /* of stats.h; of the last part */ \
    X(, WHOLE, val_edges_added, SL_IF(sl_report_totals, widens)) /* to the test's graph */ \
    X(, TREE, types, SL_IF(sl_report_totals, typed)) /* of vertices, in the data set */ \
    X(, TREE, relations, SL_IF(sl_report_totals, typed))

// An epoch: an entry of "epochs", and a line of metrics.jsonl.
#define SL_REPORT_EPOCH(X, BEGIN, END) \
    X(, WHOLE, epoch) X(, REAL, seconds, SL_TAG("time/epoch_seconds")) \
    X(, REAL, passes, SL_TAG("time/passes"), SL_IF(sl_report_epoch, shares)) /* at its end */ \
    X(, REAL, evaluate_seconds) X(, REAL, overlapped_seconds) X(, REAL, paused_seconds) \
    X(, REAL, loss, SL_TAG("loss/train")) X(, REAL, train_accuracy, SL_TAG("accuracy/train")) \
    X(, REAL, val_accuracy) X(, TREE, val) X(, TREE, test) \
    X(, WHOLE, batches) X(, WHOLE, sampled_edges) X(, WHOLE, input_nodes) \
    X(, WHOLE, positives, SL_IF(sl_report_epoch, links)) /* pairs of links that were trained on */ \
    X(, WHOLE, negatives, SL_IF(sl_report_epoch, links)) \
    X(, WHOLE, hard_negatives, SL_IF(sl_report_epoch, links)) /* part of these */ \
    X(, WHOLE, hard_missing, SL_IF(sl_report_epoch, links)) /* others drawn in their place */ \
    BEGIN() X(bytes., WHOLE, blocks) X(bytes., WHOLE, blocks_near) \
    X(bytes., WHOLE, features) END(bytes) \
    BEGIN() \
    X(queue., REAL, depth_mean, SL_TAG("queue/depth_mean")) X(queue., WHOLE, depth_max) \
    END(queue) \
    BEGIN() \
    X(stages., STAGE, sample) X(stages., STAGE, mark) X(stages., STAGE, copy) \
    X(stages., STAGE, extract) X(stages., STAGE, train) X(stages., STAGE, wait) \
    X(stages., STAGE, backpressure) X(stages., STAGE, evaluate) \
    END(stages) \
    BEGIN() \
    X(cache., FLAG, ranked) X(cache., WHOLE, rows) X(cache., WHOLE, hits) \
    X(cache., WHOLE, misses) X(cache., REAL, hit_rate) \
    X(cache., REAL, optimal_hit_rate, SL_IF(sl_report_epoch, has_optimal)) \
    X(cache., WHOLE, hit_bytes) X(cache., WHOLE, miss_bytes) \
    X(cache., WHOLE, matched) X(cache., WHOLE, matched_bytes) \
    END(cache) \
    X(, WHOLE, samplers, SL_TAG("split/samplers")) X(, WHOLE, trainers, SL_TAG("split/trainers")) \
    BEGIN() /* that processes lived since the epoch before was told, standby trainers too */ \
    X(worker_seconds., REAL, samplers) X(worker_seconds., REAL, trainers) \
    END(worker_seconds) \
    BEGIN() \
    X(profile., POSITIVE, t_sample) X(profile., POSITIVE, t_train) \
    X(profile., POSITIVE, t_standby) \
    END(profile) \
    X(, WHOLE, switches, SL_TAG("split/switches")) \
    BEGIN() X(switching., WHOLE, batches) X(switching., REAL, seconds_saved) END(switching) \
    BEGIN() \
    X(updates., REAL, staleness_mean, \
      SL_TAG("updates/staleness_mean"), SL_IF(sl_report_epoch, async)) \
    X(updates., WHOLE, staleness_max, SL_IF(sl_report_epoch, async)) \
    END(updates) \
    X(, WHOLE, resampled) X(, WHOLE, retrained) X(, WHOLE, evicted) X(, TEXT, bottleneck) \
    BEGIN() /* rows of features where they are read from the drive */ \
    X(store., WHOLE, cached) X(store., WHOLE, read) /* before they were trained */ \
    X(store., WHOLE, beside) /* by trainers, since the cache had no place */ \
    X(store., WHOLE, read_bytes) X(store., REAL, seconds) /* of those that were read before */ \
    X(store., WHOLE, remote_rows) X(store., WHOLE, remote_bytes) /* of other nodes, at any time */ \
    END(store) \
    X(, REAL, learning_rate, SL_TAG("optimizer/learning_rate")) /* of its last update */ \
    X(, WHOLE, left, SL_IF(sl_report_epoch, lent)) /* batches that external trainers left */ \
    BEGIN() /* the node that the others waited for longest, with all their batches done */ \
    X(latest., WHOLE, node, SL_IF(sl_report_epoch, several_nodes)) \
    X(latest., REAL, seconds, SL_IF(sl_report_epoch, several_nodes)) \
    END(latest)

// A stage of an epoch; percentiles are of one batch, in seconds.
#define SL_REPORT_STAGE(X, ...) X(, REAL, seconds) X(, WHOLE, count) X(, REAL, p50) X(, REAL, p99)

// A decision on the split, an entry of "allocations". Times are seconds.
#define SL_REPORT_ALLOCATION(X, ...) \
    X(, WHOLE, epoch) /* from which it holds, or would have */ \
    X(, WHOLE, samplers) X(, WHOLE, trainers) /* the split from then on */ \
    X(, POSITIVE, t_sample) X(, POSITIVE, t_train) X(, POSITIVE, t_standby) \
    X(, POSITIVE, k) /* t_train / t_sample */ \
    X(, POSITIVE, formula_samplers) /* what the formula alone gives; 0: it was not asked */ \
    X(, FLAG, moved) /* other than before */ \
    X(, REAL, gain_seconds) /* expected, over what is left of the job */ \
    X(, REAL, cost_seconds) /* expected, of moving */ \
    X(, TEXT, reason) /* in words */

// A change of the split while the job ran, or a refused one: of "scales".
#define SL_REPORT_SCALE(X, BEGIN, END) \
    X(, REAL, seconds) /* since the job began */ \
    X(, WHOLE, epoch) X(, TEXT, by) /* "user", "schedule", "profile" */ \
    BEGIN() X(from., WHOLE, samplers) X(from., WHOLE, trainers) END(from) \
    BEGIN() X(to., WHOLE, samplers) X(to., WHOLE, trainers) END(to) \
    X(, REAL, took_seconds) /* until the new split held */ \
    X(, FLAG, ok) X(, TEXT, message) /* what was done, or why not */

// A worker that died and was replaced, or was not: of "restarts".
#define SL_REPORT_RESTART(X, ...) \
    X(, TEXT, worker) /* "sampler 0" */ \
    X(, WHOLE, pid) X(, REAL, seconds) /* since the job began */ \
    X(, TEXT, cause) X(, TEXT, held) /* "batch 17 of epoch 3", or NULL */ \
    X(, WHOLE, resampled) X(, WHOLE, retrained)

// Where and when the job went on from a checkpoint: of "resumes". The seconds are of all runs
// before it, as far as they were kept.
#define SL_REPORT_RESUME(X, ...) \
    X(, WHOLE, update) X(, WHOLE, epoch) X(, WHOLE, batch) X(, REAL, seconds_before)

// Of "processes"; of "cache.trainers".
#define SL_REPORT_PROCESS(X, ...) \
    X(, TEXT, name) X(, WHOLE, pid) X(, WHOLE, peak_rss) X(, WHOLE, starts)
#define SL_REPORT_CACHE(X, ...) \
    X(, WHOLE, device) X(, TEXT, worker) X(, TEXT, role) X(, REAL, ratio) X(, WHOLE, rows) \
    X(, WHOLE, bytes) X(, REAL, load_seconds)

// Of "store.held": what a device's trainer holds. Those of "store.links" are of stats.h.
#define SL_REPORT_HELD(X, ...) \
    X(, WHOLE, device) X(, WHOLE, rows) X(, WHOLE, bytes) X(, WHOLE, parts)
// Of "store.graph_held": what a device's sampler does.
#define SL_REPORT_HELD_EDGES(X, ...) \
    X(, WHOLE, device) X(, WHOLE, edges) X(, WHOLE, bytes) X(, WHOLE, parts)

// A struct that is an entry of a list, or a part of one, and its fields.
#define SL_REPORT_ENTRY(record, LIST) \
    struct record { LIST(SL_MEMBER, SL_MEMBER_BEGIN, SL_MEMBER_END) }; \
    extern const struct sl_fields record##_fields;
SL_REPORT_ENTRY(sl_report_stage, SL_REPORT_STAGE)
SL_REPORT_ENTRY(sl_report_allocation, SL_REPORT_ALLOCATION)
SL_REPORT_ENTRY(sl_report_scale, SL_REPORT_SCALE)
SL_REPORT_ENTRY(sl_report_restart, SL_REPORT_RESTART)
SL_REPORT_ENTRY(sl_report_resume, SL_REPORT_RESUME)
SL_REPORT_ENTRY(sl_report_process, SL_REPORT_PROCESS)
SL_REPORT_ENTRY(sl_report_cache, SL_REPORT_CACHE)
SL_REPORT_ENTRY(sl_report_held, SL_REPORT_HELD)
SL_REPORT_ENTRY(sl_report_held_edges, SL_REPORT_HELD_EDGES)

// Flags are of who writes: the updates are asynchronous, batches are lent to external trainers, an
// optimum is known, there are caches, the order is that of a walk, there are several nodes, links
// are trained, an epoch is a share of a pass.
#define SL_REPORT_EPOCH_MEMBERS \
    SL_REPORT_EPOCH(SL_MEMBER, SL_MEMBER_BEGIN, SL_MEMBER_END) bool has_optimal, async, lent, \
        several_nodes, links, shares;
// clang-format on

struct sl_report_epoch {
    SL_REPORT_EPOCH_MEMBERS
};

struct sl_report_totals {
    SL_REPORT(SL_MEMBER, SL_MEMBER_BEGIN, SL_MEMBER_END, SL_MEMBER_NONE)
    bool caches, has_optimal, walks, reads, gpus, gpu_samples, lends, lends_graph, lent,
        several_nodes, widens, typed, holds;
};

extern const struct sl_fields sl_report_fields, sl_report_epoch_fields;

// A report that was read. Its texts and trees are those of the JSON that it was read from.
struct sl_read_report {
    struct sl_report_totals of;
    struct sl_report_epoch *epochs; // (n_epochs), owned
    size_t n_epochs;
    const struct sl_report_epoch *last; // of the epochs; NULL: there are none
};

// SL_ENOMEM.
int sl_read_report_init(struct sl_read_report *r, const cJSON *report);
void sl_read_report_fini(struct sl_read_report *r); // safe on a zeroed struct

// For each entry of a list (NULL: none): a statement that uses `entry`, a record of these fields.
#define SL_FOR_EACH_ENTRY(entry, fields, list)                                                     \
    for (const cJSON *entry##_ = (list) ? (list)->child : NULL;                                    \
         entry##_ && (sl_fields_read(&(fields), entry##_, &(entry)), true);                        \
         entry##_ = entry##_->next)

#endif
