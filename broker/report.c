#include "broker/report.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "broker/placement.h"
#include "broker/supervise.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "common/data/atomic_file.h"

int sl_report_init(struct sl_report *r)
{
    memset(r, 0, sizeof *r);
    r->epochs = cJSON_CreateArray();
    r->restarts = cJSON_CreateArray();
    r->processes = cJSON_CreateArray();
    if (r->epochs && r->restarts && r->processes)
        return SL_OK;
    sl_report_fini(r);
    return sl_fail(SL_ENOMEM, "no memory for the report");
}

void sl_report_fini(struct sl_report *r)
{
    cJSON_Delete(r->epochs);
    cJSON_Delete(r->restarts);
    cJSON_Delete(r->processes);
    memset(r, 0, sizeof *r);
}

static void add_number(cJSON *to, const char *key, double value)
{
    cJSON_AddNumberToObject(to, key, value); // NaN and infinity become null
}

static void add_stage(cJSON *stages, const char *name, const struct sl_stage_figures *stage)
{
    cJSON *s = cJSON_AddObjectToObject(stages, name);
    add_number(s, "seconds", stage->seconds);
    add_number(s, "count", (double)stage->count);
    add_number(s, "p50", stage->p50);
    add_number(s, "p99", stage->p99);
}

static cJSON *epoch_to_json(const struct sl_epoch_figures *f)
{
    static const struct sl_stage_figures nothing;
    cJSON *e = cJSON_CreateObject();
    add_number(e, "epoch", f->epoch);
    add_number(e, "seconds", f->seconds);
    add_number(e, "evaluate_seconds", f->evaluate_seconds);
    add_number(e, "loss", f->loss);
    add_number(e, "train_accuracy", f->train_accuracy);
    if (f->evaluated)
        add_number(e, "val_accuracy", f->val_accuracy);
    else
        cJSON_AddNullToObject(e, "val_accuracy");
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
    add_stage(stages, "mark", &nothing); // there is no cache whose slots could be marked,
    add_stage(stages, "copy", &nothing); // and blocks are drawn where trainers read them
    add_stage(stages, "extract", &f->extract);
    add_stage(stages, "train", &f->train);
    add_stage(stages, "wait", &f->wait);
    add_stage(stages, "backpressure", &f->backpressure);
    add_stage(stages, "evaluate", &f->evaluate);
    cJSON *cache = cJSON_AddObjectToObject(e, "cache");
    add_number(cache, "hits", 0);
    add_number(cache, "misses", (double)f->input_nodes);
    add_number(cache, "hit_rate", 0);
    add_number(e, "switches", 0);
    add_number(e, "resampled", (double)f->resampled);
    add_number(e, "retrained", (double)f->retrained);
    add_number(e, "evicted", (double)f->evicted);
    cJSON_AddStringToObject(e, "bottleneck", f->bottleneck);
    return e;
}

