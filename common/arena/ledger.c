#include "common/arena/ledger.h"

#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/arena/param_store.h"
#include "common/arena/payload_alloc.h"
#include "common/arena/group.h"
#include "common/arena/node_parts.h"
#include "common/arena/ledger_internal.h"

// --- phases ---

// What a checkpoint keeps of an entry, apart from its number and its update's versions.
// clang-format off
#define RECORDED(X) \
    X(n_seeds) X(n_input) X(standby) X(digest) X(n_edges) X(payload_bytes) X(hits) X(hit_bytes) \
    X(miss_bytes) X(loss) X(weight) X(correct) X(counted)
#define COPY(field) to->field = from->field;
// clang-format on

void sl_ledger_record(const struct sl_arena *a, uint64_t seq, uint32_t cell,
                      struct sl_cell_record *to)
{
    const struct sl_batch_entry *from = sl_ledger_entry(a, seq, cell);
    const struct sl_update_entry *u = sl_ledger_update(a, seq, cell);
    *to = (struct sl_cell_record){
        .cell = cell, .base_version = u->base_version, .applied_version = u->applied_version};
    RECORDED(COPY)
}

// What a cell of a phase is when it opens.
static enum sl_cell_state first_state(const struct sl_arena *a, uint32_t kind, uint32_t cell)
{
    if (!sl_nodes_is_own(a, kind, cell)) // of what another node lends nothing comes here
        return kind == SL_PHASE_LEND ? SL_CELL_DONE : SL_CELL_ELSEWHERE;
    return kind == SL_PHASE_INFER ? SL_CELL_READY : SL_CELL_PENDING;
}

// The phase is not open yet: nobody looks, and the entries are zero.
static void restore_cell(struct sl_arena *a, uint64_t seq, const struct sl_cell_record *from)
{
    struct sl_batch_entry *to = sl_ledger_entry(a, seq, from->cell);
    struct sl_update_entry *u = sl_ledger_update(a, seq, from->cell);
    to->restored = 1;
    RECORDED(COPY)
    u->base_version = from->base_version;
    u->applied_version = from->applied_version;
    atomic_store_explicit(sl_ledger_cell(a, seq, from->cell), sl_cell_word(seq, 0, 0, SL_CELL_DONE),
                          memory_order_release);
}

static int check_records(const struct sl_phase_spec *spec, const struct sl_cell_record *records,
                         uint32_t n, uint64_t n_cells)
{
    bool bad = n > 0 && spec->kind != SL_PHASE_TRAIN;
    for (uint32_t i = 0; i < n && !bad; i++)
        bad = records[i].cell >= n_cells || (i > 0 && records[i].cell <= records[i - 1].cell);
    return bad ? sl_fail(SL_EINVAL,
                         "ledger: the checkpoint's batches do not fit a phase of %llu cells",
                         (unsigned long long)n_cells)
               : SL_OK;
}

int sl_ledger_open_phase(struct sl_arena *a, const struct sl_phase_spec *spec, uint64_t *seq)
{
    return sl_ledger_open_restored(a, spec, NULL, 0, seq);
}

