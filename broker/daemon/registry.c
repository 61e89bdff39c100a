#include "broker/daemon/registry.h"

#include <limits.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text/json.h"
#include "common/text/suggest.h"
#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/log.h"

enum { NAMED_MAX = 8 }; // jobs that an error lists

const char *sl_entry_state_name(enum sl_entry_state state)
{
    return sl_job_state_words[state];
}

bool sl_entry_state_parse(const char *name, enum sl_entry_state *out)
{
    for (unsigned i = 0; i < SL_ENTRY_STATE_COUNT; i++) {
        if (strcmp(name, sl_job_state_words[i]) != 0)
            continue;
        *out = (enum sl_entry_state)i;
        return true;
    }
    return false;
}

// --- one entry -----------------------------------------------------------------------------------

struct sl_entry *sl_entry_new(void)
{
    struct sl_entry *e = calloc(1, sizeof *e);
    if (e)
        e->live.loss = NAN;
    return e;
}

void sl_entry_free(struct sl_entry *e)
{
    if (!e)
        return;
    free(e->config_json);
    free(e->report);
    free(e->checkpoint);
    free(e->live.stats);
    free(e);
}

static int check_absolute(const char *key, const char *path)
{
    if (!*path || *path == '/')
        return SL_OK;
    return sl_fail(SL_EINVAL,
                   "the job: %s: found \"%s\", wanted an absolute path: a daemon has another "
                   "working directory than its clients ('sluice submit' makes paths absolute)",
                   key, path);
}

static int check_config(const struct sl_config *c)
{
    SL_TRY(check_absolute("dataset", c->dataset));
    SL_TRY(check_absolute("output", c->output));
    SL_TRY(check_absolute("model.weights", c->model.weights));
    if (c->resume == SL_RESUME_AUTO && c->checkpoint.every_updates == 0 &&
        !(c->checkpoint.every_seconds > 0))
        return sl_fail(SL_EINVAL,
                       "the job: resume: found \"auto\" without checkpoints, from which it would "
                       "go on: set checkpoint.every_seconds or checkpoint.every_updates");
    return SL_OK;
}

static int check_cores(const struct sl_config *c, const struct sl_cores *cores,
                       struct sl_cores *out)
{
    char text[256];
    memset(out, 0, sizeof *out);
    for (uint32_t d = 0; d < c->n_devices; d++) {
        for (uint32_t i = 0; i < c->devices[d].n_cores; i++) {
            uint32_t core = c->devices[d].cores[i];
            sl_cores_add(out, core);
            if (sl_cores_has(cores, core))
                continue;
            sl_cores_format(cores, text, sizeof text);
            return sl_fail(SL_EINVAL,
                           "the job: devices[%u].cores: found core %u, wanted cores among %s, "
                           "which are this daemon's: name those, or start the daemon with "
                           "other --cores",
                           d, core, text);
        }
    }
    return SL_OK;
}

// "auto" means the daemon's cores, and what runs on a GPU's host side stays on them: the text is
// read as on a machine that has no others. Budgets are given once the job starts: what is free now
// may be taken then, and what is taken now be free.
static int parse_within(const char *text, const struct sl_cores *cores, const struct sl_gpus *gpus,
                        struct sl_config *out)
{
    cpu_set_t before;
    uint16_t list[SL_CORES_MAX];
    char note[SL_GPUS_NOTE_BYTES] = "";
    uint32_t n = sl_cores_list(cores, list, SL_CORES_MAX);
    SL_TRY(sl_config_parse(text, strlen(text), "the job", out));
    bool asks = sl_config_asks_for_gpus(out);
    if (asks && !gpus)
        return sl_fail(SL_EAGAIN, "job '%s': the GPUs are not known yet", out->name);
    if (!(out->devices_auto || asks) || sched_getaffinity(0, sizeof before, &before) != 0)
        return SL_OK;
    SL_TRY(sl_device_pin(list, n));
    int rc = out->devices_auto ? sl_config_parse(text, strlen(text), "the job", out) : SL_OK;
    if (rc == SL_OK)
        rc = sl_gpus_resolve_with(out, gpus, false, "the job", note);
    sched_setaffinity(0, sizeof before, &before);
    if (note[0])
        sl_log_warn("job '%s': %s", out->name, note);
    return rc;
}

static void list_gpus(const struct sl_config *c, struct sl_cores *out)
{
    memset(out, 0, sizeof *out);
    for (uint32_t d = 0; d < c->n_devices; d++)
        if (c->devices[d].kind == SL_DEVICE_CUDA)
            sl_cores_add(out, c->devices[d].index);
}

