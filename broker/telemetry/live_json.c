// live_json.c - writes the line of live statistics: schema sluice.stats/1 (README.md). A figure's
// name is in common/schema/stats.h alone; what is not set here is not known, which is null.
#include <math.h>
#include <string.h>
#include <time.h>

#include "broker/rundir/report.h"
#include "broker/workers/crash_log.h"
#include "broker/telemetry/job_view.h"
#include "broker/telemetry/live.h"
#include "broker/telemetry/live_bottleneck.h"
#include "broker/sharding/link_bytes.h"
#include "broker/sharding/type_figures.h"
#include "broker/meter/usage.h"
#include "broker/rundir/saving.h"
#include "broker/scheduler/role_split.h"
#include "broker/scheduler/trainer_group.h"
#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/arena/param_store.h"
#include "common/arena/group.h"
#include "common/arena/seat.h"
#include "common/schema/stats.h"

bool sl_live_is_there(const struct sl_live *live)
{
    return live->meter->there && live->job->arena->base;
}

enum { LOAD_SECONDS_MAX = 5 }; // how old a GPU's load may be

// What the parts of a line are made from.
struct facts {
    const struct sl_job_view *job;
    const struct sl_meter *l;
    const struct sl_meter_reading *from, *to; // NULL: nothing to compare
    double seconds;                           // between the two
    double look;                              // between two looks, on average
    bool there;                               // the arena is, and its words may be read
    struct sl_phases_view view;
    bool trains;       // and does nothing else
    const bool *rests; // (seats) while the job is paused: the worker there has come to rest
    const struct sl_live_nodes *nodes;
};

static double positive(double x)
{
    return x > 0 ? x : NAN; // 0 = not known
}

static double share(double part, double whole)
{
    return whole > 0 ? SL_MIN(SL_MAX(part / whole, 0), 1) : 0;
}

// Of something that grows, in the window.
#define RATE(f_, field_)                                                                           \
    ((f_)->from ? (double)((f_)->to->field_ - (f_)->from->field_) / (f_)->seconds : 0)

// --- seats ---------------------------------------------------------------------------------------

// What a seat did in the window.
struct work {
    double seconds;               // that a worker sat there awake
    double stage[SL_STAGE_COUNT]; // seconds
    double busy, wait, blocked;   // seconds
    uint64_t batches, training, edges, bytes;
    bool asleep;
    uint32_t seats; // of a sum
};

// What the shares of a line are of.
struct roles {
    struct work samplers, normal, standby;
};

// Trainers' shares are of the normal ones, as in epoch.c: a standby trainer waits for what is
// left over. Where there are only standby trainers they are meant.
static const struct work *trainers_of(const struct roles *r, const struct sl_job_view *job)
{
    return job->split->roles.trainers > 0 ? &r->normal : &r->standby;
}

// Of the time of those who train: each brings the rows of one batch at a time.
static double fetching(const struct facts *f, const struct roles *r)
{
    const uint32_t hands = f->job->split->roles.trainers + r->standby.seats;
    return share(RATE(f, sums.own.fetch_ns) * 1e-9, SL_MAX(hands, 1u));
}

static bool is_standby(const struct sl_job_view *job, const struct sl_pool_worker *w)
{
    return w->role == SL_ROLE_TRAINER &&
           sl_split_duty(job->split, w->role, w->device) == SL_DUTY_STANDBY;
}

static struct work work_of(const struct facts *f, const struct sl_pool_worker *m)
{
    struct work w = {0};
    if (!f->from)
        return w;
    const struct sl_meter_seat_sums *a = &f->from->seat[m->slot], *b = &f->to->seat[m->slot];
    uint32_t looks = b->readings - a->readings, asleep = b->asleep - a->asleep;
    w.seconds = (looks - SL_MIN(asleep, looks)) * f->look;
    w.blocked = (b->blocked - a->blocked) * f->look;
    w.batches = b->batches - a->batches;
    w.training = b->training - a->training;
    w.edges = b->edges - a->edges;
    w.bytes = b->bytes - a->bytes;
    for (int i = 0; i < SL_STAGE_COUNT; i++)
        w.stage[i] = (double)(b->stage_ns[i] - a->stage_ns[i]) * 1e-9;
    bool samples = m->role == SL_ROLE_SAMPLER;
    double held = (b->held - a->held) * f->look;
    // One batch for longer than the window: only the worker that has it in hand is known.
    enum sl_stage main = samples ? SL_STAGE_SAMPLE : f->trains ? SL_STAGE_TRAIN : SL_STAGE_EVALUATE;
    if (w.batches == 0)
        w.stage[main] = SL_MAX(held - w.blocked, 0);
    w.busy = samples ? w.stage[SL_STAGE_SAMPLE] + w.stage[SL_STAGE_MARK] + w.stage[SL_STAGE_COPY]
                     : w.stage[SL_STAGE_TRAIN] + w.stage[SL_STAGE_EVALUATE];
    // Stages that ended in the window may have begun before it: what a worker does in turn is told
    // as parts of the window, which together are never more than all of it.
    if (w.busy > w.seconds) {
        for (int i = 0; i < SL_STAGE_COUNT; i++)
            if (i != SL_STAGE_EXTRACT) // goes on beside the others, a batch ahead
                w.stage[i] *= w.seconds / w.busy;
        w.busy = w.seconds;
    }
    double idle = w.seconds - w.busy;
    w.blocked = SL_MIN(w.blocked, idle);
    w.wait = w.batches == 0 ? idle : SL_MIN(SL_MAX(w.stage[SL_STAGE_WAIT], w.blocked), idle);
    w.asleep = asleep > 0 && 2 * asleep > looks;
    return w;
}

