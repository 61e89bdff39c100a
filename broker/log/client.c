#include "broker/log/client.h"

#include <string.h>

#include "common/base/error.h"

void sl_clients_init(struct sl_clients *clients, struct sl_bus *bus)
{
    memset(clients, 0, sizeof *clients);
    clients->bus = bus;
}

// Makes room by dropping the client that has missed most, which has gone or does not read.
// False when all clients read.
static bool drop_worst(struct sl_clients *clients)
{
    uint32_t worst = 0;
    for (uint32_t i = 1; i < clients->n; i++)
        if (clients->list[i].missed > clients->list[worst].missed)
            worst = i;
    if (clients->list[worst].missed == 0)
        return false;
    clients->list[worst] = clients->list[--clients->n];
    return true;
}

int sl_clients_add(struct sl_clients *clients, const struct sl_bus_peer *peer, unsigned wants)
{
    for (uint32_t i = 0; i < clients->n; i++) {
        if (!sl_bus_same_peer(&clients->list[i].peer, peer))
            continue;
        clients->list[i].wants = wants;
        return SL_OK;
    }
    if (clients->n == SL_CLIENTS_MAX && !drop_worst(clients))
        return sl_fail(SL_EAGAIN, "%d clients are connected already", SL_CLIENTS_MAX);
    clients->list[clients->n].peer = *peer;
    clients->list[clients->n].peer.request = 0; // what comes by itself answers nothing
    clients->list[clients->n].missed = 0;
    clients->list[clients->n].wants = wants;
    clients->n++;
    return SL_OK;
}

bool sl_clients_want(const struct sl_clients *clients, unsigned wants)
{
    for (uint32_t i = 0; i < clients->n; i++)
        if (clients->list[i].wants & wants)
            return true;
    return false;
}

void sl_clients_send(struct sl_clients *clients, unsigned wants, Sl__Control__Envelope *body)
{
    for (uint32_t i = 0; i < clients->n;) {
        if (wants && !(clients->list[i].wants & wants)) {
            i++;
            continue;
        }
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
    sl_clients_send(clients, SL_WANTS_PROGRESS, &e);
}

void sl_clients_answer(struct sl_clients *clients, const struct sl_bus_peer *peer, int code,
                       const char *message, const char *json)
{
    Sl__Control__Answer answer = SL__CONTROL__ANSWER__INIT;
    Sl__Control__Envelope e = SL__CONTROL__ENVELOPE__INIT;
    answer.ok = code >= 0;
    answer.code = code;
    answer.message = (char *)(message ? message : ""); // only read
    answer.json = (char *)(json ? json : "");
    e.body_case = SL__CONTROL__ENVELOPE__BODY_ANSWER;
    e.answer = &answer;
    sl_bus_send(clients->bus, peer, &e); // the client may have gone
}
