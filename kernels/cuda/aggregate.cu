/*
 * aggregate.cu - weighted sums of the neighbours' rows, forward and (over the transposed block)
 * backward: the Memory-Aware kernel (aggregate_rows.cuh) and its table of tiles.
 *
 * Weight and column scale are multiplied when an edge is staged, once a tile; the row's scale and
 * its self term are applied when the row is written. So all sixteen combinations of them are one
 * loop of a load and a fused multiply-add an element.
 */
#include "kernels/cuda/aggregate_rows.cuh"

#include "kernels/check.h"

namespace {

template <typename E, int N> struct sum_op : sl_column_places, sl_pack_sums<N> {
    static constexpr int PACK = N, UNROLL = 4;
    using typename sl_pack_sums<N>::Sum;
    typedef sl_pack<E, N> Load;

    const E *x;
    const uint32_t *indices;
    const float *edge_weight, *col_scale, *row_scale, *self_scale;
    uint32_t n_self;
    uint64_t x_ld, dim;
    float *y; // NULL: to y_bf16
    uint16_t *y_bf16;
    uint64_t y_ld;

    __device__ sl_edge_note note(uint32_t e) const
    {
        uint32_t source = indices[e];
        float weight = edge_weight ? edge_weight[e] : 1.0f;
        if (col_scale)
            weight *= col_scale[source];
        return {source, __float_as_uint(weight)};
    }
    __device__ Load load(const sl_edge_note &note, Place column) const
    {
        return sl_load<E, N>(x + note.a * x_ld, column);
    }
    __device__ void add(Sum &sum, const sl_edge_note &note, const Load &load) const
    {
#pragma unroll
        for (int k = 0; k < N; k++)
            sum.at[k] = fmaf(__uint_as_float(note.b), sl_widen(load.at[k]), sum.at[k]);
    }
    __device__ void finish(uint32_t row, Place column, Sum sum) const
    {
        float scale = row_scale ? row_scale[row] : 1.0f;
        bool with_self = self_scale && row < n_self;
        Load own = with_self ? sl_load<E, N>(x + row * x_ld, column) : Load();
        float self = with_self ? self_scale[row] : 0.0f;
#pragma unroll
        for (int k = 0; k < N; k++) {
            sum.at[k] *= scale;
            if (with_self)
                sum.at[k] = fmaf(self, sl_widen(own.at[k]), sum.at[k]);
        }
        if (y)
            sl_store<float, N>(y + row * dim, column, sum);
        else
            sl_store_rounded<N>(y_bf16 + row * y_ld, column, sum);
    }
};

} // namespace

/*
 * The table: up to so many packs a row and so many edges a row on average. Narrow rows share a
 * warp. Rows of few edges do not fill a warp's loads one at a time: two packs a lane give as many
 * bytes in flight for half the groups, so that twice the rows are under way. From 33 packs on a
 * lane has two: the edges are staged for 256 columns of f32 at once.
 */
static const struct {
    uint64_t packs;
    double degree;
    struct sl_cuda_tile tile;
} tiles[] = {
    {4, 1e30, {4, 1}},  {8, 1e30, {8, 1}},   {16, 1e30, {16, 1}},
    {32, 4.0, {16, 2}}, {32, 1e30, {32, 1}}, {UINT64_MAX, 1e30, {32, 2}},
};

struct sl_cuda_tile sl_cuda_tile_for(uint64_t packs, double degree)
{
    size_t i = 0;
    while (i + 1 < SL_COUNT_OF(tiles) && (packs > tiles[i].packs || degree > tiles[i].degree))
        i++;
    return tiles[i].tile;
}

template <typename E, int N> static sum_op<E, N> op_of(const struct sl_aggregate_args *args)
{
    sum_op<E, N> op;
    op.x = static_cast<const E *>(args->x);
    op.indices = args->csr.indices;
    op.edge_weight = args->edge_weight;
    op.col_scale = args->col_scale;
    op.row_scale = args->row_scale;
    op.self_scale = args->self_scale;
    op.n_self = args->n_self;
    op.x_ld = args->x_dtype == SL_DTYPE_BF16 ? args->x_ld : args->dim;
    op.dim = args->dim;
    op.y = args->y;
    op.y_bf16 = args->y_bf16;
    op.y_ld = args->y_ld;
    return op;
}

template <typename E> static int run(const struct sl_aggregate_args *args)
{
    int pack = sl_cuda_packs(args->dim, static_cast<const E *>(args->x), args->y);
    if (args->x_dtype == SL_DTYPE_BF16)
        pack = sl_cuda_pack(pack, args->x_ld, args->x, sizeof(E));
    if (args->y_bf16)
        pack = sl_cuda_pack(pack, args->y_ld, args->y_bf16, sizeof *args->y_bf16);
    return sl_cuda_by_pack(pack, [&](auto n) {
        return sl_cuda_sum_rows("aggregate", op_of<E, n>(args), &args->csr, args->dim);
    });
}

int sl_cuda_aggregate(const struct sl_aggregate_args *args)
{
    SL_TRY(sl_check_aggregate(args));
    if (args->x_dtype == SL_DTYPE_F16)
        return run<sl_half>(args);
    if (args->x_dtype == SL_DTYPE_BF16)
        return run<sl_bf16>(args);
    return run<float>(args);
}
