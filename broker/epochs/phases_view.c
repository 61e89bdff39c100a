// Phases that are open, and how they ended: what status messages say about them.
#include <math.h>
#include <stdio.h>

#include "broker/epochs/phases.h"
#include "common/text/units.h"
#include "common/base/bits.h"
#include "common/base/clock.h"

static uint64_t cells_done(const struct sl_phases *p, const struct sl_open_phase *o)
{
    uint64_t cursor = atomic_load(&sl_ledger_phase(p->arena, o->seq)->done_cursor);
    return cursor >> 32 == o->seq ? (uint32_t)cursor : 0;
}

// Sums the loss of batches that have become done since the last look.
static double running_loss(const struct sl_phases *p, const struct sl_open_phase *o, uint64_t done,
                           struct sl_loss_sum *sum)
{
    if (sum->seq != o->seq)
        *sum = (struct sl_loss_sum){.seq = o->seq};
    for (; sum->cells < done; sum->cells++) {
        const struct sl_batch_entry *e = sl_ledger_entry(p->arena, o->seq, (uint32_t)sum->cells);
        sum->loss += e->loss;
        sum->weight += e->weight;
    }
    return sum->weight > 0 ? sum->loss / sum->weight : 0;
}

// Pre-sampling, ranking: what comes before the first epoch.
static void view_preparation(const struct sl_phases *p, struct sl_phases_view *out)
{
    const struct sl_open_phase *o = p->n_open ? sl_phases_at(p, 0) : NULL;
    if (!o) {
        out->phase = "rank";
        return;
    }
    uint64_t n = sl_div_up(o->spec.n_items, o->spec.batch_size);
    out->phase = "presample";
    out->epoch = o->step.epoch;
    out->done = (o->step.epoch - p->setup.plan.resume.epoch) * n + cells_done(p, o);
    out->total = sl_plan_presample_phases(&p->setup.plan) * n;
}

// The phases of an evaluation, which are shown as one stage.
struct stage {
    uint64_t done, total; // cells
    double items_done, items;
};

// From `first` on; `now` of it is open.
static struct stage look_at_stage(const struct sl_phases *p, struct sl_plan_step first,
                                  const struct sl_open_phase *now)
{
    struct stage out = {0};
    bool of_epoch = sl_plan_evaluates(first), before = now != NULL;
    for (struct sl_plan_step s = first;
         of_epoch ? sl_plan_evaluates(s) : s.purpose == SL_PURPOSE_TEST;
         s = sl_plan_after(&p->setup.plan, s)) {
        const struct sl_phase_spec spec = sl_plan_spec(&p->setup.plan, s);
        uint64_t n = sl_div_up(spec.n_items, spec.batch_size);
        bool open = now && s.purpose == now->step.purpose && s.layer == now->step.layer;
        uint64_t done = open ? cells_done(p, now) : before ? n : 0;
        before &= !open;
        out.done += done;
        out.total += n;
        out.items_done += (double)SL_MIN(done * spec.batch_size, spec.n_items);
        out.items += (double)spec.n_items;
    }
    return out;
}

// Of the test that is to come, by what the last evaluation took; 0 while that is not known.
static double forecast_test(const struct sl_phases *p)
{
    uint32_t last = p->setup.plan.config->epochs - 1;
    const struct stage evaluation =
        look_at_stage(p, sl_plan_after_epoch(&p->setup.plan, last), NULL);
    const struct stage test = look_at_stage(p, sl_plan_after_training(&p->setup.plan, last), NULL);
    return evaluation.items > 0 ? p->evaluate_seconds * test.items / evaluation.items : 0;
}

// `o` is a phase of the test.
static void view_test(const struct sl_phases *p, const struct sl_open_phase *o,
                      struct sl_phases_view *out)
{
    const struct sl_plan_step first = {SL_PURPOSE_TEST, o->step.epoch, 0};
    const struct stage test = look_at_stage(p, first, o);
    const struct sl_span since = {o->began_ns, sl_now_ns()};
    double elapsed = p->test_seconds + sl_pauses_seconds_without(p->setup.pauses, since);
    out->phase = "test";
    out->loss = p->epoch.loss;
    out->done = test.done;
    out->total = test.total;
    if (test.items_done > 0)
        out->seconds_left = elapsed * (test.items - test.items_done) / test.items_done;
    else if (p->evaluate_seconds > 0)
        out->seconds_left = forecast_test(p);
}

// `o` is a phase of an epoch, of which the share *within is behind us.
static void view_epoch(const struct sl_phases *p, const struct sl_open_phase *o,
                       struct sl_loss_sum *sum, struct sl_phases_view *out, double *within)
{
    if (o->step.purpose == SL_PURPOSE_TRAIN) {
        out->done = cells_done(p, o);
        out->total = sl_div_up(o->spec.n_items, o->spec.batch_size);
        out->loss = o->spec.kind == SL_PHASE_LEND ? NAN : running_loss(p, o, out->done, sum);
        *within = p->train_share * (double)out->done / (double)out->total;
        return;
    }
    struct stage evaluation =
        look_at_stage(p, sl_plan_after_epoch(&p->setup.plan, o->step.epoch), o);
    out->phase = "evaluate";
    out->loss = p->epoch.loss;
    out->done = evaluation.done;
    out->total = evaluation.total;
    *within = p->train_share + (1 - p->train_share) * evaluation.items_done / evaluation.items;
}

