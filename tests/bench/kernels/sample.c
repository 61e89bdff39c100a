// Sampling a batch, marking it, splitting it; a new batch each time, from graphs larger than the
// caches and much larger.
#include "tests/bench/kernels/perf.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/philox.h"

enum {
    N_NODES = 1 << 23, // of the larger graph
    N_SEEDS = 1024,
    HOPS = 3,
};

static double uniform(struct perf *p)
{
    return ((double)(perf_random(p) >> 11) + 0.5) / 9007199254740992.0;
}

struct sl_topology_view perf_graph(struct perf *p, uint32_t n, float **weight)
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

void perf_batch_init(struct perf_batch *b, struct perf *p, const struct sl_topology_view *topology,
                     enum sl_sampler_kind kind, const int64_t *fanout)
{
    *b = (struct perf_batch){.p = p, .topology = topology, .kind = kind, .fanout = fanout};
    perf_check(p, sl_idmap_create(PERF_NODES_MAX, &b->map));
    b->nodes = perf_alloc(p, PERF_NODES_MAX * sizeof(uint32_t));
    b->indptr = perf_alloc(p, ((size_t)PERF_NODES_MAX + 1) * sizeof(uint32_t));
    b->indices = perf_alloc(p, PERF_EDGES_MAX * sizeof(uint32_t));
    b->visits = perf_alloc(p, PERF_EDGES_MAX * sizeof(float));
}

void perf_batch_begin(struct perf_batch *b)
{
    perf_check(b->p, sl_idmap_reset(b->map, PERF_NODES_MAX));
    b->n_nodes = 0;
    b->n_edges = b->n_steps = 0;
    b->number++;
}

uint32_t perf_batch_add(struct perf_batch *b, uint32_t vertex)
{
    uint32_t local;
    perf_check(b->p,
               sl_idmap_insert(b->map, vertex, b->nodes, &b->n_nodes, PERF_NODES_MAX, &local));
    return local;
}

void perf_batch_draw(struct perf_batch *b, uint32_t n_hops, const struct sl_excluded *excluded)
{
    for (uint32_t hop = 0; hop < n_hops; hop++) {
        uint32_t n_edges = 0;
        const struct sl_khop_args args = {.topology = b->topology,
                                          .seed = 1,
                                          .stream = SL_RNG_SAMPLE,
                                          .batch = b->number,
                                          .hop = hop,
                                          .fanout = b->fanout[hop],
                                          .excluded = excluded,
                                          .n_dst = b->n_nodes,
                                          .nodes = b->nodes,
                                          .n_nodes = &b->n_nodes,
                                          .nodes_capacity = PERF_NODES_MAX,
                                          .map = b->map,
                                          .indptr = b->indptr,
                                          .indices = b->indices,
                                          .indices_capacity = PERF_EDGES_MAX,
                                          .n_edges = &n_edges,
                                          .paths = PERF_PATHS,
                                          .length = PERF_LENGTH,
                                          .visits = b->visits};
        b->n_steps += (uint64_t)b->n_nodes * PERF_PATHS * PERF_LENGTH;
        perf_check(b->p, b->p->kernels->sample[b->kind](&args));
        b->n_edges += n_edges;
    }
}

static void run_batch(void *context)
{
    struct perf_batch *b = context;
    perf_batch_begin(b);
    for (uint32_t i = 0; b->n_nodes < N_SEEDS; i++)
        perf_batch_add(b, sl_philox(1, i, b->number, 0, 0).w[0] % (uint32_t)b->topology->n_nodes);
    perf_batch_draw(b, HOPS, NULL);
}

struct mark {
    const struct perf_batch *batch; // sampled in the same round
    struct sl_rank_index index;
    uint32_t *ranks;
    char name[48];
};

static void run_mark(void *context)
{
    const struct mark *m = context;
    const struct perf_batch *b = m->batch;
    perf_check(b->p, b->p->kernels->mark_ranks(&m->index, b->nodes, b->n_nodes, m->ranks));
}

// The first `share` of the vertices that perf_graph() makes the source of most edges.
static struct mark make_mark(struct perf *p, const struct perf_batch *b, double share)
{
    uint32_t n = (uint32_t)b->topology->n_nodes, limit = (uint32_t)(share * n), next = 0;
    uint64_t *words = perf_alloc(p, (n / 32 + 1) * sizeof *words);
    for (uint32_t r = 0; r < limit; r++) {
        uint32_t v = (r * 0x9E3779B1u) % n;
        words[v / 32] |= 1ull << v % 32;
    }
    for (uint32_t w = 0; w <= n / 32; w++) {
        uint32_t members = (uint32_t)words[w];
        words[w] |= (uint64_t)next << 32;
        next += (uint32_t)__builtin_popcount(members);
    }
    struct mark m = {.batch = b, .index = {.n_nodes = n, .n_tiers = 1, .words = words}};
    m.ranks = perf_alloc(p, PERF_NODES_MAX * sizeof *m.ranks);
    run_mark(&m);
    uint32_t hits = 0;
    for (uint32_t i = 0; i < b->n_nodes; i++)
        hits += m.ranks[i] != SL_RANK_NONE;
    snprintf(m.name, sizeof m.name, "mark_ranks, %.0f %% hot, %.0f %% hits", 100 * share,
             100.0 * hits / b->n_nodes);
    return m;
}

