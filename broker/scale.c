/*
 * scale.c - changes of the split: the first one, those that the profile, the schedule and the user
 * ask for.
 *
 * One change at a time. It is refused with the reason when it can not be (more roles than devices,
 * nobody left to train, a device without the memory, another change under way); otherwise the new
 * split becomes the wanted one, settle.c brings the seats there while the job goes on, and whoever
 * asked is answered once it holds. Nothing is lost: a worker that has to leave finishes or returns
 * what it has in hand, and one that is killed instead has its batches taken back.
 *
 * A split that the user or the schedule asked for stays: the profile does not move it any more.
 */
#include "broker/job.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/scale_plan.h"
#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "common/ipc/worker.h"

enum { SPLIT_BYTES = 64 };

static const char *by_name(enum sl_rebalance_by by)
{
    return by == SL_BY_USER ? "user" : by == SL_BY_SCHEDULE ? "schedule" : "profile";
}

static const char *event_kind(enum sl_rebalance_by by)
{
    return by == SL_BY_USER ? "scale" : "split";
}

static const char *split_text(struct sl_roles split, char out[SPLIT_BYTES])
{
    return sl_scale_split_text(split, out, SPLIT_BYTES);
}

static bool same_split(struct sl_roles a, struct sl_roles b)
{
    return a.samplers == b.samplers && a.trainers == b.trainers;
}

static double seconds_since(uint64_t ns)
{
    return (double)(sl_now_ns() - ns) * 1e-9;
}

static uint32_t current_epoch(struct sl_job *job)
{
    uint32_t epoch;
    uint64_t batch;
    sl_phases_trains(&job->phases, &epoch, &batch);
    return epoch;
}

// --- what is expected of a split -----------------------------------------------------------------

// An epoch's training under q->now: of the last epoch that was all under it, else as fast as it
// goes at present, else by the model, as right or wrong as it was then. 0: not known.
static double measured_seconds(struct sl_job *job, const struct sl_allocation_question *q)
{
    const struct sl_pace *pace = &job->pace;
    if (same_split(pace->split, q->now))
        return pace->seconds;
    double rate = 0;
    if (same_split(job->split, q->now) && !job->rebalance.active)
        rate = sl_meter_pace(&job->meter, pace->settled_ns);
    if (rate > 0)
        return (double)q->batches / rate;
    bool known = q->profile.t_sample > 0 && q->profile.t_train > 0;
    return known ? pace->factor * sl_allocate_forecast_seconds(q, q->now) : 0;
}

struct sl_allocation_question sl_job_allocation_question(struct sl_job *job, struct sl_roles now,
                                                         uint32_t epochs_left)
{
    const struct sl_config *config = &job->config;
    struct sl_allocation_question q = {
        .profile = job->profile,
        .n_devices = config->n_devices,
        .switching = sl_placement_switches(config, 0),
        .batches = sl_phases_batches(config, job->dataset.split[SL_SPLIT_TRAIN].n),
        .epochs_left = epochs_left,
        .at_once = sl_config_trainers_at_once(config),
        .batch_size = config->sampler.batch_size,
        .now = now,
        .move_seconds = job->sampler_load_seconds + job->trainer_load_seconds,
        .ordered = config->updates.mode == SL_UPDATE_ORDERED,
        .shape = sl_job_shape_question(job),
        .evaluate_seconds = job->pace.evaluate_seconds,
    };
    q.measured_seconds = measured_seconds(job, &q);
    return q;
}

static struct sl_allocation_question question(struct sl_job *job, uint32_t epochs_left)
{
    return sl_job_allocation_question(job, job->split, epochs_left);
}

// What an epoch took, if one split held from its beginning to its end.
static void keep_pace(struct sl_job *job, const struct sl_epoch_figures *figures)
{
    const struct sl_rebalance *r = &job->rebalance;
    struct sl_pace *pace = &job->pace;
    bool whole = figures->epoch >= pace->first_whole &&
                 !(r->active && figures->epoch >= r->epoch) &&
                 figures->sample.count == figures->batches; // none is a checkpoint's
    if (!whole || figures->batches == 0)
        return;
    pace->split = r->active ? r->from : job->split;
    pace->seconds = figures->seconds;
    pace->evaluate_seconds = figures->evaluate_seconds;
    struct sl_allocation_question q = sl_job_allocation_question(job, pace->split, 0);
    double model = sl_allocate_forecast_seconds(&q, pace->split);
    pace->factor = model > 0 && isfinite(model) ? figures->seconds / model : 0;
}

