/*
 * Pairs of rows: products of two rows, what two rows become, and the gradient in the rows.
 *
 * Problem. A pair reads two rows of 0.2 to 4 KiB from anywhere, and does a multiplication or two an
 * element: memory is the limit, as it is for an edge of aggregate.c. A batch's rows mostly fit the
 * second-level cache, those of an evaluation do not.
 *
 * Design. pair_dot and pair_rows ask for the rows of a pair some pairs ahead, in the second-level
 * cache: with 16 KiB on the way a million random rows of 128 columns pass at 5 GB/s and more, as
 * fast as gathered ones (build/bin/tests/bench/kernels pair_dot), with 4 KiB at half of that. The
 * gradient goes the other way round, over the ends of each row, so that a row has one writer:
 * chunks of 64 columns of a row stay in registers while its ends pass, as in aggregate.c; columns
 * behind the last whole chunk are done 8 at a time and then one by one.
 *
 * Invariant. A sum's order depends on the shapes and on the row's ends alone; threads own whole
 * pairs, or whole rows.
 */
#include "kernels/kernels_internal.h"

#include <math.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "kernels/check.h"
#include "kernels/cpu/cpu_internal.h"
#include "kernels/cpu/vector.h"

enum {
    AHEAD_BYTES = 16384, // of rows that have been asked for
    GRAIN_BYTES = 1 << 16,
    ENDS_AHEAD = 8,
    VECTORS = 8, // of 8 lanes: a chunk
    CHUNK = VECTORS * SL_LANES_8,
};

SL_INLINE uint64_t pairs_ahead(uint32_t dim)
{
    return 1 + AHEAD_BYTES / (2 * sizeof(float) * (uint64_t)dim);
}

static uint64_t grain_pairs(uint32_t dim)
{
    return 1 + GRAIN_BYTES / (2 * sizeof(float) * (uint64_t)dim);
}

SL_INLINE void ask_for(const float *row, uint32_t dim)
{
    for (uint32_t c = 0; c < dim; c += SL_LANES)
        __builtin_prefetch(row + c, 0, 2);
}

// ---- pair_dot -----------------------------------------------------------------------------------

// The products of 8 columns from c on.
SL_INLINE void products(const float *a, const float *b, const float *scale, uint32_t c, sl_v8 *out)
{
    *out = *(const sl_v8_at *)(a + c) * *(const sl_v8_at *)(b + c);
    if (scale)
        *out *= *(const sl_v8_at *)(scale + c);
}

SL_INLINE float dot(const float *a, const float *b, const float *scale, uint32_t dim)
{
    enum { WIDE = 4 };
    sl_v8 sum[WIDE] = {{0}}, product;
    uint32_t c = 0;
    for (; c + WIDE * SL_LANES_8 <= dim; c += WIDE * SL_LANES_8)
#pragma GCC unroll 4
        for (int v = 0; v < WIDE; v++) {
            products(a, b, scale, c + v * SL_LANES_8, &product);
            sum[v] += product;
        }
    for (; c + SL_LANES_8 <= dim; c += SL_LANES_8) {
        products(a, b, scale, c, &product);
        sum[0] += product;
    }
    sl_v8 all = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    all += __builtin_shuffle(all, (sl_v8_u32){4, 5, 6, 7, 0, 1, 2, 3});
    all += __builtin_shuffle(all, (sl_v8_u32){2, 3, 0, 1, 6, 7, 4, 5});
    float total = all[0] + all[1];
    for (; c < dim; c++)
        total += a[c] * b[c] * (scale ? scale[c] : 1.0f);
    return total;
}

SL_CPU_RANGE(dot_pairs)
{
    const struct sl_pair_dot_args *args = context;
    const uint64_t dim = args->dim, ahead = pairs_ahead(args->dim);
    for (uint64_t p = begin; p < end; p++) {
        const uint64_t next = SL_MIN(p + ahead, end - 1);
        ask_for(args->a + args->ids[2 * next] * dim, args->dim);
        ask_for(args->b + args->ids[2 * next + 1] * dim, args->dim);
        const float *a = args->a + args->ids[2 * p] * dim,
                    *b = args->b + args->ids[2 * p + 1] * dim;
        args->score[p] =
            args->scale ? dot(a, b, args->scale, args->dim) : dot(a, b, NULL, args->dim);
    }
}

