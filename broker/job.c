#include "broker/job.h"

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

#include "broker/launch.h"
#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "common/ipc/board.h"
#include "common/ipc/stats.h"

enum {
    PROGRESS_TICKS = 2,
    MEMORY_TICKS = 10,
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
    for (uint32_t i = 0; i < job->crew.n; i++)
        if (job->crew.members[i].alive && job->crew.members[i].greeted)
            sl_bus_send(job->bus, &job->crew.members[i].peer, &e);
}

void sl_job_end(struct sl_job *job, enum sl_outcome outcome, const char *fmt, ...)
{
    if (job->state >= SL_JOB_FINISHING)
        return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(job->message, sizeof job->message, fmt, ap);
    va_end(ap);
    sl_job_cancel_rebalance(job);
    sl_job_end_trace(job);
    sl_job_end_pause(job);
    sl_job_tell_switches(job);
    sl_job_sample_memory(job);
    job->outcome = outcome;
    job->state = SL_JOB_FINISHING;
    sl_rundir_end(&job->rundir);
    sl_phases_stop(&job->phases);
    if (job->arena.base)
        sl_arena_abort(&job->arena, SL_ABORT_STOP);
    if (!job->crew_placed) {
        sl_job_conclude(job);
        return;
    }
    send_stop(job);
    sl_crew_stop(&job->crew, SL_CREW_STOP_MS);
    SL_FAILPOINT(BROKER_STOP);
}

static void stop(struct sl_job *job, bool kill, const char *who)
{
    sl_job_end(job, SL_OUTCOME_STOPPED, "stopped by %s", who);
    if (kill && job->state == SL_JOB_FINISHING && job->crew_placed)
        sl_crew_stop(&job->crew, 0);
}

// --- the crew ------------------------------------------------------------------------------------

bool sl_job_held_by(struct sl_job *job, uint32_t worker, char *out, size_t bytes)
{
    struct sl_arena *a = &job->arena;
    uint64_t opened = atomic_load(&a->h->opened);
    for (uint64_t seq = sl_ledger_oldest(a); seq <= opened; seq++) {
        const struct sl_phase *phase = sl_ledger_phase(a, seq);
        uint32_t n = atomic_load(&phase->n_cells);
        for (uint32_t i = 0; i < n; i++) {
            uint64_t word = sl_ledger_word(a, seq, i);
            if (sl_cell_owner(word) != worker || !sl_cell_is_leased(word))
                continue;
            const char *what = phase->spec.kind == SL_PHASE_TRAIN  ? "batch"
                               : phase->spec.kind == SL_PHASE_EVAL ? "evaluation batch"
                                                                   : "inference chunk";
            snprintf(out, bytes, "%s %u of epoch %u", what, i, phase->spec.epoch + 1);
            return true;
        }
    }
    return false;
}

static bool has_worked(struct sl_job *job, const struct sl_member *m)
{
    struct sl_worker_figures figures;
    const struct sl_worker_slot *slot = sl_stats_slot(&job->arena, m->slot);
    // The slot is of an earlier process when this one died before it was attached.
    if (!sl_stats_is_of(slot, m->worker))
        return false;
    // It died while it published, which it does after work.
    return !sl_stats_read(slot, &figures) || (figures.worker == m->worker && figures.batches > 0);
}

// Takes back what a dead worker had in hand.
static void take_back(struct sl_job *job, const struct sl_member *m, struct sl_reclaimed *back)
{
    sl_seat_vacate(&job->arena, m->slot);
    sl_ledger_reclaim(&job->arena, m->worker, back); // which dissolves its group
    // Whoever takes over finds the earliest batches first, those that were taken back.
    sl_job_publish_schedule(job);
    sl_job_form_group(job);
    job->phases.resampled += back->resample;
    job->phases.retrained += back->retrain;
}

