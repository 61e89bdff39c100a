/*
 * renumber.cu - local numbers by first appearance; how and why is on top of draw.cu.
 */
#include "kernels/cuda/draw.cuh"
#include "kernels/khop_internal.h"

// --- the seeds -----------------------------------------------------------------------------------

// nodes[0 .. n) are there: value i is seed i's, and all are first appearances.
static __global__ void __launch_bounds__(SL_DRAW_THREADS)
    put_seeds(struct sl_draw_batch b, const uint32_t *seeds, uint32_t n)
{
    uint32_t i = blockIdx.x * SL_DRAW_THREADS + threadIdx.x;
    if (i == 0)
        b.seeds->n = b.seeds->wanted = n;
    if (i >= n)
        return;
    bool mine = false;
    uint32_t displaced = SL_DRAW_NONE;
    sl_draw_insert(b, seeds[i], i, &mine, &displaced);
    // A seed that found no place is no duplicate: the batch is drawn again, and looked at then.
    if (!mine && !*(const volatile uint32_t *)&b.control->full)
        sl_complain(b.complaints, SL_COMPLAINT_DUPLICATE, i, seeds[i], n);
    if (displaced != SL_DRAW_NONE)
        sl_complain(b.complaints, SL_COMPLAINT_DUPLICATE, displaced, seeds[i], n);
    if (i % 32 == 0) {
        b.words[i / 32].bits = n - i >= 32 ? ~0u : (1u << (n - i)) - 1;
        b.words[i / 32].before = i;
    }
}

int sl_draw_seeds(const struct sl_draw_batch *b, const uint32_t *seeds, uint32_t n_seeds)
{
    uint32_t blocks = (n_seeds + SL_DRAW_THREADS - 1) / SL_DRAW_THREADS;
    SL_LAUNCH(put_seeds, SL_MAX(blocks, 1u), SL_DRAW_THREADS, 0, *b, seeds, n_seeds);
    return SL_OK;
}

// --- from counts to indptr -----------------------------------------------------------------------

// Looks the row's vertex up, and keeps what it found for the kernel that draws.
struct uniform_count {
    struct sl_draw_hop hop;

    __device__ __forceinline__ uint32_t operator()(uint64_t i) const
    {
        const uint64_t row = sl_first(hop.first_row) + i;
        uint64_t start;
        uint32_t degree = sl_row_of(hop.b, hop.row_nodes[row], &start);
        hop.start[row] = start;
        hop.degree[row] = degree;
        return (uint32_t)sl_khop_take(degree, hop.fanout, hop.replace);
    }
};

struct uniform_count_again {
    const uint32_t *degree, *first_row;
    int64_t fanout;
    bool replace;

    __device__ __forceinline__ uint32_t operator()(uint64_t i) const
    {
        return (uint32_t)sl_khop_take(degree[sl_first(first_row) + i], fanout, replace);
    }
};

// What the kernel that drew has counted.
struct drawn_count {
    const uint32_t *count, *first_row;

    __device__ __forceinline__ uint32_t operator()(uint64_t i) const
    {
        return count[sl_first(first_row) + i];
    }
};

// indptr, and at the end whether the hop's edges have room.
struct write_indptr {
    struct sl_draw_edges *edges;
    uint32_t *indptr;
    const uint32_t *first_row, *first_edge;
    uint32_t edges_room;

    __device__ __forceinline__ void operator()(uint64_t i, uint32_t count, uint64_t before) const
    {
        (void)count;
        indptr[sl_first(first_row) + i] = (uint32_t)(sl_first(first_edge) + before);
    }

    __device__ __forceinline__ void end(uint64_t n, uint64_t drawn) const
    {
        const uint64_t total = sl_first(first_edge) + drawn;
        indptr[sl_first(first_row) + n] = (uint32_t)total;
        edges->wanted = total;
        edges->n = total > edges_room ? 0 : (uint32_t)total;
    }
};

static struct sl_scan_length rows_of(const struct sl_draw_hop *hop)
{
    struct sl_scan_length rows = {hop->rows_room, &hop->rows->n, 1, hop->first_row};
    return rows;
}

