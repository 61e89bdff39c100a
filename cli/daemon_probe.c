/*
 * daemon_probe.c - whether the daemon of --connect can be had, and if not, why.
 *
 * PROBLEM. libzmq connects in the background and goes on trying silently: a name that nobody knows,
 * a port where nothing listens, a machine that is off and a key that is not welcome all look alike
 * from its socket, namely like silence.
 *
 * DESIGN. Before the session's own socket connects, each step is taken once by hand, all of them
 * within REACH_MS: the name is looked up, a TCP connection is made and closed again, and a socket
 * of a context of its own shakes hands, with a monitor that tells how that went:
 *
 *   succeeded             the daemon is there, and takes this key
 *   refused by its gate   the daemon of the key file, whose list lacks this client
 *   broken off            what answers cannot read what was encrypted for the file's daemon
 *   nothing               it takes connections (the kernel does that) and is stopped, or no daemon
 *
 * A resolver may take far longer and cannot be told to stop: the C library asks it on a thread of
 * its own, which is left behind with what it was given when the time is over.
 */
#include "cli/daemon_probe.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/descriptors.h"
#include "common/base/error.h"
#include "common/base/interrupt.h"
#include "common/bus/zap_auth.h"

enum {
    REACH_MS = 2500, // for all steps together
    HOST_BYTES = 256,
    PORT_BYTES = 8,
    PORT_MAX = 65535,
    DESCRIPTORS = 24, // of a context with two sockets
    SLICE_MS = 100,
};

struct reach {
    const char *connect; // as the user wrote it
    const char *key;
    char host[HOST_BYTES], port[PORT_BYTES];
    uint64_t until;
};

// --- the address ---------------------------------------------------------------------------------

int sl_daemon_probe_check_endpoint(const char *connect)
{
    static const char scheme[] = "tcp://";
    const char *host = connect + sizeof scheme - 1, *colon = strrchr(connect, ':');
    const char *digits = colon ? colon + 1 : "";
    size_t n = strlen(digits);
    bool fits = strncmp(connect, scheme, sizeof scheme - 1) == 0 && colon > host &&
                colon - host < HOST_BYTES && strcspn(host, ":/;@ ") == (size_t)(colon - host) &&
                n > 0 && n < PORT_BYTES && strspn(digits, "0123456789") == n && atoi(digits) > 0 &&
                atoi(digits) <= PORT_MAX;
    if (fits)
        return SL_OK;
    // The scheme is what is left out most often.
    return sl_fail(SL_EINVAL,
                   "--connect: found '%s', wanted tcp://HOST:PORT, where PORT is 1 to %d: write "
                   "the address that the daemon's --listen has, such as '%s'",
                   connect, PORT_MAX, "tcp://gpu7.example.org:7400");
}

static void split_endpoint(struct reach *r)
{
    const char *host = r->connect + strlen("tcp://"), *colon = strrchr(host, ':');
    snprintf(r->host, sizeof r->host, "%.*s", (int)(colon - host), host);
    snprintf(r->port, sizeof r->port, "%s", colon + 1);
}

static int left_ms(const struct reach *r)
{
    uint64_t now = sl_now_ns();
    return now < r->until ? (int)((r->until - now + 999999u) / 1000000u) : 0;
}

// SL_EAGAIN: the time is over.
static int wait_for(const struct reach *r, int fd, short events)
{
    struct pollfd one = {.fd = fd, .events = events};
    for (;;) {
        int n = poll(&one, 1, left_ms(r));
        if (n > 0)
            return SL_OK;
        if (n < 0 && errno != EINTR)
            return sl_fail_errno(SL_ESYS, errno, "--connect '%s': waiting", r->connect);
        if (sl_interrupt_seen())
            return sl_fail(SL_EABORTED, "interrupted");
        if (n == 0)
            return SL_EAGAIN;
    }
}

// --- the name ------------------------------------------------------------------------------------

struct lookup {
    struct gaicb ask;
    char host[HOST_BYTES], port[PORT_BYTES];
};

