/*
 * Layer normalisation: everything about a row is done while the row is in the first-level cache.
 *
 * The row's first element is subtracted before anything is summed, so that a mean that is large
 * beside the deviation costs no digits; the deviations are squared in a second pass over the cached
 * row. A row is summed in sixteen lanes and a tail, in an order that depends on its length alone.
 *
 * Backward sums two products over a row for dx, and dgamma and dbeta over the rows on the way. The
 * latter go into SEGMENTS row ranges that depend on the number of rows alone and that are added in
 * order. So nothing depends on the number of threads. The ranges' sums (SEGMENTS * 2 * dim floats
 * at most) are in the caller's pool.
 */
#include "kernels/kernels_internal.h"

#include <math.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "kernels/check.h"
#include "kernels/cpu/cpu_internal.h"
#include "kernels/cpu/vector.h"

enum { SEGMENTS = 16, SEGMENT_ROWS_MIN = 64, GRAIN_ELEMENTS = 1 << 14 };

SL_INLINE float add_lanes(const sl_v16 *v)
{
    float sum = 0.0f;
    for (uint32_t l = 0; l < SL_LANES; l++)
        sum += (*v)[l];
    return sum;
}

// ---- forward ------------------------------------------------------------------------------------

// The row's mean is its first element plus the result.
SL_INLINE float mean_from_first(const float *x, uint32_t dim)
{
    float first = x[0], sum = 0.0f;
    sl_v16 sums = {0};
    uint32_t c = 0;
    for (; c + SL_LANES <= dim; c += SL_LANES)
        sums += *(const sl_v16_at *)(x + c) - first;
    for (; c < dim; c++)
        sum += x[c] - first;
    return (sum + add_lanes(&sums)) / (float)dim;
}

SL_INLINE float variance(const float *x, uint32_t dim, float from_first)
{
    float first = x[0], sum = 0.0f;
    sl_v16 sums = {0};
    uint32_t c = 0;
    for (; c + SL_LANES <= dim; c += SL_LANES) {
        sl_v16 d = (*(const sl_v16_at *)(x + c) - first) - from_first;
        sums += d * d;
    }
    for (; c < dim; c++) {
        float d = (x[c] - first) - from_first;
        sum += d * d;
    }
    return (sum + add_lanes(&sums)) / (float)dim;
}

SL_CPU_RANGE(forward_range)
{
    const struct sl_norm_args *args = context;
    const float *gamma = args->gamma, *beta = args->beta;
    uint32_t dim = args->dim;
    for (uint64_t r = begin; r < end; r++) {
        const float *x = args->x + r * dim;
        float *y = args->y + r * dim; // x itself or apart from it: `simd` says so to the compiler
        float first = x[0], from_first = mean_from_first(x, dim);
        float inverse = 1.0f / sqrtf(variance(x, dim, from_first) + args->eps);
        if (args->mean) {
            args->mean[r] = first + from_first;
            args->inverse[r] = inverse;
        }
#pragma omp simd
        for (uint32_t c = 0; c < dim; c++)
            y[c] = ((x[c] - first) - from_first) * inverse * gamma[c] + beta[c];
    }
}

int sl_cpu_layer_norm(const struct sl_norm_args *args)
{
    SL_TRY(sl_check_layer_norm(args));
    struct sl_norm_args copy = *args;
    sl_cpu_parallel_range(args->rows, GRAIN_ELEMENTS / args->dim, 1, forward_range, &copy);
    return SL_OK;
}

// ---- backward -----------------------------------------------------------------------------------

struct backward {
    const struct sl_norm_grad_args *args;
    uint32_t n_segments;
    float *dgamma, *dbeta; // (n_segments, dim)
};

