// external_trainer.c - seats that are filled from outside: who sits down, and how it is seen to go.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "broker/workers/worker_pool.h"
#include "broker/workers/worker_pool_internal.h"
#include "common/base/error.h"

void sl_worker_pool_lend(struct sl_worker_pool *workers, uint32_t slot)
{
    struct sl_pool_worker *w = &workers->list[slot];
    w->external = true;
    snprintf(w->name, sizeof w->name, "external trainer %u", w->role_index);
}

// Nobody here has started it, so nobody can ask how it ended.
static void on_death(uv_poll_t *handle, int status, int events)
{
    struct sl_exit_status death = {0};
    sl_pool_process_end(handle->data, &death);
}

static void on_connection(uv_poll_t *handle, int status, int events)
{
    struct sl_pool_process *p = handle->data;
    const struct sl_attach_peer peer = {.fd = p->output_fd, .pid = p->pid, .pidfd = -1};
    struct sl_exit_status left = {.known = true};
    int32_t rank;
    const int what = sl_attach_receive(&peer, &rank);
    if (what == SL_ATTACH_LEAVE) {
        p->worker->leaving = true;
        sl_pool_process_end(p, &left);
    } else if (what != SL_EAGAIN) {
        sl_pool_process_close_output(p); // its death will tell
    }
}

static int grant(struct sl_pool_worker *w, const struct sl_attach_peer *peer)
{
    const struct sl_worker_pool_setup *setup = &w->workers->setup;
    struct sl_attach_seat seat = {
        .worker = w->worker,
        .slot = w->slot,
        .role_index = w->role_index,
        .device = w->device,
        .fd = {.arena = setup->arena_fd,
               .config = setup->config_fd,
               .doorbell = setup->doorbell_fd,
               .acts = setup->acts_fd,
               .key = setup->key_fd},
    };
    snprintf(seat.endpoint, sizeof seat.endpoint, "%s", setup->endpoint);
    memcpy(seat.fd.shared, setup->shared_fd, sizeof seat.fd.shared);
    return sl_attach_grant(peer, &seat);
}

int sl_pool_worker_seat(struct sl_pool_worker *w, struct sl_attach_peer *peer)
{
    uv_loop_t *loop = w->workers->setup.loop;
    if (w->workers->next_worker > UINT16_MAX)
        return sl_fail(SL_EFAILED,
                       "attaching: %u workers have been in this job, which is all that "
                       "it can tell apart: start another one",
                       w->workers->next_worker - 1);
    struct sl_pool_process *p = calloc(1, sizeof *p);
    if (!p)
        return sl_fail(SL_ENOMEM, "attaching: no memory");
    sl_pool_process_begin(p, w);
    p->pid = peer->pid;
    int rc = sl_pool_process_watch(loop, p, &p->death, peer->pidfd, on_death);
    if (rc < 0) {
        if (p->open_handles == 0)
            free(p);
        else
            sl_pool_process_close((uv_handle_t *)&p->death);
        return rc;
    }
    p->pidfd = peer->pidfd;
    if (sl_pool_process_watch(loop, p, &p->output, peer->fd, on_connection) == SL_OK)
        p->output_fd = peer->fd;
    sl_pool_process_runs(p);
    // Who does not take the answer is about to die, or to be seen dead.
    (void)grant(w, peer);
    *peer = (struct sl_attach_peer){.fd = -1, .pidfd = -1};
    return SL_OK;
}

void sl_worker_pool_dismiss_external(struct sl_worker_pool *workers, const char *why)
{
    for (uint32_t i = 0; i < workers->n; i++) {
        struct sl_pool_worker *w = &workers->list[i];
        struct sl_exit_status left = {.known = true};
        if (!w->external || !w->alive)
            continue;
        const struct sl_attach_peer peer = {.fd = w->process->output_fd, .pidfd = -1};
        if (peer.fd >= 0)
            sl_attach_end(&peer, why);
        w->leaving = true;
        sl_pool_process_end(w->process, &left);
    }
}
