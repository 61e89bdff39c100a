// question.h - what a request to the server asks a job, or the daemon, on the control bus.
#ifndef SL_BROKER_HTTP_QUESTION_H
#define SL_BROKER_HTTP_QUESTION_H

#include <stdbool.h>
#include <stdint.h>

#include "common/ipc/bus.h"
#include "common/ipc/request.h"

enum sl_question_kind {
    SL_QUESTION_LIST,
    SL_QUESTION_DESCRIBE,
    SL_QUESTION_SCALE,
    SL_QUESTION_PAUSE,
    SL_QUESTION_RESUME,
    SL_QUESTION_STOP,
};

enum { SL_QUESTION_JOB_BYTES = 256 };

struct sl_question {
    enum sl_question_kind kind;
    char job[SL_QUESTION_JOB_BYTES];                // for the daemon; "" with a job's own broker
    bool has_samplers, has_trainers, dry_run, undo; // scale
    uint32_t samplers, trainers;
    bool kill; // stop
};

/*
 * Takes what a request's body asks for (JSON; nothing is {}) into the question, whose kind is set.
 * text[n] is 0. False: `why` says what is wrong with it.
 */
bool sl_question_read_body(const char *text, size_t n, struct sl_question *q, char *why,
                           size_t bytes);

// How long its answer is waited for.
uint64_t sl_question_patience_ms(const struct sl_question *q);

int sl_question_send(const struct sl_question *q, uint64_t request, struct sl_bus *bus);

// What is said when no answer has come in time.
void sl_question_give_up(const struct sl_question *q, struct sl_reply *reply);

#endif
