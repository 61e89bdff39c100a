/*
 * requests.c - answers the requests of clients.
 *
 * Submit, List and Subscribe are answered here. What concerns one job goes to its broker while it
 * has one; a job that waits or is over is answered for. Every request is answered, once: by what
 * it asks for, or by a refusal that says why and what to do. One that needs the GPUs, which are not
 * known, is parked and served later (pending_request.h).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "broker/log/client.h"
#include "broker/daemon/archive.h"
#include "broker/daemon/daemon_internal.h"
#include "broker/daemon/pending_request.h"
#include "broker/daemon/process.h"
#include "broker/daemon/record.h"
#include "broker/daemon/root.h"
#include "broker/http/http.h"
#include "broker/rundir/rundir.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "common/base/json_print.h"
#include "common/base/log.h"
#include "common/base/version.h"

enum {
    CONFIG_BYTES_MAX = 1 << 20,
    NEEDS_GPUS = 1, // not done: the GPUs are not known yet, and are being asked for
};

// --- answers -------------------------------------------------------------------------------------

void sl_daemon_answer(struct sl_daemon *d, const struct sl_bus_peer *peer, int code,
                      const char *message, const char *json)
{
    Sl__Control__Answer answer = SL__CONTROL__ANSWER__INIT;
    Sl__Control__Envelope body = SL_ENVELOPE(ANSWER, answer, &answer);
    answer.ok = code >= 0;
    answer.code = code;
    answer.message = (char *)(message ? message : ""); // only read
    answer.json = (char *)(json ? json : "");
    // The client may have gone; but one that has not waits for an answer.
    if (sl_bus_send(d->bus, peer, &body) != SL_ERANGE)
        return;
    answer.ok = false;
    answer.code = SL_ERANGE;
    answer.message = "the answer is larger than a message may be";
    answer.json = "";
    sl_bus_send(d->bus, peer, &body);
}

static void refuse_scale(struct sl_daemon *d, const struct sl_bus_peer *peer, const char *job,
                         const char *message)
{
    Sl__Control__ScaleDone done = SL__CONTROL__SCALE_DONE__INIT;
    Sl__Control__Envelope body = SL_ENVELOPE(SCALE_DONE, scale_done, &done);
    cJSON *j = cJSON_CreateObject();
    cJSON_AddStringToObject(j, "schema", "sluice.scale/1");
    cJSON_AddFalseToObject(j, "ok");
    cJSON_AddFalseToObject(j, "dry_run");
    cJSON_AddNullToObject(j, "from");
    cJSON_AddNullToObject(j, "to");
    cJSON_AddArrayToObject(j, "steps");
    cJSON_AddStringToObject(j, "message", message);
    char *text = sl_json_line(j);
    cJSON_Delete(j);
    done.message = (char *)message; // only read
    if (text)
        done.json = text;
    body.job = (char *)job;
    sl_bus_send(d->bus, peer, &body);
    free(text);
}

void sl_daemon_refuse(struct sl_daemon *d, const struct sl_bus_peer *peer,
                      Sl__Control__Envelope__BodyCase request, const char *job, int code,
                      const char *message)
{
    Sl__Control__TraceChunk chunk = SL__CONTROL__TRACE_CHUNK__INIT;
    Sl__Control__Envelope body = SL_ENVELOPE(TRACE_CHUNK, trace_chunk, &chunk);
    switch (request) {
    case SL__CONTROL__ENVELOPE__BODY_SCALE: refuse_scale(d, peer, job, message); return;
    case SL__CONTROL__ENVELOPE__BODY_TRACE:
        chunk.last = true;
        chunk.message = (char *)message; // only read
        body.job = (char *)job;
        sl_bus_send(d->bus, peer, &body);
        return;
    default: sl_daemon_answer(d, peer, code, message, NULL);
    }
}

// With the entry's JSON; a message that is NULL is left out.
static void answer_entry(struct sl_daemon *d, const struct sl_bus_peer *peer,
                         const struct sl_entry *e, const char *message)
{
    cJSON *j = sl_entry_json(&d->registry, e, d->state_dir);
    char *text = sl_json_line(j);
    cJSON_Delete(j);
    sl_daemon_answer(d, peer, SL_OK, message, text);
    free(text);
}

// --- submit --------------------------------------------------------------------------------------

static int take_paths(struct sl_entry *e, const Sl__Control__Submit *m)
{
    if (*m->report && *m->report != '/')
        return sl_fail(SL_EINVAL, "--report: found '%s', wanted an absolute path", m->report);
    if (strlen(m->report) >= SL_CONFIG_PATH_BYTES)
        return sl_fail(SL_EINVAL, "--report: a name of %zu characters is too long",
                       strlen(m->report));
    if (strlen(m->checkpoint) >= SL_CHECKPOINT_NAME_BYTES)
        return sl_fail(SL_EINVAL, "--checkpoint: '%.40s...' names no checkpoint", m->checkpoint);
    e->report = *m->report ? strdup(m->report) : NULL;
    e->checkpoint = *m->checkpoint ? strdup(m->checkpoint) : NULL;
    if ((*m->report && !e->report) || (*m->checkpoint && !e->checkpoint))
        return sl_fail(SL_ENOMEM, "no memory for a job");
    return SL_OK;
}

// The GPUs, for a job whose text asks for any and where they are not given. NEEDS_GPUS: they are
// not known, which is being seen to.
static int find_gpus(struct sl_daemon *d, const char *config_json, const struct sl_gpus **gpus)
{
    bool asks;
    SL_TRY(sl_entry_asks_for_gpus(config_json, &asks));
    if (asks && !*gpus)
        *gpus = sl_pending_request_gpus(d);
    return asks && !*gpus ? NEEDS_GPUS : SL_OK;
}

// A key of TCP lets one run jobs; it does not make one this user.
static int confine(const struct sl_daemon *d, const struct sl_bus_peer *peer,
                   const struct sl_entry *e)
{
    if (!sl_bus_is_far(peer))
        return SL_OK;
    SL_TRY(sl_root_check(d->output_root, "output", e->output));
    return e->report ? sl_root_check(d->output_root, "--report", e->report) : SL_OK;
}

// The entry is the registry's when this returns SL_OK, and its record is on the disk. NEEDS_GPUS.
static int enter(struct sl_daemon *d, const struct sl_bus_peer *peer, const Sl__Control__Submit *m,
                 const struct sl_gpus *gpus, struct sl_entry *e)
{
    size_t bytes = strlen(m->config_json);
    if (d->stopping)
        return sl_fail(SL_EABORTED, "the daemon is stopping: start it again first");
    if (bytes > CONFIG_BYTES_MAX)
        return sl_fail(SL_ERANGE, "the job: found %zu bytes of text, wanted at most %d", bytes,
                       CONFIG_BYTES_MAX);
    int rc = find_gpus(d, m->config_json, &gpus);
    if (rc != SL_OK)
        return rc;
    SL_TRY(sl_entry_set_config(e, m->config_json, &d->cores, gpus));
    SL_TRY(take_paths(e, m));
    SL_TRY(confine(d, peer, e));
    SL_TRY(sl_rundir_check_place(e->output));
    SL_TRY(sl_registry_check_free(&d->registry, e));
    e->submitted = sl_daemon_now();
    e->order = sl_registry_order_last(&d->registry);
    e->state = SL_ENTRY_QUEUED;
    SL_TRY(sl_registry_add(&d->registry, e));
    rc = sl_daemon_save(d, e);
    if (rc == SL_OK)
        return SL_OK;
    sl_fail_prefix(rc, "the daemon cannot record the job");
    sl_record_remove(d->state_dir, e); // the name may be there though it is not durable
    return rc;
}

static void on_submit(struct sl_daemon *d, const struct sl_bus_peer *peer,
                      const Sl__Control__Envelope *m, const struct sl_gpus *gpus)
{
    struct sl_entry *e = sl_entry_new();
    int rc = e ? enter(d, peer, m->submit, gpus, e) : sl_fail(SL_ENOMEM, "no memory for a job");
    if (rc == NEEDS_GPUS && (rc = sl_pending_requests_add(&d->parking, peer, 0, m)) == SL_OK) {
        sl_entry_free(e);
        return;
    }
    if (rc < 0) {
        sl_log_info("a job is refused: %s", sl_error_message());
        sl_daemon_answer(d, peer, rc, sl_error_message(), NULL);
        if (e && e->number)
            sl_registry_remove(&d->registry, e);
        else
            sl_entry_free(e);
        return;
    }
    SL_FAILPOINT(DAEMON_SUBMITTED);
    sl_log_info("%s: submitted, writes to '%s'", e->title, e->output);
    sl_daemon_emit_state(d, e, NULL);
    d->look_at_queue = d->status_old = true;
    sl_daemon_start_jobs(d);
    answer_entry(d, peer, e, NULL);
}

// --- list ----------------------------------------------------------------------------------------

static cJSON *daemon_json(const struct sl_daemon *d)
{
    char text[SL_CORES_TEXT_BYTES];
    struct sl_cores idle = d->cores;
    struct sl_queue_item *items = sl_registry_queue(&d->registry);
    if (items)
        sl_queue_free(items, d->registry.n, &d->cores, &idle);
    free(items);
    cJSON *j = cJSON_CreateObject();
    cJSON_AddNumberToObject(j, "pid", getpid());
    cJSON_AddStringToObject(j, "version", SL_VERSION);
    cJSON_AddNumberToObject(j, "protocol", SL_PROTOCOL_VERSION);
    cJSON_AddStringToObject(j, "runtime_dir", d->runtime_dir);
    cJSON_AddStringToObject(j, "state_dir", d->state_dir);
    cJSON_AddNumberToObject(j, "seconds", (double)(sl_now_ns() - d->start_ns) * 1e-9);
    sl_cores_format(&d->cores, text, sizeof text);
    cJSON_AddStringToObject(j, "cores", text);
    sl_cores_format(&idle, text, sizeof text);
    cJSON_AddStringToObject(j, "free_cores", text);
    cJSON_AddNumberToObject(j, "damaged_records", d->registry.n_damaged);
    cJSON_AddNumberToObject(j, "waiting_for_gpus", d->parking.n);
    cJSON_AddItemToObject(j, "page",
                          d->http ? cJSON_CreateString(sl_http_url(d->http)) : cJSON_CreateNull());
    return j;
}

static void on_list(struct sl_daemon *d, const struct sl_bus_peer *peer)
{
    cJSON *j = cJSON_CreateObject();
    cJSON_AddStringToObject(j, "schema", SL_JOBS_SCHEMA);
    cJSON_AddItemToObject(j, "daemon", daemon_json(d));
    cJSON *jobs = cJSON_AddArrayToObject(j, "jobs");
    for (uint32_t i = 0; i < d->registry.n; i++)
        cJSON_AddItemToArray(jobs,
                             sl_entry_json(&d->registry, d->registry.entries[i], d->state_dir));
    char *text = sl_json_line(j);
    cJSON_Delete(j);
    sl_daemon_answer(d, peer, text ? SL_OK : SL_ENOMEM, text ? "" : "no memory for the list", text);
    free(text);
}

// --- subscribe -----------------------------------------------------------------------------------

static void send_stats(struct sl_daemon *d, const struct sl_entry *e,
                       const struct sl_bus_peer *peer)
{
    Sl__Control__Stats stats = SL__CONTROL__STATS__INIT;
    Sl__Control__Envelope body = SL_ENVELOPE(STATS, stats, &stats);
    if (!e->process || !e->live.stats)
        return;
    stats.json = e->live.stats;
    body.job = (char *)e->id; // only read
    sl_bus_send(d->bus, peer, &body);
}

// e is NULL for all jobs.
static void on_subscribe(struct sl_daemon *d, const struct sl_bus_peer *peer, struct sl_entry *e,
                         const Sl__Control__Subscribe *m)
{
    unsigned wants = (m->progress ? SL_WANTS_PROGRESS : 0) | (m->stats ? SL_WANTS_STATS : 0);
    int rc = sl_subscribers_add(&d->subscribers, peer, e ? e->number : 0, wants);
    if (rc < 0) {
        sl_daemon_answer(d, peer, rc, sl_error_message(), NULL);
        return;
    }
    if (e)
        sl_daemon_emit_state(d, e, peer);
    for (uint32_t i = 0; m->stats && i < d->registry.n; i++)
        if (!e || d->registry.entries[i] == e)
            send_stats(d, d->registry.entries[i], peer);
    if (e && sl_entry_is_over(e) && !e->orphan_until_ns)
        sl_archive_finished(d, e, peer);
}

// --- one job -------------------------------------------------------------------------------------

// Why a job that is over, or waits, cannot do what only a running one can.
static void refuse_idle(struct sl_daemon *d, const struct sl_bus_peer *peer,
                        const struct sl_entry *e, Sl__Control__Envelope__BodyCase request)
{
    char why[256], message[512], when[32];
    time_t ended = (time_t)e->ended;
    struct tm local;
    if (e->state == SL_ENTRY_QUEUED) {
        snprintf(message, sizeof message, "%s does not run yet: it %s", e->title,
                 sl_registry_why(&d->registry, e, why, sizeof why));
    } else if (e->orphan_until_ns) {
        snprintf(message, sizeof message,
                 "%s is interrupted: its broker (process %d) is still saving; try again soon",
                 e->title, (int)e->pid);
    } else {
        strftime(when, sizeof when, "%F %T", localtime_r(&ended, &local));
        snprintf(message, sizeof message, "%s is over since %s (%s)", e->title, when,
                 sl_entry_state_name(e->state));
    }
    sl_daemon_refuse(d, peer, request, e->id, SL_EINVAL, message);
}

static void stop_idle(struct sl_daemon *d, const struct sl_bus_peer *peer, struct sl_entry *e)
{
    bool waits = e->state == SL_ENTRY_QUEUED;
    bool was_to_go_on =
        sl_pending_request_refuse(d, e, "it was stopped before it was queued again");
    if (was_to_go_on && e->state != SL_ENTRY_INTERRUPTED) {
        sl_daemon_answer(d, peer, SL_OK, "it is not queued again", NULL);
        return;
    }
    if (!waits && e->state != SL_ENTRY_INTERRUPTED) {
        refuse_idle(d, peer, e, SL__CONTROL__ENVELOPE__BODY_STOP);
        return;
    }
    e->stopping = true;
    if (e->orphan_until_ns) { // it ends by itself, and is not gone on with
        if (sl_daemon_save(d, e) < 0)
            sl_log_error("%s", sl_error_message());
        sl_daemon_answer(d, peer, SL_OK, "its broker is still saving; the job is stopped then",
                         NULL);
        return;
    }
    const char *text = e->started > 0 ? "stopped by the user while it did not run"
                                      : "stopped by the user before it began";
    sl_daemon_end_entry(d, e, SL_ENTRY_STOPPED, 130, "%s", text);
    sl_daemon_emit_finished(d, e);
    sl_daemon_answer(d, peer, SL_OK, text, NULL);
}

static void on_stop(struct sl_daemon *d, const struct sl_bus_peer *peer, struct sl_entry *e,
                    bool kill)
{
    if (!e->process) {
        stop_idle(d, peer, e);
        return;
    }
    e->stopping = true;
    sl_process_stop(e->process, kill, 0);
    if (e->state != SL_ENTRY_FINISHING)
        sl_daemon_set_state(d, e, SL_ENTRY_FINISHING);
    sl_daemon_answer(d, peer, SL_OK, kill ? "being killed" : "stopping", NULL);
}

// --- resume --------------------------------------------------------------------------------------

static int check_checkpoint(const struct sl_entry *e, const char *name)
{
    struct sl_checkpoint_list list;
    char newest[SL_CHECKPOINT_NAME_BYTES] = "";
    bool there = !*name;
    if (strlen(name) >= SL_CHECKPOINT_NAME_BYTES)
        return sl_fail(SL_EINVAL, "--checkpoint: '%.40s...' names no checkpoint", name);
    if (there)
        return SL_OK;
    SL_TRY(sl_checkpoint_list(e->output, &list));
    for (uint32_t i = 0; i < list.n; i++)
        there |= strcmp(list.names[i], name) == 0;
    if (list.n)
        memcpy(newest, list.names[0], sizeof newest);
    sl_checkpoint_list_fini(&list);
    if (there)
        return SL_OK;
    return sl_fail(SL_ENOENT, "--checkpoint: '%s' has no checkpoint '%s': %s%s", e->output, name,
                   newest[0] ? "the newest one is " : "it has none at all", newest);
}

// What its broker would refuse it for when its turn has come, as far as names alone tell it. What
// takes longer (what is in a checkpoint and in the data set, another job that is ending in the run
// directory) is left to the broker.
static int check_can_go_on(const struct sl_entry *e, const char *checkpoint)
{
    struct stat st;
    enum sl_rundir_content content;
    SL_TRY(sl_daemon_check_run(e));
    if (sl_rundir_look(e->output, &content) < 0)
        return sl_fail_prefix(SL_EEXIST, "give the job to 'sluice submit' again");
    SL_TRY(check_checkpoint(e, checkpoint));
    if (stat(e->dataset, &st) != 0)
        return sl_fail_errno(SL_ENOENT, errno,
                             "its data set '%s' (put it back, or give the job to 'sluice submit' "
                             "again with --set dataset=DIR: it goes on in its run directory)",
                             e->dataset);
    return S_ISDIR(st.st_mode)
               ? SL_OK
               : sl_fail(SL_EINVAL, "its data set '%s' is not a directory any more", e->dataset);
}

// From this checkpoint, or from the newest one ("").
static int set_checkpoint(struct sl_entry *e, const char *checkpoint)
{
    char *name = *checkpoint ? strdup(checkpoint) : NULL;
    if (*checkpoint && !name)
        return sl_fail(SL_ENOMEM, "no memory for a name");
    free(e->checkpoint);
    e->checkpoint = name;
    return SL_OK;
}

// Of a job that is over: it is queued again. NEEDS_GPUS.
static int resume_over(struct sl_daemon *d, struct sl_entry *e, const char *checkpoint,
                       const struct sl_gpus *gpus)
{
    if (d->stopping)
        return sl_fail(SL_EABORTED, "the daemon is stopping: start it again first");
    if (e->orphan_until_ns)
        return sl_fail(SL_EAGAIN, "its broker (process %d) is still saving: try again soon",
                       (int)e->pid);
    if (e->state == SL_ENTRY_DONE)
        return sl_fail(SL_EINVAL,
                       "job %s '%s' is done: 'sluice submit' of it with more epochs trains it for "
                       "longer, or says why that cannot be",
                       e->id, e->name);
    SL_TRY(sl_registry_check_free(&d->registry, e));
    // The machine, or the daemon's cores, may be others than when it was submitted.
    int rc = find_gpus(d, e->config_json, &gpus);
    if (rc != SL_OK)
        return rc;
    SL_TRY(sl_entry_set_config(e, e->config_json, &d->cores, gpus));
    SL_TRY(check_can_go_on(e, checkpoint));
    SL_TRY(set_checkpoint(e, checkpoint));
    e->stuck = 0;
    sl_daemon_requeue(e, sl_registry_order_last(&d->registry));
    sl_daemon_set_state(d, e, SL_ENTRY_QUEUED);
    return SL_OK;
}

// Of a job that waits: where it begins may still be changed.
static int resume_waiting(struct sl_daemon *d, struct sl_entry *e, const char *checkpoint)
{
    if (!*checkpoint)
        return SL_OK;
    SL_TRY(check_checkpoint(e, checkpoint));
    SL_TRY(set_checkpoint(e, checkpoint));
    return sl_daemon_save(d, e); // which is tried again
}

// Of a job that has a broker. One that is on its way already has nothing to be told, wherever it is
// on it.
static int resume_running(struct sl_entry *e, const char *checkpoint, bool *forward)
{
    *forward = e->state != SL_ENTRY_STARTING;
    if (*checkpoint)
        return sl_fail(SL_EINVAL,
                       "--checkpoint: the job is %s, and goes on from where it is: 'sluice stop "
                       "%s' first, then resume it",
                       sl_entry_state_name(e->state), e->id);
    return SL_OK;
}

static void on_resume(struct sl_daemon *d, const struct sl_bus_peer *peer, struct sl_entry *e,
                      Sl__Control__Envelope *m, const struct sl_gpus *gpus)
{
    char why[256], message[384];
    const char *checkpoint = m->resume->checkpoint;
    bool forward = false;
    int rc;
    if (e->process) {
        rc = resume_running(e, checkpoint, &forward);
        snprintf(message, sizeof message, "it is starting, and not paused");
    } else if (e->state == SL_ENTRY_QUEUED) {
        rc = resume_waiting(d, e, checkpoint);
        snprintf(message, sizeof message, "it is queued already%s%s, and %s",
                 *checkpoint ? ", now for checkpoint " : "", checkpoint,
                 sl_registry_why(&d->registry, e, why, sizeof why));
    } else {
        rc = resume_over(d, e, checkpoint, gpus);
        if (rc == NEEDS_GPUS &&
            (rc = sl_pending_requests_add(&d->parking, peer, e->number, m)) == SL_OK)
            return;
        snprintf(message, sizeof message, "queued again");
        if (rc == SL_OK)
            sl_daemon_start_jobs(d);
    }
    if (rc < 0)
        sl_daemon_answer(d, peer, rc, sl_error_message(), NULL);
    else if (forward)
        sl_process_forward(e->process, peer, m);
    else
        answer_entry(d, peer, e, message);
}

static void on_request(struct sl_daemon *d, const struct sl_bus_peer *peer, struct sl_entry *e,
                       Sl__Control__Envelope *m)
{
    switch (m->body_case) {
    case SL__CONTROL__ENVELOPE__BODY_SUBSCRIBE: on_subscribe(d, peer, e, m->subscribe); break;
    case SL__CONTROL__ENVELOPE__BODY_STOP: on_stop(d, peer, e, m->stop->kill); break;
    case SL__CONTROL__ENVELOPE__BODY_RESUME: on_resume(d, peer, e, m, NULL); break;
    case SL__CONTROL__ENVELOPE__BODY_DESCRIBE:
        if (e->process)
            sl_process_forward(e->process, peer, m);
        else
            sl_archive_describe(d, e, peer);
        break;
    default:
        if (e->process)
            sl_process_forward(e->process, peer, m);
        else
            refuse_idle(d, peer, e, m->body_case);
    }
}

void sl_daemon_serve_parked(struct sl_daemon *d, const struct sl_pending_request *parked,
                            const struct sl_gpus *gpus)
{
    Sl__Control__Envelope *m = parked->request;
    struct sl_entry *e = parked->job ? sl_registry_by_number(&d->registry, parked->job) : NULL;
    if (e)
        on_resume(d, &parked->peer, e, m, gpus);
    else if (!parked->job)
        on_submit(d, &parked->peer, m, gpus);
    else
        sl_daemon_answer(d, &parked->peer, SL_ENOENT, "the job is not remembered any more", NULL);
}

void sl_daemon_on_message(struct sl_daemon *d, const struct sl_bus_peer *peer,
                          Sl__Control__Envelope *m)
{
    switch (m->body_case) {
    case SL__CONTROL__ENVELOPE__BODY_LIST: on_list(d, peer); return;
    case SL__CONTROL__ENVELOPE__BODY_SUBMIT: on_submit(d, peer, m, NULL); return;
    case SL__CONTROL__ENVELOPE__BODY_SUBSCRIBE:
        if (*m->job)
            break;
        on_subscribe(d, peer, NULL, m->subscribe);
        return;
    case SL__CONTROL__ENVELOPE__BODY_STOP:
    case SL__CONTROL__ENVELOPE__BODY_DESCRIBE:
    case SL__CONTROL__ENVELOPE__BODY_PAUSE:
    case SL__CONTROL__ENVELOPE__BODY_RESUME:
    case SL__CONTROL__ENVELOPE__BODY_SCALE:
    case SL__CONTROL__ENVELOPE__BODY_TRACE: break;
    default: return; // what nobody asks a daemon
    }
    struct sl_entry *e;
    int rc = sl_registry_find(&d->registry, m->job, &e);
    if (rc < 0)
        sl_daemon_refuse(d, peer, m->body_case, m->job, rc, sl_error_message());
    else
        on_request(d, peer, e, m);
}
