// The control bus: what arrives, what is refused, and that nobody can make the broker wait.
#include <poll.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "common/base/clock.h"
#include "common/bus/outgoing.h"
#include "tests/unit/bus_fixture.h"
#include "tests/unit/suite.h"

static char endpoint[128];
static char key[SL_BUS_KEY_TEXT];
static struct sl_bus *broker;

static void open_broker(void)
{
    ck_assert_int_eq(sl_bus_new_endpoint(endpoint, sizeof endpoint, key), SL_OK);
    ck_assert_msg(sl_bus_bind(endpoint, NULL, &broker) == SL_OK, "%s", sl_error_message());
}

static void close_broker(void)
{
    sl_bus_close(broker, 0);
}

static struct sl_bus *join(const char *with_key)
{
    struct sl_bus *bus;
    ck_assert_msg(sl_bus_connect(endpoint, with_key, &bus) == SL_OK, "%s", sl_error_message());
    return bus;
}

// Whether the other side has ended a connection, which is waited for.
static bool hung_up(void *monitor)
{
    int event;
    do
        event = next_event(monitor);
    while (event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED);
    return event != 0;
}

// A peer that speaks ZeroMQ but not our protocol.
static void send_raw(const void *frame, size_t bytes, int n_frames)
{
    void *context = zmq_ctx_new();
    void *socket = zmq_socket(context, ZMQ_DEALER);
    ck_assert_int_eq(zmq_connect(socket, endpoint), 0);
    for (int i = 0; i < n_frames; i++)
        ck_assert_int_ge(zmq_send(socket, frame, bytes, i + 1 < n_frames ? ZMQ_SNDMORE : 0), 0);
    int linger = SOON_MS;
    zmq_setsockopt(socket, ZMQ_LINGER, &linger, sizeof linger);
    zmq_close(socket);
    zmq_ctx_term(context);
}

static void expect_refusals(uint64_t n)
{
    uint64_t until = sl_now_ns() + (uint64_t)SOON_MS * 1000000u;
    while (sl_bus_refused(broker) < n && sl_now_ns() < until) {
        Sl__Control__Envelope *m;
        ck_assert_int_eq(sl_bus_receive(broker, 20, NULL, &m), SL_EAGAIN);
    }
    ck_assert_uint_eq(sl_bus_refused(broker), n);
}

CASE(.name = "bus", .setup = open_broker, .teardown = close_broker, .timeout_s = 120)

TEST(endpoints_and_keys_differ)
{
    char other[128], other_key[SL_BUS_KEY_TEXT];
    ck_assert_int_eq(sl_bus_new_endpoint(other, sizeof other, other_key), SL_OK);
    ck_assert_str_ne(other, endpoint);
    ck_assert_str_ne(other_key, key);
    ck_assert_msg(strncmp(other, "ipc://@", 7) == 0, "%s is not abstract", other);
}

TEST(a_message_goes_there_and_back)
{
    struct sl_bus *worker = join(NULL);
    struct sl_bus_peer peer;
    ck_assert_int_eq(send_text(worker, NULL, "here I am"), SL_OK);
    expect_text(broker, &peer, "here I am");
    ck_assert_uint_gt(peer.n, 0);
    ck_assert_int_eq(send_text(broker, &peer, "go on"), SL_OK);
    expect_text(worker, NULL, "go on");
    sl_bus_close(worker, 0);
}

TEST(answers_reach_the_peer_that_asked)
{
    struct sl_bus *one = join(NULL), *two = join(NULL);
    struct sl_bus_peer peer_one, peer_two;
    ck_assert_int_eq(send_text(one, NULL, "one"), SL_OK);
    expect_text(broker, &peer_one, "one");
    ck_assert_int_eq(send_text(two, NULL, "two"), SL_OK);
    expect_text(broker, &peer_two, "two");
    ck_assert_int_eq(send_text(broker, &peer_two, "for two"), SL_OK);
    ck_assert_int_eq(send_text(broker, &peer_one, "for one"), SL_OK);
    expect_text(one, NULL, "for one");
    expect_text(two, NULL, "for two");
    sl_bus_close(one, 0);
    sl_bus_close(two, 0);
}

