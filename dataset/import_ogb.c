/*
 * OGB node and link property prediction, as downloaded and unpacked:
 *
 *   SRC/raw/num-node-list.csv.gz, num-edge-list.csv.gz   one number: the graph's size
 *   SRC/raw/edge.csv.gz                                  source,destination
 *   SRC/raw/node-feat.csv.gz                             one row of numbers a vertex   (optional)
 *   SRC/raw/node-label.csv.gz                            one row of labels a vertex    (optional)
 *   SRC/raw/edge_weight.csv.gz                           one number an edge            (optional)
 *   SRC/raw/edge-feat.csv.gz                             a row of numbers an edge      (optional)
 *   SRC/split/SCHEME/{train,valid,test}.csv.gz           one vertex a line             (optional)
 *   SRC/split/SCHEME/{train,valid,test}.pt               pairs of vertices: ogb_links.h
 *   SRC/split/SCHEME/split_dict.pt                       in one file either of these two
 *
 * or, in place of the csv files in raw/, the binary layout (ogbn-papers100M, and what OGB's
 * DatasetSaver writes):
 *
 *   SRC/raw/data.npz        num_nodes_list, num_edges_list (1 each), edge_index (2, edges),
 *                           node_feat (vertices, columns; optional), edge_feat (edges, columns;
 *                           optional), further node_* and edge_*
 *   SRC/raw/node-label.npz  node_label (vertices, 1 or more; optional)
 *
 * Each csv file may also be there without .gz. An edge u,v makes u an in-neighbour of v. The sizes
 * are checked against what the files hold, so an incomplete download is found here.
 *
 * Graphs of several types: ogb_typed.h.
 *
 * OGB's own loader adds the reverse of every edge to the data sets whose entry in its master list
 * says add_inverse_edge: edges are doubled, self-loops too, and nothing is merged. So does this
 * importer where SRC bears the name of such a data set, or --add-inverse-edge is given. Labels
 * of several columns are a 0/1 matrix (ogbn-proteins).
 */
#include <ctype.h>
#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/narrow.h"
#include "dataset/array_sink.h"
#include "dataset/csv_reader.h"
#include "dataset/csv_rows.h"
#include "dataset/edge_features.h"
#include "dataset/line_scan.h"
#include "dataset/import_vertices.h"
#include "dataset/ogb_links.h"
#include "dataset/ogb_typed.h"
#include "dataset/torch_file.h"

enum { PATH_BYTES = 4352 };

struct ogb {
    // Options.
    const char *split; // scheme, NULL = the only one
    bool inverse, inverse_given;
    int task; // enum sl_task, NONE = by the labels' columns

    bool binary;       // raw/data.npz
    const char *known; // the data set's name in OGB, NULL = none of its own
    bool links;        // its split is of pairs
    float *weights;    // (n_edges) of raw/edge_weight, or NULL
    uint64_t n_nodes, n_edges;
    char scheme[256];

    struct sl_ogb_links pairs;
};

static const char *const split_files[SL_SPLIT_COUNT] = {"train", "valid", "test"};

// ---- files --------------------------------------------------------------------------------------

// SRC/name.csv.gz or SRC/name.csv into c->path; false when neither is there.
static bool find_csv(struct sl_csv *c, const char *name)
{
    static const char *const suffixes[] = {"csv", "csv.gz"};
    for (size_t i = 0; i < SL_COUNT_OF(suffixes); i++) {
        snprintf(c->path, sizeof c->path, "%s/%s.%s", c->im->source, name, suffixes[i]);
        if (access(c->path, F_OK) == 0)
            return true;
    }
    return false;
}

static bool is_there(const struct sl_import *im, const char *name)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", im->source, name);
    return access(path, F_OK) == 0;
}

static int need_csv(struct sl_csv *c, const char *name)
{
    if (find_csv(c, name))
        return SL_OK;
    return sl_fail(SL_ENOENT,
                   "import %s: there is no %s.csv.gz: wanted the unpacked directory of an OGB node "
                   "or link data set, the one with raw/ and split/ in it",
                   c->im->source, name);
}

