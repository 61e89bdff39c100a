// Batches that are held: trained, with their gradient in a trainer's own sum (group.h).
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "common/base/failpoint.h"
#include "common/arena/group.h"
#include "tests/unit/suite.h"
#include "tests/unit/test_arena_fixture.h"

enum { SAMPLER = 1, LEFT = 5, RIGHT = 6, NEITHER = 7 }; // workers

// Two members: one has the even batches, the other one the odd ones. Memory for two batches.
static void setup(void)
{
    const struct sl_arena_spec spec = {.n_devices = 2,
                                       .n_cells = 16,
                                       .n_params = 5,
                                       .exchange = 1,
                                       .batches_per_update = 2,
                                       .payload_bytes = 2 * SL_ARENA_CHUNK_BYTES};
    const struct sl_group_member members[] = {{LEFT, 0}, {RIGHT, 1}};
    create_arena(&spec);
    ck_assert(sl_group_form(&arena, members, 2));
}

static void reduce(uint64_t version)
{
    for (uint32_t w = LEFT; w <= RIGHT; w++) {
        struct sl_group_view view;
        ck_assert(sl_group_read(&arena, w, &view));
        ck_assert_int_eq(sl_group_count_written(&arena, &view, version), SL_OK);
    }
    ck_assert(sl_group_is_reduced(&arena, version));
}

// As the broker does: nobody sums before all leases of the dead one have gone back.
static struct sl_reclaimed bury(uint32_t worker)
{
    const struct sl_group_member rest = {worker == LEFT ? RIGHT : LEFT, worker == LEFT};
    struct sl_reclaimed r;
    sl_group_form(&arena, NULL, 0);
    sl_ledger_reclaim(&arena, worker, &r);
    sl_group_form(&arena, &rest, 1);
    return r;
}

static struct sl_lease hold_next(uint32_t worker)
{
    struct sl_lease l = claim_train(worker);
    ck_assert_int_eq(sl_ledger_hold(&arena, &l), SL_OK);
    return l;
}

static uint64_t used_bytes(void)
{
    struct sl_ledger_depth d;
    sl_ledger_depth(&arena, &d);
    return d.payload_bytes;
}

static uint32_t state_of(const struct sl_lease *l)
{
    return sl_cell_state(sl_ledger_word(&arena, l->seq, l->cell));
}

TEST(holding_frees_the_payload_and_completing_frees_nothing_again)
{
    open_train(2, 0, 0);
    sample_and_publish(SAMPLER);
    struct sl_lease l = claim_train(LEFT);
    uint32_t seen = sl_event_read(&arena.h->progress);
    ck_assert_uint_eq(used_bytes(), SL_ARENA_CHUNK_BYTES);
    ck_assert_int_eq(sl_ledger_hold(&arena, &l), SL_OK);
    ck_assert(rang(&arena.h->progress, &seen)); // it may be the last one of the update
    ck_assert_uint_eq(used_bytes(), 0);
    ck_assert_uint_eq(state_of(&l), SL_CELL_HELD);
    ck_assert_uint_eq(sl_cell_owner(l.word), LEFT);
    ck_assert(sl_cell_is_leased(l.word));
    struct sl_lease next = sample(SAMPLER); // takes the chunk that the held one has given back
    ck_assert_uint_eq(next.entry->payload_offset, l.entry->payload_offset);
    rang(&arena.h->progress, &seen);
    ck_assert_int_eq(sl_ledger_complete(&arena, &l), SL_OK);
    ck_assert(rang(&arena.h->progress, &seen)); // though it frees no memory
    ck_assert_uint_eq(state_of(&l), SL_CELL_DONE);
    ck_assert_uint_eq(used_bytes(), SL_ARENA_CHUNK_BYTES);
    ck_assert_int_eq(sl_ledger_complete(&arena, &l), SL_ESTALE); // once
    ck_assert_int_eq(sl_ledger_publish(&arena, &next), SL_OK);
}

