/*
 * trace.c - the life of a trace: which cells have new events, and the chunks.
 *
 * Each open phase has a view: for each cell which of its stages have been told, and below which
 * cell all have been. A look goes from there to the ledger's cursors, so it costs what has happened
 * since the last one. An entry is read where nobody writes it:
 *
 *   what the sampler wrote    while the cell is ready, training or done, and was so before and
 *                             after (acquire, fence, the word again): nobody drew it meanwhile
 *   what the trainer wrote    once the cell is done
 *   the update                once it is applied
 *
 * A batch that was given up for memory and drawn again is told twice, as it was drawn twice.
 */
#include "broker/telemetry/trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/workers/worker_pool.h"
#include "broker/log/client.h"
#include "broker/epochs/epoch.h"
#include "broker/telemetry/job_view.h"
#include "broker/log/joblog.h"
#include "broker/epochs/phases.h"
#include "broker/placement/placement.h"
#include "broker/telemetry/trace_events.h"
#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/arena/param_store.h"

enum {
    CHUNK_BYTES = 512 * 1024, // sent at once when it is larger
    SMALL_BYTES = 64 * 1024,  // a smaller one waits for company
    PATIENCE_NS = 500 * 1000 * 1000,
    WORKERS = SL_EPOCH_WORKERS,
};

struct told {
    uint32_t draw; // which one: low bits of ready_at_ns with bit 0 set; 0 = none
    bool trained, applied;
};

struct view {
    uint64_t seq;                     // 0: no phase yet
    uint32_t drawn, trained, applied; // cells below it have been told
    struct told *told;                // (n_cells of the arena)
};

struct sl_tracing {
    struct sl_trace_events events;
    struct view view[SL_ARENA_PHASES];
    uint16_t seat_of[WORKERS]; // seat + 1 of a worker's id, 0 = not known
    bool named[2 * SL_CONFIG_MAX_DEVICES];
    uint64_t total, dropped; // events
    uint64_t sent, taken;    // chunks
    uint64_t ahead;          // ... that may be under way
    uint64_t sent_ns;
    uint32_t missed; // ticks in a row in which nothing could be sent
};

// --- the client ----------------------------------------------------------------------------------

static int send_events(struct sl_trace *trace, const char *events)
{
    Sl__Control__TraceChunk chunk = SL__CONTROL__TRACE_CHUNK__INIT;
    Sl__Control__Envelope e = SL_ENVELOPE(TRACE_CHUNK, trace_chunk, &chunk);
    chunk.events = (char *)events; // only read
    chunk.ok = true;
    chunk.n_events = trace->tracing->events.n;
    return sl_bus_send(trace->clients->bus, &trace->peer, &e);
}

static void send_last(struct sl_trace *trace, const struct sl_bus_peer *peer, bool ok,
                      const char *message, uint64_t dropped)
{
    Sl__Control__TraceChunk chunk = SL__CONTROL__TRACE_CHUNK__INIT;
    Sl__Control__Envelope e = SL_ENVELOPE(TRACE_CHUNK, trace_chunk, &chunk);
    chunk.message = (char *)message; // only read
    chunk.last = true;
    chunk.ok = ok;
    chunk.dropped = dropped;
    sl_bus_send(trace->clients->bus, peer, &e);
}

static void refuse(struct sl_trace *trace, const struct sl_bus_peer *peer, const char *why)
{
    send_last(trace, peer, false, why, 0);
}

// Sends what there is; false when the client has to read first.
static bool flush(struct sl_trace *trace)
{
    struct sl_tracing *t = trace->tracing;
    if (t->events.json.text.n == 0)
        return true;
    const char *text = sl_json_text(&t->events.json);
    if (!text) { // no memory for it
        t->dropped += t->events.n;
        sl_trace_events_reset(&t->events);
        return true;
    }
    if (t->sent - t->taken >= t->ahead || send_events(trace, text) < 0)
        return false;
    t->sent++;
    t->sent_ns = sl_now_ns();
    t->total += t->events.n;
    trace->events = t->total;
    sl_trace_events_reset(&t->events);
    return true;
}

struct mark {
    size_t bytes;
    uint64_t n;
};

static struct mark mark_of(const struct sl_tracing *t)
{
    return (struct mark){t->events.json.text.n, t->events.n};
}

