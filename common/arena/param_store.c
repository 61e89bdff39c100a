/*
 * param_store.c - updates that survive their makers.
 *
 * ORDERED. The next update is a function of version and cells, so the apply lock only keeps two
 * workers from doing the same work. Whoever holds it writes the bank that is not current; the flip
 * of the version is the commit.
 *
 * ASYNC. Which gradient is next is decided under the apply lock, and so is who may join. Facts:
 *
 *   seat.base   != 0: a gradient is outstanding. Set by join under the lock; cleared by withdraw,
 *               by reclaim, or once it has been applied. The other fields of the seat mean
 *               nothing while it is 0.
 *   finished    word != 0, and the cell is done with this very lease. Cells are compared and
 *               swapped, so it is true from one instant on, and not of a batch that was taken
 *               back and trained by somebody else.
 *   used        word != 0, and made_by[version & 1] is the seat's tag: the current version was
 *               made with it. Whoever takes the lock clears such a seat before anything else
 *               ("settles"), so made_by of the current version is all that must be remembered.
 *
 * A phase stays current until all of its updates are applied, so the cell of a finished gradient
 * that is not used is still its own. Where a worker can die:
 *
 *   join: before base is set        nothing has happened
 *   join: after that, or copying    reclaim clears base, then frees the lock
 *   computing; offer half written   the cell goes back to ready; reclaim clears base
 *   offered, cell not done          likewise: word names a lease that cannot be completed any more
 *   cell done                       finished: reclaim leaves it, anybody applies it
 *   applying                        the lock is freed; the other bank is written again, perhaps
 *                                   with another gradient, which overwrites made_by of that bank
 *   version flipped, base still set the next one to take the lock finds it used and clears it
 *   base cleared, lock held         the lock is freed
 *   withdrawing                     word is cleared by the next join; base alone counts
 *
 * THE BOUND. Sorted by base, b_0 <= b_1 <= .., all outstanding gradients can be applied in time
 * from version v on exactly when v + i - b_i <= staleness for all i (earliest deadline first). It
 * holds at the start and is kept: join adds the largest base, v itself, at index n, which needs
 * n <= staleness; taking the gradient at index j costs those before it one version and nobody
 * else anything; a withdrawal moves others forward. Only gradients that are not finished need
 * asking: the oldest finished one is taken first. If even that one has to wait, it waits for a
 * gradient that a living worker computes without waiting for anybody, or for a reclaim.
 *
 * Memory orders (the edges they pair with):
 *
 *   version     release by commit         acquire by readers: the bank, the update's entry
 *   apply       acq_rel both ways         what was done under the lock
 *   seat.word   release by offer          acquire: seq, cell and tag of the seat
 *   cell        release by complete       acquire by is_finished: the gradient
 *   seat.base   release by join, commit   acquire: the update's entry
 */
#include "common/arena/param_store.h"

#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/arena/ledger_internal.h"
#include "common/arena/node_parts.h"

// Seats stand behind the store.
static struct sl_param_store_seat *seat_of(const struct sl_arena *a, uint32_t device)
{
    return (struct sl_param_store_seat *)(sl_param_store_of(a) + 1) + device;
}

// Arrays stand as: bank 0 {params, state...}, bank 1 {params, state...}, best, pinned, gradient
// slots.
static float *array(const struct sl_arena *a, uint64_t bank, uint64_t i)
{
    return (float *)sl_arena_region(a, SL_REGION_PARAMS) +
           (bank * (1 + a->h->spec.n_state) + i) * a->h->param_stride;
}

enum { BEHIND_BANKS = 2, BEST = 0, PINNED, SLOTS }; // array()

float *sl_param_store_params(const struct sl_arena *a, uint64_t version)
{
    return array(a, version & 1, 0);
}

float *sl_param_store_state(const struct sl_arena *a, uint64_t version, uint32_t i)
{
    return array(a, version & 1, 1 + i);
}