// What a sampler does with a batch's vertices besides marking them.
static void run_copy(void *context)
{
    const struct mark *m = context;
    memcpy(m->ranks, m->batch->nodes, m->batch->n_nodes * sizeof *m->ranks);
}

static void khop_case(struct perf *p, uint32_t n)
{
    static const int64_t wide[] = {15, 10, 5}, five[] = {5, 5, 5};
    float *weight;
    struct sl_topology_view topology = perf_graph(p, n, &weight);
    double *prefix = perf_alloc(p, topology.indptr[n] * sizeof *prefix);
    perf_check(p, p->kernels->weight_prefix(&topology, weight, prefix));
    topology.weight_prefix = prefix;
    topology.weights_positive = 1; // as samplers find out
    static const enum sl_sampler_kind kinds[] = {SL_SAMPLER_KHOP, SL_SAMPLER_WEIGHTED,
                                                 SL_SAMPLER_WALK, SL_SAMPLER_LABOR};
    struct perf_batch b[SL_COUNT_OF(kinds)];
    struct perf_words words = {.n_words = n, .n_reads = 1u << 22, .threads = p->threads};
    words.words = perf_ids(p, n, n);
    for (size_t i = 0; i < SL_COUNT_OF(b); i++) {
        perf_batch_init(&b[i], p, &topology, kinds[i], kinds[i] == SL_SAMPLER_WALK ? five : wide);
        run_batch(&b[i]); // how much there is of it
    }
    struct mark m[] = {make_mark(p, &b[0], 0.01), make_mark(p, &b[0], 0.1),
                       make_mark(p, &b[0], 0.5)};
    enum { SAMPLE = 1, COPY, MARK, WEIGHTED_RUN = MARK + 2 * SL_COUNT_OF(m) - 1 };
    // A batch before each marking, so that it finds the caches as a sampler leaves them.
    struct perf_run runs[] = {
        perf_word_ceiling(&words),
        {.name = "khop_uniform 15,10,5", .run = run_batch, .context = &b[0]},
        {.name = "copy of its vertices", .run = run_copy, .context = &m[0]},
        {.name = m[0].name, .run = run_mark, .context = &m[0]},
        {.name = "khop_uniform 15,10,5", .run = run_batch, .context = &b[0]},
        {.name = m[1].name, .run = run_mark, .context = &m[1]},
        {.name = "khop_uniform 15,10,5", .run = run_batch, .context = &b[0]},
        {.name = m[2].name, .run = run_mark, .context = &m[2]},
        {.name = "khop_weighted 15,10,5", .run = run_batch, .context = &b[1]},
        {.name = "random_walk 5 of 4 x 3, steps", .run = run_batch, .context = &b[2]},
        {.name = "labor 15,10,5", .run = run_batch, .context = &b[3]},
    };
    for (size_t i = SAMPLE; i < SL_COUNT_OF(runs); i++) {
        const struct perf_batch *its = i < WEIGHTED_RUN ? &b[0] : &b[i - WEIGHTED_RUN + 1];
        const uint64_t drawn = its->kind == SL_SAMPLER_WALK ? its->n_steps : its->n_edges;
        runs[i].amount = runs[i].run == run_batch ? (double)drawn : its->n_nodes;
        runs[i].unit = "M/s";
        runs[i].scale = 1e6;
        runs[i].ceiling = "random 4-byte";
    }
    perf_measure(
        p, runs, SL_COUNT_OF(runs),
        "sampling: %u seeds, %u hops, %u M vertices, %llu M edges (edges, vertices or steps; "
        "reads from %u MiB)",
        N_SEEDS, HOPS, n >> 20, (unsigned long long)topology.indptr[n] >> 20, n >> 18);
    double sample = runs[SAMPLE].seconds;
    printf("  of sampling the batch, copying its vertices costs %.1f %%, marking",
           100 * runs[COPY].seconds / sample);
    for (size_t i = 0; i < SL_COUNT_OF(m); i++)
        printf("%s %.1f", i ? "," : "", 100 * runs[MARK + 2 * i].seconds / sample);
    printf(" %%\n");
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
    c.topology = perf_graph(p, N_NODES, &c.weight);
    uint64_t n_edges = c.topology.indptr[N_NODES];
    c.prefix = perf_alloc(p, n_edges * sizeof *c.prefix);
    struct perf_run runs[] = {
        perf_copy_ceiling(p),
        perf_bytes("weight_prefix", run_prefix, &c, (double)n_edges * 12 + N_NODES * 8.0, "copy"),
    };
    perf_measure(p, runs, SL_COUNT_OF(runs), "weight_prefix: %llu M edges (bytes read + written)",
                 (unsigned long long)n_edges >> 20);
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
    const struct sl_spread held = {.n_near = s->capacity};
    perf_check(s->p, s->p->kernels->split_rows(s->nodes, s->ranks, s->n, &held, &s->out));
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
            perf_bytes("split_rows", run_split, &s, s.n * 16.0, "copy"),
        };
        perf_measure(p, runs, SL_COUNT_OF(runs),
                     "split_rows: %u rows, %.0f %% hits (bytes read + written)", s.n,
                     100 * shares[i]);
        perf_release(p);
    }
}
