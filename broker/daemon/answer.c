// answer.c - what clients of the daemon are answered, and how each request is refused.
#include <stdlib.h>

#include <cjson/cJSON.h>

#include "broker/daemon/daemon_internal.h"
#include "common/base/error.h"
#include "common/base/json_print.h"

void sl_daemon_answer(struct sl_daemon *d, const struct sl_bus_peer *peer, int code,
                      const char *message, const char *json)
{
    Sl__Control__Answer answer = SL__CONTROL__ANSWER__INIT;
    Sl__Control__Envelope body = SL_ENVELOPE(ANSWER, answer, &answer);
    answer.ok = code >= 0;
    answer.code = code;
    answer.message = (char *)(message ? message : ""); // only read
    answer.json = (char *)(json ? json : "");
    // The client may have gone; but one that has not waits for an answer.
    if (sl_bus_send(d->bus, peer, &body) != SL_ERANGE)
        return;
    answer.ok = false;
    answer.code = SL_ERANGE;
    answer.message = "the answer is larger than a message may be";
    answer.json = "";
    sl_bus_send(d->bus, peer, &body);
}

static void refuse_scale(struct sl_daemon *d, const struct sl_bus_peer *peer, const char *job,
                         const char *message)
{
    Sl__Control__ScaleDone done = SL__CONTROL__SCALE_DONE__INIT;
    Sl__Control__Envelope body = SL_ENVELOPE(SCALE_DONE, scale_done, &done);
    cJSON *j = cJSON_CreateObject();
    cJSON_AddStringToObject(j, "schema", "sluice.scale/1");
    cJSON_AddFalseToObject(j, "ok");
    cJSON_AddFalseToObject(j, "dry_run");
    cJSON_AddNullToObject(j, "from");
    cJSON_AddNullToObject(j, "to");
    cJSON_AddArrayToObject(j, "steps");
    cJSON_AddStringToObject(j, "message", message);
    char *text = sl_json_line(j);
    cJSON_Delete(j);
    done.message = (char *)message; // only read
    if (text)
        done.json = text;
    body.job = (char *)job;
    sl_bus_send(d->bus, peer, &body);
    free(text);
}

void sl_daemon_refuse(struct sl_daemon *d, const struct sl_bus_peer *peer,
                      Sl__Control__Envelope__BodyCase request, const char *job, int code,
                      const char *message)
{
    Sl__Control__TraceChunk chunk = SL__CONTROL__TRACE_CHUNK__INIT;
    Sl__Control__Envelope body = SL_ENVELOPE(TRACE_CHUNK, trace_chunk, &chunk);
    switch (request) {
    case SL__CONTROL__ENVELOPE__BODY_SCALE: refuse_scale(d, peer, job, message); return;
    case SL__CONTROL__ENVELOPE__BODY_TRACE:
        chunk.last = true;
        chunk.message = (char *)message; // only read
        body.job = (char *)job;
        sl_bus_send(d->bus, peer, &body);
        return;
    default: sl_daemon_answer(d, peer, code, message, NULL);
    }
}