// Somebody else's socket at an abstract endpoint.
static int listen_at(const char *name)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    const char *rest = name + strlen("ipc://@");
    memcpy(at.sun_path + 1, rest, strlen(rest));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t n = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(rest));
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&at, n), 0);
    ck_assert_int_eq(listen(fd, 8), 0);
    return fd;
}

// A ROUTER does not hear the second one of a name, and says nothing: names are libzmq's, another
// one for each start, so it does not matter whether the broker has seen the end of the one before.
TEST(who_is_started_again_is_heard)
{
    enum { STARTS = 8 };
    struct sl_bus *worker[STARTS];
    struct sl_bus_peer peer[STARTS];
    for (int i = 0; i < STARTS; i++) {
        worker[i] = join(NULL);
        ck_assert_int_eq(send_text(worker[i], NULL, "here I am"), SL_OK);
        expect_text(broker, &peer[i], "here I am");
        for (int k = 0; k < i; k++)
            ck_assert(!sl_bus_same_peer(&peer[i], &peer[k]));
        ck_assert_int_eq(send_text(broker, &peer[i], "go on"), SL_OK);
        expect_text(worker[i], NULL, "go on");
        if (i % 2) // the others stand still, as if they were stopped
            sl_bus_close(worker[i], 0);
    }
    for (int i = 0; i < STARTS; i += 2) {
        ck_assert_int_eq(send_text(broker, &peer[i], "still there?"), SL_OK);
        expect_text(worker[i], NULL, "still there?");
        sl_bus_close(worker[i], 0);
    }
}

// It has knocked where nobody speaks to it.
TEST(a_worker_may_come_before_the_broker)
{
    char name[128], t[SL_BUS_KEY_TEXT];
    struct sl_bus *early, *late;
    sl_bus_new_endpoint(name, sizeof name, t);
    int listener = listen_at(name);
    ck_assert_int_eq(sl_bus_connect(name, t, &early), SL_OK);
    ck_assert_int_eq(send_text(early, NULL, "patience"), SL_OK);
    int knocked = accept(listener, NULL, NULL);
    ck_assert_int_ge(knocked, 0);
    close(listener);
    close(knocked);
    ck_assert_int_eq(sl_bus_bind(name, t, &late), SL_OK);
    expect_text(late, NULL, "patience");
    sl_bus_close(early, 0);
    sl_bus_close(late, 0);
}

TEST(an_endpoint_has_one_broker)
{
    struct sl_bus *second;
    ck_assert_int_eq(sl_bus_bind(endpoint, NULL, &second), SL_EEXIST);
    ck_assert_ptr_null(second);
}

TEST(a_bad_endpoint_is_named)
{
    struct sl_bus *bus;
    ck_assert_int_lt(sl_bus_bind("nonsense", NULL, &bus), 0);
    ck_assert_msg(strstr(sl_error_message(), "nonsense") != NULL, "%s", sl_error_message());
}

// --- keys ----------------------------------------------------------------------------------------

static void open_keyed(void)
{
    ck_assert_int_eq(sl_bus_new_endpoint(endpoint, sizeof endpoint, key), SL_OK);
    ck_assert_msg(sl_bus_bind(endpoint, key, &broker) == SL_OK, "%s", sl_error_message());
}

CASE(.name = "keys", .setup = open_keyed, .teardown = close_broker, .timeout_s = 120)

// Who has another key, or none, neither gets in nor hears anything.
TEST(only_who_has_the_key_gets_in)
{
    char other[SL_BUS_KEY_TEXT];
    struct sl_bus_peer peer;
    ck_assert_int_eq(sl_bus_key_make(other), SL_OK);
    struct sl_bus *strangers[] = {join(other), join(NULL)}, *worker = join(key);
    for (int i = 0; i < 2; i++)
        (void)send_text(strangers[i], NULL, "let me in"); // may have been hung up on already
    ck_assert_int_eq(send_text(worker, NULL, "mine"), SL_OK);
    expect_text(broker, &peer, "mine");
    ck_assert_int_eq(send_text(broker, &peer, "yours"), SL_OK);
    expect_text(worker, NULL, "yours");
    for (int i = 0; i < 2; i++)
        sl_bus_close(strangers[i], 0);
    sl_bus_close(worker, 0);
    Sl__Control__Envelope *m;
    ck_assert_int_eq(sl_bus_receive(broker, 0, NULL, &m), SL_EAGAIN);
}

