// External trainers take a seat of a job: both sides of the protocol, in two processes.
#include "common/bus/attach.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "common/base/bits.h"
#include "tests/unit/suite.h"
#include "tests/unit/test_arena_fixture.h"

enum { SOON_MS = 60000, NOBODY = 65534 };

static const char job[] = "{\"name\": \"job\"}";
static char endpoint[128], key[SL_BUS_KEY_TEXT], path[SL_ATTACH_PATH_BYTES];
static struct sl_bus *broker;
static int listener, config;
static struct sl_attach_peer trainer;
static pid_t child;

static void open_job(void)
{
    struct sl_arena_spec spec = {
        .n_devices = 2, .n_cells = 4, .batches_per_update = 1, .payload_bytes = 1 << 20};
    create_arena(&spec);
    ck_assert_int_eq(sl_bus_new_endpoint(endpoint, sizeof endpoint, key), SL_OK);
    sl_attach_path(endpoint, path);
    ck_assert_int_ge(config = sl_assignment_make(job, NULL), 0);
    ck_assert_int_ge(listener = sl_attach_listen(path), 0);
}

static void close_job(void)
{
    sl_attach_close(&trainer);
    if (broker)
        sl_bus_close(broker, 0);
    destroy_arena();
}

static void until_readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    ck_assert_int_eq(poll(&p, 1, SOON_MS), 1);
}

// A process of a trainer's, which knows nothing of the broker but its path.
static void start(int (*live)(void))
{
    child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        close(listener);
        _exit(live());
    }
    if (!broker) // whose threads no child has
        ck_assert_int_eq(sl_bus_bind(endpoint, key, &broker), SL_OK);
}

static int exit_status(void)
{
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int32_t accept_request(void)
{
    int32_t rank = -7;
    until_readable(listener);
    ck_assert_msg(sl_attach_accept(listener, &trainer) == SL_OK, "%s", sl_error_message());
    ck_assert_int_eq(trainer.pid, child);
    until_readable(trainer.fd);
    ck_assert_int_eq(sl_attach_receive(&trainer, &rank), SL_ATTACH_REQUEST);
    return rank;
}

static void grant(void)
{
    struct sl_attach_seat seat = {.worker = 9, .slot = 3, .role_index = 0, .device = 1};
    snprintf(seat.endpoint, sizeof seat.endpoint, "%s", endpoint);
    seat.fd = (struct sl_worker_fds){.arena = arena_fd,
                                     .config = config,
                                     .doorbell = eventfd(0, EFD_CLOEXEC),
                                     .acts = memfd_create("acts", 0),
                                     .key = sl_bus_key_hand_over(key)};
    for (int i = 0; i < SL_SHARED_COUNT; i++)
        seat.fd.shared[i] = memfd_create("shared", 0);
    ck_assert_int_eq(sl_attach_grant(&trainer, &seat), SL_OK);
}

// Its Hello is answered, and it gets ready.
static void take_in(void)
{
    struct sl_bus_peer peer;
    Sl__Control__Envelope *m;
    ck_assert_int_eq(sl_bus_receive(broker, SOON_MS, &peer, &m), SL_OK);
    ck_assert_int_eq((int)m->body_case, SL__CONTROL__ENVELOPE__BODY_HELLO);
    ck_assert_uint_eq(m->hello->worker, 9);
    ck_assert_int_eq(m->hello->pid, child);
    sl_bus_message_free(m);
    Sl__Control__Attach attach = SL__CONTROL__ATTACH__INIT;
    Sl__Control__Envelope e = SL__CONTROL__ENVELOPE__INIT;
    e.body_case = SL__CONTROL__ENVELOPE__BODY_ATTACH;
    e.attach = &attach;
    ck_assert_int_eq(sl_bus_send(broker, &peer, &e), SL_OK);
    if (sl_bus_receive(broker, SOON_MS, NULL, &m) < 0)
        ck_abort_msg("it is not ready, and ends with %d", exit_status());
    ck_assert_int_eq((int)m->body_case, SL__CONTROL__ENVELOPE__BODY_READY);
    sl_bus_message_free(m);
}

static int attach(struct sl_worker *w, int32_t rank)
{
    return sl_attach(&(struct sl_attach_spec){path, rank, 0}, w);
}

static int attach_and_get_ready(struct sl_worker *w)
{
    Sl__Control__Hello hello = SL__CONTROL__HELLO__INIT;
    SL_TRY(attach(w, 0));
    SL_TRY(sl_worker_attach(w, &hello));
    return sl_worker_ready(w);
}

// Waits as one does who has no batch. 0: the job ended.
static int wait_for_batches(struct sl_worker *w)
{
    struct sl_lease lease;
    int rc;
    while ((rc = sl_ledger_claim_train(&w->arena, w->id, 1000, &lease)) == SL_ETIMEDOUT) {
    }
    return rc == SL_EABORTED ? 0 : 30;
}

// --- a life --------------------------------------------------------------------------------------

static int work_until_the_end(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGPIPE};
    struct sl_worker w;
    struct sigaction before[SL_COUNT_OF(signals)];
    char why[SL_ATTACH_TEXT];
    int death = -1;
    for (size_t i = 0; i < SL_COUNT_OF(signals); i++)
        sigaction(signals[i], NULL, &before[i]);
    if (attach_and_get_ready(&w) < 0)
        return 10;
    if (w.id != 9 || w.slot != 3 || w.device != 1 || strcmp(w.told.job, job) != 0)
        return 11;
    for (int i = 0; i < SL_SHARED_COUNT; i++)
        if (fcntl(w.fd.shared[i], F_GETFD) != FD_CLOEXEC)
            return 12;
    // The process is as it was.
    for (size_t i = 0; i < SL_COUNT_OF(signals); i++) {
        struct sigaction now;
        if (sigaction(signals[i], NULL, &now) != 0 || now.sa_handler != before[i].sa_handler)
            return 13;
    }
    if (prctl(PR_GET_PDEATHSIG, &death) != 0 || death != 0)
        return 14;
    if (wait_for_batches(&w) != 0 || atomic_load(&w.lost))
        return 15;
    if (strcmp(sl_worker_end_text(&w, why, sizeof why), "stopped by the user") != 0)
        return 16;
    int fd = w.fd.arena;
    sl_worker_fini(&w);
    return fcntl(fd, F_GETFD) == -1 ? 0 : 17;
}