// What lies in raw/ and is not read: further features of vertices and edges.
static void list_left_out(struct sl_import *im)
{
    static const char *const used[] = {
        "num-node-list.csv",   "num-edge-list.csv",  "edge.csv",           "node-feat.csv",
        "node-label.csv",      "data.npz",           "num_nodes_dict.npz", "num_edges_dict.npz",
        "edge_index_dict.npz", "node_feat_dict.npz", "edge_feat_dict.npz", "node-label.npz",
        "edge-feat.csv",       "edge_weight.csv"};
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/raw", im->source);
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));) {
        bool is_used = e->d_name[0] == '.';
        for (size_t i = 0; i < SL_COUNT_OF(used); i++) {
            size_t n = strlen(used[i]);
            is_used |= strncmp(e->d_name, used[i], n) == 0 &&
                       (!e->d_name[n] || strcmp(e->d_name + n, ".gz") == 0) &&
                       (i < SL_COUNT_OF(used) - 1 || im->weights);
        }
        if (!is_used)
            sl_import_leave_out(im, "%s", e->d_name);
    }
    if (d)
        closedir(d);
}

// ---- sizes and edges ----------------------------------------------------------------------------

static int parse_size(struct sl_csv *c, const char **p, uint64_t limit, uint64_t *out)
{
    if (c->line > 1)
        return sl_fail(SL_EUNSUPPORTED,
                       "import %s: several graphs: wanted a node property prediction data set, "
                       "which has one",
                       c->path);
    SL_TRY(sl_csv_scan_below(c, p, limit, "a size", out));
    return sl_csv_end_line(c, p, "one number");
}

static int parse_n_nodes(struct sl_csv *c, const char **p)
{
    struct ogb *ogb = c->context;
    return parse_size(c, p, (uint64_t)SL_IMPORT_MAX_ID + 2, &ogb->n_nodes);
}

static int parse_n_edges(struct sl_csv *c, const char **p)
{
    struct ogb *ogb = c->context;
    return parse_size(c, p, UINT64_C(1) << 50, &ogb->n_edges);
}

static int parse_edge(struct sl_csv *c, const char **p)
{
    const struct ogb *ogb = c->context;
    const bool weighted = ogb->weights && c->line <= ogb->n_edges; // else there are too many
    return sl_csv_put_edge(c, p, sl_edge_ends_of(ogb->n_nodes),
                           weighted ? (double)ogb->weights[c->line - 1] : 0);
}

static int fail_edges(const struct sl_csv *c, uint64_t n, const char *what)
{
    const struct ogb *ogb = c->context;
    return sl_fail(SL_EFORMAT,
                   "import %s: found %" PRIu64 " %s: wanted %" PRIu64
                   " (num-edge-list): get the data set again",
                   c->path, n, what, ogb->n_edges);
}

static int parse_weight(struct sl_csv *c, const char **p)
{
    struct ogb *ogb = c->context;
    double x = 0;
    const char *end = sl_line_scan_real(*p, &x);
    if (c->line > ogb->n_edges)
        return fail_edges(c, c->line, "weights or more");
    if (!end || !(sl_line_is_gap(*end) || *end == '\n') || !sl_import_is_weight(x))
        return sl_csv_fail(
            c, *p, "a weight from 0 to " SL_FLOAT32_LARGEST " (float32; --no-weights reads none)");
    ogb->weights[c->line - 1] = (float)x;
    *p = end;
    return sl_csv_end_line(c, p, "one weight");
}

