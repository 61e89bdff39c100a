/*
 * edge_times.h - times of edges that were sorted in the place of their weights, into edge_time.npy.
 *
 * Edges are sorted by target and source with the time where a weight is (sl_edge_split_time), so
 * edge_weight.npy holds times. Here each vertex's list is put in the order of its times, of equal
 * times in that of its sources; memory for the longest list.
 */
#ifndef SL_DATASET_EDGE_TIMES_H
#define SL_DATASET_EDGE_TIMES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/text/progress.h"
#include "dataset/staging.h"

// Writes edge_time.npy and indices.npy anew. keep: edge_weight.npy too, for whom it serves next;
// otherwise it is removed. SL_ENOMEM, SL_EIO, SL_EABORTED.
int sl_edge_times_write(const struct sl_staging *st, uint64_t max_degree, bool keep,
                        struct sl_progress *progress);

#endif
