/*
 * daemon.c - the daemon's life: its place, its loop, its end.
 *
 * One thread, one loop; nothing in it waits for a client, a broker or a GPU's driver
 * (pending.c), and what is read of run directories is read on the thread pool (archive.h).
 * It does wait for the disk that records are on: what a record tells is told only once it is
 * durable. A slow one is complained of (transition.c). The page's server has threads of its own and
 * is a client like any other.
 *
 * ORDER OF THE START. The runtime directory's lock first (a second daemon ends here), then the
 * state directory's (two runtime directories may be given the same one), then the sockets, then the
 * records: clients that connect meanwhile are answered once all is known. Only then jobs start.
 *
 * THE END. SIGTERM, SIGINT or SIGUSR1: every job is asked to stop, and writes its checkpoint; the
 * daemon ends when the last broker has. Jobs that ran are INTERRUPTED, those that waited wait on:
 * the next daemon goes on with both. A second signal kills the brokers.
 */
#include "broker/daemon/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "broker/daemon/daemon_internal.h"
#include "broker/daemon/process.h"
#include "broker/daemon/record.h"
#include "broker/daemon/root.h"
#include "broker/http/http.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "common/base/version.h"
#include "common/bus/curve_keys.h"
#include "common/bus/publish.h"

enum {
    EXIT_USAGE = 2,
    MESSAGES_A_TURN = 1024, // of clients, before jobs have their turn
    SECOND_TICKS = 1000 / SL_LOOP_TICK_MS,
    STOP_MS = 10000, // for a job to stop when the daemon does, unless it is saving
    LINGER_MS = 1000,
};

// --- the loop ------------------------------------------------------------------------------------

static void poll_processes(struct sl_daemon *d)
{
    for (uint32_t i = 0; i < d->registry.n; i++)
        if (d->registry.entries[i]->process)
            sl_process_poll(d->registry.entries[i]->process);
}

static void close_when_done(struct sl_daemon *d)
{
    if (d->stopping && d->n_processes == 0 && d->n_archived == 0)
        sl_loop_close(&d->loop);
}

static void on_bus(void *ctx)
{
    struct sl_daemon *d = ctx;
    struct sl_bus_peer peer;
    Sl__Control__Envelope *m;
    for (int i = 0; i < MESSAGES_A_TURN && sl_bus_receive(d->bus, 0, &peer, &m) == SL_OK; i++) {
        sl_daemon_on_message(d, &peer, m);
        sl_bus_message_free(m);
    }
    poll_processes(d);
    sl_daemon_start_jobs(d);
    close_when_done(d);
}

static void on_doorbell(void *ctx) {}

static void emit_status(struct sl_daemon *d)
{
    uint32_t run = 0, wait = 0;
    char text[128];
    for (uint32_t i = 0; i < d->registry.n; i++) {
        run += d->registry.entries[i]->process != NULL;
        wait += d->registry.entries[i]->state == SL_ENTRY_QUEUED;
    }
    snprintf(text, sizeof text, "STATUS=%s%u %s, %u %s%s", d->stopping ? "stopping: " : "", run,
             run == 1 ? "job runs" : "jobs run", wait, wait == 1 ? "waits" : "wait",
             d->parking.asking ? ", asking for the GPUs" : "");
    sl_notify_send(&d->notify, text);
    d->status_old = false;
}

static void on_tick(void *ctx)
{
    struct sl_daemon *d = ctx;
    sl_notify_poll(&d->notify);
    sl_pending_requests_poll(d, sl_daemon_serve_parked);
    if (++d->ticks % SECOND_TICKS != 0)
        return;
    sl_daemon_poll_orphans(d);
    sl_daemon_save_rest(d);
    sl_daemon_forget_old(d);
    if (d->status_old)
        emit_status(d);
    uint64_t refused = sl_bus_refused(d->bus);
    if (refused != d->refused_told)
        sl_log_debug("%llu messages of clients were refused so far", (unsigned long long)refused);
    d->refused_told = refused;
}

static void begin_stop(struct sl_daemon *d, const char *name)
{
    sl_log_info("SIG%s: stopping; jobs that run write a checkpoint", name);
    d->stopping = true;
    d->status_old = true;
    sl_notify_send(&d->notify, "STOPPING=1");
    sl_pending_requests_end(
        d, "the daemon is stopping, and has not taken the job: start it again first");
    for (uint32_t i = 0; i < d->registry.n; i++)
        if (d->registry.entries[i]->process)
            sl_process_stop(d->registry.entries[i]->process, false, STOP_MS);
    emit_status(d);
}

