// role_split_change.c - changes of the split: asked for by the user or the schedule, refused,
// carried out, rolled back.
#include "broker/scheduler/role_split_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/log/joblog.h"
#include "broker/log/timeline.h"
#include "common/text/units.h"
#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "common/bus/worker.h"

// --- what is expected of a split -----------------------------------------------------------------

// An epoch's training under q->now: of the last epoch that was all under it, else as fast as it
// goes at present, else by the model, as right or wrong as it was then. 0: not known.
static double measured_seconds(const struct sl_role_split *s,
                               const struct sl_allocation_question *q)
{
    const struct sl_pace *pace = &s->pace;
    if (sl_roles_equal(pace->split, q->now))
        return pace->seconds;
    double rate = 0;
    if (sl_roles_equal(s->roles, q->now) && !s->change.active)
        rate = sl_meter_pace(s->meter, pace->holds_since_ns);
    if (rate > 0)
        return (double)q->batches / rate;
    bool known = q->profile.t_sample > 0 && q->profile.t_train > 0;
    return known ? pace->factor * sl_allocate_forecast_seconds(q, q->now) : 0;
}

struct sl_allocation_question sl_split_question(const struct sl_role_split *s, struct sl_roles now,
                                                uint32_t epochs_left)
{
    const struct sl_config *config = s->config;
    struct sl_allocation_question q = {
        .profile = s->profile,
        .n_devices = config->n_devices,
        .switching = sl_placement_switches(config, 0),
        .batches = sl_config_of_node(
            config, sl_phases_batches(config, s->dataset->split[SL_SPLIT_TRAIN].n)),
        .epochs_left = epochs_left,
        .at_once = sl_config_trainers_at_once(config),
        .batch_size = config->sampler.batch_size,
        .batches_held = sl_split_batches_held(s),
        .now = now,
        .move_seconds = s->sampler_load_seconds + s->trainer_load_seconds,
        .ordered = config->updates.mode == SL_UPDATE_ORDERED,
        .shape = sl_split_shape_question(s),
        // A pool's profile is processor time; a probe is measured with nobody else at work.
        .quiet = s->pool.n > 0 || (!s->profiled && config->devices[0].kind == SL_DEVICE_CPU),
        .evaluate_seconds = s->pace.evaluate_seconds,
    };
    q.measured_seconds = measured_seconds(s, &q);
    return q;
}

enum { TEXT_BYTES = 2048 };

static const char *by_name(enum sl_split_by by)
{
    return by == SL_BY_USER ? "user" : by == SL_BY_SCHEDULE ? "schedule" : "profile";
}

static const char *event_kind(enum sl_split_by by)
{
    return by == SL_BY_USER ? "scale" : "split";
}

static double seconds_since(uint64_t ns)
{
    return (double)(sl_now_ns() - ns) * 1e-9;
}

static void make_plan(struct sl_role_split *s, struct sl_roles from, struct sl_roles to,
                      const bool *no_standby, struct sl_scale_plan *out)
{
    uint32_t after = sl_split_epoch(s) + 1;
    struct sl_scale_question q = {
        .config = s->config,
        .need = &s->need,
        .available_bytes = s->available_bytes,
        .no_standby = no_standby,
        .expect = sl_split_question(s, from, s->config->epochs - SL_MIN(after, s->config->epochs)),
        .to = to,
    };
    sl_scale_plan_make(&q, out);
}

// --- answers -------------------------------------------------------------------------------------

