// draw_internal.h - what the drawer's two ways share: how a block is laid out, array after array.
#ifndef SL_SAMPLER_DRAW_INTERNAL_H
#define SL_SAMPLER_DRAW_INTERNAL_H

#include <stdbool.h>

#include "sampler/draw.h"

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

// What sl_drawer_draw() does behind the header, on a device that draws whole batches: SL_EAGAIN
// when it does not fit, with *wanted_bytes exact.
int sl_drawer_draw_on_device(struct sl_drawer *d, const struct sl_draw_plan *plan,
                             const uint32_t *seeds, struct sl_block *block,
                             struct sl_block_cursor *c, uint64_t *wanted_bytes);

// sl_drawer_mark() there; to[n_input] are the ranks' places in the block.
int sl_drawer_mark_on_device(struct sl_drawer *d, const struct sl_rank_index *index,
                             const struct sl_block *block, uint32_t *to);

void sl_drawer_device_fini(struct sl_drawer *d);

#endif
