#include "cli/job_list.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/text/json.h"

enum { STATS_MS = 800 }; // for all of them to tell

// --- the list ------------------------------------------------------------------------------------

static bool has_same_cores_before(const cJSON *device)
{
    const char *cores = sl_json_string(device, "cores");
    // The first of cJSON's children has the last one as the one before it.
    for (const cJSON *d = device; d->prev->next; d = d->prev)
        if (strcmp(sl_json_string(d->prev, "cores"), cores) == 0)
            return true;
    return false;
}

// The cores of all devices, each list once: "0-3,4-7".
static const char *cores_text(const cJSON *devices, char *out, size_t bytes)
{
    const cJSON *device;
    size_t n = 0;
    out[0] = '\0';
    cJSON_ArrayForEach(device, devices)
    {
        const char *cores = sl_json_string(device, "cores");
        if (*cores && n < bytes && !has_same_cores_before(device))
            n += (size_t)snprintf(out + n, bytes - n, "%s%s", n ? "," : "", cores);
    }
    return out;
}

static void add_stats(cJSON *to, const cJSON *stats, const char *key)
{
    sl_json_add_number(to, key, sl_json_number(stats, key));
}

// The hosts of a job's nodes, by rank; empty for one node.
static void add_nodes(cJSON *to, const cJSON *stats)
{
    cJSON *hosts = cJSON_AddArrayToObject(to, "nodes");
    const cJSON *node;
    cJSON_ArrayForEach(node, sl_json_at(stats, "nodes"))
    {
        cJSON_AddItemToArray(hosts, cJSON_CreateString(sl_json_string(node, "host")));
    }
}

// An entry of sluice.jobs/1 for a job of `sluice run`; stats may be NULL.
static cJSON *found_entry(const struct sl_run_job *job, const cJSON *stats)
{
    const char *state = sl_json_string(stats, "state");
    const cJSON *devices = sl_json_at(stats, "devices");
    double epoch = sl_json_number(stats, "epoch"), epochs = sl_json_number(stats, "epochs");
    bool counts = !isnan(epoch) && epochs > 0;
    char cores[256];
    cJSON *e = cJSON_CreateObject();
    sl_json_add_text(e, "id", NULL);
    sl_json_add_text(e, "name", job->name);
    sl_json_add_text(e, "state", *state ? state : "running");
    sl_json_add_text(e, "position", NULL);
    sl_json_add_text(e, "why", NULL);
    cJSON_AddNullToObject(e, "submitted");
    sl_json_add_number(e, "started", job->started > 0 ? job->started : NAN);
    cJSON_AddNullToObject(e, "ended");
    cJSON_AddNullToObject(e, "exit_status");
    sl_json_add_text(e, "message", NULL);
    sl_json_add_text(e, "output", job->output);
    sl_json_add_text(e, "cores", cores_text(devices, cores, sizeof cores));
    sl_json_add_number(e, "devices", devices ? cJSON_GetArraySize(devices) : NAN);
    sl_json_add_text(e, "resume", "never");
    cJSON_AddNumberToObject(e, "pid", job->pid);
    add_stats(e, stats, "epoch");
    add_stats(e, stats, "epochs");
    sl_json_add_number(e, "progress", counts ? SL_MIN(1.0, epoch / epochs) : NAN);
    add_stats(e, stats, "samplers");
    add_stats(e, stats, "trainers");
    add_stats(e, stats, "loss");
    add_stats(e, stats, "seconds_left");
    cJSON_AddNumberToObject(e, "resumed", 0);
    add_nodes(e, stats);
    return e;
}

// The newest statistics of a job, or NULL when its broker does not tell them in time.
static cJSON *ask_stats(struct sl_session *s, uint64_t until)
{
    for (;;) {
        Sl__Control__Envelope *m;
        uint64_t now = sl_now_ns();
        if (now >= until || sl_session_receive(s, (int)((until - now) / 1000000u) + 1, &m) != SL_OK)
            return NULL;
        cJSON *stats =
            m->body_case == SL__CONTROL__ENVELOPE__BODY_STATS ? cJSON_Parse(m->stats->json) : NULL;
        bool over = m->body_case == SL__CONTROL__ENVELOPE__BODY_FINISHED;
        sl_bus_message_free(m);
        if (stats || over)
            return stats;
    }
}

// All are asked before the first is waited for.
static int add_found(cJSON *jobs)
{
    struct sl_run_job *found;
    size_t n;
    SL_TRY(sl_run_jobs_find(&found, &n));
    struct sl_session *sessions = calloc(n + 1, sizeof *sessions);
    if (!sessions) {
        free(found);
        return sl_fail(SL_ENOMEM, "no memory for %zu jobs", n);
    }
    for (size_t i = 0; i < n; i++)
        if (sl_session_open_found(&found[i], &sessions[i]) == SL_OK)
            sl_session_subscribe(&sessions[i], false, true);
    uint64_t until = sl_now_ns() + STATS_MS * 1000000ull;
    for (size_t i = 0; i < n; i++) {
        cJSON *stats = sessions[i].bus ? ask_stats(&sessions[i], until) : NULL;
        cJSON_AddItemToArray(jobs, found_entry(&found[i], stats));
        cJSON_Delete(stats);
        sl_session_close(&sessions[i]);
    }
    free(sessions);
    free(found);
    return SL_OK;
}

int sl_job_list(const struct sl_session_where *where, cJSON **out)
{
    struct sl_session daemon;
    cJSON *list = NULL;
    *out = NULL;
    int rc = sl_session_open_listing(where, &daemon, &list);
    if (rc == SL_OK) {
        sl_session_close(&daemon);
    } else if (rc == SL_ENOENT && !where->connect) {
        list = cJSON_CreateObject();
        cJSON_AddStringToObject(list, "schema", "sluice.jobs/1");
        cJSON_AddNullToObject(list, "daemon");
        cJSON_AddStringToObject(list, "note", sl_error_message());
        cJSON_AddArrayToObject(list, "jobs");
        rc = SL_OK;
    }
    if (rc < 0)
        return rc;
    cJSON *jobs = cJSON_GetObjectItemCaseSensitive(list, "jobs");
    if (!where->connect && cJSON_IsArray(jobs))
        rc = add_found(jobs);
    if (rc == SL_OK)
        *out = list;
    else
        cJSON_Delete(list);
    return rc;
}