// For the log, the events and the report.
static void note_death(struct sl_job *job, const struct sl_member *m, struct sl_job_death *d,
                       const struct sl_reclaimed *back)
{
    char rest[192] = "";
    uint32_t n = back->resample + back->retrain;
    const char *again = back->resample ? "drawn" : "trained"; // a worker does one of the two
    if (job->crew.stopping)
        snprintf(rest, sizeof rest, " while the job ended");
    // Of what is finished nothing is lost, so it is not worth a word.
    else if (n > 0 && back->finished > 0)
        snprintf(rest, sizeof rest, " with %u in hand, which will be %s again", n, again);
    else if (d->held[0] && n > 1)
        snprintf(rest, sizeof rest, " with %u in hand, %s first: they will be %s again", n, d->held,
                 again);
    else if (d->held[0] && n > 0)
        snprintf(rest, sizeof rest, " with %s in hand, which will be %s again", d->held, again);
    sl_joblog_write(&job->log, SL_LOG_WARN, "%s (process %d) %s%s", m->name, (int)m->pid, d->cause,
                    rest);
    sl_job_event(job, "death", false, "%s (process %d) %s%s", m->name, (int)m->pid, d->cause, rest);
    d->n++;
    const struct sl_report_restart restart = {
        .name = m->name,
        .pid = m->pid,
        .seconds = (double)(sl_now_ns() - job->start_ns) * 1e-9,
        .cause = d->cause,
        .held = d->held[0] ? d->held : NULL,
        .resampled = back->resample,
        .retrained = back->retrain,
    };
    sl_report_add_restart(&job->report, &restart);
}

// The crew has been told to leave. It may be that one was dead before, and only heard of now: a job
// can end within the time that a process takes to die.
static void note_death_at_the_end(struct sl_job *job, const struct sl_member *m,
                                  struct sl_job_death *d, const struct sl_death *death)
{
    const struct sl_reclaimed nothing = {0};
    d->held[0] = '\0';
    if (m->dismissed)
        sl_joblog_write(&job->log, SL_LOG_INFO, "%s (process %d) had %u ms to leave and was killed",
                        m->name, (int)m->pid, m->patience_ms);
    else if (death->signal)
        note_death(job, m, d, &nothing);
    else if (death->exit_status != 0)
        sl_joblog_write(&job->log, SL_LOG_WARN, "%s %s while it was leaving", m->name, d->cause);
}

// How it died, as far as anybody knows.
static void explain(struct sl_job *job, const struct sl_member *m, const struct sl_death *death)
{
    struct sl_job_death *d = &job->deaths[m->slot];
    if (d->failed == m->worker)
        return;
    const char *stalled = job->crew.stopping ? NULL : sl_job_stall_verdict(job, m);
    if (stalled)
        snprintf(d->cause, sizeof d->cause, "%s", stalled);
    else
        sl_death_describe(death, d->cause, sizeof d->cause);
}

static bool on_death(void *ctx, struct sl_member *m, const struct sl_death *death)
{
    struct sl_job *job = ctx;
    struct sl_job_death *d = &job->deaths[m->slot];
    struct sl_reclaimed back = {0};
    explain(job, m, death);
    if (job->crew.stopping) {
        note_death_at_the_end(job, m, d, death);
        return false;
    }
    sl_stream_last(&m->log, d->last_lines, sizeof d->last_lines);
    d->held[0] = '\0';
    bool worked = false;
    if (job->arena.base) {
        worked = has_worked(job, m);
        sl_job_held_by(job, m->worker, d->held, sizeof d->held);
        take_back(job, m, &back);
    }
    // One that was asked to leave is no restart.
    if (m->leaving && (m->dismissed || (!death->signal && death->exit_status == 0)))
        sl_joblog_write(&job->log, SL_LOG_INFO, "%s (process %d) %s", m->name, (int)m->pid,
                        m->dismissed ? "was not needed any more" : "has left");
    else
        note_death(job, m, d, &back);
    if (job->state == SL_JOB_RUNNING)
        sl_phases_poll(&job->phases);
    return worked;
}