// plan: NULL where there is none to speak of.
static void answer(struct sl_role_split *s, const struct sl_bus_peer *peer,
                   const struct sl_scale_plan *plan, const struct sl_scale_result *result)
{
    Sl__Control__ScaleDone done = SL__CONTROL__SCALE_DONE__INIT;
    Sl__Control__Envelope e = SL__CONTROL__ENVELOPE__INIT;
    if (peer->n == 0)
        return;
    char *json = sl_scale_plan_json(plan, result);
    done.ok = result->ok;
    done.message = (char *)result->message; // only read
    done.samplers = result->dry_run ? plan->to.samplers : s->roles.samplers;
    done.trainers = result->dry_run ? plan->to.trainers : s->roles.trainers;
    done.seconds = SL_MAX(result->took_seconds, 0.0);
    done.json = json ? json : "";
    e.body_case = SL__CONTROL__ENVELOPE__BODY_SCALE_DONE;
    e.scale_done = &done;
    sl_bus_send(s->clients->bus, peer, &e); // the client may have gone
    free(json);
}

static void emit_progress(struct sl_role_split *s, const char *text, const char *json)
{
    Sl__Control__ScaleProgress progress = SL__CONTROL__SCALE_PROGRESS__INIT;
    Sl__Control__Envelope e = SL__CONTROL__ENVELOPE__INIT;
    if (s->change.peer.n == 0)
        return;
    progress.text = (char *)text; // only read
    progress.json = (char *)(json ? json : "");
    e.body_case = SL__CONTROL__ENVELOPE__BODY_SCALE_PROGRESS;
    e.scale_progress = &progress;
    sl_bus_send(s->clients->bus, &s->change.peer, &e);
}

static void report(struct sl_role_split *s, enum sl_split_by by, uint32_t epoch,
                   struct sl_roles from, struct sl_roles to, double seconds, bool ok,
                   const char *text)
{
    const struct sl_report_scale scale = {
        .seconds = seconds_since(s->start_ns),
        .epoch = epoch,
        .by = by_name(by),
        .from = {from.samplers, from.trainers},
        .to = {to.samplers, to.trainers},
        .took_seconds = seconds,
        .ok = ok,
        .message = text,
    };
    s->events.on_change(s->ctx, &scale);
}

// A split that a user or the schedule asked for is in the list of allocations too.
static void record_request(struct sl_role_split *s)
{
    char reason[64];
    struct sl_allocation a = {
        .split = s->roles,
        .moves = true,
        .k = s->profile.t_sample > 0 ? s->profile.t_train / s->profile.t_sample : NAN,
    };
    snprintf(reason, sizeof reason, "asked for by the %s", by_name(s->change.by));
    sl_split_add_decision(s, &a, s->change.epoch, reason);
}

static void finish(struct sl_role_split *s, bool ok, const char *text)
{
    struct sl_split_change *r = &s->change;
    struct sl_scale_plan plan;
    char a[SL_SPLIT_TEXT_BYTES], b[SL_SPLIT_TEXT_BYTES];
    const struct sl_scale_result result = {.job = s->config->name,
                                           .ok = ok,
                                           .took_seconds = seconds_since(r->began_ns),
                                           .message = text};
    r->active = false;
    s->pace.holds_since_ns = sl_now_ns();
    s->pace.first_whole = r->holds_epoch ? r->epoch : sl_split_epoch(s) + 1;
    report(s, r->by, r->epoch, r->from, r->to, result.took_seconds, ok, text);
    if (ok && r->by != SL_BY_PROFILE)
        record_request(s);
    // That the profile moves the split has been announced; where the job ends it does not matter.
    if (r->by == SL_BY_PROFILE && (ok || s->stage == SL_SPLIT_ENDS))
        sl_joblog_write(s->log, SL_LOG_INFO, "split: %s", text);
    else
        sl_joblog_announce(s->log, "split: %s (asked for by the %s)", text, by_name(r->by));
    sl_timeline_emit(s->timeline, event_kind(r->by), ok, "from %s to %s, asked for by the %s: %s",
                     split_text(r->from, a), split_text(r->to, b), by_name(r->by), text);
    make_plan(s, r->from, r->to, s->no_standby, &plan);
    answer(s, &r->peer, &plan, &result);
}

