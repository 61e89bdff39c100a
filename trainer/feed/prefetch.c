#include "trainer/feed/prefetch.h"

#include <stdio.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "common/base/threads.h"
#include "common/arena/param_store.h"
#include "common/arena/group.h"
#include "common/arena/nodes.h"
#include "common/arena/type_counts.h"
#include "common/device/cores.h"
#include "trainer/feed/typed_block.h"

// What the extracting thread waits for changed, under the lock.
static void tell_thread(struct sl_prefetch *x)
{
    sl_event_signal(&x->changed);
    if (x->leaves)
        sl_event_signal(&x->spec.arena->h->progress);
}

// What the compute thread waits for changed, under the lock.
static void tell_compute(struct sl_prefetch *x)
{
    sl_event_signal(x->needed ? &x->spec.arena->h->progress : &x->changed);
}

/*
 * Whether others may need the compute thread while nothing is fetched: a group's members for their
 * sum; on several nodes, where batches of others come at any time, the job for its next update. But
 * as long as there are trainers on duty, nobody is woken for that.
 */
static bool is_needed(const struct sl_prefetch *x)
{
    const struct sl_arena *a = x->spec.arena;
    return sl_group_exists(a) ||
           (sl_nodes_any(a) && !(x->asleep && atomic_load(&sl_schedule_of(a)->trainers) > 0));
}

// Sleeps, without the lock, until the event is signalled after `seen` was read.
static void sleep_unlocked(struct sl_prefetch *x, struct sl_event *event, uint32_t seen,
                           uint32_t ms)
{
    pthread_mutex_unlock(&x->lock);
    sl_event_wait(event, seen, ms);
    pthread_mutex_lock(&x->lock);
}

// --- the thread ---

// Counts a claim towards this trainer's share of its update.
static void count_share(struct sl_prefetch *x, const struct sl_lease *lease)
{
    uint64_t update = lease->cell / x->spec.arena->h->spec.batches_per_update;
    if (lease->seq != x->share_seq || update != x->share_update) {
        x->share_seq = lease->seq;
        x->share_update = update;
        x->share_taken = 0;
    }
    x->share_taken++;
}

// Lowest cell from `first` on that nobody has claimed; n when there is none.
static uint32_t first_unclaimed(const struct sl_arena *a, uint64_t seq, uint64_t first, uint32_t n)
{
    uint32_t cell = (uint32_t)SL_MIN(first, (uint64_t)n);
    while (cell < n && sl_cell_state(sl_ledger_word(a, seq, cell)) > SL_CELL_STAGED)
        cell++;
    return cell;
}

/*
 * False while the next free batch is to be left to the other trainers. The phase may end meanwhile
 * and its slot be used again: a claim then comes early or late, nothing else. The search starts at
 * the update in progress, so it goes over a handful of cells.
 */
static bool within_share(const struct sl_prefetch *x)
{
    const struct sl_arena *a = x->spec.arena;
    if (a->h->spec.async || sl_group_exists(a)) // a group's shares are in the ledger
        return true;
    uint64_t seq = sl_ledger_current(a, SL_LANE_MAIN);
    const struct sl_phase *phase = sl_ledger_phase(a, seq);
    if (seq != x->share_seq || atomic_load_explicit(&phase->seq, memory_order_acquire) != seq)
        return true;
    uint64_t per_update = a->h->spec.batches_per_update;
    uint64_t made = sl_param_store_version(a) -
                    atomic_load_explicit(&phase->first_version, memory_order_relaxed);
    uint32_t next = first_unclaimed(a, seq, made * per_update,
                                    atomic_load_explicit(&phase->n_cells, memory_order_relaxed));
    return next / per_update != x->share_update ||
           x->share_taken < sl_div_up(sl_nodes_batches_per_update(a), sl_standby_trainers(a));
}

static bool has_cells_aside(const struct sl_prefetch *x)
{
    struct sl_ledger_ahead look;
    sl_ledger_look_aside(x->spec.arena, &look);
    return look.seq != 0 && !look.gated && look.unclaimed > 0;
}

enum turn { TURN_FETCH, TURN_ASIDE, TURN_LATER, TURN_LEAVE, TURN_SLEEP };

