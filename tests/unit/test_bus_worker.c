// A worker's life outside its work: attached, ready with what it measured, gone on Stop.
#include "common/bus/worker.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "common/base/clock.h"
#include "common/arena/seat.h"
#include "tests/unit/suite.h"
#include "tests/unit/test_arena_fixture.h"

enum { SOON_MS = 60000, STEP_BYTES = 12345, T_TRAIN_NS = 678 };

static const char job[] = "{\"name\": \"job\"}";
static const char record[] = "{\"files\": []}";
static char endpoint[128];
static char key[SL_BUS_KEY_TEXT];
static struct sl_bus *broker;
static pid_t child;

// What a standby trainer does when it has nothing to do. Its exit status says what went wrong.
static int sleep_until_stopped(struct sl_worker *w, char *slot)
{
    char name[128];
    snprintf(name, sizeof name, "%s", endpoint);
    char *argv[] = {"trainer", "--worker", "7", "--slot",     slot, "--role-index",
                    "0",       "--device", "0", "--endpoint", name, NULL};
    if (sl_worker_init(w, "trainer", 11, argv) < 0)
        return 10;
    Sl__Control__Hello hello = SL__CONTROL__HELLO__INIT;
    int rc = sl_worker_attach(w, &hello);
    if (rc == SL_EFORMAT)
        return 11;
    if (rc < 0)
        return 12;
    w->step_bytes = STEP_BYTES;
    w->t_train_ns = T_TRAIN_NS;
    if (strcmp(w->told.job, job) != 0 || strcmp(w->told.record, record) != 0 ||
        sl_worker_ready(w) < 0)
        return 13;
    for (;;) {
        uint32_t seen = sl_event_read(&w->arena.h->work);
        if (atomic_load(&w->stop) || sl_arena_aborted(&w->arena))
            break;
        sl_event_wait(&w->arena.h->work, seen, SL_STANDBY_WAIT_MS);
    }
    return 0;
}

// The child's clock goes an hour ahead when the test asks for it. (No assertion in the child: Check
// would write it to a descriptor that is the arena there.)
static int asked[2], moved[2];

static void *move_clock(void *arg)
{
    char c;
    ssize_t n = read(asked[0], &c, 1);
    sl_clock_advance(3600 * 1000000000ull);
    n = write(moved[1], &c, 1);
    (void)n;
    return NULL;
}

static void let_an_hour_pass(void)
{
    char c = 0;
    ck_assert_int_eq(write(asked[1], &c, 1), 1);
    ck_assert_int_eq(read(moved[0], &c, 1), 1);
}

static void start_child(char *slot)
{
    ck_assert(pipe(asked) == 0 && pipe(moved) == 0);
    struct sl_arena_spec spec = {.n_devices = 2,
                                 .n_cells = 4,
                                 .n_params = 1,
                                 .batches_per_update = 1,
                                 .payload_bytes = SL_ARENA_CHUNK_BYTES};
    create_arena(&spec);
    sl_bus_new_endpoint(endpoint, sizeof endpoint, key);
    int config = sl_assignment_make(job, record);
    ck_assert_int_ge(config, 0);
    child = fork();
    if (child == 0) {
        // Out of the way first: these may stand where the worker expects others.
        int arena_at = fcntl(arena_fd, F_DUPFD, 20), config_at = fcntl(config, F_DUPFD, 20);
        int bell = fcntl(eventfd(0, 0), F_DUPFD, 20),
            none = fcntl(memfd_create("acts", 0), F_DUPFD, 20),
            key_at = fcntl(sl_bus_key_hand_over(key), F_DUPFD, 20);
        asked[0] = fcntl(asked[0], F_DUPFD, 20);
        moved[1] = fcntl(moved[1], F_DUPFD, 20);
        dup2(arena_at, SL_WORKER_FD_ARENA);
        dup2(config_at, SL_WORKER_FD_CONFIG);
        dup2(bell, SL_WORKER_FD_DOORBELL);
        dup2(none, SL_WORKER_FD_ACTS);
        dup2(key_at, SL_WORKER_FD_KEY);
        pthread_t clock;
        pthread_create(&clock, NULL, move_clock, NULL);
        pthread_detach(clock);
        struct sl_worker w;
        int status = sleep_until_stopped(&w, slot);
        sl_worker_fini(&w);
        _exit(status);
    }
    close(config);
    ck_assert_int_eq(sl_bus_bind(endpoint, key, &broker), SL_OK);
}

