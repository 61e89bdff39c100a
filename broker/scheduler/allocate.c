#include "broker/scheduler/allocate.h"

#include <math.h>
#include <stdio.h>

#include "common/text/units.h"
#include "common/base/bits.h"

static bool same(struct sl_roles a, struct sl_roles b)
{
    return a.samplers == b.samplers && a.trainers == b.trainers;
}

static double ratio_of(const struct sl_profile *p)
{
    return p->t_sample > 0 ? p->t_train / p->t_sample : INFINITY;
}

static struct sl_roles formula(const struct sl_allocation_question *q)
{
    double k = ratio_of(&q->profile);
    uint32_t most = q->n_devices > 1 ? q->n_devices - 1 : 1;
    double samplers = isfinite(k) ? ceil((double)q->n_devices / (k + 1)) : 1;
    uint32_t n = samplers < 1 ? 1 : samplers > most ? most : (uint32_t)samplers;
    if (q->n_devices - n >= q->at_once) {
        // More trainers could only wait for these, which fewer samplers may feed.
        double feed = isfinite(k) ? ceil(q->at_once / k) : 1;
        n = feed < 1 ? 1 : feed > n ? n : (uint32_t)feed;
    }
    return (struct sl_roles){.samplers = n, .trainers = SL_MIN(q->n_devices - n, q->at_once)};
}

// The larger role gives way: the smaller one is who the others wait for.
static struct sl_roles within_memory(const struct sl_allocation_question *q, struct sl_roles split)
{
    while (q->batches_held && sl_placement_batches(split) > q->batches_held &&
           split.samplers + split.trainers > 2)
        *(split.trainers >= split.samplers ? &split.trainers : &split.samplers) -= 1;
    return split;
}

struct sl_roles sl_allocate_formula(const struct sl_allocation_question *q)
{
    if (q->shape.n_cores)
        return sl_core_layout_best(&q->shape).split;
    return within_memory(q, formula(q));
}

static const char *brief_seconds(double seconds, char buf[32])
{
    snprintf(buf, 32,
             seconds < 0.1   ? "%.2g"
             : seconds < 10  ? "%.2f"
             : seconds < 100 ? "%.1f"
                             : "%.0f",
             seconds);
    return buf;
}

char *sl_allocate_brief_text(const struct sl_allocation_question *q, const struct sl_allocation *a,
                             char buf[SL_ALLOCATION_BRIEF_BYTES])
{
    char then[32], now[32];
    const double seconds = same(a->split, q->now) ? a->seconds_now : a->seconds_formula;
    const struct sl_roles *split = &a->split;
    int n = snprintf(buf, SL_ALLOCATION_BRIEF_BYTES, "%s + %s",
                     SL_PLURAL(split->samplers, "sampler"), SL_PLURAL(split->trainers, "trainer"));
    const size_t at = n > 0 ? (size_t)n : 0;
    if (!(seconds > 0 && isfinite(seconds)))
        return buf;
    n = snprintf(buf + at, SL_ALLOCATION_BRIEF_BYTES - at, ": about %s s an epoch%s",
                 brief_seconds(seconds, then), q->quiet ? " on quiet cores" : "");
    if (n > 0 && a->moves && isfinite(a->seconds_now))
        snprintf(buf + at + (size_t)n, SL_ALLOCATION_BRIEF_BYTES - at - (size_t)n, " (was %s)",
                 brief_seconds(a->seconds_now, now));
    return buf;
}

char *sl_allocate_idle_text(const struct sl_allocation_question *q, struct sl_roles split,
                            char *buf, size_t bytes)
{
    uint32_t working = SL_MIN(split.trainers, q->at_once);
    uint32_t idle = q->n_devices - SL_MIN(q->n_devices, split.samplers + working);
    uint32_t wanted = working + idle;
    buf[0] = '\0';
    if (q->shape.n_cores) // the trainers have all cores
        return buf;
    // With fixed numbers more than fit, and where more could not work either, it is not the width.
    if (!q->ordered || idle == 0 || q->at_once > working || wanted <= q->at_once)
        return buf;
    snprintf(buf, bytes,
             "%u of %u devices have nothing to do: updates.batches_per_update %u instead of %u "
             "would use them",
             idle, q->n_devices, wanted, q->at_once);
    return buf;
}

// All is sampled in `sampled` seconds; trained at one rate meanwhile and at another one afterwards.
static double overlapped(double batches, double sampled, double rate, double both)
{
    double left = batches - SL_MIN(sampled * rate, batches);
    return sampled + (left > 0 ? left / both : 0);
}

double sl_allocate_epoch_seconds(const struct sl_allocation_question *q, struct sl_roles split)
{
    if (q->shape.n_cores)
        return sl_core_layout_of(&q->shape, split).epoch_seconds;
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
    return overlapped(batches, sampled, rate, both);
}

// Where an update has many rounds, the last one's idle trainers do not matter.
enum { ROUNDS_THAT_COUNT = 16 };

