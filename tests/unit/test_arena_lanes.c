// Two lanes of phases in one ledger: who takes what, each lane in its own order, deaths on both.
#include "tests/unit/suite.h"
#include "tests/unit/test_arena_fixture.h"

enum { MAIN = 4 }; // batches of a training phase

static void setup(void)
{
    struct sl_arena_spec spec = {.n_devices = 3,
                                 .n_cells = 16,
                                 .n_train = 8,
                                 .n_params = 5,
                                 .n_state = 2,
                                 .batches_per_update = 1,
                                 .payload_bytes = 8 * SL_ARENA_CHUNK_BYTES};
    create_arena(&spec);
}

static uint64_t open_side(uint64_t n, uint32_t gated)
{
    struct sl_phase_spec p = {.kind = SL_PHASE_INFER,
                              .lane = SL_LANE_SIDE,
                              .params = SL_PARAMS_PINNED,
                              .gated = gated,
                              .batch_size = 1,
                              .n_items = n};
    uint64_t seq = 0;
    ck_assert_int_eq(sl_ledger_open_phase(&arena, &p, &seq), SL_OK);
    return seq;
}

// A training phase whose batches all lie ready.
static uint64_t open_sampled(uint64_t first_version)
{
    uint64_t seq = open_train(MAIN, first_version, 0);
    for (int i = 0; i < MAIN; i++)
        sample_and_publish(1);
    return seq;
}

static struct sl_lease take(uint32_t worker, enum sl_occupation does)
{
    struct sl_lease l;
    ck_assert_int_eq(sl_ledger_claim_beside(&arena, worker, does, 0, &l), SL_OK);
    return l;
}

static void expect(struct sl_lease l, uint64_t seq, uint32_t cell)
{
    ck_assert_uint_eq(l.seq, seq);
    ck_assert_uint_eq(l.cell, cell);
}

static void complete(struct sl_lease l)
{
    struct sl_update u;
    ck_assert_int_eq(sl_ledger_complete(&arena, &l), SL_OK);
    while (sl_param_store_begin_update(&arena, 9, &u) == SL_OK)
        sl_param_store_commit_update(&arena, &u);
}

static void finish(uint64_t seq, uint32_t n, enum sl_occupation does)
{
    for (uint32_t i = 0; i < n; i++) {
        struct sl_lease l = take(2, does);
        expect(l, seq, i);
        complete(l);
    }
}

TEST(who_can_not_train_at_once_takes_from_the_side)
{
    uint64_t side = open_side(2, 0), train = open_sampled(0);
    expect(take(2, SL_OCCUPATION_NONE), train, 0);
    expect(take(3, SL_OCCUPATION_NONE), side, 0); // batch 1 waits for version 1
    expect(take(4, SL_OCCUPATION_NONE), side, 1);
    expect(take(5, SL_OCCUPATION_NONE), train, 1); // better than nothing
}

TEST(who_trains_has_the_next_batch_ready)
{
    uint64_t side = open_side(2, 0), train = open_sampled(0);
    expect(take(2, SL_OCCUPATION_NONE), train, 0);
    expect(take(2, SL_OCCUPATION_TRAINS), train, 1);
    expect(take(2, SL_OCCUPATION_TRAINS), side, 0);
}

TEST(who_works_aside_stays_there)
{
    struct sl_lease l;
    uint64_t side = open_side(2, 0), train = open_sampled(0);
    expect(take(2, SL_OCCUPATION_ASIDE), side, 0);
    expect(take(2, SL_OCCUPATION_ASIDE), side, 1);
    ck_assert_int_eq(sl_ledger_claim_beside(&arena, 2, SL_OCCUPATION_ASIDE, 1, &l), SL_ETIMEDOUT);
    expect(take(2, SL_OCCUPATION_NONE), train, 0);
}

TEST(a_lane_is_in_order_and_does_not_wait_for_the_other)
{
    uint64_t first = open_side(2, 0), second = open_side(1, 0), train = open_sampled(0);
    struct sl_lease held = take(3, SL_OCCUPATION_ASIDE);
    complete(take(3, SL_OCCUPATION_ASIDE));
    finish(train, MAIN, SL_OCCUPATION_NONE); // nothing of `second` before `first` is complete
    ck_assert(sl_ledger_phase_complete(&arena, train));
    ck_assert(!sl_ledger_phase_complete(&arena, first));
    ck_assert_uint_eq(sl_ledger_oldest(&arena), first);
    ck_assert_uint_eq(sl_param_store_version(&arena), MAIN);
    complete(held);
    ck_assert(sl_ledger_phase_complete(&arena, first));
    finish(second, 1, SL_OCCUPATION_NONE);
    ck_assert(sl_ledger_phase_complete(&arena, second));
    ck_assert_uint_eq(sl_ledger_oldest(&arena), train + 1);
}

