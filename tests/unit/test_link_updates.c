// Updates between the links of several nodes, over a fake world: what goes when, whatever the order
// in which nodes work and look.
#include "link/updates.h"

#include "common/arena/nodes.h"
#include "tests/unit/links_fixture.h"
#include "tests/unit/suite.h"
#include "tests/unit/test_arena_fixture.h"

enum { N = 3, PARAMS = 100, STATES = 2, PER_UPDATE = 5, CELLS = 12, UPDATES = 3 };
enum { SAMPLER = 6, TRAINER = 7, NEVER = 200 };

static uint64_t phase[N];
static uint32_t trained[N]; // the next own cell that is to be, or one behind all of them

// --- nodes ---------------------------------------------------------------------------------------

static struct sl_node_link *turn(uint32_t rank)
{
    arena = links[rank].worker.arena;
    return be(rank);
}

static void open_nodes(uint32_t cells)
{
    const struct sl_arena_spec spec = {.n_devices = 1,
                                       .n_cells = 64,
                                       .n_params = PARAMS,
                                       .n_state = STATES,
                                       .batches_per_update = PER_UPDATE,
                                       .payload_bytes = 64 * SL_ARENA_CHUNK_BYTES};
    links_open(N, &spec);
    for (uint32_t i = 0; i < N; i++) {
        well(sl_link_updates_init(turn(i)));
        phase[i] = open_train(cells, 0, 0);
        trained[i] = 0;
        while (trained[i] < cells && !sl_nodes_is_own(&arena, SL_PHASE_TRAIN, trained[i]))
            trained[i]++;
    }
}

static void setup(void)
{
    open_nodes(CELLS);
}

static void setup_of_one_cell(void)
{
    open_nodes(1);
}

static void teardown(void)
{
    for (uint32_t i = 0; i < N; i++)
        sl_link_updates_fini(&links[i]);
    links_close();
}

static uint64_t version_of(uint32_t rank)
{
    return sl_param_store_version(&links[rank].worker.arena);
}

static float gradient_of(uint32_t cell, uint32_t i)
{
    return (float)((cell + 1) * 1000 + i);
}

static float state_of(uint64_t version, uint32_t k, uint32_t i)
{
    return (float)(version * 100000 + k * 1000 + i);
}

// Element i of what the update from `version` makes: the sum of its gradients.
static float made_of(uint64_t version, uint32_t i)
{
    float sum = 0;
    for (uint64_t c = version * PER_UPDATE; c < CELLS && c < (version + 1) * PER_UPDATE; c++)
        sum += gradient_of((uint32_t)c, i);
    return sum;
}

static bool poll_node(uint32_t rank)
{
    bool moved = false;
    well(sl_link_updates_poll(turn(rank), &moved));
    return moved;
}

// The next own cell, where the current version lets it be trained. False: there is none.
static bool train(uint32_t rank)
{
    struct sl_nodes_step s;
    struct sl_node_link *l = turn(rank);
    if (sl_nodes_next(&arena, &s) != SL_OK || trained[rank] >= s.first_cell + s.n_cells)
        return false;
    sample_and_publish(SAMPLER);
    const struct sl_lease lease = claim_train(TRAINER);
    ck_assert_uint_eq(lease.cell, trained[rank]);
    for (uint32_t i = 0; i < PARAMS; i++)
        sl_param_store_gradient(&arena, lease.cell)[i] = gradient_of(lease.cell, i);
    lease.entry->done_at_ns = sl_now_ns();
    well(sl_ledger_complete(&l->worker.arena, &lease));
    do
        trained[rank]++;
    while (trained[rank] < CELLS && !sl_nodes_is_own(&arena, SL_PHASE_TRAIN, trained[rank]));
    return true;
}

// This node's slice of the next version, where all gradients are there. False: they are not.
static bool make(uint32_t rank)
{
    struct sl_update u;
    turn(rank);
    if (sl_param_store_begin_update(&arena, TRAINER, &u) != SL_OK)
        return false;
    const struct sl_nodes_part own = sl_nodes_slice(&arena, rank);
    float *to = sl_param_store_params(&arena, u.version + 1);
    for (uint64_t i = own.first; i < own.first + own.n; i++) {
        to[i] = 0;
        for (uint32_t g = 0; g < sl_param_store_update_gradients(&arena, &u); g++)
            to[i] += sl_param_store_update_gradient(&arena, &u, g)[i];
        for (uint32_t k = 0; k < STATES; k++)
            sl_param_store_state(&arena, u.version + 1, k)[i] =
                state_of(u.version + 1, k, (uint32_t)i);
    }
    sl_param_store_commit_update(&arena, &u);
    return true;
}