float *sl_param_store_best(const struct sl_arena *a)
{
    return array(a, BEHIND_BANKS, BEST);
}

float *sl_param_store_pinned(const struct sl_arena *a)
{
    return array(a, BEHIND_BANKS, PINNED);
}

float *sl_param_store_gradient(const struct sl_arena *a, uint32_t cell)
{
    return array(a, BEHIND_BANKS, SLOTS + cell % a->h->spec.batches_per_update);
}

float *sl_param_store_device_gradient(const struct sl_arena *a, uint32_t device)
{
    return array(a, BEHIND_BANKS, SLOTS + device);
}

const float *sl_param_store_update_gradient(const struct sl_arena *a, const struct sl_update *u,
                                            uint32_t i)
{
    return a->h->spec.async ? sl_param_store_device_gradient(a, u->device)
                            : sl_param_store_gradient(a, u->first_cell + i);
}

struct sl_update_entry *sl_param_store_update_entry(const struct sl_arena *a,
                                                    const struct sl_update *u)
{
    return sl_ledger_update(a, u->seq, u->first_cell + u->n_cells - 1);
}

uint32_t sl_param_store_update_gradients(const struct sl_arena *a, const struct sl_update *u)
{
    return a->h->spec.exchange ? 1 : u->n_cells;
}

uint64_t sl_param_store_cell_version(const struct sl_arena *a, const struct sl_phase *phase,
                                     uint32_t cell)
{
    return atomic_load(&phase->first_version) + cell / a->h->spec.batches_per_update;
}

// --- the apply lock ---

static bool lock(struct sl_arena *a, uint64_t version, uint32_t worker)
{
    uint64_t mine = (version + 1) << 16 | worker, free_lock = 0;
    return atomic_compare_exchange_strong(&sl_param_store_of(a)->apply, &free_lock, mine);
}

// Whoever looked meanwhile found the lock taken: tell them to look again.
static void unlock(struct sl_arena *a)
{
    atomic_store_explicit(&sl_param_store_of(a)->apply, 0, memory_order_release);
    sl_event_signal(&a->h->progress);
}

// --- async: gradients that are outstanding ---

static uint64_t base_of(const struct sl_param_store_seat *s)
{
    return atomic_load_explicit(&s->base, memory_order_acquire);
}

// Done with the lease that the seat was offered with. (base is set.)
static bool is_finished(const struct sl_arena *a, struct sl_param_store_seat *s)
{
    uint64_t word = atomic_load_explicit(&s->word, memory_order_acquire);
    if (word == 0)
        return false;
    uint64_t seq = atomic_load_explicit(&s->seq, memory_order_relaxed);
    uint32_t cell = atomic_load_explicit(&s->cell, memory_order_relaxed);
    return sl_ledger_word(a, seq, cell) == sl_cell_done(word);
}

// The seat whose gradient made the current version and that somebody who died between his commit
// and the clearing has left there; NULL: none.
static struct sl_param_store_seat *find_unsettled(const struct sl_arena *a)
{
    uint64_t used = atomic_load(&sl_param_store_of(a)->made_by[sl_param_store_version(a) & 1]);
    for (uint32_t d = 0; d < a->h->spec.n_devices; d++) {
        struct sl_param_store_seat *s = seat_of(a, d);
        if (base_of(s) != 0 && atomic_load_explicit(&s->word, memory_order_acquire) != 0 &&
            atomic_load_explicit(&s->tag, memory_order_relaxed) == used)
            return s;
    }
    return NULL;
}

// With the lock held, before anything else. No two gradients have one tag.
static void settle(const struct sl_arena *a)
{
    struct sl_param_store_seat *s = find_unsettled(a);
    if (s)
        atomic_store(&s->base, 0);
}

static uint32_t n_outstanding(const struct sl_arena *a)
{
    uint32_t n = 0;
    for (uint32_t d = 0; d < a->h->spec.n_devices; d++)
        n += base_of(seat_of(a, d)) != 0;
    return n;
}

