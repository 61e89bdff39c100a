/*
 * draw.cuh - what the samplers of the GPU share: a batch's memory, and how neighbours get numbers.
 * The essay is on top of draw.cu.
 */
#ifndef SL_KERNELS_CUDA_DRAW_CUH
#define SL_KERNELS_CUDA_DRAW_CUH

#include "kernels/cuda/cuda.cuh"
#include "kernels/cuda/scan.cuh"
#include "kernels/spread_internal.h"

enum {
    SL_DRAW_THREADS = 256,         // of most blocks
    SL_DRAW_PROBES = 1024,         // after which the table counts as full
    SL_DRAW_ALL = -1,              // fanout
    SL_DRAW_SCRATCH_THREADS = 128, // of blocks whose groups have memory each
    SL_DRAW_SHARED_BYTES = 40 << 10,
    SL_DRAW_SCRATCH_BYTES = 64 << 20,
};

#define SL_DRAW_NONE UINT32_MAX // no vertex, no value

// Which of 32 values are first appearances, and how many of all values before them are.
struct sl_rank_word {
    uint32_t bits, before;
};

/*
 * What is known of a batch while it is drawn, written by kernels. A step goes on with n, which is 0
 * where there was no room for what was wanted. Behind it the vertices and the edges of all steps.
 */
struct sl_draw_control {
    uint32_t full;                           // the table was
    uint64_t end;                            // bytes, of the delivery
    unsigned long long read[SL_DRAW_PLACES]; // bytes of the graph, as struct sl_drawn has them
};

// Vertices that are known at some place of the batch.
struct sl_draw_vertices {
    uint32_t wanted, n;
};

// Edges of a hop; where rows are kept from hop to hop, with those of the hops before.
struct sl_draw_edges {
    uint64_t wanted;
    uint32_t n;
};

// A batch as its kernels see it: device addresses.
struct sl_draw_batch {
    const uint64_t *topology_indptr; // (n_nodes + 1)
    uint32_t n_nodes;
    // (n_edges << wide): neighbours, of wide ones the low half at even places
    const uint32_t *topology_indices;
    uint32_t wide; // 0 or 1
    const double *weight_prefix;
    struct sl_spread held;                // edges that are read elsewhere
    const double *sums[SL_PARTS_MAX + 1]; // ... and their running sums
    bool counts_reads;
    uint64_t seed;
    uint32_t stream, epoch, batch;

    unsigned long long *table; // (mask + 1) vertex << 32 | base + value
    uint32_t mask, shift;
    uint32_t base, limit; // an entry whose low half is not below limit is of an earlier batch
    bool fused;
    struct sl_rank_word *words; // (values / 32)
    struct sl_draw_control *control;
    struct sl_draw_vertices *seeds;
    struct sl_cuda_complaints *complaints;
};

// Paths of a walk.
struct sl_draw_walk {
    uint32_t paths, length;
    struct sl_walk_path along;
    float restart;
};

// One hop of it, or one relation in one hop.
struct sl_draw_hop {
    struct sl_draw_batch b;
    uint32_t hop;
    int64_t fanout;
    bool replace;
    // Vertices: the rows; those of the sources' type before it, and what edges are numbered behind;
    // and those after it.
    const struct sl_draw_vertices *rows, *before, *known;
    struct sl_draw_vertices *found;
    struct sl_draw_edges *edges;
    const uint32_t *row_nodes; // the rows' vertices
    uint32_t *nodes;           // the sources'
    uint32_t nodes_room;
    uint32_t rows_room, next_rows_room, edges_room;
    // Rows and edges that are there from the hop before; NULL: none are, and all rows are drawn.
    const uint32_t *first_row, *first_edge;
    uint32_t first_value; // of edge 0; a multiple of 32
    uint32_t *indptr;     // (rows_room + 1)
    uint32_t *indices;    // (edges_room)
    float *visits;        // (edges_room), walks
    uint64_t *edge_ids;   // (edges_room) places in the graph's list; NULL: not wanted
    uint64_t *start;      // (rows_room) where a row's neighbours begin
    uint32_t *degree;     // (rows_room)
    uint32_t *count;      // (rows_room) edges of a row
    // Of samplers that know how many a row has when they have drawn them: `take` places a row.
    uint32_t take;
    uint32_t *padded; // (rows_room, take) vertices
    float *padded_visits;
    uint64_t *padded_ids; // where edge_ids is
    uint64_t *sums;       // of scans
    uint32_t *scratch;    // sets and lists that shared memory has no room for
    struct sl_draw_walk walk;
};

