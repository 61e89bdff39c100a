/*
 * control.c - `sluice stop`, `pause` and `resume`: asks a job to stop, pause or go on, from another
 * terminal.
 *
 * The command sends, and then waits until it is so. Ctrl-C ends the waiting, never what was asked.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/output.h"
#include "cli/command.h"
#include "cli/dispatch.h"
#include "cli/session.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/interrupt.h"
#include "common/schema/words.h"

enum {
    ANSWER_MS = 30000,
    REFUSAL_MS = 1000, // for a refusal of what is not waited for
};

struct request {
    struct sl_session_where where;
    const char *job, *checkpoint;
    struct sl_text_list jobs;
    bool kill, detach;
    uint64_t timeout_s;
    int output;
};

// Of a job that is not the only one: says what went wrong with it, and goes on. Returns as a
// command does.
static int tell_error(int rc, size_t n_jobs)
{
    if (n_jobs == 1)
        return rc;
    fprintf(stderr, "sluice: %s\n", sl_error_message());
    return sl_exit_status(rc);
}

// --- stop ----------------------------------------------------------------------------------------

static int look_for_refusal(void *ctx, const Sl__Control__Envelope *m)
{
    const struct sl_session *s = ctx;
    if (m->body_case != SL__CONTROL__ENVELOPE__BODY_ANSWER || m->answer->ok)
        return SL_OK;
    return sl_session_refusal(s, SL_EFAILED, m->answer->message);
}

static int begin_stop(const struct request *r, const char *job, struct sl_session *s)
{
    Sl__Control__Stop stop = SL__CONTROL__STOP__INIT;
    Sl__Control__Envelope e = SL_ENVELOPE(STOP, stop, &stop);
    SL_TRY(sl_session_open(&r->where, job, s));
    if (sl_job_state_is_over(s->state))
        return sl_fail(SL_EFAILED, "job '%s': it is over (%s): there is nothing to stop", s->name,
                       s->state);
    stop.kill = r->kill;
    SL_TRY(sl_session_subscribe(s, false, false));
    return sl_session_send(s, &e);
}

static int finish_stop(const struct request *r, struct sl_session *s)
{
    struct sl_job_end end;
    char text[sizeof end.message + 64], message[sizeof text + sizeof end.directory + 64];
    uint64_t ms = r->detach ? REFUSAL_MS : r->timeout_s * 1000;
    uint64_t until = sl_now_ns() + ms * 1000000u;
    int rc = sl_session_await_end(s, until, look_for_refusal, s, &end, NULL);
    if (rc == SL_ETIMEDOUT && r->detach) {
        sl_answer_print(r->output, s->name, s->id, "finishing", NULL, "it has been told to stop");
        return SL_EXIT_OK;
    }
    if (rc == SL_ETIMEDOUT)
        return sl_fail(SL_ETIMEDOUT,
                       "job '%s': it is still stopping after %" PRIu64 " s (it may be writing a "
                       "checkpoint): 'sluice wait %s' waits on, 'sluice stop --kill %s' does not "
                       "wait for its workers",
                       s->name, r->timeout_s, s->name, s->name);
    if (rc == SL_EABORTED)
        return sl_fail(rc, "job '%s': not waiting any more; it goes on stopping", s->name);
    if (rc < 0)
        return rc;
    snprintf(message, sizeof message, "%s%s%s", sl_job_end_text(&end, text, sizeof text),
             end.directory[0] ? ": its results so far are in " : "", end.directory);
    sl_answer_print(r->output, s->name, s->id, end.status, &end.exit_status, message);
    return SL_EXIT_OK;
}

// All are told before the first is waited for.
static int stop_jobs(void *state)
{
    const struct request *r = state;
    size_t n = r->jobs.n;
    int worst = SL_EXIT_OK;
    struct {
        struct sl_session session;
        int begun;
    } *all = calloc(n, sizeof *all);
    if (!all)
        return sl_fail(SL_ENOMEM, "stop: no memory for %zu jobs", n);
    sl_interrupt_catch();
    for (size_t i = 0; i < n; i++) {
        all[i].begun = begin_stop(r, r->jobs.items[i], &all[i].session);
        if (all[i].begun < 0)
            worst = all[i].begun = tell_error(all[i].begun, n);
    }
    for (size_t i = 0; i < n; i++) {
        if (all[i].begun == SL_OK) {
            int rc = finish_stop(r, &all[i].session);
            worst = rc < 0 ? tell_error(rc, n) : worst;
        }
        // The message of an error that main() is to print stands: closing records none.
        sl_session_close(&all[i].session);
    }
    free(all);
    return worst;
}

#define AT(kind, field) SL_OPTION_AT(kind, request, field)
// clang-format off
static const struct sl_option stop_options[] = {
    {.name = "kill", AT(FLAG, kill),
     .help = "do not wait for workers: they are killed; what is in the last checkpoint stays"},
    {.name = "detach", .letter = 'd', AT(FLAG, detach), .help = "do not wait until it is over"},
    {.name = "timeout", AT(UINT, timeout_s), .placeholder = "SECONDS", .min = 1, .max = 86400,
     .help = "how long to wait; the job goes on stopping after that"},
    {0},
};
// clang-format on

const struct sl_command sl_command_stop = {
    .name = "stop",
    .help = "stop jobs: a checkpoint and the report are written",
    .about = "Stops jobs and waits until they are over: workers leave, a checkpoint and the "
             "report are written. A\njob that waits in the daemon's queue is taken out of it. "
             "JOB is a number of 'sluice ps', a name or a\nrun directory. A stopped job can be "
             "continued: 'sluice resume JOB', or run it again. Status 1: it\nis over "
             "already, or still stopping after --timeout.",
    .example = "sluice stop products-sage\nsluice stop 3 4 --detach",
    .options = {{stop_options},
                {sl_output_option, offsetof(struct request, output)},
                {sl_session_options, offsetof(struct request, where)}},
    .rest = {"JOB", offsetof(struct request, jobs)},
    .bytes = sizeof(struct request),
    .defaults = &(const struct request){.timeout_s = 150},
    .run = stop_jobs,
};

// --- pause, resume -------------------------------------------------------------------------------

// What else can be done with a job that is not running; "" when its reason says it.
static const char *advice(const struct sl_session *s, bool pausing, char *buf, size_t bytes)
{
    const char *word = s->id[0] ? s->id : s->name;
    buf[0] = '\0';
    const char *nothing = pausing ? "there is nothing to pause; " : "";
    if (strcmp(s->state, "done") == 0)
        snprintf(buf, bytes, ": %s'sluice report %s' tells how it went", nothing, word);
    else if (pausing && sl_job_state_is_over(s->state))
        snprintf(buf, bytes, ": %s'sluice resume %s' lets it go on", nothing, word);
    else if (pausing && strcmp(s->state, "queued") == 0)
        snprintf(buf, bytes, ": 'sluice stop %s' takes it out of the queue", word);
    else if (pausing && strcmp(s->state, "interrupted") == 0)
        snprintf(buf, bytes, ": 'sluice resume %s' goes on with it", word);
    return buf;
}

// Why it was refused is the recorded message. It has been asked, and it has not been done.
static int ask_refused(const struct sl_session *s, bool pausing)
{
    char why[2048], more[256];
    snprintf(why, sizeof why, "%s%s", sl_error_message(), advice(s, pausing, more, sizeof more));
    return sl_session_refusal(s, SL_EFAILED, why);
}

// Asks a job for something that it answers.
static int ask(const struct request *r, Sl__Control__Envelope *e, const char *state)
{
    struct sl_session s;
    char *message = NULL;
    SL_TRY(sl_session_open(&r->where, r->job, &s));
    sl_interrupt_catch();
    int rc = sl_session_ask(&s, e, ANSWER_MS, NULL, &message);
    if (rc == SL_OK)
        sl_answer_print(r->output, s.name, s.id, state, NULL, message ? message : state);
    else if (rc == SL_EABORTED)
        sl_fail(rc, "job '%s': not waiting any more for its answer", s.name);
    else
        rc = ask_refused(&s, e->body_case == SL__CONTROL__ENVELOPE__BODY_PAUSE);
    free(message);
    sl_session_close(&s);
    return rc;
}

static int pause_job(void *state)
{
    Sl__Control__Pause pause = SL__CONTROL__PAUSE__INIT;
    Sl__Control__Envelope e = SL_ENVELOPE(PAUSE, pause, &pause);
    return ask(state, &e, "paused");
}

static int resume_job(void *state)
{
    const struct request *r = state;
    Sl__Control__Resume resume = SL__CONTROL__RESUME__INIT;
    Sl__Control__Envelope e = SL_ENVELOPE(RESUME, resume, &resume);
    if (r->checkpoint)
        resume.checkpoint = (char *)r->checkpoint; // only read
    return ask(r, &e, "running");
}

#define AT(kind, field) SL_OPTION_AT(kind, request, field)
// clang-format off
static const struct sl_option resume_options[] = {
    {.name = "checkpoint", AT(TEXT, checkpoint), .placeholder = "NAME",
     .help = "go on from this checkpoint of the run directory, not from its newest; of a job that "
             "is over"},
    {0},
};
// clang-format on

const struct sl_command sl_command_pause = {
    .name = "pause",
    .help = "let a job's workers wait",
    .about = "Pauses a running job: its workers finish the mini-batches that they have in "
             "hand and wait, and use\nnext to no processor time. They keep their memory and "
             "their devices. Nothing of the result changes.\n'sluice resume JOB' lets it go "
             "on. JOB is a number of 'sluice ps', a name or a run directory.",
    .example = "sluice pause products-sage\nsluice resume products-sage",
    .operands = {{"JOB", offsetof(struct request, job)}},
    .options = {{sl_output_option, offsetof(struct request, output)},
                {sl_session_options, offsetof(struct request, where)}},
    .bytes = sizeof(struct request),
    .run = pause_job,
};

const struct sl_command sl_command_resume = {
    .name = "resume",
    .of_ended_jobs = true,
    .help = "let a paused job go on, or one that is over from its checkpoint",
    .about = "Lets a paused job go on, or queues one of the daemon's jobs again that was "
             "stopped, failed or was\ninterrupted: it goes on from its newest checkpoint. (A "
             "job of 'sluice run' that is over goes on\nwhen it is run again.) JOB is a number "
             "of 'sluice ps', a name or a run directory.",
    .example = "sluice resume products-sage\nsluice resume 3 --checkpoint 000000000400",
    .operands = {{"JOB", offsetof(struct request, job)}},
    .options = {{resume_options},
                {sl_output_option, offsetof(struct request, output)},
                {sl_session_options, offsetof(struct request, where)}},
    .bytes = sizeof(struct request),
    .run = resume_job,
};