// Sums of all seats of a role; `seats` those that were awake at all.
static struct work work_of_role(const struct facts *f, enum sl_role role, bool standby)
{
    struct work all = {0};
    for (uint32_t i = 0; i < f->job->workers->n; i++) {
        const struct sl_pool_worker *m = &f->job->workers->list[i];
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

static bool is_told(const struct sl_pool_worker *w)
{
    return w->wanted || w->alive;
}

static const char *role_text(const struct sl_job_view *job, const struct sl_pool_worker *w)
{
    return is_standby(job, w) ? "standby" : sl_role_name(w->role);
}

static uint32_t activity_of(const struct facts *f, const struct sl_pool_worker *w)
{
    return f->there ? atomic_load(&sl_seat(f->job->arena, w->slot)->activity) : SL_ACTIVITY_NONE;
}

static const char *state_text(const struct facts *f, const struct sl_pool_worker *w)
{
    const struct sl_meter_seat *seat = &f->l->seat[w->slot];
    uint32_t activity = activity_of(f, w);
    if (!w->alive)
        return "gone";
    if (!w->ready)
        return "starting";
    if (sl_pauses_is_open(f->job->pauses))
        return f->rests[w->slot] ? "paused" : "working";
    if (activity == SL_ACTIVITY_BLOCKED)
        return "blocked";
    if (seat->held)
        return "working";
    return activity == SL_ACTIVITY_ASLEEP ? "asleep" : "waiting";
}

// "batch 17 of epoch 3", for people, whose epochs count from 1: what a worker has in hand. False
// when it is nothing that is known.
static bool batch_text(const struct facts *f, const struct sl_pool_worker *w, char *out,
                       size_t bytes)
{
    const struct sl_phases *p = f->job->phases;
    const struct sl_meter_seat *seat = &f->l->seat[w->slot];
    uint64_t seq;
    uint32_t cell;
    if (!f->there || !seat->held || !w->alive)
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

// How often the threads of the worker in this seat have come round (common/arena/heartbeat.h).
static uint64_t rounds_of(const struct facts *f, const struct sl_pool_worker *w)
{
    const struct sl_worker_slot *slot = sl_stats_slot(f->job->arena, w->slot);
    uint64_t rounds = 0;
    for (int i = 0; i < SL_THREAD_COUNT; i++)
        rounds += atomic_load_explicit(&slot->words.beats[i], memory_order_relaxed);
    return rounds;
}

static void add_worker(const struct facts *f, const struct sl_pool_worker *m,
                       struct sl_json_writer *w)
{
    const struct work k = work_of(f, m);
    const double seconds = f->from ? f->seconds : INFINITY;
    const struct sl_device_config *device = &f->job->config->devices[m->device];
    char batch[96], cores[8 * SL_CONFIG_MAX_CORES];
    struct sl_cores set = {0};
    for (uint32_t i = 0; i < device->n_cores; i++)
        sl_cores_add(&set, device->cores[i]);
    sl_cores_format(&set, cores, sizeof cores);
    const struct sl_stats_worker s = {
        .name = m->name,
        .role = role_text(f->job, m),
        .device = sl_placement_shown(f->job->config, m->device),
        .cores = cores,
        .pid = m->alive ? m->pid : NAN,
        .state = state_text(f, m),
        .batch = batch_text(f, m, batch, sizeof batch) ? batch : NULL,
        .busy = share(k.busy, k.seconds),
        .wait = share(k.wait, k.seconds),
        .batches = f->l->seat[m->slot].sums.training,
        .batches_per_second = (double)k.training / seconds,
        .edges_per_second = (double)k.edges / seconds,
        .bytes_per_second = (double)k.bytes / seconds,
        .rounds = f->there ? rounds_of(f, m) : 0,
        .restarts = f->job->deaths->of[m->slot].n,
        .memory = m->alive ? f->job->memory->worker_bytes[m->slot] : 0,
    };
    sl_json_open_object(w, NULL);
    sl_json_add_fields(w, &sl_stats_worker_fields, &s, NULL, NULL);
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
static void add_gpu_figures(struct gpu_figures *to, const struct sl_pool_worker *w,
                            const struct sl_worker_totals *said)
{
    if (!w->alive)
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
static void find_gpu_load(const struct gpu_figures *gpu, struct sl_stats_device *s)
{
    const uint64_t now = sl_now_ns(), limit = LOAD_SECONDS_MAX * 1000000000ull;
    bool known = gpu->load_at_ns && now - SL_MIN(gpu->load_at_ns, now) <= limit;
    s->gpu_load = known ? gpu->busy : NAN;
    s->gpu_memory_load = known ? gpu->memory_busy : NAN;
}

// A device that is shown.
struct place {
    const struct sl_job_view *job;
    uint32_t shown;
};

static bool is_at(const struct place *p, const struct sl_pool_worker *w)
{
    return is_told(w) && sl_placement_shown(p->job->config, w->device) == p->shown;
}

// Each role once, however many workers have it.
static void add_roles(void *arg, const char *key, struct sl_json_writer *w)
{
    static const char *const roles[] = {"sampler", "trainer", "standby"};
    const struct place *p = arg;
    sl_json_open_array(w, key);
    for (size_t k = 0; k < SL_COUNT_OF(roles); k++) {
        bool has = false;
        for (uint32_t i = 0; i < p->job->workers->n && !has; i++) {
            const struct sl_pool_worker *m = &p->job->workers->list[i];
            has = is_at(p, m) && strcmp(role_text(p->job, m), roles[k]) == 0;
        }
        if (has)
            sl_json_add_string(w, NULL, roles[k]);
    }
    sl_json_close_array(w);
}

static void add_device(const struct facts *f, uint32_t shown, struct sl_json_writer *w)
{
    const struct sl_job_view *job = f->job;
    const struct sl_device_config *device = &job->config->devices[shown];
    const bool cuda = device->kind == SL_DEVICE_CUDA;
    const struct place place = {job, shown};
    char name[64], cores[8 * SL_CONFIG_MAX_CORES];
    struct gpu_figures gpu = {0};
    struct sl_cores set;
    uint64_t memory = 0;
    double load = 0;
    sl_placement_device_cores(job->config, shown, &set);
    sl_cores_format(&set, cores, sizeof cores);
    for (uint32_t i = 0; i < job->workers->n; i++) {
        const struct sl_pool_worker *m = &job->workers->list[i];
        if (!is_at(&place, m))
            continue;
        memory += m->alive ? job->memory->worker_bytes[m->slot] : 0;
        add_gpu_figures(&gpu, m, &f->l->seat[m->slot].last);
        load += f->l->process[m->slot].load;
    }
    struct sl_stats_device s = {
        .index = shown,
        .kind = sl_device_kind_name(device->kind),
        .name = sl_placement_device_name(job->config, shown, name, sizeof name),
        .cores = cores,
        .gpu = cuda ? device->index : NAN,
        .memory_used = cuda ? gpu.held : memory,
        .memory_budget = positive(device->memory_bytes),
        .gpu_memory_used = positive(gpu.used),
        .gpu_memory_total = positive(gpu.total),
        .cpu_load = load / SL_MAX(sl_cores_count(&set), 1u),
    };
    find_gpu_load(&gpu, &s);
    sl_json_open_object(w, NULL);
    sl_json_add_fields(w, &sl_stats_device_fields, &s, add_roles, (void *)&place);
    sl_json_close_object(w);
}

static void add_devices(const struct facts *f, const char *key, struct sl_json_writer *w)
{
    sl_json_open_array(w, key);
    for (uint32_t d = 0; d < sl_placement_shown_devices(f->job->config); d++)
        add_device(f, d, w);
    sl_json_close_array(w);
}

// --- stages --------------------------------------------------------------------------------------

static void find_stages(const struct facts *f, const struct roles *r, struct sl_stats_stage *stages)
{
    const struct work *s = &r->samplers, *t = trainers_of(r, f->job);
    const double busy[SL_LIVE_STAGES] = {
        [SL_LIVE_SAMPLE] = share(s->stage[SL_STAGE_SAMPLE], s->seconds),
        [SL_LIVE_MARK] = share(s->stage[SL_STAGE_MARK], s->seconds),
        [SL_LIVE_COPY] = share(s->stage[SL_STAGE_COPY], s->seconds),
        [SL_LIVE_EXTRACT] = share(t->stage[SL_STAGE_EXTRACT], t->seconds),
        [SL_LIVE_TRAIN] = share(t->stage[SL_STAGE_TRAIN], t->seconds),
        [SL_LIVE_EVALUATE] = share(t->stage[SL_STAGE_EVALUATE], t->seconds),
        [SL_LIVE_WAIT] = share(t->wait, t->seconds),
        [SL_LIVE_BACKPRESSURE] = share(s->blocked, s->seconds),
    };
    for (enum sl_live_stage i = 0; i < SL_LIVE_STAGES; i++) {
        const struct sl_meter_times *times = &f->l->times[i];
        double seconds[2];
        sl_meter_percentiles(&times->ring, 2, (const double[]){50, 99}, seconds);
        stages[i] = (struct sl_stats_stage){
            .busy = busy[i],
            .count = times->count,
            .seconds = (double)times->ns * 1e-9,
            .per_second = RATE(f, sums.count[i]),
            .p50 = seconds[0],
            .p99 = seconds[1],
        };
    }
}

static void add_stages(const struct sl_stats_stage *stages, const char *key,
                       struct sl_json_writer *w)
{
    sl_json_open_object(w, key);
    for (enum sl_live_stage i = 0; i < SL_LIVE_STAGES; i++) {
        sl_json_open_object(w, sl_stats_stage_names[i]);
        sl_json_add_fields(w, &sl_stats_stage_fields, &stages[i], NULL, NULL);
        sl_json_close_object(w);
    }
    sl_json_close_object(w);
}

static void add_histogram(const struct facts *f, enum sl_live_stage stage, struct sl_json_writer *w)
{
    const struct sl_meter_times *t = &f->l->times[stage];
    sl_json_open_object(w, sl_stats_stage_names[stage]);
    sl_json_open_array(w, "counts");
    for (uint32_t i = 0; i < SL_METER_BUCKETS; i++)
        sl_json_add_whole(w, NULL, t->bucket[i]);
    sl_json_close_array(w);
    sl_json_add_real(w, "sum", (double)t->ns * 1e-9);
    sl_json_add_whole(w, "count", t->count);
    sl_json_close_object(w);
}

static void add_histograms(const struct facts *f, const char *key, struct sl_json_writer *w)
{
    sl_json_open_object(w, key);
    sl_json_open_array(w, "le");
    for (uint32_t i = 0; i < SL_METER_BUCKETS - 1; i++)
        sl_json_add_real(w, NULL, (double)sl_meter_bounds_ns[i] * 1e-9);
    sl_json_close_array(w);
    for (int i = 0; i < SL_STATS_HISTOGRAMS; i++)
        add_histogram(f, sl_stats_histograms[i], w);
    sl_json_close_object(w);
}

// --- rates ---------------------------------------------------------------------------------------

// Of links, by how many pairs a mini-batch has on average: an epoch's last one may have fewer.
static void find_pair_rates(const struct sl_job_view *job, struct sl_stats *s)
{
    const struct sl_config *c = job->config;
    const uint64_t n = job->phases->setup.plan.split[SL_SPLIT_TRAIN].n;
    if (!sl_config_is_links(c) || n == 0)
        return;
    s->rates.positives = s->rates.batches * (double)n / (double)sl_phases_pass_batches(c, n);
    s->rates.negatives = s->rates.positives * c->task.per_positive;
}

static void find_rates(const struct facts *f, struct sl_stats *s)
{
    s->rates.batches = RATE(f, sums.batches);
    s->rates.edges = RATE(f, sums.edges);
    s->rates.input_nodes = RATE(f, sums.input_nodes);
    s->rates.updates = RATE(f, version);
    s->rates.seconds = f->from ? f->seconds : 0;
    find_pair_rates(f->job, s);
    s->bytes.blocks = RATE(f, sums.block_bytes);
    s->bytes.blocks_near = RATE(f, sums.blocks_near_bytes);
    s->bytes.features_cache = RATE(f, sums.hit_bytes);
    s->bytes.features_store = RATE(f, sums.miss_bytes);
}

static void find_queue(const struct facts *f, struct sl_stats *s)
{
    struct sl_ledger_depth depth = {0};
    if (f->there)
        sl_ledger_depth(f->job->arena, &depth);
    s->queue.batches = depth.queued;
    s->queue.bytes = depth.queued_bytes;
    s->queue.capacity_bytes = f->there ? f->job->arena->h->spec.payload_bytes : 0;
    s->queue.used_bytes = depth.payload_bytes;
    s->queue.sampling = depth.batches[SL_CELL_SAMPLING];
    s->queue.training = depth.batches[SL_CELL_TRAINING] + depth.batches[SL_CELL_HELD];
}

static double hit_rate(uint64_t hits, uint64_t misses)
{
    return hits + misses ? (double)hits / (double)(hits + misses) : NAN;
}

static void find_cache(const struct facts *f, struct sl_stats *s)
{
    const struct sl_job_view *job = f->job;
    const struct sl_meter_sums *sums = &f->l->sums;
    s->cache.policy = sl_cache_words[job->config->cache.policy];
    s->cache.ranked = f->there && job->phases->ranked;
    if (!sl_cache_keeps(job->config->cache.policy))
        return;
    s->cache.hit_rate_total = hit_rate(sums->hits, sums->misses);
    if (f->from)
        s->cache.hit_rate = hit_rate(f->to->sums.hits - f->from->sums.hits,
                                     f->to->sums.misses - f->from->sums.misses);
}

static void find_updates(const struct facts *f, struct sl_stats *s)
{
    const struct sl_job_view *job = f->job;
    bool async = job->config->updates.mode == SL_UPDATE_ASYNC;
    if (async && f->from && f->to->sums.trained > f->from->sums.trained) {
        s->updates.staleness_mean = (double)(f->to->sums.stale - f->from->sums.stale) /
                                    (double)(f->to->sums.trained - f->from->sums.trained);
        s->updates.staleness_max = 0;
        for (uint64_t i = 0; i < SL_MIN(f->l->n_readings, (uint64_t)SL_METER_READINGS); i++)
            s->updates.staleness_max =
                SL_MAX(s->updates.staleness_max, (double)f->l->readings[i].staleness_max);
    }
    s->updates.mode = async ? "async" : "ordered";
    s->updates.version = f->there ? sl_param_store_version(job->arena) : 0;
    s->updates.exchange = sl_exchange_kind_name(job->config->updates.exchange);
    if (job->config->updates.exchange == SL_EXCHANGE_NCCL) {
        s->updates.group.members = job->group->n;
        s->updates.group.generation = job->group->generation;
    }
}

static void find_totals(const struct facts *f, struct sl_stats *s)
{
    const struct sl_job_view *job = f->job;
    const struct sl_meter_sums *sums = &f->l->sums;
    uint64_t switches = 0, restarts = 0, peers = 0;
    uint32_t at = 0;
    struct sl_stats_link link;
    while (f->there && sl_link_bytes_next(job->arena, &at, &link))
        peers += sl_stats_link_is_peer(&link) ? (uint64_t)link.bytes : 0;
    for (uint32_t i = 0; i < job->workers->n; i++) {
        restarts += job->deaths->of[i].n;
        switches += f->there ? atomic_load(&sl_seat(job->arena, i)->switches) : 0;
    }
    s->totals.batches = sums->batches;
    s->totals.edges = sums->edges;
    s->totals.input_nodes = sums->input_nodes;
    s->totals.cache_hits = sums->hits;
    s->totals.cache_misses = sums->misses;
    s->totals.block_bytes = sums->block_bytes;
    s->totals.blocks_near_bytes = sums->blocks_near_bytes;
    s->totals.hit_bytes = sums->hit_bytes;
    s->totals.matched_bytes = sums->matched_bytes;
    s->totals.miss_bytes = sums->miss_bytes;
    s->totals.peer_bytes = peers;
    s->totals.updates = f->there ? sl_param_store_version(job->arena) - f->l->first_version : 0;
    s->totals.epochs = f->there ? job->phases->trained : 0;
    s->totals.switches = switches;
    s->totals.resampled = job->report->sums.resampled + job->phases->resampled;
    s->totals.retrained = job->report->sums.retrained + job->phases->retrained;
    s->totals.evicted = f->there ? atomic_load(&sl_ledger_of(job->arena)->evicted) : 0;
    s->totals.restarts = restarts;
    s->totals.checkpoints = job->saving->n_written;
}

// --- the bottleneck ------------------------------------------------------------------------------

// Medians of the last batches; where there are none yet, what was measured before.
static struct sl_profile live_profile(const struct facts *f)
{
    struct sl_profile p = f->job->split->profile;
    double t_sample = sl_meter_median(&f->l->sampling);
    double t_train = sl_meter_median(&f->l->training);
    double t_standby = sl_meter_median(&f->l->standing_by);
    p.t_sample = isnan(t_sample) ? p.t_sample : t_sample;
    p.t_train = isnan(t_train) ? p.t_train : t_train;
    p.t_standby = isnan(t_standby) ? p.t_standby : t_standby;
    return p;
}

// `text`: where the sentence goes.
static void find_bottleneck(const struct facts *f, const struct roles *r, struct sl_stats *to,
                            char text[SL_LIVE_SENTENCE_BYTES])
{
    const struct sl_job_view *job = f->job;
    const struct sl_stats_stage *stages = to->stages;
    const struct sl_config *config = job->config;
    bool async = config->updates.mode == SL_UPDATE_ASYNC;
    struct sl_live_advice advice = {.has = false};
    struct sl_live_node_names names;
    struct sl_live_node_waits waits;
    const struct sl_live_shares shares = {
        .split = job->split->roles,
        .preparing = strcmp(f->view.phase, "presample") == 0 || strcmp(f->view.phase, "rank") == 0,
        .standby = r->standby.seats,
        .sampling = share(r->samplers.busy, r->samplers.seconds),
        .blocked = stages[SL_LIVE_BACKPRESSURE].busy,
        .training = stages[SL_LIVE_TRAIN].busy,
        .extracting = stages[SL_LIVE_EXTRACT].busy,
        .waiting = stages[SL_LIVE_WAIT].busy,
        .evaluating = stages[SL_LIVE_EVALUATE].busy,
        .fetching = fetching(f, r),
        .queue = RATE(f, sums.own.queued_ns) * 1e-9,
        .async = async,
        .batches_per_update = config->updates.batches_per_update,
        .staleness = config->updates.staleness,
        .lent = sl_config_is_external(config),
        .in_turn = config->updates.exchange != SL_EXCHANGE_BOARD,
        .nodes = sl_live_nodes_waits(f->nodes, &names, &waits) ? &waits : NULL,
    };
    struct sl_allocation_question q = sl_split_question(job->split, job->split->roles, 0);
    q.profile = live_profile(f);
    enum sl_live_role role = SL_LIVE_NOBODY;
    if (*job->state == SL_JOB_RUNNING && !sl_pauses_is_open(job->pauses)) {
        if (!shares.lent) // whose trainers are not the job's to move
            sl_live_advise(&q, &advice);
        role = sl_live_name_bottleneck(&shares, &advice, text);
    } else {
        snprintf(text, SL_LIVE_SENTENCE_BYTES, "the job is %s", sl_job_state_name(job));
    }
    to->profile.t_sample = positive(q.profile.t_sample);
    to->profile.t_train = positive(q.profile.t_train);
    to->profile.t_standby = positive(q.profile.t_standby);
    to->bottleneck = text;
    to->bottleneck_role = sl_bottleneck_words[role];
    if (!advice.has)
        return;
    to->advice.samplers = advice.to.samplers;
    to->advice.trainers = advice.to.trainers;
    to->advice.epoch_seconds_now = advice.seconds_now;
    to->advice.epoch_seconds_then = advice.seconds_then;
}

// --- the line ------------------------------------------------------------------------------------

// Texts that the line borrows.
struct texts {
    char sentence[SL_LIVE_SENTENCE_BYTES], title[SL_MEASURE_TITLE];
    struct sl_relation_text relation;
};

static void find_where(const struct facts *f, struct sl_stats *s, struct texts *texts)
{
    const struct sl_job_view *job = f->job;
    const struct sl_phases *p = job->phases;
    const struct sl_phases_view *view = &f->view;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    s->schema = "sluice.stats/1";
    s->time = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
    s->job = job->config->name;
    s->id = job->id;
    s->state = sl_job_state_name(job);
    s->phase = view->phase;
    s->epoch = view->epoch;
    s->epochs = sl_config_told_epochs(job->config);
    s->done = view->done;
    s->total = view->total;
    s->seconds = (double)(sl_now_ns() - job->start_ns) * 1e-9;
    s->epoch_seconds = f->l->last_epoch_seconds;
    s->seconds_left = view->seconds_left >= 0 ? view->seconds_left : NAN;
    s->loss = f->l->loss;
    if (f->l->has_metric) {
        s->metric.name = sl_measure_key(p->measure);
        s->metric.title = sl_measure_title(p->measure, job->config->evaluate.k, texts->title);
        if (sl_config_is_links(job->config))
            s->metric.relation =
                sl_typed_linked_text(&job->split->dataset->typed, &texts->relation);
        s->metric.value = f->l->metric;
        s->metric.epoch = f->l->metric_epoch;
    }
    if (f->there && p->best.has) {
        s->best.value = p->best.value;
        s->best.epoch = p->best.epoch;
    }
}

static void find_split(const struct facts *f, const struct roles *r, struct sl_stats *s)
{
    const struct work *helpers = &r->standby;
    const struct sl_job_view *job = f->job;
    s->standby.there = 0;
    for (uint32_t i = 0; i < job->workers->n; i++) {
        const struct sl_pool_worker *w = &job->workers->list[i];
        s->standby.there += is_told(w) && is_standby(job, w);
    }
    s->samplers = job->split->roles.samplers;
    s->trainers = job->split->roles.trainers;
    s->standby.awake = f->there ? sl_seat_awake(job->arena) : 0;
    s->standby.busy = helpers->seats ? share(helpers->busy, helpers->seconds) : NAN;
    s->standby.wait = helpers->seats ? share(helpers->wait, helpers->seconds) : NAN;
    s->places = job->config->n_devices;
    s->cores = sl_config_is_pool(job->config) ? "pool" : "fixed";
}

static void add_workers(const struct facts *f, const char *key, struct sl_json_writer *w)
{
    sl_json_open_array(w, key);
    for (uint32_t i = 0; i < f->job->workers->n; i++)
        if (is_told(&f->job->workers->list[i]))
            add_worker(f, &f->job->workers->list[i], w);
    sl_json_close_array(w);
}

static void add_links(const struct facts *f, const char *key, struct sl_json_writer *w)
{
    struct sl_stats_link link;
    uint32_t at = 0;
    sl_json_open_array(w, key);
    while (f->there && sl_link_bytes_next(f->job->arena, &at, &link)) {
        sl_json_open_object(w, NULL);
        sl_json_add_fields(w, &sl_stats_link_fields, &link, NULL, NULL);
        sl_json_close_object(w);
    }
    sl_json_close_array(w);
}

static void add_nodes(const struct facts *f, const char *key, struct sl_json_writer *w)
{
    struct sl_stats_node node;
    sl_json_open_array(w, key);
    for (uint32_t i = 0; i < f->nodes->n; i++) {
        sl_live_nodes_tell(f->nodes, i, &node);
        sl_json_open_object(w, NULL);
        sl_json_add_fields(w, &sl_stats_node_fields, &node, NULL, NULL);
        sl_json_close_object(w);
    }
    sl_json_close_array(w);
}

static void add_wires(const struct facts *f, const char *key, struct sl_json_writer *w)
{
    struct sl_stats_wire wire;
    uint32_t at = 0;
    sl_json_open_array(w, key);
    while (sl_live_nodes_next_wire(f->nodes, &at, &wire)) {
        sl_json_open_object(w, NULL);
        sl_json_add_fields(w, &sl_stats_wire_fields, &wire, NULL, NULL);
        sl_json_close_object(w);
    }
    sl_json_close_array(w);
}

static void add_types(const struct facts *f, const char *key, struct sl_json_writer *w)
{
    const struct sl_typed *typed = &f->job->split->dataset->typed;
    sl_json_open_array(w, key);
    for (uint32_t i = 0; f->there && i < typed->n_types; i++) {
        const struct sl_stats_type type = sl_type_figures_of(f->job->arena, typed, i);
        sl_json_open_object(w, NULL);
        sl_json_add_fields(w, &sl_stats_type_fields, &type, NULL, NULL);
        sl_json_close_object(w);
    }
    sl_json_close_array(w);
}

static void add_relations(const struct facts *f, const char *key, struct sl_json_writer *w)
{
    const struct sl_typed *typed = &f->job->split->dataset->typed;
    sl_json_open_array(w, key);
    for (uint32_t i = 0; f->there && i < typed->n_relations; i++) {
        const struct sl_stats_relation relation = sl_relation_figures_of(f->job->arena, typed, i);
        sl_json_open_object(w, NULL);
        sl_json_add_fields(w, &sl_stats_relation_fields, &relation, NULL, NULL);
        sl_json_close_object(w);
    }
    sl_json_close_array(w);
}

// Of a trainer that died the cache is gone.
static void add_held(const struct facts *f, const char *key, struct sl_json_writer *w)
{
    const struct sl_typed *typed = &f->job->split->dataset->typed;
    sl_json_open_array(w, key);
    for (uint32_t i = 0; f->there && i < f->job->workers->n; i++) {
        const struct sl_pool_worker *m = &f->job->workers->list[i];
        struct sl_stats_held held = {.worker = m->name,
                                     .device = sl_placement_shown(f->job->config, m->device)};
        for (uint32_t t = 0; m->role == SL_ROLE_TRAINER && m->alive && t < typed->n_types; t++) {
            if (!sl_type_figures_held(f->job->arena, typed, m->device, t, &held))
                continue;
            sl_json_open_object(w, NULL);
            sl_json_add_fields(w, &sl_stats_held_fields, &held, NULL, NULL);
            sl_json_close_object(w);
        }
    }
    sl_json_close_array(w);
}

static double load_of(const struct facts *f)
{
    double load = f->l->broker.load;
    for (uint32_t i = 0; i < f->job->workers->n; i++)
        load += f->l->process[i].load;
    return load;
}

static void find_memory(const struct facts *f, struct sl_stats *s)
{
    s->cpu_load = load_of(f);
    s->memory.used = f->job->memory->bytes;
    s->memory.peak = f->job->memory->peak_bytes;
    s->memory.limit = positive(f->job->split->available_bytes);
}

static struct facts find_facts(const struct sl_live *live)
{
    struct facts f = {
        .job = live->job,
        .l = live->meter,
        .there = sl_live_is_there(live),
        .view = live->view,
        .trains = live->trains,
        .rests = live->rests,
        .nodes = &live->nodes,
    };
    if (*f.job->state == SL_JOB_RUNNING && sl_meter_window(f.l, &f.from, &f.to)) {
        uint64_t looks = SL_MIN(f.l->n_readings, (uint64_t)SL_METER_READINGS) - 1;
        f.seconds = (double)(f.to->ns - f.from->ns) * 1e-9;
        f.look = f.seconds / (double)looks;
    }
    return f;
}

void sl_live_write_devices(const struct sl_live *live, struct sl_json_writer *w, const char *key)
{
    const struct facts f = find_facts(live);
    add_devices(&f, key, w);
}

struct line {
    const struct facts *facts;
    const struct sl_stats *stats;
};

static void add_part(void *arg, const char *key, struct sl_json_writer *w)
{
    static const struct {
        const char *key;
        void (*add)(const struct facts *f, const char *key, struct sl_json_writer *w);
    } parts[] = {
        {"devices", add_devices}, {"workers", add_workers},     {"histograms", add_histograms},
        {"links", add_links},     {"nodes", add_nodes},         {"wires", add_wires},
        {"types", add_types},     {"relations", add_relations}, {"held", add_held},
    };
    const struct line *l = arg;
    if (strcmp(key, "stages") == 0)
        add_stages(l->stats->stages, key, w);
    for (size_t i = 0; i < SL_COUNT_OF(parts); i++)
        if (strcmp(key, parts[i].key) == 0)
            parts[i].add(l->facts, key, w);
}

static struct roles find_roles(const struct facts *f)
{
    return (struct roles){
        .samplers = work_of_role(f, SL_ROLE_SAMPLER, false),
        .normal = work_of_role(f, SL_ROLE_TRAINER, false),
        .standby = work_of_role(f, SL_ROLE_TRAINER, true),
    };
}

void sl_live_find_work(const struct sl_live *live, struct sl_node_work *out)
{
    const struct facts f = find_facts(live);
    const struct roles roles = find_roles(&f);
    const struct sl_meter_own *own = &f.l->sums.own;
    struct sl_stats_stage stages[SL_LIVE_STAGES];
    struct sl_ledger_depth depth;
    find_stages(&f, &roles, stages);
    sl_ledger_depth(f.job->arena, &depth);
    *out = (struct sl_node_work){
        .samplers = f.job->split->roles.samplers,
        .trainers = f.job->split->roles.trainers,
        .standby = roles.standby.seats,
        .batches = own->batches,
        .input_nodes = own->input_nodes,
        .queue = depth.queued,
        .memory_bytes = f.job->memory->bytes,
        .cpu_load = load_of(&f),
        .sampling = share(roles.samplers.busy, roles.samplers.seconds),
        .blocked = stages[SL_LIVE_BACKPRESSURE].busy,
        .training = stages[SL_LIVE_TRAIN].busy,
        .extracting = stages[SL_LIVE_EXTRACT].busy,
        .waiting = stages[SL_LIVE_WAIT].busy,
        .evaluating = stages[SL_LIVE_EVALUATE].busy,
        .fetching = fetching(&f, &roles),
    };
}

void sl_live_write(const struct sl_live *live, struct sl_json_writer *w)
{
    const struct facts f = find_facts(live);
    const struct roles roles = find_roles(&f);
    struct texts texts;
    struct sl_stats s;
    sl_fields_clear(&sl_stats_fields, &s);
    find_where(&f, &s, &texts);
    find_split(&f, &roles, &s);
    find_stages(&f, &roles, s.stages);
    find_rates(&f, &s);
    find_queue(&f, &s);
    find_cache(&f, &s);
    find_updates(&f, &s);
    find_bottleneck(&f, &roles, &s, texts.sentence);
    find_totals(&f, &s);
    find_memory(&f, &s);
    sl_json_open_object(w, NULL);
    sl_json_add_fields(w, &sl_stats_fields, &s, add_part, &(struct line){&f, &s});
    sl_json_close_object(w);
}
