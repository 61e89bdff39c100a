#include "trainer/sync.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "common/base/mempool.h"

// An update goes over the parameters in pieces, so that the reduced gradient of a piece is still
// in the cache when the optimizer reads it. The result does not depend on the size.
enum { PIECE_FLOATS = 128 * 1024 };

uint32_t sl_sync_state_arrays(enum sl_optimizer_kind kind)
{
    return kind == SL_OPTIMIZER_ADAM ? 2 : 1;
}

static int check_shape(const struct sl_sync *s)
{
    const struct sl_arena_spec *spec = &s->arena->h->spec;
    if (spec->n_params != s->n_params || spec->n_state != sl_sync_state_arrays(s->optimizer) ||
        spec->batches_per_update == 0)
        return sl_fail(SL_EPROTO,
                       "trainer: the arena has room for %llu parameters with %u state arrays and "
                       "%u batches an update, wanted %llu, %u and at least 1: broker and trainer "
                       "are not of the same build",
                       (unsigned long long)spec->n_params, spec->n_state, spec->batches_per_update,
                       (unsigned long long)s->n_params, sl_sync_state_arrays(s->optimizer));
    if ((spec->async != 0) != s->async || s->device >= spec->n_devices)
        return sl_fail(SL_EPROTO,
                       "trainer: the arena is for %s updates on %u devices, wanted %s ones with a "
                       "device %u: broker and trainer are not of the same build",
                       spec->async ? "async" : "ordered", spec->n_devices,
                       s->async ? "async" : "ordered", s->device);
    return SL_OK;
}

int sl_sync_init(struct sl_sync *s, const struct sl_sync_spec *spec)
{
    const struct sl_config *config = spec->config;
    *s = (struct sl_sync){
        .arena = spec->arena,
        .worker = spec->worker,
        .device = spec->device,
        .kernels = spec->kernels,
        .async = config->updates.mode == SL_UPDATE_ASYNC,
        .optimizer = config->optimizer.kind,
        .adam = {.lr = (float)config->optimizer.lr,
                 .beta1 = (float)config->optimizer.beta1,
                 .beta2 = (float)config->optimizer.beta2,
                 .eps = (float)config->optimizer.eps,
                 .weight_decay = (float)config->optimizer.weight_decay},
        .sgd = {.lr = (float)config->optimizer.lr,
                .momentum = (float)config->optimizer.momentum,
                .weight_decay = (float)config->optimizer.weight_decay},
        .n_params = spec->n_params,
        .stop = spec->stop,
    };
    SL_TRY(check_shape(s));
    s->scratch = aligned_alloc(SL_CACHE_LINE, PIECE_FLOATS * sizeof *s->scratch);
    s->slots = calloc(spec->arena->h->spec.batches_per_update, sizeof *s->slots);
    if (s->async)
        s->joined = sl_pages_alloc(s->n_params * sizeof *s->joined);
    if (!s->scratch || !s->slots || (s->async && !s->joined)) {
        sl_sync_fini(s);
        return sl_fail(SL_ENOMEM, "trainer: no memory for the reduction of gradients");
    }
    return SL_OK;
}

void sl_sync_fini(struct sl_sync *s)
{
    free(s->scratch);
    free(s->slots);
    sl_pages_free(s->joined, s->n_params * sizeof *s->joined);
    s->scratch = NULL;
    s->slots = NULL;
    s->joined = NULL;
}

// One piece of the step from version u->version to the next.
static int step_piece(struct sl_sync *s, const struct sl_update *u, uint64_t at, uint64_t n)
{
    struct sl_arena *a = s->arena;
    uint64_t now = u->version, next = now + 1;
    const float *p = sl_board_params(a, now) + at;
    float *p_out = sl_board_params(a, next) + at;
    if (s->optimizer == SL_OPTIMIZER_SGD)
        return s->kernels->sgd(&s->sgd, n, s->scratch, p, sl_board_state(a, now, 0) + at, p_out,
                               sl_board_state(a, next, 0) + at);
    struct sl_adam_step step = s->adam;
    step.t = next;
    return s->kernels->adam(&step, n, s->scratch, p, sl_board_state(a, now, 0) + at,
                            sl_board_state(a, now, 1) + at, p_out, sl_board_state(a, next, 0) + at,
                            sl_board_state(a, next, 1) + at);
}

