#include "broker/job/job.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
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

enum {
    PROGRESS_TICKS = 2,
    MEMORY_TICKS = 10,
    DATA_TICKS = 10,
    STALL_TICKS = 5,
    LINGER_MS = 1000,
    CLIENT_MS = 2000, // for the first client to appear when the job is over already
};

// A client hands on what it is told: launchers, too, tell it to stop.
static const char *who_stops(const struct sl_job *job)
{
    if (job->options.nodes <= 1)
        return "the user";
    return job->nodes.met
               ? "the user or the launcher"
               : "the user or the launcher before the nodes had met (as when one of them "
                 "could not start: it says why)";
}

static void stop(struct sl_job *job, bool kill, const char *who)
{
    // What external trainers do has no end that the job knows: whoever stops it says that it is
    // done. On several nodes that may be a launcher, since another one is lost.
    const bool done = sl_config_is_external(&job->config) && job->state == SL_JOB_RUNNING &&
                      !kill && job->nodes.n <= 1;
    sl_joblog_write(&job->log, SL_LOG_INFO, "told to stop by %s%s", who, kill ? ", at once" : "");
    sl_job_end(job, done ? SL_OUTCOME_DONE : SL_OUTCOME_STOPPED, "stopped by %s", who);
    if (kill && job->state == SL_JOB_FINISHING && job->workers_placed)
        sl_worker_pool_stop(&job->workers, 0);
    if (kill)
        sl_job_nodes_abandon(job, true);
}

static void on_failed(struct sl_job *job, const struct sl_bus_peer *peer,
                      const Sl__Control__Failed *failed)
{
    const struct sl_pool_worker *w = sl_worker_pool_by_id(&job->workers, failed->worker);
    if (!w)
        w = sl_worker_pool_by_peer(&job->workers, peer);
    if (w && w->external) { // whose troubles are its own
        sl_joblog_write(&job->log, SL_LOG_WARN, "%s: %s", w->name, failed->message);
        return;
    }
    if (failed->code == SL_ENOTFINITE) { // whoever tries the update finds the same
        sl_job_end_broken(job, SL_NUMBERS_OF_UPDATE, failed->message);
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

static void send_progress(struct sl_job *job)
{
    Sl__Control__Progress progress = SL__CONTROL__PROGRESS__INIT;
    Sl__Control__Envelope e = SL__CONTROL__ENVELOPE__INIT;
    if (!sl_clients_want(&job->clients, SL_WANTS_PROGRESS))
        return;
    const bool saves = job->ending != SL_ENDING_NOTHING && job->ending != SL_ENDING_ALL;
    progress.phase = job->state == SL_JOB_STARTING ? "start" : saves ? "save" : "finish";
    char metric[SL_MEASURE_TITLE];
    progress.epochs = sl_config_told_epochs(&job->config);
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
            progress.metric_name =
                sl_measure_title(job->phases.measure, job->config.evaluate.k, metric);
    }
    e.body_case = SL__CONTROL__ENVELOPE__BODY_PROGRESS;
    e.progress = &progress;
    sl_clients_send(&job->clients, SL_WANTS_PROGRESS, &e);
}

// --- the loop ------------------------------------------------------------------------------------

static void close_loop(struct sl_job *job)
{
    sl_worker_pool_close(&job->workers);
    sl_worker_pool_close(&job->nodes.pool);
    sl_saving_close(&job->saving);
    sl_loop_close(&job->loop);
}

static void on_message(struct sl_job *job, const struct sl_bus_peer *peer,
                       const Sl__Control__Envelope *m)
{
    if (sl_job_nodes_on_message(job, peer, m))
        return;
    switch (m->body_case) {
    case SL__CONTROL__ENVELOPE__BODY_HELLO: sl_job_on_hello(job, peer, m->hello); break;
    case SL__CONTROL__ENVELOPE__BODY_READY: sl_job_on_ready(job, peer, m->ready); break;
    case SL__CONTROL__ENVELOPE__BODY_FAILED: on_failed(job, peer, m->failed); break;
    case SL__CONTROL__ENVELOPE__BODY_STOP: stop(job, m->stop->kill, who_stops(job)); break;
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
        on_message(job, &peer, m);
        sl_bus_message_free(m);
    }
    if (job->state != SL_JOB_ENDED)
        return;
    if (!job->told)
        sl_job_emit_finished(job);
    if (job->told || job->orphaned || sl_now_ns() - job->ended_ns > CLIENT_MS * 1000000ull)
        close_loop(job);
}

static void on_doorbell(void *ctx)
{
    struct sl_job *job = ctx;
    if (job->nodes.awaits_state)
        sl_job_conclude(job);
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
    if (job->nodes.awaits_state)
        sl_job_conclude(job);
    if (job->state == SL_JOB_STARTING)
        sl_job_check_start(job);
    if (job->state == SL_JOB_RUNNING)
        sl_phases_poll(&job->phases);
    if (job->state == SL_JOB_RUNNING)
        sl_saving_poll(&job->saving);
    if (job->state == SL_JOB_RUNNING)
        sl_split_poll(&job->split);
    if (job->state == SL_JOB_RUNNING && job->ticks % DATA_TICKS == 0)
        (void)sl_job_check_data(job);
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
    sl_job_nodes_poll(job);
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
    if (death)
        sl_job_nodes_abandon(job, false);
    // The second one kills, if a user or program sent it. The first is none after a client's Stop:
    // Slurm sends a signal to all processes of a job, and `sluice run` hands it on.
    const bool again = job->signalled && !death;
    job->signalled |= !death;
    stop(job, again && job->state >= SL_JOB_FINISHING && job->outcome == SL_OUTCOME_STOPPED, who);
}

static void on_owner(void *ctx)
{
    struct sl_job *job = ctx;
    job->orphaned = true;
    sl_job_nodes_abandon(job, false);
    stop(job, false, "the end of the process whose job it is");
}

// --- life ----------------------------------------------------------------------------------------

static void release(struct sl_job *job)
{
    sl_saving_fini(&job->saving);
    sl_checkpoint_close(&job->resumed);
    sl_phases_fini(&job->phases);
    sl_worker_pool_fini(&job->workers);
    sl_job_nodes_fini(job);
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
    sl_row_table_close(&job->rows);
    sl_config_forget_relations(&job->config);
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
        .on_owner = on_owner,
    };
    job->doorbell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (job->doorbell_fd < 0)
        return sl_fail_errno(SL_ESYS, errno, "making an eventfd");
    SL_TRY(sl_bus_bind(job->options.endpoint, job->options.key, &job->bus));
    sl_clients_init(&job->clients, job->bus);
    sl_joblog_init(&job->log, &job->clients);
    SL_TRY(sl_timeline_init(&job->timeline));
    SL_TRY(sl_loop_init(&job->loop, &events, job, sl_bus_fd(job->bus), job->doorbell_fd,
                        job->options.owner_fd));
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
