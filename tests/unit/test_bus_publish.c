// The statistics socket: what a subscriber of any kind hears, and that none makes it wait.
#include <sys/stat.h>

#include "common/base/bits.h"
#include "common/bus/publish.h"
#include "tests/unit/bus_fixture.h"
#include "tests/unit/suite.h"

static char endpoint[128];
static struct sl_publisher *publisher;

static void open_publisher(void)
{
    make_base();
    snprintf(endpoint, sizeof endpoint, "ipc://%s/stats.sock", base);
    ck_assert_msg(sl_publisher_bind(endpoint, &publisher) == SL_OK, "%s", sl_error_message());
}

static void close_publisher(void)
{
    sl_publisher_close(publisher);
    remove_base();
}

struct listener {
    void *context, *socket;
    void *monitor; // tells of its handshakes and of its connections' ends
};

static void listen_as(struct listener *l, const char *where, const char *topic,
                      const struct sl_curve *keys)
{
    int wait_ms = SOON_MS, linger = 0;
    l->context = zmq_ctx_new();
    l->socket = zmq_socket(l->context, ZMQ_SUB);
    zmq_setsockopt(l->socket, ZMQ_RCVTIMEO, &wait_ms, sizeof wait_ms);
    zmq_setsockopt(l->socket, ZMQ_LINGER, &linger, sizeof linger);
    use_keys(l->socket, keys);
    ck_assert_int_eq(zmq_setsockopt(l->socket, ZMQ_SUBSCRIBE, topic, strlen(topic)), 0);
    l->monitor = monitor_of(l->context, l->socket);
    ck_assert_int_eq(zmq_connect(l->socket, where), 0);
}

