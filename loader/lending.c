#include "loader/lending.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/text/units.h"

static void publish(struct sl_lending *l)
{
    l->figures.current_tag = l->n_held ? l->held[l->n_held - 1].work.lease.tag : 0;
    if (l->spec.stats)
        sl_stats_publish(l->spec.stats, &l->figures);
}

static void release(struct sl_lending *l, const struct sl_work *work)
{
    if (l->spec.ahead)
        sl_prefetch_release(&l->prefetch, work);
}

static void give_back(struct sl_lending *l, const struct sl_work *work)
{
    release(l, work);
    sl_ledger_return(l->spec.arena, &work->lease);
}

// The features of a batch that was lent without them are there, or never will be: then what reads
// them has ended.
static int settle(struct sl_lending *l, struct sl_lent *lent, uint32_t timeout_ms)
{
    if (lent->lost)
        return sl_fail(lent->lost, "batch %" PRIu64 ": its features could not be gathered",
                       lent->work.lease.tag);
    if (!lent->comes)
        return SL_OK;
    const int rc = sl_prefetch_wait(&l->prefetch, timeout_ms, &lent->work);
    if (rc == SL_ETIMEDOUT)
        return rc;
    lent->comes = false;
    lent->lost = SL_MIN(rc, 0);
    if (lent->filled) {
        sl_arrays_free(lent->filled);
        lent->filled = NULL;
        release(l, &lent->work);
        lent->work.buffer = SL_PREFETCH_NO_BUFFER;
        lent->work.x = NULL;
    }
    return rc;
}

int sl_lending_settle(struct sl_lending *l, struct sl_lent *lent)
{
    int rc;
    while ((rc = settle(l, lent, SL_ARENA_WAIT_MS)) == SL_ETIMEDOUT) {
    }
    return rc;
}

// --- claims --------------------------------------------------------------------------------------

static uint64_t position(uint32_t epoch, uint32_t number)
{
    return (uint64_t)epoch << 32 | number;
}

// The epoch to claim of first: the one that the caller has begun in, perhaps at its very end, which
// is told; else the one that is lent now. False while none is, after a wait.
static bool find_epoch(struct sl_lending *l, uint32_t timeout_ms)
{
    struct sl_ledger_lent now;
    struct sl_event *work = &l->spec.arena->h->work;
    const uint32_t seen = sl_event_read(work);
    l->found = sl_ledger_look_lent(l->spec.arena, &now);
    const uint64_t from = atomic_load(&l->from);
    if (l->found)
        l->claims = from ? (uint32_t)(from >> 32) : now.epoch;
    else if (timeout_ms)
        sl_event_wait(work, seen, timeout_ms);
    return l->found;
}

// A batch of an epoch that has ended for this loader, and still goes on: somebody gave it back.
static bool claim_late(struct sl_lending *l, struct sl_work *work)
{
    struct sl_ledger_lent now;
    work->epoch = sl_ledger_look_lent(l->spec.arena, &now) ? now.epoch : l->claims;
    return work->epoch < l->claims &&
           sl_ledger_claim_lent(l->spec.arena, l->spec.worker, l->spec.rank, work->epoch, 0,
                                &work->lease) == SL_OK;
}

// By the thread that claims: the caller's, or the one that gathers ahead.
static int claim_lent(void *ctx, uint32_t timeout_ms, struct sl_work *work)
{
    struct sl_lending *l = ctx;
    if (!l->found && !find_epoch(l, timeout_ms))
        return sl_heartbeat_stopping(&l->pulse) ? SL_EABORTED : SL_ETIMEDOUT;
    l->claims = SL_MAX(l->claims, (uint32_t)(atomic_load(&l->from) >> 32));
    if (claim_late(l, work))
        return SL_OK;
    work->epoch = l->claims;
    const int rc = sl_ledger_claim_lent(l->spec.arena, l->spec.worker, l->spec.rank, l->claims,
                                        timeout_ms, &work->lease);
    if (rc != SL_ERANGE)
        return rc;
    l->claims++;
    work->ended = true;
    return SL_OK;
}

static int claim_new(struct sl_lending *l, uint32_t timeout_ms, struct sl_work *work)
{
    const struct sl_block *block;
    if (l->spec.ahead)
        return sl_prefetch_next(&l->prefetch, timeout_ms, work);
    *work = (struct sl_work){.buffer = SL_PREFETCH_NO_BUFFER};
    if (sl_heartbeat_stopping(&l->pulse))
        return SL_EABORTED;
    SL_TRY(sl_fetch_check(&l->fetch));
    int rc = claim_lent(l, timeout_ms, work);
    if (rc < 0 || work->ended)
        return rc;
    work->claimed_at_ns = sl_now_ns();
    rc = sl_work_block(l->spec.arena, &work->lease, l->spec.shape, &l->spec.dataset->typed, &block);
    if (rc < 0)
        sl_ledger_return(l->spec.arena, &work->lease);
    else
        work->block = sl_block_here(block);
    return rc;
}

