/*
 * OGB's layouts of graphs of several types, as downloaded and unpacked. In csv files:
 *
 *   SRC/raw/num-node-dict.csv.gz                 a line of types, a line of their vertices
 *   SRC/raw/triplet-type-list.csv.gz             source,relation,target a line
 *   SRC/raw/relations/S___R___T/edge.csv.gz      source,target, numbers within their types
 *                             /num-edge-list.csv.gz
 *                             /edge-feat.csv.gz     a row of numbers an edge (optional)
 *   SRC/raw/node-feat/TYPE/node-feat.csv.gz      (optional)
 *   SRC/raw/node-label/TYPE/node-label.csv.gz    (optional; of one type)
 *   SRC/split/SCHEME/TYPE/{train,valid,test}.csv.gz
 *
 * Each may also be there without .gz. What else lies there (years, kinds of edges) is left out, and
 * features of edges where an option does not go with them. As OGB's DatasetSaver writes them, with
 * a member for each type or for each S___R___T:
 *
 *   SRC/raw/num_nodes_dict.npz, num_edges_dict.npz    one number: the one graph's
 *   SRC/raw/edge_index_dict.npz                       (2, edges)
 *   SRC/raw/node_feat_dict.npz                        (vertices, columns; optional)
 *   SRC/raw/edge_feat_dict.npz                        (edges, columns; optional)
 *   SRC/raw/node-label.npz                            (optional; of one type)
 *   SRC/split/SCHEME/split_dict.pt                    {"train": {TYPE: vertices}, ...}
 */
#include "dataset/ogb_typed.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/error.h"
#include "dataset/csv_reader.h"
#include "dataset/edge_features.h"
#include "dataset/import_vertices.h"
#include "dataset/line_scan.h"
#include "dataset/torch_file.h"
#include "dataset/typed_import.h"

enum { PATH_BYTES = SL_CSV_PATH_BYTES };

enum {
    N_NODES,
    N_EDGES,
    EDGES,
    FEATURES,
    EDGE_FEATURES,
    LABELS,
    ZIPS,
    KEY_BYTES = 3 * SL_TYPE_NAME_BYTES + 16
};

static const char *const split_names[SL_SPLIT_COUNT] = {"train", "valid", "test"};

struct ogb_typed {
    struct sl_zip *zip[ZIPS];                     // of the binary layout
    char names[SL_TYPES_MAX][SL_TYPE_NAME_BYTES]; // of the line of types
    uint32_t n_names;
    uint64_t n_edges; // of a num-edge-list
};

// Whether features of edges, which lie in `name`, are read.
static bool reads_edge_features(struct sl_import *im, const char *name)
{
    const char *odd = sl_edge_features_forbidden(im);
    if (odd)
        sl_import_leave_out(im, "%s (%.*s)", name, (int)strcspn(odd, ","), odd);
    return !odd;
}