int sl_entry_asks_for_gpus(const char *config_json, bool *out)
{
    struct sl_config *c = malloc(sizeof *c); // too large for a stack
    if (!c)
        return sl_fail(SL_ENOMEM, "no memory for a job");
    int rc = sl_config_parse(config_json, strlen(config_json), "the job", c);
    *out = rc == SL_OK && sl_config_asks_for_gpus(c);
    free(c);
    return rc;
}

int sl_entry_set_config(struct sl_entry *e, const char *config_json, const struct sl_cores *cores,
                        const struct sl_gpus *gpus)
{
    struct sl_config *c = malloc(sizeof *c); // too large for a stack
    if (!c)
        return sl_fail(SL_ENOMEM, "no memory for a job");
    int rc = parse_within(config_json, cores, gpus, c);
    if (rc == SL_OK)
        rc = check_config(c);
    if (rc == SL_OK)
        rc = check_cores(c, cores, &e->cores);
    if (rc == SL_OK)
        list_gpus(c, &e->gpus);
    char *resolved = rc == SL_OK ? sl_config_to_json(c) : NULL;
    if (rc == SL_OK && !resolved)
        rc = sl_fail(SL_ENOMEM, "no memory for a job");
    if (rc == SL_OK) {
        free(e->config_json);
        e->config_json = resolved;
        memcpy(e->name, c->name, sizeof e->name);
        memcpy(e->output, c->output, sizeof e->output);
        memcpy(e->dataset, c->dataset, sizeof e->dataset);
        e->n_devices = sl_config_is_pool(c) ? 1 : c->n_devices;
        e->epochs = sl_config_told_epochs(c);
        e->resumes = c->resume == SL_RESUME_AUTO;
    }
    free(c);
    return rc;
}

// --- the list ------------------------------------------------------------------------------------

void sl_registry_fini(struct sl_registry *r)
{
    for (uint32_t i = 0; i < r->n; i++)
        sl_entry_free(r->entries[i]);
    free(r->entries);
    memset(r, 0, sizeof *r);
}

int sl_registry_add(struct sl_registry *r, struct sl_entry *e)
{
    if (r->n == r->capacity) {
        uint32_t capacity = SL_MAX(64u, 2 * r->capacity);
        struct sl_entry **wider = realloc(r->entries, capacity * sizeof *wider);
        if (!wider)
            return sl_fail(SL_ENOMEM, "no memory for a list of %u jobs", capacity);
        r->entries = wider;
        r->capacity = capacity;
    }
    if (!e->number)
        e->number = r->last_number + 1;
    r->last_number = SL_MAX(r->last_number, e->number);
    snprintf(e->id, sizeof e->id, "%llu", (unsigned long long)e->number);
    snprintf(e->title, sizeof e->title, "job %s '%s'", e->id, e->name);
    uint32_t at = r->n++;
    for (; at > 0 && r->entries[at - 1]->number > e->number; at--)
        r->entries[at] = r->entries[at - 1];
    r->entries[at] = e;
    return SL_OK;
}

void sl_registry_remove(struct sl_registry *r, struct sl_entry *e)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < r->n; i++)
        if (r->entries[i] != e)
            r->entries[kept++] = r->entries[i];
    r->n = kept;
    sl_entry_free(e);
}

struct sl_entry *sl_registry_by_number(const struct sl_registry *r, uint64_t number)
{
    for (uint32_t i = 0; i < r->n; i++)
        if (r->entries[i]->number == number)
            return r->entries[i];
    return NULL;
}

// Whether two names are of one directory, there or not.
static bool same_place(const char *a, const char *b)
{
    char real_a[PATH_MAX], real_b[PATH_MAX];
    size_t n_a = strlen(a), n_b = strlen(b);
    while (n_a > 1 && a[n_a - 1] == '/')
        n_a--;
    while (n_b > 1 && b[n_b - 1] == '/')
        n_b--;
    if (n_a == n_b && memcmp(a, b, n_a) == 0)
        return true;
    return realpath(a, real_a) && realpath(b, real_b) && strcmp(real_a, real_b) == 0;
}

static int by_distance(const void *a, const void *b, void *word)
{
    const struct sl_entry *const *x = a, *const *y = b;
    unsigned to_x = sl_suggest_distance(word, (*x)->name);
    unsigned to_y = sl_suggest_distance(word, (*y)->name);
    return to_x != to_y ? (to_x < to_y ? -1 : 1) : ((*x)->number > (*y)->number ? -1 : 1);
}

