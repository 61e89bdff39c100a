#include "broker/workers/worker_pool.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "broker/workers/worker_pool_internal.h"
#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"

enum {
    ARGUMENT_BYTES = 32,
    STDIO_COUNT = SL_WORKER_FD_SHARED + SL_SHARED_COUNT,
    LOOK_MS = 100, // between two looks at who leaves
};

int sl_worker_pool_own_directory(char *out, size_t bytes)
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
    struct sl_pool_process *p = handle->data;
    if (--p->open_handles == 0)
        free(p);
}

void sl_pool_process_close(uv_handle_t *handle)
{
    if (!uv_is_closing(handle))
        uv_close(handle, on_handle_closed);
}

void sl_pool_process_close_output(struct sl_pool_process *p)
{
    if (p->output_fd < 0)
        return;
    uv_poll_stop(&p->output);
    sl_pool_process_close((uv_handle_t *)&p->output);
    close(p->output_fd);
    p->output_fd = -1;
}

static void close_death(struct sl_pool_process *p)
{
    if (p->pidfd < 0)
        return;
    uv_poll_stop(&p->death);
    sl_pool_process_close((uv_handle_t *)&p->death);
    close(p->pidfd);
    p->pidfd = -1;
}

// --- death ---------------------------------------------------------------------------------------

static void emit_if_gone(struct sl_worker_pool *workers)
{
    if (!workers->stopping)
        return;
    for (uint32_t i = 0; i < workers->n; i++)
        if (workers->list[i].alive)
            return;
    uv_timer_stop(&workers->patience);
    workers->setup.events.on_gone(workers->setup.ctx);
}

static void on_respawn(uv_timer_t *timer);

// From the loop, so that nobody's answer to it comes in the middle of a death.
static void on_left(uv_timer_t *timer)
{
    struct sl_pool_worker *w = timer->data;
    if (!w->workers->stopping && !w->alive)
        w->workers->setup.events.on_left(w->workers->setup.ctx, w);
}

static void schedule_replacement(struct sl_pool_worker *w, bool worked)
{
    w->deaths_in_row = worked ? 1 : w->deaths_in_row + 1;
    // The verdict on a hopeless one need not wait longer than a last message of its.
    bool hopeless = w->deaths_in_row >= SL_WORKER_DEATHS_MAX;
    uint32_t doublings = hopeless ? 0 : w->deaths_in_row - 1;
    w->backoff_ms =
        (uint32_t)SL_MIN((uint64_t)SL_WORKER_BACKOFF_MS << doublings, SL_WORKER_BACKOFF_MAX_MS);
    uv_timer_start(&w->respawn, on_respawn, w->backoff_ms, 0);
}

void sl_pool_process_end(struct sl_pool_process *p, struct sl_exit_status *death)
{
    struct sl_pool_worker *w = p->worker;
    struct sl_worker_pool *workers = w->workers;
    if (p->told)
        return;
    p->told = true;
    if (p->output_fd >= 0 && !w->external)
        sl_stream_drain(&w->log, p->output_fd);
    sl_stream_flush(&w->log);
    sl_pool_process_close_output(p);
    close_death(p);

    uint64_t oom_kills = sl_exit_status_oom_kills();
    death->oom_killed = death->signal == SIGKILL && oom_kills > workers->oom_kills;
    workers->oom_kills = oom_kills;
    w->peak_rss_bytes = SL_MAX(w->peak_rss_bytes, death->peak_rss_bytes);
    w->alive = w->attached = false;
    w->lived_ns += sl_now_ns() - w->since_ns;
    w->process = NULL;

    bool left = w->leaving;
    bool worked = workers->setup.events.on_death(workers->setup.ctx, w, death);
    w->leaving = false;
    if (workers->stopping)
        emit_if_gone(workers);
    else if (w->wanted && left)
        uv_timer_start(&w->respawn, on_respawn, 0, 0); // wanted again meanwhile
    else if (w->wanted)
        schedule_replacement(w, worked);
    else
        uv_timer_start(&w->respawn, on_left, 0, 0);
}

static void on_pidfd(uv_poll_t *handle, int status, int events)
{
    struct sl_pool_process *p = handle->data;
    struct sl_exit_status death = {0};
    if (sl_exit_status_read(p->pidfd, &death))
        sl_pool_process_end(p, &death);
    else
        close_death(p); // reaped already: libuv's callback knows how it ended
}

static void on_exit_seen(uv_process_t *handle, int64_t exit_status, int term_signal)
{
    struct sl_pool_process *p = handle->data;
    struct sl_exit_status death = {
        .known = true, .signal = term_signal, .exit_status = (int)exit_status};
    sl_pool_process_end(p, &death);
    sl_pool_process_close((uv_handle_t *)handle);
}

