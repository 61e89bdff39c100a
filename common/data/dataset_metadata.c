/*
 * metadata.json: {"name", "num_nodes", "num_edges", "feat_dim", "num_classes", "task", "splits",
 * "first_side", "feat_stripes", "shard", "shards", "temporary", "described"}, of a typed graph
 * "types", "relations" and "label_type" (dataset_typed.c). Further keys are the user's own
 * (source, licence, ...) and are left alone.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>
#include <xxhash.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/json_print.h"
#include "common/base/open_file.h"
#include "common/base/utf8.h"
#include "common/data/dataset_internal.h"

enum { MAX_METADATA_BYTES = 1 << 20 };

#define EXAMPLE                                                                                    \
    "{\"name\": \"mine\", \"num_nodes\": 10, \"num_edges\": 20, \"feat_dim\": 8, "                 \
    "\"num_classes\": 2, \"task\": \"multiclass\"}"

// The whole file, with a terminating zero.
static int read_text(const char *dir, const char *path, struct sl_dataset_metadata *out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT)
        return sl_fail(SL_ENOENT, "data set %s: has no metadata.json: wanted something like %s",
                       dir, EXAMPLE);
    if (fd < 0)
        return sl_fail_errno(errno == EACCES || errno == EPERM ? SL_EACCESS : SL_EIO, errno,
                             "%s: cannot be opened", path);
    int rc = sl_read_whole_file(fd, path, MAX_METADATA_BYTES, &out->text, &out->n_text);
    if (rc == SL_EFORMAT)
        rc = sl_fail(SL_EFORMAT, "%s: wanted a regular file of at most %d bytes", path,
                     MAX_METADATA_BYTES);
    close(fd);
    return rc;
}

static int parse_text(const char *path, const struct sl_dataset_metadata *m, cJSON **out)
{
    const char *end = m->text;
    char why[SL_UTF8_WHY_BYTES];
    if (sl_utf8_is_other(m->text, m->n_text, why))
        return sl_fail(SL_EFORMAT, "%s: %s", path, why);
    cJSON *json = cJSON_ParseWithLengthOpts(m->text, m->n_text, &end, 0);
    bool whole = json != NULL;
    while (whole && end < m->text + m->n_text)
        whole = strchr(" \t\r\n", *end) && *end++ != '\0';
    if (!whole) {
        int line = 1;
        for (const char *p = m->text; p < end; p++)
            line += *p == '\n';
        cJSON_Delete(json);
        return sl_fail(SL_EFORMAT, "%s: is not valid JSON near line %d", path, line);
    }
    if (!cJSON_IsObject(json)) {
        cJSON_Delete(json);
        return sl_fail(SL_EFORMAT, "%s: is not a JSON object: wanted something like %s", path,
                       EXAMPLE);
    }
    *out = json;
    return SL_OK;
}

// Of "shard.index" the last word is the key, the others are for messages.
static const cJSON *get(const cJSON *json, const char *key)
{
    const char *dot = strrchr(key, '.');
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, dot ? dot + 1 : key);
    return cJSON_IsNull(item) ? NULL : item;
}

int sl_dataset_metadata_count(const cJSON *json, const char *path, const char *key, bool required,
                              uint64_t most, uint64_t *out)
{
    const cJSON *item = get(json, key);
    *out = 0;
    if (!item && !required)
        return SL_OK;
    if (!item)
        return sl_fail(SL_EFORMAT, "%s: has no \"%s\": add it, as in %s", path, key, EXAMPLE);
    double x = item->valuedouble;
    if (!cJSON_IsNumber(item) || !(x >= 0) || x != floor(x)) {
        char *found = sl_json_line(item);
        int rc =
            sl_fail(SL_EFORMAT, "%s: \"%s\" is %.60s, wanted a whole number that is not negative",
                    path, key, found ? found : "?");
        free(found);
        return rc;
    }
    if (x > (double)most)
        return sl_fail(SL_EUNSUPPORTED, "%s: \"%s\" is %.0f, more than the %" PRIu64 " supported",
                       path, key, x, most);
    *out = (uint64_t)x;
    return SL_OK;
}

const char *const sl_task_names[] = {
    [SL_TASK_NONE] = "none",
    [SL_TASK_MULTICLASS] = "multiclass",
    [SL_TASK_MULTILABEL] = "multilabel",
    [SL_TASK_REGRESSION] = "regression",
    [SL_TASK_LINK] = "link",
};
#define TASKS "\"multiclass\", \"multilabel\", \"regression\" or \"none\""

static int get_task(const cJSON *json, const char *path, struct sl_dataset *ds,
                    struct sl_dataset_metadata *m)
{
    const cJSON *item = get(json, "task");
    ds->task = SL_TASK_NONE;
    m->has_task = item != NULL;
    if (!item)
        return SL_OK;
    const char *task = cJSON_GetStringValue(item);
    if (!task)
        return sl_fail(SL_EFORMAT, "%s: \"task\" is not a string: wanted " TASKS, path);
    if (strcmp(task, sl_task_names[SL_TASK_LINK]) == 0)
        return sl_fail(
            SL_EUNSUPPORTED,
            "%s: \"task\" is \"link\", which a job is and a data set is not: wanted " TASKS
            " (what is known of its vertices), and \"task\": {\"kind\": \"link\"} in the "
            "job file",
            path);
    for (size_t t = 0; t < SL_COUNT_OF(sl_task_names); t++) {
        if (strcmp(task, sl_task_names[t]) == 0) {
            ds->task = (enum sl_task)t;
            return SL_OK;
        }
    }
    return sl_fail(SL_EUNSUPPORTED,
                   "%s: \"task\" is \"%.60s\", which is not supported: wanted " TASKS, path, task);
}

// Whether lists of vertices may have some in common.
static int get_splits(const cJSON *json, const char *path, struct sl_dataset *ds)
{
    const cJSON *item = get(json, "splits");
    const char *word = cJSON_GetStringValue(item);
    ds->may_overlap = word && strcmp(word, "overlap") == 0;
    if (!item || ds->may_overlap || (word && strcmp(word, "disjoint") == 0))
        return SL_OK;
    char *found = sl_json_line(item);
    int rc = sl_fail(SL_EFORMAT,
                     "%s: \"splits\" is %.60s, wanted \"disjoint\", or \"overlap\" where "
                     "train_idx.npy, val_idx.npy and test_idx.npy may share vertices",
                     path, found ? found : "?");
    free(found);
    return rc;
}

// Whether the directory goes away soon, so that nothing is remembered of it.
static int get_temporary(const cJSON *json, const char *path, struct sl_dataset *ds)
{
    const cJSON *item = get(json, "temporary");
    ds->files->temporary = cJSON_IsTrue(item);
    if (!item || cJSON_IsBool(item))
        return SL_OK;
    return sl_fail(SL_EFORMAT, "%s: \"temporary\" is neither true nor false", path);
}

static int get_name(const cJSON *json, const char *path, struct sl_dataset *ds)
{
    const cJSON *item = get(json, "name");
    const char *name = cJSON_GetStringValue(item);
    if (item && !name)
        return sl_fail(SL_EFORMAT, "%s: \"name\" is not a string", path);
    if (!name) {
        const char *slash = strrchr(ds->path, '/');
        name = slash && slash[1] ? slash + 1 : ds->path;
    }
    if (strlen(name) >= sizeof ds->name)
        return sl_fail(SL_EFORMAT, "%s: \"name\" has %zu bytes, wanted at most %zu", path,
                       strlen(name), sizeof ds->name - 1);
    strcpy(ds->name, name);
    return SL_OK;
}

// Paths are relative to the data set's directory. *n_files: of all types so far.
static int get_stripes(const cJSON *item, const char *path, const char *key,
                       const struct sl_dataset *ds, struct sl_stripes *s, uint32_t *n_files)
{
    const cJSON *file, *files = cJSON_GetObjectItemCaseSensitive(item, "files");
    const int n = cJSON_IsArray(files) ? cJSON_GetArraySize(files) : 0;
    if (n < 1 || n > SL_STRIPES_MAX)
        return sl_fail(SL_EFORMAT,
                       "%s: \"%s\" is not {\"files\": [...]} with 1 to %d names of files", path,
                       key, SL_STRIPES_MAX);
    *n_files += (uint32_t)n;
    if (*n_files > SL_STRIPE_FILES_MAX)
        return sl_fail(SL_EUNSUPPORTED,
                       "%s: \"%s\" is the %u-th file of stripes, at most %d are supported: make "
                       "them again on fewer drives",
                       path, key, *n_files, SL_STRIPE_FILES_MAX);
    cJSON_ArrayForEach(file, files)
    {
        const char *name = cJSON_GetStringValue(file);
        if (!name || !name[0])
            return sl_fail(SL_EFORMAT, "%s: \"%s\": entry %u is no name of a file", path, key,
                           s->n);
        const bool absolute = name[0] == '/';
        char **to = &s->file[s->n].path;
        if (asprintf(to, "%s%s%s", absolute ? "" : ds->path, absolute ? "" : "/", name) < 0) {
            *to = NULL;
            return sl_fail(SL_ENOMEM, "%s: no memory for a path", path);
        }
        s->n++;
    }
    return SL_OK;
}

// Of a plain data set, or of each type.
static int get_all_stripes(const cJSON *json, const char *path, struct sl_dataset *ds)
{
    const bool typed = ds->typed.n_types > 0;
    const uint32_t n = typed ? ds->typed.n_types : 1;
    uint32_t n_files = 0;
    for (uint32_t t = 0; t < n; t++) {
        const cJSON *of = typed ? cJSON_GetArrayItem(get(json, "types"), (int)t) : json;
        const cJSON *item = get(of, "feat_stripes");
        char key[48] = "feat_stripes";
        if (!item)
            continue;
        if (!ds->files->stripes) {
            ds->files->stripes = calloc(n, sizeof *ds->files->stripes);
            if (!ds->files->stripes)
                return sl_fail(SL_ENOMEM, "%s: no memory for names of files", path);
            ds->files->n_ranges = n;
        }
        if (typed)
            snprintf(key, sizeof key, "types[%u].feat_stripes", t);
        SL_TRY(get_stripes(item, path, key, ds, &ds->files->stripes[t], &n_files));
    }
    return SL_OK;
}

static int get_digest(const cJSON *json, const char *path, const char *key, uint64_t *out)
{
    const char *text = cJSON_GetStringValue(get(json, key));
    char *end = NULL;
    if (text && strlen(text) == 16 && isxdigit((unsigned char)text[0]))
        *out = strtoull(text, &end, 16);
    if (end && *end == '\0')
        return SL_OK;
    return sl_fail(SL_EFORMAT,
                   "%s: \"%s\" is not a text of 16 hexadecimal digits: take the file as "
                   "`sluice partition --out` wrote it",
                   path, key);
}

// Of one shard, {"index", "count", "rows", "of", "whole", "digest", "partition"}; of the directory
// of all of them "shards", their number, and "of".
static int get_shard(const cJSON *json, const char *path, struct sl_dataset *ds)
{
    const cJSON *item = get(json, "shard");
    struct sl_shard *s = &ds->shard;
    uint64_t index, count, n_shards;
    SL_TRY(sl_dataset_metadata_count(json, path, "shards", false, SL_SHARDS_MAX, &n_shards));
    const char *of = cJSON_GetStringValue(get(item ? item : json, "of"));
    ds->files->n_shards = (uint32_t)n_shards;
    if ((item || n_shards) && of && !(ds->files->whole = strdup(of)))
        return sl_fail(SL_ENOMEM, "%s: no memory for a path", path);
    if (!item)
        return SL_OK;
    SL_TRY(sl_dataset_metadata_count(item, path, "shard.count", true, SL_SHARDS_MAX, &count));
    SL_TRY(sl_dataset_metadata_count(item, path, "shard.index", true, SL_SHARDS_MAX, &index));
    SL_TRY(sl_dataset_metadata_count(item, path, "shard.rows", true, UINT32_MAX, &s->n_local));
    if (index >= count)
        return sl_fail(SL_EFORMAT,
                       "%s: \"shard.index\" is %" PRIu64
                       ", wanted less than \"shard.count\" = %" PRIu64,
                       path, index, count);
    if (s->n_local > ds->n_nodes)
        return sl_fail(SL_EFORMAT,
                       "%s: \"shard.rows\" is %" PRIu64 ", wanted at most num_nodes = %" PRIu64,
                       path, s->n_local, ds->n_nodes);
    SL_TRY(get_digest(item, path, "shard.whole", &s->whole));
    SL_TRY(get_digest(item, path, "shard.digest", &s->digest));
    SL_TRY(get_digest(item, path, "shard.partition", &ds->files->partition));
    s->index = (uint32_t)index;
    s->count = (uint32_t)count;
    return SL_OK;
}

static int take_fields(const cJSON *json, const char *path, struct sl_dataset *ds,
                       struct sl_dataset_metadata *m)
{
    const uint64_t exact = (uint64_t)1 << 53; // whole numbers that a double holds
    uint64_t n_classes;
    SL_TRY(get_name(json, path, ds));
    SL_TRY(sl_dataset_metadata_count(json, path, "num_nodes", true, exact, &ds->n_nodes));
    SL_TRY(sl_dataset_metadata_count(json, path, "num_edges", true, exact, &ds->n_edges));
    SL_TRY(sl_dataset_metadata_count(json, path, "first_side", false, exact, &ds->first_side));
    SL_TRY(sl_dataset_metadata_count(json, path, "feat_dim", false, INT32_MAX, &m->feat_dim));
    SL_TRY(sl_dataset_metadata_count(json, path, "num_classes", false, INT32_MAX, &n_classes));
    SL_TRY(get_task(json, path, ds, m));
    SL_TRY(get_splits(json, path, ds));
    SL_TRY(get_shard(json, path, ds));
    SL_TRY(get_temporary(json, path, ds));
    SL_TRY(sl_dataset_read_types(json, path, ds));
    SL_TRY(get_all_stripes(json, path, ds));
    if (ds->first_side > ds->n_nodes)
        return sl_fail(SL_EFORMAT,
                       "%s: \"first_side\" is %" PRIu64 ", wanted at most num_nodes = %" PRIu64,
                       path, ds->first_side, ds->n_nodes);
    ds->n_classes = (uint32_t)n_classes;
    // 2^32 - 1 itself is the mark of "no vertex" in tables of 32-bit ids.
    if (ds->n_nodes >= UINT32_MAX)
        return sl_fail(SL_EUNSUPPORTED,
                       "%s: \"num_nodes\" is %" PRIu64
                       ", but vertex ids are 32-bit: at most %" PRIu64 " vertices are supported",
                       path, ds->n_nodes, (uint64_t)UINT32_MAX - 1);
    return sl_dataset_read_described(json, path, m, ds);
}

int sl_dataset_metadata_read(struct sl_dataset *ds, const struct sl_dataset_known *known,
                             struct sl_dataset_metadata *out)
{
    char path[sizeof ds->path + 32];
    cJSON *json = NULL;
    *out = (struct sl_dataset_metadata){0};
    snprintf(path, sizeof path, "%s/metadata.json", ds->path);
    int rc = read_text(ds->path, path, out);
    if (rc == SL_OK)
        ds->files->metadata_hash = XXH3_64bits(out->text, out->n_text);
    if (rc == SL_OK && known && ds->files->metadata_hash != known->metadata)
        rc = sl_fail(SL_ECHANGED, "%s: was changed since it was checked: " SL_FILE_ID_ADVICE, path);
    if (rc == SL_OK)
        rc = parse_text(path, out, &json);
    if (rc == SL_OK)
        rc = take_fields(json, path, ds, out);
    cJSON_Delete(json);
    if (rc < 0)
        sl_dataset_metadata_fini(out);
    return rc;
}

void sl_dataset_metadata_fini(struct sl_dataset_metadata *m)
{
    free(m->text);
    *m = (struct sl_dataset_metadata){0};
}
