/*
 * bus.c - the control bus on ZeroMQ.
 *
 * PROBLEM. The broker talks to workers that may be killed at any instruction and to clients that
 * may be stopped in a debugger; neither may cost it time or memory without bound. Whatever else
 * runs on the machine may find the socket and write garbage to it.
 *
 * DESIGN. One ROUTER, many DEALERs, on an abstract Unix socket. A message is one frame (plus the
 * ROUTER's frame with the peer's name): an Envelope with protocol version and token.
 *
 *   who may connect   the kernel's peer credentials, through ZMQ_IPC_FILTER_UID; a libzmq built
 *                     without it is made up for by looking at each message's socket
 *   how large         ZMQ_MAXMSGSIZE: libzmq reads the length first and cuts the connection, so a
 *                     larger message is never buffered. A band above our own limit is let through,
 *                     so that an honest sender's mistake is counted instead of reconnecting for
 *                     ever.
 *   how many          high-water marks on both sides; a full queue refuses, ROUTER_MANDATORY makes
 *                     a vanished peer an error instead of a silent drop
 *   how long          every call is non-blocking, except a receive with a time-out
 *
 * FAILURE. What is malformed, foreign or too large is dropped and counted, never answered. A peer
 * that dies is found by the kernel (pidfd, death signal), not by this file.
 */
#include "common/ipc/bus.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

#include "common/base/clock.h"
#include "common/base/error.h"

enum {
    QUEUE_MESSAGES = 4096,
    RECONNECT_MS = 5, // a worker or client may come up before the broker has bound
    BACKLOG = 512,
    OVERSIZE_BAND_BYTES = 1 << 20,
};

struct sl_bus {
    void *context;
    void *socket;
    uint64_t token;
    uint64_t refused;
    bool router;
    bool check_each; // libzmq has no credential filter: look at each message's socket
};

void sl_bus_new_endpoint(char *out, size_t bytes, uint64_t *token)
{
    uint64_t random[3];
    // 24 bytes come at once or not at all, and only before the system's pool is ready do they wait.
    while (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random) {
    }
    snprintf(out, bytes, "ipc://@sluice-%016" PRIx64 "%016" PRIx64, random[0], random[1]);
    *token = random[2];
}

static int set_int(struct sl_bus *bus, int option, int value)
{
    if (zmq_setsockopt(bus->socket, option, &value, sizeof value) == 0)
        return SL_OK;
    return sl_fail_errno(SL_ESYS, errno, "control bus: setting ZeroMQ option %d to %d", option,
                         value);
}

static int open_socket(struct sl_bus *bus, int type)
{
    bus->context = zmq_ctx_new();
    if (!bus->context)
        return sl_fail_errno(SL_ESYS, errno, "control bus: starting ZeroMQ");
    bus->socket = zmq_socket(bus->context, type);
    if (!bus->socket)
        return sl_fail_errno(SL_ESYS, errno, "control bus: opening a ZeroMQ socket");

    int64_t largest = (int64_t)SL_BUS_MESSAGE_MAX + OVERSIZE_BAND_BYTES;
    if (zmq_setsockopt(bus->socket, ZMQ_MAXMSGSIZE, &largest, sizeof largest) != 0)
        return sl_fail_errno(SL_ESYS, errno, "control bus: limiting messages to %" PRId64 " bytes",
                             largest);
    SL_TRY(set_int(bus, ZMQ_SNDHWM, QUEUE_MESSAGES));
    SL_TRY(set_int(bus, ZMQ_RCVHWM, QUEUE_MESSAGES));
    SL_TRY(set_int(bus, ZMQ_LINGER, 0));
    SL_TRY(set_int(bus, ZMQ_RECONNECT_IVL, RECONNECT_MS));
    if (bus->router) {
        SL_TRY(set_int(bus, ZMQ_ROUTER_MANDATORY, 1));
        SL_TRY(set_int(bus, ZMQ_BACKLOG, BACKLOG));
        bus->check_each = true;
#ifdef ZMQ_IPC_FILTER_UID
        uid_t me = geteuid();
        if (zmq_setsockopt(bus->socket, ZMQ_IPC_FILTER_UID, &me, sizeof me) == 0)
            bus->check_each = false;
#endif
    }
    return SL_OK;
}

