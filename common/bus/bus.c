/*
 * bus.c - the control bus on ZeroMQ.
 *
 * PROBLEM. The broker talks to workers that may be killed at any instruction and to clients that
 * may be stopped in a debugger; neither may cost it time or memory without bound. Whatever else
 * runs on the machine may find the socket and write garbage to it. And a daemon outlives the
 * programs that talk to it: they may be of another version.
 *
 * DESIGN. One ROUTER, many DEALERs, on a Unix socket. A message is one frame (plus the ROUTER's
 * frame with the peer's name): an Envelope with protocol version.
 *
 *   who may connect   the kernel's peer credentials, through ZMQ_IPC_FILTER_UID; a libzmq built
 *                     without it is made up for by looking at each message's socket. On a job's
 *                     bus also CURVE, with the one pair of keys that all of a job have. Over TCP:
 *                     CURVE and a list of keys (zap_auth.h)
 *   who answers       a daemon's socket is in a directory that nobody else may enter. A job's is an
 *                     abstract name, which anybody may take once its broker has died: CURVE keeps a
 *                     connected side from hearing, or telling, who does not have the key
 *   how large         ZMQ_MAXMSGSIZE: libzmq reads the length first and cuts the connection, so a
 *                     larger message is never buffered. A band above our own limit is let through,
 *                     so that an honest sender's mistake is counted instead of reconnecting for
 *                     ever.
 *   how many          high-water marks on both sides, a small one for what clients ask over TCP,
 *                     and bytes of what a client has not read (outgoing.h): such a client costs
 *                     tens of MiB at most. A full queue refuses, ROUTER_MANDATORY makes a vanished
 *                     peer an error instead of a silent drop
 *   how long          every call is non-blocking, except a receive with a time-out. What is
 *                     refused in one receive, and what is received at a stretch, is bounded: a
 *                     flood leaves the loop its timers. libzmq takes from all peers in turn
 *
 * The mechanism (none, or CURVE) belongs to a ZeroMQ socket, not to an endpoint: TCP has a ROUTER
 * of its own beside the local one. A peer's id is the socket's number and then libzmq's name for
 * it, another one for each start: no socket names itself (ZMQ_ROUTING_ID), since a ROUTER ignores
 * the second one of a name in silence. An epoll descriptor gathers the sockets' descriptors and a
 * doorbell of our own, that is rung when a receive went away with messages left.
 *
 * FAILURE. What is malformed, foreign or too large is dropped, counted and logged (envelope.h),
 * never answered. Another protocol version is answered: who asks learns that it is a matter of
 * versions. The answer is never answered itself. A peer that dies is found by the kernel (pidfd,
 * death signal), not by this file.
 */
#include "common/bus/bus.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/open_file.h"
#include "common/base/error.h"
#include "common/base/version.h"
#include "common/bus/curve_keys.h"
#include "common/bus/zap_auth.h"
#include "common/bus/outgoing.h"
#include "common/bus/envelope.h"

enum {
    QUEUE_MESSAGES = 4096,
    REQUESTS_QUEUED = 8, // of a client over TCP: the rest waits on its side
    RECONNECT_MS = 5,    // a worker or client may come up before the broker has bound
    RECONNECT_TCP_MS = 100,
    BACKLOG = 512,
    OVERSIZE_BAND_BYTES = 1 << 20,
    DESCRIPTORS = 16, // that a context, its threads and a socket take, and some for connections
    MESSAGES_A_BURST = 1024, // then a bound bus says once that there is nothing
};

enum { LOCAL, TCP, N_SOCKETS };

_Static_assert((int)SL_OUTGOING_NAME_BYTES == (int)SL_BUS_NAME_BYTES, "a peer's name");

struct sl_bus {
    void *context;
    void *sockets[N_SOCKETS];     // NULL: none. A connected bus has the first one only
    struct sl_outgoing *outgoing; // of a bound bus
    struct sl_zap_auth *gate;     // of the socket that has keys
    char *path;                   // of a bound socket's file, which libzmq leaves behind; or NULL
    unsigned turn;                // the socket that is looked at first
    int epoll_fd;
    int doorbell_fd; // rung: messages were left
    bool rung;
    unsigned burst; // messages received since there was none
    uint64_t waits; // receives that slept
    bool router;
    bool check_each; // libzmq has no credential filter: look at each message's socket
    struct sl_refusals refusals;
};

