/*
 * logs.c - `sluice logs`: what a job's processes have written, in the order of time (log_merge.h).
 *
 * The files are read, whether their writers still live or not; the session only says where they are
 * and when they are complete.
 */
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "cli/output.h"
#include "cli/command.h"
#include "cli/log_merge.h"
#include "cli/run_name.h"
#include "cli/session.h"
#include "common/text/units.h"
#include "common/base/error.h"
#include "common/base/interrupt.h"
#include "common/base/log.h"

enum { LOOK_MS = 200, STAMP_BYTES = 15 };

struct request {
    struct sl_session_where where;
    const char *job, *worker;
    bool follow;
    uint64_t lines;
    bool lines_given;
    int output;
    struct sl_session session; // without a bus: a run directory of a job that is over
    struct sl_log_merge merge;
    bool colour;
};

// --- a line --------------------------------------------------------------------------------------

static void print_text(const struct request *r, const struct sl_log_line *line)
{
    const char *colour = !r->colour                    ? ""
                         : line->level == SL_LOG_ERROR ? "\033[1;31m"
                         : line->level == SL_LOG_WARN  ? "\033[33m"
                                                       : "";
    printf("%s%s%s\n", colour, line->text, *colour ? "\033[0m" : "");
}

static void print_json(const struct request *r, const struct sl_log_line *line)
{
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "schema", "sluice.log/1");
    cJSON_AddNumberToObject(o, "time", (double)line->time_ms / 1000);
    cJSON_AddStringToObject(o, "job", r->session.name);
    cJSON_AddStringToObject(o, "worker", line->worker);
    cJSON_AddItemToObject(o, "level",
                          line->level < 0 ? cJSON_CreateNull()
                                          : cJSON_CreateString(sl_log_levels[line->level]));
    cJSON_AddStringToObject(o, "text", line->level < 0 ? line->text : line->text + STAMP_BYTES);
    sl_output_json_line(o, "logs");
}

// What the last look has brought; the newest lines only, when so many were asked for.
static void print_lines(const struct request *r, bool first)
{
    const struct sl_log_merge *m = &r->merge;
    char bytes[SL_UNITS_BYTES];
    size_t from = 0;
    if (first && m->left_out_bytes)
        fprintf(stderr, "sluice: note: %s of earlier lines are left out: they are in '%s'\n",
                sl_units_bytes(bytes, m->left_out_bytes), m->directory);
    if (first && r->lines_given && m->n_lines > r->lines)
        from = m->n_lines - (size_t)r->lines;
    for (size_t i = from; i < m->n_lines; i++)
        if (r->output == SL_OUTPUT_JSON)
            print_json(r, &m->lines[i]);
        else
            print_text(r, &m->lines[i]);
    fflush(stdout);
}

// --- where they are ------------------------------------------------------------------------------

// A run directory of a job that nobody knows any more.
static bool is_run_directory(const char *path)
{
    char log[PATH_MAX];
    struct stat st;
    snprintf(log, sizeof log, "%.4000s/log", path);
    return stat(log, &st) == 0 && S_ISDIR(st.st_mode);
}

static int open_job(struct request *r)
{
    struct sl_session *s = &r->session;
    char run[SL_RUN_NAME_BYTES], why[2048];
    int rc = sl_session_open(&r->where, r->job, s);
    if (rc == SL_OK && s->daemon && r->where.connect)
        return sl_fail(SL_EUNSUPPORTED,
                       "job '%s': its logs are files on the daemon's machine, in '%s/log': read "
                       "them there; 'sluice stats --follow' works from here",
                       s->name, s->output);
    if (rc != SL_ENOENT || !r->job || r->where.connect)
        return rc;
    snprintf(why, sizeof why, "%s", sl_error_message());
    snprintf(run, sizeof run, "%s", r->job);
    rc = is_run_directory(run) ? SL_OK : sl_run_name_find(r->job, run);
    if (rc < 0)
        return rc == SL_ENOENT ? sl_fail(rc, "%s", why) : rc;
    snprintf(s->name, sizeof s->name, "%.*s", (int)sizeof s->name - 1, run);
    snprintf(s->output, sizeof s->output, "%.*s", (int)sizeof s->output - 1, run);
    return SL_OK;
}