static int open_bus(const char *endpoint, uint64_t token, bool router, struct sl_bus **out)
{
    int rc;
    *out = NULL;
    struct sl_bus *bus = calloc(1, sizeof *bus);
    if (!bus)
        return sl_fail(SL_ENOMEM, "control bus: no memory");
    bus->token = token;
    bus->router = router;
    SL_TRY_OUT(open_socket(bus, router ? ZMQ_ROUTER : ZMQ_DEALER));
    if ((router ? zmq_bind : zmq_connect)(bus->socket, endpoint) != 0) {
        rc = sl_fail_errno(errno == EADDRINUSE ? SL_EEXIST : SL_ESYS, errno,
                           "control bus: %s '%s' (wanted an endpoint such as ipc://@name)",
                           router ? "binding" : "connecting to", endpoint);
        goto out;
    }
    *out = bus;
    return SL_OK;
out:
    sl_bus_close(bus, 0);
    return rc;
}

int sl_bus_bind(const char *endpoint, uint64_t token, struct sl_bus **out)
{
    return open_bus(endpoint, token, true, out);
}

int sl_bus_connect(const char *endpoint, uint64_t token, struct sl_bus **out)
{
    return open_bus(endpoint, token, false, out);
}

void sl_bus_close(struct sl_bus *bus, int linger_ms)
{
    if (!bus)
        return;
    if (bus->socket) {
        zmq_setsockopt(bus->socket, ZMQ_LINGER, &linger_ms, sizeof linger_ms);
        zmq_close(bus->socket);
    }
    if (bus->context)
        while (zmq_ctx_term(bus->context) != 0 && errno == EINTR) {
        }
    free(bus);
}

int sl_bus_fd(const struct sl_bus *bus)
{
    int fd = -1;
    size_t n = sizeof fd;
    zmq_getsockopt(bus->socket, ZMQ_FD, &fd, &n);
    return fd;
}

// --- sending -------------------------------------------------------------------------------------

