/*
 * startup.c - from a configuration to a running job.
 *
 * The arena cannot be sized before samplers have measured their largest block and trainers have
 * said what their parameters are, and neither can be known to the broker, which knows no sampler
 * and no model. So workers are started first, with an arena descriptor that has no size yet; once
 * the last one has said Hello the arena is made and all are told to map it. A trainer then measures
 * a training step on a probe batch of the samplers' before it says Ready; on a pool of cores only
 * where a cache wants to know what memory is left.
 *
 * Once all are ready the first phase is opened, and then the run directory is made: nobody waits
 * for the disk. Of a job whose directory turns out not to be its own nothing is left but a refusal.
 *
 * Where the job leaves the split to the broker and there is a choice, only one of each role is
 * started at first, the scouts; what they measure decides how many there will be of each.
 */
#include "broker/job/job.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "common/text/units.h"
#include "broker/scheduler/capacity.h"
#include "broker/sharding/gpus.h"
#include "broker/rundir/history.h"
#include "broker/placement/placement.h"
#include "broker/rundir/resume.h"
#include "broker/sharding/shard_preference.h"
#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/data/order_kind.h"
#include "common/base/memory.h"
#include "common/device/cores.h"
#include "common/bus/assignment.h"
#include "common/arena/param_store.h"
#include "common/arena/seat.h"
#include "common/arena/shared_array.h"
#include "common/bus/worker.h"

// --- preparation ---------------------------------------------------------------------------------

// The budgets of GPUs, which are what was free at a start, say nothing of which devices they are.
static cJSON *without_budgets(const cJSON *devices)
{
    cJSON *copy = cJSON_Duplicate(devices, true), *device;
    cJSON_ArrayForEach(device, copy)
    {
        const char *kind = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(device, "kind"));
        if (kind && strcmp(kind, sl_device_kind_name(SL_DEVICE_CUDA)) == 0)
            cJSON_DeleteItemFromObjectCaseSensitive(device, "memory");
    }
    return copy;
}

// Whether the job that a checkpoint is of had these devices, and left the split to the same.
static bool has_same_devices(const struct sl_job *job)
{
    static const char *const keys[] = {"devices", "allocation", "schedule"};
    const cJSON *before = cJSON_GetObjectItemCaseSensitive(job->resumed.state, "config");
    cJSON *now = cJSON_Parse(job->config_json);
    bool same = now != NULL;
    for (size_t i = 0; i < SL_COUNT_OF(keys) && same; i++) {
        cJSON *a = without_budgets(cJSON_GetObjectItemCaseSensitive(now, keys[i]));
        cJSON *b = without_budgets(cJSON_GetObjectItemCaseSensitive(before, keys[i]));
        same = (!a && !b) || cJSON_Compare(a, b, true);
        cJSON_Delete(a);
        cJSON_Delete(b);
    }
    cJSON_Delete(now);
    return same;
}

// A quota is time, not cores: a job that has used it up is stopped until the next period.
static void emit_quota(struct sl_job *job)
{
    const double quota = sl_cores_quota();
    struct sl_cores used;
    sl_config_cores(&job->config, &used);
    uint32_t n = sl_cores_count(&used);
    if (n > quota + 0.01)
        sl_joblog_announce(&job->log,
                           "cores: the devices have %u, and the control group grants the time of "
                           "%.4g: workers stand still for the rest of each of its periods; a "
                           "larger quota (docker run --cpus %u) ends that",
                           n, quota, n);
}

static void choose_split(struct sl_job *job)
{
    const struct sl_checkpoint *c = &job->resumed; // all zero for a job that begins
    uint32_t epoch = c->epoch, batch = c->n_records;
    sl_position_of_training(&epoch, &batch, c->n_batches);
    struct sl_roles asked = {0, 0}; // by the user, while it ran
    if (c->samplers > 0 && has_same_devices(job))
        asked = (struct sl_roles){c->samplers, c->trainers};
    sl_split_begin_with(&job->split, epoch, batch, asked);
}

// Where external trainers come.
static int open_desk(struct sl_job *job)
{
    const uint32_t n = job->config.n_devices;
    for (uint32_t d = n - job->config.allocation.trainers; d < n; d++)
        sl_worker_pool_lend(&job->workers, n + d);
    return sl_external_desk_open(&job->desk, job->options.endpoint);
}

int sl_job_pool_setup(struct sl_job *job, struct sl_worker_pool_setup *out)
{
    *out = (struct sl_worker_pool_setup){
        .loop = &job->loop.uv,
        .endpoint = job->options.endpoint,
        .key_fd = job->options.key_fd,
        .arena_fd = job->arena_fd,
        .config_fd = job->config_fd,
        .doorbell_fd = job->doorbell_fd,
        .acts_fd = job->acts_fd,
        .events = sl_job_pool_events,
        .ctx = job,
    };
    memcpy(out->shared_fd, job->shared_fd, sizeof out->shared_fd);
    if (!job->options.worker_directory)
        return sl_worker_pool_own_directory(out->directory, sizeof out->directory);
    snprintf(out->directory, sizeof out->directory, "%s", job->options.worker_directory);
    return SL_OK;
}

