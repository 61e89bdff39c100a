/*
 * edge_scores.cu - scores of edges from the leaky relu of two rows' sum, and their gradients.
 *
 * Forward is heads.cu's edge_dot with a third row: items (edge, head) go to neighbouring teams of
 * lanes, a team takes a run of `dim` columns, and a hub's items are cut into chunks. Which columns
 * a lane adds depends on dim alone. Floor: an edge reads the source's row, writes `heads` words.
 *
 * Backward is the kernel of aggregate_rows.cuh: what an edge brings is its gradient, once or times
 * the slope, under the sign of the two rows' sum, of which the lane keeps the row's own pack. The
 * part of the heads' vectors is a second sum beside the first. Floor: an edge reads the other row,
 * `heads` words and 4 or 8 bytes of lists; the own row is read and the results are written once.
 */
#include "kernels/cuda/aggregate.cuh"

#include "kernels/check.h"

namespace {

struct score_rows_of {
    const uint32_t *indptr, *indices;
    uint32_t n_dst, heads, dim;
    float slope;
    const float *src, *dst, *att;
    float *score;
    bool aligned; // all to the pack
};

} // namespace

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

static __device__ __forceinline__ float leaky(float x, float slope)
{
    return x > 0.0f ? x : x * slope;
}

// Items [from, to) of a row, in teams of LANES: item p is head p % heads of edge p / heads.
template <int N, int LANES>
static __device__ void score_items(const score_rows_of &s, uint32_t row, uint32_t begin,
                                   uint64_t from, uint64_t to, uint32_t team, uint32_t teams)
{
    uint32_t lane = threadIdx.x % LANES;
    uint64_t width = (uint64_t)s.heads * s.dim;
    for (uint64_t item = from + team; __any_sync(SL_FULL_MASK, item < to); item += teams) {
        float sum = 0.0f;
        if (item < to) {
            uint64_t first = item % s.heads * s.dim;
            uint32_t source = s.indices[begin + (uint32_t)(item / s.heads)];
            const float *dst = s.dst + row * width + first;
            const float *src = s.src + source * width + first;
#pragma unroll 2
            for (uint64_t c = lane * N; c < s.dim; c += LANES * N) {
                sl_pack<float, N> x = load_any<N>(src, (uint32_t)c, s.aligned);
                sl_pack<float, N> y = load_any<N>(dst, (uint32_t)c, s.aligned);
                sl_pack<float, N> a = load_any<N>(s.att + first, (uint32_t)c, s.aligned);
#pragma unroll
                for (int k = 0; k < N; k++)
                    sum = fmaf(leaky(x.at[k] + y.at[k], s.slope), a.at[k], sum);
            }
        }
#pragma unroll
        for (int step = LANES / 2; step > 0; step /= 2)
            sum += __shfl_xor_sync(SL_FULL_MASK, sum, step);
        if (item < to && lane == 0)
            s.score[(uint64_t)begin * s.heads + item] = sum;
    }
}

// A warp a row.
template <int N, int LANES>
static __global__ void __launch_bounds__(SL_TILE_THREADS) score_rows(score_rows_of s, sl_hubs hubs)
{
    uint64_t row = (uint64_t)blockIdx.x * (SL_TILE_THREADS / SL_WARP) + threadIdx.x / SL_WARP;
    if (row >= s.n_dst)
        return;
    uint32_t begin = s.indptr[row], n = s.indptr[row + 1] - begin;
    if (n > SL_ROW_EDGES) {
        if (threadIdx.x % SL_WARP == 0)
            sl_hubs_add(hubs, (uint32_t)row, n, true);
        return;
    }
    score_items<N, LANES>(s, (uint32_t)row, begin, 0, (uint64_t)n * s.heads,
                          threadIdx.x % SL_WARP / LANES, SL_WARP / LANES);
}

// A block a chunk of a hub; nothing is left to add up.
template <int N, int LANES>
static __global__ void __launch_bounds__(SL_TILE_THREADS) score_hubs(score_rows_of s, sl_hubs hubs)
{
    uint32_t n_items = hubs.counts->items;
    for (uint32_t i = blockIdx.x; i < n_items; i += gridDim.x) {
        sl_hub_item item = hubs.items[i];
        uint32_t begin = s.indptr[item.row], n = s.indptr[item.row + 1] - begin;
        uint64_t from = (uint64_t)item.chunk * SL_CHUNK_EDGES;
        uint64_t to = SL_MIN(from + SL_CHUNK_EDGES, (uint64_t)n);
        score_items<N, LANES>(s, item.row, begin, from * s.heads, to * s.heads, threadIdx.x / LANES,
                              SL_TILE_THREADS / LANES);
    }
}

template <int N, int LANES>
static int launch_scores(const score_rows_of &s, const struct sl_csr_view *csr)
{
    struct sl_hubs hubs;
    SL_TRY(sl_cuda_hubs(csr, 0, &hubs));
    unsigned blocks = (unsigned)sl_div_up(s.n_dst, SL_TILE_THREADS / SL_WARP);
    SL_LAUNCH((score_rows<N, LANES>), blocks, SL_TILE_THREADS, 0, s, hubs);
    SL_LAUNCHED(score_rows);
    if (!hubs.counts)
        return SL_OK;
    SL_LAUNCH((score_hubs<N, LANES>), sl_cuda_hub_blocks(&hubs), SL_TILE_THREADS, 0, s, hubs);
    SL_LAUNCHED(score_hubs);
    return SL_OK;
}

