// Standby trainers: the profit rule, when they wake and sleep, and that nobody can tell from the
// parameters.
#include "tests/unit/suite.h"
#include "tests/unit/trainer_oracle.h"

#include "trainer/feed/standby.h"

enum { DEVICE = 0 };

// --- the metric ---

TEST(profit_is_the_papers)
{
    static const struct {
        uint64_t left;
        double t_train;
        uint32_t trainers;
        double t_standby, profit;
    } rows[] = {
        {0, 1, 1, 1, -1},        {1, 1, 1, 1, 0},          {2, 1, 1, 1, 1},
        {10, 0.06, 2, 0.1, 0.2}, {10, 0.06, 7, 0.1, -0.1}, {3, 20, 1, 59, 1},
        {3, 20, 1, 60, 0},       {3, 20, 1, 61, -1},       {1000, 2, 4, 500, 0},
        {1000, 2, 4, 499, 1},    {7, 0.5, 7, 0.25, 0.25},
    };
    for (size_t i = 0; i < SL_COUNT_OF(rows); i++) {
        double found =
            sl_standby_profit(rows[i].left, rows[i].t_train, rows[i].trainers, rows[i].t_standby);
        double wanted = i == 4 ? 10 * 0.06 / 7 - 0.1 : rows[i].profit;
        ck_assert_msg(fabs(found - wanted) < 1e-12, "row %zu: found %g, wanted %g", i, found,
                      wanted);
    }
    ck_assert(isinf(sl_standby_profit(0, 1, 0, 1)));
    ck_assert(sl_standby_profit(5, 1, 0, 1e9) > 0);
}

// --- the decision, on an arena where nothing moves ---

struct scene {
    struct farm f;
    struct sl_standby s;
    uint64_t seq;
    struct sl_schedule *schedule;
};

static void scene_init(struct scene *t, const struct sl_config *c)
{
    *t = (struct scene){0};
    farm_init_small(&t->f, c, sl_kernels_ref());
    sl_standby_init(&t->s, &t->f.arena, DEVICE);
    sl_seat_set_duty(&t->f.arena, t->s.number, SL_DUTY_STANDBY);
    sl_seat_set_activity(&t->f.arena, t->s.number, SL_ACTIVITY_ASLEEP);
    sl_seat_set_activity(&t->f.arena, DEVICE, SL_ACTIVITY_BUSY); // the sampler
    t->schedule = sl_schedule_of(&t->f.arena);
    atomic_store(&t->schedule->trainers, 1);
}

static void scene_init_plain(struct scene *t, uint32_t batches_per_update)
{
    const struct sl_config c = farm_job(batches_per_update);
    scene_init(t, &c);
}

static void scene_fini(struct scene *t)
{
    farm_fini(&t->f);
}

// Samples n more cells.
static void sample(struct scene *t, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        farm_sample_one(&t->f);
}

static void claim(struct scene *t, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct sl_lease lease;
        ck_assert_int_eq(sl_ledger_claim_train(&t->f.arena, 9, 0, &lease), SL_OK);
    }
}

static bool may(struct scene *t)
{
    return sl_standby_may_fetch(&t->s, false);
}

static bool may_ahead(struct scene *t)
{
    return sl_standby_may_fetch(&t->s, true);
}

TEST(duty_decides_first)
{
    struct scene t;
    scene_init_plain(&t, 4);
    ck_assert(!may(&t)); // no phase
    sl_seat_set_duty(&t.f.arena, t.s.number, SL_DUTY_WORK);
    ck_assert(may(&t) && may_ahead(&t));
    sl_seat_set_duty(&t.f.arena, t.s.number, SL_DUTY_NONE);
    ck_assert(!may(&t));
    scene_fini(&t);
}

TEST(nobody_fetches_while_the_job_is_paused)
{
    struct scene t;
    scene_init_plain(&t, 4);
    farm_open_train(&t.f, 0);
    sample(&t, farm_batches(&t.f));
    ck_assert(may(&t));
    sl_arena_pause(&t.f.arena, true);
    ck_assert(!may(&t));
    sl_seat_set_duty(&t.f.arena, t.s.number, SL_DUTY_WORK);
    ck_assert(!may(&t) && !may_ahead(&t));
    uint32_t seen = sl_event_read(&t.f.arena.h->work);
    sl_arena_pause(&t.f.arena, false);
    ck_assert(may(&t));
    ck_assert_uint_ne(sl_event_read(&t.f.arena.h->work), seen); // who sleeps is woken
    scene_fini(&t);
}