// How a kind draws a hop (common/base/sampler_kind.h).
struct sl_draw_sampler {
    int (*check)(const struct sl_khop_args *args); // as the processor's
    // Places a row, of kinds that know how many edges a row has when it is drawn; NULL: 0.
    uint32_t (*take)(const struct sl_draw_args *args, int64_t fanout);
    // That the hop's kernels want for so many rows; NULL: 0.
    uint64_t (*scratch_bytes)(const struct sl_draw_args *args, int64_t fanout, uint64_t rows);
    int (*draw)(const struct sl_draw_hop *hop); // up to the numbers
};

#define SL_DRAW_SAMPLER(extra, constant, word, kernel, flags)                                      \
    extern const struct sl_draw_sampler sl_draw_##kernel;
SL_SAMPLER_LIST(SL_DRAW_SAMPLER, )

// --- what a hop draws ----------------------------------------------------------------------------

static __device__ __forceinline__ uint32_t sl_first(const uint32_t *there)
{
    return there ? *there : 0;
}

// --- reading the graph ---------------------------------------------------------------------------

// Where edge *at is read, which becomes its number there.
static __device__ __forceinline__ uint32_t sl_place_of(const struct sl_draw_batch &b, uint64_t *at,
                                                       uint32_t bytes)
{
    uint64_t there;
    const uint32_t where = sl_spread_find(&b.held, *at, &there);
    if (b.counts_reads)
        atomicAdd(&b.control->read[where], (unsigned long long)bytes);
    if (where != SL_SPREAD_NOWHERE)
        *at = there;
    return where;
}

/*
 * Memory of another process may be anything at any time: when that one dies. The batch is worth
 * nothing then, and nobody looks at it, but it must end, within its memory: so what is read there
 * is a vertex, whichever it is, and who reads a row twice counts on nothing (sl_draw_fill()).
 */
static __device__ __forceinline__ uint32_t sl_neighbour(const struct sl_draw_batch &b, uint64_t at)
{
    const uint32_t where = sl_place_of(b, &at, 4u << b.wide);
    if (where == SL_SPREAD_NOWHERE)
        return b.topology_indices[at << b.wide];
    const uint32_t vertex = ((const uint32_t *)sl_spread_memory(&b.held, where))[at << b.wide];
    return vertex < b.n_nodes ? vertex : 0;
}

// The running sum of the weights of a row's edges up to this one.
static __device__ __forceinline__ double sl_sum(const struct sl_draw_batch &b, uint64_t at)
{
    const uint32_t where = sl_place_of(b, &at, sizeof(double));
    return (where == SL_SPREAD_NOWHERE ? b.weight_prefix : b.sums[where])[at];
}

/*
 * Where the neighbours of a vertex begin and how many there are, of lists whose places are these:
 * none where they are too many, which is complained of.
 */
static __device__ __forceinline__ uint32_t sl_list_of(const struct sl_draw_batch &b,
                                                      const uint64_t *lists, uint32_t vertex,
                                                      uint64_t *start)
{
    *start = lists[vertex];
    uint64_t degree = lists[(uint64_t)vertex + 1] - *start;
    if (degree >= UINT32_MAX) {
        sl_complain(b.complaints, SL_COMPLAINT_DEGREE, vertex, degree, UINT32_MAX);
        return 0;
    }
    return (uint32_t)degree;
}

static __device__ __forceinline__ uint32_t sl_row_of(const struct sl_draw_batch &b, uint32_t vertex,
                                                     uint64_t *start)
{
    return sl_list_of(b, b.topology_indptr, vertex, start);
}

// --- groups of lanes -----------------------------------------------------------------------------

// This thread's lane in its group of G, a power of two up to a warp, and the mask of the group.
template <int G> static __device__ __forceinline__ uint32_t sl_group_lane(void)
{
    return threadIdx.x % G;
}

