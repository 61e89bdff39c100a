/*
 * khop.cu - k-hop uniform sampling: Floyd's positions as kernels/khop_internal.h defines them, all
 * slots of a row at once.
 *
 * Slot s draws x[s] from 0 .. n[s] - 1, n[s] = d - k + s + 1, and takes it, or n[s] - 1 = d - k + s
 * when an earlier slot took x[s]. One after the other this is a chain of k steps; but what a slot
 * does follows from the draws alone:
 *
 *     x[s] was taken before   <=>   an earlier slot drew x[s] too, or
 *                                   x[s] = d - k + j for an earlier slot j whose draw was taken
 *
 * (an earlier slot that drew x[s] either took it or found it taken; and other than drawn numbers
 * only d - k + j are taken, by slot j). So a row's lanes draw together, find equal draws by one
 * match, and follow the second line, which asks one bit of one earlier lane, by ballots until
 * nothing changes: almost always the first changes nothing, since a draw falls behind d - k with
 * probability s / d.
 *
 *   fanout 1 .. 32   4, 8, 16 or 32 lanes a row, several rows a warp: registers, no memory
 *   above            a warp a row, 32 slots at a time in order, and a set of what was taken:
 *                    open addressing at most half full, in shared memory to fanout 1024 (XGNN,
 *                    section 5), behind that in scratch memory
 *   all neighbours   a thread an edge, whatever the rows: a hub costs as much as its edges
 *
 * With replacement a slot's position is its draw, and there is nothing to follow.
 *
 * A row with no more neighbours than the fanout is copied by its lanes. Cost is by fanout
 * throughout, never by degree. Each lane makes a Philox block of its own and uses one word of it:
 * four slots share a block, but sharing it out would take as many shuffles, and arithmetic is not
 * what these kernels wait for.
 */
#include "kernels/cuda/draw.cuh"
#include "kernels/khop_internal.h"

enum { TAKEN_NONE = 0 }; // the set holds positions + 1

// --- positions -----------------------------------------------------------------------------------

/*
 * The position of this lane's slot, for whole warps; lanes that do not draw are given as such and
 * get nothing of use. `base`: the first slot of the group's lanes; `before`: it was taken by a slot
 * before base.
 */
template <int G>
static __device__ __forceinline__ uint32_t floyd(bool draws, uint32_t x, uint32_t tail,
                                                 uint32_t base, bool before)
{
    const uint32_t lane = threadIdx.x % SL_WARP, mine = sl_group_lane<G>();
    // Lanes that draw are equal to those of their row that drew the same, others to none.
    unsigned long long key =
        (unsigned long long)(draws ? lane / G : SL_WARP + lane) << 32 | (draws ? x : 0);
    uint32_t equal = __match_any_sync(SL_FULL_MASK, key);
    bool sure = draws && (before || (equal & ((1u << lane) - 1)) != 0);
    uint32_t slot = x - tail - base; // whose own position x is, if it is one
    bool asks = draws && x >= tail + base && slot < mine;
    uint32_t asked = sl_group_base<G>() + (asks ? slot : 0);
    uint32_t moved = __ballot_sync(SL_FULL_MASK, sure);
    for (;;) { // each round settles a slot more of the longest chain
        uint32_t next = __ballot_sync(SL_FULL_MASK, sure || (asks && (moved >> asked & 1)));
        if (next == moved)
            break;
        moved = next;
    }
    return moved >> lane & 1 ? tail + base + mine : x;
}

static __device__ __forceinline__ uint32_t draw_slot(const struct sl_draw_hop &hop, uint32_t row,
                                                     uint32_t slot, uint32_t degree)
{
    return sl_khop_draw(hop.b.seed, hop.b.stream, hop.b.epoch, hop.b.batch, hop.hop, row, slot, 0,
                        sl_khop_range(degree, (uint32_t)hop.fanout, slot, hop.replace));
}

static __device__ __forceinline__ bool draws_row(const struct sl_draw_hop &hop, uint32_t degree)
{
    return sl_khop_draws(degree, hop.fanout, hop.replace);
}

// --- fanout up to 32 -----------------------------------------------------------------------------

