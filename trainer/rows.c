#include "trainer/rows.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/error.h"

int sl_rows_copy(const struct sl_kernels *kernels, const struct sl_dataset *ds,
                 const uint32_t *vertices, uint64_t n, void *out)
{
    const uint64_t bytes = sl_rows_bytes(ds);
    // The back end moves f32 as they are and on all cores, so rows of whole words go its way,
    // whatever they hold.
    if (bytes % sizeof(float) == 0)
        return kernels->gather_rows(ds->feat, SL_DTYPE_F32, ds->n_nodes,
                                    (uint32_t)(bytes / sizeof(float)), vertices, n, out);
    for (uint64_t i = 0; i < n; i++) {
        if (vertices[i] >= ds->n_nodes)
            return sl_fail(SL_ERANGE,
                           "features: vertex %" PRIu32 " at %" PRIu64 ", wanted one below %" PRIu64,
                           vertices[i], i, ds->n_nodes);
        memcpy((char *)out + i * bytes, (const char *)ds->feat + vertices[i] * bytes, bytes);
    }
    return SL_OK;
}
