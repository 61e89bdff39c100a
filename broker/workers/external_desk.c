#include "broker/workers/external_desk.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "broker/log/joblog.h"
#include "common/base/error.h"
#include "common/base/log.h"

enum { WHO_BYTES = 64, TEXT_BYTES = 1024 };

struct sl_visitor {
    struct sl_external_desk *desk;
    struct sl_attach_peer peer;
    uv_poll_t connection;
    struct sl_visitor *next, **place;
};

// "process 17 (python3)"
static const char *who_is(pid_t pid, char out[WHO_BYTES])
{
    char path[64], name[32] = "";
    snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, name, sizeof name - 1);
    if (fd >= 0)
        close(fd);
    name[n > 0 ? n : 0] = '\0';
    name[strcspn(name, "\n")] = '\0';
    snprintf(out, WHO_BYTES, *name ? "process %d (%s)" : "process %d", (int)pid, name);
    return out;
}

static int fail_taken(const struct sl_external_desk *d, int32_t rank)
{
    char text[TEXT_BYTES] = "", who[WHO_BYTES];
    size_t n = 0;
    uint32_t seats = 0;
    for (uint32_t i = d->workers->n; i-- > 0;) { // by rank
        const struct sl_pool_worker *w = &d->workers->list[i];
        seats += w->external;
        if (!w->external || !w->alive || n >= sizeof text ||
            (rank != SL_ATTACH_ANY_RANK && w->role_index != (uint32_t)rank))
            continue;
        n += (size_t)snprintf(text + n, sizeof text - n, "%srank %u is %s", n ? ", " : "",
                              w->role_index, who_is(w->pid, who));
    }
    return sl_fail(SL_EAGAIN,
                   "attaching: %s taken: %s: end %s, or start the job with more seats "
                   "(allocation.trainers, now %u)",
                   rank == SL_ATTACH_ANY_RANK ? "all seats for trainers are" : "the seat is", text,
                   rank == SL_ATTACH_ANY_RANK ? "one of them" : "it", seats);
}

static int find_seat(const struct sl_external_desk *d, int32_t rank, struct sl_pool_worker **out)
{
    uint32_t seats = 0;
    bool there = false;
    *out = NULL;
    if (d->workers->stopping)
        return sl_fail(SL_EABORTED, "attaching: the job ends");
    for (uint32_t i = 0; i < d->workers->n; i++) {
        struct sl_pool_worker *w = &d->workers->list[i];
        const bool wanted = rank == SL_ATTACH_ANY_RANK || w->role_index == (uint32_t)rank;
        seats += w->external;
        there |= w->external && wanted;
        // Of several the lowest rank.
        if (w->external && wanted && !w->alive && (!*out || w->role_index < (*out)->role_index))
            *out = w;
    }
    if (!there)
        return sl_fail(
            SL_EINVAL,
            "attaching: found rank %d, wanted 0 to %u, the job's seats for trainers: take "
            "one of them, or start the job with more (allocation.trainers)",
            (int)rank, seats - 1);
    return *out ? SL_OK : fail_taken(d, rank);
}

static void on_closed(uv_handle_t *handle)
{
    struct sl_visitor *v = handle->data;
    free(v);
}

// The connection is no longer the desk's: it has ended, or is somebody's who sits down.
static void forget(struct sl_visitor *v)
{
    *v->place = v->next;
    if (v->next)
        v->next->place = v->place;
    uv_poll_stop(&v->connection);
    uv_close((uv_handle_t *)&v->connection, on_closed);
}

static void seat(struct sl_visitor *v, int32_t rank)
{
    struct sl_external_desk *d = v->desk;
    struct sl_pool_worker *w;
    char who[WHO_BYTES];
    struct sl_attach_peer peer = v->peer;
    int rc = find_seat(d, rank, &w);
    forget(v); // before another handle watches the descriptor
    if (rc == SL_OK)
        rc = sl_pool_worker_seat(w, &peer);
    if (rc == SL_OK) {
        sl_joblog_write(d->log, SL_LOG_INFO, "%s is %s", w->name, who_is(w->pid, who));
        return;
    }
    sl_joblog_write(d->log, SL_LOG_INFO, "%s was turned away: %s", who_is(peer.pid, who),
                    sl_error_message());
    sl_attach_refuse(&peer, rc, sl_error_message());
    sl_attach_close(&peer);
}

static void on_request(uv_poll_t *handle, int status, int events)
{
    struct sl_visitor *v = handle->data;
    int32_t rank;
    const int what = sl_attach_receive(&v->peer, &rank);
    if (what == SL_EAGAIN)
        return;
    if (what == SL_ATTACH_REQUEST) {
        seat(v, rank);
        return;
    }
    forget(v);
    sl_attach_close(&v->peer);
}

static void on_visitor(uv_poll_t *handle, int status, int events)
{
    struct sl_external_desk *d = handle->data;
    struct sl_attach_peer peer;
    int rc;
    while ((rc = sl_attach_accept(d->fd, &peer)) != SL_EAGAIN) {
        struct sl_visitor *v = rc == SL_OK ? calloc(1, sizeof *v) : NULL;
        if (rc < 0)
            sl_joblog_write(d->log, SL_LOG_WARN, "a program was turned away: %s",
                            sl_error_message());
        if (!v || uv_poll_init(handle->loop, &v->connection, peer.fd) != 0) {
            sl_attach_close(&peer);
            free(v);
            continue;
        }
        v->desk = d;
        v->peer = peer;
        v->next = d->visitors;
        v->place = &d->visitors;
        if (v->next)
            v->next->place = &v->next;
        d->visitors = v;
        v->connection.data = v;
        uv_poll_start(&v->connection, UV_READABLE | UV_DISCONNECT, on_request);
    }
}

int sl_external_desk_open(struct sl_external_desk *d, const char *endpoint)
{
    d->fd = sl_attach_listen(sl_attach_path(endpoint, d->path));
    SL_TRY(d->fd);
    int err = uv_poll_init(d->workers->setup.loop, &d->listener, d->fd);
    d->open = err == 0;
    d->listener.data = d;
    err = err ? err : uv_poll_start(&d->listener, UV_READABLE, on_visitor);
    return err ? sl_fail(SL_ESYS, "waiting for external trainers: %s", uv_strerror(err)) : SL_OK;
}

void sl_external_desk_close(struct sl_external_desk *d)
{
    if (!d->open)
        return;
    d->open = false;
    while (d->visitors) {
        struct sl_visitor *v = d->visitors;
        sl_attach_refuse(&v->peer, SL_EABORTED, "attaching: the job ends");
        forget(v);
        sl_attach_close(&v->peer);
    }
    uv_close((uv_handle_t *)&d->listener, NULL);
    close(d->fd);
}
