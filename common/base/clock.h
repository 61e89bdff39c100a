// clock.h - time in nanoseconds, by a clock that unit tests can move.
#ifndef SL_BASE_CLOCK_H
#define SL_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

// Added to sl_now_ns(): a unit test moves it to let time pass without waiting. Waits that are under
// way (futexes, libuv's timers) do not see it: the test calls what such a wait would call at its
// end. Always 0 in the programs.
extern uint64_t sl_clock_ahead_ns;

static inline void sl_clock_advance(uint64_t ns)
{
    __atomic_fetch_add(&sl_clock_ahead_ns, ns, __ATOMIC_RELAXED);
}

static inline uint64_t sl_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec +
           __atomic_load_n(&sl_clock_ahead_ns, __ATOMIC_RELAXED);
}

// Processor time of the calling thread so far: what a piece of work costs, whatever else runs.
static inline uint64_t sl_thread_cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#endif
