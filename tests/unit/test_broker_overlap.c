// Evaluation beside the next epoch: which jobs do it, what is opened when, what messages say of it.
#include "tests/unit/broker_phases_fixture.h"
#include "tests/unit/suite.h"

enum { SECOND = 1000000000 };

static void overlap_setup(void)
{
    setup();
    config.n_devices = 4;
    config.allocation.trainers = 3;
    config.evaluate.overlap = true;
}

// All cells of the side lane's phase that is open, of which so many vertices are right.
static void evaluate_one_layer(uint64_t correct)
{
    struct sl_ledger_ahead look;
    sl_ledger_look_aside(&t.arena, &look);
    ck_assert(look.seq != 0 && !look.gated);
    while (look.unclaimed-- > 0) {
        struct sl_lease l;
        must(sl_ledger_claim_beside(&t.arena, 3, SL_OCCUPATION_ASIDE, 1, &l));
        ck_assert_uint_eq(l.seq, look.seq);
        ck_assert_uint_eq(l.phase->spec.params, SL_PARAMS_PINNED);
        l.entry->weight = 20;
        leave_predictions(&t.arena, &l, true, 0, correct);
        must(sl_ledger_complete(&t.arena, &l));
    }
    sl_phases_poll(&t.phases);
}

static void evaluate_beside(uint64_t correct)
{
    for (int layer = 0; layer < 3; layer++)
        evaluate_one_layer(correct);
}

static void train_epoch(void)
{
    for (int i = 0; i < 4; i++)
        if (sl_cell_state(sl_ledger_word(&t.arena, sl_ledger_current(&t.arena, SL_LANE_MAIN),
                                         (uint32_t)i)) == SL_CELL_PENDING)
            sample_one();
    for (int i = 0; i < 4; i++)
        train_one(1);
    sl_phases_poll(&t.phases);
}

static void no_overlap(bool *flag)
{
    *flag = !*flag;
    ck_assert(!sl_plan_overlaps(&plan, 0));
    *flag = !*flag;
    ck_assert(sl_plan_overlaps(&plan, 0));
}

TEST(only_where_trainers_are_free)
{
    ck_assert(sl_plan_overlaps(&plan, 0) && sl_plan_overlaps(&plan, 2));
    ck_assert(!sl_plan_overlaps(&plan, 3)); // nothing follows the last epoch
    no_overlap(&config.evaluate.overlap);
    no_overlap(&config.evaluate.full);
    config.evaluate.every = 2;
    ck_assert(!sl_plan_overlaps(&plan, 0) && sl_plan_overlaps(&plan, 1));
    config.early_stopping.patience = 1;
    ck_assert(!sl_plan_overlaps(&plan, 1));
    config.early_stopping.patience = 0;
    config.early_stopping.target = 0.5;
    ck_assert(!sl_plan_overlaps(&plan, 1));
    config.early_stopping.target = 0;
    config.allocation.cores = SL_CORES_POOL;
    ck_assert(!sl_plan_overlaps(&plan, 1));
    config.allocation.cores = SL_CORES_FIXED;
    config.updates.exchange = SL_EXCHANGE_NCCL;
    ck_assert(!sl_plan_overlaps(&plan, 1));
    config.updates.exchange = SL_EXCHANGE_BOARD;
    config.devices[3].kind = SL_DEVICE_CUDA;
    ck_assert(!sl_plan_overlaps(&plan, 1));
    config.devices[3].kind = SL_DEVICE_CPU;
    config.updates.batches_per_update = 3; // all of them train at once
    ck_assert(!sl_plan_overlaps(&plan, 1));
    config.allocation.trainers = 0; // as many as are of use, and the devices are more
    ck_assert(sl_plan_overlaps(&plan, 1));
    config.updates.batches_per_update = 4;
    ck_assert(!sl_plan_overlaps(&plan, 1));
}

TEST(evaluation_and_next_epoch_open_together_with_what_was_pinned)
{
    make_arena();
    // t0 v0 v0' v0" t1 v1 v1' v1"
    ck_assert_uint_eq(opened(), 8);
    ck_assert(!gated(1) && gated(2) && gated(5) && gated(6));
    ck_assert_uint_eq(phase(2)->spec.lane, SL_LANE_SIDE);
    ck_assert_uint_eq(phase(5)->spec.lane, SL_LANE_MAIN);
    train_epoch();
    ck_assert(!gated(2) && !gated(5) && gated(6) && gated(9));
    ck_assert_float_eq(sl_param_store_pinned(&t.arena)[0], 2);
    train_epoch();
    ck_assert(gated(6) && gated(9)); // epoch 0 is not evaluated yet
    ck_assert_int_eq(t.epochs, 0);
    ck_assert_float_eq(sl_param_store_pinned(&t.arena)[0], 2);
    evaluate_beside(9);
    ck_assert_int_eq(t.epochs, 1);
    ck_assert(!gated(6) && !gated(9) && gated(10));
    ck_assert_float_eq(sl_param_store_best(&t.arena)[0], 2);
    ck_assert_float_eq(sl_param_store_pinned(&t.arena)[0], 4);
}

