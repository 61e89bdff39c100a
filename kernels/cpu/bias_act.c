/*
 * Bias, activation and dropout in one pass over memory, and their backward.
 *
 * Forward goes through blocks of whole rows that fit the first-level cache: the bias row by row
 * (relu in the same loop), then the activation and the mask over the block as one span of elements,
 * whatever the row length. A product does the same with its result, part by part (gemm_blocks.c).
 *
 * Backward knows the activation's derivative from the output. It needs no mask when the activation
 * is relu: y > 0 says that the element survived both. The others draw the mask again, because a y
 * of 0 may be a dropped element or the activation of 0, which is what an empty row without a bias
 * has everywhere. elu' = elu + 1 where elu < 0: the output's scale has to be undone first.
 *
 * dbias is a column sum: chunks of so many rows are summed by themselves, and their sums are added
 * in order. So the result does not depend on the number of threads, nor on who goes through the
 * rows: a pass of its own, or the weight gradient that reads them next (gemm_blocks.c). In a pass
 * of its own rows wider than STRIP columns take further passes over the gradient for their sums;
 * hidden layers are not that wide.
 */
#include "kernels/kernels_internal.h"

#include <stdbool.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "kernels/check.h"
#include "kernels/cpu/cpu_internal.h"
#include "kernels/cpu/exp.h"
#include "kernels/cpu/vector.h"

enum {
    BLOCK_ELEMENTS = 2048,
    GRAIN_ELEMENTS = 1 << 14,
    WIDE = 512,        // columns of bf16 that are widened at once
    STRIP = 1024,      // columns of sums in one pass
    SUMS = 16 * STRIP, // floats on the stack
};

static uint64_t block_rows(uint32_t dim)
{
    return SL_MAX(BLOCK_ELEMENTS / dim, 1);
}

// ---- forward ------------------------------------------------------------------------------------

SL_SIMD_VOID(add_bias, (float *restrict y, uint64_t rows, uint32_t dim, const float *restrict bias),
             (y, rows, dim, bias))
{
    for (uint64_t r = 0; r < rows; r++, y += dim)
        for (uint32_t c = 0; c < dim; c++)
            y[c] += bias[c];
}

// Written so that a NaN passes: it shows in the loss instead of becoming a dead unit.
SL_SIMD_VOID(add_bias_relu,
             (float *restrict y, uint64_t rows, uint32_t dim, const float *restrict bias),
             (y, rows, dim, bias))
{
    for (uint64_t r = 0; r < rows; r++, y += dim)
        for (uint32_t c = 0; c < dim; c++) {
            float v = y[c] + bias[c];
            y[c] = v < 0.0f ? 0.0f : v;
        }
}

SL_SIMD_VOID(relu_span, (float *restrict y, uint64_t n), (y, n))
{
    for (uint64_t i = 0; i < n; i++)
        y[i] = y[i] < 0.0f ? 0.0f : y[i];
}

SL_SIMD_VOID(leaky_relu_span, (float *restrict y, uint64_t n), (y, n))
{
    for (uint64_t i = 0; i < n; i++) {
        float leaked = y[i] * SL_LEAKY_RELU_SLOPE;
        y[i] = y[i] > 0.0f ? y[i] : leaked;
    }
}

SL_INLINE void elu_lanes(sl_v16 *v)
{
    const sl_v16 zero = {0};
    sl_v16_i32 above = *v > zero;
    sl_v16 low;
    sl_v16_choose(&above, &zero, v, &low); // a NaN stays in both branches
    sl_v16_expm1_negative(&low, &low);
    sl_v16_choose(&above, v, &low, v);
}

SL_SIMD_VOID(elu_span, (float *y, uint64_t n), (y, n))
{
    uint64_t i = 0;
    sl_v16 v;
    for (; i + SL_LANES <= n; i += SL_LANES) {
        v = *(const sl_v16_at *)(y + i);
        elu_lanes(&v);
        *(sl_v16_at *)(y + i) = v;
    }
    if (i < n) {
        v = (sl_v16){0};
        memcpy(&v, y + i, (n - i) * sizeof *y);
        elu_lanes(&v);
        memcpy(y + i, &v, (n - i) * sizeof *y);
    }
}

