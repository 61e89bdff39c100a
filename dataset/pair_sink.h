/*
 * pair_sink.h - arrays of other programs as what models of links learn and are judged by: pairs,
 * their weights, and pairs that are no edges (common/data/README.md).
 */
#ifndef SL_DATASET_PAIR_SINK_H
#define SL_DATASET_PAIR_SINK_H

#include <stdint.h>

#include "common/data/dataset_files.h"
#include "dataset/array_reader.h"
#include "dataset/import.h"

// Each writes file f of the data set. SL_EFORMAT for another shape than the one that is said, and
// for what is no vertex below n_nodes or no weight; with the array's name and the place.

// (n, 2), of which *n is told; or sources and targets, (n) each.
int sl_pair_sink_put(struct sl_import *im, enum sl_dataset_file f, struct sl_array_reader *pairs,
                     uint64_t n_nodes, uint64_t *n);
int sl_pair_sink_put_sides(struct sl_import *im, enum sl_dataset_file f,
                           struct sl_array_reader *sources, struct sl_array_reader *targets,
                           uint64_t n_nodes, uint64_t *n);
// (n, k), of which *k is told.
int sl_pair_sink_put_targets(struct sl_import *im, enum sl_dataset_file f,
                             struct sl_array_reader *targets, uint64_t n_nodes, uint64_t n,
                             uint32_t *k);
// (n) or (n, 1).
int sl_pair_sink_put_weights(struct sl_import *im, enum sl_dataset_file f,
                             struct sl_array_reader *weights, uint64_t n);

#endif
