// SLUICE_FAILPOINT: what it accepts, and that the named point kills at the named count.
#include "common/base/failpoint.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/error.h"
#include "tests/unit/suite.h"

// Tests run in processes of their own, so the environment and the counts are fresh.
static int init_with(const char *value)
{
    if (value)
        setenv("SLUICE_FAILPOINT", value, 1);
    else
        unsetenv("SLUICE_FAILPOINT");
    return sl_failpoint_init();
}

static void reach_times(enum sl_failpoint point, int n)
{
    for (int i = 0; i < n; i++)
        sl_failpoint_reach(point);
}

TEST(nothing_is_armed_without_the_variable)
{
    ck_assert_int_eq(init_with(NULL), SL_OK);
    ck_assert_int_eq(sl_failpoint_armed, 0);
    ck_assert_int_eq(init_with(""), SL_OK);
    ck_assert_int_eq(sl_failpoint_armed, 0);
    SL_FAILPOINT(SAMPLER_DRAWN);
}

TEST(unknown_name_is_an_error_that_says_where_the_names_are)
{
    ck_assert_int_eq(init_with("sampler_drwan"), SL_EINVAL);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "'sampler_drwan'"));
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "doctor --failpoints"));
    ck_assert_int_eq(sl_failpoint_armed, 0);
    ck_assert_int_eq(init_with("sampler_drawn,nonsense"), SL_EINVAL);
    ck_assert_int_eq(sl_failpoint_armed, 0);
}

TEST(bad_counts_are_errors)
{
    static const char *const bad[] = {"sampler_drawn:",
                                      "sampler_drawn:0",
                                      "sampler_drawn:x",
                                      "sampler_drawn:3x",
                                      "sampler_drawn:-1",
                                      "sampler_drawn:99999999999",
                                      "sampler_drawn:1:2",
                                      ":3",
                                      "sampler_drawn:stop:1",
                                      "sampler_drawn::stop",
                                      "sampler_drawn:0:stop",
                                      "sampler_drawn:stop:stop",
                                      "sampler_drawn:1:kill",
                                      ":stop",
                                      "stop"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ck_assert_msg(init_with(bad[i]) == SL_EINVAL, "'%s' was accepted", bad[i]);
        ck_assert_int_eq(sl_failpoint_armed, 0);
    }
}

TEST(too_many_entries_are_an_error)
{
    char list[4096] = "";
    for (int i = 0; i < 100; i++)
        strcat(list, i ? ",sampler_drawn" : "sampler_drawn");
    ck_assert_int_eq(init_with(list), SL_EINVAL);
}

TEST(every_name_is_accepted_once_and_described)
{
    for (int i = 0; i < SL_FAILPOINT_COUNT; i++) {
        const char *name = sl_failpoint_name((enum sl_failpoint)i);
        ck_assert_int_eq(init_with(name), SL_OK);
        ck_assert_int_eq(sl_failpoint_armed, 1);
        ck_assert_str_ne(sl_failpoint_where((enum sl_failpoint)i), "");
        for (int j = 0; j < i; j++)
            ck_assert_str_ne(name, sl_failpoint_name((enum sl_failpoint)j));
    }
}

SIGNAL_TEST(first_reach_kills, SIGKILL)
{
    ck_assert_int_eq(init_with("trainer_apply"), SL_OK);
    SL_FAILPOINT(TRAINER_APPLY);
}

TEST(other_points_and_earlier_reaches_pass)
{
    ck_assert_int_eq(init_with("trainer_apply:3,sampler_drawn:5"), SL_OK);
    reach_times(SL_FAILPOINT_TRAINER_CLAIMED, 10);
    reach_times(SL_FAILPOINT_TRAINER_APPLY, 2);
    reach_times(SL_FAILPOINT_SAMPLER_DRAWN, 4);
}

SIGNAL_TEST(counted_reach_kills, SIGKILL)
{
    ck_assert_int_eq(init_with("trainer_apply:3,sampler_drawn:5"), SL_OK);
    reach_times(SL_FAILPOINT_TRAINER_APPLY, 2);
    reach_times(SL_FAILPOINT_SAMPLER_DRAWN, 5);
}

SIGNAL_TEST(one_point_may_stand_twice, SIGKILL)
{
    ck_assert_int_eq(init_with("trainer_apply:7,trainer_apply:2"), SL_OK);
    reach_times(SL_FAILPOINT_TRAINER_APPLY, 2);
}

// Stands still at its own hand, and goes on from there when it is let go.
static void stop_reaches(const char *entry, enum sl_failpoint point, int at, int in_all)
{
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        if (init_with(entry) < 0)
            _exit(1);
        reach_times(point, at);
        reach_times(point, in_all - at);
        _exit(7);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, WUNTRACED), child);
    ck_assert_msg(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP, "status %x", (unsigned)status);
    ck_assert_int_eq(kill(child, SIGCONT), 0);
    ck_assert_int_eq(waitpid(child, &status, WUNTRACED), child);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 7, "status %x", (unsigned)status);
}

TEST(a_stop_stands_still_and_goes_on)
{
    stop_reaches("trainer_apply:stop", SL_FAILPOINT_TRAINER_APPLY, 1, 3);
    stop_reaches("sampler_drawn:9,trainer_apply:2:stop", SL_FAILPOINT_TRAINER_APPLY, 2, 4);
}

// A replacement worker finds the count of the one before and passes the entry that killed it.
TEST(shared_counts_survive_the_process)
{
    static _Atomic uint32_t shared[SL_FAILPOINT_COUNT];
    shared[SL_FAILPOINT_SAMPLER_START] = 1;
    ck_assert_int_eq(init_with("sampler_start"), SL_OK);
    sl_failpoint_bind(shared);
    reach_times(SL_FAILPOINT_SAMPLER_START, 3);
    ck_assert_uint_eq(shared[SL_FAILPOINT_SAMPLER_START], 4);
}

SIGNAL_TEST(shared_counts_reach_the_entry, SIGKILL)
{
    static _Atomic uint32_t shared[SL_FAILPOINT_COUNT];
    shared[SL_FAILPOINT_SAMPLER_START] = 4;
    ck_assert_int_eq(init_with("sampler_start:5"), SL_OK);
    sl_failpoint_bind(shared);
    reach_times(SL_FAILPOINT_SAMPLER_START, 1);
}

RUN_TESTS(.timeout_s = 20)