// Whoever takes the name that a dead broker has left hears nothing of what is sent to it, and is
// not believed: not without a key, and not with one of its own.
TEST(who_takes_a_dead_brokers_name_is_not_spoken_to)
{
    for (int own_key = 0; own_key < 2; own_key++) {
        char other[SL_BUS_KEY_TEXT];
        uint8_t frame[64];
        struct sl_curve keys;
        const int yes = 1, none = 0;
        ck_assert_int_eq(sl_bus_key_make(other), SL_OK);
        ck_assert_int_eq(sl_bus_key_curve(other, true, &keys), SL_OK);
        sl_bus_close(broker, 0);
        struct sl_bus *worker = join(key);
        ck_assert_int_eq(send_text(worker, NULL, "a secret"), SL_OK);
        void *context = zmq_ctx_new(), *impostor = zmq_socket(context, ZMQ_ROUTER);
        zmq_setsockopt(impostor, ZMQ_LINGER, &none, sizeof none);
        if (own_key) { // and lets in everybody: nobody answers for it
            zmq_setsockopt(impostor, ZMQ_CURVE_SERVER, &yes, sizeof yes);
            zmq_setsockopt(impostor, ZMQ_CURVE_SECRETKEY, keys.secret_key, SL_CURVE_KEY_TEXT);
        }
        void *monitor = monitor_of(context, impostor);
        ck_assert_int_eq(zmq_bind(impostor, endpoint), 0);
        ck_assert(!is_let_in(monitor));
        ck_assert_int_eq(zmq_recv(impostor, frame, sizeof frame, ZMQ_DONTWAIT), -1);
        zmq_close(monitor);
        zmq_close(impostor);
        zmq_ctx_term(context);
        ck_assert_int_eq(sl_bus_bind(endpoint, key, &broker), SL_OK);
        sl_bus_close(worker, 0);
    }
}

// Of another descriptor's position nothing depends, and what is no key is refused.
TEST(a_key_goes_by_descriptor)
{
    char other[SL_BUS_KEY_TEXT];
    int fd = sl_bus_key_hand_over(key);
    ck_assert_int_ge(fd, 0);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(sl_bus_key_read(fd, other), SL_OK);
        ck_assert_str_eq(other, key);
    }
    ck_assert_int_eq(ftruncate(fd, 17), 0);
    ck_assert_int_eq(sl_bus_key_read(fd, other), SL_EFORMAT);
    close(fd);
    ck_assert_int_eq(sl_bus_key_read(fd, other), SL_ESYS);
    struct sl_bus *bus;
    ck_assert_int_eq(sl_bus_connect(endpoint, "no key", &bus), SL_EINVAL);
    ck_assert_ptr_null(bus);
}

// --- versions ------------------------------------------------------------------------------------

static size_t pack_stop(uint8_t *frame, uint32_t protocol)
{
    Sl__Control__Envelope e = SL__CONTROL__ENVELOPE__INIT;
    Sl__Control__Stop stop = SL__CONTROL__STOP__INIT;
    e.body_case = SL__CONTROL__ENVELOPE__BODY_STOP;
    e.stop = &stop;
    e.protocol = protocol;
    return sl__control__envelope__pack(&e, frame);
}

static size_t pack_refused(uint8_t *frame, uint32_t protocol, char *reason)
{
    Sl__Control__Envelope e = SL__CONTROL__ENVELOPE__INIT;
    Sl__Control__Refused refused = SL__CONTROL__REFUSED__INIT;
    refused.protocol = protocol;
    refused.reason = reason;
    e.body_case = SL__CONTROL__ENVELOPE__BODY_REFUSED;
    e.refused = &refused;
    e.protocol = protocol;
    return sl__control__envelope__pack(&e, frame);
}

