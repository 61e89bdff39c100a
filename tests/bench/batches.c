/*
 * batches.c - mini-batches a second of all cores, drawn alone and drawn and gathered.
 *
 *   batches DATASET [--fanout 15,10,5] [--batch 1024] [--epochs 5] [--seed 7] [--threads N]
 *           [--order shuffled|proximity] [--sequences N] [--expand-new]
 *           [--links uniform|degree|batch] [--per-positive N] [--hard N]
 *           [--exclude none|self|reverse]
 *
 * What a sampler and the extracting half of a trainer do for a batch, without the queue between
 * them and with nothing to train: the order of the epoch, the sampler's drawer, the features of the
 * input nodes gathered from the store. Each thread does whole batches. Epochs of either kind take
 * turns; one more of each comes first and counts for nothing. scripts/bench compares the figures
 * with loaders of other systems on the same cores. With --links batches are of training edges and
 * negatives of each, never edges of the graph, drawn without the edges that --exclude names as in
 * task.exclude, --hard of each positive by walks; what making the pairs takes is said. On a graph
 * of several types the fanout is each relation's, and the rows of each type have its own width.
 *
 * Prints lines for people and, last, one JSON object.
 */
#include <inttypes.h>
#include <omp.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/philox.h"
#include "sampler/topology.h"
#include "tests/bench/lane.h"
#include "tests/arguments.h"
#include "trainer/feed/rows.h"
#include "trainer/feed/typed_block.h"

struct options {
    const char *path, *fanout;
    struct sl_draw_plan plan;
    enum sl_order order;
    uint32_t sequences;
    uint32_t batch, epochs, threads;
    uint32_t links;   // of link_words
    uint32_t exclude; // of exclude_words
    struct sl_config config;
};

static const char *const link_words[] = {"no", "uniform", "degree", "batch", NULL};
static const char *const exclude_words[] = {
    [SL_EXCLUDE_NONE] = "none", [SL_EXCLUDE_SELF] = "self", [SL_EXCLUDE_REVERSE] = "reverse", NULL};

// Input features of a thread's last batch.
struct features {
    float *x; // (n_input, feat_dim); of a graph of several types as trainer/feed/typed_block.h
    uint64_t capacity;
    struct sl_row_source source;
};

struct epoch {
    double seconds;
    uint64_t edges, inputs, pairs_ns;
};

struct bench {
    const struct options *o;
    struct sl_topology topology;
    struct lane lanes[LANE_THREADS_MAX];
    struct features features[LANE_THREADS_MAX];
    struct sl_epoch_order order;
    uint32_t *seeds; // (training vertices)
    uint32_t n_batches;
};

static void gather(const struct sl_dataset *ds, const struct sl_block *block, struct features *f)
{
    const bool typed = ds->typed.n_types;
    const uint64_t bytes =
        typed ? sl_typed_rows_at(block, &ds->typed, ds->typed.n_types, SL_TYPED_F32)
              : (uint64_t)block->n_input * ds->feat_dim * sizeof *f->x;
    if (bytes > f->capacity) {
        sl_pages_free(f->x, f->capacity);
        f->capacity = bytes + bytes / 8;
        f->x = must(sl_pages_alloc(f->capacity));
    }
    f->source.dataset = ds;
    must_ok(typed ? sl_rows_copy_typed(&f->source, sl_kernels_cpu(), block, false, f->x)
                  : sl_rows_convert_of(&f->source, 0, sl_kernels_cpu(), sl_block_nodes(block), NULL,
                                       block->n_input, block->n_input, f->x));
}

static struct epoch run_epoch(struct bench *b, uint32_t epoch, bool gathers)
{
    const struct options *o = b->o;
    const struct sl_dataset *ds = &b->topology.dataset;
    const struct sl_vertex_list *train = &ds->split[SL_SPLIT_TRAIN];
    uint64_t edges = 0, inputs = 0, pairs_ns = 0, begin = sl_now_ns();
    sl_epoch_order_fill(&b->order, epoch, b->seeds);
#pragma omp parallel for schedule(dynamic, 1) num_threads(o->threads) reduction(+ : edges, inputs)
    for (uint32_t i = 0; i < b->n_batches; i++) {
        struct lane *lane = &b->lanes[omp_get_thread_num()];
        uint64_t first = (uint64_t)i * o->batch;
        uint32_t n = (uint32_t)SL_MIN((uint64_t)o->batch, train->n - first);
        lane_draw(lane, &o->plan, epoch, i, b->seeds + first, n);
        if (gathers)
            gather(ds, lane->block, &b->features[omp_get_thread_num()]);
        edges += lane->block->n_edges;
        inputs += lane->block->n_input;
    }
    const double seconds = (double)(sl_now_ns() - begin) * 1e-9;
    for (uint32_t i = 0; i < o->threads; i++) {
        pairs_ns += o->links ? b->lanes[i].pairs_ns : 0;
        b->lanes[i].pairs_ns = 0;
    }
    return (struct epoch){seconds, edges, inputs, pairs_ns};
}

static void print_json(const struct options *o, const struct bench *b, const struct epoch *drawn,
                       const struct epoch *gathered)
{
    printf("{\"bench\": \"batches\", \"data\": \"%s\", \"threads\": %" PRIu32
           ", \"batches\": %" PRIu32 ", \"edges\": %" PRIu64 ", \"inputs\": %" PRIu64
           ", \"sample\": [",
           b->topology.dataset.name, o->threads, b->n_batches, drawn[0].edges, drawn[0].inputs);
    for (uint32_t e = 0; e < o->epochs; e++)
        printf("%s%.6f", e ? ", " : "", drawn[e].seconds);
    printf("], \"gather\": [");
    for (uint32_t e = 0; e < o->epochs; e++)
        printf("%s%.6f", e ? ", " : "", gathered[e].seconds);
    printf("]}\n");
}

