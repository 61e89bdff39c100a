/*
 * Layer normalisation: a warp a row, read three times while it is in the first-level cache.
 *
 * The row's first element is subtracted before anything is summed, so that a mean that is large
 * beside the deviation costs no digits; the deviations are squared in a second reading. A row is
 * added up in 32 lanes, four columns side by side each, and a tree: in an order that depends on its
 * length alone. Aligned to 16 bytes a lane's four are one load.
 *
 * Passes over device memory: forward reads x and writes y, its floor. Backward adds up dgamma and
 * dbeta by columns (dense.cuh) in one pass over x and dy, and makes dx in a second: 20 bytes an
 * element against a floor of 12. One pass would need two sums a column in every thread, so that
 * long rows would not fit the registers; what fits the second-level cache is read from there.
 */
#include "kernels/cuda/dense.cuh"

#include <math.h>

#include "kernels/check.h"

enum { ROWS_A_BLOCK = SL_BLOCK / SL_WARP };

static inline uint32_t row_blocks(uint64_t rows)
{
    uint64_t wanted = (rows + ROWS_A_BLOCK - 1) / ROWS_A_BLOCK;
    return (uint32_t)SL_MIN(wanted, (uint64_t)16 * sl_cuda_processors());
}

// A lane's columns: `for (c = first_column(); c < dim; c += COLUMN_STEP)`, four from c on.
enum { COLUMN_STEP = 4 * SL_WARP };

static __device__ __forceinline__ uint32_t first_column(void)
{
    return threadIdx.x % SL_WARP * 4;
}

// ---- forward ------------------------------------------------------------------------------------

template <bool ALIGNED> static __global__ void layer_norm_rows(struct sl_norm_args a)
{
    uint64_t row = (uint64_t)blockIdx.x * ROWS_A_BLOCK + threadIdx.x / SL_WARP;
    uint32_t lane = threadIdx.x % SL_WARP;
    for (; row < a.rows; row += (uint64_t)gridDim.x * ROWS_A_BLOCK) {
        const float *x = a.x + row * a.dim;
        float *y = a.y + row * a.dim, v[4], gamma[4], beta[4], sum = 0.0f, squares = 0.0f;
        // From one lane: y may be x, and the lanes do not wait for each other to write.
        float first = __shfl_sync(SL_FULL_MASK, lane == 0 ? x[0] : 0.0f, 0);
        for (uint32_t c = first_column(); c < a.dim; c += COLUMN_STEP) {
            uint32_t width = sl_group_width(c, a.dim);
            sl_load4<ALIGNED>(x + c, width, v);
#pragma unroll
            for (uint32_t j = 0; j < 4; j++)
                sum += j < width ? v[j] - first : 0.0f;
        }
        float from_first = sl_lanes_sum<SL_WARP>(sum) / (float)a.dim;
        for (uint32_t c = first_column(); c < a.dim; c += COLUMN_STEP) {
            uint32_t width = sl_group_width(c, a.dim);
            sl_load4<ALIGNED>(x + c, width, v);
#pragma unroll
            for (uint32_t j = 0; j < 4; j++) {
                float d = j < width ? (v[j] - first) - from_first : 0.0f;
                squares += d * d;
            }
        }
        float inverse = 1.0f / sqrtf(sl_lanes_sum<SL_WARP>(squares) / (float)a.dim + a.eps);
        if (lane == 0 && a.mean) {
            a.mean[row] = first + from_first;
            a.inverse[row] = inverse;
        }
        for (uint32_t c = first_column(); c < a.dim; c += COLUMN_STEP) {
            uint32_t width = sl_group_width(c, a.dim);
            sl_load4<ALIGNED>(x + c, width, v);
            sl_load4<ALIGNED>(a.gamma + c, width, gamma);
            sl_load4<ALIGNED>(a.beta + c, width, beta);
#pragma unroll
            for (uint32_t j = 0; j < 4; j++)
                v[j] = ((v[j] - first) - from_first) * inverse * gamma[j] + beta[j];
            sl_store4<ALIGNED>(y + c, width, v);
        }
    }
}

int sl_cuda_layer_norm(const struct sl_norm_args *args)
{
    SL_TRY(sl_check_layer_norm(args));
    if (args->rows == 0)
        return SL_OK;
    bool aligned = args->dim % 4 == 0 && sl_aligned16(args->x, args->y, args->gamma, args->beta);
    SL_LAUNCH_ALIGNED(aligned, layer_norm_rows, row_blocks(args->rows), SL_BLOCK, 0, *args);
    return SL_OK;
}

// ---- backward -----------------------------------------------------------------------------------

struct add_to_parameters {
    float *dgamma, *dbeta;

    __device__ void operator()(uint32_t column, float product, float sum) const
    {
        dgamma[column] += product;
        dbeta[column] += sum;
    }
};

