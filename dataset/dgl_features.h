/*
 * dgl_features.h - the columns of a csv table that are features, side by side, as DGL's CSVDataset
 * has them: a field may hold several numbers.
 */
#ifndef SL_DATASET_DGL_FEATURES_H
#define SL_DATASET_DGL_FEATURES_H

#include <stdint.h>

#include "dataset/csv_table.h"

struct sl_dgl_features {
    int n, column[SL_FIELDS_MAX];
    // While rows are read.
    uint32_t width[SL_FIELDS_MAX]; // numbers of each column, and
    uint32_t dim;                  // of all, by the first row
    double *values;                // (SL_SINK_MAX_DIM) of a field
    float *row;                    // (dim) NULL: no row has been read
};

void sl_dgl_features_add(struct sl_dgl_features *f, int column); // -1: none
// Those of `names`, between commas, that the table has; of `option`, for messages. SL_EINVAL.
int sl_dgl_features_choose(struct sl_dgl_features *f, const struct sl_csv_table *t,
                           const char *option, const char *names);

// f->values, before rows are read. SL_ENOMEM.
int sl_dgl_features_begin(struct sl_dgl_features *f, const struct sl_csv_table *t);
// Sizes by the row in hand, the first; f->row. SL_EFORMAT, SL_ENOMEM.
int sl_dgl_features_open(struct sl_dgl_features *f, const struct sl_csv_table *t);
// f->row is that of the row in hand. SL_EFORMAT for what is not finite, or of another width.
int sl_dgl_features_scan(struct sl_dgl_features *f, const struct sl_csv_table *t);
void sl_dgl_features_end(struct sl_dgl_features *f); // the columns stay

#endif
