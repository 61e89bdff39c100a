/*
 * subscriber.h - clients that have subscribed to a job, or to all jobs, also to those to come.
 *
 * Like client.h of one job's broker: the daemon waits for no client. One that does not read, or has
 * gone, loses messages and in the end its place.
 */
#ifndef SL_BROKER_DAEMON_SUBSCRIBER_H
#define SL_BROKER_DAEMON_SUBSCRIBER_H

#include <stdint.h>

#include "common/bus/bus.h"

enum { SL_SUBSCRIBERS_MAX = 4096 };

struct sl_subscriber {
    struct sl_bus_peer peer;
    uint64_t job;    // its number; 0 = all jobs
    unsigned wants;  // SL_WANTS_* (client.h)
    uint32_t missed; // messages in a row
};

struct sl_subscribers {
    struct sl_bus *bus; // borrowed
    uint32_t n, capacity;
    struct sl_subscriber *list; // (n) owned
};

void sl_subscribers_init(struct sl_subscribers *s, struct sl_bus *bus);
void sl_subscribers_fini(struct sl_subscribers *s); // safe on a zeroed struct

// Once for each job, however often a peer asks: what it wants is what it said last. Who hears of
// all jobs hears each message once. SL_EAGAIN when there are too many, SL_ENOMEM.
int sl_subscribers_add(struct sl_subscribers *s, const struct sl_bus_peer *peer, uint64_t job,
                       unsigned wants);

// To all subscribers of the job (wants 0), or to those that asked for it.
void sl_subscribers_send(struct sl_subscribers *s, uint64_t job, unsigned wants,
                         Sl__Control__Envelope *body);

#endif
