// Shapes of a pool of cores: the stages' times, the choice against all others and against a
// pipeline that is played event by event, and the cores of each worker.
#include "broker/scheduler/core_layout.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "tests/unit/suite.h"

static struct sl_core_layout_question question(uint32_t cores, double sample, double train)
{
    return (struct sl_core_layout_question){
        .sample = {sample, sample / cores},
        .train = {train, train / cores},
        .n_cores = cores,
        .at_once = 1,
        .ordered = true,
        .batches = 1000,
        .least = {1, 1},
        .most = {cores, 1},
    };
}

TEST(stage_times_between_one_core_and_all)
{
    struct sl_stage_times even = {0.8, 0.1}, half = {0.8, 0.45}, none = {0.8, 0.9};
    ck_assert_double_eq_tol(sl_core_layout_stage_seconds(&even, 8, 4), 0.2, 1e-12);
    ck_assert_double_eq_tol(sl_core_layout_stage_seconds(&half, 8, 1), 0.8, 1e-12);
    ck_assert_double_eq_tol(sl_core_layout_stage_seconds(&half, 8, 8), 0.45, 1e-12);
    ck_assert_double_eq_tol(sl_core_layout_stage_seconds(&half, 8, 2), 0.4 + 0.4 / 2, 1e-12);
    ck_assert_double_eq_tol(sl_core_layout_stage_seconds(&none, 8, 8), 0.8, 1e-12);
    ck_assert_double_eq_tol(sl_core_layout_stage_seconds(&half, 1, 1), 0.8, 1e-12);
}

TEST(what_batches_took_says_what_they_take_on_any_number_of_cores)
{
    const struct sl_stage_times unknown = {0, 0}, before = {0.4, 0.1};
    struct sl_stage_times t = sl_core_layout_learn(&unknown, 0.2, 0.2, 8);
    ck_assert_double_eq_tol(t.one, 0.2, 1e-12);
    ck_assert_double_eq_tol(t.all, 0.025, 1e-12);
    t = sl_core_layout_learn(&before, 0.002, 0.001, 4); // what was known before does not matter
    ck_assert_double_eq_tol(t.one, 0.002, 1e-12);
    ck_assert_double_eq_tol(t.all, 0.001 + 0.001 / 4, 1e-12);
    t = sl_core_layout_learn(&unknown, 0.002, 0.003,
                             2); // helpers had more to do than whom they helped
    ck_assert_double_eq_tol(t.all, 0.001, 1e-12);
    // A long stage that seems to gain nothing was disturbed, a short one may really be so.
    t = sl_core_layout_learn(&unknown, 0.2, 0, 2);
    ck_assert_double_eq_tol(t.all, 0.14, 1e-12);
    t = sl_core_layout_learn(&unknown, 0.001, 0, 2);
    ck_assert_double_eq_tol(t.all, 0.001, 1e-12);
    // Of one thread: as before, then nine tenths.
    t = sl_core_layout_learn(&before, 0.1, NAN, 8);
    ck_assert_double_eq_tol(t.all, 0.025, 1e-12);
    t = sl_core_layout_learn(&unknown, 0.1, NAN, 2);
    ck_assert_double_eq_tol(t.all, 0.055, 1e-12);
}

// Two cores and K = 9: whoever gives a core to sampling alone wastes most of it.
TEST(two_cores_are_shared)
{
    struct sl_core_layout_question q = question(2, 0.010, 0.090);
    struct sl_core_layout shape = sl_core_layout_best(&q);
    ck_assert_uint_eq(shape.own, 0);
    ck_assert_uint_eq(shape.split.trainers, 1);
    ck_assert_double_eq_tol(shape.epoch_seconds, 50, 1e-9);
    ck_assert_double_eq_tol(
        sl_core_layout_epoch_seconds(&q, &(struct sl_core_layout){.split = {1, 1}, .own = 1}), 90,
        1e-9);
    // As much sampling as training, and neither is twice as fast on two cores: one each.
    q = question(2, 0.050, 0.050);
    q.sample.all = q.train.all = 0.030;
    ck_assert_uint_eq(sl_core_layout_best(&q).own, 1);
}

TEST(one_core)
{
    struct sl_core_layout_question q = question(1, 0.010, 0.090);
    struct sl_core_layout shape = sl_core_layout_best(&q);
    ck_assert_uint_eq(shape.own, 0);
    ck_assert_uint_eq(shape.split.samplers, 1);
    ck_assert_uint_eq(shape.split.trainers, 1);
    ck_assert_double_eq_tol(shape.epoch_seconds, 100, 1e-9);
}

TEST(no_more_trainers_than_an_update_has_batches)
{
    struct sl_core_layout_question q = question(8, 0.001, 0.090);
    q.train.all = 0.040; // 8 threads of one trainer gain little: several trainers are worth more
    q.at_once = 3;
    q.most.trainers = 8;
    struct sl_core_layout shape = sl_core_layout_best(&q);
    ck_assert_uint_eq(shape.split.trainers, 3);
    q.at_once = 1;
    ck_assert_uint_eq(sl_core_layout_best(&q).split.trainers, 1);
}