static int place_workers(struct sl_job *job)
{
    const struct sl_config *config = &job->config;
    uint32_t n = config->n_devices;
    struct sl_worker_pool_setup setup;
    SL_TRY(sl_job_pool_setup(job, &setup));
    SL_TRY(sl_worker_pool_init(&job->workers, &setup, 2 * n));
    SL_TRY(sl_crash_log_init(&job->deaths));
    SL_TRY(sl_stalls_init(&job->stalls));
    for (uint32_t d = 0; d < n; d++) {
        sl_worker_pool_place(&job->workers, d, SL_ROLE_SAMPLER,
                             sl_placement_role_index(n, SL_ROLE_SAMPLER, d), d);
        sl_worker_pool_place(&job->workers, n + d, SL_ROLE_TRAINER,
                             sl_placement_role_index(n, SL_ROLE_TRAINER, d), d);
    }
    job->workers_placed = true;
    return sl_config_is_external(config) ? open_desk(job) : SL_OK;
}

// Where a checkpoint says to go on; what it says of the job has been compared by whoever sent it.
static int check_resumed(struct sl_job *job)
{
    struct sl_checkpoint *c = &job->resumed;
    char where[96];
    uint64_t digest;
    if (!c->path[0])
        return SL_OK;
    SL_TRY(sl_epoch_order_identity(job->config.order.kind, &job->dataset, &digest));
    uint64_t batches = sl_phases_batches(&job->config, job->dataset.split[SL_SPLIT_TRAIN].n);
    if (c->n_batches != batches || c->dataset_digest != digest)
        return sl_fail(SL_EFORMAT, "checkpoint '%s' is of another job or data set", c->path);
    SL_TRY(sl_history_read(&job->report, cJSON_GetObjectItemCaseSensitive(c->state, "history")));
    uint32_t epoch = c->epoch, batch = c->n_records;
    sl_position_of_training(&epoch, &batch, c->n_batches);
    const struct sl_report_resume resume = {(double)c->version, epoch, batch, c->seconds};
    sl_report_add_resume(&job->report, &resume);
    sl_joblog_write(&job->log, SL_LOG_INFO, "going on from %s",
                    sl_resume_text(c, where, sizeof where));
    return SL_OK;
}

// The data set that `sluice run` has checked just now, or, of a job that has waited since it was
// checked, what there is by now.
static int open_dataset(struct sl_job *job)
{
    const struct sl_config *config = &job->config;
    const char *record = job->options.dataset_record;
    unsigned need = sl_config_needs(config);
    char path[sizeof config->dataset];
    snprintf(path, sizeof path, "%s", config->dataset);
    if (job->options.nodes > 1) {
        need |= SL_TAKES_SHARD;
        SL_TRY(sl_shard_find(config->dataset, job->options.node, job->options.nodes, path,
                             sizeof path));
    }
    if (record && record[0])
        return sl_dataset_open_recorded(path, need, record, 1, &job->dataset);
    return sl_dataset_open(path, need, SL_CHECK_CACHED, 0, &job->dataset);
}

static int write_config(struct sl_job *job)
{
    free(job->config_json);
    job->config_json = sl_config_to_json(&job->config);
    return job->config_json ? SL_OK : sl_fail(SL_ENOMEM, "no memory for the configuration");
}

// What "auto" of epochs is with this data set.
static int settle_epochs(struct sl_job *job)
{
    struct sl_config *c = &job->config;
    const uint64_t updates = sl_phases_updates(c, job->dataset.split[SL_SPLIT_TRAIN].n);
    if (!sl_config_settle_epochs(c, updates, job->judging.finds_best, job->epochs_note)[0])
        return SL_OK;
    sl_joblog_write(&job->log, SL_LOG_INFO, "%s", job->epochs_note);
    return write_config(job);
}

// Likewise: whether the output is still free, or where it goes on.
static int find_checkpoint(struct sl_job *job)
{
    struct sl_resume found;
    const struct sl_config *config = &job->config;
    if (job->options.no_output || sl_job_follows(job))
        return SL_OK;
    if (!job->options.checks)
        return job->options.resume
                   ? sl_checkpoint_open(config->output, job->options.resume, &job->resumed)
                   : SL_OK;
    SL_TRY(sl_resume_find(config, job->config_json, job->options.resume, NULL, &found));
    uint64_t digest;
    int rc = sl_epoch_order_identity(config->order.kind, &job->dataset, &digest);
    if (rc == SL_OK)
        rc = sl_resume_check_dataset(&found, config, digest);
    if (rc == SL_OK && found.content == SL_RUNDIR_CHECKPOINTS) {
        job->resumed = found.checkpoint; // which is the job's now
        found.checkpoint = (struct sl_checkpoint){0};
    }
    sl_resume_fini(&found);
    return rc;
}

