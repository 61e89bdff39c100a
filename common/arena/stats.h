/*
 * stats.h - statistics of a worker: one slot a seat (seat.h), written by its worker, read by the
 * broker. Two structures, each with its rule for reading:
 *
 *   structure           what for                       how it is read
 *   sl_worker_words     the broker acts on them: who   each word by itself, at any time; the words
 *                       is there, does it live, does   mean nothing before `worker` is the one that
 *                       it leave                       is asked about (release, acquire)
 *   sl_worker_totals   statistics: shown              as a whole, sl_stats_read(); they say
 *                                                      themselves whose they are
 *
 * The figures are under a seqlock (seqlock.h): writing costs a few stores a batch and no lock. They
 * grow monotonically since the worker began, but for those that say what there is now.
 */
#ifndef SL_ARENA_STATS_H
#define SL_ARENA_STATS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/arena/segment.h"

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

struct sl_worker_totals {
    uint64_t worker;   // id; filled in when they are published
    uint64_t batches;  // of any kind
    uint64_t training; // of them, those of training, or of what it is prepared by
    uint64_t edges;
    uint64_t bytes; // payload written or features gathered
    uint64_t stage_ns[SL_STAGE_COUNT];
    uint64_t current_tag; // batch in hand, 0 = none: named when the worker dies
    // Current values of a worker on a GPU (0 elsewhere): memory that this worker holds there
    // (sl_device.held()), and what the GPU has in use, by whomever, and in all (sl_device.usage()).
    uint64_t device_held_bytes;
    uint64_t device_used_bytes, device_total_bytes;
    // The GPU's load (sl_device.load(): shares, 0 to 1), and when it was asked for (sl_now_ns()); 0
    // where nobody says it.
    uint64_t device_load_at_ns;
    float device_busy, device_memory_busy;
};

struct sl_device;

// Threads of a worker that must show heartbeats.
enum sl_thread { SL_THREAD_WORK, SL_THREAD_EXTRACT, SL_THREAD_FETCH, SL_THREAD_COUNT };

struct sl_worker_words {
    _Atomic uint32_t worker;                 // id
    _Atomic uint32_t left;                   // it has come out of its work: it is about to exit
    _Atomic uint64_t beats[SL_THREAD_COUNT]; // heartbeat.h; 0 = it has not begun
};

struct sl_worker_slot {
    _Alignas(64) struct sl_worker_words words;
    _Alignas(64) _Atomic uint32_t seq; // of the figures
    struct sl_worker_totals figures;
};

struct sl_worker_slot *sl_stats_slot(const struct sl_arena *a, uint32_t slot);

// Worker: claims its slot for a fresh count.
void sl_stats_begin(struct sl_worker_slot *slot, uint32_t worker);
// Worker: it is about to exit.
void sl_stats_end(struct sl_worker_slot *slot);
// Worker: a heartbeat of one of its threads, the only one that counts there.
static inline void sl_stats_beat(struct sl_worker_slot *slot, enum sl_thread thread)
{
    _Atomic uint64_t *beats = &slot->words.beats[thread];
    atomic_store_explicit(beats, atomic_load_explicit(beats, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}
// Broker: whether the slot's words are this worker's, that is, whether it has attached.
static inline bool sl_stats_is_of(const struct sl_worker_slot *slot, uint32_t worker)
{
    return atomic_load_explicit(&slot->words.worker, memory_order_acquire) == worker;
}
// Worker: asks its GPU (NULL: none) what it holds and how busy it is, which takes longer than a
// statistic is worth to a batch: not within a second of *looked_ns (0 at first).
void sl_stats_poll_device(struct sl_worker_totals *figures, const struct sl_device *device,
                          uint64_t *looked_ns);
// Worker: publishes its figures.
void sl_stats_publish(struct sl_worker_slot *slot, const struct sl_worker_totals *figures);
// Broker: a consistent copy. False, with *out as it was, while the writer is inside (it was
// preempted there, or died there): keep the figures of the time before.
bool sl_stats_read(const struct sl_worker_slot *slot, struct sl_worker_totals *out);

#endif
