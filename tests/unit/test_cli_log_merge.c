// The log files of a run as one, in the order of time.
#include <fcntl.h>
#include <time.h>

#include "cli/log_merge.h"
#include "common/base/log.h"
#include "tests/unit/cli_fixture.h"
#include "tests/unit/suite.h"

static struct sl_log_merge merge;

// Writes (or appends to) log/NAME and sets its time: seconds since 1970.
static void write_log(const char *name, const char *text, time_t when)
{
    char path[1200];
    mkdir(in_dir("log"), 0700);
    snprintf(path, sizeof path, "%s/log/%s", dir, name);
    FILE *f = fopen(path, "a");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
    struct timespec times[2] = {{.tv_sec = when}, {.tv_sec = when}};
    ck_assert_int_eq(utimensat(AT_FDCWD, path, times, 0), 0);
}

// All texts of the last look, a line each.
static const char *texts(void)
{
    static char all[4096];
    all[0] = '\0';
    for (size_t i = 0; i < merge.n_lines; i++)
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s\n", merge.lines[i].text);
    return all;
}

// 2024-11-21 at a time of day, by the wall clock.
static time_t at(int day, int hour, int minute, int second)
{
    struct tm tm = {.tm_year = 124,
                    .tm_mon = 10,
                    .tm_mday = day,
                    .tm_hour = hour,
                    .tm_min = minute,
                    .tm_sec = second,
                    .tm_isdst = -1};
    return mktime(&tm);
}

static void begin(void)
{
    dir_begin();
    setenv("TZ", "Europe/Berlin", 1);
    tzset();
}

static void end(void)
{
    sl_log_merge_fini(&merge);
}

// Looks for the first time, at all logs or at one worker's; the code.
static int look(const char *worker)
{
    sl_log_merge_init(&merge, dir, NULL, worker);
    return sl_log_merge_poll(&merge);
}

TEST(lines_of_several_files_are_in_the_order_of_time)
{
    write_log("broker.log", "12:00:00.000 I broker: a\n12:00:02.500 W broker: d\n",
              at(21, 12, 0, 2));
    write_log("sampler-0.log", "12:00:01.000 I sampler 0: b\n12:00:02.499 E sampler 0: c\n",
              at(21, 12, 0, 3));
    ck_assert_int_eq(look(NULL), SL_OK);
    ck_assert_str_eq(texts(), "12:00:00.000 I broker: a\n12:00:01.000 I sampler 0: b\n"
                              "12:00:02.499 E sampler 0: c\n12:00:02.500 W broker: d\n");
    ck_assert_int_eq(merge.lines[2].level, SL_LOG_ERROR);
    ck_assert_str_eq(merge.lines[2].worker, "sampler-0");
    ck_assert_int_eq(merge.lines[0].time_ms, (int64_t)at(21, 12, 0, 0) * 1000);
}

TEST(midnights_are_counted_back_from_the_files_time)
{
    write_log("broker.log",
              "23:59:59.000 I broker: a\n00:00:01.000 I broker: c\n23:00:00.000 I broker: d\n"
              "01:00:00.000 I broker: f\n",
              at(23, 1, 0, 0));
    write_log("trainer-0.log", "00:00:00.500 I trainer 0: b\n23:30:00.000 I trainer 0: e\n",
              at(22, 23, 30, 0));
    ck_assert_int_eq(look(NULL), SL_OK);
    ck_assert_uint_eq(merge.n_lines, 6);
    for (size_t i = 0; i < 6; i++)
        ck_assert_int_eq(merge.lines[i].text[strlen(merge.lines[i].text) - 1], 'a' + (int)i);
    ck_assert_int_eq(merge.lines[0].time_ms, (int64_t)at(21, 23, 59, 59) * 1000);
}

TEST(a_last_line_from_just_before_midnight_is_of_the_day_before)
{
    write_log("broker.log", "23:59:59.900 I broker: a\n", at(22, 0, 0, 0));
    ck_assert_int_eq(look(NULL), SL_OK);
    ck_assert_int_eq(merge.lines[0].time_ms, (int64_t)at(21, 23, 59, 59) * 1000 + 900);
}

TEST(lines_without_a_time_stay_behind_theirs)
{
    write_log("trainer-0.log",
              "12:00:00.000 I trainer 0: a\n==1==ERROR: AddressSanitizer\n    #0 frame\n"
              "12:00:02.000 I trainer 0: c\n",
              at(21, 12, 0, 2));
    write_log("broker.log", "12:00:01.000 I broker: b\n", at(21, 12, 0, 1));
    ck_assert_int_eq(look(NULL), SL_OK);
    ck_assert_str_eq(texts(), "12:00:00.000 I trainer 0: a\n==1==ERROR: AddressSanitizer\n"
                              "    #0 frame\n12:00:01.000 I broker: b\n"
                              "12:00:02.000 I trainer 0: c\n");
    ck_assert_int_eq(merge.lines[1].level, -1);
}

TEST(what_is_added_is_found_with_new_files_and_whole_lines_only)
{
    write_log("broker.log", "12:00:00.000 I broker: a\n12:00:01.000 I bro", at(21, 12, 0, 1));
    ck_assert_int_eq(look(NULL), SL_OK);
    ck_assert_str_eq(texts(), "12:00:00.000 I broker: a\n");
    ck_assert_int_eq(sl_log_merge_poll(&merge), SL_OK);
    ck_assert_uint_eq(merge.n_lines, 0);
    write_log("broker.log", "ker: b\n", at(21, 12, 0, 3));
    write_log("sampler-0.log", "12:00:02.000 I sampler 0: c\n", at(21, 12, 0, 2));
    ck_assert_int_eq(sl_log_merge_poll(&merge), SL_OK);
    ck_assert_str_eq(texts(), "12:00:01.000 I broker: b\n12:00:02.000 I sampler 0: c\n");
}

TEST(one_worker_alone_by_either_spelling)
{
    write_log("sampler-0.log", "12:00:00.000 I sampler 0: a\n", at(21, 12, 0, 0));
    write_log("broker.log", "12:00:00.000 I broker: b\n", at(21, 12, 0, 0));
    ck_assert_int_eq(look("sampler 0"), SL_OK);
    ck_assert_str_eq(texts(), "12:00:00.000 I sampler 0: a\n");
    sl_log_merge_fini(&merge);
    ck_assert_int_eq(look("trainer-7"), SL_ENOENT);
    assert_has(sl_error_message(), "no log of 'trainer-7': there is one of 'broker', 'sampler-0'");
}

TEST(a_run_without_a_directory_has_what_the_daemon_kept)
{
    write_log("x.log", "12:00:00.000 E broker: it cannot run\n", at(21, 12, 0, 0));
    ck_assert_int_eq(rename(in_dir("log"), in_dir("kept")), 0);
    sl_log_merge_init(&merge, dir, in_dir("kept/x.log"), NULL);
    ck_assert_int_eq(sl_log_merge_poll(&merge), SL_OK);
    ck_assert_str_eq(texts(), "12:00:00.000 E broker: it cannot run\n");
    ck_assert_str_eq(merge.lines[0].worker, "broker");
    sl_log_merge_fini(&merge);
    sl_log_merge_init(&merge, in_dir("nothing"), NULL, NULL);
    ck_assert_int_eq(sl_log_merge_poll(&merge), SL_ENOENT);
    ck_assert_uint_eq(merge.n_files, 0);
}

RUN_TESTS(.setup = begin, .teardown = end, .begin = scratch_begin, .end = scratch_end,
          .timeout_s = 60)
