// node_link.h - the link of a node: what its parts share (loop.h).
#ifndef SL_LINK_NODE_LINK_H
#define SL_LINK_NODE_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "common/arena/node_figures.h"
#include "common/base/stopped.h"
#include "common/bus/worker.h"
#include "common/data/dataset.h"
#include "config/config.h"
#include "link/notes.h"
#include "nodes/world.h"

struct sl_link_relay;
struct sl_link_updates;
struct sl_link_results;

struct sl_node_link {
    struct sl_worker worker;
    struct sl_config config;
    struct sl_dataset dataset; // as this node has it
    struct sl_world world;
    int64_t *clock_ahead_ns; // (size) of this node's CLOCK_MONOTONIC, owned
    struct sl_link_notes notes;
    pid_t broker;                    // this node's: the parent
    struct sl_stopped stopped;       // whether it is
    struct sl_link_rows *rows;       // rows.h; NULL: all rows are here
    struct sl_node_wire counted;     // all parts add to its peers (node_figures.h)
    struct sl_link_figures *figures; // owned; figures.h
    struct sl_link_relay *relay;     // owned; relay.h
    struct sl_link_updates *updates; // owned; NULL until Attach
    struct sl_link_results *results; // owned; likewise
};

// A part of the loop. init comes after Attach.
struct sl_link_part {
    int (*init)(struct sl_node_link *link);
    // Never waits; true in *moved: something went on. Comes after the arena is aborted, too: for
    // the others.
    int (*poll)(struct sl_node_link *link, bool *moved);
    // All nodes have ended the job: true once no message of this part's is under way. Receives are
    // cancelled; sends are over once the other node has thrown them away.
    int (*quiet)(struct sl_node_link *link, bool *quiet);
    void (*fini)(struct sl_node_link *link); // safe without init
};

#endif
