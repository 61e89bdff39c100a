// sampler_rows.h - the edges that a row draws: the definitions of the samplers, written down again.
#ifndef SL_TESTS_UNIT_SAMPLER_ROWS_H
#define SL_TESTS_UNIT_SAMPLER_ROWS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/philox.h"
#include "tests/unit/asserts.h"

// In loops: a ck_assert that holds costs a system call.
#define EXPECT(cond, ...)                                                                          \
    do {                                                                                           \
        if (!(cond))                                                                               \
            ck_abort_msg(__VA_ARGS__);                                                             \
    } while (0)

struct key {
    uint64_t seed;
    uint32_t stream, epoch, batch, hop;
};

static inline uint32_t row_word(const struct key *key, uint32_t tag, uint32_t group,
                                uint32_t second, uint32_t which)
{
    const uint32_t c0 = group | tag << 16 | key->stream << 24;
    return sl_philox(key->seed, c0, second, key->batch, key->epoch).w[which];
}

static inline bool row_has(const uint32_t *taken, uint32_t n, uint32_t position)
{
    for (uint32_t t = 0; t < n; t++)
        if (taken[t] == position)
            return true;
    return false;
}

// Floyd's positions, in the order of the slots.
static inline void row_uniformly(const struct key *key, uint32_t row, uint32_t degree, uint32_t k,
                                 bool replace, uint32_t *taken)
{
    for (uint32_t slot = 0; slot < k; slot++) {
        const uint32_t n = replace ? degree : degree - k + slot + 1;
        uint32_t x = 0;
        for (uint32_t attempt = 0; attempt < 32; attempt++) {
            const uint64_t product =
                (uint64_t)row_word(key, key->hop | attempt << 3, slot / 4, row, slot % 4) * n;
            x = (uint32_t)(product >> 32);
            if ((uint32_t)product >= (UINT64_C(0x100000000) - n) % n)
                break;
        }
        taken[slot] = !replace && row_has(taken, slot, x) ? n - 1 : x;
    }
}

// Those of any weight, in the order of the file. Returns how many they are.
static inline uint32_t row_of_weight(const double *weight, uint32_t degree, uint32_t *taken)
{
    uint32_t n = 0;
    for (uint32_t j = 0; j < degree; j++)
        if (weight[j] > 0)
            taken[n++] = j;
    return n;
}

// Along the edges that are left; all of them in the order of the file where they are no more.
// Returns how many are taken.
static inline uint32_t row_by_weight(const struct key *key, uint32_t row, const double *weight,
                                     uint32_t degree, uint32_t k, bool replace, uint32_t *taken)
{
    double left = 0, *rest = malloc((degree + 1) * sizeof *rest);
    uint32_t n = 0;
    memcpy(rest, weight, degree * sizeof *rest);
    for (uint32_t j = 0; j < degree; j++)
        left += rest[j];
    for (; n < k && left > 0; n++) {
        const uint32_t high = row_word(key, key->hop, n / 2, row, 2 * (n % 2));
        const uint32_t low = row_word(key, key->hop, n / 2, row, 2 * (n % 2) + 1);
        const double u = (double)((uint64_t)(high >> 11) << 32 | low) / 9007199254740992.0;
        const double x = u * left;
        double end = 0;
        uint32_t j = 0;
        for (;; j++) {
            end += rest[j];
            if (x < end)
                break;
        }
        left -= replace ? 0 : rest[j];
        rest[j] = replace ? rest[j] : 0;
        taken[n] = j;
    }
    free(rest);
    return left > 0 ? n : row_of_weight(weight, degree, taken);
}

#endif
