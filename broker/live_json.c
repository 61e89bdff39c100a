// live_json.c - the line that is told: schema sluice.stats/1 (broker/README.md).
#include <math.h>
#include <string.h>
#include <time.h>

#include "broker/job.h"
#include "broker/live_bottleneck.h"
#include "broker/live_internal.h"
#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/ipc/board.h"
#include "common/ipc/group.h"
#include "common/ipc/seat.h"

enum { LOAD_SECONDS_MAX = 5 }; // how old a GPU's load may be

// What the parts of a line are made from.
struct facts {
    struct sl_job *job;
    struct sl_living *l;
    const struct sl_live_look *from, *to; // NULL: nothing to compare
    double seconds;                       // between the two
    double look;                          // between two looks, on average
    bool there;                           // the arena is, and its words may be read
    struct sl_phases_view view;
    bool trains;               // and does nothing else
    bool rests[SL_LIVE_SEATS]; // while the job is paused: the worker in this seat has come to rest
};

static double positive(double x)
{
    return x > 0 ? x : NAN; // 0 = not known
}

// null for 0
static void add_known(struct sl_json_writer *w, const char *key, uint64_t value)
{
    if (value)
        sl_json_add_whole(w, key, value);
    else
        sl_json_add_null(w, key);
}

static double share(double part, double whole)
{
    return whole > 0 ? SL_MIN(SL_MAX(part / whole, 0), 1) : 0;
}

// --- seats ---------------------------------------------------------------------------------------

// What a seat did in the window.
struct work {
    double seconds;               // that somebody sat there awake
    double stage[SL_STAGE_COUNT]; // seconds
    double busy, wait, blocked;   // seconds
    uint64_t batches, edges, bytes;
    bool asleep;
    uint32_t seats; // of a sum
};

// What the shares of a line are of.
struct roles {
    struct work samplers, normal, standby;
};

// Trainers' shares are of the normal ones, as in figures.c: a standby trainer waits for what is
// left over. Where there are only standby trainers they are meant.
static const struct work *trainers_of(const struct roles *r, const struct sl_job *job)
{
    return job->split.trainers > 0 ? &r->normal : &r->standby;
}

static bool is_standby(const struct sl_job *job, const struct sl_member *m)
{
    return m->role == SL_ROLE_TRAINER && sl_job_duty(job, m->role, m->device) == SL_DUTY_STANDBY;
}

static struct work work_of(const struct facts *f, const struct sl_member *m)
{
    struct work w = {0};
    if (!f->from)
        return w;
    const struct sl_live_seat_sums *a = &f->from->seat[m->slot], *b = &f->to->seat[m->slot];
    uint32_t looks = b->looks - a->looks, asleep = b->asleep - a->asleep;
    w.seconds = (looks - SL_MIN(asleep, looks)) * f->look;
    w.blocked = (b->blocked - a->blocked) * f->look;
    w.batches = b->batches - a->batches;
    w.edges = b->edges - a->edges;
    w.bytes = b->bytes - a->bytes;
    for (int i = 0; i < SL_STAGE_COUNT; i++)
        w.stage[i] = (double)(b->stage_ns[i] - a->stage_ns[i]) * 1e-9;
    bool samples = m->role == SL_ROLE_SAMPLER;
    double held = (b->held - a->held) * f->look;
    // One batch for longer than the window: all that is known is who has it in hand.
    enum sl_stage main = samples ? SL_STAGE_SAMPLE : f->trains ? SL_STAGE_TRAIN : SL_STAGE_EVALUATE;
    if (w.batches == 0)
        w.stage[main] = SL_MAX(held - w.blocked, 0);
    w.busy = samples ? w.stage[SL_STAGE_SAMPLE] + w.stage[SL_STAGE_MARK] + w.stage[SL_STAGE_COPY]
                     : w.stage[SL_STAGE_TRAIN] + w.stage[SL_STAGE_EVALUATE];
    w.busy = SL_MIN(w.busy, w.seconds);
    double idle = w.seconds - w.busy;
    w.wait = w.batches == 0 ? idle : SL_MIN(SL_MAX(w.stage[SL_STAGE_WAIT], w.blocked), idle);
    w.asleep = asleep > 0 && 2 * asleep > looks;
    return w;
}