/*
 * True when version + 1 may be made with a gradient of this base, though seat s, which is not
 * finished, comes before it. All that are not younger than s and come before it are unfinished, as
 * the one to be taken is the oldest finished one; of equals the last one is the critical one.
 */
static bool can_wait(const struct sl_arena *a, const struct sl_param_store_seat *s,
                     uint64_t version)
{
    uint64_t base = base_of(s), not_younger = 0;
    if (base == 0) // withdrawn meanwhile
        return true;
    for (uint32_t d = 0; d < a->h->spec.n_devices; d++) {
        uint64_t other = base_of(seat_of(a, d));
        not_younger += other != 0 && other <= base;
    }
    // Its index is not_younger - 1, its version base - 1; one more version would be made before it.
    return version + not_younger <= base - 1 + a->h->spec.staleness;
}

// The seat whose gradient makes version + 1; NULL when there is none yet. A hint without the lock.
static struct sl_param_store_seat *choose(const struct sl_arena *a, uint64_t version,
                                          uint32_t *device)
{
    struct sl_param_store_seat *best = NULL;
    uint64_t best_base = 0, best_tag = 0;
    for (uint32_t d = 0; d < a->h->spec.n_devices; d++) {
        struct sl_param_store_seat *s = seat_of(a, d);
        uint64_t base = base_of(s);
        if (base == 0 || !is_finished(a, s))
            continue;
        uint64_t tag = atomic_load_explicit(&s->tag, memory_order_relaxed);
        if (!best || base < best_base || (base == best_base && tag < best_tag)) {
            best = s;
            best_base = base;
            best_tag = tag;
            *device = d;
        }
    }
    for (uint32_t d = 0; best && d < a->h->spec.n_devices; d++) {
        struct sl_param_store_seat *s = seat_of(a, d);
        uint64_t base = base_of(s);
        if (base != 0 && base < best_base && !can_wait(a, s, version))
            best = NULL;
    }
    return best;
}

int sl_param_store_join(struct sl_arena *a, uint32_t device, uint32_t worker, float *params,
                        uint64_t *version)
{
    struct sl_param_store_seat *s = seat_of(a, device);
    bool full = base_of(s) != 0 || n_outstanding(a) > a->h->spec.staleness;
    if (full && !find_unsettled(a))
        return SL_EAGAIN;
    if (!lock(a, sl_param_store_version(a), worker))
        return SL_EAGAIN;
    settle(a);
    // Under the lock nobody else joins and no version is made.
    if (base_of(s) != 0 || n_outstanding(a) > a->h->spec.staleness) {
        unlock(a);
        return SL_EAGAIN;
    }
    uint64_t v = sl_param_store_version(a);
    atomic_store(&s->word, 0);
    atomic_store(&s->worker, worker);
    atomic_store_explicit(&s->base, v + 1, memory_order_release);
    SL_FAILPOINT(TRAINER_JOINED);
    memcpy(params, sl_param_store_params(a, v), a->h->spec.n_params * sizeof *params);
    unlock(a);
    *version = v;
    return SL_OK;
}

// Ends it unless it is finished. Nobody but its worker, or the broker for it, does this.
static void take_off(struct sl_arena *a, struct sl_param_store_seat *s, uint32_t worker)
{
    uint64_t base = base_of(s);
    if (base != 0 && atomic_load(&s->worker) == worker && !is_finished(a, s))
        atomic_compare_exchange_strong(&s->base, &base, 0);
}

void sl_param_store_withdraw(struct sl_arena *a, uint32_t device, uint32_t worker)
{
    take_off(a, seat_of(a, device), worker);
    sl_event_signal(&a->h->progress);
}

