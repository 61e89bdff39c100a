/*
 * permutation.h - a seeded one-to-one mapping of 0 .. n-1 onto itself, without memory.
 *
 * Generators draw vertices by rank (rank 0 has the most edges); the mapping turns ranks into
 * vertex ids, so that an id tells nothing about degree or class. Rounds of multiply, add and
 * xor-shift on the next power of two, each invertible; what falls outside 0 .. n-1 is mapped again
 * until it is inside (cycle walking), fewer than two times on average.
 */
#ifndef SL_DATASET_PERMUTATION_H
#define SL_DATASET_PERMUTATION_H

#include <stdint.h>

enum { SL_PERMUTATION_ROUNDS = 4 };

struct sl_permutation {
    uint64_t n, mask;
    unsigned shift;
    uint64_t multiply[SL_PERMUTATION_ROUNDS]; // odd
    uint64_t inverse[SL_PERMUTATION_ROUNDS];  // of multiply, modulo 2^64
    uint64_t add[SL_PERMUTATION_ROUNDS];
};

// n from 1 to 2^32. Different `which` give independent mappings of one seed.
void sl_permutation_init(struct sl_permutation *s, uint64_t n, uint64_t seed, uint32_t which);

static inline uint64_t sl_permutation_apply(const struct sl_permutation *s, uint64_t x)
{
    do {
        for (int r = 0; r < SL_PERMUTATION_ROUNDS; r++) {
            x = (x * s->multiply[r] + s->add[r]) & s->mask;
            x ^= x >> s->shift;
        }
    } while (x >= s->n);
    return x;
}

static inline uint64_t sl_permutation_invert(const struct sl_permutation *s, uint64_t x)
{
    do {
        for (int r = SL_PERMUTATION_ROUNDS - 1; r >= 0; r--) {
            x ^= x >> s->shift; // its own inverse: the shift is at least half the bits
            x = (x - s->add[r]) * s->inverse[r] & s->mask;
        }
    } while (x >= s->n);
    return x;
}

#endif
