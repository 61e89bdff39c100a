/*
 * Extraction: rows of the feature table, in the order of a block's input nodes, as f32; or rows of
 * two tables, a cache and the store, each to its places in that order.
 *
 * Source rows are random. The row that is AHEAD_BYTES behind the one being copied is prefetched,
 * into the second-level cache: it has room for more lines on their way than the first, whose few
 * fill buffers the streaming stores need. The output is written once, front to back, and is larger
 * than the caches: streaming stores save reading its lines first. (Figures: README.md.)
 *
 * Ids are compared with the table in one vector pass ahead of the copy, so the copying loop has no
 * branch for them and nothing is written before they are known to be good.
 */
#include "kernels/kernels_internal.h"

#include <stdatomic.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "kernels/check.h"
#include "kernels/cpu/cpu_internal.h"
#include "kernels/cpu/vector.h"

enum {
    AHEAD_BYTES = 16 << 10,
    AHEAD_ROWS = 64,            // at most
    STREAM_MIN_BYTES = 1 << 20, // output below this stays in the cache for its reader
    GRAIN_BYTES = 1 << 16,
};

struct job {
    const void *table;
    const uint32_t *rows;
    const uint32_t *to; // row of out for each, or NULL: their own order
    float *out;
    uint64_t n;
    uint32_t dim;
    int half;
    uint32_t stream; // floats of a streaming store, 0 for ordinary ones
};

// 0 of none: ids are compared with their bound in one pass ahead.
SL_SIMD(uint32_t, largest_of, (const uint32_t *rows, uint64_t n), (rows, n))
{
    uint32_t most = 0;
    for (uint64_t i = 0; i < n; i++)
        most = rows[i] > most ? rows[i] : most;
    return most;
}

SL_INLINE uint64_t row_of_table(const struct job *job, uint64_t i)
{
    return job->rows ? job->rows[i] : i;
}

SL_INLINE float *row_of_out(const struct job *job, uint64_t i)
{
    return job->out + (job->to ? job->to[i] : i) * job->dim;
}

SL_INLINE void copy_row_f32(const struct job *job, enum sl_isa simd, uint64_t i)
{
    uint64_t dim = job->dim;
    const float *from = (const float *)job->table + row_of_table(job, i) * dim;
    float *to = row_of_out(job, i);
    if (job->stream == SL_LANES) {
        for (uint64_t c = 0; c < dim; c += SL_LANES) {
            const sl_v16 x = *(const sl_v16_at *)(from + c);
            sl_stream_v16(simd, to + c, &x);
        }
    } else if (job->stream) {
        for (uint64_t c = 0; c < dim; c += 4)
            sl_stream_v4(to + c, from + c);
    } else {
        memcpy(to, from, dim * sizeof *to);
    }
}

// The last vector ends at the last column and overlaps the one before it.
SL_INLINE void copy_row_f16(const struct job *job, enum sl_isa simd, uint64_t i)
{
    uint64_t dim = job->dim;
    const uint16_t *from = (const uint16_t *)job->table + row_of_table(job, i) * dim;
    float *to = row_of_out(job, i);
    for (uint64_t c = 0; dim < SL_LANES_8 && c < dim; c++)
        to[c] = sl_half_to_float(from[c]);
    for (uint64_t end = SL_LANES_8; dim >= SL_LANES_8 && end < dim + SL_LANES_8;
         end += SL_LANES_8) {
        uint64_t c = SL_MIN(end, dim) - SL_LANES_8;
        sl_v8 x;
        sl_v8_from_half(simd, from + c, &x);
        if (job->stream == SL_LANES) {
            sl_stream_v8(simd, to + c, &x);
        } else if (job->stream) {
            sl_stream_v4(to + c, (const float *)&x);
            sl_stream_v4(to + c + 4, (const float *)&x + 4);
        } else {
            *(sl_v8_at *)(to + c) = x;
        }
    }
}

SL_INLINE void ask_for_row(const struct job *job, uint64_t row_bytes, uint64_t i)
{
    const char *p = (const char *)job->table + row_of_table(job, i) * row_bytes;
    for (uint64_t b = 0; b < row_bytes; b += SL_CACHE_LINE)
        __builtin_prefetch(p + b, 0, 2);
}