// Sums of all seats of a role; `seats` those that were awake at all.
static struct work work_of_role(const struct facts *f, enum sl_role role, bool standby)
{
    struct work all = {0};
    for (uint32_t i = 0; i < f->job->crew.n; i++) {
        const struct sl_member *m = &f->job->crew.members[i];
        if (m->role != role || is_standby(f->job, m) != standby)
            continue;
        struct work w = work_of(f, m);
        all.seats += w.seconds > 0;
        all.seconds += w.seconds;
        for (int k = 0; k < SL_STAGE_COUNT; k++)
            all.stage[k] += w.stage[k];
        all.busy += w.busy;
        all.wait += w.wait;
        all.blocked += w.blocked;
    }
    return all;
}

static bool is_told(const struct sl_member *m)
{
    return m->wanted || m->alive;
}

static const char *role_text(const struct sl_job *job, const struct sl_member *m)
{
    return is_standby(job, m) ? "standby" : sl_role_name(m->role);
}

static uint32_t activity_of(const struct facts *f, const struct sl_member *m)
{
    return f->there ? atomic_load(&sl_seat(&f->job->arena, m->slot)->activity) : SL_ACTIVITY_NONE;
}

// Whether what a worker of a paused job has in hand stays as it is until the job goes on. By the
// ledger and the worker's own word as they are now, not as the last look found them.
static bool rests(const struct facts *f, const struct sl_member *m)
{
    const struct sl_arena *a = &f->job->arena;
    struct sl_worker_figures now;
    uint64_t seq;
    uint32_t cell;
    if (activity_of(f, m) == SL_ACTIVITY_BLOCKED)
        return true;
    if (sl_ledger_works(a, m->worker) || !sl_stats_read(sl_stats_slot(a, m->slot), &now))
        return false;
    if (now.current_tag == 0 || now.worker != m->worker)
        return true;
    // Trained, but not yet let go of: perhaps the update is being applied.
    sl_ledger_locate(now.current_tag, &seq, &cell);
    return sl_cell_is_leased(sl_ledger_word(a, seq, cell));
}

static const char *state_text(const struct facts *f, const struct sl_member *m)
{
    const struct sl_live_seat *seat = &f->l->seat[m->slot];
    uint32_t activity = activity_of(f, m);
    if (!m->alive)
        return "gone";
    if (!m->ready)
        return "starting";
    if (f->job->paused)
        return f->rests[m->slot] ? "paused" : "working";
    if (activity == SL_ACTIVITY_BLOCKED)
        return "blocked";
    if (seat->held)
        return "working";
    return activity == SL_ACTIVITY_ASLEEP ? "asleep" : "waiting";
}

// "batch 17 of epoch 3", for people, whose epochs count from 1: what a worker has in hand. False
// when it is nothing that is known.
static bool batch_text(const struct facts *f, const struct sl_member *m, char *out, size_t bytes)
{
    struct sl_phases *p = &f->job->phases;
    const struct sl_live_seat *seat = &f->l->seat[m->slot];
    uint64_t seq;
    uint32_t cell;
    if (!f->there || !seat->held || !m->alive)
        return false;
    sl_ledger_locate(seat->last.current_tag, &seq, &cell);
    for (uint32_t i = 0; i < p->n_open; i++) {
        const struct sl_open_phase *o = sl_phases_at(p, i);
        if (o->seq != seq)
            continue;
        const char *what = o->spec.kind == SL_PHASE_INFER  ? "inference chunk"
                           : o->spec.kind == SL_PHASE_EVAL ? "evaluation batch"
                                                           : "batch";
        snprintf(out, bytes, "%s %u of epoch %u", what, cell, o->spec.epoch + 1);
        return true;
    }
    return false;
}

// How often the threads of the worker in this seat have come round (common/ipc/pulse.h).
static uint64_t rounds_of(const struct facts *f, const struct sl_member *m)
{
    const struct sl_worker_slot *slot = sl_stats_slot(&f->job->arena, m->slot);
    uint64_t rounds = 0;
    for (int i = 0; i < SL_THREAD_COUNT; i++)
        rounds += atomic_load_explicit(&slot->words.beats[i], memory_order_relaxed);
    return rounds;
}

