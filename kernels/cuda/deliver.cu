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
    struct {
        const uint32_t *indptr, *indices;
        const uint32_t *beside; // visits or edges' numbers, or NULL
    } hop[SL_DRAW_HOPS_MAX];
    uint32_t n_hops;
    bool shared;           // all hops have the arrays of the last one
    uint32_t beside_words; // an edge
    const uint32_t *degrees;
    bool ranked;
    struct sl_rank_index ranks;
    unsigned char *to;
    uint64_t at, capacity;
    unsigned char *also;
    uint64_t also_capacity;
};

// The arrays as they are laid out.
struct layout {
    struct piece piece[PIECES_MAX];
    uint32_t n;
    uint64_t at;         // where the last one ends
    unsigned char *also; // the second place, where they fit it
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
    const struct sl_draw_control *c = s.control;
    for (uint32_t h = s.shared ? s.n_hops - 1 : 0; h < s.n_hops; h++) {
        add(l, s.hop[h].indptr, c->rows[h] + 1);
        add(l, s.hop[h].indices, c->edges[h]);
        if (s.hop[h].beside)
            add(l, s.hop[h].beside, (uint64_t)c->edges[h] * s.beside_words);
    }
    add(l, s.nodes, c->rows[s.n_hops]);
    if (s.degrees)
        add(l, s.degrees, c->rows[s.n_hops]);
    if (s.ranked)
        add(l, NULL, c->rows[s.n_hops]);
}

// Element i of an array, to its places.
template <class T>
static __device__ void put(const struct source &s, const struct layout &l, uint64_t at, uint64_t i,
                           T element)
{
    ((T *)(void *)(s.to + at))[i] = element;
    if (l.also)
        ((T *)(void *)(l.also + at))[i] = element;
}

static __device__ void copy(const struct source &s, const struct layout &l, const struct piece &p,
                            uint64_t first, uint64_t stride)
{
    const uint64_t packs = p.words / PACK, rest = packs * PACK;
    for (uint64_t i = first; i < packs; i += stride)
        put(s, l, p.at, i, ((const uint4 *)(const void *)p.from)[i]);
    if (first < p.words % PACK)
        put(s, l, p.at, rest + first, p.from[rest + first]);
}

static __device__ void look_up(const struct source &s, const struct layout &l,
                               const struct piece &p, uint64_t first, uint64_t stride)
{
    for (uint64_t i = first; i < p.words; i += stride)
        put(s, l, p.at, i, sl_rank_of(s.ranks, s.nodes[i]));
}

static __global__ void __launch_bounds__(THREADS) deliver(const struct source s)
{
    __shared__ struct layout l;
    struct sl_draw_control *c = s.control;
    if (threadIdx.x == 0) {
        l.n = 0;
        l.at = s.at;
        // Otherwise something had no room, and nothing was drawn behind it.
        if (!c->full && c->rows[s.n_hops] == c->wanted_rows[s.n_hops])
            lay_out(s, &l);
        if (blockIdx.x == 0)
            c->end = l.at;
        if (l.at > s.capacity)
            l.n = 0;
        l.also = l.at <= s.also_capacity ? s.also : NULL;
    }
    __syncthreads();
    const uint64_t first = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    const uint64_t stride = (uint64_t)gridDim.x * THREADS;
    for (uint32_t i = 0; i < l.n; i++) {
        if (l.piece[i].from)
            copy(s, l, l.piece[i], first, stride);
        else
            look_up(s, l, l.piece[i], first, stride);
    }
}

int sl_draw_deliver(const struct sl_draw_batch *b, const struct sl_delivery *d)
{
    const bool ids = d->n_hops > 0 && d->hops[0].edge_ids;
    struct source s = {b->control,    b->nodes,    {},        d->n_hops,       d->shared,
                       ids ? 2u : 1u, d->degrees,  d->ranked, d->ranks,        d->to,
                       d->at,         d->capacity, d->also,   d->also_capacity};
    for (uint32_t h = 0; h < d->n_hops; h++) {
        const struct sl_draw_hop *hop = &d->hops[h];
        const void *beside = ids ? (const void *)hop->edge_ids : hop->visits;
        s.hop[h] = {hop->indptr, hop->indices, (const uint32_t *)beside};
    }
    uint32_t blocks = (b->nodes_room + THREADS - 1) / THREADS;
    SL_LAUNCH(deliver, SL_MAX(SL_MIN(blocks, sl_cuda_processors()), 1u), THREADS, 0, s);
    return SL_OK;
}
