#include "broker/top/stats.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/text/json.h"

const char *const sl_top_stage_names[SL_TOP_STAGES] = {
    "sample", "mark", "copy", "extract", "train", "evaluate", "wait", "backpressure",
};
const char *const sl_top_hist_names[SL_TOP_HISTS] = {"sample", "extract", "train", "wait"};

// --- values --------------------------------------------------------------------------------------

// Copies at most n - 1 bytes, whole characters only.
static void copy_text(char *out, size_t n, const char *text)
{
    size_t length = strnlen(text, n);
    if (length == n)
        for (length = n - 1; length > 0 && ((uint8_t)text[length] & 0xc0) == 0x80;)
            length--;
    memcpy(out, text, length);
    out[length] = 0;
}

static void text(const cJSON *object, const char *key, char *out, size_t n)
{
    const cJSON *v = sl_json_at(object, key);
    copy_text(out, n, cJSON_IsString(v) ? v->valuestring : "");
}

#define TEXT(object, key, field) text(object, key, field, sizeof(field))

// Strings of an array, joined.
static void joined(const cJSON *array, const char *separator, char *out, size_t n)
{
    const cJSON *item;
    size_t used = 0;
    out[0] = 0;
    cJSON_ArrayForEach(item, array)
    {
        if (!cJSON_IsString(item) || used + 1 >= n)
            continue;
        if (used > 0) {
            copy_text(out + used, n - used, separator);
            used += strlen(out + used);
        }
        copy_text(out + used, n - used, item->valuestring);
        used += strlen(out + used);
    }
}

// A parsed object of that schema; the caller deletes it.
static int open_line(const char *json, const char *schema, cJSON **out)
{
    cJSON *root = cJSON_Parse(json);
    const cJSON *found = sl_json_at(root, "schema");
    if (cJSON_IsString(found) && strcmp(found->valuestring, schema) == 0) {
        *out = root;
        return SL_OK;
    }
    int rc = sl_fail(SL_EFORMAT, "found a line of schema '%s', wanted %s",
                     cJSON_IsString(found) ? found->valuestring : "none", schema);
    cJSON_Delete(root);
    return rc;
}

// --- statistics ----------------------------------------------------------------------------------

static void take_device(const cJSON *from, struct sl_top_device *d)
{
    d->index = sl_json_number(from, "index");
    TEXT(from, "kind", d->kind);
    TEXT(from, "name", d->name);
    TEXT(from, "cores", d->cores);
    joined(sl_json_at(from, "roles"), " + ", d->roles, sizeof d->roles);
    d->memory_used = sl_json_number(from, "memory_used");
    d->memory_budget = sl_json_number(from, "memory_budget");
    d->cpu_load = sl_json_number(from, "cpu_load");
    d->gpu_load = sl_json_number(from, "gpu_load");
}

static void take_worker(const cJSON *from, struct sl_top_worker *w)
{
    TEXT(from, "name", w->name);
    TEXT(from, "role", w->role);
    TEXT(from, "state", w->state);
    TEXT(from, "batch", w->batch);
    // Epochs count from 0 in the line and from 1 in a view, which has the epoch in its header.
    char *epoch = strstr(w->batch, " of epoch ");
    if (epoch)
        *epoch = 0;
    w->device = sl_json_number(from, "device");
    w->pid = sl_json_number(from, "pid");
    w->busy = sl_json_number(from, "busy");
    w->wait = sl_json_number(from, "wait");
    w->batches = sl_json_number(from, "batches");
    w->batches_per_second = sl_json_number(from, "batches_per_second");
    w->edges_per_second = sl_json_number(from, "edges_per_second");
    w->bytes_per_second = sl_json_number(from, "bytes_per_second");
    w->restarts = sl_json_number(from, "restarts");
    w->memory = sl_json_number(from, "memory");
}

// Samplers, trainers, standby trainers; by number within each.
static int compare_workers(const void *a, const void *b)
{
    const struct sl_top_worker *x = a, *y = b;
    int of_x = strcmp(x->role, "trainer") == 0 ? 1 : 2 * (strcmp(x->role, "sampler") != 0);
    int of_y = strcmp(y->role, "trainer") == 0 ? 1 : 2 * (strcmp(y->role, "sampler") != 0);
    return of_x != of_y ? of_x - of_y : strverscmp(x->name, y->name);
}