TEST(an_update_of_held_batches_is_summed_and_one_of_done_ones_applied)
{
    uint64_t seq = open_train(3, 0, 0);
    struct sl_update u;
    sample_and_publish(SAMPLER);
    sample_and_publish(SAMPLER);
    struct sl_lease left = hold_next(LEFT);
    ck_assert_int_eq(sl_param_store_next_held(&arena, &u), SL_EAGAIN);
    struct sl_lease right = hold_next(RIGHT);
    ck_assert_int_eq(sl_param_store_begin_update(&arena, LEFT, &u), SL_EAGAIN);
    ck_assert_int_eq(sl_param_store_next_held(&arena, &u), SL_OK);
    ck_assert_uint_eq(u.version, 0);
    ck_assert_uint_eq(u.seq, seq);
    ck_assert_uint_eq(u.first_cell, 0);
    ck_assert_uint_eq(u.n_cells, 2);
    ck_assert_uint_eq(sl_param_store_update_gradients(&arena, &u), 1);
    ck_assert_ptr_eq(sl_param_store_update_gradient(&arena, &u, 0),
                     sl_param_store_gradient(&arena, 0));
    reduce(0);
    ck_assert_int_eq(sl_ledger_complete(&arena, &left), SL_OK);
    ck_assert_int_eq(sl_param_store_next_held(&arena, &u), SL_EAGAIN);
    ck_assert_int_eq(sl_param_store_begin_update(&arena, LEFT, &u), SL_EAGAIN);
    ck_assert_int_eq(sl_ledger_complete(&arena, &right), SL_OK);
    apply_all(LEFT);
    ck_assert_uint_eq(sl_param_store_version(&arena), 1);
    // The last one of the phase has one batch.
    sample_and_publish(SAMPLER);
    left = hold_next(LEFT);
    ck_assert_int_eq(sl_param_store_next_held(&arena, &u), SL_OK);
    ck_assert_uint_eq(u.version, 1);
    ck_assert_uint_eq(u.n_cells, 1);
}

// A member passes over batches of others, so what it has in hand may be all that memory has room
// for while one before it is not drawn yet.
TEST(batches_ahead_make_room_for_one_that_finds_no_memory)
{
    open_train(8, 0, 0);
    struct sl_lease none;
    struct sl_extent e;
    sample_and_publish(SAMPLER);
    hold_next(LEFT);
    struct sl_lease late[2];
    for (uint32_t i = 0; i < 2; i++) { // batches 1 and 3, the other member's
        ck_assert_int_eq(sl_ledger_claim_sample(&arena, SAMPLER + 1 + i, SL_AHEAD_ALL, 0, &late[i]),
                         SL_OK);
        ck_assert_uint_eq(late[i].cell, 1 + 2 * i);
        sample_and_publish(SAMPLER);
    }
    struct sl_lease ahead[2] = {claim_train(LEFT), claim_train(LEFT)};
    ck_assert_uint_eq(ahead[0].cell, 2);
    ck_assert_uint_eq(ahead[1].cell, 4);
    ck_assert_int_eq(sl_payload_alloc(&arena, &late[0], 1, 5, &e), SL_ETIMEDOUT);
    ck_assert(sl_ledger_is_in_the_way(&arena, &ahead[0])); // it keeps its place
    atomic_store(&sl_ledger_of(&arena)->starving, 0);
    ck_assert(!sl_ledger_is_in_the_way(&arena, &ahead[0]));
    atomic_store(&sl_ledger_of(&arena)->starving, late[1].tag); // others come before it
    ck_assert(!sl_ledger_is_in_the_way(&arena, &ahead[0]));
    ck_assert(!sl_ledger_is_in_the_way(&arena, &ahead[1]));
    atomic_store(&sl_ledger_of(&arena)->starving, late[0].tag);
    ck_assert(sl_ledger_is_in_the_way(&arena, &ahead[0]));
    ck_assert(sl_ledger_is_in_the_way(&arena, &ahead[1]));
    ck_assert(!sl_ledger_is_in_the_way(&arena, &late[0]));

    sl_ledger_return(&arena, &ahead[1]);
    sl_ledger_return(&arena, &ahead[0]);
    ck_assert_int_eq(sl_ledger_claim_train(&arena, LEFT, 0, &none), SL_ETIMEDOUT); // not yet again
    ck_assert_int_eq(sl_payload_alloc(&arena, &late[0], 1, 5, &e), SL_OK);
    ck_assert_uint_eq(atomic_load(&sl_ledger_of(&arena)->evicted), 1);
    ck_assert_uint_eq(claim_train(LEFT).cell, 2);
    ck_assert_uint_eq(state_of(&ahead[1]), SL_CELL_PENDING);
}

