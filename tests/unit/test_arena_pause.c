// A paused arena: nobody claims, everybody finishes, and the word is seen at once.
#include "tests/unit/suite.h"
#include "tests/unit/test_arena_fixture.h"

#include <pthread.h>

#include "common/base/clock.h"

enum { N_CELLS = 20000, TIMEOUT_S = 60 };

static const uint64_t S = 1000000000;

static void setup(void)
{
    const struct sl_arena_spec spec = {.n_devices = 2,
                                       .n_cells = N_CELLS,
                                       .n_train = 8,
                                       .n_params = 5,
                                       .n_state = 2,
                                       .batches_per_update = 2,
                                       .payload_bytes = 8 * SL_ARENA_CHUNK_BYTES};
    create_arena(&spec);
}

TEST(nobody_claims_while_it_is_paused)
{
    struct sl_lease l;
    open_train(3, 0, 0);
    sample_and_publish(1);
    sl_arena_pause(&arena, true);
    ck_assert(sl_arena_paused(&arena));
    ck_assert_int_eq(sl_ledger_claim_sample(&arena, 1, SL_AHEAD_ALL, 10, &l), SL_ETIMEDOUT);
    ck_assert_int_eq(sl_ledger_claim_train(&arena, 2, 10, &l), SL_ETIMEDOUT);
    sl_arena_pause(&arena, false);
    ck_assert_uint_eq(claim(1).cell, 1);
    ck_assert_uint_eq(claim_train(2).cell, 0);
}

TEST(what_is_in_hand_is_finished)
{
    open_train(2, 0, 0);
    sample_and_publish(1);
    struct sl_lease trained = claim_train(2), drawn = sample(1);
    sl_arena_pause(&arena, true);
    ck_assert_int_eq(sl_ledger_publish(&arena, &drawn), SL_OK);
    ck_assert_int_eq(sl_ledger_complete(&arena, &trained), SL_OK);
    struct sl_ledger_depth depth;
    sl_ledger_depth(&arena, &depth);
    ck_assert_uint_eq(depth.batches[SL_CELL_READY], 1);
    ck_assert_uint_eq(depth.batches[SL_CELL_DONE], 1);
}

TEST(a_death_is_taken_back_and_waits_too)
{
    struct sl_lease l;
    open_train(2, 0, 0);
    claim(1);
    sl_arena_pause(&arena, true);
    reclaim(1);
    ck_assert_int_eq(sl_ledger_claim_sample(&arena, 3, SL_AHEAD_ALL, 10, &l), SL_ETIMEDOUT);
    sl_arena_pause(&arena, false);
    ck_assert_uint_eq(claim(3).cell, 0);
}

static void *claim_in_the_pause(void *arg)
{
    struct sl_lease *l = arg;
    ck_assert_int_eq(sl_ledger_claim_sample(&arena, 1, SL_AHEAD_ALL, FOR_EVER_MS, l), SL_OK);
    return NULL;
}

TEST(whoever_waits_is_woken_when_it_goes_on)
{
    pthread_t thread;
    struct sl_lease l;
    open_train(2, 0, 0);
    sl_arena_pause(&arena, true);
    ck_assert_int_eq(pthread_create(&thread, NULL, claim_in_the_pause, &l), 0);
    until_asleep(&arena.h->work, 1);
    struct sl_event *told[] = {&arena.h->work, &arena.h->progress};
    uint32_t seen[] = {told[0]->count, told[1]->count};
    sl_arena_pause(&arena, false);
    for (int i = 0; i < 2; i++)
        ck_assert_msg(rang(told[i], &seen[i]), "event %d is not signalled", i);
    pthread_join(thread, NULL);
    ck_assert_uint_eq(l.cell, 0);
}

TEST(an_abort_ends_a_pause)
{
    struct sl_lease l;
    open_train(2, 0, 0);
    sl_arena_pause(&arena, true);
    sl_arena_abort(&arena, SL_ABORT_STOP);
    ck_assert_int_eq(sl_ledger_claim_sample(&arena, 1, SL_AHEAD_ALL, FOR_EVER_MS, &l), SL_EABORTED);
    ck_assert_int_eq(sl_ledger_claim_train(&arena, 2, FOR_EVER_MS, &l), SL_EABORTED);
}

TEST(pauses_are_summed_up)
{
    sl_arena_pause(&arena, false); // none has begun
    ck_assert_uint_eq(atomic_load(&arena.h->paused_ns), 0);
    for (int i = 0; i < 2; i++) {
        sl_clock_advance(10000 * S); // nor is this a pause
        sl_arena_pause(&arena, true);
        sl_clock_advance(1000 * S);
        sl_arena_pause(&arena, true); // it is paused already
        sl_clock_advance(1000 * S);
        sl_arena_pause(&arena, false);
        sl_clock_advance(10000 * S);
        sl_arena_pause(&arena, false);
    }
    // What this test itself takes is less than its time-out.
    uint64_t all = atomic_load(&arena.h->paused_ns);
    ck_assert_msg(all >= 4000 * S && all < (4000 + TIMEOUT_S) * S, "%.3f s", (double)all * 1e-9);
}

// --- the depth of a long phase, which is asked for several times a second ---

TEST(a_long_phase_is_counted_in_full)
{
    struct sl_ledger_depth depth;
    open_train(N_CELLS, 0, 0);
    for (int i = 0; i < 5; i++)
        sample_and_publish(1);
    struct sl_lease l = claim_train(2);
    ck_assert_int_eq(sl_ledger_complete(&arena, &l), SL_OK);
    claim_train(2);
    claim(1);
    sl_ledger_depth(&arena, &depth);
    ck_assert_uint_eq(depth.batches[SL_CELL_DONE], 1);
    ck_assert_uint_eq(depth.batches[SL_CELL_TRAINING], 1);
    ck_assert_uint_eq(depth.batches[SL_CELL_READY], 3);
    ck_assert_uint_eq(depth.batches[SL_CELL_SAMPLING], 1);
    ck_assert_uint_eq(depth.batches[SL_CELL_PENDING], N_CELLS - 6);
    ck_assert_uint_eq(depth.queued_bytes, 3 * SL_ARENA_CHUNK_BYTES);
}

TEST(a_gap_of_batches_that_came_back_hides_nothing)
{
    struct sl_lease held[64];
    struct sl_ledger_depth depth;
    open_train(N_CELLS, 0, 0);
    for (int i = 0; i < 64; i++)
        held[i] = claim(i < 60 ? 1 : 2);
    reclaim(1); // sixty are pending again, in front of four
    sl_ledger_depth(&arena, &depth);
    ck_assert_uint_eq(depth.batches[SL_CELL_SAMPLING], 4);
    ck_assert_uint_eq(depth.batches[SL_CELL_PENDING], N_CELLS - 4);
    ck_assert_uint_eq(held[63].cell, 63);
}

RUN_TESTS(.setup = setup, .teardown = destroy_arena, .timeout_s = TIMEOUT_S)
