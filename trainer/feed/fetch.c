#include "trainer/feed/fetch.h"

#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "common/base/threads.h"
#include "common/arena/arena.h"
#include "common/arena/block.h"
#include "common/arena/payload_alloc.h"
#include "common/arena/peer_memory.h"
#include "common/arena/seat.h"
#include "common/arena/type_counts.h"
#include "common/arena/visit_counts.h"
#include "common/data/features_kind.h"
#include "trainer/feed/typed_block.h"

enum { ASLEEP_MS = 10000 }; // asleep costs nothing

static int find_block(const struct sl_fetch *f, const struct sl_batch_entry *entry,
                      const struct sl_block **out)
{
    SL_TRY(sl_payload_check(f->spec.arena, entry->payload_offset, entry->payload_bytes));
    *out = (const struct sl_block *)(const void *)(f->spec.arena->base + entry->payload_offset);
    return sl_block_check(*out, entry->payload_bytes);
}

// A batch on its way to the cache.
struct batch {
    const struct sl_block *block;
    struct sl_row_cache_use use;
    uint64_t read, beside; // rows that were read; that found no slot
    uint64_t near; // that need no reading: mapped here, in the trainers' caches, without features
    uint32_t missed[SL_TYPES_MAX]; // of each range, those that were read or found no slot
};

/*
 * Slots for the missing rows [from, end), which are of one range: what gets one comes first of them
 * in the lists, with its slot among those of its width in the place of where the row is in the
 * batch; what somebody else fetches is put down in `coming`. Rows of a rank below n_hot are hot.
 * Returns how many got one.
 */
static uint32_t take_slots(struct sl_fetch *f, struct batch *b, const struct sl_row_slots *slots,
                           uint64_t n_hot, uint32_t from, uint32_t end)
{
    struct sl_row_places *p = &f->places, *coming = &f->coming;
    const bool ranked = b->block->flags & SL_BLOCK_HAS_RANKS;
    const uint32_t *ranks = sl_block_ranks(b->block);
    uint32_t n = from;
    for (uint32_t i = from; i < end; i++) {
        const uint32_t row = p->row[i], at = p->missing_at[i];
        const bool hot = ranked && ranks[at] < n_hot;
        uint32_t slot;
        switch (sl_row_cache_take(&f->cache, slots, &b->use, row, hot, &slot)) {
        case SL_ROW_NO_SLOT: b->beside++; break;
        case SL_ROW_COMES:
            coming->row[coming->n_missing] = row;
            coming->missing_at[coming->n_missing++] = at;
            break;
        case SL_ROW_TAKEN: p->row[n] = row; p->missing_at[n++] = slot - slots->first;
        }
    }
    return n - from;
}

// After an error slots stay as they are being filled: a read may be under way yet.
static int read_range(struct sl_fetch *f, struct batch *b, uint32_t r, uint32_t from, uint32_t end)
{
    const struct sl_row_range range = sl_row_range(f->spec.dataset, r);
    const struct sl_row_slots slots = sl_row_cache_slots(&f->cache, range.row_bytes);
    const bool ranked = b->block->flags & SL_BLOCK_HAS_RANKS;
    const uint64_t n_hot = ranked ? sl_visit_counts_rows(f->spec.arena, r, f->hot_size) : 0;
    const uint32_t n = take_slots(f, b, &slots, n_hot, from, end);
    const uint32_t *row = f->places.row + from, *slot = f->places.missing_at + from;
    SL_FAILPOINT(TRAINER_FETCHING);
    SL_TRY(sl_reading_read(f->spec.reader, row, slot, n, slots.rows));
    for (uint32_t i = 0; i < n; i++)
        sl_row_cache_there(&f->cache, slots.first + slot[i]);
    b->read += n;
    return SL_OK;
}

// Reads what is missing, which stands range after range in the lists as vertices do in blocks.
static int read_missing(struct sl_fetch *f, struct batch *b)
{
    const struct sl_row_places *p = &f->places;
    const uint32_t n_ranges = sl_row_ranges(f->spec.dataset), n = p->n_missing;
    uint32_t from = 0;
    f->coming.n_missing = 0;
    for (uint32_t r = 0; r < n_ranges && from < n; r++) {
        const struct sl_row_range range = sl_row_range(f->spec.dataset, r);
        const uint64_t before = b->read + b->beside;
        uint32_t end = r + 1 < n_ranges ? from : n;
        while (end < n && p->row[end] < range.first + range.n)
            end++;
        if (range.row_bytes == 0)
            b->near += end - from; // there is nothing to read
        else if (end > from)
            SL_TRY(read_range(f, b, r, from, end));
        b->missed[r] += (uint32_t)(b->read + b->beside - before);
        from = end;
    }
    return SL_OK;
}

