// job_wiring.c - wires the components of a job and their callbacks.
#include "broker/job/job.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/arena/peer_memory.h"
#include "common/arena/stats.h"
#include "common/base/error.h"
#include "common/device/cores.h"

// --- what they tell ------------------------------------------------------------------------------

static struct sl_timeline_place where(void *ctx)
{
    const struct sl_job *job = ctx;
    return (struct sl_timeline_place){sl_job_epoch(job), job->split.roles.samplers,
                                      job->split.roles.trainers};
}

static void on_event(void *ctx, const char *kind, const char *text)
{
    struct sl_job *job = ctx;
    sl_trace_on_event(&job->trace, kind, text);
}

static void on_restart(void *ctx, const struct sl_report_restart *restart)
{
    struct sl_job *job = ctx;
    sl_report_add_restart(&job->report, restart);
}

static void on_holds(void *ctx)
{
    struct sl_job *job = ctx;
    sl_phases_open_gates(&job->phases);
}

static void on_assigned(void *ctx)
{
    struct sl_job *job = ctx;
    sl_trainer_group_form(&job->group);
    sl_trace_on_seats(&job->trace);
}

static void on_cores(void *ctx, uint32_t device, const struct sl_cores *cores)
{
    struct sl_job *job = ctx;
    struct sl_device_config *d = &job->config.devices[device];
    d->n_cores = sl_cores_list(cores, d->cores, SL_CONFIG_MAX_CORES);
}

static void on_decision(void *ctx, const struct sl_report_allocation *decision)
{
    struct sl_job *job = ctx;
    sl_report_add_allocation(&job->report, decision);
}

static void on_change(void *ctx, const struct sl_report_scale *change)
{
    struct sl_job *job = ctx;
    sl_report_add_scale(&job->report, change);
}

static void on_saved(void *ctx)
{
    sl_job_conclude(ctx);
}

static void on_kept(void *ctx)
{
    struct sl_job *job = ctx;
    if (job->awaits_best)
        sl_job_conclude(job);
}

// --- workers ------------------------------------------------------------------------------------

static bool has_worked(struct sl_job *job, const struct sl_pool_worker *w)
{
    struct sl_worker_totals figures;
    const struct sl_worker_slot *slot = sl_stats_slot(&job->arena, w->slot);
    // The slot is of an earlier process when this one died before it was attached.
    if (!sl_stats_is_of(slot, w->worker))
        return false;
    // It died while it published, which it does after work.
    return !sl_stats_read(slot, &figures) || (figures.worker == w->worker && figures.batches > 0);
}

// Takes back what a dead worker had in hand.
static void take_back(struct sl_job *job, const struct sl_pool_worker *w, struct sl_reclaimed *back)
{
    const uint32_t n_devices = job->arena.h->spec.n_devices;
    sl_seat_vacate(&job->arena, w->slot);
    sl_peer_memory_vacate(&job->arena,
                          w->slot < n_devices ? SL_PEER_MEMORY_SAMPLER : SL_PEER_MEMORY_TRAINER,
                          w->slot % n_devices);
    sl_ledger_reclaim(&job->arena, w->worker, back); // which dissolves its group
    // Whoever takes over finds the earliest batches first, those that were taken back.
    sl_split_publish(&job->split);
    sl_trainer_group_form(&job->group);
    job->phases.resampled += back->resample;
    job->phases.retrained += back->retrain;
}

static bool on_death(void *ctx, struct sl_pool_worker *w, const struct sl_exit_status *death)
{
    struct sl_job *job = ctx;
    struct sl_reclaimed back = {0};
    const bool ends = job->workers.stopping;
    const bool worked = !ends && job->arena.base && has_worked(job, w);
    sl_crash_log_explain(&job->deaths, w, death, sl_stalls_verdict(&job->stalls, w));
    if (!ends && job->arena.base)
        take_back(job, w, &back);
    sl_crash_log_emit(&job->deaths, w, death, &back);
    if (job->state == SL_JOB_RUNNING)
        sl_phases_poll(&job->phases);
    return worked;
}

static void on_left(void *ctx, struct sl_pool_worker *w)
{
    struct sl_job *job = ctx;
    if (job->state == SL_JOB_RUNNING)
        sl_split_poll(&job->split);
}

static void on_give_up(void *ctx, struct sl_pool_worker *w, const char *why)
{
    struct sl_job *job = ctx;
    // The job can do without a standby trainer as long as there is another trainer.
    if (job->split.roles.trainers > 0 &&
        sl_split_duty(&job->split, w->role, w->device) == SL_DUTY_STANDBY) {
        job->split.no_standby[w->device] = true;
        sl_joblog_write(&job->log, SL_LOG_WARN,
                        "%s, so device %u gets no standby trainer any more; the last time it %s",
                        why, w->device, job->deaths.of[w->slot].cause);
        sl_pool_worker_release(w);
        return;
    }
    char text[SL_JOB_MESSAGE_BYTES];
    sl_crash_log_sum_up(&job->deaths, w, why,
                        job->rundir.path[0] && job->state == SL_JOB_RUNNING ? job->rundir.log
                                                                            : NULL,
                        text, sizeof text);
    if (!sl_split_roll_back(&job->split, w, text))
        sl_job_end(job, SL_OUTCOME_FAILED, "%s", text);
}

