#include "broker/workers/supervise.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"

enum {
    ARGUMENT_BYTES = 32,
    STDIO_COUNT = SL_WORKER_FD_SHARED + SL_SHARED_COUNT,
    LOOK_MS = 100, // between two looks at who leaves
};

// One started program, from spawn to the closing of its last handle.
struct sl_crew_process {
    uv_process_t handle;
    uv_poll_t death;          // pidfd
    uv_poll_t output;         // read end of its standard error
    struct sl_member *member; // NULL once the member has a newer process
    pid_t pid;
    int pidfd, output_fd; // -1 when closed or absent
    int open_handles;
    bool told; // the death has been handled
};

int sl_crew_own_directory(char *out, size_t bytes)
{
    ssize_t n = readlink("/proc/self/exe", out, bytes - 1);
    if (n <= 0)
        return sl_fail_errno(SL_ESYS, errno, "finding this program's directory");
    out[n] = '\0';
    char *slash = strrchr(out, '/');
    if (!slash)
        return sl_fail(SL_ESYS, "finding this program's directory: found '%s'", out);
    *(slash == out ? slash + 1 : slash) = '\0';
    return SL_OK;
}

// --- handles -------------------------------------------------------------------------------------

static void on_handle_closed(uv_handle_t *handle)
{
    struct sl_crew_process *p = handle->data;
    if (--p->open_handles == 0)
        free(p);
}

static void close_handle(uv_handle_t *handle)
{
    if (!uv_is_closing(handle))
        uv_close(handle, on_handle_closed);
}

static void close_output(struct sl_crew_process *p)
{
    if (p->output_fd < 0)
        return;
    uv_poll_stop(&p->output);
    close_handle((uv_handle_t *)&p->output);
    close(p->output_fd);
    p->output_fd = -1;
}

static void close_death(struct sl_crew_process *p)
{
    if (p->pidfd < 0)
        return;
    uv_poll_stop(&p->death);
    close_handle((uv_handle_t *)&p->death);
    close(p->pidfd);
    p->pidfd = -1;
}

// --- death ---------------------------------------------------------------------------------------

static void tell_if_gone(struct sl_crew *crew)
{
    if (!crew->stopping)
        return;
    for (uint32_t i = 0; i < crew->n; i++)
        if (crew->members[i].alive)
            return;
    uv_timer_stop(&crew->patience);
    crew->setup.events.on_gone(crew->setup.ctx);
}

static void on_respawn(uv_timer_t *timer);

// From the loop, so that nobody's answer to it comes in the middle of a death.
static void on_left(uv_timer_t *timer)
{
    struct sl_member *m = timer->data;
    if (!m->crew->stopping && !m->alive)
        m->crew->setup.events.on_left(m->crew->setup.ctx, m);
}

static void schedule_replacement(struct sl_member *m, bool worked)
{
    m->deaths_in_row = worked ? 1 : m->deaths_in_row + 1;
    // The verdict on a hopeless one need not wait longer than a last message of its.
    bool hopeless = m->deaths_in_row >= SL_CREW_DEATHS_MAX;
    uint32_t doublings = hopeless ? 0 : m->deaths_in_row - 1;
    m->backoff_ms =
        (uint32_t)SL_MIN((uint64_t)SL_CREW_BACKOFF_MS << doublings, SL_CREW_BACKOFF_MAX_MS);
    uv_timer_start(&m->respawn, on_respawn, m->backoff_ms, 0);
}

static void handle_death(struct sl_crew_process *p, struct sl_exit_status *death)
{
    struct sl_member *m = p->member;
    struct sl_crew *crew = m->crew;
    if (p->told)
        return;
    p->told = true;
    if (p->output_fd >= 0)
        sl_stream_drain(&m->log, p->output_fd);
    sl_stream_flush(&m->log);
    close_output(p);
    close_death(p);

    uint64_t oom_kills = sl_exit_status_oom_kills();
    death->oom_killed = death->signal == SIGKILL && oom_kills > crew->oom_kills;
    crew->oom_kills = oom_kills;
    m->peak_rss_bytes = SL_MAX(m->peak_rss_bytes, death->peak_rss_bytes);
    m->alive = m->attached = false;
    m->lived_ns += sl_now_ns() - m->since_ns;
    m->process = NULL;

    bool left = m->leaving;
    bool worked = crew->setup.events.on_death(crew->setup.ctx, m, death);
    m->leaving = false;
    if (crew->stopping)
        tell_if_gone(crew);
    else if (m->wanted && left)
        uv_timer_start(&m->respawn, on_respawn, 0, 0); // wanted again meanwhile
    else if (m->wanted)
        schedule_replacement(m, worked);
    else
        uv_timer_start(&m->respawn, on_left, 0, 0);
}

