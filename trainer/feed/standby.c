#include "trainer/feed/standby.h"

#include <math.h>

#include "common/base/bits.h"
#include "common/base/failpoint.h"
#include "common/arena/nodes.h"

double sl_standby_profit(uint64_t left, double t_train, uint32_t n_trainers, double t_standby)
{
    if (n_trainers == 0)
        return INFINITY;
    return (double)left * t_train / n_trainers - t_standby;
}

void sl_standby_init(struct sl_standby *s, struct sl_arena *arena, uint32_t device)
{
    uint32_t number = sl_seat_trainer(arena, device);
    *s = (struct sl_standby){
        .arena = arena, .device = device, .number = number, .seat = sl_seat(arena, number)};
}

static uint32_t duty_of(const struct sl_seat *seat)
{
    return atomic_load_explicit(&seat->duty, memory_order_acquire);
}

static uint32_t activity_of(const struct sl_seat *seat)
{
    return atomic_load_explicit(&seat->activity, memory_order_acquire);
}

static bool device_is_free(const struct sl_standby *s, const struct sl_ledger_ahead *ahead)
{
    if (ahead->unsampled == 0)
        return true;
    const struct sl_seat *sampler = sl_seat(s->arena, sl_seat_sampler(s->arena, s->device));
    uint32_t activity = activity_of(sampler);
    return activity == SL_ACTIVITY_BLOCKED ||
           (activity == SL_ACTIVITY_NONE && duty_of(sampler) == SL_DUTY_NONE);
}

// Standby trainers at work whose place this one cannot have: all others while it sleeps, those on
// earlier devices once it is awake, so that of two that woke for one place one stays.
static uint32_t rivals(const struct sl_standby *s)
{
    uint32_t n = 0;
    uint32_t devices = sl_standby_is_awake(s) ? s->device : s->arena->h->spec.n_devices;
    for (uint32_t d = 0; d < devices; d++) {
        const struct sl_seat *seat = sl_seat(s->arena, sl_seat_trainer(s->arena, d));
        n += d != s->device && duty_of(seat) == SL_DUTY_STANDBY &&
             activity_of(seat) == SL_ACTIVITY_BUSY;
    }
    return n;
}

// Batches of a TRAIN phase that can be worked on at once.
static uint32_t places(const struct sl_arena *a)
{
    const struct sl_arena_spec *spec = &a->h->spec;
    return spec->async ? spec->staleness + 1 : sl_nodes_batches_per_update(a);
}

bool sl_standby_may_fetch(const struct sl_standby *s, bool ahead)
{
    enum sl_duty duty = sl_standby_duty(s);
    if (sl_arena_paused(s->arena))
        return false;
    if (duty != SL_DUTY_STANDBY)
        return duty == SL_DUTY_WORK;
    struct sl_ledger_ahead left;
    sl_ledger_look_ahead(s->arena, &left);
    if (left.seq == 0 || left.gated || left.kind == SL_PHASE_PRESAMPLE || !device_is_free(s, &left))
        return false;
    const struct sl_schedule *schedule = sl_schedule_of(s->arena);
    uint32_t trainers = atomic_load_explicit(&schedule->trainers, memory_order_relaxed);
    // Times that nobody has measured yet, and those of evaluation: a batch here takes what it takes
    // there.
    double t_train = 1, t_standby = 1;
    if (left.kind == SL_PHASE_TRAIN) {
        uint64_t train_ns = atomic_load_explicit(&schedule->t_train_ns, memory_order_relaxed);
        uint64_t standby_ns = atomic_load_explicit(&schedule->t_standby_ns, memory_order_relaxed);
        if (train_ns != 0 && standby_ns != 0) {
            t_train = (double)train_ns;
            t_standby = (double)standby_ns;
        }
        if (trainers + rivals(s) >= places(s->arena))
            return false;
    }
    return sl_standby_profit(left.unclaimed, t_train, trainers, ahead ? 2 * t_standby : t_standby) >
           0;
}

bool sl_standby_may_evaluate(const struct sl_standby *s)
{
    struct sl_ledger_ahead main, side;
    if (sl_arena_paused(s->arena) || sl_standby_duty(s) != SL_DUTY_STANDBY)
        return false;
    sl_ledger_look_aside(s->arena, &side);
    sl_ledger_look_ahead(s->arena, &main);
    bool there = side.seq != 0 && !side.gated && side.unclaimed > 0;
    return there && (main.gated || device_is_free(s, &main));
}

uint32_t sl_standby_trainers(const struct sl_arena *a)
{
    uint32_t n =
        atomic_load_explicit(&sl_schedule_of(a)->trainers, memory_order_relaxed) + sl_seat_awake(a);
    return SL_MAX(n, 1u);
}

void sl_standby_wake(struct sl_standby *s)
{
    uint32_t was = activity_of(s->seat);
    if (was == SL_ACTIVITY_BUSY)
        return;
    sl_seat_set_activity(s->arena, s->number, SL_ACTIVITY_BUSY);
    if (was == SL_ACTIVITY_ASLEEP && sl_standby_duty(s) == SL_DUTY_STANDBY) {
        atomic_fetch_add_explicit(&s->seat->switches, 1, memory_order_relaxed);
        SL_FAILPOINT(STANDBY_WOKEN);
    }
}

void sl_standby_sleep(struct sl_standby *s)
{
    if (activity_of(s->seat) == SL_ACTIVITY_ASLEEP)
        return;
    SL_FAILPOINT(STANDBY_ASLEEP);
    sl_seat_set_activity(s->arena, s->number, SL_ACTIVITY_ASLEEP);
}
