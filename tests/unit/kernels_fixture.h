/*
 * kernels_fixture.h - what the tests of the samplers share: small graphs, one hop between guards,
 * the chi-square test.
 */
#ifndef SL_TESTS_UNIT_KERNELS_FIXTURE_H
#define SL_TESTS_UNIT_KERNELS_FIXTURE_H

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/philox.h"
#include "kernels/kernels.h"
#include "tests/unit/asserts.h"
#include "tests/unit/sampler_rows.h"

enum { GUARD = 16 };
#define GUARD_WORD 0x5afe5afeu
#define SEED       UINT64_C(0x123456789abcdef0)

static inline const struct sl_kernels *back_end(int i)
{
    return i ? sl_kernels_cpu() : sl_kernels_ref();
}

static inline uint32_t random_word(uint32_t a, uint32_t b)
{
    return sl_philox(99, sl_rng_word0(SL_RNG_GENERATE, 2, 0), a, b, 0).w[0];
}

// ---- graphs -------------------------------------------------------------------------------------

struct graph {
    uint32_t n;
    uint64_t n_edges;
    uint64_t *indptr;
    uint32_t *narrow;
    uint64_t *wide;
    float *weight;
    double *prefix;
};

static inline struct graph graph_of_degrees(uint32_t n, const uint32_t *degree)
{
    struct graph g = {.n = n, .indptr = malloc((n + 1) * sizeof(uint64_t))};
    g.indptr[0] = 0;
    for (uint32_t v = 0; v < n; v++)
        g.indptr[v + 1] = g.indptr[v] + degree[v];
    g.n_edges = g.indptr[n];
    g.narrow = calloc(g.n_edges + 1, sizeof *g.narrow);
    g.wide = calloc(g.n_edges + 1, sizeof *g.wide);
    g.weight = calloc(g.n_edges + 1, sizeof *g.weight);
    g.prefix = calloc(g.n_edges + 1, sizeof *g.prefix);
    return g;
}

// Empty rows, short ones of fewer than `most` edges, and hubs; the edges are to be set.
static inline struct graph graph_of_random_degrees(uint32_t n, uint32_t salt, uint32_t most)
{
    uint32_t *degrees = calloc(n, sizeof *degrees);
    for (uint32_t v = 0; v < n; v++) {
        uint32_t r = random_word(v, salt);
        degrees[v] = r % 7 == 0 ? 0 : r % most;
        if (r % 53 == 1)
            degrees[v] = 300 + r % 3000;
    }
    struct graph g = graph_of_degrees(n, degrees);
    free(degrees);
    return g;
}

static inline void set_neighbour(struct graph *g, uint64_t position, uint32_t v)
{
    g->narrow[position] = v;
    g->wide[position] = v;
}

static inline void graph_free(struct graph *g)
{
    free(g->indptr);
    free(g->narrow);
    free(g->wide);
    free(g->weight);
    free(g->prefix);
}

static inline struct sl_topology_view view_of(const struct graph *g, bool wide)
{
    return (struct sl_topology_view){
        .n_nodes = g->n,
        .indptr = g->indptr,
        .indices = wide ? (const void *)g->wide : (const void *)g->narrow,
        .indices_dtype = wide ? SL_DTYPE_I64 : SL_DTYPE_I32,
        .weight_prefix = g->prefix,
    };
}

static inline void sum_weights(struct graph *g)
{
    struct sl_topology_view view = view_of(g, false);
    ck_assert_int_eq(sl_kernels_ref()->weight_prefix(&view, g->weight, g->prefix), SL_OK);
}

// Each of n vertices has the neighbours 0 .. degree - 1, in this order.
static inline struct graph graph_of_equals(uint32_t n, uint32_t degree)
{
    uint32_t *degrees = calloc(n, sizeof *degrees);
    for (uint32_t v = 0; v < n; v++)
        degrees[v] = degree;
    struct graph g = graph_of_degrees(n, degrees);
    for (uint64_t e = 0; e < g.n_edges; e++)
        set_neighbour(&g, e, (uint32_t)(e % degree));
    free(degrees);
    return g;
}

// The same with these weights.
static inline struct graph graph_of_weights(uint32_t n, uint32_t degree, const float *weight)
{
    struct graph g = graph_of_equals(n, degree);
    for (uint64_t e = 0; e < g.n_edges; e++)
        g.weight[e] = weight[e % degree];
    sum_weights(&g);
    return g;
}

// ---- hops ---------------------------------------------------------------------------------------

static const struct key key_of_tests = {SEED, SL_RNG_SAMPLE, 3, 5, 2};

// What is asked for.
struct ask {
    enum sl_sampler_kind kind;
    const struct sl_kernels *kernels;
    const struct graph *graph;
    bool wide;
    struct key key;
    uint32_t first, n_dst; // vertices first .. first + n_dst - 1
    int64_t fanout;
    bool replace, edge_ids; // edge_ids: the hop has them
    const struct sl_excluded *excluded;
    uint32_t paths, length; // of a walk
    float restart;
    uint32_t nodes_capacity;   // 0: roomy
    uint64_t indices_capacity; // 0: roomy
    bool no_room;              // capacities of 0 are meant
    struct sl_idmap *map;      // NULL: one that all hops of a test share
};

