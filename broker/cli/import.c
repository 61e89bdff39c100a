#include "broker/cli/import.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "broker/cli/command.h"
#include "broker/cli/made.h"
#include "broker/cli/split_draw.h"
#include "broker/cli/threads.h"
#include "broker/cli/units.h"

enum { MAX_LANES = 8 };

void sl_import_init(struct sl_import *im)
{
    memset(im, 0, sizeof *im);
    im->memory_bytes = UINT64_C(1) << 30;
}

size_t sl_import_common_options(struct sl_import *im, struct sl_option *options)
{
    const struct sl_option common[SL_IMPORT_COMMON_OPTIONS] = {
        {.name = "out",
         .type = SL_OPTION_TEXT,
         .value = &im->out,
         .placeholder = "DIR",
         .required = true,
         .help = "the data set directory to make"},
        {.name = "force",
         .type = SL_OPTION_FLAG,
         .value = &im->force,
         .help = "replace a data set of that name"},
        {.name = "name",
         .type = SL_OPTION_TEXT,
         .value = &im->name,
         .placeholder = "NAME",
         .help = "its name in metadata.json, else DIR's last part"},
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
        {.name = "quiet",
         .letter = 'q',
         .type = SL_OPTION_FLAG,
         .value = &im->quiet,
         .help = "no progress and no summary"},
        sl_output_option(&im->output),
    };
    memcpy(options, common, sizeof common);
    return SL_COUNT_OF(common);
}

