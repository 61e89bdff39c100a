/*
 * array_sink.h - whole arrays of other programs into the parts of a data set: what the importers
 * of npz, PyTorch Geometric, OGB's binary layout and GraphBolt share.
 */
#ifndef SL_DATASET_ARRAY_SINK_H
#define SL_DATASET_ARRAY_SINK_H

#include <stdbool.h>
#include <stdint.h>

#include "dataset/array_reader.h"
#include "dataset/import.h"
#include "dataset/vertex_sink.h"

// Where an array is: a .npy file, or a member of a zip file.
struct sl_array_place {
    const char *path;         // of a file, else NULL
    const struct sl_zip *zip; // else
    const char *key;
    const struct sl_npy_header *raw; // of a file: what it holds when it has no header; or NULL
};

int sl_array_open(const struct sl_array_place *place, struct sl_array_reader **out);

/*
 * Edges as an array of (2, E), all sources and then all destinations, or of (E, 2) pairs;
 * SL_EDGES_EITHER takes both, and (2, 2) for the first. Starts the sort and feeds it. weights (E)
 * or (E, 1): NULL or empty = none; kept when im->edge_sink.weighted is set.
 */
enum sl_edge_shape { SL_EDGES_2_E, SL_EDGES_E_2, SL_EDGES_EITHER };
int sl_array_put_edges(struct sl_import *im, const struct sl_array_place *place,
                       const struct sl_array_place *weights, enum sl_edge_shape shape,
                       struct sl_edge_ends ends);

/*
 * Edges of a compressed sparse matrix: indptr (n_nodes + 1), indices (E), perhaps weights (E),
 * which are kept when im->edge_sink.weighted is set. Row i of a matrix by rows holds edges
 * i -> indices; of one by columns edges indices -> i.
 */
struct sl_compressed_edges {
    struct sl_array_place indptr, indices, weights; // weights: neither path nor zip = none
    bool by_columns;
};
int sl_array_put_compressed(struct sl_import *im, const struct sl_compressed_edges *e,
                            uint64_t n_nodes);

// Edges as three arrays (E): sources, destinations, perhaps weights (as above).
struct sl_coordinate_edges {
    struct sl_array_place sources, destinations, weights;
};
int sl_array_put_coordinates(struct sl_import *im, const struct sl_coordinate_edges *e,
                             uint64_t n_nodes);

// (n_nodes, D) or (n_nodes): node_feat.npy, float16 where the array is, else float32. With `binary`
// every positive number becomes 1.
int sl_array_put_features(struct sl_import *im, const struct sl_array_place *place,
                          uint64_t n_nodes, bool binary);

// The same of a matrix compressed by rows, of `dim` columns; what is not stored is 0. Entries of
// one place are added up, as scipy does.
int sl_array_put_sparse_features(struct sl_import *im, const struct sl_compressed_edges *rows,
                                 uint64_t n_nodes, uint64_t dim, bool binary);

// (n_nodes), (n_nodes, 1) or (n_nodes, C): node_label.npy.
int sl_array_put_labels(struct sl_import *im, const struct sl_array_place *place, uint64_t n_nodes,
                        enum sl_task task);

// What is left of the reader's array: vertices, into the list of a split.
int sl_array_put_list(struct sl_import *im, struct sl_array_reader *r, enum sl_split split,
                      uint64_t n_nodes);

// The numbers of a short array of integers (a shape): at most `most`, exactly *n are there.
int sl_array_get_numbers(const struct sl_array_place *place, uint64_t most, int64_t *out,
                         uint64_t *n);

#endif
