/*
 * http.c - the server: its socket, its connections, its limits.
 *
 * PROBLEM. Anything on this machine may connect, and a browser runs what other pages tell it to.
 * Neither may cost the daemon memory without bound, hold a connection for ever, or learn or change
 * anything that it should not.
 *
 * DESIGN. libmicrohttpd polls all connections in one thread of its own; the watch thread (watch.h)
 * is the only one that speaks on the control bus. They share the watch's store under its lock.
 *
 *   how many      SL_HTTP_CONNECTIONS, of which SL_HTTP_STREAMS may be event streams
 *   how large     SL_HTTP_CONNECTION_BYTES of headers (431, 414), SL_HTTP_BODY_MAX of body (413,
 *                 before any of it is read)
 *   how long      SL_HTTP_IDLE_S without a byte (libmicrohttpd), and a deadline for the whole of a
 *                 request and of the reading of its answer, since a byte now and then would pass
 *                 the first rule for ever. The watch thread looks for what is overdue and shuts
 *                 the socket down; libmicrohttpd then sees its end and closes it.
 *   from where    loopback alone, and guard.h
 *   whose         the kernel is asked who has the other end (peer.h). Other users are told nothing
 *                 but the page's own files without the token, or unless --http-open, and have a
 *                 part of connections and streams, so that they cannot keep the job's user out
 *
 * INVARIANT. A connection's descriptor is shut down only while it is in the list, under the list's
 * lock; it leaves the list before it is closed. So no other connection that got the same number can
 * be hit.
 *
 * The end: waiters are answered and streams let go first (no connection may be suspended when
 * libmicrohttpd is stopped), then the server, then the watch.
 */
#include "broker/http/http.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "broker/http/http_internal.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/log.h"

enum { BACKLOG = 128, GOODBYE_S = 2, LAST_WORD_MS = 2000 };

// --- connections ---------------------------------------------------------------------------------

static void on_connection(void *ctx, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode what)
{
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        sl_http_connection_open(ctx, connection, context);
    } else {
        sl_http_connection_close(ctx, *context);
        *context = NULL;
    }
}

static void on_tick(void *ctx)
{
    struct sl_http *http = ctx;
    sl_http_connections_reap(http);
    sl_http_stream_reap(http);
}

static void on_feed(void *ctx)
{
    sl_http_stream_wake(ctx);
}

// --- requests ------------------------------------------------------------------------------------

static void count_open(struct sl_http *http, int change)
{
    pthread_mutex_lock(&http->connections_lock);
    http->n_open += (uint32_t)change;
    if (http->n_open == 0)
        pthread_cond_signal(&http->all_answered);
    pthread_mutex_unlock(&http->connections_lock);
}

// Called by libmicrohttpd: first with the headers alone, then with each part of the body, then
// once more without any; and again after the connection was suspended.
static enum MHD_Result on_request(void *ctx, struct MHD_Connection *connection, const char *path,
                                  const char *method, const char *version, const char *data,
                                  size_t *n_data, void **request)
{
    struct sl_http_request *r = *request;
    enum MHD_Result queued;
    if (!r) {
        r = calloc(1, sizeof *r);
        if (!r)
            return MHD_NO;
        *request = r;
        r->http = ctx;
        count_open(r->http, +1);
        r->connection = connection;
        sl_http_route(path, r);
        return sl_http_admit(r, method, &queued) ? queued : MHD_YES;
    }
    if (*n_data) {
        if (r->n_body + *n_data > SL_HTTP_BODY_MAX) // more than it said
            return MHD_NO;
        memcpy(r->body + r->n_body, data, *n_data);
        r->n_body += *n_data;
        *n_data = 0;
        return MHD_YES;
    }
    return sl_http_serve(r, path);
}

static void on_completed(void *ctx, struct MHD_Connection *connection, void **request,
                         enum MHD_RequestTerminationCode how)
{
    struct sl_http_request *r = *request;
    if (!r)
        return;
    count_open(r->http, -1);
    sl_reply_fini(&r->waiter.reply);
    free(r);
    *request = NULL;
    // The next request on this connection has as long as the first one had.
    if (how == MHD_REQUEST_TERMINATED_COMPLETED_OK)
        sl_http_set_deadline(connection, ctx, SL_HTTP_IDLE_S + SL_HTTP_REQUEST_S);
}

// What libmicrohttpd has to say goes to the log, but only for who looks for it: a browser that
// closes a page in the middle of an answer is no event.
static void on_log(void *ctx, const char *fmt, va_list args)
{
    char line[512];
    vsnprintf(line, sizeof line, fmt, args);
    line[strcspn(line, "\n")] = '\0';
    sl_log_debug("the page: %s", line);
}

// --- start and end -------------------------------------------------------------------------------

