/*
 * vertex_sink.h - features, labels and lists of vertices as an importer reads them, on their way
 * to node_feat.npy, node_label.npy and train_idx.npy and its like.
 *
 * Each is opened, given its rows and closed with the importer's result so far: close() commits the
 * file or removes it, and returns that result or its own error; what it found out is in
 * im->vertices then. A zeroed struct is a closed one.
 */
#ifndef SL_DATASET_VERTEX_SINK_H
#define SL_DATASET_VERTEX_SINK_H

#include <stdbool.h>
#include <stdint.h>

#include "common/data/dataset.h"
#include "common/data/npy.h"
#include "dataset/import.h"

enum { SL_SINK_MAX_DIM = 65536, SL_SINK_MAX_CLASSES = 1000000 };

// ---- features: rows in the order of the vertices ------------------------------------------------

struct sl_feature_sink {
    struct sl_import *im;
    struct sl_npy_writer *w;
    uint64_t n_rows, row; // wanted, so far
    uint32_t dim;
    float least;        // of all so far
    uint64_t n_flushed; // as in struct sl_import_vertices
    float *values;      // (dim) a row, for whoever puts it
    uint16_t *half;     // (dim) a row, when float16 is written
};

// `half`: the source is float16, and so is what is written, as with --f16. With
// --normalize-features the file is written twice: what is subtracted is known at the end.
int sl_feature_sink_open(struct sl_feature_sink *in, struct sl_import *im, uint64_t n_rows,
                         uint64_t dim, bool half, const char *from);
// row (dim); `from` names the source in messages. SL_EFORMAT for what is not finite.
int sl_feature_sink_put(struct sl_feature_sink *in, const float *row, const char *from);
// Also SL_EFORMAT when rows are missing.
int sl_feature_sink_close(struct sl_feature_sink *in, int rc, const char *from);

// ---- labels: rows in any order; a vertex without one is unlabelled ------------------------------

struct sl_label_sink {
    struct sl_import *im;
    struct sl_npy_writer *w;
    enum sl_task task;
    uint64_t n_nodes, n_labelled;
    uint64_t n_single; // of MULTILABEL: rows with exactly one 1
    uint32_t n_columns;
    int32_t largest;  // class
    int32_t *classes; // (n_nodes) MULTICLASS; these are mapped
    int8_t *flags;    // (n_nodes, n_columns) MULTILABEL
    float *numbers;   // (n_nodes, n_columns) REGRESSION
    double *values;   // (n_columns) a row, for whoever puts it
};

// SL_TASK_NONE: several columns are MULTILABEL, one is MULTICLASS. MULTICLASS of several columns is
// one-hot: a row's class is the column of its 1, and a row without a 1 has no label.
int sl_label_sink_open(struct sl_label_sink *in, struct sl_import *im, uint64_t n_nodes,
                       uint64_t n_columns, enum sl_task task, const char *from);
// row (n_columns), NaN and (but for REGRESSION) negative = no label. vertex < n_nodes.
int sl_label_sink_put(struct sl_label_sink *in, uint64_t vertex, const double *row,
                      const char *from);
int sl_label_sink_close(struct sl_label_sink *in, int rc, const char *from);

// ---- lists of vertices, each at most once -------------------------------------------------------

struct sl_list_sink {
    struct sl_import *im;
    struct sl_npy_writer *w; // NULL: only checked, since --split draws other lists
    uint64_t n_nodes, n;
    uint64_t *seen; // bits
};

int sl_list_sink_open(struct sl_list_sink *in, struct sl_import *im, enum sl_split split,
                      uint64_t n_nodes);
// SL_EFORMAT for a vertex out of range or there before; `from` names the source.
int sl_list_sink_put(struct sl_list_sink *in, int64_t vertex, const char *from);
int sl_list_sink_close(struct sl_list_sink *in, int rc, enum sl_split split);

#endif