static void on_pidfd(uv_poll_t *handle, int status, int events)
{
    struct sl_crew_process *p = handle->data;
    struct sl_exit_status death = {0};
    if (sl_exit_status_read(p->pidfd, &death))
        handle_death(p, &death);
    else
        close_death(p); // reaped already: libuv's callback knows how it ended
}

static void on_exit_seen(uv_process_t *handle, int64_t exit_status, int term_signal)
{
    struct sl_crew_process *p = handle->data;
    struct sl_exit_status death = {
        .known = true, .signal = term_signal, .exit_status = (int)exit_status};
    handle_death(p, &death);
    close_handle((uv_handle_t *)handle);
}

static void on_output(uv_poll_t *handle, int status, int events)
{
    struct sl_crew_process *p = handle->data;
    if (sl_stream_drain(&p->member->log, p->output_fd))
        close_output(p);
}

static void on_stream_line(void *ctx, int level, const char *text)
{
    struct sl_member *m = ctx;
    m->crew->setup.events.on_line(m->crew->setup.ctx, m, level, text);
}

// --- start ---------------------------------------------------------------------------------------

static int watch(uv_loop_t *loop, struct sl_crew_process *p, uv_poll_t *handle, int fd,
                 uv_poll_cb callback)
{
    int err = uv_poll_init(loop, handle, fd);
    if (err)
        return sl_fail(SL_ESYS, "watching a worker: %s", uv_strerror(err));
    handle->data = p;
    p->open_handles++;
    err = uv_poll_start(handle, UV_READABLE | UV_DISCONNECT, callback);
    return err ? sl_fail(SL_ESYS, "watching a worker: %s", uv_strerror(err)) : SL_OK;
}

// Starts the program; on success the process runs and libuv will tell its end.
static int spawn(struct sl_member *m, struct sl_crew_process *p, int output_write_fd)
{
    const struct sl_crew_setup *setup = &m->crew->setup;
    char program[4200], text[6][ARGUMENT_BYTES];
    snprintf(program, sizeof program, "%s/sluice-%s", setup->directory, sl_role_name(m->role));
    snprintf(text[0], ARGUMENT_BYTES, "%u", m->worker);
    snprintf(text[1], ARGUMENT_BYTES, "%u", m->slot);
    snprintf(text[2], ARGUMENT_BYTES, "%u", m->role_index);
    snprintf(text[3], ARGUMENT_BYTES, "%u", m->device);
    snprintf(text[4], ARGUMENT_BYTES, "%d", (int)getpid());
    uint32_t started = 0;
    for (uint32_t i = 0; i < m->crew->n; i++)
        if (m->crew->members[i].role == m->role)
            started += m->crew->members[i].starts;
    snprintf(text[5], ARGUMENT_BYTES, "%u", started);
    char *argv[] = {
        program,
        "--worker",
        text[0],
        "--slot",
        text[1],
        "--role-index",
        text[2],
        "--device",
        text[3],
        "--endpoint",
        (char *)setup->endpoint,
        "--broker",
        text[4],
        "--start",
        text[5],
        NULL,
    };
    uv_stdio_container_t stdio[STDIO_COUNT] = {
        {.flags = UV_IGNORE},
        {.flags = UV_INHERIT_FD, .data.fd = output_write_fd},
        {.flags = UV_INHERIT_FD, .data.fd = output_write_fd},
        {.flags = UV_INHERIT_FD, .data.fd = setup->arena_fd},
        {.flags = UV_INHERIT_FD, .data.fd = setup->config_fd},
        {.flags = UV_INHERIT_FD, .data.fd = setup->doorbell_fd},
        {.flags = UV_INHERIT_FD, .data.fd = setup->acts_fd},
        {.flags = UV_INHERIT_FD, .data.fd = setup->key_fd},
    };
    for (int i = 0; i < SL_SHARED_COUNT; i++)
        stdio[SL_WORKER_FD_SHARED + i] =
            (uv_stdio_container_t){.flags = UV_INHERIT_FD, .data.fd = setup->shared_fd[i]};
    uv_process_options_t options = {
        .exit_cb = on_exit_seen,
        .file = program,
        .args = argv,
        .flags = UV_PROCESS_DETACHED, // a session of its own
        .stdio_count = STDIO_COUNT,
        .stdio = stdio,
    };
    int err = uv_spawn(setup->loop, &p->handle, &options);
    p->handle.data = p;
    p->open_handles++;
    if (err) {
        close_handle((uv_handle_t *)&p->handle);
        return sl_fail(SL_ESYS, "starting %s: '%s': %s", m->name, program, uv_strerror(err));
    }
    return SL_OK;
}

