#include "common/arena/nodes.h"

#include <string.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "common/arena/ledger.h"
#include "common/arena/ledger_internal.h"
#include "common/arena/param_store.h"

enum { HEARD_BITS = 8 };

_Static_assert(SL_NODES_MAX < 1 << HEARD_BITS, "nodes are counted in the word of who was heard");

// --- batches -------------------------------------------------------------------------------------

int sl_nodes_next(const struct sl_arena *a, struct sl_nodes_step *out)
{
    struct sl_update u;
    if (sl_arena_aborted(a))
        return SL_EABORTED;
    if (sl_param_store_next(a, &u) < 0)
        return SL_EAGAIN;
    *out = (struct sl_nodes_step){.version = u.version,
                                  .seq = u.seq,
                                  .epoch = atomic_load(&sl_ledger_phase(a, u.seq)->epoch),
                                  .first_cell = u.first_cell,
                                  .n_cells = u.n_cells};
    return SL_OK;
}

uint32_t sl_nodes_first_cell(const struct sl_arena *a, const struct sl_nodes_step *s, uint32_t node)
{
    (void)a;
    return node < s->n_cells ? s->first_cell + node : SL_NODES_NO_CELL;
}

bool sl_nodes_cell_is_done(const struct sl_arena *a, const struct sl_nodes_step *s, uint32_t cell)
{
    const uint64_t word = sl_ledger_word(a, s->seq, cell);
    return sl_cell_seq(word) == s->seq && sl_cell_state(word) == SL_CELL_DONE;
}

void sl_nodes_fill_batch(const struct sl_arena *a, const struct sl_nodes_step *s, uint32_t cell,
                         struct sl_nodes_batch *out)
{
    memset(out, 0, sizeof *out);
    out->magic = SL_NODES_BATCH_MAGIC;
    out->version = s->version;
    out->epoch = s->epoch;
    out->cell = cell;
    if (cell != SL_NODES_NO_CELL)
        out->entry = *sl_ledger_entry(a, s->seq, cell);
}

float *sl_nodes_gradient(const struct sl_arena *a, uint32_t cell)
{
    return sl_param_store_gradient(a, cell);
}

int sl_nodes_check_batch(const struct sl_arena *a, const struct sl_nodes_step *s, uint32_t from,
                         uint32_t cell, const struct sl_nodes_batch *b)
{
    (void)a;
    if (b->magic != SL_NODES_BATCH_MAGIC)
        return sl_fail(SL_EPROTO, "node %u: a batch was expected, magic 0x%llx, wanted 0x%llx",
                       from, (unsigned long long)b->magic, SL_NODES_BATCH_MAGIC);
    if (b->version == s->version && b->epoch == s->epoch && b->cell == cell)
        return SL_OK;
    return sl_fail(SL_EPROTO,
                   "node %u: it sent batch %d of epoch %u for version %llu, wanted batch %d of "
                   "epoch %u for version %llu: the nodes do not run the same plan",
                   from, (int)b->cell + 1, b->epoch + 1, (unsigned long long)b->version,
                   (int)cell + 1, s->epoch + 1, (unsigned long long)s->version);
}

// Times of day in an entry, and what names a worker.
// clang-format off
#define TIMES(X) \
    X(sampling_at_ns) X(ready_at_ns) X(fetch_from_ns) X(claimed_at_ns) X(extract_from_ns) \
    X(taken_at_ns) X(train_from_ns) X(done_at_ns) X(sum_from_ns)
#define MOVE(field) e->field = e->field ? SL_MIN(e->field + (uint64_t)clock_ns, now) : 0;
// clang-format on

// What has arrived is past, however well the two clocks have been compared.
static void take_entry(const struct sl_arena *a, uint32_t from, const struct sl_batch_entry *sent,
                       int64_t clock_ns, struct sl_batch_entry *e)
{
    const uint64_t now = sl_now_ns();
    *e = *sent;
    e->payload_offset = e->payload_tag = 0; // its block is not here
    e->mirror_version = 0;
    TIMES(MOVE)
    e->sampler = sl_nodes_worker(a, from, e->sampler);
    e->trainer = sl_nodes_worker(a, from, e->trainer);
}

