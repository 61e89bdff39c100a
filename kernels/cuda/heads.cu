/*
 * heads.cu - sums of neighbours with a weight a head, and their gradient in the weights.
 *
 * aggregate_heads is the kernel of aggregate_rows.cuh with packs that lie within a head, so that an
 * edge has one weight a pack. What is staged is the source and where the edge's weights are (over
 * the transposed block they are where t_edge says). The weights themselves, `heads` words side by
 * side, are read by the lanes: those of a head read one word, those of a warp one or two sectors.
 * Floor: an edge reads its row of x, its weights, and 4 or 8 bytes of lists.
 *
 * edge_dot has a number an edge and head to write, in the order (edge, head): so of the items
 * edges x heads of a row, neighbours go to neighbouring teams of lanes. A team takes a run of `dim`
 * columns of both rows and adds its lanes' sums up in a fixed tree. The destination's row comes
 * from the first-level cache but for the first time. Floor: an edge reads the row of b, writes
 * `heads` words; a row is read once. Which columns a lane adds depends on dim alone: packs that an
 * array is not aligned to are read element by element, so that the bits stay the same.
 */
#include "kernels/cuda/aggregate.cuh"

#include "kernels/check.h"

namespace {

template <int N> struct heads_op {
    static constexpr int PACK = N, UNROLL = 4;
    typedef sl_pack<float, N> Sum;
    struct Load {
        sl_pack<float, N> x;
        float weight;
    };
    struct Place {
        uint64_t column;
        uint32_t head;
    };

    const float *x, *weight;
    const uint32_t *indices, *edge;
    uint32_t heads, dim;
    uint64_t width; // heads * dim
    float *y;

    __device__ Place place(uint64_t column) const
    {
        return {column, (uint32_t)(column / dim)};
    }
    __device__ void start(uint32_t, Place &) const {}
    __device__ sl_edge_note note(uint32_t e) const
    {
        return {indices[e], edge ? edge[e] : e};
    }
    __device__ Load load(const sl_edge_note &note, const Place &place) const
    {
        return {sl_load<float, N>(x + note.a * width, place.column),
                weight[(uint64_t)note.b * heads + place.head]};
    }
    __device__ void clear(Sum &sum) const
    {
#pragma unroll
        for (int k = 0; k < N; k++)
            sum.at[k] = 0.0f;
    }
    __device__ void add(Sum &sum, const sl_edge_note &, const Load &load) const
    {
#pragma unroll
        for (int k = 0; k < N; k++)
            sum.at[k] = fmaf(load.weight, load.x.at[k], sum.at[k]);
    }
    __device__ void join(Sum &sum, const Sum &later) const
    {
#pragma unroll
        for (int k = 0; k < N; k++)
            sum.at[k] += later.at[k];
    }
    __device__ void finish(uint32_t row, const Place &place, const Sum &sum) const
    {
        sl_store<float, N>(y + row * width, place.column, sum);
    }
};

} // namespace

template <int N> static int run_heads(const struct sl_aggregate_heads_args *args)
{
    heads_op<N> op;
    op.x = args->x;
    op.weight = args->weight;
    op.indices = args->csr.indices;
    op.edge = args->edge;
    op.heads = args->heads;
    op.dim = args->dim;
    op.width = (uint64_t)args->heads * args->dim;
    op.y = args->y;
    return sl_cuda_sum_rows("aggregate_heads", op, &args->csr, op.width, NULL);
}

int sl_cuda_aggregate_heads(const struct sl_aggregate_heads_args *args)
{
    SL_TRY(sl_check_aggregate_heads(args));
    int pack = sl_cuda_pack(SL_PACK_MAX, args->dim, args->x, sizeof(float));
    switch (sl_cuda_pack(pack, args->dim, args->y, sizeof(float))) {
    case 4: return run_heads<4>(args);
    case 2: return run_heads<2>(args);
    default: return run_heads<1>(args);
    }
}

// ---- edge_dot -----------------------------------------------------------------------------------

namespace {

struct dots {
    const uint32_t *indptr, *indices;
    uint32_t n_dst, heads, dim;
    const float *a, *b;
    float *out;
    bool aligned; // both to the pack
};

} // namespace

// A pack of what may not be aligned to it.
template <int N>
static __device__ __forceinline__ sl_pack<float, N> load_any(const float *row, uint32_t column,
                                                             bool aligned)
{
    if (aligned)
        return sl_load<float, N>(row, column);
    sl_pack<float, N> pack;
#pragma unroll
    for (int k = 0; k < N; k++)
        pack.at[k] = row[column + k];
    return pack;
}