// --- following -----------------------------------------------------------------------------------

// Until the job is over and everything that it wrote has been shown.
static int follow(struct request *r)
{
    struct sl_session *s = &r->session;
    bool over = false;
    SL_TRY(sl_session_subscribe(s, false, false));
    while (!over && !sl_output_is_closed()) {
        Sl__Control__Envelope *m;
        int rc = sl_session_receive(s, LOOK_MS, &m);
        if (rc == SL_EABORTED)
            return SL_EXIT_INTERRUPTED; // Ctrl-C is how this ends
        if (rc == SL_EFAILED && s->daemon)
            return rc;
        if (rc < 0 && rc != SL_EAGAIN && rc != SL_EFAILED)
            return rc;
        over = rc == SL_EFAILED ||
               (rc == SL_OK && m->body_case == SL__CONTROL__ENVELOPE__BODY_FINISHED);
        if (rc == SL_OK)
            sl_bus_message_free(m);
        rc = sl_log_merge_poll(&r->merge);
        if (rc < 0 && (rc != SL_ENOENT || r->merge.n_files > 0))
            return rc;
        print_lines(r, false);
    }
    return SL_EXIT_OK;
}

static int logs(void *state)
{
    struct request *r = state;
    struct sl_session *s = &r->session;
    SL_TRY(open_job(r));
    sl_log_merge_init(&r->merge, s->output, s->log, r->worker);
    sl_interrupt_catch();
    int rc = sl_log_merge_poll(&r->merge);
    bool nothing_yet = rc == SL_ENOENT && r->merge.n_files == 0;
    if (nothing_yet && !(r->follow && s->bus))
        return sl_fail(SL_EFAILED, "job '%s': it has written nothing yet: there is no '%s'%s%s",
                       s->name, r->merge.directory, s->state[0] ? "; it is " : "", s->state);
    if (rc < 0 && !nothing_yet)
        return rc;
    print_lines(r, true);
    return r->follow && s->bus ? follow(r) : SL_EXIT_OK;
}

static int init(const struct sl_command *c, void *state)
{
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
    ((struct request *)state)->colour =
        isatty(STDOUT_FILENO) && !(no_color && *no_color) && term && strcmp(term, "dumb") != 0;
    return SL_OK;
}

static void release(void *state)
{
    struct request *r = state;
    sl_log_merge_fini(&r->merge);
    sl_session_close(&r->session);
}

#define AT(kind, field) SL_OPTION_AT(kind, request, field)
#define GIVEN(field)    SL_OPTION_GIVEN(request, field)
// clang-format off
static const struct sl_option options[] = {
    {.name = "follow", .letter = 'f', AT(FLAG, follow),
     .help = "go on with what is written from now on, until the job ends"},
    {.name = "worker", .letter = 'w', AT(TEXT, worker), .placeholder = "NAME",
     .help = "only of this process: broker, 'sampler 0', 'trainer 1', ..."},
    {.name = "lines", .letter = 'n', AT(UINT, lines), .placeholder = "N", GIVEN(lines_given),
     .no_default = true, .max = 1e9, .help = "only the newest N lines to begin with"},
    {0},
};
// clang-format on

const struct sl_command sl_command_logs = {
    .name = "logs",
    .of_ended_jobs = true,
    .help = "what a job's processes have written",
    .about = "Shows what a job's broker, samplers and trainers have written, in the order of "
             "time. JOB is a number\nof 'sluice ps', a name or a run directory, also of a job "
             "that has long been over; it may be left\nout when one job runs. JSON has a line "
             "each: time, job, worker, level, text (schema sluice.log/1).",
    .example = "sluice logs products-sage --follow\n"
               "sluice logs runs/products-sage --worker 'trainer 1' --lines 50",
    .operands = {{"JOB", offsetof(struct request, job), true}},
    .options = {{options},
                {sl_output_option, offsetof(struct request, output)},
                {sl_session_options, offsetof(struct request, where)}},
    .bytes = sizeof(struct request),
    .init = init,
    .run = logs,
    .fini = release,
};
