// The allocation formula, the expected time of an epoch, and when a split moves.
#include "broker/scheduler/allocate.h"
#include "tests/unit/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct sl_allocation_question question(uint32_t n, double t_sample, double t_train)
{
    return (struct sl_allocation_question){
        .profile = {t_sample, t_train, t_train},
        .n_devices = n,
        .switching = true,
        .batches = 1000,
        .epochs_left = 10,
        .at_once = 1024,
        .now = {1, n - 1},
        .move_seconds = 1,
    };
}

static struct sl_roles formula(uint32_t n, double t_sample, double t_train)
{
    const struct sl_allocation_question q = question(n, t_sample, t_train);
    return sl_allocate_formula(&q);
}

TEST(formula_by_hand)
{
    // K = 10, 8 devices: 8 / 11 rounds up to one sampler.
    ck_assert_uint_eq(formula(8, 1, 10).samplers, 1);
    ck_assert_uint_eq(formula(8, 1, 10).trainers, 7);
    // K = 3: 8 / 4 = 2 exactly.
    ck_assert_uint_eq(formula(8, 1, 3).samplers, 2);
    // K = 2.9: a little more than 2.
    ck_assert_uint_eq(formula(8, 1, 2.9).samplers, 3);
    ck_assert_uint_eq(formula(8, 1, 1).samplers, 4);
    ck_assert_uint_eq(formula(8, 1, 0.5).samplers, 6);
    ck_assert_uint_eq(formula(4, 2, 6).samplers, 1);
}

TEST(formula_leaves_somebody_to_train)
{
    ck_assert_uint_eq(formula(8, 1, 0.01).samplers, 7);
    ck_assert_uint_eq(formula(8, 1, 0.01).trainers, 1);
    ck_assert_uint_eq(formula(2, 1, 0.01).samplers, 1);
    ck_assert_uint_eq(formula(2, 1, 100).samplers, 1);
}

TEST(formula_with_one_device)
{
    ck_assert_uint_eq(formula(1, 1, 5).samplers, 1);
    ck_assert_uint_eq(formula(1, 1, 5).trainers, 0);
}

static struct sl_roles formula_at_once(uint32_t n, double t_train, uint32_t at_once)
{
    struct sl_allocation_question q = question(n, 1, t_train);
    q.at_once = at_once;
    return sl_allocate_formula(&q);
}

// Trainers that could never work are not started, nor samplers that only those would need.
TEST(formula_knows_how_many_can_work_at_once)
{
    ck_assert_uint_eq(formula_at_once(8, 3, 1).samplers, 1);
    ck_assert_uint_eq(formula_at_once(8, 3, 1).trainers, 1);
    ck_assert_uint_eq(formula_at_once(8, 3, 4).samplers, 2);
    ck_assert_uint_eq(formula_at_once(8, 3, 4).trainers, 4);
    ck_assert_uint_eq(formula_at_once(8, 3, 6).trainers, 6);
    ck_assert_uint_eq(formula_at_once(8, 0.2, 1).samplers, 5); // one trainer takes what five draw
    ck_assert_uint_eq(formula_at_once(8, 0.01, 1).samplers, 7);
    ck_assert_uint_eq(formula_at_once(1, 3, 1).trainers, 0);
}

TEST(formula_keeps_to_what_the_arena_holds)
{
    struct sl_allocation a;
    for (uint64_t held = 4; held <= 40; held++)
        for (int k = 0; k < 3; k++) {
            struct sl_allocation_question q = question(12, 1, (double[]){0.1, 1, 20}[k]);
            const struct sl_roles free = sl_allocate_formula(&q);
            q.batches_held = held;
            sl_allocate_first(&q, &a);
            const bool fits = sl_placement_batches(free) <= held;
            ck_assert_uint_le(sl_placement_batches(a.split), held);
            ck_assert_uint_ge(a.split.samplers, 1);
            ck_assert_uint_ge(a.split.trainers, 1);
            ck_assert_uint_eq(fits, a.split.samplers == free.samplers &&
                                        a.split.trainers == free.trainers);
            ck_assert_msg(fits != !!strstr(a.reason, "the arena has room for"), "%s", a.reason);
            // And no worker less than that.
            ck_assert(fits || sl_placement_batches(a.split) + 2 > held);
        }
}

