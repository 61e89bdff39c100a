/*
 * loop.h - the broker's one thread: what it waits for.
 *
 *   bus        control messages. ZeroMQ's descriptor is edge-triggered and a send may swallow the
 *              edge, so the bus is read before and after every wait, whatever woke the loop
 *   doorbell   an eventfd that workers ring when a phase is over
 *   tick       ten times a second: progress, and everything that a dying worker may not have said
 *   owner      the pidfd of a process with which the job ends, if it has one (launch.h)
 *   signals    SIGINT, SIGTERM, SIGUSR1, and SIGHUP when what started the broker dies (launch.h)
 *
 * The handlers never block and never sleep. libuv's own handles of others (workers, timers, thread
 * pool) live on the same loop.
 */
#ifndef SL_BROKER_JOB_LOOP_H
#define SL_BROKER_JOB_LOOP_H

#include <stdbool.h>
#include <uv.h>

enum { SL_LOOP_TICK_MS = 100 };

struct sl_loop_events {
    void (*on_bus)(void *ctx); // receive until there is nothing
    void (*on_doorbell)(void *ctx);
    void (*on_tick)(void *ctx);
    void (*on_signal)(void *ctx, int signum);
    void (*on_owner)(void *ctx); // it is dead; once
};

struct sl_loop {
    uv_loop_t uv;
    bool open;
    struct sl_loop_events events;
    void *ctx;
    int doorbell_fd;
    uv_prepare_t before;
    uv_check_t after;
    uv_poll_t bus, doorbell, owner;
    uv_timer_t tick;
    uv_signal_t signals[4];
};

// The descriptors are borrowed. owner_fd: 0 for none.
int sl_loop_init(struct sl_loop *loop, const struct sl_loop_events *events, void *ctx, int bus_fd,
                 int doorbell_fd, int owner_fd);

// Returns once sl_loop_close() has been called and every other handle on it is closed too.
void sl_loop_run(struct sl_loop *loop);

void sl_loop_close(struct sl_loop *loop); // from a handler
void sl_loop_fini(struct sl_loop *loop);  // safe on a zeroed struct

#endif
