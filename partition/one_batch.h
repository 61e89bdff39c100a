// one_batch.h - one mini-batch at a time, in memory that grows to the largest.
#ifndef SL_PARTITION_ONE_BATCH_H
#define SL_PARTITION_ONE_BATCH_H

#include "sampler/draw.h"

struct sl_one_batch {
    struct sl_block *block; // owned
    uint64_t bytes;         // there
};

// The job's batch into d->block. SL_ENOMEM, and errors of sl_drawer_draw().
int sl_one_batch_draw(struct sl_one_batch *d, struct sl_drawer *drawer, struct sl_draw_job *job);
void sl_one_batch_fini(struct sl_one_batch *d); // safe on a zeroed struct

#endif
