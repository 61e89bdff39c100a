/*
 * worker_assign.c - fills the seats as the wanted split says.
 *
 * Each device is looked at by itself and moved one step towards its duties; what cannot be done
 * yet is done at the next look, which follows every death, every Ready and every tick. Two rules
 * order the steps, both because a device's memory is spent once:
 *
 *   a sampler starts     once the trainer of the device has left, or has shrunk its cache to what
 *                        stays beside the topology
 *   a trainer's cache    grows, and its duty becomes WORK, once the sampler of the device has left
 *
 * Devices in the middle change roles while those at both ends work on, so there is always a sampler
 * and a trainer at work.
 */
#include "broker/scheduler/role_split_internal.h"

#include <stdio.h>
#include <string.h>

#include "broker/scheduler/capacity.h"
#include "broker/log/joblog.h"
#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/arena/visit_counts.h"

static struct sl_seat *seat_of(const struct sl_role_split *s, const struct sl_pool_worker *w)
{
    return sl_seat(s->arena, w->slot);
}

static void set_duty(struct sl_role_split *s, const struct sl_pool_worker *w, enum sl_duty duty)
{
    if (atomic_load(&seat_of(s, w)->duty) != (uint32_t)duty)
        sl_seat_set_duty(s->arena, w->slot, duty);
}

// Rows are given out anew where a trainer's duty becomes this one.
static void plan_duty(struct sl_role_split *s, const struct sl_pool_worker *w, enum sl_duty duty)
{
    enum sl_duty duties[SL_CONFIG_MAX_DEVICES];
    if (s->need.step_bytes == 0 || s->store.duty[w->device] == duty)
        return;
    memcpy(duties, s->store.duty, sizeof duties);
    duties[w->device] = duty;
    sl_split_plan_store(s, duties);
}

// The cache's size before the duty, which wakes the trainer of the seat.
static void assign_trainer(struct sl_role_split *s, const struct sl_pool_worker *w,
                           enum sl_duty duty)
{
    plan_duty(s, w, duty);
    sl_seat_set_duty(s->arena, w->slot, duty);
}

void sl_split_assign_caches(struct sl_role_split *s)
{
    enum sl_duty duties[SL_CONFIG_MAX_DEVICES] = {SL_DUTY_NONE};
    uint64_t rows[SL_SPLIT_SIZES_MAX];
    for (uint32_t d = 0; d < s->config->n_devices; d++)
        duties[d] = sl_split_duty(s, SL_ROLE_TRAINER, d);
    sl_split_plan_store(s, duties);
    s->store.graph_planned = true;
    sl_split_plan_graph(s);
    if (s->chosen && !s->scouting)
        sl_split_check_ratio(s);
    // They are set while the job starts: nothing behind the largest can be a hit.
    sl_visit_counts_set_tiers(s->arena, rows, sl_split_cache_sizes(s, rows));
}

static void let_go(struct sl_role_split *s, struct sl_pool_worker *w)
{
    Sl__Control__Stop stop = SL__CONTROL__STOP__INIT;
    Sl__Control__Envelope e = SL__CONTROL__ENVELOPE__INIT;
    e.body_case = SL__CONTROL__ENVELOPE__BODY_STOP;
    e.stop = &stop;
    if (s->arena->base && w->role == SL_ROLE_TRAINER)
        plan_duty(s, w, SL_DUTY_NONE);
    if (w->role == SL_ROLE_SAMPLER)
        sl_split_on_room(s, w->device, 0);
    if (s->arena->base)
        set_duty(s, w, SL_DUTY_NONE);
    if (w->alive && w->greeted)
        sl_bus_send(s->clients->bus, &w->peer, &e);
    sl_pool_worker_release(w);
}

// Whether a trainer leaves the room that a sampler beside it needs.
static bool makes_room(struct sl_role_split *s, const struct sl_pool_worker *trainer,
                       enum sl_duty duty)
{
    if (duty == SL_DUTY_NONE)
        return !trainer->alive;
    const struct sl_seat *seat = seat_of(s, trainer);
    return !trainer->alive || atomic_load(&seat->cache_loaded) <= atomic_load(&seat->cache_rows);
}

