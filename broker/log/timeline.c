#include "broker/log/timeline.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "broker/log/client.h"
#include "broker/log/json_writer.h"
#include "broker/log/run_files.h"
#include "broker/log/writer.h"
#include "common/base/clock.h"
#include "common/base/error.h"

enum { TEXT_BYTES = 1024 };

int sl_timeline_init(struct sl_timeline *t)
{
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

static void write_event(const struct sl_timeline_setup *s, const struct sl_timeline_place *at,
                        const char *kind, bool ok, const char *text, struct sl_json_writer *w)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    sl_json_open_object(w, NULL);
    sl_json_add_string(w, "schema", "sluice.event/1");
    sl_json_add_time(w, "time", (double)now.tv_sec + (double)now.tv_nsec * 1e-9);
    sl_json_add_time(w, "seconds", (double)(sl_now_ns() - s->start_ns) * 1e-9);
    sl_json_add_string(w, "job", s->job);
    sl_json_add_string(w, "id", s->id);
    sl_json_add_string(w, "kind", kind);
    sl_json_add_whole(w, "epoch", at->epoch);
    sl_json_add_whole(w, "samplers", at->samplers);
    sl_json_add_whole(w, "trainers", at->trainers);
    sl_json_add_string(w, "text", text);
    sl_json_add_bool(w, "ok", ok);
    sl_json_close_object(w);
}

static void tell(struct sl_timeline *t, const struct sl_timeline_place *at, const char *kind,
                 bool ok, const char *text)
{
    const struct sl_timeline_setup *s = &t->setup;
    struct sl_json_writer w = {0};
    Sl__Control__Event event = SL__CONTROL__EVENT__INIT;
    Sl__Control__Envelope e = SL__CONTROL__ENVELOPE__INIT;
    s->on_event(s->ctx, kind, text);
    write_event(s, at, kind, ok, text, &w);
    const char *line = sl_json_text(&w);
    if (line) {
        // Without memory it is only told.
        sl_timeline_add(t, line, strcmp(kind, "switch") == 0);
        sl_writer_add_line(s->files->events, line);
        event.json = (char *)line; // only read
        e.body_case = SL__CONTROL__ENVELOPE__BODY_EVENT;
        e.event = &event;
        sl_clients_send(s->clients, 0, &e);
    }
    sl_json_fini(&w);
}

void sl_timeline_emit(struct sl_timeline *t, const char *kind, bool ok, const char *fmt, ...)
{
    char text[TEXT_BYTES];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    const struct sl_timeline_place at = t->setup.where(t->setup.ctx);
    tell(t, &at, kind, ok, text);
}

void sl_timeline_emit_of(struct sl_timeline *t, uint32_t epoch, const char *kind, bool ok,
                         const char *fmt, ...)
{
    char text[TEXT_BYTES];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    struct sl_timeline_place at = t->setup.where(t->setup.ctx);
    at.epoch = epoch;
    tell(t, &at, kind, ok, text);
}