// After some events that belong together: they go, stay, or are dropped together.
static void keep_or_drop(struct sl_trace *trace, struct mark before)
{
    struct sl_tracing *t = trace->tracing;
    if (t->events.json.text.n < CHUNK_BYTES || flush(trace))
        return;
    t->dropped += t->events.n - before.n;
    sl_trace_events_cut(&t->events, before.bytes, before.n);
}

// --- workers and their devices -------------------------------------------------------------------

void sl_trace_on_seats(struct sl_trace *trace)
{
    if (!trace->on)
        return;
    for (uint32_t i = 0; i < trace->job->workers->n; i++) {
        const struct sl_pool_worker *w = &trace->job->workers->list[i];
        if (w->worker > 0 && w->worker < WORKERS)
            trace->tracing->seat_of[w->worker] = (uint16_t)(w->slot + 1);
    }
}

static void name_threads(struct sl_trace *trace, const struct sl_pool_worker *w)
{
    static const char *const suffix[SL_TRACE_THREADS] = {
        [SL_TRACE_SAMPLE] = "", [SL_TRACE_EXTRACT] = " extract", [SL_TRACE_TRAIN] = " train"};
    struct sl_trace_events *e = &trace->tracing->events;
    bool samples = w->role == SL_ROLE_SAMPLER;
    char name[sizeof w->name + 16];
    if (sl_config_is_pool(trace->job->config)) // a place of a pool is who sits there
        sl_trace_add_process(e, SL_TRACE_FIRST_DEVICE + w->device, w->name);
    for (uint32_t i = samples ? SL_TRACE_SAMPLE : SL_TRACE_EXTRACT;
         i <= (samples ? SL_TRACE_SAMPLE : SL_TRACE_TRAIN); i++) {
        snprintf(name, sizeof name, "%s%s", w->name, suffix[i]);
        sl_trace_add_thread(e, SL_TRACE_FIRST_DEVICE + w->device, i, name);
    }
}

// Device of a worker; -1 for one that has never been seen. Names its threads the first time.
// -1: of none of this node's.
static int64_t device_of(struct sl_trace *trace, uint32_t worker)
{
    struct sl_tracing *t = trace->tracing;
    if (worker >= WORKERS || t->seat_of[worker] == 0)
        return -1;
    uint32_t slot = t->seat_of[worker] - 1u;
    const struct sl_pool_worker *w = &trace->job->workers->list[slot];
    if (!t->named[slot]) {
        t->named[slot] = true;
        name_threads(trace, w);
    }
    return w->device;
}

static void name_processes(struct sl_trace *trace)
{
    struct sl_trace_events *e = &trace->tracing->events;
    char text[SL_CONFIG_MAX_DEVICES * 4 + 64], name[sizeof text + 16];
    snprintf(name, sizeof name, "job %s", trace->job->config->name);
    sl_trace_add_process(e, SL_TRACE_JOB, name);
    sl_trace_add_thread(e, SL_TRACE_JOB, 1, "events");
    for (uint32_t d = 0;
         d < trace->job->config->n_devices && !sl_config_is_pool(trace->job->config); d++)
        sl_trace_add_process(e, SL_TRACE_FIRST_DEVICE + d,
                             sl_placement_device_text(trace->job->config, d, text, sizeof text));
}

// --- phases --------------------------------------------------------------------------------------

struct look {
    struct sl_trace *trace;
    const struct sl_open_phase *phase;
    struct view *view;
    uint32_t n; // cells
};

static uint32_t draw_of(const struct sl_batch_entry *e)
{
    return (uint32_t)(e->ready_at_ns >> 6) | 1;
}

static struct sl_trace_batch batch_of(const struct look *l, uint32_t cell,
                                      const struct sl_batch_entry *entry, int64_t device)
{
    return (struct sl_trace_batch){
        .seq = l->phase->seq,
        .cell = cell,
        .spec = &l->phase->spec,
        .entry = entry,
        .device = (uint32_t)device,
    };
}

// *entry is a copy that nobody is writing to.
static void emit_draw(const struct look *l, uint32_t cell, const struct sl_batch_entry *entry)
{
    int64_t device = device_of(l->trace, entry->sampler);
    l->view->told[cell].draw = draw_of(entry);
    if (device < 0 || entry->ready_at_ns <= l->trace->from_ns)
        return;
    struct mark before = mark_of(l->trace->tracing);
    const struct sl_trace_batch b = batch_of(l, cell, entry, device);
    sl_trace_add_drawn(&l->trace->tracing->events, &b);
    keep_or_drop(l->trace, before);
}

