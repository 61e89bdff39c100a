// The group of trainers: who is in it, what its word counts, and whose turn a batch is.
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "common/base/bits.h"
#include "common/arena/group.h"
#include "tests/unit/suite.h"
#include "tests/unit/test_arena_fixture.h"

enum { DEVICES = 6, PER_UPDATE = 4, CELLS = 40, SAMPLER = 1, STRANGER = 99 };

static struct sl_arena_spec spec_of(uint32_t n_cells)
{
    return (struct sl_arena_spec){.n_devices = DEVICES,
                                  .n_cells = n_cells,
                                  .n_params = 5,
                                  .exchange = 1,
                                  .batches_per_update = PER_UPDATE,
                                  .payload_bytes = CELLS * SL_ARENA_CHUNK_BYTES};
}

static void setup(void)
{
    struct sl_arena_spec spec = spec_of(CELLS);
    create_arena(&spec);
}

// Workers 10, 11, .. on devices 0, 1, ..
static uint32_t worker_of(uint32_t rank)
{
    return 10 + rank;
}

static bool form(uint32_t n)
{
    struct sl_group_member m[SL_GROUP_MAX];
    for (uint32_t i = 0; i < n; i++)
        m[i] = (struct sl_group_member){.worker = worker_of(i), .device = i};
    return sl_group_form(&arena, m, n);
}

static struct sl_group_view look(uint32_t worker)
{
    struct sl_group_view v;
    ck_assert(sl_group_read(&arena, worker, &v));
    return v;
}

static int count(uint32_t worker, uint64_t version)
{
    struct sl_group_view v = look(worker);
    return sl_group_count_written(&arena, &v, version);
}

// --- members ---

TEST(there_is_no_group_before_one_is_formed)
{
    struct sl_lease none;
    struct sl_group_view v = look(worker_of(0));
    ck_assert(sl_group_exists(&arena));
    ck_assert_uint_eq(v.generation, 0);
    ck_assert_uint_eq(v.n, 0);
    ck_assert_uint_eq(v.rank, v.n);
    ck_assert(!form(0)); // still none
    ck_assert_uint_eq(look(worker_of(0)).generation, 0);
    const struct sl_phase *phase = sl_ledger_phase(&arena, open_train(2, 0, 0));
    sample_and_publish(SAMPLER);
    ck_assert(!sl_group_is_turn(&arena, &v, 0));
    ck_assert(!sl_ledger_is_turn(&arena, worker_of(0), phase, 0));
    ck_assert_int_eq(sl_ledger_claim_train(&arena, worker_of(0), 1, &none), SL_ETIMEDOUT);
}

TEST(a_job_without_an_exchange_has_no_group)
{
    struct sl_arena_spec spec = spec_of(CELLS);
    destroy_arena();
    spec.exchange = 0;
    ck_assert_uint_eq(sl_group_bytes(&spec), 0);
    create_arena(&spec);
    ck_assert(!sl_group_exists(&arena));
    const struct sl_phase *phase = sl_ledger_phase(&arena, open_train(2, 0, 0));
    ck_assert(sl_ledger_is_turn(&arena, STRANGER, phase, 1));
    sample_and_publish(SAMPLER);
    claim_train(STRANGER);
}

TEST(ranks_follow_the_list)
{
    const struct sl_group_member m[] = {{30, 4}, {20, 0}, {25, 2}};
    ck_assert(sl_group_form(&arena, m, 3));
    for (uint32_t i = 0; i < 3; i++) {
        struct sl_group_view v = look(m[i].worker);
        ck_assert_uint_eq(v.generation, 1);
        ck_assert_uint_eq(v.n, 3);
        ck_assert_uint_eq(v.rank, i);
        ck_assert_uint_eq(v.first, 4);
    }
    ck_assert_uint_eq(look(STRANGER).rank, 3);
    ck_assert_uint_eq(look(4).rank, 3); // a device is no worker
}

