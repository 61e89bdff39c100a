#include "broker/daemon/archive.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "broker/rundir/run_reader.h"
#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/json_print.h"
#include "common/text/json.h"

enum { MESSAGE_SPARE_BYTES = 64 << 10 };

struct request {
    uv_work_t work;
    struct sl_daemon *daemon;
    struct sl_bus_peer peer;
    bool describes; // else it is for Finished
    // A copy of the entry, which may be gone when the work is done; what it owns is not copied, but
    // for the job's text. Files that are older than the job are of another run.
    struct sl_entry of;
    char *text; // the answer (owned)
};

// --- files ---------------------------------------------------------------------------------------

static double mtime_of(const struct stat *st)
{
    return (double)st->st_mtim.tv_sec + (double)st->st_mtim.tv_nsec * 1e-9;
}

// Whether a file of the run directory can be told: it is small enough for a message, and not older
// than `since`. Where there is none it depends on whether that is allowed.
static bool is_good(const char *output, const char *name, double since, bool may_lack)
{
    char path[SL_CONFIG_PATH_BYTES + 32];
    struct stat st;
    snprintf(path, sizeof path, "%s/%s", output, name);
    if (stat(path, &st) != 0)
        return may_lack;
    return S_ISREG(st.st_mode) && mtime_of(&st) >= since && st.st_size <= SL_ARCHIVE_FILE_MAX;
}

// RUN/report.json (owned); NULL when there is none, or it was written before `since`.
static cJSON *read_report(const char *output, double since)
{
    char path[SL_CONFIG_PATH_BYTES + 32], *text = NULL;
    struct stat st;
    snprintf(path, sizeof path, "%s/report.json", output);
    if (stat(path, &st) != 0 || mtime_of(&st) < since ||
        sl_run_reader_report_text(output, &text) < 0)
        return NULL;
    cJSON *report = cJSON_Parse(text);
    free(text);
    return report;
}

bool sl_archive_outcome(const char *output, double since, char status[16], char *message,
                        size_t bytes)
{
    cJSON *report = read_report(output, since);
    snprintf(status, 16, "%s", sl_json_string(report, "status"));
    snprintf(message, bytes, "%s", sl_json_string(report, "message"));
    cJSON_Delete(report);
    return status[0] != '\0';
}

// --- describing ----------------------------------------------------------------------------------

static void set(cJSON *j, const char *key, cJSON *value)
{
    if (cJSON_HasObjectItem(j, key))
        cJSON_ReplaceItemInObjectCaseSensitive(j, key, value);
    else
        cJSON_AddItemToObject(j, key, value);
}

// What the run directory tells, if this job has left anything there.
static cJSON *read_account(const struct request *r)
{
    static const char *const lists[] = {"devices", "epochs",   "allocations",
                                        "scales",  "restarts", "events"};
    cJSON *j = NULL;
    // What was there before the job was submitted is another run's.
    bool fits = is_good(r->of.output, "config.json", r->of.submitted, false) &&
                is_good(r->of.output, "report.json", 0, true) &&
                is_good(r->of.output, "metrics.jsonl", 0, true) &&
                is_good(r->of.output, "events.jsonl", 0, true);
    if (fits && sl_run_reader_describe(r->of.output, &j) == SL_OK)
        return j;
    j = cJSON_CreateObject();
    cJSON_AddStringToObject(j, "schema", SL_DESCRIBE_SCHEMA);
    for (size_t i = 0; i < SL_COUNT_OF(lists); i++)
        cJSON_AddArrayToObject(j, lists[i]);
    cJSON_AddNullToObject(j, "stats");
    return j;
}

static char *describe(const struct request *r)
{
    cJSON *j = read_account(r);
    set(j, "job", cJSON_CreateString(r->of.name));
    set(j, "id", cJSON_CreateString(r->of.id));
    set(j, "state", cJSON_CreateString(sl_entry_state_name(r->of.state)));
    set(j, "output", cJSON_CreateString(r->of.output));
    set(j, "pid", cJSON_CreateNull());
    set(j, "started", r->of.started > 0 ? cJSON_CreateNumber(r->of.started) : cJSON_CreateNull());
    if (!cJSON_HasObjectItem(j, "config"))
        set(j, "config", cJSON_Parse(r->of.config_json));
    char *text = sl_json_line(j);
    // The epochs are in the report as well.
    if (text && strlen(text) > SL_BUS_MESSAGE_MAX - MESSAGE_SPARE_BYTES) {
        free(text);
        set(j, "epochs", cJSON_CreateArray());
        text = sl_json_line(j);
    }
    cJSON_Delete(j);
    return text;
}

static void on_work(uv_work_t *work)
{
    struct request *r = work->data;
    if (r->describes)
        r->text = describe(r);
    else if (is_good(r->of.output, "report.json", r->of.submitted, false))
        sl_run_reader_report_text(r->of.output, &r->text); // NULL on an error
    // A job that was refused when it began has left none.
    if (access(r->of.output, F_OK) != 0)
        r->of.output[0] = '\0';
}

static void send_finished(struct request *r)
{
    Sl__Control__Finished finished = SL__CONTROL__FINISHED__INIT;
    Sl__Control__Envelope body = SL_ENVELOPE(FINISHED, finished, &finished);
    finished.exit_status = r->of.exit_status;
    finished.message = r->of.message;
    finished.run_directory = r->of.output;
    if (r->text)
        finished.report_json = r->text;
    body.job = r->of.id;
    sl_bus_send(r->daemon->bus, &r->peer, &body);
}

static void after_work(uv_work_t *work, int status)
{
    struct request *r = work->data;
    if (!r->describes)
        send_finished(r);
    else if (r->text)
        sl_daemon_answer(r->daemon, &r->peer, SL_OK, "", r->text);
    else
        sl_daemon_answer(r->daemon, &r->peer, SL_ENOMEM, "no memory to describe the job", NULL);
    r->daemon->n_archived--;
    free(r->of.config_json);
    free(r->text);
    free(r);
}

static void ask(struct sl_daemon *d, const struct sl_entry *e, const struct sl_bus_peer *peer,
                bool describes)
{
    struct request *r = d->n_archived < SL_ARCHIVE_AT_ONCE ? calloc(1, sizeof *r) : NULL;
    char *config_json = r ? strdup(e->config_json) : NULL;
    if (!config_json) {
        free(r);
        sl_daemon_answer(d, peer, SL_EAGAIN, "too much is asked at once: try again", NULL);
        return;
    }
    r->daemon = d;
    r->peer = *peer;
    r->describes = describes;
    r->of = *e;
    r->of.config_json = config_json;
    r->work.data = r;
    d->n_archived++;
    if (uv_queue_work(&d->loop.uv, &r->work, on_work, after_work) == 0)
        return;
    d->n_archived--;
    free(r->of.config_json);
    free(r);
    sl_daemon_answer(d, peer, SL_ESYS, "the daemon cannot read the run directory", NULL);
}

void sl_archive_describe(struct sl_daemon *d, const struct sl_entry *e,
                         const struct sl_bus_peer *peer)
{
    ask(d, e, peer, true);
}

void sl_archive_finished(struct sl_daemon *d, const struct sl_entry *e,
                         const struct sl_bus_peer *peer)
{
    ask(d, e, peer, false);
}
