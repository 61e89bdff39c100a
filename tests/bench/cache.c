/*
 * cache.c - what a feature cache would hit under each policy (FGNN 6, Figure 10 and Table 2).
 *
 *   cache DATASET [--kind khop|weighted|walk|labor] [--fanout 15,10,5] [--paths 4] [--length 3]
 *         [--restart 0.5] [--batch 1024] [--epochs 10] [--ratios 0.01,0.05,0.1] [--presample 1]
 *         [--seed 7] [--order shuffled|proximity] [--sequences N] [--threads N]
 *
 * Draws epochs as a job would (the order of the epoch, the sampler's drawer) and counts how often
 * each vertex is an input node: one visit a batch, since a batch gathers a row once. The first
 * epochs (--presample) give PreSC's order; every policy is judged on the epochs behind them, which
 * none has seen but the optimal one: it is their own counts.
 *
 * Prints a table for people and, last, one JSON object.
 */
#include <inttypes.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/philox.h"
#include "common/data/cache_kind.h"
#include "common/data/hotness.h"
#include "kernels/kernels.h"
#include "sampler/topology.h"
#include "tests/bench/lane.h"
#include "tests/arguments.h"

enum { RATIOS_MAX = 16 };
#define TOP 0.1 // of the vertices, whose footprints are compared (Table 2)

struct options {
    const char *path, *fanout, *of_ratios;
    double restart;
    struct sl_draw_plan plan;
    enum sl_order order;
    uint32_t sequences;
    uint32_t batch, epochs, presample, threads;
    uint32_t n_ratios;
    double ratios[RATIOS_MAX];
};

struct counts {
    uint32_t *now;       // (n_nodes) visits of this epoch
    uint32_t *previous;  // of the one before
    uint32_t *presample; // of the first epochs
    uint32_t *later;     // of those behind them
    uint32_t *order;     // (n_nodes) the policy's
    uint32_t *hotness;   // (n_nodes) its metric
};

struct footprint {
    double batch_share, largest_batch_share, epoch_share; // of the vertices
    double similarity;                                    // of adjacent epochs
    double edges_per_s;
    double inputs; // rows that an epoch gathers
};

// ---- drawing ------------------------------------------------------------------------------------

// Adds one epoch's figures to *f and its visits to c->now.
static void draw_epoch(const struct options *o, const struct sl_topology *t,
                       const struct sl_epoch_order *order, struct lane *lanes, uint32_t epoch,
                       uint32_t *seeds, struct counts *c, struct footprint *f)
{
    const struct sl_vertex_list *train = &t->dataset.split[SL_SPLIT_TRAIN];
    uint32_t n_batches = (uint32_t)sl_div_up(train->n, o->batch);
    uint64_t inputs = 0, edges = 0, largest = 0;
    sl_epoch_order_fill(order, epoch, seeds);
    memset(c->now, 0, t->view.n_nodes * sizeof *c->now);
    uint64_t begin = sl_now_ns();
#pragma omp parallel for schedule(dynamic, 1) num_threads(o->threads) \
    reduction(+ : inputs, edges) reduction(max : largest)
    for (uint32_t b = 0; b < n_batches; b++) {
        struct lane *lane = &lanes[omp_get_thread_num()];
        uint64_t first = (uint64_t)b * o->batch;
        uint32_t n = (uint32_t)SL_MIN((uint64_t)o->batch, train->n - first);
        lane_draw(lane, &o->plan, epoch, b, seeds + first, n);
        const uint32_t *nodes = sl_block_nodes(lane->block);
        for (uint32_t i = 0; i < lane->block->n_input; i++) {
#pragma omp atomic
            c->now[nodes[i]]++;
        }
        inputs += lane->block->n_input;
        edges += lane->block->n_edges;
        largest = SL_MAX(largest, (uint64_t)lane->block->n_input);
    }
    double seconds = (double)(sl_now_ns() - begin) * 1e-9, n_nodes = (double)t->view.n_nodes;
    uint64_t touched = 0;
    for (uint64_t v = 0; v < t->view.n_nodes; v++)
        touched += c->now[v] > 0;
    f->batch_share += (double)inputs / n_batches / n_nodes / o->epochs;
    f->largest_batch_share = SL_MAX(f->largest_batch_share, (double)largest / n_nodes);
    f->epoch_share += (double)touched / n_nodes / o->epochs;
    f->edges_per_s += (double)edges / seconds / o->epochs;
    f->inputs += (double)inputs / o->epochs;
}