static void on_left(void *ctx, struct sl_member *m)
{
    struct sl_job *job = ctx;
    if (job->state == SL_JOB_RUNNING)
        sl_job_poll_split(job);
}

static void on_hopeless(void *ctx, struct sl_member *m, const char *why)
{
    struct sl_job *job = ctx;
    const struct sl_job_death *d = &job->deaths[m->slot];
    // The job can do without a standby trainer as long as there is another trainer.
    if (job->split.trainers > 0 && sl_job_duty(job, m->role, m->device) == SL_DUTY_STANDBY) {
        job->no_standby[m->device] = true;
        sl_joblog_write(&job->log, SL_LOG_WARN,
                        "%s, so device %u gets no standby trainer any more; the last time it %s",
                        why, m->device, d->cause);
        sl_crew_release(m);
        return;
    }
    char hands[160] = "", log[4200] = "", text[SL_JOB_MESSAGE_BYTES];
    const char *said = d->last_lines[0]         ? "; its last lines: "
                       : d->failed == m->worker ? ""
                                                : "; it said nothing";
    if (d->held[0])
        snprintf(hands, sizeof hands, " with %s in hand", d->held);
    if (job->state == SL_JOB_RUNNING)
        snprintf(log, sizeof log, "; its log is %s/%s.log", job->rundir.log, m->log.name);
    int n;
    if (m->starts == 0 || !d->cause[0]) // it never was
        n = snprintf(text, sizeof text, "%s", why);
    else
        n = snprintf(text, sizeof text, "%s; the last time it %s%s%s%s%s", why, d->cause, hands,
                     said, d->last_lines, log);
    if (n >= (int)sizeof text)
        memcpy(text + sizeof text - sizeof "...", "...", sizeof "...");
    if (!sl_job_roll_back(job, m, text))
        sl_job_end(job, SL_OUTCOME_FAILED, "%s", text);
}

static void on_worker_line(void *ctx, struct sl_member *m, int level, const char *text)
{
    struct sl_job *job = ctx;
    // Lines of other origin (a sanitizer's, an assertion's) are in the log, and are quoted if the
    // worker dies of them.
    if (level == SL_LOG_ERROR || level == SL_LOG_WARN)
        sl_clients_send_line(&job->clients, level, text);
}

static bool has_left(void *ctx, const struct sl_member *m)
{
    const struct sl_job *job = ctx;
    if (!job->arena.base)
        return false;
    const struct sl_worker_slot *slot = sl_stats_slot(&job->arena, m->slot);
    return sl_stats_is_of(slot, m->worker) && atomic_load(&slot->words.left);
}

static void on_gone(void *ctx)
{
    struct sl_job *job = ctx;
    if (job->state == SL_JOB_FINISHING)
        sl_job_conclude(job);
}

const struct sl_crew_events sl_job_crew_events = {
    .on_death = on_death,
    .on_left = on_left,
    .on_hopeless = on_hopeless,
    .on_line = on_worker_line,
    .has_left = has_left,
    .on_gone = on_gone,
};

// A worker that could not start while the job runs on: it is about to die, or has died just now,
// and that death counts as any other. NULL: another one has its place by now.
static void note_failed_start(struct sl_job *job, const struct sl_member *m, const char *message)
{
    if (m) {
        struct sl_job_death *d = &job->deaths[m->slot];
        d->failed = m->worker;
        snprintf(d->cause, sizeof d->cause, "could not start: %s", message);
    }
    if (!m || !m->alive) // else its death says so
        sl_joblog_write(&job->log, SL_LOG_WARN, "%s could not start: %s", m ? m->name : "a worker",
                        message);
}