// 4 bytes an edge while edges are read. Weights that are all 1 are none, as of other formats.
static int read_weights(struct sl_csv *c)
{
    struct ogb *ogb = c->context;
    struct sl_import *im = c->im;
    const bool there = find_csv(c, "raw/edge_weight");
    if (!there && im->weights && im->weights_given)
        return sl_fail(SL_EINVAL,
                       "import %s: --weights given, but there is no raw/edge_weight.csv.gz: leave "
                       "it out",
                       im->source);
    if (!there || !im->weights)
        return SL_OK;
    ogb->weights = malloc((ogb->n_edges + 1) * sizeof *ogb->weights);
    if (!ogb->weights)
        return sl_fail(SL_ENOMEM,
                       "import %s: no memory for %" PRIu64 " weights (--no-weights reads none)",
                       c->path, ogb->n_edges);
    SL_TRY(sl_csv_read(c, "weights", parse_weight));
    if (c->line != ogb->n_edges)
        return fail_edges(c, c->line, "weights");
    bool units = !im->weights_given && !im->duplicates_given;
    for (uint64_t e = 0; e < ogb->n_edges && units; e++)
        units = ogb->weights[e] == 1.0f;
    im->unit_weights = units;
    im->edge_sink.weighted = !units;
    return SL_OK;
}

static int put_csv_edge_features(struct sl_import *im, void *of)
{
    struct sl_csv *c = of;
    const struct ogb *ogb = c->context;
    return sl_csv_put_features(im, c->path, ogb->n_edges);
}

static int read_topology(struct sl_csv *c)
{
    struct ogb *ogb = c->context;
    SL_TRY(need_csv(c, "raw/num-node-list"));
    SL_TRY(sl_csv_read(c, "sizes", parse_n_nodes));
    if (ogb->n_nodes == 0)
        return sl_fail(SL_EFORMAT, "import %s: found no vertices: wanted the number of them",
                       c->path);
    SL_TRY(need_csv(c, "raw/num-edge-list"));
    SL_TRY(sl_csv_read(c, "sizes", parse_n_edges));
    SL_TRY(read_weights(c));
    if (ogb->n_edges > 0 && find_csv(c, "raw/edge-feat"))
        SL_TRY(sl_edge_features_take(c->im, "edge-feat", false, put_csv_edge_features, c));
    SL_TRY(need_csv(c, "raw/edge"));
    SL_TRY(sl_import_start_edges(c->im));
    SL_TRY(sl_csv_read(c, "edges", parse_edge));
    free(ogb->weights);
    ogb->weights = NULL;
    if (c->im->edge_sink.n_read != ogb->n_edges)
        return fail_edges(c, c->im->edge_sink.n_read, "edges");
    return sl_import_finish_edges(c->im, ogb->n_nodes);
}

// ---- vertices -----------------------------------------------------------------------------------

static int read_features(struct sl_csv *c)
{
    struct ogb *ogb = c->context;
    return find_csv(c, "raw/node-feat") ? sl_csv_put_features(c->im, c->path, ogb->n_nodes) : SL_OK;
}

static int read_labels(struct sl_csv *c)
{
    struct ogb *ogb = c->context;
    return find_csv(c, "raw/node-label")
               ? sl_csv_put_labels(c->im, c->path, ogb->n_nodes, (enum sl_task)ogb->task)
               : SL_OK;
}

// ---- the binary layout --------------------------------------------------------------------------

static int read_sizes(struct ogb *ogb, const struct sl_zip *zip)
{
    SL_TRY(sl_ogb_get_size(zip, "num_nodes_list", &ogb->n_nodes));
    SL_TRY(sl_ogb_get_size(zip, "num_edges_list", &ogb->n_edges));
    if (ogb->n_nodes == 0)
        return sl_fail(SL_EFORMAT, "import %s: found no vertices: wanted the number of them",
                       sl_zip_path(zip));
    if (ogb->n_nodes > (uint64_t)SL_IMPORT_MAX_ID + 1)
        return sl_fail(SL_EUNSUPPORTED,
                       "import %s: num_nodes_list: found %" PRIu64 " vertices: wanted at most "
                       "%" PRIu32,
                       sl_zip_path(zip), ogb->n_nodes, SL_IMPORT_MAX_ID + 1);
    return SL_OK;
}

