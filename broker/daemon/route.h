/*
 * route.h - whom an answer of a job's broker is for.
 *
 * A request that is forwarded carries a number, its route; what the broker answers carries it back.
 * The table says which client that number stands for, until the answer is complete or the job ends.
 * It is bounded: of too many requests that nobody answers the oldest is forgotten.
 */
#ifndef SL_BROKER_DAEMON_ROUTE_H
#define SL_BROKER_DAEMON_ROUTE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/ipc/bus.h"

enum { SL_ROUTES_MAX = 4096, SL_ROUTE_BYTES = 8 };

struct sl_route {
    uint64_t number; // never used again
    struct sl_bus_peer peer;
    uint64_t job;
    Sl__Control__Envelope__BodyCase request; // what was asked
};

struct sl_routes {
    uint64_t last;
    uint32_t n;
    struct sl_route list[SL_ROUTES_MAX]; // in no order
};

// A route for a request; its bytes for Envelope.route go to `bytes`. What a client says of the
// trace that it has on (what it has read, that it is enough) goes by that trace's route: the job's
// broker knows by it whose trace it is.
void sl_routes_add(struct sl_routes *r, const struct sl_bus_peer *peer, uint64_t job,
                   Sl__Control__Envelope__BodyCase request, uint8_t bytes[SL_ROUTE_BYTES]);

// The route that a message of `job` names; NULL when there is none. Valid until the next add or
// remove.
struct sl_route *sl_routes_find(struct sl_routes *r, uint64_t job,
                                const Sl__Control__Envelope *message);

// Any route of that job; NULL when there is none.
struct sl_route *sl_routes_of(struct sl_routes *r, uint64_t job);

void sl_routes_remove(struct sl_routes *r, struct sl_route *route);

// Whether this is the last message that a request is answered by.
bool sl_route_is_last(const Sl__Control__Envelope *message);

#endif