static void on_failed(struct sl_job *job, const struct sl_bus_peer *peer,
                      const Sl__Control__Failed *failed)
{
    const struct sl_member *m = sl_crew_by_worker(&job->crew, failed->worker);
    if (!m)
        m = sl_crew_by_peer(&job->crew, peer);
    if (job->state == SL_JOB_RUNNING && !(m && m->ready)) {
        note_failed_start(job, m, failed->message);
        return;
    }
    enum sl_outcome outcome =
        job->state == SL_JOB_STARTING ? SL_OUTCOME_REFUSED : SL_OUTCOME_FAILED;
    sl_job_end(job, outcome, "%s: %s", m ? m->name : "a worker", failed->message);
}

// --- phases --------------------------------------------------------------------------------------

static void tell_early_stop(struct sl_job *job, uint32_t epoch)
{
    char reason[160];
    sl_joblog_write(&job->log, SL_LOG_INFO, "stopped early after epoch %u of %u: %s", epoch + 1,
                    job->config.epochs, sl_phases_stop_reason(&job->phases, reason, sizeof reason));
    sl_job_event_of(job, epoch, "early_stop", true, "stopped early after epoch %u of %u: %s",
                    epoch + 1, job->config.epochs, reason);
}

// "epoch 3 of 20: loss 0.412, accuracy 0.871, 1.84 s"
static void tell_epoch(struct sl_job *job, const struct sl_epoch_figures *f)
{
    char metric[64] = "", test[64] = "";
    enum sl_measure measure = job->phases.measure;
    const char *name = sl_measure_name(measure);
    if (f->evaluated)
        snprintf(metric, sizeof metric, ", %s %.4g", name, f->val.value[measure]);
    if (f->tested)
        snprintf(test, sizeof test, ", test %s %.4g", name, f->test.value[measure]);
    sl_job_event_of(job, f->epoch, "epoch", isfinite(f->loss),
                    "epoch %u of %u: loss %.4g%s%s, %.3g s", f->epoch + 1, job->config.epochs,
                    f->loss, metric, test, f->seconds + f->evaluate_seconds);
}

static void on_epoch(void *ctx, const struct sl_epoch_figures *figures)
{
    struct sl_job *job = ctx;
    sl_job_live_epoch(job, figures);
    if (!isfinite(figures->loss) && !job->loss_warned) {
        job->loss_warned = true;
        sl_joblog_write(&job->log, SL_LOG_WARN,
                        "the loss of epoch %u is not a finite number: training has diverged; a "
                        "smaller optimizer.lr may help",
                        figures->epoch + 1);
    }
    char *json = sl_report_add_epoch(&job->report, figures);
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
    sl_job_end_switches(job, figures->epoch);
    if (job->phases.stopped_early)
        tell_early_stop(job, figures->epoch);
    else if (job->state == SL_JOB_RUNNING)
        sl_job_profile(job, figures);
}

static void on_complete(void *ctx)
{
    sl_job_end(ctx, SL_OUTCOME_DONE, "%s", "");
}

static void on_phase_error(void *ctx)
{
    sl_job_end(ctx, SL_OUTCOME_FAILED, "%s", sl_error_message());
}

static bool may_begin(void *ctx, uint32_t epoch)
{
    return sl_job_may_begin(ctx, epoch);
}