TEST(held_batches_count_in_the_depth)
{
    struct sl_ledger_depth d;
    open_train(6, 0, 0);
    sample_and_publish(SAMPLER);
    sample_and_publish(SAMPLER);
    struct sl_lease l = hold_next(LEFT);
    claim_train(RIGHT);
    sample_and_publish(SAMPLER);
    sl_ledger_depth(&arena, &d);
    ck_assert_uint_eq(d.batches[SL_CELL_HELD], 1);
    ck_assert_uint_eq(d.batches[SL_CELL_TRAINING], 1);
    ck_assert_uint_eq(d.batches[SL_CELL_READY], 1);
    ck_assert_uint_eq(d.batches[SL_CELL_PENDING], 3);
    ck_assert_uint_eq(d.queued_bytes, SL_ARENA_CHUNK_BYTES);
    ck_assert_int_eq(sl_ledger_complete(&arena, &l), SL_OK);
    sl_ledger_depth(&arena, &d);
    ck_assert_uint_eq(d.batches[SL_CELL_HELD], 0);
    ck_assert_uint_eq(d.batches[SL_CELL_DONE], 1);
}

TEST(who_was_given_up_holds_nothing)
{
    open_train(2, 0, 0);
    sample_and_publish(SAMPLER);
    struct sl_lease lost = claim_train(LEFT), before = lost;
    bury(LEFT);
    ck_assert_int_eq(sl_ledger_hold(&arena, &lost), SL_ESTALE);
    ck_assert_uint_eq(lost.word, before.word);
    struct sl_lease again = claim_train(RIGHT);
    ck_assert_uint_eq(again.cell, lost.cell);
    ck_assert_int_eq(sl_ledger_hold(&arena, &lost), SL_ESTALE);
    ck_assert_uint_eq(used_bytes(), SL_ARENA_CHUNK_BYTES); // the next one's payload
    ck_assert_int_eq(sl_ledger_hold(&arena, &again), SL_OK);
}

// Killed when the batch is held and its payload is not free yet.
TEST(memory_of_a_batch_whose_holder_died_is_swept)
{
    open_train(2, 0, 0);
    sample_and_publish(SAMPLER);
    pid_t child = fork();
    if (child == 0) {
        setenv("SLUICE_FAILPOINT", "trainer_held", 1);
        if (sl_failpoint_init() == SL_OK)
            hold_next(LEFT);
        _exit(0);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    struct sl_ledger_depth d;
    sl_ledger_depth(&arena, &d);
    ck_assert_uint_eq(d.batches[SL_CELL_HELD], 1);
    ck_assert_uint_eq(d.payload_bytes, SL_ARENA_CHUNK_BYTES);
    ck_assert_uint_eq(bury(LEFT).retrain, 1);
    ck_assert_uint_eq(used_bytes(), 0);
    ck_assert_uint_eq(claim(SAMPLER).cell, 0);
}

RUN_TESTS(.setup = setup, .teardown = destroy_arena)