TEST(the_side_lane_is_taken_to_its_last_cell_while_the_device_is_free)
{
    struct scene t;
    scene_init_plain(&t, 1);
    const struct sl_phase_spec side = {
        .kind = SL_PHASE_INFER, .lane = SL_LANE_SIDE, .gated = 1, .batch_size = 1, .n_items = 1};
    uint64_t seq;
    ck_assert_int_eq(sl_ledger_open_phase(&t.f.arena, &side, &seq), SL_OK);
    farm_open_train(&t.f, 0);
    sample(&t, farm_batches(&t.f) - 1);
    atomic_store(&sl_schedule_of(&t.f.arena)->trainers, 1);
    ck_assert(!sl_standby_may_evaluate(&t.s)); // gated
    sl_ledger_open_gate(&t.f.arena, seq);
    ck_assert(!sl_standby_may_evaluate(&t.s)); // one is left to sample
    sample(&t, 1);
    ck_assert(sl_standby_may_evaluate(&t.s));
    ck_assert(!may(&t)); // the update has no place for a second trainer
    sl_arena_pause(&t.f.arena, true);
    ck_assert(!sl_standby_may_evaluate(&t.s));
    sl_arena_pause(&t.f.arena, false);
    struct sl_lease l;
    ck_assert_int_eq(sl_ledger_claim_beside(&t.f.arena, 9, SL_OCCUPATION_ASIDE, 0, &l), SL_OK);
    ck_assert(!sl_standby_may_evaluate(&t.s));
    ck_assert_int_eq(sl_ledger_complete(&t.f.arena, &l), SL_OK);
    scene_fini(&t);
}

TEST(device_must_be_free_of_sampling)
{
    struct scene t;
    scene_init_plain(&t, 4);
    farm_open_train(&t.f, 0);
    sample(&t, farm_batches(&t.f) - 1);
    ck_assert(!may(&t)); // one is left to sample
    sl_seat_set_activity(&t.f.arena, DEVICE, SL_ACTIVITY_BLOCKED);
    ck_assert(may(&t));
    sl_seat_set_activity(&t.f.arena, DEVICE, SL_ACTIVITY_NONE);
    ck_assert(!may(&t)); // it starts again
    sl_seat_set_duty(&t.f.arena, DEVICE, SL_DUTY_NONE);
    ck_assert(may(&t)); // nobody samples there any more
    sl_seat_set_duty(&t.f.arena, DEVICE, SL_DUTY_WORK);
    sl_seat_set_activity(&t.f.arena, DEVICE, SL_ACTIVITY_BUSY);
    ck_assert(!may(&t));
    sample(&t, 1);
    ck_assert(may(&t));
    scene_fini(&t);
}

TEST(profit_must_be_positive_and_twice_for_a_claim_ahead)
{
    struct scene t;
    scene_init_plain(&t, 4);
    farm_open_train(&t.f, 0);
    sample(&t, farm_batches(&t.f)); // 7, times unknown
    claim(&t, 4);                   // 3 left: 3 - 2 > 0
    ck_assert(may(&t) && may_ahead(&t));
    claim(&t, 1); // 2 left: 2 - 1 > 0, 2 - 2 = 0
    ck_assert(may(&t) && !may_ahead(&t));
    claim(&t, 1);
    ck_assert(!may(&t));
    scene_fini(&t);
}

TEST(measured_times_count)
{
    struct scene t;
    scene_init_plain(&t, 8);
    farm_open_train(&t.f, 0);
    sample(&t, farm_batches(&t.f));
    claim(&t, 3); // 4 left
    atomic_store(&t.schedule->t_train_ns, 10);
    atomic_store(&t.schedule->t_standby_ns, 39);
    ck_assert(may(&t) && !may_ahead(&t)); // 40 - 39, 40 - 78
    atomic_store(&t.schedule->t_standby_ns, 40);
    ck_assert(!may(&t));
    atomic_store(&t.schedule->trainers, 2);
    atomic_store(&t.schedule->t_standby_ns, 19);
    ck_assert(may(&t));
    atomic_store(&t.schedule->t_standby_ns, 20);
    ck_assert(!may(&t));
    // One alone tells nothing: both count as equal.
    atomic_store(&t.schedule->t_standby_ns, 0);
    ck_assert(may(&t));
    scene_fini(&t);
}

