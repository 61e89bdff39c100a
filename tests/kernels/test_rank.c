// mark_ranks, split_rows and gather_rows_to: from a batch's vertices to its rows in two tiers.
#include "tests/kernels/harness.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"

static const uint32_t sizes[] = {0,  1,  2,  15, 16,  17,  31,  32,   33,   47,
                                 48, 63, 64, 65, 100, 127, 128, 1000, 40000};

// ---- mark_ranks ---------------------------------------------------------------------------------

// An index of `limit` vertices out of n_nodes, as evenly as they go in tiers, anywhere; and what
// rank it gives to each (n_nodes).
static struct sl_rank_index random_index(struct suite *t, uint32_t n_nodes, uint32_t limit,
                                         uint32_t n_tiers, uint32_t **rank_of)
{
    uint32_t *rank = t_alloc(t, n_nodes * sizeof *rank, 0);
    uint32_t *tier = t_alloc(t, n_nodes * sizeof *tier, 0);
    uint64_t n_words = ((uint64_t)n_nodes + 31) / 32 * n_tiers;
    uint64_t *words =
        t_alloc(t, n_words * sizeof *words, 0); // what stands in front of nothing: any
    for (uint64_t w = 0; w < n_words; w++)
        words[w] = (uint64_t)t_random_below(t, UINT32_MAX) << 32;
    for (uint32_t v = 0, left = limit; v < n_nodes; v++) {
        bool is_hot = t_random_below(t, n_nodes - v) < left;
        left -= is_hot;
        tier[v] = is_hot ? t_random_below(t, n_tiers) : n_tiers;
        rank[v] = SL_RANK_NONE;
    }
    uint32_t next = 0;
    for (uint32_t k = 0; k < n_tiers; k++)
        for (uint32_t v = 0; v < n_nodes; v++) {
            if (tier[v] != k)
                continue;
            uint64_t *word = &words[(uint64_t)(v / 32) * n_tiers + k];
            if ((uint32_t)*word == 0)
                *word = (uint64_t)next << 32;
            *word |= 1ull << v % 32;
            rank[v] = next++;
        }
    t_expect(t, next == limit, "%u vertices are hot, wanted %u", next, limit);
    *rank_of = rank;
    return (struct sl_rank_index){.n_nodes = n_nodes, .n_tiers = n_tiers, .words = words};
}

static void compare_mark(struct suite *t, uint32_t n_nodes, uint32_t limit, uint32_t n_tiers,
                         uint32_t n)
{
    if (!t_affords(t, n))
        return;
    t_begin(t, "mark_ranks of %u vertices, %u of %u hot in %u tiers", n, limit, n_nodes, n_tiers);
    uint32_t *rank_of;
    const struct sl_rank_index index = random_index(t, n_nodes, limit, n_tiers, &rank_of);
    uint32_t *nodes = t_random_ids(t, n, n_nodes), *want = t_alloc(t, n * sizeof *want, 0);
    if (n > 0)
        nodes[n - 1] = n_nodes - 1;
    t_expect_ok(t, t->ref->mark_ranks(&index, nodes, n, want), "ref");
    for (uint32_t i = 0; i < n; i++)
        t_expect(t, want[i] == rank_of[nodes[i]], "rank %u", i);
    for (const int *threads = t_threads; *threads; threads++) {
        uint32_t *got = t_alloc(t, n * sizeof *got, 4);
        sl_kernels_set_threads(*threads);
        t_expect_ok(t, t->dev->mark_ranks(&index, nodes, n, got), "dev");
        t_same_bits(t, "ranks", got, want, n * sizeof *want);
    }
    t_end(t);
}

