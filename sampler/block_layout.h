// block_layout.h - places the arrays of a block one after the other, on cores and for a GPU.
#ifndef SL_SAMPLER_BLOCK_LAYOUT_H
#define SL_SAMPLER_BLOCK_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/arena/block.h"
#include "sampler/topology.h"

enum { SL_BLOCK_ALIGN = 64 }; // bytes

// Where the next array of a block goes.
struct sl_block_cursor {
    char *base;
    uint64_t at, capacity;
};

// Takes `bytes` at the cursor and zeroes the gap before them; NULL when they do not fit.
void *sl_block_place(struct sl_block_cursor *c, uint64_t bytes, uint64_t *offset);

// Where a hop's edges go; there may be fewer of them in the end.
struct sl_hop_room {
    uint64_t edges;
    uint32_t *indptr;  // (n_dst + 1)
    uint32_t *indices; // (edges)
    void *second;      // (edges) what is beside each edge's source
};

// Room for up to `most` edges of a hop with `beside` bytes beside each, or as many as fit. False
// when not even the rows do.
bool sl_block_begin_hop(struct sl_block_cursor *c, struct sl_block_hop *hop, uint32_t n_dst,
                        uint64_t most, uint32_t beside, struct sl_hop_room *out);
// The hop has n_edges of them: the second array moves up to the first.
void sl_block_end_hop(struct sl_block_cursor *c, struct sl_block_hop *hop, uint32_t n_edges,
                      uint32_t beside, const struct sl_hop_room *room);

// The first n_hops hops of a block have the arrays of `last`, each a part of them.
void sl_block_share_hops(struct sl_block *block, uint32_t n_hops, const struct sl_block_hop *last);

// The seeds' labels or targets, as the first array. False when they do not fit.
bool sl_block_put_labels(const struct sl_topology *topology, const uint32_t *seeds,
                         struct sl_block *block, struct sl_block_cursor *c);

// A job of links has its pairs there.
bool sl_block_put_pairs(const struct sl_pairs *pairs, struct sl_block *block,
                        struct sl_block_cursor *c);

#endif
