// Questions on the control bus: each gets its own answer, or is given up.
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/bus/bus.h"
#include "common/bus/request.h"
#include "tests/unit/await.h"
#include "tests/unit/suite.h"

enum { N = 3 };

static char endpoint[128];
static char key[SL_BUS_KEY_TEXT];
static struct sl_bus *server, *client;

static void open_buses(void)
{
    sl_bus_new_endpoint(endpoint, sizeof endpoint, key);
    ck_assert_int_eq(sl_bus_bind(endpoint, key, &server), SL_OK);
    ck_assert_int_eq(sl_bus_connect(endpoint, key, &client), SL_OK);
}

static void close_buses(void)
{
    sl_bus_close(client, 0);
    sl_bus_close(server, 0);
}

static void send_question(const struct sl_request *r)
{
    Sl__Control__List list = SL__CONTROL__LIST__INIT;
    Sl__Control__Envelope e = SL__CONTROL__ENVELOPE__INIT;
    e.body_case = SL__CONTROL__ENVELOPE__BODY_LIST;
    e.list = &list;
    e.request = r->id;
    ck_assert_int_eq(sl_bus_send(client, NULL, &e), SL_OK);
}

// Asks, and says whom the server has to answer.
static struct sl_request ask(uint64_t patience_ms, struct sl_bus_peer *from)
{
    struct sl_request r = sl_request_begin(patience_ms);
    Sl__Control__Envelope *m;
    send_question(&r);
    ck_assert_int_eq(sl_bus_receive(server, AWAIT_MS, from, &m), SL_OK);
    sl_bus_message_free(m);
    return r;
}

static void answer(const struct sl_bus_peer *to, const char *message)
{
    Sl__Control__Answer a = SL__CONTROL__ANSWER__INIT;
    Sl__Control__Envelope e = SL__CONTROL__ENVELOPE__INIT;
    a.ok = true;
    a.message = (char *)message;
    e.body_case = SL__CONTROL__ENVELOPE__BODY_ANSWER;
    e.answer = &a;
    ck_assert_int_eq(sl_bus_send(server, to, &e), SL_OK);
}

static Sl__Control__Envelope *receive(void)
{
    Sl__Control__Envelope *m;
    ck_assert_int_eq(sl_bus_receive(client, AWAIT_MS, NULL, &m), SL_OK);
    return m;
}

// The next message answers this question, with this text.
static void expect_answer(struct sl_request *r, const char *message)
{
    struct sl_reply reply;
    Sl__Control__Envelope *m = receive();
    ck_assert(sl_request_on_message(r, m, &reply));
    ck_assert_int_eq(reply.code, SL_OK);
    ck_assert_str_eq(reply.message, message);
    ck_assert_ptr_null(reply.json);
    ck_assert_uint_eq(r->id, 0);
    sl_reply_fini(&reply);
    sl_bus_message_free(m);
}

CASE(.name = "buses", .setup = open_buses, .teardown = close_buses, .timeout_s = AWAIT_CASE_S)

TEST(answers_come_in_another_order_than_the_questions)
{
    static const char *const texts[N] = {"first", "second", "third"};
    static const int order[N] = {2, 0, 1};
    struct sl_request requests[N];
    struct sl_bus_peer from[N];
    for (int i = 0; i < N; i++)
        requests[i] = ask(5000, &from[i]);
    for (int i = 0; i < N; i++)
        answer(&from[order[i]], texts[order[i]]);
    for (int i = 0; i < N; i++) {
        struct sl_reply reply = {0};
        Sl__Control__Envelope *m = receive();
        for (int j = 0; j < N; j++) {
            ck_assert_int_eq(sl_request_on_message(&requests[j], m, &reply), j == order[i]);
            if (j != order[i])
                continue;
            ck_assert_str_eq(reply.message, texts[j]);
            sl_reply_fini(&reply);
        }
        sl_bus_message_free(m);
    }
}

TEST(an_answer_that_nobody_waits_for_is_nobodys)
{
    struct sl_request none = {0}, given_up, waiting;
    struct sl_bus_peer of_given_up, of_waiting, nobody;
    struct sl_reply reply = {0};
    given_up = ask(5000, &of_given_up);
    waiting = ask(5000, &of_waiting);
    nobody = of_waiting;
    nobody.request = 0;
    ck_assert_uint_ne(given_up.id, waiting.id);
    answer(&of_given_up, "late");
    answer(&nobody, "to nothing");
    for (int i = 0; i < 2; i++) {
        Sl__Control__Envelope *m = receive();
        ck_assert(!sl_request_on_message(&waiting, m, &reply));
        ck_assert(!sl_request_on_message(&none, m, &reply));
        sl_bus_message_free(m);
    }
    answer(&of_waiting, "done");
    expect_answer(&waiting, "done");
    answer(&of_waiting, "again");
    Sl__Control__Envelope *m = receive();
    ck_assert(!sl_request_on_message(&waiting, m, &reply));
    sl_bus_message_free(m);
}

CASE(.name = "alone", .timeout_s = AWAIT_CASE_S)

