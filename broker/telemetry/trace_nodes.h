/*
 * trace_nodes.h - a trace of a job over several nodes: those of all its brokers, as one.
 *
 * The first node's broker hears the client. It asks the brokers of all nodes, itself among them,
 * for a trace (trace.h) that begins at the same moment, and hands on their chunks as they come.
 * Links move that moment to each node's clock (link/relay.h), so times of all nodes are on one
 * axis, as exactly as clocks were compared. Processes are told apart by numbers and names
 * (trace_events.h).
 *
 * BOUNDS. A node that has SL_TRACE_AHEAD chunks, shared among nodes, under way is told to go on
 * once the client has read the last of them; else it drops events, and counts them. The last word
 * comes once all nodes have said theirs, or SL_TRACE_LATE_S after the end; those that are missing
 * are named. One trace at a time. Off, nothing is done on any node.
 */
#ifndef SL_BROKER_TELEMETRY_TRACE_NODES_H
#define SL_BROKER_TELEMETRY_TRACE_NODES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/bus/bus.h"

// Less than who ends a trace waits for the last word of it (cli/trace.c).
enum { SL_TRACE_LATE_S = 2 };

struct sl_trace_nodes_events {
    // Asks a node's broker; its chunks come to sl_trace_nodes_on_chunk().
    void (*ask)(void *ctx, uint32_t node, uint64_t request, Sl__Control__Trace *trace);
    int (*tell)(void *ctx, const struct sl_bus_peer *client, Sl__Control__Envelope *e);
    const char *(*host)(void *ctx, uint32_t node);
};

struct sl_trace_source {
    uint64_t chunks, taken; // that it has sent, and that it knows to be read
    uint64_t at;            // the last one's number among the client's
    bool last, ok;          // it has said its last word
    char why[256];          // it is not ok
};

struct sl_trace_nodes {
    struct sl_trace_nodes_events events;
    void *ctx;

    bool on;
    struct sl_bus_peer client;
    uint64_t request;
    uint64_t from_ns, to_ns, until_ns;
    uint64_t chunks, total, dropped; // chunks, and events
    struct sl_trace_source *of;      // (n) owned while on
    uint32_t n;
};

// Of a running job on n nodes, from a client. Answered by TraceChunk, as trace.h does.
void sl_trace_nodes_on_request(struct sl_trace_nodes *t, uint32_t n,
                               const struct sl_bus_peer *client, const Sl__Control__Trace *request);
void sl_trace_nodes_on_chunk(struct sl_trace_nodes *t, uint32_t node,
                             const Sl__Control__Envelope *m);
void sl_trace_nodes_poll(struct sl_trace_nodes *t); // on each tick, also while the job finishes
void sl_trace_nodes_end(struct sl_trace_nodes *t);  // nothing more comes: the last word. Frees all

#endif