static int send_frame(struct sl_bus *bus, zmq_msg_t *frame, int flags)
{
    int sent;
    do
        sent = zmq_msg_send(frame, bus->socket, flags | ZMQ_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    if (sent >= 0)
        return SL_OK;
    int err = errno;
    zmq_msg_close(frame);
    if (err == EAGAIN || err == EHOSTUNREACH)
        return SL_EAGAIN;
    return sl_fail_errno(SL_ESYS, err, "control bus: sending a message");
}

int sl_bus_send(struct sl_bus *bus, const struct sl_bus_peer *to, Sl__Control__Envelope *body)
{
    if (bus->router != (to != NULL))
        return sl_fail(SL_EINVAL,
                       "control bus: a bound bus needs a receiver, a connected one none");
    body->protocol = SL_PROTOCOL_VERSION;
    body->token = bus->token;
    size_t bytes = sl__control__envelope__get_packed_size(body);
    if (bytes > SL_BUS_MESSAGE_MAX)
        return sl_fail(SL_ERANGE, "control bus: message of %zu bytes; at most %u can be sent",
                       bytes, SL_BUS_MESSAGE_MAX);

    zmq_msg_t payload;
    if (zmq_msg_init_size(&payload, bytes) != 0)
        return sl_fail(SL_ENOMEM, "control bus: no memory for a message of %zu bytes", bytes);
    sl__control__envelope__pack(body, zmq_msg_data(&payload));
    if (to) {
        zmq_msg_t name;
        if (zmq_msg_init_size(&name, to->n) != 0) {
            zmq_msg_close(&payload);
            return sl_fail(SL_ENOMEM, "control bus: no memory for a message");
        }
        memcpy(zmq_msg_data(&name), to->id, to->n);
        // A full queue is found here, before anything is under way: the second frame then goes out.
        int rc = send_frame(bus, &name, ZMQ_SNDMORE);
        if (rc < 0) {
            zmq_msg_close(&payload);
            return rc;
        }
    }
    return send_frame(bus, &payload, 0);
}

// --- receiving -----------------------------------------------------------------------------------

// Takes the next frame; SL_EAGAIN when there is none.
static int take_frame(struct sl_bus *bus, zmq_msg_t *frame)
{
    zmq_msg_init(frame);
    int got;
    do
        got = zmq_msg_recv(frame, bus->socket, ZMQ_DONTWAIT);
    while (got < 0 && errno == EINTR);
    if (got >= 0)
        return SL_OK;
    int err = errno;
    zmq_msg_close(frame);
    if (err == EAGAIN)
        return SL_EAGAIN;
    return sl_fail_errno(SL_ESYS, err, "control bus: receiving a message");
}

static void drop_rest(struct sl_bus *bus, bool more)
{
    while (more) {
        zmq_msg_t frame;
        if (take_frame(bus, &frame) < 0)
            return;
        more = zmq_msg_more(&frame);
        zmq_msg_close(&frame);
    }
}

static bool same_user(struct sl_bus *bus, zmq_msg_t *frame)
{
    if (!bus->check_each)
        return true;
#ifdef ZMQ_SRCFD
    struct ucred peer;
    socklen_t n = sizeof peer;
    int fd = zmq_msg_get(frame, ZMQ_SRCFD);
    return fd >= 0 && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0 &&
           peer.uid == geteuid();
#else
    return false;
#endif
}

static Sl__Control__Envelope *open_envelope(struct sl_bus *bus, zmq_msg_t *frame)
{
    size_t bytes = zmq_msg_size(frame);
    if (bytes > SL_BUS_MESSAGE_MAX || !same_user(bus, frame))
        return NULL;
    Sl__Control__Envelope *m = sl__control__envelope__unpack(NULL, bytes, zmq_msg_data(frame));
    if (m && m->protocol == SL_PROTOCOL_VERSION && m->token == bus->token &&
        m->body_case != SL__CONTROL__ENVELOPE__BODY__NOT_SET)
        return m;
    sl_bus_message_free(m);
    return NULL;
}

// One message off the queue. SL_OK with *out NULL when it was refused; SL_EAGAIN when none waits.
static int take_message(struct sl_bus *bus, struct sl_bus_peer *from, Sl__Control__Envelope **out)
{
    zmq_msg_t frame;
    bool named = true;
    *out = NULL;
    int rc = take_frame(bus, &frame); // an empty queue is no error to trace
    if (rc < 0)
        return rc;
    if (bus->router) {
        struct sl_bus_peer peer = {.n = zmq_msg_size(&frame)};
        named = peer.n <= sizeof peer.id;
        if (named)
            memcpy(peer.id, zmq_msg_data(&frame), peer.n);
        bool more = zmq_msg_more(&frame);
        zmq_msg_close(&frame);
        if (!more)
            return SL_OK;
        SL_TRY(take_frame(bus, &frame));
        if (from)
            *from = peer;
    } else if (from) {
        from->n = 0;
    }
    bool more = zmq_msg_more(&frame);
    if (named && !more)
        *out = open_envelope(bus, &frame);
    zmq_msg_close(&frame);
    drop_rest(bus, more);
    return SL_OK;
}

int sl_bus_receive(struct sl_bus *bus, int timeout_ms, struct sl_bus_peer *from,
                   Sl__Control__Envelope **out)
{
    uint64_t until = sl_now_ns() + (uint64_t)(timeout_ms > 0 ? timeout_ms : 0) * 1000000u;
    *out = NULL;
    for (;;) {
        int rc = take_message(bus, from, out);
        if (rc == SL_OK && *out)
            return SL_OK;
        if (rc == SL_OK) {
            bus->refused++;
            continue;
        }
        if (rc != SL_EAGAIN)
            return rc;
        uint64_t now = sl_now_ns();
        if (now >= until)
            return SL_EAGAIN;
        zmq_pollitem_t item = {.socket = bus->socket, .events = ZMQ_POLLIN};
        if (zmq_poll(&item, 1, (long)((until - now + 999999u) / 1000000u)) < 0 && errno != EINTR)
            return sl_fail_errno(SL_ESYS, errno, "control bus: waiting for a message");
    }
}

void sl_bus_message_free(Sl__Control__Envelope *message)
{
    if (message)
        sl__control__envelope__free_unpacked(message, NULL);
}

uint64_t sl_bus_refused(const struct sl_bus *bus)
{
    return bus->refused;
}
