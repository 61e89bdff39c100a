/*
 * value.c - JSON values into their fields, or a message that says what is wrong with one.
 *
 * Every message has the same shape: found, wanted, what to do. `wanted` comes from the key's row,
 * so the bounds in a message are the bounds that were checked.
 */
#include "config/parse_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/json_print.h"
#include "common/device/cores.h"
#include "common/device/plugin.h"
#include "common/text/synonyms.h"
#include "common/text/units.h"
#include "config/text_internal.h"

enum { WANTED_BYTES = 320, ADVICE_BYTES = 256 };

void sl_parse_found(const cJSON *item, char out[SL_PARSE_FOUND_BYTES])
{
    char quoted[SL_TEXT_QUOTE_BYTES], number[SL_NUMBER_TEXT_BYTES];
    if (cJSON_IsString(item)) {
        sl_text_quote(item->valuestring, quoted);
        snprintf(out, SL_PARSE_FOUND_BYTES, "string %s", quoted);
    } else if (cJSON_IsNumber(item) && isinf(item->valuedouble)) {
        snprintf(out, SL_PARSE_FOUND_BYTES, "a number beyond %s1.8e308",
                 item->valuedouble < 0 ? "-" : "");
    } else if (cJSON_IsNumber(item)) {
        sl_number_text(item->valuedouble, number);
        snprintf(out, SL_PARSE_FOUND_BYTES, "number %s", number);
    } else if (cJSON_IsBool(item)) {
        snprintf(out, SL_PARSE_FOUND_BYTES, "boolean %s", cJSON_IsTrue(item) ? "true" : "false");
    } else if (cJSON_IsArray(item) || cJSON_IsObject(item)) {
        char *text = sl_json_line(item);
        sl_text_excerpt(text ? text : "", quoted);
        free(text);
        snprintf(out, SL_PARSE_FOUND_BYTES, "%s %s", cJSON_IsArray(item) ? "list" : "object",
                 quoted);
    } else {
        snprintf(out, SL_PARSE_FOUND_BYTES, "null");
    }
}

// "a whole number from 1 to 8", "a number above 0 and at most 1000".
static void wanted_number(const struct sl_key *key, const char *what, char *out, size_t bytes)
{
    char min[SL_NUMBER_TEXT_BYTES], max[SL_NUMBER_TEXT_BYTES];
    sl_number_text(key->min, min);
    sl_number_text(key->max, max);
    if (!key->above_min && !key->below_max)
        snprintf(out, bytes, "%s from %s to %s", what, min, max);
    else
        snprintf(out, bytes, "%s %s %s and %s %s", what, key->above_min ? "above" : "of at least",
                 min, key->below_max ? "below" : "at most", max);
}

void sl_key_words(const struct sl_key *key, const struct sl_key *guest, char *out, size_t bytes)
{
    const char *last = NULL;
    size_t n = 0;
    out[0] = '\0';
    for (unsigned i = 0; key->words[i]; i++) {
        if (guest && !sl_key_goes_with(guest, i))
            continue;
        if (last && n < bytes)
            n += (size_t)snprintf(out + n, bytes - n, "%s\"%s\"", n ? ", " : "", last);
        last = key->words[i];
    }
    if (last && n < bytes)
        snprintf(out + n, bytes - n, "%s\"%s\"", n ? " or " : "", last);
}