// A start that cannot be refuses a job that begins. While it runs it is one more death: there may
// be too little memory or too many processes for a moment.
static int want(struct sl_role_split *s, struct sl_pool_worker *w)
{
    int rc = sl_pool_worker_want(w);
    if (rc == SL_OK || s->stage != SL_SPLIT_RUNS)
        return rc;
    sl_joblog_write(s->log, SL_LOG_WARN, "%s", sl_error_message());
    sl_pool_worker_want_later(w);
    return SL_OK;
}

static int assign_device(struct sl_role_split *s, uint32_t device)
{
    struct sl_pool_worker *sampler = sl_split_worker(s, SL_ROLE_SAMPLER, device);
    struct sl_pool_worker *trainer = sl_split_worker(s, SL_ROLE_TRAINER, device);
    enum sl_duty samples = sl_split_duty(s, SL_ROLE_SAMPLER, device);
    enum sl_duty trains = sl_split_duty(s, SL_ROLE_TRAINER, device);
    bool arena = s->arena->base != NULL;

    if (trainer->external && arena)
        set_duty(s, trainer, trains); // whoever sits down there, when ever that is
    if (samples == SL_DUTY_NONE && sampler->wanted)
        let_go(s, sampler);
    if (trains == SL_DUTY_NONE && trainer->wanted)
        let_go(s, trainer);

    if (!trainer->external &&
        (trains == SL_DUTY_STANDBY || (trains == SL_DUTY_WORK && !sampler->alive))) {
        if (arena && atomic_load(&seat_of(s, trainer)->duty) != (uint32_t)trains)
            assign_trainer(s, trainer, trains);
        if (!trainer->wanted)
            SL_TRY(want(s, trainer));
    }
    if (samples == SL_DUTY_WORK && !sampler->wanted && (!arena || makes_room(s, trainer, trains)))
        SL_TRY(want(s, sampler));
    if (samples == SL_DUTY_WORK && sampler->wanted && arena)
        set_duty(s, sampler, SL_DUTY_WORK);
    return SL_OK;
}

// N_t: normal trainers that can take a batch now. One that is dead, loads or leaves cannot,
// whatever its seat's duty is.
static uint32_t count_trainers(struct sl_role_split *s)
{
    uint32_t n = 0;
    for (uint32_t d = 0; d < s->config->n_devices; d++) {
        const struct sl_pool_worker *w = sl_split_worker(s, SL_ROLE_TRAINER, d);
        n += sl_pool_worker_is_ready(w) && atomic_load(&seat_of(s, w)->duty) == SL_DUTY_WORK;
    }
    return n;
}

void sl_split_publish(struct sl_role_split *s)
{
    struct sl_schedule *schedule = sl_schedule_of(s->arena);
    uint32_t trainers = count_trainers(s);
    uint32_t before = atomic_exchange(&schedule->trainers, trainers);
    atomic_store(&schedule->t_train_ns, (uint64_t)(s->profile.t_train * 1e9));
    atomic_store(&schedule->t_standby_ns, (uint64_t)(s->profile.t_standby * 1e9));
    // What made the difference (a duty, a death) was signalled before it could be seen.
    if (before != trainers)
        sl_event_signal(&s->arena->h->work);
}

int sl_split_assign(struct sl_role_split *s)
{
    sl_split_divide_pool(s);
    for (uint32_t d = 0; d < s->config->n_devices; d++)
        SL_TRY(assign_device(s, d));
    if (s->arena->base)
        sl_split_publish(s);
    s->events.on_assigned(s->ctx);
    return SL_OK;
}

static bool is_assigned(const struct sl_role_split *s, enum sl_role role, uint32_t device)
{
    const struct sl_pool_worker *w = sl_split_worker(s, role, device);
    enum sl_duty duty = sl_split_duty(s, role, device);
    if (w->external)
        return true; // nobody waits for those who come when they like
    if (duty == SL_DUTY_NONE)
        return !w->wanted && !w->alive;
    return sl_pool_worker_is_ready(w) && atomic_load(&seat_of(s, w)->duty) == (uint32_t)duty;
}

