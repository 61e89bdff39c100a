// work.h - a batch that a trainer has claimed: its lease, its block and features, and what is
// written into the ledger of how it went.
#ifndef SL_TRAINER_FEED_WORK_H
#define SL_TRAINER_FEED_WORK_H

#include <stdbool.h>
#include <stdint.h>

#include "common/arena/block.h"
#include "common/arena/ledger.h"
#include "trainer/feed/gather.h"

struct sl_work {
    struct sl_lease lease;
    // External trainers: its epoch. Where that has ended there is no lease: nothing more comes of
    // it.
    uint32_t epoch;
    bool ended;
    struct sl_block_view block; // its header is in the arena; zeroed for inference
    void *x;                    // rows of features, of the buffer; NULL for inference
    int buffer;
    uint64_t claimed_at_ns;
    uint64_t woken_at_ns; // when a standby trainer was last switched on, 0 = never
    struct sl_gathered gathered;
    bool standby; // claimed on duty STANDBY
};

// When a batch was computed, and how long nothing could be computed before.
struct sl_work_times {
    uint64_t taken_ns, from_ns, to_ns;
    uint64_t wait_ns;
};

// The block that a lease is of, borrowed from the arena: looked at as a whole, beside the graph, so
// that whoever uses it need not. SL_EPROTO.
int sl_work_block(const struct sl_arena *arena, const struct sl_lease *lease,
                  struct sl_block_shape shape, const struct sl_typed *typed,
                  const struct sl_block **out);

// Fills the cell's entry in, but for the loss: before the lease is completed.
void sl_work_record(const struct sl_work *work, uint32_t worker, const struct sl_work_times *when);

#endif