// A program of another version: asks and keeps its socket open for the answer.
struct other {
    void *context, *socket;
};

static void other_open(struct other *o, int type)
{
    int wait_ms = SOON_MS, linger = 0;
    o->context = zmq_ctx_new();
    o->socket = zmq_socket(o->context, type);
    zmq_setsockopt(o->socket, ZMQ_RCVTIMEO, &wait_ms, sizeof wait_ms);
    zmq_setsockopt(o->socket, ZMQ_LINGER, &linger, sizeof linger);
    ck_assert_int_eq((type == ZMQ_ROUTER ? zmq_bind : zmq_connect)(o->socket, endpoint), 0);
}

static void other_close(struct other *o)
{
    zmq_close(o->socket);
    zmq_ctx_term(o->context);
}

static void expect_refused(struct other *o)
{
    uint8_t frame[1024];
    int n = zmq_recv(o->socket, frame, sizeof frame, 0);
    ck_assert_int_gt(n, 0);
    Sl__Control__Envelope *m = sl__control__envelope__unpack(NULL, (size_t)n, frame);
    ck_assert_ptr_nonnull(m);
    ck_assert_int_eq(m->body_case, SL__CONTROL__ENVELOPE__BODY_REFUSED);
    ck_assert_uint_eq(m->protocol, SL_PROTOCOL_VERSION);
    ck_assert_uint_eq(m->refused->protocol, SL_PROTOCOL_VERSION);
    ck_assert_msg(strstr(m->refused->reason, "protocol") != NULL, "%s", m->refused->reason);
    sl_bus_message_free(m);
}

// Asks what is answered: messages keep their order, so this answer is the first that comes.
static void expect_nothing_yet(struct other *o)
{
    uint8_t frame[64];
    uint64_t refused = sl_bus_refused(broker);
    ck_assert_int_ge(zmq_send(o->socket, frame, pack_stop(frame, 4), 0), 0);
    expect_refusals(refused + 1);
    expect_refused(o);
}

CASE(.setup = open_broker, .teardown = close_broker, .timeout_s = 120)

TEST(another_protocol_version_is_answered)
{
    static const uint32_t versions[] = {1, 2, 4, 1000};
    uint8_t frame[64];
    struct other o;
    other_open(&o, ZMQ_DEALER);
    for (uint64_t i = 0; i < 4; i++) {
        size_t n = pack_stop(frame, versions[i]);
        ck_assert_int_ge(zmq_send(o.socket, frame, n, 0), 0);
        expect_refusals(i + 1);
        expect_refused(&o);
    }
    other_close(&o);
}

TEST(what_is_no_envelope_hears_nothing)
{
    uint8_t frame[64];
    struct other o;
    other_open(&o, ZMQ_DEALER);
    zmq_send(o.socket, "\xff\xff\xff", 3, 0);
    zmq_send(o.socket, frame, pack_stop(frame, 0), 0); // no version
    zmq_send(o.socket, frame, pack_stop(frame, 123456), 0);
    expect_refusals(3);
    expect_nothing_yet(&o);
    other_close(&o);
}

TEST(refused_is_never_answered)
{
    uint8_t frame[256];
    struct other o;
    other_open(&o, ZMQ_DEALER);
    zmq_send(o.socket, frame, pack_refused(frame, 1, "no"), 0);
    zmq_send(o.socket, frame, pack_refused(frame, 4, "no"), 0);
    expect_refusals(2);
    expect_nothing_yet(&o);
    other_close(&o);
}

