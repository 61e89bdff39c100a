/*
 * Bias, activation and dropout in one pass over memory, and their backward.
 *
 * Forward goes through blocks of whole rows that fit the first-level cache: bias and activation
 * row by row, then the mask over the block as one span of elements, whatever the row length.
 *
 * Backward needs no mask when the activation is relu: y > 0 says that the element survived both.
 * dbias is a column sum; it is taken in SEGMENTS row ranges that depend on the number of rows
 * alone, each into its own accumulators, which are then added in order. So the result does not
 * depend on the number of threads. Rows wider than STRIP columns take further passes over the
 * gradient for their sums; hidden layers are not that wide.
 */
#include "kernels/kernels_internal.h"

#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "kernels/check.h"
#include "kernels/cpu/cpu_internal.h"

enum {
    BLOCK_ELEMENTS = 2048,
    GRAIN_ELEMENTS = 1 << 14,
    SEGMENTS = 16,
    SEGMENT_ROWS_MIN = 64,
    STRIP = 1024, // columns; SEGMENTS * STRIP floats are on the stack
};

static uint64_t block_rows(uint32_t dim)
{
    return SL_MAX(BLOCK_ELEMENTS / dim, 1);
}

// ---- forward ------------------------------------------------------------------------------------

struct forward {
    float *y;
    const float *bias;
    const struct sl_dropout *dropout; // NULL when off
    uint32_t dim;
    int relu;
};

SL_SIMD static void add_bias(float *restrict y, uint64_t rows, uint32_t dim,
                             const float *restrict bias)
{
    for (uint64_t r = 0; r < rows; r++, y += dim)
        for (uint32_t c = 0; c < dim; c++)
            y[c] += bias[c];
}

// Written so that a NaN passes: it shows in the loss instead of becoming a dead unit.
SL_SIMD static void add_bias_relu(float *restrict y, uint64_t rows, uint32_t dim,
                                  const float *restrict bias)
{
    for (uint64_t r = 0; r < rows; r++, y += dim)
        for (uint32_t c = 0; c < dim; c++) {
            float v = y[c] + bias[c];
            y[c] = v < 0.0f ? 0.0f : v;
        }
}

static void forward_rows(void *context, uint64_t begin, uint64_t end)
{
    const struct forward *f = context;
    uint64_t step = block_rows(f->dim);
    for (uint64_t row = begin; row < end; row += step) {
        uint64_t rows = SL_MIN(step, end - row);
        float *y = f->y + row * f->dim;
        if (f->relu)
            add_bias_relu(y, rows, f->dim, f->bias);
        else
            add_bias(y, rows, f->dim, f->bias);
        if (f->dropout)
            sl_cpu_dropout_span(f->dropout, row * f->dim, rows * f->dim, y);
    }
}

int sl_cpu_bias_act(float *y, uint64_t rows, uint32_t dim, const float *bias, int relu,
                    const struct sl_dropout *dropout)
{
    SL_TRY(sl_check_bias_act(y, rows, dim, bias, dropout));
    struct forward f = {.y = y, .bias = bias, .dim = dim, .relu = relu};
    f.dropout = sl_cpu_dropout_is_on(dropout) ? dropout : NULL;
    sl_cpu_parallel_range(rows, GRAIN_ELEMENTS / dim, 1, forward_rows, &f);
    return SL_OK;
}

// ---- backward -----------------------------------------------------------------------------------

struct backward {
    float *dy;
    const float *y;
    const struct sl_dropout *dropout; // NULL when off
    uint64_t rows;
    uint32_t dim;
    uint32_t first, width; // this pass's columns of dbias
    uint32_t n_segments;
    int relu;
    int masks;            // this pass multiplies by the mask
    float (*sums)[STRIP]; // (n_segments, STRIP) or NULL
};

SL_SIMD static void relu_mask(float *restrict dy, const float *restrict y, uint64_t n, float scale)
{
    for (uint64_t i = 0; i < n; i++) {
        float scaled = dy[i] * scale;
        dy[i] = y[i] > 0.0f ? scaled : 0.0f;
    }
}

// sums[c] += column c of (rows, width) at dy; four rows a step so that sums are loaded less often.
SL_SIMD static void add_columns(const float *restrict dy, uint64_t rows, uint32_t dim,
                                uint32_t width, float *restrict sums)
{
    uint64_t r = 0;
    for (; r + 4 <= rows; r += 4, dy += 4 * (uint64_t)dim) {
        const float *d1 = dy + dim, *d2 = d1 + dim, *d3 = d2 + dim;
        for (uint32_t c = 0; c < width; c++)
            sums[c] += (dy[c] + d1[c]) + (d2[c] + d3[c]);
    }
    for (; r < rows; r++, dy += dim)
        for (uint32_t c = 0; c < width; c++)
            sums[c] += dy[c];
}

static void backward_segment(void *context, uint32_t segment)
{
    const struct backward *b = context;
    uint64_t begin = b->rows * segment / b->n_segments;
    uint64_t end = b->rows * (segment + 1) / b->n_segments;
    uint64_t step = block_rows(b->dim);
    if (b->sums)
        memset(b->sums[segment], 0, b->width * sizeof(float));
    for (uint64_t row = begin; row < end; row += step) {
        uint64_t rows = SL_MIN(step, end - row), at = row * b->dim;
        if (b->masks && b->relu)
            relu_mask(b->dy + at, b->y + at, rows * b->dim,
                      b->dropout ? 1.0f / (1.0f - b->dropout->rate) : 1.0f);
        else if (b->masks && b->dropout)
            sl_cpu_dropout_span(b->dropout, at, rows * b->dim, b->dy + at);
        if (b->sums)
            add_columns(b->dy + at + b->first, rows, b->dim, b->width, b->sums[segment]);
    }
}

int sl_cpu_bias_act_backward(float *dy, const float *y, uint64_t rows, uint32_t dim, int relu,
                             const struct sl_dropout *dropout, float *dbias)
{
    SL_TRY(sl_check_bias_act_backward(dy, y, rows, dim, relu, dropout));
    float sums[SEGMENTS][STRIP];
    struct backward b = {.dy = dy, .y = y, .rows = rows, .dim = dim, .relu = relu, .masks = 1};
    b.dropout = sl_cpu_dropout_is_on(dropout) ? dropout : NULL;
    b.n_segments = (uint32_t)SL_MIN(SL_MAX(rows / SEGMENT_ROWS_MIN, 1), SEGMENTS);
    if (rows == 0 || (!dbias && !b.relu && !b.dropout))
        return SL_OK;
    b.sums = dbias ? sums : NULL;
    for (b.first = 0; b.first < dim; b.first += STRIP) {
        b.width = SL_MIN(dim - b.first, STRIP);
        sl_cpu_parallel_parts(b.n_segments, backward_segment, &b);
        if (!dbias)
            break; // one pass has masked whole rows
        for (uint32_t s = 1; s < b.n_segments; s++)
            for (uint32_t c = 0; c < b.width; c++)
                sums[0][c] += sums[s][c];
        for (uint32_t c = 0; c < b.width; c++)
            dbias[b.first + c] += sums[0][c];
        b.masks = 0;
    }
    return SL_OK;
}
