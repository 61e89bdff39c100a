// topology.h - the graph a sampler reads: neighbour lists, labels and splits, mapped.
#ifndef SL_SAMPLER_TOPOLOGY_H
#define SL_SAMPLER_TOPOLOGY_H

#include "common/data/dataset.h"
#include "kernels/kernels.h"

struct sl_topology {
    struct sl_dataset dataset;
    struct sl_topology_view view; // of the data set's arrays
};

// Opens the data set at `path`, which the broker has validated. Errors as sl_dataset_open().
int sl_topology_open(struct sl_topology *t, const char *path, int threads);
void sl_topology_close(struct sl_topology *t); // safe on a zeroed struct

#endif
