/*
 * loop.h - the trainer's main loop: take a cell, compute it, complete it, help with the update.
 *
 * Two threads. The extracting thread (prefetch.h) claims cells and gathers features one batch
 * ahead; the thread that calls sl_trainer_run() computes:
 *
 *   TRAIN   wait for the batch's version, or join (sync.h), forward and backward into the batch's
 *           or the device's gradient slot, complete the lease, apply the update if it is due
 *   EVAL    forward without dropout over a sampled block, leave its seeds' predictions
 *   INFER   one layer for a range of vertices, all neighbours (evaluate.h)
 *
 * One process serves both duties of its seat, WORK and STANDBY, and may be given the other one at
 * any time; what that changes is in standby.h and prefetch.h.
 *
 * Both threads work on the model's device. What one of them hands to the other is finished on the
 * device: each waits for its own queue first, the extracting thread before it offers a batch, the
 * computing one before it gives a buffer back, completes a lease or applies an update.
 *
 * A trainer keeps nothing between batches but memory pools and its cache, so it can be killed at
 * any instruction.
 * A lease that was taken back (SL_ESTALE) is dropped silently: somebody else does the work.
 */
#ifndef SL_TRAINER_LOOP_H
#define SL_TRAINER_LOOP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/data/dataset.h"
#include "common/device/plugin.h"
#include "common/arena/row_table.h"
#include "common/arena/stats.h"
#include "config/config.h"
#include "trainer/feed/gather.h"
#include "trainer/model/model.h"

enum { SL_TRAINER_READERS = 3 }; // of rows from the drive: fetching, extracting, inference

// Everything is borrowed for as long as sl_trainer_run() runs.
struct sl_trainer_spec {
    struct sl_arena *arena;
    uint32_t worker; // id
    uint32_t device; // whose trainer seat it has
    const struct sl_config *config;
    const struct sl_dataset *dataset;
    const struct sl_collective *collective; // for the job's group; NULL where it has none
    struct sl_model *model;                 // of this config and data set; this thread's alone
    const struct sl_row_table *rows;        // learned ones; NULL: there are none
    struct sl_reading *fetches;   // of the thread that fetches (fetch.h); NULL: there is none
    struct sl_gather *gather;     // of this model's device and data set
    struct sl_worker_slot *stats; // NULL for none
    const _Atomic bool *stop;     // NULL for none
};

// What the model computes with.
static inline struct sl_compute sl_trainer_compute(const struct sl_trainer_spec *spec)
{
    const struct sl_layer_env *env = &spec->model->env;
    return (struct sl_compute){
        .device = env->device,
        .kernels = env->kernels,
        .host = env->device->is_host ? env->kernels : sl_kernels_cpu(),
    };
}

// Works until the job is aborted or *stop is set: SL_OK. Anything else is an error.
int sl_trainer_run(const struct sl_trainer_spec *spec);

#endif