// y (rows, dim) dense.
static void activate(enum sl_activation act, const float *bias, float *y, uint64_t rows,
                     uint32_t dim)
{
    if (bias && act == SL_ACT_RELU) {
        add_bias_relu(y, rows, dim, bias);
        return;
    }
    if (bias)
        add_bias(y, rows, dim, bias);
    if (act == SL_ACT_RELU)
        relu_span(y, rows * dim);
    else if (act == SL_ACT_LEAKY_RELU)
        leaky_relu_span(y, rows * dim);
    else if (act == SL_ACT_ELU)
        elu_span(y, rows * dim);
}

SL_SIMD_VOID(round_rows,
             (const float *restrict y, uint64_t rows, uint32_t width, uint16_t *restrict to,
              uint64_t ld),
             (y, rows, width, to, ld))
{
    for (uint64_t r = 0; r < rows; r++)
        sl_round_span(y + r * width, width, to + r * ld);
}

// Of y (rows, width) dense, which are columns first on of rows `row` on: several rows of all
// columns, or one.
static void follow(const struct sl_cpu_epilogue *e, uint64_t row, uint64_t rows, uint32_t first,
                   uint32_t width, float *y)
{
    activate(e->act, e->bias ? e->bias + first : NULL, y, rows, width);
    if (e->dropout)
        sl_cpu_dropout_span(e->dropout, row * e->dim + first, rows * width, y);
    if (e->rounded)
        round_rows(y, rows, width, e->rounded + row * e->rounded_ld + first, e->rounded_ld);
}

void sl_cpu_epilogue_apply(const struct sl_cpu_epilogue *e, uint64_t begin, uint64_t end,
                           uint32_t first, uint32_t last, float *y, uint64_t ld)
{
    const uint32_t width = last - first;
    const uint64_t step = width == ld && width == e->dim ? block_rows(width) : 1;
    for (uint64_t row = begin; row < end; row += step, y += step * ld)
        follow(e, row, SL_MIN(step, end - row), first, width, y);
}

// What follows y.
struct rows {
    const struct sl_cpu_epilogue *of;
    float *y; // NULL where f32 is not wanted
    uint64_t ld;
    const float *x; // (rows, dim) what y is made of, or NULL: y
};

static void epilogue_rows(void *context, uint64_t begin, uint64_t end)
{
    const struct rows *r = context;
    sl_cpu_epilogue_apply(r->of, begin, end, 0, r->of->dim, r->y + begin * r->ld, r->ld);
}

void sl_cpu_epilogue_pass(const struct sl_cpu_epilogue *e, uint64_t rows, float *y, uint64_t ld)
{
    struct rows r = {e, y, ld, NULL};
    if (e->bias || e->act != SL_ACT_NONE || e->dropout || e->rounded)
        sl_cpu_parallel_range(rows, GRAIN_ELEMENTS / e->dim, 1, epilogue_rows, &r);
}

int sl_cpu_bias_act(float *y, uint64_t rows, uint32_t dim, const float *bias,
                    enum sl_activation act, const struct sl_dropout *dropout)
{
    SL_TRY(sl_check_bias_act(y, rows, dim, bias, act, dropout));
    const struct sl_cpu_epilogue e = {
        dim, bias, act, sl_cpu_dropout_is_on(dropout) ? dropout : NULL, NULL, 0};
    sl_cpu_epilogue_pass(&e, rows, y, dim);
    return SL_OK;
}

static void rounding_rows(void *context, uint64_t begin, uint64_t end)
{
    const struct rows *r = context;
    const struct sl_cpu_epilogue *e = r->of;
    const uint32_t dim = e->dim;
    const uint64_t step = block_rows(dim);
    float block[BLOCK_ELEMENTS];
    for (uint64_t row = begin; row < end; row += step)
        for (uint32_t first = 0; first < dim; first += BLOCK_ELEMENTS) {
            const uint64_t rows = SL_MIN(step, end - row), at = row * dim + first;
            const uint32_t width = SL_MIN(dim - first, (uint32_t)BLOCK_ELEMENTS);
            memcpy(block, r->x + at, rows * width * sizeof *block);
            follow(e, row, rows, first, width, block);
            if (r->y)
                memcpy(r->y + at, block, rows * width * sizeof *block);
        }
}