// What `run` says: below 100 columns, with its "split: ".
static const char *brief(const struct sl_allocation_question *q, const struct sl_allocation *a)
{
    static char text[SL_ALLOCATION_BRIEF_BYTES];
    ck_assert_uint_lt(strlen(sl_allocate_brief_text(q, a, text)) + strlen("split: "), 100);
    return text;
}

TEST(a_split_is_told_in_a_few_words)
{
    struct sl_allocation_question q = {0};
    struct sl_allocation a = {
        .split = {2, 1}, .moves = true, .seconds_now = 0.4441, .seconds_formula = 0.3972};
    q.now = (struct sl_roles){1, 1};
    ck_assert_str_eq(brief(&q, &a), "2 samplers + 1 trainer: about 397 ms an epoch (was 444 ms)");
    q.quiet = true;
    ck_assert_str_eq(brief(&q, &a),
                     "2 samplers + 1 trainer: about 397 ms an epoch on quiet cores (was 444 ms)");
    // The first one, and one that stays: there is nothing to compare with.
    a.moves = false;
    a.seconds_formula = 0.0123;
    ck_assert_str_eq(brief(&q, &a),
                     "2 samplers + 1 trainer: about 12.3 ms an epoch on quiet cores");
    a.split = q.now;
    ck_assert_str_eq(brief(&q, &a), "1 sampler + 1 trainer: about 444 ms an epoch on quiet cores");
    a = (struct sl_allocation){
        .split = {60, 64}, .moves = true, .seconds_now = 1e9, .seconds_formula = 98765.4321};
    ck_assert_str_eq(brief(&q, &a), "60 samplers + 64 trainers: about 27 h 26 min an epoch on "
                                    "quiet cores (was 277777 h 47 min)");
    a.seconds_formula = INFINITY; // nothing measured
    ck_assert_str_eq(brief(&q, &a), "60 samplers + 64 trainers");
}

TEST(idle_devices_are_told_with_what_would_use_them)
{
    char text[SL_ALLOCATION_REASON_BYTES];
    struct sl_allocation_question q = question(8, 1, 10);
    q.ordered = true;
    q.batch_size = 1000;
    q.at_once = 2;
    sl_allocate_idle_text(&q, (struct sl_roles){1, 2}, text, sizeof text);
    ck_assert_str_eq(text, "5 of 8 devices have nothing to do: updates.batches_per_update 7 "
                           "instead of 2 would use them");
    // Also those of trainers that the job asks for and that can only wait.
    sl_allocate_idle_text(&q, (struct sl_roles){1, 7}, text, sizeof text);
    ck_assert_msg(strstr(text, "5 of 8 devices"), "%s", text);
    q.at_once = 7;
    ck_assert_str_eq(sl_allocate_idle_text(&q, (struct sl_roles){1, 7}, text, sizeof text), "");
    ck_assert_str_eq(sl_allocate_idle_text(&q, (struct sl_roles){1, 2}, text, sizeof text), "");
    q.at_once = 1;
    q.n_devices = 1;
    ck_assert_str_eq(sl_allocate_idle_text(&q, (struct sl_roles){1, 0}, text, sizeof text), "");
}

TEST(formula_without_a_measurement)
{
    ck_assert_uint_eq(formula(8, 0, 5).samplers, 1);
    ck_assert_uint_eq(formula(8, 0, 0).samplers, 1);
}

