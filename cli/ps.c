/*
 * ps.c - `sluice ps`: the daemon's jobs and those of `sluice run`.
 */
#include <stdbool.h>
#include <stdio.h>
#include <time.h>

#include "cli/output.h"
#include "cli/command.h"
#include "cli/job_list.h"
#include "cli/job_table.h"
#include "common/base/error.h"
#include "common/text/json.h"

struct request {
    struct sl_session_where where;
    bool all;
    int output;
};

static double now_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

// Takes out what has long been over; how many that were.
static size_t leave_out(cJSON *jobs, double now)
{
    size_t n = 0;
    for (int i = cJSON_GetArraySize(jobs) - 1; i >= 0; i--) {
        if (sl_job_table_is_recent(cJSON_GetArrayItem(jobs, i), now))
            continue;
        cJSON_DeleteItemFromArray(jobs, i);
        n++;
    }
    return n;
}

static int show(const struct request *r, cJSON *list)
{
    cJSON *jobs = cJSON_GetObjectItemCaseSensitive(list, "jobs");
    const char *note = sl_json_string(list, "note");
    double now = now_seconds();
    size_t n_left_out = r->all ? 0 : leave_out(jobs, now);
    int n = cJSON_GetArraySize(jobs);
    if (r->output == SL_OUTPUT_JSON)
        SL_TRY(sl_output_json_line(cJSON_Duplicate(list, true), "ps"));
    // Nobody there is what the user should know first; with jobs of `sluice run` it is a note.
    if (*note && n == 0)
        return sl_fail(SL_ENOENT, "no job is running, and %s", note);
    if (*note)
        fprintf(stderr, "sluice: note: %s\n", note);
    if (r->output == SL_OUTPUT_TEXT)
        sl_job_table_print(list, now, sl_output_columns(), n_left_out, stdout);
    return SL_EXIT_OK;
}

static int list_jobs(void *state)
{
    const struct request *r = state;
    cJSON *list;
    SL_TRY(sl_job_list(&r->where, &list));
    int rc = show(r, list);
    cJSON_Delete(list);
    return rc;
}

#define AT(kind, field) SL_OPTION_AT(kind, request, field)
// clang-format off
static const struct sl_option options[] = {
    {.name = "all", .letter = 'a', AT(FLAG, all),
     .help = "also jobs that ended more than five minutes ago"},
    {0},
};
// clang-format on

const struct sl_command sl_command_ps = {
    .name = "ps",
    .help = "list jobs, and what those that wait are waiting for",
    .about = "Lists jobs: the daemon's, those that wait with what they wait for, and those of "
             "'sluice run' (id\n'run'). The split is samplers and trainers, as 1S 3T. With no "
             "daemon and no job the status is 2.\nJSON has the schema sluice.jobs/1, and its "
             "epochs count from 0.",
    .example = "sluice ps\nsluice ps --all -o json | jq -r '.jobs[] | [.id, .name, .state] | "
               "@tsv'",
    .options = {{options},
                {sl_output_option, offsetof(struct request, output)},
                {sl_session_options, offsetof(struct request, where)}},
    .bytes = sizeof(struct request),
    .run = list_jobs,
};