TEST(it_works_until_the_job_ends_and_hears_why)
{
    int32_t rank;
    open_job();
    start(work_until_the_end);
    ck_assert_int_eq(accept_request(), 0);
    grant();
    take_in();
    ck_assert_uint_eq(sl_stats_is_of(sl_stats_slot(&arena, 3), 9), 1);
    sl_arena_abort(&arena, SL_ABORT_STOP);
    sl_attach_end(&trainer, "stopped by the user");
    until_readable(trainer.fd);
    ck_assert_int_eq(sl_attach_receive(&trainer, &rank), SL_ATTACH_LEAVE);
    ck_assert_int_eq(exit_status(), 0);
    until_readable(trainer.pidfd); // the proof of its death
    close_job();
}

static int lose_the_broker(void)
{
    struct sl_worker w;
    if (attach_and_get_ready(&w) < 0)
        return 10;
    if (wait_for_batches(&w) != 0)
        return 11;
    bool lost = atomic_load(&w.lost);
    sl_worker_fini(&w);
    return lost ? 0 : 12;
}

TEST(the_death_of_the_broker_ends_its_waits)
{
    open_job();
    start(lose_the_broker);
    accept_request();
    grant();
    take_in();
    close(trainer.fd); // as the kernel does for a broker that is killed
    trainer.fd = -1;
    ck_assert_int_eq(exit_status(), 0);
    close_job();
}

static int be_lost_before_the_job_began(void)
{
    struct sl_worker w;
    int rc = attach_and_get_ready(&w);
    bool said = strstr(sl_error_message(), "a sampler: no memory") != NULL;
    sl_worker_fini(&w);
    return rc == SL_EFAILED && said ? 0 : 10;
}

TEST(a_job_that_never_begins_says_why)
{
    open_job();
    start(be_lost_before_the_job_began);
    accept_request();
    grant();
    sl_attach_end(&trainer, "a sampler: no memory");
    ck_assert_int_eq(exit_status(), 0);
    close_job();
}

// --- refusals ------------------------------------------------------------------------------------

static int be_refused(void)
{
    struct sl_worker w;
    int rc = attach(&w, 5);
    bool said = strcmp(sl_error_message(), "all seats are taken by process 1") == 0;
    sl_worker_fini(&w);
    return rc == SL_EAGAIN && said ? 0 : 10;
}

