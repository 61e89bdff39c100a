/*
 * Batch normalisation: column sums of a tall matrix (dense.cuh), then one pass that scales.
 *
 * As in cpu/ the first row is subtracted before anything is summed, and the sums are in f64: the
 * differences of two f32 numbers and their products fit it almost exactly, so that a mean that is
 * large beside the deviation costs no digits and one pass over x is as good as two. The mean that
 * the second pass subtracts is kept in two f32 parts.
 *
 * Passes: forward reads x twice and writes y (12 bytes an element); backward reads x and dy twice
 * and writes dx (20). No element of a result is known before all of its column was seen, so these
 * are floors, but for what the second reading finds in the second-level cache. The f64 sums take 3
 * operations an element: little beside the memory on a data-centre GPU, and about its time on one
 * with a 64th of f64 units.
 *
 * Between the passes a thread a column makes the factors. The caller's pool holds two f64 sums a
 * column and segment (2 MiB, or 16 bytes a column if that is more) and three f32 factors a column.
 */
#include "kernels/cuda/dense.cuh"

#include "kernels/check.h"

// ---- column sums --------------------------------------------------------------------------------

struct moments {
    const float *x;
    const float *dy;    // NULL in forward
    const float *shift; // (dim) what is subtracted from x
    double *sum;        // (segments, dim) of x - shift; of dy in backward
    double *product;    // (segments, dim) of (x - shift)^2; of dy (x - shift) in backward
};

template <bool ALIGNED, bool BACKWARD>
__global__ void sum_moments(struct sl_columns g, struct moments m)
{
    __shared__ double shared[4 * SL_BLOCK];
    struct sl_column_place at = sl_place<ALIGNED>(g);
    double sum[4] = {0.0, 0.0, 0.0, 0.0}, product[4] = {0.0, 0.0, 0.0, 0.0};
    float shift[4];
    sl_load_columns<ALIGNED>(g, at, m.shift, shift);
#pragma unroll 2
    for (uint64_t r = at.begin + at.y; r < at.end; r += at.ty) {
        float x[4], dy[4];
        sl_load_columns<ALIGNED>(g, at, m.x + r * g.dim, x);
        if (BACKWARD)
            sl_load_columns<ALIGNED>(g, at, m.dy + r * g.dim, dy);
#pragma unroll
        for (uint32_t j = 0; j < 4; j++) {
            double d = (double)x[j] - (double)shift[j], by = BACKWARD ? (double)dy[j] : d;
            sum[j] += by;
            product[j] += by * d;
        }
    }
    sl_block_columns(g, at, sum, shared);
    sl_store_partial<ALIGNED>(g, at, sum, m.sum);
    sl_block_columns(g, at, product, shared);
    sl_store_partial<ALIGNED>(g, at, product, m.product);
}

// All of x, dy and so on are aligned and rows keep them so.
template <typename... E> static bool in_fours(uint32_t dim, const E *...array)
{
    return dim % 4 == 0 && sl_aligned16(array...);
}

static int take_moments(const char *op, const struct sl_columns *g, struct moments *m,
                        struct sl_mempool *ws)
{
    uint64_t count = (uint64_t)g->segments * g->dim;
    m->sum = static_cast<double *>(sl_mempool_alloc(ws, 2 * count * sizeof(double)));
    if (!m->sum)
        return sl_fail(SL_ENOMEM, "%s: no device memory for %llu bytes of column sums", op,
                       (unsigned long long)(2 * count * sizeof(double)));
    m->product = m->sum + count;
    bool aligned = in_fours(g->dim, m->x, m->shift, m->dy);
    dim3 grid = sl_columns_grid(g);
    if (m->dy && aligned)
        SL_LAUNCH((sum_moments<true, true>), grid, SL_BLOCK, 0, *g, *m);
    else if (m->dy)
        SL_LAUNCH((sum_moments<false, true>), grid, SL_BLOCK, 0, *g, *m);
    else if (aligned)
        SL_LAUNCH((sum_moments<true, false>), grid, SL_BLOCK, 0, *g, *m);
    else
        SL_LAUNCH((sum_moments<false, false>), grid, SL_BLOCK, 0, *g, *m);
    return SL_OK;
}

// ---- factors ------------------------------------------------------------------------------------

struct norm_factors {
    uint64_t rows;
    float eps;
    const float *first, *gamma;       // (dim) first: the row that was subtracted
    float *mean, *inverse, *variance; // out (dim)
    float *rest, *factor;             // out (dim) what the mean lacks; gamma / deviation