// With room for everything.
static inline struct ask ask_for(enum sl_sampler_kind kind, int i, const struct graph *g,
                                 uint32_t n_dst, int64_t fanout)
{
    return (struct ask){.kind = kind,
                        .kernels = back_end(i),
                        .graph = g,
                        .key = key_of_tests,
                        .n_dst = n_dst,
                        .fanout = fanout};
}

struct hop {
    int rc;
    uint32_t n_nodes, n_edges;
    uint32_t *nodes, *indptr, *indices; // with GUARD words behind each
    float *visits;
    uint64_t *edge_ids; // NULL: not asked for
};

static inline uint32_t *guarded(uint64_t n)
{
    uint32_t *p = malloc((n + GUARD) * sizeof *p);
    for (uint64_t i = 0; i < n + GUARD; i++)
        p[i] = GUARD_WORD;
    return p;
}

static inline void expect_guard(const void *p, uint64_t n, const char *what)
{
    for (uint32_t i = 0; i < GUARD; i++)
        EXPECT(((const uint32_t *)p)[n + i] == GUARD_WORD, "%s: written %u behind the end", what,
               i);
}

// A fresh map a hop would be most of a test's time. It goes with the process, which is the test's.
static inline struct sl_idmap *map_of_test(void)
{
    static struct sl_idmap *map;
    if (!map)
        EXPECT(sl_idmap_create(1, &map) == SL_OK, "no map");
    return map;
}

static inline struct hop draw(struct ask ask)
{
    const struct graph *g = ask.graph;
    struct hop h = {0};
    if (!ask.nodes_capacity)
        ask.nodes_capacity = g->n;
    if (!ask.indices_capacity && !ask.no_room)
        ask.indices_capacity =
            ask.kind == SL_SAMPLER_WALK     ? (uint64_t)ask.n_dst * ask.paths * ask.length
            : ask.replace && ask.fanout > 0 ? (uint64_t)ask.n_dst * (uint64_t)ask.fanout
                                            : g->indptr[ask.first + ask.n_dst] -
                                                  g->indptr[ask.first]; // of these rows all edges
    if (!ask.map)
        ask.map = map_of_test();
    EXPECT(sl_idmap_reset(ask.map, 1) == SL_OK, "no map");
    h.nodes = guarded(ask.nodes_capacity);
    h.indptr = guarded((uint64_t)ask.n_dst + 1);
    h.indices = guarded(ask.indices_capacity);
    h.visits = (float *)(void *)guarded(ask.indices_capacity);
    if (ask.edge_ids)
        h.edge_ids = calloc(ask.indices_capacity + 1, sizeof *h.edge_ids);
    for (uint32_t i = 0; i < ask.n_dst; i++) {
        uint32_t local;
        EXPECT(sl_idmap_insert(ask.map, ask.first + i, h.nodes, &h.n_nodes, ask.nodes_capacity,
                               &local) == SL_OK,
               "seed");
    }
    struct sl_topology_view topology = view_of(g, ask.wide);
    struct sl_khop_args args = {
        .topology = &topology,
        .seed = ask.key.seed,
        .stream = ask.key.stream,
        .epoch = ask.key.epoch,
        .batch = ask.key.batch,
        .hop = ask.key.hop,
        .fanout = ask.fanout,
        .replace = ask.replace,
        .excluded = ask.excluded,
        .edge_ids = h.edge_ids,
        .n_dst = ask.n_dst,
        .nodes = h.nodes,
        .n_nodes = &h.n_nodes,
        .nodes_capacity = ask.nodes_capacity,
        .map = ask.map,
        .indptr = h.indptr,
        .indices = h.indices,
        .indices_capacity = ask.indices_capacity,
        .n_edges = &h.n_edges,
        .paths = ask.paths,
        .length = ask.length,
        .restart = ask.restart,
        .visits = h.visits,
    };
    h.rc = ask.kernels->sample[ask.kind](&args);
    expect_guard(h.nodes, ask.nodes_capacity, "nodes");
    expect_guard(h.indptr, (uint64_t)ask.n_dst + 1, "indptr");
    expect_guard(h.indices, ask.indices_capacity, "indices");
    expect_guard(h.visits, ask.indices_capacity, "visits");
    return h;
}

static inline void hop_free(struct hop *h)
{
    free(h->nodes);
    free(h->indptr);
    free(h->indices);
    free(h->visits);
    free(h->edge_ids);
}

