/*
 * Types and relations of a data set (typed.h): metadata.json's "types" and "relations", the files
 * that types and relations have, and where one relation's edges end and the next one's begin.
 *
 * Labels are those of the first type, and lists of vertices, too, unless "list_type" says another.
 * So its vertices' ids are their numbers in it, and what counts them (node_label.npy,
 * train_idx.npy) is used as it is mapped, as of a plain graph; "label_type" says the name, for
 * readers. Pairs of vertices (train_edges.npy) are of the relation that "pair_relation" names. In
 * files a vertex has its number in its type; what is open has those of the one numbering.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "common/base/error.h"
#include "common/data/dataset_internal.h"

#define EXAMPLE                                                                                    \
    "\"types\": [{\"name\": \"paper\", \"count\": 10, \"feat_dim\": 8}, {\"name\": \"author\", "   \
    "\"count\": 4}], \"relations\": [{\"source\": \"author\", \"name\": \"writes\", \"target\": "  \
    "\"paper\", \"edges\": 20}]"

// ---- names --------------------------------------------------------------------------------------

bool sl_typed_is_name(const char *name)
{
    const size_t n =
        strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");
    return n > 0 && n < SL_TYPE_NAME_BYTES && name[n] == '\0';
}

uint64_t sl_typed_bare_before(const struct sl_typed *t, uint32_t type)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < type; i++)
        n += t->type[i].feat_dim == 0 ? t->type[i].n : 0;
    return n;
}

uint32_t sl_typed_find_type(const struct sl_typed *t, const char *name)
{
    uint32_t i = 0;
    while (i < t->n_types && strcmp(t->type[i].name, name) != 0)
        i++;
    return i;
}

uint32_t sl_typed_find_relation(const struct sl_typed *t, uint32_t source, const char *name,
                                uint32_t target)
{
    for (uint32_t i = 0; i < t->n_relations; i++) {
        const struct sl_relation *r = &t->relation[i];
        if (r->source == source && r->target == target && strcmp(r->name, name) == 0)
            return i;
    }
    return SL_NO_RELATION;
}

uint32_t sl_typed_relation_named(const struct sl_typed *t, const char *name, uint32_t *n_found)
{
    uint32_t found = SL_NO_RELATION;
    *n_found = 0;
    for (uint32_t r = 0; r < t->n_relations; r++) {
        if (strcmp(t->relation[r].name, name) != 0 && strcmp(sl_relation_text(t, r).text, name))
            continue;
        found = r;
        ++*n_found;
    }
    return found;
}

uint32_t sl_typed_reverse(const struct sl_typed *t, uint32_t relation)
{
    uint32_t found = t->relation[relation].reverse_of;
    for (uint32_t r = 0; r < t->n_relations + t->n_walked && found == SL_NO_RELATION; r++)
        if (t->relation[r].reverse_of == relation)
            found = r;
    const struct sl_relation *r = &t->relation[relation];
    return found == SL_NO_RELATION && r->source == r->target ? relation : found;
}

uint32_t sl_typed_type_of(const struct sl_typed *t, uint64_t v)
{
    uint32_t low = 0, high = t->n_types;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (t->type[middle].first <= v)
            low = middle;
        else
            high = middle;
    }
    return low;
}

uint32_t sl_typed_relation_of(const struct sl_typed *t, uint64_t row)
{
    uint32_t low = t->n_walked ? t->n_relations : 0, high = t->n_relations + t->n_walked;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (t->relation[middle].first_row <= row)
            low = middle;
        else
            high = middle;
    }
    return low;
}

struct sl_relation_text sl_relation_text(const struct sl_typed *t, uint32_t relation)
{
    struct sl_relation_text out;
    const struct sl_relation *r = &t->relation[relation];
    snprintf(out.text, sizeof out.text, "%s -%s-> %s", t->type[r->source].name, r->name,
             t->type[r->target].name);
    return out;
}

const char *sl_typed_linked_text(const struct sl_typed *t, struct sl_relation_text *to)
{
    if (t->n_types == 0 || t->linked == SL_NO_RELATION)
        return NULL;
    *to = sl_relation_text(t, t->linked);
    return to->text;
}

struct sl_row_text sl_dataset_row_text(const struct sl_dataset *ds, uint64_t row)
{
    struct sl_row_text out = {""};
    const struct sl_typed *t = &ds->typed;
    if (t->n_types == 0 || row >= t->n_rows)
        return out;
    const uint32_t i = sl_typed_relation_of(t, row);
    const struct sl_relation *r = &t->relation[i];
    snprintf(out.text, sizeof out.text, " (relation %s, %s %" PRIu64 ")",
             sl_relation_text(t, i).text, t->type[r->target].name, row - r->first_row);
    return out;
}

// ---- metadata.json ------------------------------------------------------------------------------

struct reader {
    const char *path; // metadata.json
    struct sl_typed *typed;
};

static const char *get_text(const cJSON *json, const char *key)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, key));
}

// "what[i].key" as a name.
static int get_name(const struct reader *in, const cJSON *json, const char *what, uint32_t i,
                    const char *key, const char **out)
{
    *out = get_text(json, key);
    if (*out && sl_typed_is_name(*out))
        return SL_OK;
    return sl_fail(
        SL_EFORMAT,
        "%s: \"%s[%u].%s\" is %s%.80s%s, wanted 1 to %d letters, digits, '_' and '-', as "
        "in " EXAMPLE,
        in->path, what, i, key, *out ? "\"" : "", *out ? *out : "missing or no text",
        *out ? "\"" : "", SL_TYPE_NAME_BYTES - 1);
}

static int get_list(const struct reader *in, const cJSON *json, const char *key, int most,
                    const cJSON **out, uint32_t *n)
{
    const cJSON *item;
    *out = cJSON_GetObjectItemCaseSensitive(json, key);
    *n = cJSON_IsArray(*out) ? (uint32_t)cJSON_GetArraySize(*out) : 0;
    bool objects = *n > 0;
    cJSON_ArrayForEach(item, *out)
    {
        objects = objects && cJSON_IsObject(item);
    }
    if (!objects)
        return sl_fail(SL_EFORMAT, "%s: \"%s\" is no list of objects, wanted one, as in " EXAMPLE,
                       in->path, key);
    if (*n > (uint32_t)most)
        return sl_fail(SL_EUNSUPPORTED, "%s: \"%s\" has %u entries, more than the %d supported",
                       in->path, key, *n, most);
    return SL_OK;
}

static int read_type(struct reader *in, const cJSON *json, uint64_t first)
{
    struct sl_typed *t = in->typed;
    struct sl_vertex_type *type = &t->type[t->n_types];
    const char *name;
    char key[48];
    uint64_t dim;
    SL_TRY(get_name(in, json, "types", t->n_types, "name", &name));
    if (sl_typed_find_type(t, name) < t->n_types)
        return sl_fail(SL_EFORMAT, "%s: \"types\" has \"%s\" twice, wanted a name for each",
                       in->path, name);
    snprintf(key, sizeof key, "types[%u].count", t->n_types);
    SL_TRY(sl_dataset_metadata_count(json, in->path, key, true, UINT32_MAX, &type->n));
    snprintf(key, sizeof key, "types[%u].feat_dim", t->n_types);
    SL_TRY(sl_dataset_metadata_count(json, in->path, key, false, INT32_MAX, &dim));
    strcpy(type->name, name);
    type->first = first;
    type->feat_dim = (uint32_t)dim;
    t->n_types++;
    return SL_OK;
}

// The type that "relations[i].key" names.
static int get_type(const struct reader *in, const cJSON *json, const char *key, uint32_t *out)
{
    const struct sl_typed *t = in->typed;
    const char *name;
    SL_TRY(get_name(in, json, "relations", t->n_relations, key, &name));
    *out = sl_typed_find_type(t, name);
    if (*out < t->n_types)
        return SL_OK;
    return sl_fail(SL_EFORMAT,
                   "%s: \"relations[%u].%s\" is \"%s\", wanted the name of one of \"types\"",
                   in->path, t->n_relations, key, name);
}

static int read_relation(struct reader *in, const cJSON *json, uint64_t first_edge)
{
    struct sl_typed *t = in->typed;
    struct sl_relation *r = &t->relation[t->n_relations];
    const char *name;
    char key[48];
    SL_TRY(get_type(in, json, "source", &r->source));
    SL_TRY(get_name(in, json, "relations", t->n_relations, "name", &name));
    SL_TRY(get_type(in, json, "target", &r->target));
    snprintf(key, sizeof key, "relations[%u].edges", t->n_relations);
    SL_TRY(sl_dataset_metadata_count(json, in->path, key, true, (uint64_t)1 << 53, &r->n_edges));
    strcpy(r->name, name);
    r->first_row = t->n_rows;
    r->first_edge = first_edge;
    r->reverse_of = SL_NO_RELATION;
    const uint32_t before = sl_typed_find_relation(t, r->source, name, r->target);
    if (before != SL_NO_RELATION)
        return sl_fail(SL_EFORMAT,
                       "%s: \"relations\" has %s at %u and at %u: wanted a name for each of those "
                       "between the same types",
                       in->path, sl_relation_text(t, before).text, before, t->n_relations);
    t->n_rows += t->type[r->target].n;
    t->n_relations++;
    return SL_OK;
}

// "reverse_of" is the name of a relation between the same types the other way.
static int read_reverse(struct reader *in, const cJSON *json, uint32_t i)
{
    const struct sl_typed *t = in->typed;
    struct sl_relation *r = &t->relation[i];
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, "reverse_of");
    const char *name = cJSON_GetStringValue(item);
    if (!item || cJSON_IsNull(item))
        return SL_OK;
    r->reverse_of = name ? sl_typed_find_relation(t, r->target, name, r->source) : SL_NO_RELATION;
    if (r->reverse_of == SL_NO_RELATION)
        return sl_fail(SL_EFORMAT,
                       "%s: \"relations[%u].reverse_of\" is \"%.80s\", wanted the name of a "
                       "relation from %s to %s (its own where each of its edges has its reverse)",
                       in->path, i, name ? name : "no text", t->type[r->target].name,
                       t->type[r->source].name);
    const struct sl_relation *of = &t->relation[r->reverse_of];
    if (of->n_edges == r->n_edges)
        return SL_OK;
    return sl_fail(SL_EFORMAT,
                   "%s: \"relations[%u].reverse_of\" is \"%s\", which has %" PRIu64
                   " edges: wanted "
                   "%" PRIu64 ", as many as it has itself",
                   in->path, i, name, of->n_edges, r->n_edges);
}

static int check_label_type(const struct reader *in, const cJSON *json)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, "label_type");
    const char *name = cJSON_GetStringValue(item), *first = in->typed->type[0].name;
    if (!item || (name && strcmp(name, first) == 0))
        return SL_OK;
    return sl_fail(
        SL_EFORMAT,
        "%s: \"label_type\" is \"%.80s\", wanted \"%s\", the first of \"types\": put the "
        "type with labels in front of the others (and its vertices' ids), so that "
        "node_label.npy and train_idx.npy count its vertices from 0",
        in->path, name ? name : "no text", first);
}

// The type of lists of vertices, and the relation of lists of pairs.
static int read_lists(const struct reader *in, const cJSON *json)
{
    struct sl_typed *t = in->typed;
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(json, "list_type"),
                *relation = cJSON_GetObjectItemCaseSensitive(json, "pair_relation");
    const char *name = cJSON_GetStringValue(type);
    uint32_t n_found = 0;
    t->listed = name ? sl_typed_find_type(t, name) : 0;
    if ((type && !name) || t->listed == t->n_types)
        return sl_fail(SL_EFORMAT,
                       "%s: \"list_type\" is \"%.80s\", wanted the name of one of \"types\", which "
                       "train_idx.npy, val_idx.npy and test_idx.npy list vertices of",
                       in->path, name ? name : "no text");
    name = cJSON_GetStringValue(relation);
    t->linked = name ? sl_typed_relation_named(t, name, &n_found) : SL_NO_RELATION;
    if (!relation || n_found == 1)
        return SL_OK;
    return sl_fail(SL_EFORMAT,
                   "%s: \"pair_relation\" is \"%.200s\", %s: wanted one of \"relations\", as in "
                   "\"%s\", which train_edges.npy and so on list pairs of",
                   in->path, name ? name : "no text",
                   n_found ? "which several have for their name" : "which no relation is called",
                   sl_relation_text(t, 0).text);
}

// Of a shard "shard.type_rows": how many vertices of each type are in its part.
static int read_shard(const struct reader *in, const cJSON *json, const struct sl_dataset *ds)
{
    const struct sl_typed *t = in->typed;
    const cJSON *shard = cJSON_GetObjectItemCaseSensitive(json, "shard"),
                *rows = cJSON_GetObjectItemCaseSensitive(shard, "type_rows");
    uint64_t sum = 0;
    if (ds->shard.count == 0)
        return SL_OK;
    const int found = cJSON_IsArray(rows) ? cJSON_GetArraySize(rows) : 0;
    if (found != (int)t->n_types)
        return sl_fail(SL_EFORMAT,
                       "%s: \"shard.type_rows\" is a list of %d, wanted %u, a number for each of "
                       "\"types\": write the shards again (sluice partition --out)",
                       in->path, found, t->n_types);
    for (uint32_t i = 0; i < t->n_types; i++) {
        const cJSON *item = cJSON_GetArrayItem(rows, (int)i);
        const double x = cJSON_IsNumber(item) ? item->valuedouble : -1;
        if (!(x >= 0) || x > (double)t->type[i].n || x != (double)(uint64_t)x)
            return sl_fail(SL_EFORMAT,
                           "%s: \"shard.type_rows[%u]\" is %g, wanted a whole number up to "
                           "%" PRIu64 ", the vertices of type \"%s\"",
                           in->path, i, x, t->type[i].n, t->type[i].name);
        t->type[i].n_local = (uint64_t)x;
        sum += t->type[i].n_local;
    }
    if (sum == ds->shard.n_local)
        return SL_OK;
    return sl_fail(SL_EFORMAT,
                   "%s: \"shard.rows\" is %" PRIu64 ", wanted %" PRIu64
                   ", the sum of \"shard.type_rows\"",
                   in->path, ds->shard.n_local, sum);
}

// What a data set of several types has not.
static int refuse_keys(const struct reader *in, const cJSON *json, const struct sl_dataset *ds)
{
    static const char *const keys[] = {"feat_dim", "feat_stripes", "first_side"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (cJSON_GetObjectItemCaseSensitive(json, keys[i]))
            return sl_fail(SL_EUNSUPPORTED,
                           "%s: has \"types\" and \"%s\": a graph of several types has %s: leave "
                           "\"%s\" out",
                           in->path, keys[i],
                           i == 0   ? "features by type, as \"feat_dim\" of each and "
                                      "node_feat.TYPE.npy"
                           : i == 1 ? "stripes by type, as \"feat_stripes\" of each"
                                    : "its sides as types",
                           keys[i]);
    const struct sl_relation *last = &in->typed->relation[in->typed->n_relations - 1];
    const struct sl_vertex_type *type = &in->typed->type[in->typed->n_types - 1];
    if (type->first + type->n != ds->n_nodes)
        return sl_fail(SL_EFORMAT,
                       "%s: \"num_nodes\" is %" PRIu64 ", wanted %" PRIu64
                       ", the vertices of all \"types\"",
                       in->path, ds->n_nodes, type->first + type->n);
    if (last->first_edge + last->n_edges != ds->n_edges)
        return sl_fail(SL_EFORMAT,
                       "%s: \"num_edges\" is %" PRIu64 ", wanted %" PRIu64
                       ", the edges of all \"relations\"",
                       in->path, ds->n_edges, last->first_edge + last->n_edges);
    return SL_OK;
}

int sl_dataset_read_types(const cJSON *json, const char *path, struct sl_dataset *ds)
{
    struct sl_typed *t = &ds->typed;
    struct reader in = {path, t};
    const cJSON *types, *relations, *item;
    uint32_t n, i = 0;
    uint64_t first = 0;
    if (!cJSON_GetObjectItemCaseSensitive(json, "types") &&
        !cJSON_GetObjectItemCaseSensitive(json, "relations"))
        return SL_OK;
    SL_TRY(get_list(&in, json, "types", SL_TYPES_MAX, &types, &n));
    t->type = calloc(n, sizeof *t->type);
    SL_TRY(get_list(&in, json, "relations", SL_RELATIONS_MAX, &relations, &n));
    t->relation = calloc(n, sizeof *t->relation);
    if (!t->type || !t->relation)
        return sl_fail(SL_ENOMEM, "%s: no memory for its types and relations", path);
    cJSON_ArrayForEach(item, types)
    {
        SL_TRY(read_type(&in, item, first));
        first += t->type[t->n_types - 1].n;
    }
    first = 0;
    cJSON_ArrayForEach(item, relations)
    {
        SL_TRY(read_relation(&in, item, first));
        first += t->relation[t->n_relations - 1].n_edges;
    }
    cJSON_ArrayForEach(item, relations)
    {
        SL_TRY(read_reverse(&in, item, i++));
    }
    SL_TRY(check_label_type(&in, json));
    SL_TRY(read_lists(&in, json));
    SL_TRY(read_shard(&in, json, ds));
    return refuse_keys(&in, json, ds);
}

// ---- files --------------------------------------------------------------------------------------

// The next of ds->files->typed, which is named: *missing: it does not exist.
static int map_file(struct sl_dataset *ds, const struct sl_dataset_known_files *known,
                    bool *missing)
{
    struct sl_typed_file *file = &ds->files->typed[ds->files->n_typed++];
    char path[sizeof ds->path + sizeof file->name];
    snprintf(path, sizeof path, "%s/%s", ds->path, file->name);
    const struct sl_file_id *was = known ? sl_dataset_known_file(known, file->name) : NULL;
    // Nobody has looked at what may be there by now.
    int rc = known && !was ? SL_ENOENT : sl_npy_open_same(path, was, &file->npy);
    *missing = rc == SL_ENOENT && !was;
    return *missing ? SL_OK : rc;
}

static int map_features(struct sl_dataset *ds, uint32_t t,
                        const struct sl_dataset_known_files *known)
{
    const struct sl_vertex_type *type = &ds->typed.type[t];
    struct sl_typed_file *file = &ds->files->typed[t];
    bool missing;
    snprintf(file->name, sizeof file->name, "node_feat.%s.npy", type->name);
    if (sl_dataset_stripes(ds->files, t)) {
        ds->files->n_typed++;
        const int rc = sl_dataset_map_stripes(ds, t, known, &file->npy);
        return rc < 0 ? sl_fail_prefix(rc, "type \"%s\"", type->name) : SL_OK;
    }
    SL_TRY(map_file(ds, known, &missing));
    if (!missing || !type->feat_dim)
        return SL_OK;
    return sl_fail(SL_ENOENT,
                   "data set %s: has no %s: wanted %" PRIu64 " x %" PRIu32
                   " features (float32 or float16), as \"feat_dim\" of type \"%s\" in "
                   "metadata.json says: leave that out for a type without features",
                   ds->path, file->name, sl_dataset_type_rows(ds, type), type->feat_dim,
                   type->name);
}

// The file "WHAT.SOURCE.NAME.TARGET.npy" of a relation, if it has one, counted in *n_found. A file
// that nobody needs is the user's, whatever is in it.
static int map_of_edges(struct sl_dataset *ds, const char *what, const char *words,
                        const struct sl_relation *r, bool needed,
                        const struct sl_dataset_known_files *known, uint32_t *n_found)
{
    const struct sl_vertex_type *type = ds->typed.type;
    struct sl_typed_file *file = &ds->files->typed[ds->files->n_typed];
    bool missing;
    snprintf(file->name, sizeof file->name, "%s.%s.%s.%s.npy", what, type[r->source].name, r->name,
             type[r->target].name);
    int rc = map_file(ds, known, &missing);
    if ((rc == SL_EFORMAT || rc == SL_EUNSUPPORTED) && !known && !needed)
        return SL_OK;
    SL_TRY(rc);
    *n_found += !missing;
    if (*n_found <= SL_RELATION_FILES_MAX)
        return SL_OK;
    return sl_fail(SL_EUNSUPPORTED,
                   "data set %s: has %s, and %s of %d relations before it, wanted at most so many: "
                   "move away those of relations whose edges may be without",
                   ds->path, file->name, words, SL_RELATION_FILES_MAX);
}

// Features of edges are mapped by who reads them, and by who was told of them: a job that does not
// read them does not depend on them.
static int map_edge_features(struct sl_dataset *ds, unsigned need,
                             const struct sl_dataset_known_files *known)
{
    const struct sl_typed *t = &ds->typed;
    const struct sl_typed_file *files = &ds->files->typed[ds->files->n_typed];
    uint32_t n_found = 0;
    if (!(need & SL_NEED_EDGE_FEATURES) && !known)
        return SL_OK;
    for (uint32_t i = 0; i < t->n_relations; i++)
        SL_TRY(map_of_edges(ds, "edge_feat", "features of edges", &t->relation[i], true, known,
                            &n_found));
    if (!known)
        SL_TRY(sl_dataset_refuse_strays(ds, "edge_feat", files));
    if (!(need & SL_NEED_EDGE_FEATURES) || n_found > 0)
        return SL_OK;
    return sl_fail(SL_ENOENT,
                   "data set %s: has no edge_feat.SOURCE.NAME.TARGET.npy, such as %s: "
                   "model.edge_features needs it of a relation or more: a row for each of its "
                   "edges, in their order (float32 or float16); relations without have no term of "
                   "edges",
                   ds->path, sl_dataset_edge_feat_file(ds, 0)->name);
}

int sl_dataset_map_types(struct sl_dataset *ds, unsigned need,
                         const struct sl_dataset_known_files *known)
{
    const struct sl_typed *t = &ds->typed;
    uint32_t n_times = 0;
    if (t->n_types == 0)
        return SL_OK;
    ds->files->typed =
        calloc((size_t)t->n_types + 2 * (size_t)t->n_relations, sizeof *ds->files->typed);
    if (!ds->files->typed)
        return sl_fail(SL_ENOMEM, "data set %s: no memory for its types", ds->path);
    for (uint32_t i = 0; i < t->n_types; i++)
        SL_TRY(map_features(ds, i, known));
    for (uint32_t i = 0; i < t->n_relations; i++)
        SL_TRY(map_of_edges(ds, "edge_time", "times", &t->relation[i], need & SL_NEED_TIMES, known,
                            &n_times));
    if ((need & SL_NEED_TIMES) && !known)
        SL_TRY(sl_dataset_refuse_strays(ds, "edge_time", sl_dataset_time_file(ds, 0)));
    SL_TRY(map_edge_features(ds, need, known));
    if (!(need & SL_NEED_TIMES) || n_times > 0)
        return SL_OK;
    return sl_fail(SL_ENOENT,
                   "data set %s: has no edge_time.SOURCE.NAME.TARGET.npy, such as %s: sampling by "
                   "time needs it of a relation or more: the time of each of its edges, in their "
                   "order (int64), rising in each vertex's list; edges of relations without are "
                   "of any time",
                   ds->path, sl_dataset_time_file(ds, 0)->name);
}

static bool is_real(enum sl_dtype dtype)
{
    return dtype == SL_DTYPE_F32 || dtype == SL_DTYPE_F16;
}

static int check_edge_features(const struct sl_dataset *ds, const char *name,
                               const struct sl_npy *npy, struct sl_relation *r)
{
    const struct sl_npy_header *h = &npy->head;
    const uint64_t dim = h->ndim == 2 ? h->shape[1] : 1; // one number an edge is a column
    if (!npy->map)
        return SL_OK;
    const struct sl_dataset_found found = sl_dataset_describe_npy(ds, name, npy);
    if (!is_real(h->dtype))
        return sl_fail(SL_EFORMAT,
                       "%s, wanted float32 or float16 for model.edge_features: save "
                       "x.astype(numpy.float32)",
                       found.text);
    if (h->ndim < 1 || h->ndim > 2 || h->shape[0] != r->n_edges || dim == 0 || dim > INT32_MAX)
        return sl_fail(SL_EFORMAT,
                       "%s, wanted (edges, numbers of each) for model.edge_features: metadata.json "
                       "says %" PRIu64 " edges%s",
                       found.text, r->n_edges, ds->typed.n_types ? " of the relation" : "");
    r->feat_dim = (uint32_t)dim;
    r->feat_dtype = h->dtype;
    r->feat = npy->data;
    return SL_OK;
}

int sl_dataset_check_types(struct sl_dataset *ds)
{
    for (uint32_t i = 0; i < ds->typed.n_types; i++) {
        const struct sl_typed_file *file = &ds->files->typed[i];
        struct sl_vertex_type *type = &ds->typed.type[i];
        const struct sl_npy_header *h = &file->npy.head;
        if (!file->npy.map)
            continue;
        const struct sl_dataset_found found =
            sl_dataset_describe_npy(ds, sl_dataset_feat_name(ds, i), &file->npy);
        if (!is_real(h->dtype))
            return sl_fail(SL_EFORMAT,
                           "%s, wanted float32 or float16: save x.astype(numpy.float32)",
                           found.text);
        const uint64_t n_rows = sl_dataset_type_rows(ds, type);
        if (h->ndim != 2 || h->shape[0] != n_rows || h->shape[1] != type->feat_dim ||
            type->feat_dim == 0)
            return sl_fail(SL_EFORMAT,
                           "%s, wanted (%s, feat_dim) with feat_dim > 0: metadata.json says "
                           "(%" PRIu64 ", %" PRIu32 ") of type \"%s\"",
                           found.text, ds->shard.count ? "shard.type_rows" : "count", n_rows,
                           type->feat_dim, type->name);
        type->feat_dtype = h->dtype;
        type->feat = file->npy.data;
    }
    for (uint32_t i = 0; i < ds->typed.n_relations; i++) {
        const struct sl_typed_file *file = sl_dataset_edge_feat_file(ds, i);
        if (file)
            SL_TRY(check_edge_features(ds, file->name, &file->npy, &ds->typed.relation[i]));
    }
    if (ds->typed.n_types > 0)
        return SL_OK;
    ds->typed.plain = (struct sl_relation){.n_edges = ds->n_edges};
    return check_edge_features(ds, sl_dataset_file_name(SL_FILE_EDGE_FEAT),
                               &ds->files->npy[SL_FILE_EDGE_FEAT], &ds->typed.plain);
}

// ---- edges --------------------------------------------------------------------------------------

int sl_dataset_validate_bounds(const struct sl_dataset *ds)
{
    const struct sl_typed *t = &ds->typed;
    for (uint32_t i = 1; i < t->n_relations; i++) {
        const struct sl_relation *r = &t->relation[i];
        if (ds->indptr[r->first_row] == r->first_edge)
            continue;
        return sl_fail(SL_EFORMAT,
                       "%s/indptr.npy: element %" PRIu64 " is %" PRIu64 ", wanted %" PRIu64
                       ", where relation %u (%s) begins: so many edges do the relations before it "
                       "have in metadata.json",
                       ds->path, r->first_row, ds->indptr[r->first_row], r->first_edge, i,
                       sl_relation_text(t, i).text);
    }
    return SL_OK;
}

void sl_dataset_close_types(struct sl_dataset *ds)
{
    for (uint32_t i = 0; i < ds->files->n_typed; i++)
        sl_npy_close(&ds->files->typed[i].npy);
    free(ds->files->typed);
    free(ds->typed.type);
    free(ds->typed.relation);
}