void sl_key_wanted(const struct sl_key *key, char *out, size_t bytes)
{
    char min[SL_UNITS_BYTES], max[SL_UNITS_BYTES];
    size_t n;
    switch (key->type) {
    case SL_KEY_OBJECT: snprintf(out, bytes, "an object {...}"); break;
    case SL_KEY_NOTE: snprintf(out, bytes, "text"); break;
    case SL_KEY_STRING: snprintf(out, bytes, "text of 1 to %u bytes", key->bytes - 1); break;
    case SL_KEY_BOOL: snprintf(out, bytes, "true or false"); break;
    case SL_KEY_INTEGER: wanted_number(key, "a whole number", out, bytes); break;
    case SL_KEY_NUMBER: wanted_number(key, "a number", out, bytes); break;
    case SL_KEY_WORD: sl_key_words(key, NULL, out, bytes); break;
    case SL_KEY_SIZE:
        sl_units_size(min, (uint64_t)key->min);
        sl_units_size(max, (uint64_t)key->max);
        snprintf(out, bytes,
                 "bytes as a whole number or as text such as \"512MiB\" or \"1.5GiB\", from %s to "
                 "%s",
                 min, max);
        break;
    case SL_KEY_FANOUT:
        snprintf(out, bytes,
                 "a list of whole numbers such as [15, 10, 5], one for each layer, or of a graph "
                 "of several types an object with a list for each relation");
        break;
    case SL_KEY_PATHS:
        snprintf(out, bytes, "an object with a list of relations for each metapath");
        break;
    case SL_KEY_CORES:
        snprintf(out, bytes, "a core number, or text such as \"0\", \"0-3\" or \"0,2\"");
        break;
    case SL_KEY_NUMBERS:
        n = (size_t)snprintf(out, bytes, "a list of 1 to %u numbers from %.10g to %.10g",
                             key->bytes / (uint32_t)sizeof(double), key->min, key->max);
        for (size_t i = 0; key->choices && key->choices[i]; i++)
            n += (size_t)snprintf(out + n, bytes - n, "%s\"%s\"",
                                  key->choices[i + 1] ? ", " : " or ", key->choices[i]);
        break;
    case SL_KEY_LIST:
        snprintf(out, bytes, "a list of %.0f to %.0f %s such as [%s]", key->min, key->max,
                 key->entries, key->entry_eg);
        break;
    }
    n = strlen(out);
    if (key->also_word)
        snprintf(out + n, bytes - n, ", \"%s\" or \"%s\"", key->word, key->also_word);
    else if (key->word)
        snprintf(out + n, bytes - n, ", or \"%s\"", key->word);
}

// The word of a key that is spelt alike, or NULL.
static const char *nearest_word(const struct sl_key *key, const char *text)
{
    const char *near = NULL;
    unsigned best = SL_TEXT_FAR;
    for (size_t i = 0; key->type == SL_KEY_WORD && key->words[i]; i++) {
        unsigned edits = sl_text_nearness(text, key->words[i]);
        near = edits < best ? key->words[i] : near;
        best = SL_MIN(edits, best);
    }
    const char *const also[] = {key->word, key->also_word};
    for (size_t i = 0; i < SL_COUNT_OF(also); i++) {
        unsigned edits = also[i] ? sl_text_nearness(text, also[i]) : SL_TEXT_FAR;
        near = edits < best ? also[i] : near;
        best = SL_MIN(edits, best);
    }
    return near;
}

// GPUs are no part of reading a job; whether this build could use any is known without one.
static void advise_gpu(const char *means, char out[ADVICE_BYTES])
{
    if (sl_plugin_look("/proc/self/exe") == SL_OK)
        snprintf(out, ADVICE_BYTES,
                 ": did you mean %s? 'sluice doctor' lists the GPUs that this machine offers",
                 means);
    else
        snprintf(out, ADVICE_BYTES,
                 ": that is %s here, and this build has no CUDA ('sluice doctor' says why): leave "
                 "it out to train on the cores",
                 means);
}

// What a word means that is none of the key's. False where nobody knows.
static bool advise_word(const struct sl_key *key, const char *text, char out[ADVICE_BYTES])
{
    char path[SL_KEY_PATH_BYTES], means[SL_SYNONYM_BYTES];
    snprintf(path, sizeof path, "%s.kind", key->path);
    // An object that is given as the name of its kind.
    const struct sl_key *kind = key->type == SL_KEY_OBJECT ? sl_key_find(path) : NULL;
    const struct sl_key *of = kind ? kind : key;
    const struct sl_synonym *synonym = sl_synonym_find(SL_SYNONYM_VALUE, of->path, text, means);
    const char *near = synonym ? NULL : nearest_word(of, text);
    const char *why = synonym ? synonym->why : NULL;
    if (synonym && synonym->why == sl_synonym_gpu)
        advise_gpu(means, out);
    else if (synonym || near)
        snprintf(out, ADVICE_BYTES, ": did you mean %s%s%s%s%s?%s%s%s", kind ? "{\"kind\": " : "",
                 near ? "\"" : "", near ? near : means, near ? "\"" : "", kind ? "}" : "",
                 why ? " (" : "", why ? why : "", why ? ")" : "");
    return synonym || near;
}