TEST(the_last_evaluation_waits_for_the_one_beside)
{
    config.epochs = 2;
    make_arena();
    // t0 v0 v0' v0" | t1 v1 v1' v1" x x' x"
    train_epoch();
    train_epoch();
    ck_assert_uint_eq(phase(6)->spec.lane, SL_LANE_MAIN);
    ck_assert(gated(6));
    struct sl_lease l;
    ck_assert_int_eq(sl_ledger_claim_beside(&t.arena, 3, SL_OCCUPATION_NONE, 0, &l), SL_OK);
    ck_assert_uint_eq(l.seq, 2);
    sl_ledger_return(&t.arena, &l);
    evaluate_beside(9);
    ck_assert(!gated(6));
    for (int i = 0; i < 3; i++) {
        work_through(5);
        sl_phases_poll(&t.phases);
    }
    ck_assert_int_eq(t.epochs, 2);
    ck_assert_uint_eq(t.phases.best.epoch, 0);
    ck_assert_float_eq(sl_param_store_best(&t.arena)[0], 2);
    for (int i = 0; i < 3; i++) {
        work_through(5);
        sl_phases_poll(&t.phases);
    }
    ck_assert(t.complete && t.phases.has_test);
}

TEST(a_test_of_each_epoch_is_beside_too)
{
    config.evaluate.test = SL_TEST_EACH;
    make_arena();
    // t0 e0 e0' e0" v0" t1 ..
    train_epoch();
    ck_assert(!gated(2) && gated(5) && !gated(6));
    evaluate_beside(9);
    ck_assert(!gated(5));
    evaluate_one_layer(6);
    ck_assert_int_eq(t.epochs, 1);
    ck_assert(t.last.tested && t.last.evaluated);
    ck_assert_double_eq_tol(t.last.on_val.value[SL_MEASURE_ACCURACY], 0.3, 1e-12);
}

TEST(time_beside_training_is_counted_once)
{
    make_arena();
    train_epoch();
    sl_clock_advance(SECOND); // both have begun
    evaluate_beside(9);
    ck_assert_double_ge(t.last.overlapped_seconds, 1);
    ck_assert_double_eq(t.last.evaluate_seconds, 0);
    sl_clock_advance(SECOND);
    train_epoch(); // epoch 1 took two
    sl_clock_advance(SECOND);
    train_epoch(); // epoch 2: one
    sl_clock_advance(SECOND);
    evaluate_beside(9); // of epoch 1: one beside epoch 2, one behind it
    ck_assert_int_eq(t.epochs, 2);
    ck_assert_double_ge(t.last.seconds, 2);
    ck_assert_double_lt(t.last.seconds, 3);
    ck_assert_double_ge(t.last.overlapped_seconds, 1);
    ck_assert_double_lt(t.last.overlapped_seconds, 2);
    ck_assert_double_ge(t.last.evaluate_seconds, 1);
    ck_assert_double_lt(t.last.evaluate_seconds, 2);
    evaluate_beside(9);
    ck_assert_double_ge(t.last.seconds, 1); // epoch 2, without the time behind it
    ck_assert_double_lt(t.last.seconds, 2);
}

TEST(the_view_is_of_what_is_trained)
{
    struct sl_phases_view view;
    uint32_t epoch;
    uint64_t done;
    make_arena();
    train_epoch();
    sample_one();
    train_one(1);
    evaluate_one_layer(9);
    sl_phases_view(&t.phases, &t.loss, &view);
    ck_assert_str_eq(view.phase, "train");
    ck_assert_uint_eq(view.epoch, 1);
    ck_assert_uint_eq(view.total, 4);
    ck_assert(sl_phases_trains(&t.phases, &epoch, &done));
    ck_assert_uint_eq(epoch, 1);
    for (int i = 0; i < 3; i++)
        sample_one();
    for (int i = 0; i < 3; i++)
        train_one(1);
    sl_phases_poll(&t.phases);
    sl_phases_view(&t.phases, &t.loss, &view);
    ck_assert_str_eq(view.phase, "evaluate");
    ck_assert_uint_eq(view.epoch, 0);
    ck_assert_uint_eq(view.done, 5);
    ck_assert(sl_phases_trains(&t.phases, &epoch, &done)); // all of it, and not the next one yet
    ck_assert_uint_eq(epoch, 1);
    ck_assert_uint_eq(done, 4);
}

static bool split_holds;

static bool may_begin(void *ctx, uint32_t epoch)
{
    return epoch == 0 || split_holds;
}

TEST(an_epoch_that_waits_for_its_split_does_not_hold_the_evaluation)
{
    phases_setup.events.may_begin = may_begin;
    split_holds = false;
    make_arena();
    train_epoch();
    ck_assert(!gated(2) && gated(5));
    evaluate_beside(9);
    ck_assert_int_eq(t.epochs, 1);
    ck_assert(gated(5));
    split_holds = true;
    sl_phases_open_gates(&t.phases);
    ck_assert(!gated(5) && gated(6));
}

RUN_TESTS(.setup = overlap_setup, .timeout_s = 30)
