/*
 * live_bottleneck.h - who waits for whom right now, in words, and what another split would give.
 *
 * The question is that of epoch.h, asked of the last seconds instead of an epoch: trainers that
 * wait while batches lie ready wait for one another (updates); trainers that wait in front of an
 * empty queue wait for samplers; samplers that are blocked wait for memory, which trainers free.
 * Where the trainers take the time and wait for nobody, they are named. Of several nodes the first
 * question is whether they wait for one of them, which is then what limits the job, or for the
 * wire. The share from which on a
 * wait counts, and that it is the normal trainers' wait, are the same as there, so that the
 * sentences during an epoch and after it agree.
 *
 * The advice is another split of the same devices whose epoch the model of allocate.h expects to be
 * more than SL_ALLOCATE_GAIN_MIN shorter, with the times of a batch as they are now.
 *
 * Everything here is a function of its arguments.
 */
#ifndef SL_BROKER_TELEMETRY_LIVE_BOTTLENECK_H
#define SL_BROKER_TELEMETRY_LIVE_BOTTLENECK_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/scheduler/allocate.h"
#include "common/schema/words.h"

enum sl_live_role {
#define SL_LIVE_ROLE(symbol, word) SL_LIVE_##symbol,
    SL_BOTTLENECKS(SL_LIVE_ROLE)
#undef SL_LIVE_ROLE
};

enum { SL_LIVE_NODE_NAME_BYTES = 96 };

// Rooms for the names of nodes: "host b (rank 1)".
struct sl_live_node_names {
    char late_of[SL_LIVE_NODE_NAME_BYTES], wire_at[SL_LIVE_NODE_NAME_BYTES],
        wire_from[SL_LIVE_NODE_NAME_BYTES], asks_of[SL_LIVE_NODE_NAME_BYTES];
};

// Of a job on several nodes: what they wait for, as shares of the last seconds.
struct sl_live_node_waits {
    double late;         // the others for the node that is waited for most, on average
    const char *late_of; // that node, ...
    bool late_is_own;    // which is this one, ...
    double training, extracting, waiting; // and what its trainers do
    double wire;                          // all nodes for what is on its way, on average, ...
    const char *wire_at, *wire_from;      // most of it this one for that one's, ...
    double wire_bytes;                    // so many a second
    const char *asks_of;                  // features of that node take longest; NULL: of none
    double ask_seconds, row_bytes;        // until they are here; a second
};

// Where the time of the last seconds went; shares from 0 to 1.
struct sl_live_shares {
    struct sl_roles split;
    bool preparing;                       // before the first epoch: batches are drawn to rank by
    uint32_t standby;                     // standby trainers that work too
    double sampling, blocked;             // of the samplers' time; blocked: for want of memory
    double training, extracting, waiting; // of the normal trainers' time, if there are any
    double evaluating;                    // likewise
    double fetching;                      // rows from the drive; a trainer one batch at a time
    double queue;                         // batches that lay ready, on average
    bool async;
    uint32_t batches_per_update, staleness; // ordered; async: the bound
    bool lent;                              // to external trainers
    bool in_turn;                           // an update's batches are dealt out to trainers
    const struct sl_live_node_waits *nodes; // NULL: there is one node
};

struct sl_live_advice {
    bool has; // another split is better by more than SL_ALLOCATE_GAIN_MIN
    struct sl_roles to;
    double seconds_now, seconds_then; // expected, an epoch
};

enum { SL_LIVE_SENTENCE_BYTES = 320 };

// The best split of the devices. Needs the times of a batch: nothing without.
void sl_live_advise(const struct sl_allocation_question *q, struct sl_live_advice *out);

// Names the bottleneck in out (SL_LIVE_SENTENCE_BYTES), with its evidence, and the advice if it has
// any. `advice` may be NULL.
enum sl_live_role sl_live_name_bottleneck(const struct sl_live_shares *s,
                                          const struct sl_live_advice *advice, char *out);

#endif
