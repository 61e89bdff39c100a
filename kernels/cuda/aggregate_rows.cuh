/*
 * aggregate_rows.cuh - sums over the edges of each row, whatever is summed: the Memory-Aware kernel
 * (FastGL 4.2), as a template of the operation.
 *
 * FLOOR. Each edge reads a row of x: E (row bytes + 4 for the index + the weights), and each row of
 * the result is written once. Copy bandwidth on these bytes is the floor; where sources repeat in a
 * batch the second-level cache gives more.
 *
 * HOW. A block of 256 threads computes a tile of X rows and Y columns. `LANES` lanes are a group
 * and have one row; each lane has CHUNKS packs of it (move_pack.cuh), LANES packs apart, so that
 *
 *      X = 256 / LANES rows,   Y = LANES * CHUNKS * pack columns,   grid = rows / X by columns / Y
 *
 * - Of an edge list, 32 edges at a time are staged in shared memory: the source, and the weight
 *   with all its factors multiplied up, by as many lanes at once. So an index and a weight are read
 *   from global memory once a tile, not once a column, and the loop over the edges has its
 *   addresses from shared memory: it issues UNROLL packs of x before the first one is used. That is
 *   what bandwidth needs: 32 warps of 4 loads of 512 bytes are 64 KiB in flight a multiprocessor,
 *   where latency times bandwidth is some 20 KiB. Eight loads need more registers than they give
 *   back in bytes.
 * - Partial sums stay in registers (FastGL has them in shared memory; a register is nearer, and a
 *   lane has at most eight).
 * - No barrier of the block: a group is within a warp, which is all that has to wait for the stage.
 * - The last lanes of a row whose packs do not fill the tile read the row's last pack again (a hit
 *   in the first-level cache) and write nothing, so the loop has no test for the width.
 * - Hubs: aggregate_hubs.cuh. A row's sum is in the order of its edges up to SL_ROW_EDGES of them.
 *   No tile changes the order, so tiles are free to be chosen by what is fast.
 *
 * The tile comes from a small table by packs of a row and edges of a row (sl_cuda_tile_for); that
 * table is where measurements enter.
 *
 * An operation Op is a struct of the pointers, passed by value, with
 *
 *      PACK, UNROLL          columns of a pack; edges in flight with one chunk
 *      Sum, Load, Place      what a pack comes to so far; what an edge brings; what a lane's
 *                            columns are to all edges (the head, say)
 *      place(column)         the Place
 *      start(row, place)     what it has of the row itself
 *      note(e)               of edge e what is staged: two words
 *      load(note, place)     reads the pack
 *      clear(sum)  add(sum, note, load)  join(sum, later)   nothing; an edge more; the runs behind
 *      finish(row, place, sum)
 */
#ifndef SL_KERNELS_CUDA_AGGREGATE_ROWS_CUH
#define SL_KERNELS_CUDA_AGGREGATE_ROWS_CUH

#include "kernels/cuda/aggregate_hubs.cuh"
#include "kernels/cuda/move_pack.cuh"

enum {
    SL_TILE_THREADS = 256,
    SL_TILE_BLOCKS = 4, // a multiprocessor, at least: 64 registers a thread, of which none spills
    SL_HUB_BLOCKS = 2,
    SL_STAGE = 32,
};

struct alignas(8) sl_edge_note {
    uint32_t a, b;
};

// For operations to which a lane's columns are no more than columns.
struct sl_column_places {
    typedef uint64_t Place;

    __device__ Place place(uint64_t column) const
    {
        return column;
    }
    __device__ void start(uint32_t, Place &) const {}
};

// For those that add up packs.
template <int N> struct sl_pack_sums {
    typedef sl_pack<float, N> Sum;

    __device__ void clear(Sum &sum) const
    {
        sum = {};
    }
    __device__ void join(Sum &sum, const Sum &later) const
    {
#pragma unroll
        for (int k = 0; k < N; k++)
            sum.at[k] += later.at[k];
    }
};

struct sl_cuda_tile {
    uint32_t lanes, chunks;
};

