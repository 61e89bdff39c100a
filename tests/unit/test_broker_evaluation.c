// What an evaluation decides: the best parameters, the gate behind it, whether training goes on.
#include "common/data/prediction.h"
#include "tests/unit/broker_phases_fixture.h"
#include "tests/unit/suite.h"

TEST(the_best_parameters_are_those_that_were_evaluated)
{
    static const uint64_t found[] = {3, 9, 9, 5};
    make_arena();
    for (int e = 0; e < 4; e++) {
        ck_assert(!t.complete);
        for (int i = 0; i < 4; i++) {
            work_through(i == 3 ? found[e] : 1);
            sl_phases_poll(&t.phases);
        }
        ck_assert_int_eq(t.epochs, e + 1);
        ck_assert_double_eq_tol(t.last.on_val.value[SL_MEASURE_ACCURACY], (double)found[e] / 20,
                                1e-12);
    }
    ck_assert_uint_eq(t.phases.best.epoch, 1); // of equals the first one
    ck_assert_float_eq(sl_param_store_best(&t.arena)[0], 4);
    for (int i = 0; i < 3; i++) {
        work_through(6);
        sl_phases_poll(&t.phases);
    }
    ck_assert(t.complete);
    ck_assert_double_eq_tol(t.phases.test.value[SL_MEASURE_ACCURACY], 0.2, 1e-12);
    ck_assert_uint_eq(t.phases.done, 16);
    ck_assert_uint_eq(t.phases.scheduled, 16);
}

// One epoch and its sampled evaluation, of which so many vertices are right.
static void epoch_with(uint64_t correct)
{
    for (int i = 0; i < 2; i++) {
        work_through(i == 1 ? correct : 1);
        sl_phases_poll(&t.phases);
    }
}

static void stop_early_setup(uint32_t patience)
{
    config.evaluate.full = false;
    config.evaluate.batch_size = 100;
    config.epochs = 6;
    config.early_stopping.patience = patience;
}

TEST(patience_that_runs_out_ends_training_with_a_test_of_the_best)
{
    char reason[160];
    uint32_t epoch;
    uint64_t done;
    stop_early_setup(2);
    make_arena();
    ck_assert_uint_eq(opened(), 4); // t0 v0 t1 v1: t2 may never be
    epoch_with(5);
    ck_assert_uint_eq(opened(), 6); // v1 and v2 may both be worse
    epoch_with(9);
    ck_assert_uint_eq(opened(), 8);
    epoch_with(9);
    ck_assert_uint_eq(opened(), 8);
    ck_assert(!t.phases.stopped_early);
    epoch_with(4);
    ck_assert(t.phases.stopped_early);
    ck_assert_int_eq(t.epochs, 4);
    ck_assert(!sl_phases_trains(&t.phases, &epoch, &done));
    ck_assert_uint_eq(epoch, 6); // nothing is due before the end any more
    ck_assert_uint_eq(opened(), 9);
    ck_assert_uint_eq(phase(9)->spec.set, SL_SET_TEST);
    ck_assert_uint_eq(phase(9)->spec.params, SL_PARAMS_BEST);
    ck_assert(!gated(9));
    work_through(6);
    sl_phases_poll(&t.phases);
    ck_assert(t.complete && t.phases.has_test);
    ck_assert_uint_eq(t.phases.best.epoch, 1);
    ck_assert_float_eq(sl_param_store_best(&t.arena)[0], 4);
    ck_assert_uint_eq(t.phases.scheduled, 16);
    ck_assert_uint_eq(t.phases.done, 16);
    ck_assert_str_eq(sl_phases_stop_reason(&t.phases, reason, sizeof reason),
                     "2 evaluations without a better accuracy; the best is 0.4500, of epoch 2");
}

TEST(a_target_ends_training_once_a_validation_has_it)
{
    char reason[160];
    stop_early_setup(0);
    config.early_stopping.target = 0.45; // 9 of 20
    make_arena();
    ck_assert_uint_eq(opened(), 2); // t0 v0: t1 may never be
    epoch_with(8);
    ck_assert(!t.phases.stopped_early);
    ck_assert_uint_eq(opened(), 4);
    epoch_with(9);
    ck_assert(t.phases.stopped_early);
    ck_assert_int_eq(t.epochs, 2);
    ck_assert_uint_eq(phase(5)->spec.set, SL_SET_TEST);
    ck_assert_str_eq(sl_phases_stop_reason(&t.phases, reason, sizeof reason),
                     "accuracy 0.4500 of epoch 2 has reached early_stopping.target, 0.45");
    work_through(6);
    sl_phases_poll(&t.phases);
    ck_assert(t.complete && t.phases.has_test);
}

