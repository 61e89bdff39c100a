#include "broker/account.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "broker/checkpoint.h"
#include "broker/report.h"
#include "broker/timeline.h"
#include "common/base/error.h"
#include "common/base/open_file.h"

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

static double sum_of(const cJSON *list, const char *object, const char *key)
{
    const cJSON *e;
    double sum = 0;
    cJSON_ArrayForEach(e, list)
    {
        const cJSON *from = object ? cJSON_GetObjectItemCaseSensitive(e, object) : e;
        const cJSON *item = cJSON_GetObjectItemCaseSensitive(from, key);
        sum += cJSON_IsNumber(item) ? item->valuedouble : 0;
    }
    return sum;
}

static void add_sums(cJSON *report, const cJSON *epochs, const cJSON *config)
{
    cJSON *batches = cJSON_AddObjectToObject(report, "batches");
    cJSON_AddNullToObject(batches, "scheduled");
    cJSON_AddNumberToObject(batches, "trained", sum_of(epochs, NULL, "batches"));
    cJSON_AddNumberToObject(batches, "resampled", sum_of(epochs, NULL, "resampled"));
    cJSON_AddNumberToObject(batches, "retrained", sum_of(epochs, NULL, "retrained"));
    cJSON *switching = cJSON_AddObjectToObject(report, "switching");
    cJSON_AddNumberToObject(switching, "switches", sum_of(epochs, NULL, "switches"));
    cJSON_AddNumberToObject(switching, "batches", sum_of(epochs, "switching", "batches"));
    cJSON_AddNumberToObject(switching, "seconds_saved",
                            sum_of(epochs, "switching", "seconds_saved"));
    const cJSON *policy = cJSON_GetObjectItemCaseSensitive(
        cJSON_GetObjectItemCaseSensitive(config, "cache"), "policy");
    cJSON *cache = cJSON_AddObjectToObject(report, "cache");
    cJSON_AddStringToObject(cache, "policy", cJSON_IsString(policy) ? policy->valuestring : "none");
    cJSON_AddNullToObject(cache, "hit_rate");
}

static const char *name_of(const cJSON *config)
{
    const cJSON *name = cJSON_GetObjectItemCaseSensitive(config, "name");
    return cJSON_IsString(name) ? name->valuestring : "";
}

static int report_so_far(const char *run, cJSON **out)
{
    char path[4400];
    cJSON *config;
    SL_TRY(read_object(join(path, run, "config.json"), &config));
    cJSON *history = read_history(run), *report = cJSON_CreateObject();
    bool running = is_running(run);
    double begun = modified(run, "config.json"), now = (double)time(NULL);
    if (!running)
        now = modified(run, "metrics.jsonl");
    cJSON_AddStringToObject(report, "schema", "sluice.report/1");
    cJSON_AddStringToObject(report, "job", name_of(config));
    cJSON_AddStringToObject(report, "status", running ? "running" : "interrupted");
    cJSON_AddItemToObject(report, "epochs", read_lines(join(path, run, "metrics.jsonl"), 1 << 30));
    take_list(report, history, "allocations");
    take_list(report, history, "scales");
    take_list(report, history, "restarts");
    take_list(report, history, "resumes");
    add_sums(report, cJSON_GetObjectItemCaseSensitive(report, "epochs"), config);
    double wall = now > begun ? now - begun : 0;
    cJSON_AddNumberToObject(report, "wall_seconds", wall);
    cJSON_AddNumberToObject(
        report, "total_seconds",
        wall + sl_report_seconds_before(cJSON_GetObjectItemCaseSensitive(report, "resumes")));
    cJSON_AddNullToObject(report, "test");
    const cJSON *devices = cJSON_GetObjectItemCaseSensitive(config, "devices");
    cJSON_AddItemToObject(report, "devices",
                          cJSON_IsArray(devices) ? cJSON_Duplicate(devices, true)
                                                 : cJSON_CreateArray());
    cJSON_AddItemToObject(report, "config", config);
    cJSON_Delete(history);
    *out = report;
    return SL_OK;
}

// --- the whole -----------------------------------------------------------------------------------

bool sl_account_is_run(const char *path)
{
    char file[4400];
    return access(join(file, path, "report.json"), F_OK) == 0 ||
           access(join(file, path, "config.json"), F_OK) == 0;
}

int sl_account_report_text(const char *run, char **out)
{
    char path[4400];
    return read_text(join(path, run, "report.json"), out);
}

static int check_report(const char *path, cJSON *report)
{
    const cJSON *schema = cJSON_GetObjectItemCaseSensitive(report, "schema");
    if (cJSON_IsString(schema) && strcmp(schema->valuestring, "sluice.report/1") == 0 &&
        cJSON_IsArray(cJSON_GetObjectItemCaseSensitive(report, "epochs")))
        return SL_OK;
    return sl_fail(SL_EFORMAT,
                   "'%s' is no report of a run: found schema %s%s%s, wanted \"sluice.report/1\" "
                   "with a list \"epochs\"",
                   path, cJSON_IsString(schema) ? "\"" : "",
                   cJSON_IsString(schema) ? schema->valuestring : "nothing",
                   cJSON_IsString(schema) ? "\"" : "");
}

static int read_report(const char *run, cJSON **out)
{
    char path[4400];
    struct stat st;
    if (stat(run, &st) != 0)
        return refuse(errno, run);
    if (!sl_account_is_run(run))
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

int sl_account_describe(const char *run, cJSON **out)
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
    const cJSON *first = cJSON_GetObjectItemCaseSensitive(cJSON_GetArrayItem(events, 0), "time");
    cJSON_AddStringToObject(whole, "schema", "sluice.describe/1");
    cJSON_AddNullToObject(whole, "id");
    const cJSON *status = cJSON_GetObjectItemCaseSensitive(report, "status");
    cJSON_AddStringToObject(whole, "state", cJSON_IsString(status) ? status->valuestring : "");
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++)
        refer(whole, report, shared[i]);
    cJSON_AddStringToObject(whole, "output", absolute ? absolute : run);
    cJSON_AddNullToObject(whole, "pid");
    cJSON_AddNumberToObject(whole, "started",
                            cJSON_IsNumber(first) ? first->valuedouble
                                                  : modified(run, "config.json"));
    cJSON_AddItemToObject(whole, "events", events);
    cJSON_AddNullToObject(whole, "stats");
    cJSON_AddItemToObject(whole, "report", report);
    free(absolute);
    *out = whole;
    return SL_OK;
}
