#include "common/ipc/ledger.h"

#include <string.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/ipc/board.h"
#include "common/ipc/extent.h"
#include "common/ipc/group.h"
#include "common/ipc/hot.h"
#include "common/ipc/ledger_internal.h"

/*
 * Memory orders (the edges they pair with):
 *
 *   phase->seq          release by open_phase          acquire by whoever looks a phase up
 *   cell                release by publish, complete   acquire by claim, by the completion scan
 *   current, side, opened  release                     acquire
 *   cursors             acq_rel; they carry no data
 */

static uint32_t slot_of(uint64_t seq)
{
    return (uint32_t)(seq % SL_ARENA_PHASES);
}

struct sl_phase *sl_ledger_phase(const struct sl_arena *a, uint64_t seq)
{
    return (struct sl_phase *)sl_arena_region(a, SL_REGION_PHASES) + slot_of(seq);
}

_Atomic uint64_t *sl_ledger_cell(const struct sl_arena *a, uint64_t seq, uint32_t cell)
{
    return (_Atomic uint64_t *)sl_arena_region(a, SL_REGION_CELLS) +
           (uint64_t)slot_of(seq) * a->h->spec.n_cells + cell;
}

struct sl_batch_entry *sl_ledger_entry(const struct sl_arena *a, uint64_t seq, uint32_t cell)
{
    return (struct sl_batch_entry *)sl_arena_region(a, SL_REGION_ENTRIES) +
           (uint64_t)slot_of(seq) * a->h->spec.n_cells + cell;
}

struct sl_update_entry *sl_ledger_update(const struct sl_arena *a, uint64_t seq, uint32_t last)
{
    return (struct sl_update_entry *)sl_arena_region(a, SL_REGION_UPDATES) +
           (uint64_t)slot_of(seq) * a->h->spec.n_cells + last;
}

uint64_t sl_ledger_word(const struct sl_arena *a, uint64_t seq, uint32_t cell)
{
    return atomic_load_explicit(sl_ledger_cell(a, seq, cell), memory_order_acquire);
}

void sl_ledger_locate(uint64_t tag, uint64_t *seq, uint32_t *cell)
{
    *seq = sl_tag_seq(tag); // whole: no phase has a higher number than fits
    *cell = sl_tag_cell(tag);
}

uint64_t sl_phase_range(const struct sl_phase *phase, uint32_t cell, uint32_t *n)
{
    uint64_t first = (uint64_t)cell * phase->spec.batch_size;
    *n = (uint32_t)SL_MIN((uint64_t)phase->spec.batch_size, phase->spec.n_items - first);
    return first;
}

uint64_t sl_ledger_opened(const struct sl_arena *a)
{
    return atomic_load_explicit(&a->h->opened, memory_order_acquire);
}

static _Atomic uint64_t *lane_of(const struct sl_arena *a, uint32_t lane)
{
    return lane == SL_LANE_MAIN ? &a->h->current : &a->h->side;
}

uint64_t sl_ledger_current(const struct sl_arena *a, enum sl_lane lane)
{
    return atomic_load_explicit(lane_of(a, lane), memory_order_acquire);
}

uint64_t sl_ledger_oldest(const struct sl_arena *a)
{
    return SL_MIN(sl_ledger_current(a, SL_LANE_MAIN), sl_ledger_current(a, SL_LANE_SIDE));
}

struct sl_phase *sl_ledger_find(const struct sl_arena *a, uint64_t seq)
{
    struct sl_phase *phase = sl_ledger_phase(a, seq);
    return atomic_load_explicit(&phase->seq, memory_order_acquire) == seq ? phase : NULL;
}

// --- cursors ---

static uint64_t next_generation(uint64_t cursor, uint32_t cell)
{
    return ((cursor >> 32) + 1) << 32 | cell;
}

// After a cell was reset: nobody may believe any more that it has been passed.
static void cursor_rewind(_Atomic uint64_t *cursor, uint32_t cell)
{
    uint64_t c = atomic_load(cursor);
    while (
        !atomic_compare_exchange_weak(cursor, &c, next_generation(c, SL_MIN((uint32_t)c, cell)))) {
    }
}

