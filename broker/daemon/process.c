#include "broker/daemon/process.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "broker/log/client.h"
#include "broker/workers/process_id.h"
#include "broker/workers/launch.h"
#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/open_file.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "common/base/utf8.h"
#include "common/bus/publish.h"
#include "common/text/json.h"

enum {
    MESSAGES_A_TURN = 256, // of one job before the others have their turn
    LAST_WORD_MS = 300,    // for a message of a dead broker to arrive
    LEAVE_MS = 5000,       // for a broker to end after its last word
    KILL_MS = 5000,        // ... after it was told to kill its workers and end
    SAVE_MS = 120000,      // ... since it said last that it writes the last checkpoint
    SAVE_MAX_MS = 600000,  // ... however often it says so: a disk may hang
    TAIL_BYTES = 4096,     // of its log, for the last lines
    TAIL_LINES = 4,
    LOG_BYTES_MAX = 4 << 20, // of a log that a new start goes on with
};

struct sl_process {
    struct sl_daemon *daemon;
    struct sl_entry *entry; // NULL once the job is over
    struct sl_launch launch;
    struct sl_bus *bus;
    uv_poll_t bus_edge, end;
    int n_handles; // that are not closed
    bool look;     // for its end
    bool dead;
    struct sl_exit_status death;
    uint64_t dead_ns, last_word_ns;
    Sl__Control__Envelope *last_word; // Finished (owned)
    uint64_t kill_at_ns;              // 0 = never
    uint64_t save_until_ns;           // that may be put off until then, while it is saving
    bool killed;                      // by us
};

// --- life ----------------------------------------------------------------------------------------

static void destroy(struct sl_process *p)
{
    sl_bus_close(p->bus, 0);
    sl_bus_message_free(p->last_word);
    p->daemon->n_processes--;
    free(p);
}

static void on_closed(uv_handle_t *handle)
{
    struct sl_process *p = handle->data;
    if (--p->n_handles == 0)
        destroy(p);
}

static void close_handle(uv_poll_t *handle)
{
    if (handle->loop && !uv_is_closing((uv_handle_t *)handle))
        uv_close((uv_handle_t *)handle, on_closed);
}

// The process is no more (or never was); frees it once the loop has let go of it.
static void release(struct sl_process *p)
{
    if (p->entry)
        p->entry->process = NULL;
    p->entry = NULL;
    if (p->n_handles == 0) {
        destroy(p);
        return;
    }
    close_handle(&p->bus_edge);
    close_handle(&p->end);
}

// Their only purpose is to end the loop's wait: it polls every process then.
static void on_edge(uv_poll_t *handle, int status, int events) {}

static void on_end(uv_poll_t *handle, int status, int events)
{
    struct sl_process *p = handle->data;
    p->look = true;
    uv_poll_stop(handle); // the descriptor is about to be closed
}

static int watch(struct sl_process *p, uv_poll_t *handle, int fd, uv_poll_cb cb)
{
    int err = fd >= 0 ? uv_poll_init(&p->daemon->loop.uv, handle, fd) : 0;
    handle->data = p;
    if (fd < 0)
        return SL_OK;
    if (err == 0) {
        p->n_handles++;
        err = uv_poll_start(handle, UV_READABLE, cb);
    } else {
        handle->loop = NULL;
    }
    return err ? sl_fail(SL_ESYS, "watching the broker: %s", uv_strerror(err)) : SL_OK;
}

static int open_log(struct sl_process *p)
{
    char path[SL_RUNTIME_DIR_BYTES + 48];
    snprintf(path, sizeof path, "%s/%s.log", p->daemon->state_dir, p->entry->id);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0 && lseek(fd, 0, SEEK_END) > LOG_BYTES_MAX && ftruncate(fd, 0) != 0)
        sl_log_warn("job %s: its log cannot be emptied: %s", p->entry->id, strerror(errno));
    // A job is worth more than its log: what it says goes where the daemon's own lines go.
    if (fd < 0)
        sl_log_warn("job %s: its log '%s' cannot be opened: %s", p->entry->id, path,
                    strerror(errno));
    return fd;
}