static void expect_params(uint32_t rank)
{
    const uint64_t v = version_of(rank);
    const float *params = sl_param_store_params(&links[rank].worker.arena, v);
    for (uint32_t i = 0; v > 0 && i < PARAMS; i++)
        ck_assert_msg(params[i] == made_of(v - 1, i), "node %u, version %llu, parameter %u: %g",
                      rank, (unsigned long long)v, i, params[i]);
}

static void look_around(void)
{
    for (int round = 0; round < 10; round++)
        for (uint32_t i = 0; i < N; i++)
            poll_node(i);
}

static void become_quiet(uint32_t rank)
{
    bool quiet = false;
    for (int i = 0; i < NEVER && !quiet; i++)
        well(sl_link_updates_quiet(turn(rank), &quiet));
    ck_assert(quiet);
}

// Messages that have been sent to a node and not been taken.
static uint32_t n_waiting(uint32_t from, uint32_t to)
{
    uint32_t n = 0;
    for (const struct fake_message *m = fake.first; m; m = m->next)
        n += m->from == from && m->to == to;
    return n;
}

// --- a run ---------------------------------------------------------------------------------------

CASE(.setup = setup, .teardown = teardown)

static void expect_together(void)
{
    uint64_t least = UINT64_MAX, most = 0;
    for (uint32_t i = 0; i < N; i++) {
        least = SL_MIN(least, version_of(i));
        most = SL_MAX(most, version_of(i));
        expect_params(i);
    }
    ck_assert_uint_le(most - least, 1);
}

static bool are_all_at(uint64_t version)
{
    for (uint32_t i = 0; i < N; i++)
        if (version_of(i) != version)
            return false;
    return true;
}

// Whoever works and looks first, also where the last update has no cell of the third node: every
// version has all gradients and all slices on every node.
LOOP_TEST(updates_are_the_same_in_any_order, 1, 41)
{
    uint64_t random = (uint64_t)_i;
    for (int n = 0; !are_all_at(UPDATES); n++) {
        ck_assert_int_lt(n, 20000);
        random = random * 6364136223846793005u + 1442695040888963407u;
        // One of them works and looks less often than the others.
        const uint32_t what = (uint32_t)(random >> 40) % 3;
        uint32_t rank = (uint32_t)(random >> 45) % N;
        if (rank == (uint32_t)_i % N && random >> 61 != 0)
            rank = (rank + 1) % N;
        if (what == 0)
            train(rank);
        else if (what == 1)
            make(rank);
        else
            poll_node(rank);
        expect_together();
    }
    for (uint32_t i = 0; i < N; i++) {
        turn(i);
        ck_assert(sl_ledger_phase_complete(&arena, phase[i]));
        become_quiet(i);
    }
    ck_assert_ptr_null(fake.first);
}

// --- a step --------------------------------------------------------------------------------------

static void train_all(void)
{
    for (uint32_t i = 0; i < N; i++)
        while (train(i))
            ;
}

TEST(nothing_is_made_before_all_batches_are_in)
{
    while (train(0) || train(1))
        ;
    look_around(); // the third has not trained
    for (uint32_t i = 0; i < N; i++)
        ck_assert(!make(i));
    train_all();
    ck_assert(poll_node(2));
    ck_assert(!make(0)); // sent, and not taken yet
    look_around();
    for (uint32_t i = 0; i < N; i++)
        ck_assert(make(i));
}

TEST(a_version_waits_for_the_slice_of_every_node)
{
    train_all();
    look_around();
    ck_assert(make(0) && make(1));
    look_around();
    ck_assert(are_all_at(0));
    ck_assert(make(2));
    look_around();
    ck_assert(are_all_at(1));
    expect_together();
}

