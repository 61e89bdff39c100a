#include "broker/json_writer.h"

#include <math.h>
#include <stdio.h>

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