int sl_bus_new_endpoint(char *out, size_t bytes, char key[SL_BUS_KEY_TEXT])
{
    uint64_t random[2];
    // 16 bytes come at once or not at all, and only before the system's pool is ready do they wait.
    while (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random) {
    }
    snprintf(out, bytes, "ipc://@sluice-%016" PRIx64 "%016" PRIx64, random[0], random[1]);
    return sl_bus_key_make(key);
}

bool sl_bus_is_far(const struct sl_bus_peer *peer)
{
    return peer->n > 0 && peer->id[0] == TCP;
}

bool sl_bus_same_peer(const struct sl_bus_peer *a, const struct sl_bus_peer *b)
{
    return a->n == b->n && memcmp(a->id, b->id, a->n) == 0;
}

// --- opening -------------------------------------------------------------------------------------

static int set_int(void *socket, int option, int value)
{
    if (zmq_setsockopt(socket, option, &value, sizeof value) == 0)
        return SL_OK;
    return sl_fail_errno(SL_ESYS, errno, "control bus: setting ZeroMQ option %d to %d", option,
                         value);
}

// What is asked for is small, and anybody who is let in may ask; answers may be large.
static uint32_t largest_received(const struct sl_bus *bus)
{
    return bus->router ? SL_BUS_REQUEST_MAX : SL_BUS_MESSAGE_MAX;
}

static uint32_t largest_sent(const struct sl_bus *bus)
{
    return bus->router ? SL_BUS_MESSAGE_MAX : SL_BUS_REQUEST_MAX;
}

static int open_socket(struct sl_bus *bus, int which)
{
    void *socket = bus->sockets[which] =
        zmq_socket(bus->context, bus->router ? ZMQ_ROUTER : ZMQ_DEALER);
    if (!socket)
        return sl_fail_errno(SL_ESYS, errno, "control bus: opening a ZeroMQ socket");

    int64_t largest = largest_received(bus) + OVERSIZE_BAND_BYTES;
    if (zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &largest, sizeof largest) != 0)
        return sl_fail_errno(SL_ESYS, errno, "control bus: limiting messages to %" PRId64 " bytes",
                             largest);
    SL_TRY(set_int(socket, ZMQ_SNDHWM, QUEUE_MESSAGES));
    SL_TRY(set_int(socket, ZMQ_RCVHWM, which == TCP ? REQUESTS_QUEUED : QUEUE_MESSAGES));
    SL_TRY(set_int(socket, ZMQ_LINGER, 0));
    SL_TRY(set_int(socket, ZMQ_RECONNECT_IVL, RECONNECT_MS));
    if (!bus->router)
        return SL_OK;
    SL_TRY(set_int(socket, ZMQ_ROUTER_MANDATORY, 1));
    SL_TRY(set_int(socket, ZMQ_BACKLOG, BACKLOG));
    if (which == LOCAL) {
        bus->check_each = true;
#ifdef ZMQ_IPC_FILTER_UID
        uid_t me = geteuid();
        if (zmq_setsockopt(socket, ZMQ_IPC_FILTER_UID, &me, sizeof me) == 0)
            bus->check_each = false;
#endif
    }
    return SL_OK;
}