static struct write_indptr indptr_of(const struct sl_draw_hop *hop)
{
    struct write_indptr write = {hop->edges, hop->indptr, hop->first_row, hop->first_edge,
                                 hop->edges_room};
    return write;
}

int sl_draw_indptr(const struct sl_draw_hop *hop)
{
    struct drawn_count read = {hop->count, hop->first_row};
    return sl_scan_launch(read, read, indptr_of(hop), rows_of(hop), hop->sums);
}

int sl_draw_uniform_indptr(const struct sl_draw_hop *hop)
{
    struct uniform_count first = {*hop};
    struct uniform_count_again again = {hop->degree, hop->first_row, hop->fanout, hop->replace};
    return sl_scan_launch(first, again, indptr_of(hop), rows_of(hop), hop->sums);
}

// --- from padded places to edges -----------------------------------------------------------------

static __global__ void __launch_bounds__(SL_DRAW_THREADS) settle(struct sl_draw_hop hop)
{
    const uint32_t rows = hop.rows->n;
    if (hop.edges->n == 0)
        return;
    const uint64_t places = (uint64_t)rows * hop.take;
    const uint64_t stride = (uint64_t)gridDim.x * SL_DRAW_THREADS;
    // Whole warps go round together.
    uint64_t at =
        (uint64_t)sl_first(hop.first_row) * hop.take + (uint64_t)blockIdx.x * SL_DRAW_THREADS;
    for (; at < places; at += stride) {
        uint64_t place = at + threadIdx.x;
        uint32_t e = 0, vertex = 0;
        bool valid = false;
        if (place < places) {
            uint32_t row = (uint32_t)(place / hop.take), slot = (uint32_t)(place % hop.take);
            valid = slot < hop.count[row];
            e = hop.indptr[row] + slot;
        }
        if (valid) {
            vertex = hop.padded[place];
            if (hop.visits)
                hop.visits[e] = hop.padded_visits[place];
            if (hop.padded_ids)
                sl_draw_identify(hop, e, hop.padded_ids[place]);
        }
        sl_draw_put(hop, valid, e, vertex);
    }
}

int sl_draw_settle(const struct sl_draw_hop *hop)
{
    uint64_t places = (uint64_t)hop->rows_room * hop->take;
    SL_LAUNCH(settle, sl_draw_grid(places, SL_DRAW_THREADS), SL_DRAW_THREADS, 0, *hop);
    return SL_OK;
}

// --- numbers -------------------------------------------------------------------------------------

// Three-phase, 1: from vertices to places in the table.
static __global__ void __launch_bounds__(SL_DRAW_THREADS) fill(struct sl_draw_hop hop)
{
    const uint32_t edges = hop.edges->n;
    const uint64_t stride = (uint64_t)gridDim.x * SL_DRAW_THREADS;
    uint64_t e = sl_first(hop.first_edge) + (uint64_t)blockIdx.x * SL_DRAW_THREADS + threadIdx.x;
    for (; e < edges; e += stride) {
        bool mine;
        uint32_t displaced;
        hop.indices[e] =
            sl_draw_insert(hop.b, hop.indices[e], hop.first_value + (uint32_t)e, &mine, &displaced);
    }
}

// Three-phase, 2: which edges are first appearances. The first word may have bits of the hop
// before.
static __global__ void __launch_bounds__(SL_DRAW_THREADS) flag(struct sl_draw_hop hop)
{
    const uint32_t edges = hop.b.control->full ? 0 : hop.edges->n;
    const uint32_t first_edge = sl_first(hop.first_edge);
    const uint64_t stride = (uint64_t)gridDim.x * SL_DRAW_THREADS;
    uint64_t at = first_edge / 32 * 32 + (uint64_t)blockIdx.x * SL_DRAW_THREADS;
    for (; at < edges; at += stride) {
        uint64_t e = at + threadIdx.x;
        uint32_t value = hop.first_value + (uint32_t)e;
        bool first = e >= first_edge && e < edges &&
                     (uint32_t)hop.b.table[hop.indices[e]] - hop.b.base == value;
        uint32_t bits = __ballot_sync(SL_FULL_MASK, first);
        if (threadIdx.x % SL_WARP == 0 && e < edges)
            hop.b.words[value / 32].bits |= bits;
    }
}