TEST(the_side_goes_on_while_the_main_lane_is_gated)
{
    uint64_t side = open_side(1, 1), train = open_train(1, 0, 1);
    struct sl_lease l;
    struct sl_ledger_ahead look;
    sample_and_publish(1);
    ck_assert_int_eq(sl_ledger_claim_train(&arena, 2, 1, &l), SL_ETIMEDOUT);
    sl_ledger_look_aside(&arena, &look);
    ck_assert(look.seq == side && look.gated && look.unclaimed == 1);
    sl_ledger_look_ahead(&arena, &look);
    ck_assert(look.seq == train && look.gated);
    sl_ledger_open_gate(&arena, side);
    finish(side, 1, SL_OCCUPATION_NONE);
    ck_assert_int_eq(sl_ledger_claim_train(&arena, 2, 1, &l), SL_ETIMEDOUT);
    sl_ledger_open_gate(&arena, train);
    finish(train, 1, SL_OCCUPATION_NONE);
}

TEST(deaths_give_back_what_was_held_of_both_lanes)
{
    uint64_t side = open_side(2, 0), train = open_sampled(0);
    struct sl_lease lost = take(7, SL_OCCUPATION_ASIDE);
    struct sl_reclaimed r;
    expect(take(7, SL_OCCUPATION_NONE), train, 0);
    struct sl_lease living = take(8, SL_OCCUPATION_ASIDE);
    ck_assert(sl_ledger_works(&arena, 8));
    sl_ledger_reclaim(&arena, 7, &r);
    ck_assert_uint_eq(r.retrain, 2);
    ck_assert_int_eq(sl_ledger_complete(&arena, &lost), SL_ESTALE);
    complete(living);
    expect(take(3, SL_OCCUPATION_NONE), train, 0);
    expect(take(3, SL_OCCUPATION_NONE), side, 0);
}

TEST(a_death_behind_the_other_lane_is_found)
{
    uint64_t side = open_side(1, 0), train = open_sampled(0);
    struct sl_reclaimed r;
    take(7, SL_OCCUPATION_ASIDE);
    finish(train, MAIN, SL_OCCUPATION_NONE);
    sl_ledger_reclaim(&arena, 7, &r); // the main lane is past the phase that it had a cell of
    ck_assert_uint_eq(r.retrain, 1);
    finish(side, 1, SL_OCCUPATION_NONE);
    ck_assert(sl_ledger_phase_complete(&arena, side));
}

TEST(a_slot_waits_for_both_lanes)
{
    struct sl_phase_spec p = {.kind = SL_PHASE_INFER, .batch_size = 1, .n_items = 1};
    uint64_t side = open_side(1, 0), seq = side;
    struct sl_lease held = take(2, SL_OCCUPATION_ASIDE);
    while (seq < side + SL_ARENA_PHASES - 1) {
        ck_assert_int_eq(sl_ledger_open_phase(&arena, &p, &seq), SL_OK);
        finish(seq, 1, SL_OCCUPATION_NONE);
    }
    ck_assert_int_eq(sl_ledger_open_phase(&arena, &p, &seq), SL_EAGAIN);
    complete(held);
    for (int round = 0; round < 5 * SL_ARENA_PHASES; round++) {
        p.lane = round % 3 == 0 ? SL_LANE_SIDE : SL_LANE_MAIN;
        ck_assert_int_eq(sl_ledger_open_phase(&arena, &p, &seq), SL_OK);
        finish(seq, 1, SL_OCCUPATION_NONE);
        ck_assert(sl_ledger_phase_complete(&arena, seq));
    }
    ck_assert_uint_eq(sl_ledger_oldest(&arena), seq + 1);
}

TEST(a_side_phases_end_and_gate_wake_standby_trainers)
{
    uint64_t side = open_side(1, 1);
    open_train(1, 0, 1);
    uint32_t seen = sl_event_read(&arena.h->work);
    sl_ledger_open_gate(&arena, side);
    ck_assert(rang(&arena.h->work, &seen));
    finish(side, 1, SL_OCCUPATION_NONE);
    ck_assert(rang(&arena.h->work, &seen));
}

TEST(the_side_has_inference_alone)
{
    struct sl_phase_spec p = {
        .kind = SL_PHASE_EVAL, .lane = SL_LANE_SIDE, .batch_size = 1, .n_items = 1};
    uint64_t seq;
    ck_assert_int_eq(sl_ledger_open_phase(&arena, &p, &seq), SL_EINVAL);
}

TEST(pinned_parameters_are_apart)
{
    float *const banks[] = {sl_param_store_params(&arena, 0), sl_param_store_params(&arena, 1),
                            sl_param_store_best(&arena), sl_param_store_pinned(&arena),
                            sl_param_store_gradient(&arena, 0)};
    for (int b = 0; b < 5; b++)
        for (int i = 0; i < 5; i++)
            banks[b][i] = (float)b;
    for (int b = 0; b < 5; b++)
        for (int i = 0; i < 5; i++)
            ck_assert_float_eq(banks[b][i], (float)b);
}

RUN_TESTS(.setup = setup, .teardown = destroy_arena)