static void add_worker(const struct facts *f, const struct sl_member *m, struct sl_json_writer *w)
{
    struct work k = work_of(f, m);
    char batch[96];
    sl_json_open_object(w, NULL);
    sl_json_add_string(w, "name", m->name);
    sl_json_add_string(w, "role", role_text(f->job, m));
    sl_json_add_whole(w, "device", m->device);
    if (m->alive)
        sl_json_add_whole(w, "pid", (uint64_t)m->pid);
    else
        sl_json_add_null(w, "pid");
    sl_json_add_string(w, "state", state_text(f, m));
    sl_json_add_string(w, "batch", batch_text(f, m, batch, sizeof batch) ? batch : NULL);
    sl_json_add_real(w, "busy", share(k.busy, k.seconds));
    sl_json_add_real(w, "wait", share(k.wait, k.seconds));
    sl_json_add_whole(w, "batches", f->l->seat[m->slot].sums.batches);
    sl_json_add_real(w, "batches_per_second", f->from ? (double)k.batches / f->seconds : 0);
    sl_json_add_real(w, "edges_per_second", f->from ? (double)k.edges / f->seconds : 0);
    sl_json_add_real(w, "bytes_per_second", f->from ? (double)k.bytes / f->seconds : 0);
    sl_json_add_whole(w, "rounds", f->there ? rounds_of(f, m) : 0);
    sl_json_add_whole(w, "restarts", f->job->deaths[m->slot].n);
    sl_json_add_whole(w, "memory", m->alive ? f->job->member_bytes[m->slot] : 0);
    sl_json_close_object(w);
}

// Of a GPU: what this job's workers hold through one device, and what is in use and there in all;
// and its load, as it was said last.
struct gpu_figures {
    uint64_t held, used, total;
    uint64_t load_at_ns; // 0: it was not
    double busy, memory_busy;
};

// As the worker said last; its own memory is free again once it is gone.
static void add_gpu_figures(struct gpu_figures *to, const struct sl_member *m,
                            const struct sl_worker_figures *said)
{
    if (!m->alive)
        return;
    if (said->device_load_at_ns > to->load_at_ns) {
        to->load_at_ns = said->device_load_at_ns;
        to->busy = said->device_busy;
        to->memory_busy = said->device_memory_busy;
    }
    to->held += said->device_held_bytes;
    to->used = SL_MAX(to->used, said->device_used_bytes);
    to->total = SL_MAX(to->total, said->device_total_bytes);
}

// A load is of some second: of one that is long over it says nothing. A worker asks once a second,
// but for one that is in the middle of a long batch or stands still.
static void add_gpu_load(const struct gpu_figures *gpu, struct sl_json_writer *w)
{
    const uint64_t now = sl_now_ns(), limit = LOAD_SECONDS_MAX * 1000000000ull;
    bool known = gpu->load_at_ns && now - SL_MIN(gpu->load_at_ns, now) <= limit;
    sl_json_add_real(w, "gpu_load", known ? gpu->busy : NAN);
    sl_json_add_real(w, "gpu_memory_load", known ? gpu->memory_busy : NAN);
}

static void add_device(const struct facts *f, uint32_t d, struct sl_json_writer *w)
{
    const struct sl_job *job = f->job;
    const struct sl_device_config *device = &job->config.devices[d];
    char name[64], cores[8 * SL_CONFIG_MAX_CORES];
    struct gpu_figures gpu = {0};
    uint64_t memory = 0;
    double load = 0;
    size_t at = 0;
    cores[0] = '\0';
    for (uint32_t i = 0; i < device->n_cores && at < sizeof cores; i++)
        at +=
            (size_t)snprintf(cores + at, sizeof cores - at, "%s%u", i ? "," : "", device->cores[i]);
    snprintf(name, sizeof name, "%s %u", sl_device_kind_name(device->kind), d);
    sl_json_open_object(w, NULL);
    sl_json_add_whole(w, "index", d);
    sl_json_add_string(w, "kind", sl_device_kind_name(device->kind));
    sl_json_add_string(w, "name", name);
    sl_json_add_string(w, "cores", cores);
    if (device->kind == SL_DEVICE_CUDA)
        sl_json_add_whole(w, "gpu", device->index);
    else
        sl_json_add_null(w, "gpu");
    sl_json_open_array(w, "roles");
    for (uint32_t i = 0; i < job->crew.n; i++) {
        const struct sl_member *m = &job->crew.members[i];
        if (m->device != d || !is_told(m))
            continue;
        sl_json_add_string(w, NULL, role_text(job, m));
        memory += m->alive ? job->member_bytes[m->slot] : 0;
        add_gpu_figures(&gpu, m, &f->l->seat[m->slot].last);
        load += f->l->process[m->slot].load;
    }
    sl_json_close_array(w);
    sl_json_add_whole(w, "memory_used", device->kind == SL_DEVICE_CUDA ? gpu.held : memory);
    add_known(w, "memory_budget", device->memory_bytes);
    add_known(w, "gpu_memory_used", gpu.used);
    add_known(w, "gpu_memory_total", gpu.total);
    sl_json_add_real(w, "cpu_load", device->n_cores ? load / device->n_cores : 0);
    add_gpu_load(&gpu, w);
    sl_json_close_object(w);
}