static int launch(struct sl_process *p)
{
    const struct sl_entry *e = p->entry;
    int error_fd = open_log(p); // -1: the daemon's standard error
    const struct sl_launch_job job = {
        .config_json = e->config_json,
        .name = e->name,
        .output = e->output,
        .report_path = e->report,
        .resume = e->checkpoint,
        .checks = true,
        .id = e->id,
        .error_fd = error_fd,
    };
    int rc = sl_launch_broker(&job, &p->launch);
    if (error_fd >= 0)
        close(error_fd);
    return rc;
}

static int subscribe(struct sl_process *p)
{
    Sl__Control__Subscribe subscribe = SL__CONTROL__SUBSCRIBE__INIT;
    Sl__Control__Envelope body = SL_ENVELOPE(SUBSCRIBE, subscribe, &subscribe);
    subscribe.progress = true;
    subscribe.stats = true;
    return sl_bus_send(p->bus, NULL, &body);
}

static int start(struct sl_process *p)
{
    SL_TRY(launch(p));
    SL_FAILPOINT(DAEMON_STARTED);
    SL_TRY(sl_bus_connect(p->launch.endpoint, p->launch.key, &p->bus));
    SL_TRY(watch(p, &p->bus_edge, sl_bus_fd(p->bus), on_edge));
    SL_TRY(watch(p, &p->end, p->launch.pidfd, on_end));
    return subscribe(p);
}

void sl_process_start(struct sl_daemon *d, struct sl_entry *e)
{
    struct sl_process *p = calloc(1, sizeof *p);
    if (!p) {
        sl_daemon_end_entry(d, e, SL_ENTRY_FAILED, 1, "no memory to start its broker");
        sl_daemon_emit_finished(d, e);
        return;
    }
    d->n_processes++;
    *p = (struct sl_process){.daemon = d, .entry = e, .launch.pidfd = -1};
    e->process = p;
    e->started = sl_daemon_now();
    e->message[0] = '\0';
    e->was_paused = false;
    if (start(p) < 0) {
        struct sl_exit_status death;
        sl_daemon_end_entry(d, e, SL_ENTRY_FAILED, 1, "%s", sl_error_message());
        sl_launch_kill(&p->launch);
        sl_launch_wait(&p->launch, LEAVE_MS, &death);
        release(p);
        sl_daemon_emit_finished(d, e);
        return;
    }
    e->pid = p->launch.pid;
    e->pid_start = sl_process_id_start(e->pid);
    sl_process_id_boot(e->boot);
    sl_daemon_set_state(d, e, SL_ENTRY_STARTING);
}

// --- the end -------------------------------------------------------------------------------------

// The last lines of its log since it began, joined by " | ". Returns buf.
static char *last_lines(const struct sl_process *p, char *buf, size_t bytes)
{
    char path[SL_RUNTIME_DIR_BYTES + 48], text[TAIL_BYTES + 1];
    struct stat st;
    buf[0] = '\0';
    snprintf(path, sizeof path, "%s/%s.log", p->daemon->state_dir, p->entry->id);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return buf;
    ssize_t n = -1;
    if (fstat(fd, &st) == 0 && (double)st.st_mtime >= p->entry->started - 1)
        n = pread(fd, text, TAIL_BYTES, SL_MAX(0, st.st_size - TAIL_BYTES));
    close(fd);
    while (n > 0 && text[n - 1] == '\n')
        n--;
    if (n <= 0)
        return buf;
    text[n] = '\0';
    char *first = text + n;
    for (int lines = 0; first > text; first--)
        if (first[-1] == '\n' && ++lines == TAIL_LINES)
            break;
    for (char *at = first; at < text + n; at++)
        if (*at == '\n' || *at == '\0')
            *at = '|';
    snprintf(buf, bytes, "%.1000s", first);
    return buf;
}

// Refuses the requests to the job that still wait for an answer.
static void refuse_waiting(struct sl_daemon *d, const struct sl_entry *e)
{
    struct sl_route *route;
    char why[SL_ENTRY_TITLE_BYTES + 64];
    snprintf(why, sizeof why, "%s has ended (%s) before it answered", e->title,
             sl_entry_state_name(e->state));
    while ((route = sl_routes_of(&d->routes, e->number))) {
        const struct sl_route gone = *route;
        sl_routes_remove(&d->routes, route);
        sl_daemon_refuse(d, &gone.peer, gone.asked, e->id, SL_EFAILED, why);
    }
}

