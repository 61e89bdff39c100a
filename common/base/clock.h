// clock.h - time in nanoseconds.
#ifndef SL_COMMON_BASE_CLOCK_H
#define SL_COMMON_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t sl_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

// What the calling thread has taken of a core so far: what something costs, whoever else runs here.
static inline uint64_t sl_thread_cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#endif
