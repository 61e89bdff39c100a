// pair_file.h - train_edges.npy, val_edges.npy and test_edges.npy of a data set under construction.
#ifndef SL_DATASET_PAIR_FILE_H
#define SL_DATASET_PAIR_FILE_H

#include <stdint.h>

#include "common/data/dataset.h"
#include "common/data/npy.h"
#include "dataset/staging.h"

// The file of n pairs of vertices below n_nodes, mapped: *pairs (n, 2) is to be filled in any order
// before the writer is closed. As sl_npy_create_mapped().
int sl_pair_file_create(const struct sl_staging *st, enum sl_split split, uint64_t n_nodes,
                        uint64_t n, struct sl_npy_writer **w, uint32_t **pairs);

#endif