static int claim(struct sl_lending *l, uint32_t timeout_ms, struct sl_work *work)
{
    const int rc = claim_new(l, timeout_ms, work);
    if (rc != SL_EABORTED || !l->begun || !sl_ledger_epoch_is_over(l->spec.arena, l->epoch))
        return rc;
    // The job has ended with its last epoch, before the caller has heard of the epoch's end.
    *work = (struct sl_work){.epoch = l->epoch, .ended = true};
    return SL_OK;
}

// The numbers of a batch's positives, in the order of the epoch; NULL: it is not of links. They
// stay while it is held, and with it its epoch.
static const uint32_t *items_of(const struct sl_lending *l, const struct sl_lease *lease)
{
    uint32_t n;
    if (!l->spec.shape.has_pairs)
        return NULL;
    return sl_arena_order(l->spec.arena, lease->phase->spec.order_bank) +
           sl_phase_range(lease->phase, lease->cell, &n);
}

// By the thread that gathers: rows are to go to the memory that is taken with the numbers. What the
// buffer has of an earlier batch stays where nobody took it.
static int fill_ahead(void *ctx, const struct sl_work *work, bool wanted)
{
    struct sl_lending *l = ctx;
    struct sl_arrays **made = &l->made[work->buffer];
    if (!*made) {
        const int rc = sl_arrays_get(l->pool, wanted, made);
        if (rc != SL_OK)
            return rc;
        if (l->spec.compute.device->is_host)
            sl_prefetch_swap_rows(&l->prefetch, work, &(*made)->features);
    }
    return sl_arrays_fill(*made, work->block.header, items_of(l, &work->lease));
}

// A piece of memory is back.
static void on_freed(void *ctx)
{
    sl_prefetch_look_again(ctx);
}

int sl_lending_init(struct sl_lending *l, const struct sl_lending_spec *spec)
{
    *l = (struct sl_lending){.spec = *spec};
    l->pulse = (struct sl_heartbeat){
        .arena = spec->arena, .stop = spec->stop, .slot = spec->stats, .thread = SL_THREAD_WORK};
    const struct sl_fetch_spec fetch = {spec->arena,   spec->worker,  spec->device,
                                        spec->dataset, spec->fetches, &l->pulse};
    const struct sl_arrays_spec arrays = {
        .seeds = spec->dataset->split[SL_SPLIT_TRAIN],
        .typed = &spec->dataset->typed,
        .freed = spec->ahead ? on_freed : NULL,
        .ctx = &l->prefetch,
    };
    const struct sl_prefetch_spec prefetch = {
        .arena = spec->arena,
        .worker = spec->worker,
        .device = spec->device,
        .dataset = spec->dataset,
        .compute = spec->compute,
        .on_gpu = spec->on_gpu,
        .gather = spec->gather,
        .fetches = spec->fetches,
        .shape = spec->shape,
        .pulse = &l->pulse,
        .claim = claim_lent,
        .begins = spec->arrays ? fill_ahead : NULL,
        .early = spec->early,
        .ctx = l,
    };
    sl_ledger_sit(spec->arena, spec->rank, spec->worker);
    SL_TRY(sl_arrays_pool_open(&arrays, &l->pool));
    return spec->ahead ? sl_prefetch_start(&l->prefetch, &prefetch)
                       : sl_fetch_start(&l->fetch, &fetch);
}

void sl_lending_fini(struct sl_lending *l)
{
    if (!l->spec.arena)
        return;
    for (uint32_t i = 0; i < l->n_held; i++) {
        sl_lending_settle(l, &l->held[i]);
        give_back(l, &l->held[i].work);
    }
    if (l->spec.ahead)
        sl_prefetch_stop(&l->prefetch);
    sl_fetch_stop(&l->fetch);
    for (uint32_t i = 0; i < SL_PREFETCH_BUFFERS; i++)
        sl_arrays_free(l->made[i]);
    sl_arrays_pool_close(l->pool);
    free(l->held);
    sl_ledger_stand_up(l->spec.arena, l->spec.worker);
    *l = (struct sl_lending){0};
}

