#include "broker/json_writer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/utf8.h"

enum { FIRST_BYTES = 8192, NUMBER_BYTES = 40 };

void sl_json_reset(struct sl_json_writer *w)
{
    w->n = 0;
    w->comma = w->failed = false;
    if (w->text)
        w->text[0] = '\0';
}

void sl_json_fini(struct sl_json_writer *w)
{
    free(w->text);
    *w = (struct sl_json_writer){0};
}

const char *sl_json_text(const struct sl_json_writer *w)
{
    return w->failed ? NULL : w->text;
}

// Room for n more bytes and the NUL.
static bool reserve(struct sl_json_writer *w, size_t n)
{
    if (w->failed)
        return false;
    if (w->n + n < w->capacity)
        return true;
    size_t capacity = SL_MAX(SL_MAX(2 * w->capacity, w->n + n + 1), (size_t)FIRST_BYTES);
    char *text = realloc(w->text, capacity);
    if (!text) {
        w->failed = true;
        return false;
    }
    w->text = text;
    w->capacity = capacity;
    return true;
}

static void put(struct sl_json_writer *w, const char *bytes, size_t n)
{
    if (!reserve(w, n))
        return;
    memcpy(w->text + w->n, bytes, n);
    w->n += n;
    w->text[w->n] = '\0';
}

static bool is_plain(char c)
{
    return c >= 0x20 && c != '"' && c != '\\' && (unsigned char)c < 0x80;
}

// Whatever the text holds, what is written is valid: malformed UTF-8 becomes '?'.
static void put_string(struct sl_json_writer *w, const char *s)
{
    put(w, "\"", 1);
    for (const char *p = s; *p;) {
        char escaped[8];
        size_t plain = 0;
        while (is_plain(p[plain]))
            plain++;
        put(w, p, plain);
        p += plain;
        if (!*p)
            break;
        if ((unsigned char)*p >= 0x80) {
            int n = sl_utf8_put(sl_utf8_next(&p), escaped);
            put(w, escaped, (size_t)n);
            continue;
        }
        bool printable = *p == '"' || *p == '\\';
        snprintf(escaped, sizeof escaped, printable ? "\\%c" : "\\u%04x", *p);
        put(w, escaped, strlen(escaped));
        p++;
    }
    put(w, "\"", 1);
}

static void begin_member(struct sl_json_writer *w, const char *key)
{
    if (w->comma)
        put(w, ",", 1);
    w->comma = true;
    if (!key)
        return;
    put_string(w, key);
    put(w, ":", 1);
}

static void open(struct sl_json_writer *w, const char *key, const char *bracket)
{
    begin_member(w, key);
    put(w, bracket, 1);
    w->comma = false;
}

static void close(struct sl_json_writer *w, const char *bracket)
{
    put(w, bracket, 1);
    w->comma = true;
}

void sl_json_open_object(struct sl_json_writer *w, const char *key)
{
    open(w, key, "{");
}

void sl_json_close_object(struct sl_json_writer *w)
{
    close(w, "}");
}

void sl_json_open_array(struct sl_json_writer *w, const char *key)
{
    open(w, key, "[");
}

void sl_json_close_array(struct sl_json_writer *w)
{
    close(w, "]");
}

void sl_json_add_raw(struct sl_json_writer *w, const char *key, const char *json)
{
    const char *text = json ? json : "null";
    begin_member(w, key);
    put(w, text, strlen(text));
}

void sl_json_add_null(struct sl_json_writer *w, const char *key)
{
    sl_json_add_raw(w, key, NULL);
}

void sl_json_add_string(struct sl_json_writer *w, const char *key, const char *value)
{
    if (!value) {
        sl_json_add_null(w, key);
        return;
    }
    begin_member(w, key);
    put_string(w, value);
}

__attribute__((format(printf, 4, 0))) static void add_number(struct sl_json_writer *w,
                                                             const char *key, double value,
                                                             const char *fmt)
{
    char text[NUMBER_BYTES];
    if (isfinite(value))
        snprintf(text, sizeof text, fmt, value);
    sl_json_add_raw(w, key, isfinite(value) ? text : NULL);
}

void sl_json_add_real(struct sl_json_writer *w, const char *key, double value)
{
    add_number(w, key, value, "%.9g");
}

void sl_json_add_time(struct sl_json_writer *w, const char *key, double value)
{
    add_number(w, key, value, "%.3f");
}

void sl_json_add_whole(struct sl_json_writer *w, const char *key, uint64_t value)
{
    char text[NUMBER_BYTES];
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    sl_json_add_raw(w, key, text);
}

void sl_json_add_bool(struct sl_json_writer *w, const char *key, bool value)
{
    sl_json_add_raw(w, key, value ? "true" : "false");
}
