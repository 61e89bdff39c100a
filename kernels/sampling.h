/*
 * sampling.h - what the slots of the table that draw mini-batches take and give (kernels.h).
 *
 * Seen by CUDA sources: keep it C11 and C++17.
 */
#ifndef SL_KERNELS_SAMPLING_H
#define SL_KERNELS_SAMPLING_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/dtype.h"
#include "common/base/sampler_kind.h"

#ifdef __cplusplus
extern "C" {
#endif

struct sl_rank_index; // kernels.h

enum { SL_PARTS_MAX = 16 };

// A part of an array in the memory of some device. p NULL, n 0: no device that this one can read
// holds it.
struct sl_part {
    const void *p;
    uint64_t n; // elements that are there, from its first one on
};

/*
 * Where the elements of an array lie that several devices hold in parts (XGNN 4.3): rows of
 * features by their rank, edges of a graph by their number. There is no table: a comparison and a
 * division tell the place.
 *
 *      i < n_near                   element i of `near`, in this device's own memory
 *      first <= i < end             run (i - first) >> shift, whose elements lie side by side: run
 *                                   j is run j div n_parts of part j mod n_parts
 *      else, or not in its part     wherever all elements are: the machine's memory
 *
 * n_near may be below or above `first`: what is near is read there.
 */
struct sl_spread {
    const void *near;
    uint64_t n_near;
    uint64_t first, end;
    uint32_t n_parts; // 0: nothing lies in parts
    uint32_t shift;
    struct sl_part part[SL_PARTS_MAX];
};

struct sl_topology_view {
    uint64_t n_nodes;
    const uint64_t *indptr; // (n_nodes + 1), 64-bit offsets
    const void *indices;    // (n_edges), I32/U32 or I64/U64
    enum sl_dtype indices_dtype;
    // (n_edges) running sums of the edge weights within each row, the edge's own included: made by
    // weight_prefix once at load, or NULL where nothing samples by weight.
    const double *weight_prefix;
    // 1: no edge weighs 0, so that a row of no more edges than its fanout gives them all without a
    // look at their weights. 0: not known.
    uint32_t weights_positive;
    // 1: the neighbours of each vertex stand in rising order. 0: not known.
    uint32_t lists_rise;
    // Of `draw` on a device: the edges that are read elsewhere, and only the others in the arrays
    // above. All 0: none are. `sums` are the running sums of what `held` has of the neighbours: of
    // its parts by their number, and at SL_PARTS_MAX of what is near; NULL where weight_prefix is.
    struct sl_spread held;
    const double *sums[SL_PARTS_MAX + 1];
};

enum { SL_PATH_STEPS_MAX = 8 };

// What a walk steps along, again and again: in step k the row of vertex v is v + shift[k] of
// topology->indptr (numbers wrap). All 0, as of a plain graph: one step, by v's own row.
struct sl_walk_path {
    uint32_t more;                     // steps after the first one
    uint64_t shift[SL_PATH_STEPS_MAX]; // [0] is 0
};

// Global id -> local id, sized to a batch; opaque to callers of the table.
struct sl_idmap;

struct sl_excluded;      // edges that a batch does not see: kernels/exclusion.h
struct sl_walk_excluded; // ... of a step of a metapath

// One hop of sampling, fused with renumbering (FGNN 5.2, 7.3).
struct sl_khop_args {
    const struct sl_topology_view *topology;
    uint64_t seed;
    uint32_t stream, epoch, batch, hop; // Philox counter words, see philox.h
    int64_t fanout;                     // > 0, or -1 for all neighbours
    bool replace;                       // with replacement; of kinds with SL_SAMPLER_REPLACES
    uint32_t n_dst;                     // rows: those of rows[0 .. n_dst)
    const uint32_t *rows;               // vertices; NULL: nodes
    uint32_t first_row;                 // rows before it are there, in indptr and indices
    const struct sl_excluded *excluded; // NULL: no edges are
    uint32_t *nodes;                    // in: known local -> global; out: extended with new nodes
    uint32_t *n_nodes;                  // in/out: how many are known
    uint32_t nodes_capacity;
    struct sl_idmap *map;      // holds nodes[0 .. *n_nodes)
    uint32_t *indptr;          // out (n_dst + 1); in: [0 .. first_row], where that is not 0
    uint32_t *indices;         // out local ids, from indptr[first_row] on
    uint64_t indices_capacity; // elements
    // out (indices_capacity), from the same edge on: where in topology->indices each one stands;
    // NULL: not wanted. Not of kinds that count visits.
    uint64_t *edge_ids;
    uint32_t *n_edges; // out: of all rows
    // Of kinds that count visits (SL_SAMPLER_VISITS):
    uint32_t paths, length; // walks of a row; how often each goes through `along`
    struct sl_walk_path along;
    // (1 + along.more) in the place of `excluded`, which is of walks of one step; NULL: none
    const struct sl_walk_excluded *excluded_along;
    float restart; // probability of going back to the row before each time but the first
    float *visits; // out (indices_capacity): how often each neighbour was met
};

// How a device that draws whole batches numbers vertices (FastGL 4.3). Both give the same numbers.
enum sl_renumbering {
    SL_RENUMBER_FUSED,       // numbers are taken while the table is filled
    SL_RENUMBER_THREE_PHASE, // fill, number, look up: what DGL does; for comparison
};

// Places that edges are read in: the parts that others hold, near, and wherever all are.
enum { SL_DRAW_HOPS_MAX = 8, SL_DRAW_ALIGN = 64, SL_DRAW_PLACES = SL_PARTS_MAX + 2 };

/*
 * The batch as one piece: its arrays one behind the other, the first one at byte `at` and each of
 * the others at the next multiple of SL_DRAW_ALIGN. Of each hop indptr, indices and, of walks,
 * visits, or the edges' numbers (with expand_new of the last hop alone, of whose arrays those of
 * the others are the first part); then nodes, degrees where they are asked for, and ranks where
 * there is an index. What is between arrays is left as it is. Nothing at all is written where they
 * do not fit. What fits the second place as well is written there, too: the same bytes at the same
 * distances.
 */
struct sl_draw_delivery {
    void *to;                          // device or mapped memory, aligned so; NULL: not wanted
    uint64_t at, capacity;             // bytes: `at` a multiple of SL_DRAW_ALIGN
    const struct sl_rank_index *ranks; // of the graph's vertices, words on the device; or NULL
    void *also;                        // a second place, like `to`; NULL: none
    uint64_t also_capacity;            // bytes there
};

// A relation of a graph with several types (common/data/typed.h).
struct sl_draw_relation {
    uint32_t source, target;   // types
    uint64_t shift;            // the row of vertex v of the target type is v + shift; numbers wrap
    struct sl_walk_path along; // of walks, from those rows on
    bool returns;              // ... which go back to their row after each time
};

/*
 * The graph as relations, whose rows topology->indptr has. Each is drawn in each hop as a hop of
 * its own, in their order: rows are the known vertices of its target type, sources are numbered
 * within their type, and its key is sl_rng_relation_seed() of the batch's seed.
 */
struct sl_draw_types {
    uint32_t n_types, n_relations;
    const struct sl_draw_relation *relation; // (n_relations)
    const uint64_t *n_of;                    // (n_types) vertices; seeds are 0 to n_of[0] - 1
};

// All hops of a batch at once, for devices where a wait between hops would cost more than the hops.
// Hop h equals what `sample` of this kind draws, integer for integer.
struct sl_draw_args {
    enum sl_sampler_kind kind;
    enum sl_renumbering renumbering;
    const struct sl_topology_view *topology; // arrays on the device, or mapped
    // Of a graph with types, else NULL; no degrees then and no ranks. It must stay until the batch
    // was waited for, as what it points to and as by_relation.
    const struct sl_draw_types *types;
    uint32_t n_hops;
    int64_t fanout[SL_DRAW_HOPS_MAX]; // -1 = all neighbours
    // (n_hops, n_relations) those of each relation, 0 leaves it out; NULL: the hop's, for all.
    const int64_t *by_relation;
    bool expand_new; // hop h draws the rows that hop h - 1 found; the others are as they were
    bool replace;    // as struct sl_khop_args has it
    bool edge_ids;   // the edges' numbers are wanted; not of walks
    uint32_t paths, length; // walk
    float restart;
    uint64_t seed;
    uint32_t stream, epoch, batch;
    const uint32_t *seeds; // (n_seeds) host memory, all different, each a vertex
    uint32_t n_seeds;
    const uint32_t *degree_of; // (n_nodes) on the device; NULL: no degrees are wanted
    bool count_reads;          // which costs an atomic addition a neighbour
    struct sl_draw_delivery deliver;
};

// What was drawn, in device memory, valid until the next draw with the same state.
struct sl_drawn {
    uint32_t n_nodes[SL_DRAW_HOPS_MAX + 1]; // [0] the seeds, then all that is known after each hop
    uint32_t n_edges[SL_DRAW_HOPS_MAX];
    const uint32_t *nodes; // (n_nodes[n_hops]) seeds first, then by first appearance
    const uint32_t *indptr[SL_DRAW_HOPS_MAX];   // (n_nodes[h] + 1)
    const uint32_t *indices[SL_DRAW_HOPS_MAX];  // (n_edges[h])
    const float *visits[SL_DRAW_HOPS_MAX];      // (n_edges[h]), walks only
    const uint64_t *edge_ids[SL_DRAW_HOPS_MAX]; // (n_edges[h]) where asked for
    const uint32_t *degrees;                    // (n_nodes[n_hops]) where asked for
    uint64_t end; // where the last array of the delivery ends: it is there if that is in `capacity`
    // Bytes of neighbours and running sums that were read in each part, near, and in the arrays of
    // the topology; 0 where nobody asked (count_reads).
    uint64_t read[SL_DRAW_PLACES];
    // Of a graph with types, in place of the counts and arrays of hops above; host memory. What is
    // delivered are the arrays of each relation that has edges, hop by hop, or with expand_new once
    // (then n_edges are those of this and all earlier hops), and the nodes type after type.
    const uint32_t *type_nodes;     // (n_hops + 1, n_types) known before each hop, and at the end
    const uint32_t *relation_edges; // (n_hops, n_relations)
};

// Table and scratch memory of draw: grows to the largest batch, and never with the graph unless
// that is smaller.
struct sl_draw_state;

#ifdef __cplusplus
}
#endif

#endif
