/*
 * trace.c - `sluice trace JOB`: what every batch of a running job does, as a file for Perfetto.
 *
 * The job's broker sends events in chunks; each goes to the file as it comes, which has a temporary
 * name until it is whole, and is confirmed, so that the broker never holds much. Ctrl-C ends the
 * trace early; the broker then says its last word, and the file is as valid as any other.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/session.h"
#include "common/text/units.h"
#include "broker/log/json_writer.h"
#include "broker/telemetry/trace.h"
#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/interrupt.h"
#include "common/base/version.h"
#include "common/data/atomic_file.h"

enum {
    LOOK_MS = 100,
    PLAIN_MS = 2000,        // between two lines of progress where it is no terminal
    LATE_MS = 15000,        // after the end of the trace: the broker is stuck
    LAST_MESSAGE_MS = 3000, // after Ctrl-C
};

struct recording {
    struct sl_session_where where;
    const char *job, *out;
    double seconds;
    struct sl_session session;
    struct sl_request asked;
    struct sl_atomic_file file;
    bool terminal;                // standard error is one
    uint64_t show_ns;             // when to say next how far it is
    uint64_t began_ns, ending_ns; // ending_ns: Ctrl-C came then; 0 = not
    uint64_t chunks, bytes, events;
    bool last;
    char message[1024]; // of the last chunk
};

// --- the file ------------------------------------------------------------------------------------

static int append(struct recording *rec, const char *text)
{
    size_t n = strlen(text);
    SL_TRY(sl_atomic_file_append(&rec->file, text, n));
    rec->bytes += n;
    return SL_OK;
}

// What stands before the events: the format's head, and where they are from.
static int append_head(struct recording *rec)
{
    struct sl_json_writer w = {0};
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    sl_json_open_object(&w, NULL);
    sl_json_add_string(&w, "schema", "sluice.trace/1");
    sl_json_add_string(&w, "job", rec->session.name);
    sl_json_add_string(&w, "version", SL_VERSION);
    sl_json_add_time(&w, "began", (double)now.tv_sec + (double)now.tv_nsec * 1e-9);
    sl_json_close_object(&w);
    const char *other = sl_json_text(&w);
    int rc = other ? append(rec, "{\"displayTimeUnit\":\"ms\",\"otherData\":")
                   : sl_fail(SL_ENOMEM, "no memory for the head of a trace");
    if (rc == SL_OK)
        rc = append(rec, other);
    sl_json_fini(&w);
    return rc < 0 ? rc : append(rec, ",\"traceEvents\":[\n");
}

// --- the conversation ----------------------------------------------------------------------------

static int send_request(struct recording *rec, double seconds, uint64_t taken)
{
    Sl__Control__Trace trace = SL__CONTROL__TRACE__INIT;
    Sl__Control__Envelope e = SL_ENVELOPE(TRACE, trace, &trace);
    trace.seconds = seconds;
    trace.taken = taken;
    e.request = rec->asked.id;
    return sl_session_send(&rec->session, &e);
}

// Events so far, from their text: each has one "ph".
static uint64_t count_events(const char *text)
{
    uint64_t n = 0;
    for (const char *at = text; (at = strstr(at, "{\"ph\":")) != NULL; at++)
        n++;
    return n;
}

static int take_chunk(struct recording *rec, const Sl__Control__TraceChunk *chunk)
{
    if (*chunk->events) {
        if (rec->events > 0)
            SL_TRY(append(rec, ",\n"));
        SL_TRY(append(rec, chunk->events));
        rec->chunks++;
        rec->events += count_events(chunk->events);
        if (!chunk->last)
            SL_TRY(send_request(rec, 0, rec->chunks));
    }
    if (!chunk->last)
        return SL_OK;
    rec->last = true;
    snprintf(rec->message, sizeof rec->message, "%s", chunk->message);
    if (chunk->ok || rec->events > 0)
        return SL_OK;
    // The job's broker speaks of the job, the daemon of "job 3 'x'".
    return strncmp(chunk->message, "job ", 4) == 0
               ? sl_fail(SL_EFAILED, "no trace: %s", chunk->message)
               : sl_fail(SL_EFAILED, "job '%s': no trace: %s", rec->session.name, chunk->message);
}

static int take_message(struct recording *rec, const Sl__Control__Envelope *m)
{
    if (m->body_case == SL__CONTROL__ENVELOPE__BODY_TRACE_CHUNK)
        return take_chunk(rec, m->trace_chunk);
    if (m->body_case == SL__CONTROL__ENVELOPE__BODY_ANSWER && !m->answer->ok) // the daemon's
        return sl_fail(m->answer->code < 0 ? m->answer->code : SL_EFAILED, "job '%s': %s",
                       rec->session.name, m->answer->message);
    return SL_OK;
}

// On a terminal one line that is written over; elsewhere one every now and then.
static void show(struct recording *rec)
{
    char size[SL_UNITS_BYTES];
    uint64_t now = sl_now_ns();
    if (now < rec->show_ns)
        return;
    double left = rec->seconds - (double)(now - rec->began_ns) * 1e-9;
    rec->show_ns = now + (rec->terminal ? LOOK_MS : PLAIN_MS) * 1000000ull;
    fprintf(stderr, "%stracing %s: %.1f s left, %" PRIu64 " events, %s%s",
            rec->terminal ? "\r\033[K" : "", rec->session.name, SL_MAX(left, 0.0), rec->events,
            sl_units_bytes(size, rec->bytes), rec->terminal ? "" : "\n");
}

static void wipe(const struct recording *rec)
{
    if (rec->terminal)
        fprintf(stderr, "\r\033[K");
}

// Whether the broker has had its time.
static int check_time(struct recording *rec)
{
    uint64_t now = sl_now_ns();
    uint64_t until = rec->ending_ns
                         ? rec->ending_ns + LAST_MESSAGE_MS * 1000000ull
                         : rec->began_ns + (uint64_t)(rec->seconds * 1e9) + LATE_MS * 1000000ull;
    if (now < until)
        return SL_OK;
    if (rec->events > 0) { // what there is
        rec->last = true;
        snprintf(rec->message, sizeof rec->message, "%" PRIu64 " events, without the last ones",
                 rec->events);
        return SL_OK;
    }
    return sl_fail(SL_ETIMEDOUT, "job '%s': no events have come: is its broker stopped?",
                   rec->session.name);
}

// The other side has ended: a trace that has begun is kept.
static int keep_rest(struct recording *rec, int rc)
{
    if (rec->events == 0)
        return rc;
    rec->last = true;
    snprintf(rec->message, sizeof rec->message, "%" PRIu64 " events, then the job was gone",
             rec->events);
    return SL_OK;
}

static int record(struct recording *rec)
{
    Sl__Control__Envelope *m;
    rec->asked = sl_request_begin(0);
    SL_TRY(send_request(rec, rec->seconds, 0));
    while (!rec->last) {
        // An interrupt is heard of through session_receive() once; from then on it is the end that
        // is waited for.
        int rc = rec->ending_ns ? sl_bus_receive(rec->session.bus, LOOK_MS, NULL, &m)
                                : sl_session_receive(&rec->session, LOOK_MS, &m);
        if (rc == SL_OK) {
            rc = m->request == rec->asked.id ? take_message(rec, m) : SL_OK;
            sl_bus_message_free(m);
        } else if (rc == SL_EABORTED) {
            rec->ending_ns = sl_now_ns();
            rc = send_request(rec, 0, 0);
        } else if (rc == SL_EFAILED) {
            rc = keep_rest(rec, rc);
        } else if (rc == SL_EAGAIN) {
            rc = SL_OK;
        }
        SL_TRY(rc);
        SL_TRY(check_time(rec));
        show(rec);
    }
    return SL_OK;
}

static int record_to_file(struct recording *rec)
{
    SL_TRY(sl_atomic_file_open(rec->out, &rec->file));
    int rc = append_head(rec);
    rec->began_ns = sl_now_ns();
    rec->show_ns = rec->began_ns + LOOK_MS * 1000000ull;
    if (rc == SL_OK)
        rc = record(rec);
    wipe(rec);
    if (rc == SL_OK)
        rc = append(rec, "\n]}\n");
    if (rc == SL_OK)
        return sl_atomic_file_commit(&rec->file);
    sl_atomic_file_abort(&rec->file);
    if (!rec->last)
        send_request(rec, 0, 0); // nobody reads any more
    return rc;
}

// --- the command ---------------------------------------------------------------------------------

static int trace(void *state)
{
    struct recording *rec = state;
    char size[SL_UNITS_BYTES];
    const char *terminal = getenv("TERM");
    rec->terminal = isatty(STDERR_FILENO) && !(terminal && strcmp(terminal, "dumb") == 0);
    sl_interrupt_catch();
    SL_TRY(sl_session_open(&rec->where, rec->job, &rec->session));
    SL_TRY(record_to_file(rec));
    printf("%s: %s, %s: open it at https://ui.perfetto.dev\n", rec->out, rec->message,
           sl_units_bytes(size, rec->bytes));
    return SL_EXIT_OK;
}

static void release(void *state)
{
    sl_session_close(&((struct recording *)state)->session);
}

#define AT(kind, field) SL_OPTION_AT(kind, recording, field)
// clang-format off
static const struct sl_option options[] = {
    {.name = "seconds", .letter = 's', AT(REAL, seconds), .placeholder = "S", .min = 0.1,
     .max = SL_TRACE_SECONDS_MAX, .help = "for how long"},
    {.name = "out", .letter = 'o', .alias = "output", AT(TEXT, out), .placeholder = "FILE",
     .help = "where the trace goes; it appears when it is whole"},
    {0},
};
// clang-format on

const struct sl_command sl_command_trace = {
    .name = "trace",
    .help = "record what every batch of a running job does, for Perfetto",
    .about = "Records what every batch of a running job does, across its processes: drawn, "
             "queued, extracted,\ntrained, applied, with the depth of the queue and the "
             "parameters' version beside it. The file is in\nthe Trace Event Format: open it "
             "at https://ui.perfetto.dev (it stays on your machine) or in\nchrome://tracing. "
             "JOB is its number, its name or its run directory. Ctrl-C ends the recording "
             "early\nand keeps what there is. Stages that were under way when it ended are "
             "not in it. Of a job over several\nnodes it has all of them, named, on one axis of "
             "time.",
    .example = "sluice trace products-sage --seconds 10 -o trace.json",
    .operands = {{"JOB", offsetof(struct recording, job)}},
    .options = {{options}, {sl_session_options, offsetof(struct recording, where)}},
    .bytes = sizeof(struct recording),
    .defaults = &(const struct recording){.seconds = 10, .out = "trace.json"},
    .run = trace,
    .fini = release,
};
