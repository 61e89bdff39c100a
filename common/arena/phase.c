#include "common/arena/phase.h"

#include "common/base/bits.h"
#include "common/arena/node_parts.h"

_Static_assert(sizeof(struct sl_ledger) % 64 == 0, "the phases behind it are aligned");

static uint64_t slot_of(uint64_t seq)
{
    return seq % SL_ARENA_PHASES;
}

// Where a cell stands in the arrays that have something for each.
static uint64_t at(const struct sl_arena *a, uint64_t seq, uint32_t cell)
{
    return slot_of(seq) * a->h->spec.n_cells + cell;
}

uint64_t sl_ledger_oldest(const struct sl_arena *a)
{
    return SL_MIN(sl_ledger_current(a, SL_LANE_MAIN), sl_ledger_current(a, SL_LANE_SIDE));
}

struct sl_phase *sl_ledger_phase(const struct sl_arena *a, uint64_t seq)
{
    return (struct sl_phase *)(sl_ledger_of(a) + 1) + slot_of(seq);
}

struct sl_phase *sl_ledger_find(const struct sl_arena *a, uint64_t seq)
{
    struct sl_phase *phase = sl_ledger_phase(a, seq);
    return atomic_load_explicit(&phase->seq, memory_order_acquire) == seq ? phase : NULL;
}

_Atomic uint64_t *sl_ledger_cell(const struct sl_arena *a, uint64_t seq, uint32_t cell)
{
    return (_Atomic uint64_t *)sl_arena_region(a, SL_REGION_CELLS) + at(a, seq, cell);
}

uint64_t sl_ledger_word(const struct sl_arena *a, uint64_t seq, uint32_t cell)
{
    return atomic_load_explicit(sl_ledger_cell(a, seq, cell), memory_order_acquire);
}

struct sl_batch_entry *sl_ledger_entry(const struct sl_arena *a, uint64_t seq, uint32_t cell)
{
    return (struct sl_batch_entry *)sl_arena_region(a, SL_REGION_ENTRIES) + at(a, seq, cell);
}

struct sl_update_entry *sl_ledger_update(const struct sl_arena *a, uint64_t seq, uint32_t last)
{
    return (struct sl_update_entry *)sl_arena_region(a, SL_REGION_UPDATES) + at(a, seq, last);
}

void sl_ledger_locate(uint64_t tag, uint64_t *seq, uint32_t *cell)
{
    *seq = sl_tag_seq(tag); // whole: no phase has a higher number than fits
    *cell = sl_tag_cell(tag);
}

uint64_t sl_phase_batch(const struct sl_arena *a, const struct sl_phase *phase, uint32_t cell)
{
    return atomic_load_explicit(&phase->first_batch, memory_order_relaxed) +
           sl_nodes_own_before(a, atomic_load_explicit(&phase->kind, memory_order_relaxed), cell);
}

uint64_t sl_phase_range(const struct sl_phase *phase, uint32_t cell, uint32_t *n)
{
    uint64_t first = (uint64_t)cell * phase->spec.batch_size;
    *n = (uint32_t)SL_MIN((uint64_t)phase->spec.batch_size, phase->spec.n_items - first);
    return first;
}