int sl_lending_start(struct sl_lending *l, uint32_t epoch, uint32_t number)
{
    struct sl_ledger_lent now;
    const uint64_t to = position(epoch, number), next = atomic_load(&l->from);
    if (to < next)
        return sl_fail(SL_EINVAL,
                       "starting at batch %u of epoch %u: batches before %" PRIu32
                       " of epoch %" PRIu32
                       " have been lent or left: wanted a later one (a new loader has them all)",
                       number, epoch, (uint32_t)next, (uint32_t)(next >> 32));
    if (sl_ledger_look_lent(l->spec.arena, &now) && epoch < now.epoch)
        return sl_fail(
            SL_EINVAL,
            "starting at batch %u of epoch %u: the job is in epoch %u: wanted that one, or "
            "a later one",
            number, epoch, now.epoch);
    if (to == next)
        return SL_OK;
    atomic_store(&l->from, to);
    l->left = to;
    l->begun = false;
    l->stuck_ns = 0;
    sl_ledger_leave(l->spec.arena, l->spec.rank, epoch, number);
    return SL_OK;
}

// Room for one more.
static int grow(struct sl_lending *l)
{
    if (l->n_held < l->room)
        return SL_OK;
    const uint32_t room = l->room ? 2 * l->room : 8;
    struct sl_lent *more = realloc(l->held, room * sizeof *more);
    if (!more)
        return sl_fail(SL_ENOMEM, "lending a batch: no memory for a list of %u", room);
    l->held = more;
    l->room = room;
    return SL_OK;
}

// What was claimed: SL_OK when it is lent; SL_LENDING_END; SL_EAGAIN when it is of what was left.
static int take(struct sl_lending *l, const struct sl_work *work)
{
    const uint64_t from = atomic_load(&l->from);
    if (work->ended) {
        const uint64_t next = position(work->epoch + 1, 0);
        if (next <= from)
            return SL_EAGAIN;
        atomic_store(&l->from, next);
        l->begun = false;
        return SL_LENDING_END;
    }
    struct sl_lent lent = {.work = *work, .given_ns = sl_now_ns(), .comes = l->spec.early};
    int rc = position(work->epoch, work->lease.cell) < l->left ? SL_EAGAIN : grow(l);
    if (rc < 0) {
        sl_lending_settle(l, &lent);
        give_back(l, &lent.work);
        return rc;
    }
    l->epoch = work->epoch;
    l->begun = true;
    // One that comes again lies before others that have come.
    atomic_store(&l->from, SL_MAX(from, position(work->epoch, work->lease.cell + 1)));
    l->held[l->n_held++] = lent;
    return SL_OK;
}

// --- waiting -------------------------------------------------------------------------------------

// Batches that have one of the buffers for features.
static uint32_t in_buffers(const struct sl_lending *l)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < l->n_held; i++)
        n += l->held[i].work.buffer != SL_PREFETCH_NO_BUFFER;
    return n;
}

// Why nothing can come while the caller keeps what he has: SL_OK where nobody knows that.
static int check_stuck(struct sl_lending *l)
{
    char bytes[SL_UNITS_BYTES];
    const struct sl_arena *a = l->spec.arena;
    const uint64_t now = sl_now_ns();
    const unsigned seconds = SL_LENDING_STUCK_NS / 1000000000;
    if (l->stuck_ns == 0)
        l->stuck_ns = now;
    if (l->n_held == 0 || now - l->stuck_ns < SL_LENDING_STUCK_NS)
        return SL_OK;
    const struct sl_lease *oldest = &l->held[0].work.lease;
    if (!l->begun && sl_ledger_current(a, SL_LANE_MAIN) <= oldest->seq)
        return sl_fail(
            SL_ENOMEM,
            "no batch for %u s: the next epoch cannot begin while %u batches of epoch %u "
            "are held: give them back with sluice_done() or sluice_return()",
            seconds, l->n_held, oldest->phase->spec.epoch);
    const uint32_t n_buffers = in_buffers(l);
    if (n_buffers >= SL_PREFETCH_BUFFERS)
        return sl_fail(SL_ENOMEM,
                       "no batch for %u s: %u batches are held in the %d buffers for "
                       "features: give one back with sluice_done(), take its arrays with "
                       "sluice_take(), or open the loader without prefetch",
                       seconds, n_buffers, SL_PREFETCH_BUFFERS);
    if (atomic_load(&sl_ledger_of(a)->starving) == 0)
        return SL_OK;
    return sl_fail(SL_ENOMEM,
                   "no batch for %u s: the arena's %s are full, and %u batches are held: give them "
                   "back with sluice_done(), or give the job more (arena.memory)",
                   seconds, sl_units_exact_bytes(bytes, a->h->spec.payload_bytes), l->n_held);
}

