#include "broker/rundir/run_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "broker/rundir/checkpoint.h"
#include "broker/rundir/report.h"
#include "broker/log/timeline.h"
#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/open_file.h"
#include "common/text/json.h"

// More than ten thousand epochs have.
enum { FILE_BYTES_MAX = 256 << 20 };

// --- files ---------------------------------------------------------------------------------------

static int refuse(int err, const char *path)
{
    if (err == ENOENT || err == ENOTDIR)
        return sl_fail(SL_ENOENT, "there is no '%s'", path);
    return sl_fail_errno(SL_EACCESS, err, "reading '%s'", path);
}

// The whole of a regular file, NUL-terminated (owned).
static int read_text(const char *path, char **out)
{
    *out = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // a pipe of that name does not hang us
    if (fd < 0)
        return refuse(errno, path);
    int rc = sl_read_whole_file(fd, path, FILE_BYTES_MAX, out, NULL);
    close(fd);
    return rc;
}

static char *join(char path[4400], const char *run, const char *name)
{
    snprintf(path, 4400, "%s/%s", run, name);
    return path;
}

static int read_object(const char *path, cJSON **out)
{
    char *text;
    *out = NULL;
    SL_TRY(read_text(path, &text));
    cJSON *root = cJSON_Parse(text);
    free(text);
    if (!cJSON_IsObject(root)) {
        cJSON_Delete(root);
        return sl_fail(SL_EFORMAT,
                       "'%s' is damaged: found no JSON object in it: restore it from a copy, or "
                       "remove it",
                       path);
    }
    *out = root;
    return SL_OK;
}