// What to do with a free buffer, under the lock.
static enum turn next_turn(const struct sl_prefetch *x)
{
    if (!sl_standby_may_fetch(&x->standby, !x->wanted)) {
        if (sl_standby_may_evaluate(&x->standby))
            return TURN_ASIDE;
        return x->wanted ? TURN_SLEEP : TURN_LATER;
    }
    if (x->aside && !x->wanted)
        return has_cells_aside(x) ? TURN_ASIDE : TURN_LATER;
    return x->wanted || within_share(x) ? TURN_FETCH : TURN_LEAVE;
}

// What the compute thread does, for the ledger to choose by.
static enum sl_occupation occupation(const struct sl_prefetch *x, enum turn turn)
{
    if (turn == TURN_ASIDE)
        return SL_OCCUPATION_ASIDE;
    return x->wanted ? SL_OCCUPATION_NONE : SL_OCCUPATION_TRAINS;
}

static void set_asleep(struct sl_prefetch *x, bool asleep)
{
    const bool was = x->asleep, was_needed = x->needed;
    x->asleep = asleep;
    x->needed = is_needed(x);
    if (was != asleep)
        sl_fetch_set_asleep(&x->fetch, asleep);
    if (was == asleep && was_needed == x->needed)
        return;
    // It may sleep on the one or the other.
    if (was_needed != x->needed)
        sl_event_signal(&x->changed);
    tell_compute(x);
}

static void sleep_on(struct sl_prefetch *x, uint32_t seen)
{
    const bool blocks = sl_peer_import_close(&x->near.borrowed), rows = sl_cache_rest(&x->cache);
    sl_standby_sleep(&x->standby);
    set_asleep(x, true);
    // Lenders wait for what is not closed yet.
    sleep_unlocked(x, &x->spec.arena->h->work, seen,
                   blocks && rows ? SL_STANDBY_WAIT_MS : SL_ARENA_WAIT_MS);
}

static void wake(struct sl_prefetch *x)
{
    if (x->asleep)
        x->woken_at_ns = sl_now_ns();
    sl_standby_wake(&x->standby);
    set_asleep(x, false);
}

// Waits until a claim is due. Returns the free buffer, or SL_PREFETCH_NO_BUFFER to leave.
static int wait_for_turn(struct sl_prefetch *x)
{
    int buffer = SL_PREFETCH_NO_BUFFER;
    pthread_mutex_lock(&x->lock);
    while (!x->quit && !sl_heartbeat_stopping(&x->pulse)) {
        // Read before the conditions: a change after this ends the sleep at once.
        struct sl_arena_header *h = x->spec.arena->h;
        uint32_t work = sl_event_read(&h->work), progress = sl_event_read(&h->progress);
        pthread_mutex_unlock(&x->lock);
        sl_peer_import_drop(&x->near.borrowed);
        sl_cache_refresh(&x->cache);
        pthread_mutex_lock(&x->lock);
        int free_buffer = x->busy[x->next] ? 1 - x->next : x->next;
        enum turn turn = TURN_LATER;
        if (!x->offered && !x->busy[free_buffer])
            turn = next_turn(x);
        if (x->quit || sl_heartbeat_stopping(&x->pulse)) {
            break;
        } else if (turn == TURN_SLEEP) {
            sleep_on(x, work);
        } else if (turn == TURN_LATER) {
            sleep_unlocked(x, &x->changed, sl_event_read(&x->changed), SL_ARENA_WAIT_MS);
        } else if (turn == TURN_LEAVE) {
            x->leaves = true;
            sleep_unlocked(x, &h->progress, progress, SL_ARENA_WAIT_MS);
            x->leaves = false;
        } else {
            wake(x);
            x->does = occupation(x, turn);
            buffer = free_buffer;
            break;
        }
    }
    pthread_mutex_unlock(&x->lock);
    return buffer;
}

// What the other side does before rows are gathered; SL_EABORTED: the thread is to end meanwhile.
static int begin(struct sl_prefetch *x, const struct sl_work *work)
{
    int rc = x->spec.begins ? SL_EAGAIN : SL_OK;
    while (rc == SL_EAGAIN) {
        pthread_mutex_lock(&x->lock);
        const uint32_t seen = sl_event_read(&x->changed);
        const bool wanted = x->wanted, ends = x->quit || sl_heartbeat_stopping(&x->pulse);
        pthread_mutex_unlock(&x->lock);
        if (ends)
            return SL_EABORTED;
        rc = x->spec.begins(x->spec.ctx, work, wanted);
        if (rc == SL_EAGAIN)
            sl_event_wait(&x->changed, seen, SL_ARENA_WAIT_MS);
    }
    return rc;
}