// The devices that the job names are its own since it was read for a user; what is left to do at
// its start is to give GPUs their budgets, and, where it has waited, to see that they still are
// there. "auto" is not looked at again: it has become a list by now.
static int prepare_gpus(struct sl_job *job)
{
    struct sl_config *c = &job->config;
    char note[SL_GPUS_NOTE_BYTES] = "";
    bool open = job->options.checks;
    for (uint32_t d = 0; d < c->n_devices; d++)
        open |= c->devices[d].kind == SL_DEVICE_CUDA && c->devices[d].memory_bytes == 0;
    if (c->devices_auto || !open)
        return SL_OK;
    SL_TRY(sl_gpus_resolve(c, "the job", note));
    if (note[0])
        sl_joblog_write(&job->log, SL_LOG_WARN, "%s", note);
    return SL_OK;
}

// The file that activations may lie in: workers, who are started before anybody knows whether it is
// needed, inherit it without bytes.
static int open_acts(struct sl_job *job)
{
    bool file = job->config.evaluate.full && job->config.activations != SL_ACTIVATIONS_MEMORY;
    job->acts_fd = file ? sl_rundir_nameless(job->config.output) : sl_arena_memfd();
    return job->acts_fd;
}

// What "auto" is on this machine, for the workers; the job's own text stays as it was.
static int configure_workers(struct sl_job *job)
{
    struct sl_config *c = &job->config;
    const bool automatic = c->store.features == SL_FEATURES_AUTO;
    const uint64_t available = sl_device_memory_available();
    sl_capacity_settle_store(c, &job->dataset, available);
    if (sl_store_is_open(c))
        sl_access_forecast_now(&job->foresight, c, &job->dataset);
    sl_store_prefer(c, &job->dataset, available, sl_access_forecast_found(&job->foresight));
    char features[SL_UNITS_BYTES], topology[SL_UNITS_BYTES], memory[SL_UNITS_BYTES];
    if (automatic && sl_features_kinds[c->store.features].drive)
        sl_joblog_announce(
            &job->log,
            "features: rows are read from the drive: their %s and a topology of %s are much for "
            "the %s of memory that are available (store.features)",
            sl_units_exact_bytes(features, sl_features_bytes(&job->dataset)),
            sl_units_exact_bytes(topology, sl_topology_bytes(&job->dataset)),
            sl_units_exact_bytes(memory, available));
    if (c->cache.why && sl_cache_keeps(c->cache.policy))
        sl_joblog_write(&job->log, SL_LOG_INFO,
                        "cache: %s, chosen automatically: %s (cache.policy)",
                        sl_cache_words[c->cache.policy], c->cache.why);
    char named[sizeof c->dataset];
    memcpy(named, c->dataset, sizeof named);
    if (job->dataset.shard.count)
        snprintf(c->dataset, sizeof c->dataset, "%s", job->dataset.path);
    char *json = sl_config_to_json(c), *record = sl_dataset_record(&job->dataset);
    memcpy(c->dataset, named, sizeof named);
    if (json && record)
        job->config_fd = sl_assignment_make(json, record);
    else
        job->config_fd = sl_fail(SL_ENOMEM, "no memory for the configuration");
    free(json);
    free(record);
    return SL_MIN(job->config_fd, SL_OK);
}

static void on_foreseen(void *ctx)
{
    sl_job_go_on(ctx);
}

int sl_job_prepare(struct sl_job *job)
{
    SL_TRY(sl_config_parse(job->options.config_text, job->options.config_bytes, "the job",
                           &job->config));
    if (job->options.no_output && !sl_config_is_external(&job->config))
        return sl_fail(SL_EINVAL, "--no-output: found it with a job that has something to keep, "
                                  "wanted it only with model.kind \"external\"");
    if (job->config.memory_bytes)
        sl_memory_set_bound(sl_job_memory_left, job);
    SL_TRY(prepare_gpus(job));
    SL_TRY(write_config(job));
    SL_TRY(sl_report_init(&job->report));
    job->warnings = cJSON_CreateArray();
    SL_TRY(open_dataset(job));
    SL_TRY(sl_dataset_hold(&job->dataset));
    sl_config_choose_features(&job->config, &job->dataset);
    SL_TRY(sl_config_choose_items(&job->config, &job->dataset));
    SL_TRY(sl_config_find_relations(&job->config, &job->dataset.typed));
    SL_TRY(sl_judging_check(&job->config, &job->dataset));
    SL_TRY(sl_judging_find(&job->judging, &job->config, &job->dataset));
    SL_TRY(settle_epochs(job));
    SL_TRY(find_checkpoint(job));
    SL_TRY(configure_workers(job));
    if (sl_store_may_share(&job->config, SL_PEER_MEMORY_GRAPH))
        sl_gpus_expect(); // which tells while workers load
    sl_access_forecast_start(&job->foresight, &job->loop.uv, &job->config, &job->dataset,
                             on_foreseen, job);
    job->arena_fd = sl_arena_memfd();
    SL_TRY(job->arena_fd);
    SL_TRY(open_acts(job));
    for (int i = 0; i < SL_SHARED_COUNT; i++)
        SL_TRY(job->shared_fd[i] = sl_shared_array_file());
    SL_TRY(sl_job_make_rows(job));
    SL_TRY(sl_job_make_graph(job));
    job->split.need.n_nodes = job->dataset.n_nodes;
    job->split.need.row_bytes = sl_features_row_bytes(&job->dataset);
    job->split.need.typed = job->dataset.typed.n_types > 0;
    const uint64_t available = sl_device_memory_available();
    job->split.available_bytes = available - SL_MIN(sl_job_rows_to_come(job), available);
    return job->options.over_nodes ? sl_job_nodes_start(job) : sl_job_start_workers(job);
}

