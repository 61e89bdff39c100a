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

// The seeds' labels or targets, as the first array. False when they do not fit.
bool sl_block_put_labels(const struct sl_topology *topology, const uint32_t *seeds,
                         struct sl_block *block, struct sl_block_cursor *c);

#endif