// SRC/....csv or .csv.gz into path; false when neither is there.
__attribute__((format(printf, 3, 4))) static bool find(const struct sl_import *im,
                                                       char path[PATH_BYTES], const char *fmt, ...)
{
    static const char *const suffixes[] = {".csv", ".csv.gz"};
    char name[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(name, sizeof name, fmt, ap);
    va_end(ap);
    for (int i = 0; i < 2; i++) {
        snprintf(path, PATH_BYTES, "%s/%s%s", im->source, name, suffixes[i]);
        if (access(path, F_OK) == 0)
            return true;
    }
    return false;
}

// SRC/NAME into path; false where it is not there.
static bool is_there(const struct sl_import *im, const char *name, char path[PATH_BYTES])
{
    snprintf(path, PATH_BYTES, "%s/%s", im->source, name);
    return access(path, F_OK) == 0;
}

bool sl_ogb_is_typed(const struct sl_import *im)
{
    char path[PATH_BYTES];
    return find(im, path, "raw/triplet-type-list") || is_there(im, SL_OGB_TYPED_EDGES, path);
}

static int fail_missing(const char *path)
{
    return sl_fail(SL_ENOENT,
                   "import %s: is not there: wanted the unpacked directory of an OGB "
                   "data set of several types, with raw/ and split/ in it",
                   path);
}

// ---- small tables -------------------------------------------------------------------------------

// The next field of a line, up to a comma or its end, as a name.
static int scan_name(const struct sl_csv *c, const char **p, char name[SL_TYPE_NAME_BYTES])
{
    const size_t n = strcspn(*p, ",\r\n");
    snprintf(name, SL_TYPE_NAME_BYTES, "%.*s", (int)n, *p);
    if (n >= SL_TYPE_NAME_BYTES || !sl_typed_is_name(name))
        return sl_csv_fail(c, *p, "a name of letters, digits, '_' and '-'");
    *p += n;
    *p += **p == ',';
    return SL_OK;
}

// The first line has names, the second a number for each.
static int parse_types(struct sl_csv *c, const char **p)
{
    struct ogb_typed *o = c->context;
    struct sl_import_type *type;
    uint64_t n;
    if (c->line > 2)
        return sl_csv_fail(c, *p, "one graph: a line of types and a line of numbers");
    while (c->line == 1 && **p != '\n' && **p != '\r') {
        if (o->n_names == SL_TYPES_MAX)
            return sl_csv_fail(c, *p, "fewer types");
        SL_TRY(scan_name(c, p, o->names[o->n_names++]));
    }
    for (uint32_t i = 0; c->line == 2 && i < o->n_names; i++) {
        *p = sl_line_skip_gap(*p);
        SL_TRY(sl_csv_scan_below(c, p, (uint64_t)SL_IMPORT_MAX_ID + 2, "a number of vertices", &n));
        SL_TRY(sl_typed_import_add_type(c->im, c->path, o->names[i], n, &type));
    }
    return sl_csv_end_line(c, p, "as many columns as there are types");
}

static int parse_n_edges(struct sl_csv *c, const char **p)
{
    struct ogb_typed *o = c->context;
    if (c->line > 1)
        return sl_csv_fail(c, *p, "one number, for one graph");
    SL_TRY(sl_csv_scan_below(c, p, UINT64_C(1) << 50, "a size", &o->n_edges));
    return sl_csv_end_line(c, p, "one number");
}

static int parse_relation(struct sl_csv *c, const char **p)
{
    char name[3][SL_TYPE_NAME_BYTES];
    struct sl_import_relation *r;
    for (int i = 0; i < 3; i++)
        SL_TRY(scan_name(c, p, name[i]));
    SL_TRY(sl_typed_import_add_relation(c->im, c->path, name[0], name[1], name[2], &r));
    return sl_csv_end_line(c, p, "three columns: source,relation,target");
}

static int read_table(struct sl_import *im, struct ogb_typed *o, const char *path,
                      int (*parse)(struct sl_csv *c, const char **p))
{
    struct sl_csv c = {.im = im, .context = o};
    snprintf(c.path, sizeof c.path, "%s", path);
    return sl_csv_read(&c, "sizes", parse);
}

// ---- what is there ------------------------------------------------------------------------------

static int find_relation(struct sl_import *im, struct ogb_typed *o, struct sl_import_relation *r)
{
    const struct sl_typed_import *t = im->typed;
    const char *source = t->type[r->source].name, *target = t->type[r->target].name;
    char path[PATH_BYTES];
    if (!find(im, path, "raw/relations/%s___%s___%s/num-edge-list", source, r->name, target))
        return fail_missing(path);
    SL_TRY(read_table(im, o, path, parse_n_edges));
    r->n_wanted = o->n_edges;
    if (!find(im, path, "raw/relations/%s___%s___%s/edge", source, r->name, target))
        return fail_missing(path);
    SL_TRY(sl_typed_import_set_file(&r->edges, NULL, path));
    if (!find(im, path, "raw/relations/%s___%s___%s/edge-feat", source, r->name, target) ||
        !reads_edge_features(im, "edge-feat"))
        return SL_OK;
    return sl_typed_import_set_file(&r->feat, NULL, path);
}

static int find_graph(struct sl_import *im, struct ogb_typed *o)
{
    struct sl_typed_import *t = im->typed;
    char path[PATH_BYTES];
    if (!find(im, path, "raw/num-node-dict"))
        return fail_missing(path);
    SL_TRY(read_table(im, o, path, parse_types));
    find(im, path, "raw/triplet-type-list");
    SL_TRY(read_table(im, o, path, parse_relation));
    for (uint32_t i = 0; i < t->n_relations; i++)
        SL_TRY(find_relation(im, o, &t->relation[i]));
    for (uint32_t i = 0; i < t->n_types; i++)
        if (find(im, path, "raw/node-feat/%s/node-feat", t->type[i].name))
            SL_TRY(sl_typed_import_set_file(&t->type[i].feat, NULL, path));
    return SL_OK;
}

// ---- the binary layout --------------------------------------------------------------------------

// A list with the one number of the one graph.
int sl_ogb_get_size(const struct sl_zip *zip, const char *key, uint64_t *out)
{
    const struct sl_array_place place = {.zip = zip, .key = key};
    int64_t x[1];
    uint64_t n = 0;
    int rc = sl_array_get_numbers(&place, 1, x, &n);
    if (rc == SL_EFORMAT && n > 1)
        return sl_fail(SL_EUNSUPPORTED,
                       "import %s: %s: %" PRIu64 " graphs: wanted a node property prediction data "
                       "set, which has one",
                       sl_zip_path(zip), key, n);
    SL_TRY(rc);
    if (x[0] < 0)
        return sl_fail(SL_EFORMAT, "import %s: %s: found %" PRId64 ": wanted a size",
                       sl_zip_path(zip), key, x[0]);
    *out = (uint64_t)x[0];
    return SL_OK;
}

static int open_zip(struct sl_import *im, const char *name, struct sl_zip **out)
{
    char path[PATH_BYTES];
    return is_there(im, name, path) ? sl_zip_open(path, out) : fail_missing(path);
}

// The name of a member without ".npy"; false behind the last one.
static bool get_key(const struct sl_zip *zip, size_t i, char key[KEY_BYTES])
{
    if (i >= sl_zip_count(zip))
        return false;
    snprintf(key, KEY_BYTES, "%s", sl_zip_name(zip, i));
    const size_t n = strlen(key);
    if (n > 4 && strcmp(key + n - 4, ".npy") == 0)
        key[n - 4] = '\0';
    return true;
}

static int add_zipped_relation(struct sl_import *im, const struct ogb_typed *o, const char *key)
{
    const char *from = sl_zip_path(o->zip[EDGES]);
    char words[KEY_BYTES], *at = words, *word[3];
    struct sl_import_relation *r;
    snprintf(words, sizeof words, "%s", key);
    for (int i = 0; i < 3; i++) {
        char *end = i < 2 && at ? strstr(at, "___") : NULL;
        word[i] = at;
        at = end ? end + 3 : NULL;
        if (end)
            *end = '\0';
    }
    if (!word[2])
        return sl_fail(SL_EFORMAT, "import %s: found '%s': wanted source___relation___target", from,
                       key);
    SL_TRY(sl_typed_import_add_relation(im, from, word[0], word[1], word[2], &r));
    SL_TRY(sl_ogb_get_size(o->zip[N_EDGES], key, &r->n_wanted));
    r->shape = SL_EDGES_2_E;
    if (o->zip[EDGE_FEATURES] && sl_array_has_member(o->zip[EDGE_FEATURES], key))
        SL_TRY(sl_typed_import_set_member(&r->feat, o->zip[EDGE_FEATURES], key));
    return sl_typed_import_set_member(&r->edges, o->zip[EDGES], key);
}

static int find_zipped_graph(struct sl_import *im, struct ogb_typed *o)
{
    struct sl_import_type *type;
    char key[KEY_BYTES], path[PATH_BYTES];
    uint64_t n;
    SL_TRY(open_zip(im, "raw/num_nodes_dict.npz", &o->zip[N_NODES]));
    SL_TRY(open_zip(im, "raw/num_edges_dict.npz", &o->zip[N_EDGES]));
    SL_TRY(open_zip(im, SL_OGB_TYPED_EDGES, &o->zip[EDGES]));
    if (is_there(im, "raw/node_feat_dict.npz", path))
        SL_TRY(sl_zip_open(path, &o->zip[FEATURES]));
    if (is_there(im, "raw/edge_feat_dict.npz", path) &&
        reads_edge_features(im, "edge_feat_dict.npz"))
        SL_TRY(sl_zip_open(path, &o->zip[EDGE_FEATURES]));
    for (size_t i = 0; get_key(o->zip[N_NODES], i, key); i++) {
        SL_TRY(sl_ogb_get_size(o->zip[N_NODES], key, &n));
        SL_TRY(sl_typed_import_add_type(im, sl_zip_path(o->zip[N_NODES]), key, n, &type));
        if (o->zip[FEATURES] && sl_array_has_member(o->zip[FEATURES], key))
            SL_TRY(sl_typed_import_set_member(&type->feat, o->zip[FEATURES], key));
    }
    for (size_t i = 0; get_key(o->zip[EDGES], i, key); i++)
        SL_TRY(add_zipped_relation(im, o, key));
    return SL_OK;
}

static int read_zipped_labels(struct sl_import *im, struct ogb_typed *o, enum sl_task task)
{
    struct sl_import_file file = {0};
    char key[KEY_BYTES], path[PATH_BYTES];
    if (!is_there(im, "raw/node-label.npz", path))
        return SL_OK;
    SL_TRY(sl_zip_open(path, &o->zip[LABELS]));
    const uint32_t type =
        get_key(o->zip[LABELS], 0, key) ? sl_typed_import_find(im->typed, key) : SL_TYPES_MAX;
    if (type == SL_TYPES_MAX || sl_zip_count(o->zip[LABELS]) > 1)
        return sl_fail(SL_EFORMAT, "import %s: wanted labels of one type, under its name", path);
    sl_typed_import_put_first(im->typed, type);
    int rc = sl_typed_import_set_member(&file, o->zip[LABELS], key);
    if (rc == SL_OK)
        rc = sl_typed_import_labels(im, &file, task);
    free(file.path);
    return rc;
}

// split_dict.pt, in which either layout may have its split.
static int read_torch_lists(struct sl_import *im, const char *path)
{
    const struct sl_import_type *type = &im->typed->type[0];
    struct sl_torch_file *t;
    SL_TRY(sl_torch_open(path, &t));
    int rc = SL_OK;
    for (int s = 0; s < SL_SPLIT_COUNT && rc == SL_OK; s++) {
        struct sl_array_reader *r;
        rc = sl_torch_open_array(t, split_names[s], type->name, &r);
        if (rc < 0)
            break;
        rc = sl_array_put_list(im, r, (enum sl_split)s, type->n);
        sl_array_close(r);
    }
    sl_torch_close(t);
    return rc;
}

// ---- labels and lists ---------------------------------------------------------------------------

static int read_labels(struct sl_import *im, enum sl_task task)
{
    struct sl_typed_import *t = im->typed;
    struct sl_import_file file = {0};
    char path[PATH_BYTES], labels[PATH_BYTES] = "";
    uint32_t of = 0;
    for (uint32_t i = 0; i < t->n_types; i++) {
        if (!find(im, path, "raw/node-label/%s/node-label", t->type[i].name))
            continue;
        if (labels[0])
            return sl_fail(
                SL_EUNSUPPORTED,
                "import %s: types %s and %s have labels: wanted labels of one type: move "
                "the others away",
                im->source, t->type[of].name, t->type[i].name);
        of = i;
        strcpy(labels, path);
    }
    if (!labels[0])
        return SL_OK;
    sl_typed_import_put_first(t, of);
    int rc = sl_typed_import_set_file(&file, NULL, labels);
    if (rc == SL_OK)
        rc = sl_typed_import_labels(im, &file, task);
    free(file.path);
    return rc;
}

static int read_lists(struct sl_import *im, const char *scheme)
{
    const struct sl_typed_import *t = im->typed;
    char path[PATH_BYTES], name[512];
    if (!t->has_labels || !scheme[0] || im->split)
        return SL_OK;
    snprintf(name, sizeof name, "split/%s/split_dict.pt", scheme);
    if (is_there(im, name, path))
        return read_torch_lists(im, path);
    for (int s = 0; s < SL_SPLIT_COUNT; s++) {
        struct sl_import_file file = {0};
        if (!find(im, path, "split/%s/%s/%s", scheme, t->type[0].name, split_names[s]))
            return fail_missing(path);
        int rc = sl_typed_import_set_file(&file, NULL, path);
        if (rc == SL_OK)
            rc = sl_typed_import_list(im, &file, (enum sl_split)s);
        free(file.path);
        SL_TRY(rc);
    }
    return SL_OK;
}

static int read_all(struct sl_import *im, struct ogb_typed *o, enum sl_task task,
                    const char *scheme)
{
    char path[PATH_BYTES];
    const bool binary = is_there(im, SL_OGB_TYPED_EDGES, path);
    SL_TRY((binary ? find_zipped_graph : find_graph)(im, o));
    SL_TRY(binary ? read_zipped_labels(im, o, task) : read_labels(im, task));
    SL_TRY(read_lists(im, scheme));
    return sl_typed_import_finish(im);
}

int sl_ogb_typed_read(struct sl_import *im, enum sl_task task, const char *scheme)
{
    SL_TRY(sl_typed_import_begin(im));
    struct ogb_typed *o = calloc(1, sizeof *o);
    if (!o)
        return sl_fail(SL_ENOMEM, "import %s: no memory", im->source);
    int rc = read_all(im, o, task, scheme);
    for (int i = 0; i < ZIPS; i++)
        sl_zip_close(o->zip[i]);
    free(o);
    return rc;
}