TEST(no_more_workers_than_the_arena_holds_batches_of)
{
    struct sl_core_layout_question q = question(8, 0.001, 0.090);
    q.train.all = 0.040;
    q.at_once = q.most.trainers = 8;
    const struct sl_roles free = sl_core_layout_best(&q).split;
    ck_assert_uint_gt(free.trainers, 2);
    q.batches_held = 7;
    ck_assert_uint_eq(sl_core_layout_best(&q).split.trainers, 2);
    ck_assert_uint_le(sl_placement_batches(sl_core_layout_best(&q).split), 7);
    // What somebody asks about is answered.
    ck_assert_uint_eq(sl_core_layout_of(&q, free).split.trainers, free.trainers);
    q.batches_held = sl_placement_batches(free);
    ck_assert_uint_eq(sl_core_layout_best(&q).split.trainers, free.trainers);
}

TEST(no_more_workers_than_there_are_places)
{
    struct sl_core_layout_question q = question(8, 0.020, 0.090);
    q.at_once = q.most.trainers = 8;
    q.train.all = 0.040;
    struct sl_roles free = sl_core_layout_best(&q).split;
    ck_assert_uint_gt(free.samplers + free.trainers, 5);
    q.places = 5;
    ck_assert_uint_le(
        sl_core_layout_best(&q).split.samplers + sl_core_layout_best(&q).split.trainers, 5);
    ck_assert_uint_eq(sl_core_layout_of(&q, free).split.trainers,
                      free.trainers); // which is answered
}

TEST(a_given_number_is_kept)
{
    struct sl_core_layout_question q = question(4, 0.010, 0.050);
    q.at_once = 8;
    q.least = (struct sl_roles){3, 1};
    q.most = (struct sl_roles){3, 4};
    ck_assert_uint_eq(sl_core_layout_best(&q).split.samplers, 3);
    ck_assert_uint_eq(sl_core_layout_of(&q, (struct sl_roles){2, 2}).split.samplers, 2);
    ck_assert_uint_eq(sl_core_layout_of(&q, (struct sl_roles){2, 2}).split.trainers, 2);
}

TEST(nothing_measured_is_one_of_each_on_all_cores)
{
    struct sl_core_layout_question q = question(4, 0, 0);
    struct sl_core_layout shape = sl_core_layout_best(&q);
    char text[SL_CORE_LAYOUT_TEXT_BYTES];
    ck_assert_uint_eq(shape.split.samplers, 1);
    ck_assert_uint_eq(shape.split.trainers, 1);
    ck_assert_uint_eq(shape.own, 0);
    ck_assert_msg(strstr(sl_core_layout_text(&q, &shape, text), "4 cores"), "%s", text);
}

TEST(text_says_what_and_why)
{
    char text[SL_CORE_LAYOUT_TEXT_BYTES];
    struct sl_core_layout_question q = question(8, 0.010, 0.090);
    struct sl_core_layout shape = {.split = {2, 1}, .own = 2, .epoch_seconds = 15};
    sl_core_layout_text(&q, &shape, text);
    ck_assert_msg(strstr(text, "10 ms to sample and 90 ms to train on one core") &&
                      strstr(text, "1 trainer on 6 cores, 2 samplers on 2 cores of their own") &&
                      strstr(text, "1 trainer at once by updates.batches_per_update"),
                  "%s", text);
    shape = (struct sl_core_layout){.split = {1, 1}};
    sl_core_layout_text(&q, &shape, text);
    ck_assert_msg(strstr(text, "1 trainer on 8 cores, 1 sampler on the same"), "%s", text);
}

// --- cores ---------------------------------------------------------------------------------------

// Every core has somebody, trainers share none with one another, samplers none where there are
// enough.
static void check_cores(uint32_t n, struct sl_core_layout shape)
{
    uint32_t trains[64] = {0}, samples[64] = {0};
    for (uint32_t i = 0; i < shape.split.trainers; i++) {
        struct sl_core_range r = sl_core_layout_cores(&shape, n, SL_ROLE_TRAINER, i);
        ck_assert_uint_ge(r.n, 1);
        ck_assert_uint_le(r.first + r.n, n);
        for (uint32_t c = r.first; c < r.first + r.n; c++)
            trains[c]++;
    }
    for (uint32_t i = 0; i < shape.split.samplers; i++) {
        struct sl_core_range r = sl_core_layout_cores(&shape, n, SL_ROLE_SAMPLER, i);
        ck_assert_uint_ge(r.n, 1);
        ck_assert_uint_le(r.first + r.n, n);
        for (uint32_t c = r.first; c < r.first + r.n; c++)
            samples[c]++;
    }
    for (uint32_t c = 0; c < n; c++) {
        ck_assert_msg(trains[c] + samples[c] > 0, "core %u of %u: nobody", c, n);
        if (shape.own && shape.own >= shape.split.samplers)
            ck_assert_uint_le(samples[c], 1);
        if (shape.own)
            ck_assert(!(trains[c] && samples[c]));
        if (shape.split.trainers <= n - shape.own)
            ck_assert_uint_eq(trains[c], c >= shape.own);
    }
}

