/*
 * budget.h - what a device's memory is spent on, and how much is left for the feature cache.
 *
 * A device has a budget (devices[].memory; a CPU device's stands for a GPU's memory). A sampler
 * takes the topology and its scratch, a trainer what a training step took at its peak, measured on
 * the probe batch (FGNN 6.1: "simulate one-time model training ... and record the peak memory
 * usage"), with a quarter more since real batches differ from the probe. The rest is the cache's:
 *
 *      normal trainer    budget - 5/4 step
 *      standby trainer   budget - topology - block - 5/4 step     (its device samples as well)
 *
 * cache.ratio "auto" takes all that is left (on a GPU less 512 MiB, at most a quarter, for the
 * pieces of full evaluations), a number takes that share of the vertices: a normal
 * trainer that cannot hold it is an error that names the ratio which would fit, a standby trainer
 * takes what there is. Without a budget the rest is a quarter of the machine's available memory,
 * divided among the devices.
 *
 * The job may have a bound of its own (`memory`), for all its processes together: arena and caches
 * are sized by what it leaves, and what workers take is counted before they work.
 */
#ifndef SL_BROKER_PLACEMENT_BUDGET_H
#define SL_BROKER_PLACEMENT_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#include "common/arena/seat.h"
#include "config/config.h"

// What the workers measured; the largest of all.
struct sl_budget_need {
    uint64_t resident_bytes; // sampler: topology and scratch
    uint64_t block_bytes;    // largest mini-batch
    uint64_t step_bytes;     // trainer: peak of a training step
    uint64_t row_bytes;      // of one vertex's features in the store
    uint64_t n_nodes;
    bool typed; // rows are of the types' mean width
};

// SL_OK when the device can hold a sampler; SL_ENOMEM with the numbers.
int sl_budget_check_sampler(const struct sl_config *config, uint32_t device,
                            const struct sl_budget_need *need);

/*
 * Rows that the cache of a trainer of this duty on the device may hold (0 without a cache policy).
 * SL_OK; SL_ENOMEM with the numbers when the step itself does not fit, or the ratio that the job
 * asks for does not.
 */
int sl_budget_cache_rows(const struct sl_config *config, uint32_t device, enum sl_duty duty,
                         const struct sl_budget_need *need, uint64_t available_bytes,
                         uint64_t *rows);

// Whether that cache has room for every row, as far as is known before a step was measured.
bool sl_budget_expects_all_rows(const struct sl_config *config, uint32_t device, enum sl_duty duty,
                                const struct sl_budget_need *need, uint64_t available_bytes);

// What a job's processes hold, pages of files aside. All in bytes.
struct sl_budget_memory {
    uint64_t broker, sampler, trainer; // one that has loaded and not worked, the largest
    uint64_t shared;                   // the arena, and what lies beside it for all; 0: not known
    // The same under another bound; UINT64_MAX: there is no arena that small.
    uint64_t (*shared_of)(void *ctx, uint64_t bound);
    void *ctx;
};

// Of which a job has so many.
struct sl_budget_workers {
    uint32_t samplers, trainers;
    uint32_t on_gpus; // of the trainers, whose steps take the GPU's memory
    uint64_t n_rows;  // of the caches of all trainers in the machine's memory
};

// Whether it is within the job's bound. SL_ENOMEM with the least that would do.
int sl_budget_check_memory(const struct sl_config *config, const struct sl_budget_need *need,
                           const struct sl_budget_memory *m,
                           const struct sl_budget_workers *workers);

// What the job's bound leaves beside these processes; UINT64_MAX without one.
uint64_t sl_budget_spare(const struct sl_config *config, const struct sl_budget_need *need,
                         const struct sl_budget_memory *m, const struct sl_budget_workers *workers);

// The smallest bound that would do, in whole MiB, and that still does in another run.
uint64_t sl_budget_least_memory(const struct sl_config *config, const struct sl_budget_need *need,
                                const struct sl_budget_memory *m,
                                const struct sl_budget_workers *workers);

// Trainers that it has room for, beside so many samplers.
uint32_t sl_budget_trainers(const struct sl_config *config, const struct sl_budget_need *need,
                            const struct sl_budget_memory *m, uint32_t samplers);

#endif
