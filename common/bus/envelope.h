// envelope.h - checks the bytes of a control message and unpacks them.
#ifndef SL_BUS_ENVELOPE_H
#define SL_BUS_ENVELOPE_H

#include <stddef.h>
#include <stdint.h>

#include "common/bus/control.pb-c.h"
#include "common/bus/refusal.h"

#define SL_PROTOCOL_VERSION 3u
#define SL_BUS_MESSAGE_MAX  (16u << 20) // bytes; a larger message is refused
#define SL_BUS_REQUEST_MAX  (2u << 20)  // the same of one to a daemon or a broker

// SL_REFUSAL_NONE: *out is a message of this version. A refused message may be in *out too (else
// NULL); the caller frees it in any case (sl_bus_message_free).
enum sl_refusal sl_envelope_read(const void *bytes, size_t n, Sl__Control__Envelope **out);

#endif