static void on_signal(void *ctx, int signum)
{
    struct sl_daemon *d = ctx;
    const char *name = sigabbrev_np(signum);
    if (signum == SIGHUP) {
        sl_log_info("SIGHUP: nothing to read again; ignored");
        return;
    }
    if (!d->stopping) {
        begin_stop(d, name);
        return;
    }
    sl_log_warn("SIG%s again: killing jobs that still run", name);
    for (uint32_t i = 0; i < d->registry.n; i++)
        if (d->registry.entries[i]->process)
            sl_process_kill(d->registry.entries[i]->process);
}

// --- the start -----------------------------------------------------------------------------------

static int find_cores(struct sl_daemon *d)
{
    struct sl_cores allowed;
    char text[256];
    SL_TRY(sl_cores_allowed(&allowed));
    d->cores = allowed;
    if (!d->options.cores)
        return SL_OK;
    int rc = sl_cores_parse(d->options.cores, &d->cores);
    if (rc < 0)
        return sl_fail_prefix(rc, "--cores '%s'", d->options.cores);
    for (uint32_t core = 0; core < SL_CORES_MAX; core++) {
        if (!sl_cores_has(&d->cores, core) || sl_cores_has(&allowed, core))
            continue;
        sl_cores_format(&allowed, text, sizeof text);
        return sl_fail(SL_EINVAL, "--cores: found core %u, wanted cores among %s", core, text);
    }
    if (sl_cores_count(&d->cores) == 0)
        return sl_fail(SL_EINVAL, "--cores: found no core, wanted at least one");
    return SL_OK;
}

// The directory is made (0700), and locked against another daemon.
static int take_state_dir(struct sl_daemon *d)
{
    struct stat st;
    const char *given = d->options.state_dir;
    char *whole = NULL;
    if (given && mkdir(given, 0700) != 0 && errno != EEXIST)
        return sl_fail_errno(SL_EACCESS, errno, "--state-dir '%s'", given);
    if (given && !(whole = realpath(given, NULL)))
        return sl_fail_errno(SL_EACCESS, errno, "--state-dir '%s'", given);
    int n = whole ? snprintf(d->state_dir, sizeof d->state_dir, "%s", whole)
                  : snprintf(d->state_dir, sizeof d->state_dir, "%s/jobs", d->runtime_dir);
    free(whole);
    if (n >= (int)sizeof d->state_dir)
        return sl_fail(SL_ERANGE, "--state-dir: a name of %d bytes is too long", n);
    if (!given && mkdir(d->state_dir, 0700) != 0 && errno != EEXIST)
        return sl_fail_errno(SL_EACCESS, errno, "the state directory '%s'", d->state_dir);
    d->state_fd = open(d->state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (d->state_fd < 0 || fstat(d->state_fd, &st) != 0)
        return sl_fail_errno(SL_EACCESS, errno, "the state directory '%s'", d->state_dir);
    if (st.st_uid != geteuid() || (st.st_mode & 022))
        return sl_fail(
            SL_EACCESS, "the state directory '%s' %s: wanted one that only user %u may write to",
            d->state_dir, st.st_uid != geteuid() ? "is another user's" : "can be written by others",
            (unsigned)geteuid());
    if (flock(d->state_fd, LOCK_EX | LOCK_NB) != 0)
        return sl_fail_errno(SL_EEXIST, errno,
                             "the state directory '%s' is another daemon's: give each its own "
                             "--state-dir",
                             d->state_dir);
    return SL_OK;
}

static int open_tcp(struct sl_daemon *d)
{
    const struct sl_daemon_options *o = &d->options;
    if (!o->listen && !o->stats_listen)
        return SL_OK;
    if (!o->keys)
        return sl_fail(SL_EINVAL,
                       "%s needs --keys FILE: over TCP only clients whose key is known "
                       "get in ('sluice keygen' makes keys)",
                       o->listen ? "--listen" : "--stats-listen");
    if (o->listen)
        SL_TRY(sl_root_find(o->output_root, d->output_root, sizeof d->output_root));
    struct sl_curve *keys = calloc(1, sizeof *keys);
    if (!keys)
        return sl_fail(SL_ENOMEM, "no memory for keys");
    int rc = sl_curve_read(o->keys, keys);
    if (rc == SL_OK && o->listen)
        rc = sl_bus_add_tcp(d->bus, o->listen, keys);
    if (rc == SL_OK && o->stats_listen)
        rc = sl_publisher_add_tcp(d->publisher, o->stats_listen, keys);
    explicit_bzero(keys, sizeof *keys);
    free(keys);
    return rc;
}

static int open_sockets(struct sl_daemon *d)
{
    char endpoint[SL_RUNTIME_DIR_BYTES + 32];
    sl_runtime_dir_endpoint(d->runtime_dir, "control.sock", endpoint, sizeof endpoint);
    SL_TRY(sl_bus_bind(endpoint, NULL, &d->bus));
    sl_subscribers_init(&d->subscribers, d->bus);
    if (d->options.http) {
        const struct sl_http_options http = {
            .listen = d->options.http,
            .token_file = d->options.http_token_file,
            .open = d->options.http_open,
            .endpoint = endpoint,
        };
        SL_TRY(sl_http_start(&http, &d->http));
    }
    sl_runtime_dir_endpoint(d->runtime_dir, "stats.sock", endpoint, sizeof endpoint);
    SL_TRY(sl_publisher_bind(endpoint, &d->publisher));
    return open_tcp(d);
}

// Many clients are many descriptors.
static void raise_limits(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

// A signal that comes while the daemon starts is heard once it can be; threads never get any.
static void hold_signals(bool hold)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGUSR1);
    sigprocmask(hold ? SIG_BLOCK : SIG_UNBLOCK, &set, NULL);
}

