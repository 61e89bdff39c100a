/*
 * evaluation.c - what a validation over all neighbours costs, layer by layer.
 *
 *   evaluation DATASET [--rounds 5] [--kind KIND] [--layers 3]
 *              [--hidden 256] [--threads 1] [--cell 2646] [--all] [--anew]
 *
 * Cells are of as many vertices as a job on ogbn-arxiv gives them; with --all every row of the
 * hidden layers is computed, with --anew GAT and PinSAGE transform the sources of each piece for it
 * alone. Parameters are made up. Prints processor time of each layer: of the first round, which
 * touches its memory and adds features up, the median and the fastest round; the rows and edges
 * that it went through; and the loss with all its digits: two builds that agree on it compute the
 * same. Two builds are compared by running their programs in turn.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/bits.h"
#include "common/base/philox.h"
#include "common/base/simd.h"
#include "common/data/self_loops.h"
#include "kernels/kernels.h"
#include "tests/bench/bench.h"
#include "trainer/infer/evaluate.h"
#include "trainer/model/needed_rows.h"
#include "tests/arguments.h"

enum { ROUNDS_MAX = 101 };

#define KIND(upper, lower) [SL_MODEL_##upper] = #lower,
static const char *const kinds[] = {SL_MODEL_KINDS(KIND) NULL};

struct options {
    const char *dataset;
    uint32_t rounds, layers, hidden, threads, cell;
    bool all, anew;
    enum sl_model_kind kind;
};

struct run {
    const struct options *o;
    struct sl_dataset ds;
    struct sl_objective objective;
    struct sl_model model;
    struct sl_self_loops self_loops;
    struct sl_neighbours neighbours;
    struct sl_needed_rows needed;
    float *params, *acts[2];
    uint32_t *ids; // (cell)
    // Of the last round.
    struct sl_loss_result result;
    uint64_t tag;
    uint64_t rows[SL_CONFIG_MAX_LAYERS], edges[SL_CONFIG_MAX_LAYERS];
    double seconds[SL_CONFIG_MAX_LAYERS][ROUNDS_MAX];
};

// Of all threads.
static double processor_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void prepare(struct run *r)
{
    const struct options *o = r->o;
    static struct sl_config c;
    c = (struct sl_config){.seed = 1};
    c.model.kind = o->kind;
    c.model.layers = o->layers;
    c.model.hidden = o->hidden;
    c.model.heads = 8;
    c.model.self_loops = true;
    sl_kernels_set_threads((int)o->threads);
    must_ok(sl_dataset_open(o->dataset, SL_NEED_TRAINING, SL_CHECK_CACHED, 0, &r->ds));
    must_ok(sl_objective_init(&r->objective, &c, &r->ds));
    must_ok(sl_model_init(&r->model, &c, r->ds.feat_dim, &r->objective, sl_device_host(),
                          sl_kernels_cpu()));
    must_ok(sl_model_prepare_inference(&r->model, &c, &r->ds, 0, &r->self_loops, &r->neighbours));
    r->params = must(sl_pages_alloc(r->model.n_params * sizeof *r->params));
    for (uint64_t i = 0; i < r->model.n_params; i++)
        r->params[i] = (2 * sl_rng_unit(sl_philox(1, (uint32_t)i, 0, 1, 0).w[0]) - 1) * 0.1f;
    const uint64_t floats = r->ds.n_nodes * sl_model_infer_width(&r->model);
    for (int b = 0; b < 2; b++)
        r->acts[b] = must(sl_pages_alloc(SL_MAX(floats, (uint64_t)1) * sizeof(float)));
    r->ids = must(malloc(o->cell * sizeof *r->ids));
    r->model.kept.sharers = o->anew ? 0 : 1;
    double begin = processor_seconds();
    if (!o->all)
        must_ok(sl_needed_rows_find(&r->needed, &r->ds, 1u << SL_SPLIT_VAL, o->layers));
    printf("needed rows found in %.1f ms\n", (processor_seconds() - begin) * 1e3);
}

// The vertices of a layer's cell that begins with item `first`.
static struct sl_infer_range cell_of(struct run *r, uint32_t layer, uint64_t first, uint64_t items)
{
    const struct sl_marks *marks = &r->needed.layer[layer];
    struct sl_infer_range range = {.first = first,
                                   .n = (uint32_t)SL_MIN((uint64_t)r->o->cell, items - first)};
    if (layer + 1 == r->o->layers)
        range.ids = r->ds.split[SL_SPLIT_VAL].ids + first;
    else if (marks->bits) {
        uint32_t n = sl_marks_list(marks, first, range.n, r->ids);
        if (n < range.n)
            range = (struct sl_infer_range){.ids = r->ids, .n = n};
    }
    return range;
}

static void run_layer(struct run *r, uint32_t layer)
{
    const bool last = layer + 1 == r->o->layers;
    const uint64_t items = last ? r->ds.split[SL_SPLIT_VAL].n : r->ds.n_nodes;
    const struct sl_infer_io io = {.x_dtype = layer ? SL_DTYPE_F32 : r->ds.feat_dtype,
                                   .x = layer ? (void *)r->acts[(layer - 1) & 1] : r->ds.feat,
                                   .x_tag = layer,
                                   .keep_tag = ++r->tag,
                                   .y = last ? NULL : r->acts[layer & 1],
                                   .result = last ? &r->result : NULL};
    r->rows[layer] = r->edges[layer] = 0;
    for (uint64_t first = 0; first < items; first += r->o->cell) {
        const struct sl_infer_range range = cell_of(r, layer, first, items);
        r->rows[layer] += range.n;
        for (uint32_t i = 0; i < range.n; i++)
            r->edges[layer] += sl_dataset_degree(&r->ds, sl_infer_vertex(&range, i));
        must_ok(sl_evaluate_layer(&r->model, &r->ds, r->params, layer, &range, &io));
    }
}

static void measure(struct run *r)
{
    for (uint32_t k = 0; k < r->o->rounds; k++) {
        r->result = (struct sl_loss_result){0};
        for (uint32_t l = 0; l < r->o->layers; l++) {
            double begin = processor_seconds();
            run_layer(r, l);
            r->seconds[l][k] = processor_seconds() - begin;
        }
    }
    double first = 0, middle = 0, least = 0;
    printf("layer    rows      edges  first ms  median ms  least ms\n");
    for (uint32_t l = 0; l < r->o->layers; l++) {
        const double begin = r->seconds[l][0];
        first += begin;
        const double half = median(r->seconds[l], r->o->rounds);
        printf("%5u %7llu %10llu %9.1f %10.1f %9.1f\n", l, (unsigned long long)r->rows[l],
               (unsigned long long)r->edges[l], begin * 1e3, half * 1e3, r->seconds[l][0] * 1e3);
        middle += half;
        least += r->seconds[l][0];
    }
    printf("all %30.1f %10.1f %9.1f   loss %a\n", first * 1e3, middle * 1e3, least * 1e3,
           r->result.loss);
}

// clang-format off
static const struct sl_option options[] = {
    ARGUMENT_NUMBER("rounds", options, rounds, 1, ROUNDS_MAX),
    ARGUMENT_CHOICE("kind", options, kind, kinds),
    ARGUMENT_NUMBER("layers", options, layers, 1, SL_CONFIG_MAX_LAYERS),
    ARGUMENT_NUMBER("hidden", options, hidden, 1, 65536),
    ARGUMENT_NUMBER("threads", options, threads, 0, 1024),
    ARGUMENT_NUMBER("cell", options, cell, 1, UINT32_MAX),
    ARGUMENT_FLAG("all", options, all),
    ARGUMENT_FLAG("anew", options, anew),
    {0},
};
// clang-format on
static const struct sl_command command = {
    .name = "evaluation",
    .is_program = true,
    .about = "Time and work of an evaluation, by layer.",
    .operands = {{"DATASET", offsetof(struct options, dataset)}},
    .options = {{options}},
};

int main(int argc, char **argv)
{
    struct options o = {.rounds = 5, .layers = 3, .hidden = 256, .threads = 1, .cell = 2646};
    static struct run r; // the model is too large for a stack
    arguments_parse(&command, &o, argc, argv);
    r.o = &o;
    prepare(&r);
    measure(&r);
    return 0;
}