// What to do about a value that is not right; "" when `found, wanted` says it all.
static void advise(const struct sl_key *key, const cJSON *item, char out[ADVICE_BYTES])
{
    out[0] = '\0';
    bool text = cJSON_IsString(item) && item->valuestring[0];
    bool number_wanted = key->type == SL_KEY_INTEGER || key->type == SL_KEY_NUMBER;
    char quoted[SL_TEXT_QUOTE_BYTES], usual[SL_KEY_DEFAULT_BYTES];
    struct sl_json_fault fault;

    if (text && number_wanted && strchr("-0123456789", item->valuestring[0]) &&
        sl_json_check(item->valuestring, strlen(item->valuestring), &fault)) {
        sl_text_excerpt(item->valuestring, quoted);
        snprintf(out, ADVICE_BYTES, ": write %s without quotes", quoted);
        return;
    }
    if (text && advise_word(key, item->valuestring, out))
        return;
    if (key->fallback && !key->beside_key)
        snprintf(out, ADVICE_BYTES, ": correct it, or leave it out for the default, %s",
                 key->fallback);
    else if (key->fallback || key->fallback_note)
        snprintf(out, ADVICE_BYTES, ": correct it, or leave it out (default: %s)",
                 sl_key_default(key, usual));
    else
        snprintf(out, ADVICE_BYTES, ": correct it. %s", key->doc);
}

static int wrong(const struct sl_parse *p, const struct sl_key *key, const char *path,
                 const cJSON *item)
{
    char found[SL_PARSE_FOUND_BYTES], wanted[WANTED_BYTES], advice[ADVICE_BYTES];
    sl_parse_found(item, found);
    sl_key_wanted(key, wanted, sizeof wanted);
    advise(key, item, advice);
    return sl_parse_fail(p, path, "found %s, wanted %s%s", found, wanted, advice);
}

static bool in_bounds(const struct sl_key *key, double value)
{
    return (key->above_min ? value > key->min : value >= key->min) &&
           (key->below_max ? value < key->max : value <= key->max);
}

static void store_integer(const struct sl_key *key, char *field, uint64_t value)
{
    uint32_t narrow = (uint32_t)value;
    if (key->bytes == sizeof value)
        memcpy(field, &value, sizeof value);
    else
        memcpy(field, &narrow, sizeof narrow);
}

static int read_word(const struct sl_parse *p, const struct sl_key *key, const char *path,
                     const cJSON *item, char *field)
{
    for (unsigned i = 0; cJSON_IsString(item) && key->words[i]; i++) {
        if (strcmp(item->valuestring, key->words[i]) == 0) {
            memcpy(field, &i, sizeof i); // an enum without negative values
            return SL_OK;
        }
    }
    return wrong(p, key, path, item);
}

static int read_size(const struct sl_parse *p, const struct sl_key *key, const char *path,
                     const cJSON *item, char *field)
{
    uint64_t size = 0;
    bool ok = cJSON_IsNumber(item) && in_bounds(key, item->valuedouble) &&
              item->valuedouble == floor(item->valuedouble);
    if (ok)
        size = (uint64_t)item->valuedouble;
    else if (cJSON_IsString(item) && sl_units_parse_bytes(item->valuestring, &size) == 0)
        ok = in_bounds(key, (double)size);
    if (!ok)
        return wrong(p, key, path, item);
    store_integer(key, field, size);
    return SL_OK;
}

// A list of numbers, or a word in its place.
static int read_numbers(const struct sl_parse *p, const struct sl_key *key, const char *path,
                        const cJSON *item, void *base)
{
    unsigned choice = 0;
    uint32_t n = 0, most = key->bytes / (uint32_t)sizeof(double);
    double *numbers = (double *)(void *)((char *)base + key->offset);
    for (; key->choices[choice]; choice++)
        if (cJSON_IsString(item) && strcmp(item->valuestring, key->choices[choice]) == 0)
            break;
    if (!key->choices[choice]) {
        const cJSON *entry;
        uint32_t found = (uint32_t)cJSON_GetArraySize(item);
        if (!cJSON_IsArray(item) || found == 0 || found > most)
            return wrong(p, key, path, item);
        cJSON_ArrayForEach(entry, item)
        {
            if (!cJSON_IsNumber(entry) || !in_bounds(key, entry->valuedouble)) {
                char text[SL_PARSE_FOUND_BYTES];
                sl_parse_found(entry, text);
                return sl_parse_fail(p, path,
                                     "entry %u: found %s, wanted a number from %.10g to %.10g: "
                                     "correct it",
                                     n, text, key->min, key->max);
            }
            numbers[n++] = entry->valuedouble;
        }
    }
    memcpy((char *)base + key->choice, &choice, sizeof choice);
    memcpy((char *)base + key->companion, &n, sizeof n);
    return SL_OK;
}