static void make_plan(struct sl_job *job, struct sl_roles from, struct sl_roles to,
                      const bool *no_standby, struct sl_scale_plan *out)
{
    uint32_t after = current_epoch(job) + 1;
    struct sl_scale_question q = {
        .config = &job->config,
        .need = &job->need,
        .available_bytes = job->available_bytes,
        .no_standby = no_standby,
        .expect = sl_job_allocation_question(
            job, from, job->config.epochs - SL_MIN(after, job->config.epochs)),
        .to = to,
    };
    sl_scale_plan_make(&q, out);
}

// --- answers -------------------------------------------------------------------------------------

// plan: NULL where there is none to speak of.
static void answer(struct sl_job *job, const struct sl_bus_peer *peer,
                   const struct sl_scale_plan *plan, const struct sl_scale_result *result)
{
    Sl__Control__ScaleDone done = SL__CONTROL__SCALE_DONE__INIT;
    Sl__Control__Envelope e = SL__CONTROL__ENVELOPE__INIT;
    if (peer->n == 0)
        return;
    char *json = sl_scale_plan_json(plan, result);
    done.ok = result->ok;
    done.message = (char *)result->message; // only read
    done.samplers = result->dry_run ? plan->to.samplers : job->split.samplers;
    done.trainers = result->dry_run ? plan->to.trainers : job->split.trainers;
    done.seconds = SL_MAX(result->took_seconds, 0.0);
    done.json = json ? json : "";
    e.body_case = SL__CONTROL__ENVELOPE__BODY_SCALE_DONE;
    e.scale_done = &done;
    sl_bus_send(job->bus, peer, &e); // who asked may have gone
    free(json);
}

static void tell_progress(struct sl_job *job, const char *text, const char *json)
{
    Sl__Control__ScaleProgress progress = SL__CONTROL__SCALE_PROGRESS__INIT;
    Sl__Control__Envelope e = SL__CONTROL__ENVELOPE__INIT;
    if (job->rebalance.peer.n == 0)
        return;
    progress.text = (char *)text; // only read
    progress.json = (char *)(json ? json : "");
    e.body_case = SL__CONTROL__ENVELOPE__BODY_SCALE_PROGRESS;
    e.scale_progress = &progress;
    sl_bus_send(job->bus, &job->rebalance.peer, &e);
}

static void report(struct sl_job *job, enum sl_rebalance_by by, uint32_t epoch,
                   struct sl_roles from, struct sl_roles to, double seconds, bool ok,
                   const char *text)
{
    const struct sl_report_scale scale = {
        .seconds = seconds_since(job->start_ns),
        .epoch = epoch,
        .by = by_name(by),
        .from_samplers = from.samplers,
        .from_trainers = from.trainers,
        .to_samplers = to.samplers,
        .to_trainers = to.trainers,
        .took_seconds = seconds,
        .ok = ok,
        .message = text,
    };
    sl_report_add_scale(&job->report, &scale);
}

static void add_to_report(struct sl_job *job, const struct sl_allocation *a, uint32_t epoch,
                          const char *reason)
{
    const struct sl_report_allocation entry = {
        .epoch = epoch,
        .samplers = a->split.samplers,
        .trainers = a->split.trainers,
        .t_sample = job->profile.t_sample,
        .t_train = job->profile.t_train,
        .t_standby = job->profile.t_standby,
        .k = a->k,
        .formula_samplers = a->formula.samplers,
        .moved = a->moves,
        .gain_seconds = a->gain_seconds,
        .cost_seconds = job->sampler_load_seconds + job->trainer_load_seconds,
        .reason = reason,
    };
    sl_report_add_allocation(&job->report, &entry);
}

// A split that somebody asked for stands in the list of allocations too.
static void record_request(struct sl_job *job)
{
    char reason[64];
    struct sl_allocation a = {
        .split = job->split,
        .moves = true,
        .k = job->profile.t_sample > 0 ? job->profile.t_train / job->profile.t_sample : NAN,
    };
    snprintf(reason, sizeof reason, "asked for by the %s", by_name(job->rebalance.by));
    add_to_report(job, &a, job->rebalance.epoch, reason);
}

