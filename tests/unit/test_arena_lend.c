// Batches that are lent to external trainers: by rank or to whoever comes, left and taken over.
#include "tests/unit/suite.h"
#include "tests/unit/test_arena_fixture.h"

enum { SAMPLER = 1, FIRST = 11, SECOND = 12, CELLS_MAX = 8 };

static void open_arena(uint32_t world)
{
    const struct sl_arena_spec spec = {
        .n_devices = 2,
        .n_cells = CELLS_MAX,
        .world = world,
        .batches_per_update = 1,
        .payload_bytes = 4 * CELLS_MAX * SL_ARENA_CHUNK_BYTES,
    };
    create_arena(&spec);
}

// The second of two nodes, with two ranks: its cells are 1, 3, 5, ...
static void on_a_node(void)
{
    const struct sl_arena_spec spec = {
        .n_devices = 2,
        .n_cells = CELLS_MAX,
        .world = 2,
        .batches_per_update = 2,
        .nodes = {.n = 2, .rank = 1},
        .payload_bytes = 4 * CELLS_MAX * SL_ARENA_CHUNK_BYTES,
    };
    create_arena(&spec);
}

static void in_turn(void)
{
    open_arena(2);
}

static void dynamic(void)
{
    open_arena(0);
}

// Epoch `epoch` of n batches of 10 vertices.
static uint64_t lend(uint32_t epoch, uint32_t n)
{
    const struct sl_phase_spec p = {
        .kind = SL_PHASE_LEND, .epoch = epoch, .batch_size = 10, .n_items = 10 * n};
    uint64_t seq = 0;
    ck_assert_int_eq(sl_ledger_open_phase(&arena, &p, &seq), SL_OK);
    return seq;
}

static void draw(uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        sample_and_publish(SAMPLER);
}

static int ask(uint32_t worker, uint32_t epoch, struct sl_lease *out)
{
    return sl_ledger_claim_lent(&arena, worker, worker - FIRST, epoch, 0, out);
}

static struct sl_lease borrow(uint32_t worker, uint32_t epoch, uint32_t cell)
{
    struct sl_lease l = {0};
    ck_assert_int_eq(ask(worker, epoch, &l), SL_OK);
    ck_assert_uint_eq(l.phase->spec.epoch, epoch);
    ck_assert_uint_eq(l.cell, cell);
    return l;
}

static void complete(struct sl_lease l)
{
    ck_assert_int_eq(sl_ledger_complete(&arena, &l), SL_OK);
}

static void expect(uint32_t worker, uint32_t epoch, int rc)
{
    struct sl_lease none;
    ck_assert_int_eq(ask(worker, epoch, &none), rc);
}

static uint32_t count_left(uint64_t seq, uint32_t n)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < n; i++)
        left += sl_ledger_entry(&arena, seq, i)->left;
    return left;
}

static uint64_t payload_bytes(void)
{
    struct sl_ledger_depth d;
    sl_ledger_depth(&arena, &d);
    return d.payload_bytes;
}

CASE(.setup = in_turn, .teardown = destroy_arena)

TEST(each_rank_gets_its_own_cells_in_order)
{
    uint64_t seq = lend(0, 5);
    struct sl_lease none;
    expect(FIRST, 0, SL_ETIMEDOUT); // nothing is drawn
    draw(5);
    struct sl_lease second = borrow(SECOND, 0, 1), first = borrow(FIRST, 0, 0);
    complete(borrow(SECOND, 0, 3));
    expect(SECOND, 0, SL_ERANGE); // it has one in hand, and there are no others of its
    complete(borrow(FIRST, 0, 2));
    complete(borrow(FIRST, 0, 4));
    complete(first);
    expect(FIRST, 0, SL_ERANGE);
    ck_assert(!sl_ledger_phase_complete(&arena, seq));
    complete(second);
    ck_assert(sl_ledger_phase_complete(&arena, seq));
    ck_assert_int_eq(sl_ledger_claim_train(&arena, FIRST, 0, &none), SL_ETIMEDOUT);
    ck_assert_uint_eq(count_left(seq, 5), 0);
    ck_assert_uint_eq(payload_bytes(), 0);
    ck_assert_uint_eq(sl_param_store_version(&arena), 0);
}

TEST(what_is_lent_is_no_trainers_of_the_jobs_own)
{
    struct sl_lease none;
    lend(0, 1);
    draw(1);
    ck_assert_int_eq(sl_ledger_claim_train(&arena, FIRST, 0, &none), SL_ETIMEDOUT);
}

