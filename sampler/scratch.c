#include "sampler/scratch.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/mempool.h"

int sl_scratch_reserve(struct sl_scratch_array *a, uint64_t n, uint64_t keep, uint64_t most,
                       uint64_t each)
{
    n = SL_MIN(n, most);
    if (n * each <= a->bytes)
        return SL_OK;
    n = SL_MIN(n + n / 4, most);
    void *fresh = sl_pages_alloc(n * each);
    if (!fresh)
        return sl_fail(SL_ENOMEM, "sampling: no memory for %" PRIu64 " bytes of a batch", n * each);
    if (keep)
        memcpy(fresh, a->p, keep * each);
    sl_pages_free(a->p, a->bytes);
    *a = (struct sl_scratch_array){fresh, n * each};
    return SL_OK;
}

void sl_scratch_free(struct sl_scratch_array *a)
{
    sl_pages_free(a->p, a->bytes);
    *a = (struct sl_scratch_array){0};
}
