// Sampling a batch, marking it, splitting it; a new batch each time, from graphs larger than the
// caches and much larger.
#include "tests/kernels/perf.h"

#include <math.h>
#include <stdio.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/philox.h"

enum {
    N_NODES = 1 << 23, // of the larger graph
    N_SEEDS = 1024,
    HOPS = 3,
    NODES_MAX = 1 << 21,
    EDGES_MAX = 1 << 21,
    PATHS = 4,
    LENGTH = 3,
};

static double uniform(struct perf *p)
{
    return ((double)(perf_random(p) >> 11) + 0.5) / 9007199254740992.0;
}

// In-degrees have a heavy tail (mean 10), and some vertices are the source of many edges.
static struct sl_topology_view make_graph(struct perf *p, uint32_t n, float **weight)
{
    uint64_t *indptr = perf_alloc(p, ((size_t)n + 1) * sizeof *indptr);
    for (uint32_t v = 0; v < n; v++)
        indptr[v + 1] = indptr[v] + (uint64_t)fmin(4.0 * pow(uniform(p), -0.6), 1e5);
    uint64_t n_edges = indptr[n];
    uint32_t *indices = perf_alloc(p, n_edges * sizeof *indices);
    *weight = perf_alloc(p, n_edges * sizeof **weight);
    for (uint64_t e = 0; e < n_edges; e++) {
        double u = uniform(p);
        indices[e] = ((uint32_t)(u * u * n) * 0x9E3779B1u) % n;
        (*weight)[e] = (float)uniform(p);
    }
    return (struct sl_topology_view){
        .n_nodes = n, .indptr = indptr, .indices = indices, .indices_dtype = SL_DTYPE_U32};
}

struct batch {
    struct perf *p;
    const struct sl_topology_view *topology;
    enum { UNIFORM, WEIGHTED, WALK } kind;
    int64_t fanout[HOPS];
    struct sl_idmap *map;
    uint32_t number;
    uint32_t *nodes, *indptr, *indices;
    float *visits;
    uint32_t n_nodes;
    uint64_t n_edges;
};

static void run_batch(void *context)
{
    struct batch *b = context;
    uint32_t n_dst, local;
    perf_check(b->p, sl_idmap_reset(b->map, NODES_MAX));
    b->n_nodes = 0;
    b->n_edges = 0;
    b->number++;
    for (uint32_t i = 0; b->n_nodes < N_SEEDS; i++)
        perf_check(b->p, sl_idmap_insert(b->map,
                                         sl_philox(1, i, b->number, 0, 0).w[0] %
                                             (uint32_t)b->topology->n_nodes,
                                         b->nodes, &b->n_nodes, NODES_MAX, &local));
    for (uint32_t hop = 0; hop < HOPS; hop++) {
        uint32_t n_edges = 0;
        n_dst = b->n_nodes;
        struct sl_walk_args args = {.hop = {.topology = b->topology,
                                            .seed = 1,
                                            .stream = SL_RNG_SAMPLE,
                                            .batch = b->number,
                                            .hop = hop,
                                            .fanout = b->fanout[hop],
                                            .n_dst = n_dst,
                                            .nodes = b->nodes,
                                            .n_nodes = &b->n_nodes,
                                            .nodes_capacity = NODES_MAX,
                                            .map = b->map,
                                            .indptr = b->indptr,
                                            .indices = b->indices,
                                            .indices_capacity = EDGES_MAX,
                                            .n_edges = &n_edges},
                                    .paths = PATHS,
                                    .length = LENGTH,
                                    .visits = b->visits};
        const struct sl_kernels *k = b->p->kernels;
        perf_check(b->p, b->kind == UNIFORM    ? k->khop_uniform(&args.hop)
                         : b->kind == WEIGHTED ? k->khop_weighted(&args.hop)
                                               : k->random_walk(&args));
        // A walk's work is its steps: counted as all of them, though some paths end early.
        b->n_edges += b->kind == WALK ? (uint64_t)n_dst * PATHS * LENGTH : n_edges;
    }
}

static struct batch make_batch(struct perf *p, const struct sl_topology_view *topology, int kind,
                               const int64_t *fanout)
{
    struct batch b = {.p = p, .topology = topology};
    b.kind = kind;
    for (uint32_t hop = 0; hop < HOPS; hop++)
        b.fanout[hop] = fanout[hop];
    perf_check(p, sl_idmap_create(NODES_MAX, &b.map));
    b.nodes = perf_alloc(p, NODES_MAX * sizeof(uint32_t));
    b.indptr = perf_alloc(p, ((size_t)NODES_MAX + 1) * sizeof(uint32_t));
    b.indices = perf_alloc(p, EDGES_MAX * sizeof(uint32_t));
    b.visits = perf_alloc(p, EDGES_MAX * sizeof(float));
    return b;
}

struct mark {
    const struct batch *batch; // sampled in the same round
    uint32_t *rank_of, *ranks;
};

static void run_mark(void *context)
{
    const struct mark *m = context;
    const struct batch *b = m->batch;
    perf_check(b->p, b->p->kernels->mark_ranks(m->rank_of, b->topology->n_nodes, b->nodes,
                                               b->n_nodes, m->ranks));
}