static void on_phase(void *ctx, const struct sl_open_phase *phase)
{
    sl_job_live_phase(ctx, phase);
    sl_job_trace_phase(ctx, phase);
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
    progress.samplers = job->split.samplers;
    progress.trainers = job->split.trainers;
    progress.seconds_left = -1;
    if (job->state == SL_JOB_RUNNING) {
        struct sl_phases_view view;
        struct sl_ledger_depth depth;
        sl_phases_view(&job->phases, &view);
        sl_ledger_depth(&job->arena, &depth);
        progress.phase = (char *)view.phase; // only read
        progress.epoch = view.epoch;
        progress.done = view.done;
        progress.total = view.total;
        progress.loss = view.loss;
        progress.seconds_left = view.seconds_left;
        progress.queue_batches = depth.batches[SL_CELL_READY];
        progress.queue_bytes = depth.ready_bytes;
        progress.rate = sl_job_live_rate(job, strcmp(view.phase, "train") == 0);
        progress.has_metric = sl_job_live_metric(job, &progress.metric);
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
    sl_crew_close(&job->crew);
    sl_saving_close(job);
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
    case SL__CONTROL__ENVELOPE__BODY_SCALE: sl_job_on_scale(job, peer, m->scale); break;
    case SL__CONTROL__ENVELOPE__BODY_SUBSCRIBE: sl_job_on_subscribe(job, peer, m->subscribe); break;
    case SL__CONTROL__ENVELOPE__BODY_DESCRIBE: sl_job_on_describe(job, peer); break;
    case SL__CONTROL__ENVELOPE__BODY_PAUSE: sl_job_on_pause(job, peer); break;
    case SL__CONTROL__ENVELOPE__BODY_RESUME: sl_job_on_resume(job, peer); break;
    case SL__CONTROL__ENVELOPE__BODY_TRACE: sl_job_on_trace(job, peer, m->trace); break;
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
        sl_job_tell_finished(job);
    if (job->told || sl_now_ns() - job->ended_ns > CLIENT_MS * 1000000ull)
        close_loop(job);
}

static void on_doorbell(void *ctx)
{
    struct sl_job *job = ctx;
    if (job->state == SL_JOB_RUNNING)
        sl_phases_poll(&job->phases);
    if (job->state == SL_JOB_RUNNING)
        sl_saving_poll(job);
    if (job->state == SL_JOB_RUNNING)
        sl_job_poll_split(job);
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
        sl_saving_poll(job);
    if (job->state == SL_JOB_RUNNING)
        sl_job_poll_split(job);
    if (job->state == SL_JOB_RUNNING && job->ticks % MEMORY_TICKS == 0)
        sl_job_sample_memory(job);
    if (job->state == SL_JOB_RUNNING && job->ticks % STALL_TICKS == 0)
        sl_job_look_for_stalls(job);
    if (job->state == SL_JOB_RUNNING) {
        sl_job_watch_switches(job);
        sl_job_poll_trace(job);
    }
    if (job->state != SL_JOB_ENDED) {
        sl_job_watch_files(job);
        sl_job_poll_live(job);
    }
    if (job->state == SL_JOB_RUNNING)
        sl_job_choose_by_first_batches(job);
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
    // The second one kills, if somebody sent it.
    stop(job, !death && job->state >= SL_JOB_FINISHING && job->outcome == SL_OUTCOME_STOPPED, who);
}

// --- life ----------------------------------------------------------------------------------------

static void release(struct sl_job *job)
{
    sl_saving_fini(job);
    sl_checkpoint_close(&job->resumed);
    sl_phases_fini(&job->phases);
    sl_crew_fini(&job->crew);
    free(job->deaths);
    free(job->stalls.of);
    free(job->member_bytes);
    sl_report_fini(&job->report);
    sl_joblog_fini(&job->log);
    sl_job_close_files(job);
    sl_rundir_close(&job->rundir); // its lock goes last: another job may write there then
    sl_live_fini(&job->live);
    sl_timeline_fini(&job->timeline);
    sl_params_fini(&job->params);
    sl_arena_detach(&job->arena);
    sl_dataset_close(&job->dataset);
    free(job->config_json);
    free(job->report_text);
    if (job->config_fd >= 0)
        close(job->config_fd);
    if (job->arena_fd >= 0)
        close(job->arena_fd);
    if (job->doorbell_fd >= 0)
        close(job->doorbell_fd);
    if (job->acts_fd >= 0)
        close(job->acts_fd);
    if (job->sums_fd >= 0)
        close(job->sums_fd);
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
    SL_TRY(sl_bus_bind(job->options.endpoint, job->options.token, &job->bus));
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
    job->config_fd = job->arena_fd = job->doorbell_fd = job->acts_fd = job->sums_fd = -1;
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
