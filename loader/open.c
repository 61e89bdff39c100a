// open.c - opens and closes a loader: its job, its seat, its data set.
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "broker/workers/run_jobs.h"
#include "common/arena/arena.h"
#include "common/arena/seat.h"
#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/threads.h"
#include "common/bus/attach.h"
#include "loader/loader.h"

enum { START_MS = 120000, LOOK_MS = 2 };

// What the library has to say it says as errors, and the job in its log.
static void drop_line(int level, const char *text)
{
    (void)level;
    (void)text;
}

static void be_silent(void)
{
    sl_log_set_sink(drop_line);
}

void sl_loader_be_silent(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, be_silent);
}

// --- the seat ------------------------------------------------------------------------------------

static void pause_a_moment(void)
{
    const struct timespec moment = {.tv_nsec = LOOK_MS * 1000000};
    nanosleep(&moment, NULL);
}

static uint32_t left_ms(uint64_t until_ns)
{
    const uint64_t now = sl_now_ns();
    return now < until_ns ? (uint32_t)((until_ns - now) / 1000000 + 1) : 0;
}

// Whether the caller still waits.
static int ask_caller(void *ctx)
{
    const struct sluice_options *o = ctx;
    return o->on_wait && o->on_wait(o->context)
               ? sl_fail(SL_EABORTED, "sluice_open: options.on_wait said that nobody waits")
               : SL_OK;
}

// Asks until the broker, which has just been started, listens.
static int take_seat(struct sluice_loader *l, const char *path, const struct sluice_options *o,
                     uint64_t until_ns)
{
    for (;;) {
        const struct sl_attach_spec spec = {
            .path = path, .rank = o->rank, .timeout_ms = SL_MAX(left_ms(until_ns), 1u)};
        const int rc = sl_attach(&spec, &l->worker);
        l->attached = true;
        if (rc != SL_ENOENT || !l->own.launch.pid)
            return rc;
        sl_worker_fini(&l->worker);
        l->attached = false;
        SL_TRY(sl_own_job_check(&l->own));
        SL_TRY(ask_caller((void *)o));
        if (left_ms(until_ns) == 0)
            return sl_fail(SL_ETIMEDOUT, "the job's broker (process %d) has not begun in time",
                           (int)l->broker);
        pause_a_moment();
    }
}

// --- the job -------------------------------------------------------------------------------------

static int start_own(struct sluice_loader *l, const struct sluice_options *o, uint64_t until_ns)
{
    const struct sl_own_job_spec spec = {
        .text = o->job, .origin = o->origin ? o->origin : "job", .programs = o->programs};
    SL_TRY(sl_own_job_start(&l->own, &spec));
    l->broker = l->own.launch.pid;
    snprintf(l->output, sizeof l->output, "%s", l->own.output);
    return take_seat(l, l->own.launch.attach, o, until_ns);
}

static int attach_to_running(struct sluice_loader *l, const struct sluice_options *o,
                             uint64_t until_ns)
{
    char path[SL_ATTACH_PATH_BYTES];
    struct sl_run_job found;
    SL_TRY(sl_run_jobs_find_one(o->attach, &found));
    l->broker = found.pid;
    snprintf(l->output, sizeof l->output, "%s", found.output);
    const int rc = take_seat(l, sl_attach_path(found.endpoint, path), o, until_ns);
    if (rc == SL_ENOENT)
        return sl_fail(rc,
                       "job '%s' (process %d) lends no batches: wanted one with model.kind "
                       "\"external\"",
                       found.name, (int)found.pid);
    return rc;
}

// --- what is read --------------------------------------------------------------------------------

static int open_reader(struct sluice_loader *l, enum sl_thread thread, uint32_t depth,
                       struct sl_reading *out)
{
    const struct sl_reading_spec spec = {.dataset = &l->dataset,
                                         .pulse = {.arena = &l->worker.arena,
                                                   .stop = &l->worker.stop,
                                                   .slot = l->worker.stats,
                                                   .thread = thread},
                                         .drive = sl_features_kinds[l->config.store.features].drive,
                                         .depth = depth,
                                         .arena = &l->worker.arena,
                                         .worker = l->worker.id};
    return sl_reading_open(out, &spec);
}

