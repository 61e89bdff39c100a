// The ledger in one process: order of claims, leases, reclaim, gates, reuse of slots.
#include <stdlib.h>
#include <string.h>

#include "tests/unit/suite.h"
#include "tests/unit/test_arena_fixture.h"

static void setup(void)
{
    struct sl_arena_spec spec = {.n_devices = 2,
                                 .n_cells = 16,
                                 .n_train = 8,
                                 .n_params = 5,
                                 .n_state = 2,
                                 .batches_per_update = 2,
                                 .payload_bytes = 8 * SL_ARENA_CHUNK_BYTES};
    create_arena(&spec);
}

TEST(claims_go_in_batch_order_and_cover_every_vertex)
{
    open_train(3, 0, 0);
    uint64_t vertices = 0;
    for (uint32_t i = 0; i < 3; i++) {
        struct sl_lease l = sample(1);
        uint32_t n;
        ck_assert_uint_eq(l.cell, i);
        ck_assert_uint_eq(sl_phase_range(l.phase, l.cell, &n), i * 10);
        vertices += n;
    }
    ck_assert_uint_eq(vertices, 27);
    struct sl_lease none;
    ck_assert_int_eq(sl_ledger_claim_sample(&arena, 1, SL_AHEAD_ALL, 1, &none), SL_ETIMEDOUT);
}

TEST(a_trainer_waits_for_the_oldest_batch)
{
    open_train(3, 0, 0);
    struct sl_lease first = sample(1), l;
    sample_and_publish(2); // the second batch is ready before the first
    ck_assert_int_eq(sl_ledger_claim_train(&arena, 3, 1, &l), SL_ETIMEDOUT);
    ck_assert_int_eq(sl_ledger_publish(&arena, &first), SL_OK);
    ck_assert_int_eq(sl_ledger_claim_train(&arena, 3, 1, &l), SL_OK);
    ck_assert_uint_eq(l.cell, 0);
}

TEST(a_dead_samplers_batch_is_drawn_again_and_its_memory_is_free)
{
    open_train(2, 0, 0);
    struct sl_lease lost = sample(7), again;
    struct sl_reclaimed r;
    struct sl_ledger_depth d;
    sl_ledger_reclaim(&arena, 7, &r);
    ck_assert_uint_eq(r.resample, 1);
    ck_assert_uint_eq(r.retrain, 0);
    ck_assert_int_eq(sl_ledger_publish(&arena, &lost), SL_ESTALE);
    sl_ledger_depth(&arena, &d);
    ck_assert_uint_eq(d.payload_bytes, 0);
    again = sample(8);
    ck_assert_uint_eq(again.cell, lost.cell);
    ck_assert_uint_ne(again.tag, lost.tag);
}

TEST(a_dead_trainers_batch_keeps_its_payload)
{
    open_train(1, 0, 0);
    sample_and_publish(1);
    struct sl_lease lost, again;
    struct sl_reclaimed r;
    ck_assert_int_eq(sl_ledger_claim_train(&arena, 5, 1, &lost), SL_OK);
    uint64_t offset = lost.entry->payload_offset;
    sl_ledger_reclaim(&arena, 5, &r);
    ck_assert_uint_eq(r.retrain, 1);
    ck_assert_int_eq(sl_ledger_complete(&arena, &lost), SL_ESTALE);
    ck_assert_int_eq(sl_ledger_claim_train(&arena, 6, 1, &again), SL_OK);
    ck_assert_uint_eq(again.entry->payload_offset, offset);
    ck_assert_int_eq(sl_ledger_complete(&arena, &again), SL_OK);
    struct sl_ledger_depth d;
    sl_ledger_depth(&arena, &d);
    ck_assert_uint_eq(d.payload_bytes, 0);
}

TEST(a_reclaim_leaves_the_living_alone)
{
    open_train(2, 0, 0);
    struct sl_lease mine = sample(1);
    sample(2);
    struct sl_reclaimed r;
    sl_ledger_reclaim(&arena, 2, &r);
    ck_assert_uint_eq(r.resample, 1);
    ck_assert_int_eq(sl_ledger_publish(&arena, &mine), SL_OK);
}