// Moves a cell to a state without an owner, and everybody's attention back to it.
static bool reset_cell(struct sl_arena *a, uint64_t seq, uint32_t cell, uint64_t from,
                       enum sl_cell_state to)
{
    struct sl_phase *phase = sl_ledger_phase(a, seq);
    uint64_t word = sl_cell_word(seq, sl_cell_attempt(from) + 1, 0, (uint32_t)to);
    if (!atomic_compare_exchange_strong(sl_ledger_cell(a, seq, cell), &from, word))
        return false;
    cursor_rewind(&phase->sample_cursor, cell);
    cursor_rewind(&phase->train_cursor, cell);
    sl_event_signal(to == SL_CELL_PENDING ? &a->h->work : &a->h->ready);
    sl_event_signal(&a->h->standby);
    return true;
}

// Which batch is the next that trainers want has changed: one that finds no memory may evict others
// once it is that one.
static void tell_starving(struct sl_arena *a)
{
    if (atomic_load(&a->h->starving) != 0)
        sl_event_signal(&a->h->space);
}

// --- phases ---

// Something about phases changed: samplers may be held to the current one, standby trainers asleep.
static void signal_all(struct sl_arena *a)
{
    sl_event_signal(&a->h->work);
    sl_event_signal(&a->h->ready);
    sl_event_signal(&a->h->standby);
    tell_starving(a);
}

void sl_ledger_record(const struct sl_arena *a, uint64_t seq, uint32_t cell,
                      struct sl_cell_record *out)
{
    const struct sl_batch_entry *e = sl_ledger_entry(a, seq, cell);
    const struct sl_update_entry *u = sl_ledger_update(a, seq, cell);
    *out = (struct sl_cell_record){
        .cell = cell,
        .n_seeds = e->n_seeds,
        .n_input = e->n_input,
        .standby = e->standby,
        .digest = e->digest,
        .n_edges = e->n_edges,
        .payload_bytes = e->payload_bytes,
        .hits = e->hits,
        .hit_bytes = e->hit_bytes,
        .miss_bytes = e->miss_bytes,
        .base_version = u->base_version,
        .applied_version = u->applied_version,
        .loss = e->loss,
        .weight = e->weight,
        .correct = e->correct,
        .counted = e->counted,
    };
}

// The phase is not open yet: nobody looks.
static void restore_cell(struct sl_arena *a, uint64_t seq, const struct sl_cell_record *r)
{
    struct sl_batch_entry *e = sl_ledger_entry(a, seq, r->cell);
    *e = (struct sl_batch_entry){
        .restored = 1,
        .n_seeds = r->n_seeds,
        .n_input = r->n_input,
        .standby = r->standby,
        .digest = r->digest,
        .n_edges = r->n_edges,
        .payload_bytes = r->payload_bytes,
        .hits = r->hits,
        .hit_bytes = r->hit_bytes,
        .miss_bytes = r->miss_bytes,
        .loss = r->loss,
        .weight = r->weight,
        .correct = r->correct,
        .counted = r->counted,
    };
    *sl_ledger_update(a, seq, r->cell) = (struct sl_update_entry){
        .base_version = r->base_version,
        .applied_version = r->applied_version,
    };
    atomic_store_explicit(sl_ledger_cell(a, seq, r->cell), sl_cell_word(seq, 0, 0, SL_CELL_DONE),
                          memory_order_release);
}

