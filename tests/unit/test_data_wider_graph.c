// The graph with a list of edges in it, beside a plain one: sets of sources, vertex by vertex.
#include "common/data/wider_graph.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/philox.h"
#include "tests/unit/suite.h"

enum { NODES = 5000, HUB = 7, DEGREE = 12, ROOM = NODES * DEGREE + 2 * NODES, PAIRS = 3000 };

static struct sl_dataset ds;
static uint64_t indptr[NODES + 1], wide[ROOM];
static uint32_t indices[ROOM], pairs[2 * PAIRS];
static float weight[ROOM];
static struct sl_pair_list list;
static struct sl_wider_found found;
static struct sl_wider_graph made;

static uint32_t word(uint32_t a, uint32_t b)
{
    return sl_philox(31, sl_rng_word0(SL_RNG_GENERATE, 5, 0), a, b, 0).w[0];
}

static int ascending(const void *left, const void *right)
{
    const uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

// Lists of up to 11 sources and a hub with every second vertex; repeated ones, self-loops and empty
// lists among them.
static void make_graph(uint64_t n, bool sorted, bool is_wide)
{
    uint64_t e = 0;
    for (uint32_t v = 0; v < n; v++) {
        const uint64_t begin = indptr[v] = e;
        const uint32_t degree = v == HUB ? (uint32_t)n / 2 : word(v, 0) % DEGREE;
        for (uint32_t k = 0; k < degree; k++)
            indices[e++] = v == HUB ? 2 * k : (uint32_t)(word(v, k + 1) % n);
        if (sorted)
            qsort(indices + begin, e - begin, sizeof *indices, ascending);
    }
    indptr[n] = e;
    for (uint64_t i = 0; i < e; i++) {
        wide[i] = indices[i];
        weight[i] = (float)(word(9, (uint32_t)i) % 3);
    }
    ds = (struct sl_dataset){.n_nodes = n,
                             .n_edges = e,
                             .indptr = indptr,
                             .indices = is_wide ? (void *)wide : (void *)indices,
                             .indices_dtype = is_wide ? SL_DTYPE_I64 : SL_DTYPE_I32,
                             .lists_rise = sorted,
                             .edge_weight = weight};
}

// Pairs of which some are edges, some stand twice, some are loops, and many are the hub's.
static void make_pairs(uint64_t n)
{
    for (uint32_t i = 0; i < PAIRS; i++) {
        uint32_t target = i % 5 == 0 ? HUB % (uint32_t)n : (uint32_t)(word(i, 51) % n);
        uint32_t source = (uint32_t)(word(i, 50) % n);
        if (i % 7 == 1 && ds.indptr[target + 1] > ds.indptr[target])
            source = sl_dataset_source(&ds, ds.indptr[target]);
        if (i % 11 == 2)
            source = target;
        pairs[2 * i] = i % 13 == 3 ? pairs[2 * i - 6] : source;
        pairs[2 * i + 1] = i % 13 == 3 ? pairs[2 * i - 5] : target;
    }
    list = (struct sl_pair_list){.n = PAIRS, .ids = pairs};
}

static void build(int threads)
{
    const int fd = memfd_create("wider", MFD_CLOEXEC);
    ck_assert_int_eq(sl_wider_graph_make(fd, &ds, &list, threads, "free some", &found), SL_OK);
    ck_assert_int_eq(sl_wider_graph_open(fd, &ds, &list, &made), SL_OK);
    ck_assert_uint_eq(found.bytes, made.bytes);
    ck_assert_uint_le(made.bytes, sl_wider_graph_bytes(&ds, &list));
    close(fd);
}

static bool is_there(uint64_t e)
{
    return !ds.present || ds.present[e] > 0;
}

static bool in(const uint32_t *ids, uint64_t n, uint32_t id)
{
    while (n > 0 && ids[n - 1] != id)
        n--;
    return n > 0;
}

// What v's list is to be: its own edges, and each new one before the first that is larger.
static uint64_t expected(uint32_t v, uint32_t *out)
{
    static uint32_t own[ROOM], more[2 * PAIRS];
    uint64_t n_own = 0, n_more = 0, n = 0, i = 0;
    for (uint64_t e = ds.indptr[v]; e < ds.indptr[v + 1]; e++)
        if (is_there(e))
            own[n_own++] = sl_dataset_source(&ds, e);
    for (uint64_t p = 0; p < list.n; p++)
        for (int way = 0; way < 1 + found.both_ways; way++) {
            const uint32_t source = pairs[2 * p + (uint64_t)way];
            if (pairs[2 * p + !way] == v && !in(own, n_own, source) && !in(more, n_more, source))
                more[n_more++] = source;
        }
    qsort(more, n_more, sizeof *more, ascending);
    for (uint64_t e = 0; e < n_own; e++) {
        while (i < n_more && more[i] < own[e])
            out[n++] = more[i++];
        out[n++] = own[e];
    }
    while (i < n_more)
        out[n++] = more[i++];
    return n;
}

static void expect_equal(void)
{
    static uint32_t wanted[ROOM];
    const struct sl_dataset *g = &made.dataset;
    uint64_t before = 0, edges = 0;
    for (uint64_t e = 0; e < ds.n_edges; e++)
        before += is_there(e);
    ck_assert_uint_eq(g->n_edges, before + found.n_added);
    ck_assert_uint_eq(g->indptr[0], 0);
    for (uint32_t v = 0; v < ds.n_nodes; v++) {
        const uint64_t n = expected(v, wanted);
        ck_assert_msg(sl_dataset_degree(g, v) == n, "vertex %u: %llu sources, wanted %llu", v,
                      (unsigned long long)sl_dataset_degree(g, v), (unsigned long long)n);
        for (uint64_t i = 0; i < n; i++)
            ck_assert_uint_eq(sl_dataset_source(g, g->indptr[v] + i), wanted[i]);
        edges += n;
    }
    ck_assert_uint_eq(edges, g->n_edges);
    sl_wider_graph_close(&made);
}

TEST(edges_are_added_where_sorted_lists_have_them)
{
    for (int way = 0; way < 8; way++) {
        make_graph(NODES, way & 1, way & 2);
        make_pairs(NODES);
        ds.present = way & 4 ? weight : NULL;
        build(way & 1 ? 1 : 3);
        ck_assert(!found.both_ways);
        ck_assert(found.n_added > 0);
        expect_equal();
    }
}

// Each edge of 0 .. n - 1 with its reverse: by threes.
static void make_both_ways(uint64_t n)
{
    uint64_t e = 0;
    for (uint32_t v = 0; v < n; v++) {
        indptr[v] = e;
        for (uint32_t u = v % 3; u < n; u += 3)
            if ((u + v) % 2 == 0)
                indices[e++] = u;
    }
    indptr[n] = e;
    ds = (struct sl_dataset){.n_nodes = n,
                             .n_edges = e,
                             .indptr = indptr,
                             .indices = indices,
                             .indices_dtype = SL_DTYPE_U32,
                             .lists_rise = true,
                             .loop_free = true};
}

TEST(a_graph_of_both_directions_gets_reverses_too)
{
    make_both_ways(60);
    make_pairs(60);
    build(2);
    ck_assert(found.both_ways);
    ck_assert(!made.dataset.loop_free); // the list has loops
    expect_equal();
}

// One edge fewer, or one twice, which is the same edge.
TEST(directions_are_found)
{
    bool both;
    make_both_ways(60);
    const uint32_t was = indices[3];
    ck_assert_int_eq(sl_graph_is_both_ways(&ds, 2, &both), SL_OK);
    ck_assert(both);
    indices[3] = indices[2];
    ck_assert_int_eq(sl_graph_is_both_ways(&ds, 2, &both), SL_OK);
    ck_assert(!both);
    indices[3] = was;
    indices[ds.n_edges] = indices[ds.n_edges - 1];
    indptr[60] = ++ds.n_edges;
    ck_assert_int_eq(sl_graph_is_both_ways(&ds, 2, &both), SL_OK);
    ck_assert(both);
}

TEST(no_edges_and_one_vertex)
{
    make_graph(NODES, true, false);
    list = (struct sl_pair_list){0};
    build(0);
    ck_assert_uint_eq(found.n_added, 0);
    expect_equal();
    make_both_ways(1);
    pairs[0] = pairs[1] = 0;
    list = (struct sl_pair_list){.n = 1, .ids = pairs};
    indptr[1] = ds.n_edges = 0;
    build(0);
    ck_assert_uint_eq(found.n_added, 1);
    expect_equal();
}

TEST(a_file_of_another_graph_is_refused)
{
    const int fd = memfd_create("wider", MFD_CLOEXEC);
    make_graph(NODES, true, false);
    make_pairs(NODES);
    ck_assert_int_eq(sl_wider_graph_open(fd, &ds, &list, &made), SL_EPROTO);
    ck_assert_int_eq(sl_wider_graph_make(fd, &ds, &list, 1, "", &found), SL_OK);
    ck_assert_int_eq(ftruncate(fd, (off_t)found.bytes - 4), 0);
    ck_assert_int_eq(sl_wider_graph_open(fd, &ds, &list, &made), SL_EPROTO);
    ck_assert_ptr_null(made.map);
    close(fd);
}

TEST(a_file_without_room_says_what_to_do)
{
    const int fd = memfd_create("wider", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    make_graph(NODES, true, false);
    make_pairs(NODES);
    ck_assert_int_eq(ftruncate(fd, (NODES + 1) * 8), 0); // of the offsets alone
    ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW), 0);
    ck_assert_int_eq(sl_wider_graph_make(fd, &ds, &list, 1, "free some", &found), SL_EIO);
    ck_assert_msg(strstr(sl_error_message(), ": free some"), "%s", sl_error_message());
    close(fd);
}

RUN_TESTS(.timeout_s = 60)
