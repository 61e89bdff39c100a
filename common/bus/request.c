#include "common/bus/request.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/error.h"

static _Atomic uint64_t last_id; // threads that ask have a connection each: only to be different

void sl_reply_fini(struct sl_reply *reply)
{
    free(reply->message);
    free(reply->json);
    *reply = (struct sl_reply){0};
}

// protobuf-c gives "" for a text that is not there. False without memory.
static bool copy_text(const char *from, char **to)
{
    if (!from || !*from)
        return true;
    *to = strdup(from);
    return *to != NULL;
}

static int set_reply(struct sl_reply *reply, int code, const char *message, const char *json)
{
    *reply = (struct sl_reply){.code = code};
    if (copy_text(message, &reply->message) && copy_text(json, &reply->json))
        return SL_OK;
    sl_reply_fini(reply);
    return reply->code = SL_ENOMEM;
}

int sl_reply_copy(const struct sl_reply *from, struct sl_reply *to)
{
    return set_reply(to, from->code, from->message, from->json);
}

static void take_reply(const Sl__Control__Envelope *m, struct sl_reply *reply)
{
    const Sl__Control__Answer *answer = m->answer;
    const Sl__Control__ScaleDone *done = m->scale_done;
    const Sl__Control__TraceChunk *chunk = m->trace_chunk;
    if (m->body_case == SL__CONTROL__ENVELOPE__BODY_ANSWER)
        set_reply(reply,
                  answer->ok         ? SL_OK
                  : answer->code < 0 ? answer->code
                                     : SL_EFAILED,
                  answer->message, answer->json);
    else if (m->body_case == SL__CONTROL__ENVELOPE__BODY_SCALE_DONE)
        set_reply(reply, done->ok ? SL_OK : SL_EFAILED, done->message, done->json);
    else
        set_reply(reply, chunk->ok ? SL_OK : SL_EFAILED, chunk->message, NULL);
}

static void begin_wait(struct sl_request *r)
{
    r->until_ns = r->patience_ns ? sl_now_ns() + r->patience_ns : UINT64_MAX;
}

struct sl_request sl_request_begin(uint64_t patience_ms)
{
    struct sl_request r = {
        .id = atomic_fetch_add_explicit(&last_id, 1, memory_order_relaxed) + 1,
        .patience_ns = patience_ms * 1000000u,
    };
    begin_wait(&r);
    return r;
}

uint64_t sl_request_left_ms(const struct sl_request *r)
{
    uint64_t now = sl_now_ns();
    return now < r->until_ns ? (r->until_ns - now) / 1000000u + 1 : 0;
}

bool sl_request_is_last(const Sl__Control__Envelope *m)
{
    switch (m->body_case) {
    case SL__CONTROL__ENVELOPE__BODY_ANSWER:
    case SL__CONTROL__ENVELOPE__BODY_SCALE_DONE: return true;
    case SL__CONTROL__ENVELOPE__BODY_TRACE_CHUNK: return m->trace_chunk->last;
    default: return false;
    }
}

bool sl_request_on_message(struct sl_request *r, const Sl__Control__Envelope *m,
                           struct sl_reply *reply)
{
    if (!r->id || m->request != r->id)
        return false;
    if (m->body_case == SL__CONTROL__ENVELOPE__BODY_WAITING)
        begin_wait(r);
    if (!sl_request_is_last(m))
        return false;
    r->id = 0;
    take_reply(m, reply);
    return true;
}
