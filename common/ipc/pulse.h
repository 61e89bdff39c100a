/*
 * pulse.h - how a worker's thread learns that it is to leave, and how others learn that it lives.
 *
 * Every loop and every wait of a worker comes round at least every SL_ARENA_WAIT_MS, or after a
 * piece of work of bounded size, and asks sl_pulse_stopping(). Asking is a sign of life, too: it
 * counts among the words of its slot, and the broker takes a thread that has not asked for the
 * job's stall_seconds for one that hangs (a GPU that never answers, a file server that is gone, a
 * process that somebody has stopped).
 */
#ifndef SL_COMMON_IPC_PULSE_H
#define SL_COMMON_IPC_PULSE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "common/ipc/stats.h"

// Borrowed for as long as the worker runs.
struct sl_pulse {
    const struct sl_arena *arena;
    const _Atomic bool *stop;    // of this process; NULL for none
    struct sl_worker_slot *slot; // NULL where nobody looks
    enum sl_thread thread;       // whose pulse it is
};

// Whether to leave: the job is aborted, or this process is told to stop.
static inline bool sl_pulse_stopping(const struct sl_pulse *p)
{
    if (p->slot)
        sl_stats_beat(p->slot, p->thread);
    return sl_arena_aborted(p->arena) ||
           (p->stop && atomic_load_explicit(p->stop, memory_order_relaxed));
}

#endif