// *out: freeaddrinfo().
static int resolve(const struct reach *r, struct addrinfo **out)
{
    // As libzmq does by itself: IPv4.
    static const struct addrinfo hints = {
        .ai_family = AF_INET, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct lookup *l = calloc(1, sizeof *l);
    if (!l)
        return sl_fail(SL_ENOMEM, "--connect '%s': no memory to look the name up", r->connect);
    memcpy(l->host, r->host, sizeof l->host);
    memcpy(l->port, r->port, sizeof l->port);
    l->ask = (struct gaicb){.ar_name = l->host, .ar_service = l->port, .ar_request = &hints};
    struct gaicb *asked = &l->ask;
    int error = getaddrinfo_a(GAI_NOWAIT, &asked, 1, NULL), ms;
    while (!error && (error = gai_error(asked)) == EAI_INPROGRESS && (ms = left_ms(r)) > 0 &&
           !sl_interrupt_seen()) {
        const struct timespec slice = {.tv_nsec = SL_MIN(ms, (int)SLICE_MS) * 1000000L};
        error = 0;
        gai_suspend((const struct gaicb *const *)&asked, 1, &slice);
    }
    *out = error == 0 ? l->ask.ar_result : NULL;
    // What cannot be taken back is the resolver's for good.
    if (error != EAI_INPROGRESS || gai_cancel(asked) == EAI_CANCELED)
        free(l);
    if (error == EAI_INPROGRESS && sl_interrupt_seen())
        return sl_fail(SL_EABORTED, "interrupted");
    if (error == EAI_INPROGRESS)
        return sl_fail(SL_ENOENT,
                       "--connect '%s': no name server answered within %d ms which address '%s' "
                       "has: write the address itself, or look at the network",
                       r->connect, REACH_MS, r->host);
    if (error)
        return sl_fail(SL_ENOENT,
                       "--connect '%s': the name '%s' does not resolve (%s): is it spelt right? "
                       "An address such as 192.0.2.7 will do, too",
                       r->connect, r->host, gai_strerror(error));
    return SL_OK;
}

// --- the connection ------------------------------------------------------------------------------

// *err: why there is none; SL_EABORTED when the user does not want it any more.
static int try_address(const struct reach *r, const struct addrinfo *a, int *err)
{
    socklen_t n = sizeof *err;
    int fd = socket(a->ai_family, a->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, a->ai_protocol);
    if (fd < 0)
        return sl_fail_errno(SL_ESYS, errno, "--connect '%s': opening a socket", r->connect);
    int rc = SL_OK;
    *err = connect(fd, a->ai_addr, a->ai_addrlen) == 0 ? 0 : errno;
    if (*err == EINPROGRESS) {
        rc = wait_for(r, fd, POLLOUT);
        if (rc == SL_OK)
            getsockopt(fd, SOL_SOCKET, SO_ERROR, err, &n);
        else if (rc == SL_EAGAIN)
            *err = ETIMEDOUT;
    }
    close(fd);
    return rc == SL_EAGAIN ? SL_OK : rc;
}

static int try_connection(const struct reach *r)
{
    struct addrinfo *all;
    int rc = resolve(r, &all), err = ETIMEDOUT;
    if (rc < 0)
        return rc;
    for (const struct addrinfo *a = all; rc == SL_OK && err && a; a = a->ai_next)
        rc = try_address(r, a, &err);
    freeaddrinfo(all);
    if (rc < 0 || !err)
        return rc;
    if (err == ECONNREFUSED)
        return sl_fail(SL_ENOENT,
                       "--connect '%s': connection refused: '%s' is there, and nothing listens at "
                       "port %s: start the daemon there ('sluice-broker --listen "
                       "tcp://ADDRESS:%s --keys daemon.key'), or name the port that it has",
                       r->connect, r->host, r->port, r->port);
    if (err == ETIMEDOUT)
        return sl_fail(SL_ENOENT,
                       "--connect '%s': '%s' does not answer: is the machine up, and does a "
                       "firewall let port %s through?",
                       r->connect, r->host, r->port);
    return sl_fail_errno(SL_ENOENT, err, "--connect '%s': '%s' cannot be reached", r->connect,
                         r->host);
}

// --- the handshake -------------------------------------------------------------------------------

enum {
    HANDSHAKE_EVENTS = ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                       ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH |
                       ZMQ_EVENT_DISCONNECTED
};

// One event of a monitor: SL_EAGAIN while there is none.
static int take_event(void *monitor, uint16_t *event)
{
    uint8_t first[6] = {0}, address[512];
    if (zmq_recv(monitor, first, sizeof first, ZMQ_DONTWAIT) < 0)
        return SL_EAGAIN;
    zmq_recv(monitor, address, sizeof address, 0); // the second of its two frames: not wanted
    memcpy(event, first, sizeof *event);
    return SL_OK;
}

static int judge(const struct reach *r, uint16_t event)
{
    if (event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED)
        return SL_OK;
    if (event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH)
        return sl_fail(SL_EACCESS,
                       "--connect '%s': the daemon does not know the key of '%s': add this client "
                       "with 'sluice keygen --client NAME' beside its daemon.key, start it again, "
                       "and use the file that was made",
                       r->connect, r->key);
    return sl_fail(SL_EACCESS,
                   "--connect '%s': wrong key: what listens there is not the daemon that '%s' was "
                   "made for: use the client's file that lay beside its daemon.key ('sluice "
                   "keygen'), or name the right port",
                   r->connect, r->key);
}

static int watch_handshake(const struct reach *r, void *monitor)
{
    uint16_t event;
    for (;;) {
        if (take_event(monitor, &event) == SL_OK)
            return judge(r, event);
        if (sl_interrupt_seen())
            return sl_fail(SL_EABORTED, "interrupted");
        int left = left_ms(r);
        if (left == 0)
            return sl_fail(SL_ETIMEDOUT,
                           "--connect '%s': the port takes connections and says nothing for %d "
                           "ms: is the daemon stopped, or is it another program's port?",
                           r->connect, REACH_MS);
        zmq_pollitem_t item = {.socket = monitor, .events = ZMQ_POLLIN};
        zmq_poll(&item, 1, SL_MIN(left, (int)SLICE_MS)); // interrupted: looked at again above
    }
}

static int try_handshake(const struct reach *r, const struct sl_curve *keys)
{
    static const char events[] = "inproc://reach";
    const int never = -1, at_once = 0;
    SL_TRY(sl_descriptors_check(DESCRIPTORS, "--connect")); // libzmq aborts when it gets none
    void *context = zmq_ctx_new();
    void *socket = context ? zmq_socket(context, ZMQ_DEALER) : NULL;
    void *monitor = socket ? zmq_socket(context, ZMQ_PAIR) : NULL;
    int rc = SL_OK;
    if (monitor)
        rc = sl_zap_auth_arm_client(socket, keys);
    if (monitor && rc == SL_OK)
        rc = sl_zap_auth_bound_silence(socket);
    bool armed = monitor && rc == SL_OK;
    if (rc == SL_OK &&
        (!armed || zmq_setsockopt(socket, ZMQ_RECONNECT_IVL, &never, sizeof never) != 0 ||
         zmq_setsockopt(socket, ZMQ_LINGER, &at_once, sizeof at_once) != 0 ||
         zmq_socket_monitor(socket, events, HANDSHAKE_EVENTS) != 0 ||
         zmq_connect(monitor, events) != 0 || zmq_connect(socket, r->connect) != 0))
        rc = sl_fail_errno(SL_ESYS, errno, "--connect '%s': trying it", r->connect);
    if (rc == SL_OK)
        rc = watch_handshake(r, monitor);
    if (monitor)
        zmq_close(monitor);
    if (socket)
        zmq_close(socket);
    while (context && zmq_ctx_term(context) != 0 && errno == EINTR) {
    }
    return rc;
}

int sl_daemon_probe_daemon(const char *connect, const char *key, const struct sl_curve *keys)
{
    struct reach r = {
        .connect = connect, .key = key, .until = sl_now_ns() + REACH_MS * UINT64_C(1000000)};
    SL_TRY(sl_daemon_probe_check_endpoint(r.connect));
    split_endpoint(&r);
    SL_TRY(try_connection(&r));
    return try_handshake(&r, keys);
}
