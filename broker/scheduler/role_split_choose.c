/*
 * role_split_choose.c - which split a job has: the one that it begins with, what is measured of it,
 * what another one would give, and whether to move.
 */
#include "broker/scheduler/role_split_internal.h"

#include <math.h>
#include <stdio.h>

#include "broker/log/joblog.h"
#include "common/text/units.h"
#include "common/base/bits.h"
#include "common/base/error.h"

// Of a pool one number may be the job's: the other one, and the cores, are still open.
static bool may_choose(const struct sl_role_split *s)
{
    bool samplers = s->config->allocation.samplers_auto,
         trainers = s->config->allocation.trainers_auto;
    return !s->pinned && (s->pool.n > 0 ? samplers || trainers : samplers && trainers);
}

// --- what there is memory for --------------------------------------------------------------------

struct sl_roles sl_split_largest_named(const struct sl_role_split *s)
{
    struct sl_roles most = s->roles;
    for (uint32_t i = s->next_schedule; i < s->config->n_schedule; i++) {
        const struct sl_schedule_config *e = &s->config->schedule[i];
        const struct sl_roles split = {e->samplers, e->trainers};
        if (sl_placement_batches(split) > sl_placement_batches(most))
            most = split;
    }
    return most;
}

uint64_t sl_split_batches_most(const struct sl_role_split *s)
{
    const struct sl_config *c = s->config;
    const struct sl_roles named = sl_split_largest_named(s);
    const uint32_t n = c->n_devices, workers = s->pool.n > 0 ? s->pool.n : n - 1;
    struct sl_roles most = {c->allocation.samplers, c->allocation.trainers};
    if (!may_choose(s) || n < 2)
        return sl_placement_batches(named);
    // A trainer in the place of a sampler is a mini-batch more.
    if (c->allocation.trainers_auto)
        most.trainers = SL_MIN(sl_config_trainers_at_once(c), workers);
    if (c->allocation.samplers_auto)
        most.samplers = SL_MIN(n - SL_MIN(most.trainers, n - 1), workers);
    return SL_MAX(sl_placement_batches(most), sl_placement_batches(named));
}

// --- what is expected of a split -----------------------------------------------------------------

static struct sl_allocation_question question(struct sl_role_split *s, uint32_t epochs_left)
{
    return sl_split_question(s, s->roles, epochs_left);
}

// What an epoch took, if one split held from its beginning to its end.
static void keep_pace(struct sl_role_split *s, const struct sl_epoch *figures)
{
    const struct sl_split_change *r = &s->change;
    struct sl_pace *pace = &s->pace;
    bool whole = figures->epoch >= pace->first_whole &&
                 !(r->active && figures->epoch >= r->epoch) &&
                 figures->stages.sample.count == figures->batches; // none is a checkpoint's
    if (!whole || figures->batches == 0)
        return;
    pace->split = r->active ? r->from : s->roles;
    pace->seconds = figures->seconds;
    pace->evaluate_seconds = figures->evaluate_seconds;
    struct sl_allocation_question q = sl_split_question(s, pace->split, 0);
    double model = sl_allocate_forecast_seconds(&q, pace->split);
    pace->factor = model > 0 && isfinite(model) ? figures->seconds / model : 0;
}

// --- the first one -------------------------------------------------------------------------------

void sl_split_begin_with(struct sl_role_split *s, uint32_t epoch, uint32_t batch,
                         struct sl_roles asked)
{
    const struct sl_config *config = s->config;
    uint32_t n = 0;
    s->roles = (struct sl_roles){config->allocation.samplers, config->allocation.trainers};
    // Of a schedule's entries before where the job is the last one holds.
    while (n < config->n_schedule &&
           (config->schedule[n].epoch < epoch ||
            (config->schedule[n].epoch == epoch && config->schedule[n].batch <= batch)))
        n++;
    if (n > 0) {
        s->roles =
            (struct sl_roles){config->schedule[n - 1].samplers, config->schedule[n - 1].trainers};
        s->next_schedule = n;
        s->pinned = true;
    } else if (asked.samplers > 0 && asked.trainers > 0 &&
               asked.samplers + asked.trainers <= config->n_devices) {
        s->roles = asked;
        s->pinned = true;
    } else if (config->allocation.samplers_auto && config->allocation.trainers_auto &&
               config->n_devices > 2) {
        s->roles = (struct sl_roles){1, 1};
        s->scouting = true;
    }
}

