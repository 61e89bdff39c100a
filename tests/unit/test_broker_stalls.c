// Workers that live and do not move, or never get ready: who is killed, and after how long. The
// clock is the test's.
#include "tests/unit/suite.h"
#include "tests/unit/test_data_fixture.h"

#include <fcntl.h>
#include <sys/wait.h>

#include "broker/log/client.h"
#include "broker/log/joblog.h"
#include "broker/log/run_files.h"
#include "broker/workers/stalls.h"
#include "broker/workers/worker_pool.h"
#include "broker/log/timeline.h"
#include "common/base/clock.h"
#include "common/arena/arena.h"
#include "common/arena/seat.h"
#include "common/arena/stats.h"
#include "common/bus/worker.h"
#include "config/config.h"

#define SECOND_NS 1000000000ull

enum { LEAST_SECONDS = 12, WITHIN_LOOKS = 100000 };

// A job of one device: its sampler is told to stand still, its trainer is well.
static struct sl_config config;
static struct sl_arena arena;
static struct sl_worker_pool workers;
static struct sl_clients clients;
static struct sl_joblog joblog;
static struct sl_run_files no_files;
static struct sl_timeline timeline;
static struct sl_stalls stalls;
static uv_loop_t loop;
static struct sl_pool_worker *sampler, *trainer;
static int no_fd;

static struct sl_timeline_place where(void *ctx)
{
    return (struct sl_timeline_place){0, 1, 1};
}

static void on_told(void *ctx, const char *kind, const char *text) {}

static bool on_death(void *ctx, struct sl_pool_worker *w, const struct sl_exit_status *death)
{
    return false;
}

static void on_event(void *ctx, struct sl_pool_worker *w) {}
static void on_give_up(void *ctx, struct sl_pool_worker *w, const char *why) {}
static void on_line(void *ctx, struct sl_pool_worker *w, int level, const char *text) {}
static void on_gone(void *ctx) {}

static bool has_left(void *ctx, const struct sl_pool_worker *w)
{
    return false;
}

static void write_program(const char *name)
{
    write_text(name, "#!/bin/sh\nexec sleep 60\n");
    ck_assert_int_eq(chmod(in_dir(name), 0755), 0);
}

static void begin_work(struct sl_pool_worker *w)
{
    w->ready = true;
    sl_stats_begin(sl_stats_slot(&arena, w->slot), w->worker);
}

static void beat(const struct sl_pool_worker *w)
{
    sl_stats_beat(sl_stats_slot(&arena, w->slot), SL_THREAD_WORK);
}

static void start_crew(void)
{
    struct sl_worker_pool_setup setup = {.loop = &loop,
                                         .endpoint = "ipc://@nobody",
                                         .arena_fd = no_fd,
                                         .config_fd = no_fd,
                                         .doorbell_fd = no_fd,
                                         .acts_fd = no_fd,
                                         .events = {.on_death = on_death,
                                                    .on_left = on_event,
                                                    .on_give_up = on_give_up,
                                                    .on_line = on_line,
                                                    .has_left = has_left,
                                                    .on_gone = on_gone}};
    for (int i = 0; i < SL_SHARED_COUNT; i++)
        setup.shared_fd[i] = no_fd;
    snprintf(setup.directory, sizeof setup.directory, "%s", dir);
    write_program("sluice-sampler");
    write_program("sluice-trainer");
    must(sl_worker_pool_init(&workers, &setup, 2));
    sl_worker_pool_place(&workers, 0, SL_ROLE_SAMPLER, 0, 0);
    sl_worker_pool_place(&workers, 1, SL_ROLE_TRAINER, 0, 0);
    sampler = &workers.list[0];
    trainer = &workers.list[1];
    must(sl_pool_worker_want(sampler));
    must(sl_pool_worker_want(trainer));
}

static void setup(void)
{
    const struct sl_arena_spec spec = {.n_devices = 1,
                                       .n_cells = 4,
                                       .n_params = 1,
                                       .batches_per_update = 1,
                                       .payload_bytes = SL_ARENA_CHUNK_BYTES};
    dir_begin();
    no_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    config.stall_seconds = 30;
    must(sl_arena_create(sl_arena_memfd(), &spec, &arena));
    sl_clients_init(&clients, NULL);
    sl_joblog_init(&joblog, &clients);
    timeline.setup = (struct sl_timeline_setup){.job = "test",
                                                .clients = &clients,
                                                .files = &no_files,
                                                .where = where,
                                                .on_event = on_told};
    must(sl_timeline_init(&timeline));
    stalls = (struct sl_stalls){.config = &config,
                                .arena = &arena,
                                .workers = &workers,
                                .log = &joblog,
                                .timeline = &timeline};
    uv_loop_init(&loop);
    start_crew();
    begin_work(sampler);
    begin_work(trainer);
    must(sl_stalls_init(&stalls));
    beat(sampler);
    sl_stalls_poll(&stalls); // which sees both move
}