static void finish(struct sl_job *job, bool ok, const char *text)
{
    struct sl_rebalance *r = &job->rebalance;
    struct sl_scale_plan plan;
    char a[SPLIT_BYTES], b[SPLIT_BYTES];
    const struct sl_scale_result result = {.job = job->config.name,
                                           .ok = ok,
                                           .took_seconds = seconds_since(r->began_ns),
                                           .message = text};
    r->active = false;
    job->pace.settled_ns = sl_now_ns();
    job->pace.first_whole = r->holds_epoch ? r->epoch : current_epoch(job) + 1;
    report(job, r->by, r->epoch, r->from, r->to, result.took_seconds, ok, text);
    if (ok && r->by != SL_BY_PROFILE)
        record_request(job);
    sl_joblog_announce(&job->log, "split: %s", text);
    sl_timeline_tell(&job->timeline, event_kind(r->by), ok,
                     "from %s to %s, asked for by the %s: %s", split_text(r->from, a),
                     split_text(r->to, b), by_name(r->by), text);
    make_plan(job, r->from, r->to, job->no_standby, &plan);
    answer(job, &r->peer, &plan, &result);
}

// The change under way can not be: all is as it was before it, and the profile does not try again.
static void roll_back(struct sl_job *job, const char *why)
{
    const struct sl_rebalance *r = &job->rebalance;
    char text[SL_JOB_MESSAGE_BYTES], split[SPLIT_BYTES];
    job->split = r->from;
    job->undo = r->undo;
    job->pinned = r->pinned || r->by == SL_BY_PROFILE;
    snprintf(text, sizeof text, "%s; the split is %s again", why, split_text(r->from, split));
    finish(job, false, text);
    sl_phases_open_gates(&job->phases);
}

bool sl_job_roll_back(struct sl_job *job, struct sl_member *m, const char *why)
{
    const struct sl_rebalance *r = &job->rebalance;
    if (!r->active)
        return false;
    enum sl_duty duty = sl_job_duty(job, m->role, m->device);
    job->split = r->from;
    bool before = sl_job_duty(job, m->role, m->device) == duty;
    job->split = r->to;
    if (before)
        return false;
    sl_crew_release(m);
    roll_back(job, why);
    return true;
}

// --- requests ------------------------------------------------------------------------------------

static int check_state(const struct sl_job *job)
{
    if (job->state == SL_JOB_STARTING)
        return sl_fail(SL_EINVAL, "the job is still starting: try again while it trains");
    if (job->state != SL_JOB_RUNNING)
        return sl_fail(SL_EINVAL, "the job is finishing: a split is changed while it trains");
    return SL_OK;
}

// Whether the split may be asked for now. no_standby: what it would mean for standby trainers.
static int check(struct sl_job *job, struct sl_roles to, bool no_standby[SL_CONFIG_MAX_DEVICES])
{
    char a[SPLIT_BYTES], b[SPLIT_BYTES];
    uint32_t n = job->config.n_devices;
    SL_TRY(check_state(job));
    if (job->rebalance.active)
        return sl_fail(SL_EINVAL,
                       "a change from %s to %s is under way since %.1f s: wait until it holds",
                       split_text(job->rebalance.from, a), split_text(job->split, b),
                       seconds_since(job->rebalance.began_ns));
    if (to.samplers == 0)
        return sl_fail(SL_EINVAL, "found samplers=0, wanted at least 1: nobody would draw batches");
    if (to.trainers == 0)
        return sl_fail(SL_EINVAL, "found trainers=0, wanted at least 1: nobody would train");
    if (to.samplers > n || to.trainers > n || to.samplers + to.trainers > n)
        return sl_fail(SL_EINVAL,
                       "found %s, wanted at most %u roles on %u device%s: ask for fewer, or list "
                       "more devices in the job file (several may name the same core)",
                       split_text(to, a), n, n, n == 1 ? "" : "s");
    SL_TRY(sl_config_check_trainers(&job->config, to.trainers));
    return sl_job_try_budgets(job, to, no_standby);
}