static int open_all(struct sl_daemon *d)
{
    static const struct sl_loop_events events = {
        .on_bus = on_bus,
        .on_doorbell = on_doorbell,
        .on_tick = on_tick,
        .on_signal = on_signal,
    };
    SL_TRY(sl_failpoint_init());
    SL_TRY(find_cores(d));
    SL_TRY(sl_runtime_dir_find(d->options.runtime_dir, d->runtime_dir));
    d->lock_fd = sl_runtime_dir_take(d->runtime_dir, SL_VERSION);
    SL_TRY(d->lock_fd);
    SL_TRY(take_state_dir(d));
    d->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (d->wake_fd < 0)
        return sl_fail_errno(SL_ESYS, errno, "making an eventfd");
    SL_TRY(open_sockets(d));
    SL_TRY(sl_loop_init(&d->loop, &events, d, sl_bus_fd(d->bus), d->wake_fd, 0));
    SL_TRY(sl_record_read_all(d->state_dir, &d->registry));
    return SL_OK;
}

static void say_hello(const struct sl_daemon *d)
{
    char cores[256];
    sl_cores_format(&d->cores, cores, sizeof cores);
    sl_log_info("sluice-broker %s (protocol %u, process %d) serves '%s', cores %s%s%s", SL_VERSION,
                SL_PROTOCOL_VERSION, (int)getpid(), d->runtime_dir, cores,
                d->http ? ", page at " : "", d->http ? sl_http_url(d->http) : "");
    if (d->registry.n)
        sl_log_info(d->registry.n == 1 ? "%u earlier job is known" : "%u earlier jobs are known",
                    d->registry.n);
}

static void close_all(struct sl_daemon *d)
{
    sl_http_stop(d->http); // a client of the bus
    sl_loop_fini(&d->loop);
    sl_bus_close(d->bus, LINGER_MS);
    sl_publisher_close(d->publisher);
    sl_subscribers_fini(&d->subscribers);
    sl_pending_requests_fini(&d->parking);
    sl_registry_fini(&d->registry);
    sl_notify_fini(&d->notify);
    if (d->wake_fd >= 0)
        close(d->wake_fd);
    if (d->state_fd >= 0)
        close(d->state_fd);
    if (d->lock_fd >= 0)
        close(d->lock_fd); // last: the next daemon may come
}

int sl_daemon_run(const struct sl_daemon_options *options)
{
    int status = 0;
    struct sl_daemon *d = calloc(1, sizeof *d); // too large for a stack
    if (!d) {
        fprintf(stderr, "sluice-broker: no memory\n");
        return 1;
    }
    d->options = *options;
    d->start_ns = sl_now_ns();
    d->lock_fd = d->state_fd = d->wake_fd = -1;
    sl_notify_init(&d->notify);
    raise_limits();
    hold_signals(true);
    if (open_all(d) == SL_OK) {
        say_hello(d);
        sl_daemon_recover(d);
        d->look_at_queue = true;
        hold_signals(false);
        sl_notify_send(&d->notify, "READY=1");
        emit_status(d);
        sl_loop_run(&d->loop);
        sl_daemon_save_rest(d);
        sl_log_info("the daemon has ended");
    } else {
        fprintf(stderr, "sluice-broker: %s\n", sl_error_message());
        status = EXIT_USAGE;
    }
    close_all(d);
    free(d);
    return status;
}