static void list_left_out_members(struct sl_import *im, const struct sl_zip *zip)
{
    static const char *const used[] = {"edge_index.npy", "num_nodes_list.npy", "num_edges_list.npy",
                                       "node_feat.npy", "edge_feat.npy"};
    for (size_t i = 0; i < sl_zip_count(zip); i++) {
        const char *name = sl_zip_name(zip, i);
        bool is_used = false;
        for (size_t k = 0; k < SL_COUNT_OF(used); k++)
            is_used |= strcmp(name, used[k]) == 0;
        if (!is_used)
            sl_import_leave_out(im, "%s", name);
    }
}

static const char EDGE_FEATURES[] = "edge_feat";

struct zipped {
    const struct sl_zip *zip;
    uint64_t n_edges;
};

static int put_zipped_edge_features(struct sl_import *im, void *of)
{
    const struct zipped *from = of;
    const struct sl_array_place place = {.zip = from->zip, .key = EDGE_FEATURES};
    return sl_array_put_features(im, &place, from->n_edges, false);
}

static int read_zipped_graph(struct sl_import *im, struct ogb *ogb, const struct sl_zip *zip)
{
    const struct sl_array_place edges = {.zip = zip, .key = "edge_index"};
    const struct sl_array_place features = {.zip = zip, .key = "node_feat"};
    SL_TRY(read_sizes(ogb, zip));
    list_left_out_members(im, zip);
    struct zipped from = {zip, ogb->n_edges};
    if (ogb->n_edges > 0 && sl_array_has_member(zip, EDGE_FEATURES))
        SL_TRY(sl_edge_features_take(im, EDGE_FEATURES, false, put_zipped_edge_features, &from));
    SL_TRY(sl_array_put_edges(im, &edges, NULL, SL_EDGES_2_E, sl_edge_ends_of(ogb->n_nodes)));
    if (im->edge_sink.n_read != ogb->n_edges)
        return sl_fail(SL_EFORMAT,
                       "import %s: edge_index: found %" PRIu64 " edges: wanted %" PRIu64
                       " (num_edges_list): get the data set again",
                       sl_zip_path(zip), im->edge_sink.n_read, ogb->n_edges);
    SL_TRY(sl_import_finish_edges(im, ogb->n_nodes));
    if (!sl_array_has_member(zip, features.key))
        return SL_OK;
    return sl_array_put_features(im, &features, ogb->n_nodes, false);
}

static int read_binary(struct sl_import *im, struct ogb *ogb)
{
    char path[PATH_BYTES];
    struct sl_zip *zip;
    snprintf(path, sizeof path, "%s/raw/data.npz", im->source);
    SL_TRY(sl_zip_open(path, &zip));
    int rc = read_zipped_graph(im, ogb, zip);
    sl_zip_close(zip);
    SL_TRY(rc);
    snprintf(path, sizeof path, "%s/raw/node-label.npz", im->source);
    if (access(path, F_OK) != 0)
        return SL_OK;
    SL_TRY(sl_zip_open(path, &zip));
    const struct sl_array_place labels = {.zip = zip, .key = "node_label"};
    rc = sl_array_put_labels(im, &labels, ogb->n_nodes, (enum sl_task)ogb->task);
    sl_zip_close(zip);
    return rc;
}

// ---- the split ----------------------------------------------------------------------------------