// The change under way cannot be: all is as it was before it, and the profile does not try again.
static void roll_back(struct sl_role_split *s, const char *why)
{
    const struct sl_split_change *r = &s->change;
    char text[TEXT_BYTES], split[SL_SPLIT_TEXT_BYTES];
    s->roles = r->from;
    s->undo = r->undo;
    s->pinned = r->pinned || r->by == SL_BY_PROFILE;
    snprintf(text, sizeof text, "%s; the split is %s again", why, split_text(r->from, split));
    finish(s, false, text);
    s->events.on_holds(s->ctx);
}

bool sl_split_roll_back(struct sl_role_split *s, struct sl_pool_worker *w, const char *why)
{
    const struct sl_split_change *r = &s->change;
    if (!r->active)
        return false;
    enum sl_duty duty = sl_split_duty(s, w->role, w->device);
    s->roles = r->from;
    bool before = sl_split_duty(s, w->role, w->device) == duty;
    s->roles = r->to;
    if (before)
        return false;
    sl_pool_worker_release(w);
    roll_back(s, why);
    return true;
}

// --- requests ------------------------------------------------------------------------------------

static int check_state(const struct sl_role_split *s)
{
    if (s->stage == SL_SPLIT_STARTS)
        return sl_fail(SL_EINVAL, "the job is still starting: try again while it trains");
    if (s->stage != SL_SPLIT_RUNS)
        return sl_fail(SL_EINVAL,
                       "the job is finishing: its split can be changed only while it trains");
    return SL_OK;
}

// Whether the split may be asked for now. no_standby: what it would mean for standby trainers.
static int check(struct sl_role_split *s, struct sl_roles to,
                 bool no_standby[SL_CONFIG_MAX_DEVICES])
{
    char a[SL_SPLIT_TEXT_BYTES], b[SL_SPLIT_TEXT_BYTES];
    uint32_t n = s->config->n_devices;
    SL_TRY(check_state(s));
    if (s->change.active)
        return sl_fail(SL_EINVAL,
                       "a change from %s to %s is under way since %.1f s: wait until it holds",
                       split_text(s->change.from, a), split_text(s->roles, b),
                       seconds_since(s->change.began_ns));
    if (to.samplers == 0)
        return sl_fail(SL_EINVAL, "found samplers=0, wanted at least 1: nobody would draw batches");
    if (to.trainers == 0)
        return sl_fail(SL_EINVAL, "found trainers=0, wanted at least 1: nobody would train");
    if (sl_config_is_external(s->config) && to.trainers != s->roles.trainers)
        return sl_fail(SL_EINVAL,
                       "found trainers=%u, wanted %u: trainers of this job are programs that "
                       "attach, and allocation.trainers says how many may: start it again with "
                       "another number",
                       to.trainers, s->roles.trainers);
    bool more = to.samplers > n || to.trainers > n || to.samplers + to.trainers > n;
    if (more && sl_config_is_pool(s->config))
        return sl_fail(SL_EINVAL,
                       "found %s, wanted at most %u workers on %s (two a core, or as many "
                       "as the job file names): ask for fewer",
                       split_text(to, a), n, SL_PLURAL(s->pool.n, "core"));
    if (more)
        return sl_fail(SL_EINVAL,
                       "found %s, wanted at most %u roles on %s: ask for fewer, or list "
                       "more devices in the job file (several may name the same core)",
                       split_text(to, a), n, SL_PLURAL(n, "device"));
    SL_TRY(sl_config_check_trainers(s->config, to.trainers));
    return sl_split_try_budgets(s, to, no_standby);
}

