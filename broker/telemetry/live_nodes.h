/*
 * live_nodes.h - the nodes of a job as the first one knows them: rows that their links send once a
 * second (common/arena/node_figures.h), and what they did in the last seconds.
 *
 * Of each node the newest rows are kept: rates are differences of two, divided by the time that
 * passed between them on the node itself. So a message that comes late makes no rate wrong.
 */
#ifndef SL_BROKER_TELEMETRY_LIVE_NODES_H
#define SL_BROKER_TELEMETRY_LIVE_NODES_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/telemetry/live_bottleneck.h"
#include "common/arena/node_figures.h"
#include "common/schema/stats.h"

enum { SL_LIVE_NODE_ROWS = 4 }; // of a node that are kept: the last three seconds

struct sl_live_node {
    struct sl_node_work work[SL_LIVE_NODE_ROWS];
    struct sl_node_wire wire[SL_LIVE_NODE_ROWS];
    uint64_t n;       // ever; the newest is at (n - 1) % SL_LIVE_NODE_ROWS
    uint64_t seen_ns; // when the newest came, by this node's clock
};

struct sl_live_nodes {
    struct sl_live_node *list; // (n) owned; NULL: nothing is known yet, or there is one node
    uint32_t n;
};

void sl_live_nodes_fini(struct sl_live_nodes *v); // safe on a zeroed struct

// Takes rows that are new. Nothing for a job on one node, without an arena, or on another than the
// first node. SL_ENOMEM.
int sl_live_nodes_poll(struct sl_live_nodes *v, const struct sl_arena *a);

// Whether the job has ended on all nodes, and no newer rows come.
bool sl_live_nodes_are_last(const struct sl_live_nodes *v);

// What is known of a node of v->n; what is not is NaN. The text is v's, until the next poll.
void sl_live_nodes_tell(const struct sl_live_nodes *v, uint32_t node, struct sl_stats_node *out);
// The next wire; *at is 0 at first. False: there are no more, or too many nodes to tell of each.
bool sl_live_nodes_next_wire(const struct sl_live_nodes *v, uint32_t *at,
                             struct sl_stats_wire *out);

// What the report says of all nodes, or of all wires: lists, owned by the caller; NULL: there is
// one node, or no memory.
cJSON *sl_live_nodes_list(const struct sl_live_nodes *v);
cJSON *sl_live_nodes_wire_list(const struct sl_live_nodes *v);

// Who waits for whom. *names is room for the words in *out. False: there is one node, or nothing is
// known yet.
bool sl_live_nodes_waits(const struct sl_live_nodes *v, struct sl_live_node_names *names,
                         struct sl_live_node_waits *out);

#endif
