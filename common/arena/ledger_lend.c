// Batches that are lent to external trainers: whose turn they are, and which are left.
#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "common/arena/ledger.h"
#include "common/arena/ledger_internal.h"

static uint64_t position(uint32_t epoch, uint32_t cell)
{
    return (uint64_t)epoch << 32 | cell;
}

// The rank that has a cell of this node's; 0 where none has any of its own.
static uint32_t rank_of(const struct sl_arena *a, uint32_t cell)
{
    const struct sl_arena_spec *spec = &a->h->spec;
    return spec->world ? cell / SL_MAX(spec->nodes.n, 1u) % spec->world : 0;
}

bool sl_ledger_is_left(const struct sl_arena *a, const struct sl_phase *phase, uint32_t cell)
{
    return atomic_load(&phase->kind) == SL_PHASE_LEND &&
           position(atomic_load(&phase->epoch), cell) <
               atomic_load(&sl_ledger_of(a)->left[rank_of(a, cell)]);
}

bool sl_ledger_pass_left(struct sl_arena *a, const struct sl_lease *lease)
{
    if (!sl_ledger_is_left(a, lease->phase, lease->cell))
        return false;
    lease->entry->left = 1;
    if (sl_cell_state(lease->word) == SL_CELL_SAMPLING)
        lease->entry->payload_bytes = 0; // what a sampler had that gave the batch up
    sl_ledger_complete(a, lease);
    return true;
}

void sl_ledger_leave(struct sl_arena *a, uint32_t rank, uint32_t epoch, uint32_t cell)
{
    _Atomic uint64_t *left = &sl_ledger_of(a)->left[a->h->spec.world ? rank : 0];
    uint64_t to = position(epoch, cell), from = atomic_load(left);
    while (from < to && !atomic_compare_exchange_weak(left, &from, to)) {
    }
    sl_arena_wake_all(a);
}

// The main lane's current phase, where its batches are lent.
static struct sl_phase *lent_phase(const struct sl_arena *a, uint64_t *seq)
{
    *seq = sl_ledger_current(a, SL_LANE_MAIN);
    struct sl_phase *phase = *seq <= sl_ledger_opened(a) ? sl_ledger_find(a, *seq) : NULL;
    return phase && atomic_load(&phase->kind) == SL_PHASE_LEND ? phase : NULL;
}

bool sl_ledger_look_lent(const struct sl_arena *a, struct sl_ledger_lent *out)
{
    for (;;) {
        struct sl_phase *phase = lent_phase(a, &out->seq);
        if (!phase)
            return false;
        out->epoch = atomic_load(&phase->epoch);
        out->n_cells = atomic_load(&phase->n_cells);
        // A slot is used again only when its phase is over.
        if (sl_ledger_current(a, SL_LANE_MAIN) == out->seq)
            return true;
    }
}

// --- who is there --------------------------------------------------------------------------------

void sl_ledger_sit(struct sl_arena *a, uint32_t rank, uint32_t worker)
{
    atomic_store(&sl_ledger_of(a)->seated[rank], worker);
}

void sl_ledger_stand_up(struct sl_arena *a, uint32_t worker)
{
    for (uint32_t rank = 0; rank < SL_RANKS_MAX; rank++) {
        uint32_t of = worker; // a successor may have sat down
        atomic_compare_exchange_strong(&sl_ledger_of(a)->seated[rank], &of, 0);
    }
}

bool sl_ledger_rank_is_absent(const struct sl_arena *a, uint32_t *rank)
{
    const uint32_t world = a->h->spec.world;
    uint64_t seq;
    const struct sl_phase *phase = world ? lent_phase(a, &seq) : NULL;
    uint32_t lowest = world;
    for (uint32_t i = 0, n = phase ? atomic_load(&phase->n_cells) : 0; i < n; i++) {
        const uint32_t of = rank_of(a, i);
        if (of < lowest && !atomic_load(&sl_ledger_of(a)->seated[of]) &&
            sl_cell_state(sl_ledger_word(a, seq, i)) != SL_CELL_DONE &&
            !sl_ledger_is_left(a, phase, i))
            lowest = of;
    }
    *rank = lowest;
    // What was seen of a slot that has been reused meanwhile means nothing.
    return lowest < world && sl_ledger_current(a, SL_LANE_MAIN) == seq;
}

// --- claims --------------------------------------------------------------------------------------

struct borrower {
    uint32_t worker, rank, epoch;
    struct sl_lease *out;
};

