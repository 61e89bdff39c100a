// What nodes do comes to the first one: links over a fake world, one after the other.
#include "link/figures.h"

#include "tests/unit/links_fixture.h"
#include "tests/unit/suite.h"

enum { N = 3 };

static void setup(void)
{
    const struct sl_arena_spec spec = {
        .n_devices = 1, .n_cells = 4, .n_params = 16, .batches_per_update = N};
    links_open(N, &spec);
    for (uint32_t i = 0; i < N; i++)
        well(sl_link_figures_init(be(i)));
}

static void teardown(void)
{
    for (uint32_t i = 0; i < N; i++)
        sl_link_figures_fini(&links[i]);
    links_close();
}

static bool go_round(void)
{
    bool moved = false;
    for (uint32_t i = N; i-- > 0;)
        well(sl_link_figures_poll(be(i), &moved));
    return moved;
}

static void work(uint32_t rank, uint64_t batches)
{
    sl_node_figures_put_work(&links[rank].worker.arena, rank,
                             &(struct sl_node_work){.at_ns = sl_now_ns(), .batches = batches});
}

static uint64_t batches_of(uint32_t rank)
{
    struct sl_node_work w = {0};
    sl_node_figures_work(&links[0].worker.arena, rank, &w);
    return w.batches;
}

CASE(.name = "rows", .setup = setup, .teardown = teardown)

TEST(rows_of_all_come_to_the_first_node)
{
    struct sl_node_wire w;
    work(0, 10);
    work(1, 11);
    work(2, 12);
    links[2].counted.peer[1].in_bytes = 77;
    links[0].counted.peer[1].rows = 5;
    go_round();
    for (uint32_t i = 0; i < N; i++) {
        ck_assert_uint_eq(batches_of(i), 10 + i);
        ck_assert(sl_node_figures_wire(&links[0].worker.arena, i, &w));
        ck_assert_str_eq(w.host, links[0].world.member[i].host);
        ck_assert_uint_eq(w.peer[1].in_bytes, i == 2 ? 77 : 0);
        ck_assert_uint_eq(w.peer[1].rows, i == 0 ? 5 : 0);
    }
    // Nobody else hears of them.
    ck_assert(!sl_node_figures_wire(&links[1].worker.arena, 2, &w));
}

TEST(a_row_is_sent_once_a_second)
{
    work(1, 1);
    ck_assert(go_round());
    work(1, 2);
    ck_assert(!go_round());
    ck_assert_uint_eq(batches_of(1), 1);
    sl_clock_advance(SL_WORLD_SECOND);
    ck_assert(go_round());
    ck_assert_uint_eq(batches_of(1), 2);
}

TEST(a_node_whose_broker_has_said_nothing_has_no_work)
{
    struct sl_node_work w;
    go_round();
    ck_assert(!sl_node_figures_work(&links[0].worker.arena, 1, &w));
}

TEST(a_message_of_another_kind_is_refused)
{
    bool moved;
    char bytes[1 << 14] = "";
    struct sl_world_request r;
    size_t n = 0;
    go_round();
    sl_clock_advance(SL_WORLD_SECOND);
    // As long as a row, whose length is the part's own business.
    well(sl_link_figures_poll(be(1), &moved));
    for (struct fake_message *m = fake.first; m; m = m->next)
        n = m->n;
    ck_assert_uint_le(n, sizeof bytes);
    well(fake_send(0, SL_WORLD_TAG_FIGURES, bytes, n, &r));
    ck_assert_int_eq(sl_link_figures_poll(be(0), &moved), SL_EPROTO);
    assert_part(sl_error_message(), "host b (rank 1) sends figures of rank 0, with magic 0x0");
}

