/*
 * dgl_vertices.h - a csv file of vertices of one type, as DGL's CSVDataset has it: which of its
 * columns are what, and its rows as features, labels and lists.
 */
#ifndef SL_DATASET_DGL_VERTICES_H
#define SL_DATASET_DGL_VERTICES_H

#include <stdbool.h>
#include <stdint.h>

#include "dataset/csv_table.h"
#include "dataset/dgl_features.h"
#include "dataset/id_table.h"
#include "dataset/import.h"

struct sl_dgl_columns { // options
    const char *features, *label, *label_type;
    int task; // enum sl_task, NONE = by the labels
};

struct sl_dgl_vertices {
    struct sl_csv_table table;
    const char *name; // of the type
    struct sl_id_table ids;
    char *graph_id; // of all rows
    // Columns, -1 where there is none.
    int id, graph, label, mask[SL_SPLIT_COUNT];
    struct sl_dgl_features features;
};

// Finds the columns in the heading; v->id and v->graph are set. SL_EINVAL for features that are not
// clear.
int sl_dgl_vertices_choose(struct sl_dgl_vertices *v, const struct sl_dgl_columns *columns);

// The type whose labels and masks are used, n_types where none has any; the columns that nobody
// uses are said to be left out.
int sl_dgl_vertices_choose_labels(struct sl_dgl_vertices *types, uint32_t n_types,
                                  const struct sl_dgl_columns *columns, const char *path,
                                  uint32_t *first);

// Once v->ids is finished: features and, with `labels`, the rest into their files.
int sl_dgl_vertices_read(struct sl_dgl_vertices *v, struct sl_import *im, enum sl_task task,
                         bool labels);

void sl_dgl_vertices_fini(struct sl_dgl_vertices *v); // safe on a zeroed struct

#endif
