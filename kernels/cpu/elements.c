/*
 * What layers do element by element, and between heads and rows: one pass each.
 *
 * Functions that give single elements of the parameters' gradient or of inference are plain loops
 * without SL_SIMD: a fused multiply-add where the processor has one would give other bits on other
 * processors, and none of these is long. add_dot is one sum in f64 in the order of the elements.
 */
#include "kernels/kernels_internal.h"

#include <math.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "kernels/check.h"
#include "kernels/cpu/cpu_internal.h"

enum { GRAIN = 1 << 14 };

// Rows of so many elements that a thread is worth it.
static uint64_t grain_rows(uint64_t columns)
{
    return SL_MAX(GRAIN / columns, 1);
}

// ---- heads --------------------------------------------------------------------------------------

int sl_cpu_block_diagonal(const float *a, uint32_t heads, uint32_t width, float *matrix)
{
    SL_TRY(sl_check_block_diagonal(a, heads, width, matrix));
    uint64_t columns = (uint64_t)heads * width;
    memset(matrix, 0, heads * columns * sizeof *matrix);
    for (uint64_t h = 0; h < heads; h++)
        memcpy(matrix + h * columns + h * width, a + h * width, width * sizeof *matrix);
    return SL_OK;
}

int sl_cpu_add_block_diagonal(const float *matrix, uint32_t heads, uint32_t width, float *a)
{
    SL_TRY(sl_check_add_block_diagonal(matrix, heads, width, a));
    uint64_t columns = (uint64_t)heads * width;
    for (uint64_t h = 0; h < heads; h++)
        for (uint64_t c = 0; c < width; c++)
            a[h * width + c] += matrix[h * columns + h * width + c];
    return SL_OK;
}

struct heads {
    const float *x;
    float *y;
    uint32_t heads, width;
    float scale, beta;
};

SL_CPU_RANGE(run_sum_heads)
{
    const struct heads *j = context;
    const uint64_t heads = j->heads, width = j->width;
    const float scale = j->scale;
    for (uint64_t i = begin; i < end; i++) {
        float *restrict y = j->y + i * width;
        if (j->beta == 0.0f)
            for (uint64_t c = 0; c < width; c++)
                y[c] = 0.0f;
        for (uint64_t h = 0; h < heads; h++) {
            const float *restrict x = j->x + (i * heads + h) * width;
            for (uint64_t c = 0; c < width; c++)
                y[c] += scale * x[c];
        }
    }
}

SL_CPU_RANGE(run_spread_heads)
{
    const struct heads *j = context;
    const uint64_t heads = j->heads, width = j->width;
    const float scale = j->scale;
    for (uint64_t i = begin; i < end; i++)
        for (uint64_t h = 0; h < heads; h++) {
            const float *restrict x = j->x + i * width;
            float *restrict y = j->y + (i * heads + h) * width;
            for (uint64_t c = 0; c < width; c++)
                y[c] = scale * x[c];
        }
}

int sl_cpu_sum_heads(const float *x, uint64_t rows, uint32_t heads, uint32_t width, float scale,
                     float beta, float *y)
{
    SL_TRY(sl_check_sum_heads(x, rows, heads, width, scale, beta, y));
    struct heads j = {.x = x, .y = y, .heads = heads, .width = width, .scale = scale, .beta = beta};
    sl_cpu_parallel_range(rows, grain_rows((uint64_t)heads * width), 1, run_sum_heads, &j);
    return SL_OK;
}

int sl_cpu_spread_heads(const float *x, uint64_t rows, uint32_t heads, uint32_t width, float scale,
                        float *y)
{
    SL_TRY(sl_check_spread_heads(x, rows, heads, width, scale, y));
    struct heads j = {.x = x, .y = y, .heads = heads, .width = width, .scale = scale};
    sl_cpu_parallel_range(rows, grain_rows((uint64_t)heads * width), 1, run_spread_heads, &j);
    return SL_OK;
}

// ---- a learned number and where it is used ------------------------------------------------------

struct scaled {
    const float *x;
    float *y;
    float factor;
};

static void fill_range(void *context, uint64_t begin, uint64_t end)
{
    const struct scaled *s = context;
    for (uint64_t i = begin; i < end; i++)
        s->y[i] = s->factor;
}

static void add_scaled_range(void *context, uint64_t begin, uint64_t end)
{
    const struct scaled *s = context;
    const float factor = s->factor, *restrict x = s->x;
    float *restrict y = s->y;
    for (uint64_t i = begin; i < end; i++)
        y[i] += factor * x[i];
}

