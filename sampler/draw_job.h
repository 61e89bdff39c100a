// draw_job.h - one mini-batch to draw, on the processor or a device: seeds, key, and where it goes.
#ifndef SL_SAMPLER_DRAW_JOB_H
#define SL_SAMPLER_DRAW_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "common/arena/block.h"
#include "kernels/exclusion.h"
#include "kernels/kernels.h"
#include "sampler/block_layout.h"
#include "sampler/draw_plan.h"

// The batch, and the memory that its block is drawn into.
struct sl_draw_job {
    const struct sl_draw_plan *plan;
    uint32_t epoch, batch;
    const uint32_t *seeds; // (n_seeds) all different
    uint32_t n_seeds;
    // Of a job of links: its pairs, whose ends the seeds are. NULL: the seeds' labels.
    const struct sl_pairs *pairs;
    // Edges between seeds that the batch does not see; NULL: none. Not where the plan is disjoint.
    const struct sl_target_edges *targets;
    uint32_t first_seed;    // place of seeds[0] in the epoch; where the plan is disjoint
    struct sl_block *block; // aligned to 64 bytes
    uint64_t capacity;      // bytes there
    // The index for its ranks, in memory that the drawer's operations read. NULL: it gets no ranks.
    const struct sl_rank_index *ranks;
    uint32_t generation; // of their order
    void *also;          // device memory that the device writes to as well, or NULL
    uint64_t also_bytes; // there
    bool is_mirrored;    // out: all that the device wrote is there too
    uint64_t copy_ns;    // out: copying to where the block has it
    // The drawer's:
    struct sl_block_cursor cursor; // where the next array goes
    uint32_t slot;
    bool is_staged;
    uint64_t first; // byte of the block where what is drawn begins
    struct sl_draw_delivery delivery;
};

#endif
