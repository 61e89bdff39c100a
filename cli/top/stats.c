#include "cli/top/stats.h"

#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "common/base/error.h"
#include "common/base/json_print.h"
#include "common/text/json.h"

// --- values --------------------------------------------------------------------------------------

// Copies at most n - 1 bytes, whole characters only.
static void copy_text(char *out, size_t n, const char *text)
{
    size_t length = strnlen(text, n);
    if (length == n)
        for (length = n - 1; length > 0 && (text[length] & 0xc0) == 0x80;)
            length--;
    memcpy(out, text, length);
    out[length] = 0;
}

#define TEXT(object, key, field) copy_text(field, sizeof(field), sl_json_string(object, key))

// Strings of an array, joined.
static void join(const cJSON *array, const char *between, char *out, size_t n)
{
    const cJSON *item;
    out[0] = 0;
    cJSON_ArrayForEach(item, array)
    {
        if (!cJSON_IsString(item))
            continue;
        size_t used = strlen(out);
        copy_text(out + used, n - used, used ? between : "");
        used = strlen(out);
        copy_text(out + used, n - used, item->valuestring);
    }
}

// A parsed object of that schema; the caller deletes it.
static int open_line(const char *json, const char *schema, cJSON **out)
{
    cJSON *root = cJSON_Parse(json);
    const char *found = sl_json_string(root, "schema");
    if (strcmp(found, schema) == 0) {
        *out = root;
        return SL_OK;
    }
    int rc = sl_fail(SL_EFORMAT, "found a line of schema '%s', wanted %s", *found ? found : "none",
                     schema);
    cJSON_Delete(root);
    return rc;
}

// --- statistics ----------------------------------------------------------------------------------

// Samplers, trainers, standby trainers; by number within each.
static int compare_workers(const void *a, const void *b)
{
    const struct sl_stats_worker *x = a, *y = b;
    int of_x = strcmp(x->role, "trainer") == 0 ? 1 : 2 * (strcmp(x->role, "sampler") != 0);
    int of_y = strcmp(y->role, "trainer") == 0 ? 1 : 2 * (strcmp(y->role, "sampler") != 0);
    return of_x != of_y ? of_x - of_y : strverscmp(x->name, y->name);
}

// A view has the epoch in its header.
static void cut_epoch(struct sl_stats_worker *w)
{
    char *epoch = strstr(w->batch, " of epoch ");
    if (epoch)
        *epoch = 0;
}

int sl_top_stats_parse(const char *json, struct sl_stats *out)
{
    struct sl_stats s;
    cJSON *root = NULL;
    SL_TRY(open_line(json, "sluice.stats/1", &root));
    SL_TRY(sl_stats_take(root, &s));
    for (size_t i = 0; i < s.n_workers; i++)
        cut_epoch(&s.workers[i]);
    qsort(s.workers, s.n_workers, sizeof *s.workers, compare_workers);
    sl_stats_fini(out);
    *out = s;
    return SL_OK;
}

// --- events, jobs, answers -----------------------------------------------------------------------

int sl_top_event_parse(const char *json, struct sl_top_event *out)
{
    cJSON *root = NULL;
    SL_TRY(open_line(json, "sluice.event/1", &root));
    out->time = sl_json_number(root, "time");
    out->seconds = sl_json_number(root, "seconds");
    out->ok = !cJSON_IsFalse(sl_json_at(root, "ok"));
    TEXT(root, "kind", out->kind);
    TEXT(root, "text", out->text);
    cJSON_Delete(root);
    return SL_OK;
}

static void take_job(const cJSON *from, struct sl_top_job *j)
{
    TEXT(from, "id", j->id);
    TEXT(from, "name", j->name);
    TEXT(from, "state", j->state);
    TEXT(from, "why", j->why);
    TEXT(from, "message", j->message);
    TEXT(from, "output", j->output);
    TEXT(from, "cores", j->cores);
    j->epoch = sl_json_number(from, "epoch");
    j->epochs = sl_json_number(from, "epochs");
    j->progress = sl_json_number(from, "progress");
    j->samplers = sl_json_number(from, "samplers");
    j->trainers = sl_json_number(from, "trainers");
    j->seconds_left = sl_json_number(from, "seconds_left");
}

