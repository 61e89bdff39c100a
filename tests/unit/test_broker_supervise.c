// The worker pool: deaths are named, workers replaced, or given up, all stopped.
#include "tests/unit/suite.h"
#include "tests/unit/test_data_fixture.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>

#include "broker/workers/worker_pool.h"
#include "common/base/clock.h"

enum { DEATHS_MAX = 64 };

static struct {
    uv_loop_t loop;
    uv_timer_t limit;
    struct sl_worker_pool workers;
    struct sl_worker_pool_setup setup;
    int fd;
    bool worked;    // what on_death answers
    int stop_after; // deaths; 0 = never
    int n_deaths;
    char cause[DEATHS_MAX][160];
    char last[DEATHS_MAX][512];
    uint32_t backoff_ms[DEATHS_MAX]; // before the process that died
    char hopeless[256];
    int n_left;
    bool want_again;            // on_left fills the member once more
    bool dismissed[DEATHS_MAX]; // killed by the workers
    void (*on_look)(void);      // each time somebody who does not leave is looked at
    bool leaves;                // what has_left answers of member 0
    int asked;                  // how often
    bool gone;
    char lines[4096];
} t;

static bool on_death(void *ctx, struct sl_pool_worker *w, const struct sl_exit_status *death)
{
    int i = t.n_deaths++;
    ck_assert_int_lt(i, DEATHS_MAX);
    t.backoff_ms[i] = w->backoff_ms;
    sl_exit_status_describe(death, t.cause[i], sizeof t.cause[i]);
    sl_stream_last(&w->log, t.last[i], sizeof t.last[i]);
    t.dismissed[i] = w->dismissed;
    ck_assert_msg(kill(w->pid, 0) != 0 || death->known, "process %d lives", (int)w->pid);
    if (t.stop_after && t.n_deaths == t.stop_after)
        sl_worker_pool_stop(&t.workers, 0);
    return t.worked;
}

static void on_left(void *ctx, struct sl_pool_worker *w)
{
    t.n_left++;
    if (t.want_again && sl_pool_worker_want(w) == SL_OK)
        t.want_again = false;
    else
        sl_worker_pool_stop(&t.workers, 0);
}

static void on_give_up(void *ctx, struct sl_pool_worker *w, const char *why)
{
    snprintf(t.hopeless, sizeof t.hopeless, "%s", why);
    sl_worker_pool_stop(&t.workers, 0);
}

static void on_line(void *ctx, struct sl_pool_worker *w, int level, const char *text)
{
    size_t n = strlen(t.lines);
    snprintf(t.lines + n, sizeof t.lines - n, "%s/%d/%s\n", w->name, level, text);
}

// The clock is the test's: only asking shows that a look was taken.
static bool has_left(void *ctx, const struct sl_pool_worker *w)
{
    t.asked++;
    if (t.on_look)
        t.on_look();
    return t.leaves && w->slot == 0;
}

static void on_gone(void *ctx)
{
    t.gone = true;
    sl_worker_pool_close(&t.workers);
    uv_close((uv_handle_t *)&t.limit, NULL);
}

static void on_limit(uv_timer_t *timer)
{
    ck_abort_msg("no end in sight after %d deaths", t.n_deaths);
}

static void make_script(const char *name, const char *body)
{
    char text[2048];
    snprintf(text, sizeof text, "#!/bin/sh\n%s\n", body);
    write_text(name, text);
    ck_assert_int_eq(chmod(in_dir(name), 0755), 0);
}

