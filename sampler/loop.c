#include "sampler/loop.h"

#include <string.h>
#include <time.h>
#include <xxhash.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "common/arena/payload_alloc.h"
#include "common/arena/visit_counts.h"
#include "common/arena/seat.h"
#include "common/arena/type_counts.h"

// A batch on its way through this process.
struct task {
    struct sl_lease lease;
    struct sl_draw_plan plan;
    struct sl_draw_job job;
    bool keep;               // it is published, so it is drawn into payload memory
    bool is_begun;           // and not finished
    struct sl_extent extent; // that memory
    uint64_t begun_ns;       // it had its memory
    uint64_t cpu_ns;         // that this thread took for it so far
    // Of batches that are not kept, from task to task.
    struct sl_block *scratch;
    uint64_t scratch_bytes;
};

struct sl_inflight {
    struct task task[SL_DEVICE_QUEUES];
    struct task *begun[SL_DEVICE_QUEUES]; // in the order in which they were claimed
    uint32_t n_begun;
    uint32_t n_held;       // leases: those, and one that is about to be begun
    uint64_t handed_on_ns; // when the last one left
};

static struct sl_heartbeat pulse_of(const struct sl_sampler *s)
{
    return (struct sl_heartbeat){.arena = s->arena, .stop = s->stop, .slot = s->stats};
}

static bool stopping(const struct sl_sampler *s)
{
    const struct sl_heartbeat pulse = pulse_of(s);
    return sl_heartbeat_stopping(&pulse);
}

