/*
 * line_fields.h - a line of text as fields: what stands between separators, with or without quotes.
 *
 * Between separators of one kind (comma, semicolon, tab) a field may be empty and have blanks
 * inside; those around it do not belong to it. Without one, runs of blanks, tabs, commas and
 * semicolons separate. A field that begins with a double quote ends with the next one; two of them
 * inside stand for one. A quoted field ends in its line.
 */
#ifndef SL_DATASET_LINE_FIELDS_H
#define SL_DATASET_LINE_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SL_FIELDS_MAX = 1024 };

// Text without its quotes. What follows it, text[n], is there and no part of a number, so numbers
// are scanned as those of line_scan.h and have to end at text + n. Borrowed until the next split.
struct sl_line_field {
    const char *text; // the line's end when there is no such field
    size_t n;
};

struct sl_line_fields {
    char separator; // ',' ';' '\t', or '\0': runs of any of these and of blanks
    int most;       // fields to split off, at most SL_FIELDS_MAX; what follows stays unread
    int n;          // of the last line, at most `most`
    struct sl_line_field at[SL_FIELDS_MAX];
    char *unescaped; // of fields with quotes in them
    size_t n_unescaped, capacity;
};

void sl_line_fields_fini(struct sl_line_fields *f); // safe on a zeroed struct

/*
 * Splits the line at p, which ends in '\n', and sets *next behind that; fields it lacks, up to
 * f->most, are empty. SL_EFORMAT (without a message) for a quote that the line does not close or
 * that something follows, *next at it; SL_ENOMEM.
 */
int sl_line_fields_split(struct sl_line_fields *f, const char *p, const char **next);

// The separator of a line: a comma, else a semicolon, else (with `tab`) a tab, where one stands
// outside of quotes; or '\0'.
char sl_line_separator(const char *p, bool tab);

// Whether a field is that text.
bool sl_field_is(const struct sl_line_field *f, const char *text);

#endif
