/*
 * request.h - a question on the control bus, and the wait for its answer.
 *
 * Who asks begins a request, sends its number in Envelope.request, and shows each message that
 * comes to sl_request_on_message() until it is the answer, or sl_request_left_ms() is 0.
 *
 * Whatever answers a question carries its number back (bus.h). So any number of questions may be
 * under way on one connection, answers come in any order, and an answer that nobody waits for any
 * more is dropped. A question is given up by forgetting its struct.
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

// How long to go on waiting; 0: give up.
uint64_t sl_request_left_ms(const struct sl_request *r);

// True when the message is the answer, which is then in *reply (not NULL), and the question is
// over. A Waiting message starts the time-out again.
bool sl_request_on_message(struct sl_request *r, const Sl__Control__Envelope *w,
                           struct sl_reply *reply);

// Whether a message is the last one of an answer.
bool sl_request_is_last(const Sl__Control__Envelope *m);

#endif
