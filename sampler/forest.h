/*
 * forest.h - the seeds' trees of a disjoint batch, drawn one after the other and put together.
 *
 * Each seed has a subgraph of its own, its tree, whatever other seeds reach: a vertex is in a block
 * as often as trees have it. A tree is drawn as a batch of that seed alone, whose number is the
 * seed's place in the epoch: so it is the one that a job with batches of one seed draws, and
 * depends on nothing else in the batch. Drawing wants vertices of one tree in a row, a block those
 * of one hop: trees are blocks in scratch memory, from which the batch's block is put together.
 *
 * Vertices of a hop stand tree by tree, so those of the hops before are a prefix, as in any block.
 * Edges join vertices of one tree: whoever wants to know which tree a vertex is of follows them.
 *
 * Trees of a typed graph are typed blocks: all this holds for the vertices of each type, and a run
 * has the trees' runs of its hop and relation. A plain tree is one of one type, whose hops are its
 * runs.
 */
#ifndef SL_SAMPLER_FOREST_H
#define SL_SAMPLER_FOREST_H

#include "sampler/block_layout.h"

struct sl_tree {
    uint64_t offset; // of its block
    uint32_t run;    // of a typed one: the first of its runs that is not joined yet
};

struct sl_forest {
    char *memory; // grown to the largest batch
    uint64_t bytes, used;
    struct sl_tree *tree;
    // (n_trees, n_types, SL_MAX_HOPS + 1) from its vertices' numbers, by the hop that found them
    uint32_t *shift;
    uint32_t n_trees, n_types, trees_capacity;
};

// No trees, and room to note n of them; n_types: always the same, 1 of a plain graph. SL_ENOMEM.
int sl_forest_reset(struct sl_forest *f, uint32_t n, uint32_t n_types);
void sl_forest_fini(struct sl_forest *f); // safe on a zeroed struct

// Where the next tree's block goes, with *c behind its header; NULL: it has no room for that.
struct sl_block *sl_forest_next(const struct sl_forest *f, struct sl_block_cursor *c);
// Half as much memory again; the trees stay. SL_ENOMEM.
int sl_forest_grow(struct sl_forest *f);
// The tree in the next place, which ends at c, stays.
void sl_forest_keep(struct sl_forest *f, const struct sl_block_cursor *c);

// The trees' hops and vertices in a block that has its number of hops, with `beside` bytes beside
// each edge. SL_EAGAIN: the block's memory is too small; SL_EUNSUPPORTED: too many of them.
int sl_forest_join(struct sl_forest *f, uint32_t beside, struct sl_block *block,
                   struct sl_block_cursor *c);

// The same in steps, for typed trees: numbers for the vertices of each type, and then runs in their
// order, and vertices.

// Adds a type's vertices to block->n_nodes; after (n_hops + 1) says how many there are after so
// many hops. SL_EUNSUPPORTED.
int sl_forest_number(struct sl_forest *f, uint32_t type, struct sl_block *block, uint32_t *after);

struct sl_forest_run {
    uint32_t hop, relation; // 0 of plain trees, as the next two
    uint32_t source, target;
};
// Places the run, unless no tree of typed ones has edges of it: out->n_edges is 0 then.
int sl_forest_join_run(struct sl_forest *f, const struct sl_forest_run *run, uint32_t beside,
                       const struct sl_block *block, struct sl_block_hop *out,
                       struct sl_block_cursor *c);
// A type's vertices; returns where the next type's go.
uint32_t *sl_forest_copy_nodes(const struct sl_forest *f, uint32_t type, uint32_t n_hops,
                               uint32_t *to);

#endif