// Buffers of batches whose rows have come to the caller's arrays are free.
static void settle_held(struct sl_lending *l)
{
    for (uint32_t i = 0; i < l->n_held; i++)
        settle(l, &l->held[i], 0);
}

static int next(struct sl_lending *l, uint64_t until_ns)
{
    struct sl_work work;
    settle_held(l);
    for (uint32_t slice_ms = 0;;) {
        int rc = claim(l, slice_ms, &work);
        if (rc == SL_OK)
            rc = take(l, &work);
        if (rc == SL_EAGAIN)
            continue;
        if (rc != SL_ETIMEDOUT)
            return rc;
        SL_TRY(check_stuck(l));
        const uint64_t now = sl_now_ns();
        if (now >= until_ns)
            return SL_ETIMEDOUT;
        slice_ms = (uint32_t)SL_MIN((until_ns - now) / 1000000 + 1, (uint64_t)SL_ARENA_WAIT_MS);
    }
}

int sl_lending_next(struct sl_lending *l, uint32_t timeout_ms, const struct sl_lent **out)
{
    const uint64_t from = sl_now_ns();
    int rc = next(l, from + (uint64_t)timeout_ms * 1000000);
    const uint64_t waited = sl_now_ns() - from;
    l->waited_ns += waited;
    l->figures.stage_ns[SL_STAGE_WAIT] += waited;
    if (rc >= 0)
        l->stuck_ns = 0;
    if (rc == SL_OK) {
        struct sl_lent *lent = &l->held[l->n_held - 1];
        lent->wait_ns = l->waited_ns;
        l->waited_ns = 0;
        *out = lent;
    }
    if (waited > 1000000 || rc == SL_OK)
        publish(l);
    return rc;
}

int sl_lending_wait(struct sl_lending *l, uint64_t tag, uint32_t timeout_ms)
{
    struct sl_lent *lent = sl_lending_find(l, tag);
    if (!lent)
        return SL_ESTALE;
    const uint64_t from = sl_now_ns();
    const int rc = settle(l, lent, timeout_ms);
    const uint64_t waited = sl_now_ns() - from;
    lent->wait_ns += waited;
    l->figures.stage_ns[SL_STAGE_WAIT] += waited;
    return rc;
}

// --- back ----------------------------------------------------------------------------------------

struct sl_lent *sl_lending_find(struct sl_lending *l, uint64_t tag)
{
    for (uint32_t i = l->n_held; i-- > 0;) // the newest is the likeliest
        if (l->held[i].work.lease.tag == tag)
            return &l->held[i];
    sl_fail(SL_ESTALE,
            "batch %" PRIu64 " is not held by this loader: it was given back, or never lent", tag);
    return NULL;
}

// Takes it out of the list, which stays in the order of lending.
static struct sl_lent take_out(struct sl_lending *l, struct sl_lent *lent)
{
    const struct sl_lent gone = *lent;
    const size_t behind = (size_t)(l->held + l->n_held - (lent + 1));
    memmove(lent, lent + 1, behind * sizeof *lent);
    l->n_held--;
    l->stuck_ns = 0;
    return gone;
}

// The caller's work on it: not what it took to gather, nor what counts for a batch done before.
static void record(struct sl_lending *l, const struct sl_lent *lent)
{
    const struct sl_gathered *g = &lent->work.gathered;
    const uint64_t now = sl_now_ns();
    const struct sl_work_times when = {
        .taken_ns = lent->given_ns,
        .from_ns = SL_MAX(SL_MAX(lent->given_ns, l->busy_ns), g->from_ns + g->ns),
        .to_ns = now,
        .wait_ns = lent->wait_ns,
    };
    l->busy_ns = now;
    sl_work_record(&lent->work, l->spec.worker, &when);
    l->figures.batches++;
    l->figures.training++;
    l->figures.edges += lent->work.lease.entry->n_edges;
    l->figures.bytes += g->hit_bytes + g->miss_bytes;
    l->figures.stage_ns[SL_STAGE_EXTRACT] += g->ns;
    l->figures.stage_ns[SL_STAGE_TRAIN] += when.to_ns - when.from_ns;
}