int sl_ledger_open_restored(struct sl_arena *a, const struct sl_phase_spec *spec,
                            const struct sl_cell_record *records, uint32_t n_records, uint64_t *seq)
{
    uint64_t next = sl_ledger_opened(a) + 1;
    uint64_t n_cells = sl_div_up(spec->n_items, SL_MAX(spec->batch_size, 1u));
    if (n_cells == 0 || n_cells > a->h->spec.n_cells || n_cells > SL_CELL_MASK)
        return sl_fail(SL_ERANGE, "ledger: a phase of %llu cells, wanted 1 to %u",
                       (unsigned long long)n_cells, a->h->spec.n_cells);
    if (next > SL_SEQ_MASK)
        return sl_fail(SL_ERANGE, "ledger: more than %llu phases in one job",
                       (unsigned long long)SL_SEQ_MASK);
    if (spec->lane != SL_LANE_MAIN && spec->kind != SL_PHASE_INFER)
        return sl_fail(SL_EINVAL, "ledger: only inference can be opened in the side lane");
    SL_TRY(check_records(spec, records, n_records, n_cells));
    // Nobody looks at the slot's last phase any more once both lanes are past it.
    sl_ledger_advance(a);
    if (next > SL_ARENA_PHASES && sl_ledger_oldest(a) <= next - SL_ARENA_PHASES)
        return SL_EAGAIN;

    struct sl_phase *phase = sl_ledger_phase(a, next);
    bool sampled = spec->kind != SL_PHASE_INFER;
    bool trained = sampled && spec->kind != SL_PHASE_PRESAMPLE;
    // Whoever still looks at the slot's last phase finds cells of another turn from here on.
    atomic_store_explicit(&phase->seq, 0, memory_order_release);
    phase->spec = *spec;
    memset(sl_ledger_entry(a, next, 0), 0, n_cells * sizeof(struct sl_batch_entry));
    memset(sl_ledger_update(a, next, 0), 0, n_cells * sizeof(struct sl_update_entry));
    for (uint32_t i = 0; i < n_cells; i++) {
        const enum sl_cell_state state = first_state(a, spec->kind, i);
        sl_ledger_entry(a, next, i)->left = state == SL_CELL_DONE;
        atomic_store_explicit(sl_ledger_cell(a, next, i), sl_cell_word(next, 0, 0, state),
                              memory_order_release);
    }
    for (uint32_t i = 0; i < n_records; i++)
        restore_cell(a, next, &records[i]);
    uint64_t updates = sl_div_up(n_cells, a->h->spec.batches_per_update);
    atomic_store(&phase->n_cells, (uint32_t)n_cells);
    atomic_store(&phase->kind, spec->kind);
    atomic_store(&phase->lane, spec->lane);
    atomic_store(&phase->epoch, spec->epoch);
    atomic_store(&phase->first_version, spec->first_version);
    atomic_store(&phase->end_version,
                 spec->kind == SL_PHASE_TRAIN ? spec->first_version + updates : 0);
    atomic_store(&phase->first_batch, atomic_load(&sl_ledger_of(a)->drawn));
    atomic_fetch_add(&sl_ledger_of(a)->drawn,
                     trained ? sl_nodes_own_before(a, spec->kind, (uint32_t)n_cells) : 0);
    atomic_store(&phase->gate, spec->gated);
    sl_cursor_set(&phase->sample_cursor, sampled ? 0 : (uint32_t)n_cells);
    sl_cursor_set(&phase->train_cursor, 0);
    atomic_store(&phase->done_cursor, next << 32);
    atomic_store_explicit(&phase->seq, next, memory_order_release);
    atomic_store_explicit(&sl_ledger_of(a)->opened, next, memory_order_release);
    *seq = next;
    sl_ledger_advance(a); // the other lane passes over it
    sl_arena_wake_all(a);
    return SL_OK;
}

void sl_ledger_open_gate(struct sl_arena *a, uint64_t seq)
{
    struct sl_phase *phase = sl_ledger_find(a, seq);
    if (!phase)
        return;
    atomic_store_explicit(&phase->gate, 0, memory_order_release);
    sl_arena_wake_all(a);
}

bool sl_ledger_phase_complete(struct sl_arena *a, uint64_t seq)
{
    if (sl_ledger_oldest(a) > seq)
        return true;
    sl_ledger_advance(a);
    if (seq > sl_ledger_opened(a))
        return false;
    const struct sl_phase *phase = sl_ledger_find(a, seq);
    return !phase || sl_ledger_current(a, (enum sl_lane)atomic_load(&phase->lane)) > seq;
}

// --- claims ---