static int check_records(const struct sl_phase_spec *spec, const struct sl_cell_record *records,
                         uint32_t n, uint64_t n_cells)
{
    bool bad = n > 0 && spec->kind != SL_PHASE_TRAIN;
    for (uint32_t i = 0; i < n && !bad; i++)
        bad = records[i].cell >= n_cells || (i > 0 && records[i].cell <= records[i - 1].cell);
    return bad ? sl_fail(SL_EINVAL, "ledger: a phase of %llu cells can not have begun as said",
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
        return sl_fail(SL_EINVAL, "ledger: the side lane has phases of inference alone");
    SL_TRY(check_records(spec, records, n_records, n_cells));
    // Nobody looks at the slot's last phase any more once both lanes are past it.
    sl_ledger_advance(a);
    if (next > SL_ARENA_PHASES && sl_ledger_oldest(a) <= next - SL_ARENA_PHASES)
        return SL_EAGAIN;

    struct sl_phase *phase = sl_ledger_phase(a, next);
    bool sampled = spec->kind != SL_PHASE_INFER;
    // Whoever still looks at the slot's last phase finds cells of another turn from here on.
    atomic_store_explicit(&phase->seq, 0, memory_order_release);
    phase->spec = *spec;
    memset(sl_ledger_entry(a, next, 0), 0, n_cells * sizeof(struct sl_batch_entry));
    memset(sl_ledger_update(a, next, 0), 0, n_cells * sizeof(struct sl_update_entry));
    for (uint32_t i = 0; i < n_cells; i++)
        atomic_store_explicit(sl_ledger_cell(a, next, i),
                              sl_cell_word(next, 0, 0, sampled ? SL_CELL_PENDING : SL_CELL_READY),
                              memory_order_release);
    for (uint32_t i = 0; i < n_records; i++)
        restore_cell(a, next, &records[i]);
    uint64_t updates = sl_div_up(n_cells, a->h->spec.batches_per_update);
    atomic_store(&phase->n_cells, (uint32_t)n_cells);
    atomic_store(&phase->kind, spec->kind);
    atomic_store(&phase->lane, spec->lane);
    atomic_store(&phase->first_version, spec->first_version);
    atomic_store(&phase->end_version,
                 spec->kind == SL_PHASE_TRAIN ? spec->first_version + updates : 0);
    atomic_store(&phase->gate, spec->gated);
    atomic_store(&phase->sample_cursor, next_generation(atomic_load(&phase->sample_cursor),
                                                        sampled ? 0 : (uint32_t)n_cells));
    atomic_store(&phase->train_cursor, next_generation(atomic_load(&phase->train_cursor), 0));
    atomic_store(&phase->done_cursor, next << 32);
    atomic_store_explicit(&phase->seq, next, memory_order_release);
    atomic_store_explicit(&a->h->opened, next, memory_order_release);
    *seq = next;
    sl_ledger_advance(a); // the other lane passes over it
    signal_all(a);
    return SL_OK;
}

void sl_ledger_open_gate(struct sl_arena *a, uint64_t seq)
{
    struct sl_phase *phase = sl_ledger_find(a, seq);
    if (!phase)
        return;
    atomic_store_explicit(&phase->gate, 0, memory_order_release);
    signal_all(a);
}

// How many leading cells are done, remembered in the phase's done_cursor.
static uint32_t scan_done(struct sl_arena *a, struct sl_phase *phase, uint64_t seq, uint32_t n)
{
    uint64_t c = atomic_load_explicit(&phase->done_cursor, memory_order_acquire);
    if (c >> 32 != seq)
        return 0; // the slot has moved on: the caller's own check of `current` decides
    uint32_t done = (uint32_t)c;
    while (done < n) {
        uint64_t w = sl_ledger_word(a, seq, done);
        if (sl_cell_seq(w) != seq || sl_cell_state(w) != SL_CELL_DONE)
            break;
        done++;
    }
    if (done > (uint32_t)c)
        atomic_compare_exchange_strong(&phase->done_cursor, &c, seq << 32 | done);
    return done;
}

static bool is_complete(struct sl_arena *a, struct sl_phase *phase, uint64_t seq)
{
    uint32_t n = atomic_load(&phase->n_cells);
    uint64_t end = atomic_load(&phase->end_version);
    return scan_done(a, phase, seq, n) == n && (end == 0 || sl_board_version(a) >= end);
}

// Moves a lane past its complete phases and past those of the other lane.
static void advance_lane(struct sl_arena *a, enum sl_lane lane)
{
    for (;;) {
        uint64_t seq = sl_ledger_current(a, lane);
        struct sl_phase *phase = seq <= sl_ledger_opened(a) ? sl_ledger_find(a, seq) : NULL;
        if (!phase)
            return;
        bool own = atomic_load(&phase->lane) == (uint32_t)lane;
        if (own && !is_complete(a, phase, seq))
            return;
        // Fails when somebody else was first, or when what was read belonged to a reused slot.
        if (!atomic_compare_exchange_strong(lane_of(a, lane), &seq, seq + 1))
            continue;
        signal_all(a);
        if (own)
            sl_arena_ring(a);
    }
}

void sl_ledger_advance(struct sl_arena *a)
{
    for (int lane = 0; lane < SL_LANES; lane++)
        advance_lane(a, (enum sl_lane)lane);
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

static void fill_lease(const struct sl_arena *a, uint64_t seq, uint32_t cell, uint64_t word,
                       struct sl_lease *out)
{
    *out = (struct sl_lease){
        .seq = seq,
        .cell = cell,
        .word = word,
        .tag = sl_tag_make(seq, cell, sl_cell_attempt(word)),
        .phase = sl_ledger_phase(a, seq),
        .entry = sl_ledger_entry(a, seq, cell),
    };
}

enum scan_result { SCAN_FOUND, SCAN_END, SCAN_LOST };

/*
 * Finds the lowest cell whose state is at most `limit` (states grow along a cell's life), moving
 * the cursor past the others. SCAN_LOST: the slot has been reused, or somebody else moved the
 * cursor: look again from the start.
 */
static enum scan_result scan(const struct sl_arena *a, uint64_t seq, uint32_t n,
                             _Atomic uint64_t *cursor, bool (*wanted)(uint32_t state),
                             uint32_t *cell, uint64_t *word)
{
    uint64_t c = atomic_load(cursor);
    uint32_t i = (uint32_t)c;
    uint64_t w = 0;
    for (; i < n; i++) {
        w = sl_ledger_word(a, seq, i);
        if (sl_cell_seq(w) != seq)
            return SCAN_LOST;
        if (wanted(sl_cell_state(w)))
            break;
    }
    if (i > (uint32_t)c && !atomic_compare_exchange_strong(cursor, &c, c >> 32 << 32 | i))
        return SCAN_LOST;
    *cell = i;
    *word = w;
    return i < n ? SCAN_FOUND : SCAN_END;
}

bool sl_cell_is_pending(uint32_t state)
{
    return state == SL_CELL_PENDING;
}

bool sl_cell_is_unclaimed(uint32_t state)
{
    return state <= SL_CELL_READY;
}

static bool take(struct sl_arena *a, uint64_t seq, uint32_t cell, uint64_t word, uint32_t worker,
                 enum sl_cell_state to, struct sl_lease *out)
{
    uint64_t mine = sl_cell_word(seq, sl_cell_attempt(word), worker, (uint32_t)to);
    if (!atomic_compare_exchange_strong(sl_ledger_cell(a, seq, cell), &word, mine))
        return false;
    fill_lease(a, seq, cell, mine, out);
    return true;
}

/*
 * Moves the cursor past the cell that was just claimed, which the next claim would do otherwise,
 * so that sl_ledger_look_ahead() is exact; tells standby trainers when nothing is left to sample.
 */
static void look_behind(struct sl_arena *a, const struct sl_lease *lease, uint32_t n)
{
    uint32_t cell;
    uint64_t word;
    enum scan_result r;
    do
        r = scan(a, lease->seq, n, &lease->phase->sample_cursor, sl_cell_is_pending, &cell, &word);
    while (r == SCAN_LOST && sl_ledger_find(a, lease->seq));
    if (r == SCAN_END)
        sl_event_signal(&a->h->standby);
}

static bool try_claim_sample(struct sl_arena *a, uint32_t worker, enum sl_ahead ahead,
                             struct sl_lease *out)
{
    uint64_t seq = sl_ledger_current(a, SL_LANE_MAIN), opened = sl_ledger_opened(a);
    uint64_t last = ahead == SL_AHEAD_CURRENT_ONLY ? SL_MIN(seq, opened) : opened;
    while (seq <= last) {
        struct sl_phase *phase = sl_ledger_find(a, seq);
        if (!phase) {
            seq++;
            continue;
        }
        uint32_t n = atomic_load(&phase->n_cells), cell;
        uint64_t word;
        enum scan_result r =
            scan(a, seq, n, &phase->sample_cursor, sl_cell_is_pending, &cell, &word);
        if (r == SCAN_END) {
            seq++;
        } else if (r == SCAN_FOUND && take(a, seq, cell, word, worker, SL_CELL_SAMPLING, out)) {
            look_behind(a, out, n);
            return true;
        }
    }
    return false;
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
    return sl_group_look(a, worker, &view) && sl_group_is_turn(a, &view, cell);
}

/*
 * Moves *cell to the lowest unclaimed one from there on that is this worker's turn. Members claim a
 * buffer or two ahead of one another, so it is a few cells away, or somebody else's cells are
 * missing and there is nothing for long: within an update and what it is ahead.
 */
static bool find_turn(const struct sl_arena *a, uint32_t worker, uint64_t seq, uint32_t n,
                      uint32_t *cell, uint64_t *word)
{
    struct sl_group_view view;
    if (!sl_group_look(a, worker, &view) || view.rank == view.n ||
        view.rank >= a->h->spec.batches_per_update) // more members than an update has batches
        return false;
    for (uint32_t i = *cell; i < n; i++) {
        if (!sl_group_is_turn(a, &view, i))
            continue;
        uint64_t w = sl_ledger_word(a, seq, i);
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

// Whether the sampler of this cell, the lowest that no trainer has, finds no memory for it.
static bool starves(const struct sl_arena *a, uint64_t seq, uint32_t cell, uint64_t word)
{
    return sl_cell_state(word) == SL_CELL_SAMPLING &&
           atomic_load(&a->h->starving) == sl_tag_make(seq, cell, sl_cell_attempt(word));
}

// What this worker may claim of a phase that is divided, given the lowest unclaimed cell.
static bool find_own(const struct sl_arena *a, uint32_t worker, uint64_t seq, uint32_t n,
                     uint32_t *cell, uint64_t *word)
{
    return !starves(a, seq, *cell, *word) && find_turn(a, worker, seq, n, cell, word);
}

// Claimed in order, this is the last batch of an update: trainers that have their share of it, and
// leave the rest to the others (trainer/extract.h), may go on to the next.
static void tell_shared(struct sl_arena *a, const struct sl_lease *lease)
{
    uint32_t per_update = a->h->spec.batches_per_update;
    if (!a->h->spec.async && (lease->cell + 1) % per_update == 0)
        sl_event_signal(&a->h->ready);
}

// Whether the cell's gradient is one of a version that is later than `latest`.
static bool is_later(const struct sl_arena *a, const struct sl_phase *phase, uint32_t cell,
                     uint64_t latest)
{
    if (a->h->spec.async || atomic_load(&phase->kind) != SL_PHASE_TRAIN)
        return false;
    return atomic_load(&phase->first_version) + cell / a->h->spec.batches_per_update > latest;
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
            atomic_load_explicit(&phase->gate, memory_order_acquire))
            return false;
        uint32_t cell;
        uint64_t word;
        enum scan_result r = scan(a, seq, atomic_load(&phase->n_cells), &phase->train_cursor,
                                  sl_cell_is_unclaimed, &cell, &word);
        if (r == SCAN_END)
            return false;
        if (r == SCAN_LOST)
            continue;
        if (grouped(a, phase) &&
            !find_own(a, worker, seq, atomic_load(&phase->n_cells), &cell, &word))
            return false;
        if (sl_cell_state(word) != SL_CELL_READY || is_later(a, phase, cell, latest))
            return false;
        if (take(a, seq, cell, word, worker, SL_CELL_TRAINING, out)) {
            tell_starving(a);
            tell_shared(a, out);
            return true;
        }
    }
}

static bool try_claim_train(struct sl_arena *a, uint32_t worker, enum sl_occupation does,
                            struct sl_lease *out)
{
    uint64_t latest = sl_board_version(a) + (does == SL_OCCUPATION_TRAINS);
    sl_ledger_advance(a);
    if (does == SL_OCCUPATION_ASIDE)
        return claim_in_lane(a, worker, SL_LANE_SIDE, UINT64_MAX, out);
    return claim_in_lane(a, worker, SL_LANE_MAIN, latest, out) ||
           claim_in_lane(a, worker, SL_LANE_SIDE, UINT64_MAX, out) ||
           claim_in_lane(a, worker, SL_LANE_MAIN, UINT64_MAX, out);
}

struct claimer {
    uint32_t worker;
    bool samples;
    enum sl_ahead ahead;     // of who samples
    enum sl_occupation does; // of who trains
};

static int claim(struct sl_arena *a, const struct claimer *who, uint32_t timeout_ms,
                 struct sl_lease *out)
{
    struct sl_event *event = who->samples ? &a->h->work : &a->h->ready;
    uint64_t deadline = sl_now_ns() + (uint64_t)timeout_ms * 1000000;
    for (;;) {
        uint32_t seen = sl_event_read(event);
        if (sl_arena_aborted(a))
            return SL_EABORTED;
        if (!sl_arena_paused(a) && (who->samples ? try_claim_sample(a, who->worker, who->ahead, out)
                                                 : try_claim_train(a, who->worker, who->does, out)))
            return SL_OK;
        uint64_t now = sl_now_ns();
        if (now >= deadline)
            return SL_ETIMEDOUT;
        uint64_t left_ms = (deadline - now) / 1000000 + 1;
        sl_event_wait(event, seen, (uint32_t)SL_MIN(left_ms, (uint64_t)SL_ARENA_WAIT_MS));
    }
}

int sl_ledger_claim_sample(struct sl_arena *a, uint32_t worker, enum sl_ahead ahead,
                           uint32_t timeout_ms, struct sl_lease *out)
{
    const struct claimer who = {.worker = worker, .samples = true, .ahead = ahead};
    return claim(a, &who, timeout_ms, out);
}

int sl_ledger_claim_train(struct sl_arena *a, uint32_t worker, uint32_t timeout_ms,
                          struct sl_lease *out)
{
    return sl_ledger_claim_beside(a, worker, SL_OCCUPATION_NONE, timeout_ms, out);
}

int sl_ledger_claim_beside(struct sl_arena *a, uint32_t worker, enum sl_occupation does,
                           uint32_t timeout_ms, struct sl_lease *out)
{
    const struct claimer who = {.worker = worker, .does = does};
    return claim(a, &who, timeout_ms, out);
}

// --- completions ---

// Whether the batch is drawn to be counted alone. The phase is the lease's while the lease holds.
static bool is_presample(const struct sl_arena *a, const struct sl_lease *lease)
{
    return atomic_load(&lease->phase->kind) == SL_PHASE_PRESAMPLE &&
           sl_ledger_word(a, lease->seq, lease->cell) == lease->word;
}

int sl_ledger_publish(struct sl_arena *a, const struct sl_lease *lease)
{
    uint64_t from = lease->word;
    uint64_t to = sl_cell_word(lease->seq, sl_cell_attempt(from), 0, SL_CELL_READY);
    if (is_presample(a, lease))
        return sl_fail(SL_EINVAL, "ledger: nobody trains a batch of pre-sampling");
    lease->entry->payload_tag = lease->tag;
    if (!atomic_compare_exchange_strong(sl_ledger_cell(a, lease->seq, lease->cell), &from, to))
        return SL_ESTALE;
    SL_FAILPOINT(SAMPLER_PUBLISHED);
    sl_event_signal(&a->h->ready);
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
    if (bytes)
        sl_extent_free(a, tag, offset, bytes);
    sl_event_signal(&a->h->update);
    return SL_OK;
}

int sl_ledger_complete(struct sl_arena *a, const struct sl_lease *lease)
{
    bool sampled = sl_cell_state(lease->word) == SL_CELL_SAMPLING;
    bool held = sl_cell_state(lease->word) == SL_CELL_HELD; // gave its payload back before
    if (sampled && !is_presample(a, lease))
        return sl_ledger_word(a, lease->seq, lease->cell) != lease->word
                   ? SL_ESTALE
                   : sl_fail(SL_EINVAL, "ledger: a batch that was sampled is to be trained yet");
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
    if (bytes)
        sl_extent_free(a, tag, offset, bytes);
    sl_event_signal(&a->h->update);
    sl_ledger_advance(a);
    return SL_OK;
}

void sl_ledger_return(struct sl_arena *a, const struct sl_lease *lease)
{
    bool has_block = sl_cell_state(lease->word) == SL_CELL_TRAINING;
    sl_extent_end_wait(a, lease->tag);
    reset_cell(a, lease->seq, lease->cell, lease->word,
               has_block ? SL_CELL_READY : SL_CELL_PENDING);
}

// --- eviction (extent.c asks) ---

bool sl_ledger_is_next(struct sl_arena *a, uint64_t tag)
{
    sl_ledger_advance(a);
    uint64_t seq = sl_ledger_current(a, SL_LANE_MAIN);
    struct sl_phase *phase = sl_ledger_find(a, seq);
    if (!phase || (seq & SL_SEQ_MASK) != sl_tag_seq(tag))
        return false;
    uint32_t cell;
    uint64_t word;
    enum scan_result r = scan(a, seq, atomic_load(&phase->n_cells), &phase->train_cursor,
                              sl_cell_is_unclaimed, &cell, &word);
    return r == SCAN_FOUND && cell == sl_tag_cell(tag);
}

bool sl_ledger_is_in_the_way(struct sl_arena *a, const struct sl_lease *lease)
{
    uint64_t tag = atomic_load(&a->h->starving);
    return grouped(a, lease->phase) && tag != 0 && tag < lease->tag && sl_ledger_is_next(a, tag);
}

int sl_ledger_evict(struct sl_arena *a, uint64_t tag, struct sl_evicted *evicted)
{
    for (uint64_t seq = sl_ledger_opened(a); seq >= sl_ledger_current(a, SL_LANE_MAIN); seq--) {
        struct sl_phase *phase = sl_ledger_find(a, seq);
        if (!phase)
            continue;
        for (uint32_t i = atomic_load(&phase->n_cells); i-- > 0;) {
            uint64_t w = sl_ledger_word(a, seq, i);
            if (sl_cell_seq(w) != seq || sl_cell_state(w) != SL_CELL_READY ||
                sl_tag_make(seq, i, SL_ATTEMPT_MASK) <= tag)
                continue;
            const struct sl_batch_entry *e = sl_ledger_entry(a, seq, i);
            *evicted = (struct sl_evicted){e->payload_tag, e->payload_offset, e->payload_bytes};
            // What was read is true if the cell has not moved since.
            if (evicted->payload_bytes && reset_cell(a, seq, i, w, SL_CELL_PENDING)) {
                atomic_fetch_add(&a->h->evicted, 1);
                return SL_OK;
            }
        }
    }
    return SL_EAGAIN;
}

// --- reclaim ---

bool sl_ledger_tag_is_live(const struct sl_arena *a, uint64_t tag)
{
    uint64_t seq = sl_tag_seq(tag);
    uint32_t cell = sl_tag_cell(tag);
    struct sl_phase *phase = sl_ledger_find(a, seq);
    if (seq < sl_ledger_oldest(a) || !phase || cell >= atomic_load(&phase->n_cells))
        return false;
    uint64_t w = sl_ledger_word(a, seq, cell);
    switch (sl_cell_state(w)) {
    case SL_CELL_SAMPLING: return sl_cell_attempt(w) == sl_tag_attempt(tag);
    case SL_CELL_READY:
    case SL_CELL_TRAINING: return sl_ledger_entry(a, seq, cell)->payload_tag == tag;
    default: return false;
    }
}

// A dead worker's lease on a cell goes back, or is done where all that it stood for is safe.
static void reclaim_cell(struct sl_arena *a, uint64_t seq, uint32_t cell, uint64_t word,
                         struct sl_reclaimed *out)
{
    switch (sl_cell_state(word)) {
    case SL_CELL_SAMPLING: out->resample += reset_cell(a, seq, cell, word, SL_CELL_PENDING); break;
    case SL_CELL_TRAINING: out->retrain += reset_cell(a, seq, cell, word, SL_CELL_READY); break;
    case SL_CELL_HELD:
        if (sl_group_is_reduced(a, sl_board_cell_version(a, sl_ledger_phase(a, seq), cell)))
            out->finished += atomic_compare_exchange_strong(sl_ledger_cell(a, seq, cell), &word,
                                                            sl_cell_done(word));
        else
            out->retrain += reset_cell(a, seq, cell, word, SL_CELL_PENDING);
        break;
    default: break;
    }
}

void sl_ledger_reclaim(struct sl_arena *a, uint32_t worker, struct sl_reclaimed *out)
{
    memset(out, 0, sizeof *out);
    if (sl_group_exists(a))
        sl_group_dissolve(a, worker);
    uint64_t opened = sl_ledger_opened(a);
    for (uint64_t seq = sl_ledger_oldest(a); seq <= opened; seq++) {
        struct sl_phase *phase = sl_ledger_find(a, seq);
        if (!phase)
            continue;
        uint32_t n = atomic_load(&phase->n_cells);
        for (uint32_t i = 0; i < n; i++) {
            uint64_t w = sl_ledger_word(a, seq, i);
            if (sl_cell_owner(w) != worker || !sl_cell_is_leased(w))
                continue;
            if (!out->first_tag)
                out->first_tag = sl_tag_make(seq, i, 0);
            reclaim_cell(a, seq, i, w, out);
        }
        // It may have died between an eviction and the rewind of the cursors.
        cursor_rewind(&phase->sample_cursor, 0);
        cursor_rewind(&phase->train_cursor, 0);
    }
    sl_extent_sweep(a);
    // After the leases: a gradient counts when its cell is done, and now that is settled.
    sl_board_reclaim(a, worker);
    sl_probe_reclaim(a, worker);
    sl_ledger_advance(a);
    signal_all(a);
    sl_event_signal(&a->h->update);
}
