/*
 * requests.c - requests of clients to a job: subscribe, describe, pause, resume.
 *
 * PAUSE. Workers finish what they have in hand, then claim nothing. The word is in the arena
 * (sl_arena_pause): workers see it when they look for work: samplers at their next claim, trainers
 * before they fetch, where they go to sleep as a standby trainer does. Nothing is taken from
 * anybody and nothing is done in another order, so a paused job ends with the same parameters as
 * one that was not. Everything else goes on: phases that are completed by what was in hand are
 * read, a change of the split is carried out, a worker that dies is replaced, a checkpoint that is
 * due is written. Stop works as ever. Times of batches, epochs and the report leave pauses out
 * (pauses.h).
 */
#include "broker/job/job.h"

#include <inttypes.h>
#include <stdio.h>

#include "broker/telemetry/description.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/arena/param_store.h"

// --- to be told ----------------------------------------------------------------------------------

// To one that has just come: what it needs to know from the start.
static void emit_place(struct sl_job *job, const struct sl_bus_peer *peer, const char *what,
                       const char *where)
{
    Sl__Control__LogLine line = SL__CONTROL__LOG_LINE__INIT;
    Sl__Control__Envelope e = SL__CONTROL__ENVELOPE__INIT;
    char text[256];
    snprintf(text, sizeof text, "%s at %s", what, where);
    line.level = SL_LOG_INFO;
    line.text = text;
    e.body_case = SL__CONTROL__ENVELOPE__BODY_LOG_LINE;
    e.log_line = &line;
    sl_bus_send(job->bus, peer, &e);
}

void sl_job_on_subscribe(struct sl_job *job, const struct sl_bus_peer *peer,
                         const Sl__Control__Subscribe *subscribe)
{
    Sl__Control__Stats stats = SL__CONTROL__STATS__INIT;
    Sl__Control__Envelope e = SL__CONTROL__ENVELOPE__INIT;
    unsigned wants =
        (subscribe->progress ? SL_WANTS_PROGRESS : 0) | (subscribe->stats ? SL_WANTS_STATS : 0);
    if (sl_clients_add(&job->clients, peer, wants) < 0) {
        sl_joblog_write(&job->log, SL_LOG_INFO, "a client was turned away: %s", sl_error_message());
        sl_clients_answer(&job->clients, peer, SL_EAGAIN, sl_error_message(), NULL);
        return;
    }
    if (subscribe->progress && job->options.page)
        emit_place(job, peer, "the page is", job->options.page);
    if (subscribe->progress && job->desk.open)
        emit_place(job, peer, "external trainers attach", job->desk.path);
    const char *json = subscribe->stats ? sl_live_line(&job->live) : NULL;
    if (!json)
        return;
    stats.json = (char *)json; // only read
    e.body_case = SL__CONTROL__ENVELOPE__BODY_STATS;
    e.stats = &stats;
    sl_bus_send(job->bus, peer, &e);
}

void sl_job_on_describe(struct sl_job *job, const struct sl_bus_peer *peer)
{
    struct sl_json_writer w = {0};
    sl_description_write(&job->view, &job->live, &w);
    const char *json = sl_json_text(&w);
    if (json)
        sl_clients_answer(&job->clients, peer, SL_OK, "", json);
    else
        sl_clients_answer(&job->clients, peer, SL_ENOMEM, "no memory for the job's description",
                          NULL);
    sl_json_fini(&w);
}

// --- pauses --------------------------------------------------------------------------------------

static void set_paused(struct sl_job *job, bool paused)
{
    if (paused)
        sl_pauses_begin(&job->pauses, sl_now_ns());
    else
        sl_pauses_end(&job->pauses, sl_now_ns());
    sl_arena_pause(&job->arena, paused);
}

// Tells all clients that it has been done, and answers the one that asked.
static void emit_pause(struct sl_job *job, const struct sl_bus_peer *peer, const char *kind,
                       const char *text)
{
    sl_joblog_write(&job->log, SL_LOG_INFO, "%s", text);
    sl_timeline_emit(&job->timeline, kind, true, "%s", text);
    sl_clients_answer(&job->clients, peer, SL_OK, text, NULL);
}

void sl_job_on_pause(struct sl_job *job, const struct sl_bus_peer *peer)
{
    char text[160];
    if (job->state != SL_JOB_RUNNING) {
        snprintf(text, sizeof text, "the job is %s: %s", sl_job_state_name(&job->view),
                 job->state == SL_JOB_STARTING ? "pause it once it trains" : "nothing to pause");
        sl_clients_answer(&job->clients, peer, SL_EINVAL, text, NULL);
    } else if (sl_pauses_is_open(&job->pauses)) {
        snprintf(text, sizeof text, "paused already, for %.1f s, after update %" PRIu64,
                 sl_pauses_open_seconds(&job->pauses), sl_param_store_version(&job->arena));
        sl_clients_answer(&job->clients, peer, SL_OK, text, NULL);
    } else {
        set_paused(job, true);
        // What workers have in hand is finished, and may complete a later update.
        snprintf(text, sizeof text, "pausing at update %" PRIu64 ": batches in hand are finished",
                 sl_param_store_version(&job->arena));
        emit_pause(job, peer, "pause", text);
    }
}

void sl_job_on_resume(struct sl_job *job, const struct sl_bus_peer *peer)
{
    char text[160];
    if (job->state != SL_JOB_RUNNING) {
        snprintf(text, sizeof text, "the job is %s: only a paused job can go on",
                 sl_job_state_name(&job->view));
        sl_clients_answer(&job->clients, peer, SL_EINVAL, text, NULL);
    } else if (!sl_pauses_is_open(&job->pauses)) {
        sl_clients_answer(&job->clients, peer, SL_OK, "it is not paused", NULL);
    } else {
        double seconds = sl_pauses_open_seconds(&job->pauses);
        set_paused(job, false);
        snprintf(text, sizeof text, "going on after update %" PRIu64 ", paused for %.1f s",
                 sl_param_store_version(&job->arena), seconds);
        emit_pause(job, peer, "resume", text);
    }
}

void sl_job_end_pause(struct sl_job *job)
{
    if (sl_pauses_is_open(&job->pauses))
        set_paused(job, false);
}
