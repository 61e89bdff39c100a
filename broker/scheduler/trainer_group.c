#include "broker/scheduler/trainer_group.h"

#include <inttypes.h>

#include "broker/log/joblog.h"
#include "broker/scheduler/role_split.h"
#include "broker/log/timeline.h"
#include "common/base/clock.h"
#include "common/arena/group.h"

enum { TOGETHER_SECONDS = 10 }; // the most that a ready trainer waits for others

static bool is_member(const struct sl_trainer_group *g, const struct sl_pool_worker *w)
{
    return w->alive && g->worker[w->device] == w->worker;
}

// Whether ready trainers need not wait for those on their way. `working`: there are members.
static bool is_time(struct sl_trainer_group *g, bool ready, bool missing, bool working)
{
    if (!ready || !missing) {
        g->waiting_ns = 0;
        return ready;
    }
    if (g->split->stage == SL_SPLIT_STARTS)
        return false;
    uint64_t now = sl_now_ns();
    g->waiting_ns = g->waiting_ns ? g->waiting_ns : now;
    bool over = !working || now - g->waiting_ns > TOGETHER_SECONDS * 1000000000ull;
    g->waiting_ns = over ? 0 : g->waiting_ns;
    return over;
}

static void tell(struct sl_trainer_group *g)
{
    char text[96];
    g->told = g->generation;
    if (g->n == 0)
        snprintf(text, sizeof text, "no trainer is left to sum gradients");
    else if (g->n == 1)
        snprintf(text, sizeof text, "1 trainer sums gradients by itself");
    else
        snprintf(text, sizeof text, "%u trainers sum gradients by NCCL", g->n);
    sl_joblog_write(g->log, SL_LOG_INFO, "exchange: %s (generation %" PRIu64 ")", text,
                    g->generation);
    sl_timeline_emit(g->timeline, "exchange", g->n > 0, "%s (generation %" PRIu64 ")", text,
                     g->generation);
}

// The list as it is to be, in the order of their devices. Returns how many.
static uint32_t list_members(struct sl_trainer_group *g,
                             struct sl_group_member members[SL_GROUP_MAX])
{
    bool working = false, ready = false, missing = false;
    uint32_t n = 0;
    for (uint32_t d = 0; d < g->split->config->n_devices; d++) {
        const struct sl_pool_worker *w = sl_split_worker(g->split, SL_ROLE_TRAINER, d);
        bool here = is_member(g, w);
        working |= here;
        ready |= !here && sl_pool_worker_is_ready(w);
        missing |= !here && !sl_pool_worker_is_ready(w) &&
                   sl_split_duty(g->split, SL_ROLE_TRAINER, d) != SL_DUTY_NONE;
    }
    bool join = is_time(g, ready, missing, working);
    for (uint32_t d = 0; d < g->split->config->n_devices && n < SL_GROUP_MAX; d++) {
        const struct sl_pool_worker *w = sl_split_worker(g->split, SL_ROLE_TRAINER, d);
        bool here = is_member(g, w) || (join && sl_pool_worker_is_ready(w));
        g->worker[d] = here ? w->worker : 0;
        if (here)
            members[n++] = (struct sl_group_member){.worker = w->worker, .device = d};
    }
    return n;
}

void sl_trainer_group_form(struct sl_trainer_group *g)
{
    struct sl_group_member members[SL_GROUP_MAX];
    struct sl_group_view view;
    if (!g->arena->base || !sl_group_exists(g->arena) || g->split->scouting)
        return;
    uint32_t n = list_members(g, members);
    if (sl_group_form(g->arena, members, n)) {
        sl_group_read(g->arena, 0, &view); // nobody's id
        g->n = n;
        g->generation = view.generation;
    }
    if (g->split->stage == SL_SPLIT_RUNS && g->told != g->generation)
        tell(g);
}