template <int G> static __device__ __forceinline__ uint32_t sl_group_base(void)
{
    return threadIdx.x % SL_WARP / G * G;
}

template <int G> static __device__ __forceinline__ uint32_t sl_group_mask(void)
{
    return (SL_FULL_MASK >> (SL_WARP - G)) << sl_group_base<G>();
}

// Which of the group's lanes say yes, the group's first in bit 0.
template <int G> static __device__ __forceinline__ uint32_t sl_group_ballot(bool yes)
{
    return (__ballot_sync(sl_group_mask<G>(), yes) & sl_group_mask<G>()) >> sl_group_base<G>();
}

// --- numbers -------------------------------------------------------------------------------------

// As sl_idmap_hash: two rounds of multiply and fold.
static __device__ __forceinline__ uint32_t sl_draw_hash(uint32_t key, uint32_t shift)
{
    uint32_t h = key * 0x9E3779B1u;
    h ^= h >> 15;
    h *= 0x85EBCA77u;
    return h >> shift;
}

// A word of the table as it is now. Others may change it at any time.
static __device__ __forceinline__ uint64_t sl_draw_look(const unsigned long long *entry)
{
    return *(const volatile unsigned long long *)entry;
}

/*
 * Makes `value` the vertex's unless it has a smaller one; returns the vertex's place in the table.
 * *mine: it was the smallest so far; *displaced: then the value that it replaced, or SL_DRAW_NONE.
 */
static __device__ __forceinline__ uint32_t sl_draw_insert(const struct sl_draw_batch &b,
                                                          uint32_t vertex, uint32_t value,
                                                          bool *mine, uint32_t *displaced)
{
    const uint64_t word = (uint64_t)vertex << 32 | (b.base + value);
    uint32_t at = sl_draw_hash(vertex, b.shift);
    for (int probe = 0; probe < SL_DRAW_PROBES; probe++, at = (at + 1) & b.mask) {
        uint64_t seen = sl_draw_look(&b.table[at]);
        if ((uint32_t)seen >= b.limit) {
            uint64_t was =
                atomicCAS(&b.table[at], (unsigned long long)seen, (unsigned long long)word);
            if (was == seen) {
                *mine = true;
                return at;
            }
            seen = was; // of this batch: nobody else writes
        }
        if ((uint32_t)(seen >> 32) != vertex)
            continue;
        if ((uint32_t)seen > (uint32_t)word) {
            seen = atomicMin(&b.table[at], (unsigned long long)word);
            if ((uint32_t)seen > (uint32_t)word) {
                *mine = true;
                *displaced = (uint32_t)seen - b.base;
            }
        }
        return at;
    }
    atomicExch(&b.control->full, 1u);
    return 0;
}

/*
 * Turns the bits of values that became the smallest of their vertex: a value's bit is turned once
 * when it becomes that and once when it is displaced, so it is on in the end where nobody displaced
 * it, in whatever order this happened. For whole warps: the values of a warp's lanes are
 * neighbours, and one atomic operation does for those of a word.
 */
static __device__ __forceinline__ void sl_draw_turn(const struct sl_draw_batch &b, bool mine,
                                                    uint32_t value, uint32_t displaced)
{
    uint32_t left = __ballot_sync(SL_FULL_MASK, mine);
    while (left) {
        int leader = __ffs((int)left) - 1;
        uint32_t word = __shfl_sync(SL_FULL_MASK, value / 32, leader);
        bool same = mine && value / 32 == word;
        uint32_t bits = __reduce_or_sync(SL_FULL_MASK, same ? 1u << (value % 32) : 0u);
        if ((int)(threadIdx.x % SL_WARP) == leader)
            atomicXor(&b.words[word].bits, bits);
        left &= ~__ballot_sync(SL_FULL_MASK, same);
    }
    if (displaced != SL_DRAW_NONE)
        atomicXor(&b.words[displaced / 32].bits, 1u << (displaced % 32));
}

// The hop's edge e is the graph's edge `at`, for who wants to know.
static __device__ __forceinline__ void sl_draw_identify(const struct sl_draw_hop &hop, uint32_t e,
                                                        uint64_t at)
{
    if (hop.edge_ids)
        hop.edge_ids[e] = at;
}