int sl_split_change_to(struct sl_role_split *s, struct sl_roles to, enum sl_split_by by,
                       const struct sl_bus_peer *peer)
{
    bool no_standby[SL_CONFIG_MAX_DEVICES];
    SL_TRY(check(s, to, no_standby));
    SL_TRY(sl_split_check_budgets(s, to)); // says which devices lose their standby trainer
    s->change = (struct sl_split_change){
        .active = true,
        .by = by,
        .from = s->roles,
        .to = to,
        .undo = s->undo,
        .pinned = s->pinned,
        .epoch = sl_split_epoch(s),
        .began_ns = sl_now_ns(),
    };
    if (peer)
        s->change.peer = *peer;
    if (by != SL_BY_PROFILE)
        s->undo = s->roles;
    s->roles = to;
    s->pinned |= by != SL_BY_PROFILE;
    char from_text[SL_SPLIT_TEXT_BYTES], to_text[SL_SPLIT_TEXT_BYTES];
    sl_joblog_write(s->log, SL_LOG_INFO, "split: from %s to %s, asked for by the %s",
                    split_text(s->change.from, from_text), split_text(to, to_text), by_name(by));
    SL_FAILPOINT(BROKER_SCALE);
    return SL_OK;
}

static int wanted_split(const struct sl_role_split *s, const Sl__Control__Scale *scale,
                        struct sl_roles *to)
{
    *to = s->roles;
    SL_TRY(check_state(s));
    if (s->phases->trained >= s->config->epochs || s->phases->stopped_early)
        return sl_fail(SL_EINVAL, "the job is finishing: all of its epochs are trained");
    if (scale->undo) {
        if (s->undo.samplers == 0)
            return sl_fail(SL_EINVAL, "there is nothing to undo: nobody has changed the split");
        *to = s->undo;
        return SL_OK;
    }
    if (scale->has_samplers)
        to->samplers = scale->samplers;
    if (scale->has_trainers)
        to->trainers = scale->trainers;
    return SL_OK;
}

static void refuse(struct sl_role_split *s, const struct sl_bus_peer *peer, struct sl_roles to,
                   bool dry_run)
{
    char why[SL_SCALE_TEXT_BYTES];
    struct sl_scale_plan plan = {.from = s->roles,
                                 .to = to,
                                 .expectation = {NAN, NAN, NAN, false, false},
                                 .move_seconds = NAN};
    const struct sl_scale_result result = {
        .job = s->config->name, .dry_run = dry_run, .took_seconds = -1, .message = why};
    snprintf(why, sizeof why, "%s", sl_error_message());
    answer(s, peer, &plan, &result);
    if (dry_run)
        return;
    sl_joblog_write(s->log, SL_LOG_INFO, "scaling refused: %s", why);
    sl_timeline_emit(s->timeline, event_kind(SL_BY_USER), false, "refused: %s", why);
}

// Nothing is to be done, or to be done now.
static void answer_at_once(struct sl_role_split *s, const struct sl_bus_peer *peer,
                           const struct sl_scale_plan *plan, bool dry_run)
{
    char text[SL_SCALE_TEXT_BYTES], split[SL_SPLIT_TEXT_BYTES];
    if (sl_roles_equal(plan->from, plan->to))
        snprintf(text, sizeof text, "that is the split already: %s", split_text(s->roles, split));
    else
        sl_scale_plan_text(plan, text);
    const struct sl_scale_result result = {.job = s->config->name,
                                           .ok = true,
                                           .dry_run = dry_run,
                                           .took_seconds = dry_run ? -1 : 0,
                                           .message = text};
    answer(s, peer, plan, &result);
}

static void emit_plan(struct sl_role_split *s, const struct sl_scale_plan *plan)
{
    char text[SL_SCALE_TEXT_BYTES];
    const struct sl_scale_result result = {.job = s->config->name,
                                           .ok = true,
                                           .took_seconds = -1,
                                           .message = sl_scale_plan_text(plan, text)};
    char *json = sl_scale_plan_json(plan, &result);
    emit_progress(s, text, json);
    free(json);
}

