#include "broker/cli/job_end.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "broker/cli/command.h"
#include "broker/cli/json_file.h"
#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"

enum { REPORT_BYTES_MAX = 256 << 20, SLICE_MS = 1000 };

static const struct {
    const char *status;
    int exit_status;
} statuses[] = {
    {"done", SL_EXIT_OK},
    {"failed", SL_EXIT_FAILED},
    {"refused", SL_EXIT_USAGE},
    {"stopped", SL_EXIT_INTERRUPTED},
};

static void take_finished(const Sl__Control__Finished *f, struct sl_job_end *out)
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

int sl_job_end_read(const char *directory, struct sl_job_end *out)
{
    char path[PATH_MAX + 32];
    cJSON *report;
    memset(out, 0, sizeof *out);
    snprintf(path, sizeof path, "%s/report.json", directory);
    SL_TRY(sl_json_file_read(path, REPORT_BYTES_MAX, &report));
    const char *status = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(report, "status"));
    const char *message = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(report, "message"));
    bool known = false;
    for (size_t i = 0; status && i < SL_COUNT_OF(statuses); i++) {
        if (strcmp(status, statuses[i].status) != 0)
            continue;
        out->exit_status = statuses[i].exit_status;
        known = true;
    }
    snprintf(out->status, sizeof out->status, "%s", status ? status : "?");
    snprintf(out->message, sizeof out->message, "%s", message ? message : "");
    snprintf(out->directory, sizeof out->directory, "%s", directory);
    cJSON_Delete(report);
    if (!known)
        return sl_fail(SL_EFORMAT, "'%s': found status '%s', wanted that of a run that is over",
                       path, out->status);
    return SL_OK;
}

// Of this session's job: a daemon tells of all that were asked for.
static bool is_mine(const struct sl_session *s, const Sl__Control__Envelope *m)
{
    return !s->daemon || !*m->job || strcmp(m->job, s->id) == 0 || strcmp(m->job, s->name) == 0;
}

int sl_job_end_await(struct sl_session *s, uint64_t until_ns, sl_job_end_look *look, void *ctx,
                     struct sl_job_end *out, Sl__Control__Envelope **last)
{
    memset(out, 0, sizeof *out);
    if (last)
        *last = NULL;
    for (;;) {
        Sl__Control__Envelope *m;
        uint64_t now = sl_now_ns();
        if (until_ns && now >= until_ns)
            return SL_ETIMEDOUT;
        uint64_t left_ms = until_ns ? (until_ns - now) / 1000000u + 1 : SLICE_MS;
        int rc = sl_session_receive(s, (int)SL_MIN(left_ms, (uint64_t)SLICE_MS), &m);
        if (rc == SL_EAGAIN)
            continue;
        // Its broker has gone without a last word: what it left tells.
        if (rc == SL_EFAILED && !s->daemon)
            return sl_job_end_read(s->output, out) == SL_OK
                       ? SL_OK
                       : sl_fail(SL_EFAILED,
                                 "job '%s': it ended without a report: its broker was killed; '%s' "
                                 "may hold an unfinished run",
                                 s->name, s->output);
        if (rc < 0)
            return rc;
        bool over = m->body_case == SL__CONTROL__ENVELOPE__BODY_FINISHED && is_mine(s, m);
        if (over)
            take_finished(m->finished, out);
        else if (look)
            rc = look(ctx, m);
        if (over && last)
            *last = m;
        else
            sl_bus_message_free(m);
        if (over || rc < 0)
            return rc;
    }
}