static void on_worker_line(void *ctx, struct sl_pool_worker *w, int level, const char *text)
{
    struct sl_job *job = ctx;
    // Lines of other origin (a sanitizer's, an assertion's) are in the log, and are quoted if the
    // worker dies of them.
    if (level == SL_LOG_ERROR || level == SL_LOG_WARN)
        sl_clients_send_line(&job->clients, level, text);
}

static bool has_left(void *ctx, const struct sl_pool_worker *w)
{
    const struct sl_job *job = ctx;
    if (!job->arena.base)
        return false;
    const struct sl_worker_slot *slot = sl_stats_slot(&job->arena, w->slot);
    return sl_stats_is_of(slot, w->worker) && atomic_load(&slot->words.left);
}

static void on_gone(void *ctx)
{
    struct sl_job *job = ctx;
    if (job->state == SL_JOB_FINISHING)
        sl_job_conclude(job);
}

const struct sl_worker_pool_events sl_job_pool_events = {
    .on_death = on_death,
    .on_left = on_left,
    .on_give_up = on_give_up,
    .on_line = on_worker_line,
    .has_left = has_left,
    .on_gone = on_gone,
};

// --- phases --------------------------------------------------------------------------------------

static void emit_early_stop(struct sl_job *job, uint32_t epoch)
{
    char reason[160];
    sl_joblog_write(&job->log, SL_LOG_INFO, "stopped early after epoch %u of %u: %s", epoch + 1,
                    job->config.epochs, sl_phases_stop_reason(&job->phases, reason, sizeof reason));
    sl_timeline_emit_of(&job->timeline, epoch, "early_stop", true,
                        "stopped early after epoch %u of %u: %s", epoch + 1, job->config.epochs,
                        reason);
}

// "epoch 3 of 20: loss 0.412, accuracy 0.871, 1.84 s"
static void emit_epoch(struct sl_job *job, const struct sl_epoch *f)
{
    char metric[80] = "", test[80] = "", value[SL_MEASURE_TEXT], title[SL_MEASURE_TITLE];
    enum sl_measure measure = job->phases.measure;
    const char *name = sl_measure_title(measure, job->config.evaluate.k, title);
    if (f->evaluated)
        snprintf(metric, sizeof metric, ", %s %s", name,
                 sl_measure_text(f->on_val.value[measure], value));
    if (f->tested)
        snprintf(test, sizeof test, ", test %s %s", name,
                 sl_measure_text(f->on_test.value[measure], value));
    if (f->lent) {
        sl_timeline_emit_of(&job->timeline, f->epoch, "epoch", true,
                            "epoch %.0f: %.0f batches consumed, %.0f left, %.3g s", f->epoch + 1,
                            f->batches, f->left, f->seconds);
        return;
    }
    sl_timeline_emit_of(&job->timeline, f->epoch, "epoch", true,
                        "epoch %.0f of %u: loss %.4g%s%s, %.3g s", f->epoch + 1, job->config.epochs,
                        f->loss, metric, test, f->seconds + f->evaluate_seconds);
}

// How long workers have lived since they were asked about last.
static void take_lived(struct sl_job *job, double out[SL_ROLE_COUNT])
{
    for (int role = 0; role < SL_ROLE_COUNT; role++) {
        const double lived = sl_worker_pool_lived_seconds(&job->workers, (enum sl_role)role);
        out[role] = lived - job->lived_seconds[role];
        job->lived_seconds[role] = lived;
    }
}

static void on_epoch(void *ctx, const struct sl_epoch *figures)
{
    struct sl_job *job = ctx;
    double lived[SL_ROLE_COUNT];
    take_lived(job, lived);
    sl_meter_on_epoch(&job->meter, figures);
    char *json = sl_report_add_epoch(&job->report, figures, lived);
    if (!json)
        return;
    sl_writer_add_line(job->files.metrics, json);
    // The next epoch has begun already: the updates of this one and of those before.
    uint64_t updates = sl_phases_updates(&job->config, job->dataset.split[SL_SPLIT_TRAIN].n) *
                       (figures->epoch + 1);
    sl_tensorboard_add_epoch(&job->tensorboard, figures, updates);
    Sl__Control__EpochDone done = SL__CONTROL__EPOCH_DONE__INIT;
    Sl__Control__Envelope e = SL__CONTROL__ENVELOPE__INIT;
    done.json = json;
    e.body_case = SL__CONTROL__ENVELOPE__BODY_EPOCH_DONE;
    e.epoch_done = &done;
    sl_clients_send(&job->clients, 0, &e);
    free(json);
    emit_epoch(job, figures);
    sl_switches_end_epoch(&job->switches, figures->epoch, job->meter.sums.standby_batches);
    if (job->phases.stopped_early)
        emit_early_stop(job, figures->epoch);
    else if (job->state == SL_JOB_RUNNING)
        sl_split_on_epoch(&job->split, figures);
}

