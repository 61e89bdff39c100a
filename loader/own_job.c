#include "loader/own_job.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/json_print.h"
#include "config/config.h"
#include "loader/programs.h"

enum {
    STOP_MS = 20000, // a sampler may be in the middle of a large batch
    KILL_MS = 5000,
    LAST_WORD_MS = 200,
    TAIL_BYTES = 1500,
    STATUS_JOB_IS_WRONG = 2,
    STATUS_STOPPED = 130,
};

// --- the job's text ------------------------------------------------------------------------------

// Says of a job that nobody trains but its loader that it is one.
static int set_kind(cJSON *job, const char *origin)
{
    cJSON *model = cJSON_GetObjectItemCaseSensitive(job, "model");
    if (!model)
        model = cJSON_AddObjectToObject(job, "model");
    const cJSON *kind = cJSON_GetObjectItemCaseSensitive(model, "kind");
    if (!kind && cJSON_IsObject(model))
        cJSON_AddStringToObject(model, "kind", "external");
    else if (cJSON_IsString(kind) && strcmp(kind->valuestring, "external") != 0)
        return sl_fail(
            SL_EINVAL,
            "%s: model.kind: found \"%s\", wanted \"external\": a loader's job trains no "
            "model of its own: leave model out, or run the job with 'sluice run'",
            origin, kind->valuestring);
    return SL_OK;
}

// A job without a name is called by its process, so that `sluice stats` tells it from others.
static void set_name(cJSON *job)
{
    static _Atomic uint32_t n_before;
    char name[48];
    if (cJSON_HasObjectItem(job, "name"))
        return;
    const uint32_t n = atomic_fetch_add(&n_before, 1) + 1;
    snprintf(name, sizeof name, n > 1 ? "loader-%d-%u" : "loader-%d", (int)getpid(), n);
    cJSON_AddStringToObject(job, "name", name);
}

int sl_own_job_read(const char *given, const char *origin, struct sl_config *config,
                    bool *has_output)
{
    char *text = NULL;
    cJSON *job = cJSON_Parse(given);
    int rc = cJSON_IsObject(job) ? set_kind(job, origin) : SL_OK;
    if (rc == SL_OK && cJSON_IsObject(job)) {
        set_name(job);
        text = sl_json_line(job);
    }
    *has_output = cJSON_HasObjectItem(job, "output");
    cJSON_Delete(job);
    // What is no JSON is for the reader of job files to complain of.
    const char *read = text ? text : given;
    if (rc == SL_OK)
        rc = sl_config_parse(read, strlen(read), origin, config);
    free(text);
    return rc;
}

// The resolved job (owned: free()).
static int resolve(const struct sl_own_job_spec *spec, struct sl_config *config, bool *has_output,
                   char **out)
{
    SL_TRY(sl_own_job_read(spec->text, spec->origin, config, has_output));
    if (config->nodes > 1)
        return sl_fail(SL_EINVAL,
                       "%s: nodes: found %u, wanted 1 or \"auto\": a loader starts its job on this "
                       "machine alone: start it with 'mpirun ... sluice run', and attach to it",
                       spec->origin, config->nodes);
    *out = sl_config_to_json(config);
    return *out ? SL_OK : sl_fail(SL_ENOMEM, "%s: no memory for the configuration", spec->origin);
}

// --- start ---------------------------------------------------------------------------------------

static int listen_for_end(struct sl_own_job *j)
{
    Sl__Control__Subscribe subscribe = SL__CONTROL__SUBSCRIBE__INIT;
    Sl__Control__Envelope body = SL_ENVELOPE(SUBSCRIBE, subscribe, &subscribe);
    SL_TRY(sl_bus_connect(j->launch.endpoint, j->launch.key, &j->bus));
    return sl_bus_send(j->bus, NULL, &body);
}

static int launch(struct sl_own_job *j, const struct sl_config *config, const char *output,
                  const char *json, const char *programs)
{
    j->log_fd = memfd_create("sluice-broker.log", MFD_CLOEXEC);
    if (j->log_fd < 0)
        return sl_fail_errno(SL_ESYS, errno, "starting a job: memfd_create");
    const struct sl_launch_job job = {
        .config_json = json,
        .name = config->name,
        .output = output,
        .checks = true,
        .error_fd = j->log_fd,
        .directory = programs,
        .owner = getpid(),
    };
    SL_TRY(sl_launch_broker(&job, &j->launch));
    return listen_for_end(j);
}

