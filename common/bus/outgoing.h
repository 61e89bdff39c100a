// outgoing.h - bounds the bytes of messages that wait in memory for each peer of a bound bus, since
// ZeroMQ's high-water mark only counts messages.
#ifndef SL_BUS_OUTGOING_H
#define SL_BUS_OUTGOING_H

#include <stddef.h>
#include <stdint.h>

#include <zmq.h>

#include "common/bus/envelope.h"

enum {
    SL_OUTGOING_PEER_BYTES = 2 * SL_BUS_MESSAGE_MAX, // for a peer that does not read
    SL_OUTGOING_COUNTED_BYTES = 4096,                // smaller ones are only bounded in number
    SL_OUTGOING_PEERS = 1024,                        // peers with waiting messages at the same time
    SL_OUTGOING_NAME_BYTES = 16,                     // of a peer
};

struct sl_outgoing;

struct sl_outgoing *sl_outgoing_new(void);   // NULL without memory
void sl_outgoing_free(struct sl_outgoing *); // once its messages have gone; NULL is fine

// Makes the message of a body that takes `bytes`. SL_EAGAIN: too much waits for this peer already.
// A connected bus has no peers (n_peer 0), and nothing is counted.
int sl_outgoing_message(struct sl_outgoing *o, const uint8_t *peer, size_t n_peer,
                        const Sl__Control__Envelope *body, size_t bytes, zmq_msg_t *out);

#endif
