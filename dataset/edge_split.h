/*
 * edge_split.h - holds out edges of a data set, for models of links: a data set whose graph lacks
 * them, with val_edges.npy and test_edges.npy.
 */
#ifndef SL_DATASET_EDGE_SPLIT_H
#define SL_DATASET_EDGE_SPLIT_H

#include <stdbool.h>
#include <stdint.h>

#include "dataset/dataset_builder.h"
#include "dataset/file_share.h"

// What is held out together: an edge and its reverse, or an edge by itself.
enum sl_edge_split_pairs { SL_EDGE_SPLIT_AUTO, SL_EDGE_SPLIT_UNDIRECTED, SL_EDGE_SPLIT_DIRECTED };
extern const char *const sl_edge_split_pairs[]; // their names, NULL behind the last

struct sl_edge_split {
    struct sl_dataset_builder making;
    const char *source;
    double val, test; // shares of the pairs
    uint64_t seed;
    int pairs;          // enum sl_edge_split_pairs
    bool keep_one;      // no vertex loses its last edge
    uint64_t n_threads; // 0 = all

    // Found.
    bool undirected;
    struct sl_file_share shared; // files that stay as they are
};

/*
 * SL_EINVAL: shares that leave nothing, a graph that is not undirected where it is said to be, a
 * data set that has held out edges already, or, with keep_one, too few edges that may go.
 * SL_ENOMEM, and what reading the data set and writing files fail with.
 */
int sl_edge_split_run(struct sl_edge_split *run);

#endif
