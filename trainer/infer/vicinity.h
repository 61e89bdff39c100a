/*
 * vicinity.h - what a model of a graph of several types reads for some vertices: all neighbours.
 *
 * Mini-batches that train come from samplers. This makes the one that they would draw with all
 * neighbours and sampler.expand "new": a typed block (common/arena/block.h) without labels and
 * ranks, which depends on the vertices alone. They may be of any type, and are the first of its
 * part. A type's lists grow to the largest block so far and are kept. Where features of edges are
 * read, the block has their numbers, of relations that have features.
 */
#ifndef SL_TRAINER_INFER_VICINITY_H
#define SL_TRAINER_INFER_VICINITY_H

#include <stdint.h>

#include "common/arena/block.h"
#include "common/data/dataset.h"
#include "trainer/infer/piece.h"
#include "trainer/model/neighbours.h"

struct sl_vicinity_part;
struct sl_vicinity_lists;

struct sl_vicinity {
    const struct sl_dataset *dataset;
    // Of jobs that walk along metapaths: what walks meet, as this layer sees it. NULL: all
    // neighbours. Borrowed.
    struct sl_neighbours *neighbours;
    uint32_t layer;
    struct sl_vicinity_part *part;   // (n_types)
    struct sl_vicinity_lists *lists; // (n_relations)
    uint64_t n_edges, most_edges;    // of all relations, in the block in hand
    uint32_t *place;                 // (n of the range) each one's number in its type's part
    uint64_t place_room;             // of it
    struct sl_block *block;          // the last one
    uint64_t block_room;             // bytes there
};

// SL_ENOMEM, as of the next one. The data set is borrowed.
int sl_vicinity_init(struct sl_vicinity *v, const struct sl_dataset *ds);
void sl_vicinity_fini(struct sl_vicinity *v); // safe on a zeroed struct

// v->block of these vertices of `type` (ids of the graph's one numbering, perhaps some twice) and
// v->place, valid until the next call. SL_ERANGE without a message where it has more than
// most_edges (at most 2^32 - 1).
int sl_vicinity_find(struct sl_vicinity *v, uint32_t type, const struct sl_infer_range *range,
                     uint32_t n_hops, uint64_t most_edges);

#endif
