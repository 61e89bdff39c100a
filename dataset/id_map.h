/*
 * id_map.h - sparse vertex ids to 0, 1, 2, ... in the same order.
 *
 * A bit for each id that may occur, and the number of set bits before every 512: 18 bytes for 128
 * ids, at most 576 MiB for all 32-bit ids, however many edges there are. The order is kept, so
 * sorted edges stay sorted and the numbering does not depend on the order of the input.
 */
#ifndef SL_DATASET_ID_MAP_H
#define SL_DATASET_ID_MAP_H

#include <stdint.h>

struct sl_id_map {
    uint64_t *bits;   // (n_words)
    uint32_t *before; // (n_words / 8 + 1) set bits in front of every eighth word; after finish
    uint64_t n_words; // a multiple of 8
    uint64_t n_ids;   // after finish
};

// A zeroed struct is an empty map.
void sl_id_map_fini(struct sl_id_map *m);

// SL_ENOMEM.
int sl_id_map_grow(struct sl_id_map *m, uint32_t id);

static inline int sl_id_map_add(struct sl_id_map *m, uint32_t id)
{
    if (id / 64 >= m->n_words) {
        int rc = sl_id_map_grow(m, id);
        if (rc < 0)
            return rc;
    }
    m->bits[id / 64] |= (uint64_t)1 << (id % 64);
    return 0;
}

// No more ids are added.
int sl_id_map_finish(struct sl_id_map *m);

// The number of an id that was added.
static inline uint32_t sl_id_map_rank(const struct sl_id_map *m, uint32_t id)
{
    uint32_t word = id / 64;
    uint32_t rank = m->before[word / 8];
    for (uint32_t w = word / 8 * 8; w < word; w++)
        rank += (uint32_t)__builtin_popcountll(m->bits[w]);
    return rank + (uint32_t)__builtin_popcountll(m->bits[word] & (((uint64_t)1 << (id % 64)) - 1));
}

#endif
