/*
 * mark.h - the index of one sampler from vertices to their ranks in the hotness order.
 *
 * PROBLEM. The arena has the hotness order: which vertex is where. Marking a batch asks the other
 * way round, for hundreds of thousands of vertices a batch and anywhere in the graph, so what it
 * reads should be small and lie on huge pages, which the arena does not.
 *
 * DESIGN. Each sampler makes itself an index (struct sl_rank_index) from the tiers of the order
 * when the first batch is to be marked: one pass over the order up to the end of the last tier,
 * which is written forwards within each tier. It takes V/4 bytes a tier, however many are hot.
 *
 * Of a graph with types ranks are counted within each type, so a word cannot be of two: each type's
 * words are its own, one more for each type before it than its vertices' ids say, and a batch is
 * marked type after type (sl_marker_index()). The processor does it, also where a GPU draws.
 *
 * An order does not change within its generation, nor does the index; another generation, which
 * jobs do not have today, would make a new one.
 */
#ifndef SL_SAMPLER_MARK_H
#define SL_SAMPLER_MARK_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/bits.h"
#include "common/data/typed.h"
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
    const struct sl_typed *typed; // borrowed; NULL or without types: a plain graph
};

// Memory of an index; n_types 0 of a plain graph.
static inline uint64_t sl_marker_bytes(uint64_t n_nodes, uint32_t n_types, uint32_t n_tiers)
{
    return (sl_div_up(n_nodes, 32) + n_types) * n_tiers * sizeof(uint64_t);
}

// The index of a type's vertices in that of all.
static inline struct sl_rank_index sl_marker_index(const struct sl_rank_index *all,
                                                   const struct sl_typed *typed, uint32_t type)
{
    const struct sl_vertex_type *of = &typed->type[type];
    return (struct sl_rank_index){.n_nodes = of->first + of->n,
                                  .n_tiers = all->n_tiers,
                                  .words = all->words + (uint64_t)type * all->n_tiers};
}

/*
 * Makes the index for the published order of a graph of n_nodes; costs one load when it is up to
 * date. A struct of zeros (but for device and types) has no index yet. SL_ENOMEM; SL_EPROTO when
 * the order is not of so many vertices, or is no permutation.
 */
int sl_marker_refresh(struct sl_marker *m, const struct sl_arena *arena, uint64_t n_nodes);
void sl_marker_fini(struct sl_marker *m); // safe on a zeroed struct

#endif
