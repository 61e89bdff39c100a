// connection.c - connections of the page: whose each is, and when it is cut off.
#include "broker/http/http_internal.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "broker/http/peer.h"
#include "common/base/clock.h"

static struct sl_http_connection *connection_of(struct MHD_Connection *c)
{
    const union MHD_ConnectionInfo *info =
        sl_mhd.MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

void sl_http_set_deadline(struct MHD_Connection *connection, struct sl_http *http, unsigned seconds)
{
    struct sl_http_connection *c = connection_of(connection);
    if (!c)
        return;
    pthread_mutex_lock(&http->connections_lock);
    c->deadline_ns = seconds ? sl_now_ns() + seconds * 1000000000ull : 0;
    pthread_mutex_unlock(&http->connections_lock);
}

bool sl_http_is_foreign(struct MHD_Connection *connection)
{
    const struct sl_http_connection *c = connection_of(connection);
    return !c || c->foreign;
}

// Root reads what it likes anyway.
static bool is_foreign(int fd)
{
    uid_t user;
    return !sl_peer_user(fd, &user) || (user != geteuid() && user != 0);
}

void sl_http_cut_off(struct MHD_Connection *connection, struct sl_http *http)
{
    struct sl_http_connection *c = connection_of(connection);
    if (!c)
        return;
    pthread_mutex_lock(&http->connections_lock);
    shutdown(c->fd, SHUT_RDWR);
    pthread_mutex_unlock(&http->connections_lock);
}

void sl_http_connection_open(struct sl_http *http, struct MHD_Connection *connection,
                             void **context)
{
    const union MHD_ConnectionInfo *info =
        sl_mhd.MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct sl_http_connection *c = calloc(1, sizeof *c);
    *context = c;
    if (!c || !info)
        return; // without a deadline, but for the one for silence
    c->fd = info->connect_fd;
    c->foreign = is_foreign(c->fd);
    c->deadline_ns = sl_now_ns() + SL_HTTP_REQUEST_S * 1000000000ull;
    pthread_mutex_lock(&http->connections_lock);
    c->next = http->connections;
    if (c->next)
        c->next->previous = c;
    http->connections = c;
    http->n_connections++;
    http->n_foreign += c->foreign;
    if (c->foreign && http->n_foreign > SL_HTTP_FOREIGN)
        shutdown(c->fd, SHUT_RDWR);
    pthread_mutex_unlock(&http->connections_lock);
}

void sl_http_connection_close(struct sl_http *http, struct sl_http_connection *c)
{
    if (!c)
        return;
    pthread_mutex_lock(&http->connections_lock);
    if (c->previous)
        c->previous->next = c->next;
    else if (http->connections == c)
        http->connections = c->next;
    if (c->next)
        c->next->previous = c->previous;
    http->n_connections--;
    http->n_foreign -= c->foreign;
    pthread_mutex_unlock(&http->connections_lock);
    free(c);
}

void sl_http_connections_reap(struct sl_http *http)
{
    uint64_t now = sl_now_ns();
    pthread_mutex_lock(&http->connections_lock);
    for (struct sl_http_connection *c = http->connections; c; c = c->next)
        if (c->deadline_ns && now > c->deadline_ns) {
            shutdown(c->fd, SHUT_RDWR);
            c->deadline_ns = 0;
        }
    pthread_mutex_unlock(&http->connections_lock);
}
