/*
 * stats.h - live statistics: one slot a seat (seat.h), written by its worker, read by the broker.
 *
 * A seqlock: the writer makes `seq` odd, stores, and makes it even again; the reader copies and
 * looks whether seq was even and unchanged. Writing costs a few stores a batch and no lock. All
 * figures grow monotonically since the worker began.
 */
#ifndef SL_COMMON_IPC_STATS_H
#define SL_COMMON_IPC_STATS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/ipc/arena.h"

enum sl_stage {
    SL_STAGE_SAMPLE,
    SL_STAGE_MARK,
    SL_STAGE_COPY,
    SL_STAGE_EXTRACT,
    SL_STAGE_TRAIN,
    SL_STAGE_EVALUATE,
    SL_STAGE_WAIT, // for work, for memory, for a version
    SL_STAGE_COUNT,
};

struct sl_worker_figures {
    uint64_t batches;
    uint64_t edges;
    uint64_t bytes; // payload written or features gathered
    uint64_t stage_ns[SL_STAGE_COUNT];
    uint64_t current_tag; // batch in hand, 0 = none: named when the worker dies
};

struct sl_worker_slot {
    _Alignas(64) _Atomic uint32_t seq;
    uint32_t worker; // id
    uint32_t pid;
    struct sl_worker_figures figures;
};

struct sl_worker_slot *sl_stats_slot(const struct sl_arena *a, uint32_t slot);

// Worker: claims its slot for a fresh count.
void sl_stats_begin(struct sl_worker_slot *slot, uint32_t worker);
// Worker: publishes its figures.
void sl_stats_publish(struct sl_worker_slot *slot, const struct sl_worker_figures *figures);
// Broker: a consistent copy. False, with *out as it was, while the writer is inside (it was
// preempted there, or died there): keep the figures of the time before.
bool sl_stats_read(const struct sl_worker_slot *slot, struct sl_worker_figures *out);

#endif
