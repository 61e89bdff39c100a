#include "broker/http/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"

static bool reserve(struct sl_text *t, size_t more)
{
    if (t->failed)
        return false;
    if (t->n + more + 1 <= t->capacity)
        return true;
    size_t capacity = sl_pow2_at_least(SL_MAX(t->n + more + 1, 256));
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

void sl_text_json_string(struct sl_text *t, const char *s)
{
    sl_text_add(t, "\"", 1);
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            sl_text_printf(t, "\\%c", c);
        else if (c < 0x20)
            sl_text_printf(t, "\\u%04x", c);
        else
            sl_text_add(t, s, 1);
    }
    sl_text_add(t, "\"", 1);
}

void sl_text_json_number(struct sl_text *t, double value)
{
    char text[32];
    if (!isfinite(value)) {
        sl_text_puts(t, "null");
        return;
    }
    snprintf(text, sizeof text, "%.15g", value);
    if (strtod(text, NULL) != value)
        snprintf(text, sizeof text, "%.17g", value);
    sl_text_puts(t, text);
}

char *sl_text_hand_over(struct sl_text *t)
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
