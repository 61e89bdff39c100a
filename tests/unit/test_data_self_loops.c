// In-degrees without self-loops, and out-degrees, against plain loops.
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/philox.h"
#include "common/data/self_loops.h"
#include "tests/unit/suite.h"

enum { NODES = 20000 }; // several blocks of a pass, and a last word that is not full

struct graph {
    struct sl_dataset ds;
    uint64_t *indptr;
    uint32_t *narrow;
    uint64_t *wide;
};

static uint32_t word(uint32_t a, uint32_t b)
{
    return sl_philox(12, sl_rng_word0(SL_RNG_GENERATE, 5, 0), a, b, 0).w[0];
}

static void *must_alloc(size_t bytes)
{
    void *p = calloc(1, bytes ? bytes : 1);
    ck_assert_ptr_nonnull(p);
    return p;
}

// Rows of 0 to 7 edges, vertex 1 a hub; v has loops(v) self-loops among them.
static struct graph graph_of(uint32_t n, uint32_t (*loops)(uint32_t v), bool wide)
{
    struct graph g = {.indptr = must_alloc((n + 1ull) * sizeof *g.indptr),
                      .narrow = must_alloc(n * 16ull * sizeof *g.narrow)};
    uint64_t e = 0;
    for (uint32_t v = 0; v < n; v++) {
        uint32_t degree = v == 1 ? n : word(v, 0) % 8;
        g.indptr[v] = e;
        for (uint32_t k = 0; k < degree; k++) {
            uint32_t u = word(v, k + 1) % n;
            if (u != v)
                g.narrow[e++] = u;
            if (k == 0)
                for (uint32_t l = 0; l < loops(v); l++)
                    g.narrow[e++] = v;
        }
    }
    g.indptr[n] = e;
    g.wide = must_alloc(e * sizeof *g.wide);
    for (uint64_t i = 0; i < e; i++)
        g.wide[i] = g.narrow[i];
    g.ds = (struct sl_dataset){.n_nodes = n,
                               .n_edges = e,
                               .indptr = g.indptr,
                               .indices = wide ? (void *)g.wide : (void *)g.narrow,
                               .indices_dtype = wide ? SL_DTYPE_I64 : SL_DTYPE_I32};
    return g;
}

static void graph_free(struct graph *g)
{
    free(g->indptr);
    free(g->narrow);
    free(g->wide);
}

static uint32_t none(uint32_t v)
{
    return 0;
}

static uint32_t everywhere(uint32_t v)
{
    return 1;
}

static uint32_t here_and_there(uint32_t v)
{
    return v % 37 == 0 || v == NODES - 1;
}

static uint32_t several(uint32_t v)
{
    return v % 101 == 1 ? 3 : v % 5 == 0;
}

static void compare(struct graph *g, int threads)
{
    struct sl_self_loops loops;
    ck_assert_int_eq(sl_self_loops_find(&g->ds, threads, &loops), 0);
    ck_assert_ptr_null(loops.out_degree);
    ck_assert_int_eq(sl_self_loops_count_out(&loops, threads), 0);
    uint32_t *out = must_alloc(g->ds.n_nodes * sizeof *out);
    uint64_t n_vertices = 0, n_loops = 0;
    for (uint64_t v = 0; v < g->ds.n_nodes; v++) {
        uint64_t own = 0;
        for (uint64_t e = g->indptr[v]; e < g->indptr[v + 1]; e++) {
            own += g->narrow[e] == v;
            out[g->narrow[e]] += g->narrow[e] != v;
        }
        n_vertices += own > 0;
        n_loops += own;
        uint64_t found = sl_self_loops_degree(&loops, v);
        if (found != g->indptr[v + 1] - g->indptr[v] - own)
            ck_abort_msg("vertex %llu: %llu", (unsigned long long)v, (unsigned long long)found);
    }
    ck_assert_uint_eq(loops.n_vertices, n_vertices);
    ck_assert_uint_eq(loops.n_loops, n_loops);
    ck_assert_int_eq(memcmp(loops.out_degree, out, g->ds.n_nodes * sizeof *out), 0);
    free(out);
    sl_self_loops_free(&loops);
    sl_self_loops_free(&loops);
}

LOOP_TEST(degrees_leave_self_loops_out, 0, 4)
{
    uint32_t (*const kinds[])(uint32_t) = {none, everywhere, here_and_there, several};
    for (int wide = 0; wide < 2; wide++)
        for (int threads = 1; threads <= 3; threads++) {
            struct graph g = graph_of(NODES, kinds[_i], wide);
            compare(&g, threads);
            graph_free(&g);
        }
}

TEST(a_graph_without_self_loops_takes_no_memory)
{
    struct graph g = graph_of(NODES, none, false);
    struct sl_self_loops loops;
    ck_assert_int_eq(sl_self_loops_find(&g.ds, 2, &loops), 0);
    ck_assert_ptr_null(loops.has);
    ck_assert_uint_eq(loops.n_vertices, 0);
    sl_self_loops_free(&loops);
    graph_free(&g);
}

// What validation has found is believed: no edge is looked at.
TEST(a_graph_that_is_known_to_have_none_is_not_read)
{
    struct sl_dataset unread = {.n_nodes = NODES, .loop_free = true};
    struct sl_self_loops loops;
    ck_assert_int_eq(sl_self_loops_find(&unread, 2, &loops), 0);
    ck_assert_uint_eq(loops.n_vertices, 0);
    sl_self_loops_free(&loops);
}

TEST(small_graphs)
{
    for (uint32_t n = 1; n <= 65; n += 32) {
        struct graph g = graph_of(SL_MAX(n, 2u), several, false);
        compare(&g, 2);
        graph_free(&g);
    }
    uint64_t indptr[] = {0};
    struct sl_dataset empty = {.indptr = indptr, .indices_dtype = SL_DTYPE_I32};
    struct sl_self_loops loops;
    ck_assert_int_eq(sl_self_loops_find(&empty, 2, &loops), 0);
    ck_assert_int_eq(sl_self_loops_count_out(&loops, 2), 0);
    sl_self_loops_free(&loops);
}

RUN_TESTS(.timeout_s = 30)