static int apply(struct sl_sync *s, const struct sl_update *u)
{
    uint64_t counted = 0;
    for (uint32_t i = 0; i < u->n_cells; i++)
        counted += sl_ledger_entry(s->arena, u->seq, u->first_cell + i)->counted;
    // Batches without a labelled seed have no gradient; the step is then weight decay alone.
    float scale = counted ? (float)(1.0 / (double)counted) : 0.0f;
    uint64_t half = s->n_params / 2;
    for (uint64_t at = 0; at < s->n_params; at += PIECE_FLOATS) {
        uint64_t n = SL_MIN((uint64_t)PIECE_FLOATS, s->n_params - at);
        for (uint32_t i = 0; i < u->n_cells; i++)
            s->slots[i] = sl_board_update_gradient(s->arena, u, i) + at;
        SL_TRY(s->kernels->reduce(s->slots, u->n_cells, n, scale, s->scratch));
        if (at <= half && half < at + n)
            SL_FAILPOINT(TRAINER_APPLY);
        SL_TRY(step_piece(s, u, at, n));
    }
    return SL_OK;
}

int sl_sync_help(struct sl_sync *s)
{
    struct sl_update u;
    while (sl_board_begin_update(s->arena, s->worker, &u) == SL_OK) {
        uint64_t start = sl_now_ns();
        SL_TRY(apply(s, &u));
        uint64_t took = sl_now_ns() - start;
        // The phase can not end before the commit, so the entry is still this update's own. The
        // time belongs to whoever applies, and stands with the update's last batch.
        sl_ledger_entry(s->arena, u.seq, u.first_cell + u.n_cells - 1)->train_ns += took;
        s->apply_ns += took;
        s->applied++;
        sl_board_commit_update(s->arena, &u);
    }
    return SL_OK;
}

static bool stopping(const struct sl_sync *s)
{
    return sl_arena_aborted(s->arena) ||
           (s->stop && atomic_load_explicit(s->stop, memory_order_relaxed));
}

// Tries until the deadline, helping in between. An attempt says SL_OK, SL_EAGAIN to go on waiting,
// or what ends the wait.
static int wait_helping(struct sl_sync *s, uint32_t timeout_ms,
                        int (*attempt)(struct sl_sync *s, void *what), void *what)
{
    struct sl_arena *a = s->arena;
    uint64_t deadline = sl_now_ns() + (uint64_t)timeout_ms * 1000000;
    for (;;) {
        // Read before the conditions: a change after this makes the wait return at once.
        uint32_t seen = sl_event_read(&a->h->update);
        if (stopping(s))
            return SL_EABORTED;
        uint64_t version = sl_board_version(a);
        int rc = attempt(s, what);
        if (rc != SL_EAGAIN)
            return rc;
        SL_TRY(sl_sync_help(s));
        if (sl_board_version(a) != version)
            continue;
        uint64_t now = sl_now_ns();
        if (now >= deadline)
            return SL_ETIMEDOUT;
        sl_event_wait(&a->h->update, seen,
                      (uint32_t)SL_MIN((deadline - now) / 1000000 + 1, (uint64_t)SL_ARENA_WAIT_MS));
    }
}

static int version_is_there(struct sl_sync *s, void *what)
{
    const uint64_t *wanted = what;
    uint64_t version = sl_board_version(s->arena);
    if (version > *wanted)
        return SL_ESTALE;
    return version == *wanted ? SL_OK : SL_EAGAIN;
}

int sl_sync_wait(struct sl_sync *s, const struct sl_lease *lease, uint32_t timeout_ms)
{
    uint64_t wanted = sl_board_cell_version(s->arena, lease->phase, lease->cell);
    return wait_helping(s, timeout_ms, version_is_there, &wanted);
}

static int try_join(struct sl_sync *s, void *what)
{
    return sl_board_join(s->arena, s->device, s->worker, s->joined, what);
}

int sl_sync_join(struct sl_sync *s, uint32_t timeout_ms, uint64_t *version)
{
    return wait_helping(s, timeout_ms, try_join, version);
}