// True once the cell's draw has been told.
static bool poll_draw(const struct look *l, uint32_t cell)
{
    const struct sl_arena *a = l->trace->job->arena;
    struct sl_batch_entry copy;
    uint64_t word = sl_ledger_word(a, l->phase->seq, cell);
    if (l->view->told[cell].draw)
        return true;
    if (sl_cell_state(word) < SL_CELL_READY)
        return false;
    memcpy(&copy, sl_ledger_entry(a, l->phase->seq, cell), sizeof copy);
    atomic_thread_fence(memory_order_acquire);
    if (sl_cell_turn(sl_ledger_word(a, l->phase->seq, cell)) != sl_cell_turn(word))
        return false; // it is being drawn anew
    if (!sl_batch_is_timed(&copy))
        l->view->told[cell].draw = draw_of(&copy);
    else
        emit_draw(l, cell, &copy);
    return true;
}

static bool poll_training(const struct look *l, uint32_t cell)
{
    struct told *told = &l->view->told[cell];
    struct sl_trace *trace = l->trace;
    if (told->trained)
        return true;
    if (sl_cell_state(sl_ledger_word(trace->job->arena, l->phase->seq, cell)) != SL_CELL_DONE)
        return false;
    const struct sl_batch_entry *e = sl_ledger_entry(trace->job->arena, l->phase->seq, cell);
    told->trained = true;
    if (!sl_batch_is_timed(e) || e->done_at_ns <= trace->from_ns)
        return true;
    if (l->phase->spec.kind != SL_PHASE_INFER && told->draw != draw_of(e))
        emit_draw(l, cell, e);
    int64_t device = device_of(trace, e->trainer);
    int64_t sampler = l->phase->spec.kind == SL_PHASE_INFER ? -1 : device_of(trace, e->sampler);
    if (device < 0)
        return true;
    struct mark before = mark_of(trace->tracing);
    const struct sl_trace_batch b = batch_of(l, cell, e, device);
    sl_trace_add_trained(&trace->tracing->events, &b, sampler);
    keep_or_drop(trace, before);
    return true;
}

static bool poll_update(const struct look *l, uint32_t cell)
{
    struct sl_trace *trace = l->trace;
    const uint32_t per_update =
        trace->job->arena->h->spec.async ? 1 : trace->job->arena->h->spec.batches_per_update;
    bool ends_update = (cell + 1) % per_update == 0 || cell + 1 == l->n;
    if (l->view->told[cell].applied || !ends_update)
        return true;
    if (!sl_param_store_is_applied(trace->job->arena, l->phase->seq, cell))
        return false;
    l->view->told[cell].applied = true;
    const struct sl_update_entry *u = sl_ledger_update(trace->job->arena, l->phase->seq, cell);
    int64_t device = device_of(trace, (uint32_t)u->applier);
    if (device < 0)
        return true;
    struct mark before = mark_of(trace->tracing);
    const struct sl_trace_batch b =
        batch_of(l, cell, sl_ledger_entry(trace->job->arena, l->phase->seq, cell), device);
    sl_trace_add_applied(&trace->tracing->events, &b, u);
    keep_or_drop(trace, before);
    return true;
}

// Looks at the cells from *told to `end`; moves *told over those at its beginning that are told.
static void poll_cells(const struct look *l, uint32_t *told, uint32_t end,
                       bool (*look)(const struct look *l, uint32_t cell))
{
    bool all = true;
    for (uint32_t cell = *told; cell < end; cell++) {
        all = look(l, cell) && all;
        if (all)
            *told = cell + 1;
    }
}

static struct view *view_of(struct sl_trace *trace, const struct sl_open_phase *phase, uint32_t n)
{
    struct view *v = &trace->tracing->view[phase->seq % SL_ARENA_PHASES];
    if (v->seq != phase->seq) {
        v->seq = phase->seq;
        v->drawn = v->trained = v->applied = 0;
        memset(v->told, 0, n * sizeof *v->told);
    }
    return v;
}

