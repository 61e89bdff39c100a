// Reads the ledger and changes nothing: work that lies ahead, queued batches, who works.
#include <string.h>

#include "common/base/bits.h"
#include "common/arena/param_store.h"
#include "common/arena/payload_alloc.h"
#include "common/arena/group.h"
#include "common/arena/node_parts.h"
#include "common/arena/ledger.h"
#include "common/arena/ledger_internal.h"

// Lowest cell from the cursor on whose state is wanted; n when there is none.
static uint32_t first_wanted(const struct sl_arena *a, uint64_t seq, uint32_t n, uint64_t cursor,
                             bool (*wanted)(uint32_t state))
{
    uint32_t i = (uint32_t)cursor;
    while (i < n && !wanted(sl_cell_state(sl_ledger_word(a, seq, i))))
        i++;
    return SL_MIN(i, n);
}

// Own cells of [from, n).
static uint32_t own_cells(const struct sl_arena *a, uint32_t kind, uint32_t from, uint32_t n)
{
    return sl_nodes_own_before(a, kind, n) - sl_nodes_own_before(a, kind, from);
}

static void look(const struct sl_arena *a, enum sl_lane lane, struct sl_ledger_ahead *out)
{
    uint64_t seq = sl_ledger_current(a, lane);
    for (;;) {
        *out = (struct sl_ledger_ahead){.seq = 0};
        struct sl_phase *phase = seq <= sl_ledger_opened(a) ? sl_ledger_find(a, seq) : NULL;
        if (phase && atomic_load(&phase->lane) == (uint32_t)lane) {
            uint32_t n = atomic_load(&phase->n_cells);
            out->seq = seq;
            out->kind = atomic_load(&phase->kind);
            out->gated = atomic_load_explicit(&phase->gate, memory_order_acquire) != 0;
            uint32_t pending =
                first_wanted(a, seq, n, atomic_load(&phase->sample_cursor), sl_cell_is_pending);
            uint32_t unclaimed = n;
            if (out->kind != SL_PHASE_PRESAMPLE)
                unclaimed = first_wanted(a, seq, n, atomic_load(&phase->train_cursor),
                                         sl_cell_is_unclaimed);
            out->unsampled = own_cells(a, out->kind, pending, n);
            out->unclaimed = own_cells(a, out->kind, unclaimed, n);
        }
        // A slot is used again only when its phase is over: if it is not, all of this was its own.
        uint64_t now = sl_ledger_current(a, lane);
        if (now == seq)
            return;
        seq = now;
    }
}

void sl_ledger_look_ahead(const struct sl_arena *a, struct sl_ledger_ahead *out)
{
    look(a, SL_LANE_MAIN, out);
}

void sl_ledger_look_aside(const struct sl_arena *a, struct sl_ledger_ahead *out)
{
    look(a, SL_LANE_SIDE, out);
}

bool sl_ledger_older_is_pending(const struct sl_arena *a, const struct sl_lease *lease)
{
    struct sl_ledger_ahead ahead;
    const uint32_t n = atomic_load(&lease->phase->n_cells);
    sl_ledger_look_ahead(a, &ahead);
    if (ahead.seq != lease->seq)
        return ahead.seq != 0 && ahead.seq < lease->seq && ahead.unsampled > 0;
    return ahead.unsampled > own_cells(a, ahead.kind, lease->cell, n);
}

/*
 * The cells of a phase between those that are known to be done and the first long run of pending
 * ones: samplers take the lowest, so behind a gap of more cells than were ever taken back at once
 * there is nothing. A phase may have millions of cells, and they are asked for while it runs.
 */
struct window {
    const struct sl_arena *a;
    uint64_t seq;
    uint32_t kind, cell, end, gap;
};

static struct window window_of(const struct sl_arena *a, const struct sl_phase *phase, uint64_t seq)
{
    uint64_t done = atomic_load_explicit(&phase->done_cursor, memory_order_acquire);
    return (struct window){
        .a = a,
        .seq = seq,
        .kind = atomic_load(&phase->kind),
        .cell = done >> 32 == seq ? (uint32_t)done : 0,
        .end = atomic_load(&phase->n_cells),
    };
}