TEST(every_other_list_is_another_generation_and_wakes_everybody)
{
    const struct sl_group_member turned[] = {{11, 1}, {10, 0}}, moved[] = {{11, 1}, {10, 2}},
                                 replaced[] = {{11, 1}, {12, 2}};
    const struct {
        const struct sl_group_member *m;
        uint32_t n;
    } lists[] = {{turned, 2}, {moved, 2}, {replaced, 2}, {replaced, 1}, {NULL, 0}, {turned, 2}};
    ck_assert(form(2));
    for (uint32_t i = 0; i < SL_COUNT_OF(lists); i++) {
        uint32_t seen = sl_event_read(&arena.h->progress);
        ck_assert(sl_group_is_current(&arena, i + 1));
        ck_assert(sl_group_form(&arena, lists[i].m, lists[i].n));
        ck_assert(!sl_group_is_current(&arena, i + 1));
        ck_assert_uint_eq(look(STRANGER).generation, i + 2);
        ck_assert_uint_eq(look(STRANGER).n, lists[i].n);
        ck_assert(rang(&arena.h->progress, &seen));
        ck_assert(!sl_group_form(&arena, lists[i].m, lists[i].n));
    }
}

TEST(a_group_may_be_as_large_as_an_arena_with_one)
{
    struct sl_arena_spec spec = spec_of(CELLS);
    destroy_arena();
    spec.n_devices = SL_GROUP_MAX;
    create_arena(&spec);
    ck_assert(form(SL_GROUP_MAX));
    for (uint32_t i = 0; i < SL_GROUP_MAX; i++)
        ck_assert_uint_eq(look(worker_of(i)).rank, i);
    for (uint32_t i = 0; i < SL_GROUP_MAX; i++) {
        ck_assert(!sl_group_is_reduced(&arena, 7));
        ck_assert_int_eq(count(worker_of(i), 7), SL_OK);
    }
    ck_assert(sl_group_is_reduced(&arena, 7));
}

// The broker was stopped, or killed, between the two steps of a change.
TEST(while_the_group_changes_nobody_knows_it_and_nobody_counts)
{
    ck_assert(form(2));
    struct sl_group_view v = look(worker_of(0)), now;
    const struct sl_phase *phase = sl_ledger_phase(&arena, open_train(4, 0, 0));
    sample_and_publish(SAMPLER);
    *(_Atomic uint64_t *)sl_arena_region(&arena, SL_REGION_GROUP) += (uint64_t)1 << 40;
    ck_assert(!sl_group_read(&arena, worker_of(0), &now));
    ck_assert(!sl_group_is_current(&arena, v.generation));
    ck_assert_int_eq(sl_group_count_written(&arena, &v, 0), SL_ESTALE);
    struct sl_lease none;
    ck_assert(!sl_ledger_is_turn(&arena, worker_of(0), phase, 0));
    ck_assert_int_eq(sl_ledger_claim_train(&arena, worker_of(0), 1, &none), SL_ETIMEDOUT);
    ck_assert(form(1));
    ck_assert_uint_eq(look(worker_of(0)).generation, 3);
    claim_train(worker_of(0));
}

// The rest does not sum before the leases of the dead one are back, whatever the broker forgets.
TEST(a_reclaim_of_a_member_ends_its_group)
{
    ck_assert(form(3));
    struct sl_group_view v = look(worker_of(0));
    reclaim(STRANGER);
    ck_assert(sl_group_is_current(&arena, v.generation));
    reclaim(worker_of(2));
    ck_assert(!sl_group_is_current(&arena, v.generation));
    ck_assert_int_eq(sl_group_count_written(&arena, &v, 0), SL_ESTALE);
}

// --- the name ---

static void make_name(uint64_t generation, uint8_t name[SL_GROUP_NAME_BYTES])
{
    memset(name, (int)(generation * 37 + 1), SL_GROUP_NAME_BYTES);
    name[SL_GROUP_NAME_BYTES - 1] ^= 0x55; // the last byte arrives, too
}

static bool reads_name(const struct sl_group_view *v)
{
    uint8_t got[SL_GROUP_NAME_BYTES], want[SL_GROUP_NAME_BYTES];
    make_name(v->generation, want);
    int rc = sl_group_read_name(&arena, v, got);
    ck_assert(rc == SL_OK || rc == SL_EAGAIN);
    ck_assert(rc == SL_EAGAIN || memcmp(got, want, sizeof want) == 0);
    return rc == SL_OK;
}

static void give_name(const struct sl_group_view *v)
{
    uint8_t name[SL_GROUP_NAME_BYTES];
    make_name(v->generation, name);
    sl_group_name(&arena, v, name);
}

static _Atomic bool over;
static _Atomic uint64_t names_read;

