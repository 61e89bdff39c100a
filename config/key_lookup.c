// key_lookup.c - questions about the rows of the table of keys.
#include "config/keys_internal.h"

#include <stdio.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/text/synonyms.h"
#include "config/config.h"
#include "config/text_internal.h"

const char *sl_key_change_word(const struct sl_key *key)
{
    static const char *const words[] = {[SL_CHANGE_UNSAID] = NULL,
                                        [SL_CHANGE_REFUSED] = "no",
                                        [SL_CHANGE_FREE] = "free",
                                        [SL_CHANGE_ONWARD] = "onward"};
    return words[key->change];
}

const struct sl_key *sl_key_find(const char *path)
{
    for (size_t i = 0; i < sl_n_keys; i++)
        if (strcmp(sl_keys[i].path, path) == 0)
            return &sl_keys[i];
    return NULL;
}

const char *sl_key_leaf(const struct sl_key *key)
{
    const char *dot = strrchr(key->path, '.');
    return dot ? dot + 1 : key->path;
}

void sl_key_parent(const struct sl_key *key, char out[SL_KEY_PATH_BYTES])
{
    const char *dot = strrchr(key->path, '.');
    snprintf(out, SL_KEY_PATH_BYTES, "%.*s", dot ? (int)(dot - key->path) : 0, key->path);
}

bool sl_key_is_in(const struct sl_key *key, const char *parent)
{
    char mine[SL_KEY_PATH_BYTES];
    sl_key_parent(key, mine);
    return strcmp(mine, parent) == 0;
}

static unsigned index_of(const struct sl_key *key, const void *base)
{
    unsigned index;
    memcpy(&index, (const char *)base + key->offset, sizeof index);
    return index;
}

bool sl_word_is_among(const char *word, const char *words)
{
    static const char between[] = " or ";
    size_t n = strlen(word);
    for (const char *end; (end = strstr(words, between)); words = end + sizeof between - 1)
        if ((size_t)(end - words) == n && memcmp(words, word, n) == 0)
            return true;
    return strcmp(words, word) == 0;
}

bool sl_key_goes_with(const struct sl_key *key, unsigned word)
{
    if (key->only_of)
        return key->only_of(word);
    return sl_word_is_among(sl_key_find(key->only_key)->words[word], key->only_word) !=
           key->only_not;
}

const struct sl_key *sl_key_misfit(const struct sl_key *key, const void *base)
{
    static const struct sl_key trained = {
        .only_key = "model.kind", .only_word = "external", .only_not = true};
    if (!key->only_key)
        return NULL;
    const struct sl_key *other = sl_key_find(key->only_key), *deeper = sl_key_misfit(other, base);
    if (deeper || !sl_key_goes_with(key, index_of(other, base)))
        return deeper ? deeper : key;
    return key->not_external ? sl_key_misfit(&trained, base) : NULL;
}

bool sl_key_applies(const struct sl_key *key, const void *base)
{
    return !sl_key_misfit(key, base);
}

bool sl_key_is_needed(const struct sl_key *key, const void *base)
{
    return key->required ||
           (key->needed_key &&
            strcmp(sl_key_word(sl_key_find(key->needed_key), base), key->needed_word) == 0);
}

const char *sl_key_fallback(const struct sl_key *key, const void *base)
{
    const struct sl_key *other = key->beside_key ? sl_key_find(key->beside_key) : NULL;
    return other && strcmp(sl_key_word(other, base), key->beside_word) == 0 ? key->beside_fallback
                                                                            : key->fallback;
}

char *sl_key_default(const struct sl_key *key, char out[SL_KEY_DEFAULT_BYTES])
{
    if (key->beside_key)
        snprintf(out, SL_KEY_DEFAULT_BYTES, "%s; with %s \"%s\" %s", key->fallback, key->beside_key,
                 key->beside_word, key->beside_fallback);
    else
        snprintf(out, SL_KEY_DEFAULT_BYTES, "%s",
                 key->fallback        ? key->fallback
                 : key->fallback_note ? key->fallback_note
                                      : "");
    return out;
}

const char *sl_key_word(const struct sl_key *key, const void *base)
{
    return key->words[index_of(key, base)];
}