TEST(a_returned_lease_is_claimed_by_the_next)
{
    open_train(1, 0, 0);
    struct sl_lease l, again;
    ck_assert_int_eq(sl_ledger_claim_sample(&arena, 1, SL_AHEAD_ALL, 0, &l), SL_OK);
    sl_ledger_return(&arena, &l);
    ck_assert_int_eq(sl_ledger_claim_sample(&arena, 2, SL_AHEAD_ALL, 0, &again), SL_OK);
    ck_assert_uint_eq(again.cell, l.cell);
}

TEST(a_gate_holds_trainers_and_lets_samplers_run)
{
    uint64_t seq = open_train(1, 0, 1);
    sample_and_publish(1);
    struct sl_lease l;
    ck_assert_int_eq(sl_ledger_claim_train(&arena, 2, 1, &l), SL_ETIMEDOUT);
    sl_ledger_open_gate(&arena, seq);
    ck_assert_int_eq(sl_ledger_claim_train(&arena, 2, 1, &l), SL_OK);
}

TEST(a_training_phase_ends_only_when_its_updates_are_applied)
{
    uint64_t seq = open_train(3, 0, 0); // two updates: 2 + 1 batches
    struct sl_lease l;
    for (int i = 0; i < 3; i++) {
        sample_and_publish(1);
        ck_assert_int_eq(sl_ledger_claim_train(&arena, 2, 1, &l), SL_OK);
        ck_assert_int_eq(sl_ledger_complete(&arena, &l), SL_OK);
    }
    ck_assert(!sl_ledger_phase_complete(&arena, seq));
    apply_all(2);
    ck_assert_uint_eq(sl_param_store_version(&arena), 2);
    ck_assert(sl_ledger_phase_complete(&arena, seq));
}

TEST(phases_run_one_after_the_other_and_slots_are_reused)
{
    uint64_t opened = 0, done = 0;
    struct sl_phase_spec p = {.kind = SL_PHASE_INFER, .batch_size = 1, .n_items = 3};
    for (int round = 0; round < 5 * SL_ARENA_PHASES; round++) {
        while (sl_ledger_open_phase(&arena, &p, &opened) == SL_OK)
            ck_assert_uint_le(opened - done, SL_ARENA_PHASES);
        for (uint32_t i = 0; i < 3; i++) {
            struct sl_lease l;
            ck_assert_int_eq(sl_ledger_claim_train(&arena, 1, 0, &l), SL_OK);
            ck_assert_uint_eq(l.seq, done + 1);
            ck_assert_uint_eq(l.cell, i);
            ck_assert_int_eq(sl_ledger_complete(&arena, &l), SL_OK);
        }
        done++;
        ck_assert(sl_ledger_phase_complete(&arena, done));
    }
    ck_assert_uint_eq(opened, done + SL_ARENA_PHASES - 1);
}

TEST(samplers_run_ahead_into_open_phases)
{
    open_train(1, 0, 0);
    struct sl_phase_spec infer = {.kind = SL_PHASE_INFER, .batch_size = 1, .n_items = 2};
    uint64_t seq;
    ck_assert_int_eq(sl_ledger_open_phase(&arena, &infer, &seq), SL_OK);
    uint64_t second = open_train(1, 1, 1);
    sample_and_publish(1);
    struct sl_lease l = sample(1);
    ck_assert_uint_eq(l.seq, second);
}

TEST(an_abort_ends_every_wait)
{
    open_train(1, 0, 0);
    sl_arena_abort(&arena, SL_ABORT_STOP);
    struct sl_lease l;
    ck_assert_int_eq(sl_ledger_claim_sample(&arena, 1, SL_AHEAD_ALL, 60000, &l), SL_EABORTED);
    ck_assert_int_eq(sl_ledger_claim_train(&arena, 1, 60000, &l), SL_EABORTED);
}

