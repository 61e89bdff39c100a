/*
 * elements.cu - what layers do element by element, and between heads and rows.
 *
 * All of these are one pass at their floor: what is read and written, once. A thread has a pack of
 * four neighbouring elements where number and addresses allow it, and the grid covers the GPU and
 * walks on. Numbers that are learned (`a`) are read on the device: the processor never sees them.
 */
#include "kernels/cuda/layer.cuh"

#include "kernels/check.h"
#include "kernels/cuda/move.cuh"
#include "kernels/cuda/move_pack.cuh"

namespace {

enum { BLOCK = 256, DOT_BLOCKS = 512, DOT_ELEMENTS = 4096 };

template <int N> using pack = sl_pack<float, N>;

// y[i] = c + *a
struct fill_op {
    float c;
    const float *a;
    float *y;

    template <int N> __device__ void at(uint64_t i) const
    {
        pack<N> out;
#pragma unroll
        for (int k = 0; k < N; k++)
            out.at[k] = c + *a;
        sl_store<float, N>(y, i, out);
    }
};

// y[i] += (c + *a) * x[i]
struct add_scaled_op {
    float c;
    const float *a, *x;
    float *y;

    template <int N> __device__ void at(uint64_t i) const
    {
        pack<N> out = sl_load<float, N>(y, i), in = sl_load<float, N>(x, i);
        float scale = c + *a;
#pragma unroll
        for (int k = 0; k < N; k++)
            out.at[k] = fmaf(scale, in.at[k], out.at[k]);
        sl_store<float, N>(y, i, out);
    }
};

struct maximum_op {
    const float *x;
    float *y;

    template <int N> __device__ void at(uint64_t i) const
    {
        pack<N> out = sl_load<float, N>(y, i), in = sl_load<float, N>(x, i);
#pragma unroll
        for (int k = 0; k < N; k++)
            out.at[k] = out.at[k] >= in.at[k] ? out.at[k] : in.at[k];
        sl_store<float, N>(y, i, out);
    }
};

struct maximum_backward_op {
    const float *earlier[SL_MAXIMUM_LAYERS]; // NULL from the layer on
    const float *own, *max, *dmax;
    float *dy;

    template <int N> __device__ void at(uint64_t i) const
    {
        pack<N> best = sl_load<float, N>(max, i), out = sl_load<float, N>(dy, i);
        pack<N> mine = sl_load<float, N>(own, i), given = sl_load<float, N>(dmax, i);
        bool first[N];
#pragma unroll
        for (int k = 0; k < N; k++)
            first[k] = mine.at[k] == best.at[k];
#pragma unroll // so that the pointers stay where arguments are
        for (uint32_t l = 0; l < SL_MAXIMUM_LAYERS; l++) {
            if (!earlier[l])
                continue;
            pack<N> other = sl_load<float, N>(earlier[l], i);
#pragma unroll
            for (int k = 0; k < N; k++)
                first[k] = first[k] && other.at[k] != best.at[k];
        }
#pragma unroll
        for (int k = 0; k < N; k++)
            out.at[k] += first[k] ? given.at[k] : 0.0f;
        sl_store<float, N>(dy, i, out);
    }
};

// y (rows, width) from the heads of x, by elements of y; heads in their order.
struct sum_heads_op {
    const float *x;
    uint32_t heads, width;
    float scale, beta;
    float *y;

    template <int N> __device__ void at(uint64_t i) const
    {
        uint64_t row = i / width, column = i % width;
        const float *from = x + row * heads * width + column;
        pack<N> sum = {}, before = {};
        for (uint32_t h = 0; h < heads; h++) {
            pack<N> in = sl_load<float, N>(from, (uint64_t)h * width);
#pragma unroll
            for (int k = 0; k < N; k++)
                sum.at[k] += in.at[k];
        }
        // What y held is not read when beta is 0: it may be anything.
        if (beta != 0.0f)
            before = sl_load<float, N>(y, i);
#pragma unroll
        for (int k = 0; k < N; k++)
            sum.at[k] = fmaf(scale, sum.at[k], before.at[k]);
        sl_store<float, N>(y, i, sum);
    }
};

// y (rows, heads * width), by elements of x: one is read once and written `heads` times.
struct spread_heads_op {
    const float *x;
    uint32_t heads, width;
    float scale;
    float *y;

    template <int N> __device__ void at(uint64_t i) const
    {
        uint64_t row = i / width, column = i % width;
        float *to = y + row * heads * width + column;
        pack<N> out = sl_load<float, N>(x, i);
#pragma unroll
        for (int k = 0; k < N; k++)
            out.at[k] *= scale;
        for (uint32_t h = 0; h < heads; h++)
            sl_store<float, N>(to, (uint64_t)h * width, out);
    }
};

// matrix (heads, heads * width), by its elements.
struct block_diagonal_op {
    const float *a;
    uint32_t heads, width;
    float *matrix;

    template <int N> __device__ void at(uint64_t i) const
    {
        uint64_t columns = (uint64_t)heads * width;
        uint64_t head = i / columns, column = i % columns;
        matrix[i] = column / width == head ? a[column] : 0.0f;
    }
};

struct add_block_diagonal_op {
    const float *matrix;
    uint32_t heads, width;
    float *a;

    template <int N> __device__ void at(uint64_t i) const
    {
        uint64_t columns = (uint64_t)heads * width;
        a[i] += matrix[i / width * columns + i];
    }
};

} // namespace

template <class Op, int N>
static __global__ void __launch_bounds__(BLOCK) each_pack(Op op, uint64_t packs)
{
    uint64_t stride = (uint64_t)gridDim.x * BLOCK;
    for (uint64_t i = (uint64_t)blockIdx.x * BLOCK + threadIdx.x; i < packs; i += stride)
        op.template at<N>(i * N);
}

