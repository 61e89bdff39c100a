#include "cli/job_lookup.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text/json.h"
#include "common/text/suggest.h"
#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/schema/words.h"

enum { NAMES_BYTES = 1024, NAMES_SHOWN = 8 };

static void add_entry(struct sl_job_lookup *list, const cJSON *entry)
{
    const char *state = sl_json_string(entry, "state");
    list->jobs[list->n++] = (struct sl_listed_job){
        .id = sl_json_string(entry, "id"),
        .name = sl_json_string(entry, "name"),
        .output = sl_json_string(entry, "output"),
        .state = state,
        .over = sl_job_state_is_over(state),
        .working = sl_job_state_works(state),
        .entry = entry,
    };
}

int sl_job_lookup_init(struct sl_job_lookup *list, const cJSON *daemon_list,
                       const struct sl_run_job *found, size_t n_found)
{
    const cJSON *jobs = cJSON_GetObjectItemCaseSensitive(daemon_list, "jobs"), *entry;
    size_t n = (size_t)cJSON_GetArraySize(jobs) + n_found;
    list->n = 0;
    list->jobs = calloc(n + 1, sizeof *list->jobs);
    if (!list->jobs)
        return sl_fail(SL_ENOMEM, "no memory for a list of %zu jobs", n);
    cJSON_ArrayForEach(entry, jobs)
    {
        add_entry(list, entry);
    }
    for (size_t i = 0; i < n_found; i++)
        list->jobs[list->n++] = (struct sl_listed_job){
            .id = "",
            .name = found[i].name,
            .output = found[i].output,
            .state = "running",
            .working = true,
            .found = &found[i],
        };
    return SL_OK;
}

void sl_job_lookup_fini(struct sl_job_lookup *list)
{
    free(list->jobs);
    *list = (struct sl_job_lookup){0};
}

// --- words ---------------------------------------------------------------------------------------

static bool same_directory(const char *a, const char *b)
{
    char real_a[PATH_MAX], real_b[PATH_MAX];
    if (strcmp(a, b) == 0)
        return true;
    return realpath(a, real_a) && realpath(b, real_b) && strcmp(real_a, real_b) == 0;
}

// The last component of a path.
static const char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

enum by { BY_ID, BY_NAME, BY_DIRECTORY, BY_FOLDER, BY_COUNT }; // as runs that are over: run_name.h

static bool is_meant(const struct sl_listed_job *job, enum by by, const char *word)
{
    switch (by) {
    case BY_ID: return job->id[0] && strcmp(job->id, word) == 0;
    case BY_NAME: return strcmp(job->name, word) == 0;
    case BY_DIRECTORY: return same_directory(word, job->output);
    default: return strcmp(folder_of(job->output), word) == 0;
    }
}

// "'a' (job 3, running), 'b' (/path), and 4 more"
static const char *names_text(const struct sl_job_lookup *list, char out[NAMES_BYTES])
{
    size_t at = 0, n = 0, left_out = 0;
    out[0] = '\0';
    for (size_t i = 0; i < list->n; i++) {
        const struct sl_listed_job *job = &list->jobs[i];
        if (!job->marked)
            continue;
        if (n == NAMES_SHOWN || at >= NAMES_BYTES - 300) {
            left_out++;
            continue;
        }
        at += (size_t)snprintf(out + at, NAMES_BYTES - at, "%s'%.64s' (", n ? ", " : "", job->name);
        if (job->found && !job->output[0])
            at += (size_t)snprintf(out + at, NAMES_BYTES - at, "process %d)", (int)job->found->pid);
        else if (job->found)
            at += (size_t)snprintf(out + at, NAMES_BYTES - at, "of 'sluice run', in '%.160s')",
                                   job->output);
        else
            at += (size_t)snprintf(out + at, NAMES_BYTES - at, "job %.20s, %.20s)", job->id,
                                   job->state);
        n++;
    }
    if (left_out)
        snprintf(out + at, NAMES_BYTES - at, " and %zu more", left_out);
    return out;
}

static int not_found(struct sl_job_lookup *list, const char *word, const char *hint)
{
    char names[NAMES_BYTES];
    const char **candidates = calloc(list->n + 1, sizeof *candidates);
    size_t n_shown = 0;
    if (!candidates)
        return sl_fail(SL_ENOMEM, "no memory for the names of %zu jobs", list->n);
    for (size_t i = 0; i < list->n; i++)
        candidates[i] = list->jobs[i].name;
    const char *near = sl_suggest_closest(word, candidates, list->n);
    free(candidates);
    // Without a name that is near: what there is, but for jobs that are over.
    for (size_t i = 0; i < list->n; i++) {
        struct sl_listed_job *job = &list->jobs[i];
        job->marked = near ? strcmp(job->name, near) == 0 : !job->over;
        n_shown += job->marked;
    }
    names_text(list, names);
    const char *what = near ? ": did you mean " : n_shown ? ": there is " : ": none is running";
    return sl_fail(SL_ENOENT, "job '%s': no %s or run directory%s%s%s%s%s", word,
                   *hint ? "running job has this name" : "job has this number, name", what,
                   n_shown ? names : "", near ? "?" : "", *hint && !near ? "; " : "",
                   near ? "" : hint);
}

// Of those of one name: the one that is not over, else the newest. SL_EINVAL when that is not one.
static int choose(const struct sl_job_lookup *list, const char *word,
                  const struct sl_listed_job **out)
{
    char names[NAMES_BYTES];
    const struct sl_listed_job *alive = NULL, *newest = NULL;
    size_t n_alive = 0;
    for (size_t i = 0; i < list->n; i++) {
        const struct sl_listed_job *job = &list->jobs[i];
        if (!job->marked)
            continue;
        if (!job->over) {
            alive = job;
            n_alive++;
        }
        if (!newest || strtoull(job->id, NULL, 10) > strtoull(newest->id, NULL, 10))
            newest = job;
    }
    if (n_alive > 1)
        return sl_fail(SL_EINVAL,
                       "job '%s': %zu jobs are called so: %s: name it by its number or its run "
                       "directory",
                       word, n_alive, names_text(list, names));
    *out = alive ? alive : newest;
    return SL_OK;
}

int sl_job_lookup_find(struct sl_job_lookup *list, const char *word, const char *hint,
                       const struct sl_listed_job **out)
{
    size_t n = 0;
    *out = NULL;
    for (enum by by = BY_ID; by < BY_COUNT && n == 0; by++)
        for (size_t i = 0; i < list->n; i++)
            n += list->jobs[i].marked = is_meant(&list->jobs[i], by, word);
    return n ? choose(list, word, out) : not_found(list, word, hint);
}

int sl_job_lookup_only(struct sl_job_lookup *list, const char *hint,
                       const struct sl_listed_job **out)
{
    char names[NAMES_BYTES];
    size_t n_working = 0, n = 0;
    *out = NULL;
    for (size_t i = 0; i < list->n; i++)
        n_working += list->jobs[i].working;
    for (size_t i = 0; i < list->n; i++) {
        struct sl_listed_job *job = &list->jobs[i];
        job->marked = n_working ? job->working : !job->over;
        n += job->marked;
        *out = job->marked ? job : *out;
    }
    if (n != 1)
        *out = NULL;
    if (n == 0)
        return sl_fail(SL_ENOENT, "no job is running%s%s", *hint ? ": " : "", hint);
    if (n > 1)
        return sl_fail(SL_EINVAL, "%zu jobs %s: name one of %s", n, n_working ? "run" : "wait",
                       names_text(list, names));
    return SL_OK;
}
