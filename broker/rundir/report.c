#include "broker/rundir/report.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "broker/sharding/link_bytes.h"
#include "broker/placement/placement.h"
#include "broker/epochs/ranking.h"
#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/isa.h"
#include "common/base/failpoint.h"
#include "common/base/json_print.h"
#include "common/data/atomic_file.h"
#include "common/text/json.h"

// clang-format off
#define OF_KEPT(...) SL_FIELD(sl_report, __VA_ARGS__)
static const struct sl_field kept[] = {SL_REPORT_KEPT(OF_KEPT, SL_MEMBER_NONE, SL_MEMBER_NONE)};
const struct sl_fields sl_report_kept = SL_FIELDS(kept);
// clang-format on

int sl_report_init(struct sl_report *r)
{
    *r = (struct sl_report){.epochs = cJSON_CreateArray(),
                            .allocations = cJSON_CreateArray(),
                            .scales = cJSON_CreateArray(),
                            .restarts = cJSON_CreateArray(),
                            .resumes = cJSON_CreateArray(),
                            .processes = cJSON_CreateArray()};
    if (r->epochs && r->allocations && r->scales && r->restarts && r->resumes && r->processes)
        return SL_OK;
    sl_report_fini(r);
    return sl_fail(SL_ENOMEM, "no memory for the report");
}

void sl_report_fini(struct sl_report *r)
{
    cJSON_Delete(r->epochs);
    cJSON_Delete(r->allocations);
    cJSON_Delete(r->scales);
    cJSON_Delete(r->restarts);
    cJSON_Delete(r->processes);
    cJSON_Delete(r->resumes);
    memset(r, 0, sizeof *r);
}

// --- entries of lists ----------------------------------------------------------------------------

static cJSON *add_entry(cJSON *list, const struct sl_fields *fields, const void *record)
{
    cJSON *e = cJSON_CreateObject();
    sl_fields_write(fields, record, e);
    cJSON_AddItemToArray(list, e);
    return e;
}

// What may come without end: the oldest entry goes for a new one, and is counted. The first `keep`
// stay.
static void add_newest(cJSON *list, const struct sl_fields *fields, const void *record, int keep,
                       double *left_out)
{
    if (cJSON_GetArraySize(list) >= SL_REPORT_NEWEST) {
        cJSON_DeleteItemFromArray(list, keep);
        ++*left_out;
    }
    add_entry(list, fields, record);
}

void sl_report_add_allocation(struct sl_report *r, const struct sl_report_allocation *a)
{
    // What the job began with says most.
    add_newest(r->allocations, &sl_report_allocation_fields, a, 1, &r->sums.allocations_left_out);
}

void sl_report_add_scale(struct sl_report *r, const struct sl_report_scale *s)
{
    add_newest(r->scales, &sl_report_scale_fields, s, 0, &r->sums.scales_left_out);
}

void sl_report_add_restart(struct sl_report *r, const struct sl_report_restart *restart)
{
    add_newest(r->restarts, &sl_report_restart_fields, restart, 0, &r->sums.restarts_left_out);
    r->sums.resampled += restart->resampled;
    r->sums.retrained += restart->retrained;
}

void sl_report_add_process(struct sl_report *r, const struct sl_report_process *process)
{
    add_entry(r->processes, &sl_report_process_fields, process);
}

void sl_report_add_resume(struct sl_report *r, const struct sl_report_resume *resume)
{
    add_entry(r->resumes, &sl_report_resume_fields, resume);
}

// --- epochs --------------------------------------------------------------------------------------

// Owned; what is not defined is null in it. NULL where there was none.
static cJSON *evaluation_tree(const struct sl_evaluation *found)
{
    cJSON *e = found ? cJSON_CreateObject() : NULL;
    for (enum sl_measure m = 0; e && m < SL_MEASURE_COUNT; m++)
        if (found->applies[m])
            cJSON_AddNumberToObject(e, sl_measure_key(m), found->value[m]);
    return e;
}

