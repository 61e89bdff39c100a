#include "dataset/yaml_reader.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <yaml.h>

#include "common/base/error.h"
#include "common/base/open_file.h"

enum { MAX_FILE_BYTES = 16 << 20, MAX_DEPTH = 64 };

struct reader {
    const char *name;
    yaml_parser_t parser;
    yaml_event_t event; // the current one, owned
    int depth;
};

static int read_node(struct reader *r, cJSON **out);

static int fail_at(const struct reader *r, const char *what)
{
    return sl_fail(SL_EFORMAT, "%s: line %zu: %s", r->name, r->event.start_mark.line + 1, what);
}

static int no_memory(const struct reader *r)
{
    return sl_fail(SL_ENOMEM, "%s: out of memory", r->name);
}

// The next event takes the place of the last one.
static int advance(struct reader *r)
{
    yaml_event_delete(&r->event);
    if (yaml_parser_parse(&r->parser, &r->event))
        return SL_OK;
    const yaml_parser_t *p = &r->parser;
    if (p->error == YAML_MEMORY_ERROR)
        return no_memory(r);
    // Where the text itself cannot be read there is a place in bytes, not a line.
    if (p->error == YAML_READER_ERROR)
        return sl_fail(SL_EFORMAT, "%s: byte %zu: %s", r->name, p->problem_offset + 1, p->problem);
    return sl_fail(SL_EFORMAT, "%s: line %zu: %s%s%s", r->name, p->problem_mark.line + 1,
                   p->context ? p->context : "", p->context ? ": " : "",
                   p->problem ? p->problem : "not YAML");
}

// ---- scalars ------------------------------------------------------------------------------------

// A decimal number as YAML 1.1 has it (1_000_000 too), without leading zeros.
static bool scan_number(const char *text, double *out)
{
    char digits[64];
    size_t n = 0;
    const char *s = text;
    bool whole = true;
    for (; *s; s++) {
        if (*s == '_' && s > text && s[1])
            continue;
        if (!strchr("+-.0123456789eE", *s) || n + 1 >= sizeof digits)
            return false;
        whole = whole && !strchr(".eE", *s);
        digits[n++] = *s;
    }
    digits[n] = '\0';
    const char *first = digits + (digits[0] == '-' || digits[0] == '+');
    if (*first < '0' || *first > '9' || (whole && *first == '0' && first[1]))
        return false;
    char *end;
    *out = strtod(digits, &end);
    return *end == '\0' && isfinite(*out);
}

static cJSON *plain_value(const char *text)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL"};
    static const char *const truths[] = {"true", "True", "TRUE"};
    static const char *const lies[] = {"false", "False", "FALSE"};
    double x;
    for (size_t i = 0; i < sizeof nulls / sizeof *nulls; i++)
        if (strcmp(text, nulls[i]) == 0)
            return cJSON_CreateNull();
    for (size_t i = 0; i < 3; i++) {
        if (strcmp(text, truths[i]) == 0)
            return cJSON_CreateTrue();
        if (strcmp(text, lies[i]) == 0)
            return cJSON_CreateFalse();
    }
    return scan_number(text, &x) ? cJSON_CreateNumber(x) : cJSON_CreateString(text);
}

// The current scalar as text; NULL with a message for one that cJSON cannot hold.
static const char *text_of(const struct reader *r)
{
    const char *text = (const char *)r->event.data.scalar.value;
    if (strlen(text) == r->event.data.scalar.length)
        return text;
    fail_at(r, "a text with a zero byte in it");
    return NULL;
}

static int read_scalar(struct reader *r, cJSON **out)
{
    const char *text = text_of(r), *tag = (const char *)r->event.data.scalar.tag;
    if (!text)
        return SL_EFORMAT;
    if (tag && strcmp(tag, YAML_STR_TAG) != 0)
        return fail_at(r, "tags (!) are not read: leave it out");
    bool plain = r->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE && !tag;
    *out = plain ? plain_value(text) : cJSON_CreateString(text);
    return *out ? SL_OK : no_memory(r);
}

// ---- collections --------------------------------------------------------------------------------

