// bus_fixture.h - a folder for sockets and keys, texts over a control bus, and what happens to the
// connections of libzmq's own sockets.
#ifndef SL_TESTS_UNIT_BUS_FIXTURE_H
#define SL_TESTS_UNIT_BUS_FIXTURE_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#include "common/base/error.h"
#include "common/bus/bus.h"
#include "common/bus/curve_keys.h"
#include "tests/unit/asserts.h"

enum { SOON_MS = 60000 };

// --- files ---------------------------------------------------------------------------------------

static char base[64]; // in /tmp: a socket's path is short

static inline void make_base(void)
{
    snprintf(base, sizeof base, "/tmp/sl-bus-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(base));
}

static inline void remove_base(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", base);
    ck_assert_int_eq(system(command), 0);
}

// A path below it; valid until the fourth call from here.
static inline const char *in_base(const char *name)
{
    static char paths[4][160];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", base, name);
    return path;
}

static inline void put_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

static inline void must(int rc)
{
    ck_assert_msg(rc == SL_OK, "%s", sl_error_message());
}

static inline void expect_message(const char *part)
{
    ck_assert_msg(strstr(sl_error_message(), part) != NULL, "'%s' is not in: %s", part,
                  sl_error_message());
}

// A daemon's keys, those of a client of it, and those of another daemon's client.
static struct sl_curve daemon_keys, client_keys, stranger_keys;

static inline void make_keys(void)
{
    must(sl_curve_generate(in_base("keys"), NULL));
    must(sl_curve_generate(in_base("other"), NULL));
    must(sl_curve_read(in_base("keys/daemon.key"), &daemon_keys));
    must(sl_curve_read(in_base("keys/client.key"), &client_keys));
    must(sl_curve_read(in_base("other/client.key"), &stranger_keys));
}

// --- messages ------------------------------------------------------------------------------------

static inline int send_text(struct sl_bus *bus, const struct sl_bus_peer *to, char *text)
{
    Sl__Control__LogLine line = SL__CONTROL__LOG_LINE__INIT;
    Sl__Control__Envelope e = SL__CONTROL__ENVELOPE__INIT;
    line.text = text;
    e.body_case = SL__CONTROL__ENVELOPE__BODY_LOG_LINE;
    e.log_line = &line;
    return sl_bus_send(bus, to, &e);
}

static inline Sl__Control__Envelope *expect(struct sl_bus *bus, struct sl_bus_peer *from)
{
    Sl__Control__Envelope *m;
    ck_assert_int_eq(sl_bus_receive(bus, SOON_MS, from, &m), SL_OK);
    return m;
}

static inline void expect_text(struct sl_bus *bus, struct sl_bus_peer *from, const char *text)
{
    Sl__Control__Envelope *m = expect(bus, from);
    ck_assert_int_eq(m->body_case, SL__CONTROL__ENVELOPE__BODY_LOG_LINE);
    ck_assert_str_eq(m->log_line->text, text);
    sl_bus_message_free(m);
}

// --- connections ---------------------------------------------------------------------------------

// For a socket that calls with these keys (NULL: in the clear).
static inline void use_keys(void *socket, const struct sl_curve *keys)
{
    if (!keys)
        return;
    zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, keys->secret_key, SL_CURVE_KEY_TEXT);
    zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, keys->public_key, SL_CURVE_KEY_TEXT);
    zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, keys->daemon_key, SL_CURVE_KEY_TEXT);
}

// Tells of handshakes and ends of a socket's connections, from here on.
static inline void *monitor_of(void *context, void *socket)
{
    const int events = ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED |
                       ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                       ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;
    int wait_ms = SOON_MS;
    ck_assert_int_eq(zmq_socket_monitor(socket, "inproc://monitor", events), 0);
    void *monitor = zmq_socket(context, ZMQ_PAIR);
    ck_assert_int_eq(zmq_connect(monitor, "inproc://monitor"), 0);
    zmq_setsockopt(monitor, ZMQ_RCVTIMEO, &wait_ms, sizeof wait_ms);
    return monitor;
}

// The next that happens; 0: nothing within the bound.
static inline int next_event(void *monitor)
{
    uint8_t event[6], address[256];
    if (zmq_recv(monitor, event, sizeof event, 0) != sizeof event ||
        zmq_recv(monitor, address, sizeof address, 0) < 0)
        return 0;
    return event[0] | event[1] << 8;
}

// Whether that is a handshake that ends well.
static inline bool is_let_in(void *monitor)
{
    int event = next_event(monitor);
    ck_assert_int_ne(event, 0);
    return event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED;
}

#endif