int sl_job_start_workers(struct sl_job *job)
{
    SL_TRY(check_resumed(job));
    sl_split_open_pool(&job->split);
    choose_split(job);
    SL_TRY(place_workers(job));
    SL_TRY(sl_split_assign(&job->split));
    const bool pool = sl_config_is_pool(&job->config);
    const uint32_t n = pool ? job->split.pool.n : job->config.n_devices;
    sl_joblog_write(&job->log, SL_LOG_INFO, "job '%s': %s%u %s%s%s", job->config.name,
                    pool ? "a pool of " : "", n, pool ? "core" : "device", n == 1 ? "" : "s",
                    job->split.scouting ? ", one sampler and one trainer measure first" : "");
    emit_quota(job);
    return SL_OK;
}

// --- the arena -----------------------------------------------------------------------------------

// Of the workers that are wanted.
static bool all(const struct sl_job *job, bool (*is)(const struct sl_pool_worker *))
{
    for (uint32_t i = 0; i < job->workers.n; i++)
        if (job->workers.list[i].wanted && !is(&job->workers.list[i]))
            return false;
    return true;
}

static bool is_greeted(const struct sl_pool_worker *w)
{
    return w->alive && w->greeted;
}

static bool is_ready(const struct sl_pool_worker *w)
{
    return w->alive && w->ready;
}

void sl_job_send_attach(struct sl_job *job, struct sl_pool_worker *w)
{
    Sl__Control__Attach attach = SL__CONTROL__ATTACH__INIT;
    Sl__Control__Envelope e = SL__CONTROL__ENVELOPE__INIT;
    attach.arena_bytes = job->arena.bytes;
    e.body_case = SL__CONTROL__ENVELOPE__BODY_ATTACH;
    e.attach = &attach;
    // A worker that has died meanwhile is the worker pool's business.
    if (sl_bus_send(job->bus, &w->peer, &e) == SL_OK)
        w->attached = true;
}

// The values that training begins with: drawn, given, or of the checkpoint.
static int set_parameters(struct sl_job *job)
{
    struct sl_arena *a = &job->arena;
    const struct sl_checkpoint *c = &job->resumed;
    if (!c->path[0] && job->config.model.weights[0]) {
        int rc = sl_params_import(&job->params, job->config.model.weights, NULL,
                                  sl_param_store_params(a, 0), NULL);
        return rc < 0 ? sl_fail_prefix(rc, "model.weights") : SL_OK;
    }
    if (!c->path[0]) {
        sl_params_initialise(&job->params, job->config.seed, sl_param_store_params(a, 0));
        return SL_OK;
    }
    float *state[SL_SNAPSHOT_STATES];
    uint32_t n_state = SL_MIN(a->h->spec.n_state, (uint32_t)SL_SNAPSHOT_STATES);
    for (uint32_t i = 0; i < n_state; i++)
        state[i] = sl_param_store_state(a, c->version, i);
    sl_param_store_restore(a, c->version);
    SL_TRY(sl_checkpoint_load(c, &job->params, sl_param_store_params(a, c->version), state, n_state,
                              sl_param_store_best(a), sl_param_store_pinned(a)));
    if (!c->best.has) // where only the test is left it is of these
        memcpy(sl_param_store_best(a), sl_param_store_params(a, c->version),
               a->h->spec.n_params * sizeof(float));
    return SL_OK;
}

// Makes the file of activations as large as they are, where they are to lie there.
static int reserve_acts(struct sl_job *job, uint64_t available_bytes)
{
    char all[SL_UNITS_BYTES], available[SL_UNITS_BYTES];
    struct statfs fs;
    if (job->acts_bytes == 0)
        return SL_OK;
    sl_units_exact_bytes(all, job->acts_bytes);
    sl_units_exact_bytes(available, available_bytes);
    if (job->config.activations == SL_ACTIVATIONS_AUTO && fstatfs(job->acts_fd, &fs) == 0 &&
        (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC))
        return sl_fail(SL_ENOMEM,
                       "activations for evaluate.fanout \"full\" take %s, found %s of memory "
                       "available, and output '%s' is on no disk: choose an output on one, or give "
                       "evaluate.fanout a list",
                       all, available, job->config.output);
    int err = posix_fallocate(job->acts_fd, 0, (off_t)job->acts_bytes);
    if (err != 0)
        return sl_fail_errno(SL_ENOMEM, err,
                             "activations for evaluate.fanout \"full\" take %s, found %s of "
                             "memory available, and no room for a file on the disk of output '%s': "
                             "free space there, or give evaluate.fanout a list",
                             all, available, job->config.output);
    sl_joblog_write(&job->log,
                    job->config.activations == SL_ACTIVATIONS_AUTO ? SL_LOG_WARN : SL_LOG_INFO,
                    "evaluations keep activations of %s in a file on the disk of output '%s' (%s "
                    "of memory are available): give evaluate.fanout a list where that is too slow",
                    all, job->config.output, available);
    return SL_OK;
}

