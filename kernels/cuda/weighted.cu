/*
 * weighted.cu - k-hop weighted sampling exactly as kernels/weighted_internal.h defines it.
 *
 * A group of lanes draws a row's edges one after the other. What has been taken away is a list in
 * the order of the file; for its r-th edge, of weight w, let G be the weight of those before it:
 *
 *     shrunk[r]  = its prefix minus its weight, minus G: where it began on the line that is left
 *     through[r] = G + w
 *
 * shrunk never falls, so a point x has passed the first p edges of the list, which ballots count,
 * and x lies over the first edge of the row with x < prefix[edge] - through[p - 1]: taken ones
 * never are, since they have no length there. That search looks at as many places at once as the
 * group has lanes. An edge that is taken goes into the list at p, those behind it move on by one
 * place and are shrunk by its weight. All of these numbers are multiples of the row's unit below
 * 2^53 of them, so sums and differences are exact in whatever order.
 *
 * With replacement the list stays empty.
 *
 * Groups have 8 lanes to fanout 32, which makes four rows a warp and an eighth of the length a
 * step, and 32 lanes for larger ones. A row's searches begin at the same places, which stay in the
 * first-level cache. Lists are in shared memory, and in scratch memory where they are too long.
 *
 * How many edges a row has is known when it is drawn: a row has `fanout` places, which settle()
 * moves together. All edges of positive weight (fanout -1) are counted by a warp a row first, and
 * put by a warp a row then.
 */
#include "kernels/cuda/draw.cuh"
#include "kernels/weighted_internal.h"

enum { NARROW = 8 }; // lanes, to fanout SL_WARP

// What a row has given, in the order of the file.
struct taken {
    double *shrunk, *through; // (fanout)
    uint32_t *edge;           // (fanout)
};

static uint64_t taken_bytes(int64_t fanout)
{
    // Whole doubles, so that the next group's list is aligned.
    return (uint64_t)fanout * 2 * sizeof(double) + ((uint64_t)fanout + 1) / 2 * sizeof(double);
}

// Of the row that begins at edge `start`.
static __device__ __forceinline__ double weight_of(const struct sl_draw_batch &b, uint64_t start,
                                                   uint32_t edge, double *begin)
{
    *begin = edge > 0 ? sl_sum(b, start + edge - 1) : 0.0;
    return sl_sum(b, start + edge) - *begin;
}

// --- a draw --------------------------------------------------------------------------------------

// How many of the n edges of the list lie before x.
template <int G>
static __device__ __forceinline__ uint32_t passed(const struct taken &t, uint32_t n, double x)
{
    for (uint32_t base = 0; base < n; base += G) {
        uint32_t r = base + sl_group_lane<G>();
        uint32_t behind = sl_group_ballot<G>(r >= n || x < t.shrunk[r]);
        if (behind)
            return base + (uint32_t)__ffs((int)behind) - 1;
    }
    return n;
}

// The first edge with x < prefix[edge] - gone; the last one where rounding leaves none.
template <int G>
static __device__ __forceinline__ uint32_t search(const struct sl_draw_batch &b, uint64_t start,
                                                  uint32_t degree, double x, double gone)
{
    uint64_t low = 0, end = degree; // it is in low .. end - 1
    for (;;) {
        uint64_t step = (end - low + G - 1) / G;
        uint64_t probe = SL_MIN(low + (sl_group_lane<G>() + 1) * step, end) - 1;
        uint32_t yes = sl_group_ballot<G>(x < sl_sum(b, start + probe) - gone);
        if (!yes)
            return degree - 1;
        low += ((uint32_t)__ffs((int)yes) - 1) * step;
        end = SL_MIN(low + step, end);
        if (step == 1)
            return (uint32_t)low;
    }
}

// Puts an edge that begins at `begin` and weighs w into the list at p.
template <int G>
static __device__ __forceinline__ void take(const struct taken &t, uint32_t n, uint32_t p,
                                            uint32_t edge, double begin, double w, double gone)
{
    // From the end, so that what is overwritten has moved.
    for (uint32_t left = n - p; left > 0;) {
        uint32_t some = SL_MIN(left, (uint32_t)G), r = p + left - some + sl_group_lane<G>();
        bool moves = sl_group_lane<G>() < some;
        double shrunk = moves ? t.shrunk[r] - w : 0, through = moves ? t.through[r] + w : 0;
        uint32_t moved = moves ? t.edge[r] : 0;
        __syncwarp(sl_group_mask<G>());
        if (moves) {
            t.shrunk[r + 1] = shrunk;
            t.through[r + 1] = through;
            t.edge[r + 1] = moved;
        }
        __syncwarp(sl_group_mask<G>());
        left -= some;
    }
    if (sl_group_lane<G>() == 0) {
        t.shrunk[p] = begin - gone;
        t.through[p] = gone + w;
        t.edge[p] = edge;
    }
    __syncwarp(sl_group_mask<G>());
}