TEST(a_row_of_another_node_is_refused)
{
    struct sl_world_request r;
    bool moved;
    go_round();
    sl_clock_advance(SL_WORLD_SECOND);
    well(sl_link_figures_poll(be(1), &moved));
    ck_assert_ptr_nonnull(fake.first);
    be(2);
    well(fake_send(0, SL_WORLD_TAG_FIGURES, fake.first->bytes, fake.first->n, &r));
    ck_assert_int_eq(sl_link_figures_poll(be(0), &moved), SL_EPROTO);
    assert_part(sl_error_message(), "host c (rank 2) sends figures of rank 1");
}

// --- the end -------------------------------------------------------------------------------------

static bool is_quiet(uint32_t rank)
{
    bool over;
    well(sl_link_figures_quiet(be(rank), &over));
    return over;
}

TEST(the_last_rows_come_before_the_end)
{
    go_round();
    work(0, 20);
    work(1, 21);
    work(2, 22);
    links[0].counted.peer[2].rows = 9;
    ck_assert(is_quiet(1) || is_quiet(1)); // sent, and found to be over
    ck_assert(!is_quiet(0));               // one is missing
    ck_assert(is_quiet(2) || is_quiet(2));
    ck_assert(is_quiet(0));
    for (uint32_t i = 0; i < N; i++)
        ck_assert_uint_eq(batches_of(i), 20 + i);
    struct sl_node_wire w;
    ck_assert(sl_node_figures_wire(&links[0].worker.arena, 0, &w));
    ck_assert_uint_eq(w.peer[2].rows, 9);
    ck_assert_ptr_null(fake.first); // nothing is under way
    ck_assert(is_quiet(1) && is_quiet(2));
    ck_assert_ptr_null(fake.first);
}

TEST(the_last_row_goes_when_the_job_has_ended_on_its_node)
{
    struct sl_node_wire w;
    bool ended[N] = {false, true, false};
    go_round();
    links[1].notes.ended = ended;
    work(1, 30);
    ck_assert(go_round()); // whatever the clock says
    ck_assert_uint_eq(batches_of(1), 30);
    ck_assert(sl_node_figures_wire(&links[0].worker.arena, 1, &w));
    ck_assert_uint_eq(w.last, 1);
    work(1, 31);
    sl_clock_advance(SL_WORLD_SECOND);
    go_round();
    ck_assert_uint_eq(batches_of(1), 30); // no other one
    ck_assert(sl_node_figures_wire(&links[0].worker.arena, 2, &w));
    ck_assert_uint_eq(w.last, 0);
}

TEST(a_node_that_has_no_rows_is_not_waited_for_for_ever)
{
    go_round();
    ck_assert(is_quiet(1) || is_quiet(1));
    ck_assert(!is_quiet(0));
    sl_clock_advance(SL_LINK_LAST_S * SL_WORLD_SECOND);
    ck_assert(is_quiet(0));
    // What comes then is nobody's: the loop throws it away.
    ck_assert(is_quiet(2) || is_quiet(2));
    ck_assert(is_quiet(0));
    ck_assert_ptr_nonnull(fake.first);
}

// --- waits ---------------------------------------------------------------------------------------

TEST(a_wait_is_the_peers_until_it_was_ready_and_then_the_wires)
{
    static const struct {
        uint64_t from, ready, now, late, wire;
    } cases[] = {
        {100, 150, 170, 50, 20}, // late, then under way
        {100, 90, 170, 0, 70},   // ready before it was missed
        {100, 0, 170, 0, 70},    // not known
        {100, 200, 170, 70, 0},  // clocks that are a little apart
        {100, 50, 90, 0, 0},     // it was not waited for
    };
    for (size_t i = 0; i < SL_COUNT_OF(cases); i++) {
        struct sl_node_peer p = {.late_ns = 1000, .wire_ns = 2000};
        sl_node_peer_waited(&p, cases[i].from, cases[i].ready, cases[i].now);
        ck_assert_uint_eq(p.late_ns, 1000 + cases[i].late);
        ck_assert_uint_eq(p.wire_ns, 2000 + cases[i].wire);
    }
}

RUN_TESTS(.quiet = true)