// A team has a lane a pack of a head, up to a warp.
template <int N> static int run_scores(const score_rows_of &s, const struct sl_csr_view *csr)
{
    uint32_t packs = s.dim / N;
    if (packs <= 2)
        return launch_scores<N, 2>(s, csr);
    if (packs <= 8)
        return launch_scores<N, 8>(s, csr);
    return launch_scores<N, SL_WARP>(s, csr);
}

int sl_cuda_edge_scores(const struct sl_edge_scores_args *args)
{
    SL_TRY(sl_check_edge_scores(args));
    const struct sl_csr_view *csr = &args->csr;
    if (csr->n_dst == 0 || csr->n_edges == 0)
        return SL_OK;
    int pack = sl_cuda_pack(SL_PACK_MAX, args->dim, NULL, sizeof(float)), aligned = pack;
    const float *const arrays[] = {args->src, args->dst, args->att};
    for (const float *array : arrays)
        aligned = sl_cuda_pack(aligned, args->dim, array, sizeof(float));
    score_rows_of s = {csr->indptr, csr->indices,         csr->n_dst,     args->heads,
                       args->dim,   args->negative_slope, args->src,      args->dst,
                       args->att,   args->score,          aligned == pack};
    switch (pack) {
    case 4: return run_scores<4>(s, csr);
    case 2: return run_scores<2>(s, csr);
    default: return run_scores<1>(s, csr);
    }
}

// ---- backward -----------------------------------------------------------------------------------

namespace {

template <int N, bool ATT> struct gradient_op {
    static constexpr int PACK = N, UNROLL = ATT && N == 4 ? 2 : 4; // registers
    struct Sum {
        float slopes[N];
        float sums[ATT ? N : 1];
    };
    struct Load {
        sl_pack<float, N> x; // the two rows' sum
        float weight;
    };
    struct Place {
        uint64_t column;
        uint32_t head;
        sl_pack<float, N> own;
    };

    const float *own, *other, *att, *dscore;
    const uint32_t *indices, *edge;
    uint32_t heads, dim;
    uint64_t width; // heads * dim
    float slope;
    bool adds;
    float *down, *datt;

    __device__ Place place(uint64_t column) const
    {
        return {column, (uint32_t)(column / dim), {}};
    }
    __device__ void start(uint32_t row, Place &place) const
    {
        place.own = sl_load<float, N>(own + row * width, place.column);
    }
    __device__ sl_edge_note note(uint32_t e) const
    {
        return {indices[e], edge ? edge[e] : e};
    }
    __device__ Load load(const sl_edge_note &note, const Place &place) const
    {
        Load load = {sl_load<float, N>(other + note.a * width, place.column),
                     dscore[(uint64_t)note.b * heads + place.head]};
#pragma unroll
        for (int k = 0; k < N; k++)
            load.x.at[k] += place.own.at[k];
        return load;
    }
    __device__ void clear(Sum &sum) const
    {
        sum = {};
    }
    __device__ void add(Sum &sum, const sl_edge_note &, const Load &load) const
    {
#pragma unroll
        for (int k = 0; k < N; k++) {
            float part = load.weight * (load.x.at[k] > 0.0f ? 1.0f : slope);
            sum.slopes[k] += part;
            if constexpr (ATT)
                sum.sums[k] = fmaf(part, load.x.at[k], sum.sums[k]);
        }
    }
    __device__ void join(Sum &sum, const Sum &later) const
    {
#pragma unroll
        for (int k = 0; k < N; k++) {
            sum.slopes[k] += later.slopes[k];
            if constexpr (ATT)
                sum.sums[k] += later.sums[k];
        }
    }
    __device__ void finish(uint32_t row, const Place &place, const Sum &sum) const
    {
        uint64_t at = row * width;
        sl_pack<float, N> out = {}, vector = sl_load<float, N>(att, place.column);
        if (adds)
            out = sl_load<float, N>(down + at, place.column);
#pragma unroll
        for (int k = 0; k < N; k++)
            out.at[k] = fmaf(sum.slopes[k], vector.at[k], out.at[k]);
        sl_store<float, N>(down + at, place.column, out);
        if constexpr (ATT) {
#pragma unroll
            for (int k = 0; k < N; k++)
                out.at[k] = sum.sums[k];
            sl_store<float, N>(datt + at, place.column, out);
        }
    }
};

} // namespace

template <int N, bool ATT> static int run_gradient(const struct sl_edge_scores_grad_args *args)
{
    gradient_op<N, ATT> op;
    op.own = args->own;
    op.other = args->other;
    op.att = args->att;
    op.dscore = args->dscore;
    op.indices = args->csr.indices;
    op.edge = args->edge;
    op.heads = args->heads;
    op.dim = args->dim;
    op.width = (uint64_t)args->heads * args->dim;
    op.slope = args->negative_slope;
    op.adds = args->beta != 0.0f;
    op.down = args->down;
    op.datt = args->datt;
    return sl_cuda_sum_rows("edge_scores_backward", op, &args->csr, op.width, NULL);
}

template <int N> static int run_gradients(const struct sl_edge_scores_grad_args *args)
{
    return args->datt ? run_gradient<N, true>(args) : run_gradient<N, false>(args);
}

int sl_cuda_edge_scores_backward(const struct sl_edge_scores_grad_args *args)
{
    SL_TRY(sl_check_edge_scores_backward(args));
    int pack = SL_PACK_MAX;
    const float *const arrays[] = {args->own, args->other, args->att, args->down, args->datt};
    for (const float *array : arrays)
        pack = sl_cuda_pack(pack, args->dim, array, sizeof(float));
    switch (pack) {
    case 4: return run_gradients<4>(args);
    case 2: return run_gradients<2>(args);
    default: return run_gradients<1>(args);
    }
}