static bool is_used(const struct sl_job *job, uint32_t device)
{
    for (uint32_t i = 0; i < job->crew.n; i++)
        if (job->crew.members[i].device == device && is_told(&job->crew.members[i]))
            return true;
    return false;
}

static void add_devices(const struct facts *f, const char *key, struct sl_json_writer *w)
{
    sl_json_open_array(w, key);
    for (uint32_t d = 0; d < f->job->config.n_devices; d++)
        if (!f->job->pool.n || is_used(f->job, d)) // of a pool, devices are places for workers
            add_device(f, d, w);
    sl_json_close_array(w);
}

// --- stages --------------------------------------------------------------------------------------

static void add_stage(const struct facts *f, enum sl_live_stage stage, const char *key, double busy,
                      struct sl_json_writer *w)
{
    const struct sl_live_times *t = &f->l->times[stage];
    uint64_t n = f->from ? f->to->sums.count[stage] - f->from->sums.count[stage] : 0;
    sl_json_open_object(w, key);
    sl_json_add_real(w, "busy", busy);
    sl_json_add_whole(w, "count", t->count);
    sl_json_add_real(w, "seconds", (double)t->ns * 1e-9);
    sl_json_add_real(w, "per_second", f->from ? (double)n / f->seconds : 0);
    sl_json_add_real(w, "p50", sl_live_percentile(f->l, &t->ring, 50));
    sl_json_add_real(w, "p99", sl_live_percentile(f->l, &t->ring, 99));
    sl_json_close_object(w);
}

static void add_stages(const struct facts *f, const struct roles *r, struct sl_json_writer *w)
{
    const struct work *s = &r->samplers, *t = trainers_of(r, f->job);
    sl_json_open_object(w, "stages");
    add_stage(f, SL_LIVE_SAMPLE, "sample", share(s->stage[SL_STAGE_SAMPLE], s->seconds), w);
    add_stage(f, SL_LIVE_MARK, "mark", share(s->stage[SL_STAGE_MARK], s->seconds), w);
    add_stage(f, SL_LIVE_COPY, "copy", share(s->stage[SL_STAGE_COPY], s->seconds), w);
    add_stage(f, SL_LIVE_EXTRACT, "extract", share(t->stage[SL_STAGE_EXTRACT], t->seconds), w);
    add_stage(f, SL_LIVE_TRAIN, "train", share(t->stage[SL_STAGE_TRAIN], t->seconds), w);
    add_stage(f, SL_LIVE_EVALUATE, "evaluate", share(t->stage[SL_STAGE_EVALUATE], t->seconds), w);
    add_stage(f, SL_LIVE_WAIT, "wait", share(t->wait, t->seconds), w);
    add_stage(f, SL_LIVE_BACKPRESSURE, "backpressure", share(s->blocked, s->seconds), w);
    sl_json_close_object(w);
}

static void add_histogram(const struct facts *f, enum sl_live_stage stage, const char *key,
                          struct sl_json_writer *w)
{
    const struct sl_live_times *t = &f->l->times[stage];
    sl_json_open_object(w, key);
    sl_json_open_array(w, "counts");
    for (uint32_t i = 0; i < SL_LIVE_BUCKETS; i++)
        sl_json_add_whole(w, NULL, t->bucket[i]);
    sl_json_close_array(w);
    sl_json_add_real(w, "sum", (double)t->ns * 1e-9);
    sl_json_add_whole(w, "count", t->count);
    sl_json_close_object(w);
}

