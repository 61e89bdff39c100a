/*
 * jobs.c - `sluice ps`: the daemon's jobs and those of `sluice run`.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "broker/cli/answer.h"
#include "broker/cli/command.h"
#include "broker/cli/jobs_text.h"
#include "broker/cli/options.h"
#include "broker/cli/session.h"
#include "common/base/bits.h"
#include "common/base/error.h"

static unsigned terminal_columns(void)
{
    struct winsize size;
    if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0)
        return 0;
    return size.ws_col;
}

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
        if (sl_jobs_is_recent(cJSON_GetArrayItem(jobs, i), now))
            continue;
        cJSON_DeleteItemFromArray(jobs, i);
        n++;
    }
    return n;
}

static int print_json(const cJSON *list)
{
    char *text = cJSON_PrintUnformatted(list);
    if (!text)
        return sl_fail(SL_ENOMEM, "ps: no memory for the list");
    printf("%s\n", text);
    free(text);
    return SL_OK;
}

static int show(cJSON *list, bool all, int output)
{
    cJSON *jobs = cJSON_GetObjectItemCaseSensitive(list, "jobs");
    const cJSON *note = cJSON_GetObjectItemCaseSensitive(list, "note");
    bool no_daemon = cJSON_IsString(note);
    double now = now_seconds();
    size_t n_left_out = all ? 0 : leave_out(jobs, now);
    int n = cJSON_GetArraySize(jobs);
    if (output == SL_OUTPUT_JSON)
        SL_TRY(print_json(list));
    // Nobody there is what the user should know first; with jobs of `sluice run` it is a note.
    if (no_daemon && n == 0)
        return sl_fail(SL_ENOENT, "no job is running, and %s", note->valuestring);
    if (no_daemon)
        fprintf(stderr, "sluice: note: %s\n", note->valuestring);
    if (output == SL_OUTPUT_TEXT)
        sl_jobs_print(list, now, terminal_columns(), n_left_out, stdout);
    return SL_EXIT_OK;
}

int sl_command_ps(int argc, char **argv)
{
    struct sl_session_where where = {0};
    bool all = false;
    int output = SL_OUTPUT_TEXT;
    char *json;
    struct sl_option options[2 + SL_SESSION_OPTIONS] = {
        {.name = "all",
         .letter = 'a',
         .type = SL_OPTION_FLAG,
         .value = &all,
         .help = "also jobs that ended more than five minutes ago"},
        sl_output_option(&output),
    };
    sl_session_options(&where, options + 2);
    const struct sl_command_usage usage = {
        .command = "ps",
        .about = "Lists jobs: the daemon's, those that wait with what they wait for, and those of "
                 "'sluice run' (id\n'run'). The split is samplers and trainers, as 1S 3T. With no "
                 "daemon and no job the status is 2.\nJSON has the schema sluice.jobs/1, and its "
                 "epochs count from 0.",
        .example = "sluice ps\nsluice ps --all -o json | jq -r '.jobs[] | [.id, .name, .state] | "
                   "@tsv'",
        .options = options,
        .n_options = SL_COUNT_OF(options),
    };
    int rc = sl_options_parse(&usage, argc, argv);
    if (rc != SL_OK)
        return rc == SL_OPTIONS_HELP ? SL_EXIT_OK : rc;
    SL_TRY(sl_session_list(&where, &json));
    cJSON *list = cJSON_Parse(json);
    free(json);
    if (!list)
        return sl_fail(SL_EPROTO, "ps: the list of jobs is no JSON");
    rc = show(list, all, output);
    cJSON_Delete(list);
    return rc;
}
