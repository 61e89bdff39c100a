/*
 * pairs.cu - pairs of rows: products of two rows, what two rows become, the gradient in the rows.
 *
 * pair_dot gives a pair to a team of lanes, which adds its sums up in a fixed tree: which columns a
 * lane adds depends on dim alone. Floor: a pair reads two rows and writes a word. pair_rows is one
 * pass over what it writes. pair_gradient is the kernel of aggregate_rows.cuh over the ends of each
 * row; what is staged of an end is the other row and the end itself.
 */
#include "kernels/cuda/aggregate_rows.cuh"

#include "kernels/check.h"

namespace {

// ---- pair_dot -----------------------------------------------------------------------------------

template <int N, int LANES>
__global__ void __launch_bounds__(SL_TILE_THREADS)
    dot_kernel(struct sl_pair_dot_args k, bool aligned)
{
    const uint32_t lane = threadIdx.x % LANES, teams = SL_TILE_THREADS / LANES;
    const uint64_t step = (uint64_t)gridDim.x * teams;
    uint64_t p = (uint64_t)blockIdx.x * teams + threadIdx.x / LANES;
    for (; __any_sync(SL_FULL_MASK, p < k.n); p += step) {
        float sum = 0.0f;
        if (p < k.n) {
            const float *a = k.a + (uint64_t)k.ids[2 * p] * k.dim;
            const float *b = k.b + (uint64_t)k.ids[2 * p + 1] * k.dim;
#pragma unroll 2
            for (uint64_t c = lane * N; c < k.dim; c += LANES * N) {
                sl_pack<float, N> x = sl_load_any<float, N>(a, c, aligned);
                sl_pack<float, N> y = sl_load_any<float, N>(b, c, aligned);
#pragma unroll
                for (int i = 0; i < N; i++)
                    sum = fmaf(k.scale ? x.at[i] * k.scale[c + i] : x.at[i], y.at[i], sum);
            }
        }
        sum = sl_lanes_sum<LANES>(sum);
        if (p < k.n && lane == 0)
            k.score[p] = sum;
    }
}

template <int N, int LANES> int launch_dot(const struct sl_pair_dot_args *args, bool aligned)
{
    const uint64_t wanted = sl_div_up(args->n, (uint64_t)SL_TILE_THREADS / LANES);
    const unsigned blocks = (unsigned)SL_MIN(wanted, 32ull * sl_cuda_processors());
    SL_LAUNCH((dot_kernel<N, LANES>), blocks, SL_TILE_THREADS, 0, *args, aligned);
    return SL_OK;
}

// ---- pair_rows ----------------------------------------------------------------------------------

template <int N>
__global__ void __launch_bounds__(SL_TILE_THREADS)
    rows_kernel(uint64_t n, const uint32_t *ids, uint32_t dim, bool difference, const float *x,
                float *out)
{
    const uint64_t packs = dim / N, step = (uint64_t)gridDim.x * SL_TILE_THREADS;
    uint64_t i = (uint64_t)blockIdx.x * SL_TILE_THREADS + threadIdx.x;
    for (; i < n * packs; i += step) {
        const uint64_t p = i / packs, c = i % packs * N;
        sl_pack<float, N> a = sl_load<float, N>(x + (uint64_t)ids[2 * p] * dim, c);
        sl_pack<float, N> b = sl_load<float, N>(x + (uint64_t)ids[2 * p + 1] * dim, c);
#pragma unroll
        for (int k = 0; k < N; k++)
            a.at[k] = difference ? fabsf(a.at[k] - b.at[k]) : a.at[k] * b.at[k];
        sl_store<float, N>(out + p * dim, c, a);
    }
}

// ---- pair_gradient ------------------------------------------------------------------------------

// What an end brings: the other row times a number, or times the pair's row; or the pair's row with
// the sign of the difference.
enum term { SCALED, MULTIPLIED, SIGNED };

template <int N, enum term TERM> struct ends_op : sl_pack_sums<N> {
    static constexpr int PACK = N, UNROLL = 4;
    using typename sl_pack_sums<N>::Sum;
    struct Load {
        sl_pack<float, N> other, gradient; // the gradient of SCALED: its first
    };
    struct Place {
        uint64_t column;
        sl_pack<float, N> own;
    };

    struct sl_pair_gradient_args k;

    __device__ Place place(uint64_t column) const
    {
        return {column, {}};
    }
    __device__ void start(uint32_t row, Place &place) const
    {
        if (TERM == SIGNED)
            place.own = sl_load<float, N>(k.own + (uint64_t)row * k.dim, place.column);
    }
    __device__ sl_edge_note note(uint32_t e) const
    {
        const uint32_t end = k.ends[e];
        return {k.ids[end ^ 1], end};
    }
    __device__ Load load(const sl_edge_note &note, const Place &place) const
    {
        Load load = {};
        if (k.side != SL_PAIR_BOTH && (note.b & 1) != (k.side == SL_PAIR_TARGET ? 1u : 0u))
            return load; // which adds nothing
        load.other = sl_load<float, N>(k.other + (uint64_t)note.a * k.dim, place.column);
        if (TERM == SCALED)
            load.gradient.at[0] = k.dscore[note.b / 2];
        else
            load.gradient = sl_load<float, N>(k.drows + (uint64_t)(note.b / 2) * k.dim,
                                              place.column);
        if (TERM == SIGNED)
#pragma unroll
            for (int i = 0; i < N; i++)
                load.other.at[i] = place.own.at[i] > load.other.at[i]   ? 1.0f
                                   : place.own.at[i] < load.other.at[i] ? -1.0f
                                                                        : 0.0f;
        return load;
    }
    __device__ void add(Sum &sum, const sl_edge_note &, const Load &load) const
    {
#pragma unroll
        for (int i = 0; i < N; i++) {
            const float g = load.gradient.at[TERM == SCALED ? 0 : i];
            if (TERM == SIGNED)
                sum.at[i] += load.other.at[i] == 0.0f ? 0.0f : load.other.at[i] * g;
            else
                sum.at[i] = fmaf(g, load.other.at[i], sum.at[i]);
        }
    }
    __device__ void finish(uint32_t row, const Place &place, const Sum &sum) const
    {
        Sum out = sum;
#pragma unroll
        for (int i = 0; k.scale && i < N; i++)
            out.at[i] *= k.scale[place.column + i];
        sl_store<float, N>(k.dx + (uint64_t)row * k.dim, place.column, out);
    }
};

template <int N, enum term TERM> int sum_ends(const struct sl_pair_gradient_args *args)
{
    struct sl_csr_view csr = {};
    csr.n_dst = args->n_rows;
    csr.n_edges = 2 * args->n;
    csr.indptr = args->indptr;
    csr.indices = args->ends;
    ends_op<N, TERM> op;
    op.k = *args;
    return sl_cuda_sum_rows("pair_gradient", op, &csr, args->dim);
}

} // namespace

