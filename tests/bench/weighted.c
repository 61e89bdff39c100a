/*
 * weighted.c - sampling by weight beside uniform sampling, in turn.
 *
 *   weighted DATASET [--weights even|heavy|wide|own] [--fanout 15,10,5] [--batch 1024]
 *            [--epochs 9] [--batches N] [--seed 7]
 *
 * One thread draws the batches of an epoch by each kind in turn, as a job's sampler does; one epoch
 * of each comes first and counts for nothing. Weights are those of the data set (own) or are made:
 * even in (0, 1], heavy as 1 / u, or wide over thirty orders of magnitude. --batches bounds an
 * epoch. Of each kind the median epoch is shown, and the median of the quotients of the pairs.
 *
 * Prints lines for people and, last, one JSON object.
 */
#include <math.h>

#include "common/base/philox.h"
#include "sampler/topology.h"
#include "tests/bench/lane.h"

enum weights { EVEN, HEAVY, WIDE, OWN };
static const char *const weight_words[] = {"even", "heavy", "wide", "own", NULL};

enum { KINDS = 2, EPOCHS_MAX = 1000 };
static const enum sl_sampler_kind kinds[KINDS] = {SL_SAMPLER_KHOP, SL_SAMPLER_WEIGHTED};

struct options {
    const char *path, *fanout;
    uint32_t weights; // of weight_words
    uint32_t batch, epochs, batches;
    struct sl_draw_plan plan;
};

struct bench {
    const struct options *o;
    struct sl_topology topology;
    float *weight;
    double *sums;
    struct lane lane;
    struct sl_epoch_order order;
    uint32_t *seeds; // (training vertices)
    uint32_t n_batches;
    double seconds[KINDS][EPOCHS_MAX];
    uint64_t edges[KINDS];
};

static float weight_of(uint64_t seed, enum weights kind, uint64_t edge)
{
    const struct sl_rng_block block = sl_philox(seed, sl_rng_word0(SL_RNG_GENERATE, 1, 0),
                                                (uint32_t)edge, (uint32_t)(edge >> 32), 0);
    const double u = ((double)block.w[0] + 1) * 0x1p-32;
    return (float)(kind == EVEN ? u : kind == HEAVY ? 1 / u : pow(10, 30 * u - 15));
}

static void open_graph(struct bench *b)
{
    const struct options *o = b->o;
    struct sl_topology *t = &b->topology;
    const unsigned need = o->weights == OWN ? SL_NEED_WEIGHTS : 0;
    must_ok(sl_topology_open(t, o->path, NULL, need, -1, sl_kernels_cpu(), 0));
    sl_topology_expect_draws(t);
    if (o->weights == OWN)
        return;
    const uint64_t n = SL_MAX(t->dataset.n_edges, 1u);
    b->weight = must(sl_pages_alloc(n * sizeof *b->weight));
    b->sums = must(sl_pages_alloc(n * sizeof *b->sums));
    for (uint64_t e = 0; e < t->dataset.n_edges; e++)
        b->weight[e] = weight_of(o->plan.seed, (enum weights)o->weights, e);
    must_ok(sl_kernels_cpu()->weight_prefix(&t->view, b->weight, b->sums));
    t->view.weight_prefix = b->sums;
    t->view.weights_positive = 1;
}

static double run_epoch(struct bench *b, uint32_t kind, uint32_t epoch)
{
    const struct options *o = b->o;
    const uint32_t train = (uint32_t)b->topology.dataset.split[SL_SPLIT_TRAIN].n;
    struct sl_draw_plan plan = o->plan;
    plan.kind = kinds[kind];
    sl_epoch_order_fill(&b->order, epoch, b->seeds);
    b->edges[kind] = 0;
    const uint64_t begin = sl_now_ns();
    for (uint32_t i = 0; i < b->n_batches; i++) {
        const uint32_t first = i * o->batch;
        lane_draw(&b->lane, &plan, epoch, i, b->seeds + first, SL_MIN(o->batch, train - first));
        b->edges[kind] += b->lane.block->n_edges;
    }
    return (double)(sl_now_ns() - begin) * 1e-9;
}

