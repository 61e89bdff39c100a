/*
 * session.c - connects to the process that has the job, the daemon or a broker, and notices when it
 * has gone.
 *
 * PROBLEM. A user names a job and does not care who runs it. There may be a daemon, one that died
 * and left its files, one of another version, one that is stopped in a debugger, or none; and there
 * may be jobs of `sluice run` beside it.
 *
 * DESIGN. Both are asked, always: the daemon for its list, the process table for the others; the
 * word is looked up in the two together (job_lookup.h). What keeps the daemon from answering only
 * matters when the job is not one of `sluice run`'s.
 *
 * THE END of the other side: ZeroMQ connects again by itself, so a socket does not show it. The
 * process does, through its pidfd; where it cannot be had (another container), the daemon's lock is
 * looked at twice a second. A daemon that was started anew is another one, which knows nothing of
 * what this session has asked for: the session ends there, too. Over TCP there is neither; the
 * daemon is asked for a sign of life when nothing has come from it for a while. Whether it is there
 * at all is tried by hand before (daemon_probe.h): libzmq does not tell.
 */
#include "cli/session.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "broker/rundir/resume.h"
#include "cli/job_lookup.h"
#include "cli/daemon_probe.h"
#include "cli/run_name.h"
#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/interrupt.h"
#include "common/base/version.h"
#include "common/bus/curve_keys.h"
#include "common/bus/runtime_dir.h"
#include "common/text/json.h"

enum {
    ANSWER_MS = 5000,      // for a daemon to say what it has
    SLICE_MS = 100,        // between two looks at an interrupt and at the other side
    LAST_MESSAGE_MS = 300, // for what a process has sent before its end
    LOOK_MS = 500,         // between two looks at a daemon's lock
    SILENCE_MS = 10000, // from a daemon elsewhere before it is asked for a sign of life, and then
    LINGER_MS = 1000,
    END_SLICE_MS = 1000, // between two looks at the time while an end is waited for
    HINT_BYTES = 8400,
};

#define AT(kind, field) SL_OPTION_AT(kind, sl_session_where, field)
// clang-format off
const struct sl_option sl_session_options[] = {
    {.name = "runtime-dir", AT(TEXT, runtime_dir), .placeholder = "DIR",
     .help = "the daemon's directory, if not $SLUICE_RUNTIME_DIR or $XDG_RUNTIME_DIR/sluice"},
    {.name = "connect", AT(TEXT, connect), .placeholder = "tcp://HOST:PORT",
     .help = "a daemon on another machine ('sluice-broker --listen'); needs --key"},
    {.name = "key", AT(TEXT, key), .placeholder = "FILE",
     .help = "this user's client.key ('sluice keygen') for --connect"},
    {0},
};
// clang-format on

// --- the other side's end ------------------------------------------------------------------------

static void watch_process(struct sl_session *s, int64_t pid)
{
    s->peer_pid = pid;
    s->peer_fd = pid > 0 ? (int)syscall(SYS_pidfd_open, (pid_t)pid, 0u) : -1;
}

static bool daemon_gone(struct sl_session *s)
{
    struct sl_runtime_holder holder;
    uint64_t now = sl_now_ns();
    if (now - s->looked_ns < LOOK_MS * 1000000ull)
        return false;
    s->looked_ns = now;
    return sl_runtime_dir_look(s->dir, &holder) < 0 || !holder.alive || holder.pid != s->peer_pid;
}

// A daemon over TCP: nobody tells that a machine has lost its network.
static bool is_silent(struct sl_session *s)
{
    Sl__Control__List list = SL__CONTROL__LIST__INIT;
    Sl__Control__Envelope e = SL_ENVELOPE(LIST, list, &list);
    uint64_t silence_ms = (sl_now_ns() - s->heard_ns) / 1000000u;
    if (silence_ms < SILENCE_MS)
        return false;
    if (!s->sign.id) {
        s->sign = sl_request_begin(0);
        e.request = s->sign.id;
        sl_bus_send(s->bus, NULL, &e); // a full queue is silence, too
    }
    return silence_ms > 2 * SILENCE_MS;
}