static int take_lists(const cJSON *from, struct sl_top_stats *s)
{
    const cJSON *devices = sl_json_at(from, "devices"), *workers = sl_json_at(from, "workers"),
                *item;
    size_t n_devices = SL_MIN((size_t)cJSON_GetArraySize(devices), (size_t)SL_TOP_DEVICES_MAX);
    size_t n_workers = SL_MIN((size_t)cJSON_GetArraySize(workers), (size_t)SL_TOP_WORKERS_MAX);
    s->devices = calloc(n_devices + 1, sizeof *s->devices);
    s->workers = calloc(n_workers + 1, sizeof *s->workers);
    if (!s->devices || !s->workers)
        return sl_fail(SL_ENOMEM, "no memory for %zu workers in a view", n_workers);
    cJSON_ArrayForEach(item, devices)
    {
        if (s->n_devices < n_devices)
            take_device(item, &s->devices[s->n_devices++]);
    }
    cJSON_ArrayForEach(item, workers)
    {
        if (s->n_workers < n_workers)
            take_worker(item, &s->workers[s->n_workers++]);
    }
    qsort(s->workers, s->n_workers, sizeof *s->workers, compare_workers);
    return SL_OK;
}

static size_t take_numbers(const cJSON *array, double *out, size_t n_max)
{
    const cJSON *item;
    size_t n = 0;
    cJSON_ArrayForEach(item, array)
    {
        if (n < n_max)
            out[n++] = cJSON_IsNumber(item) ? item->valuedouble : NAN;
    }
    return n;
}

static void take_histograms(const cJSON *from, struct sl_top_stats *s)
{
    for (int h = 0; h < SL_TOP_HISTS; h++) {
        const cJSON *one = sl_json_at(from, sl_top_hist_names[h]);
        size_t n = take_numbers(sl_json_at(one, "counts"), s->counts[h], SL_TOP_BUCKETS_MAX);
        s->n_buckets = SL_MAX(s->n_buckets, n);
    }
    size_t edges = take_numbers(sl_json_at(from, "le"), s->le, SL_TOP_BUCKETS_MAX);
    for (size_t i = edges; i < SL_TOP_BUCKETS_MAX; i++)
        s->le[i] = INFINITY;
}

static void take_stages(const cJSON *from, struct sl_top_stats *s)
{
    for (int i = 0; i < SL_TOP_STAGES; i++) {
        const cJSON *stage = sl_json_at(from, sl_top_stage_names[i]);
        s->stages[i] = (struct sl_top_stage_time){
            .busy = sl_json_number(stage, "busy"),
            .count = sl_json_number(stage, "count"),
            .seconds = sl_json_number(stage, "seconds"),
            .per_second = sl_json_number(stage, "per_second"),
            .p50 = sl_json_number(stage, "p50"),
            .p99 = sl_json_number(stage, "p99"),
        };
    }
}

static void take_progress(const cJSON *from, struct sl_top_stats *s)
{
    const cJSON *metric = sl_json_at(from, "metric"), *best = sl_json_at(from, "best");
    s->time = sl_json_number(from, "time");
    TEXT(from, "job", s->job);
    TEXT(from, "id", s->id);
    TEXT(from, "state", s->state);
    TEXT(from, "phase", s->phase);
    s->epoch = sl_json_number(from, "epoch");
    s->epochs = sl_json_number(from, "epochs");
    s->done = sl_json_number(from, "done");
    s->total = sl_json_number(from, "total");
    s->seconds = sl_json_number(from, "seconds");
    s->epoch_seconds = sl_json_number(from, "epoch_seconds");
    s->seconds_left = sl_json_number(from, "seconds_left");
    s->loss = sl_json_number(from, "loss");
    TEXT(metric, "name", s->metric_name);
    s->metric = sl_json_number(metric, "value");
    s->metric_epoch = sl_json_number(metric, "epoch");
    s->best = sl_json_number(best, "value");
    s->best_epoch = sl_json_number(best, "epoch");
    s->samplers = sl_json_number(from, "samplers");
    s->trainers = sl_json_number(from, "trainers");
    s->standby_there = sl_json_number(sl_json_at(from, "standby"), "there");
    s->standby_awake = sl_json_number(sl_json_at(from, "standby"), "awake");
    TEXT(from, "bottleneck", s->bottleneck);
    TEXT(from, "bottleneck_role", s->bottleneck_role);
}

