#include "dataset/line_fields.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "dataset/line_scan.h"

void sl_line_fields_fini(struct sl_line_fields *f)
{
    free(f->unescaped);
    f->unescaped = NULL;
    f->n_unescaped = f->capacity = 0;
}

// Room for the unescaped text of a line of n bytes, before any field points there.
static int reserve(struct sl_line_fields *f, size_t n)
{
    if (n <= f->capacity)
        return SL_OK;
    char *text = realloc(f->unescaped, n * 2);
    if (!text)
        return sl_fail(SL_ENOMEM, "read fields: no memory for a line of %zu bytes", n);
    f->unescaped = text;
    f->capacity = n * 2;
    return SL_OK;
}

// The field behind the quote at p; returns what follows its closing quote, NULL without one.
static const char *split_quoted(struct sl_line_fields *f, const char *p, struct sl_line_field *out)
{
    const char *begin = ++p;
    while (*p != '"' && *p != '\n')
        p++;
    *out = (struct sl_line_field){begin, (size_t)(p - begin)};
    if (p[0] == '\n')
        return NULL;
    if (p[1] != '"')
        return p + 1;
    char *text = f->unescaped + f->n_unescaped;
    size_t n = 0;
    for (p = begin; *p != '\n' && (p[0] != '"' || p[1] == '"'); p++) {
        p += *p == '"';
        text[n++] = *p;
    }
    text[n] = '"'; // follows it, as in the line
    f->n_unescaped += n + 1;
    *out = (struct sl_line_field){text, n};
    return *p == '"' ? p + 1 : NULL;
}

static bool ends_field(char c, char separator)
{
    return c == '\n' || (separator ? c == separator : sl_line_is_gap(c));
}

int sl_line_fields_split(struct sl_line_fields *f, const char *p, const char **next)
{
    const char separator = f->separator;
    int n = 0;
    f->n_unescaped = 0;
    p = separator ? sl_line_skip_blanks(p, separator) : sl_line_skip_gap(p);
    while (*p != '\n' && n < f->most) {
        struct sl_line_field *field = &f->at[n++];
        if (*p == '"') {
            const char *quote = p;
            if (f->n_unescaped == 0)
                SL_TRY(reserve(f, (size_t)((const char *)rawmemchr(p, '\n') - p) + 1));
            p = split_quoted(f, p, field);
            const char *behind = p && separator ? sl_line_skip_blanks(p, separator) : p;
            if (!behind || !ends_field(*behind, separator)) {
                *next = quote;
                return SL_EFORMAT;
            }
            p = behind;
        } else {
            const char *begin = p, *end;
            while (!ends_field(*p, separator))
                p++;
            for (end = p; end > begin && sl_line_is_blank(end[-1]); end--)
                ;
            *field = (struct sl_line_field){begin, (size_t)(end - begin)};
        }
        if (!separator) {
            p = sl_line_skip_gap(p);
        } else if (*p == separator) {
            p = sl_line_skip_blanks(p + 1, separator);
            // A separator at the end of the line has an empty field behind it.
            if (*p == '\n' && n < f->most)
                f->at[n++] = (struct sl_line_field){p, 0};
        }
    }
    f->n = n;
    if (*p != '\n')
        p = rawmemchr(p, '\n');
    for (; n < f->most; n++)
        f->at[n] = (struct sl_line_field){p, 0};
    *next = p + 1;
    return SL_OK;
}

char sl_line_separator(const char *p, bool tab)
{
    bool begins = true, quoted = false, semicolons = false, tabs = false;
    for (; *p != '\n'; p++) {
        if (quoted) {
            quoted = *p != '"' || p[1] == '"';
            p += *p == '"' && quoted;
            continue;
        }
        if (*p == ',')
            return ',';
        semicolons |= *p == ';';
        tabs |= *p == '\t';
        quoted = begins && *p == '"';
        begins = sl_line_is_gap(*p);
    }
    return semicolons ? ';' : tabs && tab ? '\t' : '\0';
}

bool sl_field_is(const struct sl_line_field *f, const char *text)
{
    return strlen(text) == f->n && memcmp(f->text, text, f->n) == 0;
}