// Beyond the bound by little, and by as much as there is: nothing outside the words is read.
static void bad_mark(struct suite *t)
{
    static const uint32_t beyond[] = {33, 34, 64, 1u << 31, UINT32_MAX};
    t_begin(t, "mark_ranks refuses what is no vertex");
    uint32_t *rank_of, *nodes = t_alloc(t, 40 * sizeof *nodes, 0), ranks[40];
    memset(nodes, 0, 40 * sizeof *nodes);
    const struct sl_kernels *both[] = {t->ref, t->dev};
    for (uint32_t n_tiers = 0; n_tiers <= 3; n_tiers++) {
        struct sl_rank_index index = random_index(t, 33, n_tiers ? 20 : 0, n_tiers, &rank_of);
        for (size_t k = 0; k < SL_COUNT_OF(both); k++) {
            for (uint32_t at = 0; at < 40; at += 13)
                for (size_t b = 0; b < SL_COUNT_OF(beyond); b++) {
                    char name[40];
                    snprintf(name, sizeof name, "vertex %u ", beyond[b]);
                    nodes[at] = beyond[b];
                    t_expect_code(t, both[k]->mark_ranks(&index, nodes, 40, ranks), SL_ERANGE,
                                  both[k]->name);
                    t_expect(t, strstr(sl_error_message(), name) != NULL, "the message: %s",
                             sl_error_message());
                    nodes[at] = 32;
                }
            t_expect_ok(t, both[k]->mark_ranks(&index, nodes, 40, ranks), both[k]->name);
            t_expect_ok(t, both[k]->mark_ranks(&index, NULL, 0, NULL), "nothing");
            t_expect_code(t, both[k]->mark_ranks(&index, NULL, 1, ranks), SL_EINVAL, "NULL");
            t_expect_code(t, both[k]->mark_ranks(NULL, nodes, 1, ranks), SL_EINVAL, "no index");
            struct sl_rank_index bad = index;
            bad.n_tiers = SL_RANK_TIERS_MAX + 1;
            t_expect_code(t, both[k]->mark_ranks(&bad, nodes, 1, ranks), SL_EINVAL, "tiers");
            bad = (struct sl_rank_index){.n_nodes = 33, .n_tiers = 1};
            t_expect_code(t, both[k]->mark_ranks(&bad, nodes, 1, ranks), SL_EINVAL, "no words");
            bad = (struct sl_rank_index){.n_nodes = 0, .n_tiers = 1, .words = index.words};
            t_expect_code(t, both[k]->mark_ranks(&bad, nodes, 1, ranks), SL_ERANGE, "no vertices");
            memset(nodes, 0, 40 * sizeof *nodes);
        }
    }
    t_end(t);
}

static void check_mark(struct suite *t)
{
    static const uint32_t limits[] = {0, 1, 31, 32, 33, 64, 1000, 5000};
    for (size_t s = 0; s < SL_COUNT_OF(sizes); s++) {
        compare_mark(t, 1, 0, 1, sizes[s]);
        compare_mark(t, 1, 1, 1, sizes[s]);
        compare_mark(t, 100003, 10000, 1, sizes[s]);
        compare_mark(t, 100003, 60000, 2, sizes[s]);
    }
    for (size_t l = 0; l < SL_COUNT_OF(limits); l++)
        for (uint32_t n_tiers = 1; n_tiers <= SL_RANK_TIERS_MAX; n_tiers++) {
            compare_mark(t, 5000, limits[l], n_tiers, 1000);
            compare_mark(t, limits[l] + 1, limits[l], n_tiers, 100);
        }
    bad_mark(t);
}

void test_mark_ranks(struct suite *t)
{
    t_each_isa(t, check_mark);
}

// ---- split_rows ---------------------------------------------------------------------------------

static struct sl_row_split split_room(struct suite *t, uint32_t n)
{
    return (struct sl_row_split){.n_hits = 12345,
                                 .n_misses = 12345,
                                 .hit_row = t_alloc(t, n * sizeof(uint32_t), 4),
                                 .hit_to = t_alloc(t, n * sizeof(uint32_t), 8),
                                 .miss_row = t_alloc(t, n * sizeof(uint32_t), 12),
                                 .miss_to = t_alloc(t, n * sizeof(uint32_t), 0)};
}

enum { DEALT = 3000 }; // elements of a spread with parts