static int begin(struct sl_job *job, struct sl_roles to, enum sl_rebalance_by by,
                 const struct sl_bus_peer *peer)
{
    bool no_standby[SL_CONFIG_MAX_DEVICES];
    SL_TRY(check(job, to, no_standby));
    SL_TRY(sl_job_check_budgets(job, to)); // says which devices lose their standby trainer
    job->rebalance = (struct sl_rebalance){
        .active = true,
        .by = by,
        .from = job->split,
        .to = to,
        .undo = job->undo,
        .pinned = job->pinned,
        .epoch = current_epoch(job),
        .began_ns = sl_now_ns(),
    };
    if (peer)
        job->rebalance.peer = *peer;
    if (by != SL_BY_PROFILE)
        job->undo = job->split;
    job->split = to;
    job->pinned |= by != SL_BY_PROFILE;
    char from_text[SPLIT_BYTES], to_text[SPLIT_BYTES];
    sl_joblog_announce(&job->log, "split: from %s to %s, asked for by the %s",
                       split_text(job->rebalance.from, from_text), split_text(to, to_text),
                       by_name(by));
    SL_FAILPOINT(BROKER_SCALE);
    return SL_OK;
}

static int wanted_split(const struct sl_job *job, const Sl__Control__Scale *scale,
                        struct sl_roles *to)
{
    *to = job->split;
    SL_TRY(check_state(job));
    if (job->phases.trained >= job->config.epochs || job->phases.stopped_early)
        return sl_fail(SL_EINVAL, "the job is finishing: all of its epochs are trained");
    if (scale->undo) {
        if (job->undo.samplers == 0)
            return sl_fail(SL_EINVAL, "there is nothing to undo: nobody has changed the split");
        *to = job->undo;
        return SL_OK;
    }
    if (scale->has_samplers)
        to->samplers = scale->samplers;
    if (scale->has_trainers)
        to->trainers = scale->trainers;
    return SL_OK;
}

static void refuse(struct sl_job *job, const struct sl_bus_peer *peer, struct sl_roles to,
                   bool dry_run)
{
    char why[SL_SCALE_TEXT_BYTES];
    struct sl_scale_plan plan = {
        .from = job->split, .to = to, .expectation = {NAN, NAN, NAN, false}, .move_seconds = NAN};
    const struct sl_scale_result result = {
        .job = job->config.name, .dry_run = dry_run, .took_seconds = -1, .message = why};
    snprintf(why, sizeof why, "%s", sl_error_message());
    answer(job, peer, &plan, &result);
    if (dry_run)
        return;
    sl_joblog_write(&job->log, SL_LOG_INFO, "scaling refused: %s", why);
    sl_timeline_tell(&job->timeline, event_kind(SL_BY_USER), false, "refused: %s", why);
}

// Nothing is to be done, or to be done now.
static void answer_at_once(struct sl_job *job, const struct sl_bus_peer *peer,
                           const struct sl_scale_plan *plan, bool dry_run)
{
    char text[SL_SCALE_TEXT_BYTES], split[SPLIT_BYTES];
    if (same_split(plan->from, plan->to))
        snprintf(text, sizeof text, "it is so already: %s", split_text(job->split, split));
    else
        sl_scale_plan_text(plan, text);
    const struct sl_scale_result result = {.job = job->config.name,
                                           .ok = true,
                                           .dry_run = dry_run,
                                           .took_seconds = dry_run ? -1 : 0,
                                           .message = text};
    answer(job, peer, plan, &result);
}

static void tell_plan(struct sl_job *job, const struct sl_scale_plan *plan)
{
    char text[SL_SCALE_TEXT_BYTES];
    const struct sl_scale_result result = {.job = job->config.name,
                                           .ok = true,
                                           .took_seconds = -1,
                                           .message = sl_scale_plan_text(plan, text)};
    char *json = sl_scale_plan_json(plan, &result);
    tell_progress(job, text, json);
    free(json);
}

void sl_job_on_scale(struct sl_job *job, const struct sl_bus_peer *peer,
                     const Sl__Control__Scale *scale)
{
    struct sl_roles to;
    struct sl_scale_plan plan;
    bool no_standby[SL_CONFIG_MAX_DEVICES];
    if (wanted_split(job, scale, &to) < 0 || check(job, to, no_standby) < 0) {
        refuse(job, peer, to, scale->dry_run);
        return;
    }
    make_plan(job, job->split, to, no_standby, &plan);
    if (scale->dry_run || same_split(job->split, to)) {
        job->pinned |= !scale->dry_run; // it is what somebody wants
        answer_at_once(job, peer, &plan, scale->dry_run);
        return;
    }
    if (begin(job, to, SL_BY_USER, peer) < 0) {
        refuse(job, peer, to, false);
        return;
    }
    tell_plan(job, &plan); // so the client knows that it is accepted
    sl_job_poll_split(job);
}

void sl_job_cancel_rebalance(struct sl_job *job)
{
    if (job->rebalance.active)
        finish(job, false, "the job ended before the new split held");
}

