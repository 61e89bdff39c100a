// What a checkpoint is made of in the arena, and a phase that goes on where another run left it.
#include <string.h>

#include "tests/unit/suite.h"
#include "tests/unit/test_arena_fixture.h"

enum { CELLS = 12, PARAMS = 3 };

static void make(uint32_t async, uint32_t per_update)
{
    const struct sl_arena_spec spec = {.n_devices = 4,
                                       .n_cells = CELLS,
                                       .n_params = PARAMS,
                                       .n_state = 1,
                                       .async = async,
                                       .staleness = 3,
                                       .batches_per_update = per_update,
                                       .payload_bytes = CELLS * SL_ARENA_CHUNK_BYTES};
    create_arena(&spec);
}

static struct sl_cell_record record_of(uint32_t cell)
{
    return (struct sl_cell_record){.cell = cell,
                                   .n_seeds = 10,
                                   .n_input = 20 + cell,
                                   .digest = 1000 + cell,
                                   .n_edges = 50,
                                   .payload_bytes = 4096,
                                   .loss = 0.5 * cell,
                                   .weight = 10,
                                   .correct = cell,
                                   .counted = 10,
                                   .base_version = 3,
                                   .applied_version = 4};
}

// A phase of n cells, of which the given ones are done.
static uint64_t restore(uint32_t n, uint64_t first_version, const uint32_t *cells, uint32_t n_done)
{
    struct sl_cell_record records[CELLS];
    uint64_t seq = 0;
    const struct sl_phase_spec spec = {.kind = SL_PHASE_TRAIN,
                                       .batch_size = 10,
                                       .n_items = n * 10 - 3,
                                       .first_version = first_version};
    for (uint32_t i = 0; i < n_done; i++)
        records[i] = record_of(cells[i]);
    ck_assert_msg(sl_ledger_open_restored(&arena, &spec, records, n_done, &seq) == SL_OK, "%s",
                  sl_error_message());
    return seq;
}

static struct sl_lease next_sample(void)
{
    struct sl_lease l = sample(1);
    ck_assert_int_eq(sl_ledger_publish(&arena, &l), SL_OK);
    return l;
}

TEST(a_prefix_is_not_drawn_again)
{
    static const uint32_t done[] = {0, 1, 2, 3};
    make(0, 2);
    sl_param_store_restore(&arena, 12);
    uint64_t seq = restore(7, 10, done, 4);
    for (uint32_t cell = 4; cell < 7; cell++)
        ck_assert_uint_eq(next_sample().cell, cell);
    struct sl_lease none;
    ck_assert_int_eq(sl_ledger_claim_sample(&arena, 1, SL_AHEAD_ALL, 0, &none), SL_ETIMEDOUT);
    for (uint32_t cell = 4; cell < 7; cell++) {
        struct sl_lease l = claim_train(2);
        ck_assert_uint_eq(l.cell, cell);
        ck_assert_uint_eq(sl_param_store_cell_version(&arena, l.phase, cell), cell < 6 ? 12 : 13);
        ck_assert_int_eq(sl_ledger_complete(&arena, &l), SL_OK);
        apply_all(2);
    }
    ck_assert_uint_eq(sl_param_store_version(&arena), 14);
    ck_assert(sl_ledger_phase_complete(&arena, seq));
    destroy_arena();
}

TEST(entries_are_what_was_recorded)
{
    static const uint32_t done[] = {0, 5};
    struct sl_cell_record back, want = record_of(5);
    make(1, 1);
    sl_param_store_restore(&arena, 2);
    uint64_t seq = restore(8, 0, done, 2);
    const struct sl_batch_entry *e = sl_ledger_entry(&arena, seq, 5);
    ck_assert_uint_eq(e->restored, 1);
    ck_assert_uint_eq(sl_ledger_entry(&arena, seq, 4)->restored, 0);
    ck_assert_uint_eq(e->train_ns, 0);
    sl_ledger_record(&arena, seq, 5, &back);
    ck_assert_int_eq(memcmp(&back, &want, sizeof back), 0);
    destroy_arena();
}

TEST(any_set_of_batches_may_be_done)
{
    static const uint32_t done[] = {1, 2, 6};
    static const uint32_t rest[] = {0, 3, 4, 5};
    make(1, 1);
    sl_param_store_restore(&arena, 3);
    restore(7, 0, done, 3);
    for (int i = 0; i < 4; i++)
        ck_assert_uint_eq(next_sample().cell, rest[i]);
    for (int i = 0; i < 4; i++)
        ck_assert_uint_eq(claim_train(2).cell, rest[i]);
    destroy_arena();
}

TEST(a_phase_with_everything_done_is_complete_at_once)
{
    static const uint32_t done[] = {0, 1, 2};
    make(0, 2);
    sl_param_store_restore(&arena, 2);
    uint64_t seq = restore(3, 0, done, 3);
    ck_assert(sl_ledger_phase_complete(&arena, seq));
    // ... and one whose last update is not in the parameters is not.
    seq = restore(3, 2, done, 2);
    ck_assert(!sl_ledger_phase_complete(&arena, seq));
    destroy_arena();
}