static void add_to_sums(struct sl_report *r, const struct sl_report_epoch *e)
{
    r->sums.evicted += e->evicted;
    r->sums.switches += e->switches;
    r->sums.standby_batches += e->switching.batches;
    if (isfinite(e->switching.seconds_saved) && e->switching.batches > 0) {
        r->sums.has_saved = 1;
        r->sums.seconds_saved += e->switching.seconds_saved;
    }
    if (!e->cache.ranked) {
        r->sums.unranked++;
        r->sums.unranked_seconds += e->seconds;
        return;
    }
    r->sums.ranked++;
    r->sums.ranked_seconds += e->seconds;
    r->sums.hits += e->cache.hits;
    r->sums.misses += e->cache.misses;
    if (e->has_optimal && isfinite(e->cache.optimal_hit_rate)) {
        r->sums.has_optimal = 1;
        r->sums.optimal_hit_rate = e->cache.optimal_hit_rate;
    }
}

char *sl_report_add_epoch(struct sl_report *r, const struct sl_epoch *f,
                          const double worker_seconds[SL_ROLE_COUNT])
{
    struct sl_report_epoch e = f->entry;
    e.worker_seconds.samplers = worker_seconds[SL_ROLE_SAMPLER];
    e.worker_seconds.trainers = worker_seconds[SL_ROLE_TRAINER];
    e.cache.hit_rate = sl_epoch_hit_rate(f);
    e.val_accuracy = f->evaluated ? f->on_val.value[SL_MEASURE_ACCURACY] : NAN;
    cJSON *entry = add_entry(r->epochs, &sl_report_epoch_fields, &e);
    if (f->evaluated)
        cJSON_ReplaceItemInObjectCaseSensitive(entry, "val", evaluation_tree(&f->on_val));
    if (f->tested)
        cJSON_ReplaceItemInObjectCaseSensitive(entry, "test", evaluation_tree(&f->on_test));
    add_to_sums(r, &e);
    char *line = sl_json_line(entry);
    if (f->lent && cJSON_GetArraySize(r->epochs) > SL_CONFIG_EPOCHS_KEPT) { // it may go on for ever
        cJSON_DeleteItemFromArray(r->epochs, 0);
        r->epochs_left_out++;
    }
    return line;
}

// --- the whole -----------------------------------------------------------------------------------

static void add_workers(cJSON *device, const struct sl_report_outcome *o, uint32_t index)
{
    cJSON *workers = cJSON_AddArrayToObject(device, "workers");
    cJSON *roles = cJSON_AddArrayToObject(device, "roles");
    for (uint32_t i = 0; i < o->n_seats; i++) {
        if (o->seats[i].device != index)
            continue;
        cJSON_AddItemToArray(workers, cJSON_CreateString(o->seats[i].name));
        cJSON_AddItemToArray(roles, cJSON_CreateString(o->seats[i].role));
    }
}

static cJSON *device_list(const struct sl_config *config, const struct sl_report_outcome *o)
{
    cJSON *devices = cJSON_CreateArray();
    uint16_t list[SL_CONFIG_MAX_CORES];
    struct sl_cores set;
    char name[64];
    for (uint32_t i = 0; i < sl_placement_shown_devices(config); i++) {
        const struct sl_device_config *d = &config->devices[i];
        cJSON *e = cJSON_CreateObject();
        cJSON_AddNumberToObject(e, "index", i);
        cJSON_AddStringToObject(e, "kind", sl_device_kind_name(d->kind));
        cJSON_AddStringToObject(e, "name", sl_placement_device_name(config, i, name, sizeof name));
        if (d->kind == SL_DEVICE_CUDA)
            cJSON_AddNumberToObject(e, "gpu", d->index);
        cJSON *cores = cJSON_AddArrayToObject(e, "cores");
        sl_placement_device_cores(config, i, &set);
        const uint32_t n = sl_cores_list(&set, list, SL_CONFIG_MAX_CORES);
        for (uint32_t c = 0; c < n; c++)
            cJSON_AddItemToArray(cores, cJSON_CreateNumber(list[c]));
        if (d->memory_bytes)
            cJSON_AddNumberToObject(e, "memory", (double)d->memory_bytes);
        else
            cJSON_AddNullToObject(e, "memory");
        add_workers(e, o, i);
        cJSON_AddItemToArray(devices, e);
    }
    return devices;
}