// The first batches tell how long a step takes of a pool; what memory it takes must be known before
// a cache gets the rest, and how many rows it has where these are read.
static bool needs_probe(const struct sl_job *job)
{
    return job->split.pool.n == 0 || sl_cache_keeps(job->config.cache.policy) ||
           sl_features_kinds[job->config.store.features].reads || job->config.memory_bytes > 0;
}

// What workers share beside the arena: what there was when it was sized, and what they have begun
// to make since.
static uint64_t shared_beside_arena(const struct sl_job *job)
{
    return SL_MAX(job->before.held_bytes - job->before.private_bytes,
                  sl_job_copied_bytes(job, SL_SHARED_SUMS));
}

uint64_t sl_job_shared_under(void *ctx, uint64_t bound)
{
    const struct sl_job *job = ctx;
    struct sl_config config = job->config;
    struct sl_arena_spec spec;
    struct sl_arena_header layout;
    uint64_t acts;
    config.memory_bytes = bound;
    const uint64_t left = bound - SL_MIN(job->before.held_bytes, bound);
    if (sl_capacity_plan(&config, &job->capacity, left, &spec, &acts) < 0)
        return UINT64_MAX;
    return sl_arena_layout(&spec, &layout) - acts + shared_beside_arena(job);
}

// The arena does not fit into what the job's own bound leaves.
static int fail_bound(const struct sl_job *job)
{
    const struct sl_role_split *s = &job->split;
    const struct sl_budget_workers workers = {.samplers = s->roles.samplers,
                                              .trainers = s->roles.trainers};
    const uint64_t least = sl_budget_least_memory(&job->config, &s->need, &s->memory, &workers);
    char bound[SL_UNITS_BYTES], held[SL_UNITS_BYTES], wanted[SL_UNITS_BYTES];
    return sl_fail(SL_ENOMEM,
                   "memory: found %s, wanted more than %s: broker and workers hold %s, an arena "
                   "comes on top, and a training step of each trainer: set memory to a larger "
                   "number; if that is too little, a message says how much is needed",
                   sl_units_exact_bytes(bound, job->config.memory_bytes),
                   sl_units_exact_bytes(wanted, least),
                   sl_units_exact_bytes(held, job->before.held_bytes));
}

// Under a bound, trainers on cores take what nobody knows yet.
static bool trains_on_cores(struct sl_job *job)
{
    for (uint32_t d = 0; d < job->config.n_devices; d++)
        if (job->config.devices[d].kind == SL_DEVICE_CPU &&
            (job->split.scouting || sl_split_duty(&job->split, SL_ROLE_TRAINER, d)))
            return true;
    return false;
}

// Whether every GPU that trains has a cache with room for all rows.
static bool expects_caches_of_all(struct sl_job *job)
{
    const struct sl_role_split *s = &job->split;
    for (uint32_t d = 0; d < job->config.n_devices; d++) {
        const enum sl_duty duty = sl_split_duty(s, SL_ROLE_TRAINER, d);
        if (job->config.devices[d].kind != SL_DEVICE_CPU && duty != SL_DUTY_NONE &&
            !sl_budget_expects_all_rows(&job->config, d, duty, &s->need, s->available_bytes))
            return false;
    }
    return true;
}

// How features may get to GPUs, now that it is known what else takes memory.
static void plan_store(struct sl_job *job, struct sl_arena_spec *spec, uint64_t available)
{
    const struct sl_config *c = &job->config;
    const struct sl_budget_memory *m = &job->split.memory;
    struct sl_budget_workers workers = {.samplers = c->n_devices};
    struct sl_arena_header layout;
    const uint64_t arena = sl_arena_layout(spec, &layout) - job->acts_bytes;
    char all[SL_UNITS_BYTES], left[SL_UNITS_BYTES];
    // What workers share by now is counted where it is looked at, with what comes to be.
    const uint64_t shared = shared_beside_arena(job);
    job->arena_shared_bytes = shared - sl_job_copied_bytes(job, SL_SHARED_SUMS) + arena;
    job->split.memory.shared = shared + arena;
    for (uint32_t d = 0; d < c->n_devices; d++)
        workers.on_gpus += c->devices[d].kind != SL_DEVICE_CPU;
    workers.trainers = workers.on_gpus;
    struct sl_shard_inputs q = {
        .gpus = workers.on_gpus > 0,
        .types = job->dataset.typed.n_types > 0,
        .feature_bytes = sl_features_bytes(&job->dataset),
        .available_bytes = available - SL_MIN(arena, available),
        .spare_bytes = sl_budget_spare(c, &job->split.need, m, &workers),
    };
    if (c->memory_bytes && trains_on_cores(job))
        q.spare_bytes = 0;
    q.cached = q.gpus && expects_caches_of_all(job);
    spec->store_way = sl_capacity_store_way(c, &q);
    sl_units_bytes(all, q.feature_bytes);
    sl_units_bytes(left, SL_MIN(q.available_bytes, q.spare_bytes));
    if (spec->store_way == SL_STORE_WAY_LARGE || spec->store_way == SL_STORE_WAY_BOUND)
        sl_joblog_write(&job->log, SL_LOG_INFO,
                        "features: GPUs that do not read the files in place get rows through "
                        "copies: %s (%s, of %s)",
                        sl_store_ways[spec->store_way].why, all, left);
}

