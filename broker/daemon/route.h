/*
 * route.h - which client an answer of a job's broker is for.
 *
 * The daemon asks a job's broker what its clients have asked of the job, under numbers of its own.
 * The table says which client a number stands for, until the answer is complete or the job ends. It
 * is bounded: of too many requests without an answer the oldest is forgotten.
 */
#ifndef SL_BROKER_DAEMON_ROUTE_H
#define SL_BROKER_DAEMON_ROUTE_H

#include <stdint.h>

#include "common/bus/bus.h"
#include "common/bus/request.h"

enum { SL_ROUTES_MAX = 4096 };

struct sl_route {
    struct sl_request request; // to the broker
    struct sl_bus_peer peer;
    uint64_t job;
    Sl__Control__Envelope__BodyCase asked;
};

struct sl_routes {
    uint32_t n;
    struct sl_route list[SL_ROUTES_MAX]; // in no order
};

// A route for a request; valid until the next add or remove. What a client says of the trace that
// it has on (what it has read, that it is enough) goes by that trace's route: by its number the
// job's broker knows whose trace it is.
struct sl_route *sl_routes_add(struct sl_routes *r, const struct sl_bus_peer *peer, uint64_t job,
                               Sl__Control__Envelope__BodyCase asked);

// The route that a message of `job` is for; NULL when there is none.
struct sl_route *sl_routes_find(struct sl_routes *r, uint64_t job,
                                const Sl__Control__Envelope *message);

// Any route of that job; NULL when there is none.
struct sl_route *sl_routes_of(struct sl_routes *r, uint64_t job);

void sl_routes_remove(struct sl_routes *r, struct sl_route *route);

#endif