// The cursor is moved by the next claim, so it may lie before what has been claimed.
static uint32_t claimed_end(const struct sl_trace *trace, uint64_t seq, uint32_t n)
{
    uint32_t end =
        SL_MIN((uint32_t)atomic_load(&sl_ledger_phase(trace->job->arena, seq)->train_cursor), n);
    while (end < n && sl_cell_state(sl_ledger_word(trace->job->arena, seq, end)) > SL_CELL_STAGED)
        end++;
    return end;
}

// complete: nothing will change any more, so the cursors are not asked.
static void poll_phase(struct sl_trace *trace, const struct sl_open_phase *phase, bool complete)
{
    struct sl_phase *p = sl_ledger_phase(trace->job->arena, phase->seq);
    const uint32_t kind = phase->spec.kind;
    uint32_t n = (uint32_t)sl_div_up(phase->spec.n_items, phase->spec.batch_size);
    struct look l = {.trace = trace, .phase = phase, .view = view_of(trace, phase, n), .n = n};
    uint32_t sampled = complete ? n : SL_MIN((uint32_t)atomic_load(&p->sample_cursor), n);
    uint32_t claimed = complete ? n : claimed_end(trace, phase->seq, n);
    if (kind != SL_PHASE_INFER)
        poll_cells(&l, &l.view->drawn, sampled, poll_draw);
    if (kind != SL_PHASE_PRESAMPLE)
        poll_cells(&l, &l.view->trained, claimed, poll_training);
    if (kind == SL_PHASE_TRAIN)
        poll_cells(&l, &l.view->applied, claimed, poll_update);
}

void sl_trace_on_phase(struct sl_trace *trace, const struct sl_open_phase *phase)
{
    if (trace->on)
        poll_phase(trace, phase, true);
}

static void poll_counters(struct sl_trace *trace)
{
    struct sl_tracing *t = trace->tracing;
    struct sl_ledger_depth depth;
    uint64_t now = sl_now_ns();
    struct mark before = mark_of(t);
    sl_ledger_depth(trace->job->arena, &depth);
    sl_trace_add_counter(&t->events, "queued batches", now, depth.queued);
    sl_trace_add_counter(&t->events, "queued bytes", now, depth.queued_bytes);
    sl_trace_add_counter(&t->events, "version", now, sl_param_store_version(trace->job->arena));
    keep_or_drop(trace, before);
}

void sl_trace_on_event(struct sl_trace *trace, const char *kind, const char *text)
{
    if (!trace->on)
        return;
    sl_trace_on_seats(trace);
    struct mark before = mark_of(trace->tracing);
    sl_trace_add_instant(&trace->tracing->events, kind, sl_now_ns(), text);
    keep_or_drop(trace, before);
}

// --- life ----------------------------------------------------------------------------------------

static void destroy(struct sl_tracing *t)
{
    if (!t)
        return;
    for (uint32_t i = 0; i < SL_ARENA_PHASES; i++)
        free(t->view[i].told);
    sl_json_fini(&t->events.json);
    free(t);
}

static struct sl_tracing *create(const struct sl_trace *trace)
{
    struct sl_tracing *t = calloc(1, sizeof *t);
    for (uint32_t i = 0; t && i < SL_ARENA_PHASES; i++) {
        t->view[i].told = calloc(trace->job->arena->h->spec.n_cells, sizeof *t->view[i].told);
        if (!t->view[i].told) {
            destroy(t);
            return NULL;
        }
    }
    return t;
}

static void look(struct sl_trace *trace)
{
    sl_trace_on_seats(trace);
    for (uint32_t i = 0; i < trace->job->phases->n_open; i++)
        poll_phase(trace, sl_phases_at(trace->job->phases, i), false);
    poll_counters(trace);
}

// The last message: also to a client that has not read the rest.
static void end(struct sl_trace *trace, bool ok, const char *why)
{
    struct sl_tracing *t = trace->tracing;
    char text[256];
    double seconds = (double)(int64_t)(sl_now_ns() - trace->from_ns) * 1e-9;
    t->taken = t->sent; // a few more at once are no harm
    if (!flush(trace))
        t->dropped += t->events.n;
    int n = snprintf(text, sizeof text, "%" PRIu64 " events of %.1f s in %" PRIu64 " pieces",
                     t->total, seconds, t->sent);
    if (t->dropped)
        n += snprintf(text + n, sizeof text - (size_t)n,
                      "; %" PRIu64 " events were dropped: the client did not read as fast as they "
                      "came",
                      t->dropped);
    if (*why)
        snprintf(text + n, sizeof text - (size_t)n, "; %s", why);
    send_last(trace, &trace->peer, ok, text, t->dropped);
    sl_joblog_write(trace->log, SL_LOG_INFO, "trace: %s", text);
    destroy(t);
    trace->on = false;
    trace->events = 0;
    trace->tracing = NULL;
}

