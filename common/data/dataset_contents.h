/*
 * dataset_contents.h - whether two copies of a data set are the same, as on two nodes.
 *
 * Of each file a digest of its bytes: of all of them up to 64 MiB, of a larger one of 1024 pieces
 * spread evenly, beginning and end among them. So the cost has a bound. Another graph, other
 * features and a copy that was cut off are found; a few bytes that are wrong in a large file may
 * not be: `sluice inspect` passes over all of it.
 */
#ifndef SL_DATA_DATASET_CONTENTS_H
#define SL_DATA_DATASET_CONTENTS_H

#include <stdint.h>

#include "common/data/dataset.h"
#include "common/data/dataset_files.h"

struct sl_dataset_content {
    const char *name; // "indices.npy"; of striped features "node_feat.npy"
    uint64_t bytes;   // 0 of metadata.json
    uint64_t digest;  // XXH3
};

// Of an open data set: its files that are there, metadata.json first. Returns how many. Of a shard
// those that all shards share: its features are left out, and metadata.json has the digest of them
// all.
uint32_t sl_dataset_contents(const struct sl_dataset *ds,
                             struct sl_dataset_content out[SL_DATASET_PARTS_MAX + 1]);

#endif
