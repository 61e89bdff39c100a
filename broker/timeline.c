#include "broker/timeline.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "broker/job.h"
#include "broker/json_writer.h"
#include "broker/live_internal.h"
#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/ipc/seat.h"

enum { TEXT_BYTES = 1024, SWITCHES_EVERY_MS = 10000 };

int sl_timeline_init(struct sl_timeline *t)
{
    memset(t, 0, sizeof *t);
    t->events = calloc(SL_TIMELINE_MAX, sizeof *t->events);
    return t->events ? SL_OK : sl_fail(SL_ENOMEM, "no memory for the job's events");
}

void sl_timeline_fini(struct sl_timeline *t)
{
    for (uint32_t i = 0; i < t->n; i++)
        free(t->events[i].line);
    free(t->events);
    t->events = NULL;
    t->n = 0;
}

// Makes room for one: the oldest minor one goes, of the oldest ones where there is none.
static void forget_one(struct sl_timeline *t)
{
    uint32_t victim = 0;
    while (victim < t->n && !t->events[victim].minor)
        victim++;
    if (victim == t->n)
        victim = 0;
    free(t->events[victim].line);
    memmove(&t->events[victim], &t->events[victim + 1], (t->n - victim - 1) * sizeof *t->events);
    t->n--;
    t->left_out++;
}

int sl_timeline_add(struct sl_timeline *t, const char *line, bool minor)
{
    char *copy = t->events ? strdup(line) : NULL;
    if (!copy)
        return sl_fail(SL_ENOMEM, "no memory for an event");
    if (t->n == SL_TIMELINE_MAX)
        forget_one(t);
    t->events[t->n].line = copy;
    t->events[t->n].minor = minor;
    t->n++;
    return SL_OK;
}

void sl_timeline_write(const struct sl_timeline *t, struct sl_json_writer *w, const char *key,
                       size_t bytes_max)
{
    uint32_t first = t->n;
    for (size_t bytes = 0; first > 0; first--) {
        bytes += strlen(t->events[first - 1].line) + 1;
        if (bytes > bytes_max)
            break;
    }
    sl_json_open_array(w, key);
    for (uint32_t i = first; i < t->n; i++)
        sl_json_add_raw(w, NULL, t->events[i].line);
    sl_json_close_array(w);
}

// --- a job's -------------------------------------------------------------------------------------

static uint32_t current_epoch(struct sl_job *job)
{
    uint32_t epoch = 0;
    uint64_t batches;
    if (job->arena.base && job->phases.arena)
        sl_phases_trains(&job->phases, &epoch, &batches);
    return epoch;
}

static void write_event(struct sl_job *job, uint32_t epoch, const char *kind, bool ok,
                        const char *text, struct sl_json_writer *w)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    sl_json_open_object(w, NULL);
    sl_json_add_string(w, "schema", "sluice.event/1");
    sl_json_add_time(w, "time", (double)now.tv_sec + (double)now.tv_nsec * 1e-9);
    sl_json_add_time(w, "seconds", (double)(sl_now_ns() - job->start_ns) * 1e-9);
    sl_json_add_string(w, "job", job->config.name);
    sl_json_add_string(w, "id", job->options.id);
    sl_json_add_string(w, "kind", kind);
    sl_json_add_whole(w, "epoch", epoch);
    sl_json_add_whole(w, "samplers", job->split.samplers);
    sl_json_add_whole(w, "trainers", job->split.trainers);
    sl_json_add_string(w, "text", text);
    sl_json_add_bool(w, "ok", ok);
    sl_json_close_object(w);
}

static void tell(struct sl_job *job, uint32_t epoch, const char *kind, bool ok, const char *text)
{
    struct sl_json_writer w = {0};
    Sl__Control__Event event = SL__CONTROL__EVENT__INIT;
    Sl__Control__Envelope e = SL__CONTROL__ENVELOPE__INIT;
    sl_job_trace_event(job, kind, text);
    write_event(job, epoch, kind, ok, text, &w);
    const char *line = sl_json_text(&w);
    if (line) {
        // Without memory it is only told.
        sl_timeline_add(&job->timeline, line, strcmp(kind, "switch") == 0);
        sl_writer_add_line(job->files.events, line);
        event.json = (char *)line; // only read
        e.body_case = SL__CONTROL__ENVELOPE__BODY_EVENT;
        e.event = &event;
        sl_clients_send(&job->clients, 0, &e);
    }
    sl_json_fini(&w);
}