static int fail_unknown(const struct sl_registry *r, const char *word)
{
    char names[NAMED_MAX * 64] = "";
    const uint32_t n = SL_MIN(r->n, (uint32_t)NAMED_MAX);
    size_t at = 0;
    const struct sl_entry **nearest = calloc(r->n + 1, sizeof *nearest);
    if (!nearest)
        return sl_fail(SL_ENOMEM, "no memory for the names of %u jobs", r->n);
    for (uint32_t i = 0; i < r->n; i++)
        nearest[i] = r->entries[i];
    qsort_r(nearest, r->n, sizeof *nearest, by_distance, (void *)word); // only read
    for (uint32_t i = 0; i < n && at < sizeof names; i++)
        at += (size_t)snprintf(names + at, sizeof names - at, "%s%s '%.40s' (%s)", i ? ", " : "",
                               nearest[i]->id, nearest[i]->name,
                               sl_entry_state_name(nearest[i]->state));
    free(nearest);
    if (n == 0)
        return sl_fail(SL_ENOENT, "job '%s': the daemon has no jobs: 'sluice submit' gives it one",
                       word);
    return sl_fail(SL_ENOENT,
                   "job '%s': the daemon has no job of this id, name or run directory%s%s", word,
                   n == r->n ? ": there is " : "; the nearest are ", names);
}

int sl_registry_find(const struct sl_registry *r, const char *word, struct sl_entry **out)
{
    struct sl_entry *found = NULL;
    int found_rank = 0;
    if (!*word)
        return sl_fail(SL_EINVAL, "no job is named: give its id, name or run directory");
    for (uint32_t i = 0; i < r->n; i++) {
        struct sl_entry *e = r->entries[i];
        int rank = 0; // how well it fits
        if (strcmp(e->id, word) == 0)
            rank = 6;
        else if (strcmp(e->name, word) == 0)
            rank = 4;
        else if (*word == '/' && same_place(e->output, word))
            rank = 2;
        rank -= rank && rank < 6 && sl_entry_is_over(e);
        if (rank && rank >= found_rank) { // of equals the newest
            found = e;
            found_rank = rank;
        }
    }
    *out = found;
    return found ? SL_OK : fail_unknown(r, word);
}

int sl_registry_check_free(const struct sl_registry *r, const struct sl_entry *e)
{
    uint32_t waiting = 0;
    for (uint32_t i = 0; i < r->n; i++) {
        const struct sl_entry *other = r->entries[i];
        if (other == e || (sl_entry_is_over(other) && !other->orphan_until_ns))
            continue;
        waiting++;
        if (strcmp(other->name, e->name) == 0)
            return sl_fail(SL_EEXIST,
                           "name: job %s is called '%s' too and is %s: choose another name, or "
                           "'sluice stop %s' first",
                           other->id, e->name, sl_entry_state_name(other->state), other->id);
        if (same_place(other->output, e->output))
            return sl_fail(SL_EEXIST,
                           "output: job %s '%s', which is %s, writes to '%s' too: choose another "
                           "directory with --set output=DIR",
                           other->id, other->name, sl_entry_state_name(other->state), e->output);
    }
    if (waiting >= SL_REGISTRY_WAITING_MAX)
        return sl_fail(SL_EAGAIN, "the daemon has %u jobs that are not over and takes no more",
                       waiting);
    return SL_OK;
}

// --- the queue -----------------------------------------------------------------------------------

int64_t sl_registry_order_last(const struct sl_registry *r)
{
    int64_t order = 0;
    for (uint32_t i = 0; i < r->n; i++)
        if (r->entries[i]->state == SL_ENTRY_QUEUED)
            order = SL_MAX(order, r->entries[i]->order + 1);
    return order;
}

int64_t sl_registry_order_first(const struct sl_registry *r)
{
    int64_t order = 0;
    for (uint32_t i = 0; i < r->n; i++)
        if (r->entries[i]->state == SL_ENTRY_QUEUED)
            order = SL_MIN(order, r->entries[i]->order - 1);
    return order;
}

struct sl_queue_item *sl_registry_queue(const struct sl_registry *r)
{
    struct sl_queue_item *items = calloc(r->n + 1, sizeof *items);
    for (uint32_t i = 0; items && i < r->n; i++) {
        const struct sl_entry *e = r->entries[i];
        bool holds = e->process || e->orphan_until_ns;
        items[i] = (struct sl_queue_item){
            .cores = &e->cores,
            .gpus = &e->gpus,
            .part = holds                         ? SL_QUEUE_HOLDS
                    : e->state == SL_ENTRY_QUEUED ? SL_QUEUE_WAITS
                                                  : SL_QUEUE_NO_PART,
            .order = e->order,
        };
    }
    return items;
}

