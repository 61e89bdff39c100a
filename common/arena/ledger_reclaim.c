// Takes back what a dead worker held.
#include <string.h>

#include "common/arena/asks.h"
#include "common/arena/arena.h"
#include "common/arena/param_store.h"
#include "common/arena/payload_alloc.h"
#include "common/arena/group.h"
#include "common/arena/visit_counts.h"
#include "common/arena/ledger.h"
#include "common/arena/ledger_internal.h"

// A dead worker's lease on a cell goes back, or is done where all that it stood for is safe.
static void reclaim_cell(struct sl_arena *a, uint64_t seq, uint32_t cell, uint64_t word,
                         struct sl_reclaimed *out)
{
    switch (sl_cell_state(word)) {
    case SL_CELL_SAMPLING:
        out->resample += sl_cell_reset(a, seq, cell, word, SL_CELL_PENDING);
        break;
    case SL_CELL_FETCHING:
        out->refetch += sl_cell_reset(a, seq, cell, word, sl_cell_before(a, seq, word));
        break;
    case SL_CELL_TRAINING:
        out->retrain += sl_cell_reset(a, seq, cell, word, sl_cell_before(a, seq, word));
        break;
    case SL_CELL_HELD:
        if (sl_group_is_reduced(a, sl_param_store_cell_version(a, sl_ledger_phase(a, seq), cell)))
            out->finished += atomic_compare_exchange_strong(sl_ledger_cell(a, seq, cell), &word,
                                                            sl_cell_done(word));
        else
            out->retrain += sl_cell_reset(a, seq, cell, word, SL_CELL_PENDING);
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
        sl_cursor_rewind(&phase->sample_cursor, 0);
        sl_cursor_rewind(&phase->train_cursor, 0);
    }
    sl_ledger_stand_up(a, worker);
    sl_payload_sweep(a);
    // After the leases: a gradient counts when its cell is done, and now that is settled.
    sl_param_store_reclaim(a, worker);
    sl_probe_reclaim(a, worker);
    const struct sl_row_cache rows = sl_arena_rows(a);
    sl_row_cache_reclaim(&rows, worker);
    sl_asks_reclaim(a, worker);
    sl_ledger_advance(a);
    sl_arena_wake_all(a);
}
