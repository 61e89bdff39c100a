// What is told of phases while they are open, and of how they ended.
#include <stdio.h>

#include "broker/phases.h"
#include "common/base/bits.h"
#include "common/base/clock.h"

static uint64_t cells_done(struct sl_phases *p, const struct sl_open_phase *o)
{
    uint64_t cursor = atomic_load(&sl_ledger_phase(p->arena, o->seq)->done_cursor);
    return cursor >> 32 == o->seq ? (uint32_t)cursor : 0;
}

// Sums the loss of batches that have become done since the last look.
static double running_loss(struct sl_phases *p, const struct sl_open_phase *o, uint64_t done)
{
    if (p->seen_seq != o->seq) {
        p->seen_seq = o->seq;
        p->seen_cells = 0;
        p->seen_loss = p->seen_weight = 0;
    }
    for (; p->seen_cells < done; p->seen_cells++) {
        const struct sl_batch_entry *e = sl_ledger_entry(p->arena, o->seq, (uint32_t)p->seen_cells);
        p->seen_loss += e->loss;
        p->seen_weight += e->weight;
    }
    return p->seen_weight > 0 ? p->seen_loss / p->seen_weight : 0;
}

// Pre-sampling, ranking: what comes before the first epoch.
static void view_preparation(struct sl_phases *p, struct sl_phases_view *out)
{
    const struct sl_open_phase *o = p->n_open ? sl_phases_at(p, 0) : NULL;
    if (!o) {
        out->phase = "rank";
        return;
    }
    uint64_t n = sl_div_up(o->spec.n_items, o->spec.batch_size);
    out->phase = "presample";
    out->epoch = o->step.epoch;
    out->done = (o->step.epoch - p->setup.resume.epoch) * n + cells_done(p, o);
    out->total = sl_plan_presample_phases(&p->setup) * n;
}

// The phases of an evaluation are shown as one stage: adds those before `now`, counts all.
static void view_evaluation(const struct sl_phases *p, struct sl_plan_step now,
                            struct sl_phases_view *out)
{
    bool evaluates = sl_plan_evaluates(now), before = true;
    struct sl_plan_step s = evaluates ? sl_plan_after_epoch(&p->setup, now.epoch)
                                      : (struct sl_plan_step){now.purpose, now.epoch, 0};
    out->total = 0;
    for (; evaluates ? sl_plan_evaluates(s) : s.purpose == now.purpose;
         s = sl_plan_after(&p->setup, s)) {
        struct sl_phase_spec spec = sl_plan_spec(&p->setup, s);
        uint64_t n = sl_div_up(spec.n_items, spec.batch_size);
        before &= s.purpose != now.purpose || s.layer != now.layer;
        out->done += before ? n : 0;
        out->total += n;
    }
}

void sl_phases_view(struct sl_phases *p, struct sl_phases_view *out)
{
    uint32_t last = p->setup.config->epochs - 1;
    *out = (struct sl_phases_view){
        .phase = "train", .epoch = SL_MIN(p->trained, last), .seconds_left = -1};
    const struct sl_open_phase *o = sl_phases_at(p, 0);
    if (p->n_open == 0 || o->step.purpose == SL_PURPOSE_PRESAMPLE) {
        if (p->n_open || p->ranking.state == SL_RANKING_BUSY)
            view_preparation(p, out);
        return;
    }
    struct sl_plan_step step = o->step;
    out->epoch = step.epoch;
    out->done = cells_done(p, o);
    out->total = sl_div_up(o->spec.n_items, o->spec.batch_size);
    double within = out->total ? (double)out->done / (double)out->total : 0;
    if (step.purpose == SL_PURPOSE_TRAIN) {
        out->loss = running_loss(p, o, out->done);
        within *= p->train_share;
    } else {
        out->phase = step.purpose == SL_PURPOSE_TEST ? "test" : "evaluate";
        out->loss = p->epoch.loss;
        view_evaluation(p, step, out);
        within = p->train_share + (1 - p->train_share) * (double)out->done / (double)out->total;
    }
    if (step.purpose == SL_PURPOSE_TEST)
        return;
    const struct sl_resume_point *r = &p->setup.resume;
    uint64_t batches = sl_phases_batches(p->setup.config, p->setup.split[SL_SPLIT_TRAIN].n);
    // Of what this process has to do: a resumed job began with a part of it done.
    double begun = r->epoch + p->train_share * (double)r->n_records / (double)batches;
    double fraction = (step.epoch + within - begun) / (p->setup.config->epochs - begun);
    const struct sl_span since = {p->first_ns, sl_now_ns()};
    double elapsed = sl_pauses_seconds_without(&p->pauses, since);
    if (fraction > 0 && elapsed > 0.5)
        out->seconds_left = elapsed * (1 - fraction) / fraction;
}

bool sl_phases_trains(struct sl_phases *p, uint32_t *epoch, uint64_t *batches_done)
{
    const struct sl_open_phase *o = sl_phases_at(p, 0);
    bool trains = p->n_open > 0 && o->step.purpose == SL_PURPOSE_TRAIN;
    *epoch = trains ? o->step.epoch : p->stopped_early ? p->setup.config->epochs : p->trained;
    *batches_done = trains ? cells_done(p, o) : 0;
    return trains;
}

char *sl_phases_stop_reason(const struct sl_phases *p, char *buf, size_t bytes)
{
    double min_delta = p->setup.config->early_stopping.min_delta;
    char by[48] = "";
    if (min_delta > 0)
        snprintf(by, sizeof by, " by more than %g", min_delta);
    snprintf(buf, bytes, "%u evaluation%s without a better %s%s; the best is %.4f, of epoch %u",
             p->best.waited, p->best.waited == 1 ? "" : "s", sl_measure_name(p->measure), by,
             p->best.value, p->best.epoch + 1);
    return buf;
}

bool sl_phases_digest(const struct sl_phases *p, char hex[33])
{
    if (!p->digest_state || p->done == 0)
        return false;
    for (size_t i = 0; i < sizeof p->digest; i++)
        snprintf(hex + 2 * i, 3, "%02x", p->digest[i]);
    return true;
}
