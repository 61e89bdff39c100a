/*
 * errand.h - one question to the control bus, with a connection of its own.
 *
 * Answers carry no number that would tell to which question they belong; a connection for each
 * question makes that plain, and a slow answer (a split that takes 30 s to hold) keeps nobody else
 * waiting. Questions are what people do by hand: a few a second at most.
 */
#ifndef SL_BROKER_HTTP_ERRAND_H
#define SL_BROKER_HTTP_ERRAND_H

#include <stdbool.h>
#include <stdint.h>

#include "common/ipc/bus.h"

enum sl_errand_kind {
    SL_ERRAND_LIST,
    SL_ERRAND_DESCRIBE,
    SL_ERRAND_SCALE,
    SL_ERRAND_PAUSE,
    SL_ERRAND_RESUME,
    SL_ERRAND_STOP,
};

enum { SL_ERRAND_JOB_BYTES = 256 };

struct sl_errand_question {
    enum sl_errand_kind kind;
    char job[SL_ERRAND_JOB_BYTES];                  // for the daemon; "" with a job's own broker
    bool has_samplers, has_trainers, dry_run, undo; // scale
    uint32_t samplers, trainers;
    bool kill; // stop
};

/*
 * Takes what a request's body asks for (JSON; nothing is {}) into the question, whose kind is set.
 * text[n] is 0. False: `why` says what is wrong with it.
 */
bool sl_errand_read_body(const char *text, size_t n, struct sl_errand_question *q, char *why,
                         size_t bytes);

// `code` is SL_OK or why not; texts are owned and may be NULL.
struct sl_errand_reply {
    int code;
    char *message, *json;
};
void sl_errand_reply_fini(struct sl_errand_reply *reply); // safe on a zeroed struct
int sl_errand_reply_copy(const struct sl_errand_reply *from, struct sl_errand_reply *to);

struct sl_errand {
    struct sl_errand_question question;
    struct sl_bus *bus; // owned
    uint64_t until_ns;
};

// Connects and sends.
int sl_errand_start(struct sl_errand *e, const struct sl_errand_question *question,
                    const char *endpoint, uint64_t token);
// Takes what has come. True once the reply is there (or never will be). A text that tells how far
// it has got goes to *progress (owned), if not NULL.
bool sl_errand_poll(struct sl_errand *e, struct sl_errand_reply *reply, char **progress);
void sl_errand_fini(struct sl_errand *e); // safe on a zeroed struct

#endif
