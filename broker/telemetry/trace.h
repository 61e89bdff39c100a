/*
 * trace.h - what every batch does, for a while, as Chrome trace events.
 *
 * Workers do nothing for it: all times of a batch are in its ledger entry anyway. While a trace is
 * on, the broker reads the entries of cells that have been drawn or trained since its last look, at
 * each tick and before a phase is closed, and sends events in chunks to the client that asked
 * (trace_events.h says what is drawn). Off, it costs one comparison a tick.
 *
 * BOUNDS. At most SL_TRACE_AHEAD chunks are under way to a client that has not said that it has
 * read them; then events are dropped and counted. After SL_CLIENT_MISSED_MAX ticks without room the
 * client is given up, and the trace with it. One trace at a time. Of a job over nodes the client is
 * the first node (trace_nodes.h), and the chunks under way are shared among the nodes.
 *
 * EDGES. A stage that ended before the trace began is not drawn, one that had begun is cut there.
 * A stage is drawn when it has ended: what is under way when the trace ends is not in it.
 */
#ifndef SL_BROKER_TELEMETRY_TRACE_H
#define SL_BROKER_TELEMETRY_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/bus/bus.h"

#define SL_TRACE_SECONDS_MAX 600.0

enum { SL_TRACE_AHEAD = 16, SL_TRACE_WHY_BYTES = 160 };

struct sl_clients;
struct sl_job_view;
struct sl_joblog;
struct sl_open_phase;
struct sl_tracing; // private: text that is being filled, what has been told

struct sl_trace {
    // borrowed
    const struct sl_job_view *job;
    struct sl_clients *clients;
    struct sl_joblog *log;

    bool on;
    struct sl_bus_peer peer; // the client; gone = the trace ends
    uint64_t from_ns, to_ns;
    uint64_t events;            // sent
    struct sl_tracing *tracing; // owned while on
};

// Why one of so many seconds cannot begin, where one is on until to_ns, or not (0): why, else NULL.
const char *sl_trace_refusal(uint64_t to_ns, double seconds, char why[SL_TRACE_WHY_BYTES]);

// Answers with TraceChunk: at once and "last" when it cannot be (one is on already, not running).
void sl_trace_on_request(struct sl_trace *trace, const struct sl_bus_peer *peer,
                         const Sl__Control__Trace *request);
void sl_trace_poll(struct sl_trace *trace); // on each tick
// Before the ledger may reuse a complete phase's entries.
void sl_trace_on_phase(struct sl_trace *trace, const struct sl_open_phase *phase);
// An event of the timeline.
void sl_trace_on_event(struct sl_trace *trace, const char *kind, const char *text);
// After each death and each start: which seat a worker's id belongs to.
void sl_trace_on_seats(struct sl_trace *trace);
void sl_trace_end(struct sl_trace *trace); // the job ends: what there is, and the last word

#endif