static void draw_all(const struct options *o, const struct sl_topology *t, struct counts *c,
                     struct footprint *f)
{
    struct lane lanes[LANE_THREADS_MAX] = {0};
    uint64_t n_nodes = t->view.n_nodes;
    uint32_t *seeds = must(malloc(t->dataset.split[SL_SPLIT_TRAIN].n * sizeof *seeds));
    struct sl_epoch_order order;
    lane_open_order(&order, o->order, o->sequences, &t->dataset, o->plan.seed, o->batch, 1);
    for (uint32_t i = 0; i < o->threads; i++)
        must_ok(sl_drawer_init(&lanes[i].drawer, t, sl_kernels_cpu()));
    for (uint32_t epoch = 0; epoch < o->epochs; epoch++) {
        draw_epoch(o, t, &order, lanes, epoch, seeds, c, f);
        uint32_t *sum = epoch < o->presample ? c->presample : c->later;
        for (uint64_t v = 0; v < n_nodes; v++)
            sum[v] += c->now[v];
        if (epoch > 0) {
            double similarity;
            must_ok(sl_hotness_similarity(c->previous, c->now, n_nodes, TOP, &similarity));
            f->similarity += similarity / (o->epochs - 1);
        }
        uint32_t *swap = c->previous;
        c->previous = c->now;
        c->now = swap;
    }
    for (uint32_t i = 0; i < o->threads; i++)
        lane_fini(&lanes[i]);
    sl_epoch_order_close(&order);
    free(seeds);
}

// ---- policies -----------------------------------------------------------------------------------

// Hit rates in the later epochs.
struct rates {
    bool known[SL_CACHE_COUNT];
    double of[SL_CACHE_COUNT][RATIOS_MAX];
};

// (n_nodes) by what a policy keeps vertices.
static const uint32_t *find_hotness(const struct options *o, const struct sl_topology *t,
                                    struct counts *c, const struct sl_cache_kind *kind)
{
    const struct sl_cache_inputs facts = {
        .dataset = &t->dataset,
        .seed = o->plan.seed,
        .sampling = {.n_hops = o->plan.n_hops, .fanout = o->plan.fanout},
    };
    switch (kind->counts) {
    case SL_VISITS_FIRST: return c->presample;
    case SL_VISITS_ALL: return c->later;
    case SL_VISITS_NONE: break;
    }
    must_ok(kind->hotness(&facts, c->hotness));
    return c->hotness;
}

static void judge(const struct options *o, const struct sl_topology *t, struct counts *c,
                  struct rates *rates)
{
    uint64_t n_nodes = t->view.n_nodes;
    for (unsigned p = 0; p < SL_CACHE_COUNT; p++) {
        rates->known[p] =
            sl_cache_keeps(p) && (!sl_cache_kinds[p].uniform_only ||
                                  (sl_sampler_flags[o->plan.kind] & SL_SAMPLER_UNIFORM));
        if (!rates->known[p])
            continue;
        const uint32_t *hotness = find_hotness(o, t, c, &sl_cache_kinds[p]);
        must_ok(sl_hotness_order(hotness, n_nodes, NULL, c->order, NULL));
        for (uint32_t r = 0; r < o->n_ratios; r++)
            rates->of[p][r] = sl_hotness_hit_rate(c->later, c->order, n_nodes,
                                                  (uint64_t)(o->ratios[r] * (double)n_nodes));
    }
}

// ---- the run ------------------------------------------------------------------------------------

static void print_text(const struct options *o, const struct sl_topology *t,
                       const struct footprint *f, const struct rates *rates)
{
    const struct sl_dataset *ds = &t->dataset;
    printf("%s: %" PRIu64 " vertices, %" PRIu64 " edges, %" PRIu64 " to train on\n", ds->name,
           ds->n_nodes, ds->n_edges, ds->split[SL_SPLIT_TRAIN].n);
    printf("%s ", sl_sampler_words[o->plan.kind]);
    for (uint32_t h = 0; h < o->plan.n_hops; h++)
        printf("%s%" PRId64, h ? "," : "", o->plan.fanout[h]);
    if (o->plan.kind == SL_SAMPLER_WALK)
        printf(" of %" PRIu32 " paths of %" PRIu32 " steps, restart %g", o->plan.paths,
               o->plan.length, (double)o->plan.restart);
    printf(", batches of %" PRIu32 ", %" PRIu32 " epochs, %.1f M edges/s\n", o->batch, o->epochs,
           f->edges_per_s * 1e-6);
    printf("a batch touches %.1f %% of the vertices (at most %.1f %%), an epoch %.1f %%;\n"
           "the top %.0f %% of adjacent epochs are %.1f %% alike\n",
           f->batch_share * 100, f->largest_batch_share * 100, f->epoch_share * 100, TOP * 100,
           f->similarity * 100);
    printf(" ratio ");
    for (unsigned p = 0; p < SL_CACHE_COUNT; p++)
        if (rates->known[p])
            printf("  %8s", sl_cache_words[p]);
    printf("   (epochs counted first: %" PRIu32 ")\n", o->presample);
    for (uint32_t r = 0; r < o->n_ratios; r++) {
        printf("%5.1f %%", o->ratios[r] * 100);
        for (unsigned p = 0; p < SL_CACHE_COUNT; p++)
            if (rates->known[p])
                printf("  %6.1f %%", rates->of[p][r] * 100);
        printf("\n");
    }
}

