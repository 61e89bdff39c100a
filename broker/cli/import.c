// `sluice import FORMAT`: the formats of dataset/import.h as commands.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/cli/command.h"
#include "broker/cli/made.h"
#include "broker/cli/options.h"
#include "common/base/bits.h"
#include "common/base/error.h"
#include "dataset/import.h"

enum { FORMATS_MAX = 16, OPTIONS_MAX = 24 };

static size_t common_options(struct sl_import *im, struct sl_option *options)
{
    const struct sl_option common[] = {
        {.name = "symmetrise",
         .type = SL_OPTION_FLAG,
         .value = &im->symmetrise,
         .help = "add the reverse of every edge and keep each edge once"},
        {.name = "dedup",
         .type = SL_OPTION_FLAG,
         .value = &im->dedup,
         .help = "keep each edge once: the first in the file, with its weight"},
        {.name = "remove-self-loops",
         .type = SL_OPTION_FLAG,
         .value = &im->remove_self_loops,
         .help = "leave out edges from a vertex to itself"},
        {.name = "add-self-loops",
         .type = SL_OPTION_FLAG,
         .value = &im->add_self_loops,
         .help = "give every vertex without one an edge to itself, of weight 1 (with "
                 "--remove-self-loops: every vertex exactly one)"},
        {.name = "split",
         .type = SL_OPTION_TEXT,
         .value = &im->split,
         .placeholder = "TRAIN,VAL[,TEST]",
         .help = "draw the split from the labelled vertices by these shares, as in 0.6,0.2 (the "
                 "rest is the test set), in place of the source's own"},
        {.name = "seed",
         .type = SL_OPTION_UINT,
         .value = &im->seed,
         .placeholder = "N",
         .help = "of --split"},
        {.name = "memory",
         .type = SL_OPTION_SIZE,
         .value = &im->memory_bytes,
         .placeholder = "SIZE",
         .min = SL_EDGE_SORT_MIN_BYTES,
         .max = 1e15,
         .help = "for sorting edges; what does not fit is spilled beside DIR"},
    };
    memcpy(options, common, sizeof common);
    return SL_COUNT_OF(common);
}

static size_t feature_options(struct sl_import *im, struct sl_option *options)
{
    const struct sl_option features[] = {
        {.name = "normalize-features",
         .type = SL_OPTION_FLAG,
         .value = &im->normalise_features,
         .help = "as PyTorch Geometric's NormalizeFeatures: the smallest of all is subtracted, "
                 "then each row divided by its sum, where that is above 1"},
        {.name = "f16",
         .type = SL_OPTION_FLAG,
         .value = &im->half_features,
         .help = "store features as float16; one beyond 65504 is an error"},
    };
    memcpy(options, features, sizeof features);
    return SL_COUNT_OF(features);
}

// A format may take more by --split than shares.
static void explain_split(const struct sl_import_format *format, struct sl_option *options,
                          size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!format->split_is || strcmp(options[i].name, "split") != 0)
            continue;
        options[i].placeholder = format->split_value;
        options[i].help = format->split_is;
    }
}

static int parse(struct sl_import *im, int *output, int argc, char **argv)
{
    const struct sl_import_format *format = im->format;
    struct sl_option options[OPTIONS_MAX];
    size_t n = sl_made_first_options(&im->making, options);
    n += common_options(im, options + n);
    n += sl_made_last_options(&im->making, output, options + n);
    if (format->has_features)
        n += feature_options(im, options + n);
    n += format->options(im->context, options + n);
    explain_split(format, options, n);
    char command[32];
    snprintf(command, sizeof command, "import %s", format->name);
    const struct sl_operand operand = {format->source, &im->source, false};
    const struct sl_command_usage usage = {
        .command = command,
        .about = format->about,
        .example = format->example,
        .operands = &operand,
        .n_operands = 1,
        .options = options,
        .n_options = n,
    };
    return sl_options_parse(&usage, argc, argv);
}

static int import(const struct sl_import_format *format, int argc, char **argv)
{
    int output = SL_OUTPUT_TEXT;
    struct sl_import *im = calloc(1, sizeof *im);
    if (!im)
        return sl_fail(SL_ENOMEM, "import %s: no memory", format->name);
    int rc = sl_import_init(im, format);
    if (rc == SL_OK)
        rc = parse(im, &output, argc, argv);
    if (rc == SL_OK)
        rc = sl_import_run(im);
    if (rc == SL_OK)
        rc = sl_made_print(&im->making, output);
    sl_import_fini(im);
    free(im);
    return rc == SL_OPTIONS_HELP ? SL_EXIT_OK : rc;
}

int sl_command_import(int argc, char **argv)
{
    static struct sl_command formats[FORMATS_MAX];
    const struct sl_command *chosen;
    for (size_t i = 0; i < sl_import_n_formats; i++)
        formats[i] = (struct sl_command){.name = sl_import_formats[i]->name,
                                         .help = sl_import_formats[i]->help};
    SL_TRY(sl_command_choose(formats, sl_import_n_formats, "format",
                             "sluice import edgelist web-Google.txt.gz --out data/web-google", argc,
                             argv, &chosen));
    return chosen ? import(sl_import_formats[chosen - formats], argc - 1, argv + 1) : SL_EXIT_OK;
}