// One more node that has no cell in the step.
static void hear(struct sl_arena *a, const struct sl_nodes_step *s)
{
    _Atomic uint64_t *heard = &sl_param_store_of(a)->heard;
    const uint64_t was = atomic_load(heard);
    atomic_store(heard, was >> HEARD_BITS == s->version ? was + 1 : s->version << HEARD_BITS | 1);
}

int sl_nodes_batch_arrived(struct sl_arena *a, const struct sl_nodes_step *s, uint32_t from,
                           uint32_t cell, const struct sl_nodes_batch *b, int64_t clock_ns)
{
    SL_TRY(sl_nodes_check_batch(a, s, from, cell, b));
    if (cell == SL_NODES_NO_CELL) {
        hear(a, s);
    } else {
        uint64_t word = sl_ledger_word(a, s->seq, cell);
        if (sl_cell_seq(word) != s->seq || sl_cell_state(word) != SL_CELL_ELSEWHERE ||
            sl_nodes_owner(a, SL_PHASE_TRAIN, cell) != from)
            return sl_fail(SL_EPROTO, "node %u: its batch %u of epoch %u is not waited for", from,
                           cell + 1, s->epoch + 1);
        // The link alone moves such a cell.
        take_entry(a, from, &b->entry, clock_ns, sl_ledger_entry(a, s->seq, cell));
        atomic_store_explicit(sl_ledger_cell(a, s->seq, cell), sl_cell_done(word),
                              memory_order_release);
    }
    sl_event_signal(&a->h->progress);
    sl_ledger_advance(a);
    return SL_OK;
}

// --- results of evaluations ----------------------------------------------------------------------

int sl_nodes_next_eval(const struct sl_arena *a, struct sl_nodes_eval *out)
{
    const uint64_t seq = sl_ledger_current(a, SL_LANE_MAIN);
    const struct sl_phase *phase = seq <= sl_ledger_opened(a) ? sl_ledger_find(a, seq) : NULL;
    if (sl_arena_aborted(a))
        return SL_EABORTED;
    if (!phase || atomic_load(&phase->kind) != SL_PHASE_EVAL ||
        atomic_load_explicit(&phase->gate, memory_order_acquire))
        return SL_EAGAIN;
    // The phase is current until the link has given its results, so nobody writes its spec.
    *out = (struct sl_nodes_eval){.seq = seq,
                                  .epoch = atomic_load(&phase->epoch),
                                  .set = phase->spec.set,
                                  .n_cells = atomic_load(&phase->n_cells)};
    return SL_OK;
}

bool sl_nodes_result_is_there(const struct sl_arena *a, const struct sl_nodes_eval *e,
                              uint32_t cell)
{
    return sl_cell_state(sl_ledger_word(a, e->seq, cell)) == SL_CELL_DONE;
}

// Predictions of a cell's seeds, and how many bytes they are.
static void *predictions_of(const struct sl_arena *a, const struct sl_nodes_eval *e, uint32_t cell,
                            size_t *bytes)
{
    uint32_t n;
    const uint64_t first = sl_phase_range(sl_ledger_phase(a, e->seq), cell, &n);
    const size_t row_bytes = a->h->spec.predict_words * sizeof(uint32_t);
    *bytes = n * row_bytes;
    return (char *)sl_arena_region(a, SL_REGION_PREDICT) + first * row_bytes;
}

size_t sl_nodes_result_bytes(const struct sl_arena *a, const struct sl_nodes_eval *e, uint32_t cell)
{
    size_t bytes;
    predictions_of(a, e, cell, &bytes);
    return sizeof(struct sl_nodes_result) + bytes;
}

