// Requests that wait for the GPUs: parked over a real bus, for a child that a script plays.
#include "broker/daemon/pending_requests.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

#include "common/base/clock.h"
#include "tests/unit/daemon_bus_fixture.h"
#include "tests/unit/suite.h"

static char program[300];

// The child answers once there is a file "go": with a GPU, unless the test wants another answer.
static void child_says(const char *devices)
{
    char script[1024];
    snprintf(script, sizeof script,
             "#!/bin/sh\necho asked >> %s\nwhile ! [ -e %s ]; do sleep 0.02; done\n"
             "echo '{\"schema\": \"sluice.devices/1\", \"devices\": [%s]}'\n",
             in_dir("asked"), in_dir("go"), devices);
    write_text(program, script);
    ck_assert_int_eq(chmod(program, 0700), 0);
}

static void begin(void)
{
    struct sl_cores all;
    ck_assert_int_eq(sl_cores_allowed(&all), SL_OK);
    unsetenv("SLUICE_GPU_SECONDS");
    sl_cores_add(&daemon_begin(all)->gpus, 0);
    snprintf(program, sizeof program, "%s/answers", dir);
    write_text(in_dir("libsluice_cuda.so"), "");
    d->parking.gpus.program = program;
    child_says("{\"name\": \"A\", \"compute_capability\": \"9.0\", \"memory_total\": 8e9}");
}

static void end(void)
{
    sl_pending_requests_fini(&d->parking);
    daemon_end();
}

// --- what is said --------------------------------------------------------------------------------

static void submit(struct sl_bus *from, const char *name, const char *devices)
{
    Sl__Control__Submit m = SL__CONTROL__SUBMIT__INIT;
    m.config_json = (char *)job_text(name, devices);
    BODY(body, submit, SUBMIT, &m);
    send_to_daemon(from, &body, "");
}

static const char gpu_0[] = "[{\"kind\": \"cuda\", \"index\": 0}]";

static void resume(struct sl_bus *from, const char *job)
{
    Sl__Control__Resume m = SL__CONTROL__RESUME__INIT;
    BODY(body, resume, RESUME, &m);
    send_to_daemon(from, &body, job);
}

static void stop(struct sl_bus *from, const char *job)
{
    Sl__Control__Stop m = SL__CONTROL__STOP__INIT;
    BODY(body, stop, STOP, &m);
    send_to_daemon(from, &body, job);
}

// The next answer; words that it takes longer are passed over.
static void hears(struct sl_bus *by, bool ok, const char *part)
{
    Sl__Control__Envelope *m;
    do {
        ck_assert_int_eq(sl_bus_receive(by, AWAIT_MS, NULL, &m), SL_OK);
        if (m->body_case == SL__CONTROL__ENVELOPE__BODY_ANSWER)
            break;
        ck_assert_int_eq(m->body_case, SL__CONTROL__ENVELOPE__BODY_WAITING);
        sl_bus_message_free(m);
    } while (true);
    bool has = strstr(m->answer->message, part) || strstr(m->answer->json, part);
    ck_assert_msg(m->answer->ok == ok && has, "%s: '%s' %s, wanted '%s'",
                  m->answer->ok ? "consent" : "refusal", m->answer->message, m->answer->json, part);
    sl_bus_message_free(m);
}

// To whoever waits in place i: the next that it hears is this, so it has heard nothing before.
static void has_heard_nothing(struct sl_bus *by, uint32_t i)
{
    Sl__Control__Finished last = SL__CONTROL__FINISHED__INIT;
    Sl__Control__Envelope *m;
    BODY(e, finished, FINISHED, &last);
    ck_assert_int_eq(sl_bus_send(d->bus, &d->parking.list[i].peer, &e), SL_OK);
    ck_assert_int_eq(sl_bus_receive(by, AWAIT_MS, NULL, &m), SL_OK);
    ck_assert_int_eq(m->body_case, SL__CONTROL__ENVELOPE__BODY_FINISHED);
    sl_bus_message_free(m);
}

// Closes a client's end, and waits until the bus knows: nothing can be sent to it any more.
static void go_away(struct sl_bus *who, uint32_t i)
{
    Sl__Control__Waiting waiting = SL__CONTROL__WAITING__INIT;
    BODY(e, waiting, WAITING, &waiting);
    sl_bus_close(who, 0);
    AWAIT(sl_bus_send(d->bus, &d->parking.list[i].peer, &e) != SL_OK);
}

