// `sluice reorder`: dataset/reorder.h as a command.
#include <stdlib.h>

#include "broker/cli/command.h"
#include "broker/cli/made.h"
#include "broker/cli/options.h"
#include "common/base/bits.h"
#include "common/base/error.h"
#include "dataset/reorder.h"

static int parse(struct sl_reorder *r, int *output, int argc, char **argv)
{
    const char *fanout = "15,10,5";
    bool fanout_given = false;
    const struct sl_option options[] = {
        {.name = "by",
         .type = SL_OPTION_CHOICE,
         .value = &r->by,
         .choices = sl_reorder_kinds,
         .help = "degree: by falling out-degree; hotness: by falling number of visits expected of "
                 "sampling from the training vertices; bfs: breadth first along in-edges from the "
                 "vertex with most of them"},
        {.name = "out",
         .type = SL_OPTION_TEXT,
         .value = &r->making.out,
         .placeholder = "DIR2",
         .required = true,
         .help = "the data set directory to make"},
        {.name = "fanout",
         .type = SL_OPTION_TEXT,
         .value = &fanout,
         .placeholder = "LIST",
         .given = &fanout_given,
         .help = "of --by hotness: the job's, from the seeds outwards; -1 takes all neighbours"},
        {.name = "name",
         .type = SL_OPTION_TEXT,
         .value = &r->making.name,
         .placeholder = "NAME",
         .help = "its name in metadata.json, else DIR2's last part"},
        {.name = "force",
         .type = SL_OPTION_FLAG,
         .value = &r->making.force,
         .help = "replace a data set of that name"},
        {.name = "threads",
         .type = SL_OPTION_UINT,
         .value = &r->n_threads,
         .placeholder = "N",
         .min = 1,
         .max = SL_REORDER_THREADS_MAX,
         .no_default = true,
         .help = "threads that move arrays, else one a core; the files are the same"},
        {.name = "quiet",
         .letter = 'q',
         .type = SL_OPTION_FLAG,
         .value = &r->making.quiet,
         .help = "no progress and no summary"},
        sl_output_option(output),
    };
    const struct sl_operand operand = {"DIR", &r->source, false};
    const struct sl_command_usage usage = {
        .command = "reorder",
        .about =
            "Writes the data set DIR again with its vertices numbered in another order: rows that "
            "are used often or together then lie together. Edges, weights, features, labels and "
            "index lists are permuted alike; vertex_map.npy keeps the id that each vertex had in "
            "DIR (or in what DIR was reordered from), and predictions come out in that order.",
        .example = "sluice reorder data/web --by hotness --fanout 15,10,5 --out data/web-hot\n"
                   "sluice reorder data/web --by bfs --out data/web-bfs",
        .operands = &operand,
        .n_operands = 1,
        .options = options,
        .n_options = SL_COUNT_OF(options),
    };
    int rc = sl_options_parse(&usage, argc, argv);
    if (rc != SL_OK)
        return rc;
    if (fanout_given && r->by != SL_REORDER_BY_HOTNESS)
        return sl_fail(SL_EINVAL, "reorder: --fanout with --by %s: only hotness depends on it",
                       sl_reorder_kinds[r->by]);
    return sl_batch_estimate_parse("reorder", fanout, &r->hops);
}

int sl_command_reorder(int argc, char **argv)
{
    int output = SL_OUTPUT_TEXT;
    struct sl_reorder r = {0};
    int rc = parse(&r, &output, argc, argv);
    if (rc == SL_OK)
        rc = sl_reorder_run(&r);
    if (rc == SL_OK)
        rc = sl_made_print(&r.making, output);
    sl_making_fini(&r.making);
    return rc == SL_OPTIONS_HELP ? SL_EXIT_OK : rc;
}
