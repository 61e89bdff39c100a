/*
 * The raw layout of DGL's GraphBolt, OnDiskDataset: a directory with a metadata.yaml that names
 * everything else by paths relative to it:
 *
 *   graph.nodes          one entry: num
 *   graph.edges          one entry: format csv (source,destination a line, no heading) or numpy
 *                        ((2, E); (E, 2) is read too), path
 *   feature_data         entries with domain node, name, format numpy, path: one of them becomes
 *                        node_feat.npy
 *   tasks                of the first: train_set, validation_set, test_set, each one entry whose
 *                        data is `seeds` (once called seed_nodes; vertices) and `labels`
 *
 * Older files do not name the data of a set: the first is then seeds, the second labels. A
 * data set has labels only where one of its sets says so; other vertices are unlabelled. Of a graph
 * of several types each entry has a type: of edges "source:relation:target"; sets are those of one
 * type. Tasks on edges are refused by name.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/interrupt.h"
#include "dataset/array_sink.h"
#include "dataset/csv_reader.h"
#include "dataset/line_scan.h"
#include "dataset/import_vertices.h"
#include "dataset/typed_import.h"
#include "dataset/yaml_reader.h"

enum { PATH_BYTES = 4608, NAME_BYTES = 128, BATCH = 1024 };

struct graphbolt {
    const char *feature; // which one; NULL = the only one, or "feat"
    int task;            // enum sl_task, NONE = by the labels' shape

    cJSON *root;
    char yaml[PATH_BYTES];
    uint64_t n_nodes;
    struct sl_label_sink labels;
};

// Vertices and labels of one set, side by side.
struct task_set {
    struct sl_array_reader *seeds, *labels;
    char path[2][PATH_BYTES];
    double *rows; // (BATCH, columns)
};

static const char *const set_keys[SL_SPLIT_COUNT] = {"train_set", "validation_set", "test_set"};

// ---- metadata.yaml ------------------------------------------------------------------------------

static int fail_field(const struct graphbolt *g, const char *field, const char *what)
{
    return sl_fail(SL_EFORMAT, "import %s: %s: %s", g->yaml, field, what);
}

static const cJSON *get(const cJSON *object, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsNull(item) ? NULL : item;
}

static const char *get_text(const cJSON *object, const char *key)
{
    return cJSON_GetStringValue(get(object, key));
}

// The only entry of a list; a message about several lists their types.
static int get_only(const struct graphbolt *g, const cJSON *object, const char *key,
                    const char *field, const cJSON **out)
{
    const cJSON *list = get(object, key), *item;
    char types[256] = "";
    int n = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : 0;
    if (n == 1 && cJSON_IsObject(list->child)) {
        *out = list->child;
        return SL_OK;
    }
    if (n < 2)
        return fail_field(g, field, "wanted a list with one entry");
    cJSON_ArrayForEach(item, list)
    {
        const char *type = get_text(item, "type");
        size_t used = strlen(types);
        snprintf(types + used, sizeof types - used, "%s%s", used ? ", " : "", type ? type : "?");
    }
    return sl_fail(
        SL_EUNSUPPORTED,
        "import %s: %s: found %d types (%s): wanted one: a task on several types at once "
        "is not supported",
        g->yaml, field, n, types);
}

// format and path of an entry; `path` (PATH_BYTES) is relative to the directory.
static int get_file(const struct sl_import *im, const struct graphbolt *g, const cJSON *entry,
                    const char *field, const char *formats, char *path, const char **format)
{
    const char *name = get_text(entry, "path");
    char what[256];
    *format = get_text(entry, "format");
    if (!name || !*format)
        return fail_field(g, field, "wanted format and path");
    if (!strstr(formats, *format) || strlen(*format) < 3) {
        snprintf(what, sizeof what, "found format '%.40s': wanted %s%s", *format, formats,
                 strcmp(*format, "torch") == 0
                     ? ": in Python, numpy.save(path, torch.load(path).numpy())"
                     : "");
        return sl_fail(SL_EUNSUPPORTED, "import %s: %s: %s", g->yaml, field, what);
    }
    int n = name[0] == '/' ? snprintf(path, PATH_BYTES, "%s", name)
                           : snprintf(path, PATH_BYTES, "%s/%s", im->source, name);
    return n < PATH_BYTES ? SL_OK : fail_field(g, field, "the path is too long");
}

static int get_num(const struct graphbolt *g, const cJSON *nodes, uint64_t *out)
{
    const cJSON *num = get(nodes, "num");
    double x = cJSON_IsNumber(num) ? num->valuedouble : NAN;
    if (!(x >= 1) || x != floor(x))
        return fail_field(g, "graph.nodes.num", "wanted the number of vertices, at least 1");
    if (x > (double)SL_IMPORT_MAX_ID + 1)
        return sl_fail(SL_EUNSUPPORTED,
                       "import %s: graph.nodes.num: found %.0f vertices: wanted at most %" PRIu32,
                       g->yaml, x, SL_IMPORT_MAX_ID + 1);
    *out = (uint64_t)x;
    return SL_OK;
}

// Of a graph of one type.
static int get_n_nodes(struct graphbolt *g, const cJSON *graph)
{
    const cJSON *nodes;
    SL_TRY(get_only(g, graph, "nodes", "graph.nodes", &nodes));
    return get_num(g, nodes, &g->n_nodes);
}

// ---- edges and features -------------------------------------------------------------------------

static int parse_edge(struct sl_csv *c, const char **p)
{
    const struct graphbolt *g = c->context;
    return sl_csv_put_edge(c, p, sl_edge_ends_of(g->n_nodes), 0);
}

static int read_edges_csv(struct sl_import *im, struct graphbolt *g, const char *path)
{
    struct sl_csv *c = calloc(1, sizeof *c);
    if (!c)
        return sl_fail(SL_ENOMEM, "import graphbolt: no memory");
    c->im = im;
    c->context = g;
    snprintf(c->path, sizeof c->path, "%s", path);
    int rc = sl_import_start_edges(im);
    if (rc == SL_OK)
        rc = sl_csv_read(c, "edges", parse_edge);
    free(c);
    return rc;
}

static int check_form(const struct graphbolt *g)
{
    const cJSON *graph = get(g->root, "graph");
    if (!graph && get(g->root, "graph_topology"))
        return sl_fail(SL_EUNSUPPORTED,
                       "import %s: graph_topology: this is the preprocessed form: wanted the raw "
                       "data set, whose metadata.yaml says graph.nodes and graph.edges",
                       g->yaml);
    if (!cJSON_IsObject(graph))
        return fail_field(g, "graph", "wanted nodes and edges");
    return SL_OK;
}

static int read_edges(struct sl_import *im, struct graphbolt *g)
{
    const cJSON *graph = get(g->root, "graph"), *edges;
    const char *format;
    char path[PATH_BYTES];
    SL_TRY(get_only(g, graph, "edges", "graph.edges", &edges));
    SL_TRY(get_file(im, g, edges, "graph.edges", "csv or numpy", path, &format));
    const struct sl_array_place place = {.path = path};
    if (strcmp(format, "csv") == 0)
        SL_TRY(read_edges_csv(im, g, path));
    else
        SL_TRY(sl_array_put_edges(im, &place, NULL, SL_EDGES_EITHER, sl_edge_ends_of(g->n_nodes)));
    const cJSON *feature;
    cJSON_ArrayForEach(feature, get(graph, "feature_data"))
    {
        const char *name = get_text(feature, "name");
        sl_import_leave_out(im, "graph.feature_data %s", name ? name : "?");
    }
    return sl_import_finish_edges(im, g->n_nodes);
}

static bool is_of(const cJSON *feature, const char *type)
{
    const char *domain = get_text(feature, "domain"), *of = get_text(feature, "type");
    return domain && strcmp(domain, "node") == 0 && (!type || (of && strcmp(of, type) == 0));
}

// Features of vertices (of a type, or NULL) by name; those of edges and others are left out.
static int choose_feature(struct sl_import *im, const struct graphbolt *g, const char *type,
                          const cJSON **out)
{
    const cJSON *list = get(g->root, "feature_data"), *item, *feat = NULL;
    const char *wanted = g->feature ? g->feature : "feat";
    char names[256] = "";
    int n = 0;
    *out = NULL;
    cJSON_ArrayForEach(item, list)
    {
        const char *domain = get_text(item, "domain"), *name = get_text(item, "name");
        if (!domain || !name)
            return fail_field(g, "feature_data", "wanted domain and name in each entry");
        if (!is_of(item, type))
            continue;
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", n++ ? ", " : "", name);
        *out = item;
        feat = strcmp(name, wanted) == 0 ? item : feat;
    }
    if (feat || n != 1 || g->feature)
        *out = feat;
    if (!*out && (n > 1 || (g->feature && !type)))
        return sl_fail(SL_EINVAL, "import %s: feature_data: vertices have %s: %s %s", g->yaml,
                       n ? names : "no features",
                       g->feature ? "there is none of the name" : "give --feature with one of them",
                       g->feature ? g->feature : "");
    cJSON_ArrayForEach(item, list)
    {
        if (item != *out && (!type || is_of(item, type)))
            sl_import_leave_out(im, "%s %s", get_text(item, "domain"), get_text(item, "name"));
    }
    return SL_OK;
}

static int read_features(struct sl_import *im, struct graphbolt *g)
{
    const cJSON *feature;
    const char *format;
    char path[PATH_BYTES];
    SL_TRY(choose_feature(im, g, NULL, &feature));
    if (!feature)
        return SL_OK;
    SL_TRY(get_file(im, g, feature, "feature_data", "numpy", path, &format));
    const struct sl_array_place place = {.path = path};
    return sl_array_put_features(im, &place, g->n_nodes, false);
}

// ---- the task -----------------------------------------------------------------------------------

// What a set's data is, by name; without names by place.
static int find_set_files(struct sl_import *im, const struct graphbolt *g, const cJSON *set,
                          const char *field, struct task_set *t)
{
    const cJSON *item;
    const char *format;
    int n = 0;
    cJSON_ArrayForEach(item, get(set, "data"))
    {
        const char *name = get_text(item, "name");
        bool seeds = name ? strcmp(name, "seeds") == 0 || strcmp(name, "seed_nodes") == 0 : n == 0;
        bool labels = name ? strcmp(name, "labels") == 0 : n == 1;
        n++;
        if (name && (strncmp(name, "node_pairs", 10) == 0 || strncmp(name, "negative", 8) == 0))
            return sl_fail(SL_EUNSUPPORTED,
                           "import %s: %s: found '%.60s': a task on edges: wanted seeds that are "
                           "vertices, and labels",
                           g->yaml, field, name);
        if (seeds || labels)
            SL_TRY(get_file(im, g, item, field, "numpy", t->path[labels], &format));
        else
            sl_import_leave_out(im, "%s %s", field, name ? name : "?");
    }
    return t->path[0][0] ? SL_OK : fail_field(g, field, "wanted data with the name seeds");
}

static int open_set(struct sl_import *im, struct graphbolt *g, struct task_set *t)
{
    char shape[128];
    SL_TRY(sl_array_open_file(t->path[0], &t->seeds));
    const struct sl_npy_header *s = sl_array_header(t->seeds);
    if (s->ndim == 2 && s->shape[1] > 1)
        return sl_fail(SL_EUNSUPPORTED,
                       "import %s: found shape %s: seeds that are edges: wanted vertices, one "
                       "number each",
                       t->path[0], sl_npy_shape_text(s, shape, sizeof shape));
    if (!t->path[1][0])
        return SL_OK;
    SL_TRY(sl_array_open_file(t->path[1], &t->labels));
    const struct sl_npy_header *l = sl_array_header(t->labels);
    uint64_t columns = l->ndim == 2 ? l->shape[1] : 1;
    if ((l->ndim != 1 && l->ndim != 2) || l->shape[0] != sl_array_count(t->seeds) || l->fortran)
        return sl_fail(SL_EFORMAT,
                       "import %s: found shape %s%s: wanted (%" PRIu64 ", columns): a row for each "
                       "of the %" PRIu64 " seeds",
                       t->path[1], sl_npy_shape_text(l, shape, sizeof shape),
                       l->fortran ? " in Fortran order" : "", sl_array_count(t->seeds),
                       sl_array_count(t->seeds));
    if (!g->labels.w)
        SL_TRY(sl_label_sink_open(&g->labels, im, g->n_nodes, columns, (enum sl_task)g->task,
                                  t->path[1]));
    if (columns != g->labels.n_columns)
        return sl_fail(SL_EFORMAT,
                       "import %s: found %" PRIu64 " label columns: wanted %" PRIu32
                       " as in the set before",
                       t->path[1], columns, g->labels.n_columns);
    t->rows = malloc(BATCH * columns * sizeof *t->rows);
    return t->rows ? SL_OK : sl_fail(SL_ENOMEM, "import %s: no memory", t->path[1]);
}

static int put_set(struct graphbolt *g, struct task_set *t, struct sl_list_sink *list)
{
    int64_t seeds[BATCH];
    while (sl_array_left(t->seeds) > 0) {
        uint64_t n = SL_MIN(sl_array_left(t->seeds), (uint64_t)BATCH);
        SL_TRY(sl_interrupt_check());
        SL_TRY(sl_array_read_integers(t->seeds, n, seeds));
        if (t->labels)
            SL_TRY(sl_array_read_doubles(t->labels, n * g->labels.n_columns, t->rows));
        for (uint64_t i = 0; i < n; i++) {
            SL_TRY(sl_list_sink_put(list, seeds[i], t->path[0]));
            if (t->labels)
                SL_TRY(sl_label_sink_put(&g->labels, (uint64_t)seeds[i],
                                         t->rows + i * g->labels.n_columns, t->path[1]));
        }
    }
    return SL_OK;
}

static int read_set(struct sl_import *im, struct graphbolt *g, const cJSON *task,
                    enum sl_split split)
{
    const cJSON *set;
    char field[NAME_BYTES];
    struct sl_list_sink list = {0};
    const cJSON *sets = get(task, set_keys[split]);
    if (!sets || (cJSON_IsArray(sets) && cJSON_GetArraySize(sets) == 0))
        return SL_OK;
    snprintf(field, sizeof field, "tasks[0].%s", set_keys[split]);
    SL_TRY(get_only(g, task, set_keys[split], field, &set));
    struct task_set *t = calloc(1, sizeof *t);
    if (!t)
        return sl_fail(SL_ENOMEM, "import graphbolt: no memory");
    int rc;
    SL_TRY_OUT(find_set_files(im, g, set, field, t));
    SL_TRY_OUT(open_set(im, g, t));
    SL_TRY_OUT(sl_list_sink_open(&list, im, split, g->n_nodes));
    rc = put_set(g, t, &list);
    rc = sl_list_sink_close(&list, rc, split);
out:
    sl_array_close(t->seeds);
    sl_array_close(t->labels);
    free(t->rows);
    free(t);
    return rc;
}

// The number of classes that the task states: no label may be beyond it.
static int check_classes(struct sl_import *im, const struct graphbolt *g, const cJSON *task)
{
    const cJSON *stated = get(task, "num_classes");
    uint32_t found = im->vertices.n_classes;
    if (!cJSON_IsNumber(stated) || im->vertices.task != SL_TASK_MULTICLASS)
        return SL_OK;
    if (!(stated->valuedouble >= found) || stated->valuedouble > SL_SINK_MAX_CLASSES)
        return sl_fail(SL_EFORMAT,
                       "import %s: tasks[0].num_classes: found %g: wanted at least %" PRIu32
                       ", since a label is %" PRIu32,
                       g->yaml, stated->valuedouble, found, found - 1);
    im->vertices.n_classes = (uint32_t)stated->valuedouble;
    return SL_OK;
}

static int read_task(struct sl_import *im, struct graphbolt *g)
{
    const cJSON *tasks = get(g->root, "tasks"), *task = cJSON_IsArray(tasks) ? tasks->child : NULL;
    int rc = SL_OK;
    if (!task)
        return SL_OK;
    for (const cJSON *other = task->next; other; other = other->next)
        sl_import_leave_out(im, "task %s", get_text(other, "name") ? get_text(other, "name") : "?");
    sl_progress_begin(&im->making.progress, "sets", 0, "sets");
    for (int i = 0; i < SL_SPLIT_COUNT && rc == SL_OK; i++)
        rc = read_set(im, g, task, (enum sl_split)i);
    if (g->labels.w)
        rc = sl_label_sink_close(&g->labels, rc, g->yaml);
    return rc == SL_OK ? check_classes(im, g, task) : rc;
}

// ---- several types ------------------------------------------------------------------------------

static bool is_typed(const struct graphbolt *g)
{
    const cJSON *graph = get(g->root, "graph");
    return cJSON_GetArraySize(get(graph, "nodes")) > 1 ||
           cJSON_GetArraySize(get(graph, "edges")) > 1;
}

// A file of an entry, as sl_typed_import_set_file().
static int set_file(struct sl_import *im, const struct graphbolt *g, const cJSON *entry,
                    const char *field, const char *formats, struct sl_import_file *out)
{
    char path[PATH_BYTES];
    const char *format;
    SL_TRY(get_file(im, g, entry, field, formats, path, &format));
    SL_TRY(sl_typed_import_set_file(out, NULL, path));
    out->text = strcmp(format, "csv") == 0;
    return SL_OK;
}

static int add_relation(struct sl_import *im, const struct graphbolt *g, const cJSON *entry)
{
    char words[3][SL_TYPE_NAME_BYTES + 1];
    const char *type = get_text(entry, "type");
    struct sl_import_relation *r;
    int end = 0;
    if (!type ||
        sscanf(type, "%64[^:]:%64[^:]:%64[^:]%n", words[0], words[1], words[2], &end) != 3 ||
        type[end])
        return fail_field(g, "graph.edges.type", "wanted source:relation:target");
    SL_TRY(sl_typed_import_add_relation(im, g->yaml, words[0], words[1], words[2], &r));
    r->shape = SL_EDGES_EITHER;
    return set_file(im, g, entry, "graph.edges", "csv or numpy", &r->edges);
}

// The type that the sets of the first task are of, SL_TYPES_MAX where there are none.
static int find_task_type(struct sl_import *im, const struct graphbolt *g, uint32_t *out)
{
    const cJSON *tasks = get(g->root, "tasks"), *task = cJSON_IsArray(tasks) ? tasks->child : NULL;
    *out = SL_TYPES_MAX;
    for (int s = 0; s < SL_SPLIT_COUNT && task; s++) {
        const cJSON *sets = get(task, set_keys[s]), *set = sets ? sets->child : NULL;
        const char *type = set ? get_text(set, "type") : NULL;
        const uint32_t found = type ? sl_typed_import_find(im->typed, type) : SL_TYPES_MAX;
        if (!set)
            continue;
        if (found == SL_TYPES_MAX)
            return fail_field(g, "tasks[0]", "wanted the type of each set, one of graph.nodes");
        if (*out != SL_TYPES_MAX && *out != found)
            return fail_field(g, "tasks[0]", "wanted sets of one type");
        *out = found;
    }
    return SL_OK;
}

static int read_typed(struct sl_import *im, struct graphbolt *g)
{
    const cJSON *graph = get(g->root, "graph"), *item;
    struct sl_import_type *type;
    uint32_t of;
    SL_TRY(sl_typed_import_begin(im));
    cJSON_ArrayForEach(item, get(graph, "nodes"))
    {
        uint64_t n;
        SL_TRY(get_num(g, item, &n));
        SL_TRY(sl_typed_import_add_type(im, g->yaml, get_text(item, "type"), n, &type));
    }
    cJSON_ArrayForEach(item, get(graph, "edges"))
    {
        SL_TRY(add_relation(im, g, item));
    }
    SL_TRY(find_task_type(im, g, &of));
    if (of < SL_TYPES_MAX) {
        sl_typed_import_put_first(im->typed, of);
        g->n_nodes = im->typed->type[0].n;
        SL_TRY(read_task(im, g));
    }
    for (uint32_t i = 0; i < im->typed->n_types; i++) {
        type = &im->typed->type[i];
        SL_TRY(choose_feature(im, g, type->name, &item));
        if (item)
            SL_TRY(set_file(im, g, item, "feature_data", "numpy", &type->feat));
    }
    return sl_typed_import_finish(im);
}

// ---- the whole ----------------------------------------------------------------------------------

static int read_graphbolt(struct sl_import *im, void *context)
{
    struct graphbolt *g = context;
    snprintf(g->yaml, sizeof g->yaml, "%s/metadata.yaml", im->source);
    SL_TRY(sl_yaml_read(g->yaml, &g->root));
    if (!cJSON_IsObject(g->root))
        return fail_field(g, "the file", "wanted 'dataset_name: ...', 'graph: ...' and so on");
    if (!im->making.name)
        im->making.name = get_text(g->root, "dataset_name");
    // Small parts first, so that their errors appear before the edges are sorted.
    SL_TRY(check_form(g));
    if (is_typed(g))
        return read_typed(im, g);
    SL_TRY(get_n_nodes(g, get(g->root, "graph")));
    SL_TRY(read_task(im, g));
    SL_TRY(read_features(im, g));
    SL_TRY(sl_import_finish_vertices(im, g->n_nodes));
    return read_edges(im, g);
}

static void summarise(const struct sl_import *im, const void *context, struct sl_table *t)
{
    sl_import_summarise_vertices(&im->vertices, t);
    if (im->left_out[0])
        sl_table_row(t, "left out|%s", im->left_out);
}

#define AT(kind, field) SL_OPTION_AT(kind, graphbolt, field)
// clang-format off
static const struct sl_option options[] = {
    {.name = "feature", AT(TEXT, feature), .placeholder = "NAME",
     .help = "which feature of the vertices; default: the only one, or 'feat'"},
    {.name = "task", AT(CHOICE, task), .choices = sl_label_tasks,
     .help = sl_label_tasks_help},
    {0},
};
// clang-format on

static void close_graphbolt(void *context)
{
    struct graphbolt *g = context;
    cJSON_Delete(g->root);
}

const struct sl_import_format sl_import_graphbolt = {
    .name = "graphbolt",
    .help = "a raw OnDiskDataset of DGL's GraphBolt (metadata.yaml)",
    .source = "DIR",
    .about =
        "Reads a raw OnDiskDataset of DGL's GraphBolt: DIR holds metadata.yaml and what it "
        "names. Vertices and labels of the first task; of a graph of several types the sets are "
        "of one.",
    .example = "sluice import graphbolt ondisk_dataset --out data/mine",
    .has_features = true,
    .context_bytes = sizeof(struct graphbolt),
    .options = options,
    .read = read_graphbolt,
    .summarise = summarise,
    .close = close_graphbolt,
};
