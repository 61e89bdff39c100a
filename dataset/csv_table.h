/*
 * csv_table.h - a text table whose first line names its columns, with one separator.
 *
 * A field may be quoted (line_fields.h), so that it holds the separator: "0.5,0.25". It may be a
 * number, text, or a list of numbers.
 */
#ifndef SL_DATASET_CSV_TABLE_H
#define SL_DATASET_CSV_TABLE_H

#include <stdint.h>

#include "dataset/csv_reader.h"
#include "dataset/line_fields.h"

struct sl_csv_table {
    struct sl_csv csv; // its context is this table
    struct sl_line_fields fields;
    char **names; // (n_columns) the heading
    int n_columns;

    // While rows are read.
    void *context;
    int (*row)(struct sl_csv_table *t); // gets t->fields, as many as there are columns
};

// Opens a zeroed table at DIR/FILE and reads its heading. SL_EFORMAT, SL_ENOENT, ...
int sl_csv_table_open(struct sl_csv_table *t, struct sl_import *im, const char *dir,
                      const char *file, char separator);
void sl_csv_table_close(struct sl_csv_table *t); // safe on a zeroed struct

// The column of that name, or -1.
int sl_csv_table_find(const struct sl_csv_table *t, const char *name);

// Calls row(t) for every line behind the heading, as often as it is wanted. `what` is the stage.
int sl_csv_table_read(struct sl_csv_table *t, const char *what, int (*row)(struct sl_csv_table *t),
                      void *context);

// SL_EFORMAT: the line, the column, what stands there and what was wanted.
int sl_csv_table_fail(const struct sl_csv_table *t, int column, const char *wanted);

/*
 * The numbers of a field, at most `most` of them, into out; *n are there, 0 of an empty field. They
 * stand between commas, perhaps in brackets: 3, "1,2", "[1, 2]". True and False are 1 and 0; nan is
 * NaN. SL_EFORMAT.
 */
int sl_csv_table_numbers(const struct sl_csv_table *t, int column, uint32_t most, double *out,
                         uint32_t *n);

#endif
