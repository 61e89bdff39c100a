#include "common/arena/segment.h"

#include <unistd.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"

void sl_arena_wake_all(struct sl_arena *a)
{
    sl_event_signal(&a->h->work);
    sl_event_signal(&a->h->progress);
}

void sl_arena_abort(struct sl_arena *a, enum sl_abort why)
{
    atomic_store(&a->h->abort, (uint32_t)why);
    sl_arena_wake_all(a);
}

void sl_arena_pause(struct sl_arena *a, bool paused)
{
    uint64_t now = sl_now_ns();
    if (atomic_load(&a->h->paused) == paused)
        return;
    if (paused)
        atomic_store(&a->h->paused_at_ns, now);
    else
        atomic_fetch_add(&a->h->paused_ns, now - atomic_load(&a->h->paused_at_ns));
    atomic_store(&a->h->paused, paused);
    sl_arena_wake_all(a);
}

void sl_arena_ring(const struct sl_arena *a)
{
    uint64_t one = 1;
    if (a->doorbell < 0)
        return;
    // A full counter (EAGAIN) still wakes the broker; it also looks on a timer.
    ssize_t ignored = write(a->doorbell, &one, sizeof one);
    (void)ignored;
}

int sl_arena_try(struct sl_arena *a, struct sl_event *event, uint32_t timeout_ms,
                 int (*attempt)(struct sl_arena *a, void *what), void *what)
{
    uint64_t deadline = sl_now_ns() + (uint64_t)timeout_ms * 1000000;
    for (;;) {
        // Read before the conditions: a change after this ends the wait at once.
        uint32_t seen = sl_event_read(event);
        if (sl_arena_aborted(a))
            return SL_EABORTED;
        int rc = attempt(a, what);
        if (rc != SL_EAGAIN)
            return rc;
        uint64_t now = sl_now_ns();
        if (now >= deadline)
            return SL_ETIMEDOUT;
        uint64_t left_ms = (deadline - now) / 1000000 + 1;
        sl_event_wait(event, seen, (uint32_t)SL_MIN(left_ms, (uint64_t)SL_ARENA_WAIT_MS));
    }
}
