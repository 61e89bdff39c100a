/*
 * node_scale.h - a change of the split of a job over several nodes: one question to many brokers.
 *
 * Each node has devices and a split of its own (role_split.h). Who asks is heard by the first node:
 *
 *   plans     all nodes that are meant, one or all, are asked for a dry run. One that refuses, or
 *             does not answer within SL_NODE_SCALE_ANSWER_S, is named, and nothing is changed
 *   changes   all of them are asked; the client hears what each waits for. The answer comes once
 *             the new split holds on each, or it is said on which it does not, and why
 *
 * Nodes may differ in devices: a split that one of them cannot have is refused for all, and the
 * message says how to change one alone. Between the two a node may come to refuse (its profile
 * moves its split, it runs out of processes): the others are left as they are then, and the answer
 * says so, since a change back would be one more that may fail. What a job computes does not depend
 * on any of it.
 *
 * One at a time. Schema sluice.scale/1 (scale_plan.h), with "steps" of all nodes, times of the
 * slowest one, and "nodes": what each said, with "node" and "host".
 */
#ifndef SL_BROKER_SCHEDULER_NODE_SCALE_H
#define SL_BROKER_SCHEDULER_NODE_SCALE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/arena/node_parts.h"
#include "common/bus/bus.h"

enum { SL_NODE_SCALE_ANSWER_S = 10 };

struct sl_node_scale_events {
    // Asks a node's broker; its answers come to sl_node_scale_on_answer().
    void (*ask)(void *ctx, uint32_t node, uint64_t request, Sl__Control__Scale *scale);
    int (*tell)(void *ctx, const struct sl_bus_peer *client, Sl__Control__Envelope *e);
    // A change that was asked for, not a dry run, is over: how, in words.
    void (*on_over)(void *ctx, bool ok, const char *text);
    const char *(*host)(void *ctx, uint32_t node);
};

struct sl_node_answer {
    uint32_t node; // whose
    bool done, ok;
    bool moves; // its split has to change
    uint32_t samplers, trainers;
    double seconds;
    char *message, *json; // owned
};

enum sl_node_scale_stage { SL_NODE_SCALE_NONE, SL_NODE_SCALE_PLANS, SL_NODE_SCALE_CHANGES };

struct sl_node_scale {
    const char *job; // borrowed: its name
    struct sl_node_scale_events events;
    void *ctx;

    enum sl_node_scale_stage stage;
    uint32_t n;                // nodes that are meant
    struct sl_node_answer *of; // (n) owned, while it is not NONE
    bool last[SL_NODES_MAX];   // nodes whose split the last change moved; none: there was none
    Sl__Control__Scale asked;
    struct sl_bus_peer client;
    uint64_t request; // of the stage
    uint64_t began_ns, until_ns;
};

// Of a job on n nodes, from a client.
void sl_node_scale_on_request(struct sl_node_scale *s, uint32_t n, const struct sl_bus_peer *client,
                              const Sl__Control__Scale *scale);
// ScaleProgress or ScaleDone of a node.
void sl_node_scale_on_answer(struct sl_node_scale *s, uint32_t node,
                             const Sl__Control__Envelope *m);
void sl_node_scale_poll(struct sl_node_scale *s); // on each tick
void sl_node_scale_end(struct sl_node_scale *s);  // the job ends: the client is told
void sl_node_scale_fini(struct sl_node_scale *s); // safe on a zeroed struct

#endif