// Whether another worker still has a batch that may come back.
static bool others_work(const struct sl_arena *a, const struct borrower *b, uint64_t seq,
                        const struct sl_phase *phase)
{
    const uint64_t done = atomic_load(&phase->done_cursor);
    const uint32_t n = atomic_load(&phase->n_cells);
    for (uint32_t i = done >> 32 == seq ? (uint32_t)done : 0; i < n; i++) {
        const uint64_t word = sl_ledger_word(a, seq, i);
        if (sl_cell_state(word) != SL_CELL_DONE && sl_cell_owner(word) != b->worker)
            return true;
    }
    return false;
}

enum found {
    FOUND_OWN,
    FOUND_UNDRAWN, // it is there, and nobody may have it yet
    FOUND_NONE,
    FOUND_LOST, // look again
};

// The lowest unclaimed cell of the borrower's; those on the way that are left are completed.
static enum found find(struct sl_arena *a, const struct borrower *b, uint64_t seq,
                       struct sl_phase *phase, uint32_t *cell, uint64_t *word)
{
    const uint32_t n = atomic_load(&phase->n_cells), world = a->h->spec.world;
    const bool own_epoch = atomic_load(&phase->epoch) == b->epoch;
    if (sl_cells_scan(a, seq, n, &phase->train_cursor, sl_cell_is_unclaimed, cell, word) ==
        SL_SCAN_LOST)
        return FOUND_LOST;
    for (uint32_t i = *cell; i < n && !sl_arena_aborted(a); i++) {
        const uint64_t w = sl_ledger_word(a, seq, i);
        const uint32_t state = sl_cell_state(w);
        struct sl_lease lease;
        if (sl_cell_seq(w) != seq)
            return FOUND_LOST;
        if (!sl_cell_is_unclaimed(state))
            continue;
        if (sl_ledger_is_left(a, phase, i)) {
            if ((state == SL_CELL_READY || state == SL_CELL_STAGED) &&
                sl_ledger_take(a, seq, i, w, b->worker, SL_CELL_TRAINING, &lease))
                sl_ledger_pass_left(a, &lease);
        } else if (own_epoch && (world == 0 || rank_of(a, i) == b->rank)) {
            *cell = i;
            *word = w;
            return state == sl_phase_trainable(a, phase) ? FOUND_OWN : FOUND_UNDRAWN;
        }
    }
    return FOUND_NONE;
}

// The phase is past: also where no other one has been opened.
bool sl_ledger_epoch_is_over(const struct sl_arena *a, uint32_t epoch)
{
    uint64_t seq;
    const struct sl_phase *phase = lent_phase(a, &seq);
    if (!phase && seq > 1)
        phase = sl_ledger_find(a, seq - 1);
    else if (phase && atomic_load(&phase->epoch) == epoch)
        return false;
    return phase && atomic_load(&phase->kind) == SL_PHASE_LEND &&
           atomic_load(&phase->epoch) >= epoch;
}

static int claim_lent(struct sl_arena *a, void *what)
{
    const struct borrower *b = what;
    for (;;) {
        uint64_t seq, word;
        uint32_t cell;
        sl_ledger_advance(a);
        if (sl_ledger_epoch_is_over(a, b->epoch))
            return SL_ERANGE;
        struct sl_phase *phase = lent_phase(a, &seq);
        if (!phase || atomic_load_explicit(&phase->gate, memory_order_acquire) ||
            sl_arena_paused(a) || sl_arena_aborted(a))
            return SL_EAGAIN;
        switch (find(a, b, seq, phase, &cell, &word)) {
        case FOUND_OWN:
            if (!sl_ledger_take(a, seq, cell, word, b->worker, SL_CELL_TRAINING, b->out))
                continue;
            sl_ledger_tell_claimed(a, b->out);
            return SL_OK;
        case FOUND_UNDRAWN: return SL_EAGAIN;
        case FOUND_LOST: continue;
        case FOUND_NONE: break;
        }
        const bool over = atomic_load(&phase->epoch) == b->epoch &&
                          (a->h->spec.world > 0 || !others_work(a, b, seq, phase));
        if (sl_ledger_find(a, seq) == phase && sl_ledger_current(a, SL_LANE_MAIN) == seq)
            return over ? SL_ERANGE : SL_EAGAIN;
    }
}

int sl_ledger_claim_lent(struct sl_arena *a, uint32_t worker, uint32_t rank, uint32_t epoch,
                         uint32_t timeout_ms, struct sl_lease *out)
{
    struct borrower b = {.worker = worker, .rank = rank, .epoch = epoch, .out = out};
    const int rc = sl_arena_try(a, &a->h->progress, timeout_ms, claim_lent, &b);
    if (rc == SL_OK)
        SL_FAILPOINT(TRAINER_CLAIMED);
    // The job may end with its last epoch, before the trainer asks.
    return rc == SL_EABORTED && sl_ledger_epoch_is_over(a, epoch) ? SL_ERANGE : rc;
}