template <class Op, int N> static int launch_each(const Op &op, uint64_t n)
{
    uint64_t blocks = SL_MIN(sl_div_up(n / N, BLOCK), (uint64_t)sl_cuda_processors() * 32);
    SL_LAUNCH((each_pack<Op, N>), (unsigned)blocks, BLOCK, 0, op, n / N);
    return SL_OK;
}

// The operation on `count` elements, in packs of at most `widest`.
template <class Op> static int run_each(const Op &op, uint64_t count, int widest)
{
    if (count == 0)
        return SL_OK;
    return sl_cuda_by_pack(widest, [&](auto n) { return launch_each<Op, n>(op, count); });
}

int sl_cuda_fill_sum(uint64_t n, float c, const float *a, float *y)
{
    SL_TRY(sl_check_fill_sum(n, c, a, y));
    fill_op op = {c, a, y};
    return run_each(op, n, sl_cuda_packs(n, y));
}

int sl_cuda_add_scaled(uint64_t n, float c, const float *a, const float *x, float *y)
{
    SL_TRY(sl_check_add_scaled(n, c, a, x, y));
    add_scaled_op op = {c, a, x, y};
    return run_each(op, n, sl_cuda_packs(n, x, y));
}

int sl_cuda_maximum(uint64_t n, const float *x, float *y)
{
    SL_TRY(sl_check_maximum(n, x, y));
    maximum_op op = {x, y};
    return run_each(op, n, sl_cuda_packs(n, x, y));
}

int sl_cuda_maximum_backward(uint64_t n, const float *const *h, uint32_t layer, const float *max,
                             const float *dmax, float *dy)
{
    SL_TRY(sl_check_maximum_backward(n, h, layer, max, dmax, dy));
    if (n == 0)
        return SL_OK;
    maximum_backward_op op = {{}, h[layer], max, dmax, dy};
    int widest = sl_cuda_packs(n, max, dmax, dy, h[layer]);
    for (uint32_t l = 0; l < layer; l++) {
        op.earlier[l] = h[l];
        widest = sl_cuda_pack(widest, n, h[l], sizeof *dy);
    }
    return run_each(op, n, widest);
}

int sl_cuda_sum_heads(const float *x, uint64_t rows, uint32_t heads, uint32_t width, float scale,
                      float beta, float *y)
{
    SL_TRY(sl_check_sum_heads(x, rows, heads, width, scale, beta, y));
    sum_heads_op op = {x, heads, width, scale, beta, y};
    return run_each(op, rows * width, sl_cuda_packs(width, x, y));
}

int sl_cuda_spread_heads(const float *x, uint64_t rows, uint32_t heads, uint32_t width, float scale,
                         float *y)
{
    SL_TRY(sl_check_spread_heads(x, rows, heads, width, scale, y));
    spread_heads_op op = {x, heads, width, scale, y};
    return run_each(op, rows * width, sl_cuda_packs(width, x, y));
}

int sl_cuda_block_diagonal(const float *a, uint32_t heads, uint32_t width, float *matrix)
{
    SL_TRY(sl_check_block_diagonal(a, heads, width, matrix));
    block_diagonal_op op = {a, heads, width, matrix};
    return run_each(op, (uint64_t)heads * heads * width, 1);
}

int sl_cuda_add_block_diagonal(const float *matrix, uint32_t heads, uint32_t width, float *a)
{
    SL_TRY(sl_check_add_block_diagonal(matrix, heads, width, a));
    add_block_diagonal_op op = {matrix, heads, width, a};
    return run_each(op, (uint64_t)heads * width, 1);
}

// ---- a scalar product ---------------------------------------------------------------------------

// Each block a part, over a grid that n alone decides.
static __global__ void __launch_bounds__(BLOCK)
    dot_parts(uint64_t n, const float *x, const float *y, double *parts)
{
    double sum = 0.0;
    uint64_t stride = (uint64_t)gridDim.x * BLOCK;
#pragma unroll 4
    for (uint64_t i = (uint64_t)blockIdx.x * BLOCK + threadIdx.x; i < n; i += stride)
        sum = fma((double)x[i], (double)y[i], sum);
    sum = sl_block_sum<BLOCK>(sum);
    if (threadIdx.x == 0)
        parts[blockIdx.x] = sum;
}

static __global__ void __launch_bounds__(BLOCK)
    dot_end(const double *parts, uint32_t n_parts, float *out)
{
    double sum = 0.0;
    for (uint32_t i = threadIdx.x; i < n_parts; i += BLOCK)
        sum += parts[i];
    sum = sl_block_sum<BLOCK>(sum);
    if (threadIdx.x == 0)
        *out += (float)sum;
}

int sl_cuda_add_dot(uint64_t n, const float *x, const float *y, float *sum, struct sl_mempool *ws)
{
    SL_TRY(sl_check_add_dot(n, x, y, sum, ws));
    if (n == 0)
        return SL_OK;
    uint32_t blocks = (uint32_t)SL_MIN(sl_div_up(n, DOT_ELEMENTS), (uint64_t)DOT_BLOCKS);
    void *parts = NULL;
    SL_TRY(sl_cuda_take(ws, "add_dot", blocks * sizeof(double), &parts));
    SL_LAUNCH(dot_parts, blocks, BLOCK, 0, n, x, y, static_cast<double *>(parts));
    SL_LAUNCH(dot_end, 1, BLOCK, 0, static_cast<const double *>(parts), blocks, sum);
    return SL_OK;
}