TEST(an_epoch_begins_when_the_one_before_is_over_for_all)
{
    lend(0, 2);
    uint64_t next = lend(1, 2);
    struct sl_ledger_lent lent;
    draw(4);
    complete(borrow(FIRST, 0, 0));
    expect(FIRST, 0, SL_ERANGE);
    expect(FIRST, 1, SL_ETIMEDOUT);
    complete(borrow(SECOND, 0, 1));
    ck_assert(sl_ledger_look_lent(&arena, &lent));
    ck_assert_uint_eq(lent.seq, next);
    ck_assert_uint_eq(lent.epoch, 1);
    ck_assert_uint_eq(lent.n_cells, 2);
    expect(SECOND, 0, SL_ERANGE);
    complete(borrow(FIRST, 1, 0));
}

TEST(the_successor_gets_what_a_dead_rank_had)
{
    struct sl_reclaimed r;
    lend(0, 4);
    draw(4);
    complete(borrow(FIRST, 0, 0));
    struct sl_lease lost = borrow(SECOND, 0, 1);
    complete(borrow(FIRST, 0, 2));
    sl_ledger_reclaim(&arena, SECOND, &r);
    ck_assert_uint_eq(r.retrain, 1);
    expect(FIRST, 0, SL_ERANGE); // it is not another's
    ck_assert_int_eq(sl_ledger_complete(&arena, &lost), SL_ESTALE);
    struct sl_lease l;
    ck_assert_int_eq(sl_ledger_claim_lent(&arena, SECOND + 5, 1, 0, 0, &l), SL_OK);
    ck_assert_uint_eq(l.cell, 1);
}

// -1: nobody is.
static int absent(void)
{
    uint32_t rank;
    return sl_ledger_rank_is_absent(&arena, &rank) ? (int)rank : -1;
}

TEST(who_is_absent_is_known)
{
    struct sl_reclaimed r;
    ck_assert_int_eq(absent(), -1); // nothing is lent
    lend(0, 4);
    ck_assert_int_eq(absent(), 0);
    sl_ledger_sit(&arena, 0, FIRST);
    ck_assert_int_eq(absent(), 1);
    sl_ledger_sit(&arena, 1, SECOND);
    ck_assert_int_eq(absent(), -1);
    sl_ledger_reclaim(&arena, SECOND, &r);
    ck_assert_int_eq(absent(), 1);
    sl_ledger_sit(&arena, 1, SECOND + 1);
    sl_ledger_stand_up(&arena, SECOND); // long after
    ck_assert_int_eq(absent(), -1);
    sl_ledger_stand_up(&arena, SECOND + 1);
    draw(4);
    complete(borrow(SECOND, 0, 1));
    ck_assert_int_eq(absent(), 1);
    sl_ledger_leave(&arena, 1, 1, 0); // nothing of it is waited for
    ck_assert_int_eq(absent(), -1);
}

TEST(a_batch_that_is_given_back_comes_again)
{
    lend(0, 2);
    draw(2);
    struct sl_lease l = borrow(FIRST, 0, 0);
    sl_ledger_return(&arena, &l);
    expect(FIRST, 1, SL_ETIMEDOUT);
    complete(borrow(FIRST, 0, 0));
    expect(FIRST, 0, SL_ERANGE);
}

// Batches in all states: in hand, ready, being drawn, pending.
TEST(what_a_rank_leaves_is_done_unseen)
{
    uint64_t seq = lend(0, 8);
    struct sl_lease none;
    draw(4);
    struct sl_lease held = borrow(FIRST, 0, 0), drawing = sample(SAMPLER); // cell 4
    sl_ledger_leave(&arena, 0, 1, 0);
    sl_ledger_leave(&arena, 0, 0, 3); // never back
    ck_assert_int_eq(sl_ledger_claim_sample(&arena, SAMPLER, SL_AHEAD_ALL, 0, &none), SL_OK);
    ck_assert_uint_eq(none.cell, 5); // of the other rank: 6 is passed next
    sl_ledger_return(&arena, &none);
    expect(FIRST, 0, SL_ERANGE);
    complete(held); // which it has consumed
    ck_assert_int_eq(sl_ledger_publish(&arena, &drawing), SL_OK);
    draw(2); // 5 and 7
    for (uint32_t cell = 1; cell < 8; cell += 2)
        complete(borrow(SECOND, 0, cell)); // and what is left on the way
    expect(SECOND, 0, SL_ERANGE);
    ck_assert(sl_ledger_phase_complete(&arena, seq));
    ck_assert_uint_eq(count_left(seq, 8), 3);
    ck_assert_uint_eq(sl_ledger_entry(&arena, seq, 0)->left, 0);
    ck_assert_uint_eq(payload_bytes(), 0);
}