static void setup(void)
{
    dir_begin();
    memset(&t, 0, sizeof t);
    uv_loop_init(&t.loop);
    uv_timer_init(&t.loop, &t.limit);
    uv_timer_start(&t.limit, on_limit, 100000, 0);
    t.fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    t.setup = (struct sl_worker_pool_setup){
        .loop = &t.loop,
        .endpoint = "ipc://@nobody",
        .arena_fd = t.fd,
        .config_fd = t.fd,
        .doorbell_fd = t.fd,
        .acts_fd = t.fd,
        .key_fd = t.fd,
        .events = {.on_death = on_death,
                   .on_left = on_left,
                   .on_give_up = on_give_up,
                   .on_line = on_line,
                   .has_left = has_left,
                   .on_gone = on_gone},
    };
    for (int i = 0; i < SL_SHARED_COUNT; i++)
        t.setup.shared_fd[i] = t.fd;
    snprintf(t.setup.directory, sizeof t.setup.directory, "%s", dir);
}

static void begin(uint32_t n_samplers)
{
    must(sl_worker_pool_init(&t.workers, &t.setup, n_samplers));
    for (uint32_t i = 0; i < n_samplers; i++)
        sl_worker_pool_place(&t.workers, i, SL_ROLE_SAMPLER, i, 0);
    for (uint32_t i = 0; i < n_samplers; i++)
        must(sl_pool_worker_want(&t.workers.list[i]));
}

static void run_to_the_end(void)
{
    uv_run(&t.loop, UV_RUN_DEFAULT);
    ck_assert(t.gone);
    sl_worker_pool_fini(&t.workers);
    ck_assert_int_eq(uv_loop_close(&t.loop), 0);
}

static void run_worker(const char *body, int deaths)
{
    make_script("sluice-sampler", body);
    t.stop_after = deaths;
    begin(1);
    run_to_the_end();
    ck_assert_int_eq(t.n_deaths, deaths);
}

// --- how a worker died ---

TEST(an_exit_status_is_named)
{
    run_worker("exit 3", 1);
    ck_assert_str_eq(t.cause[0], "ended with exit status 3");
}

TEST(sigkill_is_named_with_its_usual_reasons)
{
    run_worker("kill -KILL $$", 1);
    ck_assert_str_eq(t.cause[0],
                     "was killed by SIGKILL (by a user, or by the kernel when memory ran out)");
}

TEST(a_segmentation_fault_is_named)
{
    run_worker("ulimit -c 0; kill -SEGV $$", 1);
    ck_assert_str_eq(t.cause[0], "was killed by SIGSEGV (segmentation fault)");
}

TEST(an_out_of_memory_kill_is_told_apart)
{
    char buf[160];
    struct sl_exit_status d = {.known = true, .signal = SIGKILL, .oom_killed = true};
    ck_assert_str_eq(sl_exit_status_describe(&d, buf, sizeof buf),
                     "was killed by SIGKILL (by the kernel: memory ran out)");
    d = (struct sl_exit_status){.known = true, .signal = SIGABRT, .core_dumped = true};
    ck_assert_str_eq(sl_exit_status_describe(&d, buf, sizeof buf),
                     "was killed by SIGABRT (aborted), core dumped");
    d = (struct sl_exit_status){0};
    ck_assert_msg(strstr(sl_exit_status_describe(&d, buf, sizeof buf), "not known"), "%s", buf);
}

TEST(last_words_are_read_to_the_end)
{
    run_worker("echo one >&2; echo two; printf 'three without an end' >&2; kill -KILL $$", 1);
    ck_assert_str_eq(t.last[0], "one | two | three without an end");
}

TEST(many_last_words_do_not_block_the_worker)
{
    // More than a pipe holds, and the death comes at once.
    run_worker("i=0; while [ $i -lt 3000 ]; do echo \"line $i of a very talkative worker indeed\" "
               ">&2; i=$((i+1)); done; exit 9",
               1);
    ck_assert_msg(strstr(t.last[0], "line 2999") != NULL, "%s", t.last[0]);
    ck_assert_str_eq(t.cause[0], "ended with exit status 9");
}

TEST(lines_have_their_level)
{
    run_worker("echo '12:34:56.789 W sampler 0: careful' >&2; echo plain >&2", 1);
    ck_assert_str_eq(t.lines, "sampler 0/1/sampler 0: careful\nsampler 0/-1/plain\n");
}

// --- replacement ---