static void end_with(struct sl_process *p, const Sl__Control__Finished *f)
{
    struct sl_daemon *d = p->daemon;
    struct sl_entry *e = p->entry;
    enum sl_entry_state state = SL_ENTRY_FAILED;
    if (f->exit_status == 0)
        state = SL_ENTRY_DONE;
    else if (f->exit_status == 130)
        state = d->stopping && !e->stopping ? SL_ENTRY_INTERRUPTED : SL_ENTRY_STOPPED;
    if (state == SL_ENTRY_DONE)
        e->live.progress = 1;
    if (state == SL_ENTRY_INTERRUPTED)
        sl_daemon_interrupt(d, e);
    else
        sl_daemon_end_entry(d, e, state, f->exit_status, "%s", f->message);
}

static void end_without(struct sl_process *p)
{
    char how[192], lines[1024], then[1024] = "";
    struct sl_daemon *d = p->daemon;
    struct sl_entry *e = p->entry;
    const struct sl_exit_status *death = &p->death;
    sl_exit_status_describe(death, how, sizeof how);
    last_lines(p, lines, sizeof lines);
    if (p->killed && e->stopping) {
        sl_daemon_end_entry(d, e, SL_ENTRY_STOPPED, 130, "killed by the user");
    } else if (d->stopping && (p->killed || (death->signal && death->signal != SIGSEGV))) {
        sl_daemon_interrupt(d, e);
    } else {
        bool refused = death->known && !death->signal && death->exit_status == 2;
        if (!refused)
            sl_daemon_outlook(e, false, then, sizeof then);
        sl_daemon_end_entry(d, e, SL_ENTRY_FAILED, refused ? 2 : 1,
                            "its broker (process %d) %s without a last word%s%s%s%s", (int)e->pid,
                            how, then[0] ? ": " : "", then, lines[0] ? "; its last lines: " : "",
                            lines);
    }
}

static void conclude(struct sl_process *p)
{
    struct sl_daemon *d = p->daemon;
    struct sl_entry *e = p->entry;
    e->process = NULL; // the cores are free before the end is told
    if (p->last_word) {
        sl_utf8_clean(p->last_word->finished->message);
        end_with(p, p->last_word->finished);
    } else {
        end_without(p);
    }
    SL_FAILPOINT(DAEMON_FINISHED);
    refuse_waiting(d, e);
    if (p->last_word && e->state != SL_ENTRY_INTERRUPTED)
        sl_daemon_emit(d, e, 0, p->last_word);
    else
        sl_daemon_emit_finished(d, e);
    release(p);
}

// --- messages of the broker ----------------------------------------------------------------------

static void on_progress(struct sl_process *p, const Sl__Control__Progress *m)
{
    struct sl_entry *e = p->entry;
    struct sl_entry_live *live = &e->live;
    bool saving = strcmp(m->phase, "save") == 0;
    bool ends = saving || strcmp(m->phase, "finish") == 0;
    if (p->kill_at_ns && saving)
        p->kill_at_ns =
            SL_MAX(p->kill_at_ns, SL_MIN(sl_now_ns() + SAVE_MS * 1000000ull, p->save_until_ns));
    e->epochs = m->epochs ? m->epochs : e->epochs; // "auto" is a number by now
    if (e->state == SL_ENTRY_STARTING && !ends && strcmp(m->phase, "start") != 0)
        sl_daemon_set_state(p->daemon, e, SL_ENTRY_RUNNING);
    else if (ends && e->state != SL_ENTRY_FINISHING)
        sl_daemon_set_state(p->daemon, e, SL_ENTRY_FINISHING);
    if (ends || e->state == SL_ENTRY_STARTING)
        return;
    live->any = true;
    live->epoch = m->epoch;
    live->samplers = m->samplers;
    live->trainers = m->trainers;
    live->seconds_left = m->seconds_left;
    if (strcmp(m->phase, "train") == 0) {
        double part = m->total ? (double)m->done / (double)m->total : 0;
        live->progress = m->epochs ? ((double)m->epoch + part) / m->epochs : 0;
        if (m->done)
            live->loss = m->loss;
    }
}