bool sl_ledger_take(struct sl_arena *a, uint64_t seq, uint32_t cell, uint64_t word, uint32_t worker,
                    enum sl_cell_state to, struct sl_lease *out)
{
    uint64_t mine = sl_cell_word(seq, sl_cell_attempt(word), worker, (uint32_t)to);
    if (!atomic_compare_exchange_strong(sl_ledger_cell(a, seq, cell), &word, mine))
        return false;
    *out = (struct sl_lease){
        .seq = seq,
        .cell = cell,
        .word = mine,
        .tag = sl_tag_make(seq, cell, sl_cell_attempt(mine)),
        .phase = sl_ledger_phase(a, seq),
        .entry = sl_ledger_entry(a, seq, cell),
    };
    return true;
}

struct claimer {
    uint32_t worker;
    enum sl_ahead ahead;     // of who samples
    enum sl_occupation does; // of who trains
    struct sl_lease *out;
};

/*
 * Moves the cursor past the cell that was just claimed, which the next claim would do otherwise,
 * so that sl_ledger_look_ahead() is exact; tells standby trainers when nothing is left to sample.
 */
static void look_behind(struct sl_arena *a, const struct sl_lease *lease, uint32_t n)
{
    uint32_t cell;
    uint64_t word;
    enum sl_scan r;
    do
        r = sl_cells_scan(a, lease->seq, n, &lease->phase->sample_cursor, sl_cell_is_pending, &cell,
                          &word);
    while (r == SL_SCAN_LOST && sl_ledger_find(a, lease->seq));
    if (r == SL_SCAN_END)
        sl_event_signal(&a->h->work);
}

static int claim_sample(struct sl_arena *a, void *what)
{
    const struct claimer *c = what;
    uint64_t seq = sl_ledger_current(a, SL_LANE_MAIN), opened = sl_ledger_opened(a);
    uint64_t last = c->ahead == SL_AHEAD_CURRENT_ONLY ? SL_MIN(seq, opened) : opened;
    while (seq <= last && !sl_arena_paused(a)) {
        struct sl_phase *phase = sl_ledger_find(a, seq);
        uint32_t n = phase ? atomic_load(&phase->n_cells) : 0, cell;
        uint64_t word;
        enum sl_scan r = phase ? sl_cells_scan(a, seq, n, &phase->sample_cursor, sl_cell_is_pending,
                                               &cell, &word)
                               : SL_SCAN_END;
        if (r == SL_SCAN_END) {
            seq++;
        } else if (r == SL_SCAN_FOUND &&
                   sl_ledger_take(a, seq, cell, word, c->worker, SL_CELL_SAMPLING, c->out)) {
            look_behind(a, c->out, n);
            if (!sl_ledger_pass_left(a, c->out))
                return SL_OK;
            if (sl_arena_aborted(a))
                return SL_EAGAIN;
        }
    }
    return SL_EAGAIN;
}

// Whether the phase's batches are divided among the members of a group.
static bool grouped(const struct sl_arena *a, const struct sl_phase *phase)
{
    return sl_group_exists(a) && atomic_load(&phase->kind) == SL_PHASE_TRAIN;
}

bool sl_ledger_is_turn(const struct sl_arena *a, uint32_t worker, const struct sl_phase *phase,
                       uint32_t cell)
{
    struct sl_group_view view;
    if (!grouped(a, phase))
        return true;
    return sl_group_read(a, worker, &view) && sl_group_is_turn(a, &view, cell);
}

/*
 * Moves *cell, the lowest unclaimed one, to the lowest of those that is this worker's turn; none
 * while the sampler of the lowest finds no memory for it. Members claim a buffer or two ahead of
 * one another, so it is a few cells away, or somebody else's cells are missing and there is nothing
 * for long: within an update and what it is ahead.
 */