static void offer(struct sl_prefetch *x, const struct sl_work *work, bool early)
{
    pthread_mutex_lock(&x->lock);
    if (work->buffer != SL_PREFETCH_NO_BUFFER) {
        x->busy[work->buffer] = true;
        if (!x->spec.compute.device->is_host) // on cores the memory that is warm is as good
            x->next = 1 - work->buffer;
    }
    if (early)
        x->gathers = work->buffer;
    x->work = *work;
    x->offered = true;
    tell_compute(x);
    pthread_mutex_unlock(&x->lock);
}

// The rows of what was offered before are there.
static void settle(struct sl_prefetch *x, const struct sl_work *work)
{
    pthread_mutex_lock(&x->lock);
    x->gathered[work->buffer] = work->gathered;
    x->gathers = SL_PREFETCH_NO_BUFFER;
    tell_compute(x);
    pthread_mutex_unlock(&x->lock);
}

// Of a typed block; with the machine's cache whoever fetched it has counted (fetch.h).
static void count_types(const struct sl_prefetch *x, const struct sl_block *block)
{
    const struct sl_typed *typed = &x->spec.dataset->typed;
    const uint32_t seat = sl_seat_trainer(x->spec.arena, x->spec.device);
    const uint32_t *hits = sl_gather_type_hits(x->spec.gather), *matched = hits + typed->n_types;
    if (x->spec.gather->source.shared.shape.n_slots > 0)
        return;
    for (uint32_t t = 0; t < typed->n_types; t++) {
        const uint64_t each = sl_type_row_bytes(&typed->type[t]);
        const uint64_t rows = sl_typed_block_rows(block, t);
        const struct sl_type_count count = {.rows = rows,
                                            .hits = hits[t],
                                            .hit_bytes = hits[t] * each,
                                            .miss_bytes = (rows - hits[t] - matched[t]) * each};
        sl_type_counts_add_rows(x->spec.arena, seat, t, &count);
    }
}

static int gather(struct sl_prefetch *x, int buffer, struct sl_work *work)
{
    const struct sl_block *block;
    SL_TRY(
        sl_work_block(x->spec.arena, &work->lease, x->spec.shape, &x->spec.dataset->typed, &block));
    work->block = sl_block_here(block);
    work->buffer = buffer;
    SL_TRY(begin(x, work));
    x->spec.gather->near = sl_near_block_find(&x->near, work->lease.entry);
    SL_TRY(sl_gather_reserve(x->spec.gather, block, &x->buffer[buffer]));
    work->x = x->buffer[buffer].x;
    if (x->spec.early)
        offer(x, work, true);
    SL_TRY(sl_gather_rows(x->spec.gather, &x->cache, block,
                          x->spec.keeps_rows ? &x->buffer[1 - buffer] : NULL, &x->buffer[buffer],
                          &work->gathered));
    count_types(x, block);
    work->block = x->buffer[buffer].block;
    return SL_OK;
}

// Whether the batch is the compute thread's already.
static bool is_offered_early(const struct sl_prefetch *x, const struct sl_work *work)
{
    return x->spec.early && x->gathers != SL_PREFETCH_NO_BUFFER && x->gathers == work->buffer;
}

// One claim; SL_ETIMEDOUT when there was nothing to claim.
static int fetch(struct sl_prefetch *x, int buffer)
{
    struct sl_work work = {
        .buffer = SL_PREFETCH_NO_BUFFER,
        .woken_at_ns = x->woken_at_ns,
        .standby = sl_standby_duty(&x->standby) == SL_DUTY_STANDBY,
    };
    SL_TRY(sl_compute_follow_cores(x->spec.arena, x->spec.device, &x->cores_seen));
    // Aside there was something: if others have it, all is to be looked at anew.
    uint32_t wait_ms = x->does == SL_OCCUPATION_ASIDE ? 0 : SL_ARENA_WAIT_MS;
    int rc = x->spec.claim ? x->spec.claim(x->spec.ctx, wait_ms, &work)
                           : sl_ledger_claim_beside(x->spec.arena, x->spec.worker, x->does, wait_ms,
                                                    &work.lease);
    if (rc < 0)
        return rc;
    if (work.ended) {
        offer(x, &work, false);
        return SL_OK;
    }
    work.claimed_at_ns = sl_now_ns();
    SL_FAILPOINT(TRAINER_CLAIMED);
    if (work.lease.phase->spec.kind == SL_PHASE_TRAIN)
        count_share(x, &work.lease);
    if (work.lease.phase->spec.kind != SL_PHASE_INFER) {
        rc = gather(x, buffer, &work);
        if (rc < 0) {
            if (!is_offered_early(x, &work))
                sl_ledger_return(x->spec.arena, &work.lease);
            return rc;
        }
        SL_FAILPOINT(TRAINER_EXTRACTED);
    }
    if (is_offered_early(x, &work))
        settle(x, &work);
    else
        offer(x, &work, false);
    return SL_OK;
}

