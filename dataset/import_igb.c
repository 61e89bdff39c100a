/*
 * The data sets of the Illinois Graph Benchmark, as its download scripts leave them; homogeneous:
 *
 *   DIR/processed/paper/node_feat.npy                     (vertices, 1024) float32
 *   DIR/processed/paper/node_label_19.npy or _2K.npy      (vertices) float32
 *   DIR/processed/paper__cites__paper/edge_index.npy      (edges, 2) int32: source, destination
 *
 * and with --hetero also author, institute, fos, of large and full journal and conference, each
 * with a node_feat.npy, and the relations between them, paper__written_by__author and so on.
 *
 * DIR is the directory of one size, or the one above it (then --size says which). Features and
 * labels of `large` and `full` are numpy.memmap files: numbers without a header, whatever their
 * name says, so the number of vertices has to be known: it goes by the size, or is given.
 *
 * As in IGB's own loader: vertices with labels come first, all of them but in `full`; the first
 * 60 % of these are for training, the next 20 % for validation, the rest for the test, each count
 * rounded down. Otherwise than in it, `full` has 153,383,374 labels of 2983 classes: the loader
 * says 157,675,969, but what is behind the former is padding (so its author), which would be class
 * 0 in 14 % of the test. Its loader also removes self-loops and gives every vertex one; here that
 * is --remove-self-loops --add-self-loops, and in the summary.
 */
#include "dataset/import.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/interrupt.h"
#include "dataset/array_sink.h"
#include "common/text/units.h"
#include "dataset/import_vertices.h"
#include "dataset/typed_import.h"
#include "dataset/vertex_sink.h"

enum { FEAT_DIM = 1024, VERTICES_PER_TICK = 65536, PATH_BYTES = SL_STAGING_PATH_BYTES + 160 };

static const char *const size_names[] = {"tiny", "small", "medium", "large", "full", NULL};
static const char *const class_names[] = {"19", "2983", NULL};

// Of the types but paper, of which labels are; only authors' features are without a header, too.
static const char *const type_names[] = {"author", "institute", "fos", "journal", "conference"};
static const struct {
    const char *source, *name, *target;
} relations[] = {
    {"paper", "cites", "paper"},
    {"paper", "written_by", "author"},
    {"author", "affiliated_to", "institute"},
    {"paper", "topic", "fos"},
    {"paper", "published", "journal"},
    {"paper", "venue", "conference"},
};
static const uint64_t n_authors[] = {357041, 1926066, 15544654, 116959896, 277220883};

// With n_labelled for 19 and 2983 classes.
static const struct {
    uint64_t n_nodes, n_labelled[2];
    bool raw; // features and labels have no header
} sizes[] = {
    {100000, {100000, 100000}, false},         {1000000, {1000000, 1000000}, false},
    {10000000, {10000000, 10000000}, false},   {100000000, {100000000, 100000000}, true},
    {269346174, {227130858, 153383374}, true},
};
enum { SIZE_FULL = SL_COUNT_OF(sizes) - 1, CLASSES_2983 = 1 };

struct igb {
    // Options.
    int size, classes; // indices of the tables
    bool size_given, hetero;
    uint64_t n_nodes, n_labelled; // 0 = by the size, or the features' header
    bool raw;
    bool corrected; // n_labelled is not that of IGB's loader

    char dir[4096]; // that processed/ is in
};

// ---- finding ------------------------------------------------------------------------------------

static char *file_of(const struct igb *g, const char *name, char path[PATH_BYTES])
{
    snprintf(path, PATH_BYTES, "%s/processed/%s", g->dir, name);
    return path;
}

static int find_dir(const struct sl_import *im, struct igb *g)
{
    char path[PATH_BYTES];
    snprintf(g->dir, sizeof g->dir, "%s", im->source);
    if (access(file_of(g, "paper", path), F_OK) == 0)
        return SL_OK;
    if (g->size_given)
        snprintf(g->dir, sizeof g->dir, "%s/%s", im->source, size_names[g->size]);
    if (g->size_given && access(file_of(g, "paper", path), F_OK) == 0)
        return SL_OK;
    return sl_fail(SL_ENOENT,
                   "import igb: %s has no processed/paper%s%s: wanted the directory of one "
                   "homogeneous data set%s",
                   im->source, g->size_given ? ", and so has its part " : "",
                   g->size_given ? size_names[g->size] : "",
                   g->size_given ? "" : ", or the one above with --size");
}