void sl_split_on_hello(struct sl_role_split *s, const struct sl_pool_worker *w,
                       const Sl__Control__Hello *hello)
{
    if (w->role == SL_ROLE_TRAINER)
        return;
    sl_split_on_room(s, w->device, hello->graph_edges);
    s->sampler_load_seconds = SL_MAX(s->sampler_load_seconds, (double)hello->load_ns * 1e-9);
    s->need.resident_bytes = SL_MAX(s->need.resident_bytes, hello->resident_bytes);
    if (s->arena->base)
        return; // of the start alone: the arena has been sized by now
    s->need.block_bytes = SL_MAX(s->need.block_bytes, hello->block_bytes_max);
    s->profile.t_sample = SL_MAX((double)hello->t_sample_ns * 1e-9, s->config->throttle.sample);
}

void sl_split_on_ready(struct sl_role_split *s, const struct sl_pool_worker *w,
                       const Sl__Control__Ready *ready)
{
    if (w->role != SL_ROLE_TRAINER)
        return;
    double seconds = (double)ready->t_train_ns * 1e-9;
    s->trainer_load_seconds = SL_MAX(s->trainer_load_seconds, (double)ready->ready_ns * 1e-9);
    s->need.step_bytes = SL_MAX(s->need.step_bytes, ready->step_bytes);
    if (s->stage != SL_SPLIT_STARTS || s->chosen)
        return;
    // The least disturbed of several: they all measure at the same time.
    double *t = sl_split_duty(s, w->role, w->device) == SL_DUTY_STANDBY ? &s->profile.t_standby
                                                                        : &s->profile.t_train;
    *t = *t > 0 ? SL_MIN(*t, seconds) : seconds;
}

void sl_split_run(struct sl_role_split *s)
{
    s->stage = SL_SPLIT_RUNS;
}

// Why the split is what it is, and what the formula has to say to that; it is one of trainers that
// are the job's own.
static void say_fixed(const struct sl_role_split *s, const char *by, const struct sl_allocation *a,
                      char *out, size_t bytes)
{
    if (sl_config_is_external(s->config)) {
        snprintf(out, bytes, "%s", by);
    } else {
        snprintf(out, bytes, "%s; %s", by, a->reason);
    }
}

int sl_split_choose_first(struct sl_role_split *s)
{
    struct sl_allocation a;
    char reason[SL_ALLOCATION_REASON_BYTES + 256], fixed[192], split[SL_SPLIT_TEXT_BYTES];
    char idle[SL_ALLOCATION_REASON_BYTES], brief[SL_ALLOCATION_BRIEF_BYTES];
    struct sl_profile *p = &s->profile;
    s->scouting = false;
    // Whichever kind of trainer there is tells of the other one too.
    p->t_train = p->t_train > 0 ? p->t_train : p->t_standby;
    p->t_standby = p->t_standby > 0 ? p->t_standby : p->t_train;
    struct sl_allocation_question q = question(s, s->config->epochs);
    sl_allocate_first(&q, &a);
    if (may_choose(s)) {
        s->roles = a.split;
        snprintf(reason, sizeof reason, "%s", a.reason);
    } else {
        a.split = s->roles;
        say_fixed(s, sl_placement_reason(s->config, fixed, sizeof fixed), &a, reason,
                  sizeof reason);
    }
    a.moves = false; // nothing was there before
    SL_TRY(sl_split_check_budgets(s, s->roles));
    s->pool.guessed = s->pool.n > 0;
    sl_joblog_write(s->log, SL_LOG_INFO, "split: %s: %s", split_text(s->roles, split), reason);
    if (may_choose(s) && !s->pool.guessed)
        sl_joblog_announce(s->log, "split: %s", sl_allocate_brief_text(&q, &a, brief));
    if (!sl_config_is_external(s->config) &&
        s->config->nodes <= 1 && // of several the number is what the others have, too
        *sl_allocate_idle_text(&q, s->roles, idle, sizeof idle))
        sl_joblog_announce(s->log, "split: %s", idle);
    const uint64_t batches = sl_phases_batches(s->config, s->dataset->split[SL_SPLIT_TRAIN].n);
    if (q.ordered && s->config->updates.batches_per_update > batches)
        sl_joblog_announce(s->log,
                           "updates.batches_per_update: found %u, and an epoch has %s: each epoch "
                           "is one update; %llu or less makes more",
                           s->config->updates.batches_per_update, SL_PLURAL(batches, "mini-batch"),
                           (unsigned long long)SL_MAX(batches / 2, 1u));
    sl_split_add_decision(s, &a, 0, reason);
    s->chosen = true;
    return SL_OK;
}

