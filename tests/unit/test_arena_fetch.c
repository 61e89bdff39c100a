// Batches whose rows come from the drive: ready, fetching, staged, training.
#include "common/arena/row_cache.h"
#include "tests/unit/suite.h"
#include "tests/unit/test_arena_fixture.h"

enum { SAMPLER = 1, FETCHER = 5, TRAINER = 6, AHEAD = 3, CELLS = 6 };

static void setup(void)
{
    const struct sl_arena_spec spec = {
        .n_devices = 2,
        .n_cells = 16,
        .n_params = 5,
        .batches_per_update = 1,
        .payload_bytes = 8 * SL_ARENA_CHUNK_BYTES,
        .rows = {.n_rows = 100, .n_slots = 10, .n_widths = 1, .width[0] = {24, 10}, .window = 2},
        .fetch_ahead = AHEAD,
    };
    create_arena(&spec);
}

static void draw(uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        sample_and_publish(SAMPLER);
}

static struct sl_lease claim_fetch(void)
{
    struct sl_lease l;
    ck_assert_int_eq(sl_ledger_claim_fetch(&arena, FETCHER, 0, &l), SL_OK);
    return l;
}

static void expect_nothing_to_fetch(void)
{
    struct sl_lease l;
    ck_assert_int_eq(sl_ledger_claim_fetch(&arena, FETCHER, 0, &l), SL_ETIMEDOUT);
}

static void expect_nothing_to_train(void)
{
    struct sl_lease l;
    ck_assert_int_eq(sl_ledger_claim_train(&arena, TRAINER, 0, &l), SL_ETIMEDOUT);
}

static void fetch_next(uint32_t cell)
{
    struct sl_lease l = claim_fetch();
    ck_assert_uint_eq(l.cell, cell);
    ck_assert_int_eq(sl_ledger_stage(&arena, &l), SL_OK);
    ck_assert_int_eq(sl_ledger_stage(&arena, &l), SL_ESTALE); // once
}

static void train_next(uint32_t cell)
{
    struct sl_lease l = claim_train(TRAINER);
    struct sl_update u;
    ck_assert_uint_eq(l.cell, cell);
    ck_assert_int_eq(sl_ledger_complete(&arena, &l), SL_OK);
    while (sl_param_store_begin_update(&arena, TRAINER, &u) == SL_OK)
        sl_param_store_commit_update(&arena, &u);
}

static uint32_t state_of(uint64_t seq, uint32_t cell)
{
    return sl_cell_state(sl_ledger_word(&arena, seq, cell));
}

TEST(a_batch_is_staged_before_it_is_trained)
{
    uint64_t seq = open_train(CELLS, 0, 0);
    expect_nothing_to_fetch();
    draw(CELLS);
    expect_nothing_to_train();
    uint32_t seen = sl_event_read(&arena.h->progress);
    struct sl_lease l = claim_fetch();
    ck_assert_uint_eq(l.cell, 0);
    ck_assert_uint_eq(state_of(seq, 0), SL_CELL_FETCHING);
    ck_assert(sl_cell_is_leased(l.word));
    ck_assert(sl_ledger_works(&arena, FETCHER));
    expect_nothing_to_train();
    rang(&arena.h->progress, &seen);
    ck_assert_int_eq(sl_ledger_stage(&arena, &l), SL_OK);
    ck_assert(rang(&arena.h->progress, &seen)); // who trains is told
    ck_assert_uint_eq(state_of(seq, 0), SL_CELL_STAGED);
    struct sl_ledger_depth d;
    sl_ledger_depth(&arena, &d);
    ck_assert_uint_eq(d.queued, CELLS);
    ck_assert_uint_eq(d.queued_bytes, CELLS * SL_ARENA_CHUNK_BYTES);
    train_next(0);
    expect_nothing_to_train();
    destroy_arena();
}

TEST(no_more_batches_are_fetched_than_are_looked_ahead)
{
    uint64_t first = open_train(CELLS, 0, 0);
    draw(CELLS);
    for (uint32_t i = 0; i < AHEAD; i++)
        fetch_next(i);
    expect_nothing_to_fetch();
    uint32_t seen = sl_event_read(&arena.h->progress);
    struct sl_lease l = claim_train(TRAINER);
    ck_assert(rang(&arena.h->progress, &seen)); // one more may be fetched: who fetches is told
    fetch_next(AHEAD);
    expect_nothing_to_fetch();
    ck_assert_int_eq(sl_ledger_complete(&arena, &l), SL_OK);
    expect_nothing_to_fetch();
    // Beyond an epoch's end, and of one whose gate is closed.
    for (uint32_t i = 1; i <= 3; i++)
        train_next(i);
    fetch_next(4);
    fetch_next(5);
    open_train(2, CELLS, 1);
    draw(2);
    fetch_next(0);
    ck_assert_uint_eq(state_of(first + 1, 0), SL_CELL_STAGED);
    expect_nothing_to_fetch();
    destroy_arena();
}