TEST(the_wait_before_a_replacement_doubles)
{
    run_worker("exit 1", 4);
    static const uint32_t wait_ms[] = {0, 50, 100, 200};
    for (int i = 0; i < 4; i++)
        ck_assert_uint_eq(t.backoff_ms[i], wait_ms[i]);
}

TEST(a_worker_that_keeps_dying_is_given_up)
{
    make_script("sluice-sampler", "exit 1");
    begin(1);
    run_to_the_end();
    ck_assert_int_eq(t.n_deaths, SL_WORKER_DEATHS_MAX);
    ck_assert_str_eq(t.hopeless, "sampler 0 died 5 times in a row without completing any work");
}

TEST(work_in_between_starts_the_count_anew)
{
    t.worked = true;
    run_worker("exit 1", 12);
    ck_assert_str_eq(t.hopeless, "");
    for (int i = 1; i < 12; i++) // every wait is the first one's
        ck_assert_uint_eq(t.backoff_ms[i], SL_WORKER_BACKOFF_MS);
}

TEST(a_replacement_is_another_worker)
{
    run_worker("echo $* >&2; exit 1", 2);
    ck_assert_msg(strstr(t.last[0], "--worker 1 --slot 0 --role-index 0 --device 0 --endpoint "
                                    "ipc://@nobody --broker"),
                  "%s", t.last[0]);
    ck_assert_msg(strstr(t.last[0], "--start 0"), "%s", t.last[0]);
    ck_assert_msg(strstr(t.last[1], "--worker 2 --slot 0"), "%s", t.last[1]);
    ck_assert_msg(strstr(t.last[1], "--start 1"), "%s", t.last[1]);
}

TEST(a_missing_program_is_an_error_that_names_it)
{
    must(sl_worker_pool_init(&t.workers, &t.setup, 1));
    sl_worker_pool_place(&t.workers, 0, SL_ROLE_TRAINER, 0, 0);
    // Whatever descriptors are open, few or many: the error must reach the parent.
    close(STDIN_FILENO);
    for (int more = 0; more < 24; more++) {
        ck_assert_int_eq(sl_pool_worker_want(&t.workers.list[0]), SL_ESYS);
        ck_assert(!t.workers.list[0].wanted);
        assert_message_has("sluice-trainer");
        assert_message_has("no such file");
        ck_assert_int_ge(dup(t.fd), 0);
    }
    sl_worker_pool_stop(&t.workers, 0);
    run_to_the_end();
}

// --- workers that are not wanted any more ---

// Releases member 0 once its second process runs.
static void on_second_start(uv_timer_t *timer)
{
    if (t.workers.list[0].starts < 2)
        return;
    uv_timer_stop(timer);
    sl_pool_worker_release(&t.workers.list[0]);
}

static void begin_with_a_release(void)
{
    make_script("sluice-sampler", "exec sleep 100");
    begin(1);
    sl_pool_worker_release(&t.workers.list[0]);
}

static void run_and_release_again(void)
{
    uv_timer_t timer;
    uv_timer_init(&t.loop, &timer);
    uv_timer_start(&timer, on_second_start, 1, 1);
    uv_unref((uv_handle_t *)&timer);
    uv_run(&t.loop, UV_RUN_DEFAULT);
    ck_assert(t.gone);
    ck_assert_int_eq(t.n_deaths, 2);
    ck_assert_uint_eq(t.workers.list[0].starts, 2);
    uv_close((uv_handle_t *)&timer, NULL);
    uv_run(&t.loop, UV_RUN_DEFAULT);
    sl_worker_pool_fini(&t.workers);
    ck_assert_int_eq(uv_loop_close(&t.loop), 0);
}

TEST(a_released_worker_is_not_replaced)
{
    // It has not attached, so nobody waits for it to finish anything.
    begin_with_a_release();
    run_to_the_end();
    ck_assert_int_eq(t.n_deaths, 1);
    ck_assert_int_eq(t.n_left, 1);
}