// Until what others were fetching is there, or is read here after all: whoever brings it signals
// when that batch is staged, and where it died the broker does.
static int await_coming(struct sl_fetch *f, struct batch *b)
{
    struct sl_row_places *p = &f->places;
    struct sl_event *progress = &f->spec.arena->h->progress;
    uint32_t seen = sl_event_read(progress) - 1; // look at once
    while (f->coming.n_missing > 0) {
        if (sl_heartbeat_stopping(&f->pulse))
            return SL_EABORTED;
        sl_event_wait(progress, seen, SL_ARENA_WAIT_MS);
        seen = sl_event_read(progress);
        sl_row_cache_find(&f->cache, f->coming.row, f->coming.n_missing, p);
        for (uint32_t i = 0; i < p->n_missing; i++)
            p->missing_at[i] = f->coming.missing_at[p->missing_at[i]];
        SL_TRY(read_missing(f, b));
    }
    return SL_OK;
}

static void warn_once(struct sl_fetch *f, const struct batch *b)
{
    const uint64_t room = sl_row_cache_room(&f->cache.shape);
    const struct sl_dataset *ds = f->spec.dataset;
    // Most mini-batches fit with all their rows, so those that are mapped here need not be counted.
    if (f->warned || sl_rows_cached_bytes(ds, b->block, b->near, NULL) <= room)
        return;
    const uint64_t wanted = sl_rows_cached_bytes(ds, b->block, b->near, f->spec.reader);
    if (wanted <= room)
        return;
    f->warned = true;
    sl_log_warn("store.cache: it has room for %llu MiB of rows, but a mini-batch has %llu: the "
                "others are read while its training waits; set it to %llu MiB or more",
                (unsigned long long)(room >> 20), (unsigned long long)(wanted >> 20),
                (unsigned long long)(sl_row_cache_least(&f->cache.shape, wanted) >> 20) + 1);
}

// Of a graph with types ranks count within the type, as rows that are held do.
static void drop_near(struct sl_fetch *f, struct batch *b)
{
    const struct sl_dataset *ds = f->spec.dataset;
    struct sl_row_places *p = &f->places;
    const bool ranked = b->block->flags & SL_BLOCK_HAS_RANKS;
    const uint32_t *ranks = sl_block_ranks(b->block);
    const uint64_t held =
        ranked ? sl_peer_memory_rows_held(f->spec.arena, b->block->rank_generation) : 0;
    const uint32_t n = sl_reading_sort(f->spec.reader, p->row, p->missing_at, p->n_missing);
    uint64_t end = 0, near = 0;
    uint32_t kept = 0, r = 0;
    for (uint32_t i = 0; i < n; i++) {
        for (; held && p->row[i] >= end; r++) {
            const struct sl_row_range range = sl_row_range(ds, r);
            end = r + 1 < sl_row_ranges(ds) ? range.first + range.n : UINT64_MAX;
            near = sl_visit_counts_rows(f->spec.arena, r, held);
        }
        if (held && ranks[p->missing_at[i]] < near)
            continue;
        p->row[kept] = p->row[i];
        p->missing_at[kept++] = p->missing_at[i];
    }
    b->near = p->n_missing - kept;
    p->n_missing = kept;
}

// Of a graph with types: those that were in the cache are hits.
static void count_types(const struct sl_fetch *f, const struct batch *b)
{
    const struct sl_typed *typed = &f->spec.dataset->typed;
    const uint32_t seat = sl_seat_trainer(f->spec.arena, f->spec.device);
    for (uint32_t t = 0; t < typed->n_types; t++) {
        const uint64_t each = sl_type_row_bytes(&typed->type[t]);
        const uint64_t rows = sl_typed_block_rows(b->block, t), missed = b->missed[t];
        const struct sl_type_count count = {.rows = rows,
                                            .hits = each ? rows - missed : 0,
                                            .hit_bytes = (rows - missed) * each,
                                            .miss_bytes = missed * each};
        sl_type_counts_add_rows(f->spec.arena, seat, t, &count);
    }
}

