// daemon_bus_fixture.h - a daemon with a real bus and a real client, without any broker.
#ifndef SL_TESTS_UNIT_DAEMON_BUS_FIXTURE_H
#define SL_TESTS_UNIT_DAEMON_BUS_FIXTURE_H

#include "broker/daemon/daemon_internal.h"
#include "common/base/log.h"
#include "tests/unit/await.h"
#include "tests/unit/daemon_fixture.h"

static char endpoint[128], bus_key[SL_BUS_KEY_TEXT];
static struct sl_daemon *d;
static struct sl_bus *client;

// Somebody has all these cores, so that nothing is launched.
static inline struct sl_entry *daemon_begin(struct sl_cores cores)
{
    dir_begin();
    sl_log_set_level(SL_LOG_ERROR);
    d = calloc(1, sizeof *d);
    ck_assert_ptr_nonnull(d);
    snprintf(d->state_dir, sizeof d->state_dir, "%s", in_dir("state"));
    snprintf(d->runtime_dir, sizeof d->runtime_dir, "%s", dir);
    ck_assert_int_eq(mkdir(d->state_dir, 0700), 0);
    ck_assert_int_eq(mkdir(in_dir("data"), 0700), 0);
    d->cores = cores;
    sl_bus_new_endpoint(endpoint, sizeof endpoint, bus_key);
    ck_assert_int_eq(sl_bus_bind(endpoint, bus_key, &d->bus), SL_OK);
    ck_assert_int_eq(sl_bus_connect(endpoint, bus_key, &client), SL_OK);
    ck_assert_int_eq(uv_loop_init(&d->loop.uv), 0);
    sl_subscribers_init(&d->subscribers, d->bus);
    struct sl_entry *holder = add_entry(&d->registry, "holder", "0");
    holder->cores = cores;
    holder->state = SL_ENTRY_INTERRUPTED;
    holder->orphan_until_ns = UINT64_MAX;
    holder->pid = 1;
    return holder;
}

static inline void daemon_end(void)
{
    uv_run(&d->loop.uv, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&d->loop.uv), 0);
    sl_bus_close(client, 0);
    sl_bus_close(d->bus, 0);
    sl_subscribers_fini(&d->subscribers);
    sl_registry_fini(&d->registry);
    free(d);
    dir_end();
}

#define BODY(var, field, kind, message)                                                            \
    Sl__Control__Envelope var = SL__CONTROL__ENVELOPE__INIT;                                       \
    var.body_case = SL__CONTROL__ENVELOPE__BODY_##kind;                                            \
    var.field = (message)

// Sends a request, and lets the daemon serve it.
static inline void send_to_daemon(struct sl_bus *from, Sl__Control__Envelope *body, const char *job)
{
    Sl__Control__Envelope *m;
    struct sl_bus_peer peer;
    body->job = (char *)job;
    ck_assert_int_eq(sl_bus_send(from, NULL, body), SL_OK);
    ck_assert_int_eq(sl_bus_receive(d->bus, AWAIT_MS, &peer, &m), SL_OK);
    sl_daemon_on_message(d, &peer, m);
    sl_bus_message_free(m);
}

// A job file; devices: JSON. Valid until the next call.
static inline const char *job_text(const char *name, const char *devices)
{
    static char text[4096];
    snprintf(text, sizeof text,
             "{\"name\": \"%s\", \"dataset\": \"%s/data\", \"model\": {\"kind\": \"graphsage\", "
             "\"layers\": 1, \"hidden\": 8}, \"sampler\": {\"kind\": \"khop\", \"fanout\": [5], "
             "\"batch_size\": 8}, \"optimizer\": {\"kind\": \"adam\", \"lr\": 0.1}, \"epochs\": 2, "
             "\"devices\": %s, \"output\": \"%s/run-%s\"}",
             name, dir, devices, dir, name);
    return text;
}

#endif
