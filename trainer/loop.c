#include "trainer/loop.h"

#include <string.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "trainer/evaluate.h"
#include "trainer/extract.h"
#include "trainer/sync.h"

struct loop {
    const struct sl_trainer_spec *spec;
    struct sl_sync sync;
    struct sl_extract extract;
    struct sl_worker_figures figures;
    uint64_t idle_since_ns; // when the computing thread last ran out of work
};

static void publish(struct loop *t, uint64_t current_tag)
{
    t->figures.current_tag = current_tag;
    if (t->spec->stats)
        sl_stats_publish(t->spec->stats, &t->figures);
}

// Writes the cell's entry and hands it over.
static int complete(struct loop *t, struct sl_work *work, const struct sl_model_result *result,
                    uint64_t wait_ns, uint64_t compute_ns)
{
    struct sl_batch_entry *entry = work->lease.entry;
    entry->claimed_at_ns = work->claimed_at_ns;
    entry->train_wait_ns = wait_ns;
    entry->extract_ns = work->extract_ns;
    entry->extract_bytes = work->extract_bytes;
    entry->train_ns = compute_ns;
    entry->loss = result->loss;
    entry->correct = result->correct;
    entry->counted = result->counted;
    entry->trainer = t->spec->worker;

    bool trains = work->lease.phase->spec.kind == SL_PHASE_TRAIN;
    t->figures.batches++;
    t->figures.edges += entry->n_edges;
    t->figures.bytes += work->extract_bytes;
    t->figures.stage_ns[SL_STAGE_EXTRACT] += work->extract_ns;
    t->figures.stage_ns[trains ? SL_STAGE_TRAIN : SL_STAGE_EVALUATE] += compute_ns;
    t->figures.stage_ns[SL_STAGE_WAIT] += wait_ns;
    int rc = sl_ledger_complete(t->spec->arena, &work->lease);
    return rc == SL_ESTALE ? SL_OK : rc;
}

static int help(struct loop *t)
{
    uint64_t before = t->sync.apply_ns;
    int rc = sl_sync_help(&t->sync);
    t->figures.stage_ns[SL_STAGE_TRAIN] += t->sync.apply_ns - before;
    return rc;
}

// SL_OK; SL_EAGAIN when the batch was given back for an earlier one; SL_ESTALE; SL_EABORTED.
static int wait_for_version(struct loop *t, const struct sl_work *work)
{
    for (;;) {
        int rc = sl_sync_wait(&t->sync, &work->lease, SL_ARENA_WAIT_MS);
        if (rc != SL_ETIMEDOUT)
            return rc;
        if (sl_extract_must_yield(&t->extract, work)) {
            sl_ledger_return(t->spec->arena, &work->lease);
            return SL_EAGAIN;
        }
    }
}

static int train(struct loop *t, struct sl_work *work, uint64_t wait_ns)
{
    struct sl_arena *a = t->spec->arena;
    const struct sl_lease *lease = &work->lease;
    uint64_t start = sl_now_ns(), applied = t->sync.apply_ns;
    int rc = wait_for_version(t, work);
    applied = t->sync.apply_ns - applied;
    t->figures.stage_ns[SL_STAGE_TRAIN] += applied;
    if (rc < 0) {
        // Asked to leave while the job goes on: somebody else must train it.
        if (rc == SL_EABORTED)
            sl_ledger_return(a, lease);
        sl_extract_release(&t->extract, work);
        return rc == SL_EAGAIN || rc == SL_ESTALE ? SL_OK : rc;
    }
    uint64_t began = sl_now_ns();
    struct sl_model_result result;
    uint64_t version = sl_board_cell_version(a, lease->phase, lease->cell);
    rc = sl_model_train(t->spec->model, sl_board_params(a, version), work->block, work->x,
                        sl_board_gradient(a, lease->cell), &result);
    sl_extract_release(&t->extract, work);
    SL_TRY(rc);
    wait_ns += began - start - SL_MIN(applied, began - start);
    SL_TRY(complete(t, work, &result, wait_ns, sl_now_ns() - began));
    return help(t);
}

static int evaluate(struct loop *t, struct sl_work *work, uint64_t wait_ns)
{
    struct sl_arena *a = t->spec->arena;
    const struct sl_phase_spec *spec = &work->lease.phase->spec;
    struct sl_model_result result;
    uint64_t began = sl_now_ns();
    if (spec->kind == SL_PHASE_EVAL) {
        int rc = sl_model_evaluate(t->spec->model, sl_evaluate_params(a, spec), work->block,
                                   work->x, &result);
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

// The part of the idle time that extraction does not explain is waiting for a ready batch.
static uint64_t idle_ns(const struct loop *t, const struct sl_work *work)
{
    uint64_t idle = sl_now_ns() - t->idle_since_ns;
    return idle - SL_MIN(idle, work->extract_ns);
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

static bool stopping(const struct sl_trainer_spec *spec)
{
    return sl_arena_aborted(spec->arena) ||
           (spec->stop && atomic_load_explicit(spec->stop, memory_order_relaxed));
}

int sl_trainer_run(const struct sl_trainer_spec *spec)
{
    struct loop t = {.spec = spec};
    const struct sl_config *config = spec->config;
    const struct sl_kernels *kernels = spec->model->env.kernels;
    spec->model->arena = spec->arena;
    int rc = sl_sync_init(&t.sync, config, spec->model->n_params, spec->arena, spec->worker,
                          kernels, spec->stop);
    if (rc < 0)
        return rc;
    const struct sl_extract_spec extract = {
        .arena = spec->arena,
        .worker = spec->worker,
        .dataset = spec->dataset,
        .kernels = kernels,
        .model = spec->model,
        .share = (uint32_t)sl_div_up(config->updates.batches_per_update,
                                     SL_MAX(config->allocation.trainers, 1u)),
        .stop = spec->stop,
    };
    rc = sl_extract_start(&t.extract, &extract);
    t.idle_since_ns = sl_now_ns();
    while (rc == SL_OK && !stopping(spec))
        rc = step(&t);
    sl_extract_stop(&t.extract);
    sl_sync_fini(&t.sync);
    return rc == SL_EABORTED ? SL_OK : rc;
}