// Rows are gathered ahead where the seat's device is, and in this process's memory otherwise.
static int open_compute(struct sluice_loader *l)
{
    const struct sl_device_config *device = &l->config.devices[l->worker.device];
    l->compute = (struct sl_compute){
        .device = sl_device_host(), .kernels = sl_kernels_rows(), .host = sl_kernels_rows()};
    // Pairs of half precision are moved as one number.
    if (!sl_rows_any(&l->dataset) ||
        (l->dataset.feat_dtype == SL_DTYPE_F16 && l->dataset.feat_dim % 2))
        l->prefetch = false;
    if (!l->prefetch || device->kind != SL_DEVICE_CUDA)
        return SL_OK;
    return sl_kernels_open_gpu(device->index, device->memory_bytes, &l->compute.device,
                               &l->compute.kernels);
}

static int place_features(struct sluice_loader *l)
{
    struct sl_worker *w = &l->worker;
    const struct sl_store_plan plan = {
        .way = (enum sl_store_way)w->arena.h->spec.store_way,
        .pins = l->access.part[0] != NULL,
        .fd = w->fd.shared[SL_SHARED_FEATURES],
        .threads = (int)SL_MAX(l->config.devices[w->device].n_cores, 1u),
        .stops = &w->stop,
    };
    struct sl_seat *seat = sl_seat(&w->arena, sl_seat_trainer(&w->arena, w->device));
    return sl_gather_place(&l->gather, seat, &l->dataset, &plan);
}

static int open_features(struct sluice_loader *l)
{
    const bool reads = sl_features_kinds[l->config.store.features].reads;
    sl_arena_access_open(&l->access, l->compute.device, &l->worker.arena);
    sl_gather_init(&l->gather, &l->compute, &l->dataset,
                   reads ? SL_GATHER_STAGED : SL_GATHER_FASTER);
    l->gather.half = l->dataset.typed.n_types ||
                     (l->dataset.feat_dtype == SL_DTYPE_F16 && l->dataset.feat_dim % 2 == 0);
    if (!l->compute.device->is_host)
        SL_TRY(place_features(l));
    if (!reads)
        return SL_OK;
    const struct sl_row_cache rows = sl_arena_rows(&l->worker.arena);
    SL_TRY(open_reader(l, SL_THREAD_EXTRACT, atomic_load(&rows.head->depth), &l->extracts));
    l->gather.source.reader = &l->extracts;
    l->gather.source.shared = rows;
    struct sl_row_profile f = {0};
    if (l->extracts.drive)
        f = sl_row_reader_profile(l->extracts.drive);
    return open_reader(l, SL_THREAD_FETCH, f.depth, &l->fetches);
}

static struct sl_block_shape shape_of(const struct sluice_loader *l)
{
    const bool links = sl_config_is_links(&l->config);
    return (struct sl_block_shape){.n_hops = sl_config_block_hops(&l->config),
                                   .n_targets = links ? l->config.task.per_positive
                                                      : sl_block_targets(&l->dataset),
                                   .has_pairs = links,
                                   .n_types = l->dataset.typed.n_types};
}

static int begin(struct sluice_loader *l)
{
    struct sl_worker *w = &l->worker;
    Sl__Control__Hello hello = SL__CONTROL__HELLO__INIT;
    SL_TRY(sl_config_parse(w->told.job, w->told.job_bytes, "the job", &l->config));
    const struct sl_device_config *device = &l->config.devices[w->device];
    const int threads = SL_MIN((int)SL_MAX(device->n_cores, 1u), sl_threads_default());
    sl_kernels_set_threads(threads);
    SL_TRY(sl_dataset_open_recorded(l->config.dataset, SL_TAKES_SHARD, w->told.record, threads,
                                    &l->dataset));
    SL_TRY(sl_config_choose_items(&l->config, &l->dataset));
    SL_TRY(sl_config_find_relations(&l->config, &l->dataset.typed));
    SL_TRY(sl_schema_init(&l->schema, &l->dataset.typed, &l->config));
    SL_TRY(open_compute(l));
    SL_TRY(sl_worker_attach(w, &hello));
    SL_TRY(open_features(l));
    const bool reads = sl_features_kinds[l->config.store.features].reads;
    const struct sl_lending_spec lending = {
        .arena = &w->arena,
        .worker = w->id,
        .device = w->device,
        .rank = w->role_index,
        .dataset = &l->dataset,
        .compute = l->compute,
        .gather = &l->gather,
        .fetches = reads ? &l->fetches : NULL,
        .on_gpu = sl_config_on_gpu(&l->config, w->device),
        .shape = shape_of(l),
        .ahead = l->prefetch,
        .arrays = l->arrays,
        .early = l->early && l->compute.device->is_host,
        .stop = &w->stop,
        .stats = w->stats,
    };
    SL_TRY(sl_lending_init(&l->lending, &lending));
    return sl_worker_ready(w);
}

