// Orders against a plain sort, metrics against a plain count, hit rates and similarities by hand.
#include "common/data/hotness.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/philox.h"
#include "tests/unit/suite.h"

static void must(int rc)
{
    if (rc < 0)
        ck_abort_msg("%s", sl_error_message());
}

static uint32_t noise(uint64_t i)
{
    return sl_philox(11, sl_rng_word0(SL_RNG_GENERATE, 200, 0), (uint32_t)i, 0, 0).w[0];
}

// ---- order --------------------------------------------------------------------------------------

static const uint32_t *sorted_by;

static int hotter_first(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    if (sorted_by[x] != sorted_by[y])
        return sorted_by[x] > sorted_by[y] ? -1 : 1;
    return x < y ? -1 : 1;
}

static void plain_order(const uint32_t *hotness, uint64_t n, uint32_t *order)
{
    for (uint64_t v = 0; v < n; v++)
        order[v] = (uint32_t)v;
    sorted_by = hotness;
    qsort(order, n, sizeof *order, hotter_first);
}

static void assert_sorted(const uint32_t *hotness, uint64_t n)
{
    uint32_t *wanted = malloc((n + 1) * sizeof *wanted);
    uint32_t *order = malloc((n + 1) * sizeof *order), *rank = malloc((n + 1) * sizeof *rank);
    plain_order(hotness, n, wanted);
    order[n] = rank[n] = 0xfeedface; // nothing is written behind
    must(sl_hotness_order(hotness, n, NULL, order, rank));
    ck_assert_mem_eq(order, wanted, n * sizeof *order);
    for (uint64_t i = 0; i < n; i++)
        ck_assert_uint_eq(rank[order[i]], i);
    ck_assert_uint_eq(order[n], 0xfeedface);
    ck_assert_uint_eq(rank[n], 0xfeedface);
    // One alone is the same.
    memset(order, 0xff, n * sizeof *order);
    must(sl_hotness_order(hotness, n, NULL, order, NULL));
    ck_assert_mem_eq(order, wanted, n * sizeof *order);
    memset(rank, 0xff, n * sizeof *rank);
    must(sl_hotness_order(hotness, n, NULL, NULL, rank));
    for (uint64_t i = 0; i < n; i++)
        ck_assert_uint_eq(rank[wanted[i]], i);
    free(wanted);
    free(order);
    free(rank);
}

TEST(order_is_that_of_a_plain_sort)
{
    // Limits around the widths of one and of two passes.
    static const uint32_t limits[] = {2, 50, 65535, 65536, 65537, 1u << 20, UINT32_MAX};
    enum { N = 20000 };
    uint32_t *hotness = malloc(N * sizeof *hotness);
    for (size_t l = 0; l < SL_COUNT_OF(limits); l++) {
        for (uint32_t v = 0; v < N; v++)
            hotness[v] = noise(v + l * N) % limits[l];
        assert_sorted(hotness, N);
    }
    free(hotness);
}

TEST(order_of_few_and_of_equal_ones)
{
    must(sl_hotness_order(NULL, 0, NULL, NULL, NULL));
    assert_sorted((uint32_t[]){0}, 1);
    assert_sorted((uint32_t[]){UINT32_MAX}, 1);
    assert_sorted((uint32_t[]){3, 3, 3, 3}, 4);
    assert_sorted((uint32_t[]){65535, 65536, 0, 65536, UINT32_MAX, 0, UINT32_MAX}, 7);
    uint32_t order[4], rank[4];
    must(sl_hotness_order((uint32_t[]){1, 9, 1, 70000}, 4, NULL, order, rank));
    ck_assert_mem_eq(order, ((uint32_t[]){3, 1, 0, 2}), sizeof order);
    ck_assert_mem_eq(rank, ((uint32_t[]){2, 1, 3, 0}), sizeof rank);
}

