// `sluice import FORMAT`: the formats of dataset/import.h as commands.
#include <stdio.h>

#include "cli/command.h"
#include "cli/dataset_command.h"
#include "common/base/error.h"
#include "dataset/import.h"

enum { FORMATS_MAX = 15, NAME_BYTES = 32 };

struct request {
    struct sl_import import;
    int output;
};

static int init(const struct sl_command *c, void *state)
{
    return sl_import_init(&((struct request *)state)->import, c->of);
}

static int import(void *state)
{
    struct request *r = state;
    SL_TRY(sl_import_run(&r->import));
    return sl_dataset_command_print(&r->import.making, r->output);
}

static void release(void *state)
{
    sl_import_fini(&((struct request *)state)->import);
}

#define AT(kind, field) SL_OPTION_AT(kind, sl_import, field)
// clang-format off
static const struct sl_option edge_options[] = {
    {.name = "symmetrise", AT(FLAG, symmetrise),
     .help = "add the reverse of every edge and keep each edge once"},
    {.name = "reverse", AT(FLAG, reverse),
     .help = "of a graph of several types: add to every relation between two types the one the "
             "other way (rev_NAME), and make those within a type symmetric, each edge kept once"},
    {.name = "dedup", AT(FLAG, dedup),
     .help = "keep each edge once"},
    {.name = "duplicates", AT(CHOICE, duplicates), .choices = sl_duplicate_rules,
     SL_OPTION_GIVEN(sl_import, duplicates_given),
     .help = "the weight of an edge that stands there several times and is kept once; reverse "
             "edges that --symmetrise adds count only where the source has none"},
    {.name = "remove-self-loops", AT(FLAG, remove_self_loops),
     .help = "leave out edges from a vertex to itself"},
    {.name = "add-self-loops", AT(FLAG, add_self_loops),
     .help = "give every vertex without one an edge to itself, of weight 1 (with "
             "--remove-self-loops: every vertex exactly one)"},
    {0},
};
static const struct sl_option split_options[] = {
    {.name = "split", AT(TEXT, split), .placeholder = "TRAIN,VAL[,TEST]",
     .help = "draw the split from the labelled vertices by these shares, as in 0.6,0.2 (the rest "
             "is the test set), in place of the source's own"},
    {0},
};
static const struct sl_option holdout_options[] = {
    {.name = "holdout", AT(TEXT, holdout), .placeholder = "VAL,TEST",
     .help = "hold out edges for models of links, as `sluice split-edges` does: shares of the "
             "pairs of vertices that go into val_edges.npy and test_edges.npy and out of the "
             "graph"},
    {.name = "pairs", AT(CHOICE, held.pairs), .choices = sl_edge_split_pairs,
     .help = "of --holdout: undirected: an edge and its reverse go together; directed: an edge by "
             "itself; auto: undirected where each edge has its reverse"},
    {.name = "keep-one", AT(FLAG, held.keep_one),
     .help = "of --holdout: no vertex loses its last edge"},
    {0},
};
static const struct sl_option sort_options[] = {
    {.name = "seed", AT(UINT, seed), .placeholder = "N", .help = "of --split and --holdout"},
    {.name = "memory", AT(SIZE, memory_bytes), .placeholder = "SIZE", .min = SL_EDGE_SORT_MIN_BYTES,
     .max = 1e15, .help = "for sorting edges and names; what does not fit is spilled beside DIR"},
    {0},
};
static const struct sl_option weight_options[] = {
    {.name = "weights", AT(FLAG, weights), SL_OPTION_GIVEN(sl_import, weights_given),
     .help = "store the source's values as weights of edges; given, even where all are 1"},
    {0},
};
static const struct sl_option none[] = {{0}}, feature_options[] = {
    {.name = "normalize-features", AT(FLAG, normalise_features),
     .help = "as PyTorch Geometric's NormalizeFeatures: the smallest of all is subtracted, then "
             "each row divided by its sum, where that is above 1"},
    {.name = "f16", AT(FLAG, half_features),
     .help = "store features as float16; one beyond 65504 is an error"},
    {0},
};
// clang-format on

static struct sl_command command_of(const struct sl_import_format *f, char name[NAME_BYTES])
{
    const size_t at = offsetof(struct request, import),
                 context = at + offsetof(struct sl_import, context);
    snprintf(name, NAME_BYTES, "import %s", f->name);
    struct sl_command c = {
        .name = name,
        .help = f->help,
        .about = f->about,
        .example = f->example,
        .operands = {{f->source, offsetof(struct request, import.source)}},
        .options = {{sl_dataset_command_place, offsetof(struct request, import.making)},
                    {edge_options, at},
                    {f->has_weights ? weight_options : none, at},
                    {f->split ? f->split : split_options, at},
                    {holdout_options, at},
                    {sort_options, at},
                    {sl_dataset_command_quiet, offsetof(struct request, import.making)},
                    {sl_output_option, offsetof(struct request, output)},
                    {f->has_features ? feature_options : none, at},
                    {f->options, context, true}},
        .bytes = sizeof(struct request),
        .init = init,
        .run = import,
        .fini = release,
        .of = f,
    };
    return c;
}

static const struct sl_command *formats(void)
{
    static struct sl_command all[FORMATS_MAX + 1];
    static char names[FORMATS_MAX][NAME_BYTES];
    for (size_t i = 0; i < sl_import_n_formats; i++)
        all[i] = command_of(sl_import_formats[i], names[i]);
    return all;
}

const struct sl_command sl_command_import = {
    .name = "import",
    .help = "make a data set from files in another format",
    .example = "sluice import edgelist web-Google.txt.gz --out data/web-google",
    .kind = "format",
    .kinds = formats,
};