// The scheme's directory below split/: the one asked for, or the only one there is.
static int choose_scheme(struct sl_import *im, struct ogb *ogb)
{
    char path[PATH_BYTES], found[512] = "";
    int n = 0;
    snprintf(path, sizeof path, "%s/split", im->source);
    DIR *d = opendir(path);
    struct dirent *e;
    while (d && (e = readdir(d))) {
        if (e->d_name[0] == '.' || e->d_type == DT_REG)
            continue;
        size_t used = strlen(found);
        snprintf(found + used, sizeof found - used, "%s%s", n++ ? ", " : "", e->d_name);
        if (!ogb->split || strcmp(ogb->split, e->d_name) == 0)
            snprintf(ogb->scheme, sizeof ogb->scheme, "%s", e->d_name);
    }
    if (d)
        closedir(d);
    if (ogb->split && !ogb->scheme[0])
        return sl_fail(SL_ENOENT, "import %s: --split '%s': wanted one of: %s", im->source,
                       ogb->split, n ? found : "none (there is no split/)");
    if (!ogb->split && n > 1)
        return sl_fail(SL_EINVAL, "import %s: it has %d splits: give --split with one of: %s",
                       im->source, n, found);
    im->vertices.has_split = n > 0;
    return SL_OK;
}

static int read_csv_split(struct sl_csv *c)
{
    struct ogb *ogb = c->context;
    for (int i = 0; i < SL_SPLIT_COUNT; i++) {
        char name[320];
        snprintf(name, sizeof name, "split/%s/%s", ogb->scheme, split_files[i]);
        SL_TRY(need_csv(c, name));
        SL_TRY(sl_csv_put_list(c->im, c->path, (enum sl_split)i, ogb->n_nodes));
    }
    return SL_OK;
}

// A list of vertices, or pairs: under `group`, or without one the whole file.
static int read_torch_part(struct sl_import *im, struct ogb *ogb, const struct sl_torch_file *t,
                           const char *file, const char *group, enum sl_split s)
{
    struct sl_array_reader *r;
    if (!group || sl_torch_what(t, NULL, group) == SL_TORCH_DICT) {
        ogb->links = true;
        return sl_ogb_links_read(im, t, file, group, s, ogb->n_nodes, &ogb->pairs);
    }
    SL_TRY(sl_torch_open_array(t, NULL, group, &r));
    int rc = sl_array_put_list(im, r, s, ogb->n_nodes);
    sl_array_close(r);
    return rc;
}

// SRC/split/SCHEME/NAME.pt into path; false when it is not there.
static bool find_torch(const struct sl_import *im, const struct ogb *ogb, const char *name,
                       char path[PATH_BYTES])
{
    snprintf(path, PATH_BYTES, "%s/split/%s/%s.pt", im->source, ogb->scheme, name);
    return access(path, F_OK) == 0;
}

static int read_torch_split(struct sl_import *im, struct ogb *ogb)
{
    char path[PATH_BYTES];
    const bool one = find_torch(im, ogb, "split_dict", path);
    for (int s = 0; s < SL_SPLIT_COUNT; s++) {
        struct sl_torch_file *t;
        if (!one)
            find_torch(im, ogb, split_files[s], path);
        SL_TRY(sl_torch_open(path, &t));
        int rc = read_torch_part(im, ogb, t, path, one ? split_files[s] : NULL, (enum sl_split)s);
        sl_torch_close(t);
        SL_TRY(rc);
    }
    if (ogb->links)
        im->vertices.has_split = false;
    return SL_OK;
}

static int read_split(struct sl_csv *c)
{
    struct ogb *ogb = c->context;
    char path[PATH_BYTES], name[320];
    if (!ogb->scheme[0])
        return SL_OK;
    snprintf(name, sizeof name, "split/%s/%s", ogb->scheme, split_files[SL_SPLIT_TRAIN]);
    if (!find_csv(c, name) && (find_torch(c->im, ogb, "split_dict", path) ||
                               find_torch(c->im, ogb, split_files[SL_SPLIT_TRAIN], path)))
        return read_torch_split(c->im, ogb);
    return read_csv_split(c);
}

// ---- inverse edges ------------------------------------------------------------------------------

