#include "broker/report.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "broker/ranking.h"
#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/isa.h"
#include "common/base/failpoint.h"
#include "common/data/atomic_file.h"

int sl_report_init(struct sl_report *r)
{
    memset(r, 0, sizeof *r);
    cJSON **lists[] = {&r->epochs,   &r->allocations, &r->scales,
                       &r->restarts, &r->processes,   &r->resumes};
    for (size_t i = 0; i < SL_COUNT_OF(lists); i++) {
        *lists[i] = cJSON_CreateArray();
        if (*lists[i])
            continue;
        sl_report_fini(r);
        return sl_fail(SL_ENOMEM, "no memory for the report");
    }
    return SL_OK;
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

static void add_number(cJSON *to, const char *key, double value)
{
    cJSON_AddNumberToObject(to, key, value); // NaN and infinity become null
}

// A time or ratio of which 0 means that it is not known.
static void add_known(cJSON *to, const char *key, double value)
{
    add_number(to, key, value > 0 ? value : NAN);
}

static double ratio_of(uint64_t part, uint64_t rest)
{
    return part + rest ? (double)part / (double)(part + rest) : 0;
}

static void add_stage(cJSON *stages, const char *name, const struct sl_stage_figures *stage)
{
    cJSON *s = cJSON_AddObjectToObject(stages, name);
    add_number(s, "seconds", stage->seconds);
    add_number(s, "count", (double)stage->count);
    add_number(s, "p50", stage->p50);
    add_number(s, "p99", stage->p99);
}

static void add_cache(cJSON *epoch, const struct sl_epoch_figures *f)
{
    cJSON *cache = cJSON_AddObjectToObject(epoch, "cache");
    cJSON_AddBoolToObject(cache, "ranked", f->ranked);
    add_number(cache, "rows", (double)f->cache_rows);
    add_number(cache, "hits", (double)f->hits);
    add_number(cache, "misses", (double)f->misses);
    add_number(cache, "hit_rate", sl_figures_hit_rate(f));
    if (f->has_optimal)
        add_number(cache, "optimal_hit_rate", f->optimal_hit_rate);
    add_number(cache, "hit_bytes", (double)f->hit_bytes);
    add_number(cache, "miss_bytes", (double)f->miss_bytes);
}

static void add_scheduling(cJSON *epoch, const struct sl_epoch_figures *f)
{
    add_number(epoch, "samplers", f->samplers);
    add_number(epoch, "trainers", f->trainers);
    cJSON *profile = cJSON_AddObjectToObject(epoch, "profile");
    add_known(profile, "t_sample", f->t_sample);
    add_known(profile, "t_train", f->t_train);
    add_known(profile, "t_standby", f->t_standby);
    add_number(epoch, "switches", (double)f->switches);
    cJSON *switching = cJSON_AddObjectToObject(epoch, "switching");
    add_number(switching, "batches", (double)f->standby_batches);
    add_number(switching, "seconds_saved", f->seconds_saved);
    if (!f->async)
        return;
    cJSON *updates = cJSON_AddObjectToObject(epoch, "updates");
    add_number(updates, "staleness_mean", f->staleness_mean);
    add_number(updates, "staleness_max", (double)f->staleness_max);
}

// null where there was none; in it, null what is not defined.
static void add_evaluation(cJSON *to, const char *key, const struct sl_evaluation *found)
{
    if (!found) {
        cJSON_AddNullToObject(to, key);
        return;
    }
    cJSON *e = cJSON_AddObjectToObject(to, key);
    for (enum sl_measure m = 0; m < SL_MEASURE_COUNT; m++)
        if (found->applies[m])
            add_number(e, sl_measure_key(m), found->value[m]);
}

static cJSON *epoch_to_json(const struct sl_epoch_figures *f)
{
    cJSON *e = cJSON_CreateObject();
    add_number(e, "epoch", f->epoch);
    add_number(e, "seconds", f->seconds);
    add_number(e, "evaluate_seconds", f->evaluate_seconds);
    add_number(e, "overlapped_seconds", f->overlapped_seconds);
    add_number(e, "paused_seconds", f->paused_seconds);
    add_number(e, "loss", f->loss);
    add_number(e, "train_accuracy", f->train_accuracy);
    add_number(e, "val_accuracy", f->evaluated ? f->val.value[SL_MEASURE_ACCURACY] : NAN);
    add_evaluation(e, "val", f->evaluated ? &f->val : NULL);
    add_evaluation(e, "test", f->tested ? &f->test : NULL);
    add_number(e, "batches", (double)f->batches);
    add_number(e, "sampled_edges", (double)f->sampled_edges);
    add_number(e, "input_nodes", (double)f->input_nodes);
    cJSON *bytes = cJSON_AddObjectToObject(e, "bytes");
    add_number(bytes, "blocks", (double)f->block_bytes);
    add_number(bytes, "features", (double)f->feature_bytes);
    cJSON *queue = cJSON_AddObjectToObject(e, "queue");
    add_number(queue, "depth_mean", f->queue_mean);
    add_number(queue, "depth_max", (double)f->queue_max);
    cJSON *stages = cJSON_AddObjectToObject(e, "stages");
    add_stage(stages, "sample", &f->sample);
    add_stage(stages, "mark", &f->mark);
    add_stage(stages, "copy", &f->copy);
    add_stage(stages, "extract", &f->extract);
    add_stage(stages, "train", &f->train);
    add_stage(stages, "wait", &f->wait);
    add_stage(stages, "backpressure", &f->backpressure);
    add_stage(stages, "evaluate", &f->evaluate);
    add_cache(e, f);
    add_scheduling(e, f);
    add_number(e, "resampled", (double)f->resampled);
    add_number(e, "retrained", (double)f->retrained);
    add_number(e, "evicted", (double)f->evicted);
    cJSON_AddStringToObject(e, "bottleneck", f->bottleneck);
    return e;
}

static void add_to_sums(struct sl_report *r, const struct sl_epoch_figures *f)
{
    r->evicted += f->evicted;
    r->switches += f->switches;
    r->standby_batches += f->standby_batches;
    if (isfinite(f->seconds_saved) && f->standby_batches > 0) {
        r->has_saved = true;
        r->seconds_saved += f->seconds_saved;
    }
    if (!f->ranked) {
        r->unranked++;
        r->unranked_seconds += f->seconds;
        return;
    }
    r->ranked++;
    r->ranked_seconds += f->seconds;
    r->hits += f->hits;
    r->misses += f->misses;
    if (f->has_optimal && isfinite(f->optimal_hit_rate)) {
        r->has_optimal = true;
        r->optimal_hit_rate = f->optimal_hit_rate;
    }
}

char *sl_report_add_epoch(struct sl_report *r, const struct sl_epoch_figures *f)
{
    cJSON *e = epoch_to_json(f);
    char *text = cJSON_PrintUnformatted(e);
    cJSON_AddItemToArray(r->epochs, e);
    add_to_sums(r, f);
    return text;
}

// What may come without end: the oldest entry goes for a new one, and is counted. The first `keep`
// stay.
static void add_newest(cJSON *list, cJSON *e, int keep, uint64_t *left_out)
{
    if (cJSON_GetArraySize(list) >= SL_REPORT_NEWEST) {
        cJSON_DeleteItemFromArray(list, keep);
        ++*left_out;
    }
    cJSON_AddItemToArray(list, e);
}

void sl_report_add_allocation(struct sl_report *r, const struct sl_report_allocation *a)
{
    cJSON *e = cJSON_CreateObject();
    add_number(e, "epoch", a->epoch);
    add_number(e, "samplers", a->samplers);
    add_number(e, "trainers", a->trainers);
    add_known(e, "t_sample", a->t_sample);
    add_known(e, "t_train", a->t_train);
    add_known(e, "t_standby", a->t_standby);
    add_known(e, "k", a->k);
    add_known(e, "formula_samplers", a->formula_samplers);
    cJSON_AddBoolToObject(e, "moved", a->moved);
    add_number(e, "gain_seconds", a->gain_seconds);
    add_number(e, "cost_seconds", a->cost_seconds);
    cJSON_AddStringToObject(e, "reason", a->reason);
    // What the job began with says most.
    add_newest(r->allocations, e, 1, &r->allocations_left_out);
}

static void add_split(cJSON *to, const char *key, uint32_t samplers, uint32_t trainers)
{
    cJSON *split = cJSON_AddObjectToObject(to, key);
    add_number(split, "samplers", samplers);
    add_number(split, "trainers", trainers);
}

void sl_report_add_scale(struct sl_report *r, const struct sl_report_scale *s)
{
    cJSON *e = cJSON_CreateObject();
    add_number(e, "seconds", s->seconds);
    add_number(e, "epoch", s->epoch);
    cJSON_AddStringToObject(e, "by", s->by);
    add_split(e, "from", s->from_samplers, s->from_trainers);
    add_split(e, "to", s->to_samplers, s->to_trainers);
    add_number(e, "took_seconds", s->took_seconds);
    cJSON_AddBoolToObject(e, "ok", s->ok);
    cJSON_AddStringToObject(e, "message", s->message);
    add_newest(r->scales, e, 0, &r->scales_left_out);
}

void sl_report_add_restart(struct sl_report *r, const struct sl_report_restart *restart)
{
    cJSON *e = cJSON_CreateObject();
    cJSON_AddStringToObject(e, "worker", restart->name);
    add_number(e, "pid", (double)restart->pid);
    add_number(e, "seconds", restart->seconds);
    cJSON_AddStringToObject(e, "cause", restart->cause);
    if (restart->held)
        cJSON_AddStringToObject(e, "held", restart->held);
    else
        cJSON_AddNullToObject(e, "held");
    add_number(e, "resampled", restart->resampled);
    add_number(e, "retrained", restart->retrained);
    add_newest(r->restarts, e, 0, &r->restarts_left_out);
    r->resampled += restart->resampled;
    r->retrained += restart->retrained;
}

void sl_report_add_process(struct sl_report *r, const char *name, int64_t pid, uint64_t peak_bytes,
                           uint32_t starts)
{
    cJSON *e = cJSON_CreateObject();
    cJSON_AddStringToObject(e, "name", name);
    add_number(e, "pid", (double)pid);
    add_number(e, "peak_rss", (double)peak_bytes);
    add_number(e, "starts", starts);
    cJSON_AddItemToArray(r->processes, e);
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

static bool has_workers(const struct sl_report_outcome *o, uint32_t device)
{
    for (uint32_t i = 0; i < o->n_seats; i++)
        if (o->seats[i].device == device)
            return true;
    return false;
}

static void add_devices(cJSON *report, const struct sl_config *config,
                        const struct sl_report_outcome *o)
{
    cJSON_AddStringToObject(report, "isa", sl_isa_name(sl_isa())); // workers inherit the limit
    cJSON *devices = cJSON_AddArrayToObject(report, "devices");
    for (uint32_t i = 0; i < config->n_devices; i++) {
        const struct sl_device_config *d = &config->devices[i];
        if (config->allocation.cores == SL_CORES_POOL && !has_workers(o, i))
            continue; // a place that nobody had
        cJSON *e = cJSON_CreateObject();
        add_number(e, "index", i);
        cJSON_AddStringToObject(e, "kind", sl_device_kind_name(d->kind));
        if (d->kind == SL_DEVICE_CUDA)
            add_number(e, "gpu", d->index);
        cJSON *cores = cJSON_AddArrayToObject(e, "cores");
        for (uint32_t c = 0; c < d->n_cores; c++)
            cJSON_AddItemToArray(cores, cJSON_CreateNumber(d->cores[c]));
        if (d->memory_bytes)
            add_number(e, "memory", (double)d->memory_bytes);
        else
            cJSON_AddNullToObject(e, "memory");
        add_workers(e, o, i);
        cJSON_AddItemToArray(devices, e);
    }
}

// Fills the list and returns how long the slowest cache took to fill: they are filled side by side.
static double add_caches(cJSON *list, const struct sl_report_outcome *o)
{
    double slowest = 0;
    for (uint32_t i = 0; i < o->n_seats; i++) {
        const struct sl_report_seat *seat = &o->seats[i];
        if (!seat->has_cache)
            continue;
        cJSON *e = cJSON_CreateObject();
        add_number(e, "device", seat->device);
        cJSON_AddStringToObject(e, "worker", seat->name);
        cJSON_AddStringToObject(e, "role", seat->role);
        add_number(e, "ratio",
                   o->cache.n_nodes ? (double)seat->cache_rows / (double)o->cache.n_nodes : NAN);
        add_number(e, "rows", (double)seat->cache_rows);
        add_number(e, "bytes", (double)(seat->cache_rows * o->cache.row_bytes));
        add_number(e, "load_seconds", seat->load_seconds);
        cJSON_AddItemToArray(list, e);
        slowest = SL_MAX(slowest, seat->load_seconds);
    }
    return slowest;
}

/*
 * What the cache cost before it was of use, in epochs with it: the epochs without it took longer,
 * and there was ranking, filling and sampling ahead. At most so much, since ranking and filling go
 * on beside training.
 */
static double cost_in_epochs(const struct sl_report *r, const struct sl_report_cache *cache,
                             double load_seconds)
{
    if (r->ranked == 0 || !(r->ranked_seconds > 0))
        return NAN;
    double spent =
        r->unranked_seconds + cache->presample_seconds + cache->rank_seconds + load_seconds;
    return spent / (r->ranked_seconds / r->ranked) - r->unranked;
}

static void add_cache_summary(cJSON *report, const struct sl_report *r,
                              const struct sl_config *config, const struct sl_report_outcome *o)
{
    cJSON *cache = cJSON_AddObjectToObject(report, "cache");
    cJSON_AddStringToObject(cache, "policy", sl_cache_words[config->cache.policy]);
    if (!sl_cache_keeps(config->cache.policy))
        return;
    add_number(cache, "presample_epochs", sl_ranking_counted_epochs(config));
    add_number(cache, "row_bytes", (double)o->cache.row_bytes);
    double load_seconds = add_caches(cJSON_AddArrayToObject(cache, "trainers"), o);
    add_number(cache, "presample_seconds", o->cache.presample_seconds);
    add_number(cache, "rank_seconds", o->cache.rank_seconds);
    add_number(cache, "load_seconds", load_seconds);
    add_number(cache, "presample_cost_epochs", cost_in_epochs(r, &o->cache, load_seconds));
    add_number(cache, "hit_rate", r->ranked ? ratio_of(r->hits, r->misses) : NAN);
    if (r->has_optimal)
        add_number(cache, "optimal_hit_rate", r->optimal_hit_rate);
}

// Optimal knows all epochs: each of the ranked ones gets what was found after the last of them.
static void settle_optimal(struct sl_report *r)
{
    cJSON *epoch;
    cJSON_ArrayForEach(epoch, r->epochs)
    {
        cJSON *cache = cJSON_GetObjectItemCaseSensitive(epoch, "cache");
        if (r->has_optimal && cJSON_HasObjectItem(cache, "optimal_hit_rate"))
            cJSON_ReplaceItemInObjectCaseSensitive(cache, "optimal_hit_rate",
                                                   cJSON_CreateNumber(r->optimal_hit_rate));
    }
}

static void add_switching(cJSON *report, const struct sl_report *r)
{
    cJSON *switching = cJSON_AddObjectToObject(report, "switching");
    add_number(switching, "switches", (double)r->switches);
    add_number(switching, "batches", (double)r->standby_batches);
    bool known = r->has_saved || r->standby_batches == 0;
    add_number(switching, "seconds_saved", known ? r->seconds_saved : NAN);
}

// Hands a list over to the report.
static void give(cJSON *report, const char *key, cJSON **list)
{
    cJSON_AddItemToObject(report, key, *list);
    *list = NULL;
}

// A number that an epoch's entry has; NaN where there is none.
static double number_of_epoch(const cJSON *report, uint32_t epoch, const char *key)
{
    const cJSON *e;
    cJSON_ArrayForEach(e, cJSON_GetObjectItemCaseSensitive(report, "epochs"))
    {
        const cJSON *which = cJSON_GetObjectItemCaseSensitive(e, "epoch");
        const cJSON *item = cJSON_GetObjectItemCaseSensitive(e, key);
        if (cJSON_IsNumber(which) && which->valuedouble == epoch)
            return cJSON_IsNumber(item) ? item->valuedouble : NAN;
    }
    return NAN;
}

static void add_best(cJSON *report, const struct sl_report_outcome *o)
{
    if (!o->best || !o->best->has) {
        cJSON_AddNullToObject(report, "best_epoch");
        cJSON_AddNullToObject(report, "best_val_accuracy");
        cJSON_AddNullToObject(report, "best_metric");
        return;
    }
    add_number(report, "best_epoch", o->best->epoch);
    add_number(report, "best_val_accuracy",
               number_of_epoch(report, o->best->epoch, "val_accuracy"));
    cJSON *metric = cJSON_AddObjectToObject(report, "best_metric");
    cJSON_AddStringToObject(metric, "name", sl_measure_key(o->measure));
    add_number(metric, "value", o->best->value);
    add_number(metric, "epoch", o->best->epoch);
}

static void add_early_stop(cJSON *report, const struct sl_report_outcome *o)
{
    if (!o->stop_reason) {
        cJSON_AddNullToObject(report, "stopped_early");
        return;
    }
    cJSON *stop = cJSON_AddObjectToObject(report, "stopped_early");
    add_number(stop, "epoch", o->trained_epochs - 1);
    cJSON_AddStringToObject(stop, "reason", o->stop_reason);
}

static void add_results(cJSON *report, const struct sl_report_outcome *o)
{
    add_number(report, "test_accuracy", o->test ? o->test->value[SL_MEASURE_ACCURACY] : NAN);
    add_evaluation(report, "test", o->test);
    add_best(report, o);
    add_early_stop(report, o);
    add_number(report, "test_seconds", o->test_seconds);
    if (o->params_sha256)
        cJSON_AddStringToObject(report, "params_sha256", o->params_sha256);
    else
        cJSON_AddNullToObject(report, "params_sha256");
    if (o->samples_digest)
        cJSON_AddStringToObject(report, "samples_digest", o->samples_digest);
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
    cJSON *report = cJSON_CreateObject();
    cJSON_AddStringToObject(report, "schema", "sluice.report/1");
    cJSON_AddStringToObject(report, "job", config->name);
    cJSON_AddStringToObject(report, "status", o->status);
    if (o->message)
        cJSON_AddStringToObject(report, "message", o->message);
    cJSON_AddItemToObject(report, "config", cJSON_Parse(o->config_json));
    add_devices(report, config, o);
    give(report, "allocations", &r->allocations);
    give(report, "scales", &r->scales);
    add_number(report, "allocations_left_out", (double)r->allocations_left_out);
    add_number(report, "scales_left_out", (double)r->scales_left_out);
    settle_optimal(r);
    give(report, "epochs", &r->epochs);
    add_cache_summary(report, r, config, o);
    add_switching(report, r);
    cJSON *batches = cJSON_AddObjectToObject(report, "batches");
    add_number(batches, "scheduled", (double)o->scheduled);
    add_number(batches, "trained", (double)o->trained);
    add_number(batches, "resampled", (double)r->resampled);
    add_number(batches, "retrained", (double)r->retrained);
    add_number(batches, "evicted", (double)r->evicted);
    give(report, "restarts", &r->restarts);
    add_number(report, "restarts_left_out", (double)r->restarts_left_out);
    give(report, "resumes", &r->resumes);
    add_results(report, o);
    add_number(report, "start_seconds", o->start_seconds);
    add_number(report, "first_update_seconds", o->first_update_seconds);
    add_number(report, "wall_seconds", o->wall_seconds);
    add_number(report, "total_seconds",
               sl_report_seconds_before(cJSON_GetObjectItemCaseSensitive(report, "resumes")) +
                   o->wall_seconds);
    add_number(report, "paused_seconds", o->paused_seconds);
    add_number(report, "peak_memory", (double)o->peak_memory);
    give(report, "processes", &r->processes);
    cJSON *arena = cJSON_AddObjectToObject(report, "arena");
    add_number(arena, "bytes", (double)o->arena_bytes);
    add_number(arena, "file_bytes", (double)o->acts_bytes);
    add_number(arena, "payload_bytes", (double)o->payload_bytes);
    add_number(arena, "block_bytes_max", (double)o->block_bytes_max);
    char *text = cJSON_Print(report);
    cJSON_Delete(report);
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