// dgamma and dbeta of each segment: (segments, dim).
template <bool ALIGNED>
__global__ void sum_parameters(struct sl_columns g, struct sl_norm_grad_args a, float *dgamma,
                               float *dbeta)
{
    __shared__ float shared[4 * SL_BLOCK];
    struct sl_column_place at = sl_place<ALIGNED>(g);
    float products[4] = {0.0f, 0.0f, 0.0f, 0.0f}, sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll 2
    for (uint64_t r = at.begin + at.y; r < at.end; r += at.ty) {
        float x[4], dy[4], mean = a.mean[r], inverse = a.inverse[r];
        sl_load_columns<ALIGNED>(g, at, a.x + r * g.dim, x);
        sl_load_columns<ALIGNED>(g, at, a.dy + r * g.dim, dy);
#pragma unroll
        for (uint32_t j = 0; j < 4; j++) {
            products[j] += dy[j] * ((x[j] - mean) * inverse);
            sums[j] += dy[j];
        }
    }
    sl_block_columns(g, at, products, shared);
    sl_store_partial<ALIGNED>(g, at, products, dgamma);
    sl_block_columns(g, at, sums, shared);
    sl_store_partial<ALIGNED>(g, at, sums, dbeta);
}

template <bool ALIGNED> static __global__ void layer_norm_gradient_rows(struct sl_norm_grad_args a)
{
    uint64_t row = (uint64_t)blockIdx.x * ROWS_A_BLOCK + threadIdx.x / SL_WARP;
    for (; row < a.rows; row += (uint64_t)gridDim.x * ROWS_A_BLOCK) {
        const float *x = a.x + row * a.dim, *dy = a.dy + row * a.dim;
        float *dx = a.dx + row * a.dim, mean = a.mean[row], inverse = a.inverse[row];
        float v[4], g[4], gamma[4], sum = 0.0f, product = 0.0f;
        for (uint32_t c = first_column(); c < a.dim; c += COLUMN_STEP) {
            uint32_t width = sl_group_width(c, a.dim);
            sl_load4<ALIGNED>(x + c, width, v);
            sl_load4<ALIGNED>(dy + c, width, g);
            sl_load4<ALIGNED>(a.gamma + c, width, gamma);
#pragma unroll
            for (uint32_t j = 0; j < 4; j++) {
                float dnormal = g[j] * gamma[j];
                sum += dnormal;
                product += dnormal * ((v[j] - mean) * inverse);
            }
        }
        float dnormal_mean = sl_lanes_sum<SL_WARP>(sum) / (float)a.dim;
        float share = sl_lanes_sum<SL_WARP>(product) / (float)a.dim * inverse;
        for (uint32_t c = first_column(); c < a.dim; c += COLUMN_STEP) {
            uint32_t width = sl_group_width(c, a.dim);
            sl_load4<ALIGNED>(x + c, width, v);
            sl_load4<ALIGNED>(dy + c, width, g);
            sl_load4<ALIGNED>(a.gamma + c, width, gamma);
#pragma unroll
            for (uint32_t j = 0; j < 4; j++)
                g[j] = inverse * ((g[j] * gamma[j] - dnormal_mean) - (v[j] - mean) * share);
            sl_store4<ALIGNED>(dx + c, width, g);
        }
    }
}

static int launch_parameters(const struct sl_norm_grad_args *args, bool aligned,
                             struct sl_mempool *ws)
{
    struct sl_columns g = sl_columns_of(args->rows, args->dim);
    uint64_t count = (uint64_t)g.segments * g.dim;
    float *dgamma = static_cast<float *>(sl_mempool_alloc(ws, 2 * count * sizeof(float)));
    if (!dgamma)
        return sl_fail(SL_ENOMEM,
                       "layer_norm_backward: no device memory for %llu bytes of column sums",
                       (unsigned long long)(2 * count * sizeof(float)));
    float *dbeta = dgamma + count;
    SL_LAUNCH_ALIGNED(aligned, sum_parameters, sl_columns_grid(&g), SL_BLOCK, 0, g, *args, dgamma,
                      dbeta);
    struct add_to_parameters add = {args->dgamma, args->dbeta};
    SL_LAUNCH((sl_finish_columns<float, struct add_to_parameters>), sl_finish_blocks(g.dim),
              SL_BLOCK, 0, dgamma, dbeta, g.segments, g.dim, add);
    return SL_OK;
}

int sl_cuda_layer_norm_backward(const struct sl_norm_grad_args *args, struct sl_mempool *ws)
{
    SL_TRY(sl_check_layer_norm_backward(args, ws));
    if (args->rows == 0)
        return SL_OK;
    bool aligned = args->dim % 4 == 0 && sl_aligned16(args->x, args->dy, args->dx, args->gamma);
    // First, since dx may be dy.
    SL_TRY(launch_parameters(args, aligned, ws));
    SL_LAUNCH_ALIGNED(aligned, layer_norm_gradient_rows, row_blocks(args->rows), SL_BLOCK, 0,
                      *args);
    return SL_OK;
}
