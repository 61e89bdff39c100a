/*
 * Batch normalisation: column sums of a tall matrix, then one pass that scales.
 *
 * Sums of x and of x^2 cancel where the mean is large beside the deviation (1e4 and 1: all digits
 * of an f32 sum of squares are gone). Here the first row is subtracted before anything is summed,
 * and f64 holds the differences of two f32 numbers and the products of these almost exactly; one
 * pass over x is then as good as two. Such a mean does not fit an f32 either, so the pass that
 * scales subtracts it in two parts. Backward gets the f32 mean alone, as torch's does.
 *
 * The sums are taken in SEGMENTS row ranges that depend on the number of rows alone and that are
 * added in order: the result does not depend on the number of threads. Their space (at most
 * SEGMENTS * 2 * dim f64) is the caller's pool's.
 */
#include "kernels/kernels_internal.h"

#include <math.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "kernels/check.h"
#include "kernels/cpu/cpu_internal.h"

enum { SEGMENTS = 16, SEGMENT_ROWS_MIN = 64, GRAIN_ELEMENTS = 1 << 14 };

// ---- column sums --------------------------------------------------------------------------------

struct sums {
    const float *x;
    const float *dy;    // NULL in forward
    const float *shift; // (dim) what is subtracted from x
    uint64_t rows;
    uint32_t dim;
    uint32_t n_segments;
    double *sum;     // (n_segments, dim) of x - shift; of dy in backward
    double *product; // (n_segments, dim) of (x - shift)^2; of dy (x - shift) in backward
};

// Four rows a step, so that the sums are loaded less often.
SL_SIMD_VOID(add_moments,
             (const float *restrict x, uint64_t rows, uint32_t dim, const float *restrict shift,
              double *restrict sum, double *restrict product),
             (x, rows, dim, shift, sum, product))
{
    uint64_t r = 0;
    for (; r + 4 <= rows; r += 4, x += 4 * (uint64_t)dim) {
        const float *x1 = x + dim, *x2 = x1 + dim, *x3 = x2 + dim;
        for (uint32_t c = 0; c < dim; c++) {
            double s = shift[c], d0 = x[c] - s, d1 = x1[c] - s, d2 = x2[c] - s, d3 = x3[c] - s;
            sum[c] += (d0 + d1) + (d2 + d3);
            product[c] += (d0 * d0 + d1 * d1) + (d2 * d2 + d3 * d3);
        }
    }
    for (; r < rows; r++, x += dim)
        for (uint32_t c = 0; c < dim; c++) {
            double d = (double)x[c] - (double)shift[c];
            sum[c] += d;
            product[c] += d * d;
        }
}

SL_SIMD_VOID(add_products,
             (const float *restrict x, const float *restrict dy, uint64_t rows, uint32_t dim,
              const float *restrict shift, double *restrict sum, double *restrict product),
             (x, dy, rows, dim, shift, sum, product))
{
    uint64_t r = 0;
    for (; r + 2 <= rows; r += 2, x += 2 * (uint64_t)dim, dy += 2 * (uint64_t)dim) {
        const float *x1 = x + dim, *dy1 = dy + dim;
        for (uint32_t c = 0; c < dim; c++) {
            double s = shift[c], g0 = dy[c], g1 = dy1[c];
            sum[c] += g0 + g1;
            product[c] += g0 * (x[c] - s) + g1 * (x1[c] - s);
        }
    }
    for (; r < rows; r++, x += dim, dy += dim)
        for (uint32_t c = 0; c < dim; c++) {
            double g = dy[c];
            sum[c] += g;
            product[c] += g * ((double)x[c] - (double)shift[c]);
        }
}

static void sum_segment(void *context, uint32_t segment)
{
    const struct sums *s = context;
    uint64_t begin = s->rows * segment / s->n_segments;
    uint64_t rows = s->rows * (segment + 1) / s->n_segments - begin;
    double *sum = s->sum + (uint64_t)segment * s->dim;
    double *product = s->product + (uint64_t)segment * s->dim;
    const float *x = s->x + begin * s->dim;
    memset(sum, 0, s->dim * sizeof *sum);
    memset(product, 0, s->dim * sizeof *product);
    if (s->dy)
        add_products(x, s->dy + begin * s->dim, rows, s->dim, s->shift, sum, product);
    else
        add_moments(x, rows, s->dim, s->shift, sum, product);
}

// Leaves the totals in the first segment's places.
static int take_sums(const char *op, struct sums *s, struct sl_mempool *ws)
{
    s->n_segments = (uint32_t)SL_MIN(SL_MAX(s->rows / SEGMENT_ROWS_MIN, 1), SEGMENTS);
    uint64_t count = (uint64_t)s->n_segments * s->dim;
    s->sum = sl_mempool_alloc(ws, 2 * count * sizeof *s->sum);
    if (!s->sum)
        return sl_fail(SL_ENOMEM, "%s: no memory for %llu bytes of column sums", op,
                       (unsigned long long)(2 * count * sizeof *s->sum));
    s->product = s->sum + count;
    sl_cpu_parallel_parts(s->n_segments, sum_segment, s);
    for (uint64_t i = s->dim; i < count; i++) {
        s->sum[i % s->dim] += s->sum[i];
        s->product[i % s->dim] += s->product[i];
    }
    return SL_OK;
}

// ---- the passes that scale ----------------------------------------------------------------------

struct scale {
    const float *x, *dy;
    float *y; // x or dy may be this one
    uint32_t dim;
    const float *mean;              // (dim) forward and backward
    const float *rest;              // (dim) of the mean, in forward
    const float *factor, *addend;   // (dim)
    const float *dy_mean, *x_share; // (dim) in backward
};

