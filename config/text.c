// text.c - see text_internal.h. The JSON check is in json_check.c.
#include "config/text_internal.h"

#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/bits.h"
#include "common/text/suggest.h"

static bool reserve(struct sl_text *t, size_t more)
{
    if (t->failed)
        return false;
    if (t->capacity - t->bytes > more)
        return true;
    size_t capacity = sl_pow2_at_least(SL_MAX(t->bytes + more + 1, (size_t)1024));
    char *data = realloc(t->data, capacity);
    if (!data) {
        t->failed = true;
        return false;
    }
    t->data = data;
    t->capacity = capacity;
    return true;
}

void sl_text_put(struct sl_text *t, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    if (n >= 0 && reserve(t, (size_t)n)) {
        vsnprintf(t->data + t->bytes, (size_t)n + 1, fmt, again);
        t->bytes += (size_t)n;
    }
    va_end(again);
    va_end(ap);
}

// Writes c as JSON writes it in a string; returns the bytes put to out (at most 6).
static size_t escape(unsigned char c, char out[8])
{
    const char *short_form = c == '"'    ? "\\\""
                             : c == '\\' ? "\\\\"
                             : c == '\n' ? "\\n"
                             : c == '\t' ? "\\t"
                             : c == '\r' ? "\\r"
                                         : NULL;
    if (short_form)
        return (size_t)snprintf(out, 8, "%s", short_form);
    if (c < 0x20 || c == 0x7f)
        return (size_t)snprintf(out, 8, "\\u%04x", c);
    out[0] = (char)c;
    return 1;
}

void sl_text_put_quoted(struct sl_text *t, const char *s)
{
    sl_text_put(t, "\"");
    for (; *s; s++) {
        char out[8];
        size_t n = escape((unsigned char)*s, out);
        sl_text_put(t, "%.*s", (int)n, out);
    }
    sl_text_put(t, "\"");
}

void sl_text_number(double value, char out[SL_TEXT_NUMBER_BYTES])
{
    const char *point = localeconv()->decimal_point;
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(out, SL_TEXT_NUMBER_BYTES, "%.*g", digits, value);
        if (strtod(out, NULL) == value)
            break;
    }
    // A whole number below 2^53 reads better without an exponent.
    if (value > -9.1e15 && value < 9.1e15 && value == (double)(long long)value)
        snprintf(out, SL_TEXT_NUMBER_BYTES, "%.0f", value == 0 ? 0.0 : value);
    char *at = strcmp(point, ".") == 0 ? NULL : strstr(out, point);
    if (at) {
        *at = '.';
        memmove(at + 1, at + strlen(point), strlen(at + strlen(point)) + 1);
    }
}

void sl_text_put_number(struct sl_text *t, double value)
{
    char out[SL_TEXT_NUMBER_BYTES];
    sl_text_number(value, out);
    sl_text_put(t, "%s", out);
}

char *sl_text_take(struct sl_text *t)
{
    char *data = t->data;
    if (t->failed) {
        free(data);
        data = NULL;
    }
    *t = (struct sl_text){0};
    return data;
}

static void shorten(const char *s, char out[SL_TEXT_QUOTE_BYTES], bool quotes)
{
    enum { ROOM = SL_TEXT_QUOTE_BYTES - 14 }; // for one escape, "...", a quote and the end
    size_t n = 0;
    if (quotes)
        out[n++] = '"';
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        // A cut falls between characters, not inside one.
        if (n > ROOM || (n > ROOM - 3 && (c & 0xC0) == 0xC0)) {
            memcpy(out + n, "...", 3);
            n += 3;
            break;
        }
        char piece[8];
        size_t m = escape(c, piece);
        if (!quotes && (c == '"' || c == '\\')) {
            piece[0] = (char)c;
            m = 1;
        }
        memcpy(out + n, piece, m);
        n += m;
    }
    if (quotes)
        out[n++] = '"';
    out[n] = '\0';
}

void sl_text_quote(const char *s, char out[SL_TEXT_QUOTE_BYTES])
{
    shorten(s, out, true);
}

void sl_text_excerpt(const char *s, char out[SL_TEXT_QUOTE_BYTES])
{
    shorten(s, out, false);
}

unsigned sl_text_nearness(const char *given, const char *known)
{
    unsigned limit = SL_MAX(1u, SL_MIN((unsigned)strlen(given) / 3, 3u));
    unsigned edits = strcasecmp(given, known) == 0 ? 0 : sl_suggest_distance(given, known);
    bool inside = (strlen(known) >= 4 && strstr(given, known)) ||
                  (strlen(given) >= 4 && strstr(known, given));
    if (edits <= limit)
        return edits;
    return inside ? 2 : SL_TEXT_FAR;
}