// The word of `cell`, which is passed; false at the end.
static bool next_in_window(struct window *w, uint64_t *word)
{
    enum { GAP_MAX = 4096 };
    if (w->cell >= w->end || w->gap >= GAP_MAX)
        return false;
    *word = sl_ledger_word(w->a, w->seq, w->cell++);
    const bool is_idle =
        sl_cell_state(*word) == SL_CELL_PENDING || !sl_nodes_is_own(w->a, w->kind, w->cell - 1);
    w->gap = is_idle ? w->gap + 1 : 0;
    return true;
}

static void add_depth(const struct sl_arena *a, const struct sl_phase *phase, uint64_t seq,
                      struct sl_ledger_depth *out)
{
    struct window w = window_of(a, phase, seq);
    uint64_t word;
    out->batches[SL_CELL_DONE] += w.cell;
    while (next_in_window(&w, &word)) {
        uint32_t state = sl_cell_state(word);
        if (state > SL_CELL_DONE)
            continue;
        out->batches[state]++;
        if (state < SL_CELL_READY || !sl_cell_is_unclaimed(state))
            continue;
        out->queued++;
        out->queued_bytes += sl_ledger_entry(a, seq, w.cell - 1)->payload_bytes;
    }
    const uint32_t own = own_cells(a, atomic_load(&phase->kind), w.cell, w.end);
    out->batches[SL_CELL_PENDING] += own;
    out->batches[SL_CELL_ELSEWHERE] += w.end - w.cell - own;
}

uint64_t sl_ledger_oldest_batch(const struct sl_arena *a)
{
    uint64_t seq = sl_ledger_current(a, SL_LANE_MAIN);
    const struct sl_phase *phase = seq <= sl_ledger_opened(a) ? sl_ledger_find(a, seq) : NULL;
    if (!phase)
        return atomic_load(&sl_ledger_of(a)->drawn);
    uint64_t done = atomic_load_explicit(&phase->done_cursor, memory_order_acquire);
    bool counts = sl_phase_trainable(a, phase) == SL_CELL_STAGED && done >> 32 == seq;
    return sl_phase_batch(a, phase, counts ? (uint32_t)done : 0);
}

void sl_ledger_depth(struct sl_arena *a, struct sl_ledger_depth *out)
{
    memset(out, 0, sizeof *out);
    uint64_t opened = sl_ledger_opened(a);
    for (uint64_t seq = sl_ledger_oldest(a); seq <= opened; seq++) {
        const struct sl_phase *phase = sl_ledger_find(a, seq);
        if (phase && atomic_load(&phase->kind) != SL_PHASE_INFER)
            add_depth(a, phase, seq, out);
    }
    out->payload_bytes = sl_payload_used_bytes(a);
}

// Of an update after the next one, or held until the others have theirs (group.h).
static bool waits_for_others(const struct sl_arena *a, const struct sl_phase *phase, uint32_t cell,
                             uint64_t word)
{
    if (!sl_group_exists(a) || atomic_load(&phase->kind) != SL_PHASE_TRAIN)
        return false;
    return sl_cell_state(word) == SL_CELL_HELD ||
           sl_param_store_cell_version(a, phase, cell) > sl_param_store_version(a);
}

bool sl_ledger_works(const struct sl_arena *a, uint32_t worker)
{
    uint64_t opened = sl_ledger_opened(a), word;
    for (uint64_t seq = sl_ledger_oldest(a); seq <= opened; seq++) {
        const struct sl_phase *phase = sl_ledger_find(a, seq);
        struct window w = phase ? window_of(a, phase, seq) : (struct window){0};
        while (next_in_window(&w, &word))
            if (sl_cell_is_leased(word) && sl_cell_owner(word) == worker &&
                !waits_for_others(a, phase, w.cell - 1, word))
                return true;
    }
    return false;
}

uint64_t sl_phase_batch(const struct sl_arena *a, const struct sl_phase *phase, uint32_t cell)
{
    return atomic_load_explicit(&phase->first_batch, memory_order_relaxed) +
           sl_nodes_own_before(a, atomic_load_explicit(&phase->kind, memory_order_relaxed), cell);
}
