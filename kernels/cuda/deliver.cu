/*
 * deliver.cu - a batch that was drawn, as one piece and with its ranks, where it is wanted.
 *
 * PROBLEM. How long each array has become is known on the GPU. A processor that copies them has to
 * wait for these counts first, and for its copies once more, and the GPU has nothing to do
 * meanwhile.
 *
 * DESIGN. A kernel lays the arrays out, which is a sum over a few counts, and writes them to their
 * places: in memory that the processor maps for the GPU these are writes across the bus, in whole
 * lines, which are posted and not waited for. So a batch is queued from its seeds to its last rank
 * without a question, and the processor waits once. A few blocks are enough to fill the bus, and
 * leave the other multiprocessors to the batch that is drawn meanwhile. What a process on the same
 * GPU is to read goes to the GPU's own memory as well: each word is read once and written twice.
 *
 * A batch of relations has as many arrays as there are relations with edges in each hop, and the
 * nodes in a part for each type, so a block of threads lays them out first, in a launch of its own.
 */
#include "kernels/cuda/draw.cuh"
#include "kernels/cuda/rank.cuh"

namespace {

enum {
    THREADS = 256,
    PIECES_MAX = 3 * SL_DRAW_HOPS_MAX + 3,
    PACK = 4, // words a thread writes at once
};

// An array of the batch.
struct piece {
    const uint32_t *from;
    uint64_t at; // bytes, in the delivery
    uint64_t words;
};

// What a kernel is given of it: device addresses.
struct source {
    struct sl_draw_control *control;
    const uint32_t *nodes;
    const struct sl_draw_vertices *n_nodes;
    struct {
        const struct sl_draw_vertices *rows;
        const struct sl_draw_edges *edges;
        const uint32_t *indptr, *indices;
        const uint32_t *beside; // visits or edges' numbers, or NULL
    } hop[SL_DRAW_HOPS_MAX];
    uint32_t n_hops;
    bool shared;           // all hops have the arrays of the last one
    uint32_t beside_words; // an edge
    const uint32_t *degrees;
    bool ranked;
    struct sl_rank_index ranks;
    uint64_t at, capacity;
    uint64_t also_capacity;
    unsigned char *to, *also;
};

// Where they are written.
struct places {
    unsigned char *to, *also; // also: or NULL
};

// The arrays as they are laid out.
struct layout {
    struct piece piece[PIECES_MAX];
    uint32_t n;
    uint64_t at; // where the last one ends
    struct places places;
};

} // namespace

static __device__ void add(struct layout *l, const uint32_t *from, uint64_t words)
{
    uint64_t at = (l->at + SL_DRAW_ALIGN - 1) / SL_DRAW_ALIGN * SL_DRAW_ALIGN;
    l->piece[l->n] = {from, at, words};
    l->n++;
    l->at = at + words * sizeof(uint32_t);
}

// Of a batch that was drawn to its end.
static __device__ void lay_out(const struct source &s, struct layout *l)
{
    const uint32_t n = s.n_nodes->n;
    for (uint32_t h = s.shared ? s.n_hops - 1 : 0; h < s.n_hops; h++) {
        const uint32_t edges = s.hop[h].edges->n;
        add(l, s.hop[h].indptr, (uint64_t)s.hop[h].rows->n + 1);
        add(l, s.hop[h].indices, edges);
        if (s.hop[h].beside)
            add(l, s.hop[h].beside, (uint64_t)edges * s.beside_words);
    }
    add(l, s.nodes, n);
    if (s.degrees)
        add(l, s.degrees, n);
    if (s.ranked)
        add(l, NULL, n);
}

// Element i of an array, to its places.
template <class T>
static __device__ void put(const struct places &to, uint64_t at, uint64_t i, T element)
{
    ((T *)(void *)(to.to + at))[i] = element;
    if (to.also)
        ((T *)(void *)(to.also + at))[i] = element;
}

static __device__ void copy(const struct places &to, const uint32_t *from, uint64_t at,
                            uint64_t words, uint64_t first, uint64_t stride)
{
    const uint64_t packs = at % sizeof(uint4) == 0 ? words / PACK : 0, rest = packs * PACK;
    for (uint64_t i = first; i < packs; i += stride)
        put(to, at, i, ((const uint4 *)(const void *)from)[i]);
    for (uint64_t i = rest + first; i < words; i += stride)
        put(to, at, i, from[i]);
}

static __device__ void look_up(const struct source &s, const struct layout &l,
                               const struct piece &p, uint64_t first, uint64_t stride)
{
    for (uint64_t i = first; i < p.words; i += stride)
        put(l.places, p.at, i, sl_rank_of(s.ranks, s.nodes[i]));
}

static __global__ void __launch_bounds__(THREADS) deliver(const struct source s)
{
    __shared__ struct layout l;
    struct sl_draw_control *c = s.control;
    if (threadIdx.x == 0) {
        l.n = 0;
        l.at = s.at;
        // Otherwise something had no room, and nothing was drawn behind it.
        if (!c->full && s.n_nodes->n == s.n_nodes->wanted)
            lay_out(s, &l);
        if (blockIdx.x == 0)
            c->end = l.at;
        if (l.at > s.capacity)
            l.n = 0;
        l.places.to = s.to;
        l.places.also = l.at <= s.also_capacity ? s.also : NULL;
    }
    __syncthreads();
    const uint64_t first = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    const uint64_t stride = (uint64_t)gridDim.x * THREADS;
    for (uint32_t i = 0; i < l.n; i++) {
        const struct piece &p = l.piece[i];
        if (p.from)
            copy(l.places, p.from, p.at, p.words, first, stride);
        else
            look_up(s, l, p, first, stride);
    }
}

