// gather_ranked, scatter_rows: copies between tables, caches and batches are exact.
#include "tests/kernels/harness.h"

#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"

// ---- gather_ranked ------------------------------------------------------------------------------

static const void *table_of(struct suite *t, enum sl_dtype dtype, size_t n)
{
    return dtype == SL_DTYPE_F16 ? (void *)t_random_halves(t, n) : (void *)t_random_floats(t, n);
}

/*
 * A third to all of the capacity near, the rest in parts of which some are not there and some not
 * as a whole; what is near reaches into the parts or leaves a gap before them.
 */
static struct sl_spread spread_of(struct suite *t, enum sl_dtype dtype, uint32_t capacity,
                                  uint32_t n_parts, uint32_t dim)
{
    struct sl_spread s = {.n_near = capacity, .end = capacity, .n_parts = n_parts};
    if (n_parts > 0) {
        s.n_near = t_random_below(t, capacity + 1);
        s.first = t_random_below(t, capacity + 1);
    }
    s.near = s.n_near ? table_of(t, dtype, s.n_near * dim) : NULL;
    for (uint32_t p = 0; p < n_parts; p++) {
        uint64_t all = (capacity - s.first + n_parts - 1 - p) / n_parts;
        uint32_t some = t_random_below(t, 3);
        s.part[p].n = some == 0 ? all / 2 : some == 1 && p > 0 ? 0 : all;
        s.part[p].p = s.part[p].n ? table_of(t, dtype, s.part[p].n * dim) : NULL;
    }
    return s;
}

// Where the rank's row is found by walking through the parts as they are dealt out: its address.
static const char *row_of(const struct sl_spread *s, uint32_t rank, size_t row_bytes)
{
    uint64_t dealt[SL_PARTS_MAX] = {0};
    uint32_t p = 0;
    if (rank < s->n_near)
        return (const char *)s->near + rank * row_bytes;
    if (s->n_parts == 0 || rank < s->first || rank >= s->end)
        return NULL;
    for (uint64_t r = s->first; r < rank; r++) {
        dealt[p]++;
        p = p + 1 == s->n_parts ? 0 : p + 1;
    }
    return dealt[p] < s->part[p].n ? (const char *)s->part[p].p + dealt[p] * row_bytes : NULL;
}