// Fills the list and returns how long the slowest cache took to fill: they are filled side by side.
static double add_caches(cJSON *list, const struct sl_report_outcome *o)
{
    double slowest = 0;
    for (uint32_t i = 0; i < o->n_seats; i++) {
        const struct sl_report_seat *seat = &o->seats[i];
        if (!seat->has_cache)
            continue;
        double rows = (double)seat->cache_rows;
        const struct sl_report_cache cache = {
            .device = seat->device,
            .worker = seat->name,
            .role = seat->role,
            .ratio = o->n_nodes ? rows / (double)o->n_nodes : NAN,
            .rows = rows,
            .bytes = rows * o->totals.cache.row_bytes,
            .load_seconds = seat->load_seconds,
        };
        add_entry(list, &sl_report_cache_fields, &cache);
        slowest = SL_MAX(slowest, seat->load_seconds);
    }
    return slowest;
}

/*
 * What the cache cost before it was of use, in epochs with it: the epochs without it took longer,
 * and there was ranking, filling and sampling ahead. At most so much, since ranking and filling go
 * on beside training.
 */
static double cost_in_epochs(const struct sl_report *r, const struct sl_report_totals *t)
{
    if (!(r->sums.ranked > 0 && r->sums.ranked_seconds > 0))
        return NAN;
    double spent = r->sums.unranked_seconds + t->cache.presample_seconds + t->cache.rank_seconds +
                   t->cache.load_seconds;
    return spent / (r->sums.ranked_seconds / r->sums.ranked) - r->sums.unranked;
}

static void tell_caches(struct sl_report_totals *t, const struct sl_report *r,
                        const struct sl_config *config, const struct sl_report_outcome *o)
{
    double rows = r->sums.hits + r->sums.misses;
    t->cache.policy = sl_cache_words[config->cache.policy];
    t->cache.why = config->cache.why;
    t->caches = sl_cache_keeps(config->cache.policy);
    t->has_optimal = t->caches && r->sums.has_optimal;
    if (!t->caches)
        return;
    t->cache.presample_epochs = sl_ranking_counted_epochs(config);
    t->cache.trainers = cJSON_CreateArray();
    t->cache.load_seconds = add_caches(t->cache.trainers, o);
    t->cache.presample_cost_epochs = cost_in_epochs(r, t);
    t->cache.hit_rate = r->sums.ranked == 0 ? NAN : rows > 0 ? r->sums.hits / rows : 0;
    t->cache.optimal_hit_rate = r->sums.optimal_hit_rate;
}

// Who holds which rows at the end.
static void tell_rows(struct sl_report_totals *t, const struct sl_config *config,
                      const struct sl_shard_plan *plan)
{
    t->store.placement = sl_store_placement_words[plan->placement];
    t->store.placement_reason = plan->reason;
    t->store.parts = plan->lent.n_parts;
    t->store.plans = (double)plan->lent.generation;
    t->store.gpu_rows = (double)plan->cached;
    t->store.held = cJSON_CreateArray();
    for (uint32_t d = 0; d < config->n_devices; d++) {
        const double rows = (double)plan->elements[d];
        const struct sl_report_held held = {d, rows, rows * t->cache.row_bytes,
                                            __builtin_popcount(plan->lent.held[d])};
        if (config->devices[d].kind == SL_DEVICE_CUDA)
            add_entry(t->store.held, &sl_report_held_fields, &held);
    }
}