static inline void expect_same(const struct hop *a, const struct hop *b, uint32_t n_dst)
{
    ck_assert_int_eq(a->rc, SL_OK);
    ck_assert_int_eq(b->rc, SL_OK);
    ck_assert_uint_eq(a->n_nodes, b->n_nodes);
    ck_assert_uint_eq(a->n_edges, b->n_edges);
    ck_assert_mem_eq(a->indptr, b->indptr, (n_dst + 1) * sizeof *a->indptr);
    ck_assert_mem_eq(a->indices, b->indices, a->n_edges * sizeof *a->indices);
    ck_assert_mem_eq(a->visits, b->visits, a->n_edges * sizeof *a->visits);
    ck_assert_mem_eq(a->nodes, b->nodes, a->n_nodes * sizeof *a->nodes);
}

// Exactly enough room is enough, and with less of either kind the hop fails.
static inline void expect_capacities_are_kept(struct ask ask)
{
    struct hop want = draw(ask);
    uint32_t n = want.n_nodes, e = want.n_edges;
    ck_assert_uint_gt(n, ask.n_dst);
    ask.indices_capacity = e;
    for (uint32_t less = 1; less <= n - ask.n_dst; less *= 5) {
        ask.nodes_capacity = n - less;
        struct hop h = draw(ask);
        ck_assert_int_eq(h.rc, SL_ERANGE);
        hop_free(&h);
    }
    ask.nodes_capacity = n;
    ask.no_room = true;
    for (uint32_t less = 1; less <= e; less *= 5) {
        ask.indices_capacity = e - less;
        struct hop h = draw(ask);
        ck_assert_int_eq(h.rc, SL_ERANGE);
        hop_free(&h);
    }
    ask.indices_capacity = e; // and after those that failed, with the map that they used
    struct hop exact = draw(ask);
    expect_same(&want, &exact, ask.n_dst);
    hop_free(&exact);
    hop_free(&want);
}

static inline uint32_t neighbour_of(const struct hop *h, uint32_t row, uint32_t slot)
{
    return h->nodes[h->indices[h->indptr[row] + slot]];
}

// ---- counting -----------------------------------------------------------------------------------

// Outcomes with their exact probabilities and how often they came.
struct cells {
    uint32_t n, capacity;
    uint64_t *outcome;
    double *probability;
    uint32_t *count;
};

static inline uint32_t cell_of(struct cells *c, uint64_t outcome)
{
    for (uint32_t i = 0; i < c->n; i++)
        if (c->outcome[i] == outcome)
            return i;
    if (c->n == c->capacity) {
        c->capacity = SL_MAX(c->capacity * 2, 64u);
        c->outcome = realloc(c->outcome, c->capacity * sizeof *c->outcome);
        c->probability = realloc(c->probability, c->capacity * sizeof *c->probability);
        c->count = realloc(c->count, c->capacity * sizeof *c->count);
    }
    c->outcome[c->n] = outcome;
    c->probability[c->n] = 0;
    c->count[c->n] = 0;
    return c->n++;
}

static inline void add_probability(struct cells *c, uint64_t outcome, double probability)
{
    uint32_t i = cell_of(c, outcome);
    c->probability[i] += probability;
}

static inline void count_outcome(struct cells *c, uint64_t outcome)
{
    uint32_t i = cell_of(c, outcome);
    c->count[i]++;
}

static inline void cells_free(struct cells *c)
{
    free(c->outcome);
    free(c->probability);
    free(c->count);
}

// How many standard deviations a chi-square value is off (Wilson and Hilferty's cube root).
static inline double chi_square_deviations(double x, double dof)
{
    return (cbrt(x / dof) - (1 - 2 / (9 * dof))) / sqrt(2 / (9 * dof));
}

// Chi-square of the counts; cells that are expected less than 8 times are taken as one. An outcome
// that cannot be must not have come.
static inline void judge(const struct cells *c, const char *what)
{
    double total = 0, sum = 0, x = 0, dof = -1, rare = 0, rare_count = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        total += c->count[i];
        sum += c->probability[i];
        EXPECT(c->probability[i] > 0 || c->count[i] == 0, "%s: outcome %llx cannot be", what,
               (unsigned long long)c->outcome[i]);
    }
    ck_assert_msg(fabs(sum - 1) < 1e-9, "%s: probabilities add up to %.12g", what, sum);
    for (uint32_t i = 0; i < c->n; i++) {
        double want = total * c->probability[i], d = c->count[i] - want;
        if (want < 8) {
            rare += want;
            rare_count += c->count[i];
            continue;
        }
        x += d * d / want;
        dof++;
    }
    if (rare >= 8) {
        x += (rare_count - rare) * (rare_count - rare) / rare;
        dof++;
    } else {
        ck_assert_msg(rare_count <= rare + 6 * sqrt(rare) + 3, "%s: %.0f rare outcomes, wanted %g",
                      what, rare_count, rare);
    }
    if (dof < 1)
        return; // one outcome alone
    double z = chi_square_deviations(x, dof);
    ck_assert_msg(fabs(z) < 4.5 || (dof < 4 && z < 4.5),
                  "%s: chi-square %.1f with %.0f degrees of freedom is %.1f deviations off", what,
                  x, dof, z);
}

#endif
