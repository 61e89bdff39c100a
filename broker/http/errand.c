#include "broker/http/errand.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "common/base/clock.h"
#include "common/base/error.h"

// Seconds to wait for the answer; a new split waits for processes to start.
enum { WAIT_S = 5, WAIT_SCALE_S = 30, WAIT_STOP_S = 2, LINGER_MS = 200 };

void sl_errand_reply_fini(struct sl_errand_reply *reply)
{
    free(reply->message);
    free(reply->json);
    *reply = (struct sl_errand_reply){0};
}

int sl_errand_reply_copy(const struct sl_errand_reply *from, struct sl_errand_reply *to)
{
    *to = (struct sl_errand_reply){
        .code = from->code,
        .message = from->message ? strdup(from->message) : NULL,
        .json = from->json ? strdup(from->json) : NULL,
    };
    if ((from->message && !to->message) || (from->json && !to->json)) {
        sl_errand_reply_fini(to);
        to->code = SL_ENOMEM;
        return SL_ENOMEM;
    }
    return SL_OK;
}

// The message of a question. `bodies` keeps what the envelope points to.
struct bodies {
    Sl__Control__List list;
    Sl__Control__Describe describe;
    Sl__Control__Scale scale;
    Sl__Control__Pause pause;
    Sl__Control__Resume resume;
    Sl__Control__Stop stop;
};

static void fill(Sl__Control__Envelope *m, struct bodies *b, const struct sl_errand_question *q)
{
    switch (q->kind) {
    case SL_ERRAND_LIST:
        b->list = (Sl__Control__List)SL__CONTROL__LIST__INIT;
        m->body_case = SL__CONTROL__ENVELOPE__BODY_LIST;
        m->list = &b->list;
        break;
    case SL_ERRAND_DESCRIBE:
        b->describe = (Sl__Control__Describe)SL__CONTROL__DESCRIBE__INIT;
        m->body_case = SL__CONTROL__ENVELOPE__BODY_DESCRIBE;
        m->describe = &b->describe;
        break;
    case SL_ERRAND_SCALE:
        b->scale = (Sl__Control__Scale)SL__CONTROL__SCALE__INIT;
        b->scale.has_samplers = q->has_samplers;
        b->scale.has_trainers = q->has_trainers;
        b->scale.samplers = q->samplers;
        b->scale.trainers = q->trainers;
        b->scale.dry_run = q->dry_run;
        b->scale.undo = q->undo;
        m->body_case = SL__CONTROL__ENVELOPE__BODY_SCALE;
        m->scale = &b->scale;
        break;
    case SL_ERRAND_PAUSE:
        b->pause = (Sl__Control__Pause)SL__CONTROL__PAUSE__INIT;
        m->body_case = SL__CONTROL__ENVELOPE__BODY_PAUSE;
        m->pause = &b->pause;
        break;
    case SL_ERRAND_RESUME:
        b->resume = (Sl__Control__Resume)SL__CONTROL__RESUME__INIT;
        m->body_case = SL__CONTROL__ENVELOPE__BODY_RESUME;
        m->resume = &b->resume;
        break;
    case SL_ERRAND_STOP:
        b->stop = (Sl__Control__Stop)SL__CONTROL__STOP__INIT;
        b->stop.kill = q->kill;
        m->body_case = SL__CONTROL__ENVELOPE__BODY_STOP;
        m->stop = &b->stop;
        break;
    }
}

int sl_errand_start(struct sl_errand *e, const struct sl_errand_question *question,
                    const char *endpoint, uint64_t token)
{
    Sl__Control__Envelope m = SL__CONTROL__ENVELOPE__INIT;
    struct bodies bodies;
    int seconds = question->kind == SL_ERRAND_SCALE  ? WAIT_SCALE_S
                  : question->kind == SL_ERRAND_STOP ? WAIT_STOP_S
                                                     : WAIT_S;
    e->question = *question;
    e->until_ns = sl_now_ns() + (uint64_t)seconds * 1000000000u;
    SL_TRY(sl_bus_connect(endpoint, token, &e->bus));
    fill(&m, &bodies, question);
    m.job = e->question.job;
    return sl_bus_send(e->bus, NULL, &m);
}

// A text of a message: protobuf-c gives "" for one that is not there.
static char *copy(const char *text)
{
    return text && *text ? strdup(text) : NULL;
}