static void print_json(const struct options *o, const struct sl_topology *t,
                       const struct footprint *f, const struct rates *rates)
{
    printf("{\"bench\": \"cache\", \"data\": \"%s\", \"kind\": \"%s\", \"presample\": %" PRIu32
           ", \"vertices\": %" PRIu64 ", \"inputs\": %.0f, \"batch_share\": %.4f"
           ", \"epoch_share\": %.4f, \"similarity\": %.4f, \"ratios\": [",
           t->dataset.name, sl_sampler_words[o->plan.kind], o->presample, t->dataset.n_nodes,
           f->inputs, f->batch_share, f->epoch_share, f->similarity);
    for (uint32_t r = 0; r < o->n_ratios; r++)
        printf("%s%g", r ? ", " : "", o->ratios[r]);
    printf("]");
    for (unsigned p = 0; p < SL_CACHE_COUNT; p++) {
        if (!rates->known[p])
            continue;
        printf(", \"%s\": [", sl_cache_words[p]);
        for (uint32_t r = 0; r < o->n_ratios; r++)
            printf("%s%.4f", r ? ", " : "", rates->of[p][r]);
        printf("]");
    }
    printf("}\n");
}

static void run(const struct options *o)
{
    struct sl_topology t;
    struct footprint f = {0};
    struct rates rates;
    must_ok(sl_topology_open(&t, o->path, NULL,
                             o->plan.kind == SL_SAMPLER_WEIGHTED ? SL_NEED_WEIGHTS : 0, -1,
                             sl_kernels_cpu(), 0));
    size_t n = t.view.n_nodes, bytes = sizeof(uint32_t);
    struct counts c = {
        .now = must(calloc(n, bytes)),
        .previous = must(calloc(n, bytes)),
        .presample = must(calloc(n, bytes)),
        .later = must(calloc(n, bytes)),
        .order = must(calloc(n, bytes)),
        .hotness = must(calloc(n, bytes)),
    };
    draw_all(o, &t, &c, &f);
    judge(o, &t, &c, &rates);
    print_text(o, &t, &f, &rates);
    print_json(o, &t, &f, &rates);
    free(c.now);
    free(c.previous);
    free(c.presample);
    free(c.later);
    free(c.order);
    free(c.hotness);
    sl_topology_close(&t);
}

// ---- options ------------------------------------------------------------------------------------

// clang-format off
static const struct sl_option options[] = {
    ARGUMENT_CHOICE("kind", options, plan.kind, sl_sampler_words),
    ARGUMENT_NUMBER("paths", options, plan.paths, 1, 1000),
    ARGUMENT_NUMBER("length", options, plan.length, 1, 1000),
    {.name = "restart", SL_OPTION_AT(REAL, options, restart), .placeholder = "R", .max = 1,
     .help = ""},
    ARGUMENT_TEXT("fanout", options, fanout),
    ARGUMENT_NUMBER("batch", options, batch, 1, 1e9),
    ARGUMENT_NUMBER("epochs", options, epochs, 2, 1e6),
    ARGUMENT_TEXT("ratios", options, of_ratios),
    ARGUMENT_NUMBER("presample", options, presample, 1, 1e6),
    ARGUMENT_NUMBER("seed", options, plan.seed, 0, 9e15),
    ARGUMENT_NUMBER("threads", options, threads, 1, LANE_THREADS_MAX),
    ARGUMENT_CHOICE("order", options, order, sl_order_words),
    ARGUMENT_NUMBER("sequences", options, sequences, 0, 1000000),
    {0},
};
// clang-format on
static const struct sl_command command = {
    .name = "cache",
    .is_program = true,
    .about = "Hit rates of the orders by which caches are filled.",
    .operands = {{"DATASET", offsetof(struct options, path)}},
    .options = {{options}},
};

int main(int argc, char **argv)
{
    struct options o = {
        .plan =
            {.kind = SL_SAMPLER_KHOP, .stream = SL_RNG_SAMPLE, .seed = 7, .paths = 4, .length = 3},
        .fanout = "15,10,5",
        .of_ratios = "0.01,0.05,0.1",
        .restart = 0.5,
        .batch = 1024,
        .epochs = 10,
        .presample = 1,
        .threads = (uint32_t)SL_MIN(omp_get_max_threads(), (int)LANE_THREADS_MAX),
    };
    arguments_parse(&command, &o, argc, argv);
    lane_fanout(o.fanout, &o.plan);
    o.plan.restart = (float)o.restart;
    o.n_ratios = arguments_numbers("ratios", o.of_ratios, 0, 1, RATIOS_MAX, o.ratios);
    if (o.presample >= o.epochs) {
        fprintf(stderr,
                "cache: --presample %" PRIu32 " of --epochs %" PRIu32
                ": wanted an epoch behind them to judge on\n",
                o.presample, o.epochs);
        return 2;
    }
    run(&o);
    return 0;
}
