/*
 * draw.h - draws one mini-batch: seeds in, a block (common/arena/block.h) in the caller's memory
 * out.
 *
 * PROBLEM. The block goes straight into the arena, in one piece and without holes, but how many
 * vertices and edges it will have is known only once it has been drawn.
 *
 * DESIGN. Before hop h its number of rows is known, so its indptr has its final place, and its
 * indices follow behind it with all the memory that is left; when the hop is drawn the next one
 * begins right behind. A hop may have a second array of its edges, the visits of random walks or
 * the edges' numbers: both are given their share of what is left, and the second is moved up to the
 * first. Only the vertex list grows over all hops: it stands in scratch memory of the drawer and is
 * copied to the end of the block once, with the degrees behind it where the model wants them. The
 * block ends where its last array ends.
 *
 * Where a vertex is drawn once (plan: expand_new), hop h draws rows n_nodes[h - 1] .. n_nodes[h],
 * and has those of hop h - 1 before them. So all hops have the same arrays, each a longer part of
 * them: every edge is in the block once, and each hop has all its rows, whoever reads it. How long
 * they become is known at the end, so they stand in scratch memory until then as the vertex list
 * does.
 *
 * The *sample* is complete then: it depends on its key alone and the digest covers it. Where there
 * is a hotness order, marking appends each input node's rank in it as one more array. Ranks depend
 * on what was hot in this job, and nothing in front of them does.
 *
 * Bytes between arrays are zero, so equal batches are equal bytes wherever they were drawn.
 *
 * Target edges that the batch does not see (targets) are looked up in the seeds' lists before the
 * first hop. From then on the graph is one without them, in the degrees of seeds too.
 *
 * A drawer keeps its scratch memory and its renumbering map from batch to batch: both fit the
 * largest batch so far, not the graph. One drawer a thread.
 *
 * On a GPU the hops are drawn in its memory, and the GPU writes them into the block with their
 * ranks (draw_device.c): the same bytes. There two batches may be begun before the first one is
 * finished; the processor draws a batch when it is to be finished.
 */
#ifndef SL_SAMPLER_DRAW_H
#define SL_SAMPLER_DRAW_H

#include <stdint.h>

#include "common/arena/block.h"
#include "kernels/exclusion.h"
#include "sampler/draw_device.h"
#include "sampler/draw_plan.h"
#include "sampler/draw_typed.h"
#include "sampler/forest.h"
#include "sampler/graph_placement.h"
#include "sampler/scratch.h"
#include "sampler/subgraph.h"
#include "sampler/timed_rows.h"
#include "sampler/topology.h"

enum sl_scratch {
    SL_SCRATCH_NODES,
    SL_SCRATCH_INDPTR, // this one and the rest: what the hops of expand_new share
    SL_SCRATCH_INDICES,
    SL_SCRATCH_BESIDE,
    SL_SCRATCH_ARRAYS,
};

struct sl_drawer {
    const struct sl_kernels *kernels;
    const struct sl_topology *topology;
    struct sl_idmap *map;
    struct sl_scratch_array scratch[SL_SCRATCH_ARRAYS]; // grown to the largest batch
    uint32_t largest_batch; // input nodes of the largest batch, or tree, so far
    struct sl_exclusion exclusion;
    const struct sl_excluded *excluded; // of the batch in hand, or NULL
    struct sl_typed_drawer typed;       // of a typed graph, in place of what is above
    struct sl_forest forest;
    struct sl_timed_rows timed; // of the tree in hand
    struct sl_subgraph_room subgraph;
    struct sl_device_drawer device; // instead of map and nodes, where it has a residence
};

int sl_drawer_init(struct sl_drawer *d, const struct sl_topology *topology,
                   const struct sl_kernels *kernels);
// A drawer of the device that the graph has been brought to.
int sl_drawer_init_on(struct sl_drawer *d, const struct sl_topology *topology,
                      const struct sl_graph_placement *residence);
void sl_drawer_fini(struct sl_drawer *d); // safe on a zeroed struct
// The device whose memory it draws in.
const struct sl_device *sl_drawer_device(const struct sl_drawer *d);
// Scratch memory that it holds.
uint64_t sl_drawer_bytes(const struct sl_drawer *d);

// Batches that it can have begun at once.
uint32_t sl_drawer_depth(const struct sl_drawer *d);

/*
 * Draws the job's batch into its block, in two steps. What is begun is finished, or dropped, by the
 * same thread; the job and what it points to must stay until
 * then. finish() gives SL_OK with block->bytes set, without ranks; SL_ERANGE with *wanted_bytes, a
 * guess of what would be enough, when it does not fit (the memory then holds garbage); both other
 * errors as the kernel's.
 */
int sl_drawer_begin(struct sl_drawer *d, struct sl_draw_job *job);
int sl_drawer_finish(struct sl_drawer *d, struct sl_draw_job *job, uint64_t *wanted_bytes);
// Gives up a batch that was begun: its memory is not written any more.
void sl_drawer_drop(struct sl_drawer *d, const struct sl_draw_job *job);
// Both steps.
int sl_drawer_draw(struct sl_drawer *d, struct sl_draw_job *job, uint64_t *wanted_bytes);

// Bytes of an unmarked block once it has ranks.
uint64_t sl_drawer_marked_bytes(const struct sl_block *block);

/*
 * Appends to the block of a job that is finished and has an index the ranks of its input nodes.
 * SL_ERANGE when they do not fit: the block then stays as it was.
 */
int sl_drawer_mark(struct sl_drawer *d, const struct sl_draw_job *job);

#endif
