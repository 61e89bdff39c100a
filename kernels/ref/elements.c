// elements.c - what layers do element by element, and between heads and rows.
#include "kernels/kernels_internal.h"

#include <math.h>

#include "common/base/error.h"
#include "kernels/check.h"

int sl_ref_block_diagonal(const float *a, uint32_t heads, uint32_t width, float *matrix)
{
    SL_TRY(sl_check_block_diagonal(a, heads, width, matrix));
    uint64_t columns = (uint64_t)heads * width;
    for (uint64_t h = 0; h < heads; h++)
        for (uint64_t c = 0; c < columns; c++)
            matrix[h * columns + c] = c / width == h ? a[c] : 0.0f;
    return SL_OK;
}

int sl_ref_add_block_diagonal(const float *matrix, uint32_t heads, uint32_t width, float *a)
{
    SL_TRY(sl_check_add_block_diagonal(matrix, heads, width, a));
    uint64_t columns = (uint64_t)heads * width;
    for (uint64_t c = 0; c < columns; c++)
        a[c] += matrix[c / width * columns + c];
    return SL_OK;
}

int sl_ref_sum_heads(const float *x, uint64_t rows, uint32_t heads, uint32_t width, float scale,
                     float beta, float *y)
{
    SL_TRY(sl_check_sum_heads(x, rows, heads, width, scale, beta, y));
    for (uint64_t i = 0; i < rows; i++)
        for (uint64_t c = 0; c < width; c++) {
            double sum = 0;
            for (uint64_t h = 0; h < heads; h++)
                sum += (double)x[(i * heads + h) * width + c];
            // What y held is not read when beta is 0: it may be anything.
            double before = beta == 0.0f ? 0.0 : (double)y[i * width + c];
            y[i * width + c] = (float)((double)scale * sum + before);
        }
    return SL_OK;
}

int sl_ref_spread_heads(const float *x, uint64_t rows, uint32_t heads, uint32_t width, float scale,
                        float *y)
{
    SL_TRY(sl_check_spread_heads(x, rows, heads, width, scale, y));
    for (uint64_t i = 0; i < rows; i++)
        for (uint64_t h = 0; h < heads; h++)
            for (uint64_t c = 0; c < width; c++)
                y[(i * heads + h) * width + c] = scale * x[i * width + c];
    return SL_OK;
}

int sl_ref_fill_sum(uint64_t n, float c, const float *a, float *y)
{
    SL_TRY(sl_check_fill_sum(n, c, a, y));
    for (uint64_t i = 0; i < n; i++)
        y[i] = c + *a;
    return SL_OK;
}

int sl_ref_add_scaled(uint64_t n, float c, const float *a, const float *x, float *y)
{
    SL_TRY(sl_check_add_scaled(n, c, a, x, y));
    for (uint64_t i = 0; i < n; i++)
        y[i] = (float)((double)y[i] + (double)(c + *a) * (double)x[i]);
    return SL_OK;
}

int sl_ref_add_dot(uint64_t n, const float *x, const float *y, float *sum, struct sl_mempool *ws)
{
    (void)ws;
    SL_TRY(sl_check_add_dot(n, x, y, sum, ws));
    double dot = 0;
    for (uint64_t i = 0; i < n; i++)
        dot += (double)x[i] * (double)y[i];
    *sum += (float)dot;
    return SL_OK;
}

int sl_ref_maximum(uint64_t n, const float *x, float *y)
{
    SL_TRY(sl_check_maximum(n, x, y));
    for (uint64_t i = 0; i < n; i++)
        y[i] = y[i] >= x[i] ? y[i] : x[i];
    return SL_OK;
}

int sl_ref_maximum_backward(uint64_t n, const float *const *h, uint32_t layer, const float *max,
                            const float *dmax, float *dy)
{
    SL_TRY(sl_check_maximum_backward(n, h, layer, max, dmax, dy));
    for (uint64_t i = 0; i < n; i++) {
        bool first = h[layer][i] == max[i];
        for (uint32_t l = 0; l < layer; l++)
            first = first && h[l][i] != max[i];
        dy[i] += first ? dmax[i] : 0.0f;
    }
    return SL_OK;
}

static double inverse_deviation(float variance, float eps)
{
    return 1.0 / sqrt((double)variance + (double)eps);
}

int sl_ref_running_scale(uint32_t dim, float eps, const float *gamma, const float *beta,
                         const float *mean, const float *variance, float *scale, float *shift)
{
    SL_TRY(sl_check_running_scale(dim, eps, gamma, beta, mean, variance, scale, shift));
    for (uint32_t c = 0; c < dim; c++) {
        double s = (double)gamma[c] * inverse_deviation(variance[c], eps);
        scale[c] = (float)s;
        shift[c] = (float)((double)beta[c] - (double)mean[c] * s);
    }
    return SL_OK;
}

int sl_ref_running_backward(uint64_t rows, uint32_t dim, float eps, const float *x,
                            const float *gamma, const float *mean, const float *variance,
                            const float *dy, float *dgamma, float *dbeta, float *dx)
{
    SL_TRY(
        sl_check_running_backward(rows, dim, eps, x, gamma, mean, variance, dy, dgamma, dbeta, dx));
    for (uint32_t c = 0; c < dim; c++) {
        double inverse = inverse_deviation(variance[c], eps), scaled = 0, shifted = 0;
        for (uint64_t i = 0; i < rows; i++) {
            uint64_t e = i * dim + c;
            double d = (double)dy[e];
            scaled += d * ((double)x[e] - (double)mean[c]) * inverse;
            shifted += d;
            dx[e] = (float)(d * (double)gamma[c] * inverse);
        }
        dgamma[c] = (float)((double)dgamma[c] + scaled);
        dbeta[c] = (float)((double)dbeta[c] + shifted);
    }
    return SL_OK;
}

int sl_ref_running_average(uint64_t n, float momentum, const float *batch, float *r)
{
    SL_TRY(sl_check_running_average(n, momentum, batch, r));
    for (uint64_t i = 0; i < n; i++)
        r[i] = (float)((double)r[i] + (double)momentum * ((double)batch[i] - (double)r[i]));
    return SL_OK;
}
