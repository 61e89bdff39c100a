/*
 * mark.h - which vertices can be in a cache at all, and their ranks, for one process to look up.
 *
 * PROBLEM. The arena has the hotness order: which vertex is where. Marking a batch asks the other
 * way round, for hundreds of thousands of vertices a batch and anywhere in the graph, so what it
 * reads should be small and lie on huge pages, which the arena does not.
 *
 * DESIGN. Each sampler makes itself an index (struct sl_rank_index) from the tiers of the order
 * when the first batch is to be marked: one pass over the order up to the end of the last tier,
 * which is written forwards within each tier. It takes V/4 bytes a tier, however many are hot.
 *
 * An order stays as it is for as long as its generation, so an index does; it is made again for
 * another generation, which no job has.
 */
#ifndef SL_SAMPLER_MARK_H
#define SL_SAMPLER_MARK_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/bits.h"
#include "common/device/device.h"
#include "common/arena/arena.h"
#include "kernels/kernels.h"

struct sl_marker {
    struct sl_rank_index index; // of words
    uint32_t generation;        // of its order, 0 = none
    uint64_t *words;            // owned
    size_t bytes;
    // Where ranks are looked up: index.words are in its memory. NULL: the process's own.
    const struct sl_device *device;
};

// Memory of an index.
static inline uint64_t sl_marker_bytes(uint64_t n_nodes, uint32_t n_tiers)
{
    return sl_div_up(n_nodes, 32) * n_tiers * sizeof(uint64_t);
}

/*
 * Brings the index to the order that is published, of a graph of n_nodes; costs a load when it is
 * that already. A struct of
 * zeros (but for the device) has none yet. SL_ENOMEM; SL_EPROTO when there is no order of so
 * many vertices, or it is none.
 */
int sl_marker_refresh(struct sl_marker *m, const struct sl_arena *arena, uint64_t n_nodes);
void sl_marker_fini(struct sl_marker *m); // safe on a zeroed struct

#endif
