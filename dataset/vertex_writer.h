/*
 * vertex_writer.h - writes the files of a generated data set's vertices: features, labels, split.
 */
#ifndef SL_DATASET_VERTEX_WRITER_H
#define SL_DATASET_VERTEX_WRITER_H

#include <stddef.h>
#include <stdint.h>

#include "common/data/dataset.h"
#include "common/text/progress.h"
#include "dataset/staging.h"

struct sl_vertex_job {
    const struct sl_staging *st;
    uint64_t n_nodes;
    int threads;
    size_t block_bytes; // of the buffer that rows are computed in
    struct sl_progress *progress;
};

// The file `name` with a row of n_columns for each vertex (0: a number each); row(context, vertex,
// out) is called from several threads. `what` names the stage.
int sl_vertex_write_rows(const struct sl_vertex_job *job, const char *what, const char *name,
                         enum sl_dtype dtype, uint32_t n_columns,
                         void (*row)(const void *context, uint64_t vertex, void *out),
                         const void *context);

/*
 * train_idx.npy, val_idx.npy and test_idx.npy, ascending; list(context, vertex) says in which one a
 * vertex is: an enum sl_split, or SL_SPLIT_COUNT for none.
 */
int sl_vertex_write_lists(const struct sl_vertex_job *job,
                          enum sl_split (*list)(const void *context, uint64_t vertex),
                          const void *context);

/*
 * The same: round(ratio * n_nodes) vertices each,
 * the test set gets the rest. Which vertex goes where is a seeded permutation.
 */
int sl_vertex_write_split(const struct sl_vertex_job *job, uint64_t seed, double train_ratio,
                          double val_ratio);

#endif
