#include "partition/one_batch.h"

#include "common/base/error.h"
#include "common/base/mempool.h"

enum { FIRST_BYTES = 1 << 20 };

int sl_one_batch_draw(struct sl_one_batch *d, struct sl_drawer *drawer, struct sl_draw_job *job)
{
    for (uint64_t wanted = FIRST_BYTES;;) {
        if (d->bytes < wanted) {
            sl_pages_free(d->block, d->bytes);
            d->block = sl_pages_alloc(wanted);
            d->bytes = d->block ? wanted : 0;
        }
        if (!d->block)
            return sl_fail(SL_ENOMEM,
                           "no memory for a mini-batch of %llu bytes: take a smaller batch size or "
                           "fanout",
                           (unsigned long long)wanted);
        job->block = d->block;
        job->capacity = d->bytes;
        const int rc = sl_drawer_draw(drawer, job, &wanted);
        if (rc != SL_ERANGE)
            return rc;
    }
}

void sl_one_batch_fini(struct sl_one_batch *d)
{
    sl_pages_free(d->block, d->bytes);
    *d = (struct sl_one_batch){0};
}