static void *run(void *arg)
{
    struct sl_prefetch *x = arg;
    int rc = SL_OK;
    sl_cores_long_slices();
    while (rc == SL_OK || rc == SL_ETIMEDOUT) {
        int buffer = wait_for_turn(x);
        if (buffer == SL_PREFETCH_NO_BUFFER)
            break;
        rc = sl_fetch_check(&x->fetch);
        if (rc == SL_OK)
            rc = fetch(x, buffer);
    }
    pthread_mutex_lock(&x->lock);
    x->ended = true;
    if (rc < 0 && rc != SL_ETIMEDOUT) {
        x->failed = rc;
        snprintf(x->message, sizeof x->message, "%s", sl_error_message());
    }
    tell_compute(x);
    pthread_mutex_unlock(&x->lock);
    return NULL;
}

// --- the compute thread ---

int sl_prefetch_start(struct sl_prefetch *x, const struct sl_prefetch_spec *spec)
{
    memset(x, 0, sizeof *x);
    x->spec = *spec;
    x->gathers = SL_PREFETCH_NO_BUFFER;
    x->pulse = *spec->pulse;
    x->pulse.thread = SL_THREAD_EXTRACT;
    x->needed = is_needed(x);
    sl_standby_init(&x->standby, spec->arena, spec->device);
    sl_cache_init(&x->cache, spec->arena, x->standby.number, spec->dataset, &spec->compute,
                  &x->pulse);
    sl_near_blocks_init(&x->near, spec->arena, spec->device, spec->compute.device, spec->on_gpu);
    x->cache.source.reader = spec->gather->source.reader;
    x->cache.source.shared = spec->gather->source.shared;
    const struct sl_fetch_spec fetches = {spec->arena,   spec->worker,  spec->device,
                                          spec->dataset, spec->fetches, &x->pulse};
    SL_TRY(sl_fetch_start(&x->fetch, &fetches));
    pthread_mutex_init(&x->lock, NULL);
    int err = sl_thread_start(&x->thread, run, x);
    if (err) {
        pthread_mutex_destroy(&x->lock);
        sl_fetch_stop(&x->fetch);
        return sl_fail_errno(SL_ESYS, err, "trainer: starting the thread that extracts features");
    }
    x->running = true;
    return SL_OK;
}

int sl_prefetch_next(struct sl_prefetch *x, uint32_t timeout_ms, struct sl_work *out)
{
    uint64_t deadline = sl_now_ns() + (uint64_t)timeout_ms * 1000000;
    int rc = SL_ETIMEDOUT;
    pthread_mutex_lock(&x->lock);
    x->wanted = true;
    tell_thread(x);
    while (!x->offered && !x->ended && !sl_heartbeat_stopping(x->spec.pulse)) {
        if (x->needed && sl_event_read(&x->spec.arena->h->progress) != x->looked)
            break;
        const bool asleep = x->asleep && !x->needed;
        uint64_t now = sl_now_ns();
        if (!asleep && now >= deadline)
            break;
        uint64_t left_ms = asleep
                               ? SL_STANDBY_WAIT_MS
                               : SL_MIN((deadline - now) / 1000000 + 1, (uint64_t)SL_ARENA_WAIT_MS);
        struct sl_event *bell = x->needed ? &x->spec.arena->h->progress : &x->changed;
        uint32_t seen = x->needed ? x->looked : sl_event_read(bell);
        sleep_unlocked(x, bell, seen, (uint32_t)left_ms);
        if (asleep && sl_event_read(bell) == seen)
            break;
    }
    x->wanted = false;
    if (x->failed) {
        rc = sl_fail(x->failed, "%s", x->message);
    } else if (x->ended || sl_heartbeat_stopping(x->spec.pulse)) {
        rc = SL_EABORTED;
    } else if (x->offered) {
        *out = x->work;
        x->offered = false;
        x->aside = !out->ended && out->lease.phase->spec.lane == SL_LANE_SIDE;
        tell_thread(x);
        rc = SL_OK;
    }
    pthread_mutex_unlock(&x->lock);
    return rc;
}