// OGB's data sets with one type of vertices, by name and by the name of the download, and
// add_inverse_edge of each (its master lists).
static const struct {
    const char *task, *name;
    bool inverse;
} known_sets[] = {
    {"ogbn", "proteins", true},     {"ogbn", "products", true}, {"ogbn", "arxiv", false},
    {"ogbn", "papers100M", false},  {"ogbl", "ppa", true},      {"ogbl", "ppassoc", true},
    {"ogbl", "collab", true},       {"ogbl", "ddi", true},      {"ogbl", "citation2", false},
    {"ogbl", "citation-v2", false}, {"ogbl", "vessel", false},
};

/*
 * Looks SRC's name up: ogbn_products, ogbn-products, products, and with the suffixes that OGB gives
 * (ogbn_products_pyg, papers100M-bin).
 */
static void decide_inverse(struct sl_import *im, struct ogb *ogb)
{
    char *path = realpath(im->source, NULL);
    const char *name = path ? basename(path) : im->source, *task = "";
    if ((strncasecmp(name, "ogbn", 4) == 0 || strncasecmp(name, "ogbl", 4) == 0) &&
        (name[4] == '_' || name[4] == '-'))
        name += 5;
    for (size_t i = 0; i < SL_COUNT_OF(known_sets); i++) {
        size_t n = strlen(known_sets[i].name);
        if (strncasecmp(name, known_sets[i].name, n) != 0 || (name[n] && !strchr("_-", name[n])))
            continue;
        ogb->known = known_sets[i].name;
        task = known_sets[i].task;
        if (!ogb->inverse_given && !im->symmetrise)
            ogb->inverse = known_sets[i].inverse;
    }
    free(path);
    im->edge_sink.both_ways = ogb->inverse;
    im->edge_sink.twin_loops = ogb->inverse;
    if (ogb->inverse_given)
        sl_import_explain_direction(im, "--%sadd-inverse-edge", ogb->inverse ? "" : "no-");
    else if (ogb->known)
        sl_import_explain_direction(
            im, ogb->inverse ? "as OGB's loader does for %s-%s" : "as OGB's loader leaves %s-%s",
            task, ogb->known);
}

// ---- the whole ----------------------------------------------------------------------------------

static void describe(const struct sl_import *im, const void *context, cJSON *source)
{
    const struct ogb *ogb = context;
    cJSON_AddStringToObject(source, "layout", ogb->binary ? "binary" : "csv");
    cJSON_AddBoolToObject(source, "add_inverse_edge", ogb->inverse);
    if (ogb->scheme[0])
        cJSON_AddStringToObject(source, "split", ogb->scheme);
}

// Of a graph whose edges are of several kinds the first error is to be this one.
static int refuse_kinds(const struct sl_import *im)
{
    if (!is_there(im, "raw/edge_reltype.csv.gz") && !is_there(im, "raw/edge_reltype.csv"))
        return SL_OK;
    return sl_fail(SL_EUNSUPPORTED,
                   "import %s: edges are of several kinds (raw/edge_reltype.csv.gz), as those of "
                   "ogbl-wikikg2: wanted a graph with one kind: to leave the kinds out, `sluice "
                   "import edgelist %s/raw/edge.csv.gz --holdout 0.05,0.1`",
                   im->source, im->source);
}

static void close_ogb(void *context)
{
    struct ogb *ogb = context;
    free(ogb->weights);
}

static int read_ogb(struct sl_import *im, void *context)
{
    struct ogb *ogb = context;
    struct sl_csv *c = calloc(1, sizeof *c);
    if (!c)
        return sl_fail(SL_ENOMEM, "import ogb: no memory");
    c->im = im;
    c->context = ogb;
    ogb->binary = is_there(im, "raw/data.npz") || is_there(im, SL_OGB_TYPED_EDGES);
    int rc = refuse_kinds(im);
    if (rc < 0)
        goto out;
    if (!im->split)
        SL_TRY_OUT(choose_scheme(im, ogb));
    if (sl_ogb_is_typed(im)) {
        rc = sl_ogb_typed_read(im, (enum sl_task)ogb->task, ogb->scheme);
        if (ogb->binary)
            list_left_out(im);
        goto out;
    }
    decide_inverse(im, ogb);
    if (ogb->binary) {
        SL_TRY_OUT(read_binary(im, ogb));
    } else {
        SL_TRY_OUT(read_topology(c));
        SL_TRY_OUT(read_features(c));
        SL_TRY_OUT(read_labels(c));
    }
    if (!im->split)
        SL_TRY_OUT(read_split(c));
    list_left_out(im);
    rc = sl_import_finish_vertices(im, ogb->n_nodes);
out:
    free(c);
    return rc;
}