// Slot n of a row is the graph's edge `at`. A test of hop.padded_ids costs registers and blocks, so
// that who wants no numbers has a kernel without.
template <bool IDS>
static __device__ __forceinline__ void pad(const struct sl_draw_hop &hop, uint32_t row, uint32_t n,
                                           uint64_t at)
{
    if (IDS)
        hop.padded_ids[(uint64_t)row * hop.take + n] = at;
    hop.padded[(uint64_t)row * hop.take + n] = sl_neighbour(hop.b, at);
}

template <int G, bool IDS>
static __device__ __forceinline__ void draw_row(const struct sl_draw_hop &hop, uint32_t row,
                                                const struct taken &t)
{
    uint64_t start;
    const uint32_t degree = sl_row_of(hop.b, hop.row_nodes[row], &start);
    double left = degree > 0 ? sl_sum(hop.b, start + degree - 1) : 0.0;
    uint32_t n = 0;
    while (n < hop.take && left > 0) {
        double x = sl_weighted_draw(hop.b.seed, hop.b.stream, hop.b.epoch, hop.b.batch, hop.hop,
                                    row, n, left);
        uint32_t p = passed<G>(t, hop.replace ? 0 : n, x);
        double gone = p > 0 ? t.through[p - 1] : 0.0, begin;
        uint32_t edge = search<G>(hop.b, start, degree, x, gone);
        if (!hop.replace) { // of the launch
            double w = weight_of(hop.b, start, edge, &begin);
            __syncwarp(sl_group_mask<G>()); // through has been read
            take<G>(t, n, p, edge, begin, w, gone);
            left -= w;
        }
        if (sl_group_lane<G>() == 0)
            pad<IDS>(hop, row, n, start + edge);
        n++;
    }
    __syncwarp(sl_group_mask<G>());
    if (!(left > 0)) // all there are: in the order of the file
        for (uint32_t r = sl_group_lane<G>(); r < n; r += G)
            pad<IDS>(hop, row, r, start + t.edge[r]);
    if (sl_group_lane<G>() == 0)
        hop.count[row] = n;
    __syncwarp(sl_group_mask<G>()); // the list is the next row's
}

template <int G, bool IDS>
static __global__ void __launch_bounds__(SL_DRAW_SCRATCH_THREADS)
    draw_weighted(struct sl_draw_hop hop, uint32_t list_bytes, bool in_shared)
{
    SL_DYNAMIC_SHARED(unsigned char, shared);
    const uint32_t groups = SL_DRAW_SCRATCH_THREADS / G, group = threadIdx.x / G;
    const uint64_t at = (uint64_t)blockIdx.x * groups + group,
                   stride = (uint64_t)gridDim.x * groups;
    unsigned char *list =
        in_shared ? shared + group * list_bytes : (unsigned char *)hop.scratch + at * list_bytes;
    struct taken t;
    t.shrunk = (double *)list;
    t.through = t.shrunk + hop.take;
    t.edge = (uint32_t *)(t.through + hop.take);
    for (uint64_t row = sl_first(hop.first_row) + at; row < hop.rows->n; row += stride)
        draw_row<G, IDS>(hop, (uint32_t)row, t);
}

// --- all edges of positive weight ----------------------------------------------------------------

static __global__ void __launch_bounds__(SL_DRAW_THREADS) count_positive(struct sl_draw_hop hop)
{
    const uint32_t warps = SL_DRAW_THREADS / SL_WARP, lane = threadIdx.x % SL_WARP;
    uint64_t row = sl_first(hop.first_row) + (uint64_t)blockIdx.x * warps + threadIdx.x / SL_WARP;
    for (; row < hop.rows->n; row += (uint64_t)gridDim.x * warps) {
        uint64_t start;
        const uint32_t degree = sl_row_of(hop.b, hop.row_nodes[row], &start);
        uint32_t n = 0;
        double begin;
        for (uint32_t edge = lane; edge < degree; edge += SL_WARP)
            n += weight_of(hop.b, start, edge, &begin) > 0;
        n = __reduce_add_sync(SL_FULL_MASK, n);
        if (lane == 0) {
            hop.start[row] = start;
            hop.degree[row] = degree;
            hop.count[row] = n;
        }
    }
}

