/*
 * wait.c - `sluice wait JOB...`: until jobs are over; how they ended is the exit status.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/output.h"
#include "cli/command.h"
#include "cli/run_name.h"
#include "cli/session.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/interrupt.h"

struct awaited {
    struct sl_session session; // without a bus when `over`
    bool over;                 // known from its run directory
    struct sl_job_end end;
};

struct request {
    struct sl_session_where where;
    struct sl_text_list jobs;
    uint64_t timeout_s;
    int output;
    struct awaited *all;
};

static int begin(const struct request *r, const char *job, struct awaited *a)
{
    char why[2048], run[SL_RUN_NAME_BYTES];
    int rc = sl_session_open(&r->where, job, &a->session);
    if (rc == SL_OK)
        return sl_session_subscribe(&a->session, false, false);
    // A run directory of a job that has long been over.
    snprintf(why, sizeof why, "%s", sl_error_message());
    if (rc == SL_ENOENT && !r->where.connect && sl_run_name_find(job, run) == SL_OK &&
        sl_job_end_read(run, &a->end) == SL_OK) {
        a->over = true;
        snprintf(a->session.name, sizeof a->session.name, "%.*s", (int)sizeof a->session.name - 1,
                 job);
        return SL_OK;
    }
    return sl_fail(rc, "%s", why);
}

// Failed jobs are worse than those that could not run, and these than stopped ones.
static int severity(int exit_status)
{
    switch (exit_status) {
    case SL_EXIT_OK: return 0;
    case SL_EXIT_INTERRUPTED: return 1;
    case SL_EXIT_USAGE: return 2;
    default: return 3;
    }
}

static int finish(const struct request *r, struct awaited *a, uint64_t until_ns)
{
    const struct sl_session *s = &a->session;
    char message[sizeof a->end.message + 64];
    if (!a->over) {
        int rc = sl_session_await_end(&a->session, until_ns, NULL, NULL, &a->end, NULL);
        if (rc == SL_ETIMEDOUT)
            return sl_fail(rc, "job '%s': it is not over after %" PRIu64 " s", s->name,
                           r->timeout_s);
        if (rc == SL_EABORTED)
            return sl_fail(rc, "job '%s': not waiting any more; it goes on", s->name);
        if (rc < 0)
            return rc;
    }
    sl_job_end_text(&a->end, message, sizeof message);
    sl_answer_print(r->output, s->name, s->id, a->end.status, &a->end.exit_status, message);
    return a->end.exit_status;
}

static int wait_for_all(void *state)
{
    struct request *r = state;
    int worst = SL_EXIT_OK;
    r->all = calloc(r->jobs.n, sizeof *r->all);
    if (!r->all)
        return sl_fail(SL_ENOMEM, "wait: no memory for %zu jobs", r->jobs.n);
    sl_interrupt_catch();
    // A word that is no job ends it before anything is waited for.
    for (size_t i = 0; i < r->jobs.n; i++)
        SL_TRY(begin(r, r->jobs.items[i], &r->all[i]));
    uint64_t until_ns = r->timeout_s ? sl_now_ns() + r->timeout_s * 1000000000u : 0;
    for (size_t i = 0; i < r->jobs.n; i++) {
        int rc = finish(r, &r->all[i], until_ns);
        SL_TRY(rc);
        if (severity(rc) > severity(worst))
            worst = rc;
    }
    return worst;
}

static void release(void *state)
{
    struct request *r = state;
    for (size_t i = 0; r->all && i < r->jobs.n; i++)
        sl_session_close(&r->all[i].session);
    free(r->all);
}

#define AT(kind, field) SL_OPTION_AT(kind, request, field)
// clang-format off
static const struct sl_option options[] = {
    {.name = "timeout", AT(UINT, timeout_s), .placeholder = "SECONDS", .no_default = true,
     .max = 1e9, .help = "give up after so long (status 1); without it there is no end"},
    {0},
};
// clang-format on

const struct sl_command sl_command_wait = {
    .name = "wait",
    .of_ended_jobs = true,
    .help = "wait until jobs are over; their exit status",
    .about = "Waits until jobs are over and ends with their exit status: 0 done, 1 failed, 2 "
             "could not run, 130\nstopped; of several jobs with that of the worst. JOB is a "
             "number of 'sluice ps', a name or a run\ndirectory, also of a job that has long "
             "been over. Ctrl-C ends the waiting, not the job.",
    .example = "sluice submit job.json --detach && sluice wait products-sage && ./publish\n"
               "sluice wait 3 4 --timeout 3600",
    .options = {{options},
                {sl_output_option, offsetof(struct request, output)},
                {sl_session_options, offsetof(struct request, where)}},
    .rest = {"JOB", offsetof(struct request, jobs)},
    .bytes = sizeof(struct request),
    .run = wait_for_all,
    .fini = release,
};
