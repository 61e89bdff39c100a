#include "trainer/loop.h"

#include <time.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "trainer/evaluate.h"
#include "trainer/extract.h"
#include "trainer/objective.h"
#include "trainer/sync.h"

struct loop {
    const struct sl_trainer_spec *spec;
    struct sl_sync sync;
    struct sl_extract extract;
    struct sl_worker_figures figures;
    uint64_t idle_since_ns; // when the computing thread last ran out of work
};

static bool stopping(const struct sl_trainer_spec *spec)
{
    return sl_arena_aborted(spec->arena) ||
           (spec->stop && atomic_load_explicit(spec->stop, memory_order_relaxed));
}

static void publish(struct loop *t, uint64_t current_tag)
{
    t->figures.current_tag = current_tag;
    if (t->spec->stats)
        sl_stats_publish(t->spec->stats, &t->figures);
}

// Writes the cell's entry and hands it over.
static int complete(struct loop *t, struct sl_work *work, const struct sl_loss_result *result,
                    uint64_t wait_ns, uint64_t compute_ns)
{
    struct sl_batch_entry *entry = work->lease.entry;
    entry->claimed_at_ns = work->claimed_at_ns;
    entry->train_wait_ns = wait_ns;
    entry->extract_ns = work->gathered.ns;
    entry->hits = work->gathered.hits;
    entry->hit_bytes = work->gathered.hit_bytes;
    entry->miss_bytes = work->gathered.miss_bytes;
    entry->standby = work->standby;
    entry->train_ns = compute_ns;
    entry->loss = result->loss;
    entry->weight = result->weight;
    entry->correct = result->correct;
    entry->counted = result->counted;
    entry->trainer = t->spec->worker;

    bool trains = work->lease.phase->spec.kind == SL_PHASE_TRAIN;
    t->figures.batches++;
    t->figures.edges += entry->n_edges;
    t->figures.bytes += work->gathered.hit_bytes + work->gathered.miss_bytes;
    t->figures.stage_ns[SL_STAGE_EXTRACT] += work->gathered.ns;
    t->figures.stage_ns[trains ? SL_STAGE_TRAIN : SL_STAGE_EVALUATE] += compute_ns;
    t->figures.stage_ns[SL_STAGE_WAIT] += wait_ns;
    bool offers = trains && t->sync.async;
    if (offers)
        sl_board_offer(t->spec->arena, t->spec->device, &work->lease);
    int rc = sl_ledger_complete(t->spec->arena, &work->lease);
    if (rc != SL_ESTALE)
        return rc;
    if (offers) // it will never count
        sl_board_withdraw(t->spec->arena, t->spec->device, t->spec->worker);
    return SL_OK;
}

static int help(struct loop *t)
{
    uint64_t before = t->sync.apply_ns;
    int rc = sl_sync_help(&t->sync);
    t->figures.stage_ns[SL_STAGE_TRAIN] += t->sync.apply_ns - before;
    return rc;
}

// Where a batch's parameters are and its gradient goes.
struct ground {
    const float *params;
    float *gradient;
};

// Waits until the batch may be computed. SL_OK; SL_EAGAIN when it was given back for an earlier
// one; SL_ESTALE; SL_EABORTED.
static int wait_for_version(struct loop *t, const struct sl_work *work, struct ground *out)
{
    struct sl_arena *a = t->spec->arena;
    const struct sl_lease *lease = &work->lease;
    int rc;
    while ((rc = sl_sync_wait(&t->sync, lease, SL_ARENA_WAIT_MS)) == SL_ETIMEDOUT)
        if (sl_extract_must_yield(&t->extract, work)) {
            sl_ledger_return(a, lease);
            return SL_EAGAIN;
        }
    uint64_t version = sl_board_cell_version(a, lease->phase, lease->cell);
    out->params = sl_board_params(a, version);
    out->gradient = sl_board_gradient(a, lease->cell);
    return rc;
}

// The same in async mode. No other batch is waited for, so there is never a reason to give way.
static int join(struct loop *t, struct ground *out)
{
    int rc;
    uint64_t version;
    while ((rc = sl_sync_join(&t->sync, SL_ARENA_WAIT_MS, &version)) == SL_ETIMEDOUT) {
    }
    out->params = t->sync.joined;
    out->gradient = sl_board_device_gradient(t->spec->arena, t->spec->device);
    return rc;
}

// A batch that took less than the job's throttle says waits here: for tests of the scheduling.
static void throttle(const struct loop *t, const struct sl_work *work, uint64_t began_ns)
{
    const struct sl_config *config = t->spec->config;
    double seconds = work->standby ? config->throttle.standby : config->throttle.train;
    uint64_t until = began_ns + (uint64_t)(seconds * 1e9);
    for (uint64_t now; (now = sl_now_ns()) < until && !stopping(t->spec);) {
        uint64_t part = SL_MIN(until - now, SL_ARENA_WAIT_MS * 1000000ull);
        const struct timespec pause = {.tv_nsec = (long)part};
        nanosleep(&pause, NULL);
    }
}

