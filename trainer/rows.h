// rows.h - rows of the feature store as they are, for caches, staging and copies to a device.
#ifndef SL_TRAINER_ROWS_H
#define SL_TRAINER_ROWS_H

#include <stdint.h>

#include "common/data/dataset.h"
#include "common/storage/row_reader.h"
#include "kernels/kernels.h"

static inline uint64_t sl_rows_bytes(const struct sl_dataset *ds)
{
    return ds->feat_dim * sl_dtype_bytes(ds->feat_dtype);
}

/*
 * out[i] = row of vertices[i], n of them, bit for bit in the store's own type; `kernels` are those
 * of this process's memory. `reader` reads them from the drive; NULL: they are where they are
 * mapped. SL_ERANGE for what is no vertex; errors of the reader.
 */
int sl_rows_copy(struct sl_row_reader *reader, const struct sl_kernels *kernels,
                 const struct sl_dataset *ds, const uint32_t *vertices, uint32_t n, void *out);

#endif
