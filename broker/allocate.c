#include "broker/allocate.h"

#include <math.h>
#include <stdio.h>

#include "common/base/bits.h"

static bool same(struct sl_roles a, struct sl_roles b)
{
    return a.samplers == b.samplers && a.trainers == b.trainers;
}

static double ratio_of(const struct sl_profile *p)
{
    return p->t_sample > 0 ? p->t_train / p->t_sample : INFINITY;
}

struct sl_roles sl_allocate_formula(const struct sl_profile *profile, uint32_t n_devices)
{
    double k = ratio_of(profile);
    double samplers = isfinite(k) ? ceil((double)n_devices / (k + 1)) : 1;
    uint32_t most = n_devices > 1 ? n_devices - 1 : 1;
    uint32_t n = samplers < 1 ? 1 : samplers > most ? most : (uint32_t)samplers;
    return (struct sl_roles){.samplers = n, .trainers = n_devices - n};
}

double sl_allocate_epoch_seconds(const struct sl_allocation_question *q, struct sl_roles split)
{
    const struct sl_profile *p = &q->profile;
    double batches = (double)q->batches;
    double sampled = batches * p->t_sample / split.samplers;
    double trainers = SL_MIN(split.trainers, q->at_once);
    double rate = p->t_train > 0 ? trainers / p->t_train : INFINITY;
    if (!q->switching)
        return SL_MAX(sampled, rate > 0 ? batches / rate : INFINITY);
    double t_standby = p->t_standby > 0 ? p->t_standby : p->t_train;
    double helpers = SL_MIN(split.samplers, q->at_once - (uint32_t)trainers);
    double both = rate + (t_standby > 0 ? helpers / t_standby : INFINITY);
    double left = batches - SL_MIN(sampled * rate, batches);
    return sampled + (left > 0 ? left / both : 0);
}

// What was measured and what the formula makes of it.
static int describe(const struct sl_allocation_question *q, const struct sl_allocation *a,
                    char *out, size_t bytes)
{
    const struct sl_profile *p = &q->profile;
    return snprintf(out, bytes,
                    "a batch takes %.4g ms to sample and %.4g ms to train, K = %.3g; %u device%s / "
                    "(K + 1) rounded up gives %u sampler%s and %u trainer%s",
                    p->t_sample * 1e3, p->t_train * 1e3, a->k, q->n_devices,
                    q->n_devices == 1 ? "" : "s", a->formula.samplers,
                    a->formula.samplers == 1 ? "" : "s", a->formula.trainers,
                    a->formula.trainers == 1 ? "" : "s");
}

static void evaluate(const struct sl_allocation_question *q, struct sl_allocation *out)
{
    out->k = ratio_of(&q->profile);
    out->formula = sl_allocate_formula(&q->profile, q->n_devices);
    out->seconds_now = sl_allocate_epoch_seconds(q, q->now);
    out->seconds_formula = sl_allocate_epoch_seconds(q, out->formula);
    out->gain_seconds = (out->seconds_now - out->seconds_formula) * q->epochs_left;
    out->split = q->now;
    out->moves = false;
}

void sl_allocate_explain(const struct sl_allocation_question *q, struct sl_allocation *out)
{
    evaluate(q, out);
    describe(q, out, out->reason, sizeof out->reason);
}

void sl_allocate_first(const struct sl_allocation_question *q, struct sl_allocation *out)
{
    evaluate(q, out);
    out->split = out->formula;
    out->moves = !same(out->split, q->now);
    int n = describe(q, out, out->reason, sizeof out->reason);
    if (n > 0 && (size_t)n < sizeof out->reason)
        snprintf(out->reason + n, sizeof out->reason - (size_t)n, "%s (measured on a probe batch)",
                 out->formula.trainers == 0 ? ", so its standby trainer trains" : "");
}

void sl_allocate_again(const struct sl_allocation_question *q, struct sl_allocation *out)
{
    evaluate(q, out);
    int n = describe(q, out, out->reason, sizeof out->reason);
    char *rest = out->reason + n;
    if (n < 0 || (size_t)n >= sizeof out->reason)
        return;
    size_t room = sizeof out->reason - (size_t)n;
    double gain = out->seconds_now - out->seconds_formula;
    if (same(out->formula, q->now)) {
        snprintf(rest, room, ", which is what there is");
    } else if (q->epochs_left == 0) {
        snprintf(rest, room, "; %u and %u stay, no epoch is left", q->now.samplers,
                 q->now.trainers);
    } else if (!(gain > 0)) {
        snprintf(rest, room, "; %u and %u stay, since no epoch is expected to be sooner over",
                 q->now.samplers, q->now.trainers);
    } else if (!(gain > SL_ALLOCATE_GAIN_MIN * out->seconds_now)) {
        snprintf(rest, room,
                 "; %u and %u stay, since an epoch is expected to take %.3g s instead of %.3g s, "
                 "less than %.0f %% sooner",
                 q->now.samplers, q->now.trainers, out->seconds_formula, out->seconds_now,
                 100 * SL_ALLOCATE_GAIN_MIN);
    } else if (!(out->gain_seconds > q->move_seconds)) {
        snprintf(rest, room,
                 "; %u and %u stay, since the %.3g s gained in %u epochs are less than the %.3g s "
                 "that the move costs",
                 q->now.samplers, q->now.trainers, out->gain_seconds, q->epochs_left,
                 q->move_seconds);
    } else {
        out->split = out->formula;
        out->moves = true;
        snprintf(rest, room,
                 " instead of %u and %u: an epoch is expected to take %.3g s instead of %.3g s, "
                 "and the move costs %.3g s once",
                 q->now.samplers, q->now.trainers, out->seconds_formula, out->seconds_now,
                 q->move_seconds);
    }
}