// Of a spread with parts `held` (DEALT) says who is somewhere.
static void expect_split(struct suite *t, const uint32_t *nodes, const uint32_t *ranks, uint32_t n,
                         const struct sl_spread *spread, const bool *held)
{
    const struct sl_kernels *both[] = {t->ref, t->dev};
    for (size_t k = 0; k < SL_COUNT_OF(both); k++) {
        struct sl_row_split got = split_room(t, n);
        t_expect_ok(t, both[k]->split_rows(nodes, ranks, n, spread, &got), both[k]->name);
        uint32_t h = 0, m = 0;
        for (uint32_t i = 0; i < n; i++)
            if (held ? ranks[i] < DEALT && held[ranks[i]] : ranks[i] < spread->n_near) {
                t_expect(t, got.hit_row[h] == ranks[i] && got.hit_to[h] == i, "%s: hit %u",
                         both[k]->name, h);
                h++;
            } else {
                t_expect(t, got.miss_row[m] == nodes[i] && got.miss_to[m] == i, "%s: miss %u",
                         both[k]->name, m);
                m++;
            }
        t_expect(t, got.n_hits == h && got.n_misses == m, "%s: %u hits, %u misses, wanted %u, %u",
                 both[k]->name, got.n_hits, got.n_misses, h, m);
    }
}

static void compare_split(struct suite *t, uint32_t n, uint32_t capacity, uint32_t most)
{
    if (!t_affords(t, n))
        return;
    t_begin(t, "split_rows of %u rows with ranks up to %u, capacity %u", n, most, capacity);
    uint32_t *nodes = t_alloc(t, n * sizeof *nodes, 0), *ranks = t_alloc(t, n * sizeof *ranks, 0);
    for (uint32_t i = 0; i < n; i++) {
        nodes[i] = (uint32_t)t_random(t);
        ranks[i] = most == UINT32_MAX ? (uint32_t)t_random(t) : t_random_below(t, most + 1);
    }
    const struct sl_spread held = {.n_near = capacity};
    expect_split(t, nodes, ranks, n, &held, NULL);
    t_end(t);
}

// Deals elements out as runs one after the other: held[i] says whether somebody has element i.
static void deal(const struct sl_spread *s, bool *held)
{
    uint64_t taken[SL_PARTS_MAX] = {0};
    uint32_t part = 0;
    for (uint64_t i = 0; i < DEALT; i++)
        held[i] = i < s->n_near;
    for (uint64_t i = s->first; i < s->end;) {
        for (uint64_t run = 0; run < (uint64_t)1 << s->shift && i < s->end; run++, i++)
            held[i] |= taken[part]++ < s->part[part].n;
        part = (part + 1) % s->n_parts;
    }
}

// Parts that are missing, full, or filled in part; what is near below and above their first.
static void compare_parts(struct suite *t, uint32_t n_parts, uint32_t shift, uint32_t n)
{
    static const float memory[1];
    static bool held[DEALT];
    if (!t_affords(t, n))
        return;
    t_begin(t, "split_rows of %u rows, %u parts of runs of %u", n, n_parts, 1u << shift);
    struct sl_spread s = {.n_parts = n_parts, .shift = shift};
    s.first = t_random_below(t, DEALT / 2);
    s.end = s.first + t_random_below(t, (uint32_t)(DEALT - s.first) + 1);
    s.n_near = t_random_below(t, 2 * (uint32_t)s.first + 1);
    for (uint32_t p = 0; p < n_parts; p++) {
        const uint32_t kind = t_random_below(t, 3);
        s.part[p].n = kind == 0 ? 0 : kind == 1 ? DEALT : t_random_below(t, DEALT / n_parts + 1);
        s.part[p].p = s.part[p].n ? memory : NULL;
    }
    deal(&s, held);
    uint32_t *nodes = t_random_ids(t, n, UINT32_MAX), *ranks = t_random_ids(t, n, DEALT);
    for (uint32_t i = 0; i < n; i += 7)
        ranks[i] = SL_RANK_NONE;
    expect_split(t, nodes, ranks, n, &s, held);
    t_end(t);
}