static uint32_t index_of(const struct sl_registry *r, const struct sl_entry *e)
{
    uint32_t i = 0;
    while (i < r->n && r->entries[i] != e)
        i++;
    return i;
}

static char *why_text(const struct sl_registry *r, const struct sl_queue_view *view, char *buf,
                      size_t bytes)
{
    const struct sl_entry *by = r->entries[view->by];
    bool waits = by->state == SL_ENTRY_QUEUED && !by->orphan_until_ns;
    if (view->may_start)
        snprintf(buf, bytes, "is about to start");
    else
        snprintf(buf, bytes, "waits for %s %u, which job %s '%s' %s", view->gpu ? "GPU" : "core",
                 view->core, by->id, by->name, waits ? "waits for longer" : "has");
    return buf;
}

char *sl_registry_why(const struct sl_registry *r, const struct sl_entry *e, char *buf,
                      size_t bytes)
{
    struct sl_queue_item *items = sl_registry_queue(r);
    struct sl_queue_view view;
    buf[0] = '\0';
    if (!items)
        return buf;
    sl_queue_look(items, r->n, index_of(r, e), &view);
    free(items);
    return why_text(r, &view, buf, bytes);
}

// --- as JSON -------------------------------------------------------------------------------------

static double known(bool is_known, double value)
{
    return is_known ? value : NAN;
}

static void add_queue(cJSON *to, const struct sl_registry *r, const struct sl_entry *e)
{
    char why[256];
    struct sl_queue_view view;
    struct sl_queue_item *items = e->state == SL_ENTRY_QUEUED ? sl_registry_queue(r) : NULL;
    if (!items) {
        cJSON_AddNullToObject(to, "position");
        cJSON_AddNullToObject(to, "why");
        return;
    }
    sl_queue_look(items, r->n, index_of(r, e), &view);
    free(items);
    cJSON_AddNumberToObject(to, "position", view.position);
    cJSON_AddStringToObject(to, "why", why_text(r, &view, why, sizeof why));
}

cJSON *sl_entry_json(const struct sl_registry *r, const struct sl_entry *e, const char *log_dir)
{
    char text[SL_CONFIG_PATH_BYTES + 64];
    const struct sl_entry_live *live = &e->live;
    bool over = sl_entry_is_over(e);
    cJSON *j = cJSON_CreateObject();
    cJSON_AddStringToObject(j, "id", e->id);
    cJSON_AddStringToObject(j, "name", e->name);
    cJSON_AddStringToObject(j, "state", sl_entry_state_name(e->state));
    add_queue(j, r, e);
    sl_json_add_number(j, "submitted", known(e->submitted > 0, e->submitted));
    sl_json_add_number(j, "started", known(e->started > 0, e->started));
    sl_json_add_number(j, "ended", known(over && e->ended > 0, e->ended));
    sl_json_add_number(j, "exit_status",
                       known(over && e->state != SL_ENTRY_INTERRUPTED, e->exit_status));
    sl_json_add_text(j, "message", e->message);
    cJSON_AddStringToObject(j, "output", e->output);
    sl_cores_format(&e->cores, text, sizeof text);
    cJSON_AddStringToObject(j, "cores", text);
    sl_cores_format(&e->gpus, text, sizeof text);
    cJSON_AddStringToObject(j, "gpus", text);
    cJSON_AddNumberToObject(j, "devices", e->n_devices);
    cJSON_AddStringToObject(j, "resume", e->resumes ? "auto" : "never");
    sl_json_add_number(j, "pid", known(e->pid > 0, e->pid));
    sl_json_add_number(j, "epoch", known(live->any, live->epoch));
    sl_json_add_number(j, "epochs", known(e->epochs > 0, e->epochs));
    sl_json_add_number(j, "progress", known(live->any, live->progress));
    sl_json_add_number(j, "samplers", known(live->any && !over, live->samplers));
    sl_json_add_number(j, "trainers", known(live->any && !over, live->trainers));
    sl_json_add_number(j, "loss", known(live->any, live->loss));
    sl_json_add_number(j, "seconds_left",
                       known(live->any && !over && live->seconds_left >= 0, live->seconds_left));
    cJSON_AddNumberToObject(j, "resumed", e->resumed);
    snprintf(text, sizeof text, "%s/%s.log", log_dir, e->id);
    cJSON_AddStringToObject(j, "log", text);
    return j;
}
