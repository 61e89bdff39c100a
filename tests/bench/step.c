/*
 * step.c - what one batch of training costs: forward, loss and backward of a whole model.
 *
 *   step [--rounds 15] [--kind KIND] [--norm none|batch|layer]
 *        [--shrink 1] [--lists auto|never|always]
 *
 * One block with as many vertices and edges as 1024 seeds of ogbn_arxiv have at fanout 15,10,5,
 * made up (no data set is needed), 128 features, 3 x 256, dropout 0.5, 40 classes. The same block
 * is trained in fp32 and in bf16, one round of each in turn, by one thread.
 *
 * Prints processor time, which neighbours disturb less than the clock: median and fastest round,
 * and a digest of the gradient's bits: two builds that agree on it compute the same. Two builds are
 * compared by running their programs in turn. --lists says whether products leave out zeros
 * (kernels/cpu/gemm_list.c). The last line is a JSON object.
 */
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "kernels/cpu/cpu_internal.h"
#include "kernels/kernels.h"
#include "tests/bench/made.h"
#include "trainer/model/model.h"

enum { ROUNDS_MAX = 1001, WARM_UP = 2, HOPS = 3, FEATURES = 128, CLASSES = 40 };

static const uint32_t NODES[HOPS + 1] = {1024, 7300, 33500, 72000};
static const uint32_t EDGES[HOPS] = {13500, 57500, 155000};
#define KIND(upper, lower) [SL_MODEL_##upper] = #lower,
static const char *const kinds[] = {SL_MODEL_KINDS(KIND) NULL};
static const char *const norms[] = {
    [SL_NORM_NONE] = "none", [SL_NORM_BATCH] = "batch", [SL_NORM_LAYER] = "layer", NULL};
static const char *const lists[] = {[SL_CPU_LISTS_AUTO] = "auto",
                                    [SL_CPU_LISTS_NEVER] = "never",
                                    [SL_CPU_LISTS_ALWAYS] = "always",
                                    NULL};
static const char *const precisions[] = {[SL_CONFIG_FP32] = "fp32", [SL_CONFIG_BF16] = "bf16"};

struct options {
    uint32_t rounds, shrink;
    enum sl_model_kind kind;
    enum sl_norm_kind norm;
    enum sl_cpu_lists lists;
};

// ---- the block ----------------------------------------------------------------------------------

static void set_sizes(struct sl_block *b, uint32_t shrink, uint32_t flags)
{
    *b = (struct sl_block){.magic = SL_BLOCK_MAGIC,
                           .flags = SL_BLOCK_HAS_DEGREES | flags,
                           .n_hops = HOPS,
                           .n_seeds = NODES[0] / shrink,
                           .n_input = NODES[HOPS] / shrink};
    uint64_t at = sl_align_up(sizeof *b, 64);
    for (uint32_t h = 0; h <= HOPS; h++)
        b->n_nodes[h] = NODES[h] / shrink;
    b->nodes_offset = place(&at, b->n_input);
    b->label_offset = place(&at, b->n_seeds);
    b->degree_offset = place(&at, b->n_input);
    for (uint32_t h = 0; h < HOPS; h++) {
        struct sl_block_hop *hop = &b->hop[h];
        hop->n_dst = b->n_nodes[h];
        hop->n_edges = EDGES[h] / shrink;
        b->n_edges += hop->n_edges;
        hop->indptr_offset = place(&at, hop->n_dst + 1ull);
        hop->indices_offset = place(&at, hop->n_edges);
        hop->weights_offset = place(&at, hop->n_edges);
    }
    b->bytes = at;
}

// Rows of equal length; each edge meets a new source or one that is known, so that all are met.
static void fill_hop(struct sl_block *b, uint32_t h)
{
    const struct sl_block_hop *hop = &b->hop[h];
    char *base = (char *)b;
    uint32_t *indptr = (uint32_t *)(void *)(base + hop->indptr_offset);
    uint32_t *indices = (uint32_t *)(void *)(base + hop->indices_offset);
    float *weights = (float *)(void *)(base + hop->weights_offset);
    uint32_t known = hop->n_dst;
    for (uint32_t i = 0; i <= hop->n_dst; i++)
        indptr[i] = (uint32_t)((uint64_t)hop->n_edges * i / hop->n_dst);
    for (uint32_t e = 0; e < hop->n_edges; e++) {
        bool is_new = word(h, 2ull * e) % (hop->n_edges - e) < b->n_nodes[h + 1] - known;
        indices[e] = is_new ? known++ : word(h, 2ull * e + 1) % known;
        weights[e] = (float)(1 + word(h + HOPS, e) % 8);
    }
}

