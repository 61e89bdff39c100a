/*
 * request.h - a question on the control bus, and the wait for its answer.
 *
 * Who asks begins a request, sends its number in Envelope.request, and shows each message that
 * comes to sl_request_on_message() until it is the answer, or sl_request_left_ms() is 0.
 *
 * Whatever answers a question carries its number back (bus.h). So any number of questions are under
 * way on one connection, answers come in any order, and an answer to what nobody waits for any more
 * is nobody's. Who waits keeps the struct: a question that is given up costs nothing but that.
 */
#ifndef SL_BUS_REQUEST_H
#define SL_BUS_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "common/bus/control.pb-c.h"

struct sl_request {
    uint64_t id; // Envelope.request, never used again by this process; 0: nothing is asked
    uint64_t patience_ns, until_ns;
};

// `code` is SL_OK or why not; texts are owned, and NULL where the answer has none.
struct sl_reply {
    int code;
    char *message, *json;
};
void sl_reply_fini(struct sl_reply *reply); // safe on a zeroed struct
int sl_reply_copy(const struct sl_reply *from, struct sl_reply *to);

// A new number, and the wait begins. patience_ms 0: without a bound.
struct sl_request sl_request_begin(uint64_t patience_ms);

// How long it is still waited for; 0: it is given up.
uint64_t sl_request_left_ms(const struct sl_request *r);

// True when the message is the answer, which then is in *reply (not NULL); nothing is asked any
// more. One that says that the answer takes longer (Waiting) begins the wait anew.
bool sl_request_on_message(struct sl_request *r, const Sl__Control__Envelope *m,
                           struct sl_reply *reply);

// Whether a message is the last one that a question is answered by.
bool sl_request_is_last(const Sl__Control__Envelope *m);

#endif
