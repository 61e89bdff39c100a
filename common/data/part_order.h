/*
 * part_order.h - orders of an epoch in which each mini-batch has vertices of one part, for jobs on
 * several nodes whose features are in parts (shard.h).
 *
 * The nodes of a job take turns in the mini-batches of an update. Where these are of parts in the
 * same turns, a node draws around vertices of its own part, and most rows that it needs are its
 * own. Batch i of an update is of part i modulo the number of parts, as long as that part has
 * training vertices left in the epoch; then of whichever has most left. So each update has as much
 * of every part. The order is a function of data set, partition, seed and epoch, whatever the
 * number of nodes.
 */
#ifndef SL_DATA_PART_ORDER_H
#define SL_DATA_PART_ORDER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/data/dataset.h"

struct sl_part_order {
    uint32_t n_parts;
    uint64_t *end;    // (n_parts + 1) owned: part p has [end[p], end[p + 1]) of the next two
    uint32_t *vertex; // (training vertices) owned
    uint32_t *place;  // (training vertices) owned: where in the order vertices of the part come
};

/*
 * Of a shard, or of a whole data set with node_part.npy beside its other files. SL_EINVAL: it has
 * no partition; SL_EFORMAT: it is none of this data set; SL_ENOMEM; errors of sl_npy_open().
 */
int sl_part_order_open(struct sl_part_order *o, const struct sl_dataset *ds,
                       const struct sl_vertex_list *train, uint32_t batch_size,
                       uint32_t batches_per_update);
// out (training vertices). False once *cancel (may be NULL) is set.
bool sl_part_order_fill(const struct sl_part_order *o, uint64_t seed, uint32_t epoch,
                        const atomic_bool *cancel, uint32_t *out);
void sl_part_order_close(struct sl_part_order *o); // safe on a zeroed struct

// Names the data set with its partition: what such orders follow from. Errors as above.
int sl_part_order_identity(const struct sl_dataset *ds, uint64_t *out);

#endif