// The value behind the current key.
static int read_member(struct reader *r, cJSON *object)
{
    cJSON *value = NULL;
    if (r->event.type != YAML_SCALAR_EVENT)
        return fail_at(r, "a key that is no text");
    const char *text = text_of(r);
    if (!text)
        return SL_EFORMAT;
    if (cJSON_GetObjectItemCaseSensitive(object, text))
        return sl_fail(SL_EFORMAT, "%s: line %zu: key '%.*s' is there twice", r->name,
                       r->event.start_mark.line + 1, (int)strcspn(text, "\r\n"), text);
    char *key = strdup(text);
    int rc = key ? advance(r) : no_memory(r);
    if (rc == SL_OK)
        rc = read_node(r, &value);
    if (rc == SL_OK && !cJSON_AddItemToObject(object, key, value))
        rc = no_memory(r);
    free(key);
    return rc;
}

static int read_element(struct reader *r, cJSON *array)
{
    cJSON *value = NULL;
    SL_TRY(read_node(r, &value));
    return cJSON_AddItemToArray(array, value) ? SL_OK : no_memory(r);
}

// From the event that begins a collection to the one that ends it.
static int read_collection(struct reader *r, cJSON *collection, yaml_event_type_t end,
                           int (*read_part)(struct reader *r, cJSON *collection))
{
    if (++r->depth > MAX_DEPTH)
        return fail_at(r, "nested too deeply");
    for (;;) {
        SL_TRY(advance(r));
        if (r->event.type == end)
            break;
        SL_TRY(read_part(r, collection));
    }
    r->depth--;
    return SL_OK;
}

static const char *anchor_of(const yaml_event_t *e)
{
    switch (e->type) {
    case YAML_ALIAS_EVENT: return (const char *)e->data.alias.anchor;
    case YAML_SCALAR_EVENT: return (const char *)e->data.scalar.anchor;
    case YAML_MAPPING_START_EVENT: return (const char *)e->data.mapping_start.anchor;
    case YAML_SEQUENCE_START_EVENT: return (const char *)e->data.sequence_start.anchor;
    default: return NULL;
    }
}

static int read_node(struct reader *r, cJSON **out)
{
    if (anchor_of(&r->event))
        return fail_at(r, "anchors and aliases (& and *) are not read: write the value out");
    if (r->event.type == YAML_SCALAR_EVENT)
        return read_scalar(r, out);
    bool mapping = r->event.type == YAML_MAPPING_START_EVENT;
    if (mapping ? r->event.data.mapping_start.tag : r->event.data.sequence_start.tag)
        return fail_at(r, "tags (!) are not read: leave it out");
    *out = mapping ? cJSON_CreateObject() : cJSON_CreateArray();
    if (!*out)
        return no_memory(r);
    int rc = mapping ? read_collection(r, *out, YAML_MAPPING_END_EVENT, read_member)
                     : read_collection(r, *out, YAML_SEQUENCE_END_EVENT, read_element);
    if (rc < 0) {
        cJSON_Delete(*out);
        *out = NULL;
    }
    return rc;
}

// ---- the whole ----------------------------------------------------------------------------------

static int read_document(struct reader *r, cJSON **out)
{
    SL_TRY(advance(r)); // the stream begins
    SL_TRY(advance(r));
    if (r->event.type == YAML_STREAM_END_EVENT)
        return sl_fail(SL_EFORMAT, "%s: is empty", r->name);
    SL_TRY(advance(r));
    SL_TRY(read_node(r, out));
    SL_TRY(advance(r)); // the document ends
    SL_TRY(advance(r));
    return r->event.type == YAML_STREAM_END_EVENT ? SL_OK : fail_at(r, "a second document");
}

int sl_yaml_parse(const char *text, size_t n, const char *name, cJSON **out)
{
    struct reader r = {.name = name};
    *out = NULL;
    if (!yaml_parser_initialize(&r.parser))
        return no_memory(&r);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, n);
    int rc = read_document(&r, out);
    yaml_event_delete(&r.event);
    yaml_parser_delete(&r.parser);
    if (rc < 0) {
        cJSON_Delete(*out);
        *out = NULL;
    }
    return rc;
}

int sl_yaml_read(const char *path, cJSON **out)
{
    *out = NULL;
    int fd = sl_open_file(path);
    if (fd < 0)
        return fd;
    char *text;
    size_t n;
    int rc = sl_read_whole_file(fd, path, MAX_FILE_BYTES, &text, &n);
    if (rc == SL_EFORMAT)
        rc = sl_fail(SL_EFORMAT, "%s: wanted a regular file of at most %d bytes", path,
                     (int)MAX_FILE_BYTES);
    close(fd);
    if (rc == SL_OK)
        rc = sl_yaml_parse(text, n, path, out);
    free(text);
    return rc;
}