// The tile for rows of `packs` packs and `degree` edges on average; aggregate.cu has the table.
struct sl_cuda_tile sl_cuda_tile_for(uint64_t packs, double degree);

struct sl_row_lists {
    const uint32_t *indptr; // (n_dst + 1)
    uint32_t n_dst;
    uint64_t columns; // of a row, a multiple of Op::PACK
};

// Edges [begin, begin + n) of a row, n <= SL_ROW_EDGES, added to sum[]; called by whole warps.
template <class Op, int LANES, int CHUNKS>
static __device__ __forceinline__ void sl_add_edges(const Op &op, sl_edge_note *notes,
                                                    uint32_t lane, uint32_t begin, uint32_t n,
                                                    const typename Op::Place *place,
                                                    typename Op::Sum *sum)
{
    constexpr int UNROLL = Op::UNROLL / CHUNKS;
#pragma unroll 1
    for (uint32_t at = 0; __any_sync(SL_FULL_MASK, at < n); at += SL_STAGE) {
        uint32_t staged = at < n ? SL_MIN(n - at, (uint32_t)SL_STAGE) : 0;
#pragma unroll 2
        for (uint32_t k = lane; k < staged; k += LANES)
            notes[k] = op.note(begin + at + k);
        __syncwarp();
#pragma unroll 1
        for (uint32_t k = 0; k < staged; k += UNROLL) {
            sl_edge_note note[UNROLL];
            typename Op::Load load[UNROLL][CHUNKS];
#pragma unroll
            for (int u = 0; u < UNROLL; u++)
                if (k + u < staged) {
                    note[u] = notes[k + u];
#pragma unroll
                    for (int c = 0; c < CHUNKS; c++)
                        load[u][c] = op.load(note[u], place[c]);
                }
#pragma unroll
            for (int u = 0; u < UNROLL; u++)
                if (k + u < staged)
#pragma unroll
                    for (int c = 0; c < CHUNKS; c++)
                        op.add(sum[c], note[u], load[u][c]);
        }
        __syncwarp(); // before the next edges take the stage
    }
}

// The Places of a lane's packs; a pack beyond the row's end is the row's last one.
template <class Op, int LANES, int CHUNKS>
static __device__ __forceinline__ uint64_t sl_places(const Op &op, uint32_t tile, uint32_t lane,
                                                     uint64_t columns, typename Op::Place *place)
{
    uint64_t first = ((uint64_t)tile * CHUNKS * LANES + lane) * Op::PACK;
#pragma unroll
    for (int c = 0; c < CHUNKS; c++)
        place[c] = op.place(SL_MIN(first + (uint64_t)c * LANES * Op::PACK, columns - Op::PACK));
    return first;
}

template <class Op, int LANES, int CHUNKS>
static __global__ void __launch_bounds__(SL_TILE_THREADS, SL_TILE_BLOCKS)
    sl_sum_rows(Op op, sl_row_lists lists, sl_hubs hubs)
{
    constexpr int ROWS = SL_TILE_THREADS / LANES;
    // One note more than a stage: groups of a warp then read from different banks.
    __shared__ sl_edge_note notes[ROWS][SL_STAGE + 1];
    uint32_t lane = threadIdx.x % LANES, group = threadIdx.x / LANES;
    uint64_t row = (uint64_t)blockIdx.x * ROWS + group;
    uint32_t begin = 0, n = 0;
    bool mine = row < lists.n_dst;
    if (mine) {
        begin = lists.indptr[row];
        n = lists.indptr[row + 1] - begin;
    }
    if (n > SL_ROW_EDGES) {
        if (lane == 0 && blockIdx.y == 0)
            sl_hubs_add(hubs, (uint32_t)row, n, true);
        n = 0;
        mine = false;
    }
    typename Op::Place place[CHUNKS];
    typename Op::Sum sum[CHUNKS];
    uint64_t column = sl_places<Op, LANES, CHUNKS>(op, blockIdx.y, lane, lists.columns, place);
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        op.clear(sum[c]);
        if (mine)
            op.start((uint32_t)row, place[c]);
    }
    sl_add_edges<Op, LANES, CHUNKS>(op, notes[group], lane, begin, n, place, sum);
    if (!mine)
        return;