// What a node that is ahead sends waits until this one is at its version.
TEST(a_node_that_is_ahead_disturbs_nothing)
{
    train_all();
    look_around();
    ck_assert(make(0) && make(1) && make(2));
    ck_assert(poll_node(2)); // its slice is on its way
    for (int i = 0; i < 10; i++) {
        poll_node(0);
        poll_node(1);
    }
    ck_assert(version_of(0) == 1 && version_of(1) == 1 && version_of(2) == 0);
    while (train(0) || train(1))
        ;
    for (int i = 0; i < 10; i++) {
        poll_node(0);
        poll_node(1);
    }
    ck_assert_uint_gt(n_waiting(0, 2), 2);
    turn(2);
    for (uint32_t cell = 0; cell < PER_UPDATE; cell++) {
        const struct sl_nodes_part part = sl_nodes_gradient_part(&arena, 2);
        const float *slot = sl_param_store_gradient(&arena, cell);
        ck_assert(slot[part.first] == gradient_of(cell, (uint32_t)part.first));
    }
    poll_node(2);
    ck_assert_uint_eq(version_of(2), 1);
    expect_params(2);
    poll_node(2);
    ck_assert_uint_eq(n_waiting(0, 2), 0);
}

// A trainer works while the link goes round.
static int test_and_work(struct sl_world_request *request)
{
    train(0);
    make(0);
    return fake_test(request);
}

TEST(a_slice_does_not_overtake_the_last_batch)
{
    struct sl_world_table table = FAKE_TABLE;
    while (train(1) || train(2))
        ;
    look_around();
    ck_assert(train(0)); // not its last one
    table.test = test_and_work;
    links[0].world.table = &table;
    ck_assert(poll_node(0)); // made, when batches have been sent
    links[0].world.table = &FAKE_TABLE;
    look_around();
    ck_assert(make(1) && make(2));
    look_around();
    ck_assert(are_all_at(1));
    expect_together();
}

// --- who has waited ------------------------------------------------------------------------------

TEST(a_wait_for_a_batch_is_the_nodes_that_was_late)
{
    struct sl_node_peer *late = &links[0].counted.peer[2], *early = &links[0].counted.peer[1];
    while (train(0) || train(1))
        ;
    look_around();
    sl_clock_advance(3 * SL_WORLD_SECOND);
    poll_node(0); // it is told before it is over
    ck_assert_uint_ge(late->late_ns, 3 * SL_WORLD_SECOND);
    const uint64_t told = late->late_ns;
    sl_clock_advance(SL_WORLD_SECOND / 2);
    train_all();
    poll_node(2);
    sl_clock_advance(5 * SL_WORLD_SECOND); // under way
    poll_node(0);
    ck_assert_uint_ge(late->late_ns, told + SL_WORLD_SECOND / 2);
    ck_assert_uint_ge(late->wire_ns, 5 * SL_WORLD_SECOND);
    ck_assert_uint_lt(early->late_ns + early->wire_ns, told);
}

TEST(a_batch_of_another_node_has_this_ones_times)
{
    links[0].clock_ahead_ns[2] = SL_WORLD_SECOND;
    train_all();
    look_around();
    for (uint32_t cell = 0; cell < PER_UPDATE; cell++) {
        uint64_t done[N];
        for (uint32_t i = 0; i < N; i++)
            done[i] = sl_ledger_entry(&links[i].worker.arena, phase[i], cell)->done_at_ns;
        ck_assert_uint_eq(done[0], done[2] - (cell % N == 2 ? SL_WORLD_SECOND : 0));
    }
}

// --- what is no update ---------------------------------------------------------------------------

static const struct {
    struct sl_nodes_batch batch;
    size_t less_bytes;
    const char *says;
} faults[] = {
    {{.magic = 1, .cell = 1}, 0, "host b (rank 1)"},
    {{.magic = SL_NODES_BATCH_MAGIC, .version = 1, .cell = 1}, 0, "host b (rank 1)"},
    {{.magic = SL_NODES_BATCH_MAGIC, .cell = 4}, 0, "host b (rank 1)"},
    {{.magic = SL_NODES_BATCH_MAGIC, .cell = 1}, 8, "host b (rank 1): "},
};

LOOP_TEST(what_is_not_the_batch_that_is_due_is_an_error, 0, SL_COUNT_OF(faults))
{
    struct sl_world_request r;
    bool moved;
    poll_node(0);
    be(1);
    well(fake_send(0, SL_WORLD_TAG_UPDATE, &faults[_i].batch,
                   sizeof faults[_i].batch - faults[_i].less_bytes, &r));
    ck_assert_int_eq(sl_link_updates_poll(turn(0), &moved), SL_EPROTO);
    assert_part(sl_error_message(), faults[_i].says);
    ck_assert_int_eq(sl_cell_state(sl_ledger_word(&arena, phase[0], 1)), SL_CELL_ELSEWHERE);
}