static void add_histograms(const struct facts *f, struct sl_json_writer *w)
{
    sl_json_open_object(w, "histograms");
    sl_json_open_array(w, "le");
    for (uint32_t i = 0; i < SL_LIVE_BUCKETS - 1; i++)
        sl_json_add_real(w, NULL, (double)sl_live_bounds_ns[i] * 1e-9);
    sl_json_close_array(w);
    add_histogram(f, SL_LIVE_SAMPLE, "sample", w);
    add_histogram(f, SL_LIVE_EXTRACT, "extract", w);
    add_histogram(f, SL_LIVE_TRAIN, "train", w);
    add_histogram(f, SL_LIVE_WAIT, "wait", w);
    sl_json_close_object(w);
}

// --- rates ---------------------------------------------------------------------------------------

// Of something that grows, in the window.
#define RATE(f_, field_)                                                                           \
    ((f_)->from ? (double)((f_)->to->field_ - (f_)->from->field_) / (f_)->seconds : 0)

static void add_rates(const struct facts *f, struct sl_json_writer *w)
{
    sl_json_open_object(w, "rates");
    sl_json_add_real(w, "batches", RATE(f, sums.batches));
    sl_json_add_real(w, "edges", RATE(f, sums.edges));
    sl_json_add_real(w, "input_nodes", RATE(f, sums.input_nodes));
    sl_json_add_real(w, "updates", RATE(f, version));
    sl_json_add_real(w, "seconds", f->from ? f->seconds : 0);
    sl_json_close_object(w);
    sl_json_open_object(w, "bytes");
    sl_json_add_real(w, "blocks", RATE(f, sums.block_bytes));
    sl_json_add_real(w, "features_cache", RATE(f, sums.hit_bytes));
    sl_json_add_real(w, "features_store", RATE(f, sums.miss_bytes));
    sl_json_close_object(w);
}

static void add_queue(const struct facts *f, struct sl_json_writer *w)
{
    struct sl_ledger_depth depth = {0};
    if (f->there)
        sl_ledger_depth(&f->job->arena, &depth);
    sl_json_open_object(w, "queue");
    sl_json_add_whole(w, "batches", depth.batches[SL_CELL_READY]);
    sl_json_add_whole(w, "bytes", depth.ready_bytes);
    sl_json_add_whole(w, "capacity_bytes", f->there ? f->job->arena.h->spec.payload_bytes : 0);
    sl_json_add_whole(w, "used_bytes", depth.payload_bytes);
    sl_json_add_whole(w, "sampling", depth.batches[SL_CELL_SAMPLING]);
    sl_json_add_whole(w, "training", depth.batches[SL_CELL_TRAINING] + depth.batches[SL_CELL_HELD]);
    sl_json_close_object(w);
}

static double hit_rate(uint64_t hits, uint64_t misses)
{
    return hits + misses ? (double)hits / (double)(hits + misses) : NAN;
}

static void add_cache(const struct facts *f, struct sl_json_writer *w)
{
    const struct sl_job *job = f->job;
    bool has = sl_cache_keeps(job->config.cache.policy);
    const struct sl_live_sums *s = &f->l->sums;
    sl_json_open_object(w, "cache");
    sl_json_add_string(w, "policy", sl_cache_words[job->config.cache.policy]);
    sl_json_add_bool(w, "ranked", f->there && job->phases.ranked);
    if (has && f->from)
        sl_json_add_real(w, "hit_rate",
                         hit_rate(f->to->sums.hits - f->from->sums.hits,
                                  f->to->sums.misses - f->from->sums.misses));
    else
        sl_json_add_null(w, "hit_rate");
    sl_json_add_real(w, "hit_rate_total", has ? hit_rate(s->hits, s->misses) : NAN);
    sl_json_close_object(w);
}