TEST(a_released_member_can_be_wanted_again)
{
    t.want_again = true;
    begin_with_a_release();
    run_and_release_again();
    ck_assert_int_eq(t.n_left, 2);
}

TEST(wanted_again_while_it_leaves)
{
    begin_with_a_release();
    must(sl_pool_worker_want(
        &t.workers.list[0])); // it has been killed, but its death is not seen yet
    t.stop_after = 2;
    run_and_release_again();
}

static void end_time_to_leave(void)
{
    ck_assert_int_eq(t.n_deaths, 0);
    if (t.asked == 3)
        sl_clock_advance(SL_WORKER_LEAVE_MS * 1000000ull);
}

TEST(a_released_worker_that_does_not_leave_is_killed)
{
    make_script("sluice-sampler", "exec sleep 100");
    begin(1);
    t.workers.list[0].attached = true;
    t.on_look = end_time_to_leave;
    sl_pool_worker_release(&t.workers.list[0]);
    run_to_the_end();
    ck_assert_int_ge(t.asked, 3);
    ck_assert_int_eq(t.n_deaths, 1);
    ck_assert(t.dismissed[0]);
}

// --- surroundings ---

TEST(a_worker_has_a_session_of_its_own)
{
    // Field 6 of stat is the session; it must be the process itself.
    run_worker("read pid comm state ppid pgrp session rest < /proc/$$/stat; "
               "[ $session = $$ ] && echo own >&2",
               1);
    ck_assert_str_eq(t.last[0], "own");
}

