/*
 * Aggregation, the kernel that training spends most of its memory bandwidth in.
 *
 * Problem. Every edge reads one source row of 0.2 to 1 KiB from memory and adds it to its
 * destination's row; arithmetic is a twentieth of what the core could do. What counts is how many
 * line fills are in flight and that nothing is read or written twice.
 *
 * Design. A destination row is made in chunks of 64 columns, eight accumulators that stay in
 * registers, written once. All edges of the row are walked for one chunk before the next chunk, so
 * indices are read once from memory and then from the first-level cache. While edge e is added, the
 * same chunk of edge e + PREFETCH_EDGES is prefetched; that edge usually belongs to one of the next
 * rows, so the chunks still to come of this row lie between the prefetch and its use. Narrow chunks
 * spread the prefetches evenly between the adds: chunks of 256 columns, which keep a whole row in
 * registers, reach only three quarters of the speed, because sixteen prefetches in one burst fill
 * the ten or twelve line-fill buffers and stall. (Figures: README.md.)
 *
 * What is left of the columns behind the last full chunk is one narrower chunk that ends at the
 * last column and overlaps the one before: it computes some columns again, to the same bits, and
 * needs no scalar tail. Only rows of fewer than 16 columns have a loop of their own.
 *
 * Each type of the source, with and without factors of edges, is a function of its own, made by
 * inlining with constant flags. Which factors there are is asked at each edge, and how wide a chunk
 * is at each chunk: both are as they were the time before, so a processor foresees them.
 *
 * Invariant. The sum over a row's edges is taken in edge order whatever the number of threads:
 * threads own whole rows, cut by edges; where a hub has the edges of several parts, these divide
 * its columns.
 */
#include "kernels/kernels_internal.h"

#include "common/base/bits.h"
#include "common/base/error.h"
#include "kernels/check.h"
#include "kernels/cpu/cpu_internal.h"
#include "kernels/cpu/vector.h"

enum {
    CHUNK = 4 * SL_LANES, // columns
    PREFETCH_EDGES = 12,
};

// The compile-time flags of one variant.
struct variant {
    enum sl_isa simd;
    enum sl_dtype dtype; // of x: f32, f16, bf16
    int factors;         // edge_weight, col_scale or both
};

SL_INLINE void load(const struct sl_aggregate_args *args, struct variant kind, uint64_t at,
                    sl_v8 *out)
{
    if (kind.dtype == SL_DTYPE_F16)
        sl_v8_from_half(kind.simd, (const uint16_t *)args->x + at, out);
    else if (kind.dtype == SL_DTYPE_BF16)
        sl_v8_from_bf16((const uint16_t *)args->x + at, out);
    else
        *out = *(const sl_v8_at *)((const float *)args->x + at);
}

SL_INLINE float load_one(const struct sl_aggregate_args *args, struct variant kind, uint64_t at)
{
    return kind.dtype == SL_DTYPE_F16    ? sl_half_to_float(((const uint16_t *)args->x)[at])
           : kind.dtype == SL_DTYPE_BF16 ? sl_bf16_to_float(((const uint16_t *)args->x)[at])
                                         : ((const float *)args->x)[at];
}

// Elements from one row of x to the next.
SL_INLINE uint64_t pitch_of(const struct sl_aggregate_args *args, struct variant kind)
{
    return kind.dtype == SL_DTYPE_BF16 ? args->x_ld : args->dim;
}

// At least one of both is there.
SL_INLINE float edge_factor(const struct sl_aggregate_args *args, uint32_t edge, uint32_t source)
{
    if (!args->edge_weight)
        return args->col_scale[source];
    const float weight = args->edge_weight[edge];
    return args->col_scale ? weight * args->col_scale[source] : weight;
}