static void take_flow(const cJSON *from, struct sl_top_stats *s)
{
    const cJSON *rates = sl_json_at(from, "rates"), *bytes = sl_json_at(from, "bytes"),
                *queue = sl_json_at(from, "queue");
    const cJSON *cache = sl_json_at(from, "cache"), *updates = sl_json_at(from, "updates");
    const cJSON *advice = sl_json_at(from, "advice"), *profile = sl_json_at(from, "profile");
    s->batches_per_second = sl_json_number(rates, "batches");
    s->edges_per_second = sl_json_number(rates, "edges");
    s->nodes_per_second = sl_json_number(rates, "input_nodes");
    s->updates_per_second = sl_json_number(rates, "updates");
    s->block_bytes = sl_json_number(bytes, "blocks");
    s->cache_bytes = sl_json_number(bytes, "features_cache");
    s->store_bytes = sl_json_number(bytes, "features_store");
    s->queue_batches = sl_json_number(queue, "batches");
    s->queue_bytes = sl_json_number(queue, "bytes");
    s->queue_capacity = sl_json_number(queue, "capacity_bytes");
    s->queue_used = sl_json_number(queue, "used_bytes");
    s->sampling = sl_json_number(queue, "sampling");
    s->training = sl_json_number(queue, "training");
    TEXT(cache, "policy", s->cache_policy);
    s->hit_rate = sl_json_number(cache, "hit_rate");
    s->hit_rate_total = sl_json_number(cache, "hit_rate_total");
    TEXT(updates, "mode", s->mode);
    s->version = sl_json_number(updates, "version");
    s->staleness_mean = sl_json_number(updates, "staleness_mean");
    s->staleness_max = sl_json_number(updates, "staleness_max");
    s->t_sample = sl_json_number(profile, "t_sample");
    s->t_train = sl_json_number(profile, "t_train");
    s->t_standby = sl_json_number(profile, "t_standby");
    s->advice_samplers = sl_json_number(advice, "samplers");
    s->advice_trainers = sl_json_number(advice, "trainers");
    s->advice_now = sl_json_number(advice, "epoch_seconds_now");
    s->advice_then = sl_json_number(advice, "epoch_seconds_then");
}

static void take_totals(const cJSON *from, struct sl_top_stats *s)
{
    const cJSON *totals = sl_json_at(from, "totals"), *memory = sl_json_at(from, "memory");
    s->batches = sl_json_number(totals, "batches");
    s->edges = sl_json_number(totals, "edges");
    s->input_nodes = sl_json_number(totals, "input_nodes");
    s->switches = sl_json_number(totals, "switches");
    s->resampled = sl_json_number(totals, "resampled");
    s->retrained = sl_json_number(totals, "retrained");
    s->places = sl_json_number(from, "places");
    s->restarts = sl_json_number(totals, "restarts");
    s->checkpoints = sl_json_number(totals, "checkpoints");
    s->memory_used = sl_json_number(memory, "used");
    s->memory_peak = sl_json_number(memory, "peak");
    s->memory_limit = sl_json_number(memory, "limit");
    s->cpu_load = sl_json_number(from, "cpu_load");
}

int sl_top_stats_parse(const char *json, struct sl_top_stats *out)
{
    struct sl_top_stats s = {0};
    cJSON *root = NULL;
    SL_TRY(open_line(json, "sluice.stats/1", &root));
    take_progress(root, &s);
    take_flow(root, &s);
    take_totals(root, &s);
    take_stages(sl_json_at(root, "stages"), &s);
    take_histograms(sl_json_at(root, "histograms"), &s);
    int rc = take_lists(root, &s);
    cJSON_Delete(root);
    if (rc == SL_OK) {
        sl_top_stats_fini(out);
        *out = s;
    } else {
        sl_top_stats_fini(&s);
    }
    return rc;
}

void sl_top_stats_fini(struct sl_top_stats *s)
{
    free(s->devices);
    free(s->workers);
    *s = (struct sl_top_stats){0};
}

// --- events, jobs, answers -----------------------------------------------------------------------

int sl_top_event_parse(const char *json, struct sl_top_event *out)
{
    cJSON *root = NULL;
    SL_TRY(open_line(json, "sluice.event/1", &root));
    out->time = sl_json_number(root, "time");
    out->seconds = sl_json_number(root, "seconds");
    out->ok = !cJSON_IsFalse(sl_json_at(root, "ok"));
    TEXT(root, "kind", out->kind);
    TEXT(root, "text", out->text);
    cJSON_Delete(root);
    return SL_OK;
}

static void take_job(const cJSON *from, struct sl_top_job *j)
{
    TEXT(from, "id", j->id);
    TEXT(from, "name", j->name);
    TEXT(from, "state", j->state);
    TEXT(from, "why", j->why);
    TEXT(from, "message", j->message);
    TEXT(from, "output", j->output);
    TEXT(from, "cores", j->cores);
    j->position = sl_json_number(from, "position");
    j->submitted = sl_json_number(from, "submitted");
    j->started = sl_json_number(from, "started");
    j->ended = sl_json_number(from, "ended");
    j->exit_status = sl_json_number(from, "exit_status");
    j->epoch = sl_json_number(from, "epoch");
    j->epochs = sl_json_number(from, "epochs");
    j->progress = sl_json_number(from, "progress");
    j->samplers = sl_json_number(from, "samplers");
    j->trainers = sl_json_number(from, "trainers");
    j->loss = sl_json_number(from, "loss");
    j->seconds_left = sl_json_number(from, "seconds_left");
}