TEST(stops_on_request)
{
    static uint32_t hotness[100], order[100];
    atomic_bool cancel = true;
    int32_t source = 3;
    hotness[5] = 1;
    ck_assert_int_eq(sl_hotness_order(hotness, 100, &cancel, order, NULL), SL_EABORTED);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "stopped on request"));
    hotness[5] = 1u << 20;
    ck_assert_int_eq(sl_hotness_order(hotness, 100, &cancel, order, NULL), SL_EABORTED);
    ck_assert_int_eq(sl_hotness_degree(&source, SL_DTYPE_I32, 1, 100, &cancel, hotness),
                     SL_EABORTED);
    ck_assert_int_eq(sl_hotness_random(1, 100, &cancel, hotness), SL_EABORTED);
    cancel = false;
    must(sl_hotness_order(hotness, 100, &cancel, order, NULL));
    must(sl_hotness_degree(&source, SL_DTYPE_I32, 1, 100, &cancel, hotness));
    must(sl_hotness_random(1, 100, &cancel, hotness));
}

// ---- metrics ------------------------------------------------------------------------------------

TEST(degree_counts_sources_of_every_type)
{
    enum { NODES = 301, EDGES = 200000 };
    static const enum sl_dtype types[] = {SL_DTYPE_I32, SL_DTYPE_U32, SL_DTYPE_I64, SL_DTYPE_U64};
    static uint32_t narrow[EDGES], wanted[NODES], found[NODES + 1];
    static uint64_t wide[EDGES];
    for (uint32_t e = 0; e < EDGES; e++) {
        narrow[e] = noise(e) % NODES % (1 + noise(e + EDGES) % NODES); // skewed; the last ones rare
        wide[e] = narrow[e];
        wanted[narrow[e]]++;
    }
    for (size_t t = 0; t < SL_COUNT_OF(types); t++) {
        const void *sources = sl_dtype_bytes(types[t]) == 8 ? (void *)wide : (void *)narrow;
        memset(found, 0xee, sizeof found); // whatever was there is forgotten
        must(sl_hotness_degree(sources, types[t], EDGES, NODES, NULL, found));
        ck_assert_mem_eq(found, wanted, sizeof wanted);
        ck_assert_uint_eq(found[NODES], 0xeeeeeeee);
    }
    must(sl_hotness_degree(NULL, SL_DTYPE_I32, 0, NODES, NULL, found));
    for (uint32_t v = 0; v < NODES; v++)
        ck_assert_uint_eq(found[v], 0);
    ck_assert_int_eq(sl_hotness_degree(narrow, SL_DTYPE_F32, EDGES, NODES, NULL, found), SL_EINVAL);
}

TEST(random_is_a_function_of_seed_and_vertex)
{
    enum { N = 100003 };
    static uint32_t a[N], b[N + 1];
    must(sl_hotness_random(7, N, NULL, a));
    b[10] = 0xfeedface;
    must(sl_hotness_random(7, 10, NULL, b)); // however many vertices there are
    ck_assert_mem_eq(a, b, 10 * sizeof *a);
    ck_assert_uint_eq(b[10], 0xfeedface);
    must(sl_hotness_random(8, N, NULL, b));
    uint32_t n_same = 0;
    double sum = 0;
    for (uint32_t v = 0; v < N; v++) {
        n_same += a[v] == b[v];
        sum += a[v];
    }
    ck_assert_uint_lt(n_same, 5);
    ck_assert_double_eq_tol(sum / N / 4294967296.0, 0.5, 0.005); // 5 standard deviations
}

// ---- worth --------------------------------------------------------------------------------------

TEST(hit_rate_is_the_share_of_visits_in_the_cache)
{
    const uint32_t visits[] = {5, 0, 3, 2, 10}, order[] = {2, 4, 0, 1, 3};
    static const double wanted[] = {0, 3 / 20.0, 13 / 20.0, 18 / 20.0, 18 / 20.0, 1, 1};
    for (uint64_t capacity = 0; capacity < SL_COUNT_OF(wanted); capacity++)
        ck_assert_double_eq_tol(sl_hotness_hit_rate(visits, order, 5, capacity), wanted[capacity],
                                1e-15);
    ck_assert_double_eq(sl_hotness_hit_rate((uint32_t[]){0, 0}, (uint32_t[]){1, 0}, 2, 1), 0);
    ck_assert_double_eq(sl_hotness_hit_rate(NULL, NULL, 0, 1), 0);
    // More visits than 32 bits hold.
    const uint32_t many[] = {UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX}, some[] = {0, 1, 2, 3};
    ck_assert_double_eq_tol(sl_hotness_hit_rate(many, some, 4, 3), 0.75, 1e-15);
}