// A few blocks for batches of so many nodes.
static uint32_t grid_of(uint64_t nodes_room)
{
    uint64_t blocks = (nodes_room + THREADS - 1) / THREADS;
    return (uint32_t)SL_MAX(SL_MIN(blocks, (uint64_t)sl_cuda_processors()), 1ull);
}

int sl_draw_deliver(const struct sl_draw_batch *b, const struct sl_delivery *d)
{
    const struct sl_draw_hop *last = &d->hops[d->n_hops - 1];
    const bool ids = last->edge_ids != NULL;
    struct source s = {b->control, last->nodes,   last->found,      {},        d->n_hops,
                       d->shared,  ids ? 2u : 1u, d->degrees,       d->ranked, d->ranks,
                       d->at,      d->capacity,   d->also_capacity, d->to,     d->also};
    for (uint32_t h = 0; h < d->n_hops; h++) {
        const struct sl_draw_hop *hop = &d->hops[h];
        const void *beside = ids ? (const void *)hop->edge_ids : hop->visits;
        s.hop[h] = {hop->rows, hop->edges, hop->indptr, hop->indices, (const uint32_t *)beside};
    }
    SL_LAUNCH(deliver, grid_of(last->nodes_room), THREADS, 0, s);
    return SL_OK;
}

// --- relations -----------------------------------------------------------------------------------

// What an array takes: words, and of arrays of edges whole lines.
static __device__ uint64_t measure(struct sl_draw_array *a)
{
    a->words = a->edges && a->edges->n == 0 ? 0 : (uint64_t)a->n[0] * a->times + a->plus;
    const uint64_t bytes = a->words * sizeof(uint32_t);
    return a->edges ? (bytes + SL_DRAW_ALIGN - 1) / SL_DRAW_ALIGN * SL_DRAW_ALIGN : bytes;
}

// Arrays first to last - 1 from byte `at` on, each thread some neighbouring ones; returns where
// they end.
static __device__ uint64_t place_arrays(struct sl_draw_array *arrays, uint32_t first, uint32_t last,
                                        uint64_t at, uint64_t *parts)
{
    const uint32_t each = (last - first + THREADS - 1) / THREADS;
    const uint32_t from = SL_MIN(first + threadIdx.x * each, last), to = SL_MIN(from + each, last);
    uint64_t mine = 0;
    for (uint32_t i = from; i < to; i++)
        mine += measure(&arrays[i]);
    const uint64_t through = sl_warp_running64(mine);
    __syncthreads(); // parts may be read still
    if (threadIdx.x % SL_WARP == SL_WARP - 1)
        parts[threadIdx.x / SL_WARP] = through;
    __syncthreads();
    uint64_t before = at + through - mine, end = at;
    for (uint32_t w = 0; w < THREADS / SL_WARP; w++) {
        before += w < threadIdx.x / SL_WARP ? parts[w] : 0;
        end += parts[w];
    }
    for (uint32_t i = from; i < to; i++) {
        arrays[i].at = before;
        before += measure(&arrays[i]);
    }
    return end;
}

static __global__ void __launch_bounds__(THREADS)
    lay_out_runs(struct sl_draw_control *control, const struct sl_runs_delivery d)
{
    __shared__ uint64_t parts[THREADS / SL_WARP];
    __shared__ uint32_t failed;
    if (threadIdx.x == 0)
        failed = control->full;
    __syncthreads();
    bool fails = false;
    for (uint32_t i = threadIdx.x; i < d.n_vertices; i += THREADS)
        fails = fails || d.vertices[i].n != d.vertices[i].wanted;
    for (uint32_t i = threadIdx.x; i < d.n_edges; i += THREADS)
        fails = fails || d.edges[i].n != d.edges[i].wanted;
    if (fails)
        atomicOr(&failed, 1u);
    const uint64_t edges_end = place_arrays(d.arrays, 0, d.n_arrays - d.n_parts, d.at, parts);
    const uint64_t end =
        place_arrays(d.arrays, d.n_arrays - d.n_parts, d.n_arrays, edges_end, parts);
    if (threadIdx.x == 0)
        control->end = failed ? UINT64_MAX : end;
}

static __global__ void __launch_bounds__(THREADS)
    deliver_runs(const struct sl_draw_control *control, const struct sl_runs_delivery d)
{
    const uint64_t first = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    const uint64_t stride = (uint64_t)gridDim.x * THREADS;
    const struct places places = {d.to, control->end <= d.also_capacity ? d.also : NULL};
    if (control->end > d.capacity) // also where something had no room
        return;
    for (uint32_t i = 0; i < d.n_arrays; i++) {
        const struct sl_draw_array &a = d.arrays[i];
        copy(places, a.from, a.at, a.words, first, stride);
    }
}

int sl_draw_deliver_runs(const struct sl_draw_batch *b, const struct sl_runs_delivery *d,
                         uint64_t nodes_room)
{
    SL_LAUNCH(lay_out_runs, 1, THREADS, 0, b->control, *d);
    SL_LAUNCH(deliver_runs, grid_of(nodes_room), THREADS, 0, b->control, *d);
    return SL_OK;
}
