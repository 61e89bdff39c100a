/*
 * max.cu - the element-wise maximum over the neighbours, and its gradient: aggregate_rows.cuh with
 * a comparison in place of the addition.
 *
 * A pack carries, beside what is largest so far, the edge that it came from: the first of equals,
 * and the first NaN before all numbers. Comparing in the order of the edges, and joining runs and
 * chunks in that order, gives exactly the reference's edge whatever the tile.
 *
 * The gradient goes over the transposed block, so that a row of dx has one writer and no atomics
 * are needed: of each destination's row, `from` says whether this edge won the element. Floor: an
 * edge reads 8 bytes an element where the forward pass reads 4 (or 2 of f16 and bf16).
 */
#include "kernels/cuda/aggregate_rows.cuh"

#include "kernels/check.h"

namespace {

template <typename E, int N> struct max_op : sl_column_places {
    static constexpr int PACK = N, UNROLL = 4;
    struct Sum {
        float best[N];
        uint32_t from[N];
    };
    typedef sl_pack<E, N> Load;

    const E *x;
    const uint32_t *indices;
    uint64_t x_ld, dim;
    float *y; // NULL: to y_bf16
    uint16_t *y_bf16;
    uint64_t y_ld;
    uint32_t *from; // or NULL

    __device__ sl_edge_note note(uint32_t e) const
    {
        return {indices[e], e};
    }
    __device__ Load load(const sl_edge_note &note, Place column) const
    {
        return sl_load<E, N>(x + note.a * x_ld, column);
    }
    __device__ void clear(Sum &sum) const
    {
#pragma unroll
        for (int k = 0; k < N; k++) {
            sum.best[k] = 0.0f;
            sum.from[k] = UINT32_MAX;
        }
    }
    static __device__ void take(Sum &sum, int k, float value, uint32_t edge)
    {
        float best = sum.best[k];
        if (sum.from[k] == UINT32_MAX || value > best || (value != value && best == best)) {
            sum.best[k] = value;
            sum.from[k] = edge;
        }
    }
    __device__ void add(Sum &sum, const sl_edge_note &note, const Load &load) const
    {
#pragma unroll
        for (int k = 0; k < N; k++)
            take(sum, k, sl_widen(load.at[k]), note.b);
    }
    __device__ void join(Sum &sum, const Sum &later) const
    {
#pragma unroll
        for (int k = 0; k < N; k++)
            if (later.from[k] != UINT32_MAX)
                take(sum, k, later.best[k], later.from[k]);
    }
    __device__ void finish(uint32_t row, Place column, const Sum &sum) const
    {
        sl_pack<float, N> best;
        sl_pack<uint32_t, N> edges;
#pragma unroll
        for (int k = 0; k < N; k++) {
            best.at[k] = sum.best[k];
            edges.at[k] = sum.from[k];
        }
        if (y)
            sl_store<float, N>(y + row * dim, column, best);
        else
            sl_store_rounded<N>(y_bf16 + row * y_ld, column, best);
        if (from)
            sl_store<uint32_t, N>(from + row * dim, column, edges);
    }
};

// Over the transposed block: rows are sources, `a` of a note a destination, `b` the edge.
template <int N> struct max_gradient_op : sl_column_places, sl_pack_sums<N> {
    static constexpr int PACK = N, UNROLL = N == 4 ? 2 : 4; // two packs an edge
    using typename sl_pack_sums<N>::Sum;
    struct Load {
        sl_pack<uint32_t, N> from;
        sl_pack<float, N> dy;
    };

    const uint32_t *indices, *t_edge, *from;
    const float *dy;
    uint64_t dim;
    float *dx;

    __device__ sl_edge_note note(uint32_t e) const
    {
        return {indices[e], t_edge[e]};
    }
    __device__ Load load(const sl_edge_note &note, Place column) const
    {
        return {sl_load<uint32_t, N>(from + note.a * dim, column),
                sl_load<float, N>(dy + note.a * dim, column)};
    }
    __device__ void add(Sum &sum, const sl_edge_note &note, const Load &load) const
    {
#pragma unroll
        for (int k = 0; k < N; k++)
            if (load.from.at[k] == note.b)
                sum.at[k] += load.dy.at[k];
    }
    __device__ void finish(uint32_t row, Place column, const Sum &sum) const
    {
        sl_store<float, N>(dx + row * dim, column, sum);
    }
};

} // namespace

template <typename E, int N> static int run_max(const struct sl_aggregate_max_args *args)
{
    max_op<E, N> op;
    op.x = static_cast<const E *>(args->x);
    op.indices = args->csr.indices;
    op.x_ld = args->x_dtype == SL_DTYPE_BF16 ? args->x_ld : args->dim;
    op.dim = args->dim;
    op.y = args->y;
    op.y_bf16 = args->y_bf16;
    op.y_ld = args->y_ld;
    op.from = args->from;
    return sl_cuda_sum_rows("aggregate_max", op, &args->csr, args->dim);
}

template <typename E> static int run_max_of(const struct sl_aggregate_max_args *args)
{
    int pack = sl_cuda_packs(args->dim, static_cast<const E *>(args->x), args->y, args->from);
    if (args->x_dtype == SL_DTYPE_BF16)
        pack = sl_cuda_pack(pack, args->x_ld, args->x, sizeof(E));
    if (args->y_bf16)
        pack = sl_cuda_pack(pack, args->y_ld, args->y_bf16, sizeof *args->y_bf16);
    return sl_cuda_by_pack(pack, [&](auto n) { return run_max<E, n>(args); });
}

int sl_cuda_aggregate_max(const struct sl_aggregate_max_args *args)
{
    SL_TRY(sl_check_aggregate_max(args));
    if (args->x_dtype == SL_DTYPE_F16)
        return run_max_of<sl_half>(args);
    if (args->x_dtype == SL_DTYPE_BF16)
        return run_max_of<sl_bf16>(args);
    return run_max_of<float>(args);
}

template <int N> static int run_gradient(const struct sl_aggregate_max_grad_args *args)
{
    max_gradient_op<N> op;
    op.indices = args->transposed.indices;
    op.t_edge = args->t_edge;
    op.from = args->from;
    op.dy = args->dy;
    op.dim = args->dim;
    op.dx = args->dx;
    return sl_cuda_sum_rows("aggregate_max_backward", op, &args->transposed, args->dim);
}

int sl_cuda_aggregate_max_backward(const struct sl_aggregate_max_grad_args *args)
{
    SL_TRY(sl_check_aggregate_max_backward(args));
    int pack = sl_cuda_packs(args->dim, args->from, args->dy, args->dx);
    return sl_cuda_by_pack(pack, [&](auto n) { return run_gradient<n>(args); });
}
