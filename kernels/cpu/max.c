/*
 * Element-wise maximum over the neighbours, and its gradient.
 *
 * Forward is aggregate.c with a comparison in place of an addition: chunks of columns that stay in
 * registers, the largest so far and the edge that it came from, prefetch some edges ahead, a last
 * chunk that overlaps the one before. (The reasons are there.) The first of equals stays, and the
 * first NaN stays for good: an element is replaced where it is neither >= the new one nor a NaN.
 *
 * The chunks are plain loops over constant numbers of columns, 64 or 32, for the vectoriser, not
 * the vectors of vector.h: GCC 12 takes the comparison of a vector that is wider than a register,
 * and every "and" of two comparisons, apart into scalars. (16 columns it unrolls before it
 * vectorises.) The arrays of a chunk become registers.
 *
 * Backward goes through the transposed adjacency, so that a source's row has one writer: from each
 * destination that the source is a neighbour of, the elements that came by this edge are added.
 * That reads two rows an edge, most of whose elements came from elsewhere. To scatter each
 * destination's elements reads them once, but it writes to the rows of all its sources, clears them
 * all before, and cannot be split between threads without an order that depends on them.
 *
 * Invariant. A source's sum runs in the order of the transposed edges; threads own whole rows.
 */
#include "kernels/kernels_internal.h"

#include <math.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "kernels/check.h"
#include "kernels/cpu/cpu_internal.h"
#include "kernels/cpu/vector.h"

enum {
    CHUNK = 64, // columns
    HALF_CHUNK = 32,
    PREFETCH_EDGES = 12,
};

/*
 * The columns of a row of at least 32 that are made next, where those before `done` are made: 64 or
 * 32, the last ones of which end at the last column and overlap others.
 */
SL_INLINE struct sl_stretch next_chunk(uint32_t done, uint32_t dim)
{
    const int wide = dim - done >= CHUNK || (dim - done > HALF_CHUNK && done > 0);
    const uint32_t n = wide ? CHUNK : HALF_CHUNK, first = SL_MIN(done, dim - n);
    return (struct sl_stretch){first, first + n};
}

// Calls each(first column, columns), columns being a constant, but in a row of fewer than 32.
#define FOR_CHUNKS(dim, each)                                                                      \
    do {                                                                                           \
        if ((dim) < HALF_CHUNK)                                                                    \
            each(0, dim);                                                                          \
        else                                                                                       \
            for (struct sl_stretch at = {0}; at.end < (dim);) {                                    \
                at = next_chunk(at.end, dim);                                                      \
                if (at.end - at.first == CHUNK)                                                    \
                    each(at.first, CHUNK);                                                         \
                else                                                                               \
                    each(at.first, HALF_CHUNK);                                                    \
            }                                                                                      \
    } while (0)

// ---- forward ------------------------------------------------------------------------------------

// The compile-time flags of one variant.
struct variant {
    enum sl_isa simd;
    enum sl_dtype dtype; // of x: f32, f16, bf16
    int traced;          // from is wanted
};

// Elements at .. at + n of x as f32: where they are, or converted into room.
SL_INLINE const float *columns(const struct sl_aggregate_max_args *args, struct variant kind,
                               uint64_t at, uint32_t n, float *room)
{
    if (kind.dtype == SL_DTYPE_F32)
        return (const float *)args->x + at;
    const uint16_t *x = (const uint16_t *)args->x + at;
    uint32_t c = 0;
    for (; c + SL_LANES_8 <= n; c += SL_LANES_8) {
        sl_v8 v;
        if (kind.dtype == SL_DTYPE_F16)
            sl_v8_from_half(kind.simd, x + c, &v);
        else
            sl_v8_from_bf16(x + c, &v);
        *(sl_v8_at *)(room + c) = v;
    }
    for (; c < n; c++)
        room[c] = kind.dtype == SL_DTYPE_F16 ? sl_half_to_float(x[c]) : sl_bf16_to_float(x[c]);
    return room;
}