template <int G>
static __global__ void __launch_bounds__(SL_DRAW_THREADS) draw_narrow(struct sl_draw_hop hop)
{
    if (hop.edges->n == 0)
        return;
    const uint32_t rows = hop.rows->n, fanout = (uint32_t)hop.fanout;
    const uint32_t slot = sl_group_lane<G>();
    const uint64_t stride = (uint64_t)gridDim.x * (SL_DRAW_THREADS / G);
    // Whole warps go round together.
    uint64_t at = sl_first(hop.first_row) + (uint64_t)blockIdx.x * (SL_DRAW_THREADS / G) +
                  threadIdx.x / SL_WARP * (SL_WARP / G);
    for (; at < rows; at += stride) {
        uint32_t row = (uint32_t)at + threadIdx.x % SL_WARP / G;
        bool live = at + threadIdx.x % SL_WARP / G < rows;
        uint32_t degree = live ? hop.degree[row] : 0;
        bool draws = draws_row(hop, degree), valid = slot < (draws ? fanout : degree);
        draws = draws && valid;
        uint32_t tail = degree - fanout, x = slot, e = 0, vertex = 0;
        if (draws)
            x = draw_slot(hop, row, slot, degree);
        if (!hop.replace) // of the launch
            x = floyd<G>(draws, x, tail, 0, false);
        if (valid) {
            const uint64_t from = hop.start[row] + x;
            e = hop.indptr[row] + slot;
            sl_draw_identify(hop, e, from);
            vertex = sl_neighbour(hop.b, from);
        }
        sl_draw_put(hop, valid, e, vertex);
    }
}

template <int G> static int launch_narrow(const struct sl_draw_hop *hop)
{
    uint32_t grid = sl_draw_grid((uint64_t)hop->rows_room * G, SL_DRAW_THREADS);
    SL_LAUNCH(draw_narrow<G>, grid, SL_DRAW_THREADS, 0, *hop);
    return SL_OK;
}

// --- larger fanouts ------------------------------------------------------------------------------

// Words of a set: a power of two, at least twice the fanout.
static uint32_t set_words(int64_t fanout)
{
    return (uint32_t)sl_pow2_at_least(2 * (uint64_t)fanout);
}

static __device__ __forceinline__ bool set_has(const uint32_t *set, uint32_t mask, uint32_t x)
{
    for (uint32_t at = sl_draw_hash(x, 0) & mask; set[at] != TAKEN_NONE; at = (at + 1) & mask)
        if (set[at] == x + 1)
            return true;
    return false;
}

// x is not in it.
static __device__ __forceinline__ void set_add(uint32_t *set, uint32_t mask, uint32_t x)
{
    uint32_t at = sl_draw_hash(x, 0) & mask;
    while (atomicCAS(&set[at], (uint32_t)TAKEN_NONE, x + 1) != TAKEN_NONE)
        at = (at + 1) & mask;
}

// A warp's row, 32 slots at a time.
static __device__ __forceinline__ void draw_wide_row(const struct sl_draw_hop &hop, uint32_t row,
                                                     uint32_t *set, uint32_t mask)
{
    const uint32_t lane = threadIdx.x % SL_WARP, fanout = (uint32_t)hop.fanout;
    const uint32_t degree = hop.degree[row];
    const uint32_t tail = degree - fanout, first = hop.indptr[row];
    const uint64_t start = hop.start[row];
    const bool draws_any = draws_row(hop, degree), is_set = draws_any && !hop.replace;
    const uint32_t count = draws_any ? fanout : degree;
    if (is_set)
        for (uint32_t w = lane; w <= mask; w += SL_WARP)
            set[w] = TAKEN_NONE;
    for (uint32_t base = 0; base < count; base += SL_WARP) {
        uint32_t slot = base + lane, x = slot, vertex = 0;
        bool valid = slot < count;
        if (valid && draws_any)
            x = draw_slot(hop, row, slot, degree);
        if (is_set) { // of the whole warp
            __syncwarp();
            x = floyd<SL_WARP>(valid, x, tail, base, valid && set_has(set, mask, x));
            __syncwarp();
            if (valid)
                set_add(set, mask, x);
        }
        if (valid) {
            sl_draw_identify(hop, first + slot, start + x);
            vertex = sl_neighbour(hop.b, start + x);
        }
        sl_draw_put(hop, valid, first + slot, vertex);
    }
    __syncwarp();
}