TEST(a_phase_of_too_many_or_no_cells_is_refused)
{
    uint64_t seq;
    struct sl_phase_spec p = {.kind = SL_PHASE_INFER, .batch_size = 1, .n_items = 17};
    ck_assert_int_eq(sl_ledger_open_phase(&arena, &p, &seq), SL_ERANGE);
    p.n_items = 0;
    ck_assert_int_eq(sl_ledger_open_phase(&arena, &p, &seq), SL_ERANGE);
}

TEST(a_sampler_held_to_the_current_phase_draws_nothing_ahead)
{
    uint64_t first = open_train(1, 0, 0);
    uint64_t second = open_train(1, 1, 1);
    struct sl_lease l;
    ck_assert_int_eq(sl_ledger_claim_sample(&arena, 1, SL_AHEAD_CURRENT_ONLY, 0, &l), SL_OK);
    ck_assert_uint_eq(l.seq, first);
    struct sl_lease none;
    ck_assert_int_eq(sl_ledger_claim_sample(&arena, 1, SL_AHEAD_CURRENT_ONLY, 1, &none),
                     SL_ETIMEDOUT);
    ck_assert_int_eq(sl_ledger_publish(&arena, &l), SL_OK);
    l = claim_train(2);
    ck_assert_int_eq(sl_ledger_complete(&arena, &l), SL_OK);
    uint32_t seen = sl_event_read(&arena.h->work);
    apply_all(2);
    ck_assert(rang(&arena.h->work, &seen)); // it waits for the phase's end
    ck_assert_int_eq(sl_ledger_claim_sample(&arena, 1, SL_AHEAD_CURRENT_ONLY, 0, &l), SL_OK);
    ck_assert_uint_eq(l.seq, second);
}

TEST(nothing_is_current_before_a_phase_is_open)
{
    struct sl_lease none;
    struct sl_ledger_ahead look;
    ck_assert_int_eq(sl_ledger_claim_sample(&arena, 1, SL_AHEAD_CURRENT_ONLY, 1, &none),
                     SL_ETIMEDOUT);
    sl_ledger_look_ahead(&arena, &look);
    ck_assert_uint_eq(look.seq, 0);
    ck_assert_uint_eq(look.unsampled, 0);
    ck_assert_uint_eq(look.unclaimed, 0);
}

static void expect_ahead(uint64_t seq, uint32_t unsampled, uint32_t unclaimed)
{
    struct sl_ledger_ahead look;
    sl_ledger_look_ahead(&arena, &look);
    ck_assert_uint_eq(look.seq, seq);
    ck_assert_uint_eq(look.unsampled, unsampled);
    ck_assert_uint_eq(look.unclaimed, unclaimed);
}

TEST(looking_ahead_counts_what_is_left)
{
    uint64_t first = open_train(3, 0, 1);
    struct sl_ledger_ahead look;
    expect_ahead(first, 3, 3);
    sl_ledger_look_ahead(&arena, &look);
    ck_assert_uint_eq(look.kind, SL_PHASE_TRAIN);
    ck_assert(look.gated);
    sample_and_publish(1);
    expect_ahead(first, 2, 3);
    sample_and_publish(1);
    struct sl_lease last = sample(1);
    expect_ahead(first, 0, 3);
    sl_ledger_open_gate(&arena, first);
    sl_ledger_look_ahead(&arena, &look);
    ck_assert(!look.gated);
    struct sl_lease l[3];
    l[0] = claim_train(2);
    expect_ahead(first, 0, 2);
    ck_assert_int_eq(sl_ledger_publish(&arena, &last), SL_OK);
    l[1] = claim_train(2);
    l[2] = claim_train(3);
    expect_ahead(first, 0, 0);
    reclaim(3); // its batch is to be trained again
    expect_ahead(first, 0, 1);
    l[2] = claim_train(2);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(sl_ledger_complete(&arena, &l[i]), SL_OK);
    struct sl_phase_spec infer = {.kind = SL_PHASE_INFER, .batch_size = 1, .n_items = 4};
    uint64_t second;
    ck_assert_int_eq(sl_ledger_open_phase(&arena, &infer, &second), SL_OK);
    expect_ahead(first, 0, 0);
    apply_all(2);
    expect_ahead(second, 0, 4);
    reclaim(9); // rewinds all cursors
    expect_ahead(second, 0, 4);
}

