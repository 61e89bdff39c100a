#include "broker/scheduler/core_layout.h"

#include <math.h>
#include <stdio.h>

#include "common/base/bits.h"
#include "common/text/units.h"

// Processes take memory and time to start: twice as many have to be worth this share of an epoch.
static const double WORTH_OF_TWICE = 0.03;

// The share of a stage that does not get faster with more cores: of a long one at most, and where
// nothing is known of it.
static const double SERIAL_SHARE = 0.4, SERIAL_GUESS = 0.1;

static double on_all(double one, double serial, uint32_t n_cores)
{
    return one * (serial + (1 - serial) / n_cores);
}

struct sl_stage_times sl_core_layout_learn(const struct sl_stage_times *before, double seconds,
                                           double shared, uint32_t n_cores)
{
    struct sl_stage_times t = {.one = seconds};
    if (!isnan(shared))
        t.all = on_all(t.one, fmax(1 - shared / t.one, 0), n_cores);
    else if (before->one > 0)
        t.all = t.one * before->all / before->one;
    else
        t.all = on_all(t.one, SERIAL_GUESS, n_cores);
    if (t.one >= SL_CORE_LAYOUT_LONG_SECONDS)
        t.all = fmin(t.all, on_all(t.one, SERIAL_SHARE, n_cores));
    return t;
}

double sl_core_layout_stage_seconds(const struct sl_stage_times *t, uint32_t n_cores, double cores)
{
    if (n_cores <= 1 || cores <= 1)
        return t->one;
    double b = fmax((t->one - t->all) / (1 - 1.0 / n_cores), 0);
    return fmax(t->one - b, 0) + b / cores;
}

// Batches a second of trainers with so many cores each.
static double train_rate(const struct sl_core_layout_question *q, uint32_t trainers, double cores)
{
    double seconds = sl_core_layout_stage_seconds(&q->train, q->n_cores, cores);
    uint32_t working = SL_MIN(trainers, q->at_once);
    double rounds =
        q->ordered ? (double)sl_div_up(q->at_once, working) : (double)q->at_once / working;
    return seconds > 0 ? q->at_once / (rounds * seconds) : INFINITY;
}

double sl_core_layout_epoch_seconds(const struct sl_core_layout_question *q,
                                    const struct sl_core_layout *shape)
{
    const struct sl_roles *split = &shape->split;
    uint32_t samples_on = shape->own ? shape->own : q->n_cores;
    uint32_t trains_on = q->n_cores - shape->own;
    // Where there are more workers than cores they take turns.
    double turns_s = fmax((double)split->samplers / samples_on, 1);
    double turns_t = fmax((double)SL_MIN(split->trainers, q->at_once) / trains_on, 1);
    double draw = sl_core_layout_stage_seconds(&q->sample, q->n_cores,
                                               SL_MAX(samples_on / split->samplers, 1u));
    double sampled = (double)q->batches * draw * turns_s / split->samplers;
    double trained = (double)q->batches * turns_t /
                     train_rate(q, split->trainers, SL_MAX(trains_on / split->trainers, 1u));
    return shape->own ? fmax(sampled, trained) : sampled + trained;
}

static void consider(const struct sl_core_layout_question *q, struct sl_core_layout shape,
                     struct sl_core_layout *best, double *least)
{
    shape.epoch_seconds = sl_core_layout_epoch_seconds(q, &shape);
    double processes = shape.split.samplers + shape.split.trainers;
    double cost = shape.epoch_seconds * (1 + WORTH_OF_TWICE * log2(processes / 2));
    if (cost >= *least)
        return;
    *least = cost;
    *best = shape;
}

struct sl_core_layout sl_core_layout_best(const struct sl_core_layout_question *q)
{
    struct sl_core_layout best = {.split = q->least};
    double least = INFINITY;
    if (!(q->sample.one > 0 && q->train.one > 0))
        return best;
    for (uint32_t s = q->least.samplers; s <= q->most.samplers; s++)
        for (uint32_t t = q->least.trainers; t <= q->most.trainers; t++) {
            if (q->batches_held && sl_placement_batches((struct sl_roles){s, t}) > q->batches_held)
                break;
            if (q->places && s + t > q->places)
                break;
            consider(q, (struct sl_core_layout){.split = {s, t}}, &best, &least);
            for (uint32_t own = 1; own < q->n_cores; own++)
                consider(q, (struct sl_core_layout){.split = {s, t}, .own = own}, &best, &least);
        }
    return best;
}

struct sl_core_layout sl_core_layout_of(const struct sl_core_layout_question *q,
                                        struct sl_roles split)
{
    struct sl_core_layout_question one = *q;
    one.least = one.most = split;
    one.batches_held = one.places = 0;
    return sl_core_layout_best(&one);
}

// Part i of m of a range; one core each where there are fewer cores than parts.
static struct sl_core_range part(struct sl_core_range all, uint32_t i, uint32_t m)
{
    if (m > all.n)
        return (struct sl_core_range){all.first + i % all.n, 1};
    uint32_t begin = (uint32_t)((uint64_t)all.n * i / m);
    uint32_t end = (uint32_t)((uint64_t)all.n * (i + 1) / m);
    return (struct sl_core_range){all.first + begin, end - begin};
}

struct sl_core_range sl_core_layout_cores(const struct sl_core_layout *shape, uint32_t n_cores,
                                          enum sl_role role, uint32_t index)
{
    if (role == SL_ROLE_TRAINER)
        return part((struct sl_core_range){shape->own, n_cores - shape->own}, index,
                    SL_MAX(shape->split.trainers, 1u));
    return part((struct sl_core_range){0, shape->own ? shape->own : n_cores}, index,
                SL_MAX(shape->split.samplers, 1u));
}

char *sl_core_layout_text(const struct sl_core_layout_question *q,
                          const struct sl_core_layout *shape, char buf[SL_CORE_LAYOUT_TEXT_BYTES])
{
    const struct sl_roles *split = &shape->split;
    char samplers[64] = "the same", width[96] = "";
    if (shape->own)
        snprintf(samplers, sizeof samplers, "%s of %s own", SL_PLURAL(shape->own, "core"),
                 split->samplers == 1 ? "its" : "their");
    if (q->ordered && q->at_once < q->n_cores)
        snprintf(width, sizeof width, ", %s at once by updates.batches_per_update",
                 SL_PLURAL(q->at_once, "trainer"));
    if (!(q->sample.one > 0 && q->train.one > 0))
        snprintf(buf, SL_CORE_LAYOUT_TEXT_BYTES,
                 "all on %s until the first batches have been measured",
                 SL_PLURAL(q->n_cores, "core"));
    else
        snprintf(buf, SL_CORE_LAYOUT_TEXT_BYTES,
                 "a batch takes %.4g ms to sample and %.4g ms to train on one core, %.4g and %.4g "
                 "ms on %u%s: %s on %s, %s on %s, is the fastest "
                 "layout, %.3g s an epoch",
                 q->sample.one * 1e3, q->train.one * 1e3, q->sample.all * 1e3, q->train.all * 1e3,
                 q->n_cores, width, SL_PLURAL(split->trainers, "trainer"),
                 SL_PLURAL(q->n_cores - shape->own, "core"), SL_PLURAL(split->samplers, "sampler"),
                 samplers, shape->epoch_seconds);
    return buf;
}
