/*
 * split_writer.h - train_idx.npy, val_idx.npy and test_idx.npy, written side by side.
 */
#ifndef SL_DATASET_SPLIT_WRITER_H
#define SL_DATASET_SPLIT_WRITER_H

#include <stdint.h>

#include "common/data/dataset.h"
#include "common/data/npy.h"
#include "dataset/staging.h"

// A zeroed one is closed.
struct sl_split_writer {
    struct sl_npy_writer *w[SL_SPLIT_COUNT];
    uint64_t n[SL_SPLIT_COUNT]; // vertices so far
};

// One list of vertices below n_nodes.
int sl_split_writer_open_list(const struct sl_staging *st, enum sl_split split, uint64_t n_nodes,
                              struct sl_npy_writer **out);

// All three. What fails is left to close().
int sl_split_writer_open(struct sl_split_writer *s, const struct sl_staging *st, uint64_t n_nodes);
// Appends the vertex to the list that `split` names; SL_SPLIT_COUNT: to none.
int sl_split_writer_put(struct sl_split_writer *s, enum sl_split split, uint64_t vertex);
// As sl_npy_writer_close().
int sl_split_writer_close(struct sl_split_writer *s, int rc);

// --- a split by ratio and seed -------------------------------------------------------------------

struct sl_import;

/*
 * Where --split was given: writes train_idx.npy, val_idx.npy and test_idx.npy of the labelled
 * vertices (of all, where there are no labels), in rising order. The labels, if any, are in the
 * staging directory. How many vertices a part gets is rounded to the nearest; which ones depends on
 * the seed and on their number among the labelled vertices alone.
 */
int sl_split_draw(struct sl_import *im, uint64_t n_nodes);

#endif
