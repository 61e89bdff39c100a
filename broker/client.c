#include "broker/client.h"

#include <string.h>

#include "common/base/error.h"

void sl_clients_init(struct sl_clients *clients, struct sl_bus *bus)
{
    memset(clients, 0, sizeof *clients);
    clients->bus = bus;
}

int sl_clients_add(struct sl_clients *clients, const struct sl_bus_peer *peer)
{
    for (uint32_t i = 0; i < clients->n; i++)
        if (clients->list[i].peer.n == peer->n &&
            memcmp(clients->list[i].peer.id, peer->id, peer->n) == 0)
            return SL_OK;
    if (clients->n == SL_CLIENTS_MAX)
        return sl_fail(SL_EAGAIN, "%d clients are connected already", SL_CLIENTS_MAX);
    clients->list[clients->n].peer = *peer;
    clients->list[clients->n].missed = 0;
    clients->n++;
    return SL_OK;
}

void sl_clients_send(struct sl_clients *clients, Sl__Control__Envelope *body)
{
    for (uint32_t i = 0; i < clients->n;) {
        if (sl_bus_send(clients->bus, &clients->list[i].peer, body) == SL_OK)
            clients->list[i].missed = 0;
        else
            clients->list[i].missed++;
        if (clients->list[i].missed > SL_CLIENT_MISSED_MAX)
            clients->list[i] = clients->list[--clients->n];
        else
            i++;
    }
}

void sl_clients_send_line(struct sl_clients *clients, int level, const char *text)
{
    Sl__Control__LogLine line = SL__CONTROL__LOG_LINE__INIT;
    line.level = (uint32_t)level;
    line.text = (char *)text; // only read
    Sl__Control__Envelope e = SL__CONTROL__ENVELOPE__INIT;
    e.body_case = SL__CONTROL__ENVELOPE__BODY_LOG_LINE;
    e.log_line = &line;
    sl_clients_send(clients, &e);
}
