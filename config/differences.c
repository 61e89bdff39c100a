/*
 * differences.c - whether a run may go on with this job: in which keys it differs from the run's.
 *
 * Compared are the resolved texts, key by key, but for the keys whose row says that another value
 * is allowed. A list is one value. What no row knows (a key that is gone) is compared too.
 */
#include "config/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "common/base/error.h"
#include "common/base/json_print.h"
#include "config/keys_internal.h"

enum { DIFFERENCES_NAMED = 4 };

static bool may_change(const char *path)
{
    const struct sl_key *key = sl_key_find(path);
    return key && (key->change == SL_CHANGE_FREE || key->change == SL_CHANGE_ONWARD);
}

// "sampler.batch_size: found 64, the run has 32"
static void note(struct sl_config_differences *d, const char *path, const cJSON *found,
                 const cJSON *had)
{
    size_t n = strlen(d->text);
    if (d->n++ >= DIFFERENCES_NAMED)
        return;
    d->n_named++;
    char *a = found ? sl_json_line(found) : NULL;
    char *b = had ? sl_json_line(had) : NULL;
    snprintf(d->text + n, sizeof d->text - n, "%s%s: found %.64s, the run has %.64s", n ? "; " : "",
             path, a ? a : "nothing", b ? b : "nothing");
    cJSON_free(a);
    cJSON_free(b);
}

// Where a member stands: "model" and "layers" are "model.layers".
static const char *join(char path[SL_KEY_PATH_BYTES], const char *above, const cJSON *item)
{
    snprintf(path, SL_KEY_PATH_BYTES, "%s%s%s", above, *above ? "." : "", item->string);
    return path;
}

static const cJSON *member(const cJSON *object, const cJSON *like)
{
    return cJSON_GetObjectItemCaseSensitive(object, like->string);
}

static void compare(struct sl_config_differences *d, const char *above, const cJSON *found,
                    const cJSON *had);

// Whether the members of the value of a key are keys themselves, and not its value.
static bool has_keys(const char *path, const cJSON *value)
{
    const struct sl_key *key = sl_key_find(path);
    return cJSON_IsObject(value) && (!key || key->type == SL_KEY_OBJECT);
}

// One member, which one of both may lack.
static void compare_member(struct sl_config_differences *d, const char *path, const cJSON *found,
                           const cJSON *had)
{
    if (has_keys(path, found) || has_keys(path, had))
        compare(d, path, found, had);
    else if (!may_change(path) && !(found && had && cJSON_Compare(found, had, true)))
        note(d, path, found, had);
}

static void compare(struct sl_config_differences *d, const char *above, const cJSON *found,
                    const cJSON *had)
{
    char path[SL_KEY_PATH_BYTES];
    const cJSON *item;
    cJSON_ArrayForEach(item, found)
    {
        compare_member(d, join(path, above, item), item, member(had, item));
    }
    cJSON_ArrayForEach(item, had)
    {
        if (!member(found, item))
            compare_member(d, join(path, above, item), NULL, item);
    }
}

// --- on several nodes ----------------------------------------------------------------------------

static int each_shared(const char *above, const cJSON *object,
                       int (*each)(void *ctx, const char *path, const char *value), void *ctx)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, object)
    {
        char path[SL_KEY_PATH_BYTES];
        const struct sl_key *key = sl_key_find(join(path, above, item));
        if (has_keys(path, item)) {
            SL_TRY(each_shared(path, item, each, ctx));
            continue;
        }
        if (key && (key->change == SL_CHANGE_FREE || key->of_machine))
            continue;
        char *value = sl_json_line(item);
        if (!value)
            return sl_fail(SL_ENOMEM, "no memory for the configuration");
        int rc = each(ctx, path, value);
        cJSON_free(value);
        SL_TRY(rc);
    }
    return SL_OK;
}

int sl_config_each_shared(const char *config_json,
                          int (*each)(void *ctx, const char *path, const char *value), void *ctx)
{
    cJSON *config = cJSON_Parse(config_json);
    if (!config)
        return sl_fail(SL_ENOMEM, "no memory for the configuration");
    int rc = each_shared("", config, each, ctx);
    cJSON_Delete(config);
    return rc;
}

// --- between runs --------------------------------------------------------------------------------

// The members of `had`, but of the keys that may change those of `config`.
static cJSON *with_changes(const char *above, const cJSON *had, const cJSON *config)
{
    char path[SL_KEY_PATH_BYTES];
    cJSON *out = cJSON_CreateObject();
    const cJSON *item;
    cJSON_ArrayForEach(item, had)
    {
        join(path, above, item);
        if (cJSON_IsObject(item))
            cJSON_AddItemToObject(out, item->string,
                                  with_changes(path, item, member(config, item)));
        else if (!may_change(path))
            cJSON_AddItemToObject(out, item->string, cJSON_Duplicate(item, true));
    }
    cJSON_ArrayForEach(item, config)
    {
        join(path, above, item);
        if (cJSON_IsObject(item) && !member(had, item))
            cJSON_AddItemToObject(out, item->string, with_changes(path, NULL, item));
        else if (may_change(path))
            cJSON_AddItemToObject(out, item->string, cJSON_Duplicate(item, true));
    }
    return out;
}

/*
 * The job of a run, with all keys that there are today: one written by an older sluice has none of
 * those that came later, whose defaults say what it did. What may change is taken from `config`,
 * since devices that this machine lacks would be refused. NULL where it cannot be read as a job of
 * today (a key that is gone): then it is compared as it stands.
 */
static cJSON *complete(const cJSON *had, const cJSON *config)
{
    cJSON *job = with_changes("", had, config), *whole = NULL;
    struct sl_config *resolved = malloc(sizeof *resolved);
    char *text = job ? sl_json_line(job) : NULL;
    if (text && resolved &&
        sl_config_parse(text, strlen(text), "the checkpoint's job", resolved) == SL_OK) {
        char *resolved_text = sl_config_to_json(resolved);
        whole = resolved_text ? cJSON_Parse(resolved_text) : NULL;
        free(resolved_text);
    }
    cJSON_free(text);
    free(resolved);
    cJSON_Delete(job);
    return whole;
}

int sl_config_compare(const char *config_json, const struct cJSON *had,
                      struct sl_config_differences *out)
{
    memset(out, 0, sizeof *out);
    cJSON *config = cJSON_Parse(config_json);
    if (!config)
        return sl_fail(SL_ENOMEM, "no memory for the configuration");
    cJSON *whole = complete(had, config);
    compare(out, "", config, whole ? whole : had);
    cJSON_Delete(whole);
    cJSON_Delete(config);
    return SL_OK;
}