int sl_cuda_pair_dot(const struct sl_pair_dot_args *args)
{
    SL_TRY(sl_check_pair_dot(args));
    if (args->n == 0)
        return SL_OK;
    const int pack = sl_cuda_pack(SL_PACK_MAX, args->dim, NULL, sizeof(float));
    const bool aligned = sl_cuda_packs(args->dim, args->a, args->b) == pack;
    return sl_cuda_by_pack(pack, [&](auto n) {
        constexpr int N = decltype(n)::value;
        if (args->dim / N <= 8)
            return launch_dot<N, 8>(args, aligned);
        return launch_dot<N, SL_WARP>(args, aligned);
    });
}

int sl_cuda_pair_rows(uint64_t n, const uint32_t *ids, uint32_t dim, enum sl_pair_combine combine,
                      const float *x, float *out)
{
    SL_TRY(sl_check_pair_rows(n, ids, dim, combine, x, out));
    if (n == 0)
        return SL_OK;
    return sl_cuda_by_pack(sl_cuda_packs(dim, x, out), [&](auto width) {
        constexpr int N = decltype(width)::value;
        const uint64_t wanted = sl_div_up(n * (dim / N), (uint64_t)SL_TILE_THREADS);
        const unsigned blocks = (unsigned)SL_MIN(wanted, 32ull * sl_cuda_processors());
        SL_LAUNCH((rows_kernel<N>), blocks, SL_TILE_THREADS, 0, n, ids, dim,
                  combine == SL_PAIR_DIFFERENCE, x, out);
        return (int)SL_OK;
    });
}

int sl_cuda_pair_gradient(const struct sl_pair_gradient_args *args)
{
    SL_TRY(sl_check_pair_gradient(args));
    const int pack = sl_cuda_packs(args->dim, args->own, args->other, args->drows, args->dx);
    return sl_cuda_by_pack(pack, [&](auto n) {
        constexpr int N = decltype(n)::value;
        if (args->combine == SL_PAIR_DIFFERENCE)
            return sum_ends<N, SIGNED>(args);
        return args->drows ? sum_ends<N, MULTIPLIED>(args) : sum_ends<N, SCALED>(args);
    });
}
