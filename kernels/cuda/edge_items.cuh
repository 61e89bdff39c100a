/*
 * edge_items.cuh - a number for each edge and head, made of two rows: as a template of the
 * operation.
 *
 * The numbers are written in the order (edge, head): so of the items edges x heads of a row,
 * neighbours go to neighbouring teams of lanes. A team takes a run of `dim` columns of both rows
 * and adds its lanes' sums up in a fixed tree. The destination's row comes from the first-level
 * cache but for the first time. Floor: an edge reads the source's row and writes `heads` words; a
 * row is read once. Which columns a lane adds depends on dim alone: packs that an array is not
 * aligned to are read element by element, so that the bits stay the same. A hub's items are cut
 * into chunks (aggregate_hubs.cuh), and nothing is left to add up.
 *
 * An operation Op is a struct of the pointers, passed by value, with
 *
 *      at(own, other, column)        the same for a run that begins at element `own` of the
 *                                    destinations' rows, `other` of the sources', and at `column`
 *      add<N>(sum, column, aligned)  the terms of N columns of the run
 */
#ifndef SL_KERNELS_CUDA_EDGE_ITEMS_CUH
#define SL_KERNELS_CUDA_EDGE_ITEMS_CUH

#include "kernels/cuda/aggregate_rows.cuh"

struct sl_edge_items {
    const uint32_t *indptr, *indices;
    uint32_t n_dst, heads, dim;
    bool aligned; // all arrays to the pack
    float *out;   // (n_edges, heads)
};

// Items [from, to) of a row, in teams of LANES: item p is head p % heads of edge p / heads.
template <int N, int LANES, class Op>
static __device__ void sl_make_items(const sl_edge_items &items, const Op &op, uint32_t row,
                                     uint32_t begin, uint64_t from, uint64_t to, uint32_t team,
                                     uint32_t teams)
{
    uint32_t lane = threadIdx.x % LANES;
    uint64_t width = (uint64_t)items.heads * items.dim;
    for (uint64_t item = from + team; __any_sync(SL_FULL_MASK, item < to); item += teams) {
        float sum = 0.0f;
        if (item < to) {
            uint64_t first = item % items.heads * items.dim;
            uint32_t source = items.indices[begin + (uint32_t)(item / items.heads)];
            const Op run = op.at(row * width + first, source * width + first, first);
#pragma unroll 2
            for (uint64_t c = lane * N; c < items.dim; c += LANES * N)
                sum = run.template add<N>(sum, (uint32_t)c, items.aligned);
        }
        sum = sl_lanes_sum<LANES>(sum);
        if (item < to && lane == 0)
            items.out[(uint64_t)begin * items.heads + item] = sum;
    }
}

// A warp a row.
template <int N, int LANES, class Op>
static __global__ void __launch_bounds__(SL_TILE_THREADS)
    sl_item_rows(sl_edge_items items, Op op, sl_hubs hubs)
{
    uint64_t row = (uint64_t)blockIdx.x * (SL_TILE_THREADS / SL_WARP) + threadIdx.x / SL_WARP;
    if (row >= items.n_dst)
        return;
    uint32_t begin = items.indptr[row], n = items.indptr[row + 1] - begin;
    if (n > SL_ROW_EDGES) {
        if (threadIdx.x % SL_WARP == 0)
            sl_hubs_add(hubs, (uint32_t)row, n, true);
        return;
    }
    sl_make_items<N, LANES>(items, op, (uint32_t)row, begin, 0, (uint64_t)n * items.heads,
                            threadIdx.x % SL_WARP / LANES, SL_WARP / LANES);
}

// A block a chunk of a hub.
template <int N, int LANES, class Op>
static __global__ void __launch_bounds__(SL_TILE_THREADS)
    sl_item_hubs(sl_edge_items items, Op op, sl_hubs hubs)
{
    uint32_t n_chunks = hubs.counts->items;
    for (uint32_t i = blockIdx.x; i < n_chunks; i += gridDim.x) {
        sl_hub_item item = hubs.items[i];
        uint32_t begin = items.indptr[item.row], n = items.indptr[item.row + 1] - begin;
        uint64_t from = (uint64_t)item.chunk * SL_CHUNK_EDGES;
        uint64_t to = SL_MIN(from + SL_CHUNK_EDGES, (uint64_t)n);
        sl_make_items<N, LANES>(items, op, item.row, begin, from * items.heads, to * items.heads,
                                threadIdx.x / LANES, SL_TILE_THREADS / LANES);
    }
}

template <int N, int LANES, class Op>
static int sl_launch_items(const sl_edge_items &items, const Op &op, const struct sl_csr_view *csr)
{
    struct sl_hubs hubs;
    SL_TRY(sl_cuda_hubs(csr, 0, &hubs));
    unsigned blocks = (unsigned)sl_div_up(items.n_dst, SL_TILE_THREADS / SL_WARP);
    SL_LAUNCH((sl_item_rows<N, LANES, Op>), blocks, SL_TILE_THREADS, 0, items, op, hubs);
    if (!hubs.counts)
        return SL_OK;
    SL_LAUNCH((sl_item_hubs<N, LANES, Op>), sl_cuda_hub_blocks(&hubs), SL_TILE_THREADS, 0, items,
              op, hubs);
    return SL_OK;
}

// The operation on all edges of csr; `arrays`: the widest pack that all that it reads is aligned
// to.
template <class Op>
static int sl_cuda_edge_items(const Op &op, const struct sl_csr_view *csr, uint32_t heads,
                              uint32_t dim, int arrays, float *out)
{
    if (csr->n_dst == 0 || csr->n_edges == 0)
        return SL_OK;
    int pack = sl_cuda_pack(SL_PACK_MAX, dim, NULL, sizeof(float));
    const sl_edge_items items = {csr->indptr, csr->indices,   csr->n_dst, heads,
                                 dim,         arrays == pack, out};
    return sl_cuda_by_pack(pack, [&](auto n) {
        // A team has a lane a pack of a head, up to a warp.
        constexpr int N = decltype(n)::value;
        uint32_t packs = dim / N;
        if (packs <= 2)
            return sl_launch_items<N, 2>(items, op, csr);
        if (packs <= 8)
            return sl_launch_items<N, 8>(items, op, csr);
        return sl_launch_items<N, SL_WARP>(items, op, csr);
    });
}

#endif
