/*
 * bus.h - control messages over ZeroMQ: envelopes in, envelopes out.
 *
 * A job's broker binds a ROUTER socket on an abstract Unix socket (nothing in the file system,
 * nothing left behind), a daemon on a socket in its runtime directory; workers and clients connect
 * a DEALER. Every message is one protobuf Envelope that carries the protocol version; anything else
 * is dropped and counted. Only processes of the same user can connect, to a job's broker only those
 * that have the job's key (bus_key.h), and over TCP only clients whose key is known. No call
 * blocks: a peer that does not read loses messages, never the broker's time. A bus belongs to one
 * thread.
 */
#ifndef SL_BUS_BUS_H
#define SL_BUS_BUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/bus/bus_key.h"
#include "common/bus/envelope.h"

struct sl_bus;

enum {
    SL_BUS_NAME_BYTES = 16,
    SL_BUS_REFUSALS_A_CALL = 256, // refused messages that one receive looks at, at most
};

// Who sent a message, to answer it. What is sent there carries the request's number back, so
// whoever answers need not care for it, nor know that a daemon has forwarded the request. The id
// says which socket the peer came by, too.
struct sl_bus_peer {
    uint8_t id[SL_BUS_NAME_BYTES];
    size_t n;
    uint64_t request; // its number for what it asked; 0: none
};

// Whether it came over TCP: somebody who has a key, not this user.
bool sl_bus_is_far(const struct sl_bus_peer *peer);

// Compares peers, not their requests.
bool sl_bus_same_peer(const struct sl_bus_peer *a, const struct sl_bus_peer *b);

// A fresh abstract name, and a key, both from the system's randomness. SL_EUNSUPPORTED: no CURVE.
int sl_bus_new_endpoint(char *out, size_t bytes, char key[SL_BUS_KEY_TEXT]);

// With a key, both sides prove that they have it before anything is sent or heard: an abstract name
// belongs to whoever takes it. NULL: a socket in a directory that nobody else may enter.
int sl_bus_bind(const char *endpoint, const char *key, struct sl_bus **out);
int sl_bus_connect(const char *endpoint, const char *key, struct sl_bus **out);

// Over TCP, with CURVE (curve_keys.h). Binding: only clients whose public key is known get in; keys
// are a daemon's. Connecting: `keys` has the client's pair and the daemon's public key. A client
// that the daemon does not know gets no answer at all, as if nobody listened. SL_EINVAL: the other
// side's keys, no tcp:// endpoint; SL_EEXIST: address in use.
struct sl_curve;
int sl_bus_add_tcp(struct sl_bus *bus, const char *endpoint, const struct sl_curve *keys);
int sl_bus_connect_tcp(const char *endpoint, const struct sl_curve *keys, struct sl_bus **out);
// Waits up to linger_ms for messages under way to leave.
void sl_bus_close(struct sl_bus *bus, int linger_ms);

// One descriptor for an event loop, whatever sockets the bus has. Like an edge-triggered one: after
// it fires, and after each send, receive until SL_EAGAIN.
int sl_bus_fd(const struct sl_bus *bus);

// An envelope's initial value, around a message: SL_ENVELOPE(STOP, stop, &stop).
#define SL_ENVELOPE(BODY, field, message)                                                          \
    {                                                                                              \
        .base = PROTOBUF_C_MESSAGE_INIT(&sl__control__envelope__descriptor),                       \
        .job = (char *)protobuf_c_empty_string, .body_case = SL__CONTROL__ENVELOPE__BODY_##BODY,   \
        .field = (message)                                                                         \
    }

// Sends `body` (its protocol is filled in, and its request from `to`). `to` is NULL on a
// connected bus.
// SL_OK; SL_EAGAIN when the peer's queue is full or it has gone.
int sl_bus_send(struct sl_bus *bus, const struct sl_bus_peer *to, Sl__Control__Envelope *body);

/*
 * Next message, owned by the caller (sl_bus_message_free); waits up to timeout_ms (0 = not at all).
 * SL_OK, SL_EAGAIN. Malformed, foreign or oversized messages are skipped and logged (at most one
 * line a second). A flood, of those or of others, makes it return SL_EAGAIN in between; sl_bus_fd
 * then fires again.
 * A message of another protocol version is answered with Refused by a bound bus; a connected one
 * that hears Refused, or another version, returns SL_EPROTO with both versions in the message.
 */
int sl_bus_receive(struct sl_bus *bus, int timeout_ms, struct sl_bus_peer *from,
                   Sl__Control__Envelope **out);
void sl_bus_message_free(Sl__Control__Envelope *message);

// How often a receive with a time-out has slept for a message.
uint64_t sl_bus_waits(const struct sl_bus *bus);

// Messages dropped so far because they were malformed, foreign or too large.
uint64_t sl_bus_refused(const struct sl_bus *bus);

#endif
