// rows.h - copies rows of the feature store, in its own type, for batches, caches and devices.
#ifndef SL_TRAINER_FEED_ROWS_H
#define SL_TRAINER_FEED_ROWS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/arena/block.h"
#include "common/data/dataset.h"
#include "common/arena/row_cache.h"
#include "kernels/kernels.h"
#include "trainer/feed/reading.h"

/*
 * Where rows come from: from the file where it is mapped; or from the machine's cache
 * (row_cache.h), and from the drive or from other nodes (reading.h) what that does not have. Only
 * the first is borrowed memory; one thread at a time.
 */
struct sl_row_source {
    const struct sl_dataset *dataset;
    struct sl_reading *reader;   // borrowed; NULL: the file is mapped
    struct sl_row_cache shared;  // without slots there is none
    struct sl_row_places places; // of the last copy
};

void sl_row_source_fini(struct sl_row_source *s); // safe on a zeroed struct

static inline uint64_t sl_rows_bytes(const struct sl_dataset *ds)
{
    return ds->feat_dim * sl_dtype_bytes(ds->feat_dtype);
}

/*
 * Row vertices[i] to place to[i] of out (n_places rows), i of n, bit for bit in the store's own
 * type; to NULL: to place i. `kernels` are those of this process's memory. SL_ERANGE for what is no
 * vertex; SL_ENOMEM; errors of the reader.
 */
int sl_rows_copy(struct sl_row_source *s, const struct sl_kernels *kernels,
                 const uint32_t *vertices, const uint32_t *to, uint32_t n, uint32_t n_places,
                 void *out);

/*
 * The rows of a typed block's vertices, where typed_block.h has each type's: as they are stored, or
 * as f32. Their files are mapped. SL_ERANGE for what is no vertex of its type; SL_ENOMEM.
 */
int sl_rows_copy_typed(struct sl_row_source *s, const struct sl_kernels *kernels,
                       const struct sl_block *block, bool as_stored, void *out);

// Of any block the rows of all its vertices, as they are stored; and their bytes.
int sl_rows_copy_block(struct sl_row_source *s, const struct sl_kernels *kernels,
                       const struct sl_block *block, void *out);
uint64_t sl_rows_block_bytes(const struct sl_dataset *ds, const struct sl_block *block);

// Whether some vertex has features.
bool sl_rows_any(const struct sl_dataset *ds);

#endif
