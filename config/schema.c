/*
 * schema.c - the table of keys as JSON Schema (draft 2020-12), for editors and other programs.
 *
 * What two keys must agree on (the fanout's length and the layers) is said in descriptions only.
 * Whether a run may go on with another value of a key is an annotation, x-sluice-change.
 */
#include "config/config.h"

#include <stdio.h>
#include <string.h>

#include "config/keys_internal.h"
#include "common/text/text.h"

// A line of its own, indented.
static void put_line(struct sl_text *t, int depth)
{
    sl_text_printf(t, "\n%*s", 2 * depth, "");
}

static void put_bounds(struct sl_text *t, const struct sl_key *key)
{
    sl_text_printf(t, ", \"%s\": ", key->above_min ? "exclusiveMinimum" : "minimum");
    sl_text_json_number(t, key->min);
    sl_text_printf(t, ", \"%s\": ", key->below_max ? "exclusiveMaximum" : "maximum");
    sl_text_json_number(t, key->max);
}

static void put_object(struct sl_text *t, const char *path, int depth);

static void put_fanout(struct sl_text *t, double min, double max)
{
    sl_text_printf(t,
                   "\"type\": \"array\", \"minItems\": 1, \"maxItems\": %d, \"items\": {\"anyOf\": "
                   "[{\"const\": -1}, {\"type\": \"integer\", \"minimum\": %.0f, \"maximum\": "
                   "%.0f}]}",
                   SL_CONFIG_MAX_LAYERS, min, max);
}

// The keyword(s) for the values of a key apart from its word.
static void put_type(struct sl_text *t, const struct sl_key *key, int depth)
{
    char entry[SL_KEY_PATH_BYTES];
    switch (key->type) {
    case SL_KEY_OBJECT: put_object(t, key->path, depth); break;
    case SL_KEY_NOTE: sl_text_printf(t, "\"type\": \"string\""); break;
    case SL_KEY_STRING:
        sl_text_printf(t, "\"type\": \"string\", \"minLength\": 1, \"maxLength\": %u",
                       key->bytes - 1);
        break;
    case SL_KEY_BOOL: sl_text_printf(t, "\"type\": \"boolean\""); break;
    case SL_KEY_INTEGER:
        sl_text_printf(t, "\"type\": \"integer\"");
        put_bounds(t, key);
        break;
    case SL_KEY_NUMBER:
        sl_text_printf(t, "\"type\": \"number\"");
        put_bounds(t, key);
        break;
    case SL_KEY_WORD:
        sl_text_printf(t, "\"enum\": [");
        for (size_t i = 0; key->words[i]; i++) {
            sl_text_printf(t, i ? ", " : "");
            sl_text_json_string(t, key->words[i]);
        }
        sl_text_printf(t, "]");
        break;
    case SL_KEY_SIZE: // inside anyOf
        sl_text_printf(t, "{\"type\": \"integer\"");
        put_bounds(t, key);
        sl_text_printf(t, "},");
        put_line(t, depth);
        sl_text_printf(t, "{\"type\": \"string\", \"pattern\": "
                          "\"^([0-9][0-9_]*([.][0-9]+)?|[.][0-9]+)([eE][+-]?[0-9]+)? *"
                          "([kKmMgGtT]i?)?[bB]?$\"}");
        break;
    case SL_KEY_FANOUT: // inside anyOf
        sl_text_printf(t, "{");
        put_fanout(t, key->min, key->max);
        sl_text_printf(t, "},");
        put_line(t, depth);
        sl_text_printf(t,
                       "{\"type\": \"object\", \"minProperties\": 1, \"maxProperties\": %d, "
                       "\"additionalProperties\": {",
                       SL_FANOUT_MAX_NAMES + 1);
        put_fanout(t, 0, key->max);
        sl_text_printf(t, "}}");
        break;
    case SL_KEY_PATHS:
        sl_text_printf(t,
                       "\"type\": \"object\", \"minProperties\": 1, \"maxProperties\": %d, "
                       "\"additionalProperties\": {\"type\": \"array\", \"minItems\": 1, "
                       "\"maxItems\": %d, \"items\": {\"type\": \"string\"}}",
                       SL_METAPATHS_MAX, SL_METAPATH_STEPS_MAX);
        break;
    case SL_KEY_CORES: // inside anyOf
        sl_text_printf(t, "{\"type\": \"integer\", \"minimum\": 0, \"maximum\": %d},",
                       SL_CONFIG_CORES_MAX - 1);
        put_line(t, depth);
        sl_text_printf(t, "{\"type\": \"string\", \"pattern\": "
                          "\"^[0-9]+(-[0-9]+)?(, ?[0-9]+(-[0-9]+)?)*$\"}");
        break;
    case SL_KEY_NUMBERS: // inside anyOf
        sl_text_printf(t, "{\"enum\": [");
        for (size_t i = 0; key->choices[i]; i++) {
            sl_text_printf(t, i ? ", " : "");
            sl_text_json_string(t, key->choices[i]);
        }
        sl_text_printf(t, "]},");
        put_line(t, depth);
        sl_text_printf(t,
                       "{\"type\": \"array\", \"minItems\": 1, \"maxItems\": %u, \"items\": "
                       "{\"type\": \"number\"",
                       key->bytes / (uint32_t)sizeof(double));
        put_bounds(t, key);
        sl_text_printf(t, "}}");
        break;
    case SL_KEY_LIST:
        snprintf(entry, sizeof entry, "%s[]", key->path);
        sl_text_printf(t,
                       "\"type\": \"array\", \"minItems\": %.0f, \"maxItems\": %.0f, \"items\": {",
                       key->min, key->max);
        put_line(t, depth + 1);
        put_object(t, entry, depth + 1);
        put_line(t, depth);
        sl_text_printf(t, "}");
        break;
    }
}

