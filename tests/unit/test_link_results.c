// What evaluations find, between the links of several nodes over a fake world.
#include "link/results.h"

#include "common/arena/nodes.h"
#include "tests/unit/links_fixture.h"
#include "tests/unit/suite.h"
#include "tests/unit/test_arena_fixture.h"

enum { N = 3, WORDS = 2, ROWS = 80, EVALUATIONS = 3, SAMPLER = 6, TRAINER = 7, NEVER = 200 };

// Cells of each; in the second one a node has none.
static const uint32_t n_cells[EVALUATIONS] = {8, 2, 7};
static uint64_t phase[N];
static uint32_t at[N]; // the evaluation that a node is in

static struct sl_node_link *turn(uint32_t rank)
{
    arena = links[rank].worker.arena;
    return be(rank);
}

static void open_next(uint32_t rank)
{
    turn(rank);
    phase[rank] = open_phase(SL_PHASE_EVAL, n_cells[at[rank]], 0, 0);
}

static void setup(void)
{
    const struct sl_arena_spec spec = {.n_devices = 1,
                                       .n_cells = 64,
                                       .n_params = 16,
                                       .predict_rows = ROWS,
                                       .predict_words = WORDS,
                                       .batches_per_update = N,
                                       .payload_bytes = 64 * SL_ARENA_CHUNK_BYTES};
    links_open(N, &spec);
    for (uint32_t i = 0; i < N; i++) {
        well(sl_link_results_init(turn(i)));
        for (uint32_t k = 0; k < N; k++)
            links[i].clock_ahead_ns[k] = ((int64_t)k - i) * (int64_t)SL_WORLD_SECOND;
        at[i] = 0;
        open_next(i);
    }
}

static void teardown(void)
{
    for (uint32_t i = 0; i < N; i++)
        sl_link_results_fini(&links[i]);
    links_close();
}

static bool poll_node(uint32_t rank)
{
    bool moved = false;
    well(sl_link_results_poll(turn(rank), &moved));
    return moved;
}

static uint32_t word_of(uint32_t evaluation, uint32_t row, uint32_t word)
{
    return evaluation * 100000 + row * 10 + word;
}

static double loss_of(uint32_t evaluation, uint32_t cell)
{
    return evaluation + 0.125 * cell;
}

// When it is, on a node whose clock is a second ahead of the one's before it.
static uint64_t time_of(uint32_t rank, uint32_t cell)
{
    return (1 + rank) * SL_WORLD_SECOND + cell;
}

// The next own batch, as a trainer leaves it. False: there is none.
static bool evaluate(uint32_t rank)
{
    struct sl_lease l;
    uint32_t n;
    turn(rank);
    if (sl_ledger_claim_sample(&arena, SAMPLER, SL_AHEAD_ALL, 0, &l) != SL_OK)
        return false;
    ck_assert_uint_eq(l.cell % N, rank);
    ck_assert_int_eq(sl_ledger_publish(&arena, &l), SL_OK);
    l = claim_train(TRAINER);
    const uint64_t first = sl_phase_range(l.phase, l.cell, &n);
    uint32_t *to = (uint32_t *)sl_arena_predictions(&arena) + first * WORDS;
    for (uint32_t i = 0; i < n * WORDS; i++)
        to[i] = word_of(at[rank], (uint32_t)first + i / WORDS, i % WORDS);
    l.entry->loss = loss_of(at[rank], l.cell);
    l.entry->done_at_ns = time_of(rank, l.cell);
    well(sl_ledger_complete(&links[rank].worker.arena, &l));
    return true;
}

// Judges an evaluation that is over: all of it is there. Then predictions are the next one's.
static bool judge(uint32_t rank)
{
    turn(rank);
    const uint32_t evaluation = at[rank], cells = n_cells[evaluation];
    uint32_t *found = sl_arena_predictions(&arena);
    if (!sl_ledger_phase_complete(&arena, phase[rank]))
        return false;
    for (uint32_t i = 0; i < (cells * 10 - 3) * WORDS; i++)
        ck_assert_uint_eq(found[i], word_of(evaluation, i / WORDS, i % WORDS));
    for (uint32_t c = 0; c < cells; c++) {
        const struct sl_batch_entry *e = sl_ledger_entry(&arena, phase[rank], c);
        ck_assert(e->loss == loss_of(evaluation, c));
        ck_assert_uint_eq(e->done_at_ns, time_of(rank, c));
    }
    memset(found, 0xff, ROWS * WORDS * sizeof *found);
    if (++at[rank] < EVALUATIONS)
        open_next(rank);
    return true;
}