TEST(expected_time_by_hand)
{
    struct sl_allocation_question q = question(8, 0.010, 0.069);
    q.switching = false;
    // One sampler: 10 s of sampling, 69 s of training over 7 trainers.
    ck_assert_double_eq_tol(sl_allocate_epoch_seconds(&q, (struct sl_roles){1, 7}), 10, 1e-9);
    // Two: 5 s, 69 / 6.
    ck_assert_double_eq_tol(sl_allocate_epoch_seconds(&q, (struct sl_roles){2, 6}), 11.5, 1e-9);
    // With switching everybody works until the end: 79 s of work over 8 devices.
    q.switching = true;
    ck_assert_double_eq_tol(sl_allocate_epoch_seconds(&q, (struct sl_roles){2, 6}), 79.0 / 8, 1e-9);
    ck_assert_double_eq_tol(sl_allocate_epoch_seconds(&q, (struct sl_roles){1, 7}), 10, 1e-9);
}

TEST(expected_time_of_one_device)
{
    struct sl_allocation_question q = question(1, 0.010, 0.050);
    ck_assert_double_eq_tol(sl_allocate_epoch_seconds(&q, (struct sl_roles){1, 0}), 60, 1e-9);
}

TEST(expected_time_counts_trainers_that_can_work_at_once)
{
    struct sl_allocation_question q = question(8, 0.001, 0.080);
    q.switching = false;
    q.at_once = 2;
    ck_assert_double_eq_tol(sl_allocate_epoch_seconds(&q, (struct sl_roles){1, 7}), 40, 1e-9);
    // Standby trainers could only wait for the others.
    q.switching = true;
    ck_assert_double_eq_tol(sl_allocate_epoch_seconds(&q, (struct sl_roles){1, 7}), 40, 1e-9);
}

// With switching no split is expected to be much better than the formula's (the claim of 5.3).
TEST(formula_is_near_the_best_split)
{
    srand(5);
    for (int i = 0; i < 2000; i++) {
        double t_sample = 0.001 + 0.05 * rand() / RAND_MAX;
        double t_train = 0.001 + 0.3 * rand() / RAND_MAX;
        uint32_t n = 2 + (uint32_t)rand() % 15;
        struct sl_allocation_question q = question(n, t_sample, t_train);
        double best = INFINITY;
        for (uint32_t s = 1; s < n; s++)
            best = fmin(best, sl_allocate_epoch_seconds(&q, (struct sl_roles){s, n - s}));
        double chosen = sl_allocate_epoch_seconds(&q, formula(n, t_sample, t_train));
        // Where sampling takes more than n - 1 devices could do, one still trains.
        ck_assert_msg(chosen <= best * 1.0001 || t_train < t_sample / (n - 1), "%g %g %u: %g, %g",
                      t_sample, t_train, n, chosen, best);
    }
}

TEST(first_split_is_the_formulas)
{
    struct sl_allocation a;
    struct sl_allocation_question q = question(8, 0.01, 0.029);
    q.move_seconds = 1e9;
    sl_allocate_first(&q, &a);
    ck_assert_uint_eq(a.split.samplers, 3);
    ck_assert_uint_eq(a.split.trainers, 5);
    ck_assert_double_eq_tol(a.k, 2.9, 1e-9);
    ck_assert_msg(strstr(a.reason, "K = 2.9") && strstr(a.reason, "3 samplers"), "%s", a.reason);
}

TEST(moves_when_it_pays)
{
    struct sl_allocation a;
    struct sl_allocation_question q = question(8, 0.01, 0.01); // formula: 4, 4
    sl_allocate_again(&q, &a);
    ck_assert(a.moves);
    ck_assert_uint_eq(a.split.samplers, 4);
    ck_assert_msg(strstr(a.reason, "instead of 1 and 7"), "%s", a.reason);
}

TEST(stays_when_the_move_costs_more)
{
    struct sl_allocation a;
    struct sl_allocation_question q = question(8, 0.01, 0.01);
    q.move_seconds = 1000;
    sl_allocate_again(&q, &a);
    ck_assert(!a.moves);
    ck_assert_uint_eq(a.split.samplers, 1);
    ck_assert_msg(strstr(a.reason, "the move costs"), "%s", a.reason);
}

