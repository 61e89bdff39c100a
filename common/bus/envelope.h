// envelope.h - checks the bytes of a control message and unpacks them.
#ifndef SL_BUS_ENVELOPE_H
#define SL_BUS_ENVELOPE_H

#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>

#include "common/bus/control.pb-c.h"

#define SL_PROTOCOL_VERSION 3u
#define SL_BUS_MESSAGE_MAX  (16u << 20) // bytes; a larger message is refused
#define SL_BUS_REQUEST_MAX  (2u << 20)  // the same of one to a daemon or a broker

// Why messages were not taken: counted, and told in at most one line a second.
enum sl_refusal {
    SL_REFUSAL_MALFORMED,
    SL_REFUSAL_OVERSIZED,
    SL_REFUSAL_FOREIGN,
    SL_REFUSAL_OTHER_VERSION,
    SL_REFUSAL_COUNT,
    SL_REFUSAL_NONE = SL_REFUSAL_COUNT, // the message is fine
};

// Zeroed at first.
struct sl_refusals {
    uint64_t total;
    uint64_t untold[SL_REFUSAL_COUNT];
    uint64_t told_ns; // when the last line was written; 0 = never
};

void sl_refusals_count(struct sl_refusals *r, enum sl_refusal why);

// Logs the refusals since the last line; at most one line a second, unless `now`.
void sl_refusals_log(struct sl_refusals *r, bool now);

// SL_REFUSAL_NONE: *out is a message of this version. A refused message may be in *out too (else
// NULL); the caller frees it in any case (sl_bus_message_free).
enum sl_refusal sl_envelope_read(const void *bytes, size_t n, Sl__Control__Envelope **out);

#endif