// A listening socket, and the port that it got.
static int listen_at(const char *text, const struct sl_guard_address *address, int *fd,
                     unsigned *port)
{
    struct sl_guard_address bound = *address;
    int on = 1;
    *fd = socket(address->at.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*fd < 0)
        return sl_fail_errno(SL_ESYS, errno, "the page: making a socket for '%s'", text);
    setsockopt(*fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(*fd, &address->at.any, address->n) != 0 || listen(*fd, BACKLOG) != 0) {
        int err = errno;
        close(*fd);
        *fd = -1;
        if (err == EADDRINUSE)
            return sl_fail(SL_EEXIST,
                           "the page: port %s is taken by another program; choose another one, or "
                           "0 for any that is free",
                           text);
        return sl_fail_errno(err == EACCES ? SL_EACCESS : SL_ESYS, err, "the page: listening on %s",
                             text);
    }
    socklen_t n = sizeof bound.at;
    getsockname(*fd, &bound.at.any, &n);
    *port =
        ntohs(bound.at.any.sa_family == AF_INET6 ? bound.at.v6.sin6_port : bound.at.v4.sin_port);
    return SL_OK;
}

// Takes the listening socket, also when it fails.
static int start_server(struct sl_http *http, int fd)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    http->server = sl_mhd.MHD_start_daemon(
        MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME |
            MHD_USE_ERROR_LOG,
        0, NULL, NULL, on_request, http, MHD_OPTION_EXTERNAL_LOGGER, on_log, NULL,
        MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT, (unsigned)SL_HTTP_CONNECTIONS,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)SL_HTTP_CONNECTION_BYTES,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)SL_HTTP_IDLE_S, MHD_OPTION_NOTIFY_CONNECTION,
        on_connection, http, MHD_OPTION_NOTIFY_COMPLETED, on_completed, http, MHD_OPTION_END);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (http->server)
        return SL_OK;
    close(fd);
    return sl_fail(SL_ESYS, "the page: the HTTP server does not start; a limit on threads or "
                            "descriptors may be too low (ulimit -u, ulimit -n)");
}

// One whose time-outs do not move when the machine's clock is set.
static void init_condition(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
}

int sl_http_start(const struct sl_http_options *options, struct sl_http **out)
{
    struct sl_guard_address address;
    unsigned port = 0;
    int fd = -1, rc;
    *out = NULL;
    SL_TRY(sl_guard_parse_listen(options->listen, &address));
    SL_TRY(sl_http_library_open());
    struct sl_http *http = calloc(1, sizeof *http);
    if (!http)
        return sl_fail(SL_ENOMEM, "the page: no memory");
    pthread_mutex_init(&http->connections_lock, NULL);
    init_condition(&http->all_answered);
    if (options->token_file) {
        SL_TRY_OUT(sl_guard_read_token(options->token_file, &http->token));
        http->has_token = true;
    }
    http->open = options->open;
    SL_TRY_OUT(listen_at(options->listen, &address, &fd, &port));
    snprintf(http->url, sizeof http->url, "http://%s:%u/", address.host, port);
    struct sl_watch_hooks hooks = {.ctx = http, .on_feed = on_feed, .on_tick = on_tick};
    SL_TRY_OUT(sl_watch_start(&http->watch, options->endpoint, options->key, &hooks));
    http->watch.last_word_ms = options->last_word_ms ? options->last_word_ms : LAST_WORD_MS;
    int socket_fd = fd;
    fd = -1;
    SL_TRY_OUT(start_server(http, socket_fd));
    *out = http;
    return SL_OK;
out:
    if (fd >= 0)
        close(fd);
    sl_http_stop(http);
    return rc;
}

const char *sl_http_url(const struct sl_http *http)
{
    return http->url;
}

// Waits until the last answer has been sent; the number of those that have not, after GOODBYE_S.
static uint32_t wait_for_answers(struct sl_http *http)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += GOODBYE_S;
    pthread_mutex_lock(&http->connections_lock);
    while (http->n_open > 0 &&
           pthread_cond_timedwait(&http->all_answered, &http->connections_lock, &until) == 0) {
    }
    uint32_t left = http->n_open;
    pthread_mutex_unlock(&http->connections_lock);
    return left;
}

uint32_t sl_http_stop(struct sl_http *http)
{
    if (!http)
        return 0;
    sl_watch_stop(&http->watch);
    // The watch has answered who waited, but it is the server's thread that sends: who asked a job
    // to stop hears that it does. Streams end by themselves once they have been told the last.
    uint32_t left = wait_for_answers(http);
    if (left)
        sl_log_debug("the page: %u answers are cut off: nobody reads them", left);
    if (http->server)
        sl_mhd.MHD_stop_daemon(http->server);
    sl_watch_fini(&http->watch);
    pthread_cond_destroy(&http->all_answered);
    pthread_mutex_destroy(&http->connections_lock);
    free(http);
    return left;
}
