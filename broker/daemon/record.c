#include "broker/daemon/record.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/json_print.h"
#include "common/base/log.h"
#include "common/base/open_file.h"
#include "common/data/atomic_file.h"

#define RECORD_SCHEMA "sluice.record/1"

enum { RECORD_BYTES_MAX = 8 << 20, RECORD_PATH_BYTES = 4200 };

static const double ever = 9e15; // no count and no time is above it

static char *path_of(const char *dir, const struct sl_entry *e, const char *ending,
                     char buf[RECORD_PATH_BYTES])
{
    snprintf(buf, RECORD_PATH_BYTES, "%s/%s.%s", dir, e->id, ending);
    return buf;
}

// --- writing -------------------------------------------------------------------------------------

static cJSON *to_json(const struct sl_entry *e)
{
    char cores[SL_CORES_TEXT_BYTES], gpus[SL_CORES_TEXT_BYTES];
    cJSON *j = cJSON_CreateObject();
    sl_cores_format(&e->cores, cores, sizeof cores);
    sl_cores_format(&e->gpus, gpus, sizeof gpus);
    cJSON_AddStringToObject(j, "schema", RECORD_SCHEMA);
    cJSON_AddStringToObject(j, "id", e->id);
    cJSON_AddStringToObject(j, "name", e->name);
    cJSON_AddStringToObject(j, "output", e->output);
    cJSON_AddStringToObject(j, "cores", cores);
    if (*gpus)
        cJSON_AddStringToObject(j, "gpus", gpus);
    cJSON_AddNumberToObject(j, "devices", e->n_devices);
    cJSON_AddNumberToObject(j, "epochs", e->epochs);
    cJSON_AddBoolToObject(j, "resumes", e->resumes);
    cJSON_AddStringToObject(j, "state", sl_entry_state_name(e->state));
    cJSON_AddNumberToObject(j, "order", (double)e->order);
    cJSON_AddNumberToObject(j, "submitted", e->submitted);
    cJSON_AddNumberToObject(j, "started", e->started);
    cJSON_AddNumberToObject(j, "ended", e->ended);
    cJSON_AddNumberToObject(j, "exit_status", e->exit_status);
    cJSON_AddStringToObject(j, "message", e->message);
    cJSON_AddBoolToObject(j, "stopping", e->stopping);
    cJSON_AddBoolToObject(j, "was_paused", e->was_paused);
    cJSON_AddBoolToObject(j, "began", e->began);
    cJSON_AddNumberToObject(j, "resumed", e->resumed);
    cJSON_AddNumberToObject(j, "stuck", e->stuck);
    cJSON_AddStringToObject(j, "reached", e->reached);
    cJSON_AddNumberToObject(j, "pid", e->pid);
    cJSON_AddNumberToObject(j, "pid_start", (double)e->pid_start);
    cJSON_AddStringToObject(j, "boot", e->boot);
    cJSON_AddStringToObject(j, "report", e->report ? e->report : "");
    cJSON_AddStringToObject(j, "checkpoint", e->checkpoint ? e->checkpoint : "");
    if (e->live.any) {
        cJSON *came_to = cJSON_AddObjectToObject(j, "came_to");
        cJSON_AddNumberToObject(came_to, "epoch", e->live.epoch);
        cJSON_AddNumberToObject(came_to, "progress", e->live.progress);
        cJSON_AddNumberToObject(came_to, "loss", e->live.loss); // null where it is none
    }
    // As text: a number of the job may have more digits than a double.
    cJSON_AddStringToObject(j, "config", e->config_json);
    return j;
}

int sl_record_write(const char *dir, const struct sl_entry *e)
{
    char path[RECORD_PATH_BYTES];
    cJSON *j = to_json(e);
    char *text = sl_json_pages(j);
    cJSON_Delete(j);
    if (!text)
        return sl_fail(SL_ENOMEM, "no memory for the record of job %s", e->id);
    int rc = sl_atomic_file_write(path_of(dir, e, "json", path), text, strlen(text));
    free(text);
    return rc;
}

void sl_record_remove(const char *dir, const struct sl_entry *e)
{
    char path[RECORD_PATH_BYTES];
    unlink(path_of(dir, e, "json", path));
    unlink(path_of(dir, e, "log", path));
}

// --- reading -------------------------------------------------------------------------------------

