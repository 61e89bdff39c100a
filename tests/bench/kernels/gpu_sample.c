/*
 * Whole batches drawn by a device, and what is done to them: marked and split.
 *
 * Floor of a batch: each edge that is drawn is a word at a random place of the topology, each
 * vertex that it meets an entry at a random place of the table. So edges a second stand beside
 * random words a second, read from as many bytes; a walk's steps likewise. Batches differ from call
 * to call, and the seeds of the next ones are not those of the last.
 */
#include "tests/bench/kernels/gpu.h"

#include <stdio.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/philox.h"

enum { PATHS = 4, LENGTH = 3, HOPS_MAX = 3 };

struct draw {
    struct perf *p;
    struct sl_draw_args args;
    const uint32_t *seeds; // (n_seeds * n_batches) all different
    uint32_t n_batches;
    struct sl_draw_state *state;
    struct sl_drawn drawn; // the last
    double edges, vertices, batches;
    char name[64];
};

static void run_draw(void *context)
{
    struct draw *d = context;
    struct perf *p = d->p;
    d->args.batch++;
    d->args.seeds = d->seeds + (size_t)(d->args.batch % d->n_batches) * d->args.n_seeds;
    perf_check(p, p->kernels->draw(&d->state, &d->args));
    perf_check(p, p->kernels->draw_wait(d->state, &d->drawn));
    for (uint32_t h = 0; h < d->args.n_hops; h++)
        d->edges += d->args.kind == SL_SAMPLER_WALK ? (double)d->drawn.n_nodes[h] * PATHS * LENGTH
                                                    : d->drawn.n_edges[h];
    d->vertices += d->drawn.n_nodes[d->args.n_hops];
    d->batches++;
}

struct graph {
    struct sl_topology_view on, mapped; // where the arrays are
    uint64_t n_edges;
    float *weight; // the device's
    const uint32_t *seeds;
    uint32_t n_seeds, n_batches;
};

// A permutation's first n, all different.
static uint32_t *distinct(struct perf *p, uint32_t n, uint32_t below)
{
    uint32_t *all = perf_alloc(p, below * sizeof *all);
    for (uint32_t i = 0; i < below; i++)
        all[i] = i;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t k = i + (uint32_t)(perf_random(p) % (below - i)), kept = all[i];
        all[i] = all[k];
        all[k] = kept;
    }
    return all;
}

static void *map_copy(struct perf *p, const void *from, size_t bytes)
{
    void *seen;
    memcpy(perf_gpu_mapped(p, bytes, &seen), from, bytes);
    return seen;
}

static struct graph make_graph(struct perf *p)
{
    float *weight;
    uint32_t n = (uint32_t)perf_size(p, 8 << 20, 2000);
    struct sl_topology_view host = perf_graph(p, n, &weight);
    struct graph g = {.n_edges = host.indptr[n], .on = host, .mapped = host};
    g.n_seeds = (uint32_t)perf_size(p, 8000, 10);
    g.n_batches = 32;
    g.seeds = distinct(p, g.n_seeds * g.n_batches, n);
    size_t indptr_bytes = ((size_t)n + 1) * sizeof *host.indptr;
    g.on.indptr = perf_upload(p, host.indptr, indptr_bytes);
    g.on.indices = perf_upload(p, host.indices, g.n_edges * sizeof(uint32_t));
    g.weight = perf_upload(p, weight, g.n_edges * sizeof *weight);
    double *prefix = perf_gpu_alloc(p, g.n_edges * sizeof *prefix);
    perf_check(p, p->kernels->weight_prefix(&g.on, g.weight, prefix));
    g.on.weight_prefix = prefix;
    g.mapped.indptr = map_copy(p, host.indptr, indptr_bytes);
    g.mapped.indices = map_copy(p, host.indices, g.n_edges * sizeof(uint32_t));
    return g;
}