void sl_split_on_request(struct sl_role_split *s, const struct sl_bus_peer *peer,
                         const Sl__Control__Scale *scale)
{
    struct sl_roles to;
    struct sl_scale_plan plan;
    bool no_standby[SL_CONFIG_MAX_DEVICES];
    if (wanted_split(s, scale, &to) < 0 || check(s, to, no_standby) < 0) {
        refuse(s, peer, to, scale->dry_run);
        return;
    }
    make_plan(s, s->roles, to, no_standby, &plan);
    if (scale->dry_run || sl_roles_equal(s->roles, to)) {
        s->pinned |= !scale->dry_run; // a user wants it
        answer_at_once(s, peer, &plan, scale->dry_run);
        return;
    }
    if (sl_split_change_to(s, to, SL_BY_USER, peer) < 0) {
        refuse(s, peer, to, false);
        return;
    }
    emit_plan(s, &plan); // so the client knows that it is accepted
    sl_split_poll(s);
}

void sl_split_end(struct sl_role_split *s)
{
    s->stage = SL_SPLIT_ENDS;
    if (s->change.active)
        finish(s, false, "the job ended before the new split held");
}

// --- the schedule --------------------------------------------------------------------------------

static void follow_schedule(struct sl_role_split *s)
{
    const struct sl_config *config = s->config;
    uint32_t epoch;
    uint64_t batch;
    if (s->next_schedule == config->n_schedule || s->change.active)
        return;
    sl_phases_trains(s->phases, &epoch, &batch);
    const struct sl_schedule_config *entry = &config->schedule[s->next_schedule];
    if (epoch < entry->epoch || (epoch == entry->epoch && batch < entry->batch))
        return;
    s->next_schedule++;
    struct sl_roles to = {.samplers = entry->samplers, .trainers = entry->trainers};
    if (to.samplers == s->roles.samplers && to.trainers == s->roles.trainers) {
        s->pinned = true;
        return;
    }
    if (sl_split_change_to(s, to, SL_BY_SCHEDULE, NULL) == SL_OK) {
        s->change.epoch = entry->epoch;
        s->change.holds_epoch = entry->batch == 0;
        return;
    }
    sl_joblog_write(s->log, SL_LOG_WARN, "schedule of epoch %u: %s", entry->epoch + 1,
                    sl_error_message());
    report(s, SL_BY_SCHEDULE, epoch, s->roles, to, 0, false, sl_error_message());
    sl_timeline_emit(s->timeline, event_kind(SL_BY_SCHEDULE), false,
                     "schedule of epoch %u refused: %s", entry->epoch + 1, sl_error_message());
}

bool sl_split_may_begin(const struct sl_role_split *s, uint32_t epoch)
{
    const struct sl_split_change *r = &s->change;
    const struct sl_schedule_config *next = &s->config->schedule[s->next_schedule];
    if (r->active && r->holds_epoch && r->epoch == epoch)
        return false;
    return s->next_schedule == s->config->n_schedule || next->epoch != epoch || next->batch != 0;
}

void sl_split_poll(struct sl_role_split *s)
{
    struct sl_split_change *r = &s->change;
    char text[256], split[SL_SPLIT_TEXT_BYTES];
    uint32_t next = s->next_schedule;
    follow_schedule(s);
    if (s->next_schedule != next)
        s->events.on_holds(s->ctx); // of an epoch whose entry changes nothing
    sl_split_assign(s);
    if (!r->active)
        return;
    if (sl_split_is_assigned(s)) {
        snprintf(text, sizeof text, "%s work now, after %.2f s", split_text(s->roles, split),
                 seconds_since(r->began_ns));
        finish(s, true, text);
        s->events.on_holds(s->ctx);
    } else if (seconds_since(r->began_ns) > SL_WORKER_START_SECONDS) {
        snprintf(text, sizeof text,
                 "the new split did not hold within %d s: see the job's log directory",
                 SL_WORKER_START_SECONDS);
        roll_back(s, text);
    } else if (sl_split_waiting_text(s, text, sizeof text) && strcmp(text, r->told) != 0) {
        snprintf(r->told, sizeof r->told, "%s", text);
        emit_progress(s, text, NULL);
    }
}