// ... and which edges.
static void tell_edges(struct sl_report_totals *t, const struct sl_config *config,
                       const struct sl_shard_plan *plan, double edge_bytes)
{
    t->store.graph_placement = sl_store_placement_words[plan->placement];
    t->store.graph_placement_reason = plan->reason;
    t->store.graph_parts = plan->lent.n_parts;
    t->store.graph_plans = (double)plan->lent.generation;
    t->store.gpu_edges = (double)plan->cached;
    t->store.graph_held = cJSON_CreateArray();
    for (uint32_t d = 0; d < config->n_devices; d++) {
        const double edges = (double)plan->elements[d];
        const struct sl_report_held_edges held = {d, edges, edges * edge_bytes,
                                                  __builtin_popcount(plan->lent.held[d])};
        if (edges > 0)
            add_entry(t->store.graph_held, &sl_report_held_edges_fields, &held);
    }
}

// Who holds what together, and what was read over which link.
static void tell_store(struct sl_report_totals *t, const struct sl_config *config,
                       const struct sl_report_outcome *o)
{
    struct sl_stats_link link;
    uint32_t at = 0;
    t->lends = o->plan[SL_PEER_MEMORY_FEATURES] != NULL;
    t->lends_graph = o->plan[SL_PEER_MEMORY_GRAPH] != NULL;
    if (t->lends)
        tell_rows(t, config, o->plan[SL_PEER_MEMORY_FEATURES]);
    if (!t->lends_graph)
        return;
    tell_edges(t, config, o->plan[SL_PEER_MEMORY_GRAPH], (double)o->edge_bytes);
    t->store.links = cJSON_CreateArray();
    while (sl_link_bytes_next(o->arena, &at, &link))
        add_entry(t->store.links, &sl_stats_link_fields, &link);
}

// Of a figure of the epochs; NaN before the first one.
static double sum_of(const struct sl_report *r, const char *figure)
{
    const cJSON *e;
    double sum = NAN;
    cJSON_ArrayForEach(e, r->epochs) sum = (isnan(sum) ? 0 : sum) + sl_json_number(e, figure);
    return sum;
}

// Optimal knows all epochs: each of the ranked ones gets what was found after the last of them.
static void settle_optimal(struct sl_report *r)
{
    cJSON *epoch;
    cJSON_ArrayForEach(epoch, r->epochs)
    {
        cJSON *cache = cJSON_GetObjectItemCaseSensitive(epoch, "cache");
        if (r->sums.has_optimal && cJSON_HasObjectItem(cache, "optimal_hit_rate"))
            cJSON_ReplaceItemInObjectCaseSensitive(cache, "optimal_hit_rate",
                                                   cJSON_CreateNumber(r->sums.optimal_hit_rate));
    }
}

// `why` is room for a reason.
static void tell_best(struct sl_report_totals *t, const struct sl_report *r,
                      const struct sl_report_outcome *o, char *why, size_t bytes)
{
    const cJSON *e;
    t->best_epoch = t->best_val_accuracy = t->best_metric.value = t->best_metric.epoch = NAN;
    if (!o->best || !o->best->has)
        return;
    t->best_epoch = t->best_metric.epoch = o->best->epoch;
    t->best_metric.name = sl_measure_key(o->judged->measure);
    t->best_metric.why = *sl_measure_reason(o->judged, why, bytes) ? why : NULL;
    t->best_metric.value = o->best->value;
    cJSON_ArrayForEach(e, r->epochs)
    {
        if (sl_json_number(e, "epoch") == t->best_epoch)
            t->best_val_accuracy = sl_json_number(e, "val_accuracy");
    }
}

double sl_report_seconds_before(const cJSON *resumes)
{
    // The newest is of all runs before it, as far as they were kept.
    const cJSON *last = cJSON_GetArrayItem(resumes, cJSON_GetArraySize(resumes) - 1);
    const cJSON *seconds = cJSON_GetObjectItemCaseSensitive(last, "seconds_before");
    return cJSON_IsNumber(seconds) ? seconds->valuedouble : 0;
}

