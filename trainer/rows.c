#include "trainer/rows.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/error.h"

int sl_rows_copy(struct sl_row_reader *reader, const struct sl_kernels *kernels,
                 const struct sl_dataset *ds, const uint32_t *vertices, uint32_t n, void *out)
{
    const uint64_t bytes = sl_rows_bytes(ds);
    if (reader)
        return sl_row_reader_read(reader, vertices, n, out);
    // The back end moves f32 as they are and on all cores, so rows of whole words go its way,
    // whatever they hold.
    if (bytes % sizeof(float) == 0)
        return kernels->gather_rows(ds->feat, SL_DTYPE_F32, ds->n_nodes,
                                    (uint32_t)(bytes / sizeof(float)), vertices, n, out);
    for (uint32_t i = 0; i < n; i++) {
        if (vertices[i] >= ds->n_nodes)
            return sl_fail(SL_ERANGE,
                           "features: vertex %" PRIu32 " at %" PRIu32 ", wanted one below %" PRIu64,
                           vertices[i], i, ds->n_nodes);
        memcpy((char *)out + (uint64_t)i * bytes, (const char *)ds->feat + vertices[i] * bytes,
               bytes);
    }
    return SL_OK;
}