// Items [from, to) of a row, in teams of LANES: item p is head p % heads of edge p / heads.
template <int N, int LANES>
static __device__ void dot_items(const dots &d, uint32_t row, uint32_t begin, uint64_t from,
                                 uint64_t to, uint32_t team, uint32_t teams)
{
    uint32_t lane = threadIdx.x % LANES;
    uint64_t width = (uint64_t)d.heads * d.dim;
    for (uint64_t item = from + team; __any_sync(SL_FULL_MASK, item < to); item += teams) {
        float sum = 0.0f;
        if (item < to) {
            uint32_t head = (uint32_t)(item % d.heads);
            uint32_t source = d.indices[begin + (uint32_t)(item / d.heads)];
            const float *a = d.a + row * width + (uint64_t)head * d.dim;
            const float *b = d.b + source * width + (uint64_t)head * d.dim;
#pragma unroll 2
            for (uint64_t c = lane * N; c < d.dim; c += LANES * N) {
                sl_pack<float, N> x = load_any<N>(a, (uint32_t)c, d.aligned);
                sl_pack<float, N> y = load_any<N>(b, (uint32_t)c, d.aligned);
#pragma unroll
                for (int k = 0; k < N; k++)
                    sum = fmaf(x.at[k], y.at[k], sum);
            }
        }
#pragma unroll
        for (int step = LANES / 2; step > 0; step /= 2)
            sum += __shfl_xor_sync(SL_FULL_MASK, sum, step);
        if (item < to && lane == 0)
            d.out[(uint64_t)begin * d.heads + item] = sum;
    }
}

// A warp a row.
template <int N, int LANES>
static __global__ void __launch_bounds__(SL_TILE_THREADS) dot_rows(dots d, sl_hubs hubs)
{
    uint64_t row = (uint64_t)blockIdx.x * (SL_TILE_THREADS / SL_WARP) + threadIdx.x / SL_WARP;
    if (row >= d.n_dst)
        return;
    uint32_t begin = d.indptr[row], n = d.indptr[row + 1] - begin;
    if (n > SL_ROW_EDGES) {
        if (threadIdx.x % SL_WARP == 0)
            sl_hubs_add(hubs, (uint32_t)row, n, true);
        return;
    }
    dot_items<N, LANES>(d, (uint32_t)row, begin, 0, (uint64_t)n * d.heads,
                        threadIdx.x % SL_WARP / LANES, SL_WARP / LANES);
}

// A block a chunk of a hub; nothing is left to add up.
template <int N, int LANES>
static __global__ void __launch_bounds__(SL_TILE_THREADS) dot_hubs(dots d, sl_hubs hubs)
{
    uint32_t n_items = hubs.counts->items;
    for (uint32_t i = blockIdx.x; i < n_items; i += gridDim.x) {
        sl_hub_item item = hubs.items[i];
        uint32_t begin = d.indptr[item.row], n = d.indptr[item.row + 1] - begin;
        uint64_t from = (uint64_t)item.chunk * SL_CHUNK_EDGES;
        uint64_t to = SL_MIN(from + SL_CHUNK_EDGES, (uint64_t)n);
        dot_items<N, LANES>(d, item.row, begin, from * d.heads, to * d.heads, threadIdx.x / LANES,
                            SL_TILE_THREADS / LANES);
    }
}

template <int N, int LANES> static int launch_dots(const dots &d, const struct sl_csr_view *csr)
{
    struct sl_hubs hubs;
    SL_TRY(sl_cuda_hubs(csr, 0, &hubs));
    unsigned blocks = (unsigned)sl_div_up(d.n_dst, SL_TILE_THREADS / SL_WARP);
    SL_LAUNCH((dot_rows<N, LANES>), blocks, SL_TILE_THREADS, 0, d, hubs);
    SL_LAUNCHED(dot_rows);
    if (!hubs.counts)
        return SL_OK;
    SL_LAUNCH((dot_hubs<N, LANES>), sl_cuda_hub_blocks(&hubs), SL_TILE_THREADS, 0, d, hubs);
    SL_LAUNCHED(dot_hubs);
    return SL_OK;
}

// A team has a lane a pack of a head, up to a warp.
template <int N> static int run_dots(const dots &d, const struct sl_csr_view *csr)
{
    uint32_t packs = d.dim / N;
    if (packs <= 2)
        return launch_dots<N, 2>(d, csr);
    if (packs <= 8)
        return launch_dots<N, 8>(d, csr);
    return launch_dots<N, SL_WARP>(d, csr);
}

int sl_cuda_edge_dot(const struct sl_csr_view *csr, uint32_t heads, uint32_t dim, const float *a,
                     const float *b, float *out)
{
    SL_TRY(sl_check_edge_dot(csr, heads, dim, a, b, out));
    if (csr->n_dst == 0 || csr->n_edges == 0)
        return SL_OK;
    int pack = sl_cuda_pack(SL_PACK_MAX, dim, NULL, sizeof(float));
    dots d = {csr->indptr, csr->indices, csr->n_dst, heads, dim, a, b, out, false};
    d.aligned = sl_cuda_pack(pack, dim, a, sizeof(float)) == pack &&
                sl_cuda_pack(pack, dim, b, sizeof(float)) == pack;
    switch (pack) {
    case 4: return run_dots<4>(d, csr);
    case 2: return run_dots<2>(d, csr);
    default: return run_dots<1>(d, csr);
    }
}
