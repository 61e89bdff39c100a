// khop_uniform, khop_weighted and random_walk: one hop over a random graph, integer for integer the
// reference's; weight_prefix, bit for bit.
#include "tests/kernels/harness.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/philox.h"

enum { N_NODES = 3000, HUB = 6000 }; // more edges than a pipeline takes at once

struct graph {
    struct sl_topology_view topology;
    uint64_t n_edges;
    float *weight;
};

struct ask {
    enum sl_sampler_kind kind;
    uint32_t n_seeds;
    int64_t fanout;
    uint32_t paths, length; // of a walk
    float restart;
};

struct hop {
    uint32_t *nodes, *indptr, *indices;
    float *visits;
    uint32_t n_nodes, n_edges;
};

// How the weights of a graph are made.
enum weights {
    WEIGHTS_EVEN,   // [0, 1)
    WEIGHTS_SKEWED, // over twenty orders of magnitude
    WEIGHTS_SPARSE, // nine of ten are zero
    WEIGHTS_RISING, // rows of many edges that rise steeply: the middle by weight is near the end
    WEIGHTS_N,
};

static const char *const weight_names[] = {"even", "skewed", "sparse", "rising"};

static float random_weight(struct suite *t, enum weights kind)
{
    float u = t_random_float(t) * 0.5f + 0.5f;
    if (kind == WEIGHTS_SKEWED)
        return powf(10.0f, u * 20.0f - 10.0f);
    if (kind == WEIGHTS_SPARSE)
        return t_random_below(t, 10) ? 0.0f : u;
    return u;
}

static struct graph make_graph(struct suite *t, int wide, enum weights kind)
{
    const uint32_t degree = kind == WEIGHTS_RISING ? 120 : 12;
    struct sl_csr_view csr = t_random_csr(t, N_NODES, N_NODES, degree, HUB);
    uint64_t *indptr = t_alloc(t, (N_NODES + 1) * sizeof *indptr, 0);
    for (uint32_t i = 0; i <= N_NODES; i++)
        indptr[i] = csr.indptr[i];
    struct graph g = {.n_edges = indptr[N_NODES]};
    int64_t *longs = t_alloc(t, g.n_edges * sizeof *longs, 0);
    for (uint64_t e = 0; e < g.n_edges; e++)
        longs[e] = csr.indices[e];
    g.topology = (struct sl_topology_view){.n_nodes = N_NODES,
                                           .indptr = indptr,
                                           .indices = wide ? (void *)longs : (void *)csr.indices,
                                           .indices_dtype = wide ? SL_DTYPE_I64 : SL_DTYPE_I32};
    g.weight = t_alloc(t, g.n_edges * sizeof *g.weight, 0);
    for (uint64_t e = 0; e < g.n_edges; e++)
        g.weight[e] = random_weight(t, kind);
    for (uint32_t v = 0; v < N_NODES && kind == WEIGHTS_RISING; v++)
        for (uint64_t e = indptr[v]; e < indptr[v + 1]; e++)
            g.weight[e] = powf(1.1f, (float)((e - indptr[v]) % 300)) * (1.0f + g.weight[e]);
    double *prefix = t_alloc(t, g.n_edges * sizeof *prefix, 0);
    t_expect_ok(t, t->ref->weight_prefix(&g.topology, g.weight, prefix), "weight_prefix");
    g.topology.weight_prefix = prefix;
    uint64_t zeros = 0;
    for (uint64_t e = 0; e < g.n_edges; e++)
        zeros += g.weight[e] <= 0.0f;
    g.topology.weights_positive = wide && zeros == 0; // nobody has to say it
    return g;
}

