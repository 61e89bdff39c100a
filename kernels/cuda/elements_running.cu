/*
 * elements_running.cu - a batch norm by its running statistics: what it scales by, its gradients,
 * and the statistics themselves.
 *
 * The gradients need two sums over the rows for each column. A block has 32 columns and a segment
 * of the rows; its eight warps take every eighth row, 32 neighbouring columns each, write the
 * gradient of x on the way and add up in f64. How many segments there are depends on the rows
 * alone, and their sums are added in their order, so a sum has the same bits every time. Floor: x
 * and dy read, dx written, once.
 */
#include "kernels/cuda/aggregate_hubs.cuh"

#include "kernels/check.h"

namespace {

enum { BLOCK = 256, COLUMNS = 32, SLICES = BLOCK / COLUMNS, SEGMENT_ROWS = 64, SEGMENTS = 128 };

struct running_gradients {
    uint64_t rows, segment_rows;
    uint32_t dim, segments;
    float eps;
    const float *x, *gamma, *mean, *variance, *dy;
    float *dgamma, *dbeta, *dx;
    double *parts; // (segments, 2, dim)

    __device__ double inverse(uint32_t c) const
    {
        return 1.0 / sqrt((double)variance[c] + (double)eps);
    }
};

} // namespace

static __global__ void __launch_bounds__(BLOCK)
    scale_by_running(uint32_t dim, float eps, const float *gamma, const float *beta,
                     const float *mean, const float *variance, float *scale, float *shift)
{
    uint64_t c = (uint64_t)blockIdx.x * BLOCK + threadIdx.x;
    if (c >= dim)
        return;
    double s = (double)gamma[c] / sqrt((double)variance[c] + (double)eps);
    scale[c] = (float)s;
    shift[c] = (float)((double)beta[c] - (double)mean[c] * s);
}

int sl_cuda_running_scale(uint32_t dim, float eps, const float *gamma, const float *beta,
                          const float *mean, const float *variance, float *scale, float *shift)
{
    SL_TRY(sl_check_running_scale(dim, eps, gamma, beta, mean, variance, scale, shift));
    SL_LAUNCH(scale_by_running, (unsigned)sl_div_up(dim, BLOCK), BLOCK, 0, dim, eps, gamma, beta,
              mean, variance, scale, shift);
    return SL_OK;
}

static __global__ void __launch_bounds__(BLOCK) running_parts(running_gradients g)
{
    __shared__ double sums[2][SLICES][COLUMNS];
    uint32_t column = threadIdx.x % COLUMNS, slice = threadIdx.x / COLUMNS;
    uint64_t c = (uint64_t)blockIdx.x * COLUMNS + column;
    uint64_t first = blockIdx.y * g.segment_rows;
    uint64_t last = SL_MIN(first + g.segment_rows, g.rows);
    double scaled = 0.0, shifted = 0.0;
    if (c < g.dim) {
        double mean = (double)g.mean[c], inverse = g.inverse((uint32_t)c);
        double factor = (double)g.gamma[c] * inverse;
#pragma unroll 4
        for (uint64_t i = first + slice; i < last; i += SLICES) {
            uint64_t e = i * g.dim + c;
            double d = (double)g.dy[e];
            scaled = fma(d, (double)g.x[e] - mean, scaled);
            shifted += d;
            g.dx[e] = (float)(d * factor);
        }
        scaled *= inverse;
    }
    sums[0][slice][column] = scaled;
    sums[1][slice][column] = shifted;
    __syncthreads();
    if (slice >= 2 || c >= g.dim)
        return;
    double sum = 0.0; // slice 0 adds up `scaled`, slice 1 `shifted`
    for (uint32_t s = 0; s < SLICES; s++)
        sum += sums[slice][s][column];
    g.parts[(blockIdx.y * 2 + slice) * (uint64_t)g.dim + c] = sum;
}

static __global__ void __launch_bounds__(BLOCK) running_end(running_gradients g)
{
    uint64_t c = (uint64_t)blockIdx.x * BLOCK + threadIdx.x;
    if (c >= g.dim)
        return;
    double scaled = 0.0, shifted = 0.0;
    for (uint64_t s = 0; s < g.segments; s++) {
        scaled += g.parts[(s * 2 + 0) * g.dim + c];
        shifted += g.parts[(s * 2 + 1) * g.dim + c];
    }
    g.dgamma[c] = (float)((double)g.dgamma[c] + scaled);
    g.dbeta[c] = (float)((double)g.dbeta[c] + shifted);
}

int sl_cuda_running_backward(uint64_t rows, uint32_t dim, float eps, const float *x,
                             const float *gamma, const float *mean, const float *variance,
                             const float *dy, float *dgamma, float *dbeta, float *dx)
{
    SL_TRY(
        sl_check_running_backward(rows, dim, eps, x, gamma, mean, variance, dy, dgamma, dbeta, dx));
    if (rows == 0)
        return SL_OK;
    uint64_t segments = SL_MIN(sl_div_up(rows, SEGMENT_ROWS), (uint64_t)SEGMENTS);
    void *parts = NULL;
    SL_TRY(sl_cuda_room(segments * 2 * dim * sizeof(double), &parts));
    running_gradients g = {rows,     sl_div_up(rows, segments),
                           dim,      (uint32_t)segments,
                           eps,      x,
                           gamma,    mean,
                           variance, dy,
                           dgamma,   dbeta,
                           dx,       static_cast<double *>(parts)};
    dim3 grid((unsigned)sl_div_up(dim, COLUMNS), (unsigned)segments);
    SL_LAUNCH(running_parts, grid, BLOCK, 0, g);
    SL_LAUNCH(running_end, (unsigned)sl_div_up(dim, BLOCK), BLOCK, 0, g);
    return SL_OK;
}

static __global__ void __launch_bounds__(BLOCK)
    average_running(uint64_t n, float momentum, const float *batch, float *r)
{
    uint64_t stride = (uint64_t)gridDim.x * BLOCK;
    for (uint64_t i = (uint64_t)blockIdx.x * BLOCK + threadIdx.x; i < n; i += stride)
        r[i] = (float)((double)r[i] + (double)momentum * ((double)batch[i] - (double)r[i]));
}

int sl_cuda_running_average(uint64_t n, float momentum, const float *batch, float *r)
{
    SL_TRY(sl_check_running_average(n, momentum, batch, r));
    if (n == 0)
        return SL_OK;
    uint64_t blocks = SL_MIN(sl_div_up(n, BLOCK), (uint64_t)sl_cuda_processors() * 32);
    SL_LAUNCH(average_running, (unsigned)blocks, BLOCK, 0, n, momentum, batch, r);
    return SL_OK;
}
