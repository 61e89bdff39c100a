// control_call.h - the control message that a request to the server becomes, for a job or the
// daemon.
#ifndef SL_BROKER_HTTP_CONTROL_CALL_H
#define SL_BROKER_HTTP_CONTROL_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/bus/bus.h"
#include "common/bus/request.h"

enum sl_control_call_kind {
    SL_CONTROL_CALL_LIST,
    SL_CONTROL_CALL_DESCRIBE,
    SL_CONTROL_CALL_SCALE,
    SL_CONTROL_CALL_PAUSE,
    SL_CONTROL_CALL_RESUME,
    SL_CONTROL_CALL_STOP,
};

enum { SL_CONTROL_CALL_JOB_BYTES = 256 };

struct sl_control_call {
    enum sl_control_call_kind kind;
    char job[SL_CONTROL_CALL_JOB_BYTES];            // for the daemon; "" with a job's own broker
    bool has_samplers, has_trainers, dry_run, undo; // scale
    uint32_t samplers, trainers;
    bool kill; // stop
};

/*
 * Takes what a request's body asks for (JSON; nothing is {}) into the question, whose kind is set.
 * text[n] is 0. False: `why` says what is wrong with it.
 */
bool sl_control_call_read_body(const char *text, size_t n, struct sl_control_call *q, char *why,
                               size_t bytes);

// How long its answer is waited for.
uint64_t sl_control_call_patience_ms(const struct sl_control_call *q);

int sl_control_call_send(const struct sl_control_call *q, uint64_t request, struct sl_bus *bus);

// What is said when no answer has come in time.
void sl_control_call_give_up(const struct sl_control_call *q, struct sl_reply *reply);

#endif
