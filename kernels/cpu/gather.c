/*
 * Extraction: rows of the feature table, in the order of a block's input nodes, as f32.
 *
 * The output is written once, front to back, and is larger than the caches: streaming stores save
 * reading its lines first. Source rows are random; the next ones are prefetched while this one is
 * copied. (Figures: README.md.) Ids are compared with the table in one vector pass ahead of the
 * copy, so the copying loop has no branch for them and nothing is written before they are known to
 * be good.
 */
#include "kernels/kernels_internal.h"

#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "kernels/check.h"
#include "kernels/cpu/cpu_internal.h"
#include "kernels/cpu/vector.h"

enum {
    PREFETCH_ROWS = 8,
    STREAM_MIN_BYTES = 1 << 20, // output below this stays in the cache for its reader
    GRAIN_BYTES = 1 << 16,
};

struct job {
    const void *table;
    const uint32_t *rows;
    float *out;
    uint64_t n;
    uint32_t dim;
    int half;
    int stream;
};

SL_SIMD static uint32_t largest(const uint32_t *rows, uint64_t n)
{
    uint32_t most = 0;
    for (uint64_t i = 0; i < n; i++)
        most = rows[i] > most ? rows[i] : most;
    return most;
}

SL_INLINE void prefetch_row(const struct job *job, uint64_t i, uint64_t row_bytes)
{
    if (i >= job->n)
        return;
    const char *p = (const char *)job->table + job->rows[i] * row_bytes;
    for (uint64_t b = 0; b < row_bytes; b += SL_CACHE_LINE)
        __builtin_prefetch(p + b, 0, 3);
}

SL_SIMD static void rows_f32(const struct job *job, uint64_t begin, uint64_t end)
{
    uint64_t dim = job->dim;
    for (uint64_t i = begin; i < end; i++) {
        prefetch_row(job, i + PREFETCH_ROWS, dim * 4);
        memcpy(job->out + i * dim, (const float *)job->table + job->rows[i] * dim, dim * 4);
    }
}

// dim is a multiple of 4 and out is aligned to 16 bytes.
SL_SIMD static void rows_f32_stream(const struct job *job, uint64_t begin, uint64_t end)
{
    uint64_t dim = job->dim;
    for (uint64_t i = begin; i < end; i++) {
        const float *from = (const float *)job->table + job->rows[i] * dim;
        float *to = job->out + i * dim;
        prefetch_row(job, i + PREFETCH_ROWS, dim * 4);
        for (uint64_t c = 0; c < dim; c += 4)
            sl_stream_v4(to + c, from + c);
    }
    sl_stream_fence();
}

SL_SIMD static void rows_f16(const struct job *job, uint64_t begin, uint64_t end)
{
    uint64_t dim = job->dim;
    for (uint64_t i = begin; i < end; i++) {
        const uint16_t *from = (const uint16_t *)job->table + job->rows[i] * dim;
        float *to = job->out + i * dim;
        prefetch_row(job, i + PREFETCH_ROWS, dim * 2);
        uint64_t c = 0;
        for (; c + SL_LANES <= dim; c += SL_LANES) {
            sl_v16 x;
            sl_v16_from_half(from + c, &x);
            if (job->stream)
                sl_stream_v16(to + c, &x);
            else
                *(sl_v16_at *)(to + c) = x;
        }
        for (; c < dim; c++)
            to[c] = sl_half_to_float(from[c]);
    }
    sl_stream_fence();
}

static void run_range(void *context, uint64_t begin, uint64_t end)
{
    const struct job *job = context;
    if (job->half)
        rows_f16(job, begin, end);
    else if (job->stream)
        rows_f32_stream(job, begin, end);
    else
        rows_f32(job, begin, end);
}

int sl_cpu_gather_rows(const void *table, enum sl_dtype dtype, uint64_t n_rows, uint32_t dim,
                       const uint32_t *rows, uint64_t n, float *out)
{
    SL_TRY(sl_check_gather_rows(table, dtype, dim, rows, n, out));
    if (n == 0)
        return SL_OK;
    if (largest(rows, n) >= n_rows)
        return sl_check_row_range(rows, n, n_rows);
    struct job job = {.table = table, .rows = rows, .out = out, .n = n, .dim = dim};
    job.half = dtype == SL_DTYPE_F16;
    job.stream = SL_STREAM_BYTES > 0 && dim >= SL_LANES && dim % 4 == 0 &&
                 (uintptr_t)out % 16 == 0 && n * dim * sizeof *out >= STREAM_MIN_BYTES;
    sl_cpu_parallel_range(n, GRAIN_BYTES / (dim * 4), 16, run_range, &job);
    return SL_OK;
}
