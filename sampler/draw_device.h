/*
 * draw_device.h - a mini-batch that a GPU draws.
 *
 * All hops are drawn in the device's memory without asking in between (kernels: draw). How large
 * each array has become is known when they are done, so the block is laid out then, and each array
 * is copied to its final place: no array is written twice by the processor, and where the arena is
 * pinned the copies are DMA. The layout is the processor's: equal batches are equal bytes.
 *
 * What is drawn stays in the device's memory until the next batch, so that marking reads the
 * vertices there.
 */
#ifndef SL_SAMPLER_DRAW_DEVICE_H
#define SL_SAMPLER_DRAW_DEVICE_H

#include <stdint.h>

#include "common/ipc/block.h"
#include "kernels/kernels.h"
#include "sampler/block_layout.h"
#include "sampler/draw_plan.h"
#include "sampler/residence.h"
#include "sampler/topology.h"

// Device memory that grows.
struct sl_device_words {
    uint32_t *p;
    uint64_t bytes;
};

struct sl_device_drawer {
    const struct sl_topology *topology;
    const struct sl_residence *residence; // NULL: the processor draws
    struct sl_draw_state *state;
    struct sl_drawn drawn; // the last batch
    const struct sl_block *drawn_block;
    struct sl_device_words ranks, marked_nodes;
    uint64_t copy_ns; // of the last draw: copying to where the block has it
};

// What sl_drawer_draw() does behind the header: SL_EAGAIN when it does not fit, with *wanted_bytes
// exact.
int sl_device_drawer_draw(struct sl_device_drawer *d, const struct sl_draw_plan *plan,
                          const uint32_t *seeds, struct sl_block *block, struct sl_block_cursor *c,
                          uint64_t *wanted_bytes);

// sl_drawer_mark() there; to[n_input] are the ranks' places in the block.
int sl_device_drawer_mark(struct sl_device_drawer *d, const struct sl_rank_index *index,
                          const struct sl_block *block, uint32_t *to);

void sl_device_drawer_fini(struct sl_device_drawer *d); // safe on a zeroed struct

// Device memory that it holds.
uint64_t sl_device_drawer_bytes(const struct sl_device_drawer *d);

#endif