// What an epoch came to. Progress comes a few times a second, so the last epochs of a short job may
// be over before any of it tells of them.
static void on_epoch(struct sl_process *p, const char *json)
{
    struct sl_entry_live *live = &p->entry->live;
    cJSON *j = cJSON_Parse(json);
    double epoch = sl_json_number(j, "epoch"), loss = sl_json_number(j, "loss");
    if (epoch >= 0 && epoch < (double)p->entry->epochs) {
        live->any = true;
        live->epoch = (uint32_t)epoch;
        live->progress = (epoch + 1) / (double)p->entry->epochs;
        live->loss = isnan(loss) ? live->loss : loss;
    }
    cJSON_Delete(j);
}

static void on_pause(struct sl_process *p, bool paused)
{
    struct sl_entry *e = p->entry;
    enum sl_entry_state now = paused ? SL_ENTRY_PAUSED : SL_ENTRY_RUNNING;
    bool can_be = e->state == SL_ENTRY_RUNNING || e->state == SL_ENTRY_PAUSED ||
                  (paused && e->state == SL_ENTRY_STARTING);
    if (!can_be || e->state == now)
        return;
    e->was_paused = paused;
    sl_daemon_set_state(p->daemon, e, now);
}

// What one key of a line says; "" when there is none.
static void read_word(const char *json, const char *key, char *out, size_t bytes)
{
    cJSON *j = cJSON_Parse(json);
    snprintf(out, bytes, "%s", sl_json_string(j, key));
    cJSON_Delete(j);
}

static void on_stats(struct sl_process *p, const char *json)
{
    struct sl_entry *e = p->entry;
    char word[16], *copy = strdup(json);
    if (copy) {
        free(e->live.stats);
        e->live.stats = copy;
    }
    read_word(json, "state", word, sizeof word);
    if (strcmp(word, "paused") == 0 || strcmp(word, "running") == 0)
        on_pause(p, word[0] == 'p');
    sl_publisher_send(p->daemon->publisher, "stats", e->name, json);
}

static void on_event(struct sl_process *p, const char *json)
{
    char word[16];
    read_word(json, "kind", word, sizeof word);
    if (strcmp(word, "pause") == 0 || strcmp(word, "resume") == 0)
        on_pause(p, word[0] == 'p');
    sl_publisher_send(p->daemon->publisher, "event", p->entry->name, json);
}

// An answer to a client's request goes to that client, under the job's name.
static void pass_on(struct sl_process *p, Sl__Control__Envelope *m)
{
    struct sl_routes *routes = &p->daemon->routes;
    struct sl_route *route = sl_routes_find(routes, p->entry->number, m);
    if (!route)
        return; // nobody waits for it any more
    char *job = m->job;
    m->job = p->entry->id;
    sl_bus_send(p->daemon->bus, &route->peer, m);
    m->job = job; // what it was is freed with the message
    if (sl_request_is_last(m))
        sl_routes_remove(routes, route);
}

// True when the message is kept.
static bool take(struct sl_process *p, Sl__Control__Envelope *m)
{
    if (m->request) {
        pass_on(p, m);
        return false;
    }
    unsigned wants = 0; // everybody hears of it
    switch (m->body_case) {
    case SL__CONTROL__ENVELOPE__BODY_PROGRESS: on_progress(p, m->progress); // fall through
    case SL__CONTROL__ENVELOPE__BODY_LOG_LINE: wants = SL_WANTS_PROGRESS; break;
    case SL__CONTROL__ENVELOPE__BODY_STATS:
        on_stats(p, m->stats->json);
        wants = SL_WANTS_STATS;
        break;
    case SL__CONTROL__ENVELOPE__BODY_EVENT: on_event(p, m->event->json); break;
    case SL__CONTROL__ENVELOPE__BODY_EPOCH_DONE: on_epoch(p, m->epoch_done->json); break;
    case SL__CONTROL__ENVELOPE__BODY_FINISHED:
        if (p->last_word)
            return false;
        p->last_word = m;
        p->last_word_ns = sl_now_ns();
        if (p->entry->state != SL_ENTRY_FINISHING)
            sl_daemon_set_state(p->daemon, p->entry, SL_ENTRY_FINISHING);
        return true;
    default: return false; // what only clients send
    }
    sl_daemon_emit(p->daemon, p->entry, wants, m);
    return false;
}

