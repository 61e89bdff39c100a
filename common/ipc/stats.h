/*
 * stats.h - live statistics: one slot a seat (seat.h), written by its worker, read by the broker.
 *
 * A seqlock: the writer makes `seq` odd, stores, and makes it even again; the reader copies and
 * looks whether seq was even and unchanged. Writing costs a few stores a batch and no lock. Figures
 * grow monotonically since the worker began, but for those that say what there is now.
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
    // What there is now, of a worker on a GPU (0 elsewhere): memory that this worker holds there
    // (sl_device.held()), and what the GPU has in use, by whomever, and in all (sl_device.usage()).
    uint64_t device_held_bytes;
    uint64_t device_used_bytes, device_total_bytes;
    // The GPU's load (sl_device.load(): shares, 0 to 1), and when it was asked for (sl_now_ns()); 0
    // where nobody says it.
    uint64_t device_load_at_ns;
    float device_busy, device_memory_busy;
};

// Threads of a worker that must come round.
enum sl_thread { SL_THREAD_WORK, SL_THREAD_EXTRACT, SL_THREAD_COUNT };

struct sl_worker_slot {
    _Alignas(64) _Atomic uint32_t seq;
    uint32_t worker; // id
    uint32_t pid;
    _Atomic uint32_t left; // it has come out of its work: what is left of it is its exit
    struct sl_worker_figures figures;
    _Alignas(64) _Atomic uint64_t beats[SL_THREAD_COUNT]; // pulse.h; 0 = it has not begun
};

struct sl_worker_slot *sl_stats_slot(const struct sl_arena *a, uint32_t slot);

// Worker: claims its slot for a fresh count.
void sl_stats_begin(struct sl_worker_slot *slot, uint32_t worker);
// Worker: it is about to exit.
void sl_stats_end(struct sl_worker_slot *slot);
// Worker: one of its threads comes round. It alone counts there.
static inline void sl_stats_beat(struct sl_worker_slot *slot, enum sl_thread thread)
{
    uint64_t beats = atomic_load_explicit(&slot->beats[thread], memory_order_relaxed);
    atomic_store_explicit(&slot->beats[thread], beats + 1, memory_order_relaxed);
}
// Worker: publishes its figures.
void sl_stats_publish(struct sl_worker_slot *slot, const struct sl_worker_figures *figures);
// Broker: a consistent copy. False, with *out as it was, while the writer is inside (it was
// preempted there, or died there): keep the figures of the time before.
bool sl_stats_read(const struct sl_worker_slot *slot, struct sl_worker_figures *out);

#endif