/*
 * The hop's edge e comes from `vertex`. For whole warps, of which the lanes with `valid` have an
 * edge. Fused: the edge keeps its vertex's place in the table; else the vertex, for the fill pass.
 */
static __device__ __forceinline__ void sl_draw_put(const struct sl_draw_hop &hop, bool valid,
                                                   uint32_t e, uint32_t vertex)
{
    if (!hop.b.fused) {
        if (valid)
            hop.indices[e] = vertex;
        return;
    }
    bool mine = false;
    uint32_t displaced = SL_DRAW_NONE;
    if (valid)
        hop.indices[e] = sl_draw_insert(hop.b, vertex, hop.first_value + e, &mine, &displaced);
    sl_draw_turn(hop.b, mine, hop.first_value + e, displaced);
}

// The edges of a row from e to its end, of which fewer were found than were counted before.
static __device__ __forceinline__ void sl_draw_fill(const struct sl_draw_hop &hop, uint32_t row,
                                                    uint32_t e)
{
    const uint32_t end = hop.indptr[row + 1];
    for (; e < end; e += SL_WARP)
        sl_draw_put(hop, e + threadIdx.x % SL_WARP < end, e + threadIdx.x % SL_WARP, 0);
}

// --- launches ------------------------------------------------------------------------------------

// Blocks for `work` threads: as many as fit the GPU at once go on until all is done.
static inline uint32_t sl_draw_grid(uint64_t work, uint32_t threads)
{
    uint64_t wanted = (work + threads - 1) / threads;
    uint64_t most = (uint64_t)sl_cuda_processors() * (2048 / threads);
    return (uint32_t)SL_MAX(SL_MIN(wanted, most), 1ull);
}

// renumber.cu
int sl_draw_seeds(const struct sl_draw_batch *b, const uint32_t *seeds, uint32_t n_seeds);
// From the counts of the rows to indptr.
int sl_draw_indptr(const struct sl_draw_hop *hop);
// The same, where the counts are what `uniform` sampling takes.
int sl_draw_uniform_indptr(const struct sl_draw_hop *hop);
// From padded places to edges.
int sl_draw_settle(const struct sl_draw_hop *hop);
// From vertices, or places in the table, to numbers; nodes get the new ones.
int sl_draw_number(const struct sl_draw_hop *hop);
// Of the nodes after the last hop.
int sl_draw_degrees(const struct sl_draw_hop *last, const uint32_t *degree_of, uint32_t *degrees);

// deliver.cu
struct sl_delivery {
    const struct sl_draw_hop *hops; // (n_hops) of the host
    uint32_t n_hops;
    bool shared;                // the last hop's arrays are those of all
    const uint32_t *degrees;    // or NULL
    bool ranked;                // with ranks, of
    struct sl_rank_index ranks; // ... this index
    unsigned char *to;
    uint64_t at, capacity;
    unsigned char *also; // or NULL
    uint64_t also_capacity;
};
// Writes the batch as one piece, as struct sl_draw_delivery says, and how long that is.
int sl_draw_deliver(const struct sl_draw_batch *b, const struct sl_delivery *d);

// An array of a batch of relations: n[0] * times + plus words, and nothing without edges.
struct sl_draw_array {
    const uint32_t *from;
    const struct sl_draw_edges *edges; // NULL: a part of the nodes, right behind the one before it
    const uint32_t *n;
    uint32_t times, plus;
    uint64_t at, words; // out: bytes in the delivery; 0 words: it is not there
};
struct sl_runs_delivery {
    struct sl_draw_array *arrays; // (n_arrays) on the device: those of edges, then the nodes
    uint32_t n_arrays, n_parts;   // the last n_parts are the nodes
    const struct sl_draw_vertices *vertices; // (n_vertices) and
    const struct sl_draw_edges *edges;       // (n_edges): all of them, to see that they had room
    uint32_t n_vertices, n_edges;
    unsigned char *to;
    uint64_t at, capacity;
    unsigned char *also; // or NULL
    uint64_t also_capacity;
};
int sl_draw_deliver_runs(const struct sl_draw_batch *b, const struct sl_runs_delivery *d,
                         uint64_t nodes_room);