static void *keep_reading(void *arg)
{
    while (!over) {
        struct sl_group_view v;
        if (!sl_group_read(&arena, worker_of(1), &v) || v.generation == 0)
            continue;
        for (int i = 0; i < 50; i++) // the next name is written over it meanwhile
            names_read += reads_name(&v);
    }
    return arg;
}

// Two threads, as the broker with the first member, and a member that reads.
TEST(half_a_list_or_name_is_never_seen)
{
    pthread_t reader;
    pthread_create(&reader, NULL, keep_reading, NULL);
    for (uint32_t i = 0; i < 20000 || (names_read == 0 && i < 20000000); i++) {
        ck_assert(form(2 + i % 2));
        struct sl_group_view v = look(worker_of(0));
        give_name(&v);
    }
    over = true;
    pthread_join(reader, NULL);
    ck_assert_uint_gt(names_read, 0);
}

// --- the word ---

TEST(versions_do_not_end_with_24_bits)
{
    const uint64_t versions[] = {((uint64_t)1 << 24) - 1, (uint64_t)1 << 24,
                                 ((uint64_t)1 << 24) + 1, ((uint64_t)5 << 40) + 3};
    ck_assert(form(2));
    for (uint32_t i = 0; i < SL_COUNT_OF(versions); i++) {
        uint64_t v = versions[i];
        ck_assert_int_eq(count(worker_of(0), v), SL_OK);
        ck_assert(!sl_group_is_reduced(&arena, v));
        ck_assert_int_eq(count(worker_of(1), v), SL_OK);
        ck_assert(sl_group_is_reduced(&arena, v));
        ck_assert(!sl_group_is_reduced(&arena, v + 1) && !sl_group_is_reduced(&arena, v - 1));
        ck_assert_uint_eq(look(worker_of(0)).generation, 1);
    }
}

// --- whose turn ---

static void publish(uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        sample_and_publish(SAMPLER);
}

TEST(a_member_waits_for_its_own_oldest_batch_alone)
{
    ck_assert(form(2));
    open_train(4, 0, 0);
    struct sl_lease first = sample(SAMPLER), second = sample(SAMPLER), none;
    publish(2);
    ck_assert_int_eq(sl_ledger_claim_train(&arena, worker_of(0), 0, &none), SL_ETIMEDOUT);
    ck_assert_int_eq(sl_ledger_claim_train(&arena, worker_of(1), 0, &none), SL_ETIMEDOUT);
    ck_assert_int_eq(sl_ledger_publish(&arena, &second), SL_OK);
    ck_assert_uint_eq(claim_train(worker_of(1)).cell, 1);
    ck_assert_uint_eq(claim_train(worker_of(1)).cell, 3);
    ck_assert_int_eq(sl_ledger_claim_train(&arena, worker_of(0), 0, &none), SL_ETIMEDOUT);
    ck_assert_int_eq(sl_ledger_publish(&arena, &first), SL_OK);
    ck_assert_uint_eq(claim_train(worker_of(0)).cell, 0);
}

// Of what it has in hand, nothing can be done before the others have done theirs.
TEST(who_waits_for_the_others_does_not_work)
{
    ck_assert(form(2)); // updates of 4
    open_train(8, 0, 0);
    publish(8);
    struct sl_lease l = claim_train(worker_of(0));
    ck_assert(sl_ledger_works(&arena, worker_of(0)) && !sl_ledger_works(&arena, worker_of(1)));
    ck_assert_int_eq(sl_ledger_hold(&arena, &l), SL_OK);
    ck_assert(!sl_ledger_works(&arena, worker_of(0)));
    claim_train(worker_of(0));
    ck_assert(sl_ledger_works(&arena, worker_of(0))); // the second of this update
    for (uint32_t i = 0; i < 4; i++)
        l = claim_train(worker_of(1));
    ck_assert_uint_eq(l.cell, 7);
    reclaim(worker_of(0));
    ck_assert(!sl_ledger_works(&arena, worker_of(0)));
}

