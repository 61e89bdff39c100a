#include "broker/job/loop.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "common/base/error.h"

static void on_before(uv_prepare_t *handle)
{
    struct sl_loop *loop = handle->data;
    loop->events.on_bus(loop->ctx);
}

static void on_after(uv_check_t *handle)
{
    struct sl_loop *loop = handle->data;
    loop->events.on_bus(loop->ctx);
}

// Its only purpose is to end the wait: on_after reads.
static void on_bus_edge(uv_poll_t *handle, int status, int events) {}

static void on_doorbell(uv_poll_t *handle, int status, int events)
{
    struct sl_loop *loop = handle->data;
    uint64_t rung;
    ssize_t ignored = read(loop->doorbell_fd, &rung, sizeof rung);
    (void)ignored;
    loop->events.on_doorbell(loop->ctx);
}

static void on_owner(uv_poll_t *handle, int status, int events)
{
    struct sl_loop *loop = handle->data;
    uv_poll_stop(handle); // it stays readable
    loop->events.on_owner(loop->ctx);
}

static void on_tick(uv_timer_t *handle)
{
    struct sl_loop *loop = handle->data;
    loop->events.on_tick(loop->ctx);
}

static void on_signal(uv_signal_t *handle, int signum)
{
    struct sl_loop *loop = handle->data;
    loop->events.on_signal(loop->ctx, signum);
}

static int start(struct sl_loop *loop, int bus_fd, int owner_fd)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
    int err = 0;
    uv_prepare_init(&loop->uv, &loop->before);
    uv_check_init(&loop->uv, &loop->after);
    uv_timer_init(&loop->uv, &loop->tick);
    loop->before.data = loop->after.data = loop->tick.data = loop;
    err = err ? err : uv_poll_init(&loop->uv, &loop->bus, bus_fd);
    err = err ? err : uv_poll_init(&loop->uv, &loop->doorbell, loop->doorbell_fd);
    if (owner_fd > 0)
        err = err ? err : uv_poll_init(&loop->uv, &loop->owner, owner_fd);
    loop->bus.data = loop->doorbell.data = loop->owner.data = loop;
    err = err ? err : uv_prepare_start(&loop->before, on_before);
    err = err ? err : uv_check_start(&loop->after, on_after);
    err = err ? err : uv_timer_start(&loop->tick, on_tick, SL_LOOP_TICK_MS, SL_LOOP_TICK_MS);
    err = err ? err : uv_poll_start(&loop->bus, UV_READABLE, on_bus_edge);
    err = err ? err : uv_poll_start(&loop->doorbell, UV_READABLE, on_doorbell);
    if (owner_fd > 0)
        err = err ? err : uv_poll_start(&loop->owner, UV_READABLE, on_owner);
    for (size_t i = 0; i < SL_COUNT_OF(signals) && !err; i++) {
        err = uv_signal_init(&loop->uv, &loop->signals[i]);
        loop->signals[i].data = loop;
        err = err ? err : uv_signal_start(&loop->signals[i], on_signal, signals[i]);
    }
    return err;
}

int sl_loop_init(struct sl_loop *loop, const struct sl_loop_events *events, void *ctx, int bus_fd,
                 int doorbell_fd, int owner_fd)
{
    memset(loop, 0, sizeof *loop);
    loop->events = *events;
    loop->ctx = ctx;
    loop->doorbell_fd = doorbell_fd;
    int err = uv_loop_init(&loop->uv);
    if (err)
        return sl_fail(SL_ESYS, "starting the event loop: %s", uv_strerror(err));
    loop->open = true;
    err = start(loop, bus_fd, owner_fd);
    if (err)
        return sl_fail(SL_ESYS, "starting the event loop: %s", uv_strerror(err));
    return SL_OK;
}

void sl_loop_run(struct sl_loop *loop)
{
    uv_run(&loop->uv, UV_RUN_DEFAULT);
}

static void close_if_used(uv_handle_t *handle)
{
    if (handle->loop && !uv_is_closing(handle))
        uv_close(handle, NULL);
}

void sl_loop_close(struct sl_loop *loop)
{
    close_if_used((uv_handle_t *)&loop->before);
    close_if_used((uv_handle_t *)&loop->after);
    close_if_used((uv_handle_t *)&loop->bus);
    close_if_used((uv_handle_t *)&loop->doorbell);
    close_if_used((uv_handle_t *)&loop->owner);
    close_if_used((uv_handle_t *)&loop->tick);
    for (size_t i = 0; i < SL_COUNT_OF(loop->signals); i++)
        close_if_used((uv_handle_t *)&loop->signals[i]);
}

void sl_loop_fini(struct sl_loop *loop)
{
    if (!loop->open)
        return;
    // After an error in init some handles are open still; after a run there is nothing left to do.
    sl_loop_close(loop);
    uv_run(&loop->uv, UV_RUN_DEFAULT);
    uv_loop_close(&loop->uv);
    loop->open = false;
}