/*
 * Batches a second that so many trainers make together. Of an ordered update: the soonest moment at
 * which all of its batches can be done, each trainer one after the other.
 */
static double forecast_rate(const struct sl_allocation_question *q, uint32_t trainers,
                            uint32_t helpers)
{
    const struct sl_profile *p = &q->profile;
    double t_helper = p->t_standby > 0 ? p->t_standby : p->t_train;
    trainers = SL_MIN(trainers, q->at_once);
    helpers = SL_MIN(helpers, q->at_once - trainers);
    if (trainers > 0)
        t_helper = SL_MAX(t_helper, p->t_train);
    uint32_t hands = trainers + helpers;
    if (hands == 0 || !(t_helper > 0) || (trainers > 0 && !(p->t_train > 0)))
        return hands == 0 ? 0 : INFINITY;
    if (!q->ordered || q->at_once >= ROUNDS_THAT_COUNT * hands)
        return (trainers ? trainers / p->t_train : 0) + helpers / t_helper;
    double now = 0, next_trainer = trainers ? p->t_train : INFINITY,
           next_helper = helpers ? t_helper : INFINITY;
    for (uint32_t done = 0; done < q->at_once;) {
        if (next_trainer <= next_helper) {
            now = next_trainer;
            next_trainer += p->t_train;
            done += trainers;
        } else {
            now = next_helper;
            next_helper += t_helper;
            done += helpers;
        }
    }
    return q->at_once / now;
}

double sl_allocate_forecast_seconds(const struct sl_allocation_question *q, struct sl_roles split)
{
    if (q->shape.n_cores)
        return sl_core_layout_of(&q->shape, split).epoch_seconds;
    double batches = (double)q->batches;
    double sampled = batches * q->profile.t_sample / split.samplers;
    double rate = forecast_rate(q, split.trainers, 0);
    if (!q->switching)
        return SL_MAX(sampled, rate > 0 ? batches / rate : INFINITY);
    return overlapped(batches, sampled, rate, forecast_rate(q, split.trainers, split.samplers));
}

void sl_allocate_expect(const struct sl_allocation_question *q, struct sl_roles to,
                        struct sl_expectation *out)
{
    *out = (struct sl_expectation){NAN, NAN, NAN, false, false};
    if (!(q->profile.t_sample > 0 && q->profile.t_train > 0))
        return;
    double now = sl_allocate_forecast_seconds(q, q->now);
    bool measured = q->measured_seconds > 0 && now > 0 && isfinite(now);
    double scale = measured ? q->measured_seconds / now : 1;
    out->seconds_now = now * scale + q->evaluate_seconds;
    out->seconds_then = sl_allocate_forecast_seconds(q, to) * scale + q->evaluate_seconds;
    out->gain_seconds = out->seconds_now - out->seconds_then;
    out->quiet = q->quiet && !measured;
    out->pays = out->gain_seconds * q->epochs_left > q->move_seconds;
}

// What was measured and what the formula makes of it.
static int describe(const struct sl_allocation_question *q, const struct sl_allocation *a,
                    char *out, size_t bytes)
{
    char buf[SL_CORE_LAYOUT_TEXT_BYTES];
    const struct sl_profile *p = &q->profile;
    if (q->shape.n_cores) {
        struct sl_core_layout shape = sl_core_layout_of(&q->shape, a->formula);
        return snprintf(out, bytes, "%s", sl_core_layout_text(&q->shape, &shape, buf));
    }
    bool all = a->formula.samplers + a->formula.trainers >= q->n_devices;
    char capped[64] = "";
    if (!same(a->formula, formula(q)))
        snprintf(capped, sizeof capped, ", as the arena has room for %llu mini-batches,",
                 (unsigned long long)q->batches_held);
    else if (!all)
        snprintf(capped, sizeof capped, ", of which %u can work at once,", q->at_once);
    return snprintf(out, bytes,
                    "a batch takes %.4g ms to sample and %.4g ms to train, K = %.3g; %s / "
                    "(K + 1) rounded up%s gives %s and %s",
                    p->t_sample * 1e3, p->t_train * 1e3, a->k, SL_PLURAL(q->n_devices, "device"),
                    capped, SL_PLURAL(a->formula.samplers, "sampler"),
                    SL_PLURAL(a->formula.trainers, "trainer"));
}

static void evaluate(const struct sl_allocation_question *q, struct sl_allocation *out)
{
    out->k = ratio_of(&q->profile);
    out->formula = sl_allocate_formula(q);
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
    if (n > 0 && (size_t)n < sizeof out->reason && !q->shape.n_cores)
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
        snprintf(rest, room, ", as now");
    } else if (q->epochs_left == 0) {
        snprintf(rest, room, "; %u and %u stay, no epoch is left", q->now.samplers,
                 q->now.trainers);
    } else if (!(gain > 0)) {
        snprintf(rest, room, "; %u and %u stay, since no epoch is expected to be shorter",
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