SL_INLINE void copy_rows(const struct job *job, int half, enum sl_isa simd, uint64_t begin,
                         uint64_t end)
{
    const uint64_t row_bytes = (uint64_t)job->dim * (half ? 2 : 4);
    const uint64_t ahead = SL_MAX(SL_MIN(AHEAD_BYTES / row_bytes, (uint64_t)AHEAD_ROWS), 1);
    uint64_t asked = begin;
    for (; asked < SL_MIN(begin + ahead, end); asked++)
        ask_for_row(job, row_bytes, asked);
    for (uint64_t i = begin; i < end; i++) {
        if (asked < end)
            ask_for_row(job, row_bytes, asked++);
        if (half)
            copy_row_f16(job, simd, i);
        else
            copy_row_f32(job, simd, i);
    }
    if (job->stream)
        sl_stream_fence();
}

SL_SIMD_VOID(copy_rows_f32, (const struct job *job, uint64_t begin, uint64_t end),
             (job, begin, end))
{
    copy_rows(job, 0, simd, begin, end);
}

SL_SIMD_VOID(copy_rows_f16, (const struct job *job, uint64_t begin, uint64_t end),
             (job, begin, end))
{
    copy_rows(job, 1, simd, begin, end);
}

static void run_range(void *context, uint64_t begin, uint64_t end)
{
    const struct job *job = context;
    if (job->half)
        copy_rows_f16(job, begin, end);
    else
        copy_rows_f32(job, begin, end);
}

// How rows are copied.
static void plan(struct job *job, enum sl_dtype dtype)
{
    uint32_t dim = job->dim;
    job->half = dtype == SL_DTYPE_F16;
    job->stream = 0;
    if (SL_STREAM_BYTES == 0 || dim < SL_LANES || dim % 4 != 0 || (uintptr_t)job->out % 16 != 0 ||
        job->n * dim * sizeof *job->out < STREAM_MIN_BYTES)
        return;
    job->stream = dim % SL_LANES == 0 && (uintptr_t)job->out % SL_CACHE_LINE == 0 ? SL_LANES : 4;
}

static uint64_t grain_of(uint32_t dim)
{
    return GRAIN_BYTES / ((uint64_t)dim * 4);
}

// Arguments and ids are good.
static int gather(struct job *job, enum sl_dtype dtype)
{
    plan(job, dtype);
    sl_cpu_parallel_range(job->n, grain_of(job->dim), 16, run_range, job);
    return SL_OK;
}

int sl_cpu_gather_rows(const void *table, enum sl_dtype dtype, uint64_t n_rows, uint32_t dim,
                       const uint32_t *rows, uint64_t n, float *out)
{
    SL_TRY(sl_check_gather_rows(table, dtype, n_rows, dim, rows, n, out));
    if (n == 0)
        return SL_OK;
    if (rows && largest_of(rows, n) >= n_rows)
        return sl_check_row_range(rows, n, n_rows);
    struct job job = {.table = table, .rows = rows, .out = out, .n = n, .dim = dim};
    return gather(&job, dtype);
}

int sl_cpu_gather_rows_to(const void *table, enum sl_dtype dtype, uint64_t n_rows, uint32_t dim,
                          const uint32_t *rows, const uint32_t *to, uint64_t n, uint64_t n_out,
                          float *out)
{
    SL_TRY(sl_check_gather_rows_to(table, dtype, n_rows, dim, rows, to, n, n_out, out));
    if (n == 0)
        return SL_OK;
    if (rows && largest_of(rows, n) >= n_rows)
        return sl_check_row_range(rows, n, n_rows);
    if (largest_of(to, n) >= n_out)
        return sl_check_to_range(to, n, n_out);
    struct job job = {.table = table, .rows = rows, .to = to, .out = out, .n = n, .dim = dim};
    return gather(&job, dtype);
}

// ---- hits and misses at once --------------------------------------------------------------------

enum { RANKED_ROWS = 512 }; // rows that are split at a time: 8 KiB of lists