TEST(who_asks_a_daemon_of_another_version_learns_both)
{
    uint8_t name[64], frame[1024];
    struct other o;
    struct sl_bus *client;
    Sl__Control__Envelope *m;
    sl_bus_new_endpoint(endpoint, sizeof endpoint, key);
    other_open(&o, ZMQ_ROUTER); // a daemon of protocol 4
    ck_assert_int_eq(sl_bus_connect(endpoint, NULL, &client), SL_OK);
    ck_assert_int_eq(send_text(client, NULL, "hello"), SL_OK);
    int n = zmq_recv(o.socket, name, sizeof name, 0);
    ck_assert_int_gt(n, 0);
    ck_assert_int_gt(zmq_recv(o.socket, frame, sizeof frame, 0), 0);
    zmq_send(o.socket, name, (size_t)n, ZMQ_SNDMORE);
    zmq_send(o.socket, frame, pack_refused(frame, 4, "this is\x1b[2J sluice 9"), 0);
    ck_assert_int_eq(sl_bus_receive(client, SOON_MS, NULL, &m), SL_EPROTO);
    const char *text = sl_error_message();
    ck_assert_msg(strstr(text, "protocol 4") && strstr(text, "protocol 3"), "%s", text);
    ck_assert_msg(strstr(text, "sluice 9") && strstr(text, "start the daemon again"), "%s", text);
    ck_assert_msg(!strchr(text, 0x1b), "control characters reach the terminal");
    // A message of another version that is no refusal says the same.
    zmq_send(o.socket, name, (size_t)n, ZMQ_SNDMORE);
    zmq_send(o.socket, frame, pack_stop(frame, 4), 0);
    ck_assert_int_eq(sl_bus_receive(client, SOON_MS, NULL, &m), SL_EPROTO);
    sl_bus_close(client, 0);
    other_close(&o);
}

// --- requests ------------------------------------------------------------------------------------

TEST(an_answer_carries_the_request_back)
{
    struct sl_bus *asker = join(NULL), *other = join(NULL);
    struct sl_bus_peer asked, peer;
    Sl__Control__Envelope e = SL__CONTROL__ENVELOPE__INIT;
    Sl__Control__LogLine line = SL__CONTROL__LOG_LINE__INIT;
    e.body_case = SL__CONTROL__ENVELOPE__BODY_LOG_LINE;
    e.log_line = &line;
    e.request = UINT64_MAX;
    ck_assert_int_eq(sl_bus_send(asker, NULL, &e), SL_OK);
    expect_text(broker, &asked, "");
    ck_assert(asked.request == UINT64_MAX);
    ck_assert_int_eq(send_text(asker, NULL, "without one"), SL_OK);
    expect_text(broker, &peer, "without one");
    ck_assert_uint_eq(peer.request, 0);
    ck_assert(sl_bus_same_peer(&peer, &asked));
    ck_assert_int_eq(send_text(other, NULL, "another"), SL_OK);
    expect_text(broker, &peer, "another");
    ck_assert(!sl_bus_same_peer(&peer, &asked));

    // One body for both: the number of the first is not the second's.
    ck_assert_int_eq(sl_bus_send(broker, &asked, &e), SL_OK);
    ck_assert_int_eq(sl_bus_send(broker, &peer, &e), SL_OK);
    Sl__Control__Envelope *m = expect(asker, NULL);
    ck_assert(m->request == UINT64_MAX);
    sl_bus_message_free(m);
    m = expect(other, NULL);
    ck_assert_uint_eq(m->request, 0);
    sl_bus_message_free(m);
    sl_bus_close(asker, 0);
    sl_bus_close(other, 0);
}

TEST(a_peer_that_is_none_is_an_error)
{
    struct sl_bus_peer nobody = {0}, wild = {.id = {9, 1, 2, 3}, .n = 4};
    ck_assert_int_eq(send_text(broker, &nobody, "anybody?"), SL_EAGAIN);
    ck_assert_int_eq(send_text(broker, &wild, "anybody?"), SL_EAGAIN);
}

TEST(an_envelope_without_body_is_refused)
{
    uint8_t frame[64];
    Sl__Control__Envelope e = SL__CONTROL__ENVELOPE__INIT;
    e.protocol = SL_PROTOCOL_VERSION;
    send_raw(frame, sl__control__envelope__pack(&e, frame), 1);
    expect_refusals(1);
}

