// The statistics socket: what a subscriber of any kind hears, and that none makes it wait.
#include <check.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/ipc/curve.h"
#include "common/ipc/publish.h"

enum { SOON_MS = 5000, QUIET_MS = 300 };

static char base[64], endpoint[128];
static struct sl_publisher *publisher;

static void open_publisher(void)
{
    snprintf(base, sizeof base, "/tmp/sl-pub-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(base));
    snprintf(endpoint, sizeof endpoint, "ipc://%s/stats.sock", base);
    ck_assert_msg(sl_publisher_bind(endpoint, &publisher) == SL_OK, "%s", sl_error_message());
}

static void close_publisher(void)
{
    char command[128];
    sl_publisher_close(publisher);
    snprintf(command, sizeof command, "rm -rf '%s'", base);
    ck_assert_int_eq(system(command), 0);
}

struct listener {
    void *context, *socket;
};

static void listen_as(struct listener *l, const char *where, const char *topic,
                      const struct sl_curve *keys)
{
    int wait_ms = 10, linger = 0;
    l->context = zmq_ctx_new();
    l->socket = zmq_socket(l->context, ZMQ_SUB);
    zmq_setsockopt(l->socket, ZMQ_RCVTIMEO, &wait_ms, sizeof wait_ms);
    zmq_setsockopt(l->socket, ZMQ_LINGER, &linger, sizeof linger);
    if (keys) {
        zmq_setsockopt(l->socket, ZMQ_CURVE_SECRETKEY, keys->secret_key, SL_CURVE_KEY_TEXT);
        zmq_setsockopt(l->socket, ZMQ_CURVE_PUBLICKEY, keys->public_key, SL_CURVE_KEY_TEXT);
        zmq_setsockopt(l->socket, ZMQ_CURVE_SERVERKEY, keys->daemon_key, SL_CURVE_KEY_TEXT);
    }
    ck_assert_int_eq(zmq_setsockopt(l->socket, ZMQ_SUBSCRIBE, topic, strlen(topic)), 0);
    ck_assert_int_eq(zmq_connect(l->socket, where), 0);
}

static void stop_listening(struct listener *l)
{
    zmq_close(l->socket);
    zmq_ctx_term(l->context);
}

// One frame, or the beginning of a longer one.
static bool hear_frame(struct listener *l, char text[256])
{
    int n = zmq_recv(l->socket, text, 255, 0);
    if (n >= 0)
        text[SL_MIN(n, 255)] = '\0';
    return n >= 0;
}

static bool hear(struct listener *l, char topic[256], char json[256])
{
    if (!hear_frame(l, topic))
        return false;
    ck_assert(hear_frame(l, json));
    int more = 1;
    size_t size = sizeof more;
    zmq_getsockopt(l->socket, ZMQ_RCVMORE, &more, &size);
    ck_assert_int_eq(more, 0);
    return true;
}

// A subscription takes a moment to arrive: sends until it is heard, what was sent before aside, or
// time is up.
static bool hear_soon(struct listener *l, const char *kind, const char *job, int within_ms)
{
    char topic[256], json[256], want[64];
    snprintf(want, sizeof want, "%s:%s:", kind, job);
    uint64_t until = sl_now_ns() + (uint64_t)within_ms * 1000000u;
    while (sl_now_ns() < until) {
        sl_publisher_send(publisher, kind, job, "{\"a\": 1}");
        if (!hear(l, topic, json))
            continue;
        ck_assert_str_eq(topic, want);
        if (json[0] == 'x') // of those that made a queue full
            continue;
        ck_assert_str_eq(json, "{\"a\": 1}");
        return true;
    }
    return false;
}

START_TEST(a_subscriber_hears_its_topic_alone)
{
    struct listener mine, all;
    char topic[256], json[256];
    listen_as(&mine, endpoint, "stats:job:", NULL);
    listen_as(&all, endpoint, "", NULL);
    ck_assert(hear_soon(&mine, "stats", "job", SOON_MS));
    ck_assert(hear_soon(&all, "stats", "job", SOON_MS));
    while (hear(&mine, topic, json) || hear(&all, topic, json)) {
    }
    sl_publisher_send(publisher, "event", "job", "{}");
    sl_publisher_send(publisher, "stats", "job2", "{}"); // the colon ends the name
    sl_publisher_send(publisher, "stats", "job", "{\"last\": true}");
    usleep(100000);
    ck_assert(hear(&mine, topic, json));
    ck_assert_str_eq(topic, "stats:job:");
    ck_assert_str_eq(json, "{\"last\": true}");
    ck_assert(hear(&all, topic, json));
    ck_assert_str_eq(topic, "event:job:");
    ck_assert(hear(&all, topic, json));
    ck_assert_str_eq(topic, "stats:job2:");
    stop_listening(&mine);
    stop_listening(&all);
}
END_TEST

START_TEST(nobody_listening_costs_nothing)
{
    char *json = malloc(100000);
    memset(json, 'x', 99999);
    json[99999] = '\0';
    uint64_t began = sl_now_ns();
    for (int i = 0; i < 10000; i++)
        sl_publisher_send(publisher, "stats", "job", json);
    ck_assert_uint_lt(sl_now_ns() - began, UINT64_C(2000000000));
    free(json);
}
END_TEST

// One subscriber never reads: the publisher does not wait for it, the other one is served, and what
// is held for the sleeper is bounded.
START_TEST(a_subscriber_that_sleeps_makes_nobody_wait)
{
    struct listener sleeper, reader;
    char topic[256], json[256];
    enum { LINE_BYTES = 8000, LINES = 20000 }; // 160 MB
    char *line = malloc(LINE_BYTES + 1);
    memset(line, 'x', LINE_BYTES);
    line[LINE_BYTES] = '\0';
    int few = 8;
    listen_as(&sleeper, endpoint, "stats:", NULL);
    zmq_setsockopt(sleeper.socket, ZMQ_RCVHWM, &few, sizeof few);
    ck_assert(hear_soon(&sleeper, "stats", "job", SOON_MS));
    listen_as(&reader, endpoint, "event:", NULL);
    ck_assert(hear_soon(&reader, "event", "job", SOON_MS));
    uint64_t longest = 0;
    for (int i = 0; i < LINES; i++) {
        uint64_t began = sl_now_ns();
        sl_publisher_send(publisher, "stats", "job", line);
        uint64_t took = sl_now_ns() - began;
        longest = took > longest ? took : longest;
    }
    ck_assert_msg(longest < UINT64_C(500000000), "sending took %.3f s", (double)longest * 1e-9);
    while (hear(&reader, topic, json)) {
    }
    sl_publisher_send(publisher, "event", "job", "{\"still\": 1}");
    usleep(100000);
    ck_assert(hear(&reader, topic, json));
    ck_assert_str_eq(json, "{\"still\": 1}");
    // The sleeper wakes: it has lost lines, and goes on.
    int heard = 0;
    char big[256];
    for (int n; (n = zmq_recv(sleeper.socket, big, sizeof big, 0)) >= 0;)
        heard++;
    ck_assert_int_lt(heard / 2, LINES);
    ck_assert(hear_soon(&sleeper, "stats", "job", SOON_MS));
    free(line);
    stop_listening(&sleeper);
    stop_listening(&reader);
}
END_TEST

START_TEST(a_socket_that_a_dead_process_left_is_replaced)
{
    struct sl_publisher *second;
    char path[128], name[160];
    snprintf(path, sizeof path, "%s/left.sock", base);
    snprintf(name, sizeof name, "ipc://%s", path);
    FILE *f = fopen(path, "w");
    fclose(f);
    ck_assert_msg(sl_publisher_bind(name, &second) == SL_OK, "%s", sl_error_message());
    struct stat st;
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert(S_ISSOCK(st.st_mode));
    sl_publisher_close(second);
    ck_assert_int_ne(stat(path, &st), 0); // it leaves nothing
}
END_TEST

START_TEST(a_subscription_beyond_reason_is_cut_off)
{
    struct listener rude, reader;
    char topic[256], json[256];
    char large[5001];
    memset(large, 'x', sizeof large - 1);
    large[sizeof large - 1] = '\0';
    listen_as(&rude, endpoint, large, NULL);
    listen_as(&reader, endpoint, "stats:", NULL);
    ck_assert(hear_soon(&reader, "stats", "job", SOON_MS));
    ck_assert(!hear(&rude, topic, json));
    stop_listening(&rude);
    stop_listening(&reader);
}
END_TEST

START_TEST(a_bad_endpoint_is_named)
{
    struct sl_publisher *p;
    ck_assert_int_lt(sl_publisher_bind("nonsense", &p), 0);
    ck_assert_ptr_null(p);
    ck_assert_msg(strstr(sl_error_message(), "nonsense") != NULL, "%s", sl_error_message());
    sl_publisher_close(NULL);
}
END_TEST

START_TEST(over_tcp_only_known_keys_hear)
{
    static struct sl_curve daemon, client, stranger;
    struct listener known, unknown, local;
    char keys[80], other[80], path[128], tcp[64];
    snprintf(keys, sizeof keys, "%s/keys", base);
    snprintf(other, sizeof other, "%s/other", base);
    ck_assert_msg(sl_curve_generate(keys, NULL) == SL_OK, "%s", sl_error_message());
    ck_assert_int_eq(sl_curve_generate(other, NULL), SL_OK);
    snprintf(path, sizeof path, "%s/daemon.key", keys);
    ck_assert_int_eq(sl_curve_read(path, &daemon), SL_OK);
    snprintf(path, sizeof path, "%s/client.key", keys);
    ck_assert_int_eq(sl_curve_read(path, &client), SL_OK);
    snprintf(path, sizeof path, "%s/client.key", other);
    ck_assert_int_eq(sl_curve_read(path, &stranger), SL_OK);
    memcpy(stranger.daemon_key, client.daemon_key, sizeof client.daemon_key);

    int rc = SL_EEXIST;
    for (int port = 20000 + getpid() % 20000; rc == SL_EEXIST; port++) {
        sl_publisher_close(publisher);
        ck_assert_int_eq(sl_publisher_bind(endpoint, &publisher), SL_OK);
        snprintf(tcp, sizeof tcp, "tcp://127.0.0.1:%d", port);
        rc = sl_publisher_add_tcp(publisher, tcp, &daemon);
    }
    ck_assert_msg(rc == SL_OK, "%s", sl_error_message());
    listen_as(&known, tcp, "stats:", &client);
    listen_as(&local, endpoint, "stats:", NULL);
    ck_assert(hear_soon(&known, "stats", "job", SOON_MS));
    ck_assert(hear_soon(&local, "stats", "job", SOON_MS));
    listen_as(&unknown, tcp, "stats:", &stranger);
    ck_assert(!hear_soon(&unknown, "stats", "job", QUIET_MS));
    stop_listening(&unknown);
    listen_as(&unknown, tcp, "stats:", NULL); // in the clear
    ck_assert(!hear_soon(&unknown, "stats", "job", QUIET_MS));
    stop_listening(&unknown);
    stop_listening(&known);
    stop_listening(&local);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("ipc publish");
    TCase *t = tcase_create("publish");
    tcase_add_checked_fixture(t, open_publisher, close_publisher);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, a_subscriber_hears_its_topic_alone);
    tcase_add_test(t, nobody_listening_costs_nothing);
    tcase_add_test(t, a_subscriber_that_sleeps_makes_nobody_wait);
    tcase_add_test(t, a_socket_that_a_dead_process_left_is_replaced);
    tcase_add_test(t, a_subscription_beyond_reason_is_cut_off);
    tcase_add_test(t, a_bad_endpoint_is_named);
    tcase_add_test(t, over_tcp_only_known_keys_hear);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