void sl_nodes_fill_result(const struct sl_arena *a, const struct sl_nodes_eval *e, uint32_t cell,
                          struct sl_nodes_result *out)
{
    size_t bytes;
    const void *predictions = predictions_of(a, e, cell, &bytes);
    *out = (struct sl_nodes_result){.magic = SL_NODES_RESULT_MAGIC,
                                    .epoch = e->epoch,
                                    .set = e->set,
                                    .cell = cell,
                                    .entry = *sl_ledger_entry(a, e->seq, cell)};
    memcpy(out + 1, predictions, bytes);
}

int sl_nodes_result_arrived(struct sl_arena *a, const struct sl_nodes_eval *e, uint32_t from,
                            uint32_t cell, const struct sl_nodes_result *r, int64_t clock_ns)
{
    const uint64_t word = sl_ledger_word(a, e->seq, cell);
    size_t bytes;
    if (r->magic != SL_NODES_RESULT_MAGIC || r->epoch != e->epoch || r->set != e->set ||
        r->cell != cell || sl_cell_seq(word) != e->seq ||
        sl_cell_state(word) != SL_CELL_ELSEWHERE || sl_nodes_owner(a, SL_PHASE_EVAL, cell) != from)
        return sl_fail(SL_EPROTO,
                       "node %u: it sent evaluation batch %d of set %u after epoch %u (magic "
                       "0x%llx), wanted batch %u of set %u after epoch %u (0x%llx): the nodes do "
                       "not run the same plan",
                       from, (int)r->cell + 1, r->set, r->epoch + 1, (unsigned long long)r->magic,
                       cell + 1, e->set, e->epoch + 1, SL_NODES_RESULT_MAGIC);
    void *predictions = predictions_of(a, e, cell, &bytes);
    memcpy(predictions, r + 1, bytes);
    take_entry(a, from, &r->entry, clock_ns, sl_ledger_entry(a, e->seq, cell));
    atomic_store_explicit(sl_ledger_cell(a, e->seq, cell), sl_cell_done(word),
                          memory_order_release);
    sl_ledger_advance(a);
    return SL_OK;
}

void sl_nodes_give_results(struct sl_arena *a, const struct sl_nodes_eval *e)
{
    atomic_store_explicit(&sl_ledger_of(a)->given, e->seq, memory_order_release);
    sl_ledger_advance(a);
}

bool sl_nodes_results_are_given(const struct sl_arena *a, uint64_t seq)
{
    return !sl_nodes_any(a) ||
           atomic_load_explicit(&sl_ledger_of(a)->given, memory_order_acquire) >= seq;
}

bool sl_nodes_may_make(const struct sl_arena *a, const struct sl_update *u)
{
    const struct sl_nodes_spec *nodes = &a->h->spec.nodes;
    const struct sl_param_store *store = sl_param_store_of(a);
    if (atomic_load_explicit(&store->made, memory_order_acquire) > u->version)
        return false;
    if (u->n_cells >= nodes->n)
        return true;
    // Those without a cell, this one left out.
    const uint64_t silent = nodes->n - u->n_cells - (nodes->rank >= u->n_cells);
    return silent == 0 || atomic_load(&store->heard) == (u->version << HEARD_BITS | silent);
}

// --- what an update is on the wire ---------------------------------------------------------------

// Headers and gradients of a node's n_cells batches, and its slice, as one other node gets them.
static uint64_t sent_bytes(const struct sl_arena *a, uint32_t from, uint32_t to, uint32_t n_cells)
{
    const uint32_t n = a->h->spec.nodes.n;
    const uint64_t cells = n_cells / n + (from < n_cells % n);
    const uint64_t gradients = cells * sl_nodes_gradient_part(a, to).n * sizeof(float);
    return SL_MAX(cells, (uint64_t)1) * sizeof(struct sl_nodes_batch) + gradients +
           sizeof(struct sl_nodes_made) + sl_nodes_slice(a, from).n * sizeof(float);
}

