// What it costs a batch not to see its target edges: 1,024 pairs and as many random ends of
// negative ones, two hops, with nothing excluded and with the pairs and their reverses.
#include "tests/bench/kernels/perf.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/philox.h"

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
    bool searches, draws;
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
                                          .excluded = b->searches ? &b->exclusion.found : NULL,
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
    if (b->searches)
        perf_check(b->p,
                   sl_exclusion_find(&b->exclusion, b->topology, b->nodes, b->n_seeds, &targets));
    if (b->draws)
        draw(b);
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
    static const char *const names[] = {"khop", "weighted", "walk", "labor"};
    enum { CASES = 3 + 2 * SL_SAMPLER_KINDS };
    static struct batch b[CASES];
    struct perf_run runs[CASES + 1];
    struct perf_words words = {.n_words = N_NODES, .n_reads = 1u << 20, .threads = p->threads};
    words.words = perf_ids(p, N_NODES, N_NODES);
    runs[CASES] = perf_word_ceiling(&words);
    static char text[CASES][48];
    for (int i = 0; i < CASES; i++) {
        const int of = i - 3;
        b[i] = (struct batch){.p = p,
                              .topology = i == 2 ? &topology : &rising,
                              .kind = (enum sl_sampler_kind)(of < 0 ? 0 : of / 2),
                              .searches = of < 0 ? i > 0 : of % 2,
                              .draws = of >= 0};
        perf_check(p, sl_idmap_create(NODES_MAX, &b[i].map));
        b[i].nodes = perf_alloc(p, NODES_MAX * sizeof(uint32_t));
        b[i].indptr = perf_alloc(p, ((size_t)NODES_MAX + 1) * sizeof(uint32_t));
        b[i].indices = perf_alloc(p, EDGES_MAX * sizeof(uint32_t));
        b[i].visits = perf_alloc(p, EDGES_MAX * sizeof(float));
        if (of < 0)
            snprintf(text[i], sizeof text[i], "%s",
                     i == 0   ? "pairs"
                     : i == 1 ? "and a search, lists rise"
                              : "and a search, others");
        else
            snprintf(text[i], sizeof text[i], "%s 15,10%s", names[of / 2],
                     of % 2 ? ", edges excluded" : "");
        run_batch(&b[i]);
        runs[i] = (struct perf_run){.name = text[i],
                                    .run = run_batch,
                                    .context = &b[i],
                                    .amount = of < 0 ? N_PAIRS : (double)b[i].n_edges,
                                    .unit = "M/s",
                                    .scale = 1e6,
                                    .ceiling = runs[CASES].name};
    }
    perf_measure(p, runs, CASES + 1,
                 "excluding edges: %u pairs and their reverses, %u M vertices, %llu M edges (pairs "
                 "or edges)",
                 N_PAIRS, N_NODES >> 20, (unsigned long long)topology.indptr[N_NODES] >> 20);
    printf("  a search takes %.3f ms where lists rise, else %.3f; excluding costs",
           1e3 * (runs[1].seconds - runs[0].seconds), 1e3 * (runs[2].seconds - runs[0].seconds));
    for (int k = 0; k < SL_SAMPLER_KINDS; k++) {
        const double none = runs[3 + 2 * k].seconds - runs[0].seconds;
        const double with = runs[4 + 2 * k].seconds - runs[0].seconds;
        printf(" %s %.1f %%%s", names[k], 100 * (with / none - 1),
               k + 1 < SL_SAMPLER_KINDS ? "," : "\n");
    }
    for (int i = 0; i < CASES; i++) {
        sl_idmap_destroy(b[i].map);
        sl_exclusion_fini(&b[i].exclusion);
    }
    perf_release(p);
}
