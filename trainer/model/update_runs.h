/*
 * update_runs.h - cuts the flat vector of parameters into runs of tensors that an update treats
 * alike (sync.h has the rules).
 */
#ifndef SL_TRAINER_MODEL_UPDATE_RUNS_H
#define SL_TRAINER_MODEL_UPDATE_RUNS_H

#include <stdbool.h>
#include <stdint.h>

#include "config/config.h"
#include "trainer/model/layer.h"

enum sl_update_rule {
    SL_UPDATE_RULE_STEP,
    SL_UPDATE_RULE_STEP_UNDECAYED,
    SL_UPDATE_RULE_RUNNING,
    SL_UPDATE_RULE_KEEP,
};

// Parameters [at, at + n) that an update treats alike.
struct sl_update_run {
    enum sl_update_rule rule;
    uint64_t at, n;
};

struct sl_update_runs {
    uint64_t n_params; // of the model
    struct sl_update_run *run;
    uint32_t n;
};

// tensors (n_tensors) of the model, in the order of their offsets. SL_ENOMEM; SL_EINVAL where they
// are not n_params parameters without holes.
int sl_update_runs_init(struct sl_update_runs *runs, const struct sl_config *config,
                        const struct sl_tensor *tensors, uint32_t n_tensors, uint64_t n_params);
void sl_update_runs_fini(struct sl_update_runs *runs); // safe on a zeroed struct

// Whether the optimizer steps its parameters, by the gradient summed over batches.
static inline bool sl_update_run_steps(const struct sl_update_run *run)
{
    return run->rule == SL_UPDATE_RULE_STEP || run->rule == SL_UPDATE_RULE_STEP_UNDECAYED;
}

#endif
