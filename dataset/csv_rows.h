/*
 * csv_rows.h - tables of numbers as text, a row for each vertex in their order, and lists of
 * vertices, one a line, into the parts of a data set: as array_sink.h of arrays.
 */
#ifndef SL_DATASET_CSV_ROWS_H
#define SL_DATASET_CSV_ROWS_H

#include <stdint.h>

#include "dataset/csv_reader.h"
#include "dataset/import.h"

// The first row says how many columns there are. SL_EFORMAT unless there are n_nodes rows.
int sl_csv_put_features(struct sl_import *im, const char *path, uint64_t n_nodes);
// "nan" is no label.
int sl_csv_put_labels(struct sl_import *im, const char *path, uint64_t n_nodes, enum sl_task task);
int sl_csv_put_list(struct sl_import *im, const char *path, enum sl_split split, uint64_t n_nodes);

#endif
