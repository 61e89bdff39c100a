#include "common/arena/stats.h"

#include "common/arena/seqlock.h"
#include "common/base/clock.h"
#include "common/device/device.h"

#define LOOK_NS 1000000000ull

struct sl_worker_slot *sl_stats_slot(const struct sl_arena *a, uint32_t slot)
{
    return (struct sl_worker_slot *)sl_arena_region(a, SL_REGION_WORKERS) + slot;
}

_Static_assert(sizeof(struct sl_worker_totals) % sizeof(uint64_t) == 0, "figures are whole words");

static void store(struct sl_worker_slot *slot, const struct sl_worker_totals *figures)
{
    sl_seqlock_store(&slot->seq, &slot->figures, figures, sizeof *figures);
}

void sl_stats_begin(struct sl_worker_slot *slot, uint32_t worker)
{
    const struct sl_worker_totals none = {.worker = worker};
    atomic_store(&slot->words.left, 0); // that was another one
    for (int i = 0; i < SL_THREAD_COUNT; i++)
        atomic_store(&slot->words.beats[i], 0);
    atomic_store_explicit(&slot->words.worker, worker, memory_order_release);
    store(slot, &none);
}

void sl_stats_end(struct sl_worker_slot *slot)
{
    atomic_store(&slot->words.left, 1);
}

void sl_stats_poll_device(struct sl_worker_totals *figures, const struct sl_device *device,
                          uint64_t *looked_ns)
{
    uint64_t now = sl_now_ns(), used_bytes, total_bytes;
    struct sl_device_load load = {0};
    if (!device || device->is_host || (*looked_ns && now - *looked_ns < LOOK_NS))
        return;
    *looked_ns = now;
    if (device->usage(&used_bytes, &total_bytes) < 0)
        return; // whatever it is, the next operation says so
    figures->device_held_bytes = device->held();
    figures->device_used_bytes = used_bytes;
    figures->device_total_bytes = total_bytes;
    figures->device_load_at_ns = device->load(&load) ? now : 0;
    figures->device_busy = load.busy;
    figures->device_memory_busy = load.memory_busy;
}

void sl_stats_publish(struct sl_worker_slot *slot, const struct sl_worker_totals *figures)
{
    struct sl_worker_totals mine = *figures;
    mine.worker = atomic_load_explicit(&slot->words.worker, memory_order_relaxed);
    store(slot, &mine);
}

bool sl_stats_read(const struct sl_worker_slot *slot, struct sl_worker_totals *out)
{
    struct sl_worker_totals copy;
    if (!sl_seqlock_load(&slot->seq, &slot->figures, &copy, sizeof copy))
        return false;
    *out = copy;
    return true;
}