static int read_cores(const struct sl_parse *p, const struct sl_key *key, const char *path,
                      const cJSON *item, char *field, uint32_t *n)
{
    struct sl_cores set = {0};
    double core = item->valuedouble;
    if (cJSON_IsString(item)) {
        if (sl_cores_parse(item->valuestring, &set) < 0) {
            char found[SL_PARSE_FOUND_BYTES];
            sl_parse_found(item, found);
            return sl_parse_fail(p, path,
                                 "found %s, wanted text such as \"0\", \"0-3\" or \"0,2\": %s",
                                 found, sl_error_message());
        }
    } else if (cJSON_IsNumber(item) && core == floor(core) && core >= 0 && core < SL_CORES_MAX) {
        sl_cores_add(&set, (uint32_t)core);
    } else {
        return wrong(p, key, path, item);
    }
    uint16_t cores[SL_CONFIG_MAX_CORES] = {0};
    *n = sl_cores_count(&set);
    if (*n > SL_CONFIG_MAX_CORES)
        return sl_parse_fail(p, path,
                             "found %u cores, wanted at most %d in one device: split them over "
                             "several devices",
                             *n, SL_CONFIG_MAX_CORES);
    sl_cores_list(&set, cores, SL_CONFIG_MAX_CORES);
    memcpy(field, cores, sizeof cores);
    return SL_OK;
}

static int read_list(const struct sl_parse *p, const struct sl_key *key, const char *path,
                     const cJSON *item, char *field, uint32_t *n)
{
    if (!cJSON_IsArray(item))
        return wrong(p, key, path, item);
    *n = (uint32_t)cJSON_GetArraySize(item);
    if (*n < key->min || *n > key->max)
        return sl_parse_fail(p, path, "found %u %s, wanted %.0f to %.0f: correct the list%s%s%s",
                             *n, key->entries, key->min, key->max, key->word ? ", or write \"" : "",
                             key->word ? key->word : "", key->word ? "\"" : "");
    char scope[SL_KEY_PATH_BYTES];
    snprintf(scope, sizeof scope, "%s[].", key->path);
    const cJSON *entry;
    uint32_t i = 0;
    cJSON_ArrayForEach(entry, item)
    {
        char shown[SL_KEY_PATH_BYTES];
        snprintf(shown, sizeof shown, "%s[%u].", path, i);
        char *base = field + (size_t)i * key->entry_bytes;
        SL_TRY(sl_parse_members(p, scope, shown, entry, base));
        SL_TRY(sl_parse_only_keys(p, scope, shown, entry, base));
        i++;
    }
    return SL_OK;
}

static bool is_text(const cJSON *item, const char *word)
{
    return word && cJSON_IsString(item) && strcmp(item->valuestring, word) == 0;
}