// The number of vertices where neither --nodes nor --size says it.
static int count_rows(struct igb *g)
{
    char path[PATH_BYTES];
    struct sl_array_reader *r;
    int rc = sl_array_open_file(file_of(g, "paper/node_feat.npy", path), &r);
    if (rc == SL_EFORMAT)
        return sl_fail_prefix(rc,
                              "import igb: give --size, or --nodes for a file without a header");
    SL_TRY(rc);
    g->n_nodes = sl_array_header(r)->shape[0];
    if (sl_array_header(r)->ndim != 2)
        rc = sl_fail(SL_EFORMAT, "import %s: wanted (vertices, %d)", path, FEAT_DIM);
    sl_array_close(r);
    return rc;
}

static int decide_sizes(struct igb *g)
{
    if (g->size_given) {
        g->raw = g->raw || sizes[g->size].raw;
        // With another number of vertices it is another graph, whose labels --labelled counts.
        if (!g->n_labelled && !g->n_nodes) {
            g->n_labelled = sizes[g->size].n_labelled[g->classes];
            g->corrected = g->size == SIZE_FULL && g->classes == CLASSES_2983;
        }
        if (!g->n_nodes)
            g->n_nodes = sizes[g->size].n_nodes;
    } else if (!g->n_nodes) {
        SL_TRY(count_rows(g));
    }
    if (g->n_nodes == 0 || g->n_nodes > (uint64_t)SL_IMPORT_MAX_ID + 1)
        return sl_fail(SL_EUNSUPPORTED,
                       "import igb: found %" PRIu64 " vertices: wanted 1 to %" PRIu64, g->n_nodes,
                       (uint64_t)SL_IMPORT_MAX_ID + 1);
    if (!g->n_labelled)
        g->n_labelled = g->n_nodes;
    if (g->n_labelled > g->n_nodes)
        return sl_fail(SL_EINVAL,
                       "import igb: --labelled %" PRIu64 " with %" PRIu64
                       " vertices: wanted at most as many",
                       g->n_labelled, g->n_nodes);
    return SL_OK;
}

// ---- vertices -----------------------------------------------------------------------------------

static int put_labels(struct sl_import *im, struct igb *g, struct sl_array_reader *r,
                      struct sl_label_sink *in)
{
    double label[4096];
    sl_progress_begin(&im->making.progress, "labels", g->n_labelled, "rows");
    for (uint64_t v = 0; v < g->n_labelled;) {
        uint64_t n = SL_MIN(g->n_labelled - v, SL_COUNT_OF(label));
        SL_TRY(sl_interrupt_check());
        SL_TRY(sl_array_read_doubles(r, n, label));
        for (uint64_t i = 0; i < n; i++, v++)
            SL_TRY(sl_label_sink_put(in, v, &label[i], sl_array_name(r)));
        sl_progress_set(&im->making.progress, v);
    }
    return SL_OK;
}

static int check_labels(const struct igb *g, const struct sl_array_reader *r)
{
    char shape[128];
    const struct sl_npy_header *h = sl_array_header(r);
    bool column = h->ndim == 1 || (h->ndim == 2 && h->shape[1] == 1);
    if (column && h->shape[0] >= g->n_labelled && h->shape[0] <= g->n_nodes)
        return SL_OK;
    return sl_fail(SL_EFORMAT,
                   "import %s: found shape %s: wanted a label for each of the first %" PRIu64
                   " of %" PRIu64 " vertices (--labelled)",
                   sl_array_name(r), sl_npy_shape_text(h, shape, sizeof shape), g->n_labelled,
                   g->n_nodes);
}

static int read_labels(struct sl_import *im, struct igb *g)
{
    char path[PATH_BYTES];
    const struct sl_npy_header raw = {.dtype = SL_DTYPE_F32, .ndim = 1, .shape = {g->n_nodes}};
    const uint32_t wanted = g->classes ? 2983 : 19;
    struct sl_array_reader *r = NULL;
    struct sl_label_sink in = {0};
    const char *file = g->classes ? "paper/node_label_2K.npy" : "paper/node_label_19.npy";
    SL_TRY(sl_array_open_raw(file_of(g, file, path), g->raw ? &raw : NULL, &r));
    int rc = check_labels(g, r);
    if (rc == SL_OK)
        rc = sl_label_sink_open(&in, im, g->n_nodes, 1, SL_TASK_MULTICLASS, path);
    if (rc == SL_OK)
        rc = put_labels(im, g, r, &in);
    rc = sl_label_sink_close(&in, rc, path);
    sl_array_close(r);
    SL_TRY(rc);
    if (im->vertices.n_classes > wanted)
        return sl_fail(SL_EFORMAT,
                       "import %s: found class %" PRIu32
                       ": wanted classes below --classes %" PRIu32,
                       path, im->vertices.n_classes - 1, wanted);
    im->vertices.n_classes = wanted;
    return SL_OK;
}

