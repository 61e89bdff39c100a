/*
 * nodes_plan.h - the plan of a dry run for a job on several nodes: memory by node, rows of features
 * that a node gets from others, what an epoch brings over the wire, and how long that takes.
 *
 * Rows are those of shards. Of a whole data set nodes have all features; where it has a partition
 * for as many nodes (node_part.npy), the plan foresees what shards of that would bring.
 *
 * Batches are counted of up to SL_NODES_PLAN_COUNTED nodes, spread evenly, in the first epoch,
 * which finds an empty cache, and the next one; all nodes as these.
 */
#ifndef SL_CLI_NODES_PLAN_H
#define SL_CLI_NODES_PLAN_H

#include <stdio.h>

#include <cjson/cJSON.h>

#include "broker/rundir/params.h"
#include "nodes/links.h"
#include "partition/node_rows.h"

enum {
    SL_NODES_PLAN_COUNTED = 8,
    SL_NODES_PLAN_EPOCHS = 2,
};

enum sl_nodes_spread {
    SL_NODES_WHOLE,    // each node has all features
    SL_NODES_SHARDS,   // its own
    SL_NODES_FORESEEN, // all, and the plan is of shards
};

// One of the nodes.
struct sl_nodes_plan_node {
    uint64_t feature_rows, feature_bytes; // that are its own
    uint64_t arena_bytes;                 // without activations in a file
    uint64_t cache_rows, cache_bytes;     // part of the arena: its row cache
};

// Of all nodes.
struct sl_nodes_plan_rows {
    double batches, inputs, remote, fetched, messages; // as struct sl_node_rows_count
};

struct sl_nodes_plan_epoch {
    struct sl_nodes_plan_rows train, evaluation;
    double update_bytes;
    double result_bytes; // of its evaluation's batches, which each node sends to the others
    double wire_bytes;   // these, the rows, and the messages that ask for them
    double seconds;      // of the node that gets most; 0: not known
};

struct sl_nodes_plan {
    uint32_t n; // nodes; below 2 there is nothing to show
    enum sl_nodes_spread spread;
    char *note; // owned: why nothing is known of rows; or NULL
    uint64_t graph_bytes, row_bytes;
    struct sl_nodes_plan_node *node; // (n) owned
    uint32_t n_counted, n_epochs;
    uint64_t n_drawn; // batches
    struct sl_nodes_plan_epoch epoch[SL_NODES_PLAN_EPOCHS];
    struct sl_nodes_plan_rows test; // at the end of the job
    double test_result_bytes;
    uint64_t updates, checkpoint_bytes;
    struct sl_link_speed speed;
    // Of the counted node that gets most in an epoch: what decides about its time.
    double most_bytes[SL_NODES_PLAN_EPOCHS], most_trips[SL_NODES_PLAN_EPOCHS];
};

struct sl_nodes_plan_spec {
    const struct sl_config *config;
    const struct sl_dataset *dataset;
    const struct sl_params *params;
    uint32_t n_nodes;
    uint64_t available_bytes; // of this machine
    bool quiet;
};

// SL_ENOMEM, also where the job does not fit on a node, with its number; SL_EABORTED; errors of the
// data set.
int sl_nodes_plan_find(const struct sl_nodes_plan_spec *spec, struct sl_nodes_plan *out);
// Whether the job fits on this one of the nodes, by this machine's memory. SL_ENOMEM.
int sl_nodes_plan_check(const struct sl_nodes_plan_spec *spec, uint32_t node);
// How long epochs take by these links, or by those of a file that `sluice doctor --nodes -o json`
// has written. SL_EINVAL, SL_EFORMAT and errors of reading it.
void sl_nodes_plan_time(struct sl_nodes_plan *p, const struct sl_link *link, uint32_t n);
int sl_nodes_plan_read_links(struct sl_nodes_plan *p, const char *path);
void sl_nodes_plan_fini(struct sl_nodes_plan *p); // safe on a zeroed struct

void sl_nodes_plan_print(const struct sl_nodes_plan *p, FILE *out);
void sl_nodes_plan_add(const struct sl_nodes_plan *p, cJSON *plan); // its "nodes"

#endif