void sl_job_event(struct sl_job *job, const char *kind, bool ok, const char *fmt, ...)
{
    char text[TEXT_BYTES];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    tell(job, current_epoch(job), kind, ok, text);
}

void sl_job_event_of(struct sl_job *job, uint32_t epoch, const char *kind, bool ok, const char *fmt,
                     ...)
{
    char text[TEXT_BYTES];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    tell(job, epoch, kind, ok, text);
}

// --- switches ------------------------------------------------------------------------------------

/*
 * A standby trainer may be switched on many times a second, which is nothing to read line by line:
 * switches are counted, with what was trained meanwhile, and told together.
 */
static void count_switches(struct sl_job *job, uint32_t epoch)
{
    struct sl_timeline *t = &job->timeline;
    uint64_t before = t->switches;
    for (uint32_t d = 0; d < job->config.n_devices; d++) {
        uint64_t n = atomic_load(&sl_seat(&job->arena, sl_seat_trainer(&job->arena, d))->switches);
        // A seat counts anew when its worker dies.
        t->switches += n < t->switches_seen[d] ? n : n - t->switches_seen[d];
        t->switches_seen[d] = n;
    }
    if (before == 0 && t->switches > 0) {
        t->since_ns = sl_now_ns();
        t->since_epoch = epoch;
    }
}

static uint64_t batches_of_standby(const struct sl_job *job)
{
    return job->live.living ? job->live.living->sums.standby_batches : 0;
}

static void tell_switches(struct sl_job *job, uint32_t epoch)
{
    struct sl_timeline *t = &job->timeline;
    uint64_t all = batches_of_standby(job), batches = all - t->batches_told;
    uint32_t first = SL_MIN(t->since_epoch, epoch);
    char when[48];
    if (first == epoch)
        snprintf(when, sizeof when, "epoch %u", epoch + 1);
    else
        snprintf(when, sizeof when, "epochs %u to %u", first + 1, epoch + 1);
    sl_job_event_of(job, epoch, "switch", true,
                    "standby trainers were switched on %llu time%s in %s (%llu batch%s)",
                    (unsigned long long)t->switches, t->switches == 1 ? "" : "s", when,
                    (unsigned long long)batches, batches == 1 ? "" : "es");
    t->switches = 0;
    t->batches_told = all;
    t->told_at_ns = sl_now_ns();
}

static bool is_long_ago(uint64_t ns)
{
    return sl_now_ns() - ns >= SWITCHES_EVERY_MS * 1000000ull;
}

void sl_job_watch_switches(struct sl_job *job)
{
    struct sl_timeline *t = &job->timeline;
    uint32_t epoch = current_epoch(job);
    count_switches(job, epoch);
    if (t->switches > 0 && is_long_ago(t->told_at_ns) && is_long_ago(t->since_ns))
        tell_switches(job, epoch);
}

void sl_job_end_switches(struct sl_job *job, uint32_t epoch)
{
    struct sl_timeline *t = &job->timeline;
    count_switches(job, epoch);
    // Those of the next epoch, which may have begun, wait for its end.
    if (t->switches > 0 && t->since_epoch <= epoch && is_long_ago(t->told_at_ns))
        tell_switches(job, epoch);
}

void sl_job_tell_switches(struct sl_job *job)
{
    uint32_t last = job->config.epochs ? job->config.epochs - 1 : 0;
    if (!job->arena.base)
        return;
    uint32_t epoch = SL_MIN(current_epoch(job), last);
    count_switches(job, epoch);
    if (job->timeline.switches > 0)
        tell_switches(job, epoch);
}
