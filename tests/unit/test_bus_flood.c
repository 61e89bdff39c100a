// The control bus under attack: floods of garbage (flipped bits: tests/fuzz).
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

#include "common/base/clock.h"
#include "common/bus/envelope.h"
#include "tests/unit/bus_fixture.h"
#include "tests/unit/suite.h"

static char endpoint[128];
static struct sl_bus *broker;

static void open_broker(void)
{
    char unused[SL_BUS_KEY_TEXT]; // who floods has got in
    ck_assert_int_eq(sl_bus_new_endpoint(endpoint, sizeof endpoint, unused), SL_OK);
    ck_assert_msg(sl_bus_bind(endpoint, NULL, &broker) == SL_OK, "%s", sl_error_message());
}

static void close_broker(void)
{
    sl_bus_close(broker, 0);
}

// --- floods --------------------------------------------------------------------------------------

enum flood { EMPTY, NOISE, MANY_PARTS, OTHER_VERSION, N_FLOODS };

struct flooder {
    enum flood kind;
    atomic_bool stop;
    atomic_ulong sent;
};

static void send_one(void *socket, enum flood kind, unsigned *seed)
{
    static const uint8_t version_1[] = {0x08, 0x01, 0x3a, 0x00}; // protocol 1, stop {}
    uint8_t noise[64];
    switch (kind) {
    case EMPTY: zmq_send(socket, "", 0, ZMQ_DONTWAIT); break;
    case NOISE:
        for (size_t i = 0; i < sizeof noise; i++)
            noise[i] = (uint8_t)rand_r(seed);
        zmq_send(socket, noise, sizeof noise, ZMQ_DONTWAIT);
        break;
    case MANY_PARTS:
        for (int i = 0; i < 100; i++)
            if (zmq_send(socket, "part", 4, (i < 99 ? ZMQ_SNDMORE : 0) | ZMQ_DONTWAIT) < 0)
                break; // at the first one only: the queue is full
        break;
    default: zmq_send(socket, version_1, sizeof version_1, ZMQ_DONTWAIT); break;
    }
}

static void *flood(void *arg)
{
    struct flooder *f = arg;
    unsigned seed = 1;
    int linger = 0;
    void *context = zmq_ctx_new();
    void *socket = zmq_socket(context, ZMQ_DEALER);
    zmq_setsockopt(socket, ZMQ_LINGER, &linger, sizeof linger);
    zmq_connect(socket, endpoint);
    while (!atomic_load(&f->stop)) {
        send_one(socket, f->kind, &seed);
        atomic_fetch_add(&f->sent, 1);
    }
    zmq_close(socket);
    zmq_ctx_term(context);
    return NULL;
}

// While two peers send garbage as fast as they can, every valid message arrives and is answered,
// and no receive that may not wait does, or takes more of the flood than it should at once.
LOOP_TEST(valid_messages_pass_a_flood, 0, N_FLOODS)
{
    enum { FLOODERS = 2, MESSAGES = 100 };
    struct flooder flooders[FLOODERS];
    pthread_t threads[FLOODERS];
    for (int i = 0; i < FLOODERS; i++) {
        flooders[i] = (struct flooder){.kind = (enum flood)_i};
        ck_assert_int_eq(pthread_create(&threads[i], NULL, flood, &flooders[i]), 0);
    }
    struct sl_bus *client;
    ck_assert_int_eq(sl_bus_connect(endpoint, NULL, &client), SL_OK);
    int served = 0, heard = 0;
    struct pollfd fds[] = {{.fd = sl_bus_fd(broker), .events = POLLIN},
                           {.fd = sl_bus_fd(client), .events = POLLIN}};
    ck_assert_int_eq(send_text(client, NULL, "0"), SL_OK);
    // The flood may begin late on a busy machine.
    while (heard < MESSAGES || sl_bus_refused(broker) == 0) {
        struct sl_bus_peer peer;
        Sl__Control__Envelope *m;
        int rc;
        // As a loop does it: wait for the descriptors alone, then take what is there.
        ck_assert_int_gt(poll(fds, 2, SOON_MS), 0);
        do {
            uint64_t refused = sl_bus_refused(broker);
            rc = sl_bus_receive(broker, 0, &peer, &m);
            ck_assert_uint_le(sl_bus_refused(broker) - refused, SL_BUS_REFUSALS_A_CALL);
            if (rc != SL_OK)
                break;
            ck_assert_int_eq(m->body_case, SL__CONTROL__ENVELOPE__BODY_LOG_LINE);
            ck_assert_int_eq(send_text(broker, &peer, m->log_line->text), SL_OK);
            sl_bus_message_free(m);
            served++;
        } while (served < 2 * MESSAGES);
        while (sl_bus_receive(client, 0, NULL, &m) == SL_OK) {
            char text[16];
            snprintf(text, sizeof text, "%d", ++heard);
            sl_bus_message_free(m);
            if (heard < MESSAGES)
                ck_assert_int_eq(send_text(client, NULL, text), SL_OK);
        }
    }
    ck_assert_int_eq(heard, MESSAGES);
    ck_assert_int_ge(served, MESSAGES);
    ck_assert_uint_gt(sl_bus_refused(broker), 0);
    ck_assert_uint_eq(sl_bus_waits(broker), 0);
    for (int i = 0; i < FLOODERS; i++) {
        atomic_store(&flooders[i].stop, true);
        pthread_join(threads[i], NULL);
    }
    sl_bus_close(client, 0);
}

