// `sluice featurize`: dataset/featurize.h as a command.

#include "cli/command.h"
#include "cli/dataset_command.h"
#include "common/base/error.h"
#include "dataset/featurize.h"

struct request {
    struct sl_featurize featurize;
    int output;
};

static int featurize(void *state)
{
    struct request *q = state;
    SL_TRY(sl_featurize_run(&q->featurize));
    return sl_dataset_command_print(&q->featurize.making, q->output);
}

static void release(void *state)
{
    sl_dataset_builder_fini(&((struct request *)state)->featurize.making);
}

#define AT(kind, field) SL_OPTION_AT(kind, request, field)
// clang-format off
static const struct sl_option options[] = {
    {.name = "type", AT(TEXT, featurize.types), .placeholder = "TYPES",
     .help = "types that get features, between commas; else all without that can be reached"},
    {.name = "by", AT(TEXT, featurize.by), .placeholder = "RELATIONS",
     .help = "relations whose sources are the neighbours, between commas, each NAME or "
             "SOURCE:NAME:TARGET; else all from types with features, of one width"},
    {.name = "memory", AT(SIZE, featurize.memory_bytes), .placeholder = "SIZE",
     .min = SL_FEATURIZE_MIN_BYTES, .max = 1e15, .no_default = true,
     .help = "for sums and the features that they are read from, else half of what is free; the "
             "files are the same"},
    {.name = "threads", AT(UINT, featurize.n_threads), .placeholder = "N", .min = 1,
     .max = SL_FEATURIZE_THREADS_MAX, .no_default = true,
     .help = "threads that add, else one a core; the files are the same"},
    {0},
};
// clang-format on

const struct sl_command sl_command_featurize = {
    .name = "featurize",
    .help = "give types of vertices without features the mean of their neighbours'",
    .about = "Writes the data set --out: DIR, in which types without features have some: of each "
             "vertex the mean of its neighbours' features, each edge counted once. A type may be "
             "reached in several rounds, by types that got theirs before; a vertex without such "
             "neighbours gets zeros. Neighbours are sources of edges, so `sluice import ... "
             "--reverse` makes the relations that lead to a type. All other arrays are those of "
             "DIR, by hard links where these can be made.",
    .example =
        "sluice featurize data/mag240m --out data/mag240m-all\n"
        "sluice featurize data/mag --type author,institution --by rev_writes,affiliated_with "
        "--out data/mag-all",
    .operands = {{"DIR", offsetof(struct request, featurize.source)}},
    .options = {{sl_dataset_command_place, offsetof(struct request, featurize.making)},
                {options},
                {sl_dataset_command_quiet, offsetof(struct request, featurize.making)},
                {sl_output_option, offsetof(struct request, output)}},
    .bytes = sizeof(struct request),
    .run = featurize,
    .fini = release,
};