// Columns first .. first + n of destination `row`; n <= CHUNK, a constant but in narrow rows.
SL_INLINE void max_chunk(const struct sl_aggregate_max_args *args, struct variant kind,
                         uint32_t row, uint32_t first, uint32_t n)
{
    const uint32_t *indices = args->csr.indices;
    const uint64_t dim = args->dim, pitch = kind.dtype == SL_DTYPE_BF16 ? args->x_ld : dim;
    uint32_t begin = args->csr.indptr[row], end = args->csr.indptr[row + 1];
    uint32_t last = args->csr.indptr[args->csr.n_dst] - 1; // unused when there is no edge
    float best[CHUNK], room[CHUNK];
    uint32_t from[CHUNK];

    // A first element that is -infinity changes nothing, and is where the row's maximum came from.
    for (uint32_t c = 0; c < n; c++) {
        best[c] = begin < end ? -INFINITY : 0.0f;
        from[c] = begin < end ? begin : UINT32_MAX;
    }
    for (uint32_t e = begin; e < end; e++) {
        sl_prefetch_row(args->x, kind.dtype != SL_DTYPE_F32,
                        indices[SL_MIN(e + PREFETCH_EDGES, last)] * pitch + first, n);
        const float *x = columns(args, kind, indices[e] * pitch + first, n, room);
        for (uint32_t c = 0; c < n; c++) {
            int wins = !(x[c] <= best[c]) & (best[c] == best[c]);
            best[c] = wins ? x[c] : best[c];
            if (kind.traced)
                from[c] = wins ? e : from[c];
        }
    }
    if (args->y)
        memcpy(args->y + row * dim + first, best, n * sizeof *best);
    else
        sl_round_span(best, n, args->y_bf16 + row * args->y_ld + first);
    if (kind.traced)
        memcpy(args->from + row * dim + first, from, n * sizeof *from);
}

SL_INLINE void max_rows(const struct sl_aggregate_max_args *args, struct variant kind,
                        uint32_t begin, uint32_t end)
{
#define CHUNK_MAX(first, n) max_chunk(args, kind, row, first, n)
    for (uint32_t row = begin; row < end; row++)
        FOR_CHUNKS(args->dim, CHUNK_MAX);
#undef CHUNK_MAX
}

#define VARIANT(name, ...)                                                                         \
    SL_CPU_ROWS(rows_##name)                                                                       \
    {                                                                                              \
        max_rows(context, (struct variant){simd, __VA_ARGS__}, begin, end);                        \
    }
VARIANT(f32, SL_DTYPE_F32, 0)
VARIANT(f32_traced, SL_DTYPE_F32, 1)
VARIANT(f16, SL_DTYPE_F16, 0)
VARIANT(f16_traced, SL_DTYPE_F16, 1)
VARIANT(bf16, SL_DTYPE_BF16, 0)
VARIANT(bf16_traced, SL_DTYPE_BF16, 1)

// By dtype, traced.
static sl_cpu_rows_fn *const variants[][2] = {[SL_DTYPE_F32] = {rows_f32, rows_f32_traced},
                                              [SL_DTYPE_F16] = {rows_f16, rows_f16_traced},
                                              [SL_DTYPE_BF16] = {rows_bf16, rows_bf16_traced}};

int sl_cpu_aggregate_max(const struct sl_aggregate_max_args *args)
{
    SL_TRY(sl_check_aggregate_max(args));
    sl_cpu_parallel_rows(&args->csr, args->dim * sl_dtype_bytes(args->x_dtype),
                         variants[args->x_dtype][args->from != NULL], args);
    return SL_OK;
}

// ---- backward -----------------------------------------------------------------------------------

// Columns first .. first + n of `source`; n as in max_chunk.
SL_INLINE void grad_chunk(const struct sl_aggregate_max_grad_args *args, uint32_t source,
                          uint32_t first, uint32_t n)
{
    const struct sl_csr_view *t = &args->transposed;
    uint64_t dim = args->dim;
    uint32_t last = t->indptr[t->n_dst] - 1; // unused when there is no edge
    float sum[CHUNK];

    for (uint32_t c = 0; c < n; c++)
        sum[c] = 0.0f;
    for (uint32_t e = t->indptr[source]; e < t->indptr[source + 1]; e++) {
        uint64_t ahead = t->indices[SL_MIN(e + PREFETCH_EDGES, last)] * dim + first;
#pragma GCC unroll 4
        for (uint32_t c = 0; c < n; c += SL_CACHE_LINE / 4) {
            __builtin_prefetch(args->from + ahead + c, 0, 3);
            __builtin_prefetch(args->dy + ahead + c, 0, 3);
        }
        uint64_t at = t->indices[e] * dim + first;
        const uint32_t *from = args->from + at;
        const float *dy = args->dy + at;
        uint32_t edge = args->t_edge[e];
        for (uint32_t c = 0; c < n; c++)
            sum[c] += from[c] == edge ? dy[c] : 0.0f;
    }
    memcpy(args->dx + source * dim + first, sum, n * sizeof *sum);
}

SL_CPU_ROWS(grad_rows)
{
    const struct sl_aggregate_max_grad_args *args = context;
#define CHUNK_GRAD(first, n) grad_chunk(args, source, first, n)
    for (uint32_t source = begin; source < end; source++)
        FOR_CHUNKS(args->dim, CHUNK_GRAD);
#undef CHUNK_GRAD
}

int sl_cpu_aggregate_max_backward(const struct sl_aggregate_max_grad_args *args)
{
    SL_TRY(sl_check_aggregate_max_backward(args));
    sl_cpu_parallel_rows(&args->transposed, args->dim * (uint64_t)8, grad_rows, args);
    return SL_OK;
}
