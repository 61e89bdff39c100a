/*
 * role_split_pool.c - the cores that a job's workers share: what is known of their stages, and
 * which of them each worker gets under the split that is wanted.
 *
 * Workers start on all of them, as few of them as may be, since nothing is known yet. The first
 * batches tell what a batch takes, by the processor time of the threads that worked on it: so
 * samplers may share a trainer's cores, and others may use the machine. Then, and after each epoch,
 * the split and the cores are chosen. Each seat is told its cores; its worker takes them before its
 * next batch (common/arena/seat.h).
 */
#include "broker/scheduler/role_split_internal.h"

#include <string.h>

#include "common/base/bits.h"
#include "common/device/cores.h"
#include "common/arena/seat.h"

void sl_split_open_pool(struct sl_role_split *s)
{
    const struct sl_device_config *one = &s->config->devices[0];
    struct sl_cores set = {0};
    if (!sl_config_is_pool(s->config))
        return;
    for (uint32_t i = 0; i < one->n_cores; i++)
        sl_cores_add(&set, one->cores[i]);
    s->pool.n = sl_cores_neighbours(&set, s->pool.core, SL_CONFIG_MAX_CORES);
}

// Trainers for which there is memory: a step of each beside what else the machine holds.
static uint32_t trainers_that_fit(const struct sl_role_split *s)
{
    uint64_t step = s->need.step_bytes;
    if (step == 0)
        return 1;
    return (uint32_t)SL_MIN(s->available_bytes / 2 / step,
                            (uint64_t)sl_budget_trainers(s->config, &s->need, &s->memory, 1));
}

struct sl_core_layout_question sl_split_shape_question(const struct sl_role_split *s)
{
    const struct sl_config *c = s->config;
    const struct sl_core_pool *pool = &s->pool;
    const uint64_t batches =
        sl_config_of_node(c, sl_phases_batches(c, s->dataset->split[SL_SPLIT_TRAIN].n));
    uint32_t at_once =
        (uint32_t)SL_MAX(SL_MIN((uint64_t)sl_config_trainers_at_once(c), batches), (uint64_t)1);
    struct sl_core_layout_question q = {
        .sample = pool->sample,
        .train = pool->train,
        .n_cores = pool->n,
        .at_once = at_once,
        .ordered = c->updates.mode == SL_UPDATE_ORDERED,
        .batches = batches,
        .least = {c->allocation.samplers, c->allocation.trainers},
        .most = {c->allocation.samplers, c->allocation.trainers},
        .places = c->n_devices,
        .batches_held = sl_split_batches_held(s),
    };
    if (c->allocation.samplers_auto) {
        q.least.samplers = 1;
        q.most.samplers = pool->n;
    }
    if (c->allocation.trainers_auto) {
        q.least.trainers = 1;
        q.most.trainers = SL_MAX(SL_MIN(SL_MIN(at_once, pool->n), trainers_that_fit(s)), 1u);
    }
    return q;
}

bool sl_split_learn_pool(struct sl_role_split *s, uint64_t batches)
{
    struct sl_core_pool *pool = &s->pool;
    const struct sl_meter *l = s->meter;
    if (pool->n == 0 || l->draw_cpu.n < batches || l->train_cpu.n < batches)
        return false;
    // A sampler draws on one thread.
    double draw = sl_meter_median(&l->draw_cpu);
    pool->sample = (struct sl_stage_times){draw, draw};
    pool->train = sl_core_layout_learn(&pool->train, sl_meter_median(&l->train_cpu),
                                       sl_meter_median(&l->shared_cpu), pool->n);
    for (uint32_t d = 0; d < s->config->n_devices; d++) {
        const struct sl_seat *seat = sl_seat(s->arena, sl_seat_trainer(s->arena, d));
        s->need.step_bytes = SL_MAX(s->need.step_bytes, atomic_load(&seat->step_bytes));
    }
    return true;
}

static void give_cores(struct sl_role_split *s, enum sl_role role, uint32_t index)
{
    const struct sl_pool_worker *w;
    struct sl_core_pool *pool = &s->pool;
    struct sl_core_range range = sl_core_layout_cores(&pool->shape, pool->n, role, index);
    uint32_t device = role == SL_ROLE_SAMPLER ? index : s->config->n_devices - 1 - index;
    struct sl_cores set = {0};
    for (uint32_t i = 0; i < range.n; i++)
        sl_cores_add(&set, pool->core[range.first + i]);
    s->events.on_cores(s->ctx, device, &set);
    w = sl_split_worker(s, role, device);
    sl_seat_set_cores(s->arena, w->slot, &set);
}

void sl_split_divide_pool(struct sl_role_split *s)
{
    struct sl_core_pool *pool = &s->pool;
    if (pool->n == 0 || s->scouting || !s->arena->base ||
        (!s->chosen && s->stage == SL_SPLIT_STARTS))
        return;
    struct sl_core_layout_question q = sl_split_shape_question(s);
    struct sl_core_layout shape = sl_core_layout_of(&q, s->roles);
    if (memcmp(&pool->shape.split, &s->roles, sizeof s->roles) == 0 &&
        !(shape.epoch_seconds <
          (1 - SL_ALLOCATE_GAIN_MIN) * sl_core_layout_epoch_seconds(&q, &pool->shape)))
        return;
    pool->shape = shape;
    for (uint32_t i = 0; i < s->roles.samplers; i++)
        give_cores(s, SL_ROLE_SAMPLER, i);
    for (uint32_t i = 0; i < s->roles.trainers; i++)
        give_cores(s, SL_ROLE_TRAINER, i);
}