static bool is_sign_of_life(struct sl_session *s, const Sl__Control__Envelope *m)
{
    struct sl_reply list = {0};
    s->heard_ns = sl_now_ns();
    bool is = sl_request_on_message(&s->sign, m, &list);
    sl_reply_fini(&list);
    return is;
}

static bool is_gone(struct sl_session *s)
{
    if (s->daemon && !s->dir[0])
        return is_silent(s);
    if (s->peer_pid > 0 && s->peer_fd >= 0) {
        struct pollfd fd = {.fd = s->peer_fd, .events = POLLIN};
        return poll(&fd, 1, 0) == 1;
    }
    if (s->daemon)
        return daemon_gone(s);
    return s->peer_pid > 0 && kill((pid_t)s->peer_pid, 0) != 0 && errno == ESRCH;
}

static int gone_error(const struct sl_session *s)
{
    if (!s->daemon)
        return sl_fail(SL_EFAILED, "job '%s': it has ended", s->name);
    if (!s->dir[0])
        return sl_fail(SL_EFAILED,
                       "the daemon has said nothing for %d s: its machine or the network may be "
                       "down; its jobs go on as long as it lives",
                       2 * SILENCE_MS / 1000);
    return sl_fail(
        SL_EFAILED,
        "the daemon of '%s' has gone: its jobs write a checkpoint and stop; start it "
        "again with 'sluice-broker --runtime-dir %s', and 'sluice ps' tells how they are",
        s->dir, s->dir);
}

void sl_session_close(struct sl_session *s)
{
    if (s->bus)
        sl_bus_close(s->bus, LINGER_MS);
    if (s->peer_pid > 0 && s->peer_fd >= 0)
        close(s->peer_fd);
    memset(s, 0, sizeof *s);
}

// --- messages ------------------------------------------------------------------------------------

int sl_session_send(struct sl_session *s, Sl__Control__Envelope *body)
{
    body->job = s->job;
    int rc = sl_bus_send(s->bus, NULL, body);
    return rc == SL_EAGAIN ? sl_fail(SL_EAGAIN, "%s does not take any more messages",
                                     s->daemon ? "the daemon" : "the job's broker")
                           : rc;
}

int sl_session_subscribe(struct sl_session *s, bool progress, bool stats)
{
    Sl__Control__Subscribe subscribe = SL__CONTROL__SUBSCRIBE__INIT;
    Sl__Control__Envelope e = SL_ENVELOPE(SUBSCRIBE, subscribe, &subscribe);
    subscribe.progress = progress;
    subscribe.stats = stats;
    return sl_session_send(s, &e);
}

int sl_session_receive(struct sl_session *s, int timeout_ms, Sl__Control__Envelope **out)
{
    uint64_t until = sl_now_ns() + (uint64_t)SL_MAX(timeout_ms, 0) * 1000000u;
    *out = NULL;
    for (;;) {
        uint64_t now = sl_now_ns();
        int left_ms = now < until ? (int)((until - now + 999999u) / 1000000u) : 0;
        int rc = sl_bus_receive(s->bus, SL_MIN(left_ms, (int)SLICE_MS), NULL, out);
        if (rc == SL_OK && is_sign_of_life(s, *out)) {
            sl_bus_message_free(*out);
            *out = NULL;
            continue;
        }
        if (rc != SL_EAGAIN)
            return rc;
        if (sl_interrupt_seen())
            return sl_fail(SL_EABORTED, "interrupted");
        if (is_gone(s)) {
            rc = sl_bus_receive(s->bus, LAST_MESSAGE_MS, NULL, out);
            return rc == SL_EAGAIN ? gone_error(s) : rc;
        }
        if (left_ms == 0)
            return SL_EAGAIN;
    }
}

// The caller waits for longer than usual, and is told once what for.
static void tell_waiting(const struct sl_session *s, const Sl__Control__Waiting *m, bool *told)
{
    if (!s->quiet && !*told && *m->text)
        fprintf(stderr, "sluice: note: %s\n", m->text);
    *told |= *m->text != '\0';
}

