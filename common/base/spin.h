/*
 * spin.h - polls for something that wakes nobody, without keeping a core from threads with work.
 *
 * A thread that asks again and again answers fastest, and on a core that is free it costs nobody
 * anything. Where more threads can run than there are cores it stands in the way of those that it
 * may be waiting for. The kernel says which it is: each look yields the core, and a yield that let
 * another thread run is counted as a switch of this one.
 *
 *      while (!is_over())
 *          if (!sl_spin(&spin))
 *              sleep a while, longer with time
 */
#ifndef SL_BASE_SPIN_H
#define SL_BASE_SPIN_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>

struct sl_spin {
    uint32_t left; // looks until the thread sleeps in between, whoever wants its core; 0 = from now
};

// How often this thread had to leave its core to another one.
static inline long sl_spin_switches(void)
{
    struct rusage used = {0};
    getrusage(RUSAGE_THREAD, &used);
    return used.ru_nivcsw;
}

// Yields the core. False: the caller is to sleep from now on, since another thread had use for the
// core or since this has gone on for long enough.
static inline bool sl_spin(struct sl_spin *spin)
{
    if (spin->left == 0)
        return false;
    const long before = sl_spin_switches();
    sched_yield();
    spin->left = sl_spin_switches() == before ? spin->left - 1 : 0;
    return spin->left > 0;
}

#endif