TEST(garbage_is_refused_and_counted)
{
    unsigned char noise[300];
    srandom(7);
    for (int round = 0; round < 20; round++) {
        for (size_t i = 0; i < sizeof noise; i++)
            noise[i] = (unsigned char)random();
        send_raw(noise, (size_t)(round * 13), 1);
    }
    send_raw("x", 1, 5); // a message of many frames
    expect_refusals(21);

    struct sl_bus *worker = join(NULL);
    ck_assert_int_eq(send_text(worker, NULL, "still here"), SL_OK);
    expect_text(broker, NULL, "still here");
    sl_bus_close(worker, 0);
}

TEST(an_oversized_message_is_never_delivered)
{
    size_t bytes = SL_BUS_REQUEST_MAX + 1000;
    void *huge = calloc(1, bytes);
    send_raw(huge, bytes, 1); // within the band that is counted
    free(huge);
    expect_refusals(1);

    // Far beyond it libzmq cuts the connection; others are not disturbed.
    bytes = 3 * (size_t)SL_BUS_REQUEST_MAX;
    huge = calloc(1, bytes);
    void *context = zmq_ctx_new();
    void *socket = zmq_socket(context, ZMQ_DEALER);
    void *monitor = monitor_of(context, socket);
    ck_assert_int_eq(zmq_connect(socket, endpoint), 0);
    ck_assert_int_ge(zmq_send(socket, huge, bytes, 0), 0);
    free(huge);
    ck_assert(hung_up(monitor));
    struct sl_bus *worker = join(NULL);
    ck_assert_int_eq(send_text(worker, NULL, "small"), SL_OK);
    expect_text(broker, NULL, "small");
    ck_assert_uint_eq(sl_bus_refused(broker), 1);
    sl_bus_close(worker, 0);
    int linger = 0;
    zmq_close(monitor);
    zmq_setsockopt(socket, ZMQ_LINGER, &linger, sizeof linger);
    zmq_close(socket);
    zmq_ctx_term(context);
}

TEST(an_oversized_message_is_not_sent)
{
    struct sl_bus *worker = join(NULL);
    char *text = malloc(SL_BUS_REQUEST_MAX + 1);
    memset(text, 'x', SL_BUS_REQUEST_MAX);
    text[SL_BUS_REQUEST_MAX] = '\0';
    ck_assert_int_eq(send_text(worker, NULL, text), SL_ERANGE);
    text[SL_BUS_REQUEST_MAX - 100] = '\0';
    ck_assert_int_eq(send_text(worker, NULL, text), SL_OK);
    expect_text(broker, NULL, text);
    free(text);
    sl_bus_close(worker, 0);
}

// What is told to clients may be larger than what they ask.
TEST(an_answer_may_be_large)
{
    struct sl_bus *worker = join(NULL);
    struct sl_bus_peer peer;
    char *text = malloc(SL_BUS_MESSAGE_MAX + 1);
    memset(text, 'x', SL_BUS_MESSAGE_MAX);
    text[SL_BUS_MESSAGE_MAX] = '\0';
    ck_assert_int_eq(send_text(worker, NULL, "ask"), SL_OK);
    expect_text(broker, &peer, "ask");
    ck_assert_int_eq(send_text(broker, &peer, text), SL_ERANGE);
    text[SL_BUS_MESSAGE_MAX - 100] = '\0';
    for (int i = 0; i < 5; i++) { // and what has been read counts no more
        ck_assert_int_eq(send_text(broker, &peer, text), SL_OK);
        expect_text(worker, NULL, text);
    }
    free(text);
    sl_bus_close(worker, 0);
}

enum { MIB = 1 << 20, MORE_THAN_HELD = 200 };

// A client of libzmq's own that takes next to nothing before it is told to.
static void *narrow_client(void *context)
{
    int one = 1, none = 0, small = 64 << 10;
    void *socket = zmq_socket(context, ZMQ_DEALER);
    zmq_setsockopt(socket, ZMQ_RCVHWM, &one, sizeof one);
    zmq_setsockopt(socket, ZMQ_RCVBUF, &small, sizeof small);
    zmq_setsockopt(socket, ZMQ_LINGER, &none, sizeof none);
    ck_assert_int_eq(zmq_connect(socket, endpoint), 0);
    return socket;
}

