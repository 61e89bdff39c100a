/*
 * draw_typed.h - mini-batches of a typed graph (common/data/typed.h), drawn by the processor, or
 * described where a device drew them.
 *
 * A hop goes through the relations in their order. One relation's edges of one hop are drawn as a
 * plain hop is (kernels/khop_internal.h): rows are vertices of its target type, in the order in
 * which they became known, and sources are numbered behind the known ones of its source type. What
 * a hop finds has rows from the next one on. The key of a draw is the job's seed for relation 0 and
 * one of its own for each other (sl_rng_relation_seed), and i of Philox's counter is the number of
 * the row's vertex within its type's part of the block.
 *
 * Random walks go along metapaths, which are the relations then: a vertex's walks begin again where
 * they have come to, or, of a metapath that ends at another type, at the vertex.
 *
 * Runs go straight into the block; one that turns out to have no edges is taken back. With
 * expand_new those of a relation are one longer array each, which stands in scratch memory until
 * its length is known.
 *
 * Each type has a list and a renumbering map, each as large as the largest batch.
 *
 * Target edges that the batch does not see (struct sl_target_edges) are those of the data set's
 * linked relation, and their reverses those of the relation that has them: both are looked up in
 * the seeds' lists before the first hop. Of a metapath it is each step that does not see those of
 * its relation.
 *
 * Disjoint batches are put together of their seeds' trees, each drawn as a batch of its own
 * (forest.h). With the time of a seed, relations that have times are drawn from what there was of
 * them by then (timed_rows.h), others as ever.
 */
#ifndef SL_SAMPLER_DRAW_TYPED_H
#define SL_SAMPLER_DRAW_TYPED_H

#include <stdint.h>

#include "kernels/exclusion.h"
#include "kernels/kernels.h"
#include "sampler/block_layout.h"
#include "sampler/draw_job.h"
#include "sampler/draw_plan.h"
#include "sampler/forest.h"
#include "sampler/scratch.h"
#include "sampler/timed_rows.h"
#include "sampler/topology.h"

// Of a type: its vertices of the batch in hand.
struct sl_typed_part {
    struct sl_idmap *map; // made when the type is first met
    struct sl_scratch_array nodes;
    uint32_t n, largest;             // in this batch; in the largest so far
    uint32_t after[SL_MAX_HOPS + 1]; // n after so many hops
};

// Of a relation, with expand_new: the edges of all hops so far.
struct sl_typed_rows {
    struct sl_scratch_array indptr, indices, beside;
    uint32_t n_rows, n_edges;
    struct sl_block_run placed; // where they are in the block
    struct sl_timed_rows timed; // of the tree in hand, whatever the expansion
};

struct sl_typed_drawer {
    const struct sl_kernels *kernels;
    const struct sl_topology *topology;
    struct sl_typed_part *part;   // (n_types)
    struct sl_typed_rows *rows;   // (n_relations)
    struct sl_scratch_array runs; // struct sl_block_run
    uint32_t n_runs;
    struct sl_exclusion exclusion[2]; // of the linked relation, and of its reverse
    struct sl_excluded excluded[2];   // of those, in the batch in hand: of rows of the target type
};

// Nothing where the graph is a plain one. SL_ENOMEM.
int sl_typed_drawer_init(struct sl_typed_drawer *d, const struct sl_topology *topology,
                         const struct sl_kernels *kernels);
void sl_typed_drawer_fini(struct sl_typed_drawer *d); // safe on a zeroed struct
uint64_t sl_typed_drawer_bytes(const struct sl_typed_drawer *d);

// Whether the plan has nothing that the typed graph has not: SL_EUNSUPPORTED with what it is.
int sl_typed_check_plan(const struct sl_draw_plan *plan, const struct sl_typed *typed);

// Behind the labels or pairs: runs, nodes and the tables of both. SL_EAGAIN without a message: the
// block's memory is too small.
int sl_typed_draw(struct sl_typed_drawer *d, const struct sl_draw_job *job, struct sl_block *block,
                  struct sl_block_cursor *c);

// Of a batch that a device has drawn and written behind the labels: where the block ends with its
// tables; and the header's part, the tables, and the zeros between. SL_ENOMEM.
uint64_t sl_typed_drawn_end(const struct sl_typed_drawer *d, const struct sl_draw_plan *plan,
                            const struct sl_drawn *drawn);
int sl_typed_describe(struct sl_typed_drawer *d, const struct sl_draw_plan *plan,
                      const struct sl_drawn *drawn, struct sl_block *block,
                      struct sl_block_cursor *c);

// What is drawn next is the tree of a seed with this bound, where the plan goes by time.
void sl_typed_begin_tree(struct sl_typed_drawer *d, struct sl_time_bound bound);
// The same as draw(), of trees that it has drawn. SL_EAGAIN, SL_EUNSUPPORTED.
int sl_typed_join(struct sl_typed_drawer *d, struct sl_forest *f, const struct sl_draw_plan *plan,
                  struct sl_block *block, struct sl_block_cursor *c);

#endif