int sl_prefetch_wait(struct sl_prefetch *x, uint32_t timeout_ms, struct sl_work *work)
{
    const uint64_t deadline = sl_now_ns() + (uint64_t)timeout_ms * 1000000;
    int rc = SL_OK;
    pthread_mutex_lock(&x->lock);
    while (x->gathers == work->buffer && !x->ended && rc == SL_OK) {
        const uint32_t seen = sl_event_read(&x->changed);
        const uint64_t now = sl_now_ns();
        if (now >= deadline)
            rc = SL_ETIMEDOUT;
        else
            sleep_unlocked(x, &x->changed, seen, (uint32_t)((deadline - now) / 1000000 + 1));
    }
    if (rc == SL_OK && x->gathers == work->buffer) // the thread has ended over it
        rc = x->failed ? sl_fail(x->failed, "%s", x->message) : SL_EABORTED;
    else if (rc == SL_OK)
        work->gathered = x->gathered[work->buffer];
    pthread_mutex_unlock(&x->lock);
    return rc;
}

void sl_prefetch_swap_rows(struct sl_prefetch *x, const struct sl_work *work,
                           struct sl_buffer *with)
{
    struct sl_batch_buffer *of = &x->buffer[work->buffer];
    const struct sl_buffer rows = of->features;
    of->features = *with;
    *with = rows;
}

static void free_buffer_locked(struct sl_prefetch *x, const struct sl_work *work)
{
    if (work->buffer != SL_PREFETCH_NO_BUFFER)
        x->busy[work->buffer] = false;
    tell_thread(x);
}

void sl_prefetch_release(struct sl_prefetch *x, const struct sl_work *work)
{
    pthread_mutex_lock(&x->lock);
    free_buffer_locked(x, work);
    pthread_mutex_unlock(&x->lock);
}

static void return_offer_locked(struct sl_prefetch *x)
{
    if (!x->work.ended)
        sl_ledger_return(x->spec.arena, &x->work.lease);
    x->offered = false;
    free_buffer_locked(x, &x->work);
}

// True when a batch before `lease` that the parameters' version waits for is ready, nobody has it
// and this worker may. The cursor would not do: after a death it starts again from zero.
static bool earlier_unclaimed(const struct sl_arena *a, uint32_t worker,
                              const struct sl_lease *lease)
{
    uint64_t version = sl_param_store_version(a);
    uint64_t first = (version - lease->phase->spec.first_version) * a->h->spec.batches_per_update;
    const enum sl_cell_state free = sl_phase_trainable(a, lease->phase);
    for (uint64_t i = first; i < lease->cell; i++)
        if (sl_cell_state(sl_ledger_word(a, lease->seq, (uint32_t)i)) == free &&
            sl_ledger_is_turn(a, worker, lease->phase, (uint32_t)i))
            return true;
    return false;
}

bool sl_prefetch_must_yield(struct sl_prefetch *x, const struct sl_work *work)
{
    const struct sl_lease *mine = &work->lease;
    bool yield = earlier_unclaimed(x->spec.arena, x->spec.worker, mine) ||
                 sl_ledger_is_in_the_way(x->spec.arena, mine);
    pthread_mutex_lock(&x->lock);
    if (x->offered && x->work.lease.seq == mine->seq) {
        if (x->work.lease.cell < mine->cell)
            yield = true;
        else if (yield)
            return_offer_locked(x);
    }
    pthread_mutex_unlock(&x->lock);
    return yield;
}

void sl_prefetch_look_again(struct sl_prefetch *x)
{
    sl_event_signal(&x->changed);
}

void sl_prefetch_stop(struct sl_prefetch *x)
{
    if (x->running) {
        pthread_mutex_lock(&x->lock);
        x->quit = true;
        tell_thread(x);
        pthread_mutex_unlock(&x->lock);
        sl_event_signal(&x->spec.arena->h->work); // it may be asleep
        pthread_join(x->thread, NULL);
        if (x->offered)
            return_offer_locked(x);
        pthread_mutex_destroy(&x->lock);
        x->running = false;
    }
    sl_fetch_stop(&x->fetch);
    sl_peer_import_close(&x->near.borrowed);
    for (int i = 0; i < SL_PREFETCH_BUFFERS; i++)
        sl_batch_buffer_fini(&x->buffer[i]);
    sl_cache_fini(&x->cache);
}