TEST(without_trainers_it_always_works_until_the_phase_is_over)
{
    struct scene t;
    scene_init_plain(&t, 1);
    atomic_store(&t.schedule->trainers, 0);
    farm_open_train(&t.f, 0);
    ck_assert(!may(&t)); // but not while there is something to sample
    sample(&t, farm_batches(&t.f));
    ck_assert(may(&t) && may_ahead(&t));
    claim(&t, farm_batches(&t.f));
    ck_assert(may(&t)); // somebody must apply the last update
    scene_fini(&t);
}

TEST(gated_and_presampling_phases_are_none_of_its_business)
{
    struct scene t;
    scene_init_plain(&t, 4);
    farm_order(&t.f, 0, sl_arena_order(&t.f.arena, 0));
    struct sl_phase_spec spec = {.kind = SL_PHASE_PRESAMPLE,
                                 .set = SL_SET_TRAIN,
                                 .batch_size = 50,
                                 .n_items = t.f.g->ds.split[SL_SPLIT_TRAIN].n};
    farm_open(&t.f, &spec);
    struct sl_lease lease;
    ck_assert_int_eq(sl_ledger_claim_sample(&t.f.arena, FARM_SAMPLER, SL_AHEAD_ALL, 0, &lease),
                     SL_OK);
    ck_assert(!may(&t));
    ck_assert_int_eq(sl_ledger_complete(&t.f.arena, &lease), SL_OK);
    spec.kind = SL_PHASE_TRAIN;
    spec.gated = 1;
    spec.batch_size = 8;
    uint64_t seq = farm_open(&t.f, &spec);
    sample(&t, farm_batches(&t.f));
    ck_assert(!may(&t));
    sl_ledger_open_gate(&t.f.arena, seq);
    ck_assert(may(&t));
    scene_fini(&t);
}

static void put_standby(struct scene *t, uint32_t device, enum sl_activity activity)
{
    sl_seat_set_duty(&t->f.arena, sl_seat_trainer(&t->f.arena, device), SL_DUTY_STANDBY);
    sl_seat_set_activity(&t->f.arena, sl_seat_trainer(&t->f.arena, device), activity);
}

LOOP_TEST(no_more_of_them_than_batches_that_run_at_once, 0, 2)
{
    // Ordered with 3 batches an update, or async with a bound of 2: three places.
    struct sl_config c = farm_job(_i ? 1 : 3);
    c.updates.mode = _i ? SL_UPDATE_ASYNC : SL_UPDATE_ORDERED;
    c.updates.staleness = 2;
    struct scene t;
    scene_init(&t, &c);
    farm_open_train(&t.f, 0);
    sample(&t, farm_batches(&t.f));
    atomic_store(&t.schedule->trainers, 3);
    ck_assert(!may(&t));
    atomic_store(&t.schedule->trainers, 2);
    ck_assert(may(&t));
    put_standby(&t, 1, SL_ACTIVITY_ASLEEP);
    ck_assert(may(&t));
    put_standby(&t, 1, SL_ACTIVITY_BUSY);
    ck_assert(!may(&t)); // the third place is taken
    // Both woke for it: the one on the first device keeps it.
    sl_seat_set_activity(&t.f.arena, t.s.number, SL_ACTIVITY_BUSY);
    ck_assert(may(&t));
    struct sl_standby other;
    sl_standby_init(&other, &t.f.arena, 1);
    ck_assert(!sl_standby_may_fetch(&other, false));
    scene_fini(&t);
}

