/*
 * shard.h - a data set that is spread over nodes: each has the whole graph, and the features of its
 * own part of the vertices (`sluice partition DIR --parts N --out DIR2`).
 *
 * A shard is a data set directory. Its node_feat.npy has the rows of one part, in ascending order
 * of vertex; of a graph with types each node_feat.TYPE.npy has those of its type. node_part.npy
 * says for each vertex whose part it is in, node_row.npy which row it has there, among those of its
 * type: 4 bytes a vertex on the drive, mapped, so that a place costs two reads whatever the number
 * of parts. Counts for each 64 vertices and part instead would be less for up to 64 parts, and more
 * for hundreds; of 2^26 random vertices in 4 parts a place took 37 to 41 ns by row and 45 by count,
 * in 64 parts 46 to 63 and 68 to 97.
 */
#ifndef SL_DATA_SHARD_H
#define SL_DATA_SHARD_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/dtype.h"

enum { SL_SHARDS_MAX = 65535 };

struct sl_shard {
    uint32_t count;           // of the shards that belong together; 0: the data set is whole
    uint32_t index;           // among them, from 0
    uint64_t digest;          // the same for all of them, of the partition and of what was spread
    uint64_t whole;           // sl_dataset.digest of the data set that was spread
    uint64_t n_local;         // vertices of part `index`, each with a row of features here
    const void *part;         // (n_nodes) below count
    enum sl_dtype part_dtype; // U8 or U16
    const uint32_t *row;      // (n_nodes) of its part's rows, of its type's
};

struct sl_shard_place {
    uint32_t part, row; // row `row` of the features (of its type) that shard `part` has
};

// Where vertex v's features are. Of a shard alone.
static inline struct sl_shard_place sl_shard_place(const struct sl_shard *s, uint32_t v)
{
    return (struct sl_shard_place){s->part_dtype == SL_DTYPE_U8 ? ((const uint8_t *)s->part)[v]
                                                                : ((const uint16_t *)s->part)[v],
                                   s->row[v]};
}

/*
 * The data set that node `index` of `count` opens when `path` is named: of the directory of all
 * shards its own, "PATH/INDEX"; else `path` as it is. SL_EINVAL where it is one of another number
 * of shards, or another node's; SL_ENOENT, SL_EACCESS, SL_EFORMAT as sl_dataset_open().
 */
int sl_shard_find(const char *path, uint32_t index, uint32_t count, char *out, size_t n_out);
// How many shards `path` holds, or is one of; 0: a whole data set. Errors as sl_dataset_open().
int sl_shards_at(const char *path, uint32_t *count);

#endif
