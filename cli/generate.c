// `sluice generate KIND`: the kinds of dataset/generate.h as commands.
#include <stdio.h>

#include "cli/command.h"
#include "cli/dataset_command.h"
#include "common/base/error.h"
#include "dataset/edge_sort.h"
#include "dataset/generate.h"

enum { KINDS_MAX = 15, NAME_BYTES = 32 };

struct request {
    struct sl_generate run;
    int output;
};

static int init(const struct sl_command *c, void *state)
{
    return sl_generate_init(&((struct request *)state)->run, c->of);
}

static int generate(void *state)
{
    struct request *r = state;
    SL_TRY(sl_generate_run(&r->run));
    return sl_dataset_command_print(&r->run.making, r->output);
}

static void release(void *state)
{
    sl_generate_fini(&((struct request *)state)->run);
}

#define AT(kind, field) SL_OPTION_AT(kind, sl_generate, field)
// clang-format off
static const struct sl_option vertices[] = {
    {.name = "nodes", AT(UINT, nodes), .placeholder = "N", .min = 1, .max = SL_GENERATE_NODES_MAX,
     .help = "number of vertices"},
    {.name = "classes", AT(UINT, classes), .placeholder = "C", .max = 1e6,
     .help = "labels 0 to C - 1, 0 for none"},
    {.name = "train-ratio", AT(REAL, train_ratio), .placeholder = "R", .min = 0, .max = 1,
     .help = "share of the vertices to train on"},
    {.name = "val-ratio", AT(REAL, val_ratio), .placeholder = "R", .min = 0, .max = 1,
     .help = "share to validate on; the rest is for testing"},
    {0},
};
static const struct sl_option options[] = {
    {.name = "edges", AT(UINT, edges), .placeholder = "M", .min = 0, .max = 1e13,
     SL_OPTION_GIVEN(sl_generate, edges_given), .no_default = true,
     .help = "number of edges to draw, 0 for the same vertices without any"},
    {.name = "feat-dim", AT(UINT, feat_dim), .placeholder = "D", .max = 65536,
     .help = "features of a vertex, 0 for none"},
    {.name = "seed", AT(UINT, seed), .placeholder = "N",
     .help = "the same arguments and seed make the same bytes"},
    {.name = "memory", AT(SIZE, memory_bytes), .placeholder = "SIZE", .min = SL_EDGE_SORT_MIN_BYTES,
     .max = 1e15, .help = "for sorting edges; what does not fit is spilled beside DIR"},
    {.name = "threads", AT(UINT, threads), .placeholder = "N", .min = 0,
     .max = SL_GENERATE_THREADS_MAX, .no_default = true, .help = "else one for each core"},
    {0},
};
static const struct sl_option none[] = {{0}};
// clang-format on

static const struct sl_command *kinds(void)
{
    static struct sl_command all[KINDS_MAX + 1];
    static char names[KINDS_MAX][NAME_BYTES];
    for (size_t i = 0; i < sl_generator_n_kinds; i++) {
        const struct sl_generator_kind *kind = sl_generator_kinds[i];
        snprintf(names[i], NAME_BYTES, "generate %s", kind->name);
        all[i] = (struct sl_command){
            .name = names[i],
            .help = kind->help,
            .about = kind->about,
            .example = kind->example,
            .options = {{sl_dataset_command_place, offsetof(struct request, run.making)},
                        {kind->of_sides ? none : vertices, offsetof(struct request, run)},
                        {options, offsetof(struct request, run)},
                        {sl_dataset_command_quiet, offsetof(struct request, run.making)},
                        {sl_output_option, offsetof(struct request, output)},
                        {kind->options, offsetof(struct request, run.context), true}},
            .bytes = sizeof(struct request),
            .init = init,
            .run = generate,
            .fini = release,
            .of = kind,
        };
    }
    return all;
}

const struct sl_command sl_command_generate = {
    .name = "generate",
    .help = "make a synthetic data set",
    .example = "sluice generate planted --nodes 100000 --out data/planted",
    .kind = "kind",
    .kinds = kinds,
};
