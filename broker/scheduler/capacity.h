/*
 * capacity.h - how large a job's arena must be, from what the workers measured.
 *
 * Payload memory is what mini-batches lie in. A trainer holds two (the one it trains and the one it
 * extracts), a sampler one, and at least one must be able to lie ready: below that the job refuses
 * to start, and a larger split is refused while it runs, since its workers would take batches from
 * one another. That is asked of every split that the job file names. "auto" takes 15 more than the
 * largest split wants that the job may come to by itself, so that neither side waits for the
 * other's hiccups; with switching it takes a whole epoch's, so that sampling can be over before a
 * sampler's device trains (FGNN 5.3: 200 MB to 1.4 GB in the paper); within a quarter of the memory
 * that is available.
 *
 * Features that are read from the drive have a cache of rows, which "auto" gives a quarter of the
 * memory that is available, and not more than all of them; it wants to know the batches that it
 * looks ahead to, which are that many more that lie ready.
 *
 * Features that GPUs read in the machine's memory may be copied once for all trainers (trainer/
 * store.h), where the copy takes at most half of what is available beside the arena, and of what
 * the job's own bound leaves beside its processes: pinned memory cannot be given back.
 *
 * Layer-wise evaluation keeps hidden activations of all vertices: of 111 million vertices and 256
 * floats 227 GB. They may lie in a file (arena.activations), which the kernel holds in memory as
 * far as there is some: "auto" takes it where the arena does not fit otherwise.
 */
#ifndef SL_BROKER_SCHEDULER_CAPACITY_H
#define SL_BROKER_SCHEDULER_CAPACITY_H

#include <stdint.h>

#include "broker/placement/placement.h"
#include "broker/scheduler/row_widths.h"
#include "common/arena/arena.h"
#include "common/arena/store_way.h"
#include "config/config.h"

// What the workers said and what the plan of phases needs.
struct sl_capacity_need {
    uint32_t samplers, trainers; // of the largest split that the job file names
    uint64_t batches_most;       // that the largest which it may come to has in hand; 0: that one
    uint64_t block_bytes_max, block_bytes_mean; // of the mini-batches measured
    uint64_t probe_bytes;
    uint64_t n_nodes, n_train, n_params;
    struct sl_row_widths widths; // of the features in the store
    uint32_t n_shards;           // that the data set is spread over; 0: it is whole
    uint32_t infer_width;        // widest hidden activation
    uint32_t jumping_width;      // what jumping knowledge gathers of a vertex, 0 without
    uint64_t n_evaluated;        // vertices of the larger one of the sets that are
    uint32_t predict_words;      // that an evaluation leaves for each of them
    uint32_t n_cells;            // of the largest phase
    uint32_t world;              // (segment.h)
};

/*
 * Describes the arena. `available_bytes` is what the machine can still give. *acts_bytes: bytes of
 * its activations that are to lie in a file instead, 0: they are memory as the rest. SL_ENOMEM when
 * the job does not fit, with the number that would.
 */
int sl_capacity_plan(const struct sl_config *config, const struct sl_capacity_need *need,
                     uint64_t available_bytes, struct sl_arena_spec *out, uint64_t *acts_bytes);

// Mini-batches of the largest size measured that so much payload holds.
uint64_t sl_capacity_batches(uint64_t payload_bytes, uint64_t block_bytes_max);
// While a job runs: SL_OK when it holds those that this split has in hand; SL_ENOMEM with the size
// that would.
int sl_capacity_check_split(uint64_t payload_bytes, uint64_t block_bytes_max,
                            struct sl_roles split);

// What it depends on how features get to GPUs that train.
struct sl_shard_inputs {
    bool gpus;                // there are some
    bool types;               // rows of several widths
    bool cached;              // all of them are expected to have room for every row
    uint64_t feature_bytes;   // of all vertices
    uint64_t available_bytes; // of the machine's memory beside the arena, within the job's bound
    uint64_t spare_bytes;     // of the bound beside what processes take; UINT64_MAX: there is none
};

// Which way may be taken where GPUs do not read the files in place: COPY allows one copy for all.
enum sl_store_way sl_capacity_store_way(const struct sl_config *config,
                                        const struct sl_shard_inputs *q);

// Where features are and what a cache keeps, where the job says "auto".
void sl_capacity_settle_store(struct sl_config *config, const struct sl_dataset *ds,
                              uint64_t available_bytes);

/*
 * The cache of rows that are read from the drive; one without slots where none are. `config` says
 * where features are and what is hot (sl_capacity_settle_store). SL_ENOMEM where a mini-batch's
 * seeds do not fit, with the size that would do.
 */
int sl_capacity_rows(const struct sl_config *config, uint64_t n_nodes,
                     const struct sl_row_widths *widths, uint64_t available_bytes,
                     struct sl_row_cache_shape *out);

#endif
