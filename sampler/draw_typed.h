/*
 * draw_typed.h - mini-batches of a typed graph (common/data/typed.h), on the processor.
 *
 * A hop goes through the relations in their order. One relation's edges of one hop are drawn as a
 * plain hop is (kernels/khop_internal.h): rows are vertices of its target type, in the order in
 * which they became known, and sources are numbered behind the known ones of its source type. What
 * a hop finds has rows from the next one on. The key of a draw is the job's seed for relation 0 and
 * one of its own for each other (sl_rng_relation_seed), and i of Philox's counter is the number of
 * the row's vertex within its type's part of the block.
 *
 * Runs go straight into the block; one that turns out to have no edges is taken back. With
 * expand_new those of a relation are one longer array each, which stands in scratch memory until
 * its length is known.
 *
 * Each type has a list and a renumbering map, each as large as the largest batch.
 *
 * Target edges that the batch does not see (struct sl_target_edges) are those of the data set's
 * linked relation, and their reverses those of the relation that has them: both are looked up in
 * the seeds' lists before the first hop.
 */
#ifndef SL_SAMPLER_DRAW_TYPED_H
#define SL_SAMPLER_DRAW_TYPED_H

#include <stdint.h>

#include "kernels/exclusion.h"
#include "kernels/kernels.h"
#include "sampler/block_layout.h"
#include "sampler/draw_job.h"
#include "sampler/draw_plan.h"
#include "sampler/scratch.h"
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

// Whether the plan has nothing that a typed graph has not: SL_EUNSUPPORTED with what it is.
int sl_typed_check_plan(const struct sl_draw_plan *plan);

// Behind the labels or pairs: runs, nodes and the tables of both. SL_EAGAIN without a message: the
// block's memory is too small.
int sl_typed_draw(struct sl_typed_drawer *d, const struct sl_draw_job *job, struct sl_block *block,
                  struct sl_block_cursor *c);

#endif
