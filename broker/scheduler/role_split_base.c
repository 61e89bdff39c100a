// role_split_base.c - what all files of the split ask of it.
#include "broker/scheduler/capacity.h"
#include "broker/scheduler/role_split_internal.h"

struct sl_pool_worker *sl_split_worker(const struct sl_role_split *s, enum sl_role role,
                                       uint32_t device)
{
    uint32_t n = s->config->n_devices;
    return &s->workers->list[role == SL_ROLE_SAMPLER ? device : n + device];
}

enum sl_duty sl_split_duty(const struct sl_role_split *s, enum sl_role role, uint32_t device)
{
    bool switching =
        sl_placement_switches(s->config, device) && !s->scouting && !s->no_standby[device];
    return sl_placement_duty(s->roles, s->config->n_devices, switching, role, device);
}

uint64_t sl_split_batches_held(const struct sl_role_split *s)
{
    return s->arena->base
               ? sl_capacity_batches(s->arena->h->spec.payload_bytes, s->need.block_bytes)
               : 0;
}

void sl_split_add_decision(struct sl_role_split *s, const struct sl_allocation *a, uint32_t epoch,
                           const char *reason)
{
    const struct sl_report_allocation entry = {
        .epoch = epoch,
        .samplers = a->split.samplers,
        .trainers = a->split.trainers,
        .t_sample = s->profile.t_sample,
        .t_train = s->profile.t_train,
        .t_standby = s->profile.t_standby,
        .k = a->k,
        .formula_samplers = a->formula.samplers,
        .moved = a->moves,
        .gain_seconds = a->gain_seconds,
        .cost_seconds = s->sampler_load_seconds + s->trainer_load_seconds,
        .reason = reason,
    };
    s->events.on_decision(s->ctx, &entry);
}