static void bad_split(struct suite *t)
{
    t_begin(t, "split_rows refuses missing arrays");
    uint32_t word = 0;
    const struct sl_spread held = {.n_near = 1};
    const struct sl_spread missing = {.end = 9, .n_parts = 1, .part = {{.p = NULL, .n = 9}}};
    struct sl_row_split good = {0, 0, &word, &word, &word, &word}, bad = good;
    const struct sl_kernels *both[] = {t->ref, t->dev};
    for (size_t k = 0; k < SL_COUNT_OF(both); k++) {
        bad.miss_to = NULL;
        t_expect_code(t, both[k]->split_rows(&word, &word, 1, &held, &bad), SL_EINVAL, "out");
        t_expect_code(t, both[k]->split_rows(&word, NULL, 1, &held, &good), SL_EINVAL, "ranks");
        t_expect_code(t, both[k]->split_rows(&word, &word, 1, &held, NULL), SL_EINVAL, "no out");
        t_expect_ok(t, both[k]->split_rows(NULL, NULL, 0, &held, &bad), "no rows");
        t_expect_code(t, both[k]->split_rows(&word, &word, 1, &missing, &good), SL_EINVAL, "part");
    }
    t_end(t);
}

static void check_split(struct suite *t)
{
    for (size_t s = 0; s < SL_COUNT_OF(sizes); s++) {
        compare_split(t, sizes[s], 0, 100);                     // all miss
        compare_split(t, sizes[s], 101, 100);                   // all hit
        compare_split(t, sizes[s], 50, 100);                    // either
        compare_split(t, sizes[s], 1, 100);                     // few hits
        compare_split(t, sizes[s], 3u << 30, UINT32_MAX);       // compared without a sign
        compare_split(t, sizes[s], UINT32_MAX, UINT32_MAX - 1); // all hit
        for (uint32_t parts = 1; parts <= SL_PARTS_MAX; parts += parts < 4 ? 1 : 4)
            compare_parts(t, parts, (uint32_t)(s + parts) % 7, sizes[s]);
    }
    bad_split(t);
}

void test_split_rows(struct suite *t)
{
    t_each_isa(t, check_split);
}

// ---- gather_rows_to -----------------------------------------------------------------------------

static void compare_gather(struct suite *t, enum sl_dtype dtype, uint32_t n_rows, uint32_t dim,
                           uint64_t n, uint64_t n_out, size_t skew)
{
    if (!t_affords(t, (double)n * dim))
        return;
    t_begin(t, "gather_rows_to %s n_rows=%u dim=%u n=%llu n_out=%llu skew=%zu",
            dtype == SL_DTYPE_F16 ? "f16" : "f32", n_rows, dim, (unsigned long long)n,
            (unsigned long long)n_out, skew);
    size_t count = (size_t)n_rows * dim, bytes = n_out * dim * sizeof(float);
    const void *table = dtype == SL_DTYPE_F16 ? (void *)t_random_halves(t, count)
                                              : (void *)t_random_floats(t, count);
    uint32_t *rows = t_random_ids(t, n, n_rows), *to = t_random_places(t, n, n_out);
    float *plain = t_alloc(t, n * dim * sizeof *plain, 0), *want = t_alloc(t, bytes, 0);
    t_expect_ok(t, t->ref->gather_rows(table, dtype, n_rows, dim, rows, n, plain), "gather_rows");
    t_expect_ok(t, t->ref->gather_rows_to(table, dtype, n_rows, dim, rows, to, n, n_out, want),
                "ref");
    for (uint64_t i = 0; i < n; i++)
        t_same_bits(t, "row", want + (uint64_t)to[i] * dim, plain + i * dim, dim * sizeof(float));
    for (const int *threads = t_threads; *threads; threads++) {
        float *got = t_alloc(t, bytes, skew); // the other rows keep what they had, as in want
        sl_kernels_set_threads(*threads);
        t_expect_ok(t, t->dev->gather_rows_to(table, dtype, n_rows, dim, rows, to, n, n_out, got),
                    "dev");
        t_same_bits(t, "out", got, want, bytes);
    }
    if (n <= n_rows) { // the first rows, without a list of them
        uint32_t *first = t_alloc(t, n * sizeof *first, 0);
        for (uint64_t i = 0; i < n; i++)
            first[i] = (uint32_t)i;
        float *listed = t_alloc(t, bytes, 0);
        t_expect_ok(t,
                    t->ref->gather_rows_to(table, dtype, n_rows, dim, first, to, n, n_out, listed),
                    "ref, listed");
        t_expect_ok(t, t->ref->gather_rows(table, dtype, n_rows, dim, first, n, plain), "ref");
        const struct sl_kernels *both[] = {t->ref, t->dev};
        for (size_t k = 0; k < SL_COUNT_OF(both); k++) {
            float *got = t_alloc(t, bytes, skew);
            float *whole = t_alloc(t, n * dim * sizeof *whole, skew);
            t_expect_ok(t,
                        both[k]->gather_rows_to(table, dtype, n_rows, dim, NULL, to, n, n_out, got),
                        "without a list");
            t_same_bits(t, "out without a list", got, listed, bytes);
            t_expect_ok(t, both[k]->gather_rows(table, dtype, n_rows, dim, NULL, n, whole),
                        "first");
            t_same_bits(t, "first rows", whole, plain, n * dim * sizeof *whole);
        }
    }
    t_end(t);
}

