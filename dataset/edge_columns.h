/*
 * edge_columns.h - which columns of an edge list are source, target and weight.
 *
 * Without --columns the first edge decides: two columns are source and target, a third is the
 * weight, a fourth the time where the file's heading promises one (KONECT's); elsewhere four are
 * refused. --columns names columns by numbers from 1 or by the names of a heading row; other
 * columns are not read. With --by-time and --times the last column is the time, and is read in the
 * weight's place.
 */
#ifndef SL_DATASET_EDGE_COLUMNS_H
#define SL_DATASET_EDGE_COLUMNS_H

#include <stdbool.h>
#include <stdint.h>

#include "dataset/line_fields.h"

struct sl_import;

// Places in a line's fields, from 0; a weight of -1: there is none.
struct sl_edge_columns {
    int source, target, weight;
    int n_most; // columns that a line may have
};

// Checks the syntax of --columns; SL_EINVAL.
int sl_edge_columns_check(const char *option);

// By --columns and the fields of the first line, which is a heading row where *is_heading is set.
// SL_EINVAL for the option, SL_EFORMAT for the line.
int sl_edge_columns_choose(const struct sl_import *im, const char *option,
                           const struct sl_line_fields *line, struct sl_edge_columns *out,
                           bool *is_heading);

// By the fields of the first edge; has_time: a fourth column is one, if only because of --by-time
// or --times. SL_EFORMAT.
int sl_edge_columns_default(const struct sl_import *im, bool has_time,
                            const struct sl_line_fields *line, struct sl_edge_columns *out);

// Reads no weights, whatever the columns are.
void sl_edge_columns_drop_weight(struct sl_edge_columns *c);

// Fields of a line that have to be split off.
int sl_edge_columns_width(const struct sl_edge_columns *c);

#endif