static struct sl_block *make_block(uint32_t shrink, uint32_t flags)
{
    struct sl_block sizes;
    set_sizes(&sizes, shrink, flags);
    struct sl_block *b = must(sl_pages_alloc(sizes.bytes));
    *b = sizes;
    uint32_t *nodes = (uint32_t *)(void *)((char *)b + b->nodes_offset);
    uint32_t *degrees = (uint32_t *)(void *)((char *)b + b->degree_offset);
    int32_t *labels = (int32_t *)(void *)((char *)b + b->label_offset);
    for (uint32_t i = 0; i < b->n_input; i++) {
        nodes[i] = i;
        degrees[i] = 5 + word(7, i) % 20;
    }
    for (uint32_t i = 0; i < b->n_seeds; i++)
        labels[i] = (int32_t)(word(8, i) % CLASSES);
    for (uint32_t h = 0; h < HOPS; h++)
        fill_hop(b, h);
    must_ok(sl_block_check(b, b->bytes));
    return b;
}

// ---- steps --------------------------------------------------------------------------------------

struct step {
    struct sl_model model;
    double seconds[ROUNDS_MAX];
    float *gradient;
};

static void make_step(const struct options *o, enum sl_precision_kind precision, struct step *s)
{
    static const struct sl_objective objective = {.task = SL_TASK_MULTICLASS, .n_outputs = CLASSES};
    struct sl_config c = {.precision = precision, .seed = 1};
    c.model.kind = o->kind;
    c.model.norm = o->norm;
    c.model.layers = HOPS;
    c.model.hidden = 256;
    c.model.heads = 8;
    c.model.dropout = 0.5;
    c.model.self_loops = true;
    must_ok(sl_model_init(&s->model, &c, FEATURES, NULL, &objective, sl_device_host(),
                          sl_kernels_cpu()));
    s->gradient = must(sl_pages_alloc(s->model.n_params * sizeof *s->gradient));
}

static double train_once(struct step *s, const float *params, const struct sl_block *b, float *x)
{
    struct sl_loss_result result;
    uint64_t start = sl_thread_cpu_ns();
    must_ok(sl_model_train(&s->model, params, sl_block_here(b), x, s->gradient, &result));
    return (double)(sl_thread_cpu_ns() - start) * 1e-9;
}

static void run(const struct options *o)
{
    static struct step steps[SL_COUNT_OF(precisions)];
    struct sl_block *block =
        make_block(o->shrink, o->kind == SL_MODEL_PINSAGE ? SL_BLOCK_HAS_WEIGHTS : 0);
    float *x = random_floats(9, (uint64_t)block->n_input * FEATURES, 1);
    for (size_t p = 0; p < SL_COUNT_OF(steps); p++)
        make_step(o, (enum sl_precision_kind)p, &steps[p]);
    float *params = random_floats(10, steps[0].model.n_params, 0.06f);
    for (uint32_t round = 0; round < o->rounds + WARM_UP; round++)
        for (size_t p = 0; p < SL_COUNT_OF(steps); p++) // the first rounds are overwritten
            steps[p].seconds[round < WARM_UP ? 0 : round - WARM_UP] =
                train_once(&steps[p], params, block, x);
    printf("%s, norm %s: %u seeds, %u input nodes, %llu edges\n", kinds[o->kind], norms[o->norm],
           block->n_seeds, block->n_input, (unsigned long long)block->n_edges);
    char json[512] = "";
    for (size_t p = 0; p < SL_COUNT_OF(steps); p++) {
        double *seconds = steps[p].seconds;
        qsort(seconds, o->rounds, sizeof *seconds, by_value);
        printf("  %s  median %7.2f ms  fastest %7.2f ms  gradient %016llx\n", precisions[p],
               seconds[o->rounds / 2] * 1e3, seconds[0] * 1e3,
               (unsigned long long)digest_floats(steps[p].gradient, steps[p].model.n_params));
        size_t at = strlen(json);
        snprintf(json + at, sizeof json - at, ", \"%s_s\": %.6f, \"%s_fastest_s\": %.6f",
                 precisions[p], seconds[o->rounds / 2], precisions[p], seconds[0]);
        sl_model_fini(&steps[p].model);
    }
    printf("{\"bench\": \"step\", \"kind\": \"%s\"%s}\n", kinds[o->kind], json);
}

// clang-format off
static const struct sl_option options[] = {
    ARGUMENT_NUMBER("rounds", options, rounds, 1, ROUNDS_MAX),
    ARGUMENT_CHOICE("kind", options, kind, kinds),
    ARGUMENT_CHOICE("norm", options, norm, norms),
    ARGUMENT_NUMBER("shrink", options, shrink, 1, 100),
    ARGUMENT_CHOICE("lists", options, lists, lists),
    {0},
};
// clang-format on
static const struct sl_command command = {
    .name = "step",
    .is_program = true,
    .about = "The parts of a training step.",
    .options = {{options}},
};

int main(int argc, char **argv)
{
    struct options o = {.rounds = 15, .shrink = 1, .kind = SL_MODEL_GRAPHSAGE};
    arguments_parse(&command, &o, argc, argv);
    sl_cpu_gemm_set_lists(o.lists);
    sl_kernels_set_threads(1);
    run(&o);
    return 0;
}