// capacity of `vertices` rows, most of which some vertex has; what is no row of the cache has any
// rank above.
static void compare_ranked(struct suite *t, enum sl_dtype dtype, uint32_t vertices,
                           uint32_t capacity, uint32_t n_parts, uint32_t dim, uint32_t n,
                           size_t skew)
{
    if (!t_affords(t, (double)n * dim))
        return;
    t_begin(t, "gather_ranked %s vertices=%u capacity=%u parts=%u dim=%u n=%u skew=%zu",
            dtype == SL_DTYPE_F16 ? "f16" : "f32", vertices, capacity, n_parts, dim, n, skew);
    struct sl_gather_ranked_args args = {.n_rows = vertices, .dim = dim};
    args.dtype = dtype, args.n = n;
    args.cache = spread_of(t, dtype, capacity, n_parts, dim);
    const size_t row_bytes = dim * sl_dtype_bytes(dtype);
    args.store = table_of(t, dtype, (size_t)vertices * dim);
    uint32_t *nodes = t_random_ids(t, n, vertices), *ranks = t_random_ids(t, n, 2 * capacity + 1);
    for (uint32_t i = 0; i < n; i++)
        if (t_random_below(t, 5) == 0)
            ranks[i] = SL_RANK_NONE;
        else if (row_of(&args.cache, ranks[i], row_bytes) && t_random_below(t, 5) == 0)
            nodes[i] = UINT32_MAX; // of a hit the store is not asked
    args.nodes = nodes, args.ranks = ranks;
    size_t bytes = (size_t)n * dim * sizeof(float);
    float *want = args.out = t_alloc(t, bytes, 0);
    struct sl_hits want_hits, hits;
    args.hits = &want_hits;
    t_expect_ok(t, t->ref->gather_ranked(&args), "ref");
    struct sl_hits found = {0};
    for (uint32_t i = 0; i < n; i++) {
        const char *row = row_of(&args.cache, ranks[i], row_bytes);
        const uint32_t part = (uint32_t)(ranks[i] - args.cache.first) % SL_MAX(n_parts, 1u);
        if (!row)
            row = (const char *)args.store + nodes[i] * row_bytes;
        else
            *(ranks[i] < args.cache.n_near ? &found.near : &found.part[part]) += 1;
        if (dtype == SL_DTYPE_F32)
            t_expect(t, memcmp(&want[(size_t)i * dim], row, row_bytes) == 0, "ref: row %u", i);
    }
    t_same_bits(t, "ref: hits", &want_hits, &found, sizeof found);
    for (const int *threads = t_threads; *threads; threads++) {
        sl_kernels_set_threads(*threads);
        args.out = t_alloc(t, bytes, skew);
        args.hits = &hits;
        memset(&hits, 0xff, sizeof hits);
        t_expect_ok(t, t->dev->gather_ranked(&args), "dev");
        t_same_bits(t, "out", args.out, want, bytes);
        t_same_bits(t, "hits", &hits, &want_hits, sizeof hits);
        args.out = t_alloc(t, bytes, skew);
        args.hits = NULL;
        t_expect_ok(t, t->dev->gather_ranked(&args), "dev without counting");
        t_same_bits(t, "out without counting", args.out, want, bytes);
    }
    struct sl_gather_ranked_args hits_alone = args;
    hits_alone.store = NULL, hits_alone.n_rows = 0, hits_alone.hits = &hits;
    hits_alone.out = t_alloc(t, bytes, skew);
    memset(hits_alone.out, 0xa5, bytes);
    memset(&hits, 0xff, sizeof hits);
    t_expect_ok(t, t->dev->gather_ranked(&hits_alone), "dev without a store");
    t_same_bits(t, "hits without a store", &hits, &want_hits, sizeof hits);
    for (uint32_t i = 0; i < n; i++)
        if (!row_of(&args.cache, ranks[i], row_bytes))
            memset(&want[(size_t)i * dim], 0xa5, dim * sizeof *want);
    t_same_bits(t, "out without a store", hits_alone.out, want, bytes);
    t_end(t);
}

static void ranked_refuses(struct suite *t)
{
    t_begin(t, "gather_ranked refuses what is neither in the cache nor in the store");
    float *cache = t_random_floats(t, 4 * 4), *store = t_random_floats(t, 10 * 4);
    float *out = t_alloc(t, 20 * 4 * sizeof *out, 0);
    uint32_t *nodes = t_random_ids(t, 20, 10), *ranks = t_random_ids(t, 20, 8);
    nodes[13] = 10, ranks[13] = 4;
    struct sl_gather_ranked_args args = {.cache = {.near = cache, .n_near = 4}, .store = store};
    args.n_rows = 10, args.dtype = SL_DTYPE_F32, args.dim = 4;
    args.nodes = nodes, args.ranks = ranks, args.n = 20, args.out = out;
    const struct sl_kernels *both[] = {t->ref, t->dev};
    for (size_t k = 0; k < 2; k++) {
        ranks[13] = 4;
        t_expect_code(t, both[k]->gather_ranked(&args), SL_ERANGE, both[k]->name);
        t_expect(t,
                 strstr(sl_error_message(), "id 10 ") && strstr(sl_error_message(), "position 13"),
                 "the message does not name the id: %s", sl_error_message());
        ranks[13] = 3;
        t_expect_ok(t, both[k]->gather_ranked(&args), "a hit");
        args.dtype = SL_DTYPE_I32;
        t_expect_code(t, both[k]->gather_ranked(&args), SL_EINVAL, "integers");
        args.dtype = SL_DTYPE_F32, args.cache.near = NULL;
        t_expect_code(t, both[k]->gather_ranked(&args), SL_EINVAL, "no cache");
        args.cache.near = cache, args.store = NULL;
        t_expect_code(t, both[k]->gather_ranked(&args), SL_EINVAL, "no store of ten rows");
        args.store = store;
    }
    t_end(t);
}

