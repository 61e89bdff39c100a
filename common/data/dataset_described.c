/*
 * A data set that is described alone: metadata.json has "described", and there is no other file.
 *
 * PROBLEM. Whether a machine will do for a graph should be known before the machine is bought and
 * the graph is there: IGBH-full has 1.1 TB of features. What a job needs follows from sizes, which
 * metadata.json has but for three: how wide a number of the features is, and how long the lists of
 * vertices are.
 *
 *   "described": {"features": "float16", "train": 94605581, "val": 788380, "test": 0}
 *
 * Features of edges are as wide numbers: "edge_features": 8 are so many of each edge, of a graph of
 * several types {"writes": 8, "author -by-> paper": 3} of each relation that has some.
 *
 * Ids are 32-bit, offsets 64-bit, as imports write them. Edge weights and times are not described.
 * No array is there: who reads such a data set (SL_TAKES_DESCRIBED) reads sizes alone.
 */
#include <inttypes.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "common/base/error.h"
#include "common/data/dataset_internal.h"

#define EXAMPLE                                                                                    \
    "\"described\": {\"features\": \"float16\", \"train\": 1000, \"val\": 10, \"test\": 0}"

static int read_width(const cJSON *item, const char *path, enum sl_dtype *out)
{
    const cJSON *features = cJSON_GetObjectItemCaseSensitive(item, "features");
    const char *word = cJSON_GetStringValue(features);
    *out = word && strcmp(word, "float16") == 0 ? SL_DTYPE_F16 : SL_DTYPE_F32;
    if (word && (*out == SL_DTYPE_F16 || strcmp(word, "float32") == 0))
        return SL_OK;
    return sl_fail(SL_EFORMAT,
                   "%s: \"described.features\" is %s%.40s%s, wanted \"float32\" or \"float16\", as "
                   "in " EXAMPLE,
                   path, word ? "\"" : "", word ? word : "missing or no text", word ? "\"" : "");
}

static int read_lists(const cJSON *item, const char *path, struct sl_dataset *ds)
{
    static const char *const keys[SL_SPLIT_COUNT] = {"described.train", "described.val",
                                                     "described.test"};
    const uint64_t most = sl_dataset_listed(ds);
    uint64_t n = 0;
    for (int s = 0; s < SL_SPLIT_COUNT; s++) {
        SL_TRY(sl_dataset_metadata_count(item, path, keys[s], false, UINT32_MAX, &ds->split[s].n));
        n = ds->may_overlap ? 0 : n;
        n += ds->split[s].n;
        if (n > most)
            return sl_fail(SL_EFORMAT,
                           "%s: \"%s\"%s %" PRIu64 ", wanted at most %" PRIu64
                           ", the vertices that lists may have",
                           path, keys[s], n > ds->split[s].n ? " and those before it are" : " is",
                           n, most);
    }
    return SL_OK;
}

// `key` names the number in messages.
static int read_edge_width(const cJSON *item, const char *path, const char *key,
                           enum sl_dtype dtype, struct sl_relation *r)
{
    const double x = item->valuedouble;
    if (!cJSON_IsNumber(item) || !(x >= 1 && x <= INT32_MAX) || x != (double)(uint32_t)x)
        return sl_fail(SL_EFORMAT,
                       "%s: \"described.edge_features\"%s%s: wanted a whole number from 1, how "
                       "many numbers each edge has%s",
                       path, *key ? " of " : "", key,
                       *key || !cJSON_IsObject(item) ? "" : ", as the graph has one type");
    r->feat_dim = (uint32_t)x;
    r->feat_dtype = dtype;
    return SL_OK;
}

static int read_edge_features(const cJSON *all, const char *path, enum sl_dtype dtype,
                              struct sl_typed *t)
{
    const cJSON *item;
    uint32_t n_found;
    if (!all || cJSON_IsNull(all))
        return SL_OK;
    if (t->n_types == 0)
        return read_edge_width(all, path, "", dtype, &t->plain);
    if (!cJSON_IsObject(all))
        return sl_fail(SL_EFORMAT,
                       "%s: \"described.edge_features\" is no object, wanted how many numbers each "
                       "edge has by relation, as in {\"%s\": 8}, since the graph has several types",
                       path, t->relation[0].name);
    cJSON_ArrayForEach(item, all)
    {
        const uint32_t r = sl_typed_relation_named(t, item->string, &n_found);
        if (r == SL_NO_RELATION)
            return sl_fail(SL_EFORMAT,
                           "%s: \"described.edge_features\" names '%.80s', which %s: wanted "
                           "relations as in '%s'",
                           path, item->string,
                           n_found ? "is the name of several relations" : "is no relation",
                           sl_relation_text(t, 0).text);
        SL_TRY(read_edge_width(item, path, item->string, dtype, &t->relation[r]));
    }
    return SL_OK;
}