int sl_cpu_bias_act_bf16(const float *x, uint64_t rows, uint32_t dim, const float *bias,
                         enum sl_activation act, const struct sl_dropout *dropout, float *y,
                         uint16_t *out, uint64_t ld)
{
    SL_TRY(sl_check_bias_act_bf16(x, rows, dim, bias, act, dropout, y, out, ld));
    const struct sl_cpu_epilogue e = {
        dim, bias, act, sl_cpu_dropout_is_on(dropout) ? dropout : NULL, out, ld};
    struct rows r = {&e, y, dim, x};
    sl_cpu_parallel_range(rows, GRAIN_ELEMENTS / dim, 1, rounding_rows, &r);
    return SL_OK;
}

// ---- backward -----------------------------------------------------------------------------------

SL_SIMD_VOID(relu_mask, (float *restrict dy, const float *restrict y, uint64_t n, float scale),
             (dy, y, n, scale))
{
    for (uint64_t i = 0; i < n; i++) {
        float scaled = dy[i] * scale;
        dy[i] = y[i] > 0.0f ? scaled : 0.0f;
    }
}

SL_SIMD_VOID(leaky_relu_slope, (float *restrict dy, const float *restrict y, uint64_t n),
             (dy, y, n))
{
    for (uint64_t i = 0; i < n; i++)
        dy[i] *= y[i] > 0.0f ? 1.0f : SL_LEAKY_RELU_SLOPE;
}

// keep: what undoes the survivors' scale.
SL_SIMD_VOID(elu_slope, (float *restrict dy, const float *restrict y, uint64_t n, float keep),
             (dy, y, n, keep))
{
    for (uint64_t i = 0; i < n; i++) {
        float slope = y[i] * keep + 1.0f;
        dy[i] *= y[i] > 0.0f ? 1.0f : slope;
    }
}

// dy = dy * act' for n elements, of relu with the mask.
static void slope_span(const struct sl_bias_act_gradient *of, float *dy, const float *y, uint64_t n)
{
    const float rate = of->dropout.rate;
    if (of->act == SL_ACT_RELU)
        relu_mask(dy, y, n, 1.0f / (1.0f - rate));
    else if (of->act == SL_ACT_LEAKY_RELU)
        leaky_relu_slope(dy, y, n);
    else if (of->act == SL_ACT_ELU)
        elu_slope(dy, y, n, 1.0f - rate);
}

// The same by a row of y that is bf16.
static void slope_row(const struct sl_bias_act_gradient *of, float *dy, const uint16_t *y,
                      uint64_t n)
{
    float wide[WIDE];
    for (uint64_t i = 0; i < n; i += WIDE) {
        const uint64_t some = SL_MIN(n - i, (uint64_t)WIDE);
        sl_cpu_widen(y + i, some, wide);
        slope_span(of, dy + i, wide, some);
    }
}

// dy = dy * mask * act' for `rows` rows from `row` on.
static void mask_rows(const struct sl_cpu_prologue *p, uint64_t row, uint64_t rows)
{
    const struct sl_bias_act_gradient *of = &p->of;
    const uint64_t at = row * p->dim, n = rows * p->dim;
    if (of->act != SL_ACT_RELU && sl_cpu_dropout_is_on(&of->dropout))
        sl_cpu_dropout_span(&of->dropout, at, n, p->dy + at);
    if (of->act == SL_ACT_NONE)
        return;
    if (!of->y_bf16_ld)
        slope_span(of, p->dy + at, (const float *)of->y + at, n);
    for (uint64_t r = row; of->y_bf16_ld && r < row + rows; r++)
        slope_row(of, p->dy + r * p->dim, (const uint16_t *)of->y + r * of->y_bf16_ld, p->dim);
}

// sums[c] += column c of (rows, width) at dy; four rows a step so that sums are loaded less often.
SL_SIMD_VOID(add_columns,
             (const float *restrict dy, uint64_t rows, uint32_t dim, uint32_t width,
              float *restrict sums),
             (dy, rows, dim, width, sums))
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

// Rows begin .. end of a chunk: the mask, and columns first .. first + width of the sums.
static void backward_rows(const struct sl_cpu_prologue *p, uint64_t begin, uint64_t end, bool masks,
                          uint32_t first, uint32_t width, float *sums)
{
    const uint64_t step = block_rows(p->dim);
    if (sums)
        memset(sums, 0, width * sizeof *sums);
    for (uint64_t row = begin; row < end; row += step) {
        const uint64_t rows = SL_MIN(step, end - row), at = row * p->dim;
        if (masks)
            mask_rows(p, row, rows);
        if (sums)
            add_columns(p->dy + at + first, rows, p->dim, width, sums);
    }
}

