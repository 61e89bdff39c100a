// role_split_internal.h - between the files of the split, each of which calls those behind it:
// role_split_choose.c, role_split_change.c, worker_assign.c, role_split_pool.c and
// role_split_store.c, role_split_base.c.
#ifndef SL_BROKER_SCHEDULER_ROLE_SPLIT_INTERNAL_H
#define SL_BROKER_SCHEDULER_ROLE_SPLIT_INTERNAL_H

#include "broker/scheduler/scale_plan.h"
#include "broker/scheduler/role_split.h"
#include "common/arena/visit_counts.h"

enum { SL_SPLIT_TEXT_BYTES = 64 };

static inline const char *split_text(struct sl_roles roles, char out[SL_SPLIT_TEXT_BYTES])
{
    return sl_scale_split_text(roles, out, SL_SPLIT_TEXT_BYTES);
}

static inline bool sl_roles_equal(struct sl_roles a, struct sl_roles b)
{
    return a.samplers == b.samplers && a.trainers == b.trainers;
}

// Where training is.
static inline uint32_t sl_split_epoch(const struct sl_role_split *s)
{
    uint32_t epoch;
    uint64_t batch;
    sl_phases_trains(s->phases, &epoch, &batch);
    return epoch;
}

// worker_assign.c
// SL_OK when the devices' memory allows these roles, without any effect: which devices would have
// no standby trainer.
int sl_split_try_budgets(struct sl_role_split *s, struct sl_roles roles,
                         bool no_standby[SL_CONFIG_MAX_DEVICES]);
// What the split is waited for, in words; false and "" when nothing is.
bool sl_split_waiting_text(struct sl_role_split *s, char *out, size_t bytes);

// role_split_pool.c
struct sl_core_layout_question sl_split_shape_question(const struct sl_role_split *s);
// Takes what the last batches took; false when fewer than that have been measured.
bool sl_split_learn_pool(struct sl_role_split *s, uint64_t batches);
// Whenever the wanted split may have changed, or what is known of the stages.
void sl_split_divide_pool(struct sl_role_split *s);

// role_split_store.c
// Plans who holds which rows where trainers have these duties, tells every seat how many rows it
// has, and publishes the plan if it is another one.
void sl_split_plan_store(struct sl_role_split *s, const enum sl_duty duty[SL_CONFIG_MAX_DEVICES]);
// Plans who holds which edges, of samplers that work and have said Hello, and publishes the plan if
// it is another one.
void sl_split_plan_graph(struct sl_role_split *s);
// A device's sampler has come, with room for so many edges, or has to leave: 0. A replacement that
// has room for what the plan gives it changes nothing.
void sl_split_on_room(struct sl_role_split *s, uint32_t device, uint64_t edges);
// Says so where plans hold fewer rows or edges than the job asks for.
void sl_split_check_ratio(struct sl_role_split *s);
// Sizes that caches may have, so that hotness is in order there.
enum { SL_SPLIT_SIZES_MAX = 2 * SL_CONFIG_MAX_DEVICES + SL_VISIT_COUNTS_TIERS_MAX + 2 };
uint32_t sl_split_cache_sizes(struct sl_role_split *s, uint64_t rows[SL_SPLIT_SIZES_MAX]);

// role_split_change.c
// peer: the client, answered once the split holds; NULL: none. SL_EINVAL, SL_ENOMEM.
int sl_split_change_to(struct sl_role_split *s, struct sl_roles to, enum sl_split_by by,
                       const struct sl_bus_peer *peer);

// role_split_base.c
// Mini-batches that the arena has room for; 0: there is none yet.
uint64_t sl_split_batches_held(const struct sl_role_split *s);
void sl_split_add_decision(struct sl_role_split *s, const struct sl_allocation *a, uint32_t epoch,
                           const char *reason);

#endif
