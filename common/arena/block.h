/*
 * block.h - the format of one mini-batch: what a sampler writes and a trainer reads.
 *
 * One contiguous, position-independent extent (one DMA). All arrays are 64-byte aligned; offsets
 * are from the start of the header. Vertices are numbered locally by first appearance, destination
 * nodes first, so the nodes of hop h are a prefix of the nodes of hop h + 1:
 *
 *   n_nodes[0] seeds <= n_nodes[1] <= ... <= n_nodes[n_hops] input nodes
 *
 * Hop h (h = 0 is next to the seeds, as fanout[0] is) has n_nodes[h] destination rows in CSR form:
 * the neighbours of row i are indices[indptr[i] .. indptr[i+1]), local ids below n_nodes[h + 1].
 * Model layer l of L reads hop L-1-l. Hops may share arrays: where a vertex is drawn once, those of
 * hop h are the first part of those of hop h + 1.
 *
 * A TYPED block (common/data/typed.h) has the nodes type after type, and those of a type by first
 * appearance: the vertices of a type that are known after hop h are a prefix of its part, as its
 * seeds are. Seeds are numbered type after type, too: what goes by seed (labels, pairs' ends, rows
 * that a model gives) has those of type 0 first. Where labels are learned all are of type 0. Edges
 * are in *runs*, one for each hop and relation that has some, by hop and then by relation. Local
 * ids are numbers within a type's part. Its hops have sums and no arrays of their own.
 *
 * Seen by CUDA sources: keep it C11 and C++17.
 */
#ifndef SL_ARENA_BLOCK_H
#define SL_ARENA_BLOCK_H

#include <stdbool.h>
#include <stdint.h>

#define SL_BLOCK_MAGIC 0x314b4c42u // "BLK1"
#define SL_MAX_HOPS    8

enum sl_block_flags {
    SL_BLOCK_HAS_DEGREES = 1,  // degree_offset is set
    SL_BLOCK_HAS_WEIGHTS = 2,  // every hop's, or run's, weights_offset is set
    SL_BLOCK_HAS_RANKS = 4,    // rank_offset is set
    SL_BLOCK_HAS_EDGE_IDS = 8, // likewise edge_ids_offset; not beside weights
    // Each seed has vertices of its own, a tree, and edges join those of one tree: a vertex of the
    // graph may be there several times.
    SL_BLOCK_DISJOINT = 16,
    // Pairs in the place of labels: of a job of links. The seeds are their ends, each once.
    SL_BLOCK_HAS_PAIRS = 32,
    SL_BLOCK_TYPED = 64, // typed_offset is set; not beside degrees
};

// What a typed block has besides. Behind it n_types times struct sl_block_type.
struct sl_block_typed {
    uint32_t n_types, n_runs;
    uint64_t runs_offset; // struct sl_block_run (n_runs)
};

// Of a typed block: a type's part of the nodes.
struct sl_block_type {
    uint32_t first;              // its vertices are nodes[first] to nodes[first + n[n_hops] - 1]
    uint32_t n[SL_MAX_HOPS + 1]; // those known after so many hops; [0] are its seeds
};

// Edges of one relation in one hop. Row i is vertex i of the relation's target type, sources are
// vertices of its source type that are known after the hop.
struct sl_block_run {
    uint32_t hop, relation;
    uint32_t n_dst;          // rows: all vertices of the target type that are known before the hop
    uint32_t n_edges;        // never 0
    uint64_t indptr_offset;  // u32 (n_dst + 1), starts at 0
    uint64_t indices_offset; // u32 (n_edges)
    union {                  // as of struct sl_block_hop
        uint64_t weights_offset;
        uint64_t edge_ids_offset;
        uint64_t beside_offset;
    };
};

struct sl_block_hop {
    uint32_t n_dst;          // rows
    uint32_t n_edges;        // sampled edges
    uint64_t indptr_offset;  // u32 (n_dst + 1), starts at 0
    uint64_t indices_offset; // u32 (n_edges), local ids
    // The second array of the edges, when flagged. There is one at most: what walks meet has no
    // edge.
    union {
        uint64_t weights_offset;  // f32 (n_edges): visit counts of random walks
        uint64_t edge_ids_offset; // u64 (n_edges), see sl_view_edge_ids()
        uint64_t beside_offset;   // whichever it is
    };
};

