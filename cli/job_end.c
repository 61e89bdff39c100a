#include "cli/job_end.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "cli/command.h"
#include "cli/json_file.h"
#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/json_print.h"
#include "common/text/json.h"

enum { REPORT_BYTES_MAX = 256 << 20 };

static const struct {
    const char *status;
    int exit_status;
} statuses[] = {
    {"done", SL_EXIT_OK},
    {"failed", SL_EXIT_FAILED},
    {"refused", SL_EXIT_USAGE},
    {"stopped", SL_EXIT_INTERRUPTED},
};

void sl_job_end_on_finished(const Sl__Control__Finished *f, struct sl_job_end *out)
{
    out->exit_status = f->exit_status;
    snprintf(out->status, sizeof out->status, "failed");
    for (size_t i = 0; i < SL_COUNT_OF(statuses); i++)
        if (statuses[i].exit_status == f->exit_status)
            snprintf(out->status, sizeof out->status, "%s", statuses[i].status);
    snprintf(out->message, sizeof out->message, "%s", f->message);
    snprintf(out->directory, sizeof out->directory, "%s", f->run_directory);
}

char *sl_job_end_text(const struct sl_job_end *end, char *buf, size_t bytes)
{
    // Its message may say it in the same word.
    bool said = strncmp(end->message, end->status, strlen(end->status)) == 0;
    snprintf(buf, bytes, "%s%s%s", said ? "" : end->status, said || !end->message[0] ? "" : ": ",
             end->message);
    return buf;
}

static int read_end(const char *directory, const cJSON *report, struct sl_job_end *out)
{
    const char *status = sl_json_string(report, "status");
    bool known = false;
    for (size_t i = 0; i < SL_COUNT_OF(statuses); i++) {
        if (strcmp(status, statuses[i].status) != 0)
            continue;
        out->exit_status = statuses[i].exit_status;
        known = true;
    }
    snprintf(out->status, sizeof out->status, "%s", *status ? status : "?");
    snprintf(out->message, sizeof out->message, "%s", sl_json_string(report, "message"));
    snprintf(out->directory, sizeof out->directory, "%s", directory);
    if (!known)
        return sl_fail(SL_EFORMAT,
                       "'%s/report.json': found status '%s', wanted that of a run that is over",
                       directory, out->status);
    return SL_OK;
}

static int read_report(const char *directory, cJSON **out)
{
    char path[PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/report.json", directory);
    return sl_json_file_read(path, REPORT_BYTES_MAX, out);
}

int sl_job_end_read(const char *directory, struct sl_job_end *out)
{
    cJSON *report;
    memset(out, 0, sizeof *out);
    SL_TRY(read_report(directory, &report));
    int rc = read_end(directory, report, out);
    cJSON_Delete(report);
    return rc;
}

static bool is_of_broker(const cJSON *report, pid_t broker)
{
    const cJSON *p;
    cJSON_ArrayForEach(p, sl_json_at(report, "processes"))
    {
        if (strcmp(sl_json_string(p, "name"), "broker") == 0)
            return sl_json_number(p, "pid") == broker;
    }
    return false;
}

char *sl_job_end_report(const char *directory, pid_t broker, struct sl_job_end *out)
{
    cJSON *report = NULL;
    char *text = NULL;
    memset(out, 0, sizeof *out);
    if (read_report(directory, &report) == SL_OK && is_of_broker(report, broker) &&
        read_end(directory, report, out) == SL_OK)
        text = sl_json_pages(report);
    cJSON_Delete(report);
    return text;
}
