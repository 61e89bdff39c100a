// Whether pairs are edges, beside a look at every edge: searches side by side, in lists of all
// lengths that rise or do not, and in the lists of edges beside the graph.
#include "common/data/edge_lookup.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/philox.h"
#include "tests/unit/suite.h"

enum { N = 150, EDGES_MAX = 40000, LISTED = 37, PAIRS_MAX = 4000 };

static uint64_t indptr[N + 1], wide_ids[EDGES_MAX];
static uint32_t narrow[EDGES_MAX], listed[SL_SPLIT_COUNT][2 * LISTED];
static bool in_graph[N][N], in_lists[N][N]; // from .. to ..

static uint32_t word(uint32_t i, uint32_t salt)
{
    return sl_philox(salt, i, 0, 0, 0).w[0];
}

static int by_value(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

// Empty lists, those around powers of two, hubs; edges that are there several times, self-loops.
static struct sl_dataset make(uint32_t salt, bool rise, bool is_wide)
{
    static const uint32_t lengths[] = {0, 0, 1, 1, 2, 3, 4, 5, 7, 8, 9, 31, 32, 33, 64, 130, 1000};
    struct sl_dataset ds = {.n_nodes = N,
                            .indptr = indptr,
                            .indices = is_wide ? (const void *)wide_ids : narrow,
                            .indices_dtype = is_wide ? SL_DTYPE_I64 : SL_DTYPE_I32,
                            .lists_rise = rise};
    memset(in_graph, 0, sizeof in_graph);
    memset(in_lists, 0, sizeof in_lists);
    for (uint32_t v = 0; v < N; v++) {
        const uint32_t n = lengths[word(v, salt) % SL_COUNT_OF(lengths)];
        indptr[v] = ds.n_edges;
        ck_assert_uint_le(ds.n_edges + n, EDGES_MAX);
        for (uint32_t i = 0; i < n; i++) {
            const uint32_t r = word((uint32_t)ds.n_edges, salt + 1);
            narrow[ds.n_edges] = r % 17 == 0 ? v : (r >> 8) % N;
            in_graph[narrow[ds.n_edges++]][v] = true;
        }
        if (rise)
            qsort(narrow + indptr[v], n, sizeof *narrow, by_value);
    }
    indptr[N] = ds.n_edges;
    for (uint64_t e = 0; e < ds.n_edges; e++)
        wide_ids[e] = narrow[e];
    for (int s = 0; s < SL_SPLIT_COUNT; s++) {
        ds.edges[s].ids = listed[s];
        ds.edges[s].n = LISTED;
        for (uint32_t i = 0; i < 2 * LISTED; i++)
            listed[s][i] = word(i, salt + 2 + (uint32_t)s) % N;
        for (uint32_t i = 0; i < LISTED; i++)
            in_lists[listed[s][2 * i]][listed[s][2 * i + 1]] = true;
    }
    return ds;
}

LOOP_TEST(pairs_are_found_where_they_are_edges, 0, 8)
{
    static uint32_t pairs[2 * PAIRS_MAX];
    static bool has[PAIRS_MAX];
    const bool rise = _i & 1, is_wide = _i & 2, lists = _i & 4;
    for (uint32_t salt = 0; salt < 60; salt += 20) {
        const struct sl_dataset ds = make(salt, rise, is_wide);
        struct sl_edge_lookup l;
        ck_assert_int_eq(sl_edge_lookup_init(&l, &ds, lists), SL_OK);
        uint32_t n_edges = 0, n_listed = 0;
        for (uint32_t n = 0; n <= PAIRS_MAX; n = n < 70 ? n + 1 : n * 7) {
            for (uint32_t i = 0; i < 2 * n; i++)
                pairs[i] = word(i, salt + n) % N;
            for (uint32_t i = 0; i < n && i < LISTED; i++) // some of those in the lists
                if (word(i, n) % 3 == 0)
                    memcpy(&pairs[2 * i], &listed[n % 3][2 * i], 2 * sizeof *pairs);
            sl_edge_lookup_each(&l, n, pairs, has);
            for (uint32_t i = 0; i < n; i++) {
                const uint32_t u = pairs[2 * i], v = pairs[2 * i + 1];
                const bool want = in_graph[u][v] || (lists && in_lists[u][v]);
                n_edges += in_graph[u][v];
                n_listed += want && !in_graph[u][v];
                ck_assert_msg(has[i] == want, "pair %u of %u, %u and %u: %d", i, n, u, v, has[i]);
                ck_assert_int_eq(sl_edge_lookup_has(&l, u, v), want);
            }
        }
        ck_assert_uint_gt(n_edges, 500);
        ck_assert(lists ? n_listed > 100 : n_listed == 0);
        sl_edge_lookup_fini(&l);
    }
}

// One vertex, no edge, an empty list of edges.
TEST(what_lists_take)
{
    const struct sl_dataset ds = {.edges = {[SL_SPLIT_VAL] = {.n = 5, .ids = narrow},
                                            [SL_SPLIT_TEST] = {.n = 2, .ids = narrow},
                                            [SL_SPLIT_TRAIN] = {.n = 100}}}; // the graph's
    ck_assert_uint_eq(sl_edge_lookup_bytes(&ds, true), 8 * (5 + 2));
    ck_assert_uint_eq(sl_edge_lookup_bytes(&ds, false), 0);
}

TEST(a_graph_may_have_no_edge)
{
    const uint64_t none[] = {0, 0};
    const struct sl_dataset ds = {
        .n_nodes = 1, .indptr = none, .indices_dtype = SL_DTYPE_I32, .lists_rise = true};
    struct sl_edge_lookup l;
    ck_assert_int_eq(sl_edge_lookup_init(&l, &ds, true), SL_OK);
    ck_assert(!sl_edge_lookup_has(&l, 0, 0));
    sl_edge_lookup_fini(&l);
}

RUN_TESTS(.timeout_s = 60)