TEST(records_that_the_phase_does_not_have_are_refused)
{
    struct sl_cell_record records[2] = {{.cell = 1}, {.cell = 3}};
    struct sl_phase_spec spec = {.kind = SL_PHASE_TRAIN, .batch_size = 10, .n_items = 30};
    uint64_t seq;
    make(0, 2);
    ck_assert_int_eq(sl_ledger_open_restored(&arena, &spec, records, 2, &seq), SL_EINVAL);
    records[1].cell = 1;
    ck_assert_int_eq(sl_ledger_open_restored(&arena, &spec, records, 2, &seq), SL_EINVAL);
    records[1].cell = 2;
    spec.kind = SL_PHASE_INFER;
    ck_assert_int_eq(sl_ledger_open_restored(&arena, &spec, records, 2, &seq), SL_EINVAL);
    spec.kind = SL_PHASE_TRAIN;
    ck_assert_int_eq(sl_ledger_open_restored(&arena, &spec, records, 2, &seq), SL_OK);
    destroy_arena();
}

// --- freezing ---

TEST(no_update_begins_while_the_board_is_frozen)
{
    struct sl_update u;
    make(0, 1);
    open_train(3, 0, 0);
    sample_and_publish(1);
    struct sl_lease l = claim_train(2);
    ck_assert_int_eq(sl_ledger_complete(&arena, &l), SL_OK);
    ck_assert_int_eq(sl_param_store_freeze(&arena, false), SL_OK);
    ck_assert_int_eq(sl_param_store_begin_update(&arena, 2, &u), SL_EAGAIN);
    sl_param_store_thaw(&arena);
    ck_assert_int_eq(sl_param_store_begin_update(&arena, 2, &u), SL_OK);
    // Now somebody applies: the broker does not wait.
    ck_assert_int_eq(sl_param_store_freeze(&arena, false), SL_EAGAIN);
    // ... unless that one is dead, like all others.
    ck_assert_int_eq(sl_param_store_freeze(&arena, true), SL_OK);
    ck_assert_uint_eq(sl_param_store_version(&arena), 0);
    sl_param_store_thaw(&arena);
    destroy_arena();
}

TEST(ordered_a_batch_is_applied_with_its_update)
{
    make(0, 2);
    uint64_t seq = open_train(5, 0, 0);
    for (int i = 0; i < 3; i++) {
        sample_and_publish(1);
        struct sl_lease l = claim_train(2);
        ck_assert_int_eq(sl_ledger_complete(&arena, &l), SL_OK);
    }
    apply_all(2);
    ck_assert_uint_eq(sl_param_store_version(&arena), 1);
    ck_assert_int_eq(sl_param_store_freeze(&arena, false), SL_OK);
    static const bool want[] = {true, true, false, false, false};
    for (uint32_t i = 0; i < 5; i++)
        ck_assert_int_eq(sl_param_store_is_applied(&arena, seq, i), want[i]);
    sl_param_store_thaw(&arena);
    destroy_arena();
}

TEST(async_a_batch_that_is_done_may_not_be_applied_yet)
{
    float params[PARAMS];
    uint64_t version;
    struct sl_lease l[3];
    struct sl_update u;
    make(1, 1);
    uint64_t seq = open_train(3, 0, 0);
    for (uint32_t i = 0; i < 3; i++) {
        sample_and_publish(1);
        l[i] = claim_train(100 + i);
        ck_assert_int_eq(sl_param_store_join(&arena, i, 100 + i, params, &version), SL_OK);
    }
    // The second and the third are done; the third one's gradient alone is applied... by its turn
    // it is the second one's.
    for (uint32_t i = 1; i < 3; i++) {
        sl_param_store_offer(&arena, i, &l[i]);
        ck_assert_int_eq(sl_ledger_complete(&arena, &l[i]), SL_OK);
    }
    ck_assert_int_eq(sl_param_store_begin_update(&arena, 101, &u), SL_OK);
    uint32_t applied = u.first_cell;
    sl_param_store_commit_update(&arena, &u);
    ck_assert_int_eq(sl_param_store_freeze(&arena, false), SL_OK);
    for (uint32_t i = 0; i < 3; i++)
        ck_assert_int_eq(sl_param_store_is_applied(&arena, seq, i), i == applied);
    sl_param_store_thaw(&arena);
    destroy_arena();
}

TEST(async_a_commit_that_its_maker_did_not_live_to_clear_counts)
{
    float params[PARAMS];
    uint64_t version;
    struct sl_update u;
    make(1, 1);
    uint64_t seq = open_train(2, 0, 0);
    sample_and_publish(1);
    struct sl_lease l = claim_train(100);
    ck_assert_int_eq(sl_param_store_join(&arena, 0, 100, params, &version), SL_OK);
    sl_param_store_offer(&arena, 0, &l);
    ck_assert_int_eq(sl_ledger_complete(&arena, &l), SL_OK);
    ck_assert_int_eq(sl_param_store_begin_update(&arena, 100, &u), SL_OK);
    // As sl_param_store_commit_update() up to the flip; then SIGKILL with the lock held.
    struct sl_param_store *board = sl_param_store_of(&arena);
    atomic_store(&board->made_by[1], l.tag);
    atomic_store(&board->version, 1);
    ck_assert_int_eq(sl_param_store_freeze(&arena, false), SL_EAGAIN);
    ck_assert_int_eq(sl_param_store_freeze(&arena, true), SL_OK);
    ck_assert(sl_param_store_is_applied(&arena, seq, 0));
    sl_param_store_thaw(&arena);
    destroy_arena();
}

RUN_TESTS(.timeout_s = 10)
