// What it costs a batch not to see its target edges: 1,024 pairs and as many random ends of
// negative ones, two hops, with nothing excluded and with the pairs and their reverses.
#include "tests/bench/kernels/perf.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/philox.h"
#include "kernels/exclusion.h"

enum {
    N_NODES = 1 << 22,
    N_PAIRS = 1024,
    NODES_MAX = 1 << 21,
    EDGES_MAX = 1 << 21,
    HOPS = 2,
    PATHS = 4,
    LENGTH = 3,
};
static const int64_t fanout[HOPS] = {15, 10};

struct batch {
    struct perf *p;
    const struct sl_topology_view *topology;
    enum sl_sampler_kind kind;
    bool excludes;
    struct sl_idmap *map;
    struct sl_exclusion exclusion;
    uint32_t number, n_nodes, n_seeds;
    uint32_t *nodes, *indptr, *indices;
    uint32_t pairs[2 * N_PAIRS];
    float *visits;
    uint64_t n_edges;
};

static uint32_t seed_of(struct batch *b, uint32_t vertex)
{
    uint32_t local;
    perf_check(b->p, sl_idmap_insert(b->map, vertex, b->nodes, &b->n_nodes, NODES_MAX, &local));
    return local;
}

// An edge is as likely as any other, so its vertices are hubs more often than others.
static void choose_pairs(struct batch *b)
{
    const struct sl_topology_view *t = b->topology;
    const uint32_t n = (uint32_t)t->n_nodes;
    for (uint32_t i = 0; i < N_PAIRS; i++) {
        const struct sl_rng_block r = sl_philox(2, i, b->number, 0, 0);
        const uint64_t edge = ((uint64_t)r.w[0] << 32 | r.w[1]) % t->indptr[n];
        uint64_t low = 0, high = n;
        while (high - low > 1) {
            const uint64_t middle = low + (high - low) / 2;
            if (t->indptr[middle] <= edge)
                low = middle;
            else
                high = middle;
        }
        b->pairs[2 * i] = seed_of(b, ((const uint32_t *)t->indices)[edge]);
        b->pairs[2 * i + 1] = seed_of(b, (uint32_t)low);
        seed_of(b, r.w[2] % n);
        seed_of(b, r.w[3] % n);
    }
    b->n_seeds = b->n_nodes;
}

static void draw(struct batch *b)
{
    for (uint32_t hop = 0; hop < HOPS; hop++) {
        uint32_t n_edges = 0;
        const struct sl_khop_args args = {.topology = b->topology,
                                          .seed = 1,
                                          .stream = SL_RNG_SAMPLE,
                                          .batch = b->number,
                                          .hop = hop,
                                          .fanout = fanout[hop],
                                          .excluded = b->excludes ? &b->exclusion.found : NULL,
                                          .n_dst = b->n_nodes,
                                          .nodes = b->nodes,
                                          .n_nodes = &b->n_nodes,
                                          .nodes_capacity = NODES_MAX,
                                          .map = b->map,
                                          .indptr = b->indptr,
                                          .indices = b->indices,
                                          .indices_capacity = EDGES_MAX,
                                          .n_edges = &n_edges,
                                          .paths = PATHS,
                                          .length = LENGTH,
                                          .visits = b->visits};
        perf_check(b->p, b->p->kernels->sample[b->kind](&args));
        b->n_edges += n_edges;
    }
}

static void run_batch(void *context)
{
    struct batch *b = context;
    const struct sl_target_edges targets = {.pairs = b->pairs, .n = N_PAIRS, .reverse = true};
    perf_check(b->p, sl_idmap_reset(b->map, NODES_MAX));
    b->n_nodes = 0;
    b->n_edges = 0;
    b->number++;
    choose_pairs(b);
    if (b->excludes)
        perf_check(b->p,
                   sl_exclusion_find(&b->exclusion, b->topology, b->nodes, b->n_seeds, &targets));
    draw(b);
}

