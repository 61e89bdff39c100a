/*
 * edge_scores.cu - scores of edges from the leaky relu of two rows' sum, and their gradients.
 *
 * Forward is the kernel of edge_items.cuh with a third array, the heads' vectors.
 *
 * Backward is the kernel of aggregate_rows.cuh: what an edge brings is its gradient, once or times
 * the slope, under the sign of the two rows' sum, of which the lane keeps the row's own pack. The
 * part of the heads' vectors is a second sum beside the first. Floor: an edge reads the other row,
 * `heads` words and 4 or 8 bytes of lists; the own row is read and the results are written once.
 */
#include "kernels/cuda/edge_items.cuh"

#include "kernels/check.h"

namespace {

struct score_op {
    const float *src, *dst, *att;
    float slope;

    __device__ score_op at(uint64_t own, uint64_t other, uint64_t column) const
    {
        return {src + other, dst + own, att + column, slope};
    }
    template <int N> __device__ float add(float sum, uint32_t column, bool aligned) const
    {
        sl_pack<float, N> x = sl_load_any<float, N>(src, column, aligned);
        sl_pack<float, N> y = sl_load_any<float, N>(dst, column, aligned);
        sl_pack<float, N> a = sl_load_any<float, N>(att, column, aligned);
#pragma unroll
        for (int k = 0; k < N; k++) {
            float both = x.at[k] + y.at[k];
            sum = fmaf(both > 0.0f ? both : both * slope, a.at[k], sum);
        }
        return sum;
    }
};

} // namespace

int sl_cuda_edge_scores(const struct sl_edge_scores_args *args)
{
    SL_TRY(sl_check_edge_scores(args));
    const score_op op = {args->src, args->dst, args->att, args->negative_slope};
    int arrays = sl_cuda_packs(args->dim, args->src, args->dst, args->att);
    return sl_cuda_edge_items(op, &args->csr, args->heads, args->dim, arrays, args->score);
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
    return sl_cuda_sum_rows("edge_scores_backward", op, &args->csr, op.width);
}

int sl_cuda_edge_scores_backward(const struct sl_edge_scores_grad_args *args)
{
    SL_TRY(sl_check_edge_scores_backward(args));
    int pack = sl_cuda_packs(args->dim, args->own, args->other, args->att, args->down, args->datt);
    return sl_cuda_by_pack(pack, [&](auto n) {
        return args->datt ? run_gradient<n, true>(args) : run_gradient<n, false>(args);
    });
}