TEST(who_reads_nothing_costs_tens_of_mib)
{
    uint8_t frame[64];
    struct sl_bus_peer peer, other;
    void *context = zmq_ctx_new(), *client = narrow_client(context);
    ck_assert_int_ge(zmq_send(client, frame, pack_stop(frame, SL_PROTOCOL_VERSION), 0), 0);
    sl_bus_message_free(expect(broker, &peer));
    char *text = malloc(MIB + 1);
    memset(text, 'x', MIB);
    text[MIB] = '\0';
    int sent = 0;
    while (sent < MORE_THAN_HELD && send_text(broker, &peer, text) == SL_OK)
        sent++;
    // And what is in sockets and in the client by then.
    ck_assert_int_le(sent, SL_OUTGOING_PEER_BYTES / MIB + 8);
    struct sl_bus *reader = join(NULL); // whom it takes nothing from
    ck_assert_int_eq(send_text(reader, NULL, "ask"), SL_OK);
    expect_text(broker, &other, "ask");
    ck_assert_int_eq(send_text(broker, &other, text), SL_OK);
    expect_text(reader, NULL, text);
    sl_bus_close(reader, 0);
    free(text);
    zmq_close(client);
    zmq_ctx_term(context);
}

TEST(a_reader_that_sleeps_loses_messages_and_blocks_nobody)
{
    struct sl_bus *sleeper = join(NULL);
    struct sl_bus_peer peer;
    ck_assert_int_eq(send_text(sleeper, NULL, "subscribe"), SL_OK);
    expect_text(broker, &peer, "subscribe");
    char text[4096];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    // A send that waited for the sleeper would wait for ever.
    int refused = 0;
    for (int i = 0; i < 60000 && refused < 100; i++) {
        int rc = send_text(broker, &peer, text);
        ck_assert_msg(rc == SL_OK || rc == SL_EAGAIN, "%s", sl_error_message());
        refused += rc == SL_EAGAIN;
    }
    ck_assert_int_eq(refused, 100);
    sl_bus_close(sleeper, 0);
}

TEST(a_peer_that_left_is_an_error)
{
    struct sl_bus *worker = join(NULL);
    struct sl_bus_peer peer;
    ck_assert_int_eq(send_text(worker, NULL, "bye"), SL_OK);
    expect_text(broker, &peer, "bye");
    sl_bus_close(worker, 0);
    uint64_t until = sl_now_ns() + (uint64_t)SOON_MS * 1000000u;
    int rc = SL_OK;
    while (rc == SL_OK && sl_now_ns() < until) {
        rc = send_text(broker, &peer, "are you there");
        usleep(1000);
    }
    ck_assert_int_eq(rc, SL_EAGAIN);
}

// A child that waits for the bus's address: forked before the process has threads, beside which a
// child could start none.
struct knocker {
    pid_t pid;
    int gate;
};

// In it, perhaps as another user: sends, and leaves once it is hung up on.
static void knock_as(uid_t user, int gate)
{
    uint8_t frame[64];
    if (read(gate, endpoint, sizeof endpoint) != sizeof endpoint ||
        setresuid(user, user, user) != 0)
        _exit(1);
    void *context = zmq_ctx_new();
    void *socket = zmq_socket(context, ZMQ_DEALER);
    void *monitor = monitor_of(context, socket);
    if (zmq_connect(socket, endpoint) != 0 ||
        zmq_send(socket, frame, pack_stop(frame, SL_PROTOCOL_VERSION), 0) < 0)
        _exit(1);
    _exit(hung_up(monitor) ? 0 : 2);
}

static struct knocker knocker(uid_t user)
{
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0)
        knock_as(user, ends[0]);
    ck_assert_int_gt(pid, 0);
    close(ends[0]);
    return (struct knocker){pid, ends[1]};
}

static void let_in(struct knocker k)
{
    ck_assert_int_eq(write(k.gate, endpoint, sizeof endpoint), sizeof endpoint);
    close(k.gate);
}

CASE(.name = "other users", .timeout_s = 120)