// What is measured of them, by hops.
static const struct kind {
    enum sl_sampler_kind kind;
    const char *name;
    uint32_t n_hops;
    int64_t fanout[HOPS_MAX];
} kinds[] = {
    {SL_SAMPLER_KHOP, "khop 25,10", 2, {25, 10}},
    {SL_SAMPLER_KHOP, "khop 15,10,5", 3, {15, 10, 5}},
    {SL_SAMPLER_WEIGHTED, "weighted 15,10,5", 3, {15, 10, 5}},
    {SL_SAMPLER_WALK, "walk 5,5,5 of 4 x 3", 3, {5, 5, 5}},
};

static struct draw make_draw(struct perf *p, const struct graph *g, const struct kind *kind,
                             enum sl_renumbering renumbering, bool mapped)
{
    struct draw d = {.p = p, .seeds = g->seeds, .n_batches = g->n_batches};
    d.args = (struct sl_draw_args){.kind = kind->kind,
                                   .renumbering = renumbering,
                                   .topology = mapped ? &g->mapped : &g->on,
                                   .n_hops = kind->n_hops,
                                   .paths = PATHS,
                                   .length = LENGTH,
                                   .restart = 0.5f,
                                   .seed = 1,
                                   .stream = SL_RNG_SAMPLE,
                                   .n_seeds = g->n_seeds};
    memcpy(d.args.fanout, kind->fanout, sizeof kind->fanout);
    snprintf(d.name, sizeof d.name, "%s%s", mapped ? "mapped, " : "",
             renumbering == SL_RENUMBER_FUSED ? "fused" : "three phases");
    run_draw(&d); // how much there is of it
    return d;
}

// ---- draw ---------------------------------------------------------------------------------------

struct words {
    struct perf *p;
    const float *table;
    const uint32_t *rows;
    uint64_t n_words, n;
    float *out;
};

static void run_words(void *context)
{
    const struct words *w = context;
    perf_check(w->p, w->p->kernels->gather_rows(w->table, SL_DTYPE_F32, w->n_words, 1, w->rows,
                                                w->n, w->out));
}

static struct words make_words(struct perf *p, const struct graph *g)
{
    struct words w = {.p = p, .n_words = SL_MIN(g->n_edges, UINT32_MAX)};
    w.n = perf_size(p, 1 << 20, 500);
    w.table = g->on.indices; // as numbers they mean nothing
    w.rows = perf_gpu_ids(p, w.n, (uint32_t)w.n_words);
    w.out = perf_gpu_alloc(p, w.n * sizeof(float));
    return w;
}

static void draw_case(struct perf *p, const struct graph *g, struct words *words,
                      const struct kind *kind)
{
    struct draw d[4];
    struct perf_run runs[5] = {
        perf_count("random words", run_words, words, (double)words->n, NULL)};
    size_t n = 0;
    for (int mapped = 0; mapped < 2; mapped++)
        for (int three = 0; three < 2; three++) {
            // weight_prefix of mapped memory would be another array: the device's is all there is.
            if (mapped && (three || kind->kind == SL_SAMPLER_WEIGHTED))
                continue;
            d[n] = make_draw(p, g, kind, three ? SL_RENUMBER_THREE_PHASE : SL_RENUMBER_FUSED,
                             mapped != 0);
            n++;
        }
    for (size_t i = 1; i < n; i++) // the first batch is the same in all ways
        if (d[i].edges != d[0].edges || d[i].vertices != d[0].vertices)
            perf_check(p, sl_fail(SL_EPROTO,
                                  "draw %s: %s drew %.0f edges and %.0f vertices, %s %.0f "
                                  "and %.0f",
                                  kind->name, d[i].name, d[i].edges, d[i].vertices, d[0].name,
                                  d[0].edges, d[0].vertices));
    for (size_t i = 0; i < n; i++) // "fused" beside words, the others beside it
        runs[i + 1] =
            perf_count(d[i].name, run_draw, &d[i], d[i].edges, i == 0 ? "random words" : d[0].name);
    perf_measure(p, runs, n + 1, "draw %s: %u seeds, %.0f %s, %.0f vertices, of %llu edges",
                 kind->name, g->n_seeds, d[0].edges,
                 kind->kind == SL_SAMPLER_WALK ? "steps" : "edges", d[0].vertices,
                 (unsigned long long)g->n_edges);
    printf("  fused takes %.2f of the time of three phases\n", runs[1].seconds / runs[2].seconds);
    for (size_t i = 0; i < n; i++)
        p->kernels->draw_end(d[i].state);
}

