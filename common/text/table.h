/*
 * table.h - aligned text tables for summaries.
 *
 *     struct sl_table t;
 *     sl_table_init(&t, "l r r", (const char *[]){"stage", "seconds", "share"});
 *     sl_table_row(&t, "%s|%.2f|%.0f %%", "sample", 1.23, 40.0);
 *     sl_table_print(&t, stdout);
 *     sl_table_fini(&t);
 */
#ifndef SL_TEXT_TABLE_H
#define SL_TEXT_TABLE_H

#include <stddef.h>
#include <stdio.h>

enum { SL_TABLE_MAX_COLUMNS = 16 };

struct sl_table {
    size_t n_columns;
    char align[SL_TABLE_MAX_COLUMNS]; // 'l' or 'r'
    char **cells;                     // (n_rows, n_columns), owned
    size_t n_rows, capacity;
    int failed; // out of memory: nothing more is added, print says so
    int headed; // the first row is a heading and gets a rule below
};

// `align`: one of l and r for each column, blanks ignored. `headings` may be NULL.
void sl_table_init(struct sl_table *t, const char *align, const char *const *headings);
void sl_table_fini(struct sl_table *t);

// A row whose cells are separated by '|' in the formatted text; missing cells are empty.
void sl_table_row(struct sl_table *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

// Columns are two blanks apart; widths count UTF-8 characters; no blanks at a line's end.
void sl_table_print(const struct sl_table *t, FILE *out);

#endif
