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

// The list that an added edge's target has, or of its reverse (`way` 1).
static uint64_t list_of(int way, uint32_t target)
{
    const struct sl_typed *t = &ds.typed;
    if (t->n_types == 0)
        return target;
    const struct sl_relation *r = &t->relation[way ? sl_typed_reverse(t, t->linked) : t->linked];
    return r->first_row + target - t->type[r->target].first;
}

// What a list is to be: its own edges, and each new one before the first that is larger.
static uint64_t expected(uint64_t v, uint32_t *out)
{
    static uint32_t own[ROOM], more[2 * PAIRS];
    uint64_t n_own = 0, n_more = 0, n = 0, i = 0;
    for (uint64_t e = ds.indptr[v]; e < ds.indptr[v + 1]; e++)
        if (is_there(e))
            own[n_own++] = sl_dataset_source(&ds, e);
    for (uint64_t p = 0; p < list.n; p++)
        for (int way = 0; way < 1 + found.both_ways; way++) {
            const uint32_t source = pairs[2 * p + (uint64_t)way], target = pairs[2 * p + !way];
            if (list_of(way, target) == v && !in(own, n_own, source) && !in(more, n_more, source))
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
    for (uint64_t v = 0; v < sl_dataset_lists(&ds); v++) {
        const uint64_t n = expected(v, wanted);
        ck_assert_msg(sl_dataset_degree(g, v) == n, "list %llu: %llu sources, wanted %llu",
                      (unsigned long long)v, (unsigned long long)sl_dataset_degree(g, v),
                      (unsigned long long)n);
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

// Vertices of two types, and three relations: there, back, and within the first type.
enum { FIRST = 300, SECOND = 200, THERE = 0, BACK = 1, WITHIN = 2 };
static struct sl_vertex_type types[] = {{.n = FIRST}, {.first = FIRST, .n = SECOND}};
static struct sl_relation relations[] = {
    {.source = 0, .target = 1, .first_row = 0, .reverse_of = SL_NO_RELATION},
    {.source = 1, .target = 0, .first_row = SECOND, .reverse_of = THERE},
    {.source = 0, .target = 0, .first_row = SECOND + FIRST, .reverse_of = SL_NO_RELATION},
};

// `both`: each edge within the first type has its reverse.
static void make_typed(uint32_t linked, bool both)
{
    uint64_t e = 0;
    for (uint32_t r = 0; r < SL_COUNT_OF(relations); r++) {
        const struct sl_vertex_type *source = &types[relations[r].source];
        relations[r].first_edge = e;
        for (uint32_t v = 0; v < types[relations[r].target].n; v++) {
            indptr[relations[r].first_row + v] = e;
            for (uint32_t u = 0; u < source->n; u++)
                if (word(r == WITHIN && both ? SL_MIN(u, v) * FIRST + SL_MAX(u, v) : u * FIRST + v,
                         r) %
                        40 ==
                    0)
                    indices[e++] = (uint32_t)source->first + u;
        }
        relations[r].n_edges = e - relations[r].first_edge;
    }
    ds = (struct sl_dataset){.n_nodes = FIRST + SECOND,
                             .n_edges = e,
                             .typed = {.n_types = SL_COUNT_OF(types),
                                       .n_relations = SL_COUNT_OF(relations),
                                       .n_rows = 2 * FIRST + SECOND,
                                       .type = types,
                                       .relation = relations,
                                       .linked = linked},
                             .indptr = indptr,
                             .indices = indices,
                             .indices_dtype = SL_DTYPE_U32,
                             .lists_rise = true};
    indptr[ds.typed.n_rows] = e;
    const struct sl_vertex_type *source = &types[relations[linked].source],
                                *target = &types[relations[linked].target];
    for (uint32_t i = 0; i < PAIRS; i++) { // some stand twice, some are edges
        pairs[2 * i] = (uint32_t)(source->first + word(i, 60) % source->n);
        pairs[2 * i + 1] = (uint32_t)(target->first + word(i, 61) % target->n);
    }
    list = (struct sl_pair_list){.n = PAIRS, .ids = pairs};
}

static void expect_relations(void)
{
    const struct sl_typed *t = &made.dataset.typed;
    for (uint32_t r = 0; r < t->n_relations; r++) {
        const struct sl_relation *of = &t->relation[r];
        const uint64_t *rows = made.dataset.indptr + of->first_row;
        ck_assert_uint_eq(of->first_edge, rows[0]);
        ck_assert_uint_eq(of->first_edge + of->n_edges, rows[types[of->target].n]);
    }
}

TEST(edges_of_a_relation_are_added_to_it_and_to_its_reverse)
{
    static const struct {
        uint32_t linked;
        bool both, reverses;
    } ways[] = {
        {THERE, false, true}, {BACK, false, true}, {WITHIN, false, false}, {WITHIN, true, true}};
    for (size_t i = 0; i < SL_COUNT_OF(ways); i++) {
        make_typed(ways[i].linked, ways[i].both);
        build(2);
        ck_assert_int_eq(found.both_ways, ways[i].reverses);
        ck_assert_uint_gt(found.n_added, PAIRS / 2);
        expect_relations();
        expect_equal();
    }
    // Of one without a reverse: it alone.
    relations[BACK].reverse_of = SL_NO_RELATION;
    make_typed(THERE, false);
    build(3);
    ck_assert(!found.both_ways);
    expect_equal();
    relations[BACK].reverse_of = THERE;
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