static int train(struct loop *t, struct sl_work *work, uint64_t wait_ns)
{
    struct sl_arena *a = t->spec->arena;
    struct ground ground;
    uint64_t start = sl_now_ns(), applied = t->sync.apply_ns;
    int rc = t->sync.async ? join(t, &ground) : wait_for_version(t, work, &ground);
    applied = t->sync.apply_ns - applied;
    t->figures.stage_ns[SL_STAGE_TRAIN] += applied;
    if (rc < 0) {
        // Asked to leave while the job goes on: somebody else must train it.
        if (rc == SL_EABORTED)
            sl_ledger_return(a, &work->lease);
        sl_extract_release(&t->extract, work);
        return rc == SL_EAGAIN || rc == SL_ESTALE ? SL_OK : rc;
    }
    uint64_t began = sl_now_ns();
    struct sl_loss_result result;
    rc = sl_model_train(t->spec->model, ground.params, work->block, work->x, ground.gradient,
                        &result);
    sl_extract_release(&t->extract, work);
    if (rc < 0 && t->sync.async)
        sl_board_withdraw(a, t->spec->device, t->spec->worker);
    SL_TRY(rc);
    throttle(t, work, began);
    wait_ns += began - start - SL_MIN(applied, began - start);
    SL_TRY(complete(t, work, &result, wait_ns, sl_now_ns() - began));
    return help(t);
}

// Sampled evaluation of one block: its loss, and its seeds' predictions at their places in the
// list. A block that is evaluated again writes the same.
static int evaluate_block(struct loop *t, const struct sl_work *work, struct sl_loss_result *result)
{
    struct sl_arena *a = t->spec->arena;
    struct sl_model *model = t->spec->model;
    const struct sl_phase *phase = work->lease.phase;
    const struct sl_arena_spec *room = &a->h->spec;
    uint32_t n, words = sl_dataset_predict_words(t->spec->dataset);
    uint64_t first = sl_phase_range(phase, work->lease.cell, &n);
    if (first + n > room->predict_rows || words != room->predict_words || n != work->block->n_seeds)
        return sl_fail(SL_EPROTO,
                       "the arena has room for %llu predictions of %u words, wanted %llu of %u",
                       (unsigned long long)room->predict_rows, room->predict_words,
                       (unsigned long long)(first + n), words);
    const float *outputs;
    SL_TRY(sl_model_evaluate(model, sl_evaluate_params(a, &phase->spec), work->block, work->x,
                             result, &outputs));
    sl_objective_predict(model->objective, outputs, n,
                         (uint32_t *)sl_arena_predictions(a) + first * words);
    return SL_OK;
}

static int evaluate(struct loop *t, struct sl_work *work, uint64_t wait_ns)
{
    struct sl_arena *a = t->spec->arena;
    const struct sl_phase_spec *spec = &work->lease.phase->spec;
    struct sl_loss_result result;
    uint64_t began = sl_now_ns();
    if (spec->kind == SL_PHASE_EVAL) {
        int rc = evaluate_block(t, work, &result);
        sl_extract_release(&t->extract, work);
        SL_TRY(rc);
    } else {
        struct sl_batch_entry *entry = work->lease.entry;
        uint64_t edges;
        SL_TRY(
            sl_evaluate_infer(t->spec->model, t->spec->dataset, a, &work->lease, &result, &edges));
        sl_phase_range(work->lease.phase, work->lease.cell, &entry->n_seeds);
        entry->n_edges = edges;
    }
    return complete(t, work, &result, wait_ns, sl_now_ns() - began);
}

// The part of the idle time that neither sleep nor extraction explains is waiting for a ready
// batch.
static uint64_t idle_ns(const struct loop *t, const struct sl_work *work)
{
    uint64_t idle = sl_now_ns() - SL_MAX(t->idle_since_ns, work->woken_at_ns);
    return idle - SL_MIN(idle, work->gathered.ns);
}

static int step(struct loop *t)
{
    struct sl_work work;
    int rc = sl_extract_next(&t->extract, SL_ARENA_WAIT_MS, &work);
    // Nothing to do for a while: perhaps whoever was applying an update has died.
    if (rc == SL_ETIMEDOUT)
        return help(t);
    SL_TRY(rc);
    publish(t, work.lease.tag);
    uint64_t wait_ns = idle_ns(t, &work);
    rc = work.lease.phase->spec.kind == SL_PHASE_TRAIN ? train(t, &work, wait_ns)
                                                       : evaluate(t, &work, wait_ns);
    t->idle_since_ns = sl_now_ns();
    publish(t, 0);
    return rc;
}

int sl_trainer_run(const struct sl_trainer_spec *spec)
{
    struct loop t = {.spec = spec};
    const struct sl_kernels *kernels = spec->model->env.kernels;
    spec->model->arena = spec->arena;
    const struct sl_sync_spec sync = {
        .config = spec->config,
        .n_params = spec->model->n_params,
        .tensors = spec->model->tensor,
        .n_tensors = spec->model->n_tensors,
        .arena = spec->arena,
        .worker = spec->worker,
        .device = spec->device,
        .kernels = kernels,
        .stop = spec->stop,
    };
    SL_TRY(sl_sync_init(&t.sync, &sync));
    const struct sl_extract_spec extract = {
        .arena = spec->arena,
        .worker = spec->worker,
        .device = spec->device,
        .dataset = spec->dataset,
        .kernels = kernels,
        .model = spec->model,
        .stop = spec->stop,
    };
    int rc = sl_extract_start(&t.extract, &extract);
    t.idle_since_ns = sl_now_ns();
    while (rc == SL_OK && !stopping(spec))
        rc = step(&t);
    sl_extract_stop(&t.extract);
    sl_sync_fini(&t.sync);
    return rc == SL_EABORTED ? SL_OK : rc;
}
