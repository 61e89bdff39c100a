/*
 * bus.h - control messages over ZeroMQ: envelopes in, envelopes out.
 *
 * The broker binds a ROUTER socket on an abstract Unix socket (nothing in the file system, nothing
 * left behind); workers and clients connect a DEALER. Every message is one protobuf Envelope that
 * carries the protocol version and the job's token; anything else is dropped and counted. Only
 * processes of the same user can connect. No call blocks: a peer that does not read loses
 * messages, never the broker's time.
 */
#ifndef SL_COMMON_IPC_BUS_H
#define SL_COMMON_IPC_BUS_H

#include <stddef.h>
#include <stdint.h>

#include "common/ipc/control.pb-c.h"

#define SL_PROTOCOL_VERSION 1u
#define SL_BUS_MESSAGE_MAX  (16u << 20) // bytes; a larger message is refused

struct sl_bus;

// Who sent a message, to answer it.
struct sl_bus_peer {
    uint8_t id[16];
    size_t n;
};

// A fresh endpoint name, and a token; both from the system's randomness.
void sl_bus_new_endpoint(char *out, size_t bytes, uint64_t *token);

int sl_bus_bind(const char *endpoint, uint64_t token, struct sl_bus **out);
int sl_bus_connect(const char *endpoint, uint64_t token, struct sl_bus **out);
// Waits up to linger_ms for messages under way to leave.
void sl_bus_close(struct sl_bus *bus, int linger_ms);

// Edge-triggered descriptor for an event loop: after it fires, and after each send, receive until
// SL_EAGAIN.
int sl_bus_fd(const struct sl_bus *bus);

// Sends `body` (its protocol and token are filled in). `to` is NULL on a connected bus.
// SL_OK; SL_EAGAIN when the peer's queue is full or it has gone.
int sl_bus_send(struct sl_bus *bus, const struct sl_bus_peer *to, Sl__Control__Envelope *body);

// Next message, owned by the caller (sl_bus_message_free); waits up to timeout_ms (0 = not at all).
// SL_OK, SL_EAGAIN. Malformed, foreign or oversized messages are skipped.
int sl_bus_receive(struct sl_bus *bus, int timeout_ms, struct sl_bus_peer *from,
                   Sl__Control__Envelope **out);
void sl_bus_message_free(Sl__Control__Envelope *message);

// Messages dropped so far because they were malformed, foreign or too large.
uint64_t sl_bus_refused(const struct sl_bus *bus);

#endif
