/*
 * OGB's csv layout of graphs of several types, as downloaded and unpacked:
 *
 *   SRC/raw/num-node-dict.csv.gz                 a line of types, a line of their vertices
 *   SRC/raw/triplet-type-list.csv.gz             source,relation,target a line
 *   SRC/raw/relations/S___R___T/edge.csv.gz      source,target, numbers within their types
 *                             /num-edge-list.csv.gz
 *   SRC/raw/node-feat/TYPE/node-feat.csv.gz      (optional)
 *   SRC/raw/node-label/TYPE/node-label.csv.gz    (optional; of one type)
 *   SRC/split/SCHEME/TYPE/{train,valid,test}.csv.gz
 *
 * Each may also be there without .gz. What else lies there (years, kinds of edges) is left out.
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
#include "dataset/import_vertices.h"
#include "dataset/line_scan.h"
#include "dataset/typed_import.h"

enum { PATH_BYTES = SL_CSV_PATH_BYTES };

struct ogb_typed {
    char names[SL_TYPES_MAX][SL_TYPE_NAME_BYTES]; // of the line of types
    uint32_t n_names;
    uint64_t n_edges; // of a num-edge-list
};

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

bool sl_ogb_is_typed(const struct sl_import *im)
{
    char path[PATH_BYTES];
    return find(im, path, "raw/triplet-type-list");
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
    return sl_typed_import_set_file(&r->edges, NULL, path);
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
    static const char *const names[SL_SPLIT_COUNT] = {"train", "valid", "test"};
    const struct sl_typed_import *t = im->typed;
    char path[PATH_BYTES];
    if (!t->has_labels || !scheme[0] || im->split)
        return SL_OK;
    for (int s = 0; s < SL_SPLIT_COUNT; s++) {
        struct sl_import_file file = {0};
        if (!find(im, path, "split/%s/%s/%s", scheme, t->type[0].name, names[s]))
            return fail_missing(path);
        int rc = sl_typed_import_set_file(&file, NULL, path);
        if (rc == SL_OK)
            rc = sl_typed_import_list(im, &file, (enum sl_split)s);
        free(file.path);
        SL_TRY(rc);
    }
    return SL_OK;
}

int sl_ogb_typed_read(struct sl_import *im, enum sl_task task, const char *scheme)
{
    SL_TRY(sl_typed_import_begin(im));
    struct ogb_typed *o = calloc(1, sizeof *o);
    if (!o)
        return sl_fail(SL_ENOMEM, "import %s: no memory", im->source);
    int rc = find_graph(im, o);
    free(o);
    SL_TRY(rc);
    SL_TRY(read_labels(im, task));
    SL_TRY(read_lists(im, scheme));
    return sl_typed_import_finish(im);
}
