/*
 * DGL's CSVDataset: a directory with a meta.yaml that names csv files by paths relative to it:
 *
 *   dataset_name, separator (a comma unless given), version (1.0.0)
 *   node_data    entries: file_name, ntype (_V), node_id_field (node_id), graph_id_field
 *   edge_data    entries: file_name, etype ([_V, _E, _V]), src_id_field (src_id), dst_id_field
 *                (dst_id), graph_id_field
 *
 * The first line of each file names its columns; those of vertices with a meaning here are feat,
 * label, train_mask, val_mask, test_mask, and of edges weight and feat. Vertices of a type are
 * numbered as DGL does, by rising id (id_table.h). With one type and one relation the data set is a
 * plain one. Several graphs in one data set are refused.
 *
 * Features of edges are kept where edges have no weights; then a file of edges is read three times:
 * counted, for its features and for its edges.
 *
 * A file of vertices is read twice, for the ids and for the rest, which goes through a sort where
 * its rows do not stand in the order of the ids.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/narrow.h"
#include "dataset/dgl_vertices.h"
#include "dataset/edge_features.h"
#include "dataset/import_vertices.h"
#include "dataset/name_key.h"
#include "dataset/typed_import.h"
#include "dataset/vertex_sink.h"
#include "dataset/yaml_reader.h"

enum { PATH_BYTES = 4352 };

struct relation {
    struct sl_csv_table table;
    struct dgl_csv *of;
    const char *type[3]; // source, name, target
    const struct sl_id_table *ends[2];
    int end[2], weight, graph; // columns, -1: none
    struct sl_dgl_features features;
    uint64_t n_rows; // counted
    struct sl_feature_sink *to;
};

struct dgl_csv {
    struct sl_dgl_columns columns; // options
    const char *weight, *edge_features;

    cJSON *root;
    char path[PATH_BYTES]; // of meta.yaml
    char separator;
    uint32_t n_types, n_relations, first; // first: the type with labels, or n_types
    struct sl_dgl_vertices *type;         // (n_types)
    struct relation *relation;            // (n_relations)
    char graph_id[64];                    // of the first row; "": none yet
    bool names;                           // were written,
    bool ids;                             // as numbers, too
};

// ---- meta.yaml ----------------------------------------------------------------------------------

static int fail_key(const struct dgl_csv *g, const char *list, int i, const char *what)
{
    char at[24] = "";
    if (i >= 0)
        snprintf(at, sizeof at, "[%d]", i);
    return sl_fail(SL_EFORMAT, "import %s: %s%s: %s", g->path, list, at, what);
}

static const cJSON *get(const cJSON *object, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsNull(item) ? NULL : item;
}

static const char *get_text(const cJSON *object, const char *key, const char *otherwise)
{
    const cJSON *item = get(object, key);
    return item ? cJSON_GetStringValue(item) : otherwise;
}

static int get_separator(struct dgl_csv *g)
{
    const char *text = get_text(g->root, "separator", ",");
    if (!text || strlen(text) != 1 || !strchr(",;\t |:", text[0]))
        return fail_key(g, "separator", -1,
                        "wanted one of ',', ';', '|', ':', a blank and \"\\t\" (in double quotes)");
    g->separator = text[0];
    return SL_OK;
}

static int check_version(const struct dgl_csv *g)
{
    const char *version = get_text(g->root, "version", "1.0.0");
    if (version && strcmp(version, "1.0.0") == 0)
        return SL_OK;
    return fail_key(g, "version", -1, "wanted 1.0.0, the only one that DGL has had");
}

static int get_list(const struct dgl_csv *g, const char *key, const cJSON **out, uint32_t *n)
{
    const cJSON *item;
    *out = get(g->root, key);
    *n = cJSON_IsArray(*out) ? (uint32_t)cJSON_GetArraySize(*out) : 0;
    bool objects = *n > 0;
    cJSON_ArrayForEach(item, *out)
    {
        objects = objects && cJSON_IsObject(item);
    }
    return objects ? SL_OK : fail_key(g, key, -1, "wanted a list with an entry for each csv file");
}

static int open_table(struct sl_import *im, struct dgl_csv *g, const cJSON *entry, const char *list,
                      int i, struct sl_csv_table *t)
{
    const char *name = get_text(entry, "file_name", NULL);
    if (!name || !*name)
        return fail_key(g, list, i, "wanted \"file_name\"");
    return sl_csv_table_open(t, im, im->source, name, g->separator);
}

// The column that an entry names under `key`, else `otherwise`; -1 unless it has to be there.
static int get_column(const struct dgl_csv *g, const cJSON *entry, const char *list, int i,
                      const struct sl_csv_table *t, const char *key, const char *otherwise,
                      bool needed, int *out)
{
    const char *name = get_text(entry, key, otherwise);
    if (!name)
        return fail_key(g, list, i, "wanted text as names of columns");
    *out = sl_csv_table_find(t, name);
    if (*out >= 0 || !needed)
        return SL_OK;
    return sl_fail(SL_EFORMAT,
                   "import %s: line 1: found no column '%.80s': wanted one, or another name as "
                   "\"%s\" in meta.yaml",
                   t->csv.path, name, key);
}

static int open_type(struct sl_import *im, struct dgl_csv *g, const cJSON *entry, int i)
{
    static const char *const list = "node_data";
    struct sl_dgl_vertices *v = &g->type[i];
    struct sl_csv_table *t = &v->table;
    v->name = get_text(entry, "ntype", "_V");
    if (!v->name)
        return fail_key(g, list, i, "wanted \"ntype\" as text");
    SL_TRY(open_table(im, g, entry, list, i, t));
    SL_TRY(get_column(g, entry, list, i, t, "node_id_field", "node_id", true, &v->id));
    SL_TRY(get_column(g, entry, list, i, t, "graph_id_field", "graph_id", false, &v->graph));
    return sl_dgl_vertices_choose(v, &g->columns);
}

// Columns that are features: those that are asked for; else "feat", where nothing is against it.
static int choose_features(const struct sl_import *im, const struct dgl_csv *g, struct relation *r)
{
    if (g->edge_features)
        return sl_dgl_features_choose(&r->features, &r->table, "edge-features", g->edge_features);
    if (r->weight < 0 && !sl_edge_features_forbidden(im))
        sl_dgl_features_add(&r->features, sl_csv_table_find(&r->table, "feat"));
    return SL_OK;
}

static bool is_feature(const struct relation *r, int c)
{
    int i = 0;
    while (i < r->features.n && r->features.column[i] != c)
        i++;
    return i < r->features.n;
}

static int open_relation(struct sl_import *im, struct dgl_csv *g, const cJSON *entry, int i)
{
    static const char *const list = "edge_data", *const plain[3] = {"_V", "_E", "_V"};
    struct relation *r = &g->relation[i];
    struct sl_csv_table *t = &r->table;
    const cJSON *etype = get(entry, "etype");
    const bool three = cJSON_GetArraySize(etype) == 3;
    r->of = g;
    for (int k = 0; k < 3; k++) {
        r->type[k] = etype ? cJSON_GetStringValue(cJSON_GetArrayItem(etype, k)) : plain[k];
        if (!r->type[k] || (etype && !three))
            return fail_key(g, list, i, "wanted \"etype\" as [source, relation, target]");
    }
    SL_TRY(open_table(im, g, entry, list, i, t));
    SL_TRY(get_column(g, entry, list, i, t, "src_id_field", "src_id", true, &r->end[0]));
    SL_TRY(get_column(g, entry, list, i, t, "dst_id_field", "dst_id", true, &r->end[1]));
    SL_TRY(get_column(g, entry, list, i, t, "graph_id_field", "graph_id", false, &r->graph));
    r->weight = im->weights ? sl_csv_table_find(t, g->weight ? g->weight : "weight") : -1;
    SL_TRY(choose_features(im, g, r));
    for (int c = 0; c < t->n_columns; c++)
        if (c != r->end[0] && c != r->end[1] && c != r->graph && c != r->weight &&
            !is_feature(r, c))
            sl_import_leave_out(im, "%s of %s", t->names[c][0] ? t->names[c] : "a column",
                                r->type[1]);
    return SL_OK;
}

static int check_weight_column(const struct dgl_csv *g)
{
    bool found = !g->weight;
    for (uint32_t i = 0; i < g->n_relations; i++)
        found |= g->relation[i].weight >= 0;
    if (found)
        return SL_OK;
    return sl_fail(SL_EINVAL, "import %s: --weight %s: no file of edges has that column", g->path,
                   g->weight);
}

static int check_edge_features(const struct dgl_csv *g)
{
    bool found = !g->edge_features || !g->edge_features[0];
    for (uint32_t i = 0; i < g->n_relations; i++)
        found |= g->relation[i].features.n > 0;
    if (found)
        return SL_OK;
    return sl_fail(SL_EINVAL, "import %s: --edge-features %s: no file of edges has such a column",
                   g->path, g->edge_features);
}

static int open_all(struct sl_import *im, struct dgl_csv *g)
{
    const cJSON *types, *relations, *item;
    int i = 0;
    SL_TRY(get_list(g, "node_data", &types, &g->n_types));
    SL_TRY(get_list(g, "edge_data", &relations, &g->n_relations));
    if (g->n_types > SL_TYPES_MAX || g->n_relations > SL_RELATIONS_MAX)
        return fail_key(g, "node_data", -1, "more types or relations than are supported");
    g->type = calloc(g->n_types, sizeof *g->type);
    g->relation = calloc(g->n_relations, sizeof *g->relation);
    if (!g->type || !g->relation)
        return sl_fail(SL_ENOMEM, "import %s: no memory", g->path);
    cJSON_ArrayForEach(item, types)
    {
        SL_TRY(open_type(im, g, item, i++));
    }
    i = 0;
    cJSON_ArrayForEach(item, relations)
    {
        SL_TRY(open_relation(im, g, item, i++));
    }
    SL_TRY(check_weight_column(g));
    SL_TRY(check_edge_features(g));
    return sl_dgl_vertices_choose_labels(g->type, g->n_types, &g->columns, g->path, &g->first);
}

// ---- one graph ----------------------------------------------------------------------------------

// Every row is of the same graph.
static int check_graph(char known[64], const struct sl_csv_table *t, int column)
{
    char text[64];
    if (column < 0)
        return SL_OK;
    const struct sl_line_field *f = &t->fields.at[column];
    snprintf(text, sizeof text, "%.*s", (int)SL_MIN(f->n, sizeof text - 1), f->text);
    if (!known[0])
        memcpy(known, text, sizeof text);
    if (strcmp(known, text) == 0)
        return SL_OK;
    return sl_fail(SL_EUNSUPPORTED,
                   "import %s: line %" PRIu64
                   ": found graph '%s' after graph '%s': several graphs in one data set are not "
                   "supported: wanted the rows of one, in files of their own",
                   t->csv.path, t->csv.line, text, known);
}

// ---- ids ----------------------------------------------------------------------------------------

static int fail_twice(const struct sl_dgl_vertices *v, uint64_t line)
{
    return sl_fail(SL_EFORMAT,
                   "import %s: line %" PRIu64 ": found an id of column %s a second time: wanted "
                   "one row for each vertex",
                   v->table.csv.path, line, v->table.names[v->id]);
}

static int take_id(struct sl_csv_table *t)
{
    struct sl_dgl_vertices *v = t->context;
    const struct sl_line_field *f = &t->fields.at[v->id];
    bool twice;
    if (f->n == 0 || f->n > SL_NAME_MAX_BYTES)
        return sl_csv_table_fail(t, v->id, "an id of 1 to 4096 bytes");
    SL_TRY(check_graph(v->graph_id, t, v->graph));
    int rc = sl_id_table_put(&v->ids, f->text, f->n, &twice);
    if (rc < 0)
        return sl_fail_prefix(rc, "import %s", t->csv.path);
    return twice ? fail_twice(v, t->csv.line) : SL_OK;
}

static int read_ids(struct sl_import *im, struct dgl_csv *g, struct sl_dgl_vertices *v)
{
    uint64_t twice;
    const uint64_t left = im->memory_bytes / 2 - SL_MIN(im->memory_held, im->memory_bytes / 2);
    sl_id_table_init(&v->ids, left / 2); // as much again while they are sorted
    v->graph_id = g->graph_id;
    SL_TRY(sl_csv_table_read(&v->table, v->name, take_id, v));
    SL_TRY(sl_id_table_finish(&v->ids, &twice));
    if (twice != UINT64_MAX)
        return fail_twice(v, twice + 2);
    if (v->ids.n > (uint64_t)SL_IMPORT_MAX_ID + 1)
        return sl_fail(SL_EUNSUPPORTED,
                       "import %s: found %" PRIu64 " vertices: wanted at most %" PRIu32,
                       v->table.csv.path, v->ids.n, SL_IMPORT_MAX_ID + 1);
    im->memory_held += sl_id_table_bytes(&v->ids);
    return SL_OK;
}

// Type `first` comes first.
static uint32_t in_order(const struct dgl_csv *g, uint32_t i)
{
    if (g->first == g->n_types)
        return i;
    return i == 0 ? g->first : i - (i <= g->first);
}

// ids as numbers beside the names.
static int write_numbers(struct sl_import *im, uint64_t n)
{
    char path[SL_STAGING_PATH_BYTES];
    struct sl_npy_writer *w = NULL;
    struct sl_names names;
    const char *text;
    size_t n_text;
    SL_TRY(sl_names_open(im->making.st.dir, SL_NAMES_VERTEX, n, &names));
    int rc = sl_npy_writer_open(sl_staging_file(&im->making.st, "node_id.npy", path), SL_DTYPE_I64,
                                1, &n, &w);
    for (uint64_t i = 0; i < n && rc == SL_OK; i++) {
        char digits[32] = "";
        rc = sl_names_get(&names, i, &text, &n_text);
        if (rc < 0)
            break;
        memcpy(digits, text, SL_MIN(n_text, sizeof digits - 1));
        const int64_t id = strtoll(digits, NULL, 10);
        rc = sl_npy_writer_append(w, &id, sizeof id);
    }
    sl_names_close(&names);
    return sl_npy_writer_close(&w, rc);
}

// Ids that are other than the vertices' numbers are kept: of all types, one after another.
static int write_names(struct sl_import *im, struct dgl_csv *g)
{
    struct sl_names_writer names = {0};
    bool dense = true;
    uint64_t n = 0;
    g->ids = true;
    for (uint32_t i = 0; i < g->n_types; i++) {
        dense = dense && g->type[i].ids.dense;
        g->ids = g->ids && g->type[i].ids.whole;
        n += g->type[i].ids.n;
    }
    if (dense)
        return SL_OK;
    int rc = sl_names_writer_open(&names, im->making.st.dir, SL_NAMES_VERTEX);
    for (uint32_t i = 0; i < g->n_types && rc == SL_OK; i++)
        rc = sl_id_table_write(&g->type[in_order(g, i)].ids, &names);
    SL_TRY(sl_names_writer_close(&names, rc));
    g->names = true;
    return g->ids ? write_numbers(im, n) : SL_OK;
}

// ---- edges --------------------------------------------------------------------------------------

static int take_edge(struct sl_csv_table *t)
{
    const struct relation *r = t->context;
    uint32_t v[2], n;
    double weight = 1;
    SL_TRY(check_graph(r->of->graph_id, t, r->graph));
    for (int e = 0; e < 2; e++) {
        const struct sl_line_field *f = &t->fields.at[r->end[e]];
        if (!sl_id_table_find(r->ends[e], f->text, f->n, &v[e])) {
            char wanted[160];
            snprintf(wanted, sizeof wanted, "the id of a vertex of type %.64s", r->type[2 * e]);
            return sl_csv_table_fail(t, r->end[e], wanted);
        }
    }
    if (r->weight >= 0) {
        SL_TRY(sl_csv_table_numbers(t, r->weight, 1, &weight, &n));
        if (n != 1 || !sl_import_is_weight(weight))
            return sl_csv_table_fail(t, r->weight,
                                     "a weight from 0 to " SL_FLOAT32_LARGEST
                                     " (--no-weights reads none)");
    }
    return sl_edge_sink_put(&t->csv.im->edge_sink, v[0], v[1], weight);
}

static int read_edges(struct sl_import *im, void *of)
{
    struct relation *r = of;
    SL_TRY(sl_import_start_edges(im));
    return sl_csv_table_read(&r->table, r->type[1], take_edge, r);
}

static int count_row(struct sl_csv_table *t)
{
    struct relation *r = t->context;
    r->n_rows++;
    return SL_OK;
}

static int take_features(struct sl_csv_table *t)
{
    struct relation *r = t->context;
    if (!r->features.row) {
        SL_TRY(sl_dgl_features_open(&r->features, t));
        SL_TRY(
            sl_feature_sink_open(r->to, t->csv.im, r->n_rows, r->features.dim, false, t->csv.path));
    }
    SL_TRY(sl_dgl_features_scan(&r->features, t));
    return sl_feature_sink_put(r->to, r->features.row, t->csv.path);
}

// Features of edges, in the order of the file.
static int put_features(struct sl_import *im, void *of)
{
    struct relation *r = of;
    struct sl_feature_sink to = {.im = im};
    r->to = &to;
    r->n_rows = 0;
    SL_TRY(sl_csv_table_read(&r->table, r->type[1], count_row, r));
    SL_TRY(sl_dgl_features_begin(&r->features, &r->table));
    int rc = sl_csv_table_read(&r->table, r->type[1], take_features, r);
    rc = sl_feature_sink_close(&to, rc, r->table.csv.path);
    sl_dgl_features_end(&r->features);
    return rc;
}

static int find_ends(const struct dgl_csv *g, struct relation *r, int number)
{
    for (int e = 0; e < 2; e++) {
        for (uint32_t i = 0; i < g->n_types; i++)
            if (strcmp(g->type[i].name, r->type[2 * e]) == 0)
                r->ends[e] = &g->type[i].ids;
        if (!r->ends[e])
            return fail_key(g, "edge_data", number,
                            e ? "the target of its etype is no ntype of node_data"
                              : "the source of its etype is no ntype of node_data");
    }
    return SL_OK;
}

// ---- the whole ----------------------------------------------------------------------------------

static int read_plain(struct sl_import *im, struct dgl_csv *g)
{
    const uint64_t n = g->type[0].ids.n;
    if (im->reverse)
        return SL_OK; // refused by whoever called
    SL_TRY(sl_dgl_vertices_read(&g->type[0], im, (enum sl_task)g->columns.task, g->first == 0));
    SL_TRY(sl_import_finish_vertices(im, n));
    im->edge_sink.weighted = g->relation[0].weight >= 0;
    if (g->relation[0].features.n > 0)
        SL_TRY(sl_edge_features_take(im, g->edge_features ? "--edge-features" : "feat",
                                     g->edge_features, put_features, &g->relation[0]));
    SL_TRY(read_edges(im, &g->relation[0]));
    return sl_import_finish_edges(im, n);
}

static int read_typed(struct sl_import *im, struct dgl_csv *g)
{
    struct sl_typed_import *t = im->typed;
    struct sl_import_type *type;
    struct sl_import_relation *r;
    for (uint32_t i = 0; i < g->n_types; i++) {
        struct sl_dgl_vertices *v = &g->type[in_order(g, i)];
        SL_TRY(sl_typed_import_add_type(im, g->path, v->name, v->ids.n, &type));
        sl_typed_import_begin_features(im, type);
        SL_TRY(sl_typed_import_end_features(
            im, type,
            sl_dgl_vertices_read(v, im, (enum sl_task)g->columns.task, i == 0 && t->has_labels)));
    }
    for (uint32_t i = 0; i < g->n_relations; i++) {
        struct relation *of = &g->relation[i];
        SL_TRY(
            sl_typed_import_add_relation(im, g->path, of->type[0], of->type[1], of->type[2], &r));
        r->read = read_edges;
        r->of = of;
        r->weighted = of->weight >= 0;
        r->put_features = of->features.n > 0 ? put_features : NULL;
    }
    return sl_typed_import_finish(im);
}

static int read_dgl_csv(struct sl_import *im, void *context)
{
    struct dgl_csv *g = context;
    snprintf(g->path, sizeof g->path, "%s/meta.yaml", im->source);
    SL_TRY(sl_yaml_read(g->path, &g->root));
    if (!cJSON_IsObject(g->root))
        return fail_key(g, "the file", -1, "wanted 'dataset_name: ...', 'node_data: ...', ...");
    if (!im->making.name)
        im->making.name = get_text(g->root, "dataset_name", NULL);
    SL_TRY(check_version(g));
    SL_TRY(get_separator(g));
    SL_TRY(open_all(im, g));
    const bool typed = g->n_types > 1 || g->n_relations > 1;
    if (typed) {
        SL_TRY(sl_typed_import_begin(im));
        im->typed->has_labels = g->first < g->n_types;
    }
    for (uint32_t i = 0; i < g->n_types; i++)
        SL_TRY(read_ids(im, g, &g->type[i]));
    SL_TRY(write_names(im, g));
    for (uint32_t i = 0; i < g->n_relations; i++)
        SL_TRY(find_ends(g, &g->relation[i], (int)i));
    if (get(g->root, "graph_data"))
        sl_import_leave_out(im, "graph_data");
    return typed ? read_typed(im, g) : read_plain(im, g);
}

static void summarise(const struct sl_import *im, const void *context, struct sl_table *t)
{
    const struct dgl_csv *g = context;
    sl_import_summarise_vertices(&im->vertices, t);
    if (g->names)
        sl_table_row(t, "ids|vertices are numbered by rising id: the ids are in vertex_names.npy%s",
                     g->ids ? ", as numbers in node_id.npy" : "");
    if (im->left_out[0])
        sl_table_row(t, "left out|%s", im->left_out);
}

static void close_dgl_csv(void *context)
{
    struct dgl_csv *g = context;
    for (uint32_t i = 0; g->type && i < g->n_types; i++)
        sl_dgl_vertices_fini(&g->type[i]);
    for (uint32_t i = 0; g->relation && i < g->n_relations; i++)
        sl_csv_table_close(&g->relation[i].table);
    free(g->type);
    free(g->relation);
    cJSON_Delete(g->root);
}

#define AT(kind, field) SL_OPTION_AT(kind, dgl_csv, field)
// clang-format off
static const struct sl_option options[] = {
    {.name = "features", AT(TEXT, columns.features), .placeholder = "COLUMNS",
     .may_be_empty = true,
     .help = "columns of vertices that are their features, between commas, side by side; a type "
             "has those of them that it has, '' for none; default: 'feat' or the only column left"},
    {.name = "label", AT(TEXT, columns.label), .placeholder = "COLUMN",
     .help = "the column of vertices that is their label; default: 'label'"},
    {.name = "label-type", AT(TEXT, columns.label_type), .placeholder = "TYPE",
     .help = "the type of vertices whose labels are learned, where several types have some"},
    {.name = "weight", AT(TEXT, weight), .placeholder = "COLUMN",
     .help = "the column of edges that is their weight; default: 'weight'"},
    {.name = "edge-features", AT(TEXT, edge_features), .placeholder = "COLUMNS",
     .may_be_empty = true,
     .help = "columns of edges that are their features, '' for none; default: 'feat', where edges "
             "have no weights"},
    {.name = "task", AT(CHOICE, columns.task), .choices = sl_label_tasks,
     .help = sl_label_tasks_help},
    {0},
};
// clang-format on

const struct sl_import_format sl_import_dgl_csv = {
    .name = "dgl-csv",
    .help = "a CSVDataset of DGL (meta.yaml and csv files)",
    .source = "DIR",
    .about =
        "Reads what dgl.data.CSVDataset reads: DIR holds meta.yaml, which names a csv file for "
        "each type of vertices (node_id, feat, label, train_mask, val_mask, test_mask) and each "
        "relation (src_id, dst_id, weight, feat). Ids are numbers or text, and vertices are "
        "numbered by "
        "rising id, as DGL does. Cells hold numbers, or lists of them as \"0.5,0.25\".",
    .example = "sluice import dgl-csv movies --features age,income --reverse --out data/movies",
    .has_features = true,
    .has_weights = true,
    .context_bytes = sizeof(struct dgl_csv),
    .options = options,
    .read = read_dgl_csv,
    .summarise = summarise,
    .close = close_dgl_csv,
};