static void run(const struct options *o)
{
    struct bench *b = must(calloc(1, sizeof *b));
    struct epoch *drawn = must(calloc(2 * (size_t)o->epochs, sizeof *drawn));
    struct epoch *gathered = drawn + o->epochs;
    b->o = o;
    must_ok(sl_topology_open(&b->topology, o->path, NULL, 0, -1, sl_kernels_cpu(), 0));
    if (o->links)
        must_ok(sl_config_choose_items(&o->config, &b->topology.dataset));
    sl_topology_expect_draws(&b->topology);
    const struct sl_vertex_list *train = &b->topology.dataset.split[SL_SPLIT_TRAIN];
    b->n_batches = (uint32_t)sl_div_up(train->n, o->batch);
    b->seeds = must(malloc(train->n * sizeof *b->seeds));
    lane_open_order(&b->order, o->order, o->sequences, &b->topology.dataset, o->plan.seed, o->batch,
                    1);
    for (uint32_t i = 0; i < o->threads; i++) {
        struct lane *lane = &b->lanes[i];
        must_ok(sl_drawer_init(&lane->drawer, &b->topology, sl_kernels_cpu()));
        lane->is_of_pairs = o->links;
        if (o->links)
            must_ok(sl_pair_maker_init(&lane->pairs, &o->config, &b->topology.dataset));
    }
    run_epoch(b, o->epochs, false);
    run_epoch(b, o->epochs, true);
    for (uint32_t e = 0; e < o->epochs; e++) {
        drawn[e] = run_epoch(b, e, false);
        gathered[e] = run_epoch(b, e, true);
        printf("epoch %" PRIu32 ": %" PRIu64 " edges, %" PRIu64
               " input nodes, drawn in %.3f s, drawn and gathered in %.3f s\n",
               e, drawn[e].edges, drawn[e].inputs, drawn[e].seconds, gathered[e].seconds);
        if (o->links)
            printf("         pairs made in %.3f s of the threads, %.1f %% of drawing\n",
                   (double)drawn[e].pairs_ns * 1e-9,
                   (double)drawn[e].pairs_ns * 1e-7 / (o->threads * drawn[e].seconds));
    }
    print_json(o, b, drawn, gathered);
    for (uint32_t i = 0; i < o->threads; i++) {
        lane_fini(&b->lanes[i]);
        sl_pages_free(b->features[i].x, b->features[i].capacity);
        sl_row_source_fini(&b->features[i].source);
    }
    sl_topology_close(&b->topology);
    sl_epoch_order_close(&b->order);
    free(b->seeds);
    free(drawn);
    free(b);
}

// clang-format off
static const struct sl_option options[] = {
    ARGUMENT_TEXT("fanout", options, fanout),
    ARGUMENT_NUMBER("batch", options, batch, 1, 1000000000),
    ARGUMENT_NUMBER("epochs", options, epochs, 1, 1000000),
    ARGUMENT_NUMBER("seed", options, plan.seed, 0, 9000000000000000.0),
    ARGUMENT_NUMBER("threads", options, threads, 1, LANE_THREADS_MAX),
    ARGUMENT_CHOICE("order", options, order, sl_order_words),
    ARGUMENT_NUMBER("sequences", options, sequences, 0, 1000000),
    ARGUMENT_FLAG("expand-new", options, plan.expand_new),
    ARGUMENT_CHOICE("links", options, links, link_words),
    ARGUMENT_CHOICE("exclude", options, exclude, exclude_words),
    ARGUMENT_NUMBER("per-positive", options, config.task.per_positive, 1, 65536),
    ARGUMENT_NUMBER("hard", options, config.task.hard.per_positive, 0, 65536),
    {0},
};
// clang-format on
static const struct sl_command command = {
    .name = "batches",
    .is_program = true,
    .about = "Draws and gathers the batches of epochs, one thread each.",
    .operands = {{"DATASET", offsetof(struct options, path)}},
    .options = {{options}},
};

int main(int argc, char **argv)
{
    struct options o = {
        .plan = {.kind = SL_SAMPLER_KHOP, .stream = SL_RNG_SAMPLE, .seed = 7},
        .fanout = "15,10,5",
        .batch = 1024,
        .epochs = 5,
        .config.task = {.kind = SL_JOB_LINKS,
                        .strict = SL_STRICT_GRAPH,
                        .per_positive = 1,
                        .hard = {.from_epoch = 1, // and as in config/keys.c
                                 .first_rank = 10,
                                 .last_rank = 50,
                                 .paths = 50,
                                 .length = 3}},
        .exclude = SL_EXCLUDE_REVERSE,
        .threads = (uint32_t)SL_MIN(omp_get_num_procs(), (int)LANE_THREADS_MAX),
    };
    arguments_parse(&command, &o, argc, argv);
    lane_fanout(o.fanout, &o.plan);
    o.config.seed = o.plan.seed;
    o.config.task.negatives = (enum sl_negatives_kind)(o.links ? o.links - 1 : 0);
    o.config.task.exclude = (enum sl_exclude_kind)o.exclude;
    o.plan.pairs = o.links;
    if (o.config.task.hard.per_positive)
        o.config.task.hard.kind = SL_HARD_WALKS;
    run(&o);
    return 0;
}