int sl_cpu_pair_dot(const struct sl_pair_dot_args *args)
{
    SL_TRY(sl_check_pair_dot(args));
    struct sl_pair_dot_args job = *args;
    sl_cpu_parallel_range(args->n, grain_pairs(args->dim), SL_LANES, dot_pairs, &job);
    return SL_OK;
}

// ---- pair_rows ----------------------------------------------------------------------------------

struct rows {
    const uint32_t *ids;
    uint32_t dim;
    enum sl_pair_combine combine;
    const float *x;
    float *out;
};

SL_CPU_RANGE(combine_pairs)
{
    const struct rows *job = context;
    const uint64_t dim = job->dim, ahead = pairs_ahead(job->dim);
    for (uint64_t p = begin; p < end; p++) {
        const uint64_t next = SL_MIN(p + ahead, end - 1);
        ask_for(job->x + job->ids[2 * next] * dim, job->dim);
        ask_for(job->x + job->ids[2 * next + 1] * dim, job->dim);
        const float *a = job->x + job->ids[2 * p] * dim, *b = job->x + job->ids[2 * p + 1] * dim;
        float *restrict out = job->out + p * dim;
        if (job->combine == SL_PAIR_PRODUCT)
            for (uint64_t c = 0; c < dim; c++)
                out[c] = a[c] * b[c];
        else
            for (uint64_t c = 0; c < dim; c++)
                out[c] = fabsf(a[c] - b[c]);
    }
}

int sl_cpu_pair_rows(uint64_t n, const uint32_t *ids, uint32_t dim, enum sl_pair_combine combine,
                     const float *x, float *out)
{
    SL_TRY(sl_check_pair_rows(n, ids, dim, combine, x, out));
    struct rows job = {ids, dim, combine, x, out};
    sl_cpu_parallel_range(n, grain_pairs(dim), 1, combine_pairs, &job);
    return SL_OK;
}

// ---- pair_gradient ------------------------------------------------------------------------------

// What an end brings: the other row times a number, or times the pair's row; or the pair's row with
// the sign of the difference.
enum term { SCALED, MULTIPLIED, SIGNED };

SL_INLINE int counts(enum sl_pair_side side, uint32_t end)
{
    return side == SL_PAIR_BOTH || (end & 1) == (side == SL_PAIR_TARGET);
}

// Columns first .. first + 8 * n_vectors of a row; n_vectors is a constant.
SL_INLINE void sum_columns(const struct sl_pair_gradient_args *args, enum term term, uint32_t row,
                           uint32_t first, int n_vectors)
{
    const uint64_t dim = args->dim;
    const float *own = term == SIGNED ? args->own + row * dim + first : NULL;
    const uint32_t last = args->indptr[args->n_rows] - 1; // unused when there is no end
    sl_v8 sum[VECTORS];
#pragma GCC unroll 8
    for (int v = 0; v < n_vectors; v++)
        sum[v] = (sl_v8){0};
    for (uint32_t k = args->indptr[row]; k < args->indptr[row + 1]; k++) {
        const uint32_t end = args->ends[k], ahead = args->ends[SL_MIN(k + ENDS_AHEAD, last)];
        sl_prefetch_row(args->other, 0, args->ids[ahead ^ 1] * dim + first,
                        (uint32_t)n_vectors * SL_LANES_8);
        if (!counts(args->side, end))
            continue;
        const float *other = args->other + args->ids[end ^ 1] * dim + first;
        const float *gradient = term == SCALED ? NULL : args->drows + end / 2 * dim + first;
        const float factor = term == SCALED ? args->dscore[end / 2] : 0.0f;
#pragma GCC unroll 8
        for (int v = 0; v < n_vectors; v++) {
            const sl_v8 there = *(const sl_v8_at *)(other + v * SL_LANES_8);
            if (term == SCALED) {
                sum[v] += factor * there;
                continue;
            }
            const sl_v8 g = *(const sl_v8_at *)(gradient + v * SL_LANES_8);
            if (term == MULTIPLIED) {
                sum[v] += g * there;
                continue;
            }
            const sl_v8 here = *(const sl_v8_at *)(own + v * SL_LANES_8);
            sum[v] += (sl_v8)((sl_v8_u32)g & (sl_v8_u32)(here > there));
            sum[v] -= (sl_v8)((sl_v8_u32)g & (sl_v8_u32)(here < there));
        }
    }
    float *dx = args->dx + row * dim + first;
#pragma GCC unroll 8
    for (int v = 0; v < n_vectors; v++) {
        if (args->scale)
            sum[v] *= *(const sl_v8_at *)(args->scale + first + v * SL_LANES_8);
        *(sl_v8_at *)(dx + v * SL_LANES_8) = sum[v];
    }
}