static void on_output(uv_poll_t *handle, int status, int events)
{
    struct sl_pool_process *p = handle->data;
    if (sl_stream_drain(&p->worker->log, p->output_fd))
        sl_pool_process_close_output(p);
}

static void on_stream_line(void *ctx, int level, const char *text)
{
    struct sl_pool_worker *w = ctx;
    w->workers->setup.events.on_line(w->workers->setup.ctx, w, level, text);
}

// --- start ---------------------------------------------------------------------------------------

int sl_pool_process_watch(uv_loop_t *loop, struct sl_pool_process *p, uv_poll_t *handle, int fd,
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

void sl_pool_process_begin(struct sl_pool_process *p, struct sl_pool_worker *w)
{
    w->worker = w->workers->next_worker++;
    w->dismissed = false;
    w->greeted = w->attached = w->ready = false;
    w->peer.n = 0;
    p->worker = w;
    p->pidfd = -1;
    p->output_fd = -1;
}

void sl_pool_process_runs(struct sl_pool_process *p)
{
    struct sl_pool_worker *w = p->worker;
    w->starts++;
    w->pid = p->pid;
    w->alive = true;
    w->since_ns = sl_now_ns();
    w->process = p;
    sl_stream_clear_last(&w->log);
}

// uv_spawn() hears of a failed exec() through a pipe (libuv 1.44 to 1.52). If that pipe has one of
// the numbers that the child gives to its descriptors, the child overwrites it, and a program that
// is missing counts as started: so no number below STDIO_COUNT may be free then.
struct low_numbers {
    int fd[STDIO_COUNT], n;
};

static void low_numbers_take(struct low_numbers *low, int any_fd)
{
    for (low->n = 0; low->n < STDIO_COUNT; low->n++) {
        int fd = fcntl(any_fd, F_DUPFD_CLOEXEC, 0);
        if (fd >= STDIO_COUNT)
            close(fd);
        if (fd < 0 || fd >= STDIO_COUNT)
            return;
        low->fd[low->n] = fd;
    }
}

static void low_numbers_release(struct low_numbers *low)
{
    while (low->n > 0)
        close(low->fd[--low->n]);
}

// Starts the program; on success the process runs and libuv will tell its end.
static int spawn(struct sl_pool_worker *w, struct sl_pool_process *p, int output_write_fd)
{
    const struct sl_worker_pool_setup *setup = &w->workers->setup;
    char program[4200], text[6][ARGUMENT_BYTES];
    snprintf(program, sizeof program, "%s/sluice-%s", setup->directory, sl_role_name(w->role));
    snprintf(text[0], ARGUMENT_BYTES, "%u", w->worker);
    snprintf(text[1], ARGUMENT_BYTES, "%u", w->slot);
    snprintf(text[2], ARGUMENT_BYTES, "%u", w->role_index);
    snprintf(text[3], ARGUMENT_BYTES, "%u", w->device);
    snprintf(text[4], ARGUMENT_BYTES, "%d", (int)getpid());
    uint32_t started = 0;
    for (uint32_t i = 0; i < w->workers->n; i++)
        if (w->workers->list[i].role == w->role)
            started += w->workers->list[i].starts;
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
    if (setup->keep_fd > 0)
        fcntl(setup->keep_fd, F_SETFD, 0);
    struct low_numbers low;
    low_numbers_take(&low, output_write_fd);
    int err = uv_spawn(setup->loop, &p->handle, &options);
    low_numbers_release(&low);
    if (setup->keep_fd > 0)
        fcntl(setup->keep_fd, F_SETFD, FD_CLOEXEC);
    p->handle.data = p;
    p->open_handles++;
    if (err) {
        sl_pool_process_close((uv_handle_t *)&p->handle);
        return sl_fail(SL_ESYS, "starting %s: '%s': %s", w->name, program, uv_strerror(err));
    }
    return SL_OK;
}

static int start_worker(struct sl_pool_worker *w)
{
    struct sl_worker_pool *workers = w->workers;
    int pipe_fd[2];
    if (workers->next_worker > UINT16_MAX)
        return sl_fail(SL_EFAILED, "starting %s: %u workers have been started in this job", w->name,
                       workers->next_worker - 1);
    if (pipe2(pipe_fd, O_CLOEXEC) != 0)
        return sl_fail_errno(SL_ESYS, errno, "starting %s: pipe for its log", w->name);
    struct sl_pool_process *p = calloc(1, sizeof *p);
    if (!p) {
        close(pipe_fd[0]);
        close(pipe_fd[1]);
        return sl_fail(SL_ENOMEM, "starting %s: no memory", w->name);
    }
    // Only our end: the worker's writes wait when we are slow.
    fcntl(pipe_fd[0], F_SETFL, O_NONBLOCK);
    sl_pool_process_begin(p, w);

    int rc = spawn(w, p, pipe_fd[1]);
    close(pipe_fd[1]);
    if (rc < 0) {
        close(pipe_fd[0]);
        return rc; // p goes with its handle
    }
    p->pid = p->handle.pid;
    sl_pool_process_runs(p);
    // It cannot have been reaped before the loop runs again, so the number still names it.
    int pidfd = sl_exit_status_open(p->pid);
    if (pidfd >= 0 &&
        sl_pool_process_watch(workers->setup.loop, p, &p->death, pidfd, on_pidfd) == SL_OK)
        p->pidfd = pidfd;
    else if (pidfd >= 0)
        close(pidfd);
    if (sl_pool_process_watch(workers->setup.loop, p, &p->output, pipe_fd[0], on_output) == SL_OK)
        p->output_fd = pipe_fd[0];
    else
        close(pipe_fd[0]);
    return SL_OK;
}

static void on_respawn(uv_timer_t *timer)
{
    struct sl_pool_worker *w = timer->data;
    struct sl_worker_pool *workers = w->workers;
    if (workers->stopping || w->alive || !w->wanted)
        return;
    if (w->deaths_in_row >= SL_WORKER_DEATHS_MAX) {
        char why[160];
        snprintf(why, sizeof why, "%s died %u times in a row without completing any work", w->name,
                 w->deaths_in_row);
        workers->setup.events.on_give_up(workers->setup.ctx, w, why);
        return;
    }
    if (start_worker(w) < 0) {
        // Short of processes or memory, perhaps: that may pass.
        schedule_replacement(w, false);
        if (w->deaths_in_row >= SL_WORKER_DEATHS_MAX)
            workers->setup.events.on_give_up(workers->setup.ctx, w, sl_error_message());
    }
}

// --- the worker pool ----------------------------------------------------------------------------

int sl_worker_pool_init(struct sl_worker_pool *workers, const struct sl_worker_pool_setup *setup,
                        uint32_t n_workers)
{
    memset(workers, 0, sizeof *workers);
    workers->list = calloc(n_workers, sizeof *workers->list);
    if (!workers->list)
        return sl_fail(SL_ENOMEM, "no memory for %u workers", n_workers);
    workers->setup = *setup;
    workers->n = n_workers;
    workers->next_worker = 1;
    workers->oom_kills = sl_exit_status_oom_kills();
    uv_timer_init(setup->loop, &workers->patience);
    workers->patience.data = workers;
    for (uint32_t i = 0; i < n_workers; i++) {
        uv_timer_init(setup->loop, &workers->list[i].respawn);
        workers->list[i].respawn.data = &workers->list[i];
    }
    return SL_OK;
}

static void place(struct sl_worker_pool *workers, struct sl_pool_worker *w, uint32_t slot,
                  enum sl_role role, uint32_t role_index, uint32_t device)
{
    char log_name[32];
    w->workers = workers;
    w->role = role;
    w->role_index = role_index;
    w->device = device;
    w->slot = slot;
    snprintf(w->name, sizeof w->name, "%s %u", sl_role_name(role), role_index);
    snprintf(log_name, sizeof log_name, "%s-%u", sl_role_name(role), role_index);
    sl_stream_init(&w->log, log_name, on_stream_line, w);
}

void sl_worker_pool_place(struct sl_worker_pool *workers, uint32_t slot, enum sl_role role,
                          uint32_t role_index, uint32_t device)
{
    place(workers, &workers->list[slot], slot, role, role_index, device);
}

void sl_worker_pool_place_link(struct sl_worker_pool *workers)
{
    place(workers, &workers->list[0], SL_WORKER_NO_SLOT, SL_ROLE_LINK, 0, 0);
    workers->next_worker = UINT16_MAX;
}

void sl_pool_worker_kill(struct sl_pool_worker *w)
{
    if (w->alive && !w->external)
        sl_exit_status_send(w->process->pidfd, w->pid, SIGKILL);
}

// One that is dead already died of something else, though that has not been read yet.
static void dismiss(struct sl_pool_worker *w)
{
    struct sl_exit_status death;
    if (!w->alive || sl_exit_status_read(w->process->pidfd, &death))
        return;
    w->dismissed = true;
    sl_pool_worker_kill(w);
}

static void dismiss_if_overdue(struct sl_pool_worker *w, uint64_t since_ns, uint64_t patience_ms)
{
    const struct sl_worker_pool_setup *setup = &w->workers->setup;
    if (!w->alive)
        return;
    if (patience_ms > 0 && setup->events.has_left(setup->ctx, w))
        patience_ms += SL_WORKER_EXIT_MS;
    if (sl_now_ns() - since_ns >= patience_ms * 1000000)
        dismiss(w);
}

static void on_leaving(uv_timer_t *timer)
{
    struct sl_pool_worker *w = timer->data;
    if (w->leaving)
        dismiss_if_overdue(w, w->leaving_ns, SL_WORKER_LEAVE_MS);
}

int sl_pool_worker_want(struct sl_pool_worker *w)
{
    w->wanted = true;
    if (w->alive)
        return SL_OK;
    w->deaths_in_row = 0;
    uv_timer_stop(&w->respawn);
    int rc = start_worker(w);
    w->wanted = rc == SL_OK;
    return rc;
}

void sl_pool_worker_want_later(struct sl_pool_worker *w)
{
    w->wanted = true;
    schedule_replacement(w, false);
}

void sl_pool_worker_release(struct sl_pool_worker *w)
{
    w->wanted = false;
    if (!w->alive) {
        uv_timer_start(&w->respawn, on_left, 0, 0);
        return;
    }
    w->leaving = true;
    w->leaving_ns = sl_now_ns();
    if (w->attached)
        uv_timer_start(&w->respawn, on_leaving, LOOK_MS, LOOK_MS);
    else
        dismiss(w);
}

static void on_patience(uv_timer_t *timer)
{
    struct sl_worker_pool *workers = timer->data;
    for (uint32_t i = 0; i < workers->n; i++)
        dismiss_if_overdue(&workers->list[i], workers->stopping_ns, workers->patience_ms);
    emit_if_gone(workers);
}

void sl_worker_pool_stop(struct sl_worker_pool *workers, uint32_t patience_ms)
{
    workers->stopping = true;
    workers->stopping_ns = sl_now_ns();
    workers->patience_ms = patience_ms;
    bool any = false;
    for (uint32_t i = 0; i < workers->n; i++) {
        struct sl_pool_worker *w = &workers->list[i];
        uv_timer_stop(&w->respawn);
        w->patience_ms = w->attached ? patience_ms : 0;
        // Nothing that it holds is of any use yet, and it may not listen for a while.
        if (!w->attached)
            dismiss(w);
        any |= w->alive;
    }
    // Through the loop even when nobody is left, so that on_gone never comes from inside this call.
    uv_timer_start(&workers->patience, on_patience, any && patience_ms ? LOOK_MS : 0, LOOK_MS);
}

double sl_worker_pool_lived_seconds(const struct sl_worker_pool *workers, enum sl_role role)
{
    uint64_t ns = 0;
    for (uint32_t i = 0; i < workers->n; i++) {
        const struct sl_pool_worker *w = &workers->list[i];
        if (w->role == role)
            ns += w->lived_ns + (w->alive ? sl_now_ns() - w->since_ns : 0);
    }
    return (double)ns * 1e-9;
}

struct sl_pool_worker *sl_worker_pool_by_id(struct sl_worker_pool *workers, uint32_t worker)
{
    for (uint32_t i = 0; i < workers->n; i++)
        if (worker != 0 && workers->list[i].worker == worker)
            return &workers->list[i];
    return NULL;
}

struct sl_pool_worker *sl_worker_pool_by_peer(struct sl_worker_pool *workers,
                                              const struct sl_bus_peer *peer)
{
    for (uint32_t i = 0; i < workers->n; i++) {
        const struct sl_pool_worker *w = &workers->list[i];
        if (w->peer.n != 0 && w->peer.n == peer->n && memcmp(w->peer.id, peer->id, peer->n) == 0)
            return &workers->list[i];
    }
    return NULL;
}

void sl_worker_pool_close(struct sl_worker_pool *workers)
{
    if (!workers->list)
        return;
    uv_close((uv_handle_t *)&workers->patience, NULL);
    for (uint32_t i = 0; i < workers->n; i++)
        uv_close((uv_handle_t *)&workers->list[i].respawn, NULL);
}

void sl_worker_pool_fini(struct sl_worker_pool *workers)
{
    for (uint32_t i = 0; workers->list && i < workers->n; i++)
        sl_stream_fini(&workers->list[i].log);
    free(workers->list);
    workers->list = NULL;
    workers->n = 0;
}