TEST(a_refusal_is_in_the_words_of_the_broker)
{
    open_job();
    start(be_refused);
    ck_assert_int_eq(accept_request(), 5);
    sl_attach_refuse(&trainer, SL_EAGAIN, "all seats are taken by process 1");
    ck_assert_int_eq(exit_status(), 0);
    close_job();
}

TEST(where_nobody_listens_there_is_no_job)
{
    struct sl_worker w;
    open_job();
    close(listener);
    ck_assert_int_eq(attach(&w, -1), SL_ENOENT);
    sl_worker_fini(&w);
    close_job();
}

static int be_somebody_else(void)
{
    struct sl_worker w;
    if (setresuid(NOBODY, NOBODY, NOBODY) != 0)
        return 10;
    int rc = attach(&w, -1);
    sl_worker_fini(&w);
    return rc == SL_EACCESS ? 0 : 11;
}

// Who is not the broker's user sees that by itself ...
static int pretend_to_be_this_user(void)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    char answer[8192];
    if (setresuid(NOBODY, NOBODY, NOBODY) != 0)
        return 10;
    memcpy(at.sun_path + 1, path + 1, strlen(path) - 1);
    if (connect(fd, (struct sockaddr *)&at,
                (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path))) != 0)
        return 11;
    ssize_t n = recv(fd, answer, sizeof answer, 0);
    return n > 0 && memmem(answer, (size_t)n, "wanted a process of user", 24) ? 0 : 12;
}

static bool is_root(void)
{
    return geteuid() == 0;
}

CASE(.needs = is_root, .skipped = "processes of two users: only root can start another user's")
TEST(another_users_process_is_refused_by_both_sides)
{
    open_job();
    start(be_somebody_else);
    ck_assert_int_eq(exit_status(), 0);
    until_readable(listener);
    ck_assert_int_eq(sl_attach_accept(listener, &trainer), SL_EACCESS);
    start(pretend_to_be_this_user); // ... and who does not look is told
    until_readable(listener);
    ck_assert_int_eq(sl_attach_accept(listener, &trainer), SL_EACCESS);
    ck_assert_int_eq(trainer.fd, -1);
    ck_assert_int_eq(exit_status(), 0);
    close_job();
}

// --- what comes instead of a request -------------------------------------------------------------

static const struct {
    struct {
        uint32_t magic;
        uint16_t version, kind;
        int32_t rank;
    } message;
    size_t bytes;
    const char *answer; // NULL: none
} strange[] = {
    {{0x12345678, SL_ATTACH_VERSION, SL_ATTACH_REQUEST, 0}, 12, NULL},
    {{0x61746c73, SL_ATTACH_VERSION, 77, 0}, 12, NULL},
    {{0x61746c73, SL_ATTACH_VERSION, SL_ATTACH_REQUEST, 0}, 3, NULL},
    {{0x61746c73, SL_ATTACH_VERSION, SL_ATTACH_REQUEST, 0}, 0, NULL},
    {{0x61746c73, SL_ATTACH_VERSION + 1, SL_ATTACH_REQUEST, 0}, 8, "the same version of sluice"},
};

LOOP_TEST(strange_messages_are_no_requests, 0, SL_COUNT_OF(strange))
{
    int32_t rank;
    open_job();
    int fd = sl_attach_connect(path, 0);
    ck_assert_int_ge(fd, 0);
    until_readable(listener);
    ck_assert_int_eq(sl_attach_accept(listener, &trainer), SL_OK);
    ck_assert_int_eq(sl_attach_receive(&trainer, &rank), SL_EAGAIN);
    ck_assert_int_eq(send(fd, &strange[_i].message, strange[_i].bytes, 0),
                     (ssize_t)strange[_i].bytes);
    ck_assert_int_eq(sl_attach_receive(&trainer, &rank), SL_EPROTO);
    char answer[8192];
    ssize_t n = recv(fd, answer, sizeof answer, MSG_DONTWAIT);
    if (strange[_i].answer)
        ck_assert(n > 0 && memmem(answer, (size_t)n, strange[_i].answer,
                                  strlen(strange[_i].answer)) != NULL);
    else
        ck_assert_int_lt(n, 0);
    close(fd);
    ck_assert_int_eq(sl_attach_receive(&trainer, &rank), SL_EPROTO); // it is gone
    close_job();
}

RUN_TESTS(.timeout_s = 120)