static int make_arena(struct sl_job *job)
{
    struct sl_phases_setup setup = {
        .loop = &job->loop.uv,
        .dataset = &job->dataset,
        .plan = sl_plan_make(&job->config, &job->dataset),
        .judged = job->judging.choice,
        .pauses = &job->pauses,
        .rows = job->rows.head ? &job->rows : NULL,
        .keeps_records = sl_saving_is_wanted(&job->config),
        .events = sl_job_phases_events,
        .ctx = job,
    };
    if (job->resumed.path[0])
        setup.plan.resume = sl_checkpoint_resume_point(&job->resumed);
    uint64_t cells = sl_phases_cells_max(&setup.plan);
    if (cells >= 1u << 24)
        return sl_fail(SL_ERANGE,
                       "sampler.batch_size: %llu mini-batches an epoch, at most %u are possible: "
                       "take a larger batch_size",
                       (unsigned long long)cells, (1u << 24) - 1);
    const struct sl_roles named = sl_split_largest_named(&job->split);
    job->capacity = (struct sl_capacity_need){
        .samplers = named.samplers,
        .trainers = named.trainers,
        .batches_most = sl_split_batches_most(&job->split),
        .block_bytes_max = job->block_bytes_max,
        .block_bytes_mean = job->block_bytes_mean,
        .probe_bytes = needs_probe(job) ? job->probe_bytes : 0,
        .n_nodes = job->dataset.n_nodes,
        .n_train = sl_config_epoch_items(&job->config, job->dataset.split[SL_SPLIT_TRAIN].n),
        .n_params = job->params.n,
        .n_shards = job->dataset.shard.count,
        .infer_width = job->params.infer_width,
        .jumping_width = job->params.jumping_width,
        .n_evaluated = SL_MAX(setup.plan.split[SL_SPLIT_VAL].n, setup.plan.split[SL_SPLIT_TEST].n),
        .predict_words = sl_dataset_predict_words(&job->dataset),
        .n_cells = (uint32_t)cells,
        .world = sl_config_is_external(&job->config) &&
                         job->config.allocation.balance == SL_BALANCE_FIXED
                     ? job->config.allocation.trainers
                     : 0,
    };
    sl_row_widths_find(&job->config, &job->dataset, &job->capacity.widths);
    struct sl_arena_spec spec;
    // A device that cannot hold a mini-batch is known before anything is made for it.
    SL_TRY(sl_split_check_budgets(&job->split, job->split.roles));
    uint64_t available = sl_device_memory_available();
    sl_job_poll_memory(job);
    job->before = job->memory;
    job->split.memory.shared_of = sl_job_shared_under;
    job->split.memory.ctx = job;
    int rc = sl_capacity_plan(&job->config, &job->capacity, available, &spec, &job->acts_bytes);
    if (rc < 0 && job->config.memory_bytes)
        return fail_bound(job);
    SL_TRY(rc);
    spec.nodes = (struct sl_nodes_spec){.n = job->nodes.n,
                                        .rank = job->nodes.rank,
                                        .whole_gradients = job->config.optimizer.clip_norm > 0};
    spec.n_types = job->dataset.typed.n_types;
    spec.n_relations = job->dataset.typed.n_relations;
    SL_TRY(reserve_acts(job, available));
    plan_store(job, &spec, available);
    SL_TRY(sl_arena_create(job->arena_fd, &spec, &job->arena));
    sl_job_sample_memory(job);
    job->arena.doorbell = job->doorbell_fd;
    sl_failpoint_bind(job->arena.h->failpoint);
    SL_TRY(set_parameters(job));
    SL_TRY(sl_split_assign(&job->split)); // the seats' duties stand before anybody maps the arena
    char all[SL_UNITS_BYTES], payload[SL_UNITS_BYTES], block[SL_UNITS_BYTES];
    sl_joblog_write(&job->log, SL_LOG_INFO, "arena: %s, %s of them for mini-batches of at most %s",
                    sl_units_exact_bytes(all, job->arena.bytes - job->acts_bytes),
                    sl_units_exact_bytes(payload, job->arena.h->spec.payload_bytes),
                    sl_units_exact_bytes(block, job->block_bytes_max));
    SL_TRY(sl_phases_init(&job->phases, &setup, &job->arena));
    sl_meter_begin(&job->meter);
    return sl_saving_init(&job->saving);
}

static int accept_hello(struct sl_job *job, const struct sl_pool_worker *w,
                        const Sl__Control__Hello *hello)
{
    bool trainer = w->role == SL_ROLE_TRAINER;
    if (w->external)
        return SL_OK; // whatever it does is its own affair
    if (trainer != (hello->role == SL__CONTROL__ROLE__ROLE_TRAINER))
        return sl_fail(SL_EPROTO, "%s says that it is of another role", w->name);
    sl_split_on_hello(&job->split, w, hello);
    if (!trainer) {
        if (job->arena.base)
            return SL_OK; // of the start alone: the arena has been sized by now
        job->block_bytes_max = SL_MAX(job->block_bytes_max, hello->block_bytes_max);
        job->block_bytes_mean = SL_MAX(job->block_bytes_mean, hello->block_bytes_mean);
        job->probe_bytes = SL_MAX(job->probe_bytes, hello->probe_bytes);
        job->probe_input_nodes = hello->input_nodes;
        return SL_OK;
    }
    if (job->params.n_tensors == 0)
        return sl_params_from_hello(&job->params, hello);
    if (!sl_params_agree(&job->params, hello))
        return sl_fail(SL_EPROTO, "%s has other parameters than the trainers before it", w->name);
    return SL_OK;
}