TEST(a_slice_of_another_version_is_an_error)
{
    struct sl_world_request r;
    bool moved;
    train_all();
    look_around();
    be(1);
    const struct sl_nodes_made made = {.magic = SL_NODES_SLICE_MAGIC, .version = 2};
    well(fake_send(0, SL_WORLD_TAG_UPDATE, &made, sizeof made, &r));
    ck_assert_int_eq(sl_link_updates_poll(turn(0), &moved), SL_EPROTO);
    assert_part(sl_error_message(), "host b (rank 1)");
}

// --- state ---------------------------------------------------------------------------------------

static void reach_version_1(void)
{
    train_all();
    look_around();
    ck_assert(make(0) && make(1) && make(2));
    look_around();
    ck_assert(are_all_at(1));
}

TEST(a_checkpoint_has_the_state_of_every_node)
{
    reach_version_1();
    train_all();
    look_around();
    // All is there for the next version, which waits.
    ck_assert(make(0) && make(1) && make(2));
    sl_nodes_ask_state(&links[0].worker.arena);
    poll_node(0);
    for (uint32_t i = 1; i < N; i++) {
        ck_assert_uint_gt(n_waiting(0, i), 0);
        turn(0);
        ck_assert(!sl_nodes_state_is_whole(&arena));
        poll_node(i);
        poll_node(0);
    }
    look_around();
    turn(0);
    ck_assert(sl_nodes_state_is_whole(&arena));
    ck_assert_uint_eq(version_of(0), 1);
    for (uint32_t k = 0; k < STATES; k++)
        for (uint32_t i = 0; i < PARAMS; i++)
            ck_assert(sl_param_store_state(&arena, 1, k)[i] == state_of(1, k, i));
    sl_nodes_end_ask(&links[0].worker.arena);
    look_around();
    ck_assert(are_all_at(2));
}

static int hear_no_asks(enum sl_world_tag tag, uint32_t *from, size_t *n)
{
    return tag == SL_WORLD_TAG_STATE ? SL_EAGAIN : fake_probe(tag, from, n);
}

// Also where the broker wants it no more: it would come into a bank that is written.
TEST(state_that_is_under_way_holds_the_version)
{
    struct sl_world_table table = FAKE_TABLE;
    reach_version_1();
    train_all();
    look_around();
    ck_assert(make(0) && make(1) && make(2));
    sl_nodes_ask_state(&links[0].worker.arena);
    poll_node(0);
    sl_nodes_end_ask(&links[0].worker.arena);
    table.probe = hear_no_asks;
    links[2].world.table = &table;
    look_around();
    ck_assert(version_of(0) == 1 && version_of(1) == 2 && version_of(2) == 2);
    links[2].world.table = &FAKE_TABLE;
    look_around();
    ck_assert(are_all_at(2));
}

LOOP_TEST(only_the_first_node_asks_for_state, 0, 2)
{
    struct sl_world_request r;
    const uint64_t wanted[2] = {0};
    bool moved;
    be((uint32_t)_i);
    well(fake_send(2, SL_WORLD_TAG_STATE, wanted, _i == 0 ? sizeof wanted : sizeof *wanted, &r));
    ck_assert_int_eq(sl_link_updates_poll(turn(2), &moved), SL_EPROTO);
    assert_part(sl_error_message(), _i == 0 ? "host a (rank 0) asks for state with 16 bytes"
                                            : "host b (rank 1) asks for state");
}

// --- the end -------------------------------------------------------------------------------------

TEST(what_is_under_way_at_the_end_is_let_go)
{
    reach_version_1();
    ck_assert(train(1));
    look_around();
    sl_nodes_ask_state(&links[0].worker.arena);
    ck_assert(poll_node(0));
    for (uint32_t i = 0; i < N; i++)
        sl_arena_abort(&links[i].worker.arena, SL_ABORT_STOP);
    for (uint32_t i = 0; i < N; i++)
        become_quiet(i);
}

CASE(.setup = setup_of_one_cell, .teardown = teardown)

// A node without a cell sends one header, without a gradient, and is waited for all the same.
TEST(a_node_without_a_cell_says_so)
{
    ck_assert(train(0));
    for (int i = 0; i < 10; i++) {
        poll_node(0);
        poll_node(1);
    }
    ck_assert_uint_eq(n_waiting(1, 2), 1);
    ck_assert_uint_eq(n_waiting(0, 2), 2);
    ck_assert(!make(0));
    look_around();
    ck_assert(make(0) && make(1) && make(2));
    look_around();
    ck_assert(are_all_at(1));
    ck_assert_ptr_null(fake.first);
}

RUN_TESTS(.quiet = true)
