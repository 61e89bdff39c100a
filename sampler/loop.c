#include "sampler/loop.h"

#include <time.h>
#include <xxhash.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "common/ipc/extent.h"
#include "common/ipc/hot.h"
#include "common/ipc/seat.h"

// A batch on its way through this process.
struct task {
    struct sl_lease lease;
    struct sl_draw_plan plan;
    const uint32_t *seeds; // (n_seeds) in the arena or the data set
    uint32_t n_seeds;
    bool keep;               // it is published, so it is drawn into payload memory
    struct sl_extent extent; // that memory
    struct sl_block *block;
    uint64_t capacity; // bytes there
};

static struct sl_pulse pulse_of(const struct sl_sampler *s)
{
    return (struct sl_pulse){.arena = s->arena, .stop = s->stop, .slot = s->stats};
}

static bool stopping(const struct sl_sampler *s)
{
    const struct sl_pulse pulse = pulse_of(s);
    return sl_pulse_stopping(&pulse);
}

static void publish_figures(struct sl_sampler *s, uint64_t current_tag)
{
    s->figures.current_tag = current_tag;
    sl_stats_look(&s->figures, s->marker.device, &s->looked_at_ns);
    if (s->stats)
        sl_stats_publish(s->stats, &s->figures);
}

static void set_activity(const struct sl_sampler *s, enum sl_activity activity)
{
    sl_seat_set_activity(s->arena, sl_seat_sampler(s->arena, s->device), activity);
}

// The device has one master at a time: not ahead of the trainer that has it now.
static enum sl_ahead how_far_ahead(const struct sl_sampler *s)
{
    const struct sl_seat *t = sl_seat(s->arena, sl_seat_trainer(s->arena, s->device));
    bool switched_on = atomic_load_explicit(&t->duty, memory_order_relaxed) == SL_DUTY_STANDBY &&
                       atomic_load_explicit(&t->activity, memory_order_relaxed) == SL_ACTIVITY_BUSY;
    return switched_on ? SL_AHEAD_CURRENT_ONLY : SL_AHEAD_ALL;
}

// The vertices of the task's cell.
static int find_seeds(const struct sl_sampler *s, struct task *t)
{
    const struct sl_phase_spec *spec = &t->lease.phase->spec;
    const struct sl_dataset *ds = &s->drawer->topology->dataset;
    uint64_t first = sl_phase_range(t->lease.phase, t->lease.cell, &t->n_seeds), size = 0;
    t->seeds = NULL;
    switch (spec->set) {
    case SL_SET_TRAIN:
        t->seeds = sl_arena_order(s->arena, spec->order_bank);
        size = s->arena->h->spec.n_train;
        break;
    case SL_SET_VAL:
    case SL_SET_TEST: {
        const struct sl_vertex_list *list =
            &ds->split[spec->set == SL_SET_VAL ? SL_SPLIT_VAL : SL_SPLIT_TEST];
        t->seeds = list->ids;
        size = list->n;
        break;
    }
    default: break;
    }
    if (first + t->n_seeds > size)
        return sl_fail(SL_EPROTO,
                       "sampling: vertices %llu to %llu of set %u, which has %llu: broker and "
                       "sampler are not of the same build",
                       (unsigned long long)first, (unsigned long long)(first + t->n_seeds),
                       spec->set, (unsigned long long)size);
    t->seeds += first;
    return SL_OK;
}

// --- memory --------------------------------------------------------------------------------------

/*
 * SL_EABORTED when the job stops first. SL_EAGAIN when this batch should be given up for an older
 * one that came back (its sampler was stopped, or died): memory may be full of batches that are
 * trained after it, so that waiting would be waiting for ever.
 */
static int wait_for_payload(struct sl_sampler *s, const struct sl_lease *lease, uint64_t bytes,
                            struct sl_extent *out)
{
    int rc = sl_extent_alloc(s->arena, lease, bytes, 0, out);
    if (rc != SL_ETIMEDOUT)
        return rc;
    set_activity(s, SL_ACTIVITY_BLOCKED);
    while (rc == SL_ETIMEDOUT) {
        if (stopping(s))
            rc = SL_EABORTED;
        else if (sl_ledger_older_is_pending(s->arena, lease))
            rc = SL_EAGAIN;
        else
            rc = sl_extent_alloc(s->arena, lease, bytes, SL_ARENA_WAIT_MS, out);
    }
    set_activity(s, SL_ACTIVITY_BUSY);
    return rc;
}