int sl_top_jobs_parse(const char *json, struct sl_top_jobs *out)
{
    struct sl_top_jobs jobs = {0};
    cJSON *root = NULL;
    SL_TRY(open_line(json, "sluice.jobs/1", &root));
    const cJSON *list = sl_json_at(root, "jobs"), *daemon = sl_json_at(root, "daemon"), *item;
    size_t n = (size_t)cJSON_GetArraySize(list);
    jobs.jobs = calloc(n + 1, sizeof *jobs.jobs);
    if (!jobs.jobs) {
        cJSON_Delete(root);
        return sl_fail(SL_ENOMEM, "no memory for a list of %zu jobs", n);
    }
    cJSON_ArrayForEach(item, list)
    {
        take_job(item, &jobs.jobs[jobs.n++]);
    }
    jobs.daemon = cJSON_IsObject(daemon);
    jobs.daemon_pid = sl_json_number(daemon, "pid");
    TEXT(daemon, "version", jobs.version);
    TEXT(daemon, "cores", jobs.cores);
    TEXT(daemon, "free_cores", jobs.free_cores);
    TEXT(daemon, "page", jobs.page);
    cJSON_Delete(root);
    sl_top_jobs_fini(out);
    *out = jobs;
    return SL_OK;
}

int sl_top_jobs_update(struct sl_top_jobs *jobs, const char *json)
{
    struct sl_top_job job = {0};
    cJSON *root = cJSON_Parse(json);
    if (!cJSON_IsObject(root)) {
        cJSON_Delete(root);
        return sl_fail(SL_EFORMAT, "found something else, wanted an entry of the list of jobs");
    }
    take_job(root, &job);
    cJSON_Delete(root);
    for (size_t i = 0; i < jobs->n; i++) {
        if (job.id[0] && strcmp(jobs->jobs[i].id, job.id) == 0) {
            jobs->jobs[i] = job;
            return SL_OK;
        }
    }
    struct sl_top_job *more = realloc(jobs->jobs, (jobs->n + 1) * sizeof *more);
    if (!more)
        return sl_fail(SL_ENOMEM, "no memory for a list of %zu jobs", jobs->n + 1);
    jobs->jobs = more;
    jobs->jobs[jobs->n++] = job;
    return SL_OK;
}

void sl_top_jobs_fini(struct sl_top_jobs *jobs)
{
    free(jobs->jobs);
    *jobs = (struct sl_top_jobs){0};
}

int sl_top_describe_parse(const char *json, void (*on_event)(void *arg, const char *line),
                          void *arg, char **stats)
{
    cJSON *root = NULL;
    const cJSON *item;
    *stats = NULL;
    SL_TRY(open_line(json, "sluice.describe/1", &root));
    cJSON_ArrayForEach(item, sl_json_at(root, "events"))
    {
        char *line = sl_json_line(item);
        if (line)
            on_event(arg, line);
        cJSON_free(line);
    }
    if (cJSON_IsObject(sl_json_at(root, "stats")))
        *stats = sl_json_line(sl_json_at(root, "stats"));
    cJSON_Delete(root);
    return SL_OK;
}

int sl_top_scale_parse(const char *json, struct sl_top_scale *out)
{
    cJSON *root = NULL;
    SL_TRY(open_line(json, "sluice.scale/1", &root));
    out->dry_run = cJSON_IsTrue(sl_json_at(root, "dry_run"));
    out->samplers = sl_json_number(root, "to.samplers");
    out->trainers = sl_json_number(root, "to.trainers");
    out->now = sl_json_number(root, "epoch_seconds_now");
    out->then = sl_json_number(root, "epoch_seconds_then");
    join(sl_json_at(root, "steps"), "; ", out->steps, sizeof out->steps);
    cJSON_Delete(root);
    return SL_OK;
}