    __device__ void operator()(uint32_t c, double sum, double product) const
    {
        double n = (double)rows, from_first = sum / n;
        double squares = product - sum * from_first;
        squares = squares < 0.0 ? 0.0 : squares; // of rounding; a NaN stays
        double exact = (double)first[c] + from_first;
        double scale = 1.0 / sqrt(squares / n + (double)eps);
        mean[c] = (float)exact;
        inverse[c] = (float)scale;
        variance[c] = (float)(squares / (rows > 1 ? n - 1.0 : 1.0));
        rest[c] = (float)(exact - (double)(float)exact);
        factor[c] = (float)(scale * (double)gamma[c]);
    }
};

struct norm_gradient_factors {
    uint64_t rows;
    const float *gamma, *inverse;
    float *factor, *dy_mean, *share; // out (dim)
    float *dgamma, *dbeta;           // (dim) +=, or NULL

    __device__ void operator()(uint32_t c, double sum, double product) const
    {
        double scale = inverse[c], normal = product * scale;
        factor[c] = (float)((double)gamma[c] * scale);
        dy_mean[c] = (float)(sum / (double)rows);
        share[c] = (float)(normal * scale / (double)rows);
        if (dgamma) {
            dgamma[c] += (float)normal;
            dbeta[c] += (float)sum;
        }
    }
};

// ---- the passes that scale ----------------------------------------------------------------------

// Columns' numbers stay in registers while a thread goes down its segment of the rows.
struct column_scale {
    const float *x, *dy;          // dy in backward
    float *y;                     // x or dy may be this one
    const float *mean, *rest;     // (dim); rest in forward
    const float *factor;          // (dim)
    const float *addend;          // (dim) forward
    const float *dy_mean, *share; // (dim) backward
};

template <bool ALIGNED>
static __global__ void scale_forward(struct sl_columns g, struct column_scale s)
{
    struct sl_column_place at = sl_place<ALIGNED>(g);
    float mean[4], rest[4], factor[4], addend[4];
    sl_load_columns<ALIGNED>(g, at, s.mean, mean);
    sl_load_columns<ALIGNED>(g, at, s.rest, rest);
    sl_load_columns<ALIGNED>(g, at, s.factor, factor);
    sl_load_columns<ALIGNED>(g, at, s.addend, addend);
#pragma unroll 4
    for (uint64_t r = at.begin + at.y; r < at.end; r += at.ty) {
        float x[4];
        sl_load_columns<ALIGNED>(g, at, s.x + r * g.dim, x);
#pragma unroll
        for (uint32_t j = 0; j < 4; j++)
            x[j] = ((x[j] - mean[j]) - rest[j]) * factor[j] + addend[j];
        sl_store_columns<ALIGNED>(g, at, s.y + r * g.dim, x);
    }
}

template <bool ALIGNED>
static __global__ void scale_backward(struct sl_columns g, struct column_scale s)
{
    struct sl_column_place at = sl_place<ALIGNED>(g);
    float mean[4], factor[4], dy_mean[4], share[4];
    sl_load_columns<ALIGNED>(g, at, s.mean, mean);
    sl_load_columns<ALIGNED>(g, at, s.factor, factor);
    sl_load_columns<ALIGNED>(g, at, s.dy_mean, dy_mean);
    sl_load_columns<ALIGNED>(g, at, s.share, share);
#pragma unroll 2
    for (uint64_t r = at.begin + at.y; r < at.end; r += at.ty) {
        float x[4], dy[4];
        sl_load_columns<ALIGNED>(g, at, s.x + r * g.dim, x);
        sl_load_columns<ALIGNED>(g, at, s.dy + r * g.dim, dy);
#pragma unroll
        for (uint32_t j = 0; j < 4; j++)
            dy[j] = factor[j] * ((dy[j] - dy_mean[j]) - (x[j] - mean[j]) * share[j]);
        sl_store_columns<ALIGNED>(g, at, s.y + r * g.dim, dy);
    }
}

