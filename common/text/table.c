#include "common/text/table.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"

enum { ROW_BYTES = 2048 };

static size_t characters(const char *text)
{
    // UTF-8 continuation bytes stand in no column of their own.
    size_t n = 0;
    for (; *text; text++)
        n += ((unsigned char)*text & 0xc0u) != 0x80;
    return n;
}

// Appends one row of n_columns cells cut from `text` at each '|'; takes a copy.
static void add_row(struct sl_table *t, const char *text)
{
    if (t->failed)
        return;
    if (t->n_rows == t->capacity) {
        size_t capacity = SL_MAX(t->capacity * 2, (size_t)16);
        char **cells = realloc(t->cells, capacity * t->n_columns * sizeof *cells);
        if (!cells) {
            t->failed = 1;
            return;
        }
        t->cells = cells;
        t->capacity = capacity;
    }
    char **row = &t->cells[t->n_rows * t->n_columns];
    memset(row, 0, t->n_columns * sizeof *row);
    t->n_rows++;
    for (size_t i = 0; i < t->n_columns; i++) {
        size_t length = strcspn(text, "|");
        row[i] = strndup(text, length);
        if (!row[i])
            t->failed = 1;
        text += length + (text[length] == '|');
    }
}

void sl_table_init(struct sl_table *t, const char *align, const char *const *headings)
{
    memset(t, 0, sizeof *t);
    for (; *align && t->n_columns < SL_TABLE_MAX_COLUMNS; align++)
        if (*align == 'l' || *align == 'r')
            t->align[t->n_columns++] = *align;
    if (!headings)
        return;
    char text[ROW_BYTES] = "";
    size_t used = 0;
    for (size_t i = 0; i < t->n_columns; i++) {
        int n = snprintf(text + used, sizeof text - used, "%s%s", i ? "|" : "", headings[i]);
        used = SL_MIN(used + (size_t)SL_MAX(n, 0), sizeof text - 1);
    }
    add_row(t, text);
    t->headed = 1;
}

void sl_table_fini(struct sl_table *t)
{
    for (size_t i = 0; i < t->n_rows * t->n_columns; i++)
        free(t->cells[i]);
    free(t->cells);
    memset(t, 0, sizeof *t);
}

void sl_table_row(struct sl_table *t, const char *fmt, ...)
{
    char text[ROW_BYTES];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    add_row(t, text);
}

static void print_blanks(FILE *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        fputc(' ', out);
}

void sl_table_print(const struct sl_table *t, FILE *out)
{
    size_t width[SL_TABLE_MAX_COLUMNS] = {0}, whole = 0;
    if (t->failed) {
        fprintf(out, "(no memory for this table)\n");
        return;
    }
    for (size_t r = 0; r < t->n_rows; r++)
        for (size_t c = 0; c < t->n_columns; c++)
            width[c] = SL_MAX(width[c], characters(t->cells[r * t->n_columns + c]));
    for (size_t c = 0; c < t->n_columns; c++)
        whole += width[c] + (c ? 2 : 0);
    for (size_t r = 0; r < t->n_rows; r++) {
        // Blanks are owed until something stands after them.
        size_t owed = 0;
        for (size_t c = 0; c < t->n_columns; c++) {
            const char *cell = t->cells[r * t->n_columns + c];
            size_t pad = width[c] - characters(cell);
            owed += (c ? 2 : 0) + (t->align[c] == 'r' ? pad : 0);
            if (*cell) {
                print_blanks(out, owed);
                fputs(cell, out);
                owed = 0;
            }
            owed += t->align[c] == 'l' ? pad : 0;
        }
        fputc('\n', out);
        if (r == 0 && t->headed) {
            for (size_t i = 0; i < whole; i++)
                fputc('-', out);
            fputc('\n', out);
        }
    }
}