static void add_updates(const struct facts *f, struct sl_json_writer *w)
{
    bool async = f->job->config.updates.mode == SL_UPDATE_ASYNC;
    double mean = NAN, most = NAN;
    if (async && f->from && f->to->sums.trained > f->from->sums.trained) {
        mean = (double)(f->to->sums.stale - f->from->sums.stale) /
               (double)(f->to->sums.trained - f->from->sums.trained);
        most = 0;
        for (uint64_t i = 0; i < SL_MIN(f->l->n_looks, (uint64_t)SL_LIVE_LOOKS); i++)
            most = SL_MAX(most, (double)f->l->looks[i].staleness_max);
    }
    sl_json_open_object(w, "updates");
    sl_json_add_string(w, "mode", async ? "async" : "ordered");
    sl_json_add_whole(w, "version", f->there ? sl_board_version(&f->job->arena) : 0);
    sl_json_add_real(w, "staleness_mean", mean);
    sl_json_add_real(w, "staleness_max", most);
    sl_json_add_string(w, "exchange", sl_exchange_kind_name(f->job->config.updates.exchange));
    if (f->job->config.updates.exchange == SL_EXCHANGE_NCCL) {
        sl_json_open_object(w, "group");
        sl_json_add_whole(w, "members", f->job->group.n);
        sl_json_add_whole(w, "generation", f->job->group.generation);
        sl_json_close_object(w);
    } else {
        sl_json_add_null(w, "group");
    }
    sl_json_close_object(w);
}

static void add_totals(const struct facts *f, struct sl_json_writer *w)
{
    const struct sl_job *job = f->job;
    const struct sl_live_sums *s = &f->l->sums;
    uint64_t switches = 0, restarts = 0;
    for (uint32_t i = 0; i < job->crew.n; i++) {
        restarts += job->deaths[i].n;
        switches += f->there ? atomic_load(&sl_seat(&job->arena, i)->switches) : 0;
    }
    sl_json_open_object(w, "totals");
    sl_json_add_whole(w, "batches", s->batches);
    sl_json_add_whole(w, "edges", s->edges);
    sl_json_add_whole(w, "input_nodes", s->input_nodes);
    sl_json_add_whole(w, "cache_hits", s->hits);
    sl_json_add_whole(w, "cache_misses", s->misses);
    sl_json_add_whole(w, "block_bytes", s->block_bytes);
    sl_json_add_whole(w, "hit_bytes", s->hit_bytes);
    sl_json_add_whole(w, "miss_bytes", s->miss_bytes);
    sl_json_add_whole(w, "updates",
                      f->there ? sl_board_version(&job->arena) - f->l->first_version : 0);
    sl_json_add_whole(w, "epochs", f->there ? job->phases.trained : 0);
    sl_json_add_whole(w, "switches", switches);
    sl_json_add_whole(w, "resampled", job->report.resampled + job->phases.resampled);
    sl_json_add_whole(w, "retrained", job->report.retrained + job->phases.retrained);
    sl_json_add_whole(w, "evicted", f->there ? atomic_load(&job->arena.h->evicted) : 0);
    sl_json_add_whole(w, "restarts", restarts);
    sl_json_add_whole(w, "checkpoints", job->saving.n_written);
    sl_json_close_object(w);
}

// --- the bottleneck ------------------------------------------------------------------------------

// Medians of the last batches; where there are none yet, what was measured before.
static struct sl_profile live_profile(const struct facts *f)
{
    struct sl_profile p = f->job->profile;
    double t_sample = sl_live_percentile(f->l, &f->l->sampling, 50);
    double t_train = sl_live_percentile(f->l, &f->l->training, 50);
    double t_standby = sl_live_percentile(f->l, &f->l->standing_by, 50);
    p.t_sample = isnan(t_sample) ? p.t_sample : t_sample;
    p.t_train = isnan(t_train) ? p.t_train : t_train;
    p.t_standby = isnan(t_standby) ? p.t_standby : t_standby;
    return p;
}