// The test's process ends with the test: what is not its own is a worker.
static void teardown(void)
{
    sl_worker_pool_stop(&workers, 0); // kills who is not attached, which is both
}

static void look_after(uint64_t ns)
{
    beat(trainer);
    sl_clock_advance(ns);
    sl_stalls_poll(&stalls);
}

// After how many looks, a second each, the sampler is killed for standing still.
static int looks_until_killed(void)
{
    int looks = 0;
    while (!sl_stalls_verdict(&stalls, sampler) && looks < WITHIN_LOOKS) {
        look_after(SECOND_NS);
        looks++;
    }
    ck_assert_ptr_null(sl_stalls_verdict(&stalls, trainer));
    return looks;
}

static void assert_killed(const struct sl_pool_worker *w)
{
    siginfo_t info;
    ck_assert_int_eq(waitid(P_PID, (id_t)w->pid, &info, WEXITED | WNOWAIT), 0);
    ck_assert_int_eq(info.si_status, SIGKILL);
}

TEST(who_does_not_move_is_killed)
{
    ck_assert_int_eq(looks_until_killed(), 31); // more than stall_seconds
    ck_assert_str_eq(sl_stalls_verdict(&stalls, sampler), "hung and was killed");
    assert_killed(sampler);
}

TEST(one_thread_that_stands_still_is_enough)
{
    struct sl_worker_slot *slot = sl_stats_slot(&arena, sampler->slot);
    for (int i = 0; i < 100; i++) { // it has not begun to extract: that is no standing still
        beat(sampler);
        look_after(SECOND_NS);
    }
    ck_assert_ptr_null(sl_stalls_verdict(&stalls, sampler));
    sl_stats_beat(slot, SL_THREAD_EXTRACT);
    for (int i = 0; i < 31; i++) {
        beat(sampler);
        look_after(SECOND_NS);
    }
    ck_assert_ptr_null(sl_stalls_verdict(&stalls, sampler)); // the first look saw it move
    beat(sampler);
    look_after(SECOND_NS);
    ck_assert_ptr_nonnull(sl_stalls_verdict(&stalls, sampler));
}

TEST(who_sleeps_as_long_as_trainers_do_has_not_hung)
{
    config.stall_seconds = 1;
    for (int i = 0; i < 200; i++) {
        if (i % (SL_STANDBY_WAIT_MS / 1000) == 0)
            beat(sampler);
        look_after(SECOND_NS);
        ck_assert_ptr_null(sl_stalls_verdict(&stalls, sampler));
    }
    beat(sampler);
    ck_assert_int_eq(looks_until_killed(), LEAST_SECONDS + 2); // the first look sees it move
}

TEST(a_test_may_lower_the_least)
{
    sl_stalls_fini(&stalls);
    setenv("SLUICE_STALL_LEAST", "0", 1);
    must(sl_stalls_init(&stalls));
    unsetenv("SLUICE_STALL_LEAST");
    config.stall_seconds = 1;
    sl_stalls_poll(&stalls);
    ck_assert_int_le(looks_until_killed(), 2);
}

TEST(a_machine_that_slept_is_one_look)
{
    for (int i = 0; i < 30; i++)
        look_after(3600 * SECOND_NS);
    ck_assert_ptr_null(sl_stalls_verdict(&stalls, sampler));
    look_after(3600 * SECOND_NS);
    ck_assert_ptr_nonnull(sl_stalls_verdict(&stalls, sampler));
}

TEST(zero_seconds_wait_for_ever)
{
    config.stall_seconds = 0;
    ck_assert_int_eq(looks_until_killed(), WITHIN_LOOKS);
}

// Whatever stall_seconds says, which is of workers that have begun.
LOOP_TEST(who_never_gets_ready_is_killed, 0, 2)
{
    sampler->ready = false;
    config.stall_seconds = _i ? 1 : 0;
    ck_assert_int_eq(looks_until_killed(), SL_WORKER_START_SECONDS + 1);
    ck_assert_str_eq(sl_stalls_verdict(&stalls, sampler), "was not ready in time and was killed");
    assert_killed(sampler);
}

TEST(the_next_one_in_its_place_begins_anew)
{
    sampler->ready = false;
    looks_until_killed();
    sampler->worker++; // as if it had been replaced
    ck_assert_ptr_null(sl_stalls_verdict(&stalls, sampler));
    ck_assert_int_eq(looks_until_killed(), SL_WORKER_START_SECONDS + 1);
    sampler->worker++;
    for (int i = 0; i < SL_WORKER_START_SECONDS; i++)
        look_after(SECOND_NS);
    sampler->ready = true;                      // at the last moment
    ck_assert_int_eq(looks_until_killed(), 32); // the first one sees what it moved before
    ck_assert_str_eq(sl_stalls_verdict(&stalls, sampler), "hung and was killed");
}

RUN_TESTS(.setup = setup, .teardown = teardown, .begin = scratch_begin, .end = scratch_end,
          .timeout_s = 60)
