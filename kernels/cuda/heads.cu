/*
 * heads.cu - sums of neighbours with a weight a head, and their gradient in the weights.
 *
 * aggregate_heads is the kernel of aggregate_rows.cuh with packs that lie within a head, so that an
 * edge has one weight a pack. What is staged is the source and where the edge's weights are (over
 * the transposed block they are where t_edge says). The weights themselves, `heads` words side by
 * side, are read by the lanes: those of a head read one word, those of a warp one or two sectors.
 * Floor: an edge reads its row of x, its weights, and 4 or 8 bytes of lists.
 *
 * edge_dot is the kernel of edge_items.cuh with the product of two rows' columns.
 */
#include "kernels/cuda/edge_items.cuh"

#include "kernels/check.h"

namespace {

template <int N> struct heads_op : sl_pack_sums<N> {
    static constexpr int PACK = N, UNROLL = 4;
    using typename sl_pack_sums<N>::Sum;
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
    __device__ void add(Sum &sum, const sl_edge_note &, const Load &load) const
    {
#pragma unroll
        for (int k = 0; k < N; k++)
            sum.at[k] = fmaf(load.weight, load.x.at[k], sum.at[k]);
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
    return sl_cuda_sum_rows("aggregate_heads", op, &args->csr, op.width);
}

int sl_cuda_aggregate_heads(const struct sl_aggregate_heads_args *args)
{
    SL_TRY(sl_check_aggregate_heads(args));
    return sl_cuda_by_pack(sl_cuda_packs(args->dim, args->x, args->y),
                           [&](auto n) { return run_heads<n>(args); });
}

// ---- edge_dot -----------------------------------------------------------------------------------

namespace {

struct dot_op {
    const float *a, *b;

    __device__ dot_op at(uint64_t own, uint64_t other, uint64_t) const
    {
        return {a + own, b + other};
    }
    template <int N> __device__ float add(float sum, uint32_t column, bool aligned) const
    {
        sl_pack<float, N> x = sl_load_any<float, N>(a, column, aligned);
        sl_pack<float, N> y = sl_load_any<float, N>(b, column, aligned);
#pragma unroll
        for (int k = 0; k < N; k++)
            sum = fmaf(x.at[k], y.at[k], sum);
        return sum;
    }
};

} // namespace

int sl_cuda_edge_dot(const struct sl_csr_view *csr, uint32_t heads, uint32_t dim, const float *a,
                     const float *b, float *out)
{
    SL_TRY(sl_check_edge_dot(csr, heads, dim, a, b, out));
    const dot_op op = {a, b};
    return sl_cuda_edge_items(op, csr, heads, dim, sl_cuda_packs(dim, a, b), out);
}