static int start_member(struct sl_member *m)
{
    struct sl_crew *crew = m->crew;
    int pipe_fd[2];
    if (crew->next_worker > UINT16_MAX)
        return sl_fail(SL_EFAILED, "starting %s: %u workers have been started in this job", m->name,
                       crew->next_worker - 1);
    if (pipe2(pipe_fd, O_CLOEXEC) != 0)
        return sl_fail_errno(SL_ESYS, errno, "starting %s: pipe for its log", m->name);
    struct sl_crew_process *p = calloc(1, sizeof *p);
    if (!p) {
        close(pipe_fd[0]);
        close(pipe_fd[1]);
        return sl_fail(SL_ENOMEM, "starting %s: no memory", m->name);
    }
    // Only our end: the worker's writes wait when we are slow.
    fcntl(pipe_fd[0], F_SETFL, O_NONBLOCK);
    m->worker = crew->next_worker++;
    m->dismissed = false;
    m->greeted = m->attached = m->ready = false;
    m->peer.n = 0;
    p->member = m;
    p->pidfd = -1;
    p->output_fd = -1;

    int rc = spawn(m, p, pipe_fd[1]);
    close(pipe_fd[1]);
    if (rc < 0) {
        close(pipe_fd[0]);
        return rc; // p goes with its handle
    }
    m->starts++;
    m->pid = p->pid = p->handle.pid;
    m->alive = true;
    m->since_ns = sl_now_ns();
    m->process = p;
    sl_stream_clear_last(&m->log);
    // It cannot have been reaped before the loop runs again, so the number still names it.
    int pidfd = sl_exit_status_open(p->pid);
    if (pidfd >= 0 && watch(crew->setup.loop, p, &p->death, pidfd, on_pidfd) == SL_OK)
        p->pidfd = pidfd;
    else if (pidfd >= 0)
        close(pidfd);
    if (watch(crew->setup.loop, p, &p->output, pipe_fd[0], on_output) == SL_OK)
        p->output_fd = pipe_fd[0];
    else
        close(pipe_fd[0]);
    return SL_OK;
}

static void on_respawn(uv_timer_t *timer)
{
    struct sl_member *m = timer->data;
    struct sl_crew *crew = m->crew;
    if (crew->stopping || m->alive || !m->wanted)
        return;
    if (m->deaths_in_row >= SL_CREW_DEATHS_MAX) {
        char why[160];
        snprintf(why, sizeof why, "%s died %u times in a row without completing any work", m->name,
                 m->deaths_in_row);
        crew->setup.events.on_hopeless(crew->setup.ctx, m, why);
        return;
    }
    if (start_member(m) < 0) {
        // Short of processes or memory, perhaps: that may pass.
        schedule_replacement(m, false);
        if (m->deaths_in_row >= SL_CREW_DEATHS_MAX)
            crew->setup.events.on_hopeless(crew->setup.ctx, m, sl_error_message());
    }
}

// --- the crew ------------------------------------------------------------------------------------

int sl_crew_init(struct sl_crew *crew, const struct sl_crew_setup *setup, uint32_t n_members)
{
    memset(crew, 0, sizeof *crew);
    crew->members = calloc(n_members, sizeof *crew->members);
    if (!crew->members)
        return sl_fail(SL_ENOMEM, "no memory for %u workers", n_members);
    crew->setup = *setup;
    crew->n = n_members;
    crew->next_worker = 1;
    crew->oom_kills = sl_exit_status_oom_kills();
    uv_timer_init(setup->loop, &crew->patience);
    crew->patience.data = crew;
    for (uint32_t i = 0; i < n_members; i++) {
        uv_timer_init(setup->loop, &crew->members[i].respawn);
        crew->members[i].respawn.data = &crew->members[i];
    }
    return SL_OK;
}

void sl_crew_place(struct sl_crew *crew, uint32_t slot, enum sl_role role, uint32_t role_index,
                   uint32_t device)
{
    struct sl_member *m = &crew->members[slot];
    char log_name[32];
    m->crew = crew;
    m->role = role;
    m->role_index = role_index;
    m->device = device;
    m->slot = slot;
    snprintf(m->name, sizeof m->name, "%s %u", sl_role_name(role), role_index);
    snprintf(log_name, sizeof log_name, "%s-%u", sl_role_name(role), role_index);
    sl_stream_init(&m->log, log_name, on_stream_line, m);
}

void sl_crew_kill(struct sl_member *m)
{
    if (m->alive)
        sl_exit_status_send(m->process->pidfd, m->pid, SIGKILL);
}