#pragma unroll
    for (int c = 0; c < CHUNKS; c++)
        if (column + (uint64_t)c * LANES * Op::PACK < lists.columns)
            op.finish((uint32_t)row, place[c], sum[c]);
}

// A chunk of a hub and one tile of its columns. The runs' sums go through shared memory, as many at
// a time as the block has groups, and the first group adds them in their order.
template <class Op, int LANES>
static __device__ __forceinline__ typename Op::Sum sl_sum_chunk(const Op &op, sl_edge_note *notes,
                                                                typename Op::Sum *sums,
                                                                uint32_t begin, uint32_t n,
                                                                const typename Op::Place *place)
{
    constexpr int GROUPS = SL_TILE_THREADS / LANES;
    uint32_t lane = threadIdx.x % LANES, group = threadIdx.x / LANES;
    typename Op::Sum total, sum;
    op.clear(total);
    for (uint32_t at = 0; at < n; at += GROUPS * SL_RUN_EDGES) {
        uint32_t from = at + group * SL_RUN_EDGES;
        uint32_t edges = from < n ? SL_MIN(n - from, (uint32_t)SL_RUN_EDGES) : 0;
        op.clear(sum);
        sl_add_edges<Op, LANES, 1>(op, notes, lane, begin + from, edges, place, &sum);
        sums[threadIdx.x] = sum;
        __syncthreads();
        if (group == 0)
            for (uint32_t g = 0; g < GROUPS && at + g * SL_RUN_EDGES < n; g++)
                op.join(total, sums[g * LANES + lane]);
        __syncthreads();
    }
    return total; // of the first group
}

template <class Op, int LANES>
static __global__ void __launch_bounds__(SL_TILE_THREADS, SL_HUB_BLOCKS)
    sl_sum_hubs(Op op, sl_row_lists lists, sl_hubs hubs)
{
    __shared__ sl_edge_note notes[SL_TILE_THREADS / LANES][SL_STAGE + 1];
    __shared__ typename Op::Sum sums[SL_TILE_THREADS];
    typename Op::Sum *parts = static_cast<typename Op::Sum *>(hubs.parts);
    uint32_t lane = threadIdx.x % LANES, group = threadIdx.x / LANES;
    typename Op::Place place;
    uint64_t column = sl_places<Op, LANES, 1>(op, blockIdx.y, lane, lists.columns, &place);
    uint32_t n_items = hubs.counts->items;
    for (uint32_t i = blockIdx.x; i < n_items; i += gridDim.x) {
        sl_hub_item item = hubs.items[i];
        uint32_t begin = lists.indptr[item.row], edges = lists.indptr[item.row + 1] - begin;
        uint32_t skip = item.chunk * SL_CHUNK_EDGES;
        op.start(item.row, place);
        typename Op::Sum sum =
            sl_sum_chunk<Op, LANES>(op, notes[group], sums, begin + skip,
                                    SL_MIN(edges - skip, (uint32_t)SL_CHUNK_EDGES), &place);
        if (group != 0 || column >= lists.columns)
            continue;
        if (edges <= SL_CHUNK_EDGES)
            op.finish(item.row, place, sum);
        else
            parts[item.part * (lists.columns / Op::PACK) + column / Op::PACK] = sum;
    }
}

// The parts of hubs with several chunks, in their order; a thread a pack.
template <class Op>
static __global__ void __launch_bounds__(SL_TILE_THREADS)
    sl_join_hubs(Op op, sl_row_lists lists, sl_hubs hubs)
{
    const typename Op::Sum *parts = static_cast<const typename Op::Sum *>(hubs.parts);
    uint64_t packs = lists.columns / Op::PACK;
    uint64_t pack = (uint64_t)blockIdx.y * blockDim.x + threadIdx.x;
    uint32_t n_longs = hubs.counts->longs;
    for (uint32_t i = blockIdx.x; pack < packs && i < n_longs; i += gridDim.x) {
        sl_hub_long hub = hubs.longs[i];
        typename Op::Sum sum = parts[hub.part * packs + pack];
#pragma unroll 4
        for (uint32_t k = 1; k < hub.chunks; k++)
            op.join(sum, parts[(hub.part + (uint64_t)k) * packs + pack]);
        op.finish(hub.row, op.place(pack * Op::PACK), sum);
    }
}

