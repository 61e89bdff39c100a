/*
 * near_block.h - finds blocks that a sampler on the trainer's own GPU has left there
 * (sampler/mirror.h).
 */
#ifndef SL_TRAINER_FEED_NEAR_BLOCK_H
#define SL_TRAINER_FEED_NEAR_BLOCK_H

#include <stdint.h>

#include "common/arena/peer_import.h"
#include "common/arena/phase.h"

// What one thread has open of the samplers on its GPU.
struct sl_near_blocks {
    struct sl_peer_import borrowed;
    uint64_t on_gpu; // bit d: device d of the job is this GPU
};

// A block's arrays in the GPU's memory.
struct sl_near_block {
    const char *base;                // as if its header stood there; NULL: in the arena alone
    struct sl_peer_import *borrowed; // says whether what was read there is good
};

void sl_near_blocks_init(struct sl_near_blocks *n, struct sl_arena *arena, uint32_t reader,
                         const struct sl_device *device, uint64_t on_gpu);
// Finds a batch's block on this GPU. Opens what its sampler lends.
struct sl_near_block sl_near_block_find(struct sl_near_blocks *n,
                                        const struct sl_batch_entry *entry);

#endif