// The loops' arrays are the same or apart, never shifted: `simd` says that to the compiler.
SL_CPU_RANGE(run_scale)
{
    const struct scale *s = context;
    const float *mean = s->mean, *rest = s->rest, *factor = s->factor, *addend = s->addend;
    uint32_t dim = s->dim;
    for (uint64_t r = begin; r < end; r++) {
        const float *x = s->x + r * dim;
        float *y = s->y + r * dim;
#pragma omp simd
        for (uint32_t c = 0; c < dim; c++)
            y[c] = ((x[c] - mean[c]) - rest[c]) * factor[c] + addend[c];
    }
}

SL_CPU_RANGE(run_scale_gradient)
{
    const struct scale *s = context;
    const float *mean = s->mean, *factor = s->factor, *dy_mean = s->dy_mean, *share = s->x_share;
    uint32_t dim = s->dim;
    for (uint64_t r = begin; r < end; r++) {
        const float *x = s->x + r * dim, *dy = s->dy + r * dim;
        float *dx = s->y + r * dim;
#pragma omp simd
        for (uint32_t c = 0; c < dim; c++)
            dx[c] = factor[c] * ((dy[c] - dy_mean[c]) - (x[c] - mean[c]) * share[c]);
    }
}

SL_CPU_RANGE(run_scale_in_place)
{
    const struct scale *s = context;
    const float *factor = s->factor, *addend = s->addend;
    uint32_t dim = s->dim;
    for (uint64_t r = begin; r < end; r++) {
        float *y = s->y + r * dim;
#pragma omp simd
        for (uint32_t c = 0; c < dim; c++)
            y[c] = y[c] * factor[c] + addend[c];
    }
}

int sl_cpu_batch_norm(const struct sl_norm_args *args, struct sl_mempool *ws)
{
    SL_TRY(sl_check_batch_norm(args, ws));
    uint64_t rows = args->rows;
    uint32_t dim = args->dim;
    struct sums s = {.x = args->x, .shift = args->x, .rows = rows, .dim = dim};
    SL_TRY(take_sums("batch_norm", &s, ws));
    float *rest = sl_mempool_alloc(ws, 2 * (size_t)dim * sizeof *rest);
    if (!rest)
        return sl_fail(SL_ENOMEM, "batch_norm: no memory for factors of %u columns", dim);
    float *factor = rest + dim;

    for (uint32_t c = 0; c < dim; c++) {
        double n = (double)rows, from_shift = s.sum[c] / n;
        double squares = s.product[c] - s.sum[c] * from_shift;
        squares = squares < 0.0 ? 0.0 : squares; // of rounding; a NaN stays
        double mean = (double)args->x[c] + from_shift;
        double inverse = 1.0 / sqrt(squares / n + (double)args->eps);
        args->mean[c] = (float)mean;
        args->inverse[c] = (float)inverse;
        args->variance[c] = (float)(squares / (rows > 1 ? n - 1.0 : 1.0));
        rest[c] = (float)(mean - (double)args->mean[c]);
        factor[c] = (float)(inverse * (double)args->gamma[c]);
    }
    struct scale scale = {.x = args->x,
                          .y = args->y,
                          .dim = dim,
                          .mean = args->mean,
                          .rest = rest,
                          .factor = factor,
                          .addend = args->beta};
    sl_cpu_parallel_range(rows, GRAIN_ELEMENTS / dim, 1, run_scale, &scale);
    return SL_OK;
}

int sl_cpu_batch_norm_backward(const struct sl_norm_grad_args *args, struct sl_mempool *ws)
{
    SL_TRY(sl_check_batch_norm_backward(args, ws));
    uint64_t rows = args->rows;
    uint32_t dim = args->dim;
    struct sums s = {.x = args->x, .dy = args->dy, .shift = args->mean, .rows = rows, .dim = dim};
    SL_TRY(take_sums("batch_norm_backward", &s, ws));
    float *factor = sl_mempool_alloc(ws, 3 * (size_t)dim * sizeof *factor);
    if (!factor)
        return sl_fail(SL_ENOMEM, "batch_norm_backward: no memory for factors of %u columns", dim);
    float *dy_mean = factor + dim, *share = dy_mean + dim;

    for (uint32_t c = 0; c < dim; c++) {
        double inverse = args->inverse[c], product = s.product[c] * inverse;
        factor[c] = (float)((double)args->gamma[c] * inverse);
        dy_mean[c] = (float)(s.sum[c] / (double)rows);
        share[c] = (float)(product * inverse / (double)rows);
        if (args->dgamma) {
            args->dgamma[c] += (float)product;
            args->dbeta[c] += (float)s.sum[c];
        }
    }
    struct scale scale = {.x = args->x,
                          .dy = args->dy,
                          .y = args->dx,
                          .dim = dim,
                          .mean = args->mean,
                          .factor = factor,
                          .dy_mean = dy_mean,
                          .x_share = share};
    sl_cpu_parallel_range(rows, GRAIN_ELEMENTS / dim, 1, run_scale_gradient, &scale);
    return SL_OK;
}

int sl_cpu_scale_columns(float *x, uint64_t rows, uint32_t dim, const float *scale,
                         const float *shift)
{
    SL_TRY(sl_check_scale_columns(x, rows, dim, scale, shift));
    struct scale s = {.y = x, .dim = dim, .factor = scale, .addend = shift};
    sl_cpu_parallel_range(rows, GRAIN_ELEMENTS / dim, 1, run_scale_in_place, &s);
    return SL_OK;
}
