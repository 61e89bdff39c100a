#include "broker/log/json_writer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NUMBER_BYTES = 40 };

void sl_json_reset(struct sl_json_writer *w)
{
    sl_text_clear(&w->text);
    w->comma = false;
}

void sl_json_fini(struct sl_json_writer *w)
{
    sl_text_fini(&w->text);
    w->comma = false;
}

const char *sl_json_text(const struct sl_json_writer *w)
{
    return w->text.failed ? NULL : w->text.s;
}

static void begin_member(struct sl_json_writer *w, const char *key)
{
    if (w->comma)
        sl_text_add(&w->text, ",", 1);
    w->comma = true;
    if (!key)
        return;
    sl_text_json_string(&w->text, key);
    sl_text_add(&w->text, ":", 1);
}

static void open(struct sl_json_writer *w, const char *key, const char *bracket)
{
    begin_member(w, key);
    sl_text_add(&w->text, bracket, 1);
    w->comma = false;
}

static void close(struct sl_json_writer *w, const char *bracket)
{
    sl_text_add(&w->text, bracket, 1);
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
    sl_text_puts(&w->text, text);
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
    sl_text_json_string(&w->text, value);
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

// --- records -------------------------------------------------------------------------------------

static void add_field(struct sl_json_writer *w, const struct sl_field *f, const char *key,
                      const void *record)
{
    if (!sl_field_is_known(f, record)) {
        sl_json_add_null(w, key);
        return;
    }
    switch (f->type) {
    case SL_FIELD_POSITIVE:
    case SL_FIELD_REAL: sl_json_add_real(w, key, sl_field_number(f, record)); break;
    case SL_FIELD_WHOLE: sl_json_add_whole(w, key, (uint64_t)sl_field_number(f, record)); break;
    case SL_FIELD_TIME: sl_json_add_time(w, key, sl_field_number(f, record)); break;
    case SL_FIELD_FLAG: sl_json_add_bool(w, key, sl_field_flag(f, record)); break;
    case SL_FIELD_NOTE:
    case SL_FIELD_TEXT: sl_json_add_string(w, key, sl_field_text(f, record)); break;
    case SL_FIELD_TREE:
    case SL_FIELD_RECORD:
    case SL_FIELD_OBJECT:
    case SL_FIELD_PART: break;
    }
}

static size_t object_length(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot ? (size_t)(dot - path) : 0;
}

// From the object that is open (the first *n characters of a path) to the one that holds a field.
static void enter(struct sl_json_writer *w, const char *open, size_t *n, const char *path)
{
    char key[NUMBER_BYTES];
    size_t to = object_length(path);
    while (*n > to || (*n && (strncmp(open, path, *n) != 0 || path[*n] != '.'))) {
        sl_json_close_object(w);
        for (--*n; *n && open[*n] != '.';)
            --*n;
    }
    while (*n < to) {
        size_t from = *n ? *n + 1 : 0, length = strcspn(path + from, ".");
        snprintf(key, sizeof key, "%.*s", (int)length, path + from);
        sl_json_open_object(w, key);
        *n = from + length;
    }
}

void sl_json_add_fields(struct sl_json_writer *w, const struct sl_fields *r, const void *record,
                        void (*part)(void *arg, const char *key, struct sl_json_writer *w),
                        void *arg)
{
    const struct sl_field *end = r->fields + r->n;
    const char *open = "";
    size_t n = 0;
    for (const struct sl_field *f = r->fields; f < end; f++) {
        bool known = true;
        size_t within = f->type == SL_FIELD_OBJECT ? sl_fields_within(f, end, record, &known) : 0;
        enter(w, open, &n, f->path);
        open = f->path;
        const char *key = f->path + n + (n > 0);
        if (f->type == SL_FIELD_PART) {
            part(arg, key, w);
        } else if (f->type != SL_FIELD_OBJECT) {
            add_field(w, f, key, record);
        } else if (!known) {
            sl_json_add_null(w, key);
            f += within;
        }
    }
    enter(w, open, &n, "");
}
