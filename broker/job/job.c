#include "broker/job/job.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "broker/workers/launch.h"
#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "common/base/memory.h"
#include "common/arena/param_store.h"
#include "common/arena/peer_memory.h"
#include "common/arena/stats.h"

enum {
    PROGRESS_TICKS = 2,
    MEMORY_TICKS = 10,
    DATA_TICKS = 10,
    STALL_TICKS = 5,
    LINGER_MS = 1000,
    CLIENT_MS = 2000, // for the first client to appear when the job is over already
};

// --- the end -------------------------------------------------------------------------------------

static void send_stop(struct sl_job *job)
{
    Sl__Control__Stop stop = SL__CONTROL__STOP__INIT;
    Sl__Control__Envelope e = SL__CONTROL__ENVELOPE__INIT;
    e.body_case = SL__CONTROL__ENVELOPE__BODY_STOP;
    e.stop = &stop;
    for (uint32_t i = 0; i < job->workers.n; i++)
        if (job->workers.list[i].alive && job->workers.list[i].greeted)
            sl_bus_send(job->bus, &job->workers.list[i].peer, &e);
}

void sl_job_end(struct sl_job *job, enum sl_outcome outcome, const char *fmt, ...)
{
    if (job->state >= SL_JOB_FINISHING)
        return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(job->message, sizeof job->message, fmt, ap);
    va_end(ap);
    sl_split_end(&job->split);
    sl_saving_stop(&job->saving);
    sl_trace_end(&job->trace);
    sl_job_end_pause(job);
    sl_switches_end(&job->switches, SL_MIN(sl_job_epoch(job), job->config.epochs - 1),
                    job->meter.sums.standby_batches);
    sl_job_sample_memory(job);
    job->outcome = outcome;
    job->state = SL_JOB_FINISHING;
    sl_rundir_end(&job->rundir);
    sl_phases_stop(&job->phases);
    sl_access_forecast_cancel(&job->foresight);
    if (job->arena.base)
        sl_arena_abort(&job->arena, SL_ABORT_STOP);
    if (!job->workers_placed) {
        sl_job_conclude(job);
        return;
    }
    send_stop(job);
    sl_worker_pool_stop(&job->workers, SL_WORKER_STOP_MS);
    SL_FAILPOINT(BROKER_STOP);
}

static void stop(struct sl_job *job, bool kill, const char *who)
{
    sl_job_end(job, SL_OUTCOME_STOPPED, "stopped by %s", who);
    if (kill && job->state == SL_JOB_FINISHING && job->workers_placed)
        sl_worker_pool_stop(&job->workers, 0);
}

