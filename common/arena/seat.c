#include "common/arena/seat.h"

#include "common/base/bits.h"

/*
 * Memory orders: duty, activity and the cache's words are stored with release and read with
 * acquire. The event is signalled after the store (event.h), so whoever read the event first and
 * looked at the words then is woken.
 */

_Static_assert(sizeof(struct sl_seat) % 64 == 0, "seats do not share cache lines");
_Static_assert(sizeof(struct sl_schedule) % 64 == 0, "the seats behind the schedule are aligned");

struct sl_schedule *sl_schedule_of(const struct sl_arena *a)
{
    return sl_arena_region(a, SL_REGION_SEATS);
}

// The seats stand behind the schedule.
struct sl_seat *sl_seat(const struct sl_arena *a, uint32_t seat)
{
    return (struct sl_seat *)(sl_schedule_of(a) + 1) + seat;
}

uint32_t sl_seat_awake(const struct sl_arena *a)
{
    uint32_t n = 0;
    for (uint32_t d = 0; d < a->h->spec.n_devices; d++) {
        const struct sl_seat *s = sl_seat(a, sl_seat_trainer(a, d));
        n += atomic_load_explicit(&s->duty, memory_order_acquire) == SL_DUTY_STANDBY &&
             atomic_load_explicit(&s->activity, memory_order_acquire) == SL_ACTIVITY_BUSY;
    }
    return n;
}

void sl_seat_set_duty(struct sl_arena *a, uint32_t seat, enum sl_duty duty)
{
    if (atomic_exchange(&sl_seat(a, seat)->duty, (uint32_t)duty) == (uint32_t)duty)
        return;
    sl_arena_wake_all(a); // the sampler beside it, too, may be held to the current phase
}

void sl_seat_set_cores(struct sl_arena *a, uint32_t seat, const struct sl_cores *cores)
{
    struct sl_seat *s = sl_seat(a, seat);
    bool same = atomic_load(&s->cores_version) > 0;
    for (uint32_t i = 0; i < SL_COUNT_OF(s->cores); i++)
        same = same && atomic_load(&s->cores[i]) == cores->bits[i];
    if (same)
        return;
    atomic_fetch_add(&s->cores_version, 1);
    for (uint32_t i = 0; i < SL_COUNT_OF(s->cores); i++)
        atomic_store(&s->cores[i], cores->bits[i]);
    atomic_fetch_add(&s->cores_version, 1);
}

bool sl_seat_take_cores(const struct sl_arena *a, uint32_t seat, uint32_t *seen,
                        struct sl_cores *out)
{
    const struct sl_seat *s = sl_seat(a, seat);
    uint32_t version = atomic_load_explicit(&s->cores_version, memory_order_relaxed);
    if (version == *seen) // nearly always: nothing but this word is read
        return false;
    version = atomic_load(&s->cores_version);
    for (uint32_t i = 0; i < SL_COUNT_OF(s->cores); i++)
        out->bits[i] = atomic_load(&s->cores[i]);
    if (version % 2 != 0 || atomic_load(&s->cores_version) != version)
        return false;
    *seen = version;
    return true;
}

void sl_seat_vacate(struct sl_arena *a, uint32_t seat)
{
    struct sl_seat *s = sl_seat(a, seat);
    atomic_store(&s->cache_generation, 0);
    atomic_store(&s->cache_loaded, 0);
    atomic_store(&s->activity, SL_ACTIVITY_NONE);
    // A standby trainer that died at work holds nobody back any more, nor does a dead sampler.
    sl_event_signal(&a->h->work);
}

void sl_seat_set_activity(struct sl_arena *a, uint32_t seat, enum sl_activity activity)
{
    if (atomic_exchange(&sl_seat(a, seat)->activity, (uint32_t)activity) == (uint32_t)activity)
        return;
    // Who falls asleep lets the sampler beside it draw ahead, and another one take its place.
    if (activity == SL_ACTIVITY_BLOCKED || activity == SL_ACTIVITY_ASLEEP)
        sl_event_signal(&a->h->work);
}