bool sl_split_is_assigned(const struct sl_role_split *s)
{
    for (uint32_t d = 0; d < s->config->n_devices; d++)
        if (!is_assigned(s, SL_ROLE_SAMPLER, d) || !is_assigned(s, SL_ROLE_TRAINER, d))
            return false;
    return true;
}

// Reason why the seat is in transition, in words, or NULL.
static const char *waits_for(struct sl_role_split *s, enum sl_role role, uint32_t device)
{
    const struct sl_pool_worker *w = sl_split_worker(s, role, device);
    if (is_assigned(s, role, device))
        return NULL;
    if (sl_split_duty(s, role, device) == SL_DUTY_NONE)
        return "finishes what it has in hand and leaves";
    if (w->leaving)
        return "leaves, and is then started anew";
    if (!w->wanted)
        return s->pool.n ? "waits for its place" : "waits until its device's memory is free";
    if (!w->alive)
        return "is started";
    if (!w->greeted)
        return role == SL_ROLE_SAMPLER ? "loads its graph" : "loads its data";
    if (!w->ready)
        return "gets ready";
    return s->pool.n ? "waits for its place" : "waits until its device is free";
}

bool sl_split_waiting_text(struct sl_role_split *s, char *out, size_t bytes)
{
    size_t at = 0;
    out[0] = '\0';
    for (uint32_t d = 0; d < s->config->n_devices; d++)
        for (int role = 0; role < SL_ROLE_COUNT; role++) {
            const char *what = waits_for(s, (enum sl_role)role, d);
            if (what && at < bytes)
                at += (size_t)snprintf(out + at, bytes - at, "%s%s %s", at ? ", " : "",
                                       sl_split_worker(s, (enum sl_role)role, d)->name, what);
        }
    return at > 0;
}

// Fills in which devices can have a standby trainer under the split. `announces`: says so of those
// that cannot any more.
static int check_budgets(struct sl_role_split *s, struct sl_roles split, bool *no_standby,
                         bool announces)
{
    const struct sl_config *config = s->config;
    struct sl_budget_workers workers = {.samplers = split.samplers};
    uint64_t rows;
    if (s->arena->base)
        SL_TRY(
            sl_capacity_check_split(s->arena->h->spec.payload_bytes, s->need.block_bytes, split));
    for (uint32_t d = 0; d < config->n_devices; d++) {
        bool switching = sl_placement_switches(config, d) && !no_standby[d];
        enum sl_duty trains =
            sl_placement_duty(split, config->n_devices, switching, SL_ROLE_TRAINER, d);
        if (d < split.samplers)
            SL_TRY(sl_budget_check_sampler(config, d, &s->need));
        const bool on_gpu = config->devices[d].kind != SL_DEVICE_CPU;
        workers.trainers += trains != SL_DUTY_NONE;
        workers.on_gpus += trains != SL_DUTY_NONE && on_gpu;
        if (trains == SL_DUTY_NONE || s->need.step_bytes == 0)
            continue;
        int rc = sl_budget_cache_rows(config, d, trains, &s->need, s->available_bytes, &rows);
        if (rc < 0 && (trains == SL_DUTY_WORK || split.trainers == 0))
            return rc;
        if (rc < 0) {
            no_standby[d] = true;
            if (announces)
                sl_joblog_announce(s->log, "split: device %u gets no standby trainer: %s", d,
                                   sl_error_message());
            workers.trainers--;
            workers.on_gpus -= on_gpu;
        } else if (!on_gpu) {
            workers.n_rows += rows;
        }
    }
    return sl_budget_check_memory(config, &s->need, &s->memory, &workers);
}

int sl_split_check_budgets(struct sl_role_split *s, struct sl_roles split)
{
    return check_budgets(s, split, s->no_standby, true);
}

int sl_split_try_budgets(struct sl_role_split *s, struct sl_roles split,
                         bool no_standby[SL_CONFIG_MAX_DEVICES])
{
    memcpy(no_standby, s->no_standby, sizeof s->no_standby);
    return check_budgets(s, split, no_standby, false);
}
