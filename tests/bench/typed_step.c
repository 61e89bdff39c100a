/*
 * typed_step.c - what one batch of training costs on a graph of several types.
 *
 *   typed_step [--kind rsage|rgat|rgatv2|rgcn|hgt] [--rounds 9]
 *
 * One block with about as many vertices and edges as 1024 seeds of ogbn_mag have at fanout 15,10
 * for each of its seven relations with reverses, made up, 128 features of every type, 2 x 128,
 * dropout 0.5, 349 classes, by one thread. Prints processor time, median and fastest round, and a
 * digest of the gradient's bits. The last line is a JSON object.
 */
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "kernels/kernels.h"
#include "tests/bench/made.h"
#include "trainer/feed/typed_block.h"
#include "trainer/model/model.h"

enum { TYPES = 4, RELATIONS = 7, HOPS = 2, FEATURES = 128, CLASSES = 349, ROUNDS_MAX = 1001 };

static const uint32_t KNOWN[TYPES][HOPS + 1] = {
    {1024, 9000, 110000}, {0, 3000, 27000}, {0, 4000, 18000}, {0, 0, 1000}};
static struct sl_vertex_type types[TYPES] = {
    {.name = "paper"}, {.name = "author"}, {.name = "field"}, {.name = "institution"}};
static struct sl_relation relations[RELATIONS] = {
    {.name = "writes", .source = 1, .target = 0},
    {.name = "cites", .source = 0, .target = 0},
    {.name = "rev_topic", .source = 2, .target = 0},
    {.name = "rev_writes", .target = 1},
    {.name = "rev_affiliated", .source = 3, .target = 1},
    {.name = "topic", .target = 2},
    {.name = "affiliated", .source = 1, .target = 3}};
static const uint32_t DEGREE[RELATIONS] = {3, 8, 7, 8, 1, 10, 10}; // of a row
static const struct sl_typed typed = {
    .n_types = TYPES, .n_relations = RELATIONS, .type = types, .relation = relations};

static const char *const kinds[] = {[SL_MODEL_RSAGE] = "rsage",
                                    [SL_MODEL_RGAT] = "rgat",
                                    [SL_MODEL_RGATV2] = "rgatv2",
                                    [SL_MODEL_RGCN] = "rgcn",
                                    [SL_MODEL_HGT] = "hgt"};

struct options {
    uint32_t kind, rounds;
};

// The run of a relation in a hop, and its edges at `base` unless that is NULL.
static struct sl_block_run make_run(uint32_t h, uint32_t r, char *base, uint64_t *at)
{
    const uint32_t n_dst = KNOWN[relations[r].target][h];
    struct sl_block_run run = {
        .hop = h, .relation = r, .n_dst = n_dst, .n_edges = n_dst * DEGREE[r]};
    run.indptr_offset = place(at, n_dst + 1ull);
    run.indices_offset = place(at, run.n_edges);
    if (!base)
        return run;
    uint32_t *indptr = (uint32_t *)(void *)(base + run.indptr_offset);
    uint32_t *indices = (uint32_t *)(void *)(base + run.indices_offset);
    for (uint32_t i = 0; i <= n_dst; i++)
        indptr[i] = i * DEGREE[r];
    for (uint32_t e = 0; e < run.n_edges; e++)
        indices[e] = word(20 + h * RELATIONS + r, e) % KNOWN[relations[r].source][h + 1];
    return run;
}

