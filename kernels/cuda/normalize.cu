/*
 * normalize.cu - rows of length one, and the gradient: a warp a row, which is read from memory
 * once; the second pass over it, the scaling, finds it in the first-level cache (a warp's row of
 * 256 columns is 1 KiB, those of 64 warps 64 KiB).
 *
 * Floor: a row read and written (backward: two read, one written). Sums are in f64, as squares of
 * f32 may be too large for f32; at a warp a row memory is still what is waited for. Which columns a
 * lane adds depends on dim alone: packs of arrays that are not aligned to them are read and written
 * element by element.
 */
#include "kernels/cuda/aggregate_rows.cuh"

#include "kernels/check.h"
#include "kernels/kernels_internal.h"

namespace {

enum { BLOCK = 256, WARPS = BLOCK / SL_WARP };

} // namespace

// <a, b> of two rows, the same in all lanes.
template <int N>
static __device__ __forceinline__ double dot_row(bool aligned, const float *a, const float *b,
                                                 uint32_t dim)
{
    double sum = 0.0;
    for (uint64_t c = threadIdx.x % SL_WARP * N; c < dim; c += SL_WARP * N) {
        sl_pack<float, N> x = sl_load_any<float, N>(a, c, aligned),
                          y = sl_load_any<float, N>(b, c, aligned);
#pragma unroll
        for (int k = 0; k < N; k++)
            sum = fma((double)x.at[k], (double)y.at[k], sum);
    }
    return sl_lanes_sum<SL_WARP>(sum);
}

template <int N>
static __global__ void __launch_bounds__(BLOCK)
    normalize_rows(bool aligned, const float *x, uint64_t rows, uint32_t dim, float *y,
                   float *inverse)
{
    uint64_t row = (uint64_t)blockIdx.x * WARPS + threadIdx.x / SL_WARP;
    if (row >= rows)
        return;
    const float *from = x + row * dim;
    float *to = y + row * dim;
    double norm = sqrt(dot_row<N>(aligned, from, from, dim));
    // A NaN is not below the bound: it shows in the row.
    double scale =
        norm < (double)SL_NORMALIZE_BOUND ? (double)SL_NORMALIZE_INVERSE_MAX : 1.0 / norm;
    for (uint64_t c = threadIdx.x % SL_WARP * N; c < dim; c += SL_WARP * N) {
        sl_pack<float, N> pack = sl_load_any<float, N>(from, c, aligned);
#pragma unroll
        for (int k = 0; k < N; k++)
            pack.at[k] = (float)((double)pack.at[k] * scale);
        sl_store_any<float, N>(to, c, aligned, pack);
    }
    if (threadIdx.x % SL_WARP == 0)
        inverse[row] = (float)scale;
}

template <int N>
static __global__ void __launch_bounds__(BLOCK)
    normalize_backward(bool aligned, const float *dy, const float *y, const float *inverse,
                       uint64_t rows, uint32_t dim, float *dx)
{
    uint64_t row = (uint64_t)blockIdx.x * WARPS + threadIdx.x / SL_WARP;
    if (row >= rows)
        return;
    const float *gradient = dy + row * dim, *unit = y + row * dim;
    double scale = (double)inverse[row], dot = 0.0;
    if (!(scale >= (double)SL_NORMALIZE_INVERSE_MAX)) // the same in all lanes
        dot = dot_row<N>(aligned, unit, gradient, dim);
    for (uint64_t c = threadIdx.x % SL_WARP * N; c < dim; c += SL_WARP * N) {
        sl_pack<float, N> d = sl_load_any<float, N>(gradient, c, aligned),
                          u = sl_load_any<float, N>(unit, c, aligned);
#pragma unroll
        for (int k = 0; k < N; k++)
            d.at[k] = (float)(scale * ((double)d.at[k] - (double)u.at[k] * dot));
        sl_store_any<float, N>(dx + row * dim, c, aligned, d);
    }
}

static int blocks_of(const char *name, uint64_t rows, unsigned *blocks)
{
    uint64_t n = sl_div_up(rows, WARPS);
    if (n > INT32_MAX)
        return sl_fail(SL_EUNSUPPORTED, "%s: %llu rows: wanted at most %llu", name,
                       (unsigned long long)rows, (unsigned long long)INT32_MAX * WARPS);
    *blocks = (unsigned)n;
    return SL_OK;
}

int sl_cuda_normalize_rows(const float *x, uint64_t rows, uint32_t dim, float *y, float *inverse)
{
    SL_TRY(sl_check_normalize_rows(x, rows, dim, y, inverse));
    unsigned blocks = 0;
    SL_TRY(blocks_of("normalize_rows", rows, &blocks));
    if (rows == 0)
        return SL_OK;
    int pack = sl_cuda_pack(SL_PACK_MAX, dim, NULL, sizeof(float));
    bool aligned = sl_cuda_packs(dim, x, y) == pack;
    return sl_cuda_by_pack(pack, [&](auto n) -> int {
        SL_LAUNCH((normalize_rows<n>), blocks, BLOCK, 0, aligned, x, rows, dim, y, inverse);
        return SL_OK;
    });
}

int sl_cuda_normalize_rows_backward(const float *dy, const float *y, const float *inverse,
                                    uint64_t rows, uint32_t dim, float *dx)
{
    SL_TRY(sl_check_normalize_rows_backward(dy, y, inverse, rows, dim, dx));
    unsigned blocks = 0;
    SL_TRY(blocks_of("normalize_rows_backward", rows, &blocks));
    if (rows == 0)
        return SL_OK;
    int pack = sl_cuda_pack(SL_PACK_MAX, dim, NULL, sizeof(float));
    bool aligned = sl_cuda_packs(dim, dy, y, dx) == pack;
    return sl_cuda_by_pack(pack, [&](auto n) -> int {
        SL_LAUNCH((normalize_backward<n>), blocks, BLOCK, 0, aligned, dy, y, inverse, rows, dim,
                  dx);
        return SL_OK;
    });
}