// A broker that is killed once it has the question; the one after it at the same place knows
// nothing of that.
TEST(a_peer_dies_before_it_answers)
{
    int told[2];
    char byte;
    Sl__Control__Envelope *m;
    struct sl_bus_peer from;
    sl_bus_new_endpoint(endpoint, sizeof endpoint, key);
    ck_assert_int_eq(pipe(told), 0);
    pid_t peer = fork();
    ck_assert_int_ge(peer, 0);
    if (peer == 0) {
        bool asked = sl_bus_bind(endpoint, key, &server) == SL_OK &&
                     sl_bus_receive(server, AWAIT_MS, &from, &m) == SL_OK;
        _exit(!asked || write(told[1], "a", 1) != 1 || pause());
    }
    close(told[1]);
    ck_assert_int_eq(sl_bus_connect(endpoint, key, &client), SL_OK);
    struct sl_request first = sl_request_begin(5000);
    send_question(&first);
    ck_assert_int_eq(read(told[0], &byte, 1), 1);
    close(told[0]);
    kill(peer, SIGKILL);
    ck_assert_int_eq(waitpid(peer, NULL, 0), peer);

    ck_assert_int_eq(sl_bus_bind(endpoint, key, &server), SL_OK);
    struct sl_request second = sl_request_begin(0);
    // What was sent before the end of the connection was seen is lost.
    AWAIT((send_question(&second), sl_bus_receive(server, 20, &from, &m) == SL_OK));
    ck_assert_uint_eq(m->request, second.id);
    sl_bus_message_free(m);
    answer(&from, "here");
    expect_answer(&second, "here");
    ck_assert_uint_ne(first.id, 0);
    sl_clock_advance(5000 * 1000000ull);
    ck_assert_uint_eq(sl_request_left_ms(&first), 0);
    close_buses();
}

TEST(a_bound_passes)
{
    Sl__Control__Waiting waiting = SL__CONTROL__WAITING__INIT;
    Sl__Control__Envelope e = SL__CONTROL__ENVELOPE__INIT;
    struct sl_reply reply;
    e.body_case = SL__CONTROL__ENVELOPE__BODY_WAITING;
    e.waiting = &waiting;
    struct sl_request r = sl_request_begin(5000), other = sl_request_begin(5000);
    struct sl_request unbounded = sl_request_begin(0);
    ck_assert_uint_gt(sl_request_left_ms(&r), 0);
    ck_assert_uint_le(sl_request_left_ms(&r), 5001);
    sl_clock_advance(5000 * 1000000ull);
    ck_assert_uint_eq(sl_request_left_ms(&r), 0);
    ck_assert_uint_eq(sl_request_left_ms(&other), 0);
    // Somebody sees to it: for this one the wait begins anew.
    e.request = r.id;
    const uint64_t from = sl_now_ns();
    ck_assert(!sl_request_on_message(&r, &e, &reply));
    ck_assert(!sl_request_on_message(&other, &e, &reply));
    ck_assert_uint_ge(r.until_ns, from + 5000 * 1000000ull);
    ck_assert_uint_eq(sl_request_left_ms(&other), 0);
    sl_clock_advance(86400 * 1000000000ull);
    ck_assert_uint_eq(sl_request_left_ms(&r), 0);
    ck_assert_uint_gt(sl_request_left_ms(&unbounded), 0);
}

TEST(a_request_ends_with_its_last_message)
{
    Sl__Control__TraceChunk chunk = SL__CONTROL__TRACE_CHUNK__INIT;
    Sl__Control__ScaleProgress progress = SL__CONTROL__SCALE_PROGRESS__INIT;
    Sl__Control__ScaleDone done = SL__CONTROL__SCALE_DONE__INIT;
    Sl__Control__Envelope e = SL__CONTROL__ENVELOPE__INIT;
    struct sl_request r = sl_request_begin(0);
    struct sl_reply reply, copy;
    e.request = r.id;
    e.body_case = SL__CONTROL__ENVELOPE__BODY_TRACE_CHUNK;
    e.trace_chunk = &chunk;
    ck_assert(!sl_request_on_message(&r, &e, &reply));
    chunk.last = true;
    chunk.message = (char *)"why";
    ck_assert(sl_request_on_message(&r, &e, &reply));
    ck_assert_int_eq(reply.code, SL_EFAILED);
    ck_assert_str_eq(reply.message, "why");
    sl_reply_fini(&reply);

    r = sl_request_begin(0);
    e.request = r.id;
    e.body_case = SL__CONTROL__ENVELOPE__BODY_SCALE_PROGRESS;
    e.scale_progress = &progress;
    ck_assert(!sl_request_on_message(&r, &e, &reply));
    e.body_case = SL__CONTROL__ENVELOPE__BODY_SCALE_DONE;
    e.scale_done = &done;
    done.ok = true;
    done.json = (char *)"{}";
    ck_assert(sl_request_on_message(&r, &e, &reply));
    ck_assert_int_eq(sl_reply_copy(&reply, &copy), SL_OK);
    sl_reply_fini(&reply);
    ck_assert_int_eq(copy.code, SL_OK);
    ck_assert_ptr_null(copy.message);
    ck_assert_str_eq(copy.json, "{}");
    sl_reply_fini(&copy);
}

// A refusal has a code of its own, or is one at least.
TEST(a_refusal_says_why)
{
    Sl__Control__Answer a = SL__CONTROL__ANSWER__INIT;
    Sl__Control__Envelope e = SL__CONTROL__ENVELOPE__INIT;
    e.body_case = SL__CONTROL__ENVELOPE__BODY_ANSWER;
    e.answer = &a;
    const int codes[][2] = {{SL_EINVAL, SL_EINVAL}, {0, SL_EFAILED}, {7, SL_EFAILED}};
    for (int i = 0; i < 3; i++) {
        struct sl_request r = sl_request_begin(0);
        struct sl_reply reply;
        e.request = r.id;
        a.code = codes[i][0];
        ck_assert(sl_request_on_message(&r, &e, &reply));
        ck_assert_int_eq(reply.code, codes[i][1]);
        sl_reply_fini(&reply);
    }
}

RUN_TESTS()
