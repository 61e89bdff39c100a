// clock.h - time in nanoseconds, and a clock that a test holds in its hand.
#ifndef SL_BASE_CLOCK_H
#define SL_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

// Added to what sl_now_ns tells: a unit test that moves it has let time pass without waiting. Waits
// that are under way (futexes, libuv's timers) do not see it: what such a wait calls when it is
// over is what a test calls. Always 0 in the programs.
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

// What the calling thread has taken of a core so far: what something costs, whoever else runs here.
static inline uint64_t sl_thread_cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#endif
