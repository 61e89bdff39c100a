#include "common/text/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/json_print.h"
#include "common/base/utf8.h"

enum { FIRST_BYTES = 1024 };

// Room for n more bytes and the NUL.
static bool reserve(struct sl_text *t, size_t n)
{
    if (t->failed)
        return false;
    if (t->n + n < t->capacity)
        return true;
    size_t capacity = sl_pow2_at_least(SL_MAX(t->n + n + 1, (size_t)FIRST_BYTES));
    char *s = realloc(t->s, capacity);
    if (!s) {
        t->failed = true;
        return false;
    }
    t->s = s;
    t->capacity = capacity;
    return true;
}

void sl_text_add(struct sl_text *t, const char *bytes, size_t n)
{
    if (!reserve(t, n))
        return;
    memcpy(t->s + t->n, bytes, n);
    t->n += n;
    t->s[t->n] = '\0';
}

void sl_text_puts(struct sl_text *t, const char *s)
{
    sl_text_add(t, s, strlen(s));
}

void sl_text_printf(struct sl_text *t, const char *fmt, ...)
{
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, args);
    if (n >= 0 && reserve(t, (size_t)n)) {
        vsnprintf(t->s + t->n, (size_t)n + 1, fmt, again);
        t->n += (size_t)n;
    }
    va_end(again);
    va_end(args);
}

void sl_text_clear(struct sl_text *t)
{
    t->n = 0;
    t->failed = false;
    if (t->s)
        t->s[0] = '\0';
}

char *sl_text_take(struct sl_text *t)
{
    char *s = NULL;
    sl_text_add(t, "", 0); // an empty text is a text too
    if (!t->failed)
        s = t->s;
    else
        free(t->s);
    *t = (struct sl_text){0};
    return s;
}

void sl_text_fini(struct sl_text *t)
{
    free(t->s);
    *t = (struct sl_text){0};
}

// ---- JSON ---------------------------------------------------------------------------------------

size_t sl_text_escape(unsigned char c, char out[SL_TEXT_ESCAPE_BYTES])
{
    const char *short_form = c == '"'    ? "\\\""
                             : c == '\\' ? "\\\\"
                             : c == '\n' ? "\\n"
                             : c == '\t' ? "\\t"
                             : c == '\r' ? "\\r"
                                         : NULL;
    if (short_form)
        return (size_t)snprintf(out, SL_TEXT_ESCAPE_BYTES, "%s", short_form);
    if (c < 0x20 || c == 0x7f)
        return (size_t)snprintf(out, SL_TEXT_ESCAPE_BYTES, "\\u%04x", c);
    out[0] = (char)c;
    return 1;
}

static bool is_plain(char c)
{
    return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

void sl_text_json_string(struct sl_text *t, const char *s)
{
    sl_text_add(t, "\"", 1);
    for (const char *p = s; *p;) {
        char piece[SL_TEXT_ESCAPE_BYTES] = "";
        size_t n = 0;
        while (is_plain(p[n]))
            n++;
        sl_text_add(t, p, n);
        p += n;
        if ((unsigned char)*p >= 0x80)
            n = (size_t)sl_utf8_put(sl_utf8_next(&p), piece);
        else
            n = *p ? sl_text_escape((unsigned char)*p++, piece) : 0;
        sl_text_add(t, piece, n);
    }
    sl_text_add(t, "\"", 1);
}

// How a character of markup is written in a text; NULL: as it is.
static const char *reference(uint32_t c)
{
    switch (c) {
    case '<': return "&lt;";
    case '>': return "&gt;";
    case '&': return "&amp;";
    case '"': return "&quot;";
    case '\'': return "&#39;";
    default: return c == 0xfffe || c == 0xffff ? "?" : NULL; // XML has no such characters
    }
}

void sl_text_markup(struct sl_text *t, const char *s)
{
    while (*s) {
        if (*s == '\n') {
            sl_text_add(t, s++, 1);
            continue;
        }
        char piece[4] = "";
        uint32_t c = sl_utf8_next(&s);
        const char *said = reference(c);
        if (said)
            sl_text_puts(t, said);
        else
            sl_text_add(t, piece, (size_t)sl_utf8_put(c, piece));
    }
}

void sl_text_json_number(struct sl_text *t, double value)
{
    char text[SL_NUMBER_TEXT_BYTES] = "null";
    if (isfinite(value))
        sl_number_text(value, text);
    sl_text_puts(t, text);
}

bool sl_text_ends_in(const char *name, const char *ending)
{
    const size_t n = strlen(name), tail = strlen(ending);
    return n > tail && strcmp(name + n - tail, ending) == 0;
}