struct ranked {
    const struct sl_gather_ranked_args *args;
    uint32_t capacity;       // of the cache, all of which is near
    struct job job;          // without table and lists
    _Atomic uint32_t n_hits; // relaxed: the region's end orders it
};

// The largest row that is read of the store, 0 for none.
SL_SIMD(uint32_t, largest_miss,
        (const uint32_t *nodes, const uint32_t *ranks, uint64_t n, uint32_t capacity),
        (nodes, ranks, n, capacity))
{
    uint32_t most = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint32_t row = ranks[i] < capacity ? 0 : nodes[i];
        most = row > most ? row : most;
    }
    return most;
}

// Both lists are written for each row and one of them grows: no branch to mispredict.
static uint32_t gather_ranked_block(const struct ranked *r, uint64_t begin, uint64_t end)
{
    const struct sl_gather_ranked_args *args = r->args;
    uint32_t hit_row[RANKED_ROWS], hit_to[RANKED_ROWS], miss_row[RANKED_ROWS], miss_to[RANKED_ROWS];
    uint32_t n_hits = 0, n_misses = 0;
    for (uint64_t i = begin; i < end; i++) {
        uint32_t hit = args->ranks[i] < r->capacity;
        hit_row[n_hits] = args->ranks[i];
        miss_row[n_misses] = args->nodes[i];
        hit_to[n_hits] = miss_to[n_misses] = (uint32_t)i;
        n_hits += hit;
        n_misses += 1 - hit;
    }
    struct job hits = r->job, misses = r->job;
    hits.table = args->cache.near, hits.rows = hit_row, hits.to = hit_to;
    misses.table = args->store, misses.rows = miss_row, misses.to = miss_to;
    run_range(&hits, 0, n_hits);
    if (args->store)
        run_range(&misses, 0, n_misses);
    return n_hits;
}

static void gather_ranked_range(void *context, uint64_t begin, uint64_t end)
{
    struct ranked *r = context;
    uint32_t n_hits = 0;
    for (uint64_t at = begin; at < end; at += RANKED_ROWS)
        n_hits += gather_ranked_block(r, at, SL_MIN(at + RANKED_ROWS, end));
    atomic_fetch_add_explicit(&r->n_hits, n_hits, memory_order_relaxed);
}

int sl_cpu_gather_ranked(const struct sl_gather_ranked_args *args)
{
    SL_TRY(sl_check_gather_ranked(args));
    if (args->cache.n_parts > 0) // of GPUs
        return sl_ref_gather_ranked(args);
    struct ranked r = {.args = args,
                       .capacity = (uint32_t)SL_MIN(args->cache.n_near, (uint64_t)UINT32_MAX),
                       .job = {.out = args->out, .n = args->n, .dim = args->dim}};
    if (args->n > 0) {
        uint32_t most = largest_miss(args->nodes, args->ranks, args->n, r.capacity);
        if (most >= args->n_rows)
            SL_TRY(sl_check_ranked_range(args)); // without a store all may be hits
        plan(&r.job, args->dtype);
        sl_cpu_parallel_range(args->n, grain_of(args->dim), 16, gather_ranked_range, &r);
    }
    if (args->hits)
        *args->hits =
            (struct sl_hits){.near = atomic_load_explicit(&r.n_hits, memory_order_relaxed)};
    return SL_OK;
}

// ---- scatter ------------------------------------------------------------------------------------

static void scatter_range(void *context, uint64_t begin, uint64_t end)
{
    const struct job *job = context;
    const float *x = job->table;
    for (uint64_t i = begin; i < end; i++)
        memcpy(row_of_out(job, i), x + i * job->dim, job->dim * sizeof *x);
}

int sl_cpu_scatter_rows(const float *x, uint32_t dim, const uint32_t *to, uint64_t n,
                        uint64_t n_out, float *out)
{
    SL_TRY(sl_check_scatter_rows(x, dim, to, n, n_out, out));
    if (n == 0)
        return SL_OK;
    if (largest_of(to, n) >= n_out)
        return sl_check_scatter_range(to, n, n_out);
    struct job job = {.table = x, .to = to, .out = out, .n = n, .dim = dim};
    sl_cpu_parallel_range(n, grain_of(dim), 16, scatter_range, &job);
    return SL_OK;
}