// A file's text (owned), at most RECORD_BYTES_MAX.
static int read_text(const char *path, char **out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    *out = NULL;
    if (fd < 0)
        return sl_fail_errno(errno == ELOOP    ? SL_EFORMAT
                             : errno == EACCES ? SL_EACCESS
                                               : SL_EIO,
                             errno, "record '%s'", path);
    int rc = sl_read_whole_file(fd, path, RECORD_BYTES_MAX, out, NULL);
    close(fd);
    return rc < 0 ? sl_fail_prefix(rc, "record") : SL_OK;
}

// Each takes a key's value, or notes in *bad which key has none that is of use.
static const char *text_at(const cJSON *j, const char *key, const char **bad)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(j, key));
    if (!text)
        *bad = key;
    return text ? text : "";
}

static double number_at(const cJSON *j, const char *key, double min, double max, const char **bad)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(j, key);
    if (cJSON_IsNumber(item) && item->valuedouble >= min && item->valuedouble <= max)
        return item->valuedouble;
    *bad = key;
    return min;
}

static bool flag_at(const cJSON *j, const char *key, const char **bad)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(j, key);
    if (!cJSON_IsBool(item))
        *bad = key;
    return cJSON_IsTrue(item);
}

// Keys that an older daemon did not write.
static const char *text_if_any(const cJSON *j, const char *key, const char **bad)
{
    return cJSON_HasObjectItem(j, key) ? text_at(j, key, bad) : "";
}

static bool flag_if_any(const cJSON *j, const char *key, bool otherwise, const char **bad)
{
    return cJSON_HasObjectItem(j, key) ? flag_at(j, key, bad) : otherwise;
}

static void take(char *out, size_t bytes, const char *text, const char *key, const char **bad)
{
    if (strlen(text) >= bytes)
        *bad = key;
    else
        memcpy(out, text, strlen(text) + 1);
}

static char *copy_unless_empty(const char *text, const char **bad)
{
    char *copy = *text ? strdup(text) : NULL;
    if (*text && !copy)
        *bad = "memory";
    return copy;
}

// How far the job was, which a record may leave out: it is only shown.
static void read_came_to(const cJSON *j, struct sl_entry_live *live)
{
    const char *bad = NULL;
    const cJSON *came_to = cJSON_GetObjectItemCaseSensitive(j, "came_to");
    uint32_t epoch = (uint32_t)number_at(came_to, "epoch", 0, UINT32_MAX, &bad);
    double progress = number_at(came_to, "progress", 0, 1, &bad);
    const cJSON *loss = cJSON_GetObjectItemCaseSensitive(came_to, "loss");
    if (bad)
        return;
    live->any = true;
    live->epoch = epoch;
    live->progress = progress;
    live->loss = cJSON_IsNumber(loss) ? loss->valuedouble : NAN;
}

static const char *from_json(const cJSON *j, struct sl_entry *e)
{
    const char *bad = NULL;
    if (strcmp(text_at(j, "schema", &bad), RECORD_SCHEMA) != 0)
        return "schema";
    char *end;
    const char *id = text_at(j, "id", &bad);
    e->number = strtoull(id, &end, 10);
    if (!*id || *end || e->number == 0 || e->number > (uint64_t)ever)
        return "id";
    snprintf(e->id, sizeof e->id, "%llu", (unsigned long long)e->number);
    take(e->name, sizeof e->name, text_at(j, "name", &bad), "name", &bad);
    take(e->output, sizeof e->output, text_at(j, "output", &bad), "output", &bad);
    take(e->message, sizeof e->message, text_at(j, "message", &bad), "message", &bad);
    take(e->boot, sizeof e->boot, text_if_any(j, "boot", &bad), "boot", &bad);
    take(e->reached, sizeof e->reached, text_at(j, "reached", &bad), "reached", &bad);
    if (sl_cores_parse(text_at(j, "cores", &bad), &e->cores) < 0)
        return "cores";
    const char *gpus = text_if_any(j, "gpus", &bad);
    if (*gpus && sl_cores_parse(gpus, &e->gpus) < 0)
        return "gpus";
    if (!sl_entry_state_parse(text_at(j, "state", &bad), &e->state))
        return "state";
    e->n_devices = (uint32_t)number_at(j, "devices", 0, SL_CONFIG_MAX_DEVICES, &bad);
    e->epochs = (uint32_t)number_at(j, "epochs", 0, UINT32_MAX, &bad);
    e->resumes = flag_at(j, "resumes", &bad);
    e->order = (int64_t)number_at(j, "order", -ever, ever, &bad);
    e->submitted = number_at(j, "submitted", 0, ever, &bad);
    e->started = number_at(j, "started", 0, ever, &bad);
    e->ended = number_at(j, "ended", 0, ever, &bad);
    e->exit_status = (int)number_at(j, "exit_status", -255, 255, &bad);
    e->stopping = flag_at(j, "stopping", &bad);
    e->was_paused = flag_at(j, "was_paused", &bad);
    e->resumed = (uint32_t)number_at(j, "resumed", 0, UINT32_MAX, &bad);
    e->stuck = (uint32_t)number_at(j, "stuck", 0, UINT32_MAX, &bad);
    e->pid = (pid_t)number_at(j, "pid", 0, INT32_MAX, &bad);
    e->pid_start = (uint64_t)number_at(j, "pid_start", 0, ever, &bad);
    e->report = copy_unless_empty(text_at(j, "report", &bad), &bad);
    e->checkpoint = copy_unless_empty(text_at(j, "checkpoint", &bad), &bad);
    e->config_json = copy_unless_empty(text_at(j, "config", &bad), &bad);
    read_came_to(j, &e->live);
    e->began = flag_if_any(j, "began", e->live.any, &bad);
    return e->config_json && e->name[0] && e->output[0] == '/' ? bad : "config";
}