struct sl_block {
    uint32_t magic;
    uint32_t flags;
    uint64_t bytes; // of the whole extent, header included
    uint64_t batch; // number of the mini-batch within its phase
    uint32_t epoch;
    uint32_t n_hops;
    uint32_t n_seeds;
    uint32_t n_input; // == n_nodes[n_hops]
    uint64_t n_edges; // over all hops
    uint32_t n_nodes[SL_MAX_HOPS + 1];
    uint32_t rank_generation; // which hotness order the ranks are of (visit_counts.h)
    uint64_t nodes_offset;    // u32 (n_input) global vertex ids, seeds first (of a type)
    uint64_t label_offset;    // i32 (n_seeds) class ids, -1 = unlabelled; where n_targets is not 0
                              // f32 (n_seeds, n_targets), NaN = unlabelled
    uint32_t n_targets;       // with pairs: negatives of each positive
    uint32_t n_pairs;         // where flagged: label_offset is that of struct sl_pairs
    union {
        uint64_t degree_offset; // u32 (n_input) in-degrees in the whole graph, when flagged
        uint64_t typed_offset;  // struct sl_block_typed, when flagged
    };
    uint64_t rank_offset; // u32 (n_input) places in the hotness order, when flagged. The last
                          // array: what is before it is the sample, and what the digest covers
    struct sl_block_hop hop[SL_MAX_HOPS];
};

#ifdef __cplusplus
extern "C" {
#endif
// Whether a block in `room` bytes of the arena is one whose header and arrays lie within it: asked
// once, by who reads it, before anything in it is used. SL_EPROTO with the array that does not.
int sl_block_check(const struct sl_block *block, uint64_t room);

// What all blocks of a job have in common.
struct sl_block_shape {
    uint32_t n_hops;
    uint32_t n_targets; // numbers a seed, 0: a class; with pairs: negatives of each positive
    bool has_pairs;
    uint32_t n_types; // of the graph, 0: a plain one
};

// The block is whole (sl_block_check), has this shape, and each hop begins where the one before
// ends. SL_EPROTO.
int sl_block_check_shape(const struct sl_block *block, uint64_t room, struct sl_block_shape wanted);
#ifdef __cplusplus
}
#endif

/*
 * A block whose header is the processor's and whose arrays lie where they are computed with: the
 * extent itself, or a copy of it in a device's memory. What looks at numbers of the header uses
 * `header`; arrays are found by sl_view_*(), and never by an address next to the header.
 */
struct sl_block_view {
    const struct sl_block *header; // host memory
    const char *base;              // where the extent begins whose arrays are used
    // (n_hops) edges from a row to itself, host memory; NULL: they have not been counted.
    const uint32_t *n_loops;
};

// A block that is read where its header is: on a CPU device, and by samplers.
static inline struct sl_block_view sl_block_here(const struct sl_block *b)
{
    struct sl_block_view view;
    view.header = b;
    view.base = (const char *)b;
    view.n_loops = (const uint32_t *)0;
    return view;
}

static inline const uint32_t *sl_view_nodes(struct sl_block_view v)
{
    return (const uint32_t *)(const void *)(v.base + v.header->nodes_offset);
}

// int32 class ids, or floats where the header has n_targets.
static inline const void *sl_view_targets(struct sl_block_view v)
{
    return v.base + v.header->label_offset;
}

static inline const uint32_t *sl_view_degrees(struct sl_block_view v)
{
    return v.header->flags & SL_BLOCK_HAS_DEGREES
               ? (const uint32_t *)(const void *)(v.base + v.header->degree_offset)
               : (const uint32_t *)0;
}

static inline const uint32_t *sl_view_ranks(struct sl_block_view v)
{
    return v.header->flags & SL_BLOCK_HAS_RANKS
               ? (const uint32_t *)(const void *)(v.base + v.header->rank_offset)
               : (const uint32_t *)0;
}

static inline const float *sl_view_weights(struct sl_block_view v, uint32_t hop)
{
    return v.header->flags & SL_BLOCK_HAS_WEIGHTS
               ? (const float *)(const void *)(v.base + v.header->hop[hop].weights_offset)
               : (const float *)0;
}

/*
 * The pairs of a batch of links. The positives are first; negative j of positive i is pair
 * n_positive + i * per_positive + j, and n is n_positive * (1 + per_positive).
 */