// --- the schedule --------------------------------------------------------------------------------

static void follow_schedule(struct sl_job *job)
{
    const struct sl_config *config = &job->config;
    uint32_t epoch;
    uint64_t batch;
    if (job->next_schedule == config->n_schedule || job->rebalance.active)
        return;
    sl_phases_trains(&job->phases, &epoch, &batch);
    const struct sl_schedule_config *s = &config->schedule[job->next_schedule];
    if (epoch < s->epoch || (epoch == s->epoch && batch < s->batch))
        return;
    job->next_schedule++;
    struct sl_roles to = {.samplers = s->samplers, .trainers = s->trainers};
    if (to.samplers == job->split.samplers && to.trainers == job->split.trainers) {
        job->pinned = true;
        return;
    }
    if (begin(job, to, SL_BY_SCHEDULE, NULL) == SL_OK) {
        job->rebalance.epoch = s->epoch;
        job->rebalance.holds_epoch = s->batch == 0;
        return;
    }
    sl_joblog_write(&job->log, SL_LOG_WARN, "schedule of epoch %u: %s", s->epoch + 1,
                    sl_error_message());
    report(job, SL_BY_SCHEDULE, epoch, job->split, to, 0, false, sl_error_message());
    sl_timeline_tell(&job->timeline, event_kind(SL_BY_SCHEDULE), false,
                     "schedule of epoch %u refused: %s", s->epoch + 1, sl_error_message());
}

bool sl_job_may_begin(struct sl_job *job, uint32_t epoch)
{
    const struct sl_rebalance *r = &job->rebalance;
    const struct sl_schedule_config *next = &job->config.schedule[job->next_schedule];
    if (r->active && r->holds_epoch && r->epoch == epoch)
        return false;
    return job->next_schedule == job->config.n_schedule || next->epoch != epoch || next->batch != 0;
}

void sl_job_poll_split(struct sl_job *job)
{
    struct sl_rebalance *r = &job->rebalance;
    char text[256], split[SPLIT_BYTES];
    uint32_t next = job->next_schedule;
    follow_schedule(job);
    if (job->next_schedule != next)
        sl_phases_open_gates(&job->phases); // of an epoch whose entry changes nothing
    sl_job_settle(job);
    if (!r->active)
        return;
    if (sl_job_is_settled(job)) {
        snprintf(text, sizeof text, "%s work now, after %.2f s", split_text(job->split, split),
                 seconds_since(r->began_ns));
        finish(job, true, text);
        sl_phases_open_gates(&job->phases);
    } else if (seconds_since(r->began_ns) > SL_WORKER_START_SECONDS) {
        snprintf(text, sizeof text,
                 "the new split did not hold within %d s: see the job's log directory",
                 SL_WORKER_START_SECONDS);
        roll_back(job, text);
    } else if (sl_job_settling_text(job, text, sizeof text) && strcmp(text, r->told) != 0) {
        snprintf(r->told, sizeof r->told, "%s", text);
        tell_progress(job, text, NULL);
    }
}

// --- the profile ---------------------------------------------------------------------------------

// Of a pool one number may be the job's: the other one, and the cores, are still open.
static bool may_choose(const struct sl_job *job)
{
    bool samplers = job->config.allocation.samplers_auto,
         trainers = job->config.allocation.trainers_auto;
    return !job->pinned && (job->pool.n > 0 ? samplers || trainers : samplers && trainers);
}

int sl_job_choose_first_split(struct sl_job *job)
{
    struct sl_allocation a;
    char reason[SL_ALLOCATION_REASON_BYTES + 256], fixed[192], split[SPLIT_BYTES];
    char idle[SL_ALLOCATION_REASON_BYTES];
    struct sl_profile *p = &job->profile;
    // Whichever kind of trainer there is tells of the other one too.
    p->t_train = p->t_train > 0 ? p->t_train : p->t_standby;
    p->t_standby = p->t_standby > 0 ? p->t_standby : p->t_train;
    struct sl_allocation_question q = question(job, job->config.epochs);
    sl_allocate_first(&q, &a);
    if (may_choose(job)) {
        job->split = a.split;
        snprintf(reason, sizeof reason, "%s", a.reason);
    } else {
        a.split = job->split;
        snprintf(reason, sizeof reason, "%s; %s",
                 sl_placement_reason(&job->config, fixed, sizeof fixed), a.reason);
    }
    a.moves = false; // nothing was there before
    SL_TRY(sl_job_check_budgets(job, job->split));
    split_text(job->split, split);
    job->pool.guessed = job->pool.n > 0;
    if (may_choose(job) && !job->pool.guessed)
        sl_joblog_announce(&job->log, "split: %s: %s", split, reason);
    else
        sl_joblog_write(&job->log, SL_LOG_INFO, "split: %s: %s", split, reason);
    if (*sl_allocate_idle_text(&q, job->split, idle, sizeof idle))
        sl_joblog_announce(&job->log, "split: %s", idle);
    if (q.ordered && q.at_once > q.batches)
        sl_joblog_announce(&job->log,
                           "updates.batches_per_update: found %u, and an epoch has %llu "
                           "mini-batch%s: each epoch is one update; %llu or less makes more",
                           q.at_once, (unsigned long long)q.batches, q.batches == 1 ? "" : "es",
                           (unsigned long long)SL_MAX(q.batches / 2, 1u));
    add_to_report(job, &a, 0, reason);
    return SL_OK;
}

