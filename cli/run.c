/*
 * run.c - `sluice run`: one job in the foreground.
 *
 * Everything that can be known before a process is started is checked here: the job file, the data
 * set, where the results go. Then the private broker is started (launch.h) and this process is its
 * client: it shows what the broker tells, hands Ctrl-C on, and ends with the job.
 *
 *   first SIGINT, SIGTERM, SIGHUP or   Stop: workers leave, a checkpoint and the report are
 *   SIGUSR1                            written
 *   second                             Stop with kill: workers are killed first
 *   third, or no answer in time        the broker is killed; its workers die with it
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/dispatch.h"
#include "cli/dry_run.h"
#include "cli/machine.h"
#include "cli/job_check.h"
#include "cli/job_end.h"
#include "cli/output.h"
#include "broker/workers/launch.h"
#include "broker/workers/run_jobs.h"
#include "broker/epochs/metrics.h"
#include "cli/run_view.h"
#include "cli/session.h"
#include "nodes/launcher.h"
#include "broker/rundir/rundir.h"
#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/stopped.h"
#include "common/base/failpoint.h"
#include "common/bus/bus.h"

enum {
    STOP_MS = 8000,        // for the broker to answer a Stop
    KILL_MS = 1500,        // ... one with kill
    SAVE_MS = 120000,      // ... which says that it writes the last checkpoint
    LEAVE_MS = 3000,       // for the broker to end after its last word
    LOOK_MS = 200,         // between two looks at signals
    LAST_MESSAGE_MS = 300, // for a message of a dead broker to arrive
    STOPPED_LOOKS = 30,    // of several nodes, at a broker that was stopped: its link has done more
                           // than that, where it has one (link/loop.h)
};

struct run {
    struct sl_job_check check;
    int output; // enum sl_output
    const char *http, *http_token, *links, *machine;
    struct sl_machine other; // that a dry run is for
    bool http_open;
    char *dataset_record; // owned
    struct sl_launch broker;
    struct sl_session session; // with the broker; its end is seen by `broker`
    struct sl_run_view view;
    bool is_one_of_several; // processes that a launcher has started
    uint32_t rank;          // among them
    int signal_fd;
    int n_signals;
    bool stopped;                    // the broker was, and is killed
    uint64_t kill_at_ns;             // 0 = never
    Sl__Control__Envelope *finished; // Finished
};

// --- the broker's client -------------------------------------------------------------------------

static void send_stop(struct run *r, bool kill)
{
    Sl__Control__Stop stop = SL__CONTROL__STOP__INIT;
    Sl__Control__Envelope e = SL_ENVELOPE(STOP, stop, &stop);
    stop.kill = kill;
    sl_session_send(&r->session, &e);
}

static void on_signal(struct run *r)
{
    struct signalfd_siginfo info;
    while (read(r->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        r->n_signals++;
        if (r->n_signals == 1) {
            sl_progress_line(&r->view.progress, "%s",
                             r->check.over_nodes
                                 ? "stopping: told by the user, or by the launcher as when a "
                                   "process of another node has ended"
                                 : "stopping (once more kills)");
            send_stop(r, false);
            r->kill_at_ns = sl_now_ns() + STOP_MS * 1000000ull;
        } else if (r->n_signals == 2) {
            send_stop(r, true);
            r->kill_at_ns = sl_now_ns() + KILL_MS * 1000000ull;
        } else {
            sl_launch_kill(&r->broker);
        }
    }
}

// Shows a message, or keeps it when it is how the job ended.
static void on_message(struct run *r, Sl__Control__Envelope *m)
{
    if (m->body_case == SL__CONTROL__ENVELOPE__BODY_FINISHED) {
        r->finished = m;
        return;
    }
    if (r->kill_at_ns && m->body_case == SL__CONTROL__ENVELOPE__BODY_PROGRESS &&
        strcmp(m->progress->phase, "save") == 0)
        r->kill_at_ns = sl_now_ns() + SAVE_MS * 1000000ull;
    sl_run_view_message(&r->view, m);
    sl_bus_message_free(m);
}

static void receive(struct run *r, int timeout_ms)
{
    Sl__Control__Envelope *m;
    while (!r->finished && sl_bus_receive(r->session.bus, timeout_ms, NULL, &m) == SL_OK)
        on_message(r, m);
}

// Until the broker has said how the job ended, or is gone. True when it is gone.
static bool follow(struct run *r, struct sl_exit_status *death)
{
    struct sl_stopped stopped = {0};
    for (;;) {
        receive(r, 0);
        if (r->finished)
            return false;
        if (sl_launch_wait(&r->broker, 0, death)) {
            on_signal(r); // a signal may be why it is gone
            receive(r, LAST_MESSAGE_MS);
            return true;
        }
        uint64_t now = sl_now_ns();
        if (r->check.over_nodes && sl_stopped_look(&stopped, r->broker.pid, now) >= STOPPED_LOOKS &&
            !r->stopped) {
            r->stopped = true; // other nodes wait for it
            sl_launch_kill(&r->broker);
        }
        if (r->kill_at_ns && now >= r->kill_at_ns) {
            sl_launch_kill(&r->broker);
            r->kill_at_ns = 0;
        }
        struct pollfd fds[] = {
            {.fd = sl_bus_fd(r->session.bus), .events = POLLIN},
            {.fd = r->signal_fd, .events = POLLIN},
            {.fd = r->broker.pidfd, .events = POLLIN},
        };
        poll(fds, SL_COUNT_OF(fds), LOOK_MS);
        on_signal(r);
    }
}

// It has said its last word. Of several nodes the others may still write what they have.
static void wait_for_broker(struct run *r)
{
    struct sl_exit_status death;
    const uint64_t ms = r->check.over_nodes ? SAVE_MS : LEAVE_MS;
    const uint64_t until = sl_now_ns() + ms * 1000000ull;
    while (!sl_launch_wait(&r->broker, LOOK_MS, &death)) {
        on_signal(r);
        if (sl_now_ns() >= until)
            sl_launch_kill(&r->broker);
    }
}

// What can be done with what a killed broker has left.
static void tell_outlook(const struct run *r, char *buf, size_t bytes)
{
    char outlook[SL_RESUME_OUTLOOK_BYTES];
    if (sl_resume_outlook(r->check.config.output, outlook) < 0)
        snprintf(buf, bytes, "%s", sl_error_message());
    else
        snprintf(buf, bytes, "the same command%s %s",
                 r->check.checkpoint ? " without --checkpoint" : "", outlook);
}

// Of several processes that a launcher has started: which one it is that says so.
static int name_node(const struct run *r, int rc)
{
    char host[HOST_NAME_MAX + 1] = "";
    if (rc >= 0 || !r->is_one_of_several)
        return rc;
    gethostname(host, sizeof host - 1);
    return sl_fail_prefix(rc, "host %s (rank %u)", host, r->rank);
}

// The last message does not reach a command that stood still when it came, as after Ctrl-Z. What it
// says is in the broker's exit status and in its report. False: it did not come to that.
static bool recall_end(const struct run *r, pid_t broker, const struct sl_exit_status *death,
                       int *rc)
{
    struct sl_job_end end;
    Sl__Control__Finished f = SL__CONTROL__FINISHED__INIT;
    const bool follows = r->check.node > 0; // another node has the report
    if (!death->known || death->signal)
        return false;
    char *report = follows ? NULL : sl_job_end_report(r->check.config.output, broker, &end);
    const bool ended = report ? end.exit_status == death->exit_status
                              : follows && death->exit_status == SL_EXIT_OK;
    if (report) {
        f.exit_status = end.exit_status;
        f.message = end.message;
        f.run_directory = end.directory;
        f.report_json = report;
    }
    if (ended)
        *rc = sl_job_check_result(&r->check, &f, follows ? SL_OUTPUT_TEXT : r->output);
    free(report);
    return ended;
}

// The command's result when the broker went without saying it.
static int broker_lost(struct run *r, pid_t broker, const struct sl_exit_status *death)
{
    char how[160], then[1024], folder[32] = "log";
    int rc;
    if (recall_end(r, broker, death, &rc))
        return rc;
    if (r->check.node > 0)
        snprintf(folder, sizeof folder, SL_RUNDIR_OF_NODE "%u", r->check.node);
    tell_outlook(r, then, sizeof then);
    if (r->n_signals && !r->stopped)
        return sl_fail(SL_EABORTED, "job '%s': killed: %s", r->check.config.name, then);
    // It could not even begin to talk, and has said why on the standard error that we share.
    if (death->known && !death->signal && death->exit_status == SL_EXIT_USAGE)
        return SL_EXIT_USAGE;
    sl_exit_status_describe(death, how, sizeof how);
    if (r->stopped)
        snprintf(how, sizeof how, "was stopped (SIGSTOP) for %d s, and is killed", STOPPED_LOOKS);
    return name_node(
        r, sl_fail(SL_EFAILED,
                   "job '%s': the broker %s and its workers with it ('%s/%s' may say why): %s",
                   r->check.config.name, how, r->check.config.output, folder, then));
}

// The signals that stop a job, but for those that the parent process ignores (nohup).
static void stop_signals(sigset_t *out)
{
    static const int all[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
    sigemptyset(out);
    for (size_t i = 0; i < SL_COUNT_OF(all); i++) {
        struct sigaction now;
        if (sigaction(all[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaddset(out, all[i]);
    }
}

static int run_job(struct run *r)
{
    struct sl_exit_status death;
    sigset_t caught, before;
    const bool follows = r->check.node > 0; // another node, which shows and keeps everything
    SL_FAILPOINT(RUN_CHECKED);
    stop_signals(&caught);
    sigprocmask(SIG_BLOCK, &caught, &before);
    r->signal_fd = signalfd(-1, &caught, SFD_CLOEXEC | SFD_NONBLOCK);
    if (r->signal_fd < 0)
        return sl_fail_errno(SL_ESYS, errno, "catching signals");
    int keep_fd = r->check.over_nodes ? sl_launcher_keep_descriptor() : -1;
    if (keep_fd < -1)
        return keep_fd;
    const struct sl_launch_job job = {
        .config_json = r->check.config_json,
        .dataset_record = r->dataset_record,
        .name = r->check.config.name,
        .output = r->check.config.output,
        .report_path = follows ? NULL : r->check.report,
        .error_fd = -1,
        .resume = r->check.resume.content == SL_RUNDIR_CHECKPOINTS ? r->check.resume.checkpoint.name
                                                                   : NULL,
        .http = follows ? NULL : r->http,
        .http_token_file = r->http_token,
        .http_open = r->http_open,
        .over_nodes = r->check.over_nodes,
        .nodes = r->check.nodes,
        .node = r->check.node,
        .keep_fd = keep_fd,
    };
    SL_TRY(sl_launch_broker(&job, &r->broker));
    SL_FAILPOINT(RUN_LAUNCHED);
    sl_run_view_init(&r->view, r->check.quiet, &r->check.config, r->check.judging.choice.measure);
    int rc = sl_bus_connect(r->broker.endpoint, r->broker.key, &r->session.bus);
    if (rc < 0) {
        sl_launch_kill(&r->broker);
        sl_launch_wait(&r->broker, LEAVE_MS, &death);
        return rc;
    }
    sl_session_subscribe(&r->session, true, false);
    const pid_t broker = r->broker.pid;
    bool gone = follow(r, &death);
    sl_run_view_end(&r->view);
    rc = r->finished ? sl_job_check_result(&r->check, r->finished->finished,
                                           follows ? SL_OUTPUT_TEXT : r->output)
                     : broker_lost(r, broker, &death);
    if (rc < 0 && r->check.over_nodes) {
        // Before the broker ends: its link ends the world then, and this process with it.
        fprintf(stderr, "sluice: %s\n", sl_error_message());
        rc = sl_exit_status(rc);
        if (r->finished ? r->finished->finished->alone : gone)
            sl_launcher_abort(rc);
    }
    if (!gone)
        wait_for_broker(r);
    return rc;
}

// --- the command ---------------------------------------------------------------------------------

static int init(const struct sl_command *c, void *state)
{
    ((struct run *)state)->signal_fd = -1;
    return SL_OK;
}

static int take_machine(struct run *r)
{
    if (!r->machine)
        return SL_OK;
    if (!r->check.dry_run)
        return sl_fail(SL_EINVAL, "run: --machine without --dry-run: it is for a plan alone");
    SL_TRY(sl_machine_read(r->machine, &r->other));
    sl_machine_assume(&r->other);
    r->check.machine = &r->other;
    return SL_OK;
}

static int run(void *state)
{
    struct run *r = state;
    if ((r->http_token || r->http_open) && !r->http)
        return sl_fail(SL_EINVAL,
                       "run: --http-%s without --http PORT: there is no page that it could be for",
                       r->http_token ? "token" : "open");
    if (r->links && !r->check.dry_run)
        return sl_fail(SL_EINVAL, "run: --links without --dry-run: it is for a plan alone");
    SL_TRY(take_machine(r));
    const uint32_t n = sl_launcher_size(&r->rank);
    r->is_one_of_several = n != 1 && !sl_launcher_is_batch();
    int rc = sl_job_check_run(&r->check, false);
    if (rc < 0 && r->is_one_of_several) {
        name_node(r, rc);
        fprintf(stderr, "sluice: %s\n", sl_error_message());
        sl_launcher_abort(SL_EXIT_USAGE);
        return SL_EXIT_USAGE;
    }
    if (rc < 0)
        return sl_job_check_status(rc);
    if (!r->check.dry_run) {
        r->dataset_record = sl_dataset_record(&r->check.dataset);
        if (!r->dataset_record)
            return sl_fail(SL_ENOMEM, "no memory for a data set's record");
        sl_dataset_close(&r->check.dataset); // the workers map it themselves
        return run_job(r);
    }
    return sl_dry_run(&r->check, (enum sl_output)r->output, r->links);
}

static void release(void *state)
{
    struct run *r = state;
    sl_bus_message_free(r->finished);
    sl_bus_close(r->session.bus, 0);
    sl_job_check_fini(&r->check);
    free(r->dataset_record);
    if (r->signal_fd >= 0)
        close(r->signal_fd);
}

#define AT(kind, field) SL_OPTION_AT(kind, run, field)
// clang-format off
static const struct sl_option options[] = {
    {.name = "dry-run", AT(FLAG, check.dry_run),
     .help = "check everything, show what would run (with -o json the resolved job, too), start "
             "nothing"},
    {.name = "http", AT(TEXT, http), .placeholder = "PORT",
     .help = "show the job in a browser, at this port of this machine; 0 takes any that is free, "
             "and the address is shown"},
    {.name = "http-open", AT(FLAG, http_open),
     .help = "let other users of this machine see that page; without it only those who know the "
             "secret of --http-token do"},
    {.name = "http-token", AT(TEXT, http_token), .placeholder = "FILE",
     .help = "with the secret in this file the page may scale, pause and stop the job"},
    {.name = "links", AT(TEXT, links), .placeholder = "FILE",
     .help = "what 'sluice doctor --nodes -o json' has measured: with --dry-run, how long an epoch "
             "takes on the wire between nodes; under mpirun or srun a dry run measures by itself"},
    {.name = "machine", AT(TEXT, machine), .placeholder = "KEY=NUMBER,...",
     .help = "with --dry-run: what the job needs of another machine, and the least that an epoch "
             "takes there: gpus, gpu_memory of each, memory, and rates a second that are known: "
             "bus to each GPU, read of the memory, drive, edges a sampler draws, products a "
             "trainer makes"},
    {.name = "output", .letter = 'o', .alias = "format", AT(CHOICE, output),
     .choices = sl_output_names,
     .help = "what standard output gets: a summary, or the report as JSON"},
    {0},
};
// clang-format on

const struct sl_command sl_command_run = {
    .name = "run",
    .help = "run a job in the foreground: progress, then a summary",
    .about = "Trains the model that a job file describes: starts samplers and trainers, shows "
             "how far they\nare, and ends with a summary. The results go to the job's output "
             "directory; a run that was\nstopped there continues from its newest "
             "checkpoint. Ctrl-C (or SIGTERM, SIGUSR1) stops\nthe job and keeps what was "
             "done; a second one kills. 'sluice stats', 'top', 'scale', 'pause' and\n'stop' "
             "work on it from another terminal.",
    .example = "sluice run job.json --set epochs=5 --report report.json\n"
               "sluice run job.json --http 8080\n"
               "sluice run job.json --dry-run --machine gpus=8,gpu_memory=80GiB,memory=2TiB\n"
               "sluice run job.json --quiet -o json | jq .test",
    .operands = {{"JOB.json", offsetof(struct run, check.job)}},
    .options = {{sl_job_check_options, offsetof(struct run, check)}, {options}},
    .bytes = sizeof(struct run),
    .init = init,
    .run = run,
    .fini = release,
};