struct sl_pairs {
    uint32_t n, n_positive, per_positive;
    const uint32_t *ids; // (n, 2) numbers of seeds: source, target
    // (n) what a pair counts in the loss: 1, or the edge's own weight; 0: there is no such pair
    // (a source without any vertex that it has no edge to).
    const float *weight;
    const float *shift; // (n) taken off a pair's score in training: log of how common it is, or 0
};
enum { SL_PAIR_BYTES = 4 * sizeof(uint32_t) }; // a pair in a block: one array behind the other

static inline struct sl_pairs sl_view_pairs(struct sl_block_view v)
{
    const char *at = v.base + v.header->label_offset;
    struct sl_pairs pairs;
    pairs.n = v.header->flags & SL_BLOCK_HAS_PAIRS ? v.header->n_pairs : 0;
    pairs.per_positive = v.header->n_targets;
    pairs.n_positive = pairs.n / (1 + pairs.per_positive);
    pairs.ids = (const uint32_t *)(const void *)at;
    pairs.weight = (const float *)(const void *)(at + (uint64_t)pairs.n * 8);
    pairs.shift = pairs.weight + pairs.n;
    return pairs;
}

/*
 * Where each edge of the hop stands in the data set's list of neighbours (indices.npy): at number k
 * the source is indices[k], and k lies in the range that indptr.npy has for the row's vertex. What
 * a job leaves out or adds (edges of weight 0, self-loops of a layer) changes no number, and each
 * edge of a block is one of the data set. UINT64_MAX is the number of none.
 */
static inline const uint64_t *sl_view_edge_ids(struct sl_block_view v, uint32_t hop)
{
    return v.header->flags & SL_BLOCK_HAS_EDGE_IDS
               ? (const uint64_t *)(const void *)(v.base + v.header->hop[hop].edge_ids_offset)
               : (const uint64_t *)0;
}

// The tables of a typed block are read where its header is.
static inline const struct sl_block_typed *sl_block_typed(const struct sl_block *b)
{
    return (const struct sl_block_typed *)(const void *)((const char *)b + b->typed_offset);
}

static inline const struct sl_block_type *sl_block_types(const struct sl_block *b)
{
    return (const struct sl_block_type *)(const void *)(sl_block_typed(b) + 1);
}

static inline const struct sl_block_run *sl_block_runs(const struct sl_block *b)
{
    return (const struct sl_block_run *)(const void *)((const char *)b +
                                                       sl_block_typed(b)->runs_offset);
}

// Arrays of a run.
static inline const uint32_t *sl_run_indptr(struct sl_block_view v, const struct sl_block_run *run)
{
    return (const uint32_t *)(const void *)(v.base + run->indptr_offset);
}

static inline const uint32_t *sl_run_indices(struct sl_block_view v, const struct sl_block_run *run)
{
    return (const uint32_t *)(const void *)(v.base + run->indices_offset);
}

static inline const uint64_t *sl_run_edge_ids(struct sl_block_view v,
                                              const struct sl_block_run *run)
{
    return v.header->flags & SL_BLOCK_HAS_EDGE_IDS
               ? (const uint64_t *)(const void *)(v.base + run->edge_ids_offset)
               : (const uint64_t *)0;
}

static inline const float *sl_run_weights(struct sl_block_view v, const struct sl_block_run *run)
{
    return v.header->flags & SL_BLOCK_HAS_WEIGHTS
               ? (const float *)(const void *)(v.base + run->weights_offset)
               : (const float *)0;
}

static inline const uint32_t *sl_view_indptr(struct sl_block_view v, uint32_t hop)
{
    return (const uint32_t *)(const void *)(v.base + v.header->hop[hop].indptr_offset);
}

static inline const uint32_t *sl_view_indices(struct sl_block_view v, uint32_t hop)
{
    return (const uint32_t *)(const void *)(v.base + v.header->hop[hop].indices_offset);
}

// The same of a block that is read where its header is.

static inline const uint32_t *sl_block_nodes(const struct sl_block *b)
{
    return sl_view_nodes(sl_block_here(b));
}

static inline const uint32_t *sl_block_ranks(const struct sl_block *b)
{
    return sl_view_ranks(sl_block_here(b));
}

#endif