static void bad_places(struct suite *t)
{
    t_begin(t, "gather_rows_to refuses ids outside table and output");
    float *table = t_random_floats(t, 10 * 4), *out = t_alloc(t, 20 * 4 * sizeof(float), 0);
    uint32_t rows[20] = {0}, to[20];
    for (uint32_t i = 0; i < 20; i++)
        to[i] = i;
    memset(out, 0, 20 * 4 * sizeof(float));
    table[0] = 1;
    const struct sl_kernels *both[] = {t->ref, t->dev};
    for (size_t k = 0; k < SL_COUNT_OF(both); k++) {
        to[13] = 20;
        int rc = both[k]->gather_rows_to(table, SL_DTYPE_F32, 10, 4, rows, to, 20, 20, out);
        t_expect_code(t, rc, SL_ERANGE, "destination");
        t_expect(t,
                 strstr(sl_error_message(), "destination 20 ") &&
                     strstr(sl_error_message(), "position 13"),
                 "the message does not name it: %s", sl_error_message());
        to[13] = 13;
        rows[7] = 10;
        rc = both[k]->gather_rows_to(table, SL_DTYPE_F32, 10, 4, rows, to, 20, 20, out);
        t_expect_code(t, rc, SL_ERANGE, "row");
        if (both[k] == t->ref || t->device->is_host) // a GPU has written the others
            t_expect(t, out[0] == 0.0f, "something was written");
        rows[7] = 0;
        rc = both[k]->gather_rows_to(table, SL_DTYPE_F32, 10, 4, rows, NULL, 20, 20, out);
        t_expect_code(t, rc, SL_EINVAL, "to of NULL");
        rc = both[k]->gather_rows_to(table, SL_DTYPE_F32, 10, 4, NULL, to, 11, 20, out);
        t_expect_code(t, rc, SL_EINVAL, "more first rows than there are");
        rc = both[k]->gather_rows_to(table, SL_DTYPE_F32, 10, 4, rows, NULL, 0, 0, NULL);
        t_expect_ok(t, rc, "nothing");
    }
    t_end(t);
}

void test_gather_rows_to(struct suite *t)
{
    static const uint32_t dims[] = {1, 3, 16, 17, 31, 64, 100, 128, 256, 602};
    for (int half = 0; half < 2; half++) {
        enum sl_dtype dtype = half ? SL_DTYPE_F16 : SL_DTYPE_F32;
        for (size_t d = 0; d < SL_COUNT_OF(dims); d++) {
            static const uint64_t counts[] = {0, 1, 7, 500};
            for (size_t c = 0; c < SL_COUNT_OF(counts); c++) {
                compare_gather(t, dtype, 1 + t_random_below(t, 300), dims[d], counts[c],
                               counts[c] + t_random_below(t, 100), 0);
                compare_gather(t, dtype, 1 + t_random_below(t, 300), dims[d], counts[c], counts[c],
                               0);
            }
            // Large enough for streaming stores and for several threads; all alignments.
            uint64_t large = (2u << 20) / (dims[d] * 4) + 3;
            for (size_t skew = 0; skew < 32; skew += 4)
                if (skew % 16 == 0 || dims[d] == 128)
                    compare_gather(t, dtype, 5000, dims[d], large, large + large / 3, skew);
        }
    }
    bad_places(t);
}
