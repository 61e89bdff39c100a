/*
 * csv_reader.h - tables of numbers as text, a row a line, for importers: every error names file and
 * line.
 */
#ifndef SL_DATASET_CSV_READER_H
#define SL_DATASET_CSV_READER_H

#include <stdint.h>

#include "dataset/import.h"

enum { SL_CSV_PATH_BYTES = 4608 };

struct sl_csv {
    struct sl_import *im;
    void *context;
    char path[SL_CSV_PATH_BYTES];
    uint64_t line; // being read, from 1; rows, when all are read
};

/*
 * Calls parse(c, &p) for every line of c->path, which leaves p behind the line's newline. A blank
 * line is skipped at the end of a file only: elsewhere it would shift rows. `what` names the stage.
 */
int sl_csv_read(struct sl_csv *c, const char *what, int (*parse)(struct sl_csv *c, const char **p));

// SL_EFORMAT: the line, the word at `found`, and what was wanted.
int sl_csv_fail(const struct sl_csv *c, const char *found, const char *wanted);
// The same of a whole field.
int sl_csv_fail_field(const struct sl_csv *c, const struct sl_line_field *found,
                      const char *wanted);

// Steps over a whole number in [0, limit); `what` it is ("a vertex").
int sl_csv_scan_below(const struct sl_csv *c, const char **p, uint64_t limit, const char *what,
                      uint64_t *out);

// A line "source,destination" into im->edge_sink with this weight.
int sl_csv_put_edge(const struct sl_csv *c, const char **p, struct sl_edge_ends ends,
                    double weight);

// Steps over the newline; anything but blanks before it is an error.
int sl_csv_end_line(const struct sl_csv *c, const char **p, const char *wanted);

// Columns of the line at p.
uint64_t sl_csv_count_columns(const char *p);

#endif