static int count_descriptors(void)
{
    DIR *d = opendir("/proc/self/fd");
    ck_assert_ptr_nonnull(d);
    int n = 0;
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

// A sender has left, and the broker's side has closed its end too: all that it sent is queued here.
static void until_all_is_read(int descriptors)
{
    while (count_descriptors() > descriptors)
        usleep(1000);
}

static void send_raw_many(int n)
{
    int linger = -1;
    void *context = zmq_ctx_new();
    void *socket = zmq_socket(context, ZMQ_DEALER);
    zmq_setsockopt(socket, ZMQ_SNDHWM, &n, sizeof n);
    zmq_setsockopt(socket, ZMQ_LINGER, &linger, sizeof linger);
    ck_assert_int_eq(zmq_connect(socket, endpoint), 0);
    for (int i = 0; i < n; i++)
        ck_assert_int_ge(zmq_send(socket, "\xff", 1, 0), 0);
    zmq_close(socket);
    zmq_ctx_term(context); // all has left
}

// A receive that goes away in a flood rings its own bell: a loop that sleeps on the descriptor
// comes back for the rest, though nobody sends any more.
TEST(what_a_flood_leaves_is_fetched_later)
{
    enum { GARBAGE = 3000 };
    int descriptors = count_descriptors();
    send_raw_many(GARBAGE);
    until_all_is_read(descriptors);
    struct pollfd fd = {.fd = sl_bus_fd(broker), .events = POLLIN};
    Sl__Control__Envelope *m;
    int calls = 0;
    while (sl_bus_refused(broker) < GARBAGE && poll(&fd, 1, SOON_MS) == 1) {
        ck_assert_int_eq(sl_bus_receive(broker, 0, NULL, &m), SL_EAGAIN);
        calls++;
    }
    ck_assert_uint_eq(sl_bus_refused(broker), GARBAGE);
    ck_assert_int_ge(calls, GARBAGE / SL_BUS_REFUSALS_A_CALL);
}

// Lines of the log that tell of refusals; how many they tell of.
static int read_lines(FILE *log, unsigned long *told)
{
    char line[512];
    int lines = 0;
    *told = 0;
    for (rewind(log); fgets(line, sizeof line, log); lines++) {
        const char *what = strstr(line, "control bus: ");
        ck_assert_msg(what && strstr(line, "refused: malformed"), "%s", line);
        *told += strtoul(what + strlen("control bus: "), NULL, 10);
    }
    fclose(log);
    return lines;
}

static FILE *log_to_file(void)
{
    FILE *log = tmpfile();
    ck_assert_ptr_nonnull(log);
    ck_assert_int_ge(dup2(fileno(log), STDERR_FILENO), 0);
    return log;
}

// However many there are: the lines together tell of all, the last one of what came before silence.
TEST(refusals_are_logged)
{
    enum { GARBAGE = 3000 }; // fewer than a queue holds: its sender leaves
    FILE *log = log_to_file();
    send_raw_many(GARBAGE);
    Sl__Control__Envelope *m;
    unsigned long told;
    while (sl_bus_refused(broker) < GARBAGE)
        ck_assert_int_eq(sl_bus_receive(broker, 20, NULL, &m), SL_EAGAIN);
    sl_clock_advance(1000000000);
    ck_assert_int_eq(sl_bus_receive(broker, 0, NULL, &m), SL_EAGAIN);
    ck_assert_int_ge(read_lines(log, &told), 2);
    ck_assert_uint_eq(told, GARBAGE);
}

// A line a second at most, by the clock that it goes by itself.
TEST(a_line_of_refusals_is_a_second_after_the_one_before)
{
    enum { COUNTED = 1000, STEP_NS = 10000000, SECOND_NS = 1000000000 };
    FILE *log = log_to_file();
    struct sl_refusals r = {0};
    int lines = 0;
    unsigned long told;
    for (int i = 0; i < COUNTED; i++) {
        uint64_t before = r.told_ns;
        sl_clock_advance(STEP_NS);
        sl_refusals_count(&r, SL_REFUSAL_MALFORMED);
        if (r.told_ns == before)
            continue;
        lines++;
        ck_assert(before == 0 || r.told_ns - before >= SECOND_NS);
    }
    ck_assert_int_ge(lines, COUNTED / (SECOND_NS / STEP_NS + 1));
    sl_clock_advance(SECOND_NS);
    sl_refusals_log(&r, false); // what is left, if anything is
    ck_assert_int_le(read_lines(log, &told) - lines, 1);
    ck_assert_uint_eq(told, COUNTED);
}

// Nor does a peer that sends valid messages for ever keep a loop from its timers.
TEST(valid_messages_without_end_leave_the_loop_time)
{
    enum { MESSAGES = 3000 };
    struct sl_bus *client;
    Sl__Control__Envelope *m;
    int descriptors = count_descriptors();
    ck_assert_int_eq(sl_bus_connect(endpoint, NULL, &client), SL_OK);
    for (int i = 0; i < MESSAGES; i++)
        ck_assert_int_eq(send_text(client, NULL, "x"), SL_OK);
    sl_bus_close(client, SOON_MS);
    until_all_is_read(descriptors);
    struct pollfd fd = {.fd = sl_bus_fd(broker), .events = POLLIN};
    int bursts = 0, received = 0;
    while (received < MESSAGES && poll(&fd, 1, SOON_MS) == 1) {
        for (; sl_bus_receive(broker, 0, NULL, &m) == SL_OK; received++)
            sl_bus_message_free(m);
        bursts++;
    }
    ck_assert_int_eq(received, MESSAGES);
    ck_assert_int_ge(bursts, 3);
}

RUN_TESTS(.setup = open_broker, .teardown = close_broker, .timeout_s = 120)