static void summarise(const struct sl_import *im, const void *context, struct sl_table *t)
{
    const struct ogb *ogb = context;
    sl_table_row(t, "layout|%s", ogb->binary ? "binary" : "csv");
    sl_import_summarise_vertices(&im->vertices, t);
    if (ogb->links)
        sl_ogb_links_summarise(&ogb->pairs, t);
    if (ogb->scheme[0])
        sl_table_row(t, "split from|%s", ogb->scheme);
    if (im->left_out[0])
        sl_table_row(t, "left out|%s", im->left_out);
}

#define AT(kind, field) SL_OPTION_AT(kind, ogb, field)
#define GIVEN(field)    SL_OPTION_GIVEN(ogb, field)
// clang-format off
static const struct sl_option options[] = {
    {.name = "add-inverse-edge", AT(FLAG, inverse), GIVEN(inverse_given), .no_default = true,
     .help = "add the reverse of every edge, and merge nothing; on for ogbn-products, "
             "ogbn-proteins, ogbl-ppa, ogbl-collab and ogbl-ddi, as in OGB's loader "
             "(--no-add-inverse-edge turns it off)"},
    {.name = "task", AT(CHOICE, task), .choices = sl_label_tasks,
     .help = sl_label_tasks_help},
    {0},
};
static const struct sl_option split[] = {
    {.name = "split", SL_OPTION_AT(TEXT, sl_import, split),
     .placeholder = "SCHEME|TRAIN,VAL[,TEST]",
     .help = "which directory of split/, where there are several; or shares, as in 0.6,0.2 (the "
             "rest is the test set), by which a split is drawn from the labelled vertices"},
    {0},
};
// clang-format on

static int check(struct sl_import *im, void *context)
{
    struct ogb *ogb = context;
    if (im->split && isalpha((unsigned char)im->split[0])) {
        ogb->split = im->split;
        im->split = NULL;
    }
    if (ogb->inverse && im->symmetrise)
        return sl_fail(SL_EINVAL, "import ogb: --symmetrise and --add-inverse-edge both given: "
                                  "--symmetrise also merges edges: leave one out");
    return SL_OK;
}

const struct sl_import_format sl_import_ogb = {
    .name = "ogb",
    .help = "a node or link property prediction data set of OGB as downloaded",
    .source = "SRC",
    .about = "Reads a node or link property prediction data set of OGB, csv.gz or npz: SRC is its "
             "unpacked directory with raw/ and split/ in it. Inverse edges are added where "
             "OGB's own loader adds them, by SRC's name. Of a link data set the pairs of its split "
             "become train_edges.npy and so on, with their weights and its negatives. A graph of "
             "several types, as ogbn-mag, keeps them.",
    .example = "sluice import ogb dataset/ogbn_products --out data/products\n"
               "sluice import ogb dataset/ogbl_collab --out data/collab\n"
               "sluice import ogb dataset/ogbn_mag --reverse --out data/mag\n"
               "sluice import ogb dataset/ogbn_arxiv --symmetrise --out data/arxiv",
    .split = split,
    .has_features = true,
    .has_weights = true,
    .context_bytes = sizeof(struct ogb),
    .options = options,
    .check = check,
    .read = read_ogb,
    .describe = describe,
    .summarise = summarise,
    .close = close_ogb,
};
