// bits.h - small integer helpers shared by C and CUDA sources.
#ifndef SL_BASE_BITS_H
#define SL_BASE_BITS_H

#include <stddef.h>
#include <stdint.h>

#define SL_CACHE_LINE 64

#define SL_MIN(a, b)   ((a) < (b) ? (a) : (b))
#define SL_MAX(a, b)   ((a) > (b) ? (a) : (b))
#define SL_COUNT_OF(a) (sizeof(a) / sizeof((a)[0]))

// Rounds x up to a multiple of `to`, a power of two.
static inline uint64_t sl_align_up(uint64_t x, uint64_t to)
{
    return (x + to - 1) & ~(to - 1);
}

static inline uint64_t sl_div_up(uint64_t x, uint64_t by)
{
    return x / by + (x % by != 0);
}

// Smallest power of two that is at least x; 1 for 0.
static inline uint64_t sl_pow2_at_least(uint64_t x)
{
    return x <= 1 ? 1 : (uint64_t)1 << (64 - __builtin_clzll(x - 1));
}

#endif