static int write_range(struct sl_import *im, struct igb *g, enum sl_split split, uint64_t begin,
                       uint64_t end)
{
    struct sl_list_sink list;
    int rc = SL_OK;
    SL_TRY(sl_list_sink_open(&list, im, split, g->n_nodes));
    for (uint64_t v = begin; v < end && rc == SL_OK; v++) {
        rc = sl_list_sink_put(&list, (int64_t)v, im->source);
        if (rc == SL_OK && v % VERTICES_PER_TICK == 0)
            rc = sl_interrupt_check();
    }
    return sl_list_sink_close(&list, rc, split);
}

static int write_split(struct sl_import *im, struct igb *g)
{
    uint64_t n_train = (uint64_t)((double)g->n_labelled * 0.6);
    uint64_t n_val = (uint64_t)((double)g->n_labelled * 0.2);
    if (im->split)
        return SL_OK;
    SL_TRY(write_range(im, g, SL_SPLIT_TRAIN, 0, n_train));
    SL_TRY(write_range(im, g, SL_SPLIT_VAL, n_train, n_train + n_val));
    return write_range(im, g, SL_SPLIT_TEST, n_train + n_val, g->n_labelled);
}

// ---- the whole ----------------------------------------------------------------------------------

static int read_features(struct sl_import *im, struct igb *g)
{
    char path[PATH_BYTES];
    const struct sl_npy_header raw = {
        .dtype = SL_DTYPE_F32, .ndim = 2, .shape = {g->n_nodes, FEAT_DIM}};
    const struct sl_array_place features = {.path = file_of(g, "paper/node_feat.npy", path),
                                            .raw = g->raw ? &raw : NULL};
    return sl_array_put_features(im, &features, g->n_nodes, false);
}

static int read_edges(struct sl_import *im, struct igb *g)
{
    char path[PATH_BYTES];
    const struct sl_array_place edges = {
        .path = file_of(g, "paper__cites__paper/edge_index.npy", path)};
    SL_TRY(sl_array_put_edges(im, &edges, NULL, SL_EDGES_E_2, sl_edge_ends_of(g->n_nodes)));
    return sl_import_finish_edges(im, g->n_nodes);
}

// n 0: as the header says.
static int add_type(struct sl_import *im, struct igb *g, const char *name, uint64_t n, bool raw)
{
    char path[PATH_BYTES], file[64];
    const struct sl_npy_header head = {.dtype = SL_DTYPE_F32, .ndim = 2, .shape = {n, FEAT_DIM}};
    struct sl_import_file feat = {0};
    struct sl_array_reader *r;
    struct sl_import_type *type;
    snprintf(file, sizeof file, "%s/node_feat.npy", name);
    SL_TRY(sl_array_open_raw(file_of(g, file, path), raw ? &head : NULL, &r));
    n = sl_array_header(r)->ndim == 2 ? sl_array_header(r)->shape[0] : 0;
    sl_array_close(r);
    SL_TRY(sl_typed_import_add_type(im, path, name, n, &type));
    SL_TRY(sl_typed_import_set_file(&feat, NULL, path));
    feat.raw = raw ? head : (struct sl_npy_header){0};
    type->feat = feat;
    return SL_OK;
}

static int find_types(struct sl_import *im, struct igb *g)
{
    char path[PATH_BYTES], file[96];
    SL_TRY(add_type(im, g, "paper", g->n_nodes, g->raw));
    for (size_t i = 0; i < SL_COUNT_OF(type_names); i++) {
        snprintf(file, sizeof file, "%s/node_feat.npy", type_names[i]);
        if (access(file_of(g, file, path), F_OK) == 0)
            SL_TRY(add_type(im, g, type_names[i], i == 0 && g->size_given ? n_authors[g->size] : 0,
                            i == 0 && g->size_given && sizes[g->size].raw));
    }
    for (size_t i = 0; i < SL_COUNT_OF(relations); i++) {
        struct sl_import_relation *r;
        snprintf(file, sizeof file, "%s__%s__%s/edge_index.npy", relations[i].source,
                 relations[i].name, relations[i].target);
        if (access(file_of(g, file, path), F_OK) != 0)
            continue;
        SL_TRY(sl_typed_import_add_relation(im, path, relations[i].source, relations[i].name,
                                            relations[i].target, &r));
        SL_TRY(sl_typed_import_set_file(&r->edges, NULL, path));
        r->shape = SL_EDGES_E_2;
    }
    sl_typed_import_put_first(im->typed, 0);
    return SL_OK;
}

