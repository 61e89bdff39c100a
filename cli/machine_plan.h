/*
 * machine_plan.h - what a job needs of a machine that is described and not there (machine.h): bytes
 * by type, by relation and by tier, and how long an epoch takes at least.
 *
 * TIERS. Memory holds what cannot lie elsewhere (the arena, notes of trainers on GPUs), then the
 * graph, then features: mapped ones as far as there is room, or the cache of those that are read
 * from the drive. Which rows are hot is known once edges are read; until then a row is there, and
 * in a GPU's cache, with the share that all have, which is the least that hot rows bring.
 *
 * TIME. A mini-batch costs each stage what it moves over the stage's rate, and stages work side by
 * side: so an epoch takes as long as the slowest. A stage whose rate is not given is not counted,
 * and named. Nothing waits for anything in this model, so it is the least that an epoch takes.
 *
 *   draw   edges drawn / edges, by so many samplers
 *   read   features as they are stored / read, once for the machine
 *   drive  blocks of 4 KiB of rows that are not in memory / drive, once for the machine
 *   bus    features in f32, and parameters there and gradients back / bus, for each GPU that trains
 *   train  products of each relation's sources and targets with its weights, and the sums over its
 *          edges, three times (forward, and backward by inputs and by weights) / products
 *
 * Features of EDGES, where the model reads them, are mapped and in no cache; they are part of what
 * is read, of the drive and of the bus.
 */
#ifndef SL_CLI_MACHINE_PLAN_H
#define SL_CLI_MACHINE_PLAN_H

#include <cjson/cJSON.h>

#include "cli/machine.h"
#include "cli/typed_forecast.h"
#include "common/arena/row_cache.h"

enum sl_machine_stage {
    SL_MACHINE_DRAW,
    SL_MACHINE_READ,
    SL_MACHINE_DRIVE,
    SL_MACHINE_BUS,
    SL_MACHINE_TRAIN,
    SL_MACHINE_STAGES
};

struct sl_machine_plan_spec {
    const struct sl_machine *machine;
    const struct sl_config *config; // with what "auto" is on that machine
    const struct sl_dataset *dataset;
    uint64_t memory_bytes; // the machine's, within the job's own bound
    uint64_t n_params;
    uint32_t infer_width, jumping_width; // as the model says
    double hit_rate;                     // of a cache, if it was foreseen; else 0
};

// An epoch's training, or the evaluation behind it.
struct sl_machine_phase {
    struct sl_typed_forecast mean;     // of a mini-batch
    uint64_t n_batches;                // 0: there are none, or nothing is foreseen of them
    double units[SL_MACHINE_STAGES];   // of a mini-batch: edges, bytes, operations
    double seconds[SL_MACHINE_STAGES]; // of all; 0: the rate is not given
    double total;                      // seconds of the slowest; 0: no rate is given
    enum sl_machine_stage slowest;
};

struct sl_machine_plan {
    struct sl_machine_plan_spec spec;
    struct sl_vertex_type one_type; // of a plain graph
    struct sl_relation one_relation;
    struct sl_typed typed;         // of the graph, or these
    struct sl_typed_forecast most; // of a mini-batch of training
    struct sl_machine_phase train, evaluation;

    // The machine's memory, in bytes. `held` lies there, the others as far as there is room.
    uint64_t arena_bytes, cache_bytes; // without the cache
    uint64_t places_bytes;             // notes of trainers on GPUs
    uint64_t held_bytes, graph_bytes, feature_bytes, edge_feature_bytes;
    double graph_share, feature_share, edge_feature_share; // of each, what is there

    // Of a GPU that trains, in bytes: what a device may take; a step, and what its device needs for
    // steps, and for the graph where it samples as well. 0: none trains.
    double gpu_bytes, step_bytes, gpu_need;
    double kept_share; // of the features, that its cache keeps
    double graph_room; // edges on one that samples; -1: none does

    uint32_t samplers, trainers, working; // trainers that an update lets work at once
    bool chosen;                          // by these times; else a first guess
    bool alternates;                      // one device samples, then trains
    double epoch_seconds;                 // with its share of evaluations; 0: no rate is given
};

// SL_ENOMEM where the memory is too small, with how much would do.
int sl_machine_plan_find(const struct sl_machine_plan_spec *spec, struct sl_machine_plan *out);
void sl_machine_plan_fini(struct sl_machine_plan *p); // safe on a zeroed struct

// A screen, and member "machine" of the plan.
void sl_machine_plan_print(const struct sl_machine_plan *p);
void sl_machine_plan_add(const struct sl_machine_plan *p, cJSON *plan);

#endif