int sl_top_jobs_parse(const char *json, struct sl_top_jobs *out)
{
    struct sl_top_jobs jobs = {0};
    cJSON *root = NULL;
    SL_TRY(open_line(json, "sluice.jobs/1", &root));
    const cJSON *list = sl_json_at(root, "jobs"), *daemon = sl_json_at(root, "daemon"), *item;
    size_t n = (size_t)cJSON_GetArraySize(list);
    jobs.jobs = calloc(n + 1, sizeof *jobs.jobs);
    if (!jobs.jobs) {
        cJSON_Delete(root);
        return sl_fail(SL_ENOMEM, "no memory for a list of %zu jobs", n);
    }
    cJSON_ArrayForEach(item, list)
    {
        take_job(item, &jobs.jobs[jobs.n++]);
    }
    jobs.daemon = cJSON_IsObject(daemon);
    jobs.daemon_pid = sl_json_number(daemon, "pid");
    TEXT(daemon, "version", jobs.version);
    TEXT(daemon, "cores", jobs.cores);
    TEXT(daemon, "free_cores", jobs.free_cores);
    TEXT(daemon, "page", jobs.page);
    cJSON_Delete(root);
    sl_top_jobs_fini(out);
    *out = jobs;
    return SL_OK;
}

int sl_top_jobs_update(struct sl_top_jobs *jobs, const char *json)
{
    struct sl_top_job job = {0};
    cJSON *root = cJSON_Parse(json);
    if (!cJSON_IsObject(root)) {
        cJSON_Delete(root);
        return sl_fail(SL_EFORMAT, "found something else, wanted an entry of the list of jobs");
    }
    take_job(root, &job);
    cJSON_Delete(root);
    for (size_t i = 0; i < jobs->n; i++) {
        if (job.id[0] && strcmp(jobs->jobs[i].id, job.id) == 0) {
            jobs->jobs[i] = job;
            return SL_OK;
        }
    }
    struct sl_top_job *more = realloc(jobs->jobs, (jobs->n + 1) * sizeof *more);
    if (!more)
        return sl_fail(SL_ENOMEM, "no memory for a list of %zu jobs", jobs->n + 1);
    jobs->jobs = more;
    jobs->jobs[jobs->n++] = job;
    return SL_OK;
}

void sl_top_jobs_fini(struct sl_top_jobs *jobs)
{
    free(jobs->jobs);
    *jobs = (struct sl_top_jobs){0};
}

int sl_top_describe_parse(const char *json, void (*on_event)(void *arg, const char *line),
                          void *arg, char **stats)
{
    cJSON *root = NULL;
    const cJSON *item;
    *stats = NULL;
    SL_TRY(open_line(json, "sluice.describe/1", &root));
    cJSON_ArrayForEach(item, sl_json_at(root, "events"))
    {
        char *line = cJSON_PrintUnformatted(item);
        if (line)
            on_event(arg, line);
        cJSON_free(line);
    }
    if (cJSON_IsObject(sl_json_at(root, "stats"))) {
        char *line = cJSON_PrintUnformatted(sl_json_at(root, "stats"));
        *stats = line ? strdup(line) : NULL;
        cJSON_free(line);
    }
    cJSON_Delete(root);
    return SL_OK;
}

int sl_top_scale_parse(const char *json, struct sl_top_scale *out)
{
    cJSON *root = NULL;
    SL_TRY(open_line(json, "sluice.scale/1", &root));
    out->ok = cJSON_IsTrue(sl_json_at(root, "ok"));
    out->dry_run = cJSON_IsTrue(sl_json_at(root, "dry_run"));
    out->from_samplers = sl_json_number(sl_json_at(root, "from"), "samplers");
    out->from_trainers = sl_json_number(sl_json_at(root, "from"), "trainers");
    out->samplers = sl_json_number(sl_json_at(root, "to"), "samplers");
    out->trainers = sl_json_number(sl_json_at(root, "to"), "trainers");
    out->now = sl_json_number(root, "epoch_seconds_now");
    out->then = sl_json_number(root, "epoch_seconds_then");
    out->gain = sl_json_number(root, "gain_seconds_an_epoch");
    out->move = sl_json_number(root, "move_seconds");
    TEXT(root, "message", out->message);
    joined(sl_json_at(root, "steps"), "; ", out->steps, sizeof out->steps);
    cJSON_Delete(root);
    return SL_OK;
}
