/*
 * reorder.h - the same data set with its vertices numbered in another order.
 */
#ifndef SL_DATASET_REORDER_H
#define SL_DATASET_REORDER_H

#include <stdint.h>

#include "dataset/batch_estimate.h"
#include "dataset/dataset_builder.h"

enum sl_reorder_kind {
    SL_REORDER_BY_DEGREE,
    SL_REORDER_BY_HOTNESS,
    SL_REORDER_BY_READS,
    SL_REORDER_BY_BFS,
};

// Whether an order follows from how a job samples.
static inline bool sl_reorder_samples(int by)
{
    return by == SL_REORDER_BY_HOTNESS || by == SL_REORDER_BY_READS;
}

extern const char *const sl_reorder_kinds[]; // their names, NULL behind the last

struct sl_reorder {
    struct sl_dataset_builder making;
    const char *source;
    int by;                        // enum sl_reorder_kind
    struct sl_batch_estimate hops; // its fanout, for hotness
    uint64_t n_threads;            // 0 = all
};

// SL_ENOMEM, and what reading the data set and writing files fail with.
int sl_reorder_run(struct sl_reorder *run);

#endif
