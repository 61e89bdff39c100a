// What the machine gives to the simplest loops: the figures that kernels are compared with.
#include "tests/bench/kernels/perf.h"

#include <string.h>

#include "common/base/simd.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

// ---- copy ---------------------------------------------------------------------------------------

enum { COPY_BYTES = 256 << 20 };

static void run_copy(void *context)
{
    const struct perf_copy *c = context;
    if (c->threads == 1) {
        memcpy(c->to, c->from, c->bytes);
        return;
    }
    size_t share = c->bytes / (size_t)c->threads;
#pragma omp parallel for num_threads(c->threads) schedule(static)
    for (int i = 0; i < c->threads; i++)
        memcpy(c->to + (size_t)i * share, c->from + (size_t)i * share, share);
}

struct perf_run perf_copy_ceiling(struct perf *p)
{
    if (!p->copy) {
        p->copy = perf_alloc(p, sizeof *p->copy);
        p->copy->bytes = COPY_BYTES;
        p->copy->threads = p->threads;
        p->copy->from = perf_alloc(p, COPY_BYTES);
        p->copy->to = perf_alloc(p, COPY_BYTES);
    }
    return perf_bytes("copy", run_copy, p->copy, 2.0 * COPY_BYTES, NULL);
}

// ---- random rows --------------------------------------------------------------------------------

typedef void copy_rows(const struct perf_rows *r, uint64_t begin, uint64_t end);

static void rows_plain(const struct perf_rows *r, uint64_t begin, uint64_t end)
{
    for (uint64_t i = begin; i < end; i++)
        memcpy(r->out + i * r->row_bytes, r->table + r->rows[i] * r->row_bytes, r->row_bytes);
}

static void stream(char *to, const char *from, size_t bytes)
{
#if defined(__SSE2__)
    if ((uintptr_t)to % 16 == 0 && bytes % 16 == 0) {
        for (size_t b = 0; b < bytes; b += 16)
            _mm_stream_si128((__m128i *)(to + b), _mm_loadu_si128((const __m128i *)(from + b)));
        return;
    }
#endif
    memcpy(to, from, bytes);
}

static void rows_stream(const struct perf_rows *r, uint64_t begin, uint64_t end)
{
    for (uint64_t i = begin; i < end; i++)
        stream(r->out + i * r->row_bytes, r->table + r->rows[i] * r->row_bytes, r->row_bytes);
}

static void prefetch_ahead(const struct perf_rows *r, uint64_t i, uint64_t end)
{
    const char *ahead = r->table + r->rows[i + 8 < end ? i + 8 : end - 1] * r->row_bytes;
    for (size_t b = 0; b < r->row_bytes; b += 64)
        __builtin_prefetch(ahead + b, 0, 3);
}

static void rows_prefetch(const struct perf_rows *r, uint64_t begin, uint64_t end)
{
    for (uint64_t i = begin; i < end; i++) {
        prefetch_ahead(r, i, end);
        memcpy(r->out + i * r->row_bytes, r->table + r->rows[i] * r->row_bytes, r->row_bytes);
    }
}

static void rows_prefetch_stream(const struct perf_rows *r, uint64_t begin, uint64_t end)
{
    for (uint64_t i = begin; i < end; i++) {
        prefetch_ahead(r, i, end);
        stream(r->out + i * r->row_bytes, r->table + r->rows[i] * r->row_bytes, r->row_bytes);
    }
}

static void run_rows(const struct perf_rows *r, copy_rows *body)
{
    if (r->threads == 1) {
        body(r, 0, r->n);
        return;
    }
    uint64_t n = (uint64_t)r->threads;
#pragma omp parallel for num_threads(r->threads) schedule(static)
    for (int i = 0; i < r->threads; i++)
        body(r, r->n * (uint64_t)i / n, r->n * ((uint64_t)i + 1) / n);
}

static void run_plain(void *context)
{
    run_rows(context, rows_plain);
}

static void run_stream(void *context)
{
    run_rows(context, rows_stream);
}

static void run_prefetch(void *context)
{
    run_rows(context, rows_prefetch);
}

static void run_prefetch_stream(void *context)
{
    run_rows(context, rows_prefetch_stream);
}

void perf_row_ceilings(struct perf_rows *rows, struct perf_run out[PERF_ROW_VARIANTS])
{
    static void (*const bodies[])(void *) = {run_plain, run_stream, run_prefetch,
                                             run_prefetch_stream};
    for (int i = 0; i < PERF_ROW_VARIANTS; i++)
        out[i] = perf_bytes("random rows", bodies[i], rows,
                            2.0 * (double)rows->n * (double)rows->row_bytes, NULL);
}

// ---- random words -------------------------------------------------------------------------------

static uint32_t read_words(const struct perf_words *w, uint64_t n, uint64_t state)
{
    enum { IN_FLIGHT = 16 };
    uint32_t sum = 0;
    uint64_t at[IN_FLIGHT];
    for (uint64_t i = 0; i < n; i += IN_FLIGHT) {
        for (int k = 0; k < IN_FLIGHT; k++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            at[k] = state >> 20 & (w->n_words - 1);
            __builtin_prefetch(w->words + at[k]);
        }
        for (int k = 0; k < IN_FLIGHT; k++)
            sum += w->words[at[k]];
    }
    return sum;
}

static void run_words(void *context)
{
    struct perf_words *w = context;
    uint32_t sum = 0;
    if (w->threads == 1) {
        sum = read_words(w, w->n_reads, 1);
    } else {
#pragma omp parallel for num_threads(w->threads) schedule(static) reduction(+ : sum)
        for (int i = 0; i < w->threads; i++)
            sum += read_words(w, w->n_reads / (uint64_t)w->threads, (uint64_t)i + 1);
    }
    w->sink += sum;
}

struct perf_run perf_word_ceiling(struct perf_words *words)
{
    return perf_count("random 4-byte", run_words, words, (double)words->n_reads, NULL);
}
