#include "common/ipc/board.h"

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/ipc/ledger_internal.h"

struct sl_board *sl_board_of(const struct sl_arena *a)
{
    return sl_arena_region(a, SL_REGION_BOARD);
}

// Arrays stand as: bank 0 {params, state...}, bank 1 {params, state...}, best, gradient slots.
static float *array(const struct sl_arena *a, uint64_t i)
{
    return (float *)sl_arena_region(a, SL_REGION_PARAMS) + i * a->h->param_stride;
}

float *sl_board_params(const struct sl_arena *a, uint64_t version)
{
    return array(a, (version & 1) * (1 + a->h->spec.n_state));
}

float *sl_board_state(const struct sl_arena *a, uint64_t version, uint32_t i)
{
    return array(a, (version & 1) * (1 + a->h->spec.n_state) + 1 + i);
}

float *sl_board_best(const struct sl_arena *a)
{
    return array(a, 2 * (1 + a->h->spec.n_state));
}

float *sl_board_gradient(const struct sl_arena *a, uint32_t cell)
{
    return array(a, 2 * (1 + a->h->spec.n_state) + 1 + cell % a->h->spec.batches_per_update);
}

uint64_t sl_board_cell_version(const struct sl_arena *a, const struct sl_phase *phase,
                               uint32_t cell)
{
    return phase->spec.first_version + cell / a->h->spec.batches_per_update;
}

static bool all_done(const struct sl_arena *a, uint64_t seq, uint32_t first, uint32_t n)
{
    for (uint32_t i = first; i < first + n; i++) {
        uint64_t w = sl_ledger_word(a, seq, i);
        if (sl_cell_seq(w) != seq || sl_cell_state(w) != SL_CELL_DONE)
            return false;
    }
    return true;
}

int sl_board_begin_update(struct sl_arena *a, uint32_t worker, struct sl_update *out)
{
    struct sl_board *board = sl_board_of(a);
    uint64_t seq = atomic_load_explicit(&a->h->current, memory_order_acquire);
    const struct sl_phase *phase = sl_ledger_phase(a, seq);
    if (atomic_load_explicit(&phase->seq, memory_order_acquire) != seq)
        return SL_EAGAIN;
    uint64_t version = sl_board_version(a);
    uint64_t first_version = atomic_load(&phase->first_version);
    if (version < first_version || version >= atomic_load(&phase->end_version))
        return SL_EAGAIN;
    uint32_t per_update = a->h->spec.batches_per_update;
    uint64_t first = (version - first_version) * per_update;
    uint32_t n_cells = atomic_load(&phase->n_cells);
    if (first >= n_cells)
        return SL_EAGAIN;
    uint32_t n = (uint32_t)SL_MIN((uint64_t)per_update, n_cells - first);
    if (!all_done(a, seq, (uint32_t)first, n))
        return SL_EAGAIN;

    uint64_t mine = (version + 1) << 16 | worker, free_lock = 0;
    if (!atomic_compare_exchange_strong(&board->apply, &free_lock, mine))
        return SL_EAGAIN;
    // Between our look and the lock somebody may have applied this very update.
    if (sl_board_version(a) != version) {
        // Who completed the next update meanwhile found the lock taken: tell them to look again.
        atomic_store(&board->apply, 0);
        sl_event_signal(&a->h->update);
        return SL_EAGAIN;
    }
    *out = (struct sl_update){
        .version = version, .seq = seq, .first_cell = (uint32_t)first, .n_cells = n};
    return SL_OK;
}

void sl_board_commit_update(struct sl_arena *a, const struct sl_update *u)
{
    struct sl_board *board = sl_board_of(a);
    // Release: the new bank is written before the version says so.
    atomic_store_explicit(&board->version, u->version + 1, memory_order_release);
    SL_FAILPOINT(TRAINER_FLIPPED);
    atomic_store_explicit(&board->apply, 0, memory_order_release);
    sl_event_signal(&a->h->update);
    sl_ledger_advance(a);
}

void sl_board_reclaim(struct sl_arena *a, uint32_t worker)
{
    struct sl_board *board = sl_board_of(a);
    uint64_t lock = atomic_load(&board->apply);
    if (lock != 0 && (lock & 0xffff) == worker)
        atomic_compare_exchange_strong(&board->apply, &lock, 0);
}