static void free_scratch(struct sl_sampler *s)
{
    if (s->scratch)
        sl_drawer_device(s->drawer)->host_free(s->scratch, s->scratch_bytes);
    s->scratch = NULL;
    s->scratch_bytes = 0;
}

static int grow_scratch(struct sl_sampler *s, uint64_t bytes)
{
    if (bytes <= s->scratch_bytes)
        return SL_OK;
    free_scratch(s);
    s->scratch = sl_drawer_device(s->drawer)->host_alloc(bytes);
    if (!s->scratch)
        return sl_fail(SL_ENOMEM,
                       "pre-sampling: no memory for a batch of %llu bytes: set "
                       "sampler.batch_size or sampler.fanout lower",
                       (unsigned long long)bytes);
    s->scratch_bytes = bytes;
    return SL_OK;
}

// Memory to draw the task into. Errors as wait_for_payload().
static int take_memory(struct sl_sampler *s, struct task *t, uint64_t bytes)
{
    if (t->keep) {
        SL_TRY(wait_for_payload(s, &t->lease, bytes, &t->extent));
        t->block = (struct sl_block *)(s->arena->base + t->extent.offset);
        t->capacity = t->extent.bytes;
    } else {
        SL_TRY(grow_scratch(s, bytes));
        t->block = s->scratch;
        t->capacity = s->scratch_bytes;
    }
    SL_FAILPOINT(SAMPLER_ALLOCATED);
    return SL_OK;
}

static void give_memory_back(struct sl_sampler *s, struct task *t)
{
    if (t->extent.bytes)
        sl_extent_free(s->arena, t->lease.tag, t->extent.offset, t->extent.bytes);
    t->extent.bytes = 0;
}

// --- drawing -------------------------------------------------------------------------------------

static int fail_hot(const struct sl_phase_spec *spec, const char *what)
{
    return sl_fail(SL_EPROTO,
                   "sampling: epoch %u asks for %s, which the arena does not have: broker and "
                   "sampler are not of the same build",
                   spec->epoch + 1, what);
}

static int count_visits(struct sl_sampler *s, struct task *t)
{
    const struct sl_phase_spec *spec = &t->lease.phase->spec;
    struct sl_batch_entry *e = t->lease.entry;
    if (!(spec->count_visits || spec->kind == SL_PHASE_PRESAMPLE) || e->visits_counted)
        return SL_OK;
    if (s->arena->h->spec.visit_rows < s->drawer->topology->view.n_nodes)
        return fail_hot(spec, "visit counts");
    sl_hot_count(s->arena, sl_block_nodes(t->block), t->block->n_input);
    e->visits_counted = 1;
    return SL_OK;
}

static bool is_marked(const struct task *t)
{
    return t->lease.phase->spec.rank_generation != 0 && t->keep;
}

// What the task will be marked with, if it will be.
static int find_ranks(struct sl_sampler *s, const struct task *t)
{
    const struct sl_phase_spec *spec = &t->lease.phase->spec;
    if (!is_marked(t))
        return SL_OK;
    // Ranks of another order would send trainers to other rows of their caches.
    if (s->arena->h->spec.hot_rows < s->drawer->topology->view.n_nodes ||
        sl_hot_generation(s->arena) != spec->rank_generation)
        return fail_hot(spec, "ranks");
    return sl_marker_refresh(&s->marker, s->arena, s->drawer->topology->view.n_nodes);
}

static int mark(struct sl_sampler *s, struct task *t)
{
    if (!is_marked(t))
        return SL_OK;
    return sl_drawer_mark(s->drawer, &s->marker.index, t->lease.phase->spec.rank_generation,
                          t->block, t->capacity);
}