static void khop_case(struct perf *p, uint32_t n)
{
    static const int64_t wide[] = {15, 10, 5}, five[] = {5, 5, 5};
    float *weight;
    struct sl_topology_view topology = make_graph(p, n, &weight);
    double *prefix = perf_alloc(p, topology.indptr[n] * sizeof *prefix);
    perf_check(p, p->kernels->weight_prefix(&topology, weight, prefix));
    topology.weight_prefix = prefix;
    struct batch b[] = {make_batch(p, &topology, UNIFORM, wide),
                        make_batch(p, &topology, WEIGHTED, wide),
                        make_batch(p, &topology, WALK, five)};
    struct mark m = {.batch = &b[0]};
    m.rank_of = perf_ids(p, n, n);
    m.ranks = perf_alloc(p, NODES_MAX * sizeof(uint32_t));
    struct perf_words words = {.n_words = n, .n_reads = 1u << 22, .threads = p->threads};
    words.words = m.rank_of;
    for (size_t i = 0; i < SL_COUNT_OF(b); i++)
        run_batch(&b[i]); // how much there is of it
    struct perf_run runs[] = {
        perf_word_ceiling(&words),
        {.name = "khop_uniform 15,10,5", .run = run_batch, .context = &b[0]},
        {.name = "mark_ranks of that batch", .run = run_mark, .context = &m},
        {.name = "khop_weighted 15,10,5", .run = run_batch, .context = &b[1]},
        {.name = "random_walk 5 of 4 x 3, steps", .run = run_batch, .context = &b[2]},
    };
    runs[1].amount = (double)b[0].n_edges;
    runs[2].amount = b[0].n_nodes;
    runs[3].amount = (double)b[1].n_edges;
    runs[4].amount = (double)b[2].n_edges;
    for (size_t i = 1; i < SL_COUNT_OF(runs); i++) {
        runs[i].unit = "M/s";
        runs[i].scale = 1e6;
        runs[i].ceiling = "random 4-byte";
    }
    char title[200];
    snprintf(title, sizeof title,
             "sampling: %u seeds, %u hops, %u M vertices, %llu M edges (edges, vertices or steps; "
             "reads from %u MiB)",
             N_SEEDS, HOPS, n >> 20, (unsigned long long)topology.indptr[n] >> 20, n >> 18);
    perf_measure(p, title, runs, SL_COUNT_OF(runs));
    printf("  marking costs %.1f %% of sampling the batch\n",
           100 * runs[2].seconds / runs[1].seconds);
    for (size_t i = 0; i < SL_COUNT_OF(b); i++)
        sl_idmap_destroy(b[i].map);
    perf_release(p);
}

void perf_khop(struct perf *p)
{
    khop_case(p, 1 << 20);
    khop_case(p, N_NODES);
}

// ---- weight_prefix ------------------------------------------------------------------------------

struct prefix {
    struct perf *p;
    struct sl_topology_view topology;
    float *weight;
    double *prefix;
};

static void run_prefix(void *context)
{
    const struct prefix *c = context;
    perf_check(c->p, c->p->kernels->weight_prefix(&c->topology, c->weight, c->prefix));
}

void perf_weight_prefix(struct perf *p)
{
    struct prefix c = {.p = p};
    c.topology = make_graph(p, N_NODES, &c.weight);
    uint64_t n_edges = c.topology.indptr[N_NODES];
    c.prefix = perf_alloc(p, n_edges * sizeof *c.prefix);
    struct perf_run runs[] = {
        perf_copy_ceiling(p),
        {.name = "weight_prefix",
         .run = run_prefix,
         .context = &c,
         .amount = (double)n_edges * 12 + N_NODES * 8.0,
         .unit = "GB/s",
         .scale = 1e9,
         .ceiling = "copy"},
    };
    char title[120];
    snprintf(title, sizeof title, "weight_prefix: %llu M edges (bytes read + written)",
             (unsigned long long)n_edges >> 20);
    perf_measure(p, title, runs, SL_COUNT_OF(runs));
    perf_release(p);
}

// ---- split_rows ---------------------------------------------------------------------------------

struct split {
    struct perf *p;
    const uint32_t *nodes, *ranks;
    uint32_t n, capacity;
    struct sl_row_split out;
};

static void run_split(void *context)
{
    struct split *s = context;
    perf_check(s->p, s->p->kernels->split_rows(s->nodes, s->ranks, s->n, s->capacity, &s->out));
}

void perf_split_rows(struct perf *p)
{
    static const double shares[] = {0.1, 0.5, 0.9};
    for (size_t i = 0; i < SL_COUNT_OF(shares); i++) {
        struct split s = {.p = p, .n = 300000, .capacity = (uint32_t)(shares[i] * N_NODES)};
        s.nodes = perf_ids(p, s.n, N_NODES);
        s.ranks = perf_ids(p, s.n, N_NODES);
        s.out.hit_row = perf_alloc(p, s.n * sizeof(uint32_t));
        s.out.hit_to = perf_alloc(p, s.n * sizeof(uint32_t));
        s.out.miss_row = perf_alloc(p, s.n * sizeof(uint32_t));
        s.out.miss_to = perf_alloc(p, s.n * sizeof(uint32_t));
        struct perf_run runs[] = {
            perf_copy_ceiling(p),
            {.name = "split_rows",
             .run = run_split,
             .context = &s,
             .amount = s.n * 16.0,
             .unit = "GB/s",
             .scale = 1e9,
             .ceiling = "copy"},
        };
        char title[120];
        snprintf(title, sizeof title, "split_rows: %u rows, %.0f %% hits (bytes read + written)",
                 s.n, 100 * shares[i]);
        perf_measure(p, title, runs, SL_COUNT_OF(runs));
        perf_release(p);
    }
}