// What a reply says as a result.
static int take_reply(struct sl_reply *reply, char **json, char **message)
{
    int rc = reply->code;
    if (rc < 0)
        sl_fail(rc, "%s", reply->message ? reply->message : "refused without a reason");
    if (rc == SL_OK && json)
        *json = reply->json, reply->json = NULL;
    if (rc == SL_OK && message)
        *message = reply->message, reply->message = NULL;
    sl_reply_fini(reply);
    return rc;
}

int sl_session_ask(struct sl_session *s, Sl__Control__Envelope *body, int timeout_ms, char **json,
                   char **message)
{
    struct sl_request request = sl_request_begin((uint64_t)timeout_ms);
    struct sl_reply reply = {0};
    bool told = false;
    s->answered = false;
    if (json)
        *json = NULL;
    if (message)
        *message = NULL;
    body->request = request.id;
    SL_TRY(sl_session_send(s, body));
    while (!s->answered) {
        Sl__Control__Envelope *m;
        uint64_t left_ms = sl_request_left_ms(&request);
        if (left_ms == 0)
            return sl_fail(SL_ETIMEDOUT, "%s did not answer within %d s",
                           s->daemon ? "the daemon" : "the job's broker", timeout_ms / 1000);
        int rc = sl_session_receive(s, (int)left_ms, &m);
        if (rc == SL_EAGAIN)
            continue;
        if (rc < 0)
            return rc;
        s->answered = sl_request_on_message(&request, m, &reply);
        if (m->body_case == SL__CONTROL__ENVELOPE__BODY_WAITING)
            tell_waiting(s, m->waiting, &told);
        sl_bus_message_free(m);
    }
    return take_reply(&reply, json, message);
}

int sl_session_refusal(const struct sl_session *s, int code, const char *message)
{
    if (strncmp(message, "job ", 4) == 0)
        return sl_fail(code, "%s", message);
    return sl_fail(code, "job '%s': %s", s->name, message);
}

// --- the end of a job ----------------------------------------------------------------------------

// Of this session's job: a daemon tells of all that were asked for.
static bool is_mine(const struct sl_session *s, const Sl__Control__Envelope *m)
{
    return !s->daemon || !*m->job || strcmp(m->job, s->id) == 0 || strcmp(m->job, s->name) == 0;
}

// Its broker has gone without a last word, and without a report.
static int killed_error(const struct sl_session *s)
{
    char outlook[SL_RESUME_OUTLOOK_BYTES];
    if (sl_resume_outlook(s->output, outlook) < 0)
        return sl_fail_prefix(SL_EFAILED, "job '%s': its broker was killed", s->name);
    return sl_fail(SL_EFAILED,
                   "job '%s': it ended without a report in '%s': its broker was killed: the same "
                   "'sluice run' %s",
                   s->name, s->output, outlook);
}

int sl_session_await_end(struct sl_session *s, uint64_t until_ns, sl_session_on_message *look,
                         void *ctx, struct sl_job_end *out, Sl__Control__Envelope **last)
{
    memset(out, 0, sizeof *out);
    if (last)
        *last = NULL;
    for (;;) {
        Sl__Control__Envelope *m;
        uint64_t now = sl_now_ns();
        if (until_ns && now >= until_ns)
            return SL_ETIMEDOUT;
        uint64_t left_ms = until_ns ? (until_ns - now) / 1000000u + 1 : END_SLICE_MS;
        int rc = sl_session_receive(s, (int)SL_MIN(left_ms, (uint64_t)END_SLICE_MS), &m);
        if (rc == SL_EAGAIN)
            continue;
        // Its broker has gone without a last word: what it left tells.
        if (rc == SL_EFAILED && !s->daemon)
            return sl_rundir_is_reported(s->output) && sl_job_end_read(s->output, out) == SL_OK
                       ? SL_OK
                       : killed_error(s);
        if (rc < 0)
            return rc;
        bool over = m->body_case == SL__CONTROL__ENVELOPE__BODY_FINISHED && is_mine(s, m);
        if (over)
            sl_job_end_on_finished(m->finished, out);
        else if (look)
            rc = look(ctx, m);
        if (over && last)
            *last = m;
        else
            sl_bus_message_free(m);
        if (over || rc < 0)
            return rc;
    }
}

