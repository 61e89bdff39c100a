/*
 * random.h - the random numbers of generators.
 *
 * Stream SL_RNG_GENERATE of Philox, keyed by what a number is for, so that edge i or vertex v is
 * the same whichever thread makes it: counter = {group, purpose | item's low word | high word}.
 */
#ifndef SL_DATASET_RANDOM_H
#define SL_DATASET_RANDOM_H

#include <stdint.h>

#include "common/base/philox.h"

enum sl_draw_purpose {
    SL_DRAW_SCRAMBLE = 1,   // item: which mapping; group: round
    SL_DRAW_EDGE = 2,       // item: edge; group: attempt << 8 | words / 4
    SL_DRAW_LABEL = 3,      // item: vertex
    SL_DRAW_CLASS_MEAN = 4, // item: class; group: dimension / 4
    SL_DRAW_FEATURE = 5,    // item: vertex; group: dimension / 4
    SL_DRAW_ESTIMATE = 6,   // item: running number
    SL_DRAW_YEAR = 7,       // item: vertex
    SL_DRAW_REFERENCES = 8, // item: vertex
    SL_DRAW_ROUND = 9,      // item: round of topics
    SL_DRAW_FAME = 10,      // item: era of papers << 32 | topic
    SL_DRAW_TASTE = 11,     // item: user; n: which of his tastes
    SL_DRAW_CHOICE = 12,    // item: user; n: attempt
    SL_DRAW_RACE = 13,      // item: user; n: item
    SL_DRAW_HELD_OUT = 14,  // item: user; n: which of his pairs
    SL_DRAW_AUTHORS = 15,   // item: paper; n: area * writers + which of them
    SL_DRAW_STRAY = 16,     // item: paper; n: which of its writers
    SL_DRAW_FIELD = 17,     // item: author
    SL_DRAW_PAPER = 18,     // item: paper; group: dimension / 4
};

static inline struct sl_rng_block sl_draw(uint64_t seed, enum sl_draw_purpose purpose,
                                          uint64_t item, uint32_t group)
{
    return sl_philox(seed, sl_rng_word0(SL_RNG_GENERATE, (uint32_t)purpose, group), (uint32_t)item,
                     (uint32_t)(item >> 32), 0);
}

// The n-th of many of an item.
static inline struct sl_rng_block sl_draw_nth(uint64_t seed, enum sl_draw_purpose purpose,
                                              uint64_t item, uint32_t n)
{
    return sl_philox(seed, sl_rng_word0(SL_RNG_GENERATE, (uint32_t)purpose, 0), (uint32_t)item,
                     (uint32_t)(item >> 32), n);
}

// [0, 1) with 53 bits.
static inline double sl_draw_unit(uint32_t high, uint32_t low)
{
    return (double)(((uint64_t)high << 32 | low) >> 11) * (1.0 / 9007199254740992.0);
}

#endif