LOOP_TEST(evaluation_is_shared_while_more_is_left_than_trainers, 0, 2)
{
    struct scene t;
    scene_init_plain(&t, 1);
    atomic_store(&t.schedule->trainers, 2);
    atomic_store(&t.schedule->t_train_ns, 1);
    atomic_store(&t.schedule->t_standby_ns, 1000); // of training: none of its business
    const struct sl_phase_spec spec = {.kind = _i ? SL_PHASE_INFER : SL_PHASE_EVAL,
                                       .set = _i ? SL_SET_ALL : SL_SET_VAL,
                                       .batch_size = 10,
                                       .n_items = 50};
    farm_open(&t.f, &spec);
    if (!_i) {
        ck_assert(!may(&t));
        sample(&t, 5);
    }
    ck_assert(may(&t) && may_ahead(&t)); // 5 left: 5 / 2 - 2 > 0
    claim(&t, 1);
    ck_assert(may(&t) && !may_ahead(&t));
    claim(&t, 1);
    ck_assert(may(&t));
    claim(&t, 1);
    ck_assert(!may(&t)); // 2 left for 2 trainers
    scene_fini(&t);
}

TEST(switches_are_counted_where_a_standby_trainer_wakes)
{
    struct scene t;
    scene_init_plain(&t, 4);
    sl_standby_wake(&t.s);
    sl_standby_wake(&t.s);
    ck_assert_uint_eq(atomic_load(&t.s.seat->switches), 1);
    ck_assert_uint_eq(sl_seat_awake(&t.f.arena), 1);
    sl_standby_sleep(&t.s);
    ck_assert_uint_eq(sl_seat_awake(&t.f.arena), 0);
    sl_standby_wake(&t.s);
    ck_assert_uint_eq(atomic_load(&t.s.seat->switches), 2);
    sl_standby_sleep(&t.s);
    sl_seat_set_duty(&t.f.arena, t.s.number, SL_DUTY_WORK); // called to duty: no switch
    sl_standby_wake(&t.s);
    ck_assert_uint_eq(atomic_load(&t.s.seat->switches), 2);
    scene_fini(&t);
}

// --- in the loop ---

static uint32_t trained_by_standby(struct farm *f, uint64_t seq)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < farm_batches(f); i++)
        n += sl_ledger_entry(&f->arena, seq, i)->standby;
    return n;
}

static bool is_asleep(struct farm *f, uint32_t device)
{
    return atomic_load(&farm_seat(f, device)->activity) == SL_ACTIVITY_ASLEEP;
}

// One without work, one after it had some, one that waits for an epoch to be sampled.
LOOP_TEST(asleep_it_does_not_look_around, 0, 3)
{
    struct farm f;
    farm_init_plain(&f, 4);
    farm_start(&f, DEVICE, SL_DUTY_STANDBY);
    if (_i > 0) {
        uint64_t seq = farm_open_train(&f, 0);
        for (uint32_t i = 0; i < farm_batches(&f); i++)
            farm_sample_one(&f);
        farm_wait(&f, seq);
        ck_assert_uint_eq(trained_by_standby(&f, seq), farm_batches(&f));
    }
    if (_i > 1)
        farm_open_train(&f, 1); // and nobody samples it
    farm_until(is_asleep(&f, DEVICE));
    farm_until(sl_event_sleeping_ms() == 2 * SL_STANDBY_WAIT_MS); // both threads, as long as may be
    uint64_t expired = sl_event_expired();
    farm_stop_trainer(&f, &f.trainer[0]);
    ck_assert_uint_eq(sl_event_expired(), expired); // both were woken
    farm_fini(&f);
}

TEST(abort_wakes_it)
{
    struct farm f;
    farm_init_plain(&f, 4);
    farm_start(&f, DEVICE, SL_DUTY_STANDBY);
    farm_until(is_asleep(&f, DEVICE));
    farm_until(sl_event_sleeping_ms() == 2 * SL_STANDBY_WAIT_MS);
    uint64_t expired = sl_event_expired();
    farm_fini(&f);
    ck_assert_uint_eq(sl_event_expired(), expired); // both threads were woken
}

static const uint64_t ASLEEP_NS = 3600000000000;

