/*
 * batch_estimate.h - what one mini-batch of a data set looks like, by drawing a few.
 */
#ifndef SL_DATASET_BATCH_ESTIMATE_H
#define SL_DATASET_BATCH_ESTIMATE_H

#include <stddef.h>
#include <stdint.h>

#include "common/data/dataset.h"

enum { SL_ESTIMATE_MAX_HOPS = 8 };

struct sl_batch_estimate {
    uint32_t n_hops;
    int64_t fanout[SL_ESTIMATE_MAX_HOPS]; // from the seeds outwards; -1 = all
    uint64_t batch_size;

    // Found: means of the batches that were drawn.
    uint32_t n_batches;
    double edges;
    double input_nodes;
    double feature_bytes;
    double block_bytes; // ids, offsets and local indices
};

// "15,10,5" into e->fanout; `command` begins the message. SL_EINVAL.
int sl_batch_estimate_parse(const char *command, const char *text, struct sl_batch_estimate *e);

/*
 * Draws batches of training vertices (of any, where there is no training set), uniformly without
 * replacement as training does, until they hold about `budget_edges` edges, and at least one.
 * SL_ENOMEM.
 */
int sl_batch_estimate_run(const struct sl_dataset *ds, uint64_t budget_edges,
                          struct sl_batch_estimate *e);

#endif