int sl_lending_done(struct sl_lending *l, uint64_t tag)
{
    struct sl_lent *lent = sl_lending_find(l, tag);
    if (!lent)
        return SL_ESTALE;
    sl_lending_settle(l, lent);
    const struct sl_lent gone = take_out(l, lent);
    record(l, &gone);
    release(l, &gone.work);
    const int rc = sl_ledger_complete(l->spec.arena, &gone.work.lease);
    publish(l);
    if (rc != SL_ESTALE)
        return rc;
    if (sl_heartbeat_stopping(&l->pulse)) // a job that ends takes all batches back
        return SL_EABORTED;
    return sl_fail(rc, "batch %" PRIu64 " was taken back by the job meanwhile", tag);
}

int sl_lending_return(struct sl_lending *l, uint64_t tag)
{
    struct sl_lent *lent = sl_lending_find(l, tag);
    if (!lent)
        return SL_ESTALE;
    sl_lending_settle(l, lent);
    const struct sl_lent gone = take_out(l, lent);
    l->returned++;
    give_back(l, &gone.work);
    publish(l);
    return SL_OK;
}

// --- features ------------------------------------------------------------------------------------

int sl_lending_features(struct sl_lending *l, uint64_t tag, void *to, size_t bytes)
{
    struct sl_lent *lent = sl_lending_find(l, tag);
    if (!lent)
        return SL_ESTALE;
    struct sl_work *work = &lent->work;
    SL_TRY(sl_lending_settle(l, lent));
    if (lent->taken && !work->x)
        return sl_fail(SL_EINVAL, "batch %" PRIu64 ": its features went with its arrays", tag);
    const struct sl_block *block = work->block.header;
    const uint64_t wanted = sl_rows_block_bytes(l->spec.dataset, block);
    if (bytes < wanted)
        return sl_fail(SL_ERANGE,
                       "features of %u vertices: found room for %zu bytes, wanted %" PRIu64,
                       block->n_input, bytes, wanted);
    if (work->x) {
        const struct sl_device *device = l->spec.compute.device;
        if (device->is_host) {
            memcpy(to, work->x, wanted);
            return SL_OK;
        }
        SL_TRY(device->copy(to, work->x, wanted));
        return device->sync();
    }
    const uint64_t from = sl_now_ns();
    SL_TRY(sl_rows_copy_block(&l->spec.gather->source, l->spec.compute.host, block, to));
    work->gathered =
        (struct sl_gathered){.from_ns = from, .ns = sl_now_ns() - from, .miss_bytes = wanted};
    return SL_OK;
}

// --- arrays --------------------------------------------------------------------------------------

// The batch's rows: those that were gathered ahead, or gathered now.
static int take_rows(struct sl_lending *l, struct sl_lent *lent, struct sl_arrays *a, void **rows)
{
    struct sl_work *work = &lent->work;
    if (work->x) {
        *rows = work->x;
        sl_prefetch_swap_rows(&l->prefetch, work, &a->features);
        if (lent->comes) {
            sl_arrays_hold(a);
            lent->filled = a;
            return SL_OK;
        }
        sl_prefetch_release(&l->prefetch, work);
        work->buffer = SL_PREFETCH_NO_BUFFER;
        work->x = NULL;
        return SL_OK;
    }
    const size_t bytes = sl_rows_block_bytes(l->spec.dataset, work->block.header);
    SL_TRY(
        sl_buffer_grow(&a->features, sl_device_host(), SL_BUFFER_DEVICE, bytes, "input features"));
    *rows = a->features.p;
    return sl_lending_features(l, work->lease.tag, a->features.p, bytes);
}

int sl_lending_take(struct sl_lending *l, uint64_t tag, struct sl_arrays **out, void **rows)
{
    struct sl_lent *lent = sl_lending_find(l, tag);
    if (!lent)
        return SL_ESTALE;
    if (lent->taken)
        return sl_fail(SL_EINVAL, "batch %" PRIu64 ": its arrays were taken before", tag);
    if (lent->lost)
        return settle(l, lent, 0);
    struct sl_work *work = &lent->work;
    struct sl_arrays *a = NULL;
    int rc = SL_OK;
    *rows = NULL;
    if (work->buffer != SL_PREFETCH_NO_BUFFER) {
        a = l->made[work->buffer];
        l->made[work->buffer] = NULL;
    }
    if (!a) {
        SL_TRY(sl_arrays_get(l->pool, true, &a));
        rc = sl_arrays_fill(a, work->block.header, items_of(l, &work->lease));
    }
    const bool has_rows =
        sl_rows_any(l->spec.dataset) && (!work->x || l->spec.compute.device->is_host);
    if (rc == SL_OK && has_rows)
        rc = take_rows(l, lent, a, rows);
    if (rc < 0) {
        sl_arrays_free(a);
        return rc;
    }
    lent->taken = true;
    *out = a;
    return SL_OK;
}
