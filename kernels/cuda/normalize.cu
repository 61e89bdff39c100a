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
#include "kernels/cuda/aggregate.cuh"

#include "kernels/check.h"
#include "kernels/kernels_internal.h"

namespace {

enum { BLOCK = 256, WARPS = BLOCK / SL_WARP };

// Columns of a row in packs, aligned or not.
template <int N> struct row_access {
    bool aligned;

    __device__ sl_pack<float, N> load(const float *row, uint64_t column) const
    {
        if (aligned)
            return sl_load<float, N>(row, column);
        sl_pack<float, N> pack;
#pragma unroll
        for (int k = 0; k < N; k++)
            pack.at[k] = row[column + k];
        return pack;
    }
    __device__ void store(float *row, uint64_t column, const sl_pack<float, N> &pack) const
    {
        if (aligned) {
            sl_store<float, N>(row, column, pack);
            return;
        }
#pragma unroll
        for (int k = 0; k < N; k++)
            row[column + k] = pack.at[k];
    }
};

} // namespace

// <a, b> of two rows, the same in all lanes.
template <int N>
static __device__ __forceinline__ double dot_row(const row_access<N> &access, const float *a,
                                                 const float *b, uint32_t dim)
{
    double sum = 0.0;
    for (uint64_t c = threadIdx.x % SL_WARP * N; c < dim; c += SL_WARP * N) {
        sl_pack<float, N> x = access.load(a, c), y = access.load(b, c);
#pragma unroll
        for (int k = 0; k < N; k++)
            sum = fma((double)x.at[k], (double)y.at[k], sum);
    }
#pragma unroll
    for (int step = SL_WARP / 2; step > 0; step /= 2)
        sum += __shfl_xor_sync(SL_FULL_MASK, sum, step);
    return sum;
}

template <int N>
static __global__ void __launch_bounds__(BLOCK)
    normalize_rows(row_access<N> access, const float *x, uint64_t rows, uint32_t dim, float *y,
                   float *inverse)
{
    uint64_t row = (uint64_t)blockIdx.x * WARPS + threadIdx.x / SL_WARP;
    if (row >= rows)
        return;
    const float *from = x + row * dim;
    float *to = y + row * dim;
    double norm = sqrt(dot_row<N>(access, from, from, dim));
    // A NaN is not below the bound: it shows in the row.
    double scale =
        norm < (double)SL_NORMALIZE_BOUND ? (double)SL_NORMALIZE_INVERSE_MAX : 1.0 / norm;
    for (uint64_t c = threadIdx.x % SL_WARP * N; c < dim; c += SL_WARP * N) {
        sl_pack<float, N> pack = access.load(from, c);
#pragma unroll
        for (int k = 0; k < N; k++)
            pack.at[k] = (float)((double)pack.at[k] * scale);
        access.store(to, c, pack);
    }
    if (threadIdx.x % SL_WARP == 0)
        inverse[row] = (float)scale;
}

template <int N>
static __global__ void __launch_bounds__(BLOCK)
    normalize_backward(row_access<N> access, const float *dy, const float *y, const float *inverse,
                       uint64_t rows, uint32_t dim, float *dx)
{
    uint64_t row = (uint64_t)blockIdx.x * WARPS + threadIdx.x / SL_WARP;
    if (row >= rows)
        return;
    const float *gradient = dy + row * dim, *unit = y + row * dim;
    double scale = (double)inverse[row], dot = 0.0;
    if (!(scale >= (double)SL_NORMALIZE_INVERSE_MAX)) // the same in all lanes
        dot = dot_row<N>(access, unit, gradient, dim);
    for (uint64_t c = threadIdx.x % SL_WARP * N; c < dim; c += SL_WARP * N) {
        sl_pack<float, N> d = access.load(gradient, c), u = access.load(unit, c);
#pragma unroll
        for (int k = 0; k < N; k++)
            d.at[k] = (float)(scale * ((double)d.at[k] - (double)u.at[k] * dot));
        access.store(dx + row * dim, c, d);
    }
}

// Whether arrays are aligned to packs of n floats.
static bool aligned_to(int n, const float *a, const float *b, const float *c)
{
    uintptr_t any = (uintptr_t)a | (uintptr_t)b | (uintptr_t)c;
    return any % (sizeof(float) * (unsigned)n) == 0;
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

template <int N>
static int run_forward(const float *x, uint64_t rows, uint32_t dim, float *y, float *inverse)
{
    unsigned blocks = 0;
    SL_TRY(blocks_of("normalize_rows", rows, &blocks));
    row_access<N> access = {aligned_to(N, x, y, NULL)};
    SL_LAUNCH((normalize_rows<N>), blocks, BLOCK, 0, access, x, rows, dim, y, inverse);
    SL_LAUNCHED(normalize_rows);
    return SL_OK;
}

int sl_cuda_normalize_rows(const float *x, uint64_t rows, uint32_t dim, float *y, float *inverse)
{
    SL_TRY(sl_check_normalize_rows(x, rows, dim, y, inverse));
    if (rows == 0)
        return SL_OK;
    switch (sl_cuda_pack(SL_PACK_MAX, dim, NULL, sizeof(float))) {
    case 4: return run_forward<4>(x, rows, dim, y, inverse);
    case 2: return run_forward<2>(x, rows, dim, y, inverse);
    default: return run_forward<1>(x, rows, dim, y, inverse);
    }
}

template <int N>
static int run_backward(const float *dy, const float *y, const float *inverse, uint64_t rows,
                        uint32_t dim, float *dx)
{
    unsigned blocks = 0;
    SL_TRY(blocks_of("normalize_rows_backward", rows, &blocks));
    row_access<N> access = {aligned_to(N, dy, y, dx)};
    SL_LAUNCH((normalize_backward<N>), blocks, BLOCK, 0, access, dy, y, inverse, rows, dim, dx);
    SL_LAUNCHED(normalize_backward);
    return SL_OK;
}

int sl_cuda_normalize_rows_backward(const float *dy, const float *y, const float *inverse,
                                    uint64_t rows, uint32_t dim, float *dx)
{
    SL_TRY(sl_check_normalize_rows_backward(dy, y, inverse, rows, dim, dx));
    if (rows == 0)
        return SL_OK;
    switch (sl_cuda_pack(SL_PACK_MAX, dim, NULL, sizeof(float))) {
    case 4: return run_backward<4>(dy, y, inverse, rows, dim, dx);
    case 2: return run_backward<2>(dy, y, inverse, rows, dim, dx);
    default: return run_backward<1>(dy, y, inverse, rows, dim, dx);
    }
}