// One that is dead already died of something else, though that has not been read yet.
static void dismiss(struct sl_member *m)
{
    struct sl_exit_status death;
    if (!m->alive || sl_exit_status_read(m->process->pidfd, &death))
        return;
    m->dismissed = true;
    sl_crew_kill(m);
}

static void dismiss_if_overdue(struct sl_member *m, uint64_t since_ns, uint64_t patience_ms)
{
    const struct sl_crew_setup *setup = &m->crew->setup;
    if (!m->alive)
        return;
    if (patience_ms > 0 && setup->events.has_left(setup->ctx, m))
        patience_ms += SL_CREW_EXIT_MS;
    if (sl_now_ns() - since_ns >= patience_ms * 1000000)
        dismiss(m);
}

static void on_leaving(uv_timer_t *timer)
{
    struct sl_member *m = timer->data;
    if (m->leaving)
        dismiss_if_overdue(m, m->leaving_ns, SL_CREW_LEAVE_MS);
}

int sl_crew_want(struct sl_member *m)
{
    m->wanted = true;
    if (m->alive)
        return SL_OK;
    m->deaths_in_row = 0;
    uv_timer_stop(&m->respawn);
    int rc = start_member(m);
    m->wanted = rc == SL_OK;
    return rc;
}

void sl_crew_want_later(struct sl_member *m)
{
    m->wanted = true;
    schedule_replacement(m, false);
}

void sl_crew_release(struct sl_member *m)
{
    m->wanted = false;
    if (!m->alive) {
        uv_timer_start(&m->respawn, on_left, 0, 0);
        return;
    }
    m->leaving = true;
    m->leaving_ns = sl_now_ns();
    if (m->attached)
        uv_timer_start(&m->respawn, on_leaving, LOOK_MS, LOOK_MS);
    else
        dismiss(m);
}

static void on_patience(uv_timer_t *timer)
{
    struct sl_crew *crew = timer->data;
    for (uint32_t i = 0; i < crew->n; i++)
        dismiss_if_overdue(&crew->members[i], crew->stopping_ns, crew->patience_ms);
    tell_if_gone(crew);
}

void sl_crew_stop(struct sl_crew *crew, uint32_t patience_ms)
{
    crew->stopping = true;
    crew->stopping_ns = sl_now_ns();
    crew->patience_ms = patience_ms;
    bool any = false;
    for (uint32_t i = 0; i < crew->n; i++) {
        struct sl_member *m = &crew->members[i];
        uv_timer_stop(&m->respawn);
        m->patience_ms = m->attached ? patience_ms : 0;
        // Nothing that it holds is of any use yet, and it may not listen for a while.
        if (!m->attached)
            dismiss(m);
        any |= m->alive;
    }
    // Through the loop even when nobody is left, so that on_gone never comes from inside this call.
    uv_timer_start(&crew->patience, on_patience, any && patience_ms ? LOOK_MS : 0, LOOK_MS);
}

double sl_crew_lived_seconds(const struct sl_crew *crew, enum sl_role role)
{
    uint64_t ns = 0;
    for (uint32_t i = 0; i < crew->n; i++) {
        const struct sl_member *m = &crew->members[i];
        if (m->role == role)
            ns += m->lived_ns + (m->alive ? sl_now_ns() - m->since_ns : 0);
    }
    return (double)ns * 1e-9;
}

struct sl_member *sl_crew_by_worker(struct sl_crew *crew, uint32_t worker)
{
    for (uint32_t i = 0; i < crew->n; i++)
        if (worker != 0 && crew->members[i].worker == worker)
            return &crew->members[i];
    return NULL;
}

struct sl_member *sl_crew_by_peer(struct sl_crew *crew, const struct sl_bus_peer *peer)
{
    for (uint32_t i = 0; i < crew->n; i++) {
        const struct sl_member *m = &crew->members[i];
        if (m->peer.n != 0 && m->peer.n == peer->n && memcmp(m->peer.id, peer->id, peer->n) == 0)
            return &crew->members[i];
    }
    return NULL;
}

void sl_crew_close(struct sl_crew *crew)
{
    if (!crew->members)
        return;
    uv_close((uv_handle_t *)&crew->patience, NULL);
    for (uint32_t i = 0; i < crew->n; i++)
        uv_close((uv_handle_t *)&crew->members[i].respawn, NULL);
}

void sl_crew_fini(struct sl_crew *crew)
{
    for (uint32_t i = 0; crew->members && i < crew->n; i++)
        sl_stream_fini(&crew->members[i].log);
    free(crew->members);
    crew->members = NULL;
    crew->n = 0;
}
