#include "trainer/model/sync.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "common/base/mempool.h"
#include "common/arena/nodes.h"
#include "trainer/model/broken_update.h"

// An update goes over the parameters in pieces, so that the reduced gradient of a piece is still
// in the cache when the optimizer reads it. The result does not depend on the size.
enum { PIECE_FLOATS = 128 * 1024 };

uint32_t sl_sync_state_arrays(enum sl_optimizer_kind kind)
{
    return kind == SL_OPTIMIZER_SGD ? 1 : 2;
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

static int take_memory(struct sl_sync *s)
{
    s->scratch = aligned_alloc(SL_CACHE_LINE, PIECE_FLOATS * sizeof *s->scratch);
    s->slots = calloc(s->arena->h->spec.batches_per_update, sizeof *s->slots);
    if (s->async)
        s->joined = s->memory->host_alloc(s->n_params * sizeof *s->joined);
    if (s->clip_norm > 0)
        s->whole = sl_pages_alloc(s->n_params * sizeof *s->whole);
    if (!s->scratch || !s->slots || (s->async && !s->joined) || (s->clip_norm > 0 && !s->whole))
        return sl_fail(SL_ENOMEM, "trainer: no memory for the reduction of gradients");
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
        .memory = spec->memory ? spec->memory : sl_device_host(),
        .async = config->updates.mode == SL_UPDATE_ASYNC,
        .optimizer = config->optimizer.kind,
        .adam = {.lr = (float)config->optimizer.lr,
                 .beta1 = (float)config->optimizer.beta1,
                 .beta2 = (float)config->optimizer.beta2,
                 .eps = (float)config->optimizer.eps,
                 .weight_decay = (float)config->optimizer.weight_decay,
                 .decoupled = config->optimizer.kind == SL_OPTIMIZER_ADAMW},
        .sgd = {.lr = (float)config->optimizer.lr,
                .momentum = (float)config->optimizer.momentum,
                .weight_decay = (float)config->optimizer.weight_decay},
        .clip_norm = config->optimizer.clip_norm,
        .n_params = spec->n_params,
        .tensors = spec->tensors,
        .n_tensors = spec->n_tensors,
        .pulse = spec->pulse,
    };
    SL_TRY(check_shape(s));
    sl_learning_rate_init(&s->rate, config, spec->arena->h->spec.n_train);
    int rc = sl_update_runs_init(&s->runs, config, spec->tensors, spec->n_tensors, s->n_params);
    if (rc == SL_OK)
        rc = take_memory(s);
    if (rc == SL_OK && spec->rows)
        sl_row_step_init(&s->rows, spec->rows, spec->kernels, s->optimizer);
    if (rc < 0)
        sl_sync_fini(s);
    return rc;
}

void sl_sync_fini(struct sl_sync *s)
{
    sl_update_runs_fini(&s->runs);
    sl_row_step_fini(&s->rows);
    free(s->scratch);
    free(s->slots);
    if (s->joined)
        s->memory->host_free(s->joined, s->n_params * sizeof *s->joined);
    sl_pages_free(s->whole, s->n_params * sizeof *s->whole);
    s->scratch = NULL;
    s->slots = NULL;
    s->joined = NULL;
    s->whole = NULL;
}

// ---- one update ---------------------------------------------------------------------------------

// What is known before the first piece.
struct constants {
    float scale; // of the sum of the slots
    float clip;  // of the scaled gradient, which is in s->whole; not used where nothing is clipped
    float lr;
    double row_squares; // of the gradients of learned rows, not scaled; where something is clipped
};

static int reduce(struct sl_sync *s, const struct sl_update *u, uint64_t at, uint64_t n,
                  float scale, float *out)
{
    const uint32_t n_slots = sl_param_store_update_gradients(s->arena, u);
    for (uint32_t i = 0; i < n_slots; i++)
        s->slots[i] = sl_param_store_update_gradient(s->arena, u, i) + at;
    return s->kernels->reduce(s->slots, n_slots, n, scale, out);
}

/*
 * The first of two passes where gradients are clipped: the whole gradient, and the factor that
 * brings its norm down to clip_norm (torch.nn.utils.clip_grad_norm_'s). Sums of runs are added in
 * their order, so the factor is the same whoever computes it.
 */
static int measure_norm(struct sl_sync *s, const struct sl_update *u, struct constants *c)
{
    double squares = c->row_squares * c->scale * c->scale;
    for (uint32_t r = 0; r < s->runs.n; r++) {
        const struct sl_update_run *run = &s->runs.run[r];
        if (!sl_update_run_steps(run))
            continue;
        double part;
        SL_TRY(reduce(s, u, run->at, run->n, c->scale, s->whole + run->at));
        SL_TRY(s->kernels->sum_squares(run->n, s->whole + run->at, &part));
        squares += part;
    }
    double factor = s->clip_norm / (sqrt(squares) + 1e-6);
    c->clip = factor < 1 ? (float)factor : 1.0f;
    return SL_OK;
}