// --- the worker pool ----------------------------------------------------------------------------

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
    // The next workers find the earliest batches first, those that were taken back.
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
    sl_crash_log_sum_up(&job->deaths, w, why, job->state == SL_JOB_RUNNING ? job->rundir.log : NULL,
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

static void end_broken(struct sl_job *job, enum sl_job_numbers numbers, const char *what)
{
    if (job->state < SL_JOB_FINISHING)
        job->numbers = numbers;
    sl_job_end(job, SL_OUTCOME_FAILED, "%s", what);
}

static void on_failed(struct sl_job *job, const struct sl_bus_peer *peer,
                      const Sl__Control__Failed *failed)
{
    const struct sl_pool_worker *w = sl_worker_pool_by_id(&job->workers, failed->worker);
    if (!w)
        w = sl_worker_pool_by_peer(&job->workers, peer);
    if (failed->code == SL_ENOTFINITE) { // any worker that tries the update finds the same
        end_broken(job, SL_NUMBERS_OF_UPDATE, failed->message);
        return;
    }
    // Of a changed data set no replacement finds another one.
    if (job->state == SL_JOB_RUNNING && !(w && w->ready) && failed->code != SL_ECHANGED) {
        sl_crash_log_on_failure(&job->deaths, w, failed->message);
        return;
    }
    enum sl_outcome outcome =
        job->state == SL_JOB_STARTING ? SL_OUTCOME_REFUSED : SL_OUTCOME_FAILED;
    sl_job_end(job, outcome, "%s: %s", w ? w->name : "a worker", failed->message);
}

// --- phases --------------------------------------------------------------------------------------

static void tell_early_stop(struct sl_job *job, uint32_t epoch)
{
    char reason[160];
    sl_joblog_write(&job->log, SL_LOG_INFO, "stopped early after epoch %u of %u: %s", epoch + 1,
                    job->config.epochs, sl_phases_stop_reason(&job->phases, reason, sizeof reason));
    sl_timeline_emit_of(&job->timeline, epoch, "early_stop", true,
                        "stopped early after epoch %u of %u: %s", epoch + 1, job->config.epochs,
                        reason);
}

// "epoch 3 of 20: loss 0.412, accuracy 0.871, 1.84 s"
static void tell_epoch(struct sl_job *job, const struct sl_epoch *f)
{
    char metric[64] = "", test[64] = "", value[SL_MEASURE_TEXT];
    enum sl_measure measure = job->phases.measure;
    const char *name = sl_measure_name(measure);
    if (f->evaluated)
        snprintf(metric, sizeof metric, ", %s %s", name,
                 sl_measure_text(f->on_val.value[measure], value));
    if (f->tested)
        snprintf(test, sizeof test, ", test %s %s", name,
                 sl_measure_text(f->on_test.value[measure], value));
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
    tell_epoch(job, figures);
    sl_switches_end_epoch(&job->switches, figures->epoch, job->meter.sums.standby_batches);
    if (job->phases.stopped_early)
        tell_early_stop(job, figures->epoch);
    else if (job->state == SL_JOB_RUNNING)
        sl_split_on_epoch(&job->split, figures);
}

// Nothing that comes of a data set that was changed in place counts.
static bool has_its_data(struct sl_job *job)
{
    if (sl_dataset_check_held(&job->dataset) == SL_OK)
        return true;
    sl_job_end(job, SL_OUTCOME_FAILED, "%s", sl_error_message());
    return false;
}

static void on_complete(void *ctx)
{
    if (has_its_data(ctx))
        sl_job_end(ctx, SL_OUTCOME_DONE, "%s", "");
}

static void on_phase_error(void *ctx, int rc)
{
    end_broken(ctx, rc == SL_ENOTFINITE ? SL_NUMBERS_OF_EVALUATION : SL_NUMBERS_FINITE,
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
};

static void send_progress(struct sl_job *job)
{
    Sl__Control__Progress progress = SL__CONTROL__PROGRESS__INIT;
    Sl__Control__Envelope e = SL__CONTROL__ENVELOPE__INIT;
    if (!sl_clients_want(&job->clients, SL_WANTS_PROGRESS))
        return;
    progress.phase = job->state == SL_JOB_STARTING ? "start" : "finish";
    progress.epochs = job->config.epochs;
    progress.samplers = job->split.roles.samplers;
    progress.trainers = job->split.roles.trainers;
    progress.seconds_left = -1;
    if (job->state == SL_JOB_RUNNING) {
        struct sl_phases_view view;
        struct sl_ledger_depth depth;
        sl_phases_view(&job->phases, &job->loss, &view);
        sl_ledger_depth(&job->arena, &depth);
        progress.phase = (char *)view.phase; // only read
        progress.epoch = view.epoch;
        progress.done = view.done;
        progress.total = view.total;
        progress.loss = view.loss;
        progress.seconds_left = view.seconds_left;
        progress.queue_batches = depth.queued;
        progress.queue_bytes = depth.queued_bytes;
        progress.rate = sl_meter_rate(&job->meter, strcmp(view.phase, "train") == 0);
        progress.has_metric = job->meter.has_metric;
        progress.metric = job->meter.metric;
        if (progress.has_metric)
            progress.metric_name = (char *)sl_measure_name(job->phases.measure);
    }
    e.body_case = SL__CONTROL__ENVELOPE__BODY_PROGRESS;
    e.progress = &progress;
    sl_clients_send(&job->clients, SL_WANTS_PROGRESS, &e);
}

// --- the loop ------------------------------------------------------------------------------------

static void close_loop(struct sl_job *job)
{
    sl_worker_pool_close(&job->workers);
    sl_saving_close(&job->saving);
    sl_loop_close(&job->loop);
}

static void take_message(struct sl_job *job, const struct sl_bus_peer *peer,
                         const Sl__Control__Envelope *m)
{
    switch (m->body_case) {
    case SL__CONTROL__ENVELOPE__BODY_HELLO: sl_job_on_hello(job, peer, m->hello); break;
    case SL__CONTROL__ENVELOPE__BODY_READY: sl_job_on_ready(job, peer, m->ready); break;
    case SL__CONTROL__ENVELOPE__BODY_FAILED: on_failed(job, peer, m->failed); break;
    case SL__CONTROL__ENVELOPE__BODY_STOP: stop(job, m->stop->kill, "the user"); break;
    case SL__CONTROL__ENVELOPE__BODY_SCALE: sl_split_on_request(&job->split, peer, m->scale); break;
    case SL__CONTROL__ENVELOPE__BODY_SUBSCRIBE: sl_job_on_subscribe(job, peer, m->subscribe); break;
    case SL__CONTROL__ENVELOPE__BODY_DESCRIBE: sl_job_on_describe(job, peer); break;
    case SL__CONTROL__ENVELOPE__BODY_PAUSE: sl_job_on_pause(job, peer); break;
    case SL__CONTROL__ENVELOPE__BODY_RESUME: sl_job_on_resume(job, peer); break;
    case SL__CONTROL__ENVELOPE__BODY_TRACE: sl_trace_on_request(&job->trace, peer, m->trace); break;
    default: break; // what only the broker sends
    }
}

static void on_bus(void *ctx)
{
    struct sl_job *job = ctx;
    struct sl_bus_peer peer;
    Sl__Control__Envelope *m;
    while (job->bus && sl_bus_receive(job->bus, 0, &peer, &m) == SL_OK) {
        take_message(job, &peer, m);
        sl_bus_message_free(m);
    }
    if (job->state != SL_JOB_ENDED)
        return;
    if (!job->told)
        sl_job_emit_finished(job);
    if (job->told || sl_now_ns() - job->ended_ns > CLIENT_MS * 1000000ull)
        close_loop(job);
}

static void on_doorbell(void *ctx)
{
    struct sl_job *job = ctx;
    if (job->state == SL_JOB_RUNNING)
        sl_phases_poll(&job->phases);
    if (job->state == SL_JOB_RUNNING)
        sl_saving_poll(&job->saving);
    if (job->state == SL_JOB_RUNNING)
        sl_split_poll(&job->split);
}

static void on_tick(void *ctx)
{
    struct sl_job *job = ctx;
    job->ticks++;
    if (job->state == SL_JOB_STARTING)
        sl_job_check_start(job);
    if (job->state == SL_JOB_RUNNING)
        sl_phases_poll(&job->phases);
    if (job->state == SL_JOB_RUNNING)
        sl_saving_poll(&job->saving);
    if (job->state == SL_JOB_RUNNING)
        sl_split_poll(&job->split);
    if (job->state == SL_JOB_RUNNING && job->ticks % DATA_TICKS == 0)
        (void)has_its_data(job);
    if (job->state == SL_JOB_RUNNING && job->ticks % MEMORY_TICKS == 0)
        sl_job_sample_memory(job);
    if (job->state == SL_JOB_RUNNING)
        sl_job_check_memory(job);
    if (job->state == SL_JOB_RUNNING && job->ticks % STALL_TICKS == 0)
        sl_stalls_poll(&job->stalls);
    if (job->state == SL_JOB_RUNNING) {
        sl_switches_watch(&job->switches, sl_job_epoch(job), job->meter.sums.standby_batches);
        sl_trace_poll(&job->trace);
    }
    if (job->state != SL_JOB_ENDED) {
        sl_run_files_watch(&job->files);
        sl_live_poll(&job->live);
    }
    if (job->state == SL_JOB_RUNNING)
        sl_split_choose_by_first_batches(&job->split);
    if (job->state != SL_JOB_ENDED && job->ticks % PROGRESS_TICKS == 0)
        send_progress(job);
}

static void on_signal(void *ctx, int signum)
{
    struct sl_job *job = ctx;
    char who[64];
    bool death = signum == SL_LAUNCH_DEATH_SIGNAL;
    snprintf(who, sizeof who, "SIG%s%s", sigabbrev_np(signum),
             death ? " (as when its parent process dies)" : "");
    // The second one kills, if a user or program sent it.
    stop(job, !death && job->state >= SL_JOB_FINISHING && job->outcome == SL_OUTCOME_STOPPED, who);
}

// --- life ----------------------------------------------------------------------------------------

static void release(struct sl_job *job)
{
    sl_saving_fini(&job->saving);
    sl_checkpoint_close(&job->resumed);
    sl_phases_fini(&job->phases);
    sl_worker_pool_fini(&job->workers);
    sl_crash_log_fini(&job->deaths);
    sl_stalls_fini(&job->stalls);
    sl_report_fini(&job->report);
    sl_joblog_fini(&job->log);
    sl_run_files_close(&job->files);
    sl_rundir_close(&job->rundir); // its lock goes last: another job may write there then
    sl_live_fini(&job->live);
    sl_timeline_fini(&job->timeline);
    sl_params_fini(&job->params);
    sl_arena_detach(&job->arena);
    sl_dataset_close(&job->dataset);
    free(job->config_json);
    free(job->report_text);
    cJSON_Delete(job->warnings);
    if (job->config_fd >= 0)
        close(job->config_fd);
    if (job->arena_fd >= 0)
        close(job->arena_fd);
    if (job->doorbell_fd >= 0)
        close(job->doorbell_fd);
    if (job->acts_fd >= 0)
        close(job->acts_fd);
    for (int i = 0; i < SL_SHARED_COUNT; i++)
        if (job->shared_fd[i] >= 0)
            close(job->shared_fd[i]);
    sl_memory_set_bound(NULL, NULL);
}

static int run(struct sl_job *job)
{
    static const struct sl_loop_events events = {
        .on_bus = on_bus,
        .on_doorbell = on_doorbell,
        .on_tick = on_tick,
        .on_signal = on_signal,
    };
    job->doorbell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (job->doorbell_fd < 0)
        return sl_fail_errno(SL_ESYS, errno, "making an eventfd");
    SL_TRY(sl_bus_bind(job->options.endpoint, job->options.key, &job->bus));
    sl_clients_init(&job->clients, job->bus);
    sl_joblog_init(&job->log, &job->clients);
    SL_TRY(sl_timeline_init(&job->timeline));
    SL_TRY(sl_loop_init(&job->loop, &events, job, sl_bus_fd(job->bus), job->doorbell_fd));
    if (sl_job_prepare(job) < 0)
        sl_job_end(job, SL_OUTCOME_REFUSED, "%s", sl_error_message());
    sl_loop_run(&job->loop);
    return SL_OK;
}

int sl_job_run(const struct sl_job_options *options)
{
    struct sl_job *job = calloc(1, sizeof *job); // too large for a stack
    if (!job) {
        fprintf(stderr, "sluice-broker: no memory\n");
        return SL_OUTCOME_FAILED;
    }
    job->options = *options;
    job->start_ns = sl_now_ns();
    sl_job_wire(job);
    job->config_fd = job->arena_fd = job->doorbell_fd = job->acts_fd = -1;
    for (int i = 0; i < SL_SHARED_COUNT; i++)
        job->shared_fd[i] = -1;
    int rc = run(job);
    sl_loop_fini(&job->loop);
    // What is under way to the clients leaves now, the report among it.
    sl_bus_close(job->bus, LINGER_MS);
    int status = rc < 0 ? SL_OUTCOME_REFUSED : (int)job->outcome;
    if (rc < 0)
        fprintf(stderr, "sluice-broker: %s\n", sl_error_message());
    else if (!job->told && status != SL_OUTCOME_DONE)
        fprintf(stderr, "sluice-broker: %s\n", job->message);
    release(job);
    free(job);
    return status;
}
