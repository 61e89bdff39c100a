#include "broker/http/control_call.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "common/base/error.h"

// To wait for the answer; a new split waits for processes to start.
enum { WAIT_MS = 5000, WAIT_SCALE_MS = 30000, WAIT_STOP_MS = 2000 };

uint64_t sl_control_call_patience_ms(const struct sl_control_call *q)
{
    return q->kind == SL_CONTROL_CALL_SCALE  ? WAIT_SCALE_MS
           : q->kind == SL_CONTROL_CALL_STOP ? WAIT_STOP_MS
                                             : WAIT_MS;
}

#define SET_BODY(BODY, field) (m.body_case = SL__CONTROL__ENVELOPE__BODY_##BODY, m.field = &field)

int sl_control_call_send(const struct sl_control_call *q, uint64_t request, struct sl_bus *bus)
{
    Sl__Control__List list = SL__CONTROL__LIST__INIT;
    Sl__Control__Describe describe = SL__CONTROL__DESCRIBE__INIT;
    Sl__Control__Scale scale = SL__CONTROL__SCALE__INIT;
    Sl__Control__Pause pause = SL__CONTROL__PAUSE__INIT;
    Sl__Control__Resume resume = SL__CONTROL__RESUME__INIT;
    Sl__Control__Stop stop = SL__CONTROL__STOP__INIT;
    Sl__Control__Envelope m = SL__CONTROL__ENVELOPE__INIT;
    m.job = (char *)q->job; // only read
    m.request = request;
    switch (q->kind) {
    case SL_CONTROL_CALL_LIST: SET_BODY(LIST, list); break;
    case SL_CONTROL_CALL_DESCRIBE: SET_BODY(DESCRIBE, describe); break;
    case SL_CONTROL_CALL_SCALE:
        scale.has_samplers = q->has_samplers;
        scale.has_trainers = q->has_trainers;
        scale.samplers = q->samplers;
        scale.trainers = q->trainers;
        scale.dry_run = q->dry_run;
        scale.undo = q->undo;
        SET_BODY(SCALE, scale);
        break;
    case SL_CONTROL_CALL_PAUSE: SET_BODY(PAUSE, pause); break;
    case SL_CONTROL_CALL_RESUME: SET_BODY(RESUME, resume); break;
    case SL_CONTROL_CALL_STOP:
        stop.kill = q->kill;
        SET_BODY(STOP, stop);
        break;
    }
    return sl_bus_send(bus, NULL, &m);
}

void sl_control_call_give_up(const struct sl_control_call *q, struct sl_reply *reply)
{
    bool stop = q->kind == SL_CONTROL_CALL_STOP;
    reply->code = stop ? SL_OK : SL_ETIMEDOUT;
    // A broker that is told to stop has better things to do than to answer.
    reply->message = strdup(stop ? "the job was asked to stop"
                            : q->kind == SL_CONTROL_CALL_SCALE
                                ? "the new split does not hold yet; it goes on, and the page "
                                  "shows when it does"
                                : "the job does not answer; look again in a few seconds");
}

// ---- the body of a request ----------------------------------------------------------------------

// A member of it; NULL or why it is wrong.
static const char *read_member(const cJSON *m, struct sl_control_call *q)
{
    bool scale = q->kind == SL_CONTROL_CALL_SCALE;
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
    bool *flag = scale && strcmp(m->string, "dry_run") == 0                          ? &q->dry_run
                 : scale && strcmp(m->string, "undo") == 0                           ? &q->undo
                 : q->kind == SL_CONTROL_CALL_STOP && strcmp(m->string, "kill") == 0 ? &q->kill
                                                                                     : NULL;
    if (!flag)
        return scale ? "there is no such key: known are samplers, trainers, dry_run and undo"
                     : "there is no such key here";
    if (!cJSON_IsBool(m))
        return "wanted true or false";
    *flag = cJSON_IsTrue(m);
    return NULL;
}

bool sl_control_call_read_body(const char *text, size_t n, struct sl_control_call *q, char *why,
                               size_t bytes)
{
    const char *end = text + n;
    cJSON *body = n ? cJSON_ParseWithLengthOpts(text, n + 1, &end, true) : cJSON_CreateObject();
    const cJSON *m;
    *why = '\0';
    if (!cJSON_IsObject(body)) {
        snprintf(why, bytes, "the body is no JSON object; it cannot be read from byte %td on",
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
    if (!*why && q->kind == SL_CONTROL_CALL_SCALE && !q->has_samplers && !q->has_trainers &&
        !q->undo)
        snprintf(why, bytes,
                 "there is nothing to change in the body: send {\"samplers\": N, "
                 "\"trainers\": M}, either of the two, or {\"undo\": true}");
    return !*why;
}