TEST(a_test_of_each_epoch_decides_nothing)
{
    static const uint64_t tested[] = {9, 3}, found[] = {4, 6};
    struct sl_phases_view view;
    config.epochs = 2;
    config.evaluate.test = SL_TEST_EACH;
    make_arena();
    // t0 e0 e0' e0" v0" t1 e1 e1': the validation waits until the test's predictions are read.
    ck_assert_uint_eq(opened(), 8);
    ck_assert(!gated(2) && !gated(4) && gated(5) && gated(6));
    for (int e = 0; e < 2; e++) {
        for (int i = 0; i < 5; i++) {
            ck_assert_int_eq(t.epochs, e);
            work_through(i == 3 ? tested[e] : i == 4 ? found[e] : 1);
            sl_phases_poll(&t.phases);
            ck_assert_uint_eq(t.phases.best.has, e == 1 || i == 4);
            sl_phases_view(&t.phases, &t.loss, &view);
            if (i < 4) { // two layers of 5 cells, the last one's of the test and of the validation
                ck_assert_str_eq(view.phase, "evaluate");
                ck_assert_uint_eq(view.done, i < 3 ? 5u * i : 11);
                ck_assert_uint_eq(view.total, 12);
            }
        }
        ck_assert(t.last.tested && t.last.evaluated);
        ck_assert_double_eq_tol(t.last.on_test.value[SL_MEASURE_ACCURACY], (double)tested[e] / 30,
                                1e-12);
        ck_assert_double_eq_tol(t.last.on_val.value[SL_MEASURE_ACCURACY], (double)found[e] / 20,
                                1e-12);
        ck_assert_double_eq(t.last.stages.evaluate.count, 12);
    }
    ck_assert_uint_eq(t.phases.best.epoch, 1);
    ck_assert_float_eq(sl_param_store_best(&t.arena)[0], 4);
    for (int i = 0; i < 3; i++) {
        work_through(6);
        sl_phases_poll(&t.phases);
    }
    ck_assert(t.complete && t.phases.has_test);
}

TEST(tests_of_each_epoch_need_no_validation)
{
    config.epochs = 2;
    config.evaluate.full = false;
    config.evaluate.batch_size = 100;
    config.evaluate.test = SL_TEST_EACH;
    plan.split[SL_SPLIT_VAL].n = 0;
    make_arena();
    for (int e = 0; e < 2; e++) {
        epoch_with(6);
        ck_assert_int_eq(t.epochs, e + 1);
        ck_assert(t.last.tested && !t.last.evaluated && !t.phases.best.has);
    }
    work_through(6);
    sl_phases_poll(&t.phases);
    ck_assert(t.complete && t.phases.has_test);
}

TEST(patience_counts_validations_not_tests)
{
    stop_early_setup(2);
    config.evaluate.test = SL_TEST_EACH;
    make_arena();
    ck_assert_uint_eq(opened(), 6); // t0 e0 v0 t1 e1 v1: t2 may never be
    for (int e = 0; e < 3; e++)
        for (int i = 0; i < 3; i++) {
            ck_assert(!t.phases.stopped_early);
            work_through(i == 2 ? 5 : (uint64_t)e);
            sl_phases_poll(&t.phases);
        }
    ck_assert(t.phases.stopped_early && t.last.tested);
    ck_assert_int_eq(t.epochs, 3);
    work_through(6);
    sl_phases_poll(&t.phases);
    ck_assert(t.complete);
}

TEST(patience_that_runs_out_with_the_last_epoch_stops_nothing)
{
    stop_early_setup(1);
    config.epochs = 2;
    make_arena();
    epoch_with(5);
    epoch_with(5);
    ck_assert(!t.phases.stopped_early);
    work_through(1);
    sl_phases_poll(&t.phases);
    ck_assert(t.complete);
    ck_assert_uint_eq(t.phases.best.epoch, 0);
}