// Columns first .. first + 8 * n_vectors of destination `row`; n_vectors is a constant up to 8.
SL_INLINE void aggregate_chunk(const struct sl_aggregate_args *args, struct variant kind,
                               uint32_t row, uint32_t first, int n_vectors)
{
    const uint32_t *indices = args->csr.indices;
    const uint64_t pitch = pitch_of(args, kind);
    uint32_t begin = args->csr.indptr[row], end = args->csr.indptr[row + 1];
    uint32_t last = args->csr.indptr[args->csr.n_dst] - 1; // unused when there is no edge
    sl_v8 sum[CHUNK / SL_LANES_8];

#pragma GCC unroll 8
    for (int v = 0; v < n_vectors; v++)
        sum[v] = (sl_v8){0};
    for (uint32_t e = begin; e < end; e++) {
        uint32_t source = indices[e];
        uint32_t ahead = indices[SL_MIN(e + PREFETCH_EDGES, last)];
        sl_prefetch_row(args->x, kind.dtype != SL_DTYPE_F32, ahead * pitch + first,
                        (uint32_t)n_vectors * SL_LANES_8);
        sl_v8 x;
        if (kind.factors) {
            float factor = edge_factor(args, e, source);
#pragma GCC unroll 8
            for (int v = 0; v < n_vectors; v++) {
                load(args, kind, source * pitch + first + (uint32_t)(v * SL_LANES_8), &x);
                sum[v] += factor * x;
            }
        } else {
#pragma GCC unroll 8
            for (int v = 0; v < n_vectors; v++) {
                load(args, kind, source * pitch + first + (uint32_t)(v * SL_LANES_8), &x);
                sum[v] += x;
            }
        }
    }

    float row_scale = args->row_scale ? args->row_scale[row] : 1.0f;
    int has_self = args->self_scale && row < args->n_self;
    float self_scale = has_self ? args->self_scale[row] : 0.0f;
#pragma GCC unroll 8
    for (int v = 0; v < n_vectors; v++) {
        const uint32_t column = first + (uint32_t)(v * SL_LANES_8);
        sum[v] *= row_scale;
        if (has_self) { // not a multiplication by 0: an infinite x must not become a NaN
            sl_v8 x;
            load(args, kind, row * pitch + column, &x);
            sum[v] += self_scale * x;
        }
        if (args->y)
            *(sl_v8_at *)(args->y + row * (uint64_t)args->dim + column) = sum[v];
        else
            sl_v8_to_bf16(&sum[v], args->y_bf16 + row * args->y_ld + column);
    }
}

// The same for a number of columns that is not a constant: 16 to 64.
SL_INLINE void aggregate_wide(const struct sl_aggregate_args *args, struct variant kind,
                              uint32_t row, uint32_t first, uint32_t n)
{
    switch (n / SL_LANES) {
    case 1: aggregate_chunk(args, kind, row, first, 2); break;
    case 2: aggregate_chunk(args, kind, row, first, 4); break;
    case 3: aggregate_chunk(args, kind, row, first, 6); break;
    case 4: aggregate_chunk(args, kind, row, first, 8); break;
    }
}

// A row of fewer columns than one vector has.
SL_INLINE void aggregate_narrow(const struct sl_aggregate_args *args, struct variant kind,
                                uint32_t row)
{
    const uint64_t dim = args->dim, pitch = pitch_of(args, kind);
    float sum[SL_LANES] = {0}, x[SL_LANES] = {0};
    for (uint32_t e = args->csr.indptr[row]; e < args->csr.indptr[row + 1]; e++) {
        uint32_t source = args->csr.indices[e];
        float factor = kind.factors ? edge_factor(args, e, source) : 1.0f;
        for (uint32_t c = 0; c < dim; c++)
            x[c] = load_one(args, kind, source * pitch + c);
        for (uint32_t c = 0; c < SL_LANES; c++)
            sum[c] += factor * x[c];
    }
    int has_self = args->self_scale && row < args->n_self;
    for (uint32_t c = 0; c < dim; c++) {
        float y = args->row_scale ? args->row_scale[row] * sum[c] : sum[c];
        if (has_self)
            y += args->self_scale[row] * load_one(args, kind, row * pitch + c);
        if (args->y)
            args->y[row * dim + c] = y;
        else
            args->y_bf16[row * args->y_ld + c] = sl_float_to_bf16(y);
    }
}