char *sl_report_add_epoch(struct sl_report *r, const struct sl_epoch_figures *f)
{
    cJSON *e = epoch_to_json(f);
    char *text = cJSON_PrintUnformatted(e);
    cJSON_AddItemToArray(r->epochs, e);
    r->batches += f->batches;
    r->sample_seconds += f->sample.seconds;
    r->train_seconds += f->extract.seconds + f->train.seconds;
    r->evicted += f->evicted;
    return text;
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
    cJSON_AddItemToArray(r->restarts, e);
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

static void add_workers(cJSON *list, const struct sl_config *config, uint32_t device)
{
    char name[32];
    for (uint32_t i = 0; i < config->allocation.samplers; i++) {
        snprintf(name, sizeof name, "%s %u", sl_role_name(SL_ROLE_SAMPLER), i);
        if (sl_placement_sampler(config, i) == device)
            cJSON_AddItemToArray(list, cJSON_CreateString(name));
    }
    for (uint32_t i = 0; i < config->allocation.trainers; i++) {
        snprintf(name, sizeof name, "%s %u", sl_role_name(SL_ROLE_TRAINER), i);
        if (sl_placement_trainer(config, i) == device)
            cJSON_AddItemToArray(list, cJSON_CreateString(name));
    }
}

static void add_devices(cJSON *report, const struct sl_config *config)
{
    cJSON *devices = cJSON_AddArrayToObject(report, "devices");
    for (uint32_t i = 0; i < config->n_devices; i++) {
        const struct sl_device_config *d = &config->devices[i];
        cJSON *e = cJSON_CreateObject();
        add_number(e, "index", i);
        cJSON_AddStringToObject(e, "kind", sl_device_kind_name(d->kind));
        cJSON *cores = cJSON_AddArrayToObject(e, "cores");
        for (uint32_t c = 0; c < d->n_cores; c++)
            cJSON_AddItemToArray(cores, cJSON_CreateNumber(d->cores[c]));
        if (d->memory_bytes)
            add_number(e, "memory", (double)d->memory_bytes);
        else
            cJSON_AddNullToObject(e, "memory");
        add_workers(cJSON_AddArrayToObject(e, "workers"), config, i);
        cJSON_AddItemToArray(devices, e);
    }
}

static void add_allocations(cJSON *report, const struct sl_report *r,
                            const struct sl_config *config, const char *reason)
{
    cJSON *e = cJSON_CreateObject();
    double t_sample = r->batches ? r->sample_seconds / (double)r->batches : NAN;
    double t_train = r->batches ? r->train_seconds / (double)r->batches : NAN;
    add_number(e, "epoch", 0);
    add_number(e, "samplers", config->allocation.samplers);
    add_number(e, "trainers", config->allocation.trainers);
    add_number(e, "t_sample", t_sample);
    add_number(e, "t_train", t_train);
    add_number(e, "k", t_sample > 0 ? t_train / t_sample : NAN);
    cJSON_AddStringToObject(e, "reason", reason);
    cJSON_AddItemToArray(cJSON_AddArrayToObject(report, "allocations"), e);
}

static void add_results(cJSON *report, const struct sl_report_outcome *o)
{
    if (o->has_test)
        add_number(report, "test_accuracy", o->test_accuracy);
    else
        cJSON_AddNullToObject(report, "test_accuracy");
    if (o->has_best) {
        add_number(report, "best_epoch", o->best_epoch);
        add_number(report, "best_val_accuracy", o->best_val_accuracy);
    } else {
        cJSON_AddNullToObject(report, "best_epoch");
        cJSON_AddNullToObject(report, "best_val_accuracy");
    }
    add_number(report, "test_seconds", o->test_seconds);
    if (o->params_sha256)
        cJSON_AddStringToObject(report, "params_sha256", o->params_sha256);
    else
        cJSON_AddNullToObject(report, "params_sha256");
    if (o->samples_digest)
        cJSON_AddStringToObject(report, "samples_digest", o->samples_digest);
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
    add_devices(report, config);
    add_allocations(report, r, config, o->reason);
    cJSON_AddItemToObject(report, "epochs", r->epochs);
    r->epochs = NULL;
    cJSON *batches = cJSON_AddObjectToObject(report, "batches");
    add_number(batches, "scheduled", (double)o->scheduled);
    add_number(batches, "trained", (double)o->trained);
    add_number(batches, "resampled", (double)r->resampled);
    add_number(batches, "retrained", (double)r->retrained);
    add_number(batches, "evicted", (double)r->evicted);
    cJSON_AddItemToObject(report, "restarts", r->restarts);
    r->restarts = NULL;
    add_results(report, o);
    add_number(report, "start_seconds", o->start_seconds);
    add_number(report, "wall_seconds", o->wall_seconds);
    add_number(report, "peak_memory", (double)o->peak_memory);
    cJSON_AddItemToObject(report, "processes", r->processes);
    r->processes = NULL;
    cJSON *arena = cJSON_AddObjectToObject(report, "arena");
    add_number(arena, "bytes", (double)o->arena_bytes);
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