TEST(an_epoch_that_all_leave_ends_without_a_trainer_once_nothing_is_drawn)
{
    uint64_t seq = lend(0, 8), next = lend(1, 2);
    struct sl_lease l;
    sl_ledger_leave(&arena, 0, 1, 0);
    sl_ledger_leave(&arena, 1, 1, 0);
    ck_assert_int_eq(sl_ledger_claim_sample(&arena, SAMPLER, SL_AHEAD_ALL, 0, &l), SL_OK);
    ck_assert_uint_eq(l.seq, next);
    ck_assert(sl_ledger_phase_complete(&arena, seq));
    ck_assert_uint_eq(count_left(seq, 8), 8);
}

TEST(a_trainer_begins_in_the_middle_of_an_epoch)
{
    lend(0, 2);
    lend(1, 6);
    sl_ledger_leave(&arena, 0, 1, 3);
    sl_ledger_leave(&arena, 1, 1, 3);
    draw(3);
    expect(FIRST, 0, SL_ERANGE);
    complete(borrow(FIRST, 1, 4));
    complete(borrow(SECOND, 1, 3));
    complete(borrow(SECOND, 1, 5));
}

TEST(the_end_of_the_last_epoch_comes_before_that_of_the_job)
{
    lend(0, 1);
    draw(1);
    complete(borrow(FIRST, 0, 0));
    sl_arena_abort(&arena, SL_ABORT_STOP);
    expect(FIRST, 0, SL_ERANGE);
    expect(FIRST, 1, SL_EABORTED);
}

TEST(a_batch_that_must_be_drawn_anew_is_not_the_others)
{
    lend(0, 2);
    struct sl_lease l = sample(SAMPLER), none;
    ck_assert_int_eq(sl_ledger_complete(&arena, &l), SL_EINVAL); // nobody has left it
    sl_ledger_return(&arena, &l);
    ck_assert_int_eq(ask(SECOND, 0, &none), SL_ETIMEDOUT);
}

CASE(.setup = dynamic, .teardown = destroy_arena)

TEST(whoever_comes_first_gets_the_lowest)
{
    lend(0, 4);
    ck_assert_int_eq(absent(), -1); // whoever it is
    draw(4);
    struct sl_lease first = borrow(FIRST, 0, 0), second = borrow(SECOND, 0, 1);
    complete(borrow(FIRST, 0, 2));
    struct sl_lease third = borrow(FIRST, 0, 3);
    complete(first);
    expect(FIRST, 0, SL_ETIMEDOUT); // the other one's may come back
    expect(SECOND, 0, SL_ETIMEDOUT);
    reclaim(SECOND);
    ck_assert_int_eq(sl_ledger_complete(&arena, &second), SL_ESTALE);
    complete(borrow(FIRST, 0, 1));
    expect(FIRST, 0, SL_ERANGE);
    complete(third);
}

TEST(an_epoch_that_one_leaves_is_over_for_all)
{
    uint64_t seq = lend(0, 4);
    draw(4);
    struct sl_lease held = borrow(FIRST, 0, 0);
    sl_ledger_leave(&arena, 1, 1, 0);
    expect(FIRST, 0, SL_ERANGE);
    complete(held);
    ck_assert(sl_ledger_phase_complete(&arena, seq));
    ck_assert_uint_eq(count_left(seq, 4), 3);
}

CASE(.setup = on_a_node, .teardown = destroy_arena)

TEST(a_node_lends_its_own_cells_to_its_ranks_in_turn)
{
    const uint64_t seq = lend(0, 7);
    draw(3);
    ck_assert_int_eq(absent(), 0);
    complete(borrow(SECOND, 0, 3));
    expect(SECOND, 0, SL_ERANGE);
    complete(borrow(FIRST, 0, 1));
    sl_ledger_leave(&arena, 0, 0, 6); // 5 stands before it
    expect(FIRST, 0, SL_ERANGE);
    ck_assert(sl_ledger_phase_complete(&arena, seq));
    ck_assert_uint_eq(count_left(seq, 7), 4 + 1); // the other node's as well
}

RUN_TESTS(.timeout_s = 60)
