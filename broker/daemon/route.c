#include "broker/daemon/route.h"

#include <string.h>

#include "common/base/bits.h"

static struct sl_route *find_trace(struct sl_routes *r, const struct sl_bus_peer *peer,
                                   uint64_t job)
{
    for (uint32_t i = 0; i < r->n; i++)
        if (r->list[i].request == SL__CONTROL__ENVELOPE__BODY_TRACE && r->list[i].job == job &&
            sl_bus_same_peer(&r->list[i].peer, peer))
            return &r->list[i];
    return NULL;
}

void sl_routes_add(struct sl_routes *r, const struct sl_bus_peer *peer, uint64_t job,
                   Sl__Control__Envelope__BodyCase request, uint8_t bytes[SL_ROUTE_BYTES])
{
    uint32_t at = r->n;
    struct sl_route *trace =
        request == SL__CONTROL__ENVELOPE__BODY_TRACE ? find_trace(r, peer, job) : NULL;
    if (trace) {
        memcpy(bytes, &trace->number, SL_ROUTE_BYTES);
        return;
    }
    if (at == SL_ROUTES_MAX) {
        at = 0;
        for (uint32_t i = 1; i < r->n; i++)
            if (r->list[i].number < r->list[at].number)
                at = i;
    } else {
        r->n++;
    }
    r->list[at] =
        (struct sl_route){.number = ++r->last, .peer = *peer, .job = job, .request = request};
    memcpy(bytes, &r->list[at].number, SL_ROUTE_BYTES);
}

struct sl_route *sl_routes_find(struct sl_routes *r, uint64_t job,
                                const Sl__Control__Envelope *message)
{
    uint64_t number;
    if (message->route.len != SL_ROUTE_BYTES)
        return NULL;
    memcpy(&number, message->route.data, sizeof number);
    for (uint32_t i = 0; i < r->n; i++)
        if (r->list[i].number == number && r->list[i].job == job)
            return &r->list[i];
    return NULL;
}

struct sl_route *sl_routes_of(struct sl_routes *r, uint64_t job)
{
    for (uint32_t i = 0; i < r->n; i++)
        if (r->list[i].job == job)
            return &r->list[i];
    return NULL;
}

void sl_routes_remove(struct sl_routes *r, struct sl_route *route)
{
    *route = r->list[--r->n];
}

bool sl_route_is_last(const Sl__Control__Envelope *message)
{
    switch (message->body_case) {
    case SL__CONTROL__ENVELOPE__BODY_ANSWER:
    case SL__CONTROL__ENVELOPE__BODY_SCALE_DONE: return true;
    case SL__CONTROL__ENVELOPE__BODY_TRACE_CHUNK: return message->trace_chunk->last;
    default: return false;
    }
}
