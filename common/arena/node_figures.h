/*
 * node_figures.h - what each node of a job does (nodes.h), so that the first node's broker can tell
 * of all: a table with a row for each node, in every node's arena.
 *
 * A row has two parts, each written by one process, whole, under a seqlock of its own:
 *
 *   work   what the node's samplers and trainers do    the node's broker
 *   wire   what passed between the node and others     the node's link
 *
 * That is so of a node's own row. Once a second its link sends the row to the first node, whose
 * link writes it down there; elsewhere the rows of others stay empty. So a row is about a second
 * old, and the last one is sent when the job has ended on its node.
 */
#ifndef SL_ARENA_NODE_FIGURES_H
#define SL_ARENA_NODE_FIGURES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/arena/nodes.h"

enum { SL_NODE_HOST_BYTES = 64 };

// Sums are since the job began on this node, or went on; shares, from 0 to 1, of the last seconds.
struct sl_node_work {
    uint64_t at_ns; // by the node's own clock; 0: nothing is known yet
    uint64_t samplers, trainers, standby;
    uint64_t batches;     // of training that are done
    uint64_t input_nodes; // of all it has trained and evaluated
    uint64_t queue;       // batches that lie ready
    uint64_t memory_bytes;
    double cpu_load;                                            // busy cores
    double sampling, blocked;                                   // of the samplers' time
    double training, extracting, waiting, evaluating, fetching; // of the trainers'
};

// What a node had to do with another one. Sums since the link began.
struct sl_node_peer {
    uint64_t out_bytes, in_bytes; // sent to it, received from it
    // This node's updates waited for it: until it had what it was to send, and from then on.
    uint64_t late_ns, wire_ns;
    uint64_t rows, row_bytes; // of features that it sent here
    uint64_t asks, ask_ns;    // messages that asked for these, and how long until they were here
};

struct sl_node_wire {
    uint64_t at_ns; // as above
    uint64_t last;  // 1: the job has ended on that node, and this is its last row
    char host[SL_NODE_HOST_BYTES];
    struct sl_node_peer peer[SL_NODES_MAX]; // by rank; its own is zero
};

/*
 * Adds to how long an update waited for a peer. from_ns: from then on nothing else was missing
 * here; ready_ns: when the peer had it ready, by this node's clock, 0: not known; it came at
 * now_ns. One that came earlier was not waited for.
 */
static inline void sl_node_peer_waited(struct sl_node_peer *p, uint64_t from_ns, uint64_t ready_ns,
                                       uint64_t now_ns)
{
    const uint64_t ready = ready_ns < now_ns ? ready_ns : now_ns;
    if (now_ns <= from_ns)
        return;
    if (ready > from_ns)
        p->late_ns += ready - from_ns;
    p->wire_ns += now_ns - (ready > from_ns ? ready : from_ns);
}

// Of the region; 0 for one node.
uint64_t sl_node_figures_bytes(const struct sl_arena_spec *spec);

// By whom the part belongs to. `node` has a row: it is one of the job's.
void sl_node_figures_put_work(const struct sl_arena *a, uint32_t node,
                              const struct sl_node_work *work);
void sl_node_figures_put_wire(const struct sl_arena *a, uint32_t node,
                              const struct sl_node_wire *wire);

// A copy of the newest. False, with *out as it was, while there is none or the writer is inside.
bool sl_node_figures_work(const struct sl_arena *a, uint32_t node, struct sl_node_work *out);
bool sl_node_figures_wire(const struct sl_arena *a, uint32_t node, struct sl_node_wire *out);

#endif