void test_gather_ranked(struct suite *t)
{
    static const uint32_t dims[] = {1, 3, 16, 17, 31, 64, 100, 128, 256, 602};
    for (int half = 0; half < 2; half++) {
        enum sl_dtype dtype = half ? SL_DTYPE_F16 : SL_DTYPE_F32;
        for (size_t d = 0; d < SL_COUNT_OF(dims); d++) {
            static const uint32_t counts[] = {0, 1, 7, 511, 513, 513, 200, 300, 400};
            static const uint32_t parts[] = {0, 2, 0, 3, 0, 1, 8, SL_PARTS_MAX, 5};
            for (size_t c = 0; c < SL_COUNT_OF(counts); c++)
                compare_ranked(t, dtype, 1 + t_random_below(t, 300), t_random_below(t, 60),
                               parts[c], dims[d], counts[c], 0);
            // Large enough for streaming stores and for several threads.
            uint32_t large = (2u << 20) / (dims[d] * 4) + 3;
            for (size_t skew = 0; skew < 32; skew += 12)
                compare_ranked(t, dtype, 5000, 1000, 0, dims[d], large, skew);
        }
    }
    ranked_refuses(t);
}

// ---- scatter_rows -------------------------------------------------------------------------------

static void compare_scatter(struct suite *t, uint32_t dim, uint32_t n, uint32_t n_out, size_t skew)
{
    if (!t_affords(t, (double)n * dim))
        return;
    t_begin(t, "scatter_rows dim=%u n=%u n_out=%u skew=%zu", dim, n, n_out, skew);
    size_t bytes = (size_t)n_out * dim * sizeof(float);
    float *x = t_copy(t, t_random_floats(t, (size_t)n * dim), (size_t)n * dim * sizeof *x, skew);
    const uint32_t *places = t_random_places(t, n, n_out);
    float *before = t_random_floats(t, (size_t)n_out * dim), *want = t_copy(t, before, bytes, 0);
    t_expect_ok(t, t->ref->scatter_rows(x, dim, places, n, n_out, want), "ref");
    for (const int *threads = t_threads; *threads; threads++) {
        sl_kernels_set_threads(*threads);
        float *got = t_copy(t, before, bytes, skew);
        t_expect_ok(t, t->dev->scatter_rows(x, dim, places, n, n_out, got), "dev");
        t_same_bits(t, "out", got, want, bytes);
    }
    t_end(t);
}

static void scatter_refuses(struct suite *t)
{
    t_begin(t, "scatter_rows refuses a destination outside the output");
    float *x = t_random_floats(t, 20 * 4), *out = t_alloc(t, 20 * 4 * sizeof *out, 0);
    uint32_t *to = t_alloc(t, 20 * sizeof *to, 0);
    memset(out, 0, 20 * 4 * sizeof *out);
    for (uint32_t i = 0; i < 20; i++)
        to[i] = i;
    const struct sl_kernels *both[] = {t->ref, t->dev};
    for (size_t k = 0; k < 2; k++) {
        to[13] = 20;
        t_expect_code(t, both[k]->scatter_rows(x, 4, to, 20, 20, out), SL_ERANGE, both[k]->name);
        t_expect(t,
                 strstr(sl_error_message(), "destination 20 ") &&
                     strstr(sl_error_message(), "position 13"),
                 "the message does not name it: %s", sl_error_message());
        to[13] = 13;
        t_expect_ok(t, both[k]->scatter_rows(x, 4, to, 20, 20, out), "good arguments");
        t_expect_code(t, both[k]->scatter_rows(x, 0, to, 20, 20, out), SL_EINVAL, "no columns");
        t_expect_code(t, both[k]->scatter_rows(NULL, 4, to, 20, 20, out), SL_EINVAL, "no x");
    }
    t_end(t);
}

void test_scatter_rows(struct suite *t)
{
    static const uint32_t dims[] = {1, 3, 4, 16, 17, 64, 100, 256, 257};
    for (size_t d = 0; d < SL_COUNT_OF(dims); d++)
        for (size_t skew = 0; skew < 16; skew += 4) {
            compare_scatter(t, dims[d], 0, 5, skew);
            compare_scatter(t, dims[d], 1, 1, skew);
            compare_scatter(t, dims[d], 300, 300, skew);
            compare_scatter(t, dims[d], 999, 1500, skew);
        }
    scatter_refuses(t);
}