TEST(the_last_claim_of_a_phase_wakes_standby_trainers)
{
    uint32_t seen = sl_event_read(&arena.h->work);
    open_train(3, 0, 0);
    ck_assert(rang(&arena.h->work, &seen));
    claim(1);
    struct sl_lease second = claim(2);
    ck_assert(!rang(&arena.h->work, &seen));
    claim(1);
    ck_assert(rang(&arena.h->work, &seen));
    // A hole in the middle is the last one then.
    sl_ledger_return(&arena, &second);
    ck_assert(rang(&arena.h->work, &seen));
    expect_ahead(1, 2, 3);
    claim(1);
    ck_assert(rang(&arena.h->work, &seen));
    expect_ahead(1, 0, 3);
}

TEST(ends_gates_deaths_and_aborts_wake_standby_trainers)
{
    uint64_t seq = open_train(1, 0, 1);
    uint32_t seen = sl_event_read(&arena.h->work);
    sl_ledger_open_gate(&arena, seq);
    ck_assert(rang(&arena.h->work, &seen));
    sample_and_publish(1);
    struct sl_lease l = claim_train(2);
    rang(&arena.h->work, &seen);
    reclaim(2);
    ck_assert(rang(&arena.h->work, &seen));
    l = claim_train(3);
    ck_assert_int_eq(sl_ledger_complete(&arena, &l), SL_OK);
    ck_assert(!rang(&arena.h->work, &seen));
    apply_all(3);
    ck_assert(sl_ledger_phase_complete(&arena, seq));
    ck_assert(rang(&arena.h->work, &seen));
    sl_arena_abort(&arena, SL_ABORT_STOP);
    ck_assert(rang(&arena.h->work, &seen));
}

// --- pre-sampling ---

TEST(pre_sampling_ends_with_its_last_sample)
{
    uint64_t seq = open_phase(SL_PHASE_PRESAMPLE, 3, 0, 0);
    uint64_t train = open_train(1, 0, 0);
    struct sl_ledger_ahead look;
    struct sl_lease l, none;
    for (uint32_t i = 0; i < 3; i++) {
        expect_ahead(seq, 3 - i, 0);
        l = claim(1);
        ck_assert_uint_eq(l.seq, seq);
        ck_assert_uint_eq(l.cell, i);
        ck_assert_int_eq(sl_ledger_claim_train(&arena, 2, 0, &none), SL_ETIMEDOUT);
        ck_assert(!sl_ledger_phase_complete(&arena, seq));
        ck_assert_int_eq(sl_ledger_complete(&arena, &l), SL_OK);
    }
    ck_assert(sl_ledger_phase_complete(&arena, seq));
    ck_assert_uint_eq(sl_param_store_version(&arena), 0);
    sl_ledger_look_ahead(&arena, &look);
    ck_assert_uint_eq(look.seq, train);
    sample_and_publish(1);
    l = claim_train(2);
    ck_assert_uint_eq(l.seq, train);
}

TEST(a_dead_samplers_pre_sample_is_drawn_again)
{
    uint64_t seq = open_phase(SL_PHASE_PRESAMPLE, 1, 0, 0);
    struct sl_lease lost = claim(1), again;
    struct sl_reclaimed r;
    lost.entry->visits_counted = 1;
    sl_ledger_reclaim(&arena, 1, &r);
    ck_assert_uint_eq(r.resample, 1);
    ck_assert_int_eq(sl_ledger_complete(&arena, &lost), SL_ESTALE);
    again = claim(2);
    ck_assert_uint_eq(again.entry->visits_counted, 1); // and is not counted again
    ck_assert_int_eq(sl_ledger_complete(&arena, &again), SL_OK);
    ck_assert_int_eq(sl_ledger_complete(&arena, &again), SL_ESTALE);
    ck_assert(sl_ledger_phase_complete(&arena, seq));
}

