/*
 * publish.c - statistics on PUB sockets.
 *
 * A PUB socket never waits: a subscriber whose queue is full misses messages until there is room
 * again. What a subscriber that has stopped reading can cost is its queue, QUEUE_MESSAGES lines,
 * and what the kernel holds for its socket. The mechanism (none, or CURVE) belongs to a socket and
 * not to an endpoint, so the local socket and the one over TCP are two.
 */
#include "common/bus/publish.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#include "common/base/open_file.h"
#include "common/base/error.h"
#include "common/bus/curve_keys.h"
#include "common/bus/zap_auth.h"

enum {
    QUEUE_MESSAGES = 256,
    SUBSCRIPTION_BYTES = 1024, // what a subscriber may send at once
    TOPIC_BYTES = 512,
    BACKLOG = 512,
    DESCRIPTORS = 16, // that a context, its threads and a socket take
};

enum { LOCAL, TCP, N_SOCKETS };

struct sl_publisher {
    void *context;
    char *path;               // of the local socket's file: libzmq leaves it behind
    void *sockets[N_SOCKETS]; // NULL: none
    struct sl_zap_auth *gate;
};

static int set_int(void *socket, int option, int value)
{
    if (zmq_setsockopt(socket, option, &value, sizeof value) == 0)
        return SL_OK;
    return sl_fail_errno(SL_ESYS, errno, "statistics socket: setting ZeroMQ option %d to %d",
                         option, value);
}

static int open_socket(struct sl_publisher *p, int which)
{
    void *socket = p->sockets[which] = zmq_socket(p->context, ZMQ_PUB);
    if (!socket)
        return sl_fail_errno(SL_ESYS, errno, "statistics socket: opening it");
    int64_t largest = SUBSCRIPTION_BYTES;
    if (zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &largest, sizeof largest) != 0)
        return sl_fail_errno(SL_ESYS, errno, "statistics socket: limiting what it reads");
    SL_TRY(set_int(socket, ZMQ_SNDHWM, QUEUE_MESSAGES));
    SL_TRY(set_int(socket, ZMQ_XPUB_NODROP, 0));
    SL_TRY(set_int(socket, ZMQ_LINGER, 0));
    SL_TRY(set_int(socket, ZMQ_BACKLOG, BACKLOG));
#ifdef ZMQ_IPC_FILTER_UID
    uid_t me = geteuid();
    if (which == LOCAL) // of a libzmq without it the directory's mode is the guard
        zmq_setsockopt(socket, ZMQ_IPC_FILTER_UID, &me, sizeof me);
#endif
    return SL_OK;
}

static int bind_socket(void *socket, const char *endpoint)
{
    if (zmq_bind(socket, endpoint) == 0)
        return SL_OK;
    if (errno == EADDRINUSE)
        return sl_fail(SL_EEXIST,
                       "statistics socket: '%s' is taken by another program: choose another port, "
                       "or stop that one",
                       endpoint);
    return sl_fail_errno(
        SL_ESYS, errno, "statistics socket: binding '%s' (wanted an endpoint such as %s)", endpoint,
        strncmp(endpoint, "tcp:", 4) == 0 ? "tcp://0.0.0.0:7401" : "ipc://PATH");
}

int sl_publisher_bind(const char *endpoint, struct sl_publisher **out)
{
    int rc;
    *out = NULL;
    SL_TRY(sl_descriptors_check(DESCRIPTORS, "statistics socket")); // libzmq aborts without
    struct sl_publisher *p = calloc(1, sizeof *p);
    if (!p)
        return sl_fail(SL_ENOMEM, "statistics socket: no memory");
    p->context = zmq_ctx_new();
    if (!p->context) {
        rc = sl_fail_errno(SL_ESYS, errno, "statistics socket: starting ZeroMQ");
        goto out;
    }
    SL_TRY_OUT(open_socket(p, LOCAL));
    // libzmq itself removes the file that a dead process left.
    SL_TRY_OUT(bind_socket(p->sockets[LOCAL], endpoint));
    if (strncmp(endpoint, "ipc:///", 7) == 0)
        p->path = strdup(endpoint + strlen("ipc://"));
    *out = p;
    return SL_OK;
out:
    sl_publisher_close(p);
    return rc;
}

int sl_publisher_add_tcp(struct sl_publisher *p, const char *endpoint, const struct sl_curve *keys)
{
    int rc;
    if (p->sockets[TCP] || p->gate)
        return sl_fail(SL_EINVAL, "statistics socket: it is on TCP already");
    if (strncmp(endpoint, "tcp://", 6) != 0)
        return sl_fail(SL_EINVAL, "statistics socket: '%s' (wanted tcp://ADDRESS:PORT)", endpoint);
    SL_TRY(sl_zap_auth_open(p->context, keys, &p->gate));
    SL_TRY_OUT(open_socket(p, TCP));
    SL_TRY_OUT(sl_zap_auth_arm_server(p->sockets[TCP], keys));
    SL_TRY_OUT(sl_zap_auth_bound_silence(p->sockets[TCP]));
    SL_TRY_OUT(bind_socket(p->sockets[TCP], endpoint));
    return SL_OK;
out: // the gate lives as long as the context
    if (p->sockets[TCP])
        zmq_close(p->sockets[TCP]);
    p->sockets[TCP] = NULL;
    return rc;
}

void sl_publisher_close(struct sl_publisher *p)
{
    if (!p)
        return;
    for (int i = 0; i < N_SOCKETS; i++)
        if (p->sockets[i])
            zmq_close(p->sockets[i]);
    if (p->context)
        while (zmq_ctx_term(p->context) != 0 && errno == EINTR) {
        }
    sl_zap_auth_close(p->gate);
    if (p->path)
        unlink(p->path);
    free(p->path);
    free(p);
}

static void send_on(void *socket, const char *topic, size_t topic_bytes, const char *json)
{
    int sent;
    do
        sent = zmq_send(socket, topic, topic_bytes, ZMQ_DONTWAIT | ZMQ_SNDMORE);
    while (sent < 0 && errno == EINTR);
    while (sent >= 0 && zmq_send(socket, json, strlen(json), ZMQ_DONTWAIT) < 0 && errno == EINTR) {
    }
}

void sl_publisher_send(struct sl_publisher *p, const char *kind, const char *job, const char *json)
{
    char topic[TOPIC_BYTES];
    int n = snprintf(topic, sizeof topic, "%s:%s:", kind, job);
    if (n < 0 || (size_t)n >= sizeof topic)
        return; // no job has such a name
    for (int i = 0; i < N_SOCKETS; i++)
        if (p->sockets[i])
            send_on(p->sockets[i], topic, (size_t)n, json);
}
