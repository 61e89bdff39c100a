#include "broker/http/job_stats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/text/json.h"
#include "common/schema/words.h"

// --- jobs ----------------------------------------------------------------------------------------

static void release(struct sl_job_stats_job *job)
{
    free(job->name);
    free(job->line);
    free(job->history);
    cJSON_Delete(job->stats);
    memset(job, 0, sizeof *job);
}

static void drop_states(struct sl_job_stats *s)
{
    for (uint32_t i = 0; i < s->n_states; i++)
        free(s->states[i].name);
    s->n_states = 0;
}

void sl_job_stats_fini(struct sl_job_stats *s)
{
    for (uint32_t i = 0; i < s->n_jobs; i++)
        release(&s->jobs[i]);
    free(s->jobs);
    drop_states(s);
    free(s->states);
    memset(s, 0, sizeof *s);
}

static struct sl_job_stats_job *find_key(const struct sl_job_stats *s, const char *key)
{
    for (uint32_t i = 0; i < s->n_jobs; i++)
        if (strcmp(s->jobs[i].key, key) == 0)
            return &s->jobs[i];
    return NULL;
}

struct sl_job_stats_job *sl_job_stats_find(const struct sl_job_stats *s, const char *job)
{
    struct sl_job_stats_job *found = find_key(s, job);
    for (uint32_t i = s->n_jobs; !found && i-- > 0;)
        if (strcmp(s->jobs[i].name, job) == 0)
            found = &s->jobs[i];
    return found;
}

// Makes room by giving up the job that has been silent for the longest time.
static void evict(struct sl_job_stats *s)
{
    uint32_t oldest = 0;
    for (uint32_t i = 1; i < s->n_jobs; i++)
        if (s->jobs[i].at_ns < s->jobs[oldest].at_ns)
            oldest = i;
    release(&s->jobs[oldest]);
    s->n_jobs--;
    memmove(&s->jobs[oldest], &s->jobs[oldest + 1], (s->n_jobs - oldest) * sizeof *s->jobs);
}

static struct sl_job_stats_job *add(struct sl_job_stats *s, const char *key)
{
    if (!s->jobs)
        s->jobs = calloc(SL_JOB_STATS_JOBS_MAX, sizeof *s->jobs);
    struct sl_stats_history *history = calloc(1, sizeof *history);
    if (!s->jobs || !history) {
        free(history);
        return NULL;
    }
    if (s->n_jobs == SL_JOB_STATS_JOBS_MAX)
        evict(s);
    struct sl_job_stats_job *job = &s->jobs[s->n_jobs++];
    memset(job, 0, sizeof *job);
    snprintf(job->key, sizeof job->key, "%s", key);
    job->history = history;
    return job;
}

struct sl_job_stats_job *sl_job_stats_on_line(struct sl_job_stats *s, const char *key,
                                              const char *line, uint64_t now_ns)
{
    cJSON *stats = cJSON_Parse(line);
    const char *schema = sl_json_string(stats, "schema");
    const char *name = sl_json_string(stats, "job");
    const char *id = sl_json_string(stats, "id");
    const char *state = sl_json_string(stats, "state");
    bool of_daemon = *key != '\0';
    struct sl_job_stats_job *job = NULL;
    if (strcmp(schema, "sluice.stats/1") == 0 && *name) {
        key = *key ? key : *id ? id : "0";
        job = find_key(s, key);
        job = job ? job : add(s, key);
    }
    char *new_line = job ? strdup(line) : NULL;
    char *new_name = job ? strdup(name) : NULL;
    if (!new_line || !new_name) {
        if (job && !job->name) // it was just added
            s->n_jobs--, release(job);
        free(new_line);
        free(new_name);
        cJSON_Delete(stats);
        return NULL;
    }
    free(job->name);
    free(job->line);
    cJSON_Delete(job->stats);
    job->name = new_name;
    job->line = new_line;
    job->stats = stats;
    job->at_ns = now_ns;
    job->over = false;
    if (*state && !(of_daemon && *sl_job_stats_state(s, job->key)))
        sl_job_stats_set_state(s, job->key, name, state);
    sl_stats_history_add(job->history, stats);
    return job;
}

void sl_job_stats_end(struct sl_job_stats *s, const char *key)
{
    struct sl_job_stats_job *job = find_key(s, *key ? key : "0");
    if (job)
        job->over = true;
}

// --- states --------------------------------------------------------------------------------------

static struct sl_job_stats_state *find_state(const struct sl_job_stats *s, const char *key)
{
    for (uint32_t i = 0; i < s->n_states; i++)
        if (strcmp(s->states[i].key, key) == 0)
            return &s->states[i];
    return NULL;
}

const char *sl_job_stats_state(const struct sl_job_stats *s, const char *key)
{
    const struct sl_job_stats_state *found = find_state(s, key);
    return found ? found->state : "";
}

// Gives up the job that has been over for the longest time, else the first one.
static void evict_state(struct sl_job_stats *s)
{
    uint32_t i = 0;
    while (i < s->n_states && !sl_job_state_has_ended(s->states[i].state))
        i++;
    if (i == s->n_states)
        i = 0;
    free(s->states[i].name);
    s->n_states--;
    memmove(&s->states[i], &s->states[i + 1], (s->n_states - i) * sizeof *s->states);
}

void sl_job_stats_set_state(struct sl_job_stats *s, const char *key, const char *name,
                            const char *state)
{
    struct sl_job_stats_state *at = find_state(s, key);
    if (!at) {
        char *own = strdup(name);
        if (!s->states)
            s->states = calloc(SL_JOB_STATS_STATES_MAX, sizeof *s->states);
        if (!s->states || !own) {
            free(own);
            return;
        }
        if (s->n_states == SL_JOB_STATS_STATES_MAX)
            evict_state(s);
        at = &s->states[s->n_states++];
        at->name = own;
        snprintf(at->key, sizeof at->key, "%s", key);
    }
    snprintf(at->state, sizeof at->state, "%s", state);
}

static void take_entry(struct sl_job_stats *s, const cJSON *entry)
{
    const char *id = sl_json_string(entry, "id"), *name = sl_json_string(entry, "name");
    const char *state = sl_json_string(entry, "state");
    if (*name && *state)
        sl_job_stats_set_state(s, *id ? id : "0", name, state);
}

void sl_job_stats_on_entry(struct sl_job_stats *s, const char *json)
{
    cJSON *entry = cJSON_Parse(json);
    take_entry(s, entry);
    cJSON_Delete(entry);
}

void sl_job_stats_on_list(struct sl_job_stats *s, const char *json)
{
    cJSON *list = cJSON_Parse(json);
    const cJSON *jobs = cJSON_GetObjectItemCaseSensitive(list, "jobs"), *entry;
    if (strcmp(sl_json_string(list, "schema"), "sluice.jobs/1") == 0 && cJSON_IsArray(jobs)) {
        drop_states(s);
        cJSON_ArrayForEach(entry, jobs)
        {
            take_entry(s, entry);
        }
    }
    cJSON_Delete(list);
}
