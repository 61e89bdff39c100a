/*
 * Rows of length one, and the gradient: two passes over a row that stays in the first-level cache,
 * a sum and a scaling. The sum's order depends on the row's width alone.
 */
#include "kernels/kernels_internal.h"

#include <math.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "kernels/check.h"
#include "kernels/cpu/cpu_internal.h"
#include "kernels/cpu/vector.h"

enum { GRAIN_ELEMENTS = 1 << 14, SUMS = 4 };

// <a, b> over n columns: four sums of sixteen lanes, so that no addition waits for the one before.
SL_INLINE float dot(const float *a, const float *b, uint32_t n)
{
    sl_v16 sum[SUMS] = {{0}}, x, y;
    uint32_t c = 0;
    for (; c + SUMS * SL_LANES <= n; c += SUMS * SL_LANES)
#pragma GCC unroll 4
        for (uint32_t s = 0; s < SUMS; s++)
            sum[s] += *(const sl_v16_at *)(a + c + s * SL_LANES) *
                      *(const sl_v16_at *)(b + c + s * SL_LANES);
    for (; c + SL_LANES <= n; c += SL_LANES)
        sum[0] += *(const sl_v16_at *)(a + c) * *(const sl_v16_at *)(b + c);
    if (c < n) {
        x = y = (sl_v16){0};
        memcpy(&x, a + c, (n - c) * sizeof *a);
        memcpy(&y, b + c, (n - c) * sizeof *b);
        sum[1] += x * y;
    }
    x = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    for (int width = SL_LANES / 2; width > 0; width /= 2)
        for (int l = 0; l < width; l++)
            x[l] += x[l + width];
    return x[0];
}

struct forward {
    const float *x;
    float *y, *inverse;
    uint32_t dim;
};

SL_CPU_RANGE(forward_rows)
{
    const struct forward *f = context;
    uint64_t dim = f->dim;
    for (uint64_t i = begin; i < end; i++) {
        const float *x = f->x + i * dim;
        float *y = f->y + i * dim;
        float norm = sqrtf(dot(x, x, f->dim));
        // A NaN is not below the bound: it shows in the row.
        float inverse = norm < SL_NORMALIZE_BOUND ? SL_NORMALIZE_INVERSE_MAX : 1.0f / norm;
        f->inverse[i] = inverse;
        for (uint32_t c = 0; c < dim; c++)
            y[c] = x[c] * inverse;
    }
}

int sl_cpu_normalize_rows(const float *x, uint64_t rows, uint32_t dim, float *y, float *inverse)
{
    SL_TRY(sl_check_normalize_rows(x, rows, dim, y, inverse));
    struct forward f = {.x = x, .y = y, .inverse = inverse, .dim = dim};
    sl_cpu_parallel_range(rows, GRAIN_ELEMENTS / dim, 1, forward_rows, &f);
    return SL_OK;
}

struct backward {
    const float *dy, *y, *inverse;
    float *dx;
    uint32_t dim;
};

SL_CPU_RANGE(backward_rows)
{
    const struct backward *b = context;
    uint64_t dim = b->dim;
    for (uint64_t i = begin; i < end; i++) {
        const float *dy = b->dy + i * dim, *y = b->y + i * dim;
        float *dx = b->dx + i * dim, inverse = b->inverse[i];
        float along = inverse >= SL_NORMALIZE_INVERSE_MAX ? 0.0f : dot(y, dy, b->dim);
        for (uint32_t c = 0; c < dim; c++)
            dx[c] = inverse * (dy[c] - y[c] * along);
    }
}

int sl_cpu_normalize_rows_backward(const float *dy, const float *y, const float *inverse,
                                   uint64_t rows, uint32_t dim, float *dx)
{
    SL_TRY(sl_check_normalize_rows_backward(dy, y, inverse, rows, dim, dx));
    struct backward b = {.dy = dy, .y = y, .inverse = inverse, .dx = dx, .dim = dim};
    sl_cpu_parallel_range(rows, GRAIN_ELEMENTS / dim, 1, backward_rows, &b);
    return SL_OK;
}