TEST(who_is_no_member_evaluates_but_trains_nothing)
{
    ck_assert(form(1));
    uint64_t infer = open_phase(SL_PHASE_INFER, 1, 0, 0);
    uint64_t eval = open_phase(SL_PHASE_EVAL, 1, 0, 0), train = open_train(1, 0, 0);
    publish(2);
    struct sl_lease l = claim_train(STRANGER), none;
    ck_assert_uint_eq(l.seq, infer);
    ck_assert_int_eq(sl_ledger_complete(&arena, &l), SL_OK);
    l = claim_train(STRANGER);
    ck_assert_uint_eq(l.seq, eval);
    ck_assert_int_eq(sl_ledger_complete(&arena, &l), SL_OK);
    ck_assert_int_eq(sl_ledger_claim_train(&arena, STRANGER, 1, &none), SL_ETIMEDOUT);
    ck_assert(!sl_ledger_is_turn(&arena, STRANGER, sl_ledger_phase(&arena, train), 0));
    ck_assert(sl_ledger_is_turn(&arena, STRANGER, sl_ledger_phase(&arena, eval), 0));
    ck_assert_uint_eq(claim_train(worker_of(0)).seq, train);
}

TEST(in_every_group_each_batch_is_one_members_turn)
{
    const struct sl_phase *phase = sl_ledger_phase(&arena, open_train(CELLS, 0, 0));
    static const uint32_t sizes[] = {1, 2, 3, 4, 5, 6, 3, 1, 2};
    for (uint32_t k = 0; k < SL_COUNT_OF(sizes); k++) {
        ck_assert(form(sizes[k]));
        for (uint32_t cell = 0; cell < CELLS; cell++) {
            uint32_t turns = sl_ledger_is_turn(&arena, STRANGER, phase, cell);
            for (uint32_t r = 0; r < DEVICES; r++)
                turns += sl_ledger_is_turn(&arena, worker_of(r), phase, cell);
            ck_assert_uint_eq(turns, 1);
            ck_assert(
                sl_ledger_is_turn(&arena, worker_of(cell % PER_UPDATE % sizes[k]), phase, cell));
        }
    }
}

/*
 * Everything behind the first pages of the cells cannot be read: whoever looks through the whole
 * phase dies.
 */
TEST(a_claim_looks_at_few_cells_of_a_large_phase)
{
    enum { LARGE = 100000, READABLE = 2 * 4096, RANKS = DEVICES };
    struct sl_arena_spec spec = spec_of(LARGE);
    destroy_arena();
    create_arena(&spec);
    uint64_t seq = open_train(LARGE, 0, 0);
    publish(24);
    char *cells = (char *)sl_arena_region(&arena, SL_REGION_CELLS) +
                  seq % SL_ARENA_PHASES * LARGE * sizeof(uint64_t);
    char *from = (char *)sl_align_up((uintptr_t)cells + READABLE, 4096);
    size_t bytes = (size_t)(cells + LARGE * sizeof(uint64_t) - from) / 4096 * 4096;
    ck_assert_int_eq(mprotect(from, bytes, PROT_NONE), 0);
    for (uint32_t n = 1; n <= RANKS; n++) {
        struct sl_lease l;
        ck_assert(form(n));
        for (uint32_t r = 0; r < n; r++)
            for (uint32_t k = 0; k < 4; k++)
                if (sl_ledger_claim_train(&arena, worker_of(r), 0, &l) == SL_OK)
                    ck_assert_uint_eq(l.cell % PER_UPDATE % n, r);
        ck_assert_int_eq(sl_ledger_claim_train(&arena, STRANGER, 0, &l), SL_ETIMEDOUT);
    }
    ck_assert_int_eq(mprotect(from, bytes, PROT_READ | PROT_WRITE), 0);
}

// The members for whom an update has no place do not count through the phase to find that out: this
// one says that it has four billion cells, and a thousand claims are not over in the test's time if
// each looks for a turn among them.
TEST(a_member_without_a_place_does_not_look_for_one)
{
    enum { CLAIMS = 1000 };
    struct sl_lease none;
    uint64_t seq = open_train(CELLS, 0, 0);
    publish(PER_UPDATE);
    ck_assert(form(PER_UPDATE + 1));
    struct sl_phase *large = sl_ledger_phase(&arena, seq);
    uint32_t n_cells = atomic_exchange(&large->n_cells, UINT32_MAX);
    for (int i = 0; i < CLAIMS; i++)
        ck_assert_int_eq(sl_ledger_claim_train(&arena, worker_of(PER_UPDATE), 0, &none),
                         SL_ETIMEDOUT);
    atomic_store(&large->n_cells, n_cells);
    ck_assert_uint_eq(claim_train(worker_of(PER_UPDATE - 1)).cell, PER_UPDATE - 1);
}

RUN_TESTS(.setup = setup, .teardown = destroy_arena, .timeout_s = 60)