static void put_key(struct sl_text *t, const struct sl_key *key, int depth)
{
    char doc[640], usual[SL_KEY_DEFAULT_BYTES];
    // What always is the default has a keyword of its own.
    const bool depends = key->fallback_note || key->beside_key;
    snprintf(doc, sizeof doc, "%s%s%s%s", key->doc, depends ? " Default: " : "",
             depends ? sl_key_default(key, usual) : "", depends ? "." : "");
    sl_text_json_string(t, sl_key_leaf(key));
    sl_text_printf(t, ": {");
    put_line(t, depth + 1);
    sl_text_printf(t, "\"description\": ");
    sl_text_json_string(t, doc);
    sl_text_printf(t, ",");
    put_line(t, depth + 1);
    if (key->change) {
        sl_text_printf(t, "\"x-sluice-change\": \"%s\",", sl_key_change_word(key));
        put_line(t, depth + 1);
    }

    bool several = key->type == SL_KEY_SIZE || key->type == SL_KEY_CORES ||
                   key->type == SL_KEY_NUMBERS || key->type == SL_KEY_FANOUT;
    if (several || key->word) {
        sl_text_printf(t, "\"anyOf\": [");
        put_line(t, depth + 2);
        sl_text_printf(t, several ? "" : "{");
        put_type(t, key, depth + 2);
        sl_text_printf(t, several ? "" : "}");
        if (key->word) {
            sl_text_printf(t, ",");
            put_line(t, depth + 2);
            if (key->also_word)
                sl_text_printf(t, "{\"enum\": [\"%s\", \"%s\"]}", key->word, key->also_word);
            else
                sl_text_printf(t, "{\"const\": \"%s\"}", key->word);
        }
        put_line(t, depth + 1);
        sl_text_printf(t, "]");
    } else {
        put_type(t, key, depth + 1);
    }
    if (key->fallback && !key->beside_key) {
        sl_text_printf(t, ",");
        put_line(t, depth + 1);
        sl_text_printf(t, "\"default\": %s", key->fallback);
    }
    put_line(t, depth);
    sl_text_printf(t, "}");
}

// The keywords of an object whose members are the keys in `path`.
static void put_object(struct sl_text *t, const char *path, int depth)
{
    sl_text_printf(t, "\"type\": \"object\",");
    put_line(t, depth);
    sl_text_printf(t, "\"additionalProperties\": false,");
    const char *comma = "";
    for (size_t i = 0; i < sl_n_keys; i++) {
        if (!sl_keys[i].required || !sl_key_is_in(&sl_keys[i], path))
            continue;
        if (!*comma) {
            put_line(t, depth);
            sl_text_printf(t, "\"required\": [");
        }
        sl_text_printf(t, "%s\"%s\"", comma, sl_key_leaf(&sl_keys[i]));
        comma = ", ";
    }
    sl_text_printf(t, *comma ? "]," : "");
    put_line(t, depth);
    sl_text_printf(t, "\"properties\": {");
    comma = "";
    for (size_t i = 0; i < sl_n_keys; i++) {
        if (!sl_key_is_in(&sl_keys[i], path))
            continue;
        sl_text_printf(t, "%s", comma);
        put_line(t, depth + 1);
        put_key(t, &sl_keys[i], depth + 1);
        comma = ",";
    }
    put_line(t, depth);
    sl_text_printf(t, "}");
}

char *sl_config_schema(void)
{
    struct sl_text t = {0};
    sl_text_printf(&t,
                   "{\n"
                   "  \"$schema\": \"https://json-schema.org/draft/2020-12/schema\",\n"
                   "  \"title\": \"sluice job\",\n"
                   "  \"description\": \"A job file of sluice: what to train, on what, and how. "
                   "Written by `sluice schema`.\",\n  ");
    put_object(&t, "", 1);
    sl_text_printf(&t, "\n}\n");
    return sl_text_take(&t);
}