static struct hop run(struct suite *t, const struct sl_kernels *kernels, const struct graph *g,
                      const struct ask *ask)
{
    struct hop h = {0};
    struct sl_idmap *map = NULL;
    uint32_t n_seeds = ask->n_seeds;
    uint64_t capacity =
        ask->kind == SL_SAMPLER_WALK ? (uint64_t)n_seeds * ask->paths * ask->length : g->n_edges;
    h.nodes = t_alloc(t, N_NODES * sizeof(uint32_t), 0);
    h.indptr = t_alloc(t, (n_seeds + 1) * sizeof(uint32_t), 0);
    h.indices = t_alloc(t, capacity * sizeof(uint32_t), 0);
    h.visits = t_alloc(t, capacity * sizeof(float), 0);
    t_expect_ok(t, sl_idmap_create(64, &map), "idmap");
    for (uint32_t i = 0; i < n_seeds; i++) { // different ones, the hub 0 among them
        uint32_t local;
        t_expect_ok(
            t, sl_idmap_insert(map, i * (N_NODES / n_seeds), h.nodes, &h.n_nodes, N_NODES, &local),
            "seed");
    }
    struct sl_khop_args args = {.topology = &g->topology,
                                .seed = 42,
                                .stream = SL_RNG_SAMPLE,
                                .epoch = 3,
                                .batch = 5,
                                .hop = 1,
                                .fanout = ask->fanout,
                                .n_dst = n_seeds,
                                .nodes = h.nodes,
                                .n_nodes = &h.n_nodes,
                                .nodes_capacity = N_NODES,
                                .map = map,
                                .indptr = h.indptr,
                                .indices = h.indices,
                                .indices_capacity = capacity,
                                .n_edges = &h.n_edges,
                                .paths = ask->paths,
                                .length = ask->length,
                                .restart = ask->restart,
                                .visits = h.visits};
    t_expect_ok(t, kernels->sample[ask->kind](&args), kernels->name);
    sl_idmap_destroy(map);
    return h;
}

static void compare(struct suite *t, const struct graph *g, const struct ask *ask)
{
    struct hop want = run(t, t->ref, g, ask);
    for (const int *threads = t_threads; *threads; threads++) {
        sl_kernels_set_threads(*threads);
        struct hop got = run(t, t->dev, g, ask);
        t_expect(t, got.n_nodes == want.n_nodes && got.n_edges == want.n_edges,
                 "%u nodes and %u edges, wanted %u and %u", got.n_nodes, got.n_edges, want.n_nodes,
                 want.n_edges);
        t_same_bits(t, "indptr", got.indptr, want.indptr, (ask->n_seeds + 1) * sizeof(uint32_t));
        t_same_bits(t, "indices", got.indices, want.indices, want.n_edges * sizeof(uint32_t));
        t_same_bits(t, "nodes", got.nodes, want.nodes, want.n_nodes * sizeof(uint32_t));
        if (ask->kind == SL_SAMPLER_WALK)
            t_same_bits(t, "visits", got.visits, want.visits, want.n_edges * sizeof(float));
    }
}

// A row of fanouts or of seeds, ended by 0.
static void compare_kind(struct suite *t, struct ask ask, const int64_t *fanouts,
                         const uint32_t *seeds, enum weights weights)
{
    for (const int64_t *fanout = fanouts; *fanout; fanout++)
        for (size_t s = 0; seeds[s]; s++) {
            ask.fanout = *fanout;
            ask.n_seeds = seeds[s];
            t_begin(t, "%s seeds=%u fanout=%lld %s %s paths=%u length=%u restart=%g",
                    sl_sampler_words[ask.kind], ask.n_seeds, (long long)ask.fanout,
                    weight_names[weights], s & 1 ? "i64" : "i32", ask.paths, ask.length,
                    (double)ask.restart);
            struct graph g = make_graph(t, (int)(s & 1), weights);
            compare(t, &g, &ask);
            t_end(t);
        }
}

void test_khop_uniform(struct suite *t)
{
    static const int64_t fanouts[] = {1, 2, 5, 15, 64, 65, 300, -1, 0};
    static const uint32_t seeds[] = {1, 15, 16, 33, 1000, 0};
    compare_kind(t, (struct ask){.kind = SL_SAMPLER_KHOP}, fanouts, seeds, WEIGHTS_EVEN);
    t_begin(t, "khop_uniform of no seeds");
    struct graph g = make_graph(t, 0, WEIGHTS_EVEN);
    compare(t, &g, &(const struct ask){.kind = SL_SAMPLER_KHOP, .fanout = 5});
    t_end(t);
}

void test_labor(struct suite *t)
{
    static const int64_t fanouts[] = {1, 2, 5, 15, 31, 32, 64, 300, -1, 0};
    static const uint32_t seeds[] = {1, 15, 33, 1000, 0};
    compare_kind(t, (struct ask){.kind = SL_SAMPLER_LABOR}, fanouts, seeds, WEIGHTS_EVEN);
}

