/*
 * shard_inputs.h - the inputs of a plan of which GPU holds which rows, or edges (shard_plan.h): the
 * devices that train, or sample, the room of each, the links between them, and how often rows and
 * edges are expected to be read. For the broker, and for a dry run.
 */
#ifndef SL_BROKER_SHARDING_SHARD_INPUTS_H
#define SL_BROKER_SHARDING_SHARD_INPUTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "broker/placement/budget.h"
#include "broker/sharding/shard_plan.h"
#include "common/data/dataset.h"
#include "common/device/plugin.h"
#include "config/config.h"

// GB/s at which a device reads the memory of another, 0 where it cannot or is no GPU.
struct sl_store_rates {
    float of[SL_PEER_MEMORY_DEVICES_MAX][SL_PEER_MEMORY_DEVICES_MAX];
};

struct sl_store_site {
    const struct sl_config *config;
    const struct sl_budget_need *need;
    uint64_t available_bytes; // of the machine's memory
    const struct sl_store_rates *rates;
    const struct sl_store_curve *curve[SL_PEER_MEMORY_PLANNED]; // NULL: not known
    uint64_t n_edges;
};

// Whether GPUs of this job may hold rows, or edges, together: then their links have to be known.
bool sl_store_may_share(const struct sl_config *config, enum sl_peer_memory_kind kind);

// Whether a GPU samples, and a trainer is on it, too; and whether there is one, and the job leaves
// open what it keeps more of (shard_preference.h).
bool sl_store_has_both(const struct sl_config *config, uint32_t device);
bool sl_store_is_open(const struct sl_config *config);

void sl_store_find_rates(const struct sl_config *config, const struct sl_gpu_report *gpus,
                         struct sl_store_rates *out);

// Rows that the trainer of a device may hold for itself; 0 without one.
uint64_t sl_store_room(const struct sl_store_site *site, uint32_t device, enum sl_duty duty);

// Where trainers have these duties (n_devices).
void sl_store_ask(const struct sl_store_site *site, const enum sl_duty *duty,
                  struct sl_plan_question *out);

// That an edge takes in a GPU's memory.
uint64_t sl_store_edge_bytes(const struct sl_config *config, const struct sl_dataset *ds);

// Edges that a sampler's GPU is expected to have room for before one has looked; 0 on a CPU device.
uint64_t sl_store_graph_room(const struct sl_config *config, const struct sl_dataset *ds,
                             uint32_t device);

// Of the graph, where samplers work that have room for so many edges (n_devices; 0: none does).
void sl_store_ask_graph(const struct sl_store_site *site, const uint64_t *room,
                        struct sl_plan_question *out);

// What is expected of an epoch.
struct sl_store_foreseen {
    struct sl_store_curve curve[SL_PEER_MEMORY_PLANNED];
    double input_bytes; // of different rows of a mini-batch; 0: not known, it is by degrees
    double edge_reads;  // of the epoch; 0: not known, and there is no curve of the graph
};

// Whether a plan uses the curves and they are worth their time: one pass over the edges for each
// hop, of no more edges than take a second or two.
bool sl_store_foresees(const struct sl_config *config, const struct sl_dataset *ds);

/*
 * How much of all reads the hottest rows of the cache's policy are expected to have, and the first
 * edges of the file. A policy that counts visits is taken for one that foresees them. On any
 * thread. SL_ENOMEM; SL_EABORTED once *cancel (may be NULL) is set.
 */
int sl_store_foresee(const struct sl_config *config, const struct sl_dataset *ds,
                     const atomic_bool *cancel, struct sl_store_foreseen *out);

#endif