// Inference has no rows to fetch, and pre-sampling keeps none.
TEST(other_phases_are_as_ever)
{
    open_phase(SL_PHASE_INFER, 2, 0, 0);
    uint64_t train = open_train(2, 0, 0);
    draw(2);
    fetch_next(0); // beyond it
    struct sl_lease l = claim_train(TRAINER);
    ck_assert_uint_lt(l.seq, train);
    ck_assert_int_eq(sl_ledger_complete(&arena, &l), SL_OK);
    ck_assert_uint_eq(sl_ledger_oldest_batch(&arena), 0);
    destroy_arena();
}

TEST(what_a_dead_worker_had_is_fetched_or_trained_again)
{
    uint64_t seq = open_train(CELLS, 0, 0);
    const struct sl_row_cache rows = sl_arena_rows(&arena);
    const struct sl_row_cache_use use = {.worker = FETCHER};
    draw(2);
    struct sl_lease fetched = claim_fetch(), trained;
    uint32_t slot;
    ck_assert_int_eq(sl_row_cache_take(&rows, rows.slots, &use, 3, false, &slot), SL_ROW_TAKEN);
    struct sl_reclaimed r;
    sl_ledger_reclaim(&arena, FETCHER, &r);
    ck_assert_uint_eq(r.refetch, 1);
    ck_assert_uint_eq(r.resample + r.retrain, 0);
    ck_assert_uint_eq(state_of(seq, 0), SL_CELL_READY);
    ck_assert_int_eq(sl_ledger_stage(&arena, &fetched), SL_ESTALE);
    ck_assert_uint_eq(atomic_load(&rows.slot[slot]) & 3, 0); // the slot is free again
    fetch_next(0);
    trained = claim_train(TRAINER);
    sl_ledger_reclaim(&arena, TRAINER, &r);
    ck_assert_uint_eq(r.retrain, 1);
    ck_assert_uint_eq(state_of(seq, 0), SL_CELL_STAGED);
    ck_assert_int_eq(sl_ledger_complete(&arena, &trained), SL_ESTALE);
    // The same where it is given back.
    trained = claim_train(TRAINER);
    sl_ledger_return(&arena, &trained);
    ck_assert_uint_eq(state_of(seq, 0), SL_CELL_STAGED);
    fetched = claim_fetch();
    ck_assert_uint_eq(fetched.cell, 1);
    sl_ledger_return(&arena, &fetched);
    ck_assert_uint_eq(state_of(seq, 1), SL_CELL_READY);
    train_next(0);
    destroy_arena();
}

// Memory is full of batches behind the next one: the newest goes, though it is staged.
TEST(a_staged_batch_is_given_up_for_an_older_one)
{
    uint64_t seq = open_train(8, 0, 0);
    struct sl_lease first = claim(SAMPLER);
    draw(7);
    struct sl_extent e;
    ck_assert_int_eq(sl_payload_alloc(&arena, &first, SL_ARENA_CHUNK_BYTES, 0, &e), SL_OK);
    sl_payload_free(&arena, first.tag, e.offset, e.bytes);
    struct sl_lease l = claim_fetch(); // of the three from the first on: two are drawn
    ck_assert_uint_eq(l.cell, 1);
    ck_assert_int_eq(sl_ledger_stage(&arena, &l), SL_OK);
    // Two chunks: one is free, the other is the youngest's.
    ck_assert_int_eq(sl_payload_alloc(&arena, &first, 2 * SL_ARENA_CHUNK_BYTES, 0, &e), SL_OK);
    ck_assert_uint_eq(state_of(seq, 7), SL_CELL_PENDING);
    // All of it: the one that is staged goes, too.
    sl_payload_free(&arena, first.tag, e.offset, e.bytes);
    ck_assert_int_eq(sl_payload_alloc(&arena, &first, 8 * SL_ARENA_CHUNK_BYTES, 0, &e), SL_OK);
    for (uint32_t i = 1; i < 8; i++)
        ck_assert_uint_eq(state_of(seq, i), SL_CELL_PENDING);
    destroy_arena();
}

TEST(batches_are_numbered_through_the_job)
{
    uint64_t first = open_train(CELLS, 0, 0), second = open_train(2, CELLS, 0);
    ck_assert_uint_eq(sl_phase_batch(&arena, sl_ledger_find(&arena, first), 0), 0);
    ck_assert_uint_eq(sl_phase_batch(&arena, sl_ledger_find(&arena, first), CELLS - 1), CELLS - 1);
    ck_assert_uint_eq(sl_phase_batch(&arena, sl_ledger_find(&arena, second), 1), CELLS + 1);
    ck_assert_uint_eq(sl_ledger_oldest_batch(&arena), 0);
    draw(CELLS);
    for (uint32_t i = 0; i < CELLS; i++) {
        fetch_next(i);
        train_next(i);
        ck_assert_uint_eq(sl_ledger_oldest_batch(&arena), i + 1);
    }
    ck_assert_uint_eq(sl_ledger_current(&arena, SL_LANE_MAIN), second);
    destroy_arena();
}

RUN_TESTS(.setup = setup)