TEST(training_that_stops_early_without_a_test_is_complete)
{
    stop_early_setup(1);
    plan.split[SL_SPLIT_TEST].n = 0;
    make_arena();
    epoch_with(5);
    ck_assert(!t.complete);
    epoch_with(5);
    ck_assert(t.complete && t.phases.stopped_early);
    ck_assert_uint_eq(opened(), 4);
}

TEST(a_run_that_had_stopped_early_goes_on_with_its_test)
{
    stop_early_setup(2);
    plan.resume = (struct sl_resume_point){
        .epoch = 4, .best = {.has = true, .epoch = 1, .value = 0.5, .mark = 0.5, .waited = 2}};
    expect_plan("x3 ");
    make_arena();
    ck_assert(t.phases.stopped_early);
    ck_assert_uint_eq(opened(), 1);
    config.early_stopping.patience = 3; // more of it, and there is more to train
    expect_plan("t4 v4 t5 v5 x5 ");
}

TEST(an_evaluation_judged_on_the_thread_pool_holds_its_gate)
{
    stop_early_setup(0);
    plan.split[SL_SPLIT_VAL].n = SL_COUNT_OF(vertices);
    config.evaluate.batch_size = 50000;
    make_arena();
    work_through(1);
    sl_phases_poll(&t.phases);
    uint64_t next = sl_ledger_current(&t.arena, SL_LANE_MAIN) + 1;
    work_through(40000);
    sl_phases_poll(&t.phases);
    ck_assert_int_eq(t.epochs, 0);
    ck_assert(gated(next));
    sl_phases_poll(&t.phases); // nothing is read twice
    sl_phases_open_gates(&t.phases);
    ck_assert(gated(next));
    uv_run(&t.loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(t.epochs, 1);
    ck_assert(!gated(next));
    ck_assert_double_eq(t.last.on_val.value[SL_MEASURE_ACCURACY], 0.8);
}

TEST(the_loss_may_be_what_is_judged)
{
    config.evaluate.metric = SL_METRIC_LOSS;
    config.evaluate.full = false;
    make_arena();
    epoch_with(3);
    epoch_with(9); // the loss is the same
    ck_assert_uint_eq(t.phases.best.epoch, 0);
    ck_assert_double_eq(t.phases.best.value, 1);
}

// ROC-AUC of labels that are all 0.
TEST(a_metric_that_is_not_defined_has_no_best)
{
    stop_early_setup(1);
    config.evaluate.metric = SL_METRIC_ROC_AUC;
    dataset.n_classes = 2;
    make_arena();
    for (int e = 0; e < 6; e++) {
        epoch_with(5);
        ck_assert_int_eq(t.epochs, e + 1);
        ck_assert(t.last.evaluated && isnan(t.last.on_val.value[SL_MEASURE_ROC_AUC]));
        ck_assert(!t.phases.best.has && !t.phases.stopped_early);
        // What would be tested now.
        ck_assert_float_eq(sl_param_store_best(&t.arena)[0], (float)(2 * (e + 1)));
    }
    work_through(6);
    sl_phases_poll(&t.phases);
    ck_assert(t.complete && t.phases.has_test);
}

static int failed_with;

static void note_error(void *ctx, int rc)
{
    failed_with = rc;
}

TEST(outputs_that_are_not_finite_end_the_job)
{
    stop_early_setup(0);
    make_arena();
    t.phases.setup.events.on_error = note_error;
    work_through(1);
    sl_phases_poll(&t.phases);
    work_through(5); // with a loss that is finite
    ((uint32_t *)sl_arena_predictions(&t.arena))[3] = (uint32_t)SL_NO_CLASS;
    sl_phases_poll(&t.phases);
    ck_assert_int_eq(failed_with, SL_ENOTFINITE);
    ck_assert_str_eq(sl_error_message(),
                     "the validation after epoch 1: the outputs of 1 of 20 labelled vertices are "
                     "not finite, of parameters that are all finite");
    ck_assert(!t.phases.best.has);
}

TEST(a_gated_test_of_one_phase_opens)
{
    config.evaluate.full = false;
    config.evaluate.batch_size = 100;
    config.epochs = 1;
    make_arena();
    ck_assert_uint_eq(opened(), 3);
    ck_assert(gated(3));
    for (int i = 0; i < 3; i++) {
        work_through(2);
        sl_phases_poll(&t.phases);
    }
    ck_assert(t.complete);
}

RUN_TESTS(.setup = setup, .timeout_s = 30)