static bool find_own(const struct sl_arena *a, uint32_t worker, uint64_t seq, uint32_t n,
                     uint32_t *cell, uint64_t *word)
{
    struct sl_group_view view;
    uint64_t starving = atomic_load(&sl_ledger_of(a)->starving), w = *word;
    if ((sl_cell_state(w) == SL_CELL_SAMPLING &&
         starving == sl_tag_make(seq, *cell, sl_cell_attempt(w))) ||
        !sl_group_read(a, worker, &view) || view.rank == view.n ||
        view.rank >= a->h->spec.batches_per_update) // more members than an update has batches
        return false;
    for (uint32_t i = *cell; i < n; i++) {
        if (!sl_group_is_turn(a, &view, i))
            continue;
        w = sl_ledger_word(a, seq, i);
        if (sl_cell_seq(w) != seq)
            return false;
        if (sl_cell_is_unclaimed(sl_cell_state(w))) {
            *cell = i;
            *word = w;
            return true;
        }
    }
    return false;
}

/*
 * Three may wait for a claim. Which batch is the next that trainers want has changed: one that
 * finds no memory may evict others once it is that one, and one more may be fetched. And claimed in
 * order, the last batch of an update, of this node's, is what trainers wait for that have their
 * share of it, and leave the rest to the others (trainer/feed/prefetch.h).
 */
void sl_ledger_tell_claimed(struct sl_arena *a, const struct sl_lease *lease)
{
    const struct sl_arena_spec *spec = &a->h->spec;
    const uint32_t behind = spec->batches_per_update - 1 - lease->cell % spec->batches_per_update;
    bool last = !spec->async && behind < SL_MAX(spec->nodes.n, 1u);
    bool fetched = a->h->spec.rows.n_slots != 0;
    if (last || fetched || atomic_load(&sl_ledger_of(a)->starving) != 0)
        sl_event_signal(&a->h->progress);
}

// Whether the cell's gradient is one of a version that is later than `latest`.
static bool is_later(const struct sl_arena *a, const struct sl_phase *phase, uint32_t cell,
                     uint64_t latest)
{
    return !a->h->spec.async && atomic_load(&phase->kind) == SL_PHASE_TRAIN &&
           sl_param_store_cell_version(a, phase, cell) > latest;
}

// Of the lane's current phase the lowest unclaimed cell, of no version that is later than `latest`.
static bool claim_in_lane(struct sl_arena *a, uint32_t worker, enum sl_lane lane, uint64_t latest,
                          struct sl_lease *out)
{
    for (;;) {
        uint64_t seq = sl_ledger_current(a, lane);
        struct sl_phase *phase = seq <= sl_ledger_opened(a) ? sl_ledger_find(a, seq) : NULL;
        // Of the other lane: whoever moves this one past it signals.
        if (!phase || atomic_load(&phase->lane) != (uint32_t)lane ||
            atomic_load(&phase->kind) == SL_PHASE_LEND ||
            atomic_load_explicit(&phase->gate, memory_order_acquire))
            return false;
        uint32_t cell;
        uint64_t word;
        enum sl_scan r = sl_cells_scan(a, seq, atomic_load(&phase->n_cells), &phase->train_cursor,
                                       sl_cell_is_unclaimed, &cell, &word);
        if (r == SL_SCAN_END)
            return false;
        if (r == SL_SCAN_LOST)
            continue;
        if (grouped(a, phase) &&
            !find_own(a, worker, seq, atomic_load(&phase->n_cells), &cell, &word))
            return false;
        if (sl_cell_state(word) != sl_phase_trainable(a, phase) || is_later(a, phase, cell, latest))
            return false;
        if (sl_ledger_take(a, seq, cell, word, worker, SL_CELL_TRAINING, out)) {
            sl_ledger_tell_claimed(a, out);
            return true;
        }
    }
}

static int claim_train(struct sl_arena *a, void *what)
{
    const struct claimer *c = what;
    uint64_t latest = sl_param_store_version(a) + (c->does == SL_OCCUPATION_TRAINS);
    if (sl_arena_paused(a))
        return SL_EAGAIN;
    sl_ledger_advance(a);
    bool trains = c->does != SL_OCCUPATION_ASIDE;
    if ((trains && claim_in_lane(a, c->worker, SL_LANE_MAIN, latest, c->out)) ||
        claim_in_lane(a, c->worker, SL_LANE_SIDE, UINT64_MAX, c->out) ||
        (trains && claim_in_lane(a, c->worker, SL_LANE_MAIN, UINT64_MAX, c->out)))
        return SL_OK;
    return SL_EAGAIN;
}