// --- the daemon ----------------------------------------------------------------------------------

// How to get a daemon, with what the user has said of where.
static const char *start_hint(const struct sl_session_where *where, char *out, size_t bytes)
{
    snprintf(out, bytes,
             "start one with 'sluice-broker%s%s &' (or 'systemctl start sluice'), or train in the "
             "foreground with 'sluice run'",
             where->runtime_dir ? " --runtime-dir " : "",
             where->runtime_dir ? where->runtime_dir : "");
    return out;
}

static int read_keys(const struct sl_session_where *where, struct sl_curve *keys)
{
    int rc = sl_curve_read(where->key, keys);
    if (rc == SL_ENOENT)
        sl_fail(rc,
                "--key '%s': there is no such file: wanted the client.key that 'sluice keygen' "
                "made beside the daemon's daemon.key: copy it here (mode 600) and name it",
                where->key);
    return rc;
}

static int connect_tcp(const struct sl_session_where *where, struct sl_session *s)
{
    struct sl_curve *keys;
    SL_TRY(sl_daemon_probe_check_endpoint(where->connect));
    if (!where->key)
        return sl_fail(SL_EINVAL,
                       "--connect %s: found no --key, wanted the client.key that 'sluice keygen' "
                       "made for this user: over a network everything is encrypted",
                       where->connect);
    keys = malloc(sizeof *keys);
    if (!keys)
        return sl_fail(SL_ENOMEM, "no memory for the keys");
    int rc = read_keys(where, keys);
    if (rc == SL_OK)
        rc = sl_daemon_probe_daemon(where->connect, where->key, keys);
    if (rc == SL_OK)
        rc = sl_bus_connect_tcp(where->connect, keys, &s->bus);
    explicit_bzero(keys, sizeof *keys);
    free(keys);
    s->peer_fd = -1;
    return rc;
}

static int connect_local(const struct sl_session_where *where, struct sl_session *s)
{
    char endpoint[SL_RUNTIME_SOCKET_MAX + 16], hint[HINT_BYTES];
    struct sl_runtime_holder holder = {0};
    SL_TRY(sl_runtime_dir_find(where->runtime_dir, s->dir));
    int rc = sl_runtime_dir_look(s->dir, &holder);
    if (rc == SL_ENOENT)
        return sl_fail(rc, "no daemon runs for '%s': %s", s->dir,
                       start_hint(where, hint, sizeof hint));
    if (rc < 0)
        return rc;
    if (!holder.alive)
        return sl_fail(SL_ENOENT, "the daemon (process %d) that used '%s' is gone: %s",
                       (int)holder.pid, s->dir, start_hint(where, hint, sizeof hint));
    if (holder.protocol != SL_PROTOCOL_VERSION)
        return sl_fail(SL_EPROTO,
                       "the daemon of '%s' (process %d) is sluice %s and speaks protocol %u, this "
                       "is sluice %s with protocol %u: start the daemon again after an upgrade, or "
                       "use the 'sluice' that came with it",
                       s->dir, (int)holder.pid, holder.version, holder.protocol, SL_VERSION,
                       SL_PROTOCOL_VERSION);
    sl_runtime_dir_endpoint(s->dir, "control.sock", endpoint, sizeof endpoint);
    SL_TRY(sl_bus_connect(endpoint, NULL, &s->bus));
    watch_process(s, holder.pid);
    return SL_OK;
}