int sl_own_job_start(struct sl_own_job *j, const struct sl_own_job_spec *spec)
{
    char programs[PATH_MAX], *json = NULL;
    *j = (struct sl_own_job){.log_fd = -1, .launch.pidfd = -1};
    SL_TRY(sl_loader_programs(spec->programs, programs));
    struct sl_config *config = calloc(1, sizeof *config);
    if (!config)
        return sl_fail(SL_ENOMEM, "%s: no memory for the configuration", spec->origin);
    bool has_output = false;
    int rc = resolve(spec, config, &has_output, &json);
    if (has_output)
        snprintf(j->output, sizeof j->output, "%s", config->output);
    if (rc == SL_OK)
        rc = launch(j, config, has_output ? j->output : NULL, json, programs);
    free(json);
    free(config);
    return rc;
}

// --- the end -------------------------------------------------------------------------------------

static void note_end(struct sl_own_job *j, const Sl__Control__Finished *f)
{
    j->code = f->exit_status == STATUS_JOB_IS_WRONG ? SL_EINVAL
              : f->exit_status == STATUS_STOPPED    ? SL_EABORTED
                                                    : SL_EFAILED;
    snprintf(j->why, sizeof j->why, "%s", f->message);
}

static void hear(struct sl_own_job *j, int timeout_ms)
{
    Sl__Control__Envelope *m;
    while (j->bus && !j->code && sl_bus_receive(j->bus, timeout_ms, NULL, &m) == SL_OK) {
        if (m->body_case == SL__CONTROL__ENVELOPE__BODY_FINISHED)
            note_end(j, m->finished);
        sl_bus_message_free(m);
    }
}

// The end of what it wrote on its standard error, in one line.
static void read_log(const struct sl_own_job *j, char out[TAIL_BYTES + 1])
{
    const off_t end = lseek(j->log_fd, 0, SEEK_END);
    const off_t from = SL_MAX(end - TAIL_BYTES, 0);
    ssize_t n = pread(j->log_fd, out, TAIL_BYTES, from);
    n = SL_MAX(n, 0);
    while (n > 0 && out[n - 1] == '\n')
        n--;
    out[n] = '\0';
    for (char *at = out; (at = strchr(at, '\n'));)
        *at = '|';
}

int sl_own_job_check(struct sl_own_job *j)
{
    char how[160], lines[TAIL_BYTES + 1];
    struct sl_exit_status death;
    hear(j, 0);
    if (!j->code && j->launch.pid && sl_launch_wait(&j->launch, 0, &death)) {
        hear(j, LAST_WORD_MS);
        if (!j->code) {
            read_log(j, lines);
            j->code = death.known && !death.signal && death.exit_status == STATUS_JOB_IS_WRONG
                          ? SL_EINVAL
                          : SL_EFAILED;
            snprintf(j->why, sizeof j->why, "the job's broker %s%s%s",
                     sl_exit_status_describe(&death, how, sizeof how),
                     *lines ? "; its last lines: " : "", lines);
        }
    }
    return j->code ? sl_fail(j->code, "%s", j->why) : SL_OK;
}

void sl_own_job_stop(struct sl_own_job *j)
{
    struct sl_exit_status death;
    Sl__Control__Stop stop = SL__CONTROL__STOP__INIT;
    Sl__Control__Envelope body = SL_ENVELOPE(STOP, stop, &stop);
    if (j->launch.pid && (!j->bus || sl_bus_send(j->bus, NULL, &body) != SL_OK))
        sl_launch_kill(&j->launch);
    if (j->launch.pid && !sl_launch_wait(&j->launch, STOP_MS, &death)) {
        sl_launch_kill(&j->launch);
        sl_launch_wait(&j->launch, KILL_MS, &death);
    }
    sl_bus_close(j->bus, 0);
    if (j->log_fd > 0)
        close(j->log_fd);
    *j = (struct sl_own_job){.log_fd = -1, .launch.pidfd = -1};
}