TEST(payload_memory_of_a_pre_sample_is_freed)
{
    open_phase(SL_PHASE_PRESAMPLE, 1, 0, 0);
    struct sl_lease l = sample(1);
    struct sl_ledger_depth d;
    sl_ledger_depth(&arena, &d);
    ck_assert_uint_eq(d.payload_bytes, SL_ARENA_CHUNK_BYTES);
    ck_assert_int_eq(sl_ledger_complete(&arena, &l), SL_OK);
    sl_ledger_depth(&arena, &d);
    ck_assert_uint_eq(d.payload_bytes, 0);
}

TEST(a_sample_is_published_or_completed_by_its_phase)
{
    open_phase(SL_PHASE_PRESAMPLE, 1, 0, 0);
    open_train(1, 0, 0);
    struct sl_lease counted = claim(1), kept = sample(1);
    ck_assert_int_eq(sl_ledger_publish(&arena, &counted), SL_EINVAL);
    ck_assert_int_eq(sl_ledger_complete(&arena, &kept), SL_EINVAL);
    ck_assert_int_eq(sl_ledger_complete(&arena, &counted), SL_OK);
    ck_assert_int_eq(sl_ledger_publish(&arena, &kept), SL_OK);
}

// Two batches, of four chunks each, fill the memory and lie ready.
static void fill_memory(void)
{
    struct sl_extent e;
    for (int i = 0; i < 2; i++) {
        struct sl_lease l = claim(2);
        ck_assert_int_eq(sl_payload_alloc(&arena, &l, 4 * SL_ARENA_CHUNK_BYTES, 10, &e), SL_OK);
        l.entry->payload_offset = e.offset;
        l.entry->payload_bytes = e.bytes;
        ck_assert_int_eq(sl_ledger_publish(&arena, &l), SL_OK);
    }
}

TEST(a_pre_sample_that_is_next_evicts_for_memory)
{
    open_phase(SL_PHASE_PRESAMPLE, 1, 0, 0);
    open_train(2, 0, 0);
    struct sl_lease oldest = claim(1);
    struct sl_extent e;
    fill_memory();
    ck_assert_int_eq(sl_payload_alloc(&arena, &oldest, 1, 10, &e), SL_OK);
}

// --- payload memory ---

TEST(extents_do_not_overlap_and_trimmed_ends_are_reused)
{
    open_train(3, 0, 0);
    struct sl_lease a = claim(1), b = claim(1);
    struct sl_extent ea, eb;
    ck_assert_int_eq(sl_payload_alloc(&arena, &a, 5 * SL_ARENA_CHUNK_BYTES, 10, &ea), SL_OK);
    sl_payload_trim(&arena, a.tag, &ea, SL_ARENA_CHUNK_BYTES + 1);
    ck_assert_uint_eq(ea.bytes, 2 * SL_ARENA_CHUNK_BYTES);
    ck_assert_int_eq(sl_payload_alloc(&arena, &b, 6 * SL_ARENA_CHUNK_BYTES, 10, &eb), SL_OK);
    ck_assert_uint_eq(eb.offset, ea.offset + ea.bytes);
}

TEST(a_late_free_does_not_hit_the_next_owner)
{
    open_train(2, 0, 0);
    struct sl_lease a = claim(1), b = claim(1);
    struct sl_extent ea, eb;
    struct sl_ledger_depth d;
    ck_assert_int_eq(sl_payload_alloc(&arena, &a, 1, 10, &ea), SL_OK);
    sl_payload_free(&arena, a.tag, ea.offset, ea.bytes);
    ck_assert_int_eq(sl_payload_alloc(&arena, &b, 1, 10, &eb), SL_OK);
    ck_assert_uint_eq(eb.offset, ea.offset);
    sl_payload_free(&arena, a.tag, ea.offset, ea.bytes);
    sl_ledger_depth(&arena, &d);
    ck_assert_uint_eq(d.payload_bytes, SL_ARENA_CHUNK_BYTES);
}