TEST(cores_of_each_worker)
{
    for (uint32_t n = 1; n <= 64; n = n < 9 ? n + 1 : n * 2)
        for (uint32_t s = 1; s <= n; s++)
            for (uint32_t t = 1; t <= n; t++)
                for (uint32_t own = 0; own < n; own += SL_MAX(n / 8, 1u))
                    check_cores(n, (struct sl_core_layout){.split = {s, t}, .own = own});
}

// --- against a pipeline that is played -----------------------------------------------------------

enum { PLAYED = 400 };

/*
 * An epoch event by event: samplers draw the next batch when they are free, a trainer takes the
 * next one that is drawn, an ordered update waits for all of its batches. On shared cores a batch
 * is drawn and trained by turns: training stands still while a sampler of these cores draws.
 */
static double played(const struct sl_core_layout_question *q, const struct sl_core_layout *shape)
{
    double drawn[PLAYED], trainer[64] = {0}, sampler[64] = {0}, update_done = 0, latest = 0;
    uint32_t samples_on = shape->own ? shape->own : q->n_cores, trains_on = q->n_cores - shape->own;
    uint32_t s = shape->split.samplers, t = SL_MIN(shape->split.trainers, q->at_once);
    double draw = sl_core_layout_stage_seconds(&q->sample, q->n_cores, SL_MAX(samples_on / s, 1u)) *
                  fmax((double)s / samples_on, 1);
    double train = sl_core_layout_stage_seconds(&q->train, q->n_cores, SL_MAX(trains_on / t, 1u)) *
                   fmax((double)t / trains_on, 1);
    for (uint32_t i = 0; i < PLAYED; i++) {
        drawn[i] = sampler[i % s] += draw;
        if (!shape->own) // the time that sampling takes from each trainer's cores
            drawn[i] = 0;
    }
    double taken = shape->own ? 0 : draw * t / s;
    for (uint32_t i = 0; i < PLAYED; i++) {
        uint32_t k = 0;
        for (uint32_t j = 1; j < t; j++)
            if (trainer[j] < trainer[k])
                k = j;
        if (q->ordered && i % q->at_once == 0)
            update_done = latest;
        double begin = fmax(fmax(trainer[k], drawn[i]), q->ordered ? update_done : 0);
        trainer[k] = begin + train + taken;
        latest = fmax(latest, trainer[k]);
    }
    return latest / PLAYED;
}

// Shapes that a user can write by hand: every split, every number of cores apart.
static double best_played(const struct sl_core_layout_question *q)
{
    double best = INFINITY;
    for (uint32_t s = 1; s <= q->most.samplers; s = s < 8 ? s + 1 : s + 4)
        for (uint32_t t = 1; t <= q->most.trainers; t++)
            for (uint32_t own = 0; own < q->n_cores; own = own < 8 ? own + 1 : own + 4) {
                struct sl_core_layout shape = {.split = {s, t}, .own = own};
                best = fmin(best, played(q, &shape));
            }
    return best;
}

// K from 0.2 to 60, updates of 1 to 8 batches, 1 to 64 cores, stages that use cores well or badly.
LOOP_TEST(chosen_is_within_a_tenth_of_the_best_that_is_played, 0, 7)
{
    static const uint32_t cores[] = {1, 2, 3, 4, 8, 16, 64};
    static const double ks[] = {0.2, 0.5, 1, 2, 5, 10, 20, 60}, serial[] = {0, 0.1, 0.3};
    uint32_t n = cores[_i];
    for (size_t k = 0; k < SL_COUNT_OF(ks); k++)
        for (uint32_t width = 1; width <= 8; width = width * 2)
            for (size_t a = 0; a < SL_COUNT_OF(serial); a++) {
                struct sl_core_layout_question q = question(n, 0.010, 0.010 * ks[k]);
                q.train.all = q.train.one * (serial[a] + (1 - serial[a]) / n);
                q.sample.all = q.sample.one * (serial[a] + (1 - serial[a]) / n);
                q.at_once = width;
                q.most.trainers = SL_MIN(width, n);
                struct sl_core_layout chosen = sl_core_layout_best(&q);
                double mine = played(&q, &chosen), best = best_played(&q);
                ck_assert_msg(mine <= 1.10 * best,
                              "%u cores, K %g, updates of %u, serial %g: %u, %u, %u own: %g, %g", n,
                              ks[k], width, serial[a], chosen.split.samplers, chosen.split.trainers,
                              chosen.own, mine, best);
            }
}

RUN_TESTS(.timeout_s = 0)
