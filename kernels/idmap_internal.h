/*
 * idmap_internal.h - the renumbering map as the sampling kernels see it; the essay is in idmap.c.
 */
#ifndef SL_KERNELS_IDMAP_INTERNAL_H
#define SL_KERNELS_IDMAP_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"

// A set of numbers that is emptied by a step of `stamp`: the positions drawn for one row.
struct sl_distinct {
    uint32_t capacity; // numbers it can take
    uint32_t mask;     // slots - 1, at least twice the capacity
    uint32_t shift;
    uint32_t stamp;  // of the row in hand; never 0
    uint64_t *slot;  // (mask + 1) stamp << 32 | number
    uint32_t *drawn; // (capacity) for the caller: the numbers in their order
    size_t bytes;    // of both arrays
};

struct sl_idmap {
    uint64_t *slot; // (mask + 1) key << 32 | base + local id
    uint32_t mask;  // slots - 1, slots a power of two
    uint32_t shift; // 32 - log2(slots)
    uint32_t base;  // of this batch: an entry whose low half is below it is empty
    uint32_t count; // keys of this batch
    uint32_t limit; // keys it takes before it grows: half the slots
    struct sl_distinct distinct;
    void *scratch;
    size_t scratch_bytes;
};

// Where the search for a key begins. Two rounds of multiply and fold: runs, strides and shifted
// copies of ids, which graphs are full of, spread evenly, and no simple pattern piles up.
static inline uint32_t sl_idmap_hash(uint32_t key, uint32_t shift)
{
    uint32_t h = key * 0x9E3779B1u;
    h ^= h >> 15;
    h *= 0x85EBCA77u;
    return h >> shift;
}

/*
 * The slot of `key`, searched from `at`: one that holds it (*found), or the empty one where it
 * belongs. The map must have room (count < slots).
 */
static inline uint64_t *sl_idmap_find(const struct sl_idmap *map, uint32_t key, uint32_t at,
                                      bool *found)
{
    for (;; at = (at + 1) & map->mask) {
        uint64_t *slot = &map->slot[at];
        if ((uint32_t)*slot < map->base) {
            *found = false;
            return slot;
        }
        if ((uint32_t)(*slot >> 32) == key) {
            *found = true;
            return slot;
        }
    }
}

static inline uint64_t sl_idmap_entry(const struct sl_idmap *map, uint32_t key, uint32_t local)
{
    return (uint64_t)key << 32 | (map->base + local);
}

// Makes room for `total` keys of this batch, keeping those that are there. SL_ENOMEM.
int sl_idmap_reserve(struct sl_idmap *map, uint64_t total);

// The set that belongs to this map, emptied, with room for k numbers (valid until the next call).
// The map is what a sampler keeps from batch to batch, so this scratch lives with it: allocated
// once, as large as the largest fanout. SL_ENOMEM.
int sl_idmap_distinct(struct sl_idmap *map, uint32_t k, struct sl_distinct **out);

// Other scratch that lives with the map for the same reason: at least `bytes`, aligned to a page,
// with whatever the last user left there (valid until the next call). SL_ENOMEM.
int sl_idmap_scratch(struct sl_idmap *map, size_t bytes, void **out);

// Empties the set.
static inline void sl_distinct_reset(struct sl_distinct *set)
{
    if (++set->stamp == 0) { // once in 2^32 rows
        for (uint64_t i = 0; i <= set->mask; i++)
            set->slot[i] = 0;
        set->stamp = 1;
    }
}

// Adds x; false when it was there.
static inline bool sl_distinct_add(struct sl_distinct *set, uint32_t x)
{
    uint64_t entry = (uint64_t)set->stamp << 32 | x;
    for (uint32_t at = sl_idmap_hash(x, set->shift);; at = (at + 1) & set->mask) {
        if (set->slot[at] == entry)
            return false;
        if ((uint32_t)(set->slot[at] >> 32) != set->stamp) {
            set->slot[at] = entry;
            return true;
        }
    }
}

#endif
