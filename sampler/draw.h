/*
 * draw.h - draws one mini-batch: seeds in, a block (common/ipc/block.h) in the caller's memory out.
 *
 * PROBLEM. The block goes straight into the arena, in one piece and without holes, but how many
 * vertices and edges it will have is known only once it has been drawn.
 *
 * DESIGN. Before hop h its number of rows is known, so its indptr has its final place, and its
 * indices follow behind it with all the memory that is left; when the hop is drawn the next one
 * begins right behind. Only the vertex list grows over all hops: it stands in scratch memory of the
 * drawer and is copied to the end of the block once, with the degrees behind it where the model
 * wants them. Nothing is moved and the block ends where its last array ends.
 *
 * Bytes between arrays are zero, so equal batches are equal bytes wherever they were drawn.
 *
 * A drawer keeps its scratch memory and its renumbering map from batch to batch: both fit the
 * largest batch so far, not the graph. One drawer a thread.
 */
#ifndef SL_SAMPLER_DRAW_H
#define SL_SAMPLER_DRAW_H

#include <stdint.h>

#include "common/ipc/block.h"
#include "sampler/topology.h"

// What a batch is drawn with; the same for all batches of a phase.
struct sl_draw_plan {
    uint32_t n_hops;
    int64_t fanout[SL_MAX_HOPS]; // fanout[0] next to the seeds, -1 = all neighbours
    uint32_t stream;             // SL_RNG_SAMPLE or SL_RNG_EVAL_SAMPLE
    uint64_t seed;
    bool degrees; // the block carries the in-degrees of its input nodes
};

struct sl_drawer {
    const struct sl_kernels *kernels;
    const struct sl_topology *topology;
    struct sl_idmap *map;
    uint32_t *nodes; // scratch, grown to the largest batch
    uint32_t nodes_capacity;
    uint32_t largest_batch; // input nodes of the largest batch so far
};

int sl_drawer_init(struct sl_drawer *d, const struct sl_topology *topology,
                   const struct sl_kernels *kernels);
void sl_drawer_fini(struct sl_drawer *d); // safe on a zeroed struct

/*
 * Draws the batch of these seeds (all different) into block[0 .. capacity_bytes), which is aligned
 * to 64 bytes. SL_OK with block->bytes set; SL_ERANGE with *wanted_bytes, a guess of what would be
 * enough, when it does not fit (the memory then holds garbage); other errors as the kernel's.
 */
int sl_drawer_draw(struct sl_drawer *d, const struct sl_draw_plan *plan, uint32_t epoch,
                   uint32_t batch, const uint32_t *seeds, uint32_t n_seeds, struct sl_block *block,
                   uint64_t capacity_bytes, uint64_t *wanted_bytes);

#endif
