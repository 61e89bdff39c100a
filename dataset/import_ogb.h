/*
 * import_ogb.h - what the two layouts of OGB share (private to import_ogb*.c).
 */
#ifndef SL_DATASET_IMPORT_OGB_H
#define SL_DATASET_IMPORT_OGB_H

#include <stdbool.h>
#include <stdint.h>

#include "dataset/vertex_sink.h"

struct sl_ogb {
    // Options.
    const char *split; // scheme, NULL = the only one
    bool inverse, inverse_given;
    int task; // enum sl_task, NONE = by the labels' columns

    bool binary;       // raw/data.npz
    const char *known; // the data set's name in OGB, NULL = none of its own
    uint64_t n_nodes, n_edges;
    char scheme[256];

    struct sl_feature_sink features;
    struct sl_label_sink labels;
    struct sl_list_sink list;
};

// The binary layout: topology and features from raw/data.npz, labels from raw/node-label.npz.
int sl_ogb_read_binary(struct sl_import *im, struct sl_ogb *ogb);

#endif
