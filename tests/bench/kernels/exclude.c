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
    HOPS = 2,
};
static const int64_t fanout[HOPS] = {15, 10};

struct batch {
    struct perf_batch drawn;
    bool excludes;
    struct sl_exclusion exclusion;
    uint32_t pairs[2 * N_PAIRS];
};

// An edge is as likely as any other, so its vertices are hubs more often than others.
static void choose_pairs(struct batch *b)
{
    struct perf_batch *d = &b->drawn;
    const struct sl_topology_view *t = d->topology;
    const uint32_t n = (uint32_t)t->n_nodes;
    for (uint32_t i = 0; i < N_PAIRS; i++) {
        const struct sl_rng_block r = sl_philox(2, i, d->number, 0, 0);
        const uint64_t edge = ((uint64_t)r.w[0] << 32 | r.w[1]) % t->indptr[n];
        uint64_t low = 0, high = n;
        while (high - low > 1) {
            const uint64_t middle = low + (high - low) / 2;
            if (t->indptr[middle] <= edge)
                low = middle;
            else
                high = middle;
        }
        b->pairs[2 * i] = perf_batch_add(d, ((const uint32_t *)t->indices)[edge]);
        b->pairs[2 * i + 1] = perf_batch_add(d, (uint32_t)low);
        perf_batch_add(d, r.w[2] % n);
        perf_batch_add(d, r.w[3] % n);
    }
}

static void run_batch(void *context)
{
    struct batch *b = context;
    struct perf_batch *d = &b->drawn;
    const struct sl_target_edges targets = {.pairs = b->pairs, .n = N_PAIRS, .reverse = true};
    perf_batch_begin(d);
    choose_pairs(b);
    if (b->excludes)
        perf_check(d->p,
                   sl_exclusion_find(&b->exclusion, d->topology, d->nodes, d->n_nodes, &targets));
    perf_batch_draw(d, HOPS, b->excludes ? &b->exclusion.found : NULL);
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
        perf_batch_init(&b[i].drawn, p, cases[i].rise ? &rising : &topology, cases[i].kind, fanout);
        b[i].excludes = cases[i].excludes;
        run_batch(&b[i]);
        runs[i] = (struct perf_run){.name = cases[i].name,
                                    .run = run_batch,
                                    .context = &b[i],
                                    .amount = (double)b[i].drawn.n_edges,
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
        sl_idmap_destroy(b[i].drawn.map);
        sl_exclusion_fini(&b[i].exclusion);
    }
    perf_release(p);
}