void test_khop_weighted(struct suite *t)
{
    static const int64_t fanouts[] = {1, 2, 3, 5, 15, 64, 65, 300, 700, 1400, -1, 0};
    static const uint32_t seeds[] = {1, 31, 32, 65, 1000, 0};
    for (int weights = 0; weights < WEIGHTS_N; weights++)
        compare_kind(t, (struct ask){.kind = SL_SAMPLER_WEIGHTED}, fanouts, seeds,
                     (enum weights)weights);
}

void test_random_walk(struct suite *t)
{
    static const int64_t fanouts[] = {1, 5, 20, -1, 0};
    static const uint32_t seeds[] = {1, 31, 32, 65, 1000, 0};
    static const struct {
        uint32_t paths, length;
        float restart;
    } walks[] = {{1, 1, 0},     {4, 3, 0},     {4, 3, 0.5f},   {7, 4, 0.1f}, {8, 5, 0.25f},
                 {9, 8, 0.25f}, {20, 9, 0.5f}, {1, 200, 0.1f}, {3, 3, 1.0f}};
    for (size_t w = 0; w < SL_COUNT_OF(walks); w++)
        compare_kind(t,
                     (struct ask){.kind = SL_SAMPLER_WALK,
                                  .paths = walks[w].paths,
                                  .length = walks[w].length,
                                  .restart = walks[w].restart},
                     fanouts, seeds, WEIGHTS_EVEN);
}

// ---- weight_prefix ------------------------------------------------------------------------------

static void compare_prefix(struct suite *t, enum weights kind)
{
    t_begin(t, "weight_prefix of %s weights", weight_names[kind]);
    struct graph g = make_graph(t, 0, kind);
    for (const int *threads = t_threads; *threads; threads++) {
        double *prefix = t_alloc(t, g.n_edges * sizeof *prefix, 0);
        sl_kernels_set_threads(*threads);
        t_expect_ok(t, t->dev->weight_prefix(&g.topology, g.weight, prefix), "dev");
        t_same_bits(t, "prefix", prefix, g.topology.weight_prefix, g.n_edges * sizeof *prefix);
    }
    t_end(t);
}

static void bad_weights(struct suite *t)
{
    static const float bad[] = {-1.0f, -1e-45f, NAN, INFINITY, -INFINITY};
    // Row 2 is empty, and rows 4 and 5 after the last edge.
    const uint64_t indptr[] = {0, 3, 4, 4, 9, 9, 9};
    const uint32_t row_of[] = {0, 0, 0, 1, 3, 3, 3, 3, 3};
    struct sl_topology_view topology = {.n_nodes = 6, .indptr = indptr};
    const struct sl_kernels *both[] = {t->ref, t->dev};
    for (size_t b = 0; b < SL_COUNT_OF(bad); b++) {
        t_begin(t, "weight_prefix refuses a weight of %g", (double)bad[b]);
        for (uint32_t e = 0; e < 9; e++)
            for (size_t k = 0; k < SL_COUNT_OF(both); k++)
                for (const int *threads = t_threads; *threads; threads++) {
                    float weight[9] = {1, 0, 2, 3, 4, 5, 0, 6, 7};
                    double prefix[9];
                    char name[64];
                    weight[e] = bad[b];
                    weight[8] = bad[b]; // not the first one
                    sl_kernels_set_threads(*threads);
                    t_expect_code(t, both[k]->weight_prefix(&topology, weight, prefix), SL_EINVAL,
                                  both[k]->name);
                    snprintf(name, sizeof name, "edge %u, an in-edge of vertex %u,", e, row_of[e]);
                    t_expect(t, strstr(sl_error_message(), name) != NULL,
                             "the message does not name %s %s", name, sl_error_message());
                }
        t_end(t);
    }
}

static void edgeless(struct suite *t)
{
    t_begin(t, "weight_prefix of no edges and of no vertices");
    const uint64_t indptr[4] = {0};
    struct sl_topology_view topology = {.n_nodes = 3, .indptr = indptr};
    for (; topology.n_nodes <= 3; topology.n_nodes -= 3) {
        t_expect_ok(t, t->ref->weight_prefix(&topology, NULL, NULL), "ref");
        t_expect_ok(t, t->dev->weight_prefix(&topology, NULL, NULL), "dev");
    }
    t_end(t);
}

void test_weight_prefix(struct suite *t)
{
    for (int kind = 0; kind < WEIGHTS_N; kind++)
        compare_prefix(t, (enum weights)kind);
    bad_weights(t);
    edgeless(t);
}