// Draws, counts and marks. SL_ERANGE with *wanted_bytes when memory is too small for it.
static int draw_once(struct sl_sampler *s, struct task *t, uint64_t *wanted_bytes)
{
    struct sl_batch_entry *e = t->lease.entry;
    uint64_t t0 = sl_now_ns();
    int rc = sl_drawer_draw(s->drawer, &t->plan, t->lease.phase->spec.epoch, t->lease.cell,
                            t->seeds, t->n_seeds, t->block, t->capacity, wanted_bytes);
    e->copy_ns += s->drawer->copy_ns;
    e->sample_ns += sl_now_ns() - t0 - s->drawer->copy_ns;
    if (rc < 0)
        return rc;
    // Before it is marked: the digest is the sample's, whatever the cache is.
    if (s->config->digest && t->keep)
        e->digest = XXH3_64bits(t->block, t->block->bytes);
    SL_FAILPOINT(SAMPLER_DRAWN);
    *wanted_bytes = sl_drawer_marked_bytes(t->block);
    t0 = sl_now_ns();
    SL_TRY(count_visits(s, t));
    rc = mark(s, t);
    e->mark_ns += sl_now_ns() - t0;
    if (rc == SL_OK)
        SL_FAILPOINT(SAMPLER_MARKED);
    return rc;
}

// Draws the task into memory of the right size.
static int draw(struct sl_sampler *s, struct task *t)
{
    struct sl_batch_entry *e = t->lease.entry;
    const uint64_t all = s->arena->h->spec.payload_bytes;
    uint64_t bytes = t->keep ? SL_MIN(s->guess_bytes, all) : s->guess_bytes;
    for (;;) {
        uint64_t t0 = sl_now_ns(), paused = atomic_load(&s->arena->h->paused_ns), wanted;
        int rc = take_memory(s, t, bytes);
        uint64_t waited = sl_now_ns() - t0;
        paused = atomic_load(&s->arena->h->paused_ns) - paused; // that is nobody's fault
        e->sample_wait_ns += waited - SL_MIN(paused, waited);
        SL_TRY(rc);
        rc = draw_once(s, t, &wanted);
        if (rc == SL_OK)
            break;
        give_memory_back(s, t);
        if (rc != SL_ERANGE)
            return rc;
        // More than the whole payload memory is refused there, with the numbers.
        if (t->keep)
            wanted = t->capacity < all ? SL_MIN(wanted, all) : all + 1;
        bytes = wanted;
    }
    // A job with a cache will want ranks, even if this batch has none yet.
    bool ranks_to_come =
        sl_cache_keeps(s->config->cache.policy) && !(t->block->flags & SL_BLOCK_HAS_RANKS);
    bytes = ranks_to_come ? sl_drawer_marked_bytes(t->block) : t->block->bytes;
    s->guess_bytes = SL_MAX(s->guess_bytes, bytes + bytes / 8);
    if (t->keep)
        sl_extent_trim(s->arena, t->lease.tag, &t->extent, t->block->bytes);
    return SL_OK;
}

// For tests of the scheduling: the batch takes at least so long.
static void throttle(struct sl_sampler *s, struct sl_batch_entry *e)
{
    uint64_t least_ns = (uint64_t)(s->config->throttle.sample * 1e9), t0 = sl_now_ns();
    uint64_t took_ns = e->sample_ns + e->mark_ns + e->copy_ns;
    const struct sl_pulse pulse = pulse_of(s);
    sl_pulse_sleep(&pulse, t0 + least_ns - SL_MIN(took_ns, least_ns));
    e->sample_ns += sl_now_ns() - t0;
}

// What the batch took of a pool's cores since then. A sampler's first ones touch fresh memory and
// tell nothing.
static uint64_t cpu_since(const struct sl_sampler *s, uint64_t cpu_ns)
{
    enum { COLD = 2 };
    uint64_t least_ns = (uint64_t)(s->config->throttle.sample * 1e9);
    if (s->config->allocation.cores != SL_CORES_POOL || s->figures.batches < COLD)
        return 0;
    return SL_MAX(sl_thread_cpu_ns() - cpu_ns, least_ns);
}