static int watch(struct sl_bus *bus, int fd)
{
    struct epoll_event event = {.events = EPOLLIN};
    if (fd >= 0 && epoll_ctl(bus->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0)
        return SL_OK;
    return sl_fail_errno(SL_ESYS, errno, "control bus: watching a descriptor");
}

static int watch_socket(struct sl_bus *bus, void *socket)
{
    int fd = -1;
    size_t n = sizeof fd;
    if (zmq_getsockopt(socket, ZMQ_FD, &fd, &n) != 0)
        return sl_fail_errno(SL_ESYS, errno, "control bus: asking a socket for its descriptor");
    return watch(bus, fd);
}

static int make_bus(bool router, struct sl_bus **out)
{
    int rc;
    // libzmq aborts when it gets none.
    SL_TRY(sl_descriptors_check(DESCRIPTORS, "control bus"));
    struct sl_bus *bus = calloc(1, sizeof *bus);
    if (!bus)
        return sl_fail(SL_ENOMEM, "control bus: no memory");
    bus->router = router;
    bus->outgoing = router ? sl_outgoing_new() : NULL;
    bus->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    bus->doorbell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    bus->context = zmq_ctx_new();
    if (router && !bus->outgoing) {
        rc = sl_fail(SL_ENOMEM, "control bus: no memory");
        goto out;
    }
    if (bus->epoll_fd < 0 || bus->doorbell_fd < 0 || !bus->context) {
        rc = sl_fail_errno(SL_ESYS, errno, "control bus: starting ZeroMQ");
        goto out;
    }
    SL_TRY_OUT(watch(bus, bus->doorbell_fd));
    SL_TRY_OUT(open_socket(bus, LOCAL));
    SL_TRY_OUT(watch_socket(bus, bus->sockets[LOCAL]));
    *out = bus;
    return SL_OK;
out:
    sl_bus_close(bus, 0);
    return rc;
}

static int attach(struct sl_bus *bus, int which, const char *endpoint)
{
    if ((bus->router ? zmq_bind : zmq_connect)(bus->sockets[which], endpoint) == 0)
        return SL_OK;
    if (errno == EADDRINUSE)
        return sl_fail(SL_EEXIST,
                       "control bus: '%s' is taken by another program: choose another port, or "
                       "stop that one",
                       endpoint);
    return sl_fail_errno(SL_ESYS, errno, "control bus: %s '%s' (wanted an endpoint such as %s)",
                         bus->router ? "binding" : "connecting to", endpoint,
                         strncmp(endpoint, "tcp:", 4) == 0 ? "tcp://ADDRESS:PORT" : "ipc://@name");
}

// The local socket's keys: both sides show that they have the job's.
static int arm_local(struct sl_bus *bus, const char *key)
{
    struct sl_curve keys;
    void *socket = bus->sockets[LOCAL];
    int rc = sl_bus_key_curve(key, bus->router, &keys);
    if (rc == SL_OK && bus->router)
        rc = sl_zap_auth_open(bus->context, &keys, &bus->gate);
    if (rc == SL_OK)
        rc = (bus->router ? sl_zap_auth_arm_server : sl_zap_auth_arm_client)(socket, &keys);
    explicit_bzero(&keys, sizeof keys);
    return rc;
}

static int open_bus(const char *endpoint, const char *key, bool router, struct sl_bus **out)
{
    int rc;
    struct sl_bus *bus;
    *out = NULL;
    SL_TRY(make_bus(router, &bus));
    if (key)
        SL_TRY_OUT(arm_local(bus, key));
    SL_TRY_OUT(attach(bus, LOCAL, endpoint));
    if (router && strncmp(endpoint, "ipc:///", 7) == 0)
        bus->path = strdup(endpoint + strlen("ipc://"));
    *out = bus;
    return SL_OK;
out:
    sl_bus_close(bus, 0);
    return rc;
}

int sl_bus_bind(const char *endpoint, const char *key, struct sl_bus **out)
{
    return open_bus(endpoint, key, true, out);
}

int sl_bus_connect(const char *endpoint, const char *key, struct sl_bus **out)
{
    return open_bus(endpoint, key, false, out);
}

static int check_tcp(const char *endpoint)
{
    if (strncmp(endpoint, "tcp://", 6) == 0)
        return SL_OK;
    return sl_fail(SL_EINVAL, "control bus: '%s' (wanted an endpoint such as tcp://ADDRESS:PORT)",
                   endpoint);
}

int sl_bus_add_tcp(struct sl_bus *bus, const char *endpoint, const struct sl_curve *keys)
{
    int rc;
    if (!bus->router || bus->gate)
        return sl_fail(SL_EINVAL, "control bus: only a bound bus can listen on TCP, and once");
    SL_TRY(check_tcp(endpoint));
    SL_TRY(sl_zap_auth_open(bus->context, keys, &bus->gate));
    SL_TRY_OUT(open_socket(bus, TCP));
    SL_TRY_OUT(sl_zap_auth_arm_server(bus->sockets[TCP], keys));
    SL_TRY_OUT(sl_zap_auth_bound_silence(bus->sockets[TCP]));
    SL_TRY_OUT(attach(bus, TCP, endpoint));
    SL_TRY_OUT(watch_socket(bus, bus->sockets[TCP]));
    return SL_OK;
out: // the gate lives as long as the context
    if (bus->sockets[TCP])
        zmq_close(bus->sockets[TCP]);
    bus->sockets[TCP] = NULL;
    return rc;
}

int sl_bus_connect_tcp(const char *endpoint, const struct sl_curve *keys, struct sl_bus **out)
{
    int rc;
    struct sl_bus *bus;
    *out = NULL;
    SL_TRY(check_tcp(endpoint));
    SL_TRY(make_bus(false, &bus));
    SL_TRY_OUT(sl_zap_auth_arm_client(bus->sockets[LOCAL], keys));
    SL_TRY_OUT(sl_zap_auth_bound_silence(bus->sockets[LOCAL]));
    SL_TRY_OUT(set_int(bus->sockets[LOCAL], ZMQ_RECONNECT_IVL, RECONNECT_TCP_MS));
    SL_TRY_OUT(attach(bus, LOCAL, endpoint));
    *out = bus;
    return SL_OK;
out:
    sl_bus_close(bus, 0);
    return rc;
}

void sl_bus_close(struct sl_bus *bus, int linger_ms)
{
    if (!bus)
        return;
    sl_refusals_log(&bus->refusals, true);
    // First: it watches a descriptor that libzmq closes.
    if (bus->epoll_fd >= 0)
        close(bus->epoll_fd);
    if (bus->doorbell_fd >= 0)
        close(bus->doorbell_fd);
    for (int i = 0; i < N_SOCKETS; i++)
        if (bus->sockets[i]) {
            zmq_setsockopt(bus->sockets[i], ZMQ_LINGER, &linger_ms, sizeof linger_ms);
            zmq_close(bus->sockets[i]);
        }
    if (bus->context)
        while (zmq_ctx_term(bus->context) != 0 && errno == EINTR) {
        }
    sl_zap_auth_close(bus->gate);
    sl_outgoing_free(bus->outgoing); // with the context its last messages have gone
    if (bus->path)
        unlink(bus->path);
    free(bus->path);
    free(bus);
}

int sl_bus_fd(const struct sl_bus *bus)
{
    return bus->epoll_fd;
}

// --- sending -------------------------------------------------------------------------------------

static int send_frame(void *socket, zmq_msg_t *frame, int flags)
{
    int sent;
    do
        sent = zmq_msg_send(frame, socket, flags | ZMQ_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    if (sent >= 0)
        return SL_OK;
    int err = errno;
    zmq_msg_close(frame);
    if (err == EAGAIN || err == EHOSTUNREACH)
        return SL_EAGAIN;
    return sl_fail_errno(SL_ESYS, err, "control bus: sending a message");
}

static int send_name(void *socket, const struct sl_bus_peer *to)
{
    zmq_msg_t name;
    if (zmq_msg_init_size(&name, to->n - 1) != 0)
        return sl_fail(SL_ENOMEM, "control bus: no memory for a message");
    memcpy(zmq_msg_data(&name), to->id + 1, to->n - 1);
    // A full queue is found here, before anything is under way: the second frame then goes out.
    return send_frame(socket, &name, ZMQ_SNDMORE);
}

// Sends the envelope as it is.
static int send_envelope(struct sl_bus *bus, const struct sl_bus_peer *to,
                         const Sl__Control__Envelope *body)
{
    void *socket = bus->sockets[LOCAL];
    if (to) {
        if (to->n < 2 || to->n > sizeof to->id || to->id[0] >= N_SOCKETS ||
            !bus->sockets[to->id[0]])
            return SL_EAGAIN; // nobody, or one that has gone
        socket = bus->sockets[to->id[0]];
    }
    size_t bytes = sl__control__envelope__get_packed_size(body);
    if (bytes > largest_sent(bus))
        return sl_fail(SL_ERANGE, "control bus: message of %zu bytes; at most %u can be sent",
                       bytes, largest_sent(bus));
    zmq_msg_t payload;
    int rc = sl_outgoing_message(bus->outgoing, to ? to->id : NULL, to ? to->n : 0, body, bytes,
                                 &payload);
    if (rc < 0)
        return rc; // a peer that does not read is no error to trace
    rc = to ? send_name(socket, to) : SL_OK;
    if (rc < 0) {
        zmq_msg_close(&payload);
        return rc;
    }
    return send_frame(socket, &payload, 0);
}

int sl_bus_send(struct sl_bus *bus, const struct sl_bus_peer *to, Sl__Control__Envelope *body)
{
    if (bus->router != (to != NULL))
        return sl_fail(SL_EINVAL,
                       "control bus: a bound bus needs a receiver, a connected one none");
    body->protocol = SL_PROTOCOL_VERSION;
    if (to)
        body->request = to->request;
    return send_envelope(bus, to, body);
}

// Tells a peer of another version which one is spoken here.
static void send_refused(struct sl_bus *bus, const struct sl_bus_peer *to, uint32_t theirs)
{
    char reason[256];
    snprintf(reason, sizeof reason,
             "this is sluice " SL_VERSION ", protocol %u; the message was of protocol %u",
             SL_PROTOCOL_VERSION, theirs);
    Sl__Control__Refused refused = SL__CONTROL__REFUSED__INIT;
    Sl__Control__Envelope e = SL__CONTROL__ENVELOPE__INIT;
    refused.protocol = SL_PROTOCOL_VERSION;
    refused.reason = reason;
    e.protocol = SL_PROTOCOL_VERSION;
    e.body_case = SL__CONTROL__ENVELOPE__BODY_REFUSED;
    e.refused = &refused;
    (void)send_envelope(bus, to, &e); // who does not read it loses it
}

// --- refusing ------------------------------------------------------------------------------------

static int fail_version(const Sl__Control__Envelope *m)
{
    char reason[256] = "";
    if (m->body_case == SL__CONTROL__ENVELOPE__BODY_REFUSED && m->refused->reason)
        snprintf(reason, sizeof reason, "; it says: %s", m->refused->reason);
    for (char *c = reason; *c; c++)
        if ((unsigned char)*c < ' ')
            *c = '?'; // it may end on a terminal
    return sl_fail(SL_EPROTO,
                   "the other side speaks protocol %u, and this is sluice " SL_VERSION
                   " of protocol %u%s: stop what still runs of the other version (after an "
                   "upgrade: start the daemon again), or use the sluice of that version",
                   m->protocol, SL_PROTOCOL_VERSION, reason);
}

// --- receiving -----------------------------------------------------------------------------------

// Takes the next frame; SL_EAGAIN when there is none.
static int take_frame(void *socket, zmq_msg_t *frame)
{
    zmq_msg_init(frame);
    int got;
    do
        got = zmq_msg_recv(frame, socket, ZMQ_DONTWAIT);
    while (got < 0 && errno == EINTR);
    if (got >= 0)
        return SL_OK;
    int err = errno;
    zmq_msg_close(frame);
    if (err == EAGAIN)
        return SL_EAGAIN;
    return sl_fail_errno(SL_ESYS, err, "control bus: receiving a message");
}

static void drop_rest(void *socket, bool more)
{
    while (more) {
        zmq_msg_t frame;
        if (take_frame(socket, &frame) < 0)
            return;
        more = zmq_msg_more(&frame);
        zmq_msg_close(&frame);
    }
}

static bool same_user(struct sl_bus *bus, int which, zmq_msg_t *frame)
{
    if (!bus->check_each || which != LOCAL)
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

static enum sl_refusal open_frame(struct sl_bus *bus, int which, zmq_msg_t *frame,
                                  Sl__Control__Envelope **out)
{
    if (!same_user(bus, which, frame))
        return SL_REFUSAL_FOREIGN;
    if (zmq_msg_size(frame) > largest_received(bus))
        return SL_REFUSAL_OVERSIZED;
    return sl_envelope_read(zmq_msg_data(frame), zmq_msg_size(frame), out);
}

// The ROUTER's first frame: the peer's name. False, with the message dropped, when it is none.
static bool take_name(void *socket, int which, zmq_msg_t *frame, struct sl_bus_peer *peer)
{
    size_t n = zmq_msg_size(frame);
    bool more = zmq_msg_more(frame);
    bool named = more && n > 0 && n < sizeof peer->id;
    if (named) {
        *peer = (struct sl_bus_peer){.id = {(uint8_t)which}, .n = n + 1};
        memcpy(peer->id + 1, zmq_msg_data(frame), n);
    }
    zmq_msg_close(frame);
    if (!named)
        drop_rest(socket, more);
    return named;
}

// What is to be done with a message that is not for the caller.
static int refuse(struct sl_bus *bus, const struct sl_bus_peer *peer, enum sl_refusal why,
                  const Sl__Control__Envelope *m)
{
    if (why == SL_REFUSAL_OTHER_VERSION && !bus->router) {
        bus->refusals.total++;
        return fail_version(m); // who asked hears it: no line in the log
    }
    sl_refusals_count(&bus->refusals, why);
    if (why != SL_REFUSAL_OTHER_VERSION)
        return SL_OK;
    if (m->body_case != SL__CONTROL__ENVELOPE__BODY_REFUSED)
        send_refused(bus, peer, m->protocol);
    return SL_OK;
}

// One message off a socket's queue. SL_OK with *out NULL when it was refused; SL_EAGAIN when none
// waits; SL_EPROTO.
static int take_message(struct sl_bus *bus, int which, struct sl_bus_peer *from,
                        Sl__Control__Envelope **out)
{
    void *socket = bus->sockets[which];
    struct sl_bus_peer peer = {0};
    Sl__Control__Envelope *m = NULL;
    zmq_msg_t frame;
    int rc = take_frame(socket, &frame); // an empty queue is no error to trace
    if (rc < 0)
        return rc;
    if (bus->router) {
        if (!take_name(socket, which, &frame, &peer))
            return refuse(bus, NULL, SL_REFUSAL_MALFORMED, NULL);
        SL_TRY(take_frame(socket, &frame));
    }
    bool more = zmq_msg_more(&frame);
    enum sl_refusal why = more ? SL_REFUSAL_MALFORMED : open_frame(bus, which, &frame, &m);
    zmq_msg_close(&frame);
    drop_rest(socket, more);
    if (why != SL_REFUSAL_NONE) {
        rc = refuse(bus, &peer, why, m);
        sl_bus_message_free(m);
        return rc;
    }
    peer.request = m->request;
    if (from)
        *from = peer;
    *out = m;
    return SL_OK;
}

// The sockets in turn, so that a flood over one does not shut out the other.
static int take_any(struct sl_bus *bus, struct sl_bus_peer *from, Sl__Control__Envelope **out)
{
    for (int i = 0; i < N_SOCKETS; i++) {
        int which = (int)(bus->turn++ % N_SOCKETS);
        if (!bus->sockets[which])
            continue;
        int rc = take_message(bus, which, from, out);
        if (rc != SL_EAGAIN)
            return rc;
    }
    return SL_EAGAIN;
}

static void ring(struct sl_bus *bus, bool on)
{
    uint64_t count = 1;
    if (bus->rung == on)
        return;
    bus->rung = on;
    ssize_t done = on ? write(bus->doorbell_fd, &count, sizeof count)
                      : read(bus->doorbell_fd, &count, sizeof count);
    (void)done; // an eventfd that is rung once takes and gives one
}

static int wait_for_message(struct sl_bus *bus, uint64_t wait_ns)
{
    zmq_pollitem_t items[N_SOCKETS];
    int n = 0;
    for (int i = 0; i < N_SOCKETS; i++)
        if (bus->sockets[i])
            items[n++] = (zmq_pollitem_t){.socket = bus->sockets[i], .events = ZMQ_POLLIN};
    bus->waits++;
    if (zmq_poll(items, n, (long)((wait_ns + 999999u) / 1000000u)) < 0 && errno != EINTR)
        return sl_fail_errno(SL_ESYS, errno, "control bus: waiting for a message");
    return SL_OK;
}

int sl_bus_receive(struct sl_bus *bus, int timeout_ms, struct sl_bus_peer *from,
                   Sl__Control__Envelope **out)
{
    uint64_t now = sl_now_ns();
    uint64_t until = now + (uint64_t)SL_MAX(timeout_ms, 0) * 1000000u;
    int left = SL_BUS_REFUSALS_A_CALL;
    *out = NULL;
    sl_refusals_log(&bus->refusals, false);
    bool flood = bus->router && timeout_ms <= 0 && bus->burst >= MESSAGES_A_BURST;
    ring(bus, flood);
    while (!flood) {
        int rc = take_any(bus, from, out);
        if (rc == SL_OK && *out) {
            bus->burst++;
            return SL_OK;
        }
        if (rc != SL_OK && rc != SL_EAGAIN)
            return rc;
        if (rc == SL_OK && --left > 0)
            continue;
        now = sl_now_ns();
        if (now >= until) {
            ring(bus, rc == SL_OK);
            break;
        }
        left = SL_BUS_REFUSALS_A_CALL;
        if (rc == SL_EAGAIN)
            SL_TRY(wait_for_message(bus, until - now));
    }
    bus->burst = 0;
    return SL_EAGAIN;
}

void sl_bus_message_free(Sl__Control__Envelope *message)
{
    if (message)
        sl__control__envelope__free_unpacked(message, NULL);
}

uint64_t sl_bus_waits(const struct sl_bus *bus)
{
    return bus->waits;
}

uint64_t sl_bus_refused(const struct sl_bus *bus)
{
    return bus->refusals.total;
}