static int read_hetero(struct sl_import *im, struct igb *g)
{
    SL_TRY(sl_typed_import_begin(im));
    SL_TRY(find_types(im, g));
    SL_TRY(read_labels(im, g));
    SL_TRY(write_split(im, g));
    return sl_typed_import_finish(im);
}

static int read_igb(struct sl_import *im, void *context)
{
    struct igb *g = context;
    SL_TRY(find_dir(im, g));
    SL_TRY(decide_sizes(g));
    if (g->hetero)
        return read_hetero(im, g);
    // Small parts first, so that their errors appear before a terabyte is copied.
    SL_TRY(read_labels(im, g));
    SL_TRY(write_split(im, g));
    SL_TRY(read_edges(im, g));
    SL_TRY(read_features(im, g));
    return sl_import_finish_vertices(im, g->n_nodes);
}

static void describe(const struct sl_import *im, const void *context, cJSON *source)
{
    const struct igb *g = context;
    if (g->size_given)
        cJSON_AddStringToObject(source, "size", size_names[g->size]);
    cJSON_AddNumberToObject(source, "labelled", (double)g->n_labelled);
}

static void summarise(const struct sl_import *im, const void *context, struct sl_table *t)
{
    char a[SL_UNITS_BYTES], b[SL_UNITS_BYTES];
    const struct igb *g = context;
    sl_import_summarise_vertices(&im->vertices, t);
    if (g->n_labelled < g->n_nodes)
        sl_table_row(t, "labelled|the first %s of %s vertices%s",
                     sl_units_grouped(a, g->n_labelled), sl_units_grouped(b, g->n_nodes),
                     g->corrected ? ", as IGB's author says; its loader counts 157,675,969, the "
                                    "last of them padding (--labelled)"
                                  : "");
    if (!im->split)
        sl_table_row(t, "split from|IGB's loader: 60, 20 and 20 %% of the first %s vertices",
                     sl_units_grouped(a, g->n_labelled));
    if (!g->hetero && (!im->add_self_loops || !im->remove_self_loops))
        sl_table_row(t, "not as IGB's loader|which gives every vertex exactly one self-loop: "
                        "--remove-self-loops --add-self-loops");
}

#define AT(kind, field) SL_OPTION_AT(kind, igb, field)
#define GIVEN(field)    SL_OPTION_GIVEN(igb, field)
// clang-format off
static const struct sl_option options[] = {
    {.name = "size", AT(CHOICE, size), GIVEN(size_given), .choices = size_names, .no_default = true,
     .help = "which data set: gives the number of vertices, and that features and labels of large "
             "and full have no header; default: as the features' header says"},
    {.name = "hetero", AT(FLAG, hetero),
     .help = "the heterogeneous data set: papers, authors, institutes, fields of study, and of "
             "large and full journals and conferences"},
    {.name = "classes", AT(CHOICE, classes), .choices = class_names,
     .help = "which labels: node_label_19.npy or node_label_2K.npy"},
    {.name = "nodes", AT(UINT, n_nodes), .placeholder = "N", .min = 1,
     .max = (double)SL_IMPORT_MAX_ID + 1, .no_default = true,
     .help = "number of vertices, where it is not that of --size"},
    {.name = "labelled", AT(UINT, n_labelled), .placeholder = "N", .min = 1,
     .max = (double)SL_IMPORT_MAX_ID + 1, .no_default = true,
     .help = "how many of the first vertices have labels; default: all, of full 227,130,858 (19 "
             "classes) or 153,383,374"},
    {.name = "raw", AT(FLAG, raw),
     .help = "features and labels are float32 without a header, as in large and full"},
    {0},
};
// clang-format on

const struct sl_import_format sl_import_igb = {
    .name = "igb",
    .help = "a data set of the Illinois Graph Benchmark as downloaded",
    .source = "DIR",
    .about = "Reads a homogeneous data set of the Illinois Graph Benchmark: DIR (or DIR/SIZE) "
             "holds processed/paper and processed/paper__cites__paper. The split is that of "
             "IGB's loader: 60, 20 and 20 % of the labelled vertices, by id. With --hetero the "
             "other types and relations, too: MLPerf's task has --hetero --classes 2983 --reverse "
             "--remove-self-loops --add-self-loops (and no edge twice, which its own reader has).",
    .example = "sluice import igb igb/small --out data/igb-small\n"
               "sluice import igb igbh/tiny --hetero --reverse --out data/igbh-tiny\n"
               "sluice import igb igb --size large --classes 2983 --f16 --remove-self-loops "
               "--add-self-loops --out data/igb-large",
    .has_features = true,
    .context_bytes = sizeof(struct igb),
    .options = options,
    .read = read_igb,
    .describe = describe,
    .summarise = summarise,
};
