#include "trainer/model/update_runs.h"

#include <stdlib.h>

#include "common/base/error.h"

static enum sl_update_rule rule_of(const struct sl_config *config, const struct sl_tensor *t)
{
    switch (t->role) {
    case SL_TENSOR_LEARNED: break;
    case SL_TENSOR_RUNNING: return SL_UPDATE_RULE_RUNNING;
    case SL_TENSOR_FIXED:
    case SL_TENSOR_COUNTER:
    case SL_TENSOR_TWIN: return SL_UPDATE_RULE_KEEP;
    }
    bool first_only = config->optimizer.decay_on == SL_DECAY_FIRST_LAYER;
    return first_only && config->optimizer.weight_decay > 0 && t->layer != 0
               ? SL_UPDATE_RULE_STEP_UNDECAYED
               : SL_UPDATE_RULE_STEP;
}

// Neighbours with the same rule are one run: long ones, since most tensors are simply learned.
int sl_update_runs_init(struct sl_update_runs *runs, const struct sl_config *config,
                        const struct sl_tensor *tensors, uint32_t n_tensors, uint64_t n_params)
{
    *runs = (struct sl_update_runs){.n_params = n_params};
    runs->run = calloc(n_tensors + 1, sizeof *runs->run);
    if (!runs->run)
        return sl_fail(SL_ENOMEM, "trainer: no memory for the list of %u tensors", n_tensors);
    uint64_t at = 0;
    for (uint32_t i = 0; i < n_tensors; i++) {
        const struct sl_tensor *t = &tensors[i];
        uint64_t n = sl_tensor_count(t);
        if (n == 0)
            continue;
        enum sl_update_rule rule = rule_of(config, t);
        if (t->offset != at)
            return sl_fail(SL_EINVAL, "trainer: tensor %s begins at %llu, wanted %llu", t->name,
                           (unsigned long long)t->offset, (unsigned long long)at);
        if (runs->n == 0 || runs->run[runs->n - 1].rule != rule)
            runs->run[runs->n++] = (struct sl_update_run){.rule = rule, .at = at};
        runs->run[runs->n - 1].n += n;
        at += n;
    }
    if (at != n_params)
        return sl_fail(SL_EINVAL, "trainer: the model's tensors have %llu parameters, wanted %llu",
                       (unsigned long long)at, (unsigned long long)n_params);
    return SL_OK;
}

void sl_update_runs_fini(struct sl_update_runs *runs)
{
    free(runs->run);
    *runs = (struct sl_update_runs){0};
}