struct count_firsts {
    const struct sl_rank_word *words;

    __device__ __forceinline__ uint32_t operator()(uint64_t i) const
    {
        return (uint32_t)__popc(words[i].bits);
    }
};

// Numbers of the words, and at the end whether the vertices have room: without, nothing follows.
struct write_ranks {
    const struct sl_draw_control *control;
    struct sl_rank_word *words;
    const struct sl_draw_vertices *before, *known; // known: before the first word's
    struct sl_draw_vertices *found;
    const struct sl_draw_edges *edges;
    uint32_t edges_room, rows_room;

    __device__ __forceinline__ void operator()(uint64_t i, uint32_t firsts,
                                               uint64_t firsts_before) const
    {
        (void)firsts;
        words[i].before = known->wanted + (uint32_t)firsts_before;
    }

    __device__ __forceinline__ void end(uint64_t n, uint64_t firsts) const
    {
        (void)n;
        uint64_t rows = known->wanted + firsts;
        bool room = rows <= rows_room && edges->wanted <= edges_room && !control->full &&
                    before->wanted == before->n;
        found->wanted = (uint32_t)rows;
        found->n = room ? (uint32_t)rows : 0;
    }
};

// From places in the table to numbers; a first appearance says what the number means.
static __global__ void __launch_bounds__(SL_DRAW_THREADS) look_up(struct sl_draw_hop hop)
{
    const uint32_t edges = hop.b.control->full ? 0 : hop.edges->n;
    const uint64_t stride = (uint64_t)gridDim.x * SL_DRAW_THREADS;
    uint64_t e = sl_first(hop.first_edge) + (uint64_t)blockIdx.x * SL_DRAW_THREADS + threadIdx.x;
    for (; e < edges; e += stride) {
        uint64_t entry = hop.b.table[hop.indices[e]];
        uint32_t value = (uint32_t)entry - hop.b.base;
        struct sl_rank_word word = hop.b.words[value / 32];
        uint32_t local = word.before + (uint32_t)__popc(word.bits & ((1u << (value % 32)) - 1));
        hop.indices[e] = local;
        if (value == hop.first_value + (uint32_t)e && local < hop.nodes_room)
            hop.nodes[local] = (uint32_t)(entry >> 32);
    }
}

int sl_draw_number(const struct sl_draw_hop *hop)
{
    const uint32_t grid = sl_draw_grid(hop->edges_room, SL_DRAW_THREADS);
    if (!hop->b.fused) {
        SL_LAUNCH(fill, grid, SL_DRAW_THREADS, 0, *hop);
        SL_LAUNCH(flag, grid, SL_DRAW_THREADS, 0, *hop);
    }
    struct sl_rank_word *words = hop->b.words + hop->first_value / 32;
    struct count_firsts read = {words};
    struct write_ranks write = {hop->b.control, words,      hop->before,     hop->known,
                                hop->found,     hop->edges, hop->edges_room, hop->next_rows_room};
    struct sl_scan_length length = {((uint64_t)hop->edges_room + 31) / 32, &hop->edges->n, 32,
                                    NULL};
    SL_TRY(sl_scan_launch(read, read, write, length, hop->sums));
    SL_LAUNCH(look_up, grid, SL_DRAW_THREADS, 0, *hop);
    return SL_OK;
}

// --- degrees -------------------------------------------------------------------------------------

static __global__ void __launch_bounds__(SL_DRAW_THREADS)
    take_degrees(struct sl_draw_hop last, const uint32_t *degree_of, uint32_t *degrees)
{
    const uint32_t n = last.found->n;
    const uint64_t stride = (uint64_t)gridDim.x * SL_DRAW_THREADS;
    for (uint64_t i = (uint64_t)blockIdx.x * SL_DRAW_THREADS + threadIdx.x; i < n; i += stride)
        degrees[i] = degree_of[last.nodes[i]];
}

int sl_draw_degrees(const struct sl_draw_hop *last, const uint32_t *degree_of, uint32_t *degrees)
{
    SL_LAUNCH(take_degrees, sl_draw_grid(last->nodes_room, SL_DRAW_THREADS), SL_DRAW_THREADS, 0,
              *last, degree_of, degrees);
    return SL_OK;
}