/*
 * Of an evaluation, `o`, and the epoch that is trained beside it the latter, while it lasts. *at:
 * how many epochs are behind us.
 */
static void view_epochs(const struct sl_phases *p, const struct sl_open_phase *o,
                        struct sl_loss_sum *sum, struct sl_phases_view *out, double *at)
{
    const struct sl_open_phase *front = sl_phases_front(p);
    bool beside = front && front != o;
    bool trained = beside && sl_ledger_phase_complete(p->arena, front->seq);
    double within;
    if (beside && !trained)
        o = front;
    out->epoch = o->step.epoch;
    view_epoch(p, o, sum, out, &within);
    *at = trained ? front->step.epoch + p->train_share : o->step.epoch + within;
}

void sl_phases_view(const struct sl_phases *p, struct sl_loss_sum *sum, struct sl_phases_view *out)
{
    uint32_t last = p->setup.plan.config->epochs - 1;
    *out = (struct sl_phases_view){.phase = "train",
                                   .epoch = SL_MIN(p->trained, last),
                                   .loss = sl_config_is_external(p->setup.plan.config) ? NAN : 0,
                                   .seconds_left = -1};
    const struct sl_open_phase *o = sl_phases_at(p, 0);
    if (p->n_open == 0 || o->step.purpose == SL_PURPOSE_PRESAMPLE) {
        if (p->n_open || p->ranking.state == SL_RANKING_BUSY)
            view_preparation(p, out);
        return;
    }
    out->epoch = o->step.epoch;
    if (o->step.purpose == SL_PURPOSE_TEST) {
        view_test(p, o, out);
        return;
    }
    double at;
    view_epochs(p, o, sum, out, &at);
    const struct sl_resume_point *r = &p->setup.plan.resume;
    uint64_t batches =
        sl_phases_batches(p->setup.plan.config, p->setup.plan.split[SL_SPLIT_TRAIN].n);
    // Of what this process has to do: a resumed job began with a part of it done.
    double begun = r->epoch + p->train_share * (double)r->n_records / (double)batches;
    double fraction = (at - begun) / (p->setup.plan.config->epochs - begun);
    const struct sl_span since = {p->first_ns, sl_now_ns()};
    double elapsed = sl_pauses_seconds_without(p->setup.pauses, since);
    if (fraction > 0 && elapsed > 0.5 && !sl_config_is_endless(p->setup.plan.config))
        out->seconds_left = elapsed * (1 - fraction) / fraction + forecast_test(p);
}

bool sl_phases_trains(const struct sl_phases *p, uint32_t *epoch, uint64_t *batches_done)
{
    const struct sl_open_phase *o = sl_phases_front(p);
    bool trains = o && o->step.purpose == SL_PURPOSE_TRAIN;
    *epoch = trains ? o->step.epoch : p->stopped_early ? p->setup.plan.config->epochs : p->trained;
    *batches_done = trains ? cells_done(p, o) : 0;
    return trains;
}

char *sl_phases_stop_reason(const struct sl_phases *p, char *buf, size_t bytes)
{
    double min_delta = p->setup.plan.config->early_stopping.min_delta;
    char by[48] = "", title[SL_MEASURE_TITLE];
    const double target = p->setup.plan.config->early_stopping.target;
    if (sl_early_stopping_has_reached(&p->best, target)) {
        snprintf(buf, bytes, "%s %.4f of epoch %u has reached early_stopping.target, %g",
                 sl_measure_title(p->measure, p->setup.plan.config->evaluate.k, title),
                 p->best.value, p->best.epoch + 1, target);
        return buf;
    }
    if (min_delta > 0)
        snprintf(by, sizeof by, " by more than %g", min_delta);
    snprintf(buf, bytes, "%s without a better %s%s; the best is %.4f, of epoch %u",
             SL_PLURAL(p->best.waited, "evaluation"),
             sl_measure_title(p->measure, p->setup.plan.config->evaluate.k, title), by,
             p->best.value, p->best.epoch + 1);
    return buf;
}

bool sl_phases_held_by(const struct sl_arena *a, uint32_t worker, char *out, size_t bytes)
{
    uint64_t opened = sl_ledger_opened(a);
    for (uint64_t seq = sl_ledger_oldest(a); seq <= opened; seq++) {
        const struct sl_phase *phase = sl_ledger_phase(a, seq);
        uint32_t n = atomic_load(&phase->n_cells);
        for (uint32_t i = 0; i < n; i++) {
            uint64_t word = sl_ledger_word(a, seq, i);
            if (sl_cell_owner(word) != worker || !sl_cell_is_leased(word))
                continue;
            const char *what = phase->spec.kind == SL_PHASE_EVAL    ? "evaluation batch"
                               : phase->spec.kind == SL_PHASE_INFER ? "inference chunk"
                                                                    : "batch";
            snprintf(out, bytes, "%s %u of epoch %u", what, i, phase->spec.epoch + 1);
            return true;
        }
    }
    return false;
}

bool sl_phases_digest(const struct sl_phases *p, char hex[33])
{
    if (!p->digest_state || p->done == 0)
        return false;
    for (size_t i = 0; i < sizeof p->digest; i++)
        snprintf(hex + 2 * i, 3, "%02x", p->digest[i]);
    return true;
}