// sums (n, width) to dbias, in order.
SL_SIMD_VOID(add_chunks,
             (float *restrict dbias, const float *restrict sums, uint64_t n, uint32_t width),
             (dbias, sums, n, width))
{
    for (uint64_t i = 0; i < n; i++, sums += width)
        for (uint32_t c = 0; c < width; c++)
            dbias[c] += sums[c];
}

static uint64_t chunk_end(const struct sl_cpu_prologue *p, uint64_t chunk)
{
    return SL_MIN((chunk + 1) * SL_CPU_PROLOGUE_ROWS, p->rows);
}

int sl_cpu_prologue_begin(struct sl_cpu_prologue *p, struct sl_mempool *ws)
{
    if (!p->of.dbias)
        return SL_OK;
    const uint64_t chunks = sl_div_up(p->rows, SL_CPU_PROLOGUE_ROWS);
    p->sums = sl_mempool_alloc(ws, chunks * p->dim * sizeof *p->sums);
    return p->sums ? SL_OK
                   : sl_fail(SL_ENOMEM, "gemm: no memory for the sums of %llu chunks of rows",
                             (unsigned long long)chunks);
}

void sl_cpu_prologue_rows(const struct sl_cpu_prologue *p, uint64_t begin, uint64_t end)
{
    for (uint64_t chunk = begin / SL_CPU_PROLOGUE_ROWS; begin < end; begin = chunk_end(p, chunk++))
        backward_rows(p, begin, chunk_end(p, chunk), true, 0, p->dim,
                      p->sums ? p->sums + chunk * p->dim : NULL);
}

void sl_cpu_prologue_finish(const struct sl_cpu_prologue *p)
{
    if (p->of.dbias)
        add_chunks(p->of.dbias, p->sums, sl_div_up(p->rows, SL_CPU_PROLOGUE_ROWS), p->dim);
}

// Chunks `at` and on: their columns first .. first + width.
struct wave {
    const struct sl_cpu_prologue *of;
    uint64_t at;
    uint32_t first, width;
    float *sums; // of these columns, or NULL
};

static void wave_chunks(void *context, uint64_t begin, uint64_t end)
{
    const struct wave *w = context;
    for (uint64_t i = begin; i < end; i++)
        backward_rows(w->of, (w->at + i) * SL_CPU_PROLOGUE_ROWS, chunk_end(w->of, w->at + i),
                      w->first == 0, w->first, w->width, w->sums ? w->sums + i * w->width : NULL);
}

void sl_cpu_prologue_pass(const struct sl_cpu_prologue *p)
{
    float sums[SUMS];
    const uint64_t chunks = sl_div_up(p->rows, SL_CPU_PROLOGUE_ROWS);
    const uint64_t grain = SL_MAX(GRAIN_ELEMENTS / SL_CPU_PROLOGUE_ROWS / p->dim, 1);
    float *dbias = p->of.dbias;
    for (uint32_t first = 0; first < p->dim && (dbias || first == 0); first += STRIP) {
        const uint32_t width = SL_MIN(p->dim - first, STRIP);
        const uint64_t at_once = dbias ? SUMS / width : chunks;
        for (uint64_t at = 0; at < chunks; at += at_once) {
            const uint64_t n = SL_MIN(at_once, chunks - at);
            struct wave w = {p, at, first, width, dbias ? sums : NULL};
            sl_cpu_parallel_range(n, grain, 1, wave_chunks, &w);
            if (dbias)
                add_chunks(dbias + first, sums, n, width);
        }
    }
}

int sl_cpu_bias_act_backward(float *dy, const void *y, uint64_t y_bf16_ld, uint64_t rows,
                             uint32_t dim, enum sl_activation act, const struct sl_dropout *dropout,
                             float *dbias)
{
    SL_TRY(sl_check_bias_act_backward(dy, y, y_bf16_ld, rows, dim, act, dropout, dbias));
    struct sl_cpu_prologue p = {.dy = dy,
                                .rows = rows,
                                .dim = dim,
                                .of = {.y = y, .y_bf16_ld = y_bf16_ld, .act = act, .dbias = dbias}};
    if (dropout)
        p.of.dropout = *dropout;
    if (sl_gradient_changes(&p.of))
        sl_cpu_prologue_pass(&p);
    return SL_OK;
}
