/*
 * A folder of edge lists of several types: graph.json (or another name, given itself) says what is
 * there, by paths relative to it:
 *
 *   {"types": [{"name": "paper", "count": 1000, "features": "paper.npy"},
 *              {"name": "author", "count": 400}],
 *    "relations": [{"source": "author", "name": "writes", "target": "paper", "edges": "w.csv"},
 *                  {"source": "paper", "name": "cites", "target": "paper", "edges": "cites.npy",
 *                   "weights": "cites_w.npy"}],
 *    "labels": {"type": "paper", "file": "area.npy"},
 *    "splits": {"train": "train.npy", "val": "val.npy", "test": "test.npy"}}
 *
 * Vertices are numbers from 0 within their type. Files are arrays (.npy: edges (2, E) or (E, 2)) or
 * lines of text, plain or gzip: source and target of an edge, a row of numbers a vertex, a vertex.
 * Of a relation "times" and "features" are arrays with a row for each edge. "times" of a type has
 * one for each vertex: edges from it have that time where their relation has none, and seeds have
 * it unless "labels" has "times" of its own.
 * "heading": true leaves out the first line of edges, "weights": true takes their third column as
 * weights. The count of a type may be left out where its features are an array.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/error.h"
#include "dataset/edge_facts.h"
#include "dataset/import_vertices.h"
#include "dataset/typed_import.h"
#include "dataset/yaml_reader.h"

enum { PATH_BYTES = 4352 };

struct typed {
    int task; // enum sl_task, NONE = by the labels' shape
    cJSON *root;
    char path[PATH_BYTES], dir[PATH_BYTES]; // of graph.json
    const cJSON *labels;
};

static int fail_key(const struct typed *g, const char *key, const char *what)
{
    return *key ? sl_fail(SL_EFORMAT, "import %s: \"%s\": %s", g->path, key, what)
                : sl_fail(SL_EFORMAT, "import %s: %s", g->path, what);
}

// Keys that are not known are mistakes. where: the object's own key, "" of the whole.
static int check_keys(const struct typed *g, const cJSON *object, const char *where,
                      const char *const *known)
{
    const cJSON *item;
    char key[192];
    if (!cJSON_IsObject(object))
        return fail_key(g, where, "wanted an object: {\"key\": value, ...}");
    cJSON_ArrayForEach(item, object)
    {
        int i = 0;
        while (known[i] && strcmp(known[i], item->string) != 0)
            i++;
        if (known[i])
            continue;
        snprintf(key, sizeof key, "%s%s%.64s", where, *where ? "." : "", item->string);
        return fail_key(g, key, "is no key of this format: `sluice import typed --help` has them");
    }
    return SL_OK;
}

static int get_list(const struct typed *g, const char *key, const cJSON **out)
{
    const cJSON *item;
    *out = cJSON_GetObjectItemCaseSensitive(g->root, key);
    bool objects = cJSON_IsArray(*out) && cJSON_GetArraySize(*out) > 0;
    cJSON_ArrayForEach(item, *out)
    {
        objects = objects && cJSON_IsObject(item);
    }
    return objects ? SL_OK : fail_key(g, key, "wanted a list of objects");
}

// A text, or NULL where there is none.
static int get_text(const struct typed *g, const cJSON *object, const char *where, const char *key,
                    const char **out)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    char full[192];
    *out = cJSON_GetStringValue(item);
    if (!item || *out)
        return SL_OK;
    snprintf(full, sizeof full, "%s%s%s", where, *where ? "." : "", key);
    return fail_key(g, full, "wanted text, in double quotes");
}

// A file that the object names under the key, if it does.
static int get_file(const struct typed *g, const cJSON *object, const char *where, const char *key,
                    struct sl_import_file *out)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    char full[192];
    snprintf(full, sizeof full, "%s.%s", where, key);
    if (!item)
        return SL_OK;
    if (!cJSON_IsString(item) || !item->valuestring[0])
        return fail_key(g, full, "wanted the name of a file");
    return sl_typed_import_set_file(out, g->dir, item->valuestring);
}

// ---- types and relations ------------------------------------------------------------------------

// The rows of a file of features.
static int count_rows(const struct typed *g, const struct sl_import_file *file, const char *key,
                      uint64_t *n)
{
    struct sl_array_reader *r;
    if (!file->path || file->text)
        return fail_key(g, key, "wanted a number of vertices, or features that are a .npy file");
    SL_TRY(sl_array_open_file(file->path, &r));
    *n = sl_array_header(r)->ndim ? sl_array_header(r)->shape[0] : 0;
    sl_array_close(r);
    return SL_OK;
}

static int read_type(struct sl_import *im, const struct typed *g, const cJSON *json, int i)
{
    static const char *const keys[] = {"name", "count", "features", "times", NULL};
    const cJSON *count = cJSON_GetObjectItemCaseSensitive(json, "count");
    struct sl_import_file features = {0};
    struct sl_import_type *type;
    const char *name;
    char where[48], key[64];
    uint64_t n = 0;
    snprintf(where, sizeof where, "types[%d]", i);
    snprintf(key, sizeof key, "types[%d].count", i);
    SL_TRY(check_keys(g, json, where, keys));
    SL_TRY(get_text(g, json, where, "name", &name));
    if (count && (!cJSON_IsNumber(count) || !(count->valuedouble >= 0) ||
                  count->valuedouble != floor(count->valuedouble) || count->valuedouble > 1e15))
        return fail_key(g, key, "wanted a whole number that is not negative");
    int rc = get_file(g, json, where, "features", &features);
    if (rc == SL_OK && count)
        n = (uint64_t)count->valuedouble;
    else if (rc == SL_OK)
        rc = count_rows(g, &features, key, &n);
    if (rc == SL_OK)
        rc = sl_typed_import_add_type(im, g->path, name, n, &type);
    if (rc < 0) {
        free(features.path);
        return rc;
    }
    type->feat = features;
    return get_file(g, json, where, "times", &type->times);
}

static int read_relation(struct sl_import *im, const struct typed *g, const cJSON *json, int i)
{
    static const char *const keys[] = {"source", "name",     "target",  "edges",      "weights",
                                       "times",  "features", "heading", "reverse_of", NULL};
    const cJSON *weights = cJSON_GetObjectItemCaseSensitive(json, "weights"),
                *heading = cJSON_GetObjectItemCaseSensitive(json, "heading");
    const char *ends[3];
    struct sl_import_relation *r;
    char where[48];
    snprintf(where, sizeof where, "relations[%d]", i);
    SL_TRY(check_keys(g, json, where, keys));
    for (int k = 0; k < 3; k++)
        SL_TRY(get_text(g, json, where, keys[k], &ends[k]));
    if (heading && !cJSON_IsBool(heading))
        return fail_key(g, where, "\"heading\": wanted true or false, without quotes");
    SL_TRY(sl_typed_import_add_relation(im, g->path, ends[0], ends[1], ends[2], &r));
    SL_TRY(get_file(g, json, where, "edges", &r->edges));
    if (!r->edges.path)
        return fail_key(g, where, "has no \"edges\": wanted the name of a file");
    SL_TRY(get_file(g, json, where, "times", &r->times));
    SL_TRY(get_file(g, json, where, "features", &r->feat));
    r->shape = SL_EDGES_EITHER;
    r->edges.heading = cJSON_IsTrue(heading);
    r->weighted = weights && !cJSON_IsFalse(weights);
    if (r->weighted && im->weights && (r->times.path || r->feat.path))
        return fail_key(g, where,
                        "has \"weights\" beside \"times\" or \"features\": wanted weights alone, "
                        "or none: leave one out (--no-weights), or make the weights a column of "
                        "the features");
    if (cJSON_IsBool(weights))
        return r->edges.text || !r->weighted
                   ? SL_OK
                   : fail_key(g, where,
                              "\"weights\": true is for lines of text: wanted the name of "
                              "a .npy file of weights");
    return get_file(g, json, where, "weights", &r->weights);
}

// Once all relations are known.
static int read_reverse(struct sl_import *im, const struct typed *g, const cJSON *json, uint32_t i)
{
    const struct sl_typed_import *t = im->typed;
    const char *name;
    struct sl_import_relation *r = &im->typed->relation[i];
    char where[48];
    snprintf(where, sizeof where, "relations[%u]", i);
    SL_TRY(get_text(g, json, where, "reverse_of", &name));
    snprintf(where, sizeof where, "relations[%u].reverse_of", i);
    for (uint32_t k = 0; name && k < t->n_files; k++)
        if (t->relation[k].source == r->target && t->relation[k].target == r->source &&
            strcmp(t->relation[k].name, name) == 0)
            r->reverse_of = k;
    if (name && r->reverse_of == SL_NO_RELATION)
        return fail_key(g, where,
                        "wanted the name of a relation between the same types the other "
                        "way");
    return SL_OK;
}

static int read_graph(struct sl_import *im, struct typed *g)
{
    static const char *const keys[] = {"name", "types", "relations", "labels", "splits", NULL};
    const cJSON *types, *relations, *item;
    int n = 0, i = 0;
    uint32_t k = 0;
    SL_TRY(check_keys(g, g->root, "", keys));
    SL_TRY(get_list(g, "types", &types));
    SL_TRY(get_list(g, "relations", &relations));
    cJSON_ArrayForEach(item, types)
    {
        SL_TRY(read_type(im, g, item, n++));
    }
    cJSON_ArrayForEach(item, relations)
    {
        SL_TRY(read_relation(im, g, item, i++));
    }
    cJSON_ArrayForEach(item, relations)
    {
        SL_TRY(read_reverse(im, g, item, k++));
    }
    return SL_OK;
}

// ---- labels and lists ---------------------------------------------------------------------------

static int read_lists(struct sl_import *im, const struct typed *g)
{
    static const char *const keys[] = {"train", "val", "test", NULL};
    const cJSON *splits = cJSON_GetObjectItemCaseSensitive(g->root, "splits");
    if (!splits || im->split)
        return SL_OK;
    if (!g->labels)
        return fail_key(g, "splits",
                        "wanted \"labels\": {\"type\": ...} beside it, which says whose "
                        "vertices these are");
    SL_TRY(check_keys(g, splits, "splits", keys));
    for (int s = 0; s < SL_SPLIT_COUNT; s++) {
        struct sl_import_file file = {0};
        int rc = get_file(g, splits, "splits", keys[s], &file);
        if (rc == SL_OK && file.path)
            rc = sl_typed_import_list(im, &file, (enum sl_split)s);
        free(file.path);
        SL_TRY(rc);
    }
    return SL_OK;
}

static int read_labels(struct sl_import *im, struct typed *g)
{
    static const char *const keys[] = {"type", "file", "times", NULL};
    struct sl_import_file file = {0}, times = {0};
    g->labels = cJSON_GetObjectItemCaseSensitive(g->root, "labels");
    if (!g->labels)
        return im->split ? fail_key(g, "labels",
                                    "wanted {\"type\": ...} for --split, which says "
                                    "whose vertices are split")
                         : SL_OK;
    const char *name;
    SL_TRY(check_keys(g, g->labels, "labels", keys));
    SL_TRY(get_text(g, g->labels, "labels", "type", &name));
    const uint32_t type = name ? sl_typed_import_find(im->typed, name) : SL_TYPES_MAX;
    if (type == SL_TYPES_MAX)
        return fail_key(g, "labels.type", "wanted the name of one of \"types\"");
    sl_typed_import_put_first(im->typed, type);
    int rc = get_file(g, g->labels, "labels", "file", &file);
    if (rc == SL_OK && file.path)
        rc = sl_typed_import_labels(im, &file, (enum sl_task)g->task);
    free(file.path);
    if (rc == SL_OK)
        rc = get_file(g, g->labels, "labels", "times", &times);
    const struct sl_import_type *first = &im->typed->type[0];
    const char *of_seeds = times.path ? times.path : first->times.path;
    if (rc == SL_OK && of_seeds)
        rc = sl_edge_facts_put_seeds(&im->making.st, of_seeds, first->n);
    free(times.path);
    return rc;
}

// ---- the whole ----------------------------------------------------------------------------------

static int read_typed(struct sl_import *im, void *context)
{
    struct typed *g = context;
    struct stat st;
    const bool folder = stat(im->source, &st) == 0 && S_ISDIR(st.st_mode);
    snprintf(g->path, sizeof g->path, "%s%s", im->source, folder ? "/graph.json" : "");
    snprintf(g->dir, sizeof g->dir, "%s", g->path);
    char *slash = strrchr(g->dir, '/');
    strcpy(slash ? slash : g->dir, slash ? "" : ".");
    SL_TRY(sl_typed_import_begin(im));
    SL_TRY(sl_yaml_read(g->path, &g->root));
    if (!cJSON_IsObject(g->root))
        return fail_key(g, "", "wanted an object with \"types\" and \"relations\"");
    const char *name;
    SL_TRY(get_text(g, g->root, "", "name", &name));
    if (!im->making.name)
        im->making.name = name;
    SL_TRY(read_graph(im, g));
    // Small parts first, so that their errors appear before the edges are sorted.
    SL_TRY(read_labels(im, g));
    SL_TRY(read_lists(im, g));
    return sl_typed_import_finish(im);
}

static void summarise(const struct sl_import *im, const void *context, struct sl_table *t)
{
    sl_import_summarise_vertices(&im->vertices, t);
}

static void close_typed(void *context)
{
    cJSON_Delete(((struct typed *)context)->root);
}

// clang-format off
static const struct sl_option options[] = {
    {.name = "task", SL_OPTION_AT(CHOICE, typed, task), .choices = sl_label_tasks,
     .help = sl_label_tasks_help},
    {0},
};
// clang-format on

const struct sl_import_format sl_import_typed = {
    .name = "typed",
    .help = "edge lists of several types of vertices and relations (graph.json)",
    .source = "SRC",
    .about =
        "Reads a graph of several types: SRC is a folder with a graph.json, or such a file. It "
        "has \"types\": [{\"name\": \"paper\", \"count\": 1000, \"features\": \"paper.npy\"}, "
        "...], \"relations\": [{\"source\": \"author\", \"name\": \"writes\", \"target\": "
        "\"paper\", \"edges\": \"writes.csv\"}, ...], and perhaps \"labels\": {\"type\": "
        "\"paper\", \"file\": \"area.npy\"} and \"splits\": {\"train\": \"train.npy\", \"val\": "
        "..., \"test\": ...}. Vertices are numbers within their type. Edges are (2, E) or "
        "(E, 2) arrays with \"weights\": FILE.npy, or lines with \"weights\": true for a third "
        "column, \"heading\": true for a first line with names; \"times\": FILE.npy and "
        "\"features\": FILE.npy have a row for each edge. \"times\" of a type are those of edges "
        "from it, and of seeds; \"times\" of \"labels\" of seeds alone.",
    .example = "sluice import typed movies --reverse --out data/movies",
    .has_features = true,
    .has_weights = true,
    .context_bytes = sizeof(struct typed),
    .options = options,
    .read = read_typed,
    .summarise = summarise,
    .close = close_typed,
};