static void stop_listening(struct listener *l)
{
    zmq_close(l->monitor);
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

// A subscription takes a moment to arrive: sends until what was sent last is heard, so that nothing
// is left to hear. Returns how much else was heard.
static int until_heard(struct listener *l, const char *kind, const char *job)
{
    char topic[256], json[256] = "", want[64], last[32] = "none";
    zmq_pollitem_t item = {.socket = l->socket, .events = ZMQ_POLLIN};
    static int n_sent;
    int n_heard = 0;
    snprintf(want, sizeof want, "%s:%s:", kind, job);
    while (strcmp(json, last) != 0) {
        if (zmq_poll(&item, 1, 10) == 1) {
            ck_assert(hear(l, topic, json));
            ck_assert_str_eq(topic, want);
            n_heard++;
        } else {
            snprintf(last, sizeof last, "{\"n\": %d}", ++n_sent);
            sl_publisher_send(publisher, kind, job, last);
        }
    }
    return n_heard - 1;
}

TEST(a_subscriber_hears_its_topic_alone)
{
    struct listener mine, all;
    char topic[256], json[256];
    listen_as(&mine, endpoint, "stats:job:", NULL);
    listen_as(&all, endpoint, "", NULL);
    until_heard(&mine, "stats", "job");
    until_heard(&all, "stats", "job");
    sl_publisher_send(publisher, "event", "job", "{}");
    sl_publisher_send(publisher, "stats", "job2", "{}"); // the colon ends the name
    sl_publisher_send(publisher, "stats", "job", "{\"last\": true}");
    do { // what the other one was sent comes first
        ck_assert(hear(&mine, topic, json));
        ck_assert_str_eq(topic, "stats:job:");
    } while (json[2] == 'n');
    ck_assert_str_eq(json, "{\"last\": true}");
    ck_assert(hear(&all, topic, json));
    ck_assert_str_eq(topic, "event:job:");
    ck_assert(hear(&all, topic, json));
    ck_assert_str_eq(topic, "stats:job2:");
    stop_listening(&mine);
    stop_listening(&all);
}

static uint64_t memory_bytes(void)
{
    unsigned long all = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(fscanf(f, "%lu %lu", &all, &resident), 2);
    fclose(f);
    return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

TEST(nobody_listening_takes_no_memory)
{
    enum { LINES = 10000, LINE_BYTES = 100000 };
    char *json = malloc(LINE_BYTES + 1);
    memset(json, 'x', LINE_BYTES);
    json[LINE_BYTES] = '\0';
    uint64_t before = memory_bytes();
    for (int i = 0; i < LINES; i++)
        sl_publisher_send(publisher, "stats", "job", json);
    // A sanitizer keeps what is freed for a while, but never so much.
    ck_assert_uint_lt(memory_bytes(), before + (uint64_t)LINES * LINE_BYTES / 2);
    free(json);
}

// One subscriber never reads: the publisher does not wait for it, the other one is served, and what
// is held for the sleeper is bounded.
TEST(a_subscriber_that_sleeps_makes_nobody_wait)
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
    until_heard(&sleeper, "stats", "job");
    listen_as(&reader, endpoint, "event:", NULL);
    until_heard(&reader, "event", "job");
    // It comes to its end while nobody reads: a publisher that waited would do so for ever.
    for (int i = 0; i < LINES; i++)
        sl_publisher_send(publisher, "stats", "job", line);
    sl_publisher_send(publisher, "event", "job", "{\"still\": 1}");
    ck_assert(hear(&reader, topic, json));
    ck_assert_str_eq(json, "{\"still\": 1}");
    // The sleeper wakes: it has lost lines, and goes on.
    ck_assert_int_lt(until_heard(&sleeper, "stats", "job"), LINES);
    free(line);
    stop_listening(&sleeper);
    stop_listening(&reader);
}

TEST(a_socket_that_a_dead_process_left_is_replaced)
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

TEST(a_subscription_beyond_reason_is_cut_off)
{
    struct listener rude, reader;
    char large[5001];
    memset(large, 'x', sizeof large - 1);
    large[sizeof large - 1] = '\0';
    listen_as(&rude, endpoint, large, NULL);
    ck_assert(is_let_in(rude.monitor)); // before it says what it wants
    ck_assert(!is_let_in(rude.monitor));
    listen_as(&reader, endpoint, "stats:", NULL);
    until_heard(&reader, "stats", "job");
    stop_listening(&rude);
    stop_listening(&reader);
}

TEST(a_bad_endpoint_is_named)
{
    struct sl_publisher *p;
    ck_assert_int_lt(sl_publisher_bind("nonsense", &p), 0);
    ck_assert_ptr_null(p);
    ck_assert_msg(strstr(sl_error_message(), "nonsense") != NULL, "%s", sl_error_message());
    sl_publisher_close(NULL);
}

TEST(over_tcp_only_known_keys_hear)
{
    struct listener known, unknown, local;
    char tcp[64];
    make_keys();
    memcpy(stranger_keys.daemon_key, client_keys.daemon_key, sizeof client_keys.daemon_key);

    int rc = SL_EEXIST;
    for (int port = 20000 + getpid() % 20000; rc == SL_EEXIST; port++) {
        sl_publisher_close(publisher);
        ck_assert_int_eq(sl_publisher_bind(endpoint, &publisher), SL_OK);
        snprintf(tcp, sizeof tcp, "tcp://127.0.0.1:%d", port);
        rc = sl_publisher_add_tcp(publisher, tcp, &daemon_keys);
    }
    ck_assert_msg(rc == SL_OK, "%s", sl_error_message());
    listen_as(&known, tcp, "stats:", &client_keys);
    listen_as(&local, endpoint, "stats:", NULL);
    until_heard(&known, "stats", "job");
    until_heard(&local, "stats", "job");
    listen_as(&unknown, tcp, "stats:", &stranger_keys);
    ck_assert(!is_let_in(unknown.monitor));
    stop_listening(&unknown);
    listen_as(&unknown, tcp, "stats:", NULL); // in the clear
    ck_assert(!is_let_in(unknown.monitor));
    stop_listening(&unknown);
    stop_listening(&known);
    stop_listening(&local);
}

RUN_TESTS(.setup = open_publisher, .teardown = close_publisher, .timeout_s = 120)