static void begin(struct sl_trace *trace, const struct sl_bus_peer *peer,
                  const Sl__Control__Trace *request)
{
    const struct sl_nodes_spec *nodes = &trace->job->arena->h->spec.nodes;
    trace->tracing = create(trace);
    if (!trace->tracing) {
        refuse(trace, peer, "there is no memory for it");
        return;
    }
    trace->on = true;
    trace->peer = *peer;
    trace->from_ns = request->from_ns ? request->from_ns : sl_now_ns();
    trace->to_ns = SL_MIN(trace->from_ns + (uint64_t)(request->seconds * 1e9),
                          sl_now_ns() + (uint64_t)(SL_TRACE_SECONDS_MAX * 1e9));
    struct sl_trace_events *e = &trace->tracing->events;
    e->from_ns = trace->from_ns;
    e->to_ns = trace->to_ns;
    e->node = nodes->rank;
    snprintf(e->place, sizeof e->place, "%s", request->place);
    trace->tracing->ahead = SL_MAX(SL_TRACE_AHEAD / SL_MAX(nodes->n, 1u), 2u);
    sl_joblog_write(trace->log, SL_LOG_INFO, "trace: a client asks for %.3g s", request->seconds);
    name_processes(trace);
    look(trace);
}

const char *sl_trace_refusal(uint64_t to_ns, double seconds, char why[SL_TRACE_WHY_BYTES])
{
    const uint64_t now = sl_now_ns();
    if (to_ns)
        snprintf(why, SL_TRACE_WHY_BYTES,
                 "another client traces this job, for %.1f s more: wait until it is done",
                 to_ns > now ? (double)(to_ns - now) * 1e-9 : 0.0);
    else if (!(seconds > 0 && seconds <= SL_TRACE_SECONDS_MAX))
        snprintf(why, SL_TRACE_WHY_BYTES, "found %g seconds, wanted more than 0 and at most %g",
                 seconds, SL_TRACE_SECONDS_MAX);
    else
        return NULL;
    return why;
}

void sl_trace_on_request(struct sl_trace *trace, const struct sl_bus_peer *peer,
                         const Sl__Control__Trace *request)
{
    char why[SL_TRACE_WHY_BYTES];
    // Clients of a daemon share its connection, and have numbers that differ.
    bool mine =
        trace->on && sl_bus_same_peer(&trace->peer, peer) && trace->peer.request == peer->request;
    if (request->taken > 0) {
        if (mine && request->taken <= trace->tracing->sent)
            trace->tracing->taken = SL_MAX(trace->tracing->taken, request->taken);
    } else if (mine && request->seconds == 0) {
        look(trace);
        end(trace, true, "ended by the client");
    } else if (sl_trace_refusal(trace->on ? trace->to_ns : 0, request->seconds, why)) {
        refuse(trace, peer, why);
    } else if (*trace->job->state != SL_JOB_RUNNING) {
        refuse(trace, peer,
               *trace->job->state == SL_JOB_STARTING
                   ? "the job is still starting: try again while it trains"
                   : "the job is ending");
    } else {
        begin(trace, peer, request);
    }
}

void sl_trace_poll(struct sl_trace *trace)
{
    if (!trace->on)
        return;
    struct sl_tracing *t = trace->tracing;
    look(trace);
    if (sl_now_ns() >= trace->to_ns) {
        end(trace, true, "");
        return;
    }
    bool due = t->events.json.text.n >= SMALL_BYTES || sl_now_ns() - t->sent_ns >= PATIENCE_NS;
    if (due)
        t->missed = flush(trace) ? 0 : t->missed + 1;
    if (t->missed > SL_CLIENT_MISSED_MAX)
        end(trace, false, "the client did not read, so the trace ended");
}

void sl_trace_end(struct sl_trace *trace)
{
    if (!trace->on)
        return;
    look(trace);
    end(trace, true, "the job ended");
}