TEST(stays_when_little_is_gained)
{
    struct sl_allocation a;
    struct sl_allocation_question q = question(8, 0.010, 0.069); // formula 2, 6: 1.25 % sooner
    q.now = (struct sl_roles){1, 7};
    q.move_seconds = 0;
    sl_allocate_again(&q, &a);
    ck_assert_uint_eq(a.formula.samplers, 2);
    ck_assert(!a.moves);
    ck_assert_msg(strstr(a.reason, "less than 5 %"), "%s", a.reason);
}

TEST(stays_in_the_last_epoch)
{
    struct sl_allocation a;
    struct sl_allocation_question q = question(8, 0.01, 0.01);
    q.epochs_left = 0;
    sl_allocate_again(&q, &a);
    ck_assert(!a.moves);
}

// Two profiles that alternate around a border must not make the split alternate.
TEST(hysteresis)
{
    struct sl_allocation a;
    struct sl_roles now = {2, 6};
    int moves = 0;
    for (int epoch = 0; epoch < 20; epoch++) {
        struct sl_allocation_question q = question(8, 0.010, epoch & 1 ? 0.0299 : 0.0301);
        q.now = now;
        q.move_seconds = 0;
        sl_allocate_again(&q, &a);
        moves += a.moves;
        now = a.split;
    }
    ck_assert_int_le(moves, 1);
}

// 1000 batches of 10 and 30 ms: one of four devices samples in 10 s, three train in 10 s.
TEST(what_a_change_is_expected_to_bring)
{
    struct sl_allocation_question q = question(4, 0.010, 0.030);
    struct sl_expectation e;
    q.switching = false;
    q.now = (struct sl_roles){1, 1};
    sl_allocate_expect(&q, (struct sl_roles){1, 3}, &e);
    ck_assert_double_eq_tol(e.seconds_now, 30, 1e-9);
    ck_assert_double_eq_tol(e.seconds_then, 10, 1e-9);
    ck_assert_double_eq_tol(e.gain_seconds, 20, 1e-9);
    ck_assert(e.pays);
    q.epochs_left = 0;
    sl_allocate_expect(&q, (struct sl_roles){1, 3}, &e);
    ck_assert(!e.pays);
    q.epochs_left = 2;
    q.move_seconds = 40;
    sl_allocate_expect(&q, (struct sl_roles){1, 3}, &e);
    ck_assert(!e.pays);
    q.move_seconds = 39;
    sl_allocate_expect(&q, (struct sl_roles){1, 3}, &e);
    ck_assert(e.pays);
}

TEST(a_change_for_the_worse)
{
    struct sl_allocation_question q = question(4, 0.010, 0.030);
    struct sl_expectation e;
    q.switching = false;
    q.now = (struct sl_roles){1, 3};
    sl_allocate_expect(&q, (struct sl_roles){3, 1}, &e);
    ck_assert_double_eq_tol(e.gain_seconds, -20, 1e-9);
    ck_assert(!e.pays);
}

TEST(nothing_is_expected_without_a_measurement)
{
    struct sl_allocation_question q = question(4, 0, 0.030);
    struct sl_expectation e;
    sl_allocate_expect(&q, (struct sl_roles){2, 2}, &e);
    ck_assert(isnan(e.seconds_now) && isnan(e.seconds_then) && isnan(e.gain_seconds));
    ck_assert(!e.pays);
}