template <bool ALIGNED>
static __global__ void scale_in_place(struct sl_columns g, float *x, const float *scale,
                                      const float *shift)
{
    struct sl_column_place at = sl_place<ALIGNED>(g);
    float factor[4], addend[4];
    sl_load_columns<ALIGNED>(g, at, scale, factor);
    sl_load_columns<ALIGNED>(g, at, shift, addend);
#pragma unroll 4
    for (uint64_t r = at.begin + at.y; r < at.end; r += at.ty) {
        float v[4];
        sl_load_columns<ALIGNED>(g, at, x + r * g.dim, v);
#pragma unroll
        for (uint32_t j = 0; j < 4; j++)
            v[j] = v[j] * factor[j] + addend[j];
        sl_store_columns<ALIGNED>(g, at, x + r * g.dim, v);
    }
}

// Three arrays of (dim) for the factors, each aligned to 16 bytes.
static int take_factors(const char *op, uint32_t dim, struct sl_mempool *ws, float *(&out)[3])
{
    uint64_t stride = ((uint64_t)dim + 3) / 4 * 4;
    out[0] = static_cast<float *>(sl_mempool_alloc(ws, 3 * stride * sizeof(float)));
    if (!out[0])
        return sl_fail(SL_ENOMEM, "%s: no device memory for factors of %u columns", op, dim);
    out[1] = out[0] + stride;
    out[2] = out[1] + stride;
    return SL_OK;
}

int sl_cuda_batch_norm(const struct sl_norm_args *args, struct sl_mempool *ws)
{
    SL_TRY(sl_check_batch_norm(args, ws));
    struct sl_columns g = sl_columns_of(args->rows, args->dim);
    struct moments m = {args->x, nullptr, args->x, nullptr, nullptr};
    float *space[3] = {};
    SL_TRY(take_moments("batch_norm", &g, &m, ws));
    SL_TRY(take_factors("batch_norm", args->dim, ws, space));
    struct norm_factors finish = {args->rows,    args->eps,      args->x,  args->gamma, args->mean,
                                  args->inverse, args->variance, space[0], space[1]};
    SL_LAUNCH((sl_finish_columns<double, struct norm_factors>), sl_finish_blocks(args->dim),
              SL_BLOCK, 0, m.sum, m.product, g.segments, args->dim, finish);
    struct column_scale s = {};
    s.x = args->x;
    s.y = args->y;
    s.mean = args->mean;
    s.rest = space[0];
    s.factor = space[1];
    s.addend = args->beta;
    bool aligned = in_fours(args->dim, s.x, s.y, s.mean, s.addend, s.factor, s.rest);
    SL_LAUNCH_ALIGNED(aligned, scale_forward, sl_columns_grid(&g), SL_BLOCK, 0, g, s);
    return SL_OK;
}

int sl_cuda_batch_norm_backward(const struct sl_norm_grad_args *args, struct sl_mempool *ws)
{
    SL_TRY(sl_check_batch_norm_backward(args, ws));
    struct sl_columns g = sl_columns_of(args->rows, args->dim);
    struct moments m = {args->x, args->dy, args->mean, nullptr, nullptr};
    float *space[3] = {};
    SL_TRY(take_moments("batch_norm_backward", &g, &m, ws));
    SL_TRY(take_factors("batch_norm_backward", args->dim, ws, space));
    struct norm_gradient_factors finish = {args->rows, args->gamma, args->inverse, space[0],
                                           space[1],   space[2],    args->dgamma,  args->dbeta};
    SL_LAUNCH((sl_finish_columns<double, struct norm_gradient_factors>),
              sl_finish_blocks(args->dim), SL_BLOCK, 0, m.sum, m.product, g.segments, args->dim,
              finish);
    struct column_scale s = {};
    s.x = args->x;
    s.dy = args->dy;
    s.y = args->dx;
    s.mean = args->mean;
    s.factor = space[0];
    s.dy_mean = space[1];
    s.share = space[2];
    bool aligned = in_fours(args->dim, s.x, s.y, s.mean, s.dy, s.factor, s.dy_mean, s.share);
    SL_LAUNCH_ALIGNED(aligned, scale_backward, sl_columns_grid(&g), SL_BLOCK, 0, g, s);
    return SL_OK;
}

int sl_cuda_scale_columns(float *x, uint64_t rows, uint32_t dim, const float *scale,
                          const float *shift)
{
    SL_TRY(sl_check_scale_columns(x, rows, dim, scale, shift));
    if (rows == 0)
        return SL_OK;
    struct sl_columns g = sl_columns_of(rows, dim);
    SL_LAUNCH_ALIGNED(in_fours(dim, x, scale, shift), scale_in_place, sl_columns_grid(&g), SL_BLOCK,
                      0, g, x, scale, shift);
    return SL_OK;
}