static void receive(struct sl_process *p)
{
    Sl__Control__Envelope *m;
    for (int i = 0; i < MESSAGES_A_TURN && sl_bus_receive(p->bus, 0, NULL, &m) == SL_OK; i++)
        if (!take(p, m))
            sl_bus_message_free(m);
}

// --- time ----------------------------------------------------------------------------------------

static void poll_end(struct sl_process *p)
{
    struct sl_exit_status death;
    bool may_be = p->look || p->launch.pidfd < 0;
    if (p->dead || !may_be)
        return;
    p->look = false;
    if (!sl_launch_wait(&p->launch, 0, &death))
        return;
    p->death = death;
    p->dead = true;
    p->dead_ns = sl_now_ns();
}

void sl_process_poll(struct sl_process *p)
{
    poll_end(p); // before what it said last is read
    receive(p);
    uint64_t now = sl_now_ns();
    if (!p->dead && p->kill_at_ns && now >= p->kill_at_ns) {
        sl_log_warn("job %s: it has not stopped in time: its broker is killed", p->entry->id);
        sl_process_kill(p);
    }
    if (!p->dead && p->last_word && now - p->last_word_ns > LEAVE_MS * 1000000ull)
        sl_launch_kill(&p->launch);
    if (p->dead && (p->last_word || now - p->dead_ns > LAST_WORD_MS * 1000000ull))
        conclude(p);
}

// --- what it is asked for ------------------------------------------------------------------------

void sl_process_forward(struct sl_process *p, const struct sl_bus_peer *peer,
                        Sl__Control__Envelope *m)
{
    struct sl_route *route =
        sl_routes_add(&p->daemon->routes, peer, p->entry->number, m->body_case);
    m->request = route->request.id;
    if (sl_bus_send(p->bus, NULL, m) == SL_OK)
        return;
    sl_routes_remove(&p->daemon->routes, route);
    sl_daemon_refuse(p->daemon, peer, m->body_case, p->entry->id, SL_EAGAIN,
                     "the job's broker does not read its messages: try again");
}

void sl_process_stop(struct sl_process *p, bool kill, unsigned limit_ms)
{
    Sl__Control__Stop stop = SL__CONTROL__STOP__INIT;
    Sl__Control__Envelope body = SL_ENVELOPE(STOP, stop, &stop);
    stop.kill = kill;
    sl_bus_send(p->bus, NULL, &body);
    unsigned ms = kill ? KILL_MS : limit_ms;
    if (!ms || p->last_word)
        return;
    uint64_t now = sl_now_ns();
    p->kill_at_ns = now + ms * 1000000ull;
    p->save_until_ns = kill ? 0 : now + SAVE_MAX_MS * 1000000ull;
}

void sl_process_kill(struct sl_process *p)
{
    p->killed = true;
    p->kill_at_ns = 0;
    sl_launch_kill(&p->launch);
}

// --- the queue -----------------------------------------------------------------------------------

enum { DESCRIPTORS_A_JOB = 32 }; // its bus has about 12, and to launch it takes a few more

// A job that cannot be started because the daemon is short of something waits until it is not.
static bool has_descriptors(struct sl_daemon *d, struct sl_entry *e)
{
    bool enough = sl_descriptors_left(DESCRIPTORS_A_JOB);
    if (!enough && !e->message[0]) {
        snprintf(e->message, sizeof e->message,
                 "waits until the daemon has %d file descriptors left: raise its limit ('ulimit "
                 "-n', or LimitNOFILE= of a service)",
                 DESCRIPTORS_A_JOB);
        sl_log_warn("job %s: %s", e->id, e->message);
        sl_daemon_emit_state(d, e, NULL);
    }
    return enough;
}

void sl_daemon_start_jobs(struct sl_daemon *d)
{
    while (d->look_at_queue && !d->stopping) {
        struct sl_queue_item *items = sl_registry_queue(&d->registry);
        uint32_t next;
        if (!items)
            return; // again at the next tick
        bool found = sl_queue_next(items, d->registry.n, &next);
        free(items);
        d->look_at_queue = found;
        if (found && !has_descriptors(d, d->registry.entries[next]))
            return; // again at the next tick
        if (found)
            sl_process_start(d, d->registry.entries[next]);
    }
}