static void add_bottleneck(const struct facts *f, const struct roles *r, struct sl_json_writer *w)
{
    struct sl_job *job = f->job;
    const struct work *s = &r->samplers, *t = trainers_of(r, job);
    const struct sl_config *config = &job->config;
    bool async = config->updates.mode == SL_UPDATE_ASYNC;
    char text[SL_LIVE_SENTENCE_BYTES];
    struct sl_live_advice advice = {.has = false};
    const struct sl_live_shares shares = {
        .split = job->split,
        .preparing = strcmp(f->view.phase, "presample") == 0 || strcmp(f->view.phase, "rank") == 0,
        .standby = r->standby.seats,
        .sampling = share(s->busy, s->seconds),
        .blocked = share(s->blocked, s->seconds),
        .training = share(t->stage[SL_STAGE_TRAIN], t->seconds),
        .extracting = share(t->stage[SL_STAGE_EXTRACT], t->seconds),
        .waiting = share(t->wait, t->seconds),
        .evaluating = share(t->stage[SL_STAGE_EVALUATE], t->seconds),
        .queue = RATE(f, sums.queued_ns) * 1e-9,
        .async = async,
        .batches_per_update = config->updates.batches_per_update,
        .staleness = config->updates.staleness,
        .in_turn = config->updates.exchange != SL_EXCHANGE_BOARD,
    };
    struct sl_allocation_question q = sl_job_allocation_question(job, job->split, 0);
    q.profile = live_profile(f);
    enum sl_live_role role = SL_LIVE_NOBODY;
    if (job->state == SL_JOB_RUNNING && !job->paused) {
        sl_live_advise(&q, &advice);
        role = sl_live_name_bottleneck(&shares, &advice, text);
    } else {
        snprintf(text, sizeof text, "the job is %s", sl_job_state_name(job));
    }
    sl_json_open_object(w, "profile");
    sl_json_add_real(w, "t_sample", positive(q.profile.t_sample));
    sl_json_add_real(w, "t_train", positive(q.profile.t_train));
    sl_json_add_real(w, "t_standby", positive(q.profile.t_standby));
    sl_json_close_object(w);
    sl_json_add_string(w, "bottleneck", text);
    sl_json_add_string(w, "bottleneck_role", sl_live_role_name(role));
    if (!advice.has) {
        sl_json_add_null(w, "advice");
        return;
    }
    sl_json_open_object(w, "advice");
    sl_json_add_whole(w, "samplers", advice.to.samplers);
    sl_json_add_whole(w, "trainers", advice.to.trainers);
    sl_json_add_real(w, "epoch_seconds_now", advice.seconds_now);
    sl_json_add_real(w, "epoch_seconds_then", advice.seconds_then);
    sl_json_close_object(w);
}

// --- the line ------------------------------------------------------------------------------------

static void add_where(const struct facts *f, struct sl_json_writer *w)
{
    struct sl_job *job = f->job;
    struct sl_phases *p = &job->phases;
    const struct sl_phases_view *view = &f->view;
    if (f->trains && p->seen_weight > 0)
        f->l->loss = view->loss;
    sl_json_add_string(w, "phase", view->phase);
    sl_json_add_whole(w, "epoch", view->epoch);
    sl_json_add_whole(w, "epochs", job->config.epochs);
    sl_json_add_whole(w, "done", view->done);
    sl_json_add_whole(w, "total", view->total);
    sl_json_add_real(w, "seconds", (double)(sl_now_ns() - job->start_ns) * 1e-9);
    sl_json_add_real(w, "epoch_seconds", f->l->last_epoch_seconds);
    sl_json_add_real(w, "seconds_left", view->seconds_left >= 0 ? view->seconds_left : NAN);
    sl_json_add_real(w, "loss", f->l->loss);
    if (f->l->has_metric) {
        sl_json_open_object(w, "metric");
        sl_json_add_string(w, "name", sl_measure_key(p->measure));
        sl_json_add_real(w, "value", f->l->metric);
        sl_json_add_whole(w, "epoch", f->l->metric_epoch);
        sl_json_close_object(w);
    } else {
        sl_json_add_null(w, "metric");
    }
    if (f->there && p->best.has) {
        sl_json_open_object(w, "best");
        sl_json_add_real(w, "value", p->best.value);
        sl_json_add_whole(w, "epoch", p->best.epoch);
        sl_json_close_object(w);
    } else {
        sl_json_add_null(w, "best");
    }
}

