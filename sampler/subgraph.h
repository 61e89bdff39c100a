/*
 * subgraph.h - the edges between a batch's vertices, as one hop more behind those that were drawn.
 *
 * The hop has a row for each vertex of the batch, also for those found last, and finds no new ones:
 * so a block keeps its format, and its last hop has all of the batch's edges, as PyTorch Geometric
 * wants them. Nothing is random in it.
 *
 *   induced         of each vertex the edges of the graph from vertices of the batch, in their
 *                   order there
 *   bidirectional   the edges that were drawn, in their order, and behind them one from each vertex
 *                   that an edge was drawn to and none from, by rising local number. It has the
 *                   number of the first such edge in the graph; where the graph has none, that of
 *                   the first that was drawn the other way, whose attributes are all that is known
 *
 * Edges of weight 0 are none for a job that samples by weight, nor are those that are excluded
 * (NULL: none are). Vertices' lists are read, for
 * bidirectional ones as far as numbers are looked for: this costs by degree, not by fanout.
 */
#ifndef SL_SAMPLER_SUBGRAPH_H
#define SL_SAMPLER_SUBGRAPH_H

#include "sampler/block_layout.h"
#include "sampler/draw_plan.h"
#include "sampler/topology.h"

// Memory of one who adds such hops, grown to the largest batch.
struct sl_subgraph_room {
    void *scratch;
    uint64_t bytes;
};

void sl_subgraph_fini(struct sl_subgraph_room *s); // safe on a zeroed struct

// Adds the hop of the plan's subgraph behind the plan's hops of a block whose vertices, `nodes`,
// are what the map has. SL_EAGAIN: the block's memory is too small; SL_EUNSUPPORTED: too many
// edges; SL_ENOMEM.
int sl_subgraph_add(struct sl_subgraph_room *s, const struct sl_topology *topology,
                    const struct sl_draw_plan *plan, const struct sl_excluded *excluded,
                    const struct sl_idmap *map, const uint32_t *nodes, struct sl_block *block,
                    struct sl_block_cursor *c);

#endif