// One row: its share of dgamma and dbeta, and the sums of dy gamma and of dy gamma normal.
SL_INLINE void row_sums(const struct sl_norm_grad_args *a, uint64_t r, float *restrict dgamma,
                        float *restrict dbeta, float *sum, float *product)
{
    const float *x = a->x + r * a->dim, *dy = a->dy + r * a->dim, *gamma = a->gamma;
    float mean = a->mean[r], inverse = a->inverse[r], tail_sum = 0.0f, tail_product = 0.0f;
    sl_v16 sums = {0}, products = {0};
    uint32_t c = 0;
    for (; c + SL_LANES <= a->dim; c += SL_LANES) {
        sl_v16 normal = (*(const sl_v16_at *)(x + c) - mean) * inverse;
        sl_v16 g = *(const sl_v16_at *)(dy + c), dnormal = g * *(const sl_v16_at *)(gamma + c);
        *(sl_v16_at *)(dgamma + c) += g * normal;
        *(sl_v16_at *)(dbeta + c) += g;
        sums += dnormal;
        products += dnormal * normal;
    }
    for (; c < a->dim; c++) {
        float normal = (x[c] - mean) * inverse, dnormal = dy[c] * gamma[c];
        dgamma[c] += dy[c] * normal;
        dbeta[c] += dy[c];
        tail_sum += dnormal;
        tail_product += dnormal * normal;
    }
    *sum = tail_sum + add_lanes(&sums);
    *product = tail_product + add_lanes(&products);
}

SL_SIMD_VOID(backward_span,
             (const struct sl_norm_grad_args *a, uint64_t begin, uint64_t end, float *dgamma,
              float *dbeta),
             (a, begin, end, dgamma, dbeta))
{
    const float *gamma = a->gamma;
    uint32_t dim = a->dim;
    for (uint64_t r = begin; r < end; r++) {
        const float *x = a->x + r * dim, *dy = a->dy + r * dim;
        float *dx = a->dx + r * dim; // dy itself or apart from it
        float mean = a->mean[r], inverse = a->inverse[r], sum, product;
        row_sums(a, r, dgamma, dbeta, &sum, &product);
        float dnormal_mean = sum / (float)dim, share = product / (float)dim * inverse;
#pragma omp simd
        for (uint32_t c = 0; c < dim; c++)
            dx[c] = inverse * ((dy[c] * gamma[c] - dnormal_mean) - (x[c] - mean) * share);
    }
}

static void backward_segment(void *context, uint32_t segment)
{
    const struct backward *b = context;
    uint64_t rows = b->args->rows;
    float *dgamma = b->dgamma + (uint64_t)segment * b->args->dim;
    float *dbeta = b->dbeta + (uint64_t)segment * b->args->dim;
    memset(dgamma, 0, b->args->dim * sizeof *dgamma);
    memset(dbeta, 0, b->args->dim * sizeof *dbeta);
    backward_span(b->args, rows * segment / b->n_segments, rows * (segment + 1) / b->n_segments,
                  dgamma, dbeta);
}

int sl_cpu_layer_norm_backward(const struct sl_norm_grad_args *args, struct sl_mempool *ws)
{
    SL_TRY(sl_check_layer_norm_backward(args, ws));
    uint32_t dim = args->dim;
    struct backward b = {.args = args};
    b.n_segments = (uint32_t)SL_MIN(SL_MAX(args->rows / SEGMENT_ROWS_MIN, 1), SEGMENTS);
    uint64_t count = (uint64_t)b.n_segments * dim;
    b.dgamma = sl_mempool_alloc(ws, 2 * count * sizeof *b.dgamma);
    if (!b.dgamma)
        return sl_fail(SL_ENOMEM, "layer_norm_backward: no memory for %llu bytes of column sums",
                       (unsigned long long)(2 * count * sizeof *b.dgamma));
    b.dbeta = b.dgamma + count;
    sl_cpu_parallel_parts(b.n_segments, backward_segment, &b);
    for (uint64_t i = dim; i < count; i++) {
        b.dgamma[i % dim] += b.dgamma[i];
        b.dbeta[i % dim] += b.dbeta[i];
    }
    for (uint32_t c = 0; c < dim; c++) {
        args->dgamma[c] += b.dgamma[c];
        args->dbeta[c] += b.dbeta[c];
    }
    return SL_OK;
}