// What another tool calls so, as the key of this object where it has one of that name.
static bool suggest_synonym(const char *parent, const char *name, char *out, size_t bytes)
{
    char path[SL_KEY_PATH_BYTES], means[SL_SYNONYM_BYTES];
    snprintf(path, sizeof path, "%s%s%s", parent, *parent ? "." : "", name);
    const struct sl_synonym *found = sl_synonym_find(SL_SYNONYM_KEY, NULL, path, means);
    if (!found && !strstr(parent, "[]")) // in an entry of a list few mean a key outside of it
        found = sl_synonym_find(SL_SYNONYM_KEY, NULL, name, means);
    if (!found)
        return false;
    if (!found->means) {
        snprintf(out, bytes, "%s", found->why);
        return true;
    }
    snprintf(path, sizeof path, "%s.%s", parent, sl_key_leaf(sl_key_find(means)));
    snprintf(out, bytes, "did you mean %s?", sl_key_find(path) ? path : means);
    return true;
}

bool sl_config_find_key(const char *word, char path[SL_CONFIG_KEY_BYTES])
{
    char name[SL_KEY_PATH_BYTES], means[SL_SYNONYM_BYTES];
    snprintf(name, sizeof name, "%s", word);
    for (char *c = name; *c; c++)
        *c = *c == '-' ? '_' : *c;
    sl_synonym_find(SL_SYNONYM_KEY, NULL, name, means);
    const struct sl_key *found = sl_key_find(means[0] ? means : name);
    bool by_path = found != NULL;
    size_t n_leaves = 0;
    for (size_t i = 0; !by_path && i < sl_n_keys; i++) {
        if (strcmp(sl_key_leaf(&sl_keys[i]), name) != 0 || strstr(sl_keys[i].path, "[]"))
            continue;
        found = n_leaves++ == 0 ? &sl_keys[i] : NULL;
    }
    if (!found || found->type == SL_KEY_OBJECT || found->type == SL_KEY_NOTE)
        return false;
    snprintf(path, SL_CONFIG_KEY_BYTES, "%s", found->path);
    return true;
}

void sl_key_suggest(const char *parent, const char *name, char *out, size_t bytes)
{
    // "model.layers" as one name is a mistake of its own kind.
    const struct sl_key *whole = parent[0] == '\0' && strchr(name, '.') ? sl_key_find(name) : NULL;
    if (whole) {
        char outer[SL_KEY_PATH_BYTES];
        sl_key_parent(whole, outer);
        snprintf(out, bytes, "write it as \"%s\" inside \"%s\": {...}", sl_key_leaf(whole), outer);
        return;
    }

    if (suggest_synonym(parent, name, out, bytes))
        return;

    // A key of the same object wins over one elsewhere, which must be nearer to be worth naming,
    // and much nearer where a list's entry is on either side: few mean that.
    bool in_entry = strstr(parent, "[]") != NULL;
    const struct sl_key *best = NULL;
    unsigned best_cost = SL_TEXT_FAR;
    for (size_t i = 0; i < sl_n_keys; i++) {
        bool here = sl_key_is_in(&sl_keys[i], parent);
        unsigned near = sl_text_nearness(name, sl_key_leaf(&sl_keys[i]));
        bool far = in_entry || strstr(sl_keys[i].path, "[]");
        unsigned cost = 2 * near + (here ? 0 : far ? 5 : 1);
        if ((here ? near < SL_TEXT_FAR : near <= 1) && cost < best_cost) {
            best = &sl_keys[i];
            best_cost = cost;
        }
    }
    if (best) {
        snprintf(out, bytes, "did you mean %s?", best->path);
        return;
    }
    size_t n = (size_t)snprintf(out, bytes, "the keys %s%s are", *parent ? "of " : "here", parent);
    const char *between = " ";
    for (size_t i = 0; i < sl_n_keys && n < bytes; i++) {
        if (!sl_key_is_in(&sl_keys[i], parent) || sl_keys[i].type == SL_KEY_NOTE)
            continue;
        n += (size_t)snprintf(out + n, bytes - n, "%s%s", between, sl_key_leaf(&sl_keys[i]));
        between = ", ";
    }
}
