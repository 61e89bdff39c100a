/*
 * pair_audit.h - what is odd in a list of pairs that a model of links learns, or is judged by: no
 * error, but to be known before results are believed.
 */
#ifndef SL_DATASET_PAIR_AUDIT_H
#define SL_DATASET_PAIR_AUDIT_H

#include <stdint.h>

#include "common/data/dataset.h"

struct sl_pair_audit {
    uint64_t n_repeated; // pairs that stand in the list before
    uint64_t n_loops;    // of a vertex and itself
    // Of validation and test.
    uint64_t n_in_graph; // pairs that are edges of the graph, in their direction
    uint64_t n_in_train; // or of train_edges.npy, in either direction
};

// 16 bytes a pair of the list, and a pass over the in-edges of its targets. SL_ENOMEM.
int sl_pair_audit_run(const struct sl_dataset *ds, enum sl_split split, struct sl_pair_audit *out);

#endif