// What a worker holds that has loaded and not worked.
static void note_memory(struct sl_job *job, const struct sl_pool_worker *w)
{
    struct sl_budget_memory *known = &job->split.memory;
    uint64_t *one = w->role == SL_ROLE_TRAINER ? &known->trainer : &known->sampler;
    const struct sl_usage_shared shared = sl_job_shared(job);
    struct sl_usage usage;
    if (sl_usage_read(w->pid, &shared, &usage))
        *one = SL_MAX(*one, usage.private_bytes);
    if (sl_usage_read(getpid(), &shared, &usage))
        known->broker = SL_MAX(known->broker, usage.private_bytes);
}

static int attach_all(struct sl_job *job)
{
    SL_TRY(make_arena(job));
    sl_job_nodes_attach(job);
    for (uint32_t i = 0; i < job->workers.n; i++)
        if (job->workers.list[i].alive && job->workers.list[i].greeted)
            sl_job_send_attach(job, &job->workers.list[i]);
    sl_phases_prepare(&job->phases); // while they map the arena
    return SL_OK;
}

void sl_job_on_hello(struct sl_job *job, const struct sl_bus_peer *peer,
                     const Sl__Control__Hello *hello)
{
    struct sl_pool_worker *w = sl_worker_pool_by_id(&job->workers, hello->worker);
    if (!w || !w->alive || w->greeted || job->state >= SL_JOB_FINISHING)
        return; // of a process that is dead by now, or that is being stopped
    w->greeted = true;
    w->peer = *peer;
    if (!w->external)
        note_memory(job, w);
    if (accept_hello(job, w, hello) < 0) {
        sl_job_end(job, SL_OUTCOME_FAILED, "%s", sl_error_message());
        return;
    }
    sl_joblog_write(&job->log, SL_LOG_INFO, "%s (process %lld) loaded in %.3f s", w->name,
                    (long long)hello->pid, (double)hello->load_ns * 1e-9);
    if (job->arena.base)
        sl_job_send_attach(job, w); // one that came later, or a replacement
    else
        sl_job_go_on(job);
}

// --- ready ---------------------------------------------------------------------------------------

static int make_rundir(struct sl_job *job)
{
    if (!job->resumed.path[0])
        return sl_rundir_create(&job->rundir, job->config.output, job->config_json);
    char *metrics =
        sl_history_metrics(cJSON_GetObjectItemCaseSensitive(job->resumed.state, "history"));
    if (!metrics)
        return sl_fail(SL_ENOMEM, "no memory for the epochs before");
    int rc = sl_rundir_reopen(&job->rundir, job->config.output, job->config_json, metrics,
                              job->resumed.name);
    free(metrics);
    return rc;
}

static void emit_abandoned(struct sl_job *job)
{
    uint32_t n = job->rundir.n_abandoned;
    if (n)
        sl_joblog_announce(&job->log,
                           "%s %s set aside as %s/checkpoints/*%s: the first "
                           "checkpoint of this run removes %s",
                           SL_PLURAL(n, "newer checkpoint"), n == 1 ? "is" : "are",
                           job->rundir.path, SL_CHECKPOINT_ABANDONED, n == 1 ? "it" : "them");
}

static int open_files(struct sl_job *job)
{
    SL_TRY(sl_run_files_open(&job->files));
    struct sl_writer *writer = job->files.writer;
    SL_TRY(sl_tensorboard_open(&job->tensorboard, writer, job->rundir.path));
    cJSON *config = cJSON_Parse(job->config_json);
    sl_tensorboard_begin_run(&job->tensorboard, config, job->params.n);
    cJSON_Delete(config);
    SL_TRY(sl_stream_open(&job->log.stream, writer, job->rundir.log));
    for (uint32_t i = 0; i < job->workers.n; i++)
        SL_TRY(sl_stream_open(&job->workers.list[i].log, writer, job->rundir.log));
    return SL_OK;
}

static int begin(struct sl_job *job)
{
    if (!job->options.no_output && !sl_job_follows(job)) {
        SL_TRY(make_rundir(job));
        SL_TRY(open_files(job));
    }
    SL_TRY(sl_job_nodes_begin(job));
    emit_abandoned(job);
    return SL_OK;
}