static __global__ void __launch_bounds__(SL_DRAW_SCRATCH_THREADS)
    draw_wide(struct sl_draw_hop hop, uint32_t words, bool in_shared)
{
    SL_DYNAMIC_SHARED(uint32_t, shared);
    if (hop.edges->n == 0)
        return;
    const uint32_t warps = SL_DRAW_SCRATCH_THREADS / SL_WARP, warp = threadIdx.x / SL_WARP;
    const uint64_t at = (uint64_t)blockIdx.x * warps + warp, stride = (uint64_t)gridDim.x * warps;
    uint32_t *set = in_shared ? shared + warp * words : hop.scratch + at * words;
    for (uint64_t row = sl_first(hop.first_row) + at; row < hop.rows->n; row += stride)
        draw_wide_row(hop, (uint32_t)row, set, words - 1);
}

static uint32_t grid_of(int64_t fanout, uint64_t rows, uint32_t *shared, uint64_t *bytes)
{
    uint64_t set = fanout > SL_WARP ? set_words(fanout) * sizeof(uint32_t) : 0;
    return sl_draw_scratch_grid(rows, SL_WARP, set, shared, bytes);
}

static int launch_wide(const struct sl_draw_hop *hop)
{
    uint32_t shared;
    uint64_t bytes;
    uint32_t grid = grid_of(hop->fanout, hop->rows_room, &shared, &bytes);
    SL_LAUNCH(draw_wide, grid, SL_DRAW_SCRATCH_THREADS, shared, *hop, set_words(hop->fanout),
              shared > 0);
    return SL_OK;
}

// --- all neighbours ------------------------------------------------------------------------------

// The last row of low .. high that begins at or before edge e: the one that has it.
static __device__ __forceinline__ uint32_t row_of_edge(const uint32_t *indptr, uint32_t low,
                                                       uint32_t high, uint32_t e)
{
    while (low < high) {
        uint32_t middle = high - (high - low) / 2;
        if (indptr[middle] <= e)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

static __global__ void __launch_bounds__(SL_DRAW_THREADS) draw_all(struct sl_draw_hop hop)
{
    __shared__ uint32_t bounds[2]; // the first and the last row of the block's edges
    const uint32_t edges = hop.edges->n, rows = hop.rows->n;
    const uint32_t first_row = sl_first(hop.first_row);
    const uint64_t stride = (uint64_t)gridDim.x * SL_DRAW_THREADS;
    uint64_t at = sl_first(hop.first_edge) + (uint64_t)blockIdx.x * SL_DRAW_THREADS;
    for (; at < edges; at += stride) {
        uint64_t last = SL_MIN(at + SL_DRAW_THREADS, (uint64_t)edges) - 1;
        if (threadIdx.x < 2)
            bounds[threadIdx.x] = row_of_edge(hop.indptr, first_row, rows - 1,
                                              (uint32_t)(threadIdx.x == 0 ? at : last));
        __syncthreads();
        uint32_t e = (uint32_t)(at + threadIdx.x), vertex = 0;
        bool valid = at + threadIdx.x <= last;
        if (valid) {
            uint32_t row = row_of_edge(hop.indptr, bounds[0], bounds[1], e);
            const uint64_t from = hop.start[row] + (e - hop.indptr[row]);
            sl_draw_identify(hop, e, from);
            vertex = sl_neighbour(hop.b, from);
        }
        sl_draw_put(hop, valid, e, vertex);
        __syncthreads(); // bounds are written again
    }
}

// --- entry ---------------------------------------------------------------------------------------

static int draw(const struct sl_draw_hop *hop)
{
    SL_TRY(sl_draw_uniform_indptr(hop));
    if (hop->fanout == SL_DRAW_ALL) {
        uint32_t grid = sl_draw_grid(hop->edges_room, SL_DRAW_THREADS);
        SL_LAUNCH(draw_all, grid, SL_DRAW_THREADS, 0, *hop);
        return SL_OK;
    }
    if (hop->fanout <= 4)
        return launch_narrow<4>(hop);
    if (hop->fanout <= 8)
        return launch_narrow<8>(hop);
    if (hop->fanout <= 16)
        return launch_narrow<16>(hop);
    return hop->fanout <= SL_WARP ? launch_narrow<SL_WARP>(hop) : launch_wide(hop);
}

static uint64_t scratch_bytes(const struct sl_draw_args *, int64_t fanout, uint64_t rows)
{
    uint32_t shared;
    uint64_t bytes;
    grid_of(fanout, rows, &shared, &bytes);
    return bytes;
}

const struct sl_draw_sampler sl_draw_khop_uniform = {sl_check_khop_uniform, NULL, scratch_bytes,
                                                     draw};