// What people are told is what was measured, and what the model makes of another split, scaled by
// it: 1000 batches took 45 s of training instead of the model's 30, and 3 s of evaluation.
TEST(a_forecast_is_scaled_by_what_was_measured)
{
    struct sl_allocation_question q = question(4, 0.010, 0.030);
    struct sl_expectation e;
    q.switching = false;
    q.now = (struct sl_roles){1, 1};
    q.measured_seconds = 45;
    q.evaluate_seconds = 3;
    sl_allocate_expect(&q, (struct sl_roles){1, 3}, &e);
    ck_assert_double_eq_tol(e.seconds_now, 48, 1e-9);
    ck_assert_double_eq_tol(e.seconds_then, 18, 1e-9);
    sl_allocate_expect(&q, q.now, &e);
    ck_assert_double_eq(e.gain_seconds, 0);
}

// A standby trainer of 1 ms beside normal ones of 200 ms: the updates wait for these.
TEST(a_forecast_promises_no_miracles_of_standby_trainers)
{
    struct sl_allocation_question q = question(4, 0.020, 0.200);
    struct sl_expectation e;
    q.batches = 40;
    q.at_once = 4;
    q.ordered = true;
    q.profile.t_standby = 0.001;
    // All is sampled in 0.8 s, two rounds of 0.2 s an update: 8 batches. Then all four train.
    ck_assert_double_eq_tol(sl_allocate_forecast_seconds(&q, (struct sl_roles){1, 3}),
                            0.8 + 32 * 0.05, 1e-9);
    ck_assert_double_eq_tol(sl_allocate_forecast_seconds(&q, (struct sl_roles){2, 2}),
                            0.4 + 36 * 0.05, 1e-9);
    q.now = (struct sl_roles){1, 3};
    q.measured_seconds = 3.2;
    sl_allocate_expect(&q, (struct sl_roles){2, 2}, &e);
    ck_assert_double_eq_tol(e.seconds_now, 3.2, 1e-9);
    ck_assert_double_gt(e.seconds_then, 2.5);
    // The comparison that decides of moves is not touched.
    ck_assert_double_lt(sl_allocate_epoch_seconds(&q, (struct sl_roles){2, 2}), 0.5);
    // One that is slower than a normal trainer is as slow as it is: in the 0.6 s that it takes for
    // one batch the three others make nine, so an update's four are done without it.
    q.profile.t_standby = 0.600;
    ck_assert_double_eq_tol(sl_allocate_forecast_seconds(&q, (struct sl_roles){1, 3}),
                            0.8 + 32 * 0.1, 1e-9);
}

// Ordered updates of four batches: a third trainer has the last round for itself.
TEST(a_forecast_knows_that_updates_are_whole)
{
    struct sl_allocation_question q = question(5, 0.001, 0.080);
    q.switching = false;
    q.at_once = 4;
    q.ordered = true;
    ck_assert_double_eq_tol(sl_allocate_forecast_seconds(&q, (struct sl_roles){1, 1}), 80, 1e-9);
    ck_assert_double_eq_tol(sl_allocate_forecast_seconds(&q, (struct sl_roles){1, 2}), 40, 1e-9);
    ck_assert_double_eq_tol(sl_allocate_forecast_seconds(&q, (struct sl_roles){1, 3}), 40, 1e-9);
    ck_assert_double_eq_tol(sl_allocate_forecast_seconds(&q, (struct sl_roles){1, 4}), 20, 1e-9);
    // Without order, or with a great many, nobody idles.
    q.at_once = 64;
    ck_assert_double_eq_tol(sl_allocate_forecast_seconds(&q, (struct sl_roles){1, 3}), 80.0 / 3,
                            1e-9);
    q.at_once = 4;
    q.ordered = false;
    ck_assert_double_eq_tol(sl_allocate_forecast_seconds(&q, (struct sl_roles){1, 3}), 80.0 / 3,
                            1e-9);
}

TEST(a_forecast_of_one_device)
{
    struct sl_allocation_question q = question(1, 0.010, 0.050);
    q.ordered = true;
    q.profile.t_standby = 0.020; // there is no other
    ck_assert_double_eq_tol(sl_allocate_forecast_seconds(&q, (struct sl_roles){1, 0}), 30, 1e-9);
}

RUN_TESTS()