// ---- launches -----------------------------------------------------------------------------------

template <class Op, int LANES, int CHUNKS>
static int sl_launch_rows(const Op &op, const sl_row_lists &lists, const sl_hubs &hubs)
{
    uint64_t rows = SL_TILE_THREADS / LANES, tile = (uint64_t)LANES * CHUNKS * Op::PACK;
    dim3 grid((unsigned)sl_div_up(lists.n_dst, rows), (unsigned)sl_div_up(lists.columns, tile));
    SL_LAUNCH((sl_sum_rows<Op, LANES, CHUNKS>), grid, SL_TILE_THREADS, 0, op, lists, hubs);
    return SL_OK;
}

template <class Op, int LANES>
static int sl_launch_hubs(const Op &op, const sl_row_lists &lists, const sl_hubs &hubs)
{
    dim3 grid(sl_cuda_hub_blocks(&hubs),
              (unsigned)sl_div_up(lists.columns, (uint64_t)LANES * Op::PACK));
    SL_LAUNCH((sl_sum_hubs<Op, LANES>), grid, SL_TILE_THREADS, 0, op, lists, hubs);
    return SL_OK;
}

template <class Op>
static int sl_launch_tile(const Op &op, const sl_row_lists &lists, const sl_hubs &hubs,
                          struct sl_cuda_tile tile)
{
    switch (tile.lanes * 4 + tile.chunks) {
    case 4 * 4 + 1: return sl_launch_rows<Op, 4, 1>(op, lists, hubs);
    case 8 * 4 + 1: return sl_launch_rows<Op, 8, 1>(op, lists, hubs);
    case 16 * 4 + 1: return sl_launch_rows<Op, 16, 1>(op, lists, hubs);
    case 16 * 4 + 2: return sl_launch_rows<Op, 16, 2>(op, lists, hubs);
    case 32 * 4 + 1: return sl_launch_rows<Op, 32, 1>(op, lists, hubs);
    default: return sl_launch_rows<Op, 32, 2>(op, lists, hubs);
    }
}

// The operation over all rows of csr.
template <class Op>
static int sl_cuda_sum_rows(const char *name, const Op &op, const struct sl_csr_view *csr,
                            uint64_t columns)
{
    enum { GRID_Y = 65535, NARROW = 8 };
    if (csr->n_dst == 0)
        return SL_OK;
    uint64_t packs = columns / Op::PACK;
    if (packs > (uint64_t)GRID_Y * 4) // the narrowest tile is four packs wide
        return sl_fail(SL_EUNSUPPORTED, "%s: rows of %llu columns: wanted at most %llu", name,
                       (unsigned long long)columns, (unsigned long long)GRID_Y * 4 * Op::PACK);
    sl_row_lists lists = {csr->indptr, csr->n_dst, columns};
    struct sl_hubs hubs;
    SL_TRY(sl_cuda_hubs(csr, packs * sizeof(typename Op::Sum), &hubs));
    double degree = (double)csr->n_edges / csr->n_dst;
    SL_TRY(sl_launch_tile(op, lists, hubs, sl_cuda_tile_for(packs, degree)));
    if (!hubs.counts)
        return SL_OK;
    if (packs <= NARROW)
        SL_TRY((sl_launch_hubs<Op, NARROW>(op, lists, hubs)));
    else
        SL_TRY((sl_launch_hubs<Op, SL_WARP>(op, lists, hubs)));
    if (hubs.max_longs == 0)
        return SL_OK;
    dim3 grid(SL_MIN(hubs.max_longs, 4 * sl_cuda_processors()),
              (unsigned)sl_div_up(packs, SL_TILE_THREADS));
    SL_LAUNCH((sl_join_hubs<Op>), grid, SL_TILE_THREADS, 0, op, lists, hubs);
    return SL_OK;
}

#endif