// The newest `most` lines of JSON; those that are none (the last one may be half written) are
// passed over. An empty list where there is no file.
static cJSON *read_lines(const char *path, int most)
{
    char *all, *save;
    cJSON *list = cJSON_CreateArray();
    if (read_text(path, &all) < 0)
        return list;
    int n = 0, at = 0;
    for (const char *p = all; (p = strchr(p, '\n')); p++)
        n++;
    for (char *line = strtok_r(all, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        if (at++ >= n - most)
            cJSON_AddItemToArray(list, cJSON_Parse(line)); // NULL is not added
    free(all);
    return list;
}

// --- a run that is under way ---------------------------------------------------------------------

// A running broker holds the lock of the directory. A shared lock, and only for an instant.
static bool is_running(const char *run)
{
    int fd = open(run, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool held = flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    close(fd);
    return held;
}

static double modified(const char *run, const char *name)
{
    char path[4400];
    struct stat st;
    if (stat(join(path, run, name), &st) != 0)
        return 0;
    return (double)st.st_mtim.tv_sec + (double)st.st_mtim.tv_nsec * 1e-9;
}

// Lists of decisions and deaths from the newest checkpoint, of which only the state is read.
static cJSON *read_history(const char *run)
{
    char path[4400], name[128];
    struct sl_checkpoint_list list = {0};
    cJSON *state = NULL, *history = NULL;
    if (sl_checkpoint_list(run, &list) == SL_OK && list.n > 0) {
        snprintf(name, sizeof name, "checkpoints/%s/state.json", list.names[0]);
        if (read_object(join(path, run, name), &state) == SL_OK)
            history = cJSON_DetachItemFromObjectCaseSensitive(state, "history");
    }
    sl_checkpoint_list_fini(&list);
    cJSON_Delete(state);
    return history;
}

static void take_list(cJSON *report, cJSON *history, const char *key)
{
    cJSON *list = cJSON_DetachItemFromObjectCaseSensitive(history, key);
    if (!cJSON_IsArray(list)) {
        cJSON_Delete(list);
        list = cJSON_CreateArray();
    }
    cJSON_AddItemToObject(report, key, list);
}

static double sum_of(const cJSON *epochs, const char *path)
{
    const cJSON *e;
    double sum = 0;
    cJSON_ArrayForEach(e, epochs)
    {
        double value = sl_json_number(e, path);
        sum += isnan(value) ? 0 : value;
    }
    return sum;
}

// Sums of the epochs by their names there and in the report. What only the end would tell is null.
static void add_sums(cJSON *report, const cJSON *config)
{
    static const struct {
        const char *object, *key, *of_epochs;
    } sums[] = {
        {"batches", "trained", "batches"},
        {"batches", "resampled", "resampled"},
        {"batches", "retrained", "retrained"},
        {"switching", "switches", "switches"},
        {"switching", "batches", "switching.batches"},
        {"switching", "seconds_saved", "switching.seconds_saved"},
    };
    const char *policy = sl_json_string(config, "cache.policy");
    cJSON_AddNullToObject(cJSON_AddObjectToObject(report, "batches"), "scheduled");
    cJSON_AddObjectToObject(report, "switching");
    for (size_t i = 0; i < SL_COUNT_OF(sums); i++)
        cJSON_AddNumberToObject(cJSON_GetObjectItemCaseSensitive(report, sums[i].object),
                                sums[i].key,
                                sum_of(sl_json_at(report, "epochs"), sums[i].of_epochs));
    cJSON *cache = cJSON_AddObjectToObject(report, "cache");
    cJSON_AddStringToObject(cache, "policy", *policy ? policy : "none");
    cJSON_AddNullToObject(cache, "hit_rate");
}

static int report_so_far(const char *run, cJSON **out)
{
    static const char *const lists[] = {"allocations", "scales", "restarts", "resumes"};
    char path[4400];
    cJSON *config;
    SL_TRY(read_object(join(path, run, "config.json"), &config));
    cJSON *history = read_history(run), *report = cJSON_CreateObject();
    bool running = is_running(run);
    double begun = modified(run, "config.json");
    double now = running ? (double)time(NULL) : modified(run, "metrics.jsonl");
    cJSON_AddStringToObject(report, "schema", "sluice.report/1");
    cJSON_AddStringToObject(report, "job", sl_json_string(config, "name"));
    cJSON_AddStringToObject(report, "status", running ? "running" : "interrupted");
    cJSON_AddItemToObject(report, "epochs", read_lines(join(path, run, "metrics.jsonl"), 1 << 30));
    for (size_t i = 0; i < SL_COUNT_OF(lists); i++)
        take_list(report, history, lists[i]);
    add_sums(report, config);
    double wall = now > begun ? now - begun : 0;
    cJSON_AddNumberToObject(report, "wall_seconds", wall);
    cJSON_AddNumberToObject(report, "total_seconds",
                            wall + sl_report_seconds_before(sl_json_at(report, "resumes")));
    cJSON_AddNullToObject(report, "test");
    const cJSON *devices = sl_json_at(config, "devices");
    cJSON_AddItemToObject(report, "devices",
                          cJSON_IsArray(devices) ? cJSON_Duplicate(devices, true)
                                                 : cJSON_CreateArray());
    cJSON_AddItemToObject(report, "config", config);
    cJSON_Delete(history);
    *out = report;
    return SL_OK;
}

// --- the whole -----------------------------------------------------------------------------------

bool sl_run_reader_is_run(const char *path)
{
    char file[4400];
    return access(join(file, path, "report.json"), F_OK) == 0 ||
           access(join(file, path, "config.json"), F_OK) == 0;
}

int sl_run_reader_report_text(const char *run, char **out)
{
    char path[4400];
    return read_text(join(path, run, "report.json"), out);
}

static int check_report(const char *path, const cJSON *report)
{
    const char *schema = cJSON_GetStringValue(sl_json_at(report, "schema"));
    const char *quote = schema ? "\"" : "";
    if (schema && strcmp(schema, "sluice.report/1") == 0 &&
        cJSON_IsArray(sl_json_at(report, "epochs")))
        return SL_OK;
    return sl_fail(SL_EFORMAT,
                   "'%s' is no report of a run: found schema %s%s%s, wanted \"sluice.report/1\" "
                   "with a list \"epochs\"",
                   path, quote, schema ? schema : "nothing", quote);
}

static int read_report(const char *run, cJSON **out)
{
    char path[4400];
    struct stat st;
    if (stat(run, &st) != 0)
        return refuse(errno, run);
    if (!sl_run_reader_is_run(run))
        return sl_fail(SL_ENOENT,
                       "'%s' is no run directory: wanted one with report.json or config.json in it",
                       run);
    int rc = read_object(join(path, run, "report.json"), out);
    if (rc == SL_ENOENT)
        return report_so_far(run, out);
    if (rc == SL_OK && (rc = check_report(path, *out)) < 0)
        cJSON_Delete(*out);
    return rc;
}

// A reference: the report itself keeps what is there twice.
static void refer(cJSON *to, cJSON *report, const char *key)
{
    cJSON *item = cJSON_GetObjectItemCaseSensitive(report, key);
    if (item)
        cJSON_AddItemReferenceToObject(to, key, item);
    else
        cJSON_AddItemToObject(to, key, cJSON_CreateArray());
}

int sl_run_reader_describe(const char *run, cJSON **out)
{
    static const char *const shared[] = {"job",         "config", "devices", "epochs",
                                         "allocations", "scales", "restarts"};
    char path[4400];
    char *absolute = realpath(run, NULL);
    cJSON *report, *whole = cJSON_CreateObject();
    int rc = read_report(run, &report);
    if (rc < 0 || !whole) {
        cJSON_Delete(whole);
        free(absolute);
        return rc < 0 ? rc : sl_fail(SL_ENOMEM, "no memory for the run '%s'", run);
    }
    cJSON *events = read_lines(join(path, run, "events.jsonl"), SL_TIMELINE_MAX);
    double first = sl_json_number(cJSON_GetArrayItem(events, 0), "time");
    cJSON_AddStringToObject(whole, "schema", "sluice.describe/1");
    cJSON_AddNullToObject(whole, "id");
    cJSON_AddStringToObject(whole, "state", sl_json_string(report, "status"));
    for (size_t i = 0; i < SL_COUNT_OF(shared); i++)
        refer(whole, report, shared[i]);
    cJSON_AddStringToObject(whole, "output", absolute ? absolute : run);
    cJSON_AddNullToObject(whole, "pid");
    cJSON_AddNumberToObject(whole, "started", isnan(first) ? modified(run, "config.json") : first);
    cJSON_AddItemToObject(whole, "events", events);
    cJSON_AddNullToObject(whole, "stats");
    cJSON_AddItemToObject(whole, "report", report);
    free(absolute);
    *out = whole;
    return SL_OK;
}