int sl_record_read(const char *path, struct sl_entry **out)
{
    char *text;
    *out = NULL;
    SL_TRY(read_text(path, &text));
    struct sl_entry *e = sl_entry_new();
    cJSON *j = cJSON_Parse(text);
    free(text);
    const char *bad = !e ? "memory" : !cJSON_IsObject(j) ? "JSON" : from_json(j, e);
    cJSON_Delete(j);
    if (!bad) {
        *out = e;
        return SL_OK;
    }
    sl_entry_free(e);
    return sl_fail(SL_EFORMAT, "record '%s' is damaged: its '%s' cannot be used", path, bad);
}

static void set_aside(const char *path)
{
    char aside[RECORD_PATH_BYTES + 16];
    snprintf(aside, sizeof aside, "%s.damaged", path);
    bool moved = rename(path, aside) == 0;
    sl_log_warn("%s: %s%s", sl_error_message(), moved ? "it is kept as " : "it cannot be set aside",
                moved ? aside : "");
}

static int read_one(const char *dir, const char *name, struct sl_registry *r)
{
    char path[RECORD_PATH_BYTES];
    struct sl_entry *e;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    int rc = sl_record_read(path, &e);
    if (rc == SL_ENOMEM || rc == SL_EIO)
        return rc; // there may be nothing wrong with it
    // A copy under another name would be a second job with the same number.
    if (rc == SL_OK &&
        (strtoull(name, NULL, 10) != e->number || sl_registry_by_number(r, e->number))) {
        rc = sl_fail(SL_EFORMAT, "record '%s' is damaged: it is of job %s", path, e->id);
        sl_entry_free(e);
    }
    if (rc < 0) {
        set_aside(path);
        return SL_OK;
    }
    rc = sl_registry_add(r, e);
    if (rc < 0)
        sl_entry_free(e);
    return rc;
}

// Numbers that were given away, whatever has become of the record; and how many were set aside.
static void note_name(const char *name, struct sl_registry *r)
{
    size_t digits = strspn(name, "0123456789");
    const char *ending = name + digits;
    bool damaged = strcmp(ending, ".json.damaged") == 0;
    if (digits == 0 || !(damaged || strcmp(ending, ".json") == 0 || strcmp(ending, ".log") == 0))
        return;
    uint64_t number = strtoull(name, NULL, 10);
    r->n_damaged += damaged;
    if (number <= (uint64_t)ever)
        r->last_number = SL_MAX(r->last_number, number);
}

int sl_record_read_all(const char *dir, struct sl_registry *r)
{
    char path[RECORD_PATH_BYTES];
    const struct dirent *entry;
    int rc = SL_OK;
    DIR *d = opendir(dir);
    if (!d)
        return sl_fail_errno(SL_EACCESS, errno, "reading the state directory '%s'", dir);
    while (rc == SL_OK && (entry = readdir(d))) {
        const char *name = entry->d_name;
        size_t n = strlen(name), digits = strspn(name, "0123456789");
        if (digits > 0 && strcmp(name + digits, ".json") == 0) {
            rc = read_one(dir, name, r);
        } else if (name[0] == '.' && n > 4 && strcmp(name + n - 4, ".tmp") == 0) {
            snprintf(path, sizeof path, "%s/%s", dir, name);
            unlink(path);
        }
    }
    // Names have changed meanwhile.
    for (rewinddir(d); rc == SL_OK && (entry = readdir(d));)
        note_name(entry->d_name, r);
    closedir(d);
    return rc;
}
