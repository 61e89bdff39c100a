/*
 * mirror.h - blocks that stay on the GPU: a copy in its memory of where the arena's payload begins,
 * lent to the trainers on the same GPU.
 *
 * PROBLEM. A block that a GPU draws leaves it for the arena, and where its trainer is on the same
 * GPU it comes back over the same bus.
 *
 * DESIGN. The GPU writes each block twice (struct sl_draw_delivery): into the arena and, where all
 * of it lies in the payload's first bytes, at the same distance into memory of its own. Extents are
 * first-fit, so that a small mirror has most blocks. The batch's entry says which offer
 * (common/arena/peer_memory.h) it was written under; a trainer on the GPU reads the arrays there
 * and in the arena only what the processor wrote, the header and the labels. Who owns which bytes
 * of the mirror follows from who owns the extent: nothing else has to be agreed on.
 *
 * FAILURE. Every block is in the arena, too, so whatever is wrong with a mirror costs a copy over
 * the bus: no memory, no way to share it, a dead sampler.
 */
#ifndef SL_SAMPLER_MIRROR_H
#define SL_SAMPLER_MIRROR_H

#include <stdint.h>

#include "common/device/device.h"
#include "common/arena/segment.h"

struct sl_mirror {
    const struct sl_device *device;
    char *p; // NULL: there is none
    uint64_t bytes;
    struct sl_arena *arena; // NULL: it is not lent
    uint32_t lender;        // the sampler's device
    uint64_t version;       // of the offer
};

// Takes device memory for some blocks of that size, fewer where the device has little room. Without
// any there is no mirror, and that is no error.
void sl_mirror_open(struct sl_mirror *m, const struct sl_device *device, uint64_t block_bytes);
// Shares it with the trainers on the sampler's device. Where that fails it is freed, with a line in
// the log.
void sl_mirror_lend(struct sl_mirror *m, struct sl_arena *arena, uint32_t lender);
// The place in the mirror of what begins `offset` bytes into the arena, and the bytes from there
// on. NULL: it has none.
void *sl_mirror_at(const struct sl_mirror *m, uint64_t offset, uint64_t *room);
// Safe on a zeroed struct.
void sl_mirror_close(struct sl_mirror *m);

#endif