/*
 * The lowest ready batch of those that are nearest to be claimed. The cursor is that of trainers,
 * so it is at most fetch_ahead own cells that are looked at, also beyond a phase's end and a closed
 * gate.
 */
static int claim_fetch(struct sl_arena *a, void *what)
{
    const struct claimer *c = what;
    uint64_t opened = sl_ledger_opened(a);
    uint32_t left = a->h->spec.fetch_ahead;
    if (sl_arena_paused(a))
        return SL_EAGAIN;
    for (uint64_t seq = sl_ledger_current(a, SL_LANE_MAIN); seq <= opened && left > 0; seq++) {
        struct sl_phase *phase = sl_ledger_find(a, seq);
        uint32_t n = phase ? atomic_load(&phase->n_cells) : 0, cell = 0;
        uint64_t word;
        if (!phase || sl_phase_trainable(a, phase) != SL_CELL_STAGED)
            continue;
        sl_cells_scan(a, seq, n, &phase->train_cursor, sl_cell_is_unclaimed, &cell, &word);
        for (; cell < n && left > 0; cell++) {
            if (!sl_nodes_is_own(a, atomic_load(&phase->kind), cell))
                continue;
            left--;
            word = sl_ledger_word(a, seq, cell);
            if (sl_cell_state(word) == SL_CELL_READY && sl_cell_seq(word) == seq &&
                sl_ledger_take(a, seq, cell, word, c->worker, SL_CELL_FETCHING, c->out))
                return SL_OK;
        }
    }
    return SL_EAGAIN;
}

int sl_ledger_claim_fetch(struct sl_arena *a, uint32_t worker, uint32_t timeout_ms,
                          struct sl_lease *out)
{
    struct claimer c = {.worker = worker, .out = out};
    return sl_arena_try(a, &a->h->progress, timeout_ms, claim_fetch, &c);
}

int sl_ledger_claim_sample(struct sl_arena *a, uint32_t worker, enum sl_ahead ahead,
                           uint32_t timeout_ms, struct sl_lease *out)
{
    struct claimer c = {.worker = worker, .ahead = ahead, .out = out};
    return sl_arena_try(a, &a->h->work, timeout_ms, claim_sample, &c);
}

int sl_ledger_claim_beside(struct sl_arena *a, uint32_t worker, enum sl_occupation does,
                           uint32_t timeout_ms, struct sl_lease *out)
{
    struct claimer c = {.worker = worker, .does = does, .out = out};
    return sl_arena_try(a, &a->h->progress, timeout_ms, claim_train, &c);
}

int sl_ledger_claim_train(struct sl_arena *a, uint32_t worker, uint32_t timeout_ms,
                          struct sl_lease *out)
{
    return sl_ledger_claim_beside(a, worker, SL_OCCUPATION_NONE, timeout_ms, out);
}

// --- completions ---

// Whether the batch is drawn to be counted alone. The phase is the lease's while the lease holds.
static bool is_presample(const struct sl_arena *a, const struct sl_lease *lease)
{
    return atomic_load(&lease->phase->kind) == SL_PHASE_PRESAMPLE &&
           sl_ledger_word(a, lease->seq, lease->cell) == lease->word;
}

// Whether a sampler's lease may be completed without anybody having trained it.
static bool ends_sampled(const struct sl_arena *a, const struct sl_lease *lease)
{
    return is_presample(a, lease) || sl_ledger_is_left(a, lease->phase, lease->cell);
}

