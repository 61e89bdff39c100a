#include "common/arena/payload_alloc.h"

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/arena/ledger_internal.h"

static _Atomic uint64_t *chunks_of(const struct sl_arena *a)
{
    return sl_arena_region(a, SL_REGION_CHUNKS);
}

static uint64_t chunk_of(const struct sl_arena *a, uint64_t offset)
{
    return (offset - a->h->region[SL_REGION_PAYLOAD].offset) / SL_ARENA_CHUNK_BYTES;
}

// Frees chunks [first, first + n) as far as they still belong to `tag`; true when any did.
static bool release(const struct sl_arena *a, uint64_t tag, uint64_t first, uint64_t n)
{
    _Atomic uint64_t *chunk = chunks_of(a);
    bool any = false;
    if (first > a->h->n_chunks || n > a->h->n_chunks - first)
        return false; // a damaged entry: a sweep finds what the batch really had
    for (uint64_t i = first; i < first + n; i++) {
        uint64_t expected = tag;
        // Release: whoever takes the chunk next must not see our reads and writes after his own.
        any |= atomic_compare_exchange_strong_explicit(&chunk[i], &expected, 0,
                                                       memory_order_acq_rel, memory_order_relaxed);
    }
    return any;
}

// First fit. True with *first set when a run of n chunks is now tagged.
static bool take_run(const struct sl_arena *a, uint64_t tag, uint64_t n, uint64_t *first)
{
    _Atomic uint64_t *chunk = chunks_of(a);
    uint64_t total = a->h->n_chunks;
    uint64_t run = 0;
    for (uint64_t i = 0; i < total; i++) {
        run = atomic_load_explicit(&chunk[i], memory_order_relaxed) == 0 ? run + 1 : 0;
        if (run < n)
            continue;
        uint64_t start = i + 1 - n, taken = 0;
        for (; taken < n; taken++) {
            uint64_t zero = 0;
            if (!atomic_compare_exchange_strong_explicit(
                    &chunk[start + taken], &zero, tag, memory_order_acq_rel, memory_order_relaxed))
                break;
        }
        if (taken == n) {
            *first = start;
            return true;
        }
        // Somebody was faster: give back and look on behind the chunk he has.
        release(a, tag, start, taken);
        i = start + taken;
        run = 0;
    }
    return false;
}

static void announce_starving(struct sl_arena *a, uint64_t tag)
{
    _Atomic uint64_t *starving = &sl_ledger_of(a)->starving;
    uint64_t s = atomic_load(starving);
    while ((s == 0 || s > tag) && !atomic_compare_exchange_weak(starving, &s, tag)) {
    }
}

void sl_payload_end_wait(struct sl_arena *a, uint64_t tag)
{
    uint64_t mine = tag;
    if (atomic_compare_exchange_strong(&sl_ledger_of(a)->starving, &mine, 0))
        sl_event_signal(&a->h->progress);
}

static bool try_alloc(struct sl_arena *a, uint64_t tag, uint64_t n, uint64_t *first)
{
    uint64_t s = atomic_load(&sl_ledger_of(a)->starving);
    struct sl_evicted victim;
    if (s != 0 && s < tag)
        return false;
    while (!take_run(a, tag, n, first)) {
        announce_starving(a, tag);
        // Younger batches now leave free memory alone. If nothing can be trained before this batch
        // exists, waiting for trainers would be waiting for ever: make room.
        if (!sl_ledger_is_next(a, tag) || sl_ledger_evict(a, tag, &victim) < 0)
            return false;
        release(a, victim.tag, chunk_of(a, victim.payload_offset),
                victim.payload_bytes / SL_ARENA_CHUNK_BYTES);
    }
    sl_payload_end_wait(a, tag);
    return true;
}

struct wanted {
    uint64_t tag, n, first; // n chunks; the first one that it got
};

