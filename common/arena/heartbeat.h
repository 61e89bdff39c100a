/*
 * heartbeat.h - how a worker's thread learns that it is to leave, and how others learn that it
 * lives.
 *
 * Every loop and every wait of a worker comes round at least every SL_ARENA_WAIT_MS, or after a
 * piece of work of bounded size, and asks sl_heartbeat_stopping(). Asking is a sign of life, too:
 * it counts among the words of its slot, and the broker takes a thread that has not asked for the
 * job's stall_seconds for one that hangs (a GPU that never answers, a file server that is gone, a
 * process that somebody has stopped).
 */
#ifndef SL_ARENA_HEARTBEAT_H
#define SL_ARENA_HEARTBEAT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

#include "common/base/clock.h"
#include "common/arena/stats.h"

// Borrowed for as long as the worker runs.
struct sl_heartbeat {
    const struct sl_arena *arena;
    const _Atomic bool *stop;    // of this process; NULL for none
    struct sl_worker_slot *slot; // NULL where nobody looks
    enum sl_thread thread;       // whose pulse it is
};

// Whether to leave: the job is aborted, or this process is told to stop.
static inline bool sl_heartbeat_stopping(const struct sl_heartbeat *p)
{
    if (p->slot)
        sl_stats_beat(p->slot, p->thread);
    return sl_arena_aborted(p->arena) ||
           (p->stop && atomic_load_explicit(p->stop, memory_order_relaxed));
}

// Sleeps until `until_ns` of sl_now_ns(), or until it is time to leave: a throttle, for tests of
// the scheduling.
static inline void sl_heartbeat_sleep(const struct sl_heartbeat *p, uint64_t until_ns)
{
    const uint64_t look_around_ns = 20 * 1000 * 1000;
    for (uint64_t now_ns; (now_ns = sl_now_ns()) < until_ns && !sl_heartbeat_stopping(p);) {
        uint64_t left_ns = until_ns - now_ns;
        const struct timespec pause = {
            .tv_nsec = (long)(left_ns < look_around_ns ? left_ns : look_around_ns)};
        nanosleep(&pause, NULL);
    }
}

#endif