static __global__ void __launch_bounds__(SL_DRAW_THREADS) put_positive(struct sl_draw_hop hop)
{
    const uint32_t warps = SL_DRAW_THREADS / SL_WARP, lane = threadIdx.x % SL_WARP;
    if (hop.edges->n == 0)
        return;
    uint64_t row = sl_first(hop.first_row) + (uint64_t)blockIdx.x * warps + threadIdx.x / SL_WARP;
    for (; row < hop.rows->n; row += (uint64_t)gridDim.x * warps) {
        const uint64_t start = hop.start[row];
        const uint32_t degree = hop.degree[row];
        const uint32_t end = hop.indptr[row + 1];
        uint32_t e = hop.indptr[row];
        for (uint32_t base = 0; base < degree; base += SL_WARP) {
            uint32_t edge = base + lane, vertex = 0;
            double begin;
            bool valid = edge < degree && weight_of(hop.b, start, edge, &begin) > 0;
            uint32_t some = __ballot_sync(SL_FULL_MASK, valid);
            uint32_t at = e + (uint32_t)__popc(some & ((1u << lane) - 1));
            if (valid)
                vertex = sl_neighbour(hop.b, start + edge);
            if (valid && at < end)
                sl_draw_identify(hop, at, start + edge);
            sl_draw_put(hop, valid && at < end, at, vertex);
            e += (uint32_t)__popc(some);
        }
        sl_draw_fill(hop, (uint32_t)row, e);
    }
}

static int draw_positive(const struct sl_draw_hop *hop)
{
    uint32_t grid = sl_draw_grid((uint64_t)hop->rows_room * SL_WARP, SL_DRAW_THREADS);
    SL_LAUNCH(count_positive, grid, SL_DRAW_THREADS, 0, *hop);
    SL_TRY(sl_draw_indptr(hop));
    SL_LAUNCH(put_positive, grid, SL_DRAW_THREADS, 0, *hop);
    return SL_OK;
}

// --- entry ---------------------------------------------------------------------------------------

static uint32_t grid_of(int64_t fanout, uint64_t rows, uint32_t *shared, uint64_t *bytes)
{
    return sl_draw_scratch_grid(rows, fanout <= SL_WARP ? (uint32_t)NARROW : (uint32_t)SL_WARP,
                                fanout > 0 ? taken_bytes(fanout) : 0, shared, bytes);
}

template <int G, bool IDS> static int launch(const struct sl_draw_hop *hop)
{
    uint32_t shared, list = (uint32_t)taken_bytes(hop->fanout);
    uint64_t bytes;
    uint32_t grid = grid_of(hop->fanout, hop->rows_room, &shared, &bytes);
    SL_LAUNCH((draw_weighted<G, IDS>), grid, SL_DRAW_SCRATCH_THREADS, shared, *hop, list,
              shared > 0);
    return SL_OK;
}

static int draw(const struct sl_draw_hop *hop)
{
    if (hop->fanout == SL_DRAW_ALL)
        return draw_positive(hop);
    if (hop->fanout <= SL_WARP)
        SL_TRY((hop->edge_ids ? launch<NARROW, true> : launch<NARROW, false>)(hop));
    else
        SL_TRY((hop->edge_ids ? launch<SL_WARP, true> : launch<SL_WARP, false>)(hop));
    SL_TRY(sl_draw_indptr(hop));
    return sl_draw_settle(hop);
}

static uint32_t take(const struct sl_draw_args *, int64_t fanout)
{
    return fanout < 0 ? 0 : (uint32_t)fanout;
}

static uint64_t scratch_bytes(const struct sl_draw_args *, int64_t fanout, uint64_t rows)
{
    uint32_t shared;
    uint64_t bytes;
    grid_of(fanout, rows, &shared, &bytes);
    return bytes;
}

const struct sl_draw_sampler sl_draw_khop_weighted = {sl_check_khop_weighted, take, scratch_bytes,
                                                      draw};
