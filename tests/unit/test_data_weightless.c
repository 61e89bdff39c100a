// Edges of weight 0: counted, and the graph without them beside one that never had them.
#include "common/data/weightless.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/philox.h"
#include "common/data/dataset_files.h"
#include "common/data/self_loops.h"
#include "tests/unit/suite.h"

enum { NODES = 9000, ROOM = NODES + NODES * 9 }; // several blocks of a pass, and a part of one

struct graph {
    struct sl_dataset ds;
    struct sl_dataset_files files;
    uint64_t indptr[NODES + 1];
    uint32_t indices[ROOM];
    uint64_t wide[ROOM];
    float weight[ROOM];
};

static struct graph whole, without;

static uint32_t word(uint32_t a, uint32_t b)
{
    return sl_philox(12, sl_rng_word0(SL_RNG_GENERATE, 5, 0), a, b, 0).w[0];
}

static float weight_of(uint32_t v, uint32_t k)
{
    static const float weights[] = {0, 1, -0.0f, 1e-40f, 3e38f, 0};
    return v % 11 == 3 ? 0 : weights[word(v, 100 + k) % SL_COUNT_OF(weights)];
}

static void put(struct graph *g, uint64_t *e, uint32_t source, float weight)
{
    g->indices[*e] = source;
    g->wide[*e] = source;
    g->weight[(*e)++] = weight;
}

static void finish(struct graph *g, bool wide)
{
    g->files = (struct sl_dataset_files){0};
    g->ds = (struct sl_dataset){.n_nodes = NODES,
                                .n_edges = g->indptr[NODES],
                                .indptr = g->indptr,
                                .indices = wide ? (void *)g->wide : (void *)g->indices,
                                .indices_dtype = wide ? SL_DTYPE_I64 : SL_DTYPE_I32,
                                .edge_weight = g->weight,
                                .files = &g->files};
}

// Rows of 0 to 7 edges, some of them self-loops, perhaps repeated; vertex 1 is a hub.
static void make(bool wide)
{
    uint64_t e = 0, left = 0;
    for (uint32_t v = 0; v < NODES; v++) {
        const uint32_t degree = v == 1 ? NODES : word(v, 0) % 8;
        whole.indptr[v] = e;
        without.indptr[v] = left;
        for (uint32_t k = 0; k < degree; k++) {
            const uint32_t u = k % 3 == 2 ? v : word(v, k + 1) % NODES;
            put(&whole, &e, u, weight_of(v, k));
            if (weight_of(v, k) > 0)
                put(&without, &left, u, weight_of(v, k));
        }
    }
    whole.indptr[NODES] = e;
    without.indptr[NODES] = left;
    finish(&whole, wide);
    finish(&without, wide);
}

static void release(void)
{
    free(whole.files.owned[SL_FILE_EDGE_WEIGHT]);
}

TEST(they_are_counted)
{
    make(false);
    uint64_t vertices = 0;
    for (uint32_t v = 0; v < NODES; v++)
        vertices += sl_dataset_degree(&whole.ds, v) > 0 && sl_dataset_degree(&without.ds, v) == 0;
    ck_assert_uint_gt(vertices, NODES / 20);
    for (int threads = 1; threads < 4; threads++) {
        sl_weightless_count(&whole.ds, threads);
        ck_assert_uint_eq(whole.ds.weightless_edges, whole.ds.n_edges - without.ds.n_edges);
        ck_assert_uint_eq(whole.ds.weightless_vertices, vertices);
        sl_weightless_count(&without.ds, threads);
        ck_assert_uint_eq(without.ds.weightless_edges, 0);
        ck_assert_uint_eq(without.ds.weightless_vertices, 0);
    }
    whole.ds.edge_weight = NULL;
    sl_weightless_count(&whole.ds, 1);
    ck_assert_uint_eq(whole.ds.weightless_edges, 0);
}

static void compare_loops(int threads)
{
    struct sl_self_loops a, b;
    ck_assert_int_eq(sl_self_loops_find(&whole.ds, threads, &a), 0);
    ck_assert_int_eq(sl_self_loops_find(&without.ds, threads, &b), 0);
    ck_assert_int_eq(sl_self_loops_count_out(&a, threads), 0);
    ck_assert_int_eq(sl_self_loops_count_out(&b, threads), 0);
    ck_assert_uint_eq(a.n_vertices, b.n_vertices);
    ck_assert_uint_eq(a.n_loops, b.n_loops);
    ck_assert_int_eq(memcmp(a.out_degree, b.out_degree, NODES * sizeof *a.out_degree), 0);
    for (uint32_t v = 0; v < NODES; v++)
        ck_assert_uint_eq(sl_self_loops_degree(&a, v), sl_self_loops_degree(&b, v));
    sl_self_loops_free(&a);
    sl_self_loops_free(&b);
}

// With degrees that are counted at once, or one when it is asked for; both widths of ids.
LOOP_TEST(without_them_the_graph_is_as_if_they_had_never_been, 0, 4)
{
    static uint32_t list[ROOM];
    make(_i & 1);
    sl_weightless_count(&whole.ds, 2);
    ck_assert_int_eq(sl_weightless_drop(&whole.ds, _i & 2, 2), SL_OK);
    ck_assert_int_eq(whole.ds.present_degree != NULL, (_i & 2) != 0);
    for (uint32_t v = 0; v < NODES; v++) {
        const uint64_t first = whole.ds.indptr[v], wanted = sl_dataset_degree(&without.ds, v);
        ck_assert_uint_eq(sl_weightless_degree(&whole.ds, v), wanted);
        memcpy(list, whole.indices + first, sl_dataset_degree(&whole.ds, v) * sizeof *list);
        ck_assert_uint_eq(sl_weightless_strip(&whole.ds, v, list), wanted);
        ck_assert_int_eq(memcmp(list, without.indices + without.indptr[v], wanted * sizeof *list),
                         0);
    }
    compare_loops(1 + _i);
    release();
}

TEST(where_there_are_none_nothing_is_taken)
{
    make(false);
    sl_weightless_count(&without.ds, 2);
    ck_assert_int_eq(sl_weightless_drop(&without.ds, true, 2), SL_OK);
    ck_assert_ptr_null(without.ds.present);
    ck_assert_ptr_null(without.ds.present_degree);
    ck_assert_uint_eq(sl_weightless_degree(&without.ds, 1), sl_dataset_degree(&without.ds, 1));
    ck_assert_uint_eq(sl_weightless_strip(&without.ds, 1, NULL), sl_dataset_degree(&without.ds, 1));
}

RUN_TESTS(.timeout_s = 30)