void sl_param_store_offer(struct sl_arena *a, uint32_t device, const struct sl_lease *lease)
{
    struct sl_param_store_seat *s = seat_of(a, device);
    atomic_store_explicit(&s->seq, lease->seq, memory_order_relaxed);
    atomic_store_explicit(&s->tag, lease->tag, memory_order_relaxed);
    atomic_store_explicit(&s->cell, lease->cell, memory_order_relaxed);
    atomic_store_explicit(&s->word, lease->word, memory_order_release);
    SL_FAILPOINT(TRAINER_OFFERED);
}

static int begin_async(struct sl_arena *a, uint32_t worker, struct sl_update *out)
{
    uint64_t version = sl_param_store_version(a);
    uint32_t device = 0;
    if (!choose(a, version, &device) && !find_unsettled(a))
        return SL_EAGAIN;
    if (!lock(a, version, worker))
        return SL_EAGAIN;
    settle(a);
    version = sl_param_store_version(a);
    const struct sl_param_store_seat *s = choose(a, version, &device);
    if (!s) {
        unlock(a);
        return SL_EAGAIN;
    }
    *out = (struct sl_update){.version = version,
                              .seq = atomic_load_explicit(&s->seq, memory_order_relaxed),
                              .first_cell = atomic_load_explicit(&s->cell, memory_order_relaxed),
                              .n_cells = 1,
                              .device = device};
    return SL_OK;
}

// --- both modes ---

static bool all_are(const struct sl_arena *a, uint64_t seq, uint32_t first, uint32_t n,
                    enum sl_cell_state state)
{
    for (uint32_t i = first; i < first + n; i++) {
        uint64_t w = sl_ledger_word(a, seq, i);
        if (sl_cell_seq(w) != seq || sl_cell_state(w) != (uint32_t)state)
            return false;
    }
    return true;
}

int sl_param_store_next(const struct sl_arena *a, struct sl_update *out)
{
    uint64_t seq = sl_ledger_current(a, SL_LANE_MAIN);
    const struct sl_phase *phase = sl_ledger_find(a, seq);
    if (!phase)
        return SL_EAGAIN;
    uint64_t version = sl_param_store_version(a);
    uint64_t first_version = atomic_load(&phase->first_version);
    if (version < first_version || version >= atomic_load(&phase->end_version))
        return SL_EAGAIN;
    uint32_t per_update = a->h->spec.batches_per_update;
    uint64_t first = (version - first_version) * per_update;
    uint32_t n_cells = atomic_load(&phase->n_cells);
    if (first >= n_cells)
        return SL_EAGAIN;
    uint32_t n = (uint32_t)SL_MIN((uint64_t)per_update, n_cells - first);
    *out = (struct sl_update){
        .version = version, .seq = seq, .first_cell = (uint32_t)first, .n_cells = n};
    return SL_OK;
}

// Ordered: the next update of the current phase, when all of its cells are in this state.
static int find_next(const struct sl_arena *a, enum sl_cell_state state, struct sl_update *out)
{
    if (sl_param_store_next(a, out) < 0 ||
        !all_are(a, out->seq, out->first_cell, out->n_cells, state))
        return SL_EAGAIN;
    return SL_OK;
}

int sl_param_store_next_held(const struct sl_arena *a, struct sl_update *out)
{
    return find_next(a, SL_CELL_HELD, out);
}

// Whether nobody has made the update, on several nodes this one's slice of it.
static bool is_to_be_made(const struct sl_arena *a, const struct sl_update *u)
{
    return sl_param_store_version(a) == u->version && (!sl_nodes_any(a) || sl_nodes_may_make(a, u));
}

static int begin_ordered(struct sl_arena *a, uint32_t worker, struct sl_update *out)
{
    if (find_next(a, SL_CELL_DONE, out) < 0 || !is_to_be_made(a, out) ||
        !lock(a, out->version, worker))
        return SL_EAGAIN;
    // Between our look and the lock somebody may have applied this very update.
    if (!is_to_be_made(a, out)) {
        unlock(a);
        return SL_EAGAIN;
    }
    return SL_OK;
}