// Lays the block out at `base`, or only measures it; returns its bytes.
static uint64_t make_block(char *base)
{
    struct sl_block_run runs[HOPS * RELATIONS];
    struct sl_block_typed head = {.n_types = TYPES};
    struct sl_block_type parts[TYPES] = {{0}};
    uint64_t at = sl_align_up(sizeof(struct sl_block), (uint64_t)64);
    struct sl_block b = {
        .magic = SL_BLOCK_MAGIC, .flags = SL_BLOCK_TYPED, .n_hops = HOPS, .n_seeds = KNOWN[0][0]};
    for (uint32_t h = 0; h < HOPS; h++)
        for (uint32_t r = 0; r < RELATIONS; r++)
            if (KNOWN[relations[r].target][h] > 0) {
                runs[head.n_runs] = make_run(h, r, base, &at);
                b.hop[h].n_edges += runs[head.n_runs].n_edges;
                b.n_edges += runs[head.n_runs++].n_edges;
            }
    for (uint32_t t = 0; t < TYPES; t++) {
        parts[t].first = b.n_input;
        memcpy(parts[t].n, KNOWN[t], sizeof KNOWN[t]);
        b.n_input += KNOWN[t][HOPS];
        for (uint32_t h = 0; h <= HOPS; h++)
            b.n_nodes[h] += KNOWN[t][h];
    }
    for (uint32_t h = 0; h < HOPS; h++)
        b.hop[h].n_dst = b.n_nodes[h];
    b.nodes_offset = place(&at, b.n_input);
    b.label_offset = place(&at, b.n_seeds);
    head.runs_offset = place(&at, sizeof runs / 4);
    b.typed_offset = place(&at, (sizeof head + sizeof parts) / 4);
    b.bytes = at;
    if (!base)
        return at;
    memcpy(base, &b, sizeof b);
    for (uint32_t i = 0; i < b.n_seeds; i++)
        ((int32_t *)(void *)(base + b.label_offset))[i] = (int32_t)(word(8, i) % CLASSES);
    memcpy(base + head.runs_offset, runs, sizeof runs);
    memcpy(base + b.typed_offset, &head, sizeof head);
    memcpy(base + b.typed_offset + sizeof head, parts, sizeof parts);
    must_ok(sl_typed_block_check((struct sl_block *)(void *)base, &typed));
    return at;
}

static void run(const struct options *o)
{
    static const struct sl_objective objective = {.task = SL_TASK_MULTICLASS, .n_outputs = CLASSES};
    static struct sl_model model;
    static double seconds[ROUNDS_MAX];
    struct sl_config c = {.seed = 1};
    c.model.kind = (enum sl_model_kind)(o->kind + SL_MODEL_RSAGE);
    c.model.layers = HOPS;
    c.model.hidden = 128;
    c.model.heads = 4;
    c.model.dropout = 0.5;
    char *base = must(sl_pages_alloc(make_block(NULL)));
    const struct sl_block *b = (const struct sl_block *)(void *)base;
    make_block(base);
    for (uint32_t t = 0; t < TYPES; t++)
        types[t].feat_dim = FEATURES;
    float *x = random_floats(9, sl_typed_rows_at(b, &typed, TYPES, SL_TYPED_F32) / sizeof *x, 1);
    must_ok(sl_model_init(&model, &c, 0, &typed, &objective, sl_device_host(), sl_kernels_cpu()));
    float *params = random_floats(10, model.n_params, 0.06f);
    float *gradient = random_floats(11, model.n_params, 0);
    for (uint32_t round = 0; round < o->rounds + 2; round++) { // the first two are overwritten
        struct sl_loss_result loss;
        const uint64_t start = sl_thread_cpu_ns();
        must_ok(sl_model_train(&model, params, sl_block_here(b), x, gradient, &loss));
        seconds[round < 2 ? 0 : round - 2] = (double)(sl_thread_cpu_ns() - start) * 1e-9;
    }
    qsort(seconds, o->rounds, sizeof *seconds, by_value);
    const char *kind = kinds[c.model.kind];
    printf("%s: %u seeds, %u input nodes, %llu edges\n  median %7.2f ms  fastest %7.2f ms  "
           "gradient %016llx\n",
           kind, b->n_seeds, b->n_input, (unsigned long long)b->n_edges,
           seconds[o->rounds / 2] * 1e3, seconds[0] * 1e3,
           (unsigned long long)digest_floats(gradient, model.n_params));
    printf("{\"bench\": \"typed_step\", \"kind\": \"%s\", \"s\": %.6f, \"fastest_s\": %.6f}\n",
           kind, seconds[o->rounds / 2], seconds[0]);
    sl_model_fini(&model);
}

static const char *const words[] = {"rsage", "rgat", "rgatv2", "rgcn", "hgt", NULL};
// clang-format off
static const struct sl_option options[] = {
    ARGUMENT_NUMBER("rounds", options, rounds, 1, ROUNDS_MAX),
    ARGUMENT_CHOICE("kind", options, kind, words),
    {0},
};
// clang-format on
static const struct sl_command command = {
    .name = "typed_step",
    .is_program = true,
    .about = "A training step on a graph of several types.",
    .options = {{options}},
};

int main(int argc, char **argv)
{
    struct options o = {.rounds = 9};
    arguments_parse(&command, &o, argc, argv);
    sl_kernels_set_threads(1);
    run(&o);
    return 0;
}