static int ask_list(const struct sl_session_where *where, struct sl_session *s, cJSON **list)
{
    Sl__Control__List ask = SL__CONTROL__LIST__INIT;
    Sl__Control__Envelope e = SL_ENVELOPE(LIST, list, &ask);
    char *json = NULL;
    int rc = sl_session_ask(s, &e, ANSWER_MS, &json, NULL);
    if (rc == SL_ETIMEDOUT && where->connect)
        return sl_fail(rc,
                       "the daemon at %s takes this client's key and does not answer within %d s: "
                       "is it busy or stopped? Its log may say more",
                       where->connect, ANSWER_MS / 1000);
    if (rc == SL_ETIMEDOUT)
        return sl_fail(rc,
                       "the daemon of '%s' (process %lld) does not answer within %d s: is it "
                       "stopped? Its log may say more",
                       s->dir, (long long)s->peer_pid, ANSWER_MS / 1000);
    *list = json ? cJSON_Parse(json) : NULL;
    free(json);
    return rc < 0 || *list ? rc : sl_fail(SL_EPROTO, "the daemon's list of jobs is no JSON");
}

int sl_session_open_listing(const struct sl_session_where *where, struct sl_session *s,
                            cJSON **list)
{
    memset(s, 0, sizeof *s);
    *list = NULL;
    if (where->key && !where->connect)
        return sl_fail(SL_EINVAL,
                       "--key '%s': found no --connect, wanted both or neither: a daemon on this "
                       "machine needs no key, and one elsewhere is named with --connect "
                       "tcp://HOST:PORT",
                       where->key);
    s->daemon = true;
    s->heard_ns = sl_now_ns();
    int rc = where->connect ? connect_tcp(where, s) : connect_local(where, s);
    if (rc == SL_OK)
        rc = ask_list(where, s, list);
    if (rc < 0)
        sl_session_close(s);
    return rc;
}

int sl_session_open_daemon(const struct sl_session_where *where, struct sl_session *out)
{
    cJSON *list;
    int rc = sl_session_open_listing(where, out, &list);
    cJSON_Delete(list);
    return rc;
}

// --- a job ---------------------------------------------------------------------------------------

int sl_session_open_found(const struct sl_run_job *job, struct sl_session *s)
{
    memset(s, 0, sizeof *s);
    SL_TRY(sl_bus_connect(job->endpoint, job->key, &s->bus));
    watch_process(s, job->pid);
    s->broker_pid = job->pid;
    snprintf(s->job, sizeof s->job, "%s", job->name);
    snprintf(s->name, sizeof s->name, "%s", job->name);
    snprintf(s->output, sizeof s->output, "%s", job->output);
    snprintf(s->state, sizeof s->state, "running");
    return SL_OK;
}

void sl_session_set_entry(struct sl_session *s, const cJSON *entry)
{
    const cJSON *pid = sl_json_at(entry, "pid");
    snprintf(s->log, sizeof s->log, "%s", sl_json_string(entry, "log"));
    snprintf(s->job, sizeof s->job, "%s", sl_json_string(entry, "id"));
    snprintf(s->id, sizeof s->id, "%s", sl_json_string(entry, "id"));
    snprintf(s->name, sizeof s->name, "%s", sl_json_string(entry, "name"));
    snprintf(s->output, sizeof s->output, "%s", sl_json_string(entry, "output"));
    snprintf(s->state, sizeof s->state, "%s", sl_json_string(entry, "state"));
    s->broker_pid = cJSON_IsNumber(pid) ? (int64_t)pid->valuedouble : 0;
}

// A daemon that is gone and has left its files: its jobs are to go on with the next one.
static bool daemon_died(const struct sl_session_where *where)
{
    char dir[sizeof((struct sl_session *)0)->dir];
    struct sl_runtime_holder holder;
    return sl_runtime_dir_find(where->runtime_dir, dir) == SL_OK &&
           sl_runtime_dir_look(dir, &holder) == SL_OK && !holder.alive;
}

