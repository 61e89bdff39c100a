/*
 * draw_device.h - mini-batches that a GPU draws, two at a time.
 *
 * All hops are drawn in the device's memory without asking in between, and the GPU writes what it
 * drew, and its ranks, into the block (kernels: draw, struct sl_draw_delivery): how large each
 * array has become is known there first. So a batch is asked for as a whole and waited for once.
 * The processor writes what it has of its own: the header, the labels, the tables of a typed block,
 * the zeros between arrays.
 * The layout is the processor's: equal batches are equal bytes.
 *
 * SLOTS. Each batch under way has a slot: a queue of the device and memory to draw in. While one
 * batch is drawn the other one's block is on its way, and the GPU has work when the processor has
 * not yet noticed that a batch is done.
 *
 * A batch that was drawn from another device's memory counts if that device's process lived until
 * it was done; otherwise it is drawn again without parts of others (share.h).
 *
 * Where a block's memory is not pinned the GPU writes it to memory of its own, and it is copied,
 * which is one more wait.
 */
#ifndef SL_SAMPLER_DRAW_DEVICE_H
#define SL_SAMPLER_DRAW_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/arena/block.h"
#include "kernels/kernels.h"
#include "sampler/draw_job.h"
#include "sampler/draw_typed.h"
#include "sampler/graph_placement.h"
#include "sampler/share.h"
#include "sampler/topology.h"

struct sl_device_slot {
    struct sl_draw_state *state;
    bool is_busy;
    unsigned char *staged; // a block whose memory is not pinned, or NULL
    uint64_t staged_bytes;
};

struct sl_device_drawer {
    const struct sl_topology *topology;
    const struct sl_graph_placement *residence; // NULL: the processor draws
    struct sl_share *share;                     // its edges lie on several devices; or NULL
    struct sl_device_slot slot[SL_DEVICE_QUEUES];
    uint32_t next;                // slot, if it is free
    struct sl_typed_drawer typed; // of a typed graph: counts what was drawn
};

// Starts drawing the batch, and writes the labels into the block, whose header is there.
int sl_device_drawer_begin(struct sl_device_drawer *d, struct sl_draw_job *job);
// Waits for the batch. SL_EAGAIN when it does not fit, with *wanted_bytes exact, ranks included.
int sl_device_drawer_finish(struct sl_device_drawer *d, struct sl_draw_job *job,
                            uint64_t *wanted_bytes);
// Waits for a batch that is given up.
void sl_device_drawer_drop(struct sl_device_drawer *d, const struct sl_draw_job *job);

void sl_device_drawer_fini(struct sl_device_drawer *d); // safe on a zeroed struct

// Device memory that it holds.
uint64_t sl_device_drawer_bytes(const struct sl_device_drawer *d);

#endif