static void report(struct bench *b)
{
    const struct options *o = b->o;
    double ratio[EPOCHS_MAX], by_kind[KINDS];
    for (uint32_t e = 0; e < o->epochs; e++)
        ratio[e] = b->seconds[1][e] / b->seconds[0][e] * (double)b->edges[0] / (double)b->edges[1];
    for (uint32_t k = 0; k < KINDS; k++) {
        by_kind[k] = median(b->seconds[k], o->epochs);
        printf("%-9s %8.2f ms an epoch of %" PRIu32 " batches, %6.1f M edges/s\n",
               sl_sampler_words[kinds[k]], by_kind[k] * 1e3, b->n_batches,
               (double)b->edges[k] * 1e-6 / by_kind[k]);
    }
    const double times = median(ratio, o->epochs);
    printf("an edge by weight takes %.2f times as long\n", times);
    printf("{\"bench\": \"weighted\", \"data\": \"%s\", \"weights\": \"%s\", \"batches\": %" PRIu32
           ", \"uniform\": %.6f, \"weighted\": %.6f, \"times\": %.3f}\n",
           b->topology.dataset.name, weight_words[o->weights], b->n_batches, by_kind[0], by_kind[1],
           times);
}

static void run(const struct options *o)
{
    struct bench *b = must(calloc(1, sizeof *b));
    b->o = o;
    open_graph(b);
    const struct sl_vertex_list *train = &b->topology.dataset.split[SL_SPLIT_TRAIN];
    b->n_batches = (uint32_t)SL_MIN(sl_div_up(train->n, o->batch), (uint64_t)o->batches);
    b->seeds = must(malloc(SL_MAX(train->n, 1u) * sizeof *b->seeds));
    lane_open_order(&b->order, SL_ORDER_SHUFFLED, 0, &b->topology.dataset, o->plan.seed, o->batch,
                    1);
    must_ok(sl_drawer_init(&b->lane.drawer, &b->topology, sl_kernels_cpu()));
    for (uint32_t k = 0; k < KINDS; k++)
        run_epoch(b, k, o->epochs);
    for (uint32_t e = 0; e < o->epochs; e++)
        for (uint32_t k = 0; k < KINDS; k++)
            b->seconds[k][e] = run_epoch(b, k, e);
    report(b);
    lane_fini(&b->lane);
    const uint64_t n = SL_MAX(b->topology.dataset.n_edges, 1u);
    sl_pages_free(b->weight, b->weight ? n * sizeof *b->weight : 0);
    sl_pages_free(b->sums, b->sums ? n * sizeof *b->sums : 0);
    sl_topology_close(&b->topology);
    sl_epoch_order_close(&b->order);
    free(b->seeds);
    free(b);
}

// clang-format off
static const struct sl_option options[] = {
    ARGUMENT_CHOICE("weights", options, weights, weight_words),
    ARGUMENT_TEXT("fanout", options, fanout),
    ARGUMENT_NUMBER("batch", options, batch, 1, 1000000000),
    ARGUMENT_NUMBER("epochs", options, epochs, 1, EPOCHS_MAX),
    ARGUMENT_NUMBER("batches", options, batches, 1, 1000000000),
    ARGUMENT_NUMBER("seed", options, plan.seed, 0, 9000000000000000.0),
    {0},
};
// clang-format on
static const struct sl_command command = {
    .name = "weighted",
    .is_program = true,
    .about = "Draws the batches of epochs uniformly and by weight, in turn.",
    .operands = {{"DATASET", offsetof(struct options, path)}},
    .options = {{options}},
};

int main(int argc, char **argv)
{
    struct options o = {
        .plan = {.stream = SL_RNG_SAMPLE, .seed = 7},
        .fanout = "15,10,5",
        .batch = 1024,
        .epochs = 9,
        .batches = UINT32_MAX,
    };
    arguments_parse(&command, &o, argc, argv);
    lane_fanout(o.fanout, &o.plan);
    run(&o);
    return 0;
}
