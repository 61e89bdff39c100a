/*
 * write.c - a configuration as JSON, from the same rows that read it.
 *
 * A list of devices stands in lines of its own, so text is written here and no tree; numbers are
 * the shortest text that reads back as themselves (common/base/json_print.h).
 */
#include "config/config.h"

#include <stdio.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "common/base/bits.h"
#include "common/device/cores.h"
#include "common/text/units.h"
#include "config/keys_internal.h"
#include "common/text/text.h"

static uint64_t integer_at(const struct sl_key *key, const char *field)
{
    uint64_t wide;
    uint32_t narrow;
    if (key->bytes == sizeof wide) {
        memcpy(&wide, field, sizeof wide);
        return wide;
    }
    memcpy(&narrow, field, sizeof narrow);
    return narrow;
}

static uint32_t count_at(const struct sl_key *key, const void *base)
{
    uint32_t n;
    memcpy(&n, (const char *)base + key->companion, sizeof n);
    return n;
}

static const struct sl_metapaths *metapaths_at(const struct sl_key *key, const void *base)
{
    const void *field = (const char *)base + key->offset;
    return field;
}

static bool is_empty(const struct sl_key *object, const void *base);

// Whether the key is left out: there is nowhere it is kept, it is not set, or it means nothing.
static bool is_absent(const struct sl_key *key, const void *base)
{
    if (key->type == SL_KEY_OBJECT)
        return is_empty(key, base);
    if (key->bytes == 0)
        return true;
    if (key->type == SL_KEY_SIZE && !key->word &&
        integer_at(key, (const char *)base + key->offset) == 0)
        return true;
    if (key->type == SL_KEY_STRING && *((const char *)base + key->offset) == '\0')
        return true;
    if (key->type == SL_KEY_CORES && count_at(key, base) == 0)
        return true;
    if (key->type == SL_KEY_PATHS && metapaths_at(key, base)->n == 0)
        return true;
    return !sl_key_applies(key, base);
}

static bool is_empty(const struct sl_key *object, const void *base)
{
    for (size_t i = 0; i < sl_n_keys; i++)
        if (sl_key_is_in(&sl_keys[i], object->path) && !is_absent(&sl_keys[i], base))
            return false;
    return true;
}

static bool is_word(const struct sl_key *key, const void *base)
{
    if (!key->word || key->type == SL_KEY_LIST) // devices are listed: that is what resolved them
        return false;
    if (key->word_flag)
        return *(const bool *)((const char *)base + key->word_flag);
    return integer_at(key, (const char *)base + key->offset) == 0;
}

// Entries that are written: a pool of cores is one device, however many workers there can be.
static uint32_t written_at(const struct sl_key *key, const void *base)
{
    uint32_t n = count_at(key, base);
    const struct sl_config *config = base;
    bool pool = strcmp(key->path, "devices") == 0 && sl_config_is_pool(config);
    return pool ? SL_MIN(n, 1u) : n;
}

static void put_fanouts(struct sl_text *t, const int64_t *fanout, uint32_t n)
{
    sl_text_printf(t, "[");
    for (uint32_t i = 0; i < n; i++)
        sl_text_printf(t, "%s%lld", i ? ", " : "", (long long)fanout[i]);
    sl_text_printf(t, "]");
}

// A list, or one for each name and the rest.
static void put_fanout(struct sl_text *t, const struct sl_key *key, const void *base)
{
    const void *list = (const char *)base + key->offset, *at = (const char *)base + key->names;
    const struct sl_fanout_names *names = at;
    const uint32_t n = count_at(key, base);
    if (!sl_fanout_is_named(names)) {
        put_fanouts(t, list, n);
        return;
    }
    sl_text_printf(t, "{");
    for (uint32_t i = 0; i < names->n; i++) {
        sl_text_printf(t, i ? ", " : "");
        sl_text_json_string(t, names->named[i].name);
        sl_text_printf(t, ": ");
        put_fanouts(t, names->named[i].fanout, n);
    }
    if (names->has_rest) {
        sl_text_printf(t, "%s\"*\": ", names->n ? ", " : "");
        put_fanouts(t, list, n);
    }
    sl_text_printf(t, "}");
}

static void put_metapaths(struct sl_text *t, const struct sl_metapaths *paths)
{
    sl_text_printf(t, "{");
    for (uint32_t i = 0; i < paths->n; i++) {
        const struct sl_named_path *path = &paths->path[i];
        sl_text_printf(t, i ? ", " : "");
        sl_text_json_string(t, path->name);
        sl_text_printf(t, ": [");
        for (uint32_t k = 0; k < path->n_steps; k++) {
            sl_text_printf(t, k ? ", " : "");
            sl_text_json_string(t, path->step[k]);
        }
        sl_text_printf(t, "]");
    }
    sl_text_printf(t, "}");
}