struct sl_nodes_traffic sl_nodes_update_traffic(const struct sl_arena *a, uint32_t node,
                                                uint32_t n_cells)
{
    struct sl_nodes_traffic t = {0};
    for (uint32_t other = 0; other < a->h->spec.nodes.n; other++) {
        if (other == node)
            continue;
        t.out_bytes += sent_bytes(a, node, other, n_cells);
        t.in_bytes += sent_bytes(a, other, node, n_cells);
    }
    return t;
}

// --- slices --------------------------------------------------------------------------------------

bool sl_nodes_is_made(const struct sl_arena *a, const struct sl_nodes_step *s)
{
    return atomic_load_explicit(&sl_param_store_of(a)->made, memory_order_acquire) > s->version;
}

void sl_nodes_fill_made(const struct sl_nodes_step *s, struct sl_nodes_made *out)
{
    *out = (struct sl_nodes_made){.magic = SL_NODES_SLICE_MAGIC, .version = s->version + 1};
}

int sl_nodes_check_made(const struct sl_nodes_step *s, uint32_t from, const struct sl_nodes_made *m)
{
    if (m->magic == SL_NODES_SLICE_MAGIC && m->version == s->version + 1)
        return SL_OK;
    return sl_fail(SL_EPROTO,
                   "node %u: it sent a slice of version %llu (magic 0x%llx), wanted version %llu "
                   "(0x%llx): the nodes do not run the same plan",
                   from, (unsigned long long)m->version, (unsigned long long)m->magic,
                   (unsigned long long)s->version + 1, SL_NODES_SLICE_MAGIC);
}

float *sl_nodes_params(const struct sl_arena *a, const struct sl_nodes_step *s)
{
    return sl_param_store_params(a, s->version + 1);
}

bool sl_nodes_hold_is_over(const struct sl_arena *a)
{
    const uint64_t asked = atomic_load(&sl_param_store_of(a)->asked_ns);
    return !asked || sl_now_ns() - asked >= (uint64_t)SL_NODES_HOLD_MS * 1000000;
}

int sl_nodes_flip(struct sl_arena *a, const struct sl_nodes_step *s, uint32_t worker)
{
    if (sl_arena_aborted(a)) // what the broker saves at the end stands still
        return SL_EABORTED;
    if (!sl_nodes_is_made(a, s) || !sl_nodes_hold_is_over(a))
        return SL_EAGAIN;
    return sl_param_store_flip(a, s->version, worker);
}

// --- state ---------------------------------------------------------------------------------------

bool sl_nodes_state_is_wanted(const struct sl_arena *a, uint64_t *version)
{
    *version = sl_param_store_version(a);
    return atomic_load(&sl_param_store_of(a)->asked_ns) != 0 && !sl_nodes_state_is_whole(a);
}

bool sl_nodes_has_state(const struct sl_arena *a, uint64_t version)
{
    return sl_param_store_version(a) >= version ||
           atomic_load_explicit(&sl_param_store_of(a)->made, memory_order_acquire) >= version;
}

void sl_nodes_state_arrived(struct sl_arena *a, uint64_t version)
{
    atomic_store_explicit(&sl_param_store_of(a)->whole, version, memory_order_release);
    sl_arena_ring(a);
}

void sl_nodes_ask_state(struct sl_arena *a)
{
    uint64_t none = 0;
    if (atomic_compare_exchange_strong(&sl_param_store_of(a)->asked_ns, &none, sl_now_ns()))
        sl_event_signal(&a->h->progress);
}

void sl_nodes_end_ask(struct sl_arena *a)
{
    if (atomic_exchange(&sl_param_store_of(a)->asked_ns, 0))
        sl_event_signal(&a->h->progress);
}

bool sl_nodes_state_is_whole(const struct sl_arena *a)
{
    return !sl_nodes_any(a) ||
           atomic_load_explicit(&sl_param_store_of(a)->whole, memory_order_acquire) ==
               sl_param_store_version(a);
}