TEST(a_worker_inherits_exactly_its_descriptors)
{
    int config = open(in_dir("config"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    ck_assert_int_eq(write(config, "the job\n", 8), 8);
    lseek(config, 0, SEEK_SET);
    t.setup.config_fd = config;
    // But for the one that the shell reads this from.
    run_worker("read line <&4; for f in 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do "
               "[ ! -e /proc/$$/fd/$f ] || [ /proc/$$/fd/$f -ef $0 ] || line=\"$line $f\"; done; "
               "echo $line >&2",
               1);
    char wanted[sizeof t.last[0]] = "the job";
    for (int fd = SL_WORKER_FD_ARENA; fd < SL_WORKER_FD_SHARED + SL_SHARED_COUNT; fd++)
        snprintf(wanted + strlen(wanted), sizeof wanted - strlen(wanted), " %d", fd);
    ck_assert_str_eq(t.last[0], wanted);
}

// --- stopping ---

TEST(stopping_an_idle_crew_tells_so)
{
    make_script("sluice-sampler", "exit 1");
    must(sl_worker_pool_init(&t.workers, &t.setup, 1));
    sl_worker_pool_place(&t.workers, 0, SL_ROLE_SAMPLER, 0, 0);
    sl_worker_pool_stop(&t.workers, 1000);
    run_to_the_end();
    ck_assert_int_eq(t.n_deaths, 0);
}

enum { GRACE_MS = 1000000 }; // longer than any machine is busy

static void attach_all(void)
{
    for (uint32_t i = 0; i < t.workers.n; i++)
        t.workers.list[i].attached = true;
}

static void begin_sleepers(uint32_t n)
{
    make_script("sluice-sampler", "exec sleep 100");
    begin(n);
}

TEST(who_is_not_attached_is_killed_at_once)
{
    begin_sleepers(3);
    sl_worker_pool_stop(&t.workers, GRACE_MS);
    run_to_the_end();
    ck_assert_int_eq(t.n_deaths, 3);
    for (int i = 0; i < 3; i++)
        ck_assert_msg(t.dismissed[i], "death %d", i);
}

TEST(without_patience_all_are_killed_at_once)
{
    begin_sleepers(3);
    attach_all();
    t.leaves = true;
    sl_worker_pool_stop(&t.workers, GRACE_MS);
    sl_worker_pool_stop(&t.workers, 0); // the second Ctrl-C
    run_to_the_end();
    ck_assert_int_eq(t.n_deaths, 3);
    ck_assert_int_eq(t.asked, 0); // nobody looks where they are
    ck_assert(t.dismissed[0] && t.dismissed[1] && t.dismissed[2]);
}

// After four looks at all three the time is nearly over, after eight it is.
static void let_time_run_out(void)
{
    if (t.asked <= 8 * 3)
        ck_assert_int_eq(t.n_deaths, 0);
    if (t.asked == 4 * 3)
        sl_clock_advance((GRACE_MS - 100000) * 1000000ull);
    if (t.asked == 8 * 3)
        sl_clock_advance(100000 * 1000000ull);
}

TEST(who_does_not_leave_in_time_is_killed)
{
    begin_sleepers(3);
    attach_all();
    t.on_look = let_time_run_out;
    sl_worker_pool_stop(&t.workers, GRACE_MS);
    run_to_the_end();
    ck_assert_int_eq(t.n_deaths, 3);
    ck_assert_int_ge(t.asked, 8 * 3);
    ck_assert_msg(strstr(t.cause[0], "SIGKILL") != NULL, "%s", t.cause[0]);
    ck_assert(t.dismissed[0] && t.dismissed[1] && t.dismissed[2]);
}

// The first worker is in its exit, as in a sanitizer's leak check, and there it stays or ends.
static int exit_looks;
static bool exits;

static void let_it_exit(void)
{
    if (t.asked == 3)
        sl_clock_advance(GRACE_MS * 1000000ull);
    if (t.n_deaths < 2 || ++exit_looks != 5)
        return;
    ck_assert_int_eq(t.n_deaths, 2);
    if (exits)
        ck_assert_int_eq(kill(t.workers.list[0].pid, SIGTERM), 0);
    else
        sl_clock_advance(SL_WORKER_EXIT_MS * 1000000ull);
}

LOOP_TEST(who_has_left_its_work_is_given_time_to_exit, 0, 2)
{
    begin_sleepers(3);
    attach_all();
    t.leaves = true;
    exits = _i;
    exit_looks = 0;
    t.on_look = let_it_exit;
    sl_worker_pool_stop(&t.workers, GRACE_MS);
    run_to_the_end();
    ck_assert_int_eq(t.n_deaths, 3);
    ck_assert_int_ge(exit_looks, 5);
    ck_assert(t.dismissed[0] && t.dismissed[1]);
    ck_assert(t.dismissed[2] == !_i);
    ck_assert_msg(strstr(t.cause[2], _i ? "SIGTERM" : "SIGKILL") != NULL, "%s", t.cause[2]);
}

LOOP_TEST(who_was_dead_before_was_not_killed_by_the_crew, 0, 2)
{
    siginfo_t info;
    begin_sleepers(2);
    if (_i) // killed when patience is over, or as not attached
        attach_all();
    // As anybody else might kill it; the pool has not read that it is dead.
    pid_t pid = t.workers.list[0].pid;
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    ck_assert_int_eq(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    sl_worker_pool_stop(&t.workers, _i ? 0 : GRACE_MS);
    run_to_the_end();
    ck_assert_int_eq(t.n_deaths, 2);
    ck_assert_msg(t.dismissed[0] != t.dismissed[1], "%d %d", t.dismissed[0], t.dismissed[1]);
}

TEST(nobody_is_replaced_while_stopping)
{
    begin_sleepers(1);
    attach_all();
    sl_worker_pool_stop(&t.workers, GRACE_MS);
    ck_assert_int_eq(kill(t.workers.list[0].pid, SIGTERM), 0);
    run_to_the_end();
    ck_assert_int_eq(t.n_deaths, 1);
    ck_assert_uint_eq(t.workers.next_worker, 2);
    ck_assert_msg(strstr(t.cause[0], "SIGTERM") != NULL, "%s", t.cause[0]);
    ck_assert(!t.dismissed[0]);
}

RUN_TESTS(.setup = setup, .begin = scratch_begin, .end = scratch_end, .timeout_s = 120)