int sl_dataset_read_described(const cJSON *json, const char *path,
                              const struct sl_dataset_metadata *m, struct sl_dataset *ds)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, "described");
    enum sl_dtype dtype;
    if (!item || cJSON_IsNull(item))
        return SL_OK;
    if (!cJSON_IsObject(item))
        return sl_fail(SL_EFORMAT, "%s: \"described\" is no object, wanted " EXAMPLE, path);
    SL_TRY(read_width(item, path, &dtype));
    SL_TRY(read_lists(item, path, ds));
    ds->described = true;
    ds->indices_dtype = SL_DTYPE_U32;
    ds->feat_dim = (uint32_t)m->feat_dim;
    ds->feat_dtype = dtype;
    for (uint32_t t = 0; t < ds->typed.n_types; t++)
        ds->typed.type[t].feat_dtype = dtype;
    if (ds->typed.n_types == 0)
        ds->typed.plain = (struct sl_relation){.n_edges = ds->n_edges};
    SL_TRY(read_edge_features(cJSON_GetObjectItemCaseSensitive(item, "edge_features"), path, dtype,
                              &ds->typed));
    if (!m->has_task && ds->n_classes > 0)
        ds->task = SL_TASK_MULTICLASS;
    return SL_OK;
}

static int fail_lacks(const struct sl_dataset *ds, const char *what)
{
    return sl_fail(SL_EFORMAT,
                   "data set %s: its metadata.json describes no %s, which the job needs: wanted "
                   "them there, as in " EXAMPLE,
                   ds->path, what);
}

// Those of edges count where they are read.
static int take_edge_features(struct sl_dataset *ds, unsigned need)
{
    struct sl_typed *t = &ds->typed;
    uint32_t n_found = 0;
    for (uint32_t i = 0; i < sl_typed_edge_sets(t); i++) {
        struct sl_relation *r = t->n_types ? &t->relation[i] : &t->plain;
        n_found += r->feat_dim > 0;
        if (!(need & SL_NEED_EDGE_FEATURES))
            r->feat_dim = 0;
    }
    return need & SL_NEED_EDGE_FEATURES && n_found == 0
               ? fail_lacks(ds, "features of edges (\"edge_features\", how many numbers each has)")
               : SL_OK;
}

int sl_dataset_take_described(struct sl_dataset *ds, unsigned need)
{
    if (!ds->described)
        return SL_OK;
    if (!(need & SL_TAKES_DESCRIBED))
        return sl_fail(SL_EUNSUPPORTED,
                       "data set %s: is described alone (\"described\" in metadata.json), without "
                       "files, which `sluice run --dry-run` reads and nothing else does: make the "
                       "data set, by `sluice import`, and leave that key out",
                       ds->path);
    if (need & (SL_NEED_WEIGHTS | SL_NEED_TIMES))
        return sl_fail(SL_EUNSUPPORTED,
                       "data set %s: is described alone (\"described\" in metadata.json), wanted "
                       "one with files: weights and times of edges are not described: set "
                       "sampler.kind to \"khop\", and sampler.time to false",
                       ds->path);
    if (need & SL_NEED_FEATURES && ds->typed.n_types == 0 && ds->feat_dim == 0)
        return fail_lacks(ds, "features (\"feat_dim\")");
    if (need & SL_NEED_LABELS && (ds->n_classes == 0 || ds->task == SL_TASK_NONE))
        return fail_lacks(ds, "labels (\"num_classes\", \"task\")");
    if (need & SL_NEED_TRAIN && ds->split[SL_SPLIT_TRAIN].n == 0)
        return fail_lacks(ds, "training vertices (\"train\")");
    return take_edge_features(ds, need);
}