// "1 sampler and 3 trainers, ready after 0.21 s: why"
static void emit_start(struct sl_job *job)
{
    char where[128] = "";
    const cJSON *last =
        job->report.allocations->child ? job->report.allocations->child->prev : NULL;
    const char *why = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(last, "reason"));
    if (job->resumed.path[0]) {
        snprintf(where, sizeof where, "goes on from ");
        sl_resume_text(&job->resumed, where + strlen(where), sizeof where - strlen(where));
        snprintf(where + strlen(where), sizeof where - strlen(where), ": ");
    }
    sl_timeline_emit(&job->timeline, "start", true, "%s%s and %s, ready after %.2f s: %s", where,
                     SL_PLURAL(job->split.roles.samplers, "sampler"),
                     SL_PLURAL(job->split.roles.trainers, "trainer"),
                     (double)(job->running_ns - job->start_ns) * 1e-9,
                     why ? why : "as the job says");
}

// What the labels do not define, and what makes links easier than they are; once.
static void emit_undefined(struct sl_job *job)
{
    for (int s = 0; s < SL_SPLIT_COUNT; s++) {
        if (*job->judging.warning[s])
            sl_job_warn(job, job->judging.warning[s]);
        if (*job->judging.leak[s])
            sl_job_warn(job, job->judging.leak[s]);
    }
}

// Every worker that is wanted is ready: the scouts, or all.
static int start_work(struct sl_job *job)
{
    if (job->foresight.busy)
        return SL_OK;
    if (!job->split.chosen)
        SL_TRY(sl_split_choose_first(&job->split));
    else if (job->config.memory_bytes)
        SL_TRY(sl_split_check_budgets(&job->split, job->split.roles));
    for (int kind = 0; kind < SL_PEER_MEMORY_PLANNED; kind++)
        job->split.store.curve[kind] =
            sl_access_forecast_curve(&job->foresight, (enum sl_peer_memory_kind)kind);
    if (sl_store_may_share(&job->config, SL_PEER_MEMORY_GRAPH))
        sl_store_find_rates(&job->config, &sl_gpus_known()->report, &job->split.store.rates);
    // Caches are given out now that a step's memory is known; what is missing is started.
    sl_split_assign_caches(&job->split);
    SL_TRY(sl_split_assign(&job->split));
    if (!all(job, is_ready) || !sl_split_is_assigned(&job->split) || !sl_job_nodes_may_begin(job))
        return SL_OK;
    uint64_t ready_ns = sl_now_ns();
    // Workers draw and train while the disk takes what begins the run directory.
    sl_phases_start(&job->phases);
    if (job->state != SL_JOB_STARTING)
        return SL_OK; // its work could not be laid out, which has been told
    SL_TRY(begin(job));
    job->state = SL_JOB_RUNNING;
    sl_split_run(&job->split);
    job->running_ns = ready_ns;
    sl_joblog_write(&job->log, SL_LOG_INFO, "all workers are ready after %.3f s",
                    (double)(job->running_ns - job->start_ns) * 1e-9);
    sl_job_sample_memory(job);
    emit_start(job);
    emit_undefined(job);
    sl_job_tell_graph(job);
    sl_trainer_group_form(&job->group); // it stands since the last Ready; now clients listen
    return SL_OK;
}

// Takes the next step of the start once all wanted workers have come so far.
void sl_job_go_on(struct sl_job *job)
{
    int rc = SL_OK;
    if (job->state != SL_JOB_STARTING || !job->workers_placed)
        return;
    if (!job->arena.base && all(job, is_greeted) && !job->row_work.busy)
        rc = attach_all(job);
    else if (job->arena.base && all(job, is_ready))
        rc = start_work(job);
    if (rc < 0)
        sl_job_end(job, SL_OUTCOME_REFUSED, "%s", sl_error_message());
}

void sl_job_on_ready(struct sl_job *job, const struct sl_bus_peer *peer,
                     const Sl__Control__Ready *ready)
{
    struct sl_pool_worker *w = sl_worker_pool_by_peer(&job->workers, peer);
    if (!w || !w->alive)
        return;
    w->ready = true;
    sl_crash_log_on_ready(&job->deaths, w);
    if (!w->external)
        sl_split_on_ready(&job->split, w, ready);
    if (job->state == SL_JOB_RUNNING)
        sl_split_poll(&job->split);
    sl_job_go_on(job);
}

void sl_job_check_start(struct sl_job *job)
{
    sl_job_go_on(job); // a worker that was waited for may not be wanted any more
    if (job->state != SL_JOB_STARTING)
        return;
    const uint64_t from = SL_MAX(job->start_ns, job->row_work.done_ns);
    if (job->row_work.busy || sl_now_ns() - from < SL_WORKER_START_SECONDS * 1000000000ull)
        return;
    sl_job_nodes_check_start(job);
    for (uint32_t i = 0; i < job->workers.n; i++) {
        const struct sl_pool_worker *w = &job->workers.list[i];
        // Without an arena the workers that have loaded wait for those that have not.
        if (!w->wanted || (job->arena.base ? is_ready(w) : is_greeted(w)))
            continue;
        sl_job_end(job, SL_OUTCOME_FAILED, "%s was not ready within %d s", w->name,
                   SL_WORKER_START_SECONDS);
        return;
    }
    if (!sl_job_nodes_may_begin(job))
        sl_job_end(job, SL_OUTCOME_FAILED, "the other nodes were not ready within %d s",
                   SL_WORKER_START_SECONDS);
}
