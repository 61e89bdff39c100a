/*
 * transition.c - an entry enters a new state: first its record, then its subscribers.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "broker/daemon/daemon_internal.h"
#include "broker/daemon/process.h"
#include "broker/daemon/record.h"
#include "common/base/clock.h"
#include "common/base/descriptors.h"
#include "common/base/error.h"
#include "common/base/json_print.h"
#include "common/base/log.h"
#include "common/base/utf8.h"

enum { DESCRIPTORS_A_JOB = 32 }; // its bus has about 12, and to launch it takes a few more

#define SLOW_SECONDS 1.0

double sl_daemon_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int sl_daemon_save(struct sl_daemon *d, struct sl_entry *e)
{
    uint64_t before = sl_now_ns();
    int rc = sl_record_write(d->state_dir, e);
    double seconds = (double)(sl_now_ns() - before) * 1e-9;
    e->unsaved = rc < 0;
    if (seconds > SLOW_SECONDS)
        sl_log_warn("job %s: it took %.1f s to write its record to '%s', and nobody was answered "
                    "meanwhile: choose a --state-dir on a local disk",
                    e->id, seconds, d->state_dir);
    return rc;
}

void sl_daemon_save_rest(struct sl_daemon *d)
{
    for (uint32_t i = 0; i < d->registry.n; i++) {
        struct sl_entry *e = d->registry.entries[i];
        if (e->unsaved && sl_daemon_save(d, e) == SL_OK)
            sl_log_info("job %s: its record is written now", e->id);
    }
}

void sl_daemon_emit(struct sl_daemon *d, const struct sl_entry *e, unsigned wants,
                    Sl__Control__Envelope *body)
{
    char *before = body->job;
    body->job = (char *)e->id; // only read
    sl_subscribers_send(&d->subscribers, e->number, wants, body);
    body->job = before;
}

void sl_daemon_emit_state(struct sl_daemon *d, const struct sl_entry *e,
                          const struct sl_bus_peer *to)
{
    Sl__Control__JobState state = SL__CONTROL__JOB_STATE__INIT;
    Sl__Control__Envelope body = SL_ENVELOPE(JOB_STATE, job_state, &state);
    cJSON *j = sl_entry_json(&d->registry, e, d->state_dir);
    char *text = sl_json_line(j);
    cJSON_Delete(j);
    if (!text)
        return;
    state.json = text;
    body.job = (char *)e->id; // only read
    if (to)
        sl_bus_send(d->bus, to, &body);
    else
        sl_daemon_emit(d, e, 0, &body);
    free(text);
}

void sl_daemon_emit_finished(struct sl_daemon *d, const struct sl_entry *e)
{
    Sl__Control__Finished finished = SL__CONTROL__FINISHED__INIT;
    Sl__Control__Envelope body = SL_ENVELOPE(FINISHED, finished, &finished);
    finished.exit_status = e->exit_status;
    finished.message = (char *)e->message; // only read
    finished.run_directory = e->started > 0 ? (char *)e->output : "";
    sl_daemon_emit(d, e, 0, &body);
}

static void log_state(const struct sl_entry *e, enum sl_entry_state before)
{
    bool bad = e->state == SL_ENTRY_FAILED || e->state == SL_ENTRY_INTERRUPTED;
    sl_log_write(bad ? SL_LOG_WARN : SL_LOG_INFO, "%s: %s -> %s%s%s", e->title,
                 sl_entry_state_name(before), sl_entry_state_name(e->state),
                 e->message[0] ? ": " : "", e->message);
}

void sl_daemon_set_state(struct sl_daemon *d, struct sl_entry *e, enum sl_entry_state state)
{
    enum sl_entry_state before = e->state;
    bool runs = state == SL_ENTRY_RUNNING || state == SL_ENTRY_PAUSED;
    e->state = state;
    e->began |= runs;
    if (runs) { // with the checkpoint that was asked for; if it goes on again, with its newest one
        free(e->checkpoint);
        e->checkpoint = NULL;
    }
    if (sl_daemon_save(d, e) < 0)
        sl_log_error("job %s: its state cannot be recorded, which is tried again: %s", e->id,
                     sl_error_message());
    log_state(e, before);
    sl_daemon_emit_state(d, e, NULL);
    d->look_at_queue = true;
    d->status_old = true;
}

void sl_daemon_end_entry(struct sl_daemon *d, struct sl_entry *e, enum sl_entry_state state,
                         int exit_status, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->message, sizeof e->message, fmt, ap);
    va_end(ap);
    sl_utf8_clean(e->message); // it may have come from a log, or been cut off
    e->exit_status = exit_status;
    e->ended = sl_daemon_now();
    e->pid = 0;
    e->pid_start = 0;
    sl_daemon_set_state(d, e, state);
}

void sl_daemon_requeue(struct sl_entry *e, int64_t order)
{
    e->order = order;
    e->resumed++;
    e->stopping = false;
    e->ended = 0;
    e->exit_status = 0;
    e->message[0] = '\0';
    e->live.any = false;
    e->live.loss = NAN;
}

// A job that cannot be started because the daemon is short of something waits until it is not.
static bool has_descriptors(struct sl_daemon *d, struct sl_entry *e)
{
    bool enough = sl_descriptors_left(DESCRIPTORS_A_JOB);
    if (!enough && !e->message[0]) {
        snprintf(e->message, sizeof e->message,
                 "waits until the daemon has %d file descriptors left: raise its limit ('ulimit "
                 "-n', or LimitNOFILE= of a service)",
                 DESCRIPTORS_A_JOB);
        sl_log_warn("job %s: %s", e->id, e->message);
        sl_daemon_emit_state(d, e, NULL);
    }
    return enough;
}

void sl_daemon_start_jobs(struct sl_daemon *d)
{
    while (d->look_at_queue && !d->stopping) {
        struct sl_queue_item *items = sl_registry_queue(&d->registry);
        uint32_t next;
        if (!items)
            return; // again at the next tick
        bool found = sl_queue_next(items, d->registry.n, &next);
        free(items);
        d->look_at_queue = found;
        if (found && !has_descriptors(d, d->registry.entries[next]))
            return; // again at the next tick
        if (found)
            sl_process_start(d, d->registry.entries[next]);
    }
}

void sl_daemon_forget_old(struct sl_daemon *d)
{
    for (;;) {
        struct sl_entry *oldest = NULL;
        uint32_t n = 0;
        for (uint32_t i = 0; i < d->registry.n; i++) {
            struct sl_entry *e = d->registry.entries[i];
            if (!sl_entry_is_over(e) || e->process || e->orphan_until_ns)
                continue;
            n++;
            // An interrupted job may be gone on with: it is the last to be forgotten.
            bool later = e->state == SL_ENTRY_INTERRUPTED;
            bool oldest_later = oldest && oldest->state == SL_ENTRY_INTERRUPTED;
            if (!oldest || (later == oldest_later ? e->ended < oldest->ended : oldest_later))
                oldest = e;
        }
        if (n <= SL_REGISTRY_OVER_KEPT)
            return;
        sl_log_debug("job %s '%s', %s, is forgotten", oldest->id, oldest->name,
                     sl_entry_state_name(oldest->state));
        sl_record_remove(d->state_dir, oldest);
        sl_registry_remove(&d->registry, oldest);
    }
}
