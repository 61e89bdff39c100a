// Clients over the real bus: many, and one that does not read.
#include "tests/unit/test_data_fixture.h"

#include "broker/log/client.h"
#include "tests/unit/await.h"
#include "tests/unit/suite.h"

enum { MANY = 200 };

static struct sl_bus *broker, *client[MANY];
static struct sl_clients *clients;
static char endpoint[128];
static char key[SL_BUS_KEY_TEXT];
static struct sl_bus_peer named[MANY]; // as the broker knows client i

static void setup(void)
{
    sl_bus_new_endpoint(endpoint, sizeof endpoint, key);
    must(sl_bus_bind(endpoint, key, &broker));
    clients = calloc(1, sizeof *clients);
    sl_clients_init(clients, broker);
}

static void teardown(void)
{
    for (int i = 0; i < MANY; i++)
        sl_bus_close(client[i], 0);
    sl_bus_close(broker, 0);
    free(clients);
}

// Connects client i, and takes its Subscribe.
static void subscribe(int i, unsigned wants)
{
    Sl__Control__Subscribe s = SL__CONTROL__SUBSCRIBE__INIT;
    Sl__Control__Envelope e = SL__CONTROL__ENVELOPE__INIT, *m;
    s.stats = (wants & SL_WANTS_STATS) != 0;
    e.body_case = SL__CONTROL__ENVELOPE__BODY_SUBSCRIBE;
    e.subscribe = &s;
    must(sl_bus_connect(endpoint, key, &client[i]));
    must(sl_bus_send(client[i], NULL, &e));
    must(sl_bus_receive(broker, AWAIT_MS, &named[i], &m));
    sl_bus_message_free(m);
    must(sl_clients_add(clients, &named[i], wants));
}

static void send_stats(const char *json)
{
    Sl__Control__Stats stats = SL__CONTROL__STATS__INIT;
    Sl__Control__Envelope e = SL__CONTROL__ENVELOPE__INIT;
    stats.json = (char *)json;
    e.body_case = SL__CONTROL__ENVELOPE__BODY_STATS;
    e.stats = &stats;
    sl_clients_send(clients, SL_WANTS_STATS, &e);
}

// The next message that client i hears.
static Sl__Control__Envelope__BodyCase hears(int i)
{
    Sl__Control__Envelope *m;
    must(sl_bus_receive(client[i], AWAIT_MS, NULL, &m));
    Sl__Control__Envelope__BodyCase body = m->body_case;
    sl_bus_message_free(m);
    return body;
}

static void hears_stats(int i)
{
    ck_assert_msg(hears(i) == SL__CONTROL__ENVELOPE__BODY_STATS, "client %d", i);
}

// What is sent to it now is the next that it hears: messages to one client keep their order.
static void has_heard_all(int i)
{
    Sl__Control__Progress last = SL__CONTROL__PROGRESS__INIT;
    Sl__Control__Envelope e = SL__CONTROL__ENVELOPE__INIT;
    e.body_case = SL__CONTROL__ENVELOPE__BODY_PROGRESS;
    e.progress = &last;
    must(sl_bus_send(broker, &named[i], &e));
    ck_assert_int_eq(hears(i), SL__CONTROL__ENVELOPE__BODY_PROGRESS);
}

TEST(two_hundred_clients_hear_the_same)
{
    for (int i = 0; i < MANY; i++)
        subscribe(i, SL_WANTS_STATS);
    send_stats("{}");
    for (int i = 0; i < MANY; i++)
        hears_stats(i);
    ck_assert_uint_eq(clients->n, MANY);
}

TEST(who_wants_nothing_gets_nothing)
{
    subscribe(0, 0);
    subscribe(1, SL_WANTS_PROGRESS);
    ck_assert(!sl_clients_want(clients, SL_WANTS_STATS));
    ck_assert(sl_clients_want(clients, SL_WANTS_PROGRESS));
    subscribe(2, SL_WANTS_STATS);
    ck_assert(sl_clients_want(clients, SL_WANTS_STATS));
    send_stats("{}");
    hears_stats(2);
    has_heard_all(0);
    has_heard_all(1);
}

TEST(a_client_that_asks_again_says_what_it_wants_now)
{
    struct sl_bus_peer peer = {.id = "me", .n = 2};
    must(sl_clients_add(clients, &peer, SL_WANTS_STATS));
    must(sl_clients_add(clients, &peer, SL_WANTS_PROGRESS));
    ck_assert_uint_eq(clients->n, 1);
    ck_assert(!sl_clients_want(clients, SL_WANTS_STATS));
}

// Whoever stops reading fills its queue, loses messages, then its place; nobody waits for it.
TEST(a_client_that_does_not_read_is_dropped_and_never_waited_for)
{
    enum { BYTES = 20000, MESSAGES = 20000 };
    static char line[BYTES + 1];
    memset(line, 'x', BYTES);
    subscribe(0, SL_WANTS_STATS); // reads
    subscribe(1, SL_WANTS_STATS); // does not
    int sent = 0, taken = 0; // what is not taken is refused at once: a send that waits never ends
    for (; sent < MESSAGES && clients->n == 2; sent++) {
        send_stats(line);
        if (clients->n == 2 && clients->list[1].missed == 0)
            taken = sent + 1;
        hears_stats(0);
    }
    ck_assert_msg(clients->n == 1, "after %d messages it is still there", sent);
    ck_assert_int_eq(sent, taken + SL_CLIENT_MISSED_MAX + 1);
    ck_assert_int_gt(taken, 0);
    send_stats(line);
    hears_stats(0);
    has_heard_all(0);
}

TEST(a_client_that_is_gone_is_dropped)
{
    subscribe(0, SL_WANTS_STATS);
    sl_bus_close(client[0], 0);
    client[0] = NULL;
    AWAIT((send_stats("{}"), clients->n == 0));
}

TEST(a_full_table_turns_the_next_one_away)
{
    for (uint32_t i = 0; i < SL_CLIENTS_MAX; i++) {
        struct sl_bus_peer peer = {.n = 4};
        memcpy(peer.id, &i, sizeof i);
        must(sl_clients_add(clients, &peer, 0));
    }
    struct sl_bus_peer last = {.id = "late", .n = 5};
    ck_assert_int_eq(sl_clients_add(clients, &last, 0), SL_EAGAIN);
    assert_message_has("1024 clients");
    clients->list[7].missed = 3; // it has gone, or does not read: its place is taken
    must(sl_clients_add(clients, &last, 0));
    ck_assert_uint_eq(clients->n, SL_CLIENTS_MAX);
    struct sl_bus_peer next = {.id = "next", .n = 5};
    ck_assert_int_eq(sl_clients_add(clients, &next, 0), SL_EAGAIN);
    send_stats("{}"); // to peers that do not exist
}

RUN_TESTS(.setup = setup, .teardown = teardown, .timeout_s = AWAIT_CASE_S)