// --- the profile ---------------------------------------------------------------------------------

// Why the split is what it is, where nobody may move it.
static const char *fixed_by(const struct sl_role_split *s, char *buf, size_t bytes)
{
    if (!s->pinned)
        return sl_placement_reason(s->config, buf, bytes);
    snprintf(buf, bytes, "%s", "asked for while the job ran");
    return buf;
}

static void keep_profile(struct sl_profile *p, const struct sl_epoch *figures)
{
    if (figures->profile.t_sample > 0)
        p->t_sample = figures->profile.t_sample;
    if (figures->profile.t_train > 0)
        p->t_train = figures->profile.t_train;
    if (figures->profile.t_standby > 0)
        p->t_standby = figures->profile.t_standby;
}

// Where the broker may choose: the split moves if that pays.
static void choose_again(struct sl_role_split *s, const struct sl_allocation_question *q,
                         uint32_t epoch, bool first)
{
    struct sl_allocation a;
    char when[48] = "after the first batches", brief[SL_ALLOCATION_BRIEF_BYTES];
    sl_allocate_again(q, &a);
    if (!s->pool.guessed)
        snprintf(when, sizeof when, "after epoch %u", epoch);
    sl_joblog_write(s->log, SL_LOG_INFO, "split: %s: %s", when, a.reason);
    if (a.moves && sl_split_change_to(s, a.split, SL_BY_PROFILE, NULL) < 0) {
        sl_joblog_write(s->log, SL_LOG_WARN, "the split stays: %s", sl_error_message());
        a.split = s->roles;
        a.moves = false;
    }
    if (a.moves || s->pool.guessed)
        sl_joblog_announce(s->log, "split: %s", sl_allocate_brief_text(q, &a, brief));
    if (first || a.moves)
        sl_split_add_decision(s, &a, epoch, a.reason);
}

// The same where it may not: what holds, and why.
static void explain(struct sl_role_split *s, const struct sl_allocation_question *q, uint32_t epoch)
{
    struct sl_allocation a;
    char reason[SL_ALLOCATION_REASON_BYTES + 256], fixed[192];
    sl_allocate_explain(q, &a);
    say_fixed(s, fixed_by(s, fixed, sizeof fixed), &a, reason, sizeof reason);
    sl_split_add_decision(s, &a, epoch, reason);
}

static void choose(struct sl_role_split *s, uint32_t epoch, bool first)
{
    struct sl_allocation_question q =
        question(s, s->config->epochs - SL_MIN(epoch, s->config->epochs));
    if (may_choose(s) && !s->change.active)
        choose_again(s, &q, epoch, first);
    else if (first)
        explain(s, &q, epoch);
    s->pool.guessed = false;
    sl_split_divide_pool(s);
}

void sl_split_choose_by_first_batches(struct sl_role_split *s)
{
    enum { BATCHES = 3 };
    if (!s->pool.guessed || s->change.active || !sl_split_learn_pool(s, BATCHES))
        return;
    s->profile.t_sample = s->pool.sample.one;
    s->profile.t_train = s->profile.t_standby = s->pool.train.all;
    choose(s, sl_split_epoch(s), true);
}

void sl_split_on_epoch(struct sl_role_split *s, const struct sl_epoch *figures)
{
    uint32_t epoch = figures->epoch + 1; // the next one
    bool first = !s->profiled;
    keep_profile(&s->profile, figures);
    bool learnt = sl_split_learn_pool(s, 1);
    keep_pace(s, figures);
    s->profiled = true;
    if (learnt || !s->pool.guessed) // an epoch of few batches may tell nothing yet
        choose(s, epoch, first);
}
