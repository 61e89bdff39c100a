// client.h - who wants to hear of the job: subscribed peers of the control bus.
#ifndef SL_BROKER_CLIENT_H
#define SL_BROKER_CLIENT_H

#include <stdint.h>

#include "common/ipc/bus.h"

enum {
    SL_CLIENTS_MAX = 32,
    SL_CLIENT_MISSED_MAX =
        100, // messages in a row that a client could not take before it is dropped
};

struct sl_clients {
    struct sl_bus *bus; // borrowed
    uint32_t n;
    struct {
        struct sl_bus_peer peer;
        uint32_t missed;
    } list[SL_CLIENTS_MAX];
};

void sl_clients_init(struct sl_clients *clients, struct sl_bus *bus);

// Adds a peer; once, however often it asks. SL_EAGAIN when the table is full.
int sl_clients_add(struct sl_clients *clients, const struct sl_bus_peer *peer);

// To everybody. Who does not read, or has gone, loses the message and in the end its place.
void sl_clients_send(struct sl_clients *clients, Sl__Control__Envelope *body);

void sl_clients_send_line(struct sl_clients *clients, int level, const char *text);

#endif
