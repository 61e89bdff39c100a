/*
 * shards.h - a data set spread over directories, one for each part of a partition: the form of
 * common/data/shard.h, beside one metadata.json that says how many there are.
 *
 *   OUT/metadata.json            "shards": N
 *   OUT/0 ... OUT/N-1            each a data set directory
 *       metadata.json            "shard": {...}
 *       node_feat.npy            rows of the part's vertices; or node_feat.TYPE.npy, of each type
 *       node_part.npy, node_row.npy, indptr.npy, indices.npy and so on: the same in all
 *
 * What is the same is a hard link to the data set's file, or a copy.
 */
#ifndef SL_PARTITION_SHARDS_H
#define SL_PARTITION_SHARDS_H

#include "dataset/file_share.h"
#include "dataset/staging.h"
#include "partition/parts.h"

enum sl_shards_topology { SL_SHARDS_LINK, SL_SHARDS_COPY };
extern const char *const sl_shards_topologies[]; // "link", "copy", NULL

struct sl_shards {
    int topology; // option, enum sl_shards_topology: links become copies where they cannot be made

    // Found.
    uint64_t digest;             // of struct sl_shard
    uint64_t bytes;              // that were written
    struct sl_file_share shared; // files that are the same in all shards

    struct sl_staging st;
};

// Before anything is made: whether `out` may be written. As sl_staging_open().
int sl_shards_open(struct sl_shards *s, const char *out, bool force);

/*
 * Writes the shards of t->ds by part (n_nodes), numbers below t->n_parts, of which some may have no
 * vertex, and gives them their name. Memory: 64 MiB and a number a part, however large the features
 * are. SL_EIO where the drive has too little room, before anything of size is written, or fails;
 * SL_ECHANGED for a file of the data set that is another by now; SL_ENOMEM, SL_EABORTED.
 */
int sl_shards_write(struct sl_shards *s, const struct sl_parts_task *t, const uint16_t *part);

void sl_shards_abort(struct sl_shards *s); // safe on a zeroed struct, and once they are written

#endif