static void on_complete(void *ctx)
{
    if (sl_job_check_data(ctx))
        sl_job_end(ctx, SL_OUTCOME_DONE, "%s", "");
}

static void on_phase_error(void *ctx, int rc)
{
    sl_job_end_broken(ctx, rc == SL_ENOTFINITE ? SL_NUMBERS_OF_EVALUATION : SL_NUMBERS_FINITE,
                      sl_error_message());
}

static bool may_begin(void *ctx, uint32_t epoch)
{
    const struct sl_job *job = ctx;
    return sl_split_may_begin(&job->split, epoch);
}

static void on_phase(void *ctx, const struct sl_open_phase *phase)
{
    struct sl_job *job = ctx;
    sl_meter_on_phase(&job->meter, phase);
    sl_trace_on_phase(&job->trace, phase);
}

const struct sl_phases_events sl_job_phases_events = {
    .may_begin = may_begin,
    .on_phase = on_phase,
    .on_epoch = on_epoch,
    .on_complete = on_complete,
    .on_error = on_phase_error,
    .on_kept = on_kept,
};

// --- what they are given -------------------------------------------------------------------------

static void wire_workers(struct sl_job *job)
{
    job->stalls = (struct sl_stalls){
        .config = &job->config,
        .arena = &job->arena,
        .workers = &job->workers,
        .log = &job->log,
        .timeline = &job->timeline,
    };
    job->desk = (struct sl_external_desk){.workers = &job->workers, .log = &job->log};
    job->deaths = (struct sl_crash_log){
        .start_ns = job->start_ns,
        .workers = &job->workers,
        .arena = &job->arena,
        .log = &job->log,
        .timeline = &job->timeline,
        .on_restart = on_restart,
        .ctx = job,
    };
}

static void wire_split(struct sl_job *job)
{
    job->split = (struct sl_role_split){
        .start_ns = job->start_ns,
        .config = &job->config,
        .dataset = &job->dataset,
        .phases = &job->phases,
        .meter = &job->meter,
        .arena = &job->arena,
        .workers = &job->workers,
        .clients = &job->clients,
        .log = &job->log,
        .timeline = &job->timeline,
        .events = {.on_holds = on_holds,
                   .on_assigned = on_assigned,
                   .on_cores = on_cores,
                   .on_decision = on_decision,
                   .on_change = on_change},
        .ctx = job,
    };
    job->group = (struct sl_trainer_group){
        .split = &job->split,
        .arena = &job->arena,
        .log = &job->log,
        .timeline = &job->timeline,
    };
}

static void wire_run(struct sl_job *job)
{
    job->files = (struct sl_run_files){.directory = job->rundir.path, .log = &job->log};
    job->saving = (struct sl_saving){
        .start_ns = job->start_ns,
        .loop = &job->loop.uv,
        .config = &job->config,
        .config_json = &job->config_json,
        .dataset = &job->dataset,
        .arena = &job->arena,
        .phases = &job->phases,
        .params = &job->params,
        .split = &job->split,
        .report = &job->report,
        .rundir = &job->rundir,
        .resumed = &job->resumed,
        .log = &job->log,
        .timeline = &job->timeline,
        .on_idle = on_saved,
        .ctx = job,
    };
}

static void wire_telling(struct sl_job *job)
{
    job->timeline.setup = (struct sl_timeline_setup){
        .job = job->config.name,
        .id = job->options.id,
        .start_ns = job->start_ns,
        .clients = &job->clients,
        .files = &job->files,
        .where = where,
        .on_event = on_event,
        .ctx = job,
    };
    job->switches = (struct sl_switches){.arena = &job->arena, .timeline = &job->timeline};
    job->meter = (struct sl_meter){
        .arena = &job->arena,
        .workers = &job->workers,
        .phases = &job->phases,
        .pauses = &job->pauses,
        .loss = NAN,
        .last_epoch_seconds = NAN,
    };
    job->live = (struct sl_live){
        .job = &job->view,
        .meter = &job->meter,
        .clients = &job->clients,
        .log = &job->log,
        .tell_at_ns = job->start_ns + 1000000000,
    };
    job->trace = (struct sl_trace){.job = &job->view, .clients = &job->clients, .log = &job->log};
}

static void show(struct sl_job *job)
{
    job->view = (struct sl_job_view){
        .id = job->options.id,
        .start_ns = job->start_ns,
        .state = &job->state,
        .config_json = &job->config_json,
        .arena = &job->arena,
        .config = &job->config,
        .workers = &job->workers,
        .deaths = &job->deaths,
        .split = &job->split,
        .memory = &job->memory,
        .pauses = &job->pauses,
        .phases = &job->phases,
        .report = &job->report,
        .saving = &job->saving,
        .timeline = &job->timeline,
        .group = &job->group,
    };
}

void sl_job_wire(struct sl_job *job)
{
    show(job);
    wire_workers(job);
    wire_split(job);
    wire_run(job);
    wire_telling(job);
    sl_job_nodes_wire(job);
}