int sl_cpu_fill_sum(uint64_t n, float c, const float *a, float *y)
{
    SL_TRY(sl_check_fill_sum(n, c, a, y));
    struct scaled s = {.y = y, .factor = c + *a};
    sl_cpu_parallel_range(n, GRAIN, 16, fill_range, &s);
    return SL_OK;
}

int sl_cpu_add_scaled(uint64_t n, float c, const float *a, const float *x, float *y)
{
    SL_TRY(sl_check_add_scaled(n, c, a, x, y));
    struct scaled s = {.x = x, .y = y, .factor = c + *a};
    sl_cpu_parallel_range(n, GRAIN, 16, add_scaled_range, &s);
    return SL_OK;
}

int sl_cpu_add_dot(uint64_t n, const float *x, const float *y, float *sum, struct sl_mempool *ws)
{
    (void)ws;
    SL_TRY(sl_check_add_dot(n, x, y, sum, ws));
    double dot = 0;
    for (uint64_t i = 0; i < n; i++)
        dot += (double)x[i] * (double)y[i];
    *sum += (float)dot;
    return SL_OK;
}

// ---- maximum ------------------------------------------------------------------------------------

struct maximum {
    const float *x;
    float *y;
    const float *const *h;
    uint32_t layer;
    const float *max, *dmax;
};

SL_SIMD_VOID(maximum_span, (const float *restrict x, float *restrict y, uint64_t n), (x, y, n))
{
    for (uint64_t i = 0; i < n; i++)
        y[i] = y[i] >= x[i] ? y[i] : x[i];
}

static void maximum_range(void *context, uint64_t begin, uint64_t end)
{
    const struct maximum *m = context;
    maximum_span(m->x + begin, m->y + begin, end - begin);
}

int sl_cpu_maximum(uint64_t n, const float *x, float *y)
{
    SL_TRY(sl_check_maximum(n, x, y));
    struct maximum m = {.x = x, .y = y};
    sl_cpu_parallel_range(n, GRAIN, 16, maximum_range, &m);
    return SL_OK;
}

static void maximum_backward_range(void *context, uint64_t begin, uint64_t end)
{
    const struct maximum *m = context;
    for (uint64_t i = begin; i < end; i++) {
        bool first = m->h[m->layer][i] == m->max[i];
        for (uint32_t l = 0; first && l < m->layer; l++)
            first = m->h[l][i] != m->max[i];
        m->y[i] += first ? m->dmax[i] : 0.0f;
    }
}

int sl_cpu_maximum_backward(uint64_t n, const float *const *h, uint32_t layer, const float *max,
                            const float *dmax, float *dy)
{
    SL_TRY(sl_check_maximum_backward(n, h, layer, max, dmax, dy));
    struct maximum m = {.y = dy, .h = h, .layer = layer, .max = max, .dmax = dmax};
    sl_cpu_parallel_range(n, GRAIN, 16, maximum_backward_range, &m);
    return SL_OK;
}

// ---- running statistics -------------------------------------------------------------------------

static float inverse_deviation(float variance, float eps)
{
    return 1.0f / sqrtf(variance + eps);
}

int sl_cpu_running_scale(uint32_t dim, float eps, const float *gamma, const float *beta,
                         const float *mean, const float *variance, float *scale, float *shift)
{
    SL_TRY(sl_check_running_scale(dim, eps, gamma, beta, mean, variance, scale, shift));
    for (uint32_t c = 0; c < dim; c++) {
        scale[c] = gamma[c] * inverse_deviation(variance[c], eps);
        shift[c] = beta[c] - mean[c] * scale[c];
    }
    return SL_OK;
}

int sl_cpu_running_backward(uint64_t rows, uint32_t dim, float eps, const float *x,
                            const float *gamma, const float *mean, const float *variance,
                            const float *dy, float *dgamma, float *dbeta, float *dx)
{
    SL_TRY(
        sl_check_running_backward(rows, dim, eps, x, gamma, mean, variance, dy, dgamma, dbeta, dx));
    for (uint64_t i = 0; i < rows; i++)
        for (uint32_t c = 0; c < dim; c++) {
            uint64_t e = i * dim + c;
            float inverse = inverse_deviation(variance[c], eps), d = dy[e];
            dgamma[c] += d * (x[e] - mean[c]) * inverse;
            dbeta[c] += d;
            dx[e] = d * gamma[c] * inverse;
        }
    return SL_OK;
}

int sl_cpu_running_average(uint64_t n, float momentum, const float *batch, float *r)
{
    SL_TRY(sl_check_running_average(n, momentum, batch, r));
    for (uint64_t i = 0; i < n; i++)
        r[i] += momentum * (batch[i] - r[i]);
    return SL_OK;
}
