#include "broker/telemetry/trace_nodes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "broker/telemetry/trace.h"
#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/bus/request.h"

#define SECOND UINT64_C(1000000000)

// --- the client ----------------------------------------------------------------------------------

static void send_last(struct sl_trace_nodes *t, const struct sl_bus_peer *client, bool ok,
                      const char *message)
{
    Sl__Control__TraceChunk chunk = SL__CONTROL__TRACE_CHUNK__INIT;
    Sl__Control__Envelope e = SL_ENVELOPE(TRACE_CHUNK, trace_chunk, &chunk);
    chunk.message = (char *)message; // only read
    chunk.last = true;
    chunk.ok = ok;
    chunk.dropped = t->dropped;
    t->events.tell(t->ctx, client, &e);
}

// The last word of all.
void sl_trace_nodes_end(struct sl_trace_nodes *t)
{
    char text[1024];
    bool ok = true;
    if (!t->on)
        return;
    int n = snprintf(text, sizeof text,
                     "%" PRIu64 " events of %.1f s on %u nodes in %" PRIu64 " pieces", t->total,
                     (double)(sl_now_ns() - t->from_ns) * 1e-9, t->n, t->chunks);
    if (t->dropped)
        n += snprintf(text + n, sizeof text - (size_t)n,
                      "; %" PRIu64 " events were dropped: the client did not read as fast as they "
                      "came",
                      t->dropped);
    for (uint32_t i = 0; i < t->n; i++) {
        const struct sl_trace_source *s = &t->of[i];
        ok &= s->last && s->ok;
        if ((!s->last || !s->ok) && (size_t)n < sizeof text)
            n += snprintf(text + n, sizeof text - (size_t)n, "; host %s (rank %u): %s",
                          t->events.host(t->ctx, i), i,
                          s->last ? s->why : "its last events have not come");
    }
    send_last(t, &t->client, ok, text);
    free(t->of);
    t->of = NULL;
    t->on = false;
}

// --- the nodes -----------------------------------------------------------------------------------

static void ask(struct sl_trace_nodes *t, uint32_t node, double seconds, uint64_t taken)
{
    Sl__Control__Trace trace = SL__CONTROL__TRACE__INIT;
    char place[128];
    snprintf(place, sizeof place, "host %s (rank %u)", t->events.host(t->ctx, node), node);
    trace.seconds = seconds;
    trace.taken = taken;
    trace.from_ns = t->from_ns;
    trace.place = place;
    t->events.ask(t->ctx, node, t->request, &trace);
}

static void on_taken(struct sl_trace_nodes *t, uint64_t taken)
{
    for (uint32_t i = 0; i < t->n; i++) {
        struct sl_trace_source *s = &t->of[i];
        if (s->at > taken || s->taken == s->chunks || s->last)
            continue;
        s->taken = s->chunks;
        ask(t, i, 0, s->taken);
    }
}

// What its client ends; nodes that have ended take it for nothing.
static void end_early(struct sl_trace_nodes *t)
{
    for (uint32_t i = 0; i < t->n; i++)
        if (!t->of[i].last)
            ask(t, i, 0, 0);
    t->until_ns = sl_now_ns() + SL_TRACE_LATE_S * SECOND;
}

static void begin(struct sl_trace_nodes *t, uint32_t n, const struct sl_bus_peer *client,
                  double seconds)
{
    t->of = calloc(n, sizeof *t->of);
    if (!t->of) {
        send_last(t, client, false, "there is no memory for it");
        return;
    }
    t->on = true;
    t->n = n;
    t->client = *client;
    t->request = sl_request_begin(0).id;
    t->from_ns = sl_now_ns();
    t->to_ns = t->from_ns + (uint64_t)(seconds * 1e9);
    t->until_ns = t->to_ns + SL_TRACE_LATE_S * SECOND;
    t->chunks = t->total = t->dropped = 0;
    for (uint32_t i = 0; i < n; i++)
        ask(t, i, seconds, 0);
}

void sl_trace_nodes_on_request(struct sl_trace_nodes *t, uint32_t n,
                               const struct sl_bus_peer *client, const Sl__Control__Trace *request)
{
    char why[SL_TRACE_WHY_BYTES];
    const bool mine =
        t->on && sl_bus_same_peer(&t->client, client) && t->client.request == client->request;
    if (request->taken > 0) {
        if (mine)
            on_taken(t, request->taken);
    } else if (mine && request->seconds == 0) {
        end_early(t);
    } else if (sl_trace_refusal(t->on ? t->to_ns : 0, request->seconds, why)) {
        send_last(t, client, false, why);
    } else {
        begin(t, n, client, request->seconds);
    }
}

static void hand_on(struct sl_trace_nodes *t, struct sl_trace_source *s,
                    const Sl__Control__TraceChunk *from)
{
    Sl__Control__TraceChunk chunk = SL__CONTROL__TRACE_CHUNK__INIT;
    Sl__Control__Envelope e = SL_ENVELOPE(TRACE_CHUNK, trace_chunk, &chunk);
    chunk.events = from->events;
    chunk.ok = true;
    chunk.n_events = from->n_events;
    s->chunks++;
    if (t->events.tell(t->ctx, &t->client, &e) < 0) { // it is full, or gone: the node will notice
        t->dropped += from->n_events;
        return;
    }
    s->at = ++t->chunks;
    t->total += from->n_events;
}

void sl_trace_nodes_on_chunk(struct sl_trace_nodes *t, uint32_t node,
                             const Sl__Control__Envelope *m)
{
    if (!t->on || m->request != t->request || node >= t->n || t->of[node].last)
        return;
    struct sl_trace_source *s = &t->of[node];
    if (*m->trace_chunk->events)
        hand_on(t, s, m->trace_chunk);
    if (!m->trace_chunk->last)
        return;
    s->last = true;
    s->ok = m->trace_chunk->ok;
    t->dropped += m->trace_chunk->dropped;
    snprintf(s->why, sizeof s->why, "%s", m->trace_chunk->message);
    for (uint32_t i = 0; i < t->n; i++)
        if (!t->of[i].last)
            return;
    sl_trace_nodes_end(t);
}

void sl_trace_nodes_poll(struct sl_trace_nodes *t)
{
    if (t->on && sl_now_ns() >= t->until_ns)
        sl_trace_nodes_end(t);
}