TEST(optimal_is_the_hit_rate_of_the_most_visited)
{
    enum { N = 3000 };
    static const uint32_t limits[] = {3, 1000, 65536, 200000, UINT32_MAX};
    static uint32_t visits[N], order[N];
    double rate;
    for (size_t l = 0; l < SL_COUNT_OF(limits); l++) {
        for (uint32_t v = 0; v < N; v++)
            visits[v] = noise(v + l * N) % limits[l];
        plain_order(visits, N, order);
        for (uint64_t capacity = 0; capacity <= N + 1; capacity += l ? 97 : 1) {
            must(sl_hotness_optimal_hit_rate(visits, N, capacity, &rate));
            ck_assert_double_eq_tol(rate, sl_hotness_hit_rate(visits, order, N, capacity), 1e-12);
        }
    }
    must(sl_hotness_optimal_hit_rate((uint32_t[]){5, 0, 3, 2, 10}, 5, 2, &rate));
    ck_assert_double_eq_tol(rate, 15 / 20.0, 1e-15);
    must(sl_hotness_optimal_hit_rate((uint32_t[]){0, 0}, 2, 1, &rate));
    ck_assert_double_eq(rate, 0);
    must(sl_hotness_optimal_hit_rate(NULL, 0, 1, &rate));
    ck_assert_double_eq(rate, 0);
}

TEST(similarity_is_the_footprint_that_both_have)
{
    // The 3 most visited of 10: i has {0, 1, 2}, j has {1, 2, 9}; both have 1 and 2.
    const uint32_t i[] = {9, 8, 7, 1, 1, 1, 0, 0, 0, 2}, j[] = {1, 6, 9, 1, 1, 1, 0, 0, 0, 5};
    double similar;
    must(sl_hotness_similarity(i, j, 10, 0.3, &similar));
    ck_assert_double_eq_tol(similar, (6 + 7) / 20.0, 1e-15);
    must(sl_hotness_similarity(j, i, 10, 0.3, &similar)); // not symmetric: over i's footprint
    ck_assert_double_eq_tol(similar, (6 + 7) / 24.0, 1e-15);
    must(sl_hotness_similarity(i, i, 10, 0.3, &similar));
    ck_assert_double_eq(similar, 1);
    must(sl_hotness_similarity(i, j, 10, 1, &similar));
    ck_assert_double_eq_tol(similar, (1 + 6 + 7 + 1 + 1 + 1 + 2) / 24.0, 1e-15);
}

TEST(similarity_breaks_ties_by_id)
{
    // The 2 most visited: vertices 0 and 1 of i, and 3 and 0 of j. Only 0 is in both.
    const uint32_t i[] = {4, 4, 4, 4}, j[] = {4, 1, 4, 9};
    double similar;
    must(sl_hotness_similarity(i, j, 4, 0.5, &similar));
    ck_assert_double_eq_tol(similar, 4 / 13.0, 1e-15);
}

TEST(similarity_of_nothing)
{
    const uint32_t none[] = {0, 0, 0}, some[] = {1, 2, 3};
    double similar;
    must(sl_hotness_similarity(some, none, 3, 0.5, &similar));
    ck_assert_double_eq(similar, 0);
    must(sl_hotness_similarity(some, some, 3, 0, &similar));
    ck_assert_double_eq(similar, 0);
    must(sl_hotness_similarity(NULL, NULL, 0, 0.1, &similar));
    ck_assert_double_eq(similar, 0);
    ck_assert_int_eq(sl_hotness_similarity(some, some, 3, 1.5, &similar), SL_EINVAL);
    ck_assert_int_eq(sl_hotness_similarity(some, some, 3, -0.1, &similar), SL_EINVAL);
}

RUN_TESTS(.timeout_s = 60)