int sl_parse_value(const struct sl_parse *p, const struct sl_key *key, const char *path,
                   const cJSON *item, void *base)
{
    char *field = (char *)base + key->offset;
    uint32_t *companion = (uint32_t *)((char *)base + key->companion);

    bool is_also = is_text(item, key->also_word);
    bool is_word = is_also || is_text(item, key->word);
    if (key->word_flag)
        *(bool *)((char *)base + key->word_flag) = is_word;
    if (key->also_flag)
        *(bool *)((char *)base + key->also_flag) = is_also;
    if (is_word)
        return SL_OK; // the field stays 0

    switch (key->type) {
    case SL_KEY_OBJECT: // its keys have rows of their own
        return cJSON_IsObject(item) ? SL_OK : wrong(p, key, path, item);
    case SL_KEY_NOTE: return cJSON_IsString(item) ? SL_OK : wrong(p, key, path, item);
    case SL_KEY_STRING:
        if (!cJSON_IsString(item) || !item->valuestring[0] ||
            strlen(item->valuestring) >= key->bytes)
            return wrong(p, key, path, item);
        strcpy(field, item->valuestring);
        return SL_OK;
    case SL_KEY_BOOL:
        if (!cJSON_IsBool(item))
            return wrong(p, key, path, item);
        *(bool *)field = cJSON_IsTrue(item);
        return SL_OK;
    case SL_KEY_INTEGER:
        if (!cJSON_IsNumber(item) || item->valuedouble != floor(item->valuedouble) ||
            !in_bounds(key, item->valuedouble))
            return wrong(p, key, path, item);
        store_integer(key, field, (uint64_t)item->valuedouble);
        return SL_OK;
    case SL_KEY_NUMBER:
        if (!cJSON_IsNumber(item) || !in_bounds(key, item->valuedouble))
            return wrong(p, key, path, item);
        memcpy(field, &item->valuedouble, sizeof item->valuedouble);
        return SL_OK;
    case SL_KEY_WORD: return read_word(p, key, path, item, field);
    case SL_KEY_SIZE: return read_size(p, key, path, item, field);
    case SL_KEY_FANOUT:
        if (!cJSON_IsArray(item) && !cJSON_IsObject(item))
            return wrong(p, key, path, item);
        return sl_parse_fanout(p, key, path, item, base);
    case SL_KEY_PATHS:
        if (!cJSON_IsObject(item) || !item->child)
            return wrong(p, key, path, item);
        return sl_parse_metapaths(p, path, item, (struct sl_metapaths *)(void *)field);
    case SL_KEY_CORES: return read_cores(p, key, path, item, field, companion);
    case SL_KEY_NUMBERS: return read_numbers(p, key, path, item, base);
    case SL_KEY_LIST: return read_list(p, key, path, item, field, companion);
    }
    return SL_OK;
}

int sl_parse_members(const struct sl_parse *p, const char *scope, const char *shown,
                     const cJSON *node, void *base)
{
    for (size_t i = 0; i < sl_n_keys; i++) {
        const struct sl_key *key = &sl_keys[i];
        const char *name = key->path + strlen(scope);
        if (strncmp(key->path, scope, strlen(scope)) != 0 || strstr(name, "[]"))
            continue;
        char path[2 * SL_KEY_PATH_BYTES];
        snprintf(path, sizeof path, "%s%s", shown, name);

        const cJSON *item = sl_parse_find(node, name);
        if (item) {
            SL_TRY(sl_parse_value(p, key, path, item, base));
        } else if (sl_key_is_needed(key, base) && key->type != SL_KEY_OBJECT) {
            char wanted[320];
            sl_key_wanted(key, wanted, sizeof wanted);
            return sl_parse_fail(p, path, "missing, wanted %s: add it. %s", wanted, key->doc);
        } else if (key->fallback) {
            cJSON *value = cJSON_Parse(sl_key_fallback(key, base));
            int rc = value ? sl_parse_value(p, key, path, value, base)
                           : sl_fail(SL_ENOMEM, "%s: out of memory", p->origin);
            cJSON_Delete(value);
            SL_TRY(rc);
        }
    }
    return SL_OK;
}

int sl_parse_only_keys(const struct sl_parse *p, const char *scope, const char *shown,
                       const cJSON *node, const void *base)
{
    for (size_t i = 0; i < sl_n_keys; i++) {
        const struct sl_key *key = &sl_keys[i];
        const char *name = key->path + strlen(scope);
        if (!key->only_key || strncmp(key->path, scope, strlen(scope)) != 0 || strstr(name, "[]"))
            continue;
        const cJSON *item = sl_parse_find(node, name);
        const struct sl_key *misfit = sl_key_misfit(key, base);
        if (!item || !misfit)
            continue;
        cJSON *usual = cJSON_Parse(sl_key_fallback(key, base));
        bool harmless = usual && cJSON_Compare(usual, item, true);
        cJSON_Delete(usual);
        if (harmless)
            continue;
        const struct sl_key *other = sl_key_find(misfit->only_key);
        char path[2 * SL_KEY_PATH_BYTES], beside[2 * SL_KEY_PATH_BYTES];
        char found[SL_PARSE_FOUND_BYTES], words[160];
        snprintf(path, sizeof path, "%s%s", shown, name);
        snprintf(beside, sizeof beside, "%s%s", shown, other->path + strlen(scope));
        sl_parse_found(item, found);
        sl_key_words(other, misfit, words, sizeof words);
        return sl_parse_fail(p, path,
                             "found %s with %s \"%s\", wanted it only with %s: take it out, or "
                             "set %s to %s",
                             found, beside, sl_key_word(other, base), words, beside, words);
    }
    return SL_OK;
}