// Some rows of y, and of them columns from .. to - 1, which are full chunks or end with the last.
struct piece {
    const struct sl_aggregate_args *args;
    uint32_t from, to;
};

SL_INLINE void aggregate_rows(const struct piece *piece, struct variant kind, uint32_t begin,
                              uint32_t end)
{
    const struct sl_aggregate_args *args = piece->args;
    uint32_t dim = args->dim;
    if (dim < SL_LANES) {
        for (uint32_t row = begin; row < end; row++)
            aggregate_narrow(args, kind, row);
        return;
    }
    for (uint32_t row = begin; row < end; row++) {
        for (struct sl_stretch at = {0, piece->from}; at.end < piece->to;) {
            at = sl_next_stretch(at.end, dim, CHUNK);
            aggregate_wide(args, kind, row, at.first, at.end - at.first);
        }
    }
}

#define VARIANT(name, ...)                                                                         \
    SL_CPU_ROWS(rows_##name)                                                                       \
    {                                                                                              \
        aggregate_rows(context, (struct variant){simd, __VA_ARGS__}, begin, end);                  \
    }
VARIANT(f32, SL_DTYPE_F32, 0)
VARIANT(f32_factors, SL_DTYPE_F32, 1)
VARIANT(f16, SL_DTYPE_F16, 0)
VARIANT(f16_factors, SL_DTYPE_F16, 1)
VARIANT(bf16, SL_DTYPE_BF16, 0)
VARIANT(bf16_factors, SL_DTYPE_BF16, 1)

// By dtype, and whether edges have factors.
static sl_cpu_rows_fn *const variants[][2] = {
    [SL_DTYPE_F32] = {rows_f32, rows_f32_factors},
    [SL_DTYPE_F16] = {rows_f16, rows_f16_factors},
    [SL_DTYPE_BF16] = {rows_bf16, rows_bf16_factors},
};

// ---- parts --------------------------------------------------------------------------------------

struct job {
    const struct sl_aggregate_args *args;
    sl_cpu_rows_fn *body;
    uint32_t n_parts;
};

/*
 * The rows of a part; a row that begins in it and reaches into others is the last one, and these
 * have no rows of their own: each of them takes some of its columns.
 */
static void run_part(void *context, uint32_t part)
{
    const struct job *job = context;
    const struct sl_csr_view *csr = &job->args->csr;
    const uint32_t n = job->n_parts, dim = job->args->dim, chunks = dim / CHUNK;
    const uint32_t begin = sl_cpu_row_split(csr, part, n);
    const uint32_t end = sl_cpu_row_split(csr, part + 1, n);
    uint32_t first = part, last = part;
    while (sl_cpu_row_split(csr, first, n) == end)
        first--;
    while (last + 1 < n && sl_cpu_row_split(csr, last + 2, n) == end)
        last++;
    struct piece piece = {job->args, 0, dim};
    if (first == last) {
        job->body(&piece, begin, end);
        return;
    }
    if (begin < end)
        job->body(&piece, begin, end - 1);
    const uint64_t sharers = last - first + 1, share = part - first;
    piece.from = (uint32_t)(chunks * share / sharers * CHUNK);
    if (part < last)
        piece.to = (uint32_t)(chunks * (share + 1) / sharers * CHUNK);
    if (piece.from < piece.to)
        job->body(&piece, end - 1, end);
}

int sl_cpu_aggregate(const struct sl_aggregate_args *args)
{
    SL_TRY(sl_check_aggregate(args));
    struct job job = {
        .args = args,
        .body = variants[args->x_dtype][args->edge_weight || args->col_scale],
        .n_parts =
            sl_cpu_edge_parts(&args->csr, (uint64_t)args->dim * sl_dtype_bytes(args->x_dtype)),
    };
    sl_cpu_parallel_parts(job.n_parts, run_part, &job);
    return SL_OK;
}