char *sl_report_finish(struct sl_report *r, const struct sl_config *config,
                       const struct sl_report_outcome *o)
{
    struct sl_report_totals t = o->totals;
    char why[96];
    bool knows_saved = r->sums.has_saved || r->sums.standby_batches == 0;
    settle_optimal(r);
    t.schema = "sluice.report/1";
    t.job = config->name;
    t.lent = sl_config_is_external(config);
    t.config = cJSON_Parse(o->config_json);
    t.isa = sl_isa_name(sl_isa()); // workers inherit the limit
    if (!t.lent) {
        t.precision.asked = sl_precision_words[config->precision];
        t.precision.used = sl_precision_words[sl_config_precision(config)];
    }
    t.devices = device_list(config, o);
    t.epochs = r->epochs;
    t.allocations = r->allocations;
    t.allocations_left_out = r->sums.allocations_left_out;
    t.epochs_left_out = r->epochs_left_out;
    t.scales = r->scales;
    t.scales_left_out = r->sums.scales_left_out;
    t.restarts = r->restarts;
    t.restarts_left_out = r->sums.restarts_left_out;
    t.resumes = r->resumes;
    t.processes = r->processes;
    tell_caches(&t, r, config, o);
    tell_store(&t, config, o);
    t.switching.switches = r->sums.switches;
    t.switching.batches = r->sums.standby_batches;
    t.switching.seconds_saved = knows_saved ? r->sums.seconds_saved : NAN;
    t.order.input_nodes = sum_of(r, "input_nodes") / sum_of(r, "batches");
    t.store.hit_rate = sum_of(r, "store.cached") / sum_of(r, "input_nodes");
    t.batches.resampled = r->sums.resampled;
    t.batches.retrained = r->sums.retrained;
    t.batches.evicted = r->sums.evicted;
    t.test_accuracy = o->test ? o->test->value[SL_MEASURE_ACCURACY] : NAN;
    t.test = evaluation_tree(o->test);
    tell_best(&t, r, o, why, sizeof why);
    t.stopped_early.epoch = t.stopped_early.reason ? t.stopped_early.epoch : NAN;
    t.total_seconds = sl_report_seconds_before(r->resumes) + t.wall_seconds;
    cJSON *report = cJSON_CreateObject();
    sl_fields_write(&sl_report_fields, &t, report);
    char *text = sl_json_pages(report);
    cJSON *made[] = {report,       t.config,      t.devices,          t.cache.trainers,
                     t.store.held, t.store.links, t.store.graph_held, t.test};
    for (size_t i = 0; i < SL_COUNT_OF(made); i++)
        cJSON_Delete(made[i]);
    return text;
}

// A device or a pipe is written to, not replaced.
static int write_special(const char *path, const char *text)
{
    FILE *f = fopen(path, "we");
    if (!f)
        return sl_fail_errno(SL_EIO, errno, "writing the report to '%s'", path);
    bool written = fprintf(f, "%s\n", text) >= 0;
    if (fclose(f) != 0 || !written)
        return sl_fail_errno(SL_EIO, errno, "writing the report to '%s'", path);
    return SL_OK;
}

static int write_file(const char *path, const char *text)
{
    struct sl_atomic_file file;
    size_t n = strlen(text);
    SL_TRY(sl_atomic_file_open(path, &file));
    int rc = sl_atomic_file_append(&file, text, n / 2);
    SL_FAILPOINT(BROKER_REPORT);
    if (rc == SL_OK)
        rc = sl_atomic_file_append(&file, text + n / 2, n - n / 2);
    if (rc == SL_OK)
        rc = sl_atomic_file_append(&file, "\n", 1);
    if (rc == SL_OK)
        return sl_atomic_file_commit(&file);
    sl_atomic_file_abort(&file);
    return rc;
}

int sl_report_write(const char *path, const char *text)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return write_file(path, text);
    if (!S_ISREG(st.st_mode))
        return write_special(path, text);
    // Behind a symbolic link the file it points to is the one to replace.
    char *real = realpath(path, NULL);
    int rc = write_file(real ? real : path, text);
    free(real);
    return rc;
}