static void put_entry(struct sl_text *t, const struct sl_key *list, const void *entry);

static void put_value(struct sl_text *t, const struct sl_key *key, const void *base)
{
    const char *field = (const char *)base + key->offset;
    char text[SL_CORES_TEXT_BYTES];
    unsigned word;
    double number;
    if (is_word(key, base)) {
        sl_text_json_string(t, key->word);
        return;
    }
    switch (key->type) {
    case SL_KEY_OBJECT:
    case SL_KEY_NOTE: break;
    case SL_KEY_STRING: sl_text_json_string(t, field); break;
    case SL_KEY_BOOL: sl_text_printf(t, *(const bool *)field ? "true" : "false"); break;
    case SL_KEY_INTEGER:
        sl_text_printf(t, "%llu", (unsigned long long)integer_at(key, field));
        break;
    case SL_KEY_NUMBER:
        memcpy(&number, field, sizeof number);
        sl_text_json_number(t, number);
        break;
    case SL_KEY_WORD:
        memcpy(&word, field, sizeof word);
        sl_text_json_string(t, key->words[word]);
        break;
    case SL_KEY_SIZE:
        sl_units_size(text, integer_at(key, field));
        sl_text_printf(t, strpbrk(text, "KMGT") ? "\"%s\"" : "%s", text);
        break;
    case SL_KEY_FANOUT: put_fanout(t, key, base); break;
    case SL_KEY_PATHS: put_metapaths(t, metapaths_at(key, base)); break;
    case SL_KEY_CORES: {
        struct sl_cores set = {0};
        for (uint32_t i = 0; i < count_at(key, base); i++)
            sl_cores_add(&set, ((const uint16_t *)field)[i]);
        sl_cores_format(&set, text, sizeof text);
        sl_text_json_string(t, text);
        break;
    }
    case SL_KEY_NUMBERS:
        memcpy(&word, (const char *)base + key->choice, sizeof word);
        if (count_at(key, base) == 0) {
            sl_text_json_string(t, key->choices[word]);
            break;
        }
        sl_text_printf(t, "[");
        for (uint32_t i = 0; i < count_at(key, base); i++) {
            sl_text_printf(t, i ? ", " : "");
            sl_text_json_number(t, ((const double *)(const void *)field)[i]);
        }
        sl_text_printf(t, "]");
        break;
    case SL_KEY_LIST:
        sl_text_printf(t, "[");
        for (uint32_t i = 0; i < written_at(key, base); i++) {
            sl_text_printf(t, "%s\n    ", i ? "," : "");
            put_entry(t, key, field + (size_t)i * key->entry_bytes);
        }
        sl_text_printf(t, count_at(key, base) ? "\n  ]" : "]");
        break;
    }
}

// The members of the object `parent`, each on a line of its own unless the object stands on one.
static void put_members(struct sl_text *t, const char *parent, const void *base, const char *before)
{
    const char *comma = "";
    for (size_t i = 0; i < sl_n_keys; i++) {
        const struct sl_key *key = &sl_keys[i];
        if (!sl_key_is_in(key, parent) || is_absent(key, base))
            continue;
        sl_text_printf(t, "%s%s\"%s\": ", comma, before, sl_key_leaf(key));
        if (key->type == SL_KEY_OBJECT) {
            sl_text_printf(t, "{");
            put_members(t, key->path, base, "\n    ");
            sl_text_printf(t, "\n  }");
        } else {
            put_value(t, key, base);
        }
        comma = *before == '\n' ? "," : ", ";
    }
}

static void put_entry(struct sl_text *t, const struct sl_key *list, const void *entry)
{
    char parent[SL_KEY_PATH_BYTES];
    snprintf(parent, sizeof parent, "%s[]", list->path);
    sl_text_printf(t, "{");
    put_members(t, parent, entry, "");
    sl_text_printf(t, "}");
}

char *sl_config_to_json(const struct sl_config *config)
{
    struct sl_text t = {0};
    sl_text_printf(&t, "{");
    put_members(&t, "", config, "\n  ");
    sl_text_printf(&t, "\n}\n");
    return sl_text_take(&t);
}

void sl_config_forget_machine(struct cJSON *job)
{
    char parent[SL_KEY_PATH_BYTES];
    for (size_t i = 0; i < sl_n_keys; i++) {
        const struct sl_key *key = &sl_keys[i];
        if (!key->of_machine)
            continue;
        sl_key_parent(key, parent);
        cJSON_DeleteItemFromObjectCaseSensitive(
            *parent ? cJSON_GetObjectItemCaseSensitive(job, parent) : job, sl_key_leaf(key));
    }
}
