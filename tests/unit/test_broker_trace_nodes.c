// A trace of a job over nodes: whom the client hears, and when it ends.
#include "broker/telemetry/trace_nodes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/error.h"
#include "tests/unit/suite.h"

enum { NODES = 2, SECOND = 1000000000 };

static const struct sl_bus_peer client = {.n = 1, .request = 7}, other = {.n = 1, .request = 8};
static struct sl_trace_nodes t;

// What each node has been asked last.
static struct {
    uint32_t asks;
    Sl__Control__Trace trace;
    char place[64];
    uint64_t request;
} asked[NODES];

static struct {
    uint32_t chunks, answers;
    bool full, ok;
    char events[64], message[512];
} told;

static void on_ask(void *ctx, uint32_t node, uint64_t request, Sl__Control__Trace *trace)
{
    asked[node].asks++;
    asked[node].trace = *trace;
    asked[node].request = request;
    snprintf(asked[node].place, sizeof asked[node].place, "%s", trace->place);
}

static int on_tell(void *ctx, const struct sl_bus_peer *to, Sl__Control__Envelope *e)
{
    if (told.full)
        return SL_EAGAIN;
    if (!e->trace_chunk->last) {
        ck_assert(to->request == client.request);
        told.chunks++;
        snprintf(told.events, sizeof told.events, "%s", e->trace_chunk->events);
        return SL_OK;
    }
    told.answers++;
    told.ok = e->trace_chunk->ok;
    snprintf(told.message, sizeof told.message, "%s", e->trace_chunk->message);
    return SL_OK;
}

static const char *host(void *ctx, uint32_t node)
{
    return node ? "b" : "a";
}

static void request(const struct sl_bus_peer *from, double seconds, uint64_t taken)
{
    Sl__Control__Trace trace = SL__CONTROL__TRACE__INIT;
    trace.seconds = seconds;
    trace.taken = taken;
    sl_trace_nodes_on_request(&t, NODES, from, &trace);
}

static void setup(void)
{
    memset(&asked, 0, sizeof asked);
    memset(&told, 0, sizeof told);
    t = (struct sl_trace_nodes){.events = {.ask = on_ask, .tell = on_tell, .host = host}};
    request(&client, 10, 0);
}

static void teardown(void)
{
    free(t.of);
}

static void chunk(uint32_t node, const char *events, bool last, bool ok, uint64_t dropped)
{
    Sl__Control__TraceChunk c = SL__CONTROL__TRACE_CHUNK__INIT;
    Sl__Control__Envelope e = SL_ENVELOPE(TRACE_CHUNK, trace_chunk, &c);
    e.request = asked[node].request;
    c.events = (char *)events;
    c.n_events = *events ? 5 : 0;
    c.last = last;
    c.ok = ok;
    c.message = "why";
    c.dropped = dropped;
    sl_trace_nodes_on_chunk(&t, node, &e);
}

CASE(.name = "all", .setup = setup, .teardown = teardown)

TEST(all_begin_at_one_moment)
{
    ck_assert(asked[0].asks == 1 && asked[1].asks == 1 && told.answers == 0);
    ck_assert_uint_eq(asked[0].trace.from_ns, asked[1].trace.from_ns);
    ck_assert(asked[1].trace.from_ns > 0 && asked[1].trace.seconds == 10);
    ck_assert_str_eq(asked[1].place, "host b (rank 1)");
}

TEST(it_ends_when_all_have)
{
    chunk(1, "one", false, true, 0);
    ck_assert_str_eq(told.events, "one");
    chunk(1, "", true, true, 3);
    chunk(1, "after the last", false, true, 0);
    chunk(0, "two", false, true, 0);
    ck_assert(told.chunks == 2 && told.answers == 0);
    chunk(0, "", true, true, 0);
    ck_assert(told.answers == 1 && told.ok && !t.on);
    ck_assert_ptr_nonnull(strstr(told.message, "10 events of "));
    ck_assert_ptr_nonnull(strstr(told.message, " on 2 nodes in 2 pieces; 3 events were dropped"));
}

TEST(a_node_goes_on_once_its_last_piece_is_read)
{
    chunk(1, "first", false, true, 0);
    chunk(0, "second", false, true, 0);
    chunk(1, "third", false, true, 0);
    request(&client, 0, 2);
    ck_assert(asked[0].asks == 2 && asked[0].trace.taken == 1);
    ck_assert_uint_eq(asked[1].asks, 1);
    request(&other, 0, 3); // not its client
    ck_assert_uint_eq(asked[1].asks, 1);
    request(&client, 0, 3);
    ck_assert(asked[1].asks == 2 && asked[1].trace.taken == 2);
    ck_assert_uint_eq(asked[0].asks, 2); // it knows
}

TEST(what_a_client_cannot_take_is_counted)
{
    told.full = true;
    chunk(1, "lost", false, true, 0);
    told.full = false;
    chunk(0, "", true, true, 0);
    chunk(1, "", true, true, 0);
    ck_assert_ptr_nonnull(strstr(told.message, "0 events of "));
    ck_assert_ptr_nonnull(strstr(told.message, "5 events were dropped"));
}

TEST(a_node_whose_last_word_does_not_come_is_named)
{
    chunk(0, "", true, true, 0);
    sl_clock_advance(11 * (uint64_t)SECOND);
    sl_trace_nodes_poll(&t);
    ck_assert_uint_eq(told.answers, 0);
    sl_clock_advance(SL_TRACE_LATE_S * (uint64_t)SECOND);
    sl_trace_nodes_poll(&t);
    ck_assert(told.answers == 1 && !told.ok && !t.on);
    ck_assert_ptr_nonnull(strstr(told.message, "; host b (rank 1): its last events have not come"));
    ck_assert_ptr_null(strstr(told.message, "host a"));
}

TEST(a_node_that_refuses_is_named)
{
    chunk(1, "", true, false, 0);
    chunk(0, "", true, true, 0);
    ck_assert(told.answers == 1 && !told.ok);
    ck_assert_ptr_nonnull(strstr(told.message, "; host b (rank 1): why"));
}

TEST(its_client_may_end_it)
{
    chunk(0, "", true, true, 0);
    request(&client, 0, 0);
    ck_assert(asked[0].asks == 1 && asked[1].asks == 2 && asked[1].trace.seconds == 0);
    ck_assert_uint_eq(told.answers, 0);
    sl_clock_advance(SL_TRACE_LATE_S * (uint64_t)SECOND);
    sl_trace_nodes_poll(&t);
    ck_assert(told.answers == 1 && !t.on);
}

TEST(one_at_a_time_and_no_longer_than_the_bound)
{
    request(&other, 10, 0);
    ck_assert(told.answers == 1 && !told.ok && t.on);
    ck_assert_ptr_nonnull(strstr(told.message, "another client traces this job, for 10.0 s more"));
    sl_trace_nodes_end(&t);
    request(&client, 601, 0);
    ck_assert(told.answers == 3 && !t.on);
    ck_assert_ptr_nonnull(strstr(told.message, "wanted more than 0 and at most 600"));
}

RUN_TESTS()
