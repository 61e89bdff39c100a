#include "broker/daemon/route.h"

static struct sl_route *find_trace(struct sl_routes *r, const struct sl_bus_peer *peer,
                                   uint64_t job)
{
    for (uint32_t i = 0; i < r->n; i++)
        if (r->list[i].asked == SL__CONTROL__ENVELOPE__BODY_TRACE && r->list[i].job == job &&
            sl_bus_same_peer(&r->list[i].peer, peer) && r->list[i].peer.request == peer->request)
            return &r->list[i];
    return NULL;
}

struct sl_route *sl_routes_add(struct sl_routes *r, const struct sl_bus_peer *peer, uint64_t job,
                               Sl__Control__Envelope__BodyCase asked)
{
    uint32_t at = r->n;
    struct sl_route *trace =
        asked == SL__CONTROL__ENVELOPE__BODY_TRACE ? find_trace(r, peer, job) : NULL;
    if (trace)
        return trace;
    if (at == SL_ROUTES_MAX) {
        at = 0;
        for (uint32_t i = 1; i < r->n; i++)
            if (r->list[i].request.id < r->list[at].request.id)
                at = i;
    } else {
        r->n++;
    }
    r->list[at] = (struct sl_route){
        .request = sl_request_begin(0), .peer = *peer, .job = job, .asked = asked};
    return &r->list[at];
}

struct sl_route *sl_routes_find(struct sl_routes *r, uint64_t job,
                                const Sl__Control__Envelope *message)
{
    for (uint32_t i = 0; i < r->n; i++)
        if (r->list[i].request.id == message->request && r->list[i].job == job)
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
