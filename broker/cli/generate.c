// `sluice generate KIND`: the kinds of dataset/generate.h as commands.
#include <stdio.h>
#include <string.h>

#include "broker/cli/command.h"
#include "broker/cli/made.h"
#include "broker/cli/options.h"
#include "common/base/bits.h"
#include "common/base/error.h"
#include "dataset/edge_sort.h"
#include "dataset/generate.h"

enum { KINDS_MAX = 16, OPTIONS_MAX = 32 };

static size_t common_options(struct sl_generate *run, struct sl_option *options)
{
    const struct sl_option common[] = {
        {.name = "nodes",
         .type = SL_OPTION_UINT,
         .value = &run->nodes,
         .placeholder = "N",
         .min = 1,
         .max = SL_GENERATE_NODES_MAX,
         .no_default = run->nodes == 0,
         .help = "number of vertices"},
        {.name = "edges",
         .type = SL_OPTION_UINT,
         .value = &run->edges,
         .placeholder = "M",
         .min = 1,
         .max = 1e13,
         .no_default = true,
         .help = "number of edges to draw"},
        {.name = "feat-dim",
         .type = SL_OPTION_UINT,
         .value = &run->feat_dim,
         .placeholder = "D",
         .max = 65536,
         .help = "features of a vertex, 0 for none"},
        {.name = "classes",
         .type = SL_OPTION_UINT,
         .value = &run->classes,
         .placeholder = "C",
         .max = 1e6,
         .no_default = run->classes == SL_GENERATE_CLASSES_AUTO,
         .help = "labels 0 to C - 1, 0 for none"},
        {.name = "train-ratio",
         .type = SL_OPTION_REAL,
         .value = &run->train_ratio,
         .placeholder = "R",
         .min = 0,
         .max = 1,
         .help = "share of the vertices to train on"},
        {.name = "val-ratio",
         .type = SL_OPTION_REAL,
         .value = &run->val_ratio,
         .placeholder = "R",
         .min = 0,
         .max = 1,
         .help = "share to validate on; the rest is for testing"},
        {.name = "seed",
         .type = SL_OPTION_UINT,
         .value = &run->seed,
         .placeholder = "N",
         .help = "the same arguments and seed make the same bytes"},
        {.name = "memory",
         .type = SL_OPTION_SIZE,
         .value = &run->memory_bytes,
         .placeholder = "SIZE",
         .min = SL_EDGE_SORT_MIN_BYTES,
         .max = 1e15,
         .help = "for sorting edges; what does not fit is spilled beside DIR"},
        {.name = "threads",
         .type = SL_OPTION_UINT,
         .value = &run->threads,
         .placeholder = "N",
         .min = 0,
         .max = SL_GENERATE_THREADS_MAX,
         .no_default = true,
         .help = "else one for each core"},
    };
    memcpy(options, common, sizeof common);
    return SL_COUNT_OF(common);
}

static int parse(struct sl_generate *run, int *output, int argc, char **argv)
{
    const struct sl_generator_kind *kind = run->kind;
    struct sl_option options[OPTIONS_MAX];
    size_t n = sl_made_first_options(&run->making, options);
    n += common_options(run, options + n);
    n += sl_made_last_options(&run->making, output, options + n);
    n += kind->options(run->context, options + n);
    char command[32];
    snprintf(command, sizeof command, "generate %s", kind->name);
    const struct sl_command_usage usage = {
        .command = command,
        .about = kind->about,
        .example = kind->example,
        .options = options,
        .n_options = n,
    };
    return sl_options_parse(&usage, argc, argv);
}

static int generate(const struct sl_generator_kind *kind, int argc, char **argv)
{
    int output = SL_OUTPUT_TEXT;
    struct sl_generate run;
    int rc = sl_generate_init(&run, kind);
    if (rc == SL_OK)
        rc = parse(&run, &output, argc, argv);
    if (rc == SL_OK)
        rc = sl_generate_run(&run);
    if (rc == SL_OK)
        rc = sl_made_print(&run.making, output);
    sl_generate_fini(&run);
    return rc == SL_OPTIONS_HELP ? SL_EXIT_OK : rc;
}

int sl_command_generate(int argc, char **argv)
{
    static struct sl_command kinds[KINDS_MAX];
    const struct sl_command *chosen;
    for (size_t i = 0; i < sl_generator_n_kinds; i++)
        kinds[i] = (struct sl_command){.name = sl_generator_kinds[i]->name,
                                       .help = sl_generator_kinds[i]->help};
    SL_TRY(sl_command_choose(kinds, sl_generator_n_kinds, "kind",
                             "sluice generate planted --nodes 100000 --out data/planted", argc,
                             argv, &chosen));
    return chosen ? generate(sl_generator_kinds[chosen - kinds], argc - 1, argv + 1) : SL_EXIT_OK;
}
