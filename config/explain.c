// explain.c - keys of the job file in words, for people: `sluice schema KEY`.
#include "config/config.h"

#include <stdio.h>
#include <string.h>

#include "common/base/error.h"
#include "common/text/text.h"
#include "config/keys_internal.h"

enum { COLUMNS = 80, INDENT = 4 };

// Lines of words that are not longer than a terminal is wide, indented.
static void put_words(struct sl_text *t, const char *words)
{
    size_t column = COLUMNS;
    while (*words) {
        const size_t n = strcspn(words, " ");
        const bool fits = column + 1 + n < COLUMNS;
        sl_text_printf(t, "%s%*s%.*s", fits ? " " : "\n", fits ? 0 : INDENT, "", (int)n, words);
        column = (fits ? column + 1 : INDENT) + n;
        words += n + strspn(words + n, " ");
    }
    sl_text_puts(t, "\n");
}

static void put_choices(struct sl_text *t, const char *const *words)
{
    for (size_t i = 0; words[i]; i++)
        sl_text_printf(t, "%s\"%s\"", i ? ", " : "", words[i]);
}

static void put_bounds(struct sl_text *t, const struct sl_key *key)
{
    sl_text_puts(t, key->above_min ? "above " : "");
    sl_text_json_number(t, key->min);
    sl_text_puts(t, key->below_max ? " to below " : " to ");
    sl_text_json_number(t, key->max);
}

static void put_values(struct sl_text *t, const struct sl_key *key)
{
    switch (key->type) {
    case SL_KEY_OBJECT: sl_text_puts(t, "object"); break;
    case SL_KEY_NOTE:
    case SL_KEY_STRING: sl_text_puts(t, "text"); break;
    case SL_KEY_BOOL: sl_text_puts(t, "true or false"); break;
    case SL_KEY_INTEGER:
        sl_text_puts(t, "whole number, ");
        put_bounds(t, key);
        break;
    case SL_KEY_NUMBER:
        sl_text_puts(t, "number, ");
        put_bounds(t, key);
        break;
    case SL_KEY_WORD: put_choices(t, key->words); break;
    case SL_KEY_SIZE: sl_text_puts(t, "bytes, or a text such as \"512MiB\""); break;
    case SL_KEY_FANOUT: sl_text_puts(t, "list of whole numbers, or an object of such lists"); break;
    case SL_KEY_PATHS: sl_text_puts(t, "object of lists of relations"); break;
    case SL_KEY_CORES: sl_text_puts(t, "number of cores, or a list such as \"0-3, 8\""); break;
    case SL_KEY_NUMBERS:
        put_choices(t, key->choices);
        sl_text_puts(t, ", or a list of numbers");
        break;
    case SL_KEY_LIST: sl_text_puts(t, "list of objects"); break;
    }
    if (key->word)
        sl_text_printf(t, ", or \"%s\"", key->word);
    if (key->also_word)
        sl_text_printf(t, " or \"%s\"", key->also_word);
}

static void put_key(struct sl_text *t, const struct sl_key *key)
{
    static const char *const changes[] = {
        [SL_CHANGE_FREE] = " A run may go on with another value, which changes no bit.",
        [SL_CHANGE_ONWARD] = " A run may go on with another value, from there on.",
        [SL_CHANGE_REFUSED] = "",
        [SL_CHANGE_UNSAID] = "",
    };
    char usual[SL_KEY_DEFAULT_BYTES];
    sl_text_printf(t, "%s: ", key->path);
    put_values(t, key);
    if (key->required)
        sl_text_puts(t, "; required");
    else if (*sl_key_default(key, usual))
        sl_text_printf(t, "; default: %s", usual);
    struct sl_text about = {0};
    sl_text_printf(&about, "%s%s", key->doc, changes[key->change]);
    put_words(t, about.s ? about.s : "");
    t->failed |= about.failed;
    sl_text_fini(&about);
}

// Whether the row is `path`, or a key of that object or list.
static bool is_of(const struct sl_key *key, const char *path)
{
    const size_t n = strlen(path);
    return strncmp(key->path, path, n) == 0 && (n == 0 || strchr(".[", key->path[n]));
}

int sl_config_explain(const char *word, char **out)
{
    char path[SL_CONFIG_KEY_BYTES] = "", hint[512];
    struct sl_text t = {0};
    if (word && sl_key_find(word)) {
        snprintf(path, sizeof path, "%s", word);
    } else if (word && !sl_config_find_key(word, path)) {
        sl_key_suggest("", word, hint, sizeof hint);
        return sl_fail(SL_EINVAL, "schema: there is no key '%s': %s", word, hint);
    }
    for (size_t i = 0; i < sl_n_keys; i++)
        if (is_of(&sl_keys[i], path))
            put_key(&t, &sl_keys[i]);
    *out = sl_text_take(&t);
    return *out ? SL_OK : sl_fail(SL_ENOMEM, "schema: no memory");
}