// ---- marking, splitting, weight_prefix ----------------------------------------------------------

struct mark {
    struct perf *p;
    struct sl_rank_index index;
    const uint32_t *nodes;
    uint32_t *ranks;
    uint32_t n;
    struct sl_row_split split;
    const struct graph *graph;
    double *prefix;
};

static void run_mark(void *context)
{
    const struct mark *m = context;
    perf_check(m->p, m->p->kernels->mark_ranks(&m->index, m->nodes, m->n, m->ranks));
}

static void run_split(void *context)
{
    struct mark *m = context;
    const struct sl_spread all = {.n_near = UINT32_MAX - 1};
    perf_check(m->p, m->p->kernels->split_rows(m->nodes, m->ranks, m->n, &all, &m->split));
}

static void run_prefix(void *context)
{
    const struct mark *m = context;
    perf_check(m->p, m->p->kernels->weight_prefix(&m->graph->on, m->graph->weight, m->prefix));
}

// One vertex in ten is hot.
static struct sl_rank_index make_index(struct perf *p, uint64_t n)
{
    uint64_t n_words = sl_div_up(n, 32), next = 0;
    uint64_t *words = perf_alloc(p, n_words * sizeof *words);
    for (uint64_t w = 0; w < n_words; w++) {
        uint32_t members = 0;
        for (uint32_t bit = 0; bit < 32; bit++)
            members |= (uint32_t)(32 * w + bit < n && perf_random(p) % 10 == 0) << bit;
        words[w] = next << 32 | members;
        next += (uint64_t)__builtin_popcount(members);
    }
    return (struct sl_rank_index){n, 1, perf_upload(p, words, n_words * sizeof *words)};
}

static void rows_case(struct perf *p, const struct graph *g, struct words *words)
{
    struct mark m = {.p = p, .graph = g, .n = (uint32_t)perf_size(p, 1 << 20, 200)};
    m.index = make_index(p, g->on.n_nodes);
    m.nodes = perf_gpu_ids(p, m.n, (uint32_t)g->on.n_nodes);
    m.ranks = perf_gpu_alloc(p, m.n * 4);
    m.split.hit_row = perf_gpu_alloc(p, m.n * 4);
    m.split.hit_to = perf_gpu_alloc(p, m.n * 4);
    m.split.miss_row = perf_gpu_alloc(p, m.n * 4);
    m.split.miss_to = perf_gpu_alloc(p, m.n * 4);
    m.prefix = perf_gpu_alloc(p, g->n_edges * sizeof *m.prefix);
    run_mark(&m);
    struct perf_run runs[] = {
        perf_gpu_copy(p),
        perf_count("random words", run_words, words, (double)words->n, NULL),
        perf_count("mark_ranks", run_mark, &m, m.n, "random words"),
        perf_bytes("split_rows", run_split, &m, 16.0 * m.n, "copy"),
        perf_bytes("weight_prefix", run_prefix, &m,
                   12.0 * (double)g->n_edges + 8.0 * (double)g->on.n_nodes, "copy"),
    };
    perf_measure(p, runs, SL_COUNT_OF(runs), "ranks: %u vertices; weight_prefix: %llu edges", m.n,
                 (unsigned long long)g->n_edges);
}

void perf_gpu_draw(struct perf *p)
{
    struct graph g = make_graph(p);
    struct words words = make_words(p, &g);
    for (size_t i = 0; i < SL_COUNT_OF(kinds); i++)
        draw_case(p, &g, &words, &kinds[i]);
    rows_case(p, &g, &words);
    perf_release(p);
}
