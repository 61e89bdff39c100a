// Cells and cursors: how they move, and how lanes pass complete phases.
#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/arena/param_store.h"
#include "common/arena/ledger_internal.h"

/*
 * Memory orders (the edges they pair with):
 *
 *   phase->seq       release by open_phase          acquire by whoever looks a phase up
 *   cell             release by publish, complete   acquire by claim, by the completion scan
 *   current, opened  release                        acquire
 *   cursors          acq_rel; they carry no data
 */

// --- cursors ---

static uint64_t next_generation(uint64_t cursor, uint32_t cell)
{
    return ((cursor >> 32) + 1) << 32 | cell;
}

void sl_cursor_rewind(_Atomic uint64_t *cursor, uint32_t cell)
{
    uint64_t c = atomic_load(cursor);
    while (
        !atomic_compare_exchange_weak(cursor, &c, next_generation(c, SL_MIN((uint32_t)c, cell)))) {
    }
}

void sl_cursor_set(_Atomic uint64_t *cursor, uint32_t cell)
{
    atomic_store(cursor, next_generation(atomic_load(cursor), cell));
}

bool sl_cell_reset(struct sl_arena *a, uint64_t seq, uint32_t cell, uint64_t from,
                   enum sl_cell_state to)
{
    struct sl_phase *phase = sl_ledger_phase(a, seq);
    uint64_t word = sl_cell_word(seq, sl_cell_attempt(from) + 1, 0, (uint32_t)to);
    if (!atomic_compare_exchange_strong(sl_ledger_cell(a, seq, cell), &from, word))
        return false;
    sl_cursor_rewind(&phase->sample_cursor, cell);
    sl_cursor_rewind(&phase->train_cursor, cell);
    sl_arena_wake_all(a);
    return true;
}

enum sl_scan sl_cells_scan(const struct sl_arena *a, uint64_t seq, uint32_t n,
                           _Atomic uint64_t *cursor, bool (*wanted)(uint32_t state), uint32_t *cell,
                           uint64_t *word)
{
    uint64_t c = atomic_load(cursor);
    uint32_t i = (uint32_t)c;
    uint64_t w = 0;
    for (; i < n; i++) {
        w = sl_ledger_word(a, seq, i);
        if (sl_cell_seq(w) != seq)
            return SL_SCAN_LOST;
        if (wanted(sl_cell_state(w)))
            break;
    }
    if (i > (uint32_t)c && !atomic_compare_exchange_strong(cursor, &c, c >> 32 << 32 | i))
        return SL_SCAN_LOST;
    *cell = i;
    *word = w;
    return i < n ? SL_SCAN_FOUND : SL_SCAN_END;
}

bool sl_cell_is_pending(uint32_t state)
{
    return state == SL_CELL_PENDING;
}

bool sl_cell_is_unclaimed(uint32_t state)
{
    return state <= SL_CELL_STAGED;
}

enum sl_cell_state sl_phase_trainable(const struct sl_arena *a, const struct sl_phase *phase)
{
    uint32_t kind = atomic_load(&phase->kind);
    bool fetched = kind == SL_PHASE_TRAIN || kind == SL_PHASE_EVAL || kind == SL_PHASE_LEND;
    return fetched && a->h->spec.rows.n_slots ? SL_CELL_STAGED : SL_CELL_READY;
}

enum sl_cell_state sl_cell_before(const struct sl_arena *a, uint64_t seq, uint64_t word)
{
    switch (sl_cell_state(word)) {
    case SL_CELL_FETCHING: return SL_CELL_READY;
    case SL_CELL_TRAINING: return sl_phase_trainable(a, sl_ledger_phase(a, seq));
    default: return SL_CELL_PENDING;
    }
}

// --- lanes ---

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
    return scan_done(a, phase, seq, n) == n && (end == 0 || sl_param_store_version(a) >= end) &&
           (atomic_load(&phase->kind) != SL_PHASE_EVAL || sl_nodes_results_are_given(a, seq));
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
        if (!atomic_compare_exchange_strong(&sl_ledger_of(a)->current[lane], &seq, seq + 1))
            continue;
        sl_arena_wake_all(a);
        if (own)
            sl_arena_ring(a);
    }
}

void sl_ledger_advance(struct sl_arena *a)
{
    for (int lane = 0; lane < SL_LANES; lane++)
        advance_lane(a, (enum sl_lane)lane);
}

// --- payload memory: who must wait for whom ---

bool sl_ledger_is_next(struct sl_arena *a, uint64_t tag)
{
    sl_ledger_advance(a);
    uint64_t seq = sl_ledger_current(a, SL_LANE_MAIN);
    struct sl_phase *phase = sl_ledger_find(a, seq);
    if (!phase || (seq & SL_SEQ_MASK) != sl_tag_seq(tag))
        return false;
    uint32_t cell;
    uint64_t word;
    enum sl_scan r = sl_cells_scan(a, seq, atomic_load(&phase->n_cells), &phase->train_cursor,
                                   sl_cell_is_unclaimed, &cell, &word);
    return r == SL_SCAN_FOUND && cell == sl_tag_cell(tag);
}

int sl_ledger_evict(struct sl_arena *a, uint64_t tag, struct sl_evicted *evicted)
{
    for (uint64_t seq = sl_ledger_opened(a); seq >= sl_ledger_current(a, SL_LANE_MAIN); seq--) {
        struct sl_phase *phase = sl_ledger_find(a, seq);
        if (!phase)
            continue;
        for (uint32_t i = atomic_load(&phase->n_cells); i-- > 0;) {
            uint64_t w = sl_ledger_word(a, seq, i);
            uint32_t state = sl_cell_state(w);
            if (sl_cell_seq(w) != seq || (state != SL_CELL_READY && state != SL_CELL_STAGED) ||
                sl_tag_make(seq, i, SL_ATTEMPT_MASK) <= tag)
                continue;
            const struct sl_batch_entry *e = sl_ledger_entry(a, seq, i);
            *evicted = (struct sl_evicted){e->payload_tag, e->payload_offset, e->payload_bytes};
            // What was read is true if the cell has not moved since.
            if (evicted->payload_bytes && sl_cell_reset(a, seq, i, w, SL_CELL_PENDING)) {
                atomic_fetch_add(&sl_ledger_of(a)->evicted, 1);
                return SL_OK;
            }
        }
    }
    return SL_EAGAIN;
}

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
    case SL_CELL_FETCHING:
    case SL_CELL_STAGED:
    case SL_CELL_TRAINING: return sl_ledger_entry(a, seq, cell)->payload_tag == tag;
    default: return false;
    }
}