int sl_param_store_begin_update(struct sl_arena *a, uint32_t worker, struct sl_update *out)
{
    return a->h->spec.async ? begin_async(a, worker, out) : begin_ordered(a, worker, out);
}

void sl_param_store_commit_update(struct sl_arena *a, const struct sl_update *u)
{
    struct sl_param_store *board = sl_param_store_of(a);
    struct sl_param_store_seat *s = a->h->spec.async ? seat_of(a, u->device) : NULL;
    if (s) {
        struct sl_update_entry *e = sl_param_store_update_entry(a, u);
        e->base_version = base_of(s) - 1;
        e->applied_version = u->version;
        atomic_store(&board->made_by[(u->version + 1) & 1],
                     atomic_load_explicit(&s->tag, memory_order_relaxed));
    }
    SL_FAILPOINT(TRAINER_APPLIED);
    // Release: the new bank and the update's entry are written before the version says so.
    atomic_store_explicit(sl_nodes_any(a) ? &board->made : &board->version, u->version + 1,
                          memory_order_release);
    SL_FAILPOINT(TRAINER_FLIPPED);
    if (s)
        atomic_store(&s->base, 0);
    unlock(a);
    sl_ledger_advance(a);
}

int sl_param_store_flip(struct sl_arena *a, uint64_t version, uint32_t worker)
{
    struct sl_param_store *board = sl_param_store_of(a);
    if (!lock(a, version, worker))
        return SL_EAGAIN;
    atomic_store_explicit(&board->version, version + 1, memory_order_release);
    unlock(a);
    sl_ledger_advance(a);
    return SL_OK;
}

void sl_param_store_reclaim(struct sl_arena *a, uint32_t worker)
{
    struct sl_param_store *board = sl_param_store_of(a);
    for (uint32_t d = 0; a->h->spec.async && d < a->h->spec.n_devices; d++)
        take_off(a, seat_of(a, d), worker);
    uint64_t lock_word = atomic_load(&board->apply);
    if (lock_word != 0 && (lock_word & 0xffff) == worker)
        atomic_compare_exchange_strong(&board->apply, &lock_word, 0);
}

// --- checkpoints ---

enum { BROKER = 0 }; // no worker has this id

int sl_param_store_freeze(struct sl_arena *a, bool alone)
{
    if (alone)
        atomic_store(&sl_param_store_of(a)->apply, 0);
    if (!lock(a, sl_param_store_version(a), BROKER))
        return SL_EAGAIN;
    if (a->h->spec.async)
        settle(a);
    return SL_OK;
}

void sl_param_store_thaw(struct sl_arena *a)
{
    unlock(a);
}

bool sl_param_store_is_applied(const struct sl_arena *a, uint64_t seq, uint32_t cell)
{
    if (!all_are(a, seq, cell, 1, SL_CELL_DONE))
        return false;
    const struct sl_phase *phase = sl_ledger_phase(a, seq);
    uint64_t version = sl_param_store_version(a);
    if (!a->h->spec.async)
        return sl_param_store_cell_version(a, phase, cell) < version;
    if (version >= atomic_load(&phase->end_version))
        return true;
    // Done, so its gradient was offered before: it is in a seat until it is applied, and in none
    // afterwards. (acquire, of base: what the applier wrote)
    for (uint32_t d = 0; d < a->h->spec.n_devices; d++) {
        struct sl_param_store_seat *s = seat_of(a, d);
        if (base_of(s) != 0 && is_finished(a, s) &&
            atomic_load_explicit(&s->seq, memory_order_relaxed) == seq &&
            atomic_load_explicit(&s->cell, memory_order_relaxed) == cell)
            return false;
    }
    return true;
}

void sl_param_store_restore(struct sl_arena *a, uint64_t version)
{
    struct sl_param_store *board = sl_param_store_of(a);
    atomic_store(&board->made, version);
    atomic_store(&board->whole, version);
    atomic_store_explicit(&board->version, version, memory_order_release);
}