static int gradient_piece(struct sl_sync *s, const struct sl_update *u, uint64_t at, uint64_t n,
                          const struct constants *c, const float **out)
{
    *out = s->scratch;
    if (!s->whole)
        return reduce(s, u, at, n, c->scale, s->scratch);
    const float *slot = s->whole + at;
    if (c->clip < 1.0f)
        return s->kernels->reduce(&slot, 1, n, c->clip, s->scratch);
    *out = slot;
    return SL_OK;
}

// One piece of the step from version u->version to the next. *broken: not all of it is finite.
static int step_piece(struct sl_sync *s, const struct sl_update *u, enum sl_update_rule rule,
                      uint64_t at, uint64_t n, const struct constants *c, uint32_t *broken)
{
    struct sl_arena *a = s->arena;
    uint64_t now = u->version, next = now + 1;
    const float *g, *p = sl_param_store_params(a, now) + at;
    float *p_out = sl_param_store_params(a, next) + at;
    SL_TRY(gradient_piece(s, u, at, n, c, &g));
    if (s->optimizer == SL_OPTIMIZER_SGD) {
        struct sl_sgd_step step = s->sgd;
        step.lr = c->lr;
        if (rule == SL_UPDATE_RULE_STEP_UNDECAYED)
            step.weight_decay = 0;
        return s->kernels->sgd(&step, n, g, p, sl_param_store_state(a, now, 0) + at, p_out,
                               sl_param_store_state(a, next, 0) + at, broken);
    }
    struct sl_adam_step step = s->adam;
    step.lr = c->lr;
    step.t = next;
    if (rule == SL_UPDATE_RULE_STEP_UNDECAYED)
        step.weight_decay = 0;
    return s->kernels->adam(&step, n, g, p, sl_param_store_state(a, now, 0) + at,
                            sl_param_store_state(a, now, 1) + at, p_out,
                            sl_param_store_state(a, next, 0) + at,
                            sl_param_store_state(a, next, 1) + at, broken);
}

// Runs without a step: running statistics are a few numbers a channel.
static void carry_piece(struct sl_sync *s, const struct sl_update *u, enum sl_update_rule rule,
                        uint64_t at, uint64_t n, uint32_t *broken)
{
    struct sl_arena *a = s->arena;
    uint64_t now = u->version, next = now + 1;
    float *p = sl_param_store_params(a, next) + at;
    memcpy(p, sl_param_store_params(a, now) + at, n * sizeof *p);
    for (uint32_t i = 0; i < a->h->spec.n_state; i++)
        memcpy(sl_param_store_state(a, next, i) + at, sl_param_store_state(a, now, i) + at,
               n * sizeof *p);
    for (uint32_t i = 0; rule == SL_UPDATE_RULE_RUNNING && i < u->n_cells; i++) {
        const float *batch = sl_param_store_update_gradient(a, u, i) + at;
        // In this form the values themselves, which a batch without statistics of its own gives,
        // are a fixed point.
        for (uint64_t k = 0; k < n; k++)
            p[k] += SL_RUNNING_MOMENTUM * (batch[k] - p[k]);
    }
    for (uint64_t k = 0; k < n; k++)
        *broken |= !isfinite(p[k]);
}

// Finds the learned rows that the update met. *broken: one of their gradients is not finite, where
// gradients are clipped; otherwise their step says so.
static int meet_rows(struct sl_sync *s, const struct sl_update *u, struct constants *c,
                     uint32_t *broken)
{
    if (!s->rows.table)
        return SL_OK;
    SL_TRY(sl_row_step_meet(&s->rows, u, s->clip_norm > 0 ? &c->row_squares : NULL));
    *broken |= !isfinite(c->row_squares);
    return SL_OK;
}

// Everything else of the update is done, and is finite.
static int step_rows(struct sl_sync *s, const struct sl_update *u, const struct constants *c)
{
    struct sl_row_rates rates = {.scale = s->whole ? c->scale * c->clip : c->scale,
                                 .version = u->version,
                                 .adam = s->adam,
                                 .sgd = s->sgd};
    if (!s->rows.table)
        return SL_OK;
    rates.sgd.lr = rates.adam.lr = c->lr;
    rates.adam.t = u->version + 1;
    const double corrected = 1 - pow(s->adam.beta2, (double)rates.adam.t);
    rates.adam.eps = (float)(s->adam.eps / sqrt(corrected)); // row_step.h: SparseAdam's
    return sl_row_step_apply(&s->rows, &rates);
}