static void publish_figures(struct sl_sampler *s, uint64_t current_tag)
{
    s->figures.current_tag = current_tag;
    sl_stats_poll_device(&s->figures, s->marker.device, &s->looked_at_ns);
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

// The vertices of the task's cell, or of its pairs.
static int find_seeds(const struct sl_sampler *s, struct task *t)
{
    const struct sl_phase_spec *spec = &t->lease.phase->spec;
    const struct sl_dataset *ds = &s->drawer->topology->dataset;
    uint64_t first = sl_phase_range(t->lease.phase, t->lease.cell, &t->job.n_seeds), size = 0;
    t->job.seeds = NULL;
    switch (spec->set) {
    case SL_SET_TRAIN:
        t->job.seeds = sl_arena_order(s->arena, spec->order_bank);
        size = s->arena->h->spec.n_train;
        break;
    case SL_SET_VAL:
    case SL_SET_TEST: {
        const struct sl_vertex_list *list =
            &ds->split[spec->set == SL_SET_VAL ? SL_SPLIT_VAL : SL_SPLIT_TEST];
        t->job.seeds = list->ids;
        size = list->n;
        break;
    }
    default: break;
    }
    if (first + t->job.n_seeds > size)
        return sl_fail(SL_EPROTO,
                       "sampling: vertices %llu to %llu of set %u, which has %llu: broker and "
                       "sampler are not of the same build",
                       (unsigned long long)first, (unsigned long long)(first + t->job.n_seeds),
                       spec->set, (unsigned long long)size);
    t->job.seeds += first;
    t->job.first_seed = (uint32_t)first;
    if (!t->plan.pairs)
        return SL_OK;
    const uint64_t t0 = sl_now_ns();
    SL_TRY(sl_pair_maker_find_seeds(s->pairs, &t->job));
    t->lease.entry->sample_ns += sl_now_ns() - t0;
    t->lease.entry->n_hard_missing = s->pairs->hard.n_missing;
    t->lease.entry->n_hard = sl_pair_maker_hard(s->pairs);
    return SL_OK;
}

// --- memory --------------------------------------------------------------------------------------

static int finish_all(struct sl_sampler *s);

static bool has_begun(const struct sl_sampler *s, const struct task *t)
{
    for (uint32_t i = 0; i < s->inflight->n_begun; i++)
        if (s->inflight->begun[i] == t)
            return true;
    return false;
}

/*
 * SL_EABORTED when the job stops first. SL_EAGAIN when this batch should be given up for an older
 * one that came back (its sampler was stopped, or died): memory may be full of batches that are
 * trained after it, so that waiting would be waiting for ever. For the same reason nobody waits
 * with two batches in hand: a new one waits when those before it are handed on, and one that finds
 * the memory that it was drawn into too small is given up when another one is there already.
 */
static int wait_for_payload(struct sl_sampler *s, struct task *t, uint64_t bytes)
{
    const struct sl_lease *lease = &t->lease;
    int rc = sl_payload_alloc(s->arena, lease, bytes, 0, &t->extent);
    if (rc != SL_ETIMEDOUT)
        return rc;
    if (!has_begun(s, t))
        SL_TRY(finish_all(s));
    if (s->inflight->n_held > 1)
        return SL_EAGAIN;
    const uint64_t t0 = sl_now_ns(), paused_before = atomic_load(&s->arena->h->paused_ns);
    set_activity(s, SL_ACTIVITY_BLOCKED);
    while (rc == SL_ETIMEDOUT) {
        if (stopping(s))
            rc = SL_EABORTED;
        else if (sl_ledger_older_is_pending(s->arena, lease))
            rc = SL_EAGAIN;
        else
            rc = sl_payload_alloc(s->arena, lease, bytes, SL_ARENA_WAIT_MS, &t->extent);
    }
    set_activity(s, SL_ACTIVITY_BUSY);
    const uint64_t waited = sl_now_ns() - t0;
    const uint64_t paused = atomic_load(&s->arena->h->paused_ns) - paused_before; // nobody's fault
    lease->entry->sample_wait_ns += waited - SL_MIN(paused, waited);
    return rc;
}

static void free_scratch(struct sl_sampler *s, struct task *t)
{
    if (t->scratch)
        sl_drawer_device(s->drawer)->host_free(t->scratch, t->scratch_bytes);
    t->scratch = NULL;
    t->scratch_bytes = 0;
}

static int grow_scratch(struct sl_sampler *s, struct task *t, uint64_t bytes)
{
    if (bytes <= t->scratch_bytes)
        return SL_OK;
    free_scratch(s, t);
    t->scratch = sl_drawer_device(s->drawer)->host_alloc(bytes);
    if (!t->scratch)
        return sl_fail(SL_ENOMEM,
                       "pre-sampling: no memory for a batch of %llu bytes: set "
                       "sampler.batch_size or sampler.fanout lower",
                       (unsigned long long)bytes);
    t->scratch_bytes = bytes;
    return SL_OK;
}

// Memory to draw the task into. Errors as wait_for_payload().
static int take_memory(struct sl_sampler *s, struct task *t, uint64_t bytes)
{
    if (t->keep) {
        SL_TRY(wait_for_payload(s, t, bytes));
        t->job.block = (struct sl_block *)(s->arena->base + t->extent.offset);
        t->job.capacity = t->extent.bytes;
        if (s->mirror)
            t->job.also = sl_mirror_at(s->mirror, t->extent.offset, &t->job.also_bytes);
    } else {
        SL_TRY(grow_scratch(s, t, bytes));
        t->job.block = t->scratch;
        t->job.capacity = t->scratch_bytes;
    }
    SL_FAILPOINT(SAMPLER_ALLOCATED);
    return SL_OK;
}

static void give_memory_back(struct sl_sampler *s, struct task *t)
{
    if (t->extent.bytes)
        sl_payload_free(s->arena, t->lease.tag, t->extent.offset, t->extent.bytes);
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
    sl_visit_counts_count(s->arena, sl_block_nodes(t->job.block), t->job.block->n_input);
    e->visits_counted = 1;
    return SL_OK;
}

static bool is_marked(const struct task *t)
{
    return t->lease.phase->spec.rank_generation != 0 && t->keep;
}

// What the task will be marked with, if it will be.
static int find_ranks(struct sl_sampler *s, struct task *t)
{
    const struct sl_phase_spec *spec = &t->lease.phase->spec;
    if (!is_marked(t))
        return SL_OK;
    // Ranks of another order would send trainers to other rows of their caches.
    if (s->arena->h->spec.hot_rows < s->drawer->topology->view.n_nodes ||
        sl_visit_counts_generation(s->arena) != spec->rank_generation)
        return fail_hot(spec, "ranks");
    if (s->marker.generation != spec->rank_generation)
        SL_TRY(finish_all(s)); // they may be marked with the one before
    SL_TRY(sl_marker_refresh(&s->marker, s->arena, s->drawer->topology->view.n_nodes));
    t->job.ranks = &s->marker.index;
    t->job.generation = spec->rank_generation;
    return SL_OK;
}

static int begin_drawing(struct sl_sampler *s, struct task *t, uint64_t bytes)
{
    SL_TRY(take_memory(s, t, bytes));
    t->begun_ns = sl_now_ns();
    int rc = sl_drawer_begin(s->drawer, &t->job);
    t->is_begun = rc == SL_OK;
    return rc;
}

// What was drawn is counted and marked. SL_ERANGE with *wanted_bytes when memory is too small.
static int finish_drawing(struct sl_sampler *s, struct task *t, uint64_t *wanted_bytes)
{
    struct sl_batch_entry *e = t->lease.entry;
    // Before that it was the batch before that this thread waited for.
    uint64_t t0 = SL_MAX(t->begun_ns, s->inflight->handed_on_ns);
    t->is_begun = false;
    int rc = sl_drawer_finish(s->drawer, &t->job, wanted_bytes);
    e->copy_ns += t->job.copy_ns;
    e->sample_ns += sl_now_ns() - t0 - t->job.copy_ns;
    if (rc < 0)
        return rc;
    const struct sl_block *block = t->job.block;
    // Before it is marked: the digest is the sample's, whatever the cache is.
    if (s->config->digest && t->keep)
        e->digest = XXH3_64bits(block, block->bytes);
    SL_FAILPOINT(SAMPLER_DRAWN);
    *wanted_bytes = sl_drawer_marked_bytes(block);
    t0 = sl_now_ns();
    SL_TRY(count_visits(s, t));
    if (is_marked(t))
        rc = sl_drawer_mark(s->drawer, &t->job);
    e->mark_ns += sl_now_ns() - t0;
    if (rc == SL_OK)
        SL_FAILPOINT(SAMPLER_MARKED);
    return rc;
}

// The task's block in memory of the right size, however often it takes.
static int draw(struct sl_sampler *s, struct task *t)
{
    const uint64_t all = s->arena->h->spec.payload_bytes;
    uint64_t wanted;
    int rc;
    while ((rc = finish_drawing(s, t, &wanted)) == SL_ERANGE) {
        give_memory_back(s, t);
        // More than the whole payload memory is refused there, with the numbers.
        if (t->keep)
            wanted = t->job.capacity < all ? SL_MIN(wanted, all) : all + 1;
        rc = begin_drawing(s, t, wanted);
        if (rc == SL_EAGAIN) // whoever goes on with it, if it is this one, asks for enough
            s->guess_bytes = SL_MAX(s->guess_bytes, wanted);
        SL_TRY(rc);
    }
    SL_TRY(rc);
    const struct sl_block *block = t->job.block;
    // A job with a cache will want ranks, even if this batch has none yet.
    bool ranks_to_come =
        sl_cache_keeps(s->config->cache.policy) && !(block->flags & SL_BLOCK_HAS_RANKS);
    uint64_t bytes = ranks_to_come ? sl_drawer_marked_bytes(block) : block->bytes;
    s->guess_bytes = SL_MAX(s->guess_bytes, bytes + bytes / 8);
    if (t->keep)
        sl_payload_trim(s->arena, t->lease.tag, &t->extent, block->bytes);
    return SL_OK;
}

// For tests of the scheduling: the batch takes at least so long.
static void throttle(struct sl_sampler *s, struct sl_batch_entry *e)
{
    uint64_t least_ns = (uint64_t)(s->config->throttle.sample * 1e9), t0 = sl_now_ns();
    uint64_t took_ns = e->sample_ns + e->mark_ns + e->copy_ns;
    const struct sl_heartbeat pulse = pulse_of(s);
    sl_heartbeat_sleep(&pulse, t0 + least_ns - SL_MIN(took_ns, least_ns));
    e->sample_ns += sl_now_ns() - t0;
}

// What the batch took of a pool's cores. A sampler's first ones touch fresh memory and tell
// nothing.
static uint64_t cpu_of(const struct sl_sampler *s, const struct task *t)
{
    enum { COLD = 2 };
    uint64_t least_ns = (uint64_t)(s->config->throttle.sample * 1e9);
    if (s->config->allocation.cores != SL_CORES_POOL || s->figures.batches < COLD)
        return 0;
    return SL_MAX(t->cpu_ns, least_ns);
}

// The lease's batch is on its way.
static int begin(struct sl_sampler *s, struct task *t)
{
    const struct sl_phase_spec *spec = &t->lease.phase->spec;
    const enum sl_phase_kind kind = (enum sl_phase_kind)spec->kind;
    struct sl_batch_entry *e = t->lease.entry;
    t->keep = kind != SL_PHASE_PRESAMPLE;
    t->plan = sl_plan_of(s->config, kind);
    t->job = (struct sl_draw_job){.plan = &t->plan, .epoch = spec->epoch, .batch = t->lease.cell};
    e->sample_ns = e->mark_ns = e->copy_ns = e->sample_wait_ns = 0;
    e->digest = 0;
    SL_TRY(find_seeds(s, t));
    SL_TRY(find_ranks(s, t));
    uint64_t all = s->arena->h->spec.payload_bytes;
    return begin_drawing(s, t, t->keep ? SL_MIN(s->guess_bytes, all) : s->guess_bytes);
}

// The batch, ready to be handed on; the entry says what it is.
static int finish(struct sl_sampler *s, struct task *t)
{
    struct sl_batch_entry *e = t->lease.entry;
    e->sampling_at_ns = SL_MAX(e->sampling_at_ns, s->inflight->handed_on_ns);
    SL_TRY(draw(s, t));
    throttle(s, e);
    e->payload_offset = t->extent.offset;
    e->payload_bytes = t->extent.bytes;
    e->mirror_device = s->device;
    e->mirror_version = t->job.is_mirrored ? s->mirror->version : 0;
    e->n_seeds = t->job.n_seeds;
    e->n_input = t->job.block->n_input;
    e->n_edges = t->job.block->n_edges;
    e->sampler = s->worker;
    return SL_OK;
}

static void count_relations(const struct sl_sampler *s, const struct task *t)
{
    if (t->job.block->flags & SL_BLOCK_TYPED)
        sl_type_counts_add_edges(s->arena, sl_seat_sampler(s->arena, s->device), t->job.block);
}

// Whoever brings rows from the drive looks ahead to the batches that are drawn.
static void note_rows(const struct sl_sampler *s, const struct task *t)
{
    const struct sl_row_cache rows = sl_arena_rows(s->arena);
    if (t->keep && rows.shape.window)
        sl_row_cache_note(&rows, sl_block_nodes(t->job.block), t->job.block->n_input,
                          sl_phase_batch(s->arena, t->lease.phase, t->lease.cell));
}

static int follow_cores(struct sl_sampler *s)
{
    struct sl_cores cores;
    uint32_t seat = sl_seat_sampler(s->arena, s->device);
    bool others = sl_seat_take_cores(s->arena, seat, &s->cores_seen, &cores);
    return others ? sl_kernels_take_cores(&cores) : SL_OK;
}

static int hand_on(struct sl_sampler *s, struct task *t)
{
    // Handed on, the entry belongs to whoever claims the batch: read it before.
    struct sl_batch_entry *e = t->lease.entry;
    e->draw_cpu_ns = cpu_of(s, t);
    s->figures.batches++;
    s->figures.training += t->lease.phase->spec.kind != SL_PHASE_EVAL;
    s->figures.edges += e->n_edges;
    s->figures.bytes += e->payload_bytes;
    s->figures.stage_ns[SL_STAGE_SAMPLE] += e->sample_ns;
    s->figures.stage_ns[SL_STAGE_MARK] += e->mark_ns;
    s->figures.stage_ns[SL_STAGE_COPY] += e->copy_ns;
    s->figures.stage_ns[SL_STAGE_WAIT] += e->sample_wait_ns;
    count_relations(s, t);
    note_rows(s, t);
    s->inflight->handed_on_ns = e->ready_at_ns = sl_now_ns();
    int rc =
        t->keep ? sl_ledger_publish(s->arena, &t->lease) : sl_ledger_complete(s->arena, &t->lease);
    if (rc == SL_ESTALE) {
        give_memory_back(s, t);
        rc = SL_OK;
    }
    return rc;
}

// Its memory is nobody's.
static void drop(struct sl_sampler *s, struct task *t)
{
    if (t->is_begun)
        sl_drawer_drop(s->drawer, &t->job);
    t->is_begun = false;
    give_memory_back(s, t);
    s->inflight->n_held--;
}

// Somebody may go on with it.
static void give_up(struct sl_sampler *s, struct task *t)
{
    drop(s, t);
    s->figures.stage_ns[SL_STAGE_WAIT] += t->lease.entry->sample_wait_ns;
    sl_ledger_return(s->arena, &t->lease);
}

// Of a step that one may end by giving the batch up: for an older one that is well, for the end of
// the job it is said. Other errors end this process, and leave the lease to the broker.
static int after(struct sl_sampler *s, struct task *t, int rc)
{
    if (rc == SL_EABORTED || rc == SL_EAGAIN)
        give_up(s, t);
    else
        drop(s, t);
    return rc == SL_EAGAIN ? SL_OK : rc;
}

// The oldest of those that are begun leaves.
static int finish_first(struct sl_sampler *s)
{
    struct sl_inflight *inflight = s->inflight;
    struct task *t = inflight->begun[0];
    uint64_t cpu_ns = sl_thread_cpu_ns();
    int rc = finish(s, t);
    t->cpu_ns += sl_thread_cpu_ns() - cpu_ns;
    inflight->n_begun--;
    memmove(inflight->begun, inflight->begun + 1, inflight->n_begun * sizeof(struct task *));
    if (rc < 0)
        return after(s, t, rc);
    SL_TRY(hand_on(s, t));
    inflight->n_held--;
    publish_figures(s, inflight->n_begun ? inflight->begun[0]->lease.tag : 0);
    return SL_OK;
}

static int finish_all(struct sl_sampler *s)
{
    while (s->inflight->n_begun)
        SL_TRY(finish_first(s));
    return SL_OK;
}

static struct task *free_task(struct sl_sampler *s)
{
    struct task *t = s->inflight->task;
    while (has_begun(s, t))
        t++;
    return t;
}

// Where edges lie that other samplers hold. What is closed or laid out anew waits for the batches
// in hand.
static int follow_share(struct sl_sampler *s)
{
    struct sl_share *share = s->drawer->device.share;
    if (!share)
        return SL_OK;
    if (!sl_share_is_current(share)) {
        SL_TRY(finish_all(s));
        SL_TRY(sl_share_refresh(share));
    }
    sl_share_open(share);
    return SL_OK;
}

// One more batch is claimed and begun, and those are finished that it makes too many.
static int step(struct sl_sampler *s)
{
    struct sl_inflight *inflight = s->inflight;
    struct task *t = free_task(s);
    SL_TRY(follow_cores(s));
    SL_TRY(follow_share(s));
    const bool idle = inflight->n_begun == 0;
    uint64_t t0 = sl_now_ns();
    int rc = sl_ledger_claim_sample(s->arena, s->worker, how_far_ahead(s),
                                    idle ? SL_ARENA_WAIT_MS : 0, &t->lease);
    uint64_t claimed_ns = sl_now_ns();
    if (idle)
        s->figures.stage_ns[SL_STAGE_WAIT] += claimed_ns - t0;
    if (rc == SL_ETIMEDOUT) {
        publish_figures(s, idle ? 0 : inflight->begun[0]->lease.tag);
        return finish_all(s);
    }
    SL_TRY(rc);
    inflight->n_held++;
    publish_figures(s, idle ? t->lease.tag : inflight->begun[0]->lease.tag);
    SL_FAILPOINT(SAMPLER_CLAIMED);
    t->lease.entry->sampling_at_ns = claimed_ns;
    uint64_t cpu_ns = sl_thread_cpu_ns();
    rc = begin(s, t);
    t->cpu_ns = sl_thread_cpu_ns() - cpu_ns;
    if (rc < 0) {
        SL_TRY(after(s, t, rc));
        publish_figures(s, inflight->n_begun ? inflight->begun[0]->lease.tag : 0);
        return SL_OK;
    }
    inflight->begun[inflight->n_begun++] = t;
    while (inflight->n_begun == sl_drawer_depth(s->drawer))
        SL_TRY(finish_first(s));
    return SL_OK;
}

int sl_sampler_run(struct sl_sampler *s)
{
    struct sl_inflight inflight = {0};
    int rc = SL_OK;
    s->inflight = &inflight;
    set_activity(s, SL_ACTIVITY_BUSY);
    while (rc == SL_OK && !stopping(s))
        rc = step(s);
    if (rc == SL_OK)
        rc = finish_all(s);
    while (inflight.n_begun)
        give_up(s, inflight.begun[--inflight.n_begun]);
    set_activity(s, SL_ACTIVITY_NONE);
    for (uint32_t i = 0; i < SL_DEVICE_QUEUES; i++)
        free_scratch(s, &inflight.task[i]);
    sl_marker_fini(&s->marker);
    s->inflight = NULL;
    return rc == SL_EABORTED ? SL_OK : rc;
}