// --- open ----------------------------------------------------------------------------------------

static int check_options(const struct sluice_options *given, struct sluice_options *o)
{
    // What the first version had.
    const size_t least = offsetof(struct sluice_options, programs) + sizeof o->programs;
    if (!given)
        return sl_fail(SL_EINVAL, "sluice_open: found no options, wanted struct sluice_options");
    if (given->size < least)
        return sl_fail(
            SL_EINVAL,
            "sluice_open: options.size: found %zu, wanted sizeof(struct sluice_options), "
            "%zu here",
            given->size, sizeof *o);
    memset(o, 0, sizeof *o);
    memcpy(o, given, SL_MIN(given->size, sizeof *o));
    if (!o->job == !o->attach)
        return sl_fail(SL_EINVAL,
                       "sluice_open: found %s, wanted either of options.job (a job to "
                       "start) and options.attach (one that runs)",
                       o->job ? "both" : "neither");
    if (o->rank < -1)
        return sl_fail(SL_EINVAL, "sluice_open: options.rank: found %d, wanted one from 0, or -1",
                       o->rank);
    if (o->prefetch > 1)
        return sl_fail(SL_EINVAL, "sluice_open: options.prefetch: found %u, wanted 0 or 1",
                       o->prefetch);
    if (o->arrays > 2)
        return sl_fail(SL_EINVAL, "sluice_open: options.arrays: found %u, wanted 0 to 2",
                       o->arrays);
    return SL_OK;
}

static void close_all(struct sluice_loader *l)
{
    sl_lending_fini(&l->lending);
    sl_reading_close(&l->extracts);
    sl_reading_close(&l->fetches);
    sl_arena_access_close(&l->access);
    sl_gather_fini(&l->gather);
    sl_schema_fini(&l->schema);
    sl_config_forget_relations(&l->config);
    sl_dataset_close(&l->dataset);
    if (l->attached)
        sl_worker_fini(&l->worker);
    if (l->own.launch.pid || l->own.bus)
        sl_own_job_stop(&l->own);
    free(l);
}

static int open_loader(struct sluice_loader *l, const struct sluice_options *o)
{
    const uint64_t start_ns = o->start_timeout_ms ? o->start_timeout_ms : START_MS;
    const uint64_t until_ns = sl_now_ns() + start_ns * 1000000;
    SL_TRY(o->job ? start_own(l, o, until_ns) : attach_to_running(l, o, until_ns));
    l->worker.on_wait = ask_caller;
    l->worker.ctx = (void *)o;
    int rc = begin(l);
    l->worker.on_wait = NULL;
    // The job's own words are better than that the connection ended.
    if (rc < 0 && rc != SL_ETIMEDOUT && l->own.launch.pid)
        rc = SL_MIN(sl_own_job_check(&l->own), rc);
    return rc;
}

int sluice_open(const struct sluice_options *options, sluice_loader **out)
{
    struct sluice_options o;
    sl_loader_be_silent();
    if (out)
        *out = NULL;
    SL_TRY(check_options(options, &o));
    if (!out)
        return sl_fail(SL_EINVAL, "sluice_open: found no place for the loader");
    struct sluice_loader *l = calloc(1, sizeof *l);
    if (!l)
        return sl_fail(SL_ENOMEM, "sluice_open: no memory");
    l->pid = getpid();
    l->prefetch = o.prefetch;
    l->arrays = o.arrays;
    l->early = l->prefetch && o.arrays == 2;
    l->own.log_fd = l->own.launch.pidfd = -1;
    const int rc = open_loader(l, &o);
    if (rc < 0) {
        char why[2048];
        snprintf(why, sizeof why, "%s", sl_error_message());
        close_all(l);
        return sl_fail(rc, "%s", why);
    }
    *out = l;
    return SL_OK;
}

void sluice_close(sluice_loader *l)
{
    if (!l || l->pid != getpid()) // of a child it is the parent's
        return;
    close_all(l);
}