static int apply(struct sl_sync *s, const struct sl_update *u)
{
    double weight = 0;
    uint32_t broken = 0;
    for (uint32_t i = 0; i < u->n_cells; i++) {
        const struct sl_batch_entry *e = sl_ledger_entry(s->arena, u->seq, u->first_cell + i);
        weight += e->weight;
        broken |= !isfinite(e->loss);
    }
    // Batches without a labelled seed have no gradient; the step is then weight decay alone.
    struct constants c = {.scale = weight > 0 ? (float)(1.0 / weight) : 0.0f,
                          .lr = (float)sl_learning_rate_at(&s->rate, u->version)};
    SL_TRY(meet_rows(s, u, &c, &broken));
    if (s->clip_norm > 0)
        SL_TRY(measure_norm(s, u, &c));
    const struct sl_nodes_part own = sl_nodes_slice(s->arena, s->arena->h->spec.nodes.rank);
    const uint64_t half = own.first + own.n / 2;
    for (uint32_t r = 0; r < s->runs.n; r++) {
        const struct sl_update_run *run = &s->runs.run[r];
        const uint64_t end = SL_MIN(run->at + run->n, own.first + own.n);
        for (uint64_t at = SL_MAX(run->at, own.first); at < end; at += PIECE_FLOATS) {
            uint64_t n = SL_MIN((uint64_t)PIECE_FLOATS, end - at);
            if (at <= half && half < at + n)
                SL_FAILPOINT(TRAINER_APPLY);
            if (sl_update_run_steps(run))
                SL_TRY(step_piece(s, u, run->rule, at, n, &c, &broken));
            else
                carry_piece(s, u, run->rule, at, n, &broken);
        }
    }
    const struct sl_broken_update found = {.arena = s->arena,
                                           .update = u,
                                           .tensors = s->tensors,
                                           .n_tensors = s->n_tensors,
                                           .scale = c.scale,
                                           .of_rows = !isfinite(c.row_squares),
                                           .lr = sl_learning_rate_at(&s->rate, u->version)};
    return broken ? sl_broken_update_explain(&found) : step_rows(s, u, &c);
}

// What has to be done with the other trainers before an update's batches are done.
static int exchange(struct sl_sync *s)
{
    if (!s->exchange)
        return SL_OK;
    uint64_t before = s->exchange->ns;
    int rc = sl_exchange_help(s->exchange);
    s->apply_ns += s->exchange->ns - before;
    return rc;
}

int sl_sync_help(struct sl_sync *s)
{
    struct sl_update u;
    SL_TRY(exchange(s));
    while (sl_param_store_begin_update(s->arena, s->worker, &u) == SL_OK) {
        uint64_t start = sl_now_ns();
        SL_TRY(apply(s, &u));
        uint64_t took = sl_now_ns() - start;
        *sl_param_store_update_entry(s->arena, &u) =
            (struct sl_update_entry){.from_ns = start, .took_ns = took, .applier = s->worker};
        s->apply_ns += took;
        s->applied++;
        sl_param_store_commit_update(s->arena, &u);
    }
    return SL_OK;
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
        uint32_t seen = sl_event_read(&a->h->progress);
        if (sl_heartbeat_stopping(s->pulse))
            return SL_EABORTED;
        uint64_t version = sl_param_store_version(a);
        int rc = attempt(s, what);
        if (rc != SL_EAGAIN)
            return rc;
        SL_TRY(sl_sync_help(s));
        if (sl_param_store_version(a) != version)
            continue;
        uint64_t now = sl_now_ns();
        if (now >= deadline)
            return SL_ETIMEDOUT;
        uint64_t look_ms = s->exchange ? sl_exchange_poll_ms(s->exchange) : SL_ARENA_WAIT_MS;
        sl_event_wait(&a->h->progress, seen,
                      (uint32_t)SL_MIN((deadline - now) / 1000000 + 1, look_ms));
    }
}

static int version_is_there(struct sl_sync *s, void *what)
{
    const uint64_t *wanted = what;
    uint64_t version = sl_param_store_version(s->arena);
    if (version > *wanted)
        return SL_ESTALE;
    return version == *wanted ? SL_OK : SL_EAGAIN;
}

int sl_sync_wait(struct sl_sync *s, const struct sl_lease *lease, uint32_t timeout_ms)
{
    uint64_t wanted = sl_param_store_cell_version(s->arena, lease->phase, lease->cell);
    return wait_helping(s, timeout_ms, version_is_there, &wanted);
}

static int try_join(struct sl_sync *s, void *what)
{
    return sl_param_store_join(s->arena, s->device, s->worker, s->joined, what);
}

int sl_sync_join(struct sl_sync *s, uint32_t timeout_ms, uint64_t *version)
{
    return wait_helping(s, timeout_ms, try_join, version);
}