// Why the split is what it is, where nobody may move it.
static const char *fixed_by(const struct sl_job *job, char *buf, size_t bytes)
{
    if (!job->pinned)
        return sl_placement_reason(&job->config, buf, bytes);
    snprintf(buf, bytes, "%s", "asked for while the job ran");
    return buf;
}

static void keep_profile(struct sl_profile *p, const struct sl_epoch_figures *figures)
{
    if (figures->t_sample > 0)
        p->t_sample = figures->t_sample;
    if (figures->t_train > 0)
        p->t_train = figures->t_train;
    if (figures->t_standby > 0)
        p->t_standby = figures->t_standby;
}

// Where the broker may choose: the split moves if that pays.
static void choose_again(struct sl_job *job, const struct sl_allocation_question *q, uint32_t epoch,
                         bool first)
{
    struct sl_allocation a;
    char when[48] = "after the first batches";
    sl_allocate_again(q, &a);
    if (!job->pool.guessed)
        snprintf(when, sizeof when, "after epoch %u", epoch);
    if (a.moves || job->pool.guessed)
        sl_joblog_announce(&job->log, "split: %s: %s", when, a.reason);
    else
        sl_joblog_write(&job->log, SL_LOG_INFO, "split: %s: %s", when, a.reason);
    if (a.moves && begin(job, a.split, SL_BY_PROFILE, NULL) < 0) {
        sl_joblog_write(&job->log, SL_LOG_WARN, "the split stays: %s", sl_error_message());
        a.split = job->split;
        a.moves = false;
    }
    if (first || a.moves)
        add_to_report(job, &a, epoch, a.reason);
}

// The same where it may not: what holds, and why.
static void explain(struct sl_job *job, const struct sl_allocation_question *q, uint32_t epoch)
{
    struct sl_allocation a;
    char reason[SL_ALLOCATION_REASON_BYTES + 256], fixed[192];
    sl_allocate_explain(q, &a);
    snprintf(reason, sizeof reason, "%s; %s", fixed_by(job, fixed, sizeof fixed), a.reason);
    add_to_report(job, &a, epoch, reason);
}

static void choose(struct sl_job *job, uint32_t epoch, bool first)
{
    struct sl_allocation_question q =
        question(job, job->config.epochs - SL_MIN(epoch, job->config.epochs));
    if (may_choose(job) && !job->rebalance.active)
        choose_again(job, &q, epoch, first);
    else if (first)
        explain(job, &q, epoch);
    job->pool.guessed = false;
    sl_job_divide_pool(job);
}

void sl_job_choose_by_first_batches(struct sl_job *job)
{
    enum { BATCHES = 3 };
    if (!job->pool.guessed || job->rebalance.active || !sl_job_learn_pool(job, BATCHES))
        return;
    job->profile.t_sample = job->pool.sample.one;
    job->profile.t_train = job->profile.t_standby = job->pool.train.all;
    choose(job, current_epoch(job), true);
}

void sl_job_profile(struct sl_job *job, const struct sl_epoch_figures *figures)
{
    uint32_t epoch = figures->epoch + 1; // the next one
    bool first = !job->profiled;
    keep_profile(&job->profile, figures);
    bool learnt = sl_job_learn_pool(job, 1);
    keep_pace(job, figures);
    job->profiled = true;
    if (learnt || !job->pool.guessed) // an epoch of few batches may tell nothing yet
        choose(job, epoch, first);
}