// True when this message is the answer.
static bool take(struct sl_errand *e, const Sl__Control__Envelope *m, struct sl_errand_reply *reply,
                 char **progress)
{
    switch (m->body_case) {
    case SL__CONTROL__ENVELOPE__BODY_ANSWER:
        reply->code = m->answer->ok ? SL_OK : m->answer->code < 0 ? m->answer->code : SL_EFAILED;
        reply->message = copy(m->answer->message);
        reply->json = copy(m->answer->json);
        return true;
    case SL__CONTROL__ENVELOPE__BODY_SCALE_DONE:
        reply->code = m->scale_done->ok ? SL_OK : SL_EFAILED;
        reply->message = copy(m->scale_done->message);
        reply->json = copy(m->scale_done->json);
        return true;
    case SL__CONTROL__ENVELOPE__BODY_SCALE_PROGRESS:
        free(*progress);
        *progress = copy(m->scale_progress->text);
        return false;
    case SL__CONTROL__ENVELOPE__BODY_WAITING:
        e->until_ns = sl_now_ns() + WAIT_S * 1000000000ull;
        return false;
    default: return false;
    }
}

bool sl_errand_poll(struct sl_errand *e, struct sl_errand_reply *reply, char **progress)
{
    Sl__Control__Envelope *m;
    int rc;
    while ((rc = sl_bus_receive(e->bus, 0, NULL, &m)) == SL_OK) {
        bool answered = take(e, m, reply, progress);
        sl_bus_message_free(m);
        if (answered)
            return true;
    }
    if (rc != SL_EAGAIN) {
        reply->code = rc;
        reply->message = strdup(sl_error_message());
        return true;
    }
    if (sl_now_ns() < e->until_ns)
        return false;
    // A broker that is told to stop has better things to do than to answer.
    if (e->question.kind == SL_ERRAND_STOP) {
        reply->code = SL_OK;
        reply->message = strdup("the job was asked to stop");
    } else {
        reply->code = SL_ETIMEDOUT;
        reply->message = strdup(e->question.kind == SL_ERRAND_SCALE
                                    ? "the new split does not hold yet; it goes on, and the page "
                                      "shows when it does"
                                    : "the job does not answer; look again in a few seconds");
    }
    return true;
}

void sl_errand_fini(struct sl_errand *e)
{
    sl_bus_close(e->bus, LINGER_MS);
    memset(e, 0, sizeof *e);
}

// ---- the body of a request ----------------------------------------------------------------------

// A member of it; NULL or why it is wrong.
static const char *read_member(const cJSON *m, struct sl_errand_question *q)
{
    bool scale = q->kind == SL_ERRAND_SCALE;
    bool is_count =
        scale && (strcmp(m->string, "samplers") == 0 || strcmp(m->string, "trainers") == 0);
    if (is_count) {
        double n = m->valuedouble;
        if (!cJSON_IsNumber(m) || n < 0 || n > 65535 || n != floor(n))
            return "wanted a whole number from 0 to 65535";
        bool samplers = strcmp(m->string, "samplers") == 0;
        *(samplers ? &q->samplers : &q->trainers) = (uint32_t)n;
        *(samplers ? &q->has_samplers : &q->has_trainers) = true;
        return NULL;
    }
    bool *flag = scale && strcmp(m->string, "dry_run") == 0                    ? &q->dry_run
                 : scale && strcmp(m->string, "undo") == 0                     ? &q->undo
                 : q->kind == SL_ERRAND_STOP && strcmp(m->string, "kill") == 0 ? &q->kill
                                                                               : NULL;
    if (!flag)
        return scale ? "there is no such key: known are samplers, trainers, dry_run and undo"
                     : "there is no such key here";
    if (!cJSON_IsBool(m))
        return "wanted true or false";
    *flag = cJSON_IsTrue(m);
    return NULL;
}

bool sl_errand_read_body(const char *text, size_t n, struct sl_errand_question *q, char *why,
                         size_t bytes)
{
    const char *end = text + n;
    cJSON *body = n ? cJSON_ParseWithLengthOpts(text, n + 1, &end, true) : cJSON_CreateObject();
    const cJSON *m;
    *why = '\0';
    if (!cJSON_IsObject(body)) {
        snprintf(why, bytes, "the body is no JSON object; it stops making sense at byte %td",
                 end - text);
    } else {
        cJSON_ArrayForEach(m, body)
        {
            const char *wrong = read_member(m, q);
            if (wrong)
                snprintf(why, bytes, "'%.64s' in the body: %s", m->string, wrong);
            if (wrong)
                break;
        }
    }
    cJSON_Delete(body);
    if (!*why && q->kind == SL_ERRAND_SCALE && !q->has_samplers && !q->has_trainers && !q->undo)
        snprintf(why, bytes,
                 "the body says nothing to change: send {\"samplers\": N, "
                 "\"trainers\": M}, either of the two, or {\"undo\": true}");
    return !*why;
}
