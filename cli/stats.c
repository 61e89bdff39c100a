/*
 * stats.c - `sluice stats`: what a job does, once or once a second.
 *
 * A line is the broker's own (sluice.stats/1): as JSON it is handed on as it came, every other form
 * is made of it. Nothing is computed here, so the page, `top` and this command show the same.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "cli/output.h"
#include "cli/command.h"
#include "cli/session.h"
#include "cli/stats_text.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/interrupt.h"
#include "common/schema/words.h"

enum { FIRST_LINE_MS = 5000, SLICE_MS = 1000 };

enum output { OUTPUT_TEXT, OUTPUT_JSON, OUTPUT_CSV };

struct request {
    struct sl_session_where where;
    const char *job;
    bool follow;
    uint64_t count; // 0: no end
    int output;
    uint64_t n_lines; // shown so far
    cJSON *limits;    // by job: what was last said to limit it
    struct sl_session *all;
    size_t n;
};

// --- showing -------------------------------------------------------------------------------------

// What limits the job is told below its line where that has no room for it, and only when it is
// another thing than before.
static void show_line(struct request *r, const struct sl_stats *stats)
{
    char kind[512];
    unsigned columns = sl_output_columns();
    bool told = sl_stats_text_line(stats, columns, stdout);
    const char *key = *stats->id ? stats->id : stats->job;
    putchar('\n');
    sl_stats_text_bottleneck_kind(stats, kind, sizeof kind);
    const char *before = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(r->limits, key));
    if (before && strcmp(before, kind) == 0)
        return;
    if (!told)
        sl_stats_text_bottleneck(stats, columns, stdout);
    cJSON_DeleteItemFromObjectCaseSensitive(r->limits, key);
    cJSON_AddStringToObject(r->limits, key, kind);
}

static void show_text(struct request *r, const struct sl_stats *stats)
{
    if (r->output == OUTPUT_CSV) {
        if (r->n_lines == 0)
            sl_stats_text_csv_head(stdout);
        sl_stats_text_csv(stats, stdout);
    } else if (r->follow) {
        show_line(r, stats);
    } else {
        sl_stats_text_page(stats, stdout);
    }
}

static void show(struct request *r, const char *json)
{
    struct sl_stats stats;
    cJSON *line = r->output == OUTPUT_JSON ? NULL : cJSON_Parse(json);
    if (r->output == OUTPUT_JSON) {
        printf("%s\n", json);
    } else if (line && sl_stats_take(line, &stats) == SL_OK) {
        show_text(r, &stats);
        sl_stats_fini(&stats);
    } else {
        return; // of another version; as JSON it would be handed on
    }
    fflush(stdout); // the reader of a pipe has the line at once
    r->n_lines++;
}

// --- once ----------------------------------------------------------------------------------------

static int check_state(const struct request *r, const struct sl_session *s)
{
    if (sl_job_state_is_over(s->state))
        return sl_fail(SL_EFAILED,
                       "job '%s': it is over (%s): 'sluice report %s' tells how it went", s->name,
                       s->state, s->name);
    if (r->follow)
        return SL_OK; // it may begin
    if (!strcmp(s->state, "queued") || !strcmp(s->state, "interrupted"))
        return sl_fail(SL_EFAILED,
                       "job '%s': it does not run yet (%s): 'sluice ps' tells what it waits for, "
                       "'sluice stats --follow %s' begins with it",
                       s->name, s->state, s->name);
    return SL_OK;
}

static int show_once(struct request *r, struct sl_session *s)
{
    uint64_t until = sl_now_ns() + FIRST_LINE_MS * 1000000ull;
    while (r->n_lines == 0) {
        Sl__Control__Envelope *m;
        int rc = sl_session_receive(s, SLICE_MS, &m);
        if (rc == SL_EAGAIN && sl_now_ns() > until)
            return sl_fail(SL_ETIMEDOUT, "job '%s': its broker has sent nothing within %d s",
                           s->name, FIRST_LINE_MS / 1000);
        if (rc == SL_EAGAIN)
            continue;
        if (rc < 0)
            return rc;
        bool over = m->body_case == SL__CONTROL__ENVELOPE__BODY_FINISHED;
        if (m->body_case == SL__CONTROL__ENVELOPE__BODY_STATS)
            show(r, m->stats->json);
        sl_bus_message_free(m);
        if (over && r->n_lines == 0)
            return sl_fail(SL_EFAILED, "job '%s': it has just ended", s->name);
    }
    return SL_EXIT_OK;
}

// --- following -----------------------------------------------------------------------------------

// Whether a session has said its last: its only job is over.
static bool take(struct request *r, struct sl_session *s, Sl__Control__Envelope *m)
{
    bool all = s->daemon && !s->job[0];
    bool over = !all && m->body_case == SL__CONTROL__ENVELOPE__BODY_FINISHED;
    if (m->body_case == SL__CONTROL__ENVELOPE__BODY_STATS)
        show(r, m->stats->json);
    sl_bus_message_free(m);
    return over;
}

// One turn through all sessions; those that are over are closed.
static int turn(struct request *r, struct sl_session *all, size_t n, size_t *n_open)
{
    // A single one is waited for; several are looked at, with a pause that nobody sees.
    int timeout_ms = *n_open == 1 ? SLICE_MS : 50;
    for (size_t i = 0; i < n; i++) {
        Sl__Control__Envelope *m;
        if (!all[i].bus)
            continue;
        int rc = sl_session_receive(&all[i], timeout_ms, &m);
        bool over = rc == SL_OK && take(r, &all[i], m);
        if (rc < 0 && rc != SL_EAGAIN && (all[i].daemon || rc != SL_EFAILED))
            return rc;
        if (over || rc == SL_EFAILED) {
            sl_session_close(&all[i]);
            --*n_open;
        }
        if (r->count && r->n_lines >= r->count)
            return SL_OK;
    }
    return SL_OK;
}

static int follow(struct request *r, struct sl_session *all, size_t n)
{
    size_t n_open = n;
    for (size_t i = 0; i < n; i++)
        SL_TRY(sl_session_subscribe(&all[i], false, true));
    while (n_open > 0 && !(r->count && r->n_lines >= r->count) && !sl_output_is_closed()) {
        int rc = turn(r, all, n, &n_open);
        if (rc == SL_EABORTED)
            return SL_EXIT_INTERRUPTED; // Ctrl-C is how this ends
        if (rc < 0)
            return rc;
    }
    return SL_EXIT_OK;
}

// --- the command ---------------------------------------------------------------------------------

static int stats(void *state)
{
    struct request *r = state;
    bool of_all = !r->job && (r->follow || r->count > 0);
    r->follow = r->follow || r->count > 0;
    r->limits = cJSON_CreateObject();
    r->all = of_all ? NULL : calloc(1, sizeof *r->all);
    if (of_all) {
        SL_TRY(sl_session_open_all(&r->where, &r->all, &r->n));
    } else if (!r->all) {
        return sl_fail(SL_ENOMEM, "stats: no memory");
    } else {
        SL_TRY(sl_session_open(&r->where, r->job, r->all));
        r->n = 1;
        SL_TRY(check_state(r, r->all));
    }
    sl_interrupt_catch();
    if (r->follow)
        return follow(r, r->all, r->n);
    SL_TRY(sl_session_subscribe(r->all, false, true));
    return show_once(r, r->all);
}

static void release(void *state)
{
    struct request *r = state;
    for (size_t i = 0; i < r->n; i++)
        sl_session_close(&r->all[i]);
    free(r->all);
    cJSON_Delete(r->limits);
}

static const char *const outputs[] = {"text", "json", "csv", NULL};

#define AT(kind, field) SL_OPTION_AT(kind, request, field)
// clang-format off
static const struct sl_option options[] = {
    {.name = "follow", .letter = 'f', AT(FLAG, follow),
     .help = "a line a second until the job ends; without JOB of all jobs, and of those that the "
             "daemon is given meanwhile"},
    {.name = "count", .letter = 'n', AT(UINT, count), .placeholder = "N", .no_default = true,
     .min = 1, .max = 1e9, .help = "end after N lines; goes with --follow"},
    {.name = "output", .letter = 'o', AT(CHOICE, output), .choices = outputs,
     .help = "lines for people; JSON as the broker made it, schema sluice.stats/1; or CSV: time, "
             "job, id, state, phase, epoch, epochs, done, total, ... in columns that are named in "
             "the first line and only ever get more, at the end. In JSON and CSV epochs count from "
             "0, in lines for people from 1"},
    {0},
};
// clang-format on

const struct sl_command sl_command_stats = {
    .name = "stats",
    .help = "what a job does: stages, queue, rates, what limits it",
    .about = "Shows what a job does: how far it is, how busy its samplers and trainers are, "
             "what each stage costs,\nthe queue between them, and what limits it. Shares and "
             "rates are of the last three seconds.\nJOB is a number of 'sluice ps', a name or "
             "a run directory; it may be left out when there is one.",
    .example = "sluice stats\n"
               "sluice stats products-sage --follow\n"
               "sluice stats --follow -o json | jq -r '[.job, .epoch, .bottleneck] | @tsv'\n"
               "sluice stats products-sage --follow -o csv >stats.csv",
    .operands = {{"JOB", offsetof(struct request, job), true}},
    .options = {{options}, {sl_session_options, offsetof(struct request, where)}},
    .bytes = sizeof(struct request),
    .run = stats,
    .fini = release,
};