// The lease's batch, ready to be handed on; the entry says what it is.
static int perform(struct sl_sampler *s, struct task *t)
{
    const enum sl_phase_kind kind = (enum sl_phase_kind)t->lease.phase->spec.kind;
    struct sl_batch_entry *e = t->lease.entry;
    t->keep = kind != SL_PHASE_PRESAMPLE;
    t->plan = sl_plan_of(s->config, kind);
    e->sample_ns = e->mark_ns = e->copy_ns = e->sample_wait_ns = 0;
    e->digest = 0;
    SL_TRY(find_seeds(s, t));
    SL_TRY(find_ranks(s, t));
    SL_TRY(draw(s, t));
    throttle(s, e);
    e->payload_offset = t->extent.offset;
    e->payload_bytes = t->extent.bytes;
    e->n_seeds = t->n_seeds;
    e->n_input = t->block->n_input;
    e->n_edges = t->block->n_edges;
    e->sampler = s->worker;
    return SL_OK;
}

// Whoever brings rows from the drive looks ahead to the batches that are drawn.
static void note_rows(const struct sl_sampler *s, const struct task *t)
{
    const struct sl_row_cache rows = sl_arena_rows(s->arena);
    if (t->keep && rows.shape.window)
        sl_row_cache_note(&rows, sl_block_nodes(t->block), t->block->n_input,
                          sl_phase_batch(t->lease.phase, t->lease.cell));
}

static int follow_cores(struct sl_sampler *s)
{
    struct sl_cores cores;
    uint32_t seat = sl_seat_sampler(s->arena, s->device);
    bool others = sl_seat_take_cores(s->arena, seat, &s->cores_seen, &cores);
    return others ? sl_kernels_take_cores(&cores) : SL_OK;
}

static int step(struct sl_sampler *s)
{
    struct task t = {0};
    SL_TRY(follow_cores(s));
    uint64_t t0 = sl_now_ns();
    int rc =
        sl_ledger_claim_sample(s->arena, s->worker, how_far_ahead(s), SL_ARENA_WAIT_MS, &t.lease);
    uint64_t claimed_ns = sl_now_ns();
    s->figures.stage_ns[SL_STAGE_WAIT] += claimed_ns - t0;
    if (rc == SL_ETIMEDOUT) {
        publish_figures(s, 0);
        return SL_OK;
    }
    SL_TRY(rc);
    publish_figures(s, t.lease.tag);
    SL_FAILPOINT(SAMPLER_CLAIMED);
    t.lease.entry->sampling_at_ns = claimed_ns;
    uint64_t cpu_ns = sl_thread_cpu_ns();
    rc = perform(s, &t);
    if (rc == SL_EABORTED || rc == SL_EAGAIN) { // it waited for memory: somebody may go on with it
        s->figures.stage_ns[SL_STAGE_WAIT] += t.lease.entry->sample_wait_ns;
        sl_ledger_return(s->arena, &t.lease);
        publish_figures(s, 0);
        return rc == SL_EAGAIN ? SL_OK : rc;
    }
    SL_TRY(rc);
    // Handed on, the entry belongs to whoever claims the batch: read it before.
    struct sl_batch_entry *e = t.lease.entry;
    s->figures.batches++;
    s->figures.edges += e->n_edges;
    s->figures.bytes += e->payload_bytes;
    s->figures.stage_ns[SL_STAGE_SAMPLE] += e->sample_ns;
    s->figures.stage_ns[SL_STAGE_MARK] += e->mark_ns;
    s->figures.stage_ns[SL_STAGE_COPY] += e->copy_ns;
    s->figures.stage_ns[SL_STAGE_WAIT] += e->sample_wait_ns;
    note_rows(s, &t);
    e->draw_cpu_ns = cpu_since(s, cpu_ns);
    e->ready_at_ns = sl_now_ns();
    rc = t.keep ? sl_ledger_publish(s->arena, &t.lease) : sl_ledger_complete(s->arena, &t.lease);
    if (rc == SL_ESTALE)
        give_memory_back(s, &t);
    else
        SL_TRY(rc);
    publish_figures(s, 0);
    return SL_OK;
}

int sl_sampler_run(struct sl_sampler *s)
{
    int rc = SL_OK;
    set_activity(s, SL_ACTIVITY_BUSY);
    while (rc == SL_OK && !stopping(s))
        rc = step(s);
    set_activity(s, SL_ACTIVITY_NONE);
    free_scratch(s);
    sl_marker_fini(&s->marker);
    return rc == SL_EABORTED ? SL_OK : rc;
}