// The daemon's ticks until nothing is parked.
static void until_served(void)
{
    AWAIT((sl_pending_requests_poll(d, sl_daemon_serve_parked), d->parking.n == 0));
}

static void let_child_answer(void)
{
    write_text(in_dir("go"), "");
}

static long times_asked(void)
{
    struct stat st;
    return stat(in_dir("asked"), &st) == 0 ? (long)st.st_size / 6 : 0;
}

static const struct sl_entry *job(const char *name)
{
    for (uint32_t i = 0; i < d->registry.n; i++)
        if (strcmp(d->registry.entries[i]->name, name) == 0)
            return d->registry.entries[i];
    return NULL;
}

static int records(void)
{
    int n = 0;
    DIR *state = opendir(d->state_dir);
    ck_assert_ptr_nonnull(state);
    for (struct dirent *at; (at = readdir(state));)
        n += at->d_name[0] != '.';
    closedir(state);
    return n;
}

// --- tests ---------------------------------------------------------------------------------------

TEST(a_job_with_gpus_waits_for_them_and_one_without_does_not)
{
    Sl__Control__List list = SL__CONTROL__LIST__INIT;
    BODY(body, list, LIST, &list);
    submit(client, "g", gpu_0);
    sl_pending_requests_poll(d, sl_daemon_serve_parked);
    ck_assert_uint_eq(d->parking.n, 1);
    has_heard_nothing(client, 0);
    submit(client, "c", "\"cpu\"");
    hears(client, true, "\"name\":\"c\"");
    send_to_daemon(client, &body, "");
    hears(client, true, "\"waiting_for_gpus\":1"); // all this before the child may answer
    ck_assert_ptr_null(job("g"));
    ck_assert_int_eq(records(), 1);
    let_child_answer();
    until_served();
    hears(client, true, "\"name\":\"g\"");
    ck_assert(sl_cores_has(&job("g")->gpus, 0));
    ck_assert_int_eq(records(), 2);
    submit(client, "h", gpu_0); // they are known now
    hears(client, true, "\"name\":\"h\"");
    ck_assert_int_eq(times_asked(), 1);
}

TEST(what_can_be_refused_without_the_gpus_is)
{
    submit(client, "g", "[{\"kind\": \"cuda\", \"index\": -1}]");
    hears(client, false, "index");
    ck_assert_int_eq(times_asked(), 0);
    ck_assert_uint_eq(d->parking.n, 0);
}

TEST(all_wait_for_one_child_and_go_on_in_their_order)
{
    char name[2][16] = {"a", "b"};
    submit(client, name[0], gpu_0);
    submit(client, name[1], "\"auto\"");
    submit(client, name[0], gpu_0); // of this name there will be one
    ck_assert_uint_eq(d->parking.n, 3);
    let_child_answer();
    until_served();
    hears(client, true, "\"name\":\"a\"");
    hears(client, true, "\"name\":\"b\"");
    hears(client, false, "is called 'a' too");
    ck_assert_int_lt(job("a")->order, job("b")->order);
    ck_assert_int_eq(times_asked(), 1);
}

TEST(a_client_is_told_that_it_takes_longer)
{
    Sl__Control__Envelope *m;
    setenv("SLUICE_GPU_SECONDS", "600", 1);
    submit(client, "g", gpu_0);
    for (int told = 0; told < 2; told++) {
        d->parking.list[0].told_ns = sl_now_ns(); // however long the lines before took
        sl_pending_requests_poll(d, sl_daemon_serve_parked);
        has_heard_nothing(client, 0);
        sl_clock_advance(1000000000);
        sl_pending_requests_poll(d, sl_daemon_serve_parked);
        ck_assert_int_eq(sl_bus_receive(client, AWAIT_MS, NULL, &m), SL_OK);
        ck_assert_int_eq(m->body_case, SL__CONTROL__ENVELOPE__BODY_WAITING);
        ck_assert_ptr_nonnull(strstr(m->waiting->text, "GPUs"));
        sl_bus_message_free(m);
    }
}

TEST(a_job_whose_client_has_gone_is_not_taken)
{
    struct sl_bus *other;
    ck_assert_int_eq(sl_bus_connect(endpoint, bus_key, &other), SL_OK);
    submit(other, "gone", gpu_0);
    submit(client, "here", gpu_0);
    go_away(other, 0);
    let_child_answer();
    until_served();
    hears(client, true, "\"name\":\"here\"");
    ck_assert_ptr_null(job("gone"));
    ck_assert_int_eq(records(), 1);
}

