// What brokers ask one another, and the answers: relays of links over a fake world.
#include "link/relay.h"

#include <stdio.h>

#include "common/base/error.h"
#include "link/node_link.h"
#include "tests/unit/nodes_fake_world.h"
#include "tests/unit/suite.h"
#include "tests/unit/test_data_fixture.h"

enum { N = 3 };

static struct sl_node_link links[N];
static int64_t ahead[N][N];

static struct sl_node_link *be(uint32_t rank)
{
    fake_rank = rank;
    return &links[rank];
}

static void setup(void)
{
    fake.size = N;
    for (uint32_t i = 0; i < N; i++) {
        struct sl_node_link *l = be(i);
        *l = (struct sl_node_link){
            .world = {.table = &FAKE_TABLE, .rank = i, .size = N, .doing = "the job over nodes"},
            .clock_ahead_ns = ahead[i]};
        l->world.member = calloc(N, sizeof *l->world.member);
        for (uint32_t k = 0; k < N; k++)
            snprintf(l->world.member[k].host, SL_WORLD_HOST_BYTES, "%c", 'a' + k);
        must(sl_link_relay_init(l));
    }
}

static void teardown(void)
{
    for (uint32_t i = 0; i < N; i++) {
        sl_link_relay_fini(&links[i]);
        free(links[i].world.member);
    }
    for (struct fake_message *m = fake.first, *next; m; m = next) {
        next = m->next;
        free(m->bytes);
        free(m);
    }
    fake.first = NULL;
}

static void ask(uint32_t node, uint64_t number, uint64_t from_ns)
{
    Sl__Control__Trace trace = SL__CONTROL__TRACE__INIT;
    Sl__Control__Envelope e = SL_ENVELOPE(TRACE, trace, &trace);
    e.protocol = SL_PROTOCOL_VERSION;
    e.node = node;
    e.request = number;
    trace.from_ns = from_ns;
    must(sl_link_relay_send(be(0), &e));
}

static void answer(uint32_t node, uint64_t number, char *text)
{
    Sl__Control__ScaleDone done = SL__CONTROL__SCALE_DONE__INIT;
    Sl__Control__Envelope e = SL_ENVELOPE(SCALE_DONE, scale_done, &done);
    e.protocol = SL_PROTOCOL_VERSION;
    e.request = number;
    done.message = text;
    must(sl_link_relay_send(be(node), &e));
}

static void expect_nothing(uint32_t rank)
{
    Sl__Control__Envelope *m;
    ck_assert_int_eq(sl_link_relay_next(be(rank), &m), SL_EAGAIN);
}

static Sl__Control__Envelope *next(uint32_t rank, uint32_t from, uint64_t number)
{
    Sl__Control__Envelope *m;
    must(sl_link_relay_next(be(rank), &m));
    ck_assert_uint_eq(m->node, from);
    ck_assert_uint_eq(m->request, number);
    return m;
}

CASE(.name = "all", .setup = setup, .teardown = teardown)

TEST(a_question_goes_to_its_node_and_the_answer_to_the_first)
{
    for (uint32_t i = 0; i < N; i++)
        ask(i, 40 + i, 0);
    for (uint32_t i = 0; i < N; i++) {
        sl_bus_message_free(next(i, 0, 40 + i));
        expect_nothing(i);
    }
    answer(2, 42, "two");
    answer(0, 40, "own");
    answer(2, 42, "again");
    Sl__Control__Envelope *own = next(0, 0, 40), *first = next(0, 2, 42), *last = next(0, 2, 42);
    ck_assert_str_eq(own->scale_done->message, "own");
    ck_assert_str_eq(first->scale_done->message, "two");
    ck_assert_str_eq(last->scale_done->message, "again");
    sl_bus_message_free(own);
    sl_bus_message_free(first);
    sl_bus_message_free(last);
    expect_nothing(0);
    expect_nothing(1);
}

TEST(moments_are_by_the_clock_of_who_hears_them)
{
    ahead[1][0] = -500; // node 1's shows more
    ahead[2][0] = 300;
    for (uint32_t i = 0; i < N; i++) {
        ask(i, 9, 10000);
        Sl__Control__Envelope *m = next(i, 0, 9);
        ck_assert_uint_eq(m->trace->from_ns, i == 0 ? 10000 : i == 1 ? 10500 : 9700);
        sl_bus_message_free(m);
    }
    ask(1, 9, 0); // it begins when it is heard
    Sl__Control__Envelope *m = next(1, 0, 9);
    ck_assert_uint_eq(m->trace->from_ns, 0);
    sl_bus_message_free(m);
    memset(ahead, 0, sizeof ahead);
}

TEST(what_is_no_message_is_an_error)
{
    static const char bytes[] = "nothing of the kind";
    struct sl_world_request request;
    Sl__Control__Envelope *m;
    be(1);
    must(FAKE_TABLE.send(0, SL_WORLD_TAG_RELAY, bytes, sizeof bytes, &request));
    ck_assert_int_eq(sl_link_relay_next(be(0), &m), SL_EPROTO);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "host b (rank 1) sends 20 bytes that are no"));
    be(1);
    must(FAKE_TABLE.send(0, SL_WORLD_TAG_RELAY, bytes, 0, &request));
    ck_assert_int_eq(sl_link_relay_next(be(0), &m), SL_EPROTO);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "a message of 0 bytes: wanted 1 to"));
}

TEST(a_node_that_is_not_there_is_an_error)
{
    Sl__Control__Trace trace = SL__CONTROL__TRACE__INIT;
    Sl__Control__Envelope e = SL_ENVELOPE(TRACE, trace, &trace);
    e.node = N;
    ck_assert_int_eq(sl_link_relay_send(be(0), &e), SL_EPROTO);
}

RUN_TESTS()
