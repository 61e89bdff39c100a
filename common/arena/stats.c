#include "common/arena/stats.h"

#include "common/base/clock.h"
#include "common/device/device.h"

#define LOOK_NS 1000000000ull

struct sl_worker_slot *sl_stats_slot(const struct sl_arena *a, uint32_t slot)
{
    return (struct sl_worker_slot *)sl_arena_region(a, SL_REGION_WORKERS) + slot;
}

// The figures are copied word by word while another process may read or write them: what is torn is
// thrown away by `seq`, and a word is never torn.
typedef uint64_t __attribute__((may_alias)) word;
enum { WORDS = sizeof(struct sl_worker_totals) / sizeof(word) };
_Static_assert(sizeof(struct sl_worker_totals) % sizeof(word) == 0, "figures are whole words");

static void store(struct sl_worker_slot *slot, const struct sl_worker_totals *figures)
{
    uint32_t seq = atomic_load_explicit(&slot->seq, memory_order_relaxed) | 1;
    // Odd before the stores, even after them: both fences pair with the reader's.
    atomic_store_explicit(&slot->seq, seq, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    const word *from = (const word *)figures;
    word *to = (word *)&slot->figures;
    for (size_t i = 0; i < WORDS; i++)
        __atomic_store_n(&to[i], from[i], __ATOMIC_RELAXED);
    atomic_store_explicit(&slot->seq, seq + 1, memory_order_release);
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
    // The writer is inside for some tens of nanoseconds, unless it is not running at all.
    for (int attempt = 0; attempt < 1000; attempt++) {
        uint32_t before = atomic_load_explicit(&slot->seq, memory_order_acquire);
        const word *from = (const word *)&slot->figures;
        struct sl_worker_totals copy = {0};
        for (size_t i = 0; i < WORDS; i++)
            ((word *)&copy)[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
        atomic_thread_fence(memory_order_acquire);
        uint32_t after = atomic_load_explicit(&slot->seq, memory_order_relaxed);
        if (before == after && !(before & 1)) {
            *out = copy;
            return true;
        }
    }
    return false;
}