static bool are_all_over(void)
{
    for (uint32_t i = 0; i < N; i++)
        if (at[i] < EVALUATIONS)
            return false;
    return true;
}

static void become_quiet(uint32_t rank)
{
    bool quiet = false;
    for (int i = 0; i < NEVER && !quiet; i++)
        well(sl_link_results_quiet(turn(rank), &quiet));
    ck_assert(quiet);
}

CASE(.setup = setup, .teardown = teardown)

LOOP_TEST(every_node_has_all_results_in_any_order, 1, 41)
{
    uint64_t random = (uint64_t)_i;
    for (int n = 0; !are_all_over(); n++) {
        ck_assert_int_lt(n, 20000);
        random = random * 6364136223846793005u + 1442695040888963407u;
        // One of them works and looks less often than the others.
        const uint32_t what = (uint32_t)(random >> 40) % 3;
        uint32_t rank = (uint32_t)(random >> 45) % N;
        if (rank == (uint32_t)_i % N && random >> 61 != 0)
            rank = (rank + 1) % N;
        if (at[rank] == EVALUATIONS || what == 0)
            poll_node(rank);
        else if (what == 1)
            evaluate(rank);
        else
            judge(rank);
    }
    for (uint32_t i = 0; i < N; i++)
        become_quiet(i);
    ck_assert_ptr_null(fake.first);
}

TEST(what_is_on_its_way_stays_as_it_is)
{
    links_send_slowly(0);
    while (evaluate(0) || evaluate(1) || evaluate(2))
        ;
    for (int i = 0; i < 20; i++)
        for (uint32_t k = 0; k < N; k++)
            poll_node(k);
    // All results of the others are here, but its own cannot leave: the phase is not over.
    ck_assert(!judge(0) && !judge(1));
    ck_assert_uint_eq(((const struct sl_nodes_result *)(const void *)slow.was)->cell, 0);
    ck_assert_mem_eq(slow.bytes, slow.was, slow.n);
    slow.over = true;
    for (int i = 0; i < 20; i++)
        for (uint32_t k = 0; k < N; k++)
            poll_node(k);
    ck_assert(judge(0) && judge(1) && judge(2));
}

// A phase that the broker opens with its gate closed is judged behind it first.
TEST(nothing_comes_into_a_phase_that_is_gated)
{
    uint32_t *found;
    while (evaluate(0) || evaluate(1) || evaluate(2))
        ;
    for (int i = 0; i < 20; i++)
        for (uint32_t k = 0; k < N; k++)
            poll_node(k);
    ck_assert(judge(1) && judge(2));
    turn(0);
    const uint64_t gated = open_phase(SL_PHASE_EVAL, n_cells[1], 0, 1);
    while (evaluate(1))
        ;
    for (int i = 0; i < 20; i++)
        for (uint32_t k = N; k-- > 0;)
            poll_node(k);
    turn(0);
    found = sl_arena_predictions(&arena);
    for (uint32_t i = 0; i < (n_cells[0] * 10 - 3) * WORDS; i++)
        ck_assert_uint_eq(found[i], word_of(0, i / WORDS, i % WORDS));
    sl_ledger_open_gate(&links[0].worker.arena, gated);
    ck_assert(poll_node(0));
    ck_assert_uint_eq(found[10 * WORDS], word_of(1, 10, 0));
}

TEST(what_is_not_due_is_an_error_of_its_node)
{
    _Alignas(64) char bytes[sizeof(struct sl_nodes_result) + 10 * WORDS * sizeof(uint32_t)] = "";
    struct sl_world_request r;
    bool moved;
    be(1);
    well(fake_send(0, SL_WORLD_TAG_RESULT, bytes, sizeof bytes, &r));
    ck_assert_int_eq(sl_link_results_poll(turn(0), &moved), SL_EPROTO);
    assert_part(sl_error_message(), "host b (rank 1)");
    be(2);
    well(fake_send(0, SL_WORLD_TAG_RESULT, bytes, sizeof bytes - 4, &r));
    ck_assert_int_eq(sl_link_results_poll(turn(0), &moved), SL_EPROTO);
    assert_part(sl_error_message(), "host c (rank 2)");
}

TEST(what_is_under_way_at_the_end_is_let_go)
{
    ck_assert(evaluate(1));
    for (uint32_t i = 0; i < N; i++)
        poll_node(i);
    for (uint32_t i = 0; i < N; i++)
        sl_arena_abort(&links[i].worker.arena, SL_ABORT_STOP);
    for (uint32_t i = 0; i < N; i++)
        become_quiet(i);
}

RUN_TESTS(.quiet = true)