static void add_crew(const struct facts *f, const struct roles *r, struct sl_json_writer *w)
{
    const struct work *helpers = &r->standby;
    const struct sl_job *job = f->job;
    uint32_t standby = 0;
    for (uint32_t i = 0; i < job->crew.n; i++) {
        const struct sl_member *m = &job->crew.members[i];
        standby += is_told(m) && strcmp(role_text(job, m), "standby") == 0;
    }
    sl_json_add_whole(w, "samplers", job->split.samplers);
    sl_json_add_whole(w, "trainers", job->split.trainers);
    sl_json_open_object(w, "standby");
    sl_json_add_whole(w, "there", standby);
    sl_json_add_whole(w, "awake", f->there ? sl_seat_awake(&job->arena) : 0);
    sl_json_add_real(w, "busy", helpers->seats ? share(helpers->busy, helpers->seconds) : NAN);
    sl_json_add_real(w, "wait", helpers->seats ? share(helpers->wait, helpers->seconds) : NAN);
    sl_json_close_object(w);
    add_devices(f, "devices", w);
    sl_json_add_whole(w, "places", job->config.n_devices);
    sl_json_open_array(w, "workers");
    for (uint32_t i = 0; i < job->crew.n; i++)
        if (is_told(&job->crew.members[i]))
            add_worker(f, &job->crew.members[i], w);
    sl_json_close_array(w);
}

static void add_memory(const struct facts *f, struct sl_json_writer *w)
{
    double load = f->l->broker.load;
    for (uint32_t i = 0; i < f->job->crew.n; i++)
        load += f->l->process[i].load;
    sl_json_open_object(w, "memory");
    sl_json_add_whole(w, "used", f->job->memory_bytes);
    sl_json_add_whole(w, "peak", f->job->peak_memory);
    add_known(w, "limit", f->job->available_bytes);
    sl_json_close_object(w);
    sl_json_add_real(w, "cpu_load", load);
}

static struct facts find_facts(struct sl_job *job)
{
    struct facts f = {
        .job = job,
        .l = job->live.living,
        .there = job->live.living->there && job->arena.base,
        .view = {.phase = "start", .seconds_left = -1},
    };
    if (f.there && job->state == SL_JOB_RUNNING) {
        sl_phases_view(&job->phases, &f.view);
        f.trains = strcmp(f.view.phase, "train") == 0;
    } else if (job->state >= SL_JOB_FINISHING) {
        f.view.phase = "save";
        f.view.epoch = job->phases.trained ? job->phases.trained - 1 : 0;
    }
    // First who rests, then what has been done: with all at rest, a line tells what a pause ends
    // with.
    if (f.there && job->paused) {
        for (uint32_t i = 0; i < job->crew.n; i++)
            f.rests[job->crew.members[i].slot] = rests(&f, &job->crew.members[i]);
        sl_live_take_cells(job);
    }
    if (job->state == SL_JOB_RUNNING && sl_live_window(f.l, &f.from, &f.to)) {
        uint64_t looks = SL_MIN(f.l->n_looks, (uint64_t)SL_LIVE_LOOKS) - 1;
        f.seconds = (double)(f.to->ns - f.from->ns) * 1e-9;
        f.look = f.seconds / (double)looks;
    }
    return f;
}

void sl_live_write_devices(struct sl_job *job, struct sl_json_writer *w, const char *key)
{
    const struct facts f = find_facts(job);
    add_devices(&f, key, w);
}

void sl_live_write(struct sl_job *job, struct sl_json_writer *w)
{
    const struct facts f = find_facts(job);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    const struct roles roles = {
        .samplers = work_of_role(&f, SL_ROLE_SAMPLER, false),
        .normal = work_of_role(&f, SL_ROLE_TRAINER, false),
        .standby = work_of_role(&f, SL_ROLE_TRAINER, true),
    };
    sl_json_open_object(w, NULL);
    sl_json_add_string(w, "schema", "sluice.stats/1");
    sl_json_add_time(w, "time", (double)now.tv_sec + (double)now.tv_nsec * 1e-9);
    sl_json_add_string(w, "job", job->config.name);
    sl_json_add_string(w, "id", job->options.id);
    sl_json_add_string(w, "state", sl_job_state_name(job));
    add_where(&f, w);
    add_crew(&f, &roles, w);
    add_stages(&f, &roles, w);
    add_rates(&f, w);
    add_queue(&f, w);
    add_cache(&f, w);
    add_updates(&f, w);
    add_bottleneck(&f, &roles, w);
    add_totals(&f, w);
    add_histograms(&f, w);
    add_memory(&f, w);
    sl_json_close_object(w);
}