static void make_batch(struct batch *b, struct perf *p, const struct sl_topology_view *topology)
{
    *b = (struct batch){.p = p, .topology = topology};
    perf_check(p, sl_idmap_create(NODES_MAX, &b->map));
    b->nodes = perf_alloc(p, NODES_MAX * sizeof(uint32_t));
    b->indptr = perf_alloc(p, ((size_t)NODES_MAX + 1) * sizeof(uint32_t));
    b->indices = perf_alloc(p, EDGES_MAX * sizeof(uint32_t));
    b->visits = perf_alloc(p, EDGES_MAX * sizeof(float));
}

static int compare(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

void perf_exclude(struct perf *p)
{
    float *weight;
    struct sl_topology_view topology = perf_graph(p, N_NODES, &weight);
    for (uint32_t v = 0; v < N_NODES; v++)
        qsort((uint32_t *)topology.indices + topology.indptr[v],
              topology.indptr[v + 1] - topology.indptr[v], sizeof(uint32_t), compare);
    double *prefix = perf_alloc(p, topology.indptr[N_NODES] * sizeof *prefix);
    perf_check(p, p->kernels->weight_prefix(&topology, weight, prefix));
    topology.weight_prefix = prefix;
    struct sl_topology_view rising = topology;
    rising.lists_rise = 1;
    static const struct {
        const char *name;
        enum sl_sampler_kind kind;
        bool excludes, rise;
    } cases[] = {
        {"khop 15,10", SL_SAMPLER_KHOP, false, false},
        {"khop, edges excluded", SL_SAMPLER_KHOP, true, true},
        {"khop, lists in no order", SL_SAMPLER_KHOP, true, false},
        {"weighted 15,10", SL_SAMPLER_WEIGHTED, false, false},
        {"weighted, edges excluded", SL_SAMPLER_WEIGHTED, true, true},
        {"walk 15,10", SL_SAMPLER_WALK, false, false},
        {"walk, edges excluded", SL_SAMPLER_WALK, true, true},
        {"labor 15,10", SL_SAMPLER_LABOR, false, false},
        {"labor, edges excluded", SL_SAMPLER_LABOR, true, true},
    };
    enum { CASES = SL_COUNT_OF(cases) };
    static struct batch b[CASES];
    struct perf_run runs[CASES + 1];
    struct perf_words words = {.n_words = N_NODES, .n_reads = 1u << 20, .threads = p->threads};
    words.words = perf_ids(p, N_NODES, N_NODES);
    runs[CASES] = perf_word_ceiling(&words);
    for (int i = 0; i < CASES; i++) {
        make_batch(&b[i], p, cases[i].rise ? &rising : &topology);
        b[i].kind = cases[i].kind;
        b[i].excludes = cases[i].excludes;
        run_batch(&b[i]);
        runs[i] = (struct perf_run){.name = cases[i].name,
                                    .run = run_batch,
                                    .context = &b[i],
                                    .amount = (double)b[i].n_edges,
                                    .unit = "M/s",
                                    .scale = 1e6,
                                    .ceiling = runs[CASES].name};
    }
    perf_measure(p, runs, CASES + 1,
                 "excluding edges: %u pairs and their reverses, %u M vertices, %llu M edges "
                 "(choosing the pairs included)",
                 N_PAIRS, N_NODES >> 20, (unsigned long long)topology.indptr[N_NODES] >> 20);
    const double *without = &runs[0].seconds;
    printf("  it costs");
    for (int i = 0; i < CASES; i++) {
        if (!cases[i].excludes)
            without = &runs[i].seconds;
        else
            printf("%s %s %.1f %%", i > 1 ? "," : "", cases[i].name,
                   100 * (runs[i].seconds / *without - 1));
    }
    printf("\n");
    for (int i = 0; i < CASES; i++) {
        sl_idmap_destroy(b[i].map);
        sl_exclusion_fini(&b[i].exclusion);
    }
    perf_release(p);
}
