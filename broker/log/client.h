// client.h - the clients of a job: peers of the control bus that have subscribed.
#ifndef SL_BROKER_LOG_CLIENT_H
#define SL_BROKER_LOG_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/bus/bus.h"

enum {
    SL_CLIENTS_MAX = 1024,
    SL_CLIENT_MISSED_MAX =
        100, // messages in a row that a client could not take before it is dropped
};

// What a client has subscribed to besides the events that all clients get.
enum { SL_WANTS_PROGRESS = 1, SL_WANTS_STATS = 2 };

struct sl_clients {
    struct sl_bus *bus; // borrowed
    uint32_t n;
    struct {
        struct sl_bus_peer peer;
        uint32_t missed;
        unsigned wants; // SL_WANTS_*
    } list[SL_CLIENTS_MAX];
};

void sl_clients_init(struct sl_clients *clients, struct sl_bus *bus);

// Adds a peer; once, however often it asks: what it wants is what it said last. SL_EAGAIN when the
// table is full.
int sl_clients_add(struct sl_clients *clients, const struct sl_bus_peer *peer, unsigned wants);

// To all clients (wants 0), or to those that subscribed to it. A client that does not read, or has
// gone, loses the message and in the end its place.
void sl_clients_send(struct sl_clients *clients, unsigned wants, Sl__Control__Envelope *body);
// Whether anybody wants it.
bool sl_clients_want(const struct sl_clients *clients, unsigned wants);

// Answers what a peer has asked: code SL_OK or SL_E*; message and json may be NULL.
void sl_clients_answer(struct sl_clients *clients, const struct sl_bus_peer *peer, int code,
                       const char *message, const char *json);

void sl_clients_send_line(struct sl_clients *clients, int level, const char *text);

#endif