size_t sl_import_feature_options(struct sl_import *im, struct sl_option *options, size_t n)
{
    const struct sl_option features[SL_IMPORT_FEATURE_OPTIONS] = {
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
    memcpy(options + n, features, sizeof features);
    return n + SL_COUNT_OF(features);
}

int sl_import_check_options(struct sl_import *im, const char *command)
{
    return im->split ? sl_split_parse(command, im->split, im->split_share) : SL_OK;
}

int sl_import_start_edges(struct sl_import *im)
{
    im->intake.both_ways = im->intake.both_ways || im->symmetrise;
    im->intake.drop_self_loops = im->remove_self_loops;
    // With weights one lane: equal edges then keep the order of the file, and the first weight
    // wins. Without, equal edges are not told apart.
    im->intake.n_lanes = im->intake.weighted ? 1 : SL_MIN(sl_threads_default(), (int)MAX_LANES);
    return sl_edge_sort_create(im->st.dir, im->memory_bytes, im->intake.n_lanes,
                               im->intake.weighted, &im->intake.sort);
}

int sl_import_finish_edges(struct sl_import *im, uint64_t n_nodes, struct sl_id_map *map)
{
    struct sl_edge_intake *in = &im->intake;
    uint64_t n_stored = in->n_read + in->n_reversed;
    SL_TRY(sl_edge_intake_flush(in));
    SL_TRY(sl_edge_sort_finish(in->sort));
    sl_progress_begin(&im->progress, "topology", n_stored, "edges");
    const struct sl_csc_plan plan = {
        .n_nodes = n_nodes,
        .dedup = im->dedup || im->symmetrise,
        .map = map,
        .weighted = in->weighted,
        .add_self_loops = im->add_self_loops,
    };
    SL_TRY(sl_csc_write(&im->st, in->sort, &plan, &im->progress, &im->csc));
    sl_edge_sort_destroy(in->sort);
    in->sort = NULL;
    return SL_OK;
}

void sl_import_begin_stage(struct sl_import *im, const char *what, const struct sl_text_reader *r)
{
    sl_progress_begin(&im->progress, what, sl_text_reader_size(r), "B");
}

static void summarise_edges(const struct sl_import *im, struct sl_table *t)
{
    char a[SL_UNITS_BYTES], b[SL_UNITS_BYTES];
    const struct sl_edge_intake *in = &im->intake;
    sl_table_row(t, "data set|%s", im->st.final);
    sl_table_row(t, "edges read|%s", sl_units_grouped(a, in->n_read));
    if (in->both_ways)
        sl_table_row(t, "reverse edges|%s added", sl_units_grouped(a, in->n_reversed));
    if (in->n_self_loops)
        sl_table_row(t, "self-loops|%s %s", sl_units_grouped(a, in->n_self_loops),
                     in->drop_self_loops ? "dropped" : "kept (--remove-self-loops drops them)");
    if (im->add_self_loops)
        sl_table_row(t, "self-loops added|%s%s", sl_units_grouped(a, im->csc.n_loops_added),
                     in->weighted ? ", of weight 1" : "");
    if (im->dedup || im->symmetrise)
        sl_table_row(t, "duplicates|%s dropped", sl_units_grouped(a, im->csc.n_duplicates));
    sl_table_row(t, "edges stored|%s%s", sl_units_grouped(a, im->csc.n_edges),
                 in->weighted ? ", with weights" : "");
    sl_table_row(t, "vertices|%s, %s without in-edges", sl_units_grouped(a, im->csc.n_nodes),
                 sl_units_grouped(b, im->csc.n_isolated));
    sl_table_row(t, "largest in-degree|%s", sl_units_grouped(a, im->csc.max_degree));
}

int sl_import_execute(struct sl_import *im, void *context,
                      int (*read)(struct sl_import *im, void *context),
                      void (*summarise)(struct sl_import *im, void *context, struct sl_table *t))
{
    im->begin_ns = sl_now_ns();
    sl_interrupt_catch();
    sl_progress_init(&im->progress, im->quiet);
    SL_TRY(sl_staging_open(im->out, im->force, &im->st));
    int rc = read(im, context);
    sl_edge_sort_destroy(im->intake.sort);
    im->intake.sort = NULL;
    if (rc == SL_OK)
        sl_progress_end(&im->progress);
    sl_progress_clear(&im->progress);
    uint64_t bytes = sl_staging_bytes(&im->st);
    if (rc == SL_OK)
        rc = sl_interrupt_check();
    if (rc == SL_OK)
        rc = sl_staging_commit(&im->st);
    else
        sl_staging_abort(&im->st);
    if (rc < 0)
        return rc;
    const struct sl_made made = {.output = im->output,
                                 .quiet = im->quiet,
                                 .directory = im->st.final,
                                 .bytes = bytes,
                                 .seconds = (double)(sl_now_ns() - im->begin_ns) * 1e-9};
    char a[SL_UNITS_BYTES];
    struct sl_table t;
    sl_table_init(&t, "l l", NULL);
    summarise_edges(im, &t);
    summarise(im, context, &t);
    sl_table_row(&t, "size|%s", sl_units_bytes(a, bytes));
    sl_table_row(&t, "took|%s", sl_units_seconds(a, made.seconds));
    rc = sl_made_print(&made, &t);
    sl_table_fini(&t);
    return rc;
}

int sl_command_import(int argc, char **argv)
{
    static const struct sl_command formats[] = {
        {"edgelist", "text with one edge a line (SNAP, KONECT and others), plain or gzip",
         sl_import_edgelist},
        {"ogb", "a node property prediction data set of OGB as downloaded (csv.gz or data.npz)",
         sl_import_ogb},
        {"igb", "a homogeneous data set of the Illinois Graph Benchmark as downloaded",
         sl_import_igb},
        {"npz", "a graph in one .npz: the gnn-benchmark layout, or scipy's save_npz",
         sl_import_npz},
        {"graphbolt", "a raw OnDiskDataset of DGL's GraphBolt (metadata.yaml)",
         sl_import_graphbolt},
    };
    const struct sl_command *format;
    SL_TRY(sl_command_choose(formats, SL_COUNT_OF(formats), "format",
                             "sluice import edgelist web-Google.txt.gz --out data/web-google", argc,
                             argv, &format));
    return format ? format->run(argc - 1, argv + 1) : SL_EXIT_OK;
}
