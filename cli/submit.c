/*
 * submit.c - `sluice submit`: gives a job to the daemon, and watches it.
 *
 * The job is checked here with the same words as by `run`, so that what cannot run is refused
 * before it waits. What is sent is resolved (but for "auto" devices, which are the daemon's to
 * choose) and has absolute paths: nothing of this process matters any more once the daemon has
 * answered. Watching is optional: Ctrl-C ends it, the job goes on.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "cli/output.h"
#include "cli/command.h"
#include "cli/job_check.h"
#include "cli/job_table.h"
#include "cli/run_view.h"
#include "cli/session.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/interrupt.h"
#include "common/base/json_print.h"
#include "common/text/json.h"

enum {
    ANSWER_MS = 30000,
    PLACE_MS = 1000, // between two questions about its place, which others move
    NOTE_BYTES = 512,
};

struct submission {
    struct sl_session_where where;
    struct sl_job_check check;
    struct sl_session session;
    bool detach;
    int output;
    struct sl_run_view view;
    bool queued;
    char note[NOTE_BYTES]; // what was last said of its place in the queue
};

// The job as it is sent (owned: free()): what "auto" devices are is the daemon's to say, which may
// have fewer cores to give away than there are here, and other GPUs. NULL without memory.
static char *job_to_send(const struct sl_job_check *check)
{
    if (!check->config.devices_auto)
        return strdup(check->config_json);
    cJSON *job = cJSON_Parse(check->config_json);
    cJSON_ReplaceItemInObjectCaseSensitive(
        job, "devices", cJSON_CreateString(check->config.devices_cpu ? "cpu" : "auto"));
    char *text = job ? sl_json_line(job) : NULL;
    cJSON_Delete(job);
    return text;
}

static int send_job(struct submission *s, char **entry)
{
    Sl__Control__Submit submit = SL__CONTROL__SUBMIT__INIT;
    Sl__Control__Envelope e = SL_ENVELOPE(SUBMIT, submit, &submit);
    submit.config_json = job_to_send(&s->check);
    if (!submit.config_json)
        return sl_fail(SL_ENOMEM, "submit: no memory for the job");
    // only read
    if (s->check.report_path)
        submit.report = s->check.report_path;
    if (s->check.checkpoint)
        submit.checkpoint = (char *)s->check.checkpoint;
    int rc = sl_session_ask(&s->session, &e, ANSWER_MS, entry, NULL);
    free(submit.config_json);
    if (rc == SL_EABORTED && !s->session.answered)
        return sl_fail(rc, "job '%s': it may have been taken: 'sluice ps' tells",
                       s->check.config.name);
    if ((rc == SL_ETIMEDOUT || rc == SL_EFAILED) && !s->session.answered)
        return sl_fail_prefix(rc, "job '%s' may have been taken ('sluice ps' tells)",
                              s->check.config.name);
    // Whatever the reason: it has been refused, and nothing was begun.
    return rc < 0 ? sl_fail_prefix(SL_EINVAL, "job '%s'", s->check.config.name) : rc;
}

// From now on the session is about this job.
static int take_entry(struct submission *s, const char *json, cJSON **entry)
{
    *entry = cJSON_Parse(json ? json : "");
    if (!*sl_json_string(*entry, "id"))
        return sl_fail(SL_EPROTO, "job '%s': the daemon's answer has no id", s->check.config.name);
    sl_session_set_entry(&s->session, *entry);
    return SL_OK;
}

// As the list has it, with what it is in front.
static int print_entry(cJSON *entry)
{
    cJSON *whole = cJSON_CreateObject(), *item;
    cJSON_AddStringToObject(whole, "schema", "sluice.job/1");
    while ((item = cJSON_DetachItemFromArray(entry, 0)) != NULL) {
        char *key = item->string ? strdup(item->string) : NULL; // the item's own goes with the call
        if (!key || !cJSON_AddItemToObject(whole, key, item))
            cJSON_Delete(item);
        free(key);
    }
    return sl_output_json_line(whole, "submit");
}

// --- watching ------------------------------------------------------------------------------------

// Where it stands as long as it waits; each time that this changes.
static void show_state(struct submission *s, const cJSON *entry)
{
    char note[NOTE_BYTES];
    const char *state = sl_json_string(entry, "state");
    if (!*state)
        return;
    s->queued = strcmp(state, "queued") == 0;
    if (!s->queued)
        return;
    sl_job_table_note(entry, note, sizeof note);
    if (strcmp(note, s->note) == 0)
        return;
    snprintf(s->note, sizeof s->note, "%s", note);
    sl_progress_line(&s->view.progress, "%s: job %s%s%s", s->session.name, s->session.id,
                     *note ? ", " : "", note);
}

// Its place is also changed by what happens to others, and that is not told.
static int ask_place(struct submission *s)
{
    Sl__Control__List list = SL__CONTROL__LIST__INIT;
    Sl__Control__Envelope e = SL_ENVELOPE(LIST, list, &list);
    return sl_session_send(&s->session, &e);
}

static void take_list(struct submission *s, const char *json)
{
    cJSON *list = cJSON_Parse(json);
    const cJSON *entry;
    cJSON_ArrayForEach(entry, cJSON_GetObjectItemCaseSensitive(list, "jobs"))
    {
        if (strcmp(sl_json_string(entry, "id"), s->session.id) == 0)
            show_state(s, entry);
    }
    cJSON_Delete(list);
}

static int look(void *ctx, const Sl__Control__Envelope *m)
{
    struct submission *s = ctx;
    cJSON *entry;
    switch (m->body_case) {
    case SL__CONTROL__ENVELOPE__BODY_JOB_STATE:
        entry = cJSON_Parse(m->job_state->json);
        show_state(s, entry);
        cJSON_Delete(entry);
        break;
    case SL__CONTROL__ENVELOPE__BODY_ANSWER: take_list(s, m->answer->json); break;
    default: sl_run_view_message(&s->view, m); break;
    }
    return SL_OK;
}

static int look_on(struct submission *s)
{
    struct sl_job_end end;
    Sl__Control__Envelope *last;
    SL_TRY(sl_session_subscribe(&s->session, true, false));
    int rc;
    do {
        uint64_t until_ns = s->queued ? sl_now_ns() + PLACE_MS * 1000000ull : 0;
        rc = sl_session_await_end(&s->session, until_ns, look, s, &end, &last);
        if (rc == SL_ETIMEDOUT)
            SL_TRY(ask_place(s));
    } while (rc == SL_ETIMEDOUT);
    sl_run_view_end(&s->view);
    if (rc == SL_EABORTED)
        return sl_fail(rc,
                       "job '%s': not watching any more, it goes on: 'sluice logs -f %s' and "
                       "'sluice stats -f %s' look again, 'sluice stop %s' stops it",
                       s->session.name, s->session.id, s->session.id, s->session.id);
    if (rc < 0)
        return rc;
    if (last)
        rc = sl_job_check_result(&s->check, last->finished, s->output);
    sl_bus_message_free(last);
    return rc;
}

// --- the command ---------------------------------------------------------------------------------

static int submit_job(void *state)
{
    struct submission *s = state;
    char *json = NULL, note[NOTE_BYTES];
    cJSON *entry = NULL;
    // Without a daemon there is nothing to check for.
    int rc = sl_session_open_daemon(&s->where, &s->session);
    if (rc < 0)
        return rc;
    rc = sl_job_check_run(&s->check, true);
    if (rc < 0)
        return sl_job_check_status(rc);
    sl_dataset_close(&s->check.dataset);
    sl_interrupt_catch();
    s->session.quiet = s->check.quiet;
    SL_TRY(send_job(s, &json));
    rc = take_entry(s, json, &entry);
    if (rc == SL_OK && s->detach && s->output == SL_OUTPUT_JSON) {
        rc = print_entry(entry);
    } else if (rc == SL_OK && s->detach) {
        printf("%s\n", s->session.id);
        sl_job_table_note(entry, note, sizeof note);
        if (!s->check.quiet && *note)
            fprintf(stderr, "%s: job %s, %s\n", s->session.name, s->session.id, note);
    } else if (rc == SL_OK) {
        sl_run_view_init(&s->view, s->check.quiet, &s->check.config,
                         s->check.judging.choice.measure);
        show_state(s, entry);
        if (!s->note[0])
            sl_progress_line(&s->view.progress, "%s: job %s", s->session.name, s->session.id);
        rc = look_on(s);
    }
    cJSON_Delete(entry);
    free(json);
    return rc;
}

static void release(void *state)
{
    struct submission *s = state;
    sl_session_close(&s->session);
    sl_job_check_fini(&s->check);
}

#define AT(kind, field) SL_OPTION_AT(kind, submission, field)
// clang-format off
static const struct sl_option options[] = {
    {.name = "detach", .letter = 'd', AT(FLAG, detach),
     .help = "print the job's number and do not watch the job"},
    {.name = "output", .letter = 'o', AT(CHOICE, output), .choices = sl_output_names,
     .help = "what standard output gets: a summary, or the report as JSON; with --detach the "
             "number, or the job's entry as in 'sluice ps -o json' (schema sluice.job/1)"},
    {0},
};
// clang-format on

const struct sl_command sl_command_submit = {
    .name = "submit",
    .help = "give a job to the daemon, and watch it",
    .about = "Gives a job to the daemon, which starts it once all cores that it names are "
             "free: first come, first\nserved for each core. Everything that can be checked "
             "is checked first. Then watches it as 'sluice run'\ndoes and ends with the job's "
             "status; Ctrl-C ends the watching, and the job goes on. With\n\"resume\": "
             "\"auto\" in the job file a job goes on after the daemon was started again. A daemon "
             "elsewhere must find\nthe data set under the same path.",
    .example = "sluice submit job.json --detach\n"
               "sluice submit job.json --set epochs=50 --set name=long\n"
               "id=$(sluice submit job.json -d) && sluice wait $id",
    .operands = {{"JOB.json", offsetof(struct submission, check.job)}},
    .options = {{sl_job_check_options, offsetof(struct submission, check)},
                {options},
                {sl_session_options, offsetof(struct submission, where)}},
    .bytes = sizeof(struct submission),
    .run = submit_job,
    .fini = release,
};
