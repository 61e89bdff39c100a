/*
 * rising.h - where numbers stand in rising lists of ids, looked for in many lists side by side.
 *
 * One binary search waits for each of its loads, and guesses wrong at every second step. Here all
 * take their steps together, without a branch, and their loads do not wait for one another.
 */
#ifndef SL_BASE_RISING_H
#define SL_BASE_RISING_H

#include <stdint.h>
#include <string.h>

enum { SL_RISING_LANES = 32 };

// Searches in the same array. Lane i looks in the ids at[i] .. at[i] + n[i] - 1, which rise; none
// is empty.
struct sl_rising {
    const void *ids;
    uint32_t words;               // in an id, of which the first one counts: 1, or 2
    uint64_t at[SL_RISING_LANES]; // then where the first one stands that is not below key[i]
    uint64_t n[SL_RISING_LANES];  // does not stay
    uint32_t key[SL_RISING_LANES];
};

static inline uint32_t sl_rising_id(const struct sl_rising *r, uint64_t at)
{
    uint32_t id;
    memcpy(&id, (const char *)r->ids + at * r->words * sizeof id, sizeof id);
    return id;
}

// The first `lanes` of them.
static inline void sl_rising_find(struct sl_rising *r, uint32_t lanes)
{
    // The one looked for is among the n from `at` on, or follows them, and all before are below.
    for (uint64_t more = 1; more;) {
        more = 0;
        for (uint32_t i = 0; i < lanes; i++) {
            const uint64_t half = r->n[i] / 2;
            r->at[i] += half & -(uint64_t)(sl_rising_id(r, r->at[i] + half) < r->key[i]);
            r->n[i] -= half;
            more |= half;
        }
    }
    for (uint32_t i = 0; i < lanes; i++)
        r->at[i] += sl_rising_id(r, r->at[i]) < r->key[i];
}

#endif