/*
 * Blocks and their scratch memory: groups of lanes have `group_bytes` each, in shared memory where
 * a block's share of it has room for them (*shared is then its size, and 0 otherwise).
 */
static inline uint32_t sl_draw_scratch_grid(uint64_t groups, uint32_t lanes, uint64_t group_bytes,
                                            uint32_t *shared, uint64_t *bytes)
{
    uint64_t block_bytes = SL_DRAW_SCRATCH_THREADS / lanes * group_bytes;
    uint32_t grid = sl_draw_grid(groups * lanes, SL_DRAW_SCRATCH_THREADS);
    *shared = block_bytes <= SL_DRAW_SHARED_BYTES ? (uint32_t)block_bytes : 0;
    *bytes = 0;
    if (*shared || block_bytes == 0)
        return grid;
    grid = (uint32_t)SL_MAX(SL_MIN((uint64_t)grid, SL_DRAW_SCRATCH_BYTES / block_bytes), 1ull);
    *bytes = grid * block_bytes;
    return grid;
}

// --- steps ---------------------------------------------------------------------------------------

/*
 * The steps that a batch is drawn in: a relation in a hop, and of a plain graph a hop; what room
 * each has, and where it finds what others have counted (draw_steps.cu).
 */
#define SL_DRAW_NO_STEP UINT32_MAX

struct sl_draw_step {
    uint32_t hop, relation;
    int64_t fanout;   // 0: its rows are empty
    uint32_t take;    // places a row; 0 where rows are counted first
    uint64_t edges;   // room, with those kept
    uint32_t earlier; // the step whose rows are kept, or SL_DRAW_NO_STEP
    uint32_t before;  // the count of the vertices of its source type
};

// Counts of vertices: the seeds, none, and those of its source type after each step.
enum { SL_DRAW_SEEDS, SL_DRAW_NOBODY, SL_DRAW_FOUND };

// The room of one attempt.
struct sl_draw_steps {
    const struct sl_draw_types *types;
    uint32_t n_hops, n_steps;
    struct sl_draw_step *step; // (n_hops, n_relations at most)
    uint32_t *last;            // (n_relations) each one's last step, or SL_DRAW_NO_STEP
    // (n_hops + 1, n_types) before each hop, and at the end: room, and which count has them
    uint64_t *rows;
    uint32_t *at;
    uint64_t values; // of the table: a multiple of 32
    uint64_t slots;  // of the table, a power of two
};

// What batches wanted where the first room was too small.
struct sl_draw_wanted {
    uint64_t *rows;   // (n_hops + 1, n_types)
    uint64_t *edges;  // (n_hops, n_relations)
    uint64_t largest; // vertices of a batch
    uint64_t slots;   // of the table, where it was full
};

static inline uint32_t *sl_draw_at(const struct sl_draw_steps *p, uint32_t h, uint32_t type)
{
    return &p->at[(uint64_t)h * p->types->n_types + type];
}

static inline uint64_t *sl_draw_rows(const struct sl_draw_steps *p, uint32_t h, uint32_t type)
{
    return &p->rows[(uint64_t)h * p->types->n_types + type];
}

// The last step of a relation, or NULL.
static inline const struct sl_draw_step *sl_draw_last(const struct sl_draw_steps *p,
                                                      uint32_t relation)
{
    return p->last[relation] == SL_DRAW_NO_STEP ? NULL : &p->step[p->last[relation]];
}

// Whether the steps share one row of values, each a longer part of it.
static inline bool sl_draw_shares_values(const struct sl_draw_args *args,
                                         const struct sl_draw_steps *p)
{
    return args->expand_new && p->types->n_relations == 1;
}

const struct sl_draw_sampler *sl_draw_sampler_of(enum sl_sampler_kind kind);
bool sl_draw_counts_visits(const struct sl_draw_args *args);

// Whatever can be wrong with a batch, hops in the words of the processor's samplers.
int sl_draw_check(const struct sl_draw_args *args);
// The steps of a batch that can be drawn, in lists that have room for them.
int sl_draw_make_steps(const struct sl_draw_wanted *w, const struct sl_draw_args *args,
                       struct sl_draw_steps *p);

#endif