TEST(a_block_that_can_never_fit_is_an_error_with_the_numbers)
{
    open_train(1, 0, 0);
    struct sl_lease a = claim(1);
    struct sl_extent e;
    ck_assert_int_eq(sl_payload_alloc(&arena, &a, 9 * SL_ARENA_CHUNK_BYTES, 10, &e), SL_ENOMEM);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "589824"));
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "arena.memory"));
}

TEST(the_next_batch_evicts_the_newest_ready_one)
{
    open_train(4, 0, 0);
    struct sl_lease oldest = claim(1);
    struct sl_extent e;
    fill_memory();
    ck_assert_int_eq(sl_payload_alloc(&arena, &oldest, 1, 10, &e), SL_OK);
    ck_assert_uint_eq(atomic_load(&sl_ledger_of(&arena)->evicted), 1);
    struct sl_lease again = claim(2);
    ck_assert_uint_eq(again.cell, 2); // the newest goes back, and is the next to be drawn
}

TEST(a_younger_batch_waits_for_a_starving_one)
{
    open_train(4, 0, 0);
    struct sl_lease first = claim(1), second = claim(1), third = claim(1);
    struct sl_extent e;
    ck_assert_int_eq(sl_payload_alloc(&arena, &first, 5 * SL_ARENA_CHUNK_BYTES, 10, &e), SL_OK);
    atomic_store(&sl_ledger_of(&arena)->starving, second.tag);
    ck_assert_int_eq(sl_payload_alloc(&arena, &third, 1, 5, &e), SL_ETIMEDOUT);
    ck_assert_int_eq(sl_payload_alloc(&arena, &second, 1, 5, &e), SL_OK);
    ck_assert_int_eq(sl_payload_alloc(&arena, &third, 1, 5, &e), SL_OK);
}

// It asked, and will ask again: memory that is freed meanwhile is not for younger ones.
TEST(who_finds_no_memory_keeps_its_place)
{
    open_train(4, 0, 0);
    struct sl_lease first = claim(1), second = claim(2), third = claim(3);
    struct sl_extent e;
    uint32_t seen = sl_event_read(&arena.h->progress);
    ck_assert_int_eq(sl_payload_alloc(&arena, &first, 5 * SL_ARENA_CHUNK_BYTES, 0, &e), SL_OK);
    ck_assert_int_eq(sl_payload_alloc(&arena, &second, 4 * SL_ARENA_CHUNK_BYTES, 0, &e),
                     SL_ETIMEDOUT);
    ck_assert_int_eq(sl_payload_alloc(&arena, &third, 1, 0, &e), SL_ETIMEDOUT);
    ck_assert(!rang(&arena.h->progress, &seen));
    sl_ledger_return(&arena, &second); // until its lease ends
    ck_assert(rang(&arena.h->progress, &seen));
    ck_assert_int_eq(sl_payload_alloc(&arena, &third, 1, 0, &e), SL_OK);
}

// It may evict younger ones once trainers wait for it alone.
TEST(who_finds_no_memory_is_woken_when_it_is_next)
{
    open_train(3, 0, 0);
    sample_and_publish(1);
    struct sl_lease second = claim(2), third = claim(3);
    struct sl_extent e;
    ck_assert_int_eq(sl_payload_alloc(&arena, &third, 7 * SL_ARENA_CHUNK_BYTES, 0, &e), SL_OK);
    third.entry->payload_offset = e.offset;
    third.entry->payload_bytes = e.bytes;
    ck_assert_int_eq(sl_ledger_publish(&arena, &third), SL_OK);
    uint32_t seen = sl_event_read(&arena.h->progress);
    ck_assert_int_eq(sl_payload_alloc(&arena, &second, 1, 0, &e), SL_ETIMEDOUT);
    ck_assert(!rang(&arena.h->progress, &seen));
    ck_assert_uint_eq(claim_train(4).cell, 0);
    ck_assert(rang(&arena.h->progress, &seen));
    ck_assert_int_eq(sl_payload_alloc(&arena, &second, 1, 0, &e), SL_OK);
    ck_assert_uint_eq(atomic_load(&sl_ledger_of(&arena)->evicted), 1);
}