// The rows of the lease's batch to the cache; its entry says from where.
static int bring_rows(struct sl_fetch *f, const struct sl_lease *lease)
{
    struct sl_batch_entry *e = lease->entry;
    const uint64_t bytes = sl_reading_bytes(f->spec.reader);
    const struct sl_asking_count remote = sl_reading_remote(f->spec.reader);
    struct batch b = {.use = {.worker = f->spec.worker,
                              .batch = sl_phase_batch(f->spec.arena, lease->phase, lease->cell),
                              .oldest = sl_ledger_oldest_batch(f->spec.arena)}};
    SL_TRY(find_block(f, e, &b.block));
    const uint32_t *nodes = sl_block_nodes(b.block), n = b.block->n_input;
    SL_TRY(sl_row_places_grow(&f->places, n));
    SL_TRY(sl_row_places_grow(&f->coming, n));
    // Who draws notes it only where batches are looked at that are not yet fetched.
    if (f->cache.shape.window == 0)
        sl_row_cache_note(&f->cache, nodes, n, b.use.batch);
    sl_row_cache_find(&f->cache, nodes, n, &f->places);
    drop_near(f, &b);
    warn_once(f, &b);
    SL_TRY(read_missing(f, &b));
    SL_TRY(await_coming(f, &b));
    count_types(f, &b);
    e->rows_read = b.read;
    e->rows_beside = b.beside;
    e->rows_found = n - b.read - b.beside - b.near;
    e->drive_bytes = sl_reading_bytes(f->spec.reader) - bytes;
    e->remote_rows = sl_reading_remote(f->spec.reader).rows - remote.rows;
    e->remote_bytes = sl_reading_remote(f->spec.reader).bytes - remote.bytes;
    return SL_OK;
}

// One claim; SL_ETIMEDOUT when there was nothing to fetch.
static int fetch(struct sl_fetch *f)
{
    struct sl_lease lease;
    SL_TRY(sl_ledger_claim_fetch(f->spec.arena, f->spec.worker, SL_ARENA_WAIT_MS, &lease));
    const uint64_t start = sl_now_ns();
    int rc = bring_rows(f, &lease);
    if (rc < 0) {
        sl_ledger_return(f->spec.arena, &lease);
        return rc;
    }
    lease.entry->fetch_from_ns = start;
    lease.entry->fetch_ns = sl_now_ns() - start;
    SL_FAILPOINT(TRAINER_FETCHED);
    rc = sl_ledger_stage(f->spec.arena, &lease);
    return rc == SL_ESTALE ? SL_OK : rc;
}

static void *run(void *arg)
{
    struct sl_fetch *f = arg;
    int rc = SL_OK;
    while ((rc == SL_OK || rc == SL_ETIMEDOUT) && !atomic_load(&f->quit) &&
           !sl_heartbeat_stopping(&f->pulse)) {
        const uint32_t seen = sl_event_read(&f->changed);
        if (!atomic_load(&f->asleep))
            rc = fetch(f);
        else if (!atomic_load(&f->quit))
            sl_event_wait(&f->changed, seen, ASLEEP_MS);
    }
    if (rc < 0 && rc != SL_ETIMEDOUT) {
        pthread_mutex_lock(&f->lock);
        f->failed = rc;
        snprintf(f->message, sizeof f->message, "%s", sl_error_message());
        pthread_mutex_unlock(&f->lock);
    }
    return NULL;
}

int sl_fetch_start(struct sl_fetch *f, const struct sl_fetch_spec *spec)
{
    memset(f, 0, sizeof *f);
    f->spec = *spec;
    f->cache = sl_arena_rows(spec->arena);
    f->hot_size = sl_row_cache_hot_size(&f->cache.shape, sl_features_row_bytes(spec->dataset));
    if (!spec->reader || !f->cache.shape.n_slots)
        return SL_OK;
    f->pulse = *spec->pulse;
    f->pulse.thread = SL_THREAD_FETCH;
    pthread_mutex_init(&f->lock, NULL);
    int err = sl_thread_start(&f->thread, run, f);
    if (err) {
        pthread_mutex_destroy(&f->lock);
        return sl_fail_errno(SL_ESYS, err, "trainer: starting the thread that fetches features");
    }
    f->running = true;
    return SL_OK;
}

void sl_fetch_set_asleep(struct sl_fetch *f, bool asleep)
{
    atomic_store(&f->asleep, asleep);
    sl_event_signal(&f->changed);
}

int sl_fetch_check(struct sl_fetch *f)
{
    if (!f->running)
        return SL_OK;
    pthread_mutex_lock(&f->lock);
    int rc = f->failed ? sl_fail(f->failed, "%s", f->message) : SL_OK;
    pthread_mutex_unlock(&f->lock);
    return rc;
}

void sl_fetch_stop(struct sl_fetch *f)
{
    if (f->running) {
        atomic_store(&f->quit, true);
        sl_event_signal(&f->changed);
        pthread_join(f->thread, NULL);
        pthread_mutex_destroy(&f->lock);
        f->running = false;
    }
    sl_row_places_fini(&f->places);
    sl_row_places_fini(&f->coming);
}