// A single device: sampler and standby trainer in turn, once an epoch.
TEST(alone_it_trains_every_epoch_once_it_is_sampled)
{
    struct farm f;
    farm_init_plain(&f, 3);
    float *wanted = oracle_train(&f);
    farm_start(&f, DEVICE, SL_DUTY_STANDBY);
    farm_start_sampler(&f);
    farm_until(is_asleep(&f, DEVICE));
    for (uint32_t epoch = 0; epoch < ORACLE_EPOCHS; epoch++) {
        uint64_t seq = farm_open_train(&f, epoch);
        farm_wait(&f, seq);
        oracle_check_entries(&f, seq);
        ck_assert_uint_eq(trained_by_standby(&f, seq), farm_batches(&f));
        farm_until(is_asleep(&f, DEVICE));
        sl_clock_advance(ASLEEP_NS); // sleep is no waiting for a batch
        ck_assert_uint_lt(sl_ledger_entry(&f.arena, seq, 0)->train_wait_ns, ASLEEP_NS);
        ck_assert_uint_eq(atomic_load(&farm_seat(&f, DEVICE)->switches), epoch + 1);
    }
    oracle_compare(&f, wanted);
    farm_fini(&f);
    free(wanted);
}

static bool has_queued(struct farm *f)
{
    struct sl_ledger_depth depth;
    sl_ledger_depth(&f->arena, &depth);
    return depth.queued > 0;
}

// A slow trainer, which has the first batch, and standby trainers that wake and sleep as it pays.
TEST(standby_trainers_that_come_and_go_change_no_bit)
{
    struct sl_config c = farm_job(4);
    c.throttle.train = 0.005;
    c.throttle.standby = 0.002;
    struct farm f;
    farm_init_small(&f, &c, sl_kernels_ref());
    atomic_store(&sl_schedule_of(&f.arena)->t_train_ns, 5000000);
    atomic_store(&sl_schedule_of(&f.arena)->t_standby_ns, 2000000);
    float *wanted = oracle_train(&f);
    farm_start_trainer(&f);
    uint32_t helped = 0;
    for (uint32_t epoch = 0; epoch < ORACLE_EPOCHS; epoch++) {
        uint64_t seq = farm_open_train(&f, epoch);
        if (epoch == 0) {
            farm_sample_one(&f);
            farm_until(!has_queued(&f)); // the slow one has it
            farm_start(&f, DEVICE, SL_DUTY_STANDBY);
            farm_start(&f, 1, SL_DUTY_STANDBY);
            farm_start_sampler(&f);
        }
        farm_wait(&f, seq);
        oracle_check_entries(&f, seq);
        helped += trained_by_standby(&f, seq);
        for (uint32_t i = 0; i < farm_batches(&f); i++) {
            const struct sl_batch_entry *e = sl_ledger_entry(&f.arena, seq, i);
            ck_assert_uint_ge(e->train_ns, e->standby ? 2000000 : 5000000);
        }
    }
    farm_until(is_asleep(&f, DEVICE) && is_asleep(&f, 1));
    ck_assert_uint_gt(helped, 0);
    ck_assert_uint_lt(helped, ORACLE_EPOCHS * farm_batches(&f));
    ck_assert_uint_gt(atomic_load(&farm_seat(&f, DEVICE)->switches) +
                          atomic_load(&farm_seat(&f, 1)->switches),
                      0);
    ck_assert_uint_eq(atomic_load(&farm_seat(&f, FARM_DEVICES - 1)->activity), SL_ACTIVITY_BUSY);
    oracle_compare(&f, wanted);
    farm_fini(&f);
    free(wanted);
}

TEST(it_helps_with_evaluation)
{
    struct farm f;
    farm_init_plain(&f, 1); // no place for it in training
    farm_start_trainer(&f);
    struct sl_loss_result before = farm_infer(&f, SL_SET_VAL, SL_PARAMS_CURRENT, 3);
    farm_start(&f, DEVICE, SL_DUTY_STANDBY);
    farm_until(is_asleep(&f, DEVICE));
    uint32_t rounds = 0;
    do { // it takes a while to wake: sooner or later it has its share
        struct sl_loss_result with = farm_infer(&f, SL_SET_VAL, SL_PARAMS_CURRENT, 3);
        ck_assert_uint_eq(with.correct, before.correct);
        ck_assert_double_eq_tol(with.loss, before.loss, 1e-9 * before.loss);
        ck_assert_uint_lt(++rounds, 1000);
    } while (atomic_load(&farm_seat(&f, DEVICE)->switches) < 3);
    farm_until(is_asleep(&f, DEVICE));
    farm_fini(&f);
}

RUN_TESTS(.quiet = true, .timeout_s = 120)