// So may a trainer that leaves the rest of an update to the others, and sleeps meanwhile.
TEST(the_claim_of_an_updates_last_batch_is_told)
{
    open_train(4, 0, 0);
    for (int i = 0; i < 4; i++)
        sample_and_publish(1);
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t seen = sl_event_read(&arena.h->progress);
        claim_train(2);
        ck_assert_int_eq(rang(&arena.h->progress, &seen),
                         (i + 1) % arena.h->spec.batches_per_update == 0);
    }
}

// --- board ---

TEST(an_update_needs_all_of_its_gradients_and_one_worker_applies_it)
{
    open_train(2, 0, 0);
    struct sl_lease l;
    struct sl_update u, other;
    sample_and_publish(1);
    sample_and_publish(1);
    ck_assert_int_eq(sl_ledger_claim_train(&arena, 2, 1, &l), SL_OK);
    ck_assert_int_eq(sl_ledger_complete(&arena, &l), SL_OK);
    ck_assert_int_eq(sl_param_store_begin_update(&arena, 2, &u), SL_EAGAIN);
    ck_assert_int_eq(sl_ledger_claim_train(&arena, 3, 1, &l), SL_OK);
    ck_assert_int_eq(sl_ledger_complete(&arena, &l), SL_OK);
    ck_assert_int_eq(sl_param_store_begin_update(&arena, 2, &u), SL_OK);
    ck_assert_uint_eq(u.n_cells, 2);
    ck_assert_int_eq(sl_param_store_begin_update(&arena, 3, &other), SL_EAGAIN);
    sl_param_store_commit_update(&arena, &u);
    ck_assert_uint_eq(sl_param_store_version(&arena), 1);
    ck_assert_int_eq(sl_param_store_begin_update(&arena, 3, &other), SL_EAGAIN);
}

TEST(a_dead_workers_update_is_applied_by_another)
{
    open_train(1, 0, 0);
    struct sl_lease l;
    struct sl_update u;
    struct sl_reclaimed r;
    sample_and_publish(1);
    ck_assert_int_eq(sl_ledger_claim_train(&arena, 2, 1, &l), SL_OK);
    ck_assert_int_eq(sl_ledger_complete(&arena, &l), SL_OK);
    ck_assert_int_eq(sl_param_store_begin_update(&arena, 2, &u), SL_OK);
    sl_ledger_reclaim(&arena, 2, &r);
    ck_assert_int_eq(sl_param_store_begin_update(&arena, 3, &u), SL_OK);
    sl_param_store_commit_update(&arena, &u);
    ck_assert_uint_eq(sl_param_store_version(&arena), 1);
}

TEST(banks_best_and_slots_are_apart)
{
    float *p[] = {sl_param_store_params(&arena, 0),   sl_param_store_params(&arena, 1),
                  sl_param_store_state(&arena, 0, 0), sl_param_store_state(&arena, 0, 1),
                  sl_param_store_state(&arena, 1, 0), sl_param_store_state(&arena, 1, 1),
                  sl_param_store_best(&arena),        sl_param_store_gradient(&arena, 0),
                  sl_param_store_gradient(&arena, 1)};
    for (int i = 0; i < 9; i++)
        for (int k = 0; k < 5; k++)
            p[i][k] = (float)(i * 10 + k);
    for (int i = 0; i < 9; i++)
        for (int k = 0; k < 5; k++)
            ck_assert_float_eq(p[i][k], (float)(i * 10 + k));
    ck_assert_ptr_eq(sl_param_store_params(&arena, 2), p[0]);
    ck_assert_ptr_eq(sl_param_store_gradient(&arena, 3), p[8]);
    char *end =
        (char *)sl_arena_region(&arena, SL_REGION_PARAMS) + arena.h->region[SL_REGION_PARAMS].bytes;
    ck_assert((char *)(p[8] + 5) <= end);
}

RUN_TESTS(.setup = setup, .teardown = destroy_arena)