// Nobody runs it: the message of that stands, unless the word is a run that can be said to be over.
static int explain_directory(const struct sl_session_where *where, const char *word)
{
    struct sl_job_end end;
    char run[SL_RUN_NAME_BYTES], outlook[SL_RESUME_OUTLOOK_BYTES], why[2048], on[6000] = "";
    char text[sizeof end.message + 64], called[256] = "";
    snprintf(why, sizeof why, "%s", sl_error_message());
    int rc = sl_run_name_find(word, run);
    if (rc == SL_EINVAL)
        return rc;
    const bool by_name = rc == SL_OK && strcmp(word, run) != 0;
    if (rc < 0 || (by_name && daemon_died(where)))
        return sl_fail(SL_ENOENT, "%s", why);
    if (by_name)
        snprintf(called, sizeof called, "%.200s' in '", word);
    if (sl_run_name_is_output(run) && sl_resume_outlook(run, outlook) == SL_OK)
        snprintf(on, sizeof on, ": 'sluice run %s/config.json' %s", run, outlook);
    if (sl_job_end_read(run, &end) == SL_OK)
        return sl_fail(SL_ENOENT,
                       "job '%s%s': it does not run any more: %s%s%s 'sluice report' and 'sluice "
                       "logs' tell more",
                       called, run, sl_job_end_text(&end, text, sizeof text), on, *on ? ";" : ":");
    return sl_fail(SL_ENOENT,
                   "job '%s%s': it does not run any more, and was ended before its report%s",
                   called, run, on);
}

int sl_session_open(const struct sl_session_where *where, const char *word, struct sl_session *out)
{
    struct sl_session daemon;
    struct sl_run_job *found = NULL;
    struct sl_job_lookup list = {0};
    const struct sl_listed_job *job = NULL;
    cJSON *daemon_list = NULL;
    size_t n_found = 0;
    char why[HINT_BYTES] = "";
    int rc, daemon_rc;
    memset(out, 0, sizeof *out);
    daemon_rc = sl_session_open_listing(where, &daemon, &daemon_list);
    if (daemon_rc < 0)
        snprintf(why, sizeof why, "%s", sl_error_message());
    // Without a daemon elsewhere there is nowhere else to look.
    if (daemon_rc == SL_EABORTED || daemon_rc == SL_EINVAL || (daemon_rc < 0 && where->connect))
        return daemon_rc;
    // A daemon elsewhere has nothing to do with the processes here.
    if (!where->connect)
        SL_TRY_OUT(sl_run_jobs_find(&found, &n_found));
    SL_TRY_OUT(sl_job_lookup_init(&list, daemon_list, found, n_found));
    rc = word ? sl_job_lookup_find(&list, word, why, &job) : sl_job_lookup_only(&list, why, &job);
    // Why the daemon cannot be asked is the reason, unless there is none.
    if (rc == SL_ENOENT && daemon_rc < 0 && daemon_rc != SL_ENOENT)
        rc = sl_fail(daemon_rc, "%s", why);
    else if (rc == SL_ENOENT && word && !where->connect)
        rc = explain_directory(where, word);
    if (rc < 0)
        goto out;
    if (job->found) {
        rc = sl_session_open_found(job->found, out);
    } else {
        *out = daemon;
        daemon.bus = NULL;
        daemon.peer_pid = 0;
        sl_session_set_entry(out, job->entry);
    }
out:
    if (daemon_rc == SL_OK)
        sl_session_close(&daemon);
    sl_job_lookup_fini(&list);
    cJSON_Delete(daemon_list);
    free(found);
    return rc;
}

int sl_session_open_all(const struct sl_session_where *where, struct sl_session **out, size_t *n)
{
    struct sl_run_job *found = NULL;
    size_t n_found = 0;
    char why[HINT_BYTES] = "";
    *out = NULL;
    *n = 0;
    if (!where->connect)
        SL_TRY(sl_run_jobs_find(&found, &n_found));
    struct sl_session *all = calloc(n_found + 1, sizeof *all);
    int rc = all ? sl_session_open_daemon(where, all)
                 : sl_fail(SL_ENOMEM, "no memory for %zu jobs", n_found + 1);
    if (rc < 0)
        snprintf(why, sizeof why, "%s", sl_error_message());
    *n = rc == SL_OK;
    // One that cannot be reached is on its way out.
    for (size_t i = 0; (rc == SL_OK || rc == SL_ENOENT) && i < n_found; i++)
        *n += sl_session_open_found(&found[i], &all[*n]) == SL_OK;
    free(found);
    if (*n > 0) {
        *out = all;
        return SL_OK;
    }
    free(all);
    return sl_fail(rc, "%s", why); // there is no daemon, and how to start one
}