// The last columns of a row, fewer than 8.
SL_INLINE void sum_rest(const struct sl_pair_gradient_args *args, enum term term, uint32_t row,
                        uint32_t first)
{
    const uint64_t dim = args->dim;
    const uint32_t n = args->dim - first;
    float sum[SL_LANES_8] = {0};
    for (uint32_t k = args->indptr[row]; k < args->indptr[row + 1]; k++) {
        const uint32_t end = args->ends[k];
        if (!counts(args->side, end))
            continue;
        const float *other = args->other + args->ids[end ^ 1] * dim + first;
        const uint64_t pair = end / 2;
        for (uint32_t c = 0; c < n; c++) {
            const float g =
                term == SCALED ? args->dscore[pair] : args->drows[pair * dim + first + c];
            const float here = term == SIGNED ? args->own[row * dim + first + c] : 0.0f;
            if (term == SIGNED)
                sum[c] += here > other[c] ? g : here < other[c] ? -g : 0.0f;
            else
                sum[c] += g * other[c];
        }
    }
    for (uint32_t c = 0; c < n; c++)
        args->dx[row * dim + first + c] = sum[c] * (args->scale ? args->scale[first + c] : 1.0f);
}

SL_INLINE void gradient_rows(const struct sl_pair_gradient_args *args, enum term term,
                             uint32_t begin, uint32_t end)
{
    for (uint32_t row = begin; row < end; row++) {
        uint32_t c = 0;
        for (; c + CHUNK <= args->dim; c += CHUNK)
            sum_columns(args, term, row, c, VECTORS);
        for (; c + SL_LANES_8 <= args->dim; c += SL_LANES_8)
            sum_columns(args, term, row, c, 1);
        if (c < args->dim)
            sum_rest(args, term, row, c);
    }
}

#define VARIANT(name, term)                                                                        \
    SL_CPU_ROWS(name)                                                                              \
    {                                                                                              \
        gradient_rows(context, term, begin, end);                                                  \
    }
VARIANT(rows_scaled, SCALED)
VARIANT(rows_multiplied, MULTIPLIED)
VARIANT(rows_signed, SIGNED)

int sl_cpu_pair_gradient(const struct sl_pair_gradient_args *args)
{
    static sl_cpu_rows_fn *const variants[] = {
        [SCALED] = rows_scaled, [MULTIPLIED] = rows_multiplied, [SIGNED] = rows_signed};
    SL_TRY(sl_check_pair_gradient(args));
    const enum term term = args->combine == SL_PAIR_DIFFERENCE ? SIGNED
                           : args->drows                       ? MULTIPLIED
                                                               : SCALED;
    const struct sl_csr_view csr = {.n_dst = args->n_rows,
                                    .n_edges = 2 * args->n,
                                    .indptr = args->indptr,
                                    .indices = args->ends};
    sl_cpu_parallel_rows(&csr, args->dim * sizeof(float), variants[term], args);
    return SL_OK;
}