int sl_ledger_publish(struct sl_arena *a, const struct sl_lease *lease)
{
    uint64_t from = lease->word;
    uint64_t to = sl_cell_word(lease->seq, sl_cell_attempt(from), 0, SL_CELL_READY);
    if (is_presample(a, lease))
        return sl_fail(
            SL_EINVAL,
            "ledger: a batch of pre-sampling is not trained: complete it instead of publishing it");
    lease->entry->payload_tag = lease->tag;
    if (!atomic_compare_exchange_strong(sl_ledger_cell(a, lease->seq, lease->cell), &from, to))
        return SL_ESTALE;
    SL_FAILPOINT(SAMPLER_PUBLISHED);
    sl_event_signal(&a->h->progress);
    return SL_OK;
}

int sl_ledger_stage(struct sl_arena *a, const struct sl_lease *lease)
{
    uint64_t from = lease->word;
    uint64_t to = sl_cell_word(lease->seq, sl_cell_attempt(from), 0, SL_CELL_STAGED);
    if (!atomic_compare_exchange_strong(sl_ledger_cell(a, lease->seq, lease->cell), &from, to))
        return SL_ESTALE;
    sl_event_signal(&a->h->progress);
    return SL_OK;
}

int sl_ledger_hold(struct sl_arena *a, struct sl_lease *lease)
{
    uint64_t tag = lease->entry->payload_tag;
    uint64_t offset = lease->entry->payload_offset, bytes = lease->entry->payload_bytes;
    uint64_t from = lease->word;
    uint64_t to =
        sl_cell_word(lease->seq, sl_cell_attempt(from), sl_cell_owner(from), SL_CELL_HELD);
    if (!atomic_compare_exchange_strong(sl_ledger_cell(a, lease->seq, lease->cell), &from, to))
        return SL_ESTALE;
    lease->word = to;
    SL_FAILPOINT(TRAINER_HELD);
    if (!bytes || !sl_payload_free(a, tag, offset, bytes))
        sl_event_signal(&a->h->progress);
    return SL_OK;
}

int sl_ledger_complete(struct sl_arena *a, const struct sl_lease *lease)
{
    bool sampled = sl_cell_state(lease->word) == SL_CELL_SAMPLING;
    bool held = sl_cell_state(lease->word) == SL_CELL_HELD; // gave its payload back before
    if (sampled && !ends_sampled(a, lease))
        return sl_ledger_word(a, lease->seq, lease->cell) != lease->word
                   ? SL_ESTALE
                   : sl_fail(SL_EINVAL, "ledger: a sampled batch is not complete before it was "
                                        "trained: publish it");
    // Once the cell is done the entry may be reused: take what is needed before. What was never
    // published has no other tag than the lease's.
    uint64_t tag = sampled ? lease->tag : lease->entry->payload_tag;
    uint64_t offset = lease->entry->payload_offset;
    uint64_t bytes = held ? 0 : lease->entry->payload_bytes;
    uint64_t from = lease->word;
    if (!atomic_compare_exchange_strong(sl_ledger_cell(a, lease->seq, lease->cell), &from,
                                        sl_cell_done(from)))
        return SL_ESTALE;
    if (sampled)
        SL_FAILPOINT(SAMPLER_PUBLISHED);
    else
        SL_FAILPOINT(TRAINER_DONE);
    if (!bytes || !sl_payload_free(a, tag, offset, bytes))
        sl_event_signal(&a->h->progress);
    sl_ledger_advance(a);
    return SL_OK;
}

void sl_ledger_return(struct sl_arena *a, const struct sl_lease *lease)
{
    sl_payload_end_wait(a, lease->tag);
    sl_cell_reset(a, lease->seq, lease->cell, lease->word,
                  sl_cell_before(a, lease->seq, lease->word));
}

bool sl_ledger_is_in_the_way(struct sl_arena *a, const struct sl_lease *lease)
{
    uint64_t tag = atomic_load(&sl_ledger_of(a)->starving);
    return grouped(a, lease->phase) && tag != 0 && tag < lease->tag && sl_ledger_is_next(a, tag);
}