static Sl__Control__Envelope *expect(struct sl_bus_peer *from, int body_case)
{
    Sl__Control__Envelope *m;
    ck_assert_int_eq(sl_bus_receive(broker, SOON_MS, from, &m), SL_OK);
    ck_assert_int_eq((int)m->body_case, body_case);
    return m;
}

static void send_attach(const struct sl_bus_peer *peer)
{
    Sl__Control__Attach attach = SL__CONTROL__ATTACH__INIT;
    Sl__Control__Envelope e = SL__CONTROL__ENVELOPE__INIT;
    e.body_case = SL__CONTROL__ENVELOPE__BODY_ATTACH;
    e.attach = &attach;
    ck_assert_int_eq(sl_bus_send(broker, peer, &e), SL_OK);
}

static void attach(struct sl_bus_peer *peer)
{
    sl_bus_message_free(expect(peer, SL__CONTROL__ENVELOPE__BODY_HELLO));
    send_attach(peer);
}

static int exit_status(void)
{
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

// Ready and asleep. Returns what the event that it sleeps on was at.
static uint32_t fallen_asleep(void)
{
    Sl__Control__Envelope *m = expect(NULL, SL__CONTROL__ENVELOPE__BODY_READY);
    ck_assert_uint_eq(m->ready->step_bytes, STEP_BYTES);
    ck_assert_uint_eq(m->ready->t_train_ns, T_TRAIN_NS);
    sl_bus_message_free(m);
    until_asleep(&arena.h->work, 1);
    return sl_event_read(&arena.h->work);
}

static void finish(void)
{
    sl_bus_close(broker, 0);
    destroy_arena();
}

TEST(a_stop_wakes_a_sleeping_standby_trainer)
{
    struct sl_bus_peer peer;
    start_child("3"); // the last of two devices' seats
    attach(&peer);
    uint32_t seen = fallen_asleep();
    Sl__Control__Stop stop = SL__CONTROL__STOP__INIT;
    Sl__Control__Envelope e = SL__CONTROL__ENVELOPE__INIT;
    e.body_case = SL__CONTROL__ENVELOPE__BODY_STOP;
    e.stop = &stop;
    ck_assert_int_eq(sl_bus_send(broker, &peer, &e), SL_OK);
    ck_assert_int_eq(exit_status(), 0);
    ck_assert(rang(&arena.h->work, &seen)); // no time-out ended its sleep
    finish();
}

// The slowest worker to load decides, and the broker knows how long it has.
TEST(it_waits_for_the_arena_as_long_as_the_broker_does)
{
    struct sl_bus_peer peer;
    start_child("3");
    sl_bus_message_free(expect(&peer, SL__CONTROL__ENVELOPE__BODY_HELLO));
    let_an_hour_pass();
    Sl__Control__Progress progress = SL__CONTROL__PROGRESS__INIT;
    Sl__Control__Envelope e = SL__CONTROL__ENVELOPE__INIT;
    e.body_case = SL__CONTROL__ENVELOPE__BODY_PROGRESS; // it looks around once more
    e.progress = &progress;
    ck_assert_int_eq(sl_bus_send(broker, &peer, &e), SL_OK);
    send_attach(&peer);
    sl_bus_message_free(expect(NULL, SL__CONTROL__ENVELOPE__BODY_READY));
    ck_assert_uint_eq(atomic_load(&sl_stats_slot(&arena, 3)->words.left), 0);
    sl_arena_abort(&arena, SL_ABORT_STOP);
    ck_assert_int_eq(exit_status(), 0);
    ck_assert_uint_eq(atomic_load(&sl_stats_slot(&arena, 3)->words.left), 1);
    finish();
}

TEST(an_abort_wakes_it_too)
{
    struct sl_bus_peer peer;
    start_child("0");
    attach(&peer);
    uint32_t seen = fallen_asleep();
    sl_arena_abort(&arena, SL_ABORT_STOP);
    ck_assert(rang(&arena.h->work, &seen));
    ck_assert_int_eq(exit_status(), 0);
    finish();
}

TEST(a_seat_that_the_arena_does_not_have_is_refused)
{
    struct sl_bus_peer peer;
    start_child("4");
    attach(&peer);
    ck_assert_int_eq(exit_status(), 11);
    finish();
}

RUN_TESTS(.timeout_s = 120)
