/*
 * override.c - `--set path=value` on the tree of a job.
 *
 * The path is a key's ("model.layers", "model", "devices[0].memory"); objects on the way that are
 * missing are added, entries of a list are not. The value is JSON when it parses as JSON and else
 * text, so that quotes need not be fought through a shell: dataset=data/x, epochs=5, devices=auto,
 * sampler.fanout=[5,5]. For a key whose value is text anyway, name=7 is the text "7".
 */
#include "config/parse_internal.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/error.h"
#include "common/text/text.h"
#include "config/text_internal.h"

// Fails with "ORIGIN with --set TEXT: why".
static int fail_set(const struct sl_parse *p, int code, const char *text, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

static int fail_set(const struct sl_parse *p, int code, const char *text, const char *fmt, ...)
{
    char why[1024], excerpt[SL_TEXT_QUOTE_BYTES], origin[SL_PARSE_ORIGIN_BYTES];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    sl_text_excerpt(text, excerpt);
    return sl_fail(code, "%s with --set %s: %s", sl_parse_origin(p, origin), excerpt, why);
}

// The row of a path whose indices are filled in; NULL with advice when there is none.
static const struct sl_key *key_of(const char *path, char *advice, size_t bytes)
{
    char plain[SL_KEY_PATH_BYTES];
    size_t n = 0;
    for (const char *at = path; *at && n < sizeof plain - 1; at++)
        if (!(isdigit((unsigned char)*at) && n && plain[n - 1] == '['))
            plain[n++] = *at;
    plain[n] = '\0';
    const struct sl_key *key = strstr(path, "[]") ? NULL : sl_key_find(plain);
    if (key)
        return key;

    // The innermost object that exists is where the intended key is searched for.
    char parent[SL_KEY_PATH_BYTES];
    const char *name = plain;
    parent[0] = '\0';
    for (char *dot = plain; (dot = strchr(dot, '.')) != NULL; dot++) {
        char outer[SL_KEY_PATH_BYTES];
        snprintf(outer, sizeof outer, "%.*s", (int)(dot - plain), plain);
        char *entry = strstr(outer, "[]"); // "devices[]" is an entry of "devices"
        bool is_entry = entry && entry[2] == '\0';
        if (is_entry)
            *entry = '\0';
        const struct sl_key *object = sl_key_find(outer);
        if (!object || object->type != (is_entry ? SL_KEY_LIST : SL_KEY_OBJECT))
            break;
        if (is_entry)
            *entry = '[';
        memcpy(parent, outer, sizeof parent);
        name = dot + 1;
    }
    char word[SL_KEY_PATH_BYTES];
    snprintf(word, sizeof word, "%.*s", (int)strcspn(name, ".["), name);
    if (parent[0] == '\0' && strcmp(word, name) != 0 && !sl_key_find(word)) {
        // modle.layers: the object's name is wrong; opt.lr: perhaps only the last part is right.
        sl_key_suggest("", word, advice, bytes);
        if (strncmp(advice, "did you mean", 12) != 0)
            sl_key_suggest("", strrchr(plain, '.') ? strrchr(plain, '.') + 1 : word, advice, bytes);
    } else {
        sl_key_suggest(parent, word, advice, bytes);
    }
    return NULL;
}

// JSON when it is JSON, else text; text for a key that holds text. NULL without memory.
static cJSON *value_of(const struct sl_key *key, const char *text)
{
    struct sl_json_fault fault;
    if (sl_json_check(text, strlen(text), &fault)) {
        cJSON *value = cJSON_Parse(text);
        bool is_text = key->type == SL_KEY_STRING || key->type == SL_KEY_NOTE;
        if (!is_text || !value || cJSON_IsString(value))
            return value;
        cJSON_Delete(value);
    }
    return cJSON_CreateString(text);
}

// The child `name` (perhaps "name[3]") of an object; *slot is the list that holds an entry.
static cJSON *child_of(cJSON *object, const char *segment, cJSON **slot)
{
    char name[SL_KEY_PATH_BYTES];
    size_t n = strcspn(segment, "[");
    snprintf(name, sizeof name, "%.*s", (int)n, segment);
    cJSON *child = cJSON_GetObjectItemCaseSensitive(object, name);
    *slot = NULL;
    if (segment[n] != '[')
        return child;
    *slot = child;
    unsigned long index = strtoul(segment + n + 1, NULL, 10);
    if (!cJSON_IsArray(child) || index >= (unsigned long)cJSON_GetArraySize(child))
        return NULL;
    return cJSON_GetArrayItem(child, (int)index);
}

int sl_parse_override(const struct sl_parse *p, const char *text)
{
    char path[SL_KEY_PATH_BYTES], advice[600], excerpt[SL_TEXT_QUOTE_BYTES];
    const char *equals = strchr(text, '=');
    if (!equals || equals == text)
        return fail_set(p, SL_EINVAL, text, "found no %s, wanted path=value such as --set epochs=5",
                        equals ? "path" : "\"=\"");
    struct sl_json_fault fault;
    char *probe = NULL;
    size_t n = (size_t)(equals - text);
    snprintf(path, sizeof path, "%.*s", (int)n, text);
    sl_text_excerpt(path, excerpt);
    const struct sl_key *key = key_of(path, advice, sizeof advice);
    if (!key || n >= sizeof path)
        return fail_set(p, SL_EINVAL, text, "%s: unknown key: %s", excerpt, advice);

    // Text that is not UTF-8 would come out changed in config.json: check its bytes as they are, as
    // a JSON string.
    struct sl_text quoted = {0};
    sl_text_puts(&quoted, "\"");
    for (const char *c = equals + 1; *c; c++) {
        char escaped[SL_TEXT_ESCAPE_BYTES];
        sl_text_add(&quoted, escaped, sl_text_escape((unsigned char)*c, escaped));
    }
    sl_text_puts(&quoted, "\"");
    probe = sl_text_take(&quoted);
    bool utf8 = probe && sl_json_check(probe, strlen(probe), &fault);
    free(probe);
    if (!utf8)
        return fail_set(p, SL_EINVAL, text, "%s: found a value that is not UTF-8, wanted UTF-8",
                        excerpt);

    cJSON *node = p->root, *list = NULL;
    char *rest = path, *segment;
    while ((segment = strsep(&rest, ".")) != NULL && rest) {
        cJSON *child = child_of(node, segment, &list);
        if (!child && strchr(segment, '[')) {
            char found[SL_PARSE_FOUND_BYTES] = "nothing";
            if (list)
                sl_parse_found(list, found);
            return fail_set(p, SL_EINVAL, text,
                            "%s: found %s, wanted a list that has this entry: set %.*s as a "
                            "whole",
                            excerpt, found, (int)strcspn(segment, "["), segment);
        }
        if (!child)
            child = cJSON_AddObjectToObject(node, segment);
        if (!child)
            return fail_set(p, SL_ENOMEM, text, "out of memory");
        node = child;
    }
    cJSON *value = value_of(key, equals + 1);
    if (!value)
        return fail_set(p, SL_ENOMEM, text, "out of memory");
    bool placed = cJSON_GetObjectItemCaseSensitive(node, segment)
                      ? cJSON_ReplaceItemInObjectCaseSensitive(node, segment, value)
                      : cJSON_AddItemToObject(node, segment, value);
    if (!placed) {
        cJSON_Delete(value);
        return fail_set(p, SL_ENOMEM, text, "out of memory");
    }
    return SL_OK;
}