TEST(another_user_is_refused)
{
    if (geteuid() != 0) {
        printf("SKIP: only root can become another user\n");
        return;
    }
    Sl__Control__Envelope *m = NULL;
    int status;
    struct knocker friend = knocker(geteuid()), stranger = knocker(65534);
    open_broker();
    // The same message from the same user arrives, so it is the user that is refused.
    let_in(friend);
    sl_bus_message_free(expect(broker, NULL));
    let_in(stranger);
    // A libzmq that asks the kernel hangs up; with another one each message is looked at.
    while (sl_bus_refused(broker) == 0 && waitpid(stranger.pid, &status, WNOHANG) == 0)
        ck_assert_int_eq(sl_bus_receive(broker, 20, NULL, &m), SL_EAGAIN);
    if (sl_bus_refused(broker) > 0)
        kill(stranger.pid, SIGKILL);
    else
        ck_assert_msg(status == 0, "it was not hung up on: %#x", (unsigned)status);
    kill(friend.pid, SIGKILL);
    close_broker();
}

CASE(.setup = open_broker, .teardown = close_broker, .timeout_s = 120)

TEST(a_receive_waits_only_if_it_may)
{
    Sl__Control__Envelope *m;
    ck_assert_int_eq(sl_bus_receive(broker, 0, NULL, &m), SL_EAGAIN);
    ck_assert_uint_eq(sl_bus_waits(broker), 0);
    ck_assert_int_eq(sl_bus_receive(broker, 100, NULL, &m), SL_EAGAIN);
    ck_assert_uint_gt(sl_bus_waits(broker), 0);
}

TEST(the_descriptor_wakes_a_loop)
{
    struct sl_bus *worker = join(NULL);
    Sl__Control__Envelope *m;
    struct pollfd fd = {.fd = sl_bus_fd(broker), .events = POLLIN};
    while (sl_bus_receive(broker, 0, NULL, &m) == SL_OK)
        sl_bus_message_free(m);
    ck_assert_int_eq(send_text(worker, NULL, "wake"), SL_OK);
    // Edge-triggered: it may fire more than once before the message is there.
    int rc = SL_EAGAIN;
    for (int i = 0; i < 10 && rc != SL_OK; i++) {
        ck_assert_int_eq(poll(&fd, 1, SOON_MS), 1);
        rc = sl_bus_receive(broker, 0, NULL, &m);
    }
    ck_assert_int_eq(rc, SL_OK);
    sl_bus_message_free(m);
    sl_bus_close(worker, 0);
}

TEST(many_messages_arrive_in_order)
{
    struct sl_bus *worker = join(NULL);
    char text[32];
    for (int i = 0; i < 3000; i++) {
        snprintf(text, sizeof text, "%d", i);
        ck_assert_int_eq(send_text(worker, NULL, text), SL_OK);
    }
    for (int i = 0; i < 3000; i++) {
        snprintf(text, sizeof text, "%d", i);
        expect_text(broker, NULL, text);
    }
    sl_bus_close(worker, 0);
}

TEST(closing_delivers_the_last_message)
{
    struct sl_bus *worker = join(NULL);
    ck_assert_int_eq(send_text(worker, NULL, "last words"), SL_OK);
    sl_bus_close(worker, 2000);
    expect_text(broker, NULL, "last words");
}

// libzmq would end the process.
TEST(without_descriptors_there_is_an_error)
{
    struct rlimit limit;
    struct sl_bus *bus;
    int next = dup(0);
    close(next);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    char name[128], secret[SL_BUS_KEY_TEXT];
    sl_bus_new_endpoint(name, sizeof name, secret);
    for (int left = 0; left < 12; left++) {
        limit.rlim_cur = (rlim_t)(next + left);
        ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
        ck_assert_int_eq(sl_bus_bind(name, secret, &bus), SL_EAGAIN);
        ck_assert_ptr_null(bus);
        ck_assert_int_eq(sl_bus_connect(name, secret, &bus), SL_EAGAIN);
    }
    limit.rlim_cur = (rlim_t)(next + 16);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    ck_assert_int_eq(sl_bus_bind(name, secret, &bus), SL_OK);
    sl_bus_close(bus, 0);
}

RUN_TESTS()