static int try_wanted(struct sl_arena *a, void *what)
{
    struct wanted *w = what;
    return try_alloc(a, w->tag, w->n, &w->first) ? SL_OK : SL_EAGAIN;
}

int sl_payload_alloc(struct sl_arena *a, const struct sl_lease *lease, uint64_t bytes,
                     uint32_t timeout_ms, struct sl_extent *out)
{
    struct wanted w = {lease->tag, sl_div_up(SL_MAX(bytes, (uint64_t)1), SL_ARENA_CHUNK_BYTES), 0};
    if (w.n > a->h->n_chunks)
        return sl_fail(SL_ENOMEM,
                       "arena: a block of %llu bytes does not fit the payload memory of %llu "
                       "bytes: set arena.memory to more, or take a smaller batch or fanout",
                       (unsigned long long)bytes, (unsigned long long)a->h->spec.payload_bytes);
    int rc = sl_arena_try(a, &a->h->progress, timeout_ms, try_wanted, &w);
    if (rc == SL_EABORTED)
        sl_payload_end_wait(a, w.tag);
    if (rc == SL_OK)
        *out = (struct sl_extent){
            .offset = a->h->region[SL_REGION_PAYLOAD].offset + w.first * SL_ARENA_CHUNK_BYTES,
            .bytes = w.n * SL_ARENA_CHUNK_BYTES,
        };
    return rc;
}

int sl_payload_check(const struct sl_arena *a, uint64_t offset, uint64_t bytes)
{
    const struct sl_region *payload = &a->h->region[SL_REGION_PAYLOAD];
    if (offset % SL_ARENA_CHUNK_BYTES == payload->offset % SL_ARENA_CHUNK_BYTES &&
        offset >= payload->offset && bytes <= payload->bytes &&
        offset - payload->offset <= payload->bytes - bytes)
        return SL_OK;
    return sl_fail(SL_EPROTO,
                   "a batch's block has %llu bytes at %llu, outside the payload memory of %llu "
                   "bytes at %llu: the arena is damaged",
                   (unsigned long long)bytes, (unsigned long long)offset,
                   (unsigned long long)payload->bytes, (unsigned long long)payload->offset);
}

void sl_payload_trim(struct sl_arena *a, uint64_t tag, struct sl_extent *extent, uint64_t bytes)
{
    uint64_t keep = sl_div_up(bytes, SL_ARENA_CHUNK_BYTES) * SL_ARENA_CHUNK_BYTES;
    if (keep >= extent->bytes)
        return;
    sl_payload_free(a, tag, extent->offset + keep, extent->bytes - keep);
    extent->bytes = keep;
}

bool sl_payload_free(struct sl_arena *a, uint64_t tag, uint64_t offset, uint64_t bytes)
{
    bool any = release(a, tag, chunk_of(a, offset), bytes / SL_ARENA_CHUNK_BYTES);
    if (any)
        sl_event_signal(&a->h->progress);
    return any;
}

void sl_payload_sweep(struct sl_arena *a)
{
    _Atomic uint64_t *chunk = chunks_of(a);
    for (uint64_t i = 0; i < a->h->n_chunks; i++) {
        uint64_t tag = atomic_load_explicit(&chunk[i], memory_order_acquire);
        if (tag != 0 && !sl_ledger_tag_is_live(a, tag))
            release(a, tag, i, 1);
    }
    // The starving batch may have been the dead worker's; a living one announces itself again.
    atomic_store(&sl_ledger_of(a)->starving, 0);
    sl_event_signal(&a->h->progress);
}

uint64_t sl_payload_used_bytes(const struct sl_arena *a)
{
    _Atomic uint64_t *chunk = chunks_of(a);
    uint64_t used = 0;
    for (uint64_t i = 0; i < a->h->n_chunks; i++)
        used += atomic_load_explicit(&chunk[i], memory_order_relaxed) != 0;
    return used * SL_ARENA_CHUNK_BYTES;
}