// A job that has ended, and that asks for a GPU.
static struct sl_entry *ended(enum sl_entry_state state)
{
    struct sl_entry *e;
    let_child_answer();
    submit(client, "e", gpu_0);
    until_served();
    hears(client, true, "\"name\":\"e\"");
    ck_assert_int_eq(sl_registry_find(&d->registry, "e", &e), SL_OK);
    sl_daemon_end_entry(d, e, state, 130, "as the test wants it");
    ck_assert_int_eq(unlink(in_dir("go")), 0);
    memset(&d->parking.gpus, 0, sizeof d->parking.gpus); // another daemon
    d->parking.gpus.program = program;
    return e;
}

TEST(a_resume_waits_too_and_is_done_though_its_client_has_gone)
{
    struct sl_bus *other;
    struct sl_entry *e = ended(SL_ENTRY_STOPPED);
    ck_assert_int_eq(sl_bus_connect(endpoint, bus_key, &other), SL_OK);
    resume(other, e->id);
    resume(client, e->id);
    has_heard_nothing(client, 1);
    ck_assert_int_eq(e->state, SL_ENTRY_STOPPED);
    go_away(other, 0);
    let_child_answer();
    until_served();
    hears(client, true, "it is queued already");
    ck_assert_int_eq(e->state, SL_ENTRY_QUEUED);
    ck_assert_uint_eq(e->resumed, 1);
}

LOOP_TEST(a_job_that_is_stopped_meanwhile_is_not_gone_on_with, 0, 2)
{
    const enum sl_entry_state state = _i ? SL_ENTRY_INTERRUPTED : SL_ENTRY_FAILED;
    struct sl_bus *other;
    struct sl_entry *e = ended(state);
    ck_assert_int_eq(sl_bus_connect(endpoint, bus_key, &other), SL_OK);
    resume(client, e->id);
    stop(other, e->id);
    hears(client, false, "it was stopped before it was queued again");
    hears(other, true, _i ? "stopped by the user" : "it is not queued again");
    let_child_answer();
    until_served();
    ck_assert_int_eq(e->state, _i ? SL_ENTRY_STOPPED : SL_ENTRY_FAILED);
    stop(other, e->id);
    hears(other, false, "is over since");
    sl_bus_close(other, 0);
}

TEST(a_job_that_is_forgotten_meanwhile_is_said_to_be)
{
    struct sl_entry *e = ended(SL_ENTRY_STOPPED);
    resume(client, e->id);
    sl_registry_remove(&d->registry, e);
    let_child_answer();
    until_served();
    hears(client, false, "not remembered");
}

TEST(a_daemon_that_stops_refuses_what_waits_and_ends_the_child)
{
    submit(client, "g", gpu_0);
    pid_t pid = d->parking.gpus.pid;
    ck_assert_int_gt(pid, 0);
    d->stopping = true;
    sl_pending_requests_end(d, "the daemon is stopping");
    hears(client, false, "the daemon is stopping");
    submit(client, "h", gpu_0);
    hears(client, false, "the daemon is stopping");
    AWAIT(kill(pid, 0) != 0 || waitpid(pid, NULL, WNOHANG) != 0);
    ck_assert(kill(pid, 0) != 0 && errno == ESRCH);
    ck_assert_int_eq(records(), 0);
    sl_pending_requests_poll(d, sl_daemon_serve_parked);
}

TEST(a_driver_that_hangs_is_an_answer)
{
    setenv("SLUICE_GPU_SECONDS", "600", 1);
    submit(client, "g", gpu_0);
    submit(client, "a", "\"auto\"");
    AWAIT(times_asked() == 1);
    sl_clock_advance(600 * 1000000000ull);
    until_served();
    hears(client, false, "did not answer within 600 s");
    hears(client, true, "\"name\":\"a\""); // on cores
    submit(client, "h", gpu_0);            // the answer holds for a while
    hears(client, false, "did not answer within 600 s");
    ck_assert_int_eq(times_asked(), 1);
}

TEST(there_is_room_for_so_many)
{
    submit(client, "g", gpu_0);
    uint32_t n = d->parking.n;
    d->parking.n = SL_PENDING_REQUEST_MAX;
    submit(client, "h", gpu_0);
    hears(client, false, "try again soon");
    d->parking.n = n;
    d->parking.list[0].bytes = SL_PENDING_REQUEST_BYTES_MAX; // a few large ones are as good as many
    submit(client, "h", gpu_0);
    hears(client, false, "try again soon");
}

RUN_TESTS(.setup = begin, .teardown = end, .timeout_s = AWAIT_CASE_S)
