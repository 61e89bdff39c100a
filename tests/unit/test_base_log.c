// Log lines: levels, names, one write a line.
#include "common/base/log.h"
#include "tests/unit/suite.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// What a function writes to standard error. The test's process is its own, so fd 2 may change.
static const char *captured(void (*body)(void))
{
    static char text[65536];
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    int kept = dup(STDERR_FILENO);
    dup2(ends[1], STDERR_FILENO);
    body();
    dup2(kept, STDERR_FILENO);
    close(kept);
    close(ends[1]);
    ssize_t n = read(ends[0], text, sizeof text - 1);
    close(ends[0]);
    text[n > 0 ? n : 0] = '\0';
    return text;
}

static void all_levels(void)
{
    sl_log_error("one %d", 1);
    sl_log_warn("two");
    sl_log_info("three");
    sl_log_debug("four");
}

TEST(lines_carry_level_and_name)
{
    unsetenv("SLUICE_LOG");
    sl_log_init("sampler 3");
    const char *text = captured(all_levels);
    ck_assert_ptr_nonnull(strstr(text, " E sampler 3: one 1\n"));
    ck_assert_ptr_nonnull(strstr(text, " W sampler 3: two\n"));
    ck_assert_ptr_nonnull(strstr(text, " I sampler 3: three\n"));
    ck_assert_ptr_null(strstr(text, "four")); // info is the default
}

TEST(environment_sets_the_level)
{
    setenv("SLUICE_LOG", "error", 1);
    sl_log_init("x");
    const char *text = captured(all_levels);
    ck_assert_ptr_nonnull(strstr(text, "one 1"));
    ck_assert_ptr_null(strstr(text, "two"));
    setenv("SLUICE_LOG", "debug", 1);
    sl_log_init("x");
    ck_assert_int_eq(sl_log_get_level(), SL_LOG_DEBUG);
    ck_assert_ptr_nonnull(strstr(captured(all_levels), " D x: four\n"));
}

TEST(level_can_be_set)
{
    sl_log_set_level(SL_LOG_WARN);
    ck_assert_int_eq(sl_log_get_level(), SL_LOG_WARN);
    ck_assert_ptr_null(strstr(captured(all_levels), "three"));
}

static int heard_level;
static char heard[64];

static void hear(int level, const char *text)
{
    heard_level = level;
    snprintf(heard, sizeof heard, "%s", text);
}

// A plug-in has its lines written by the program that it is in, which has the threshold.
TEST(a_sink_gets_every_line_and_nobody_else)
{
    sl_log_set_level(SL_LOG_ERROR);
    sl_log_set_sink(hear);
    ck_assert_str_eq(captured(all_levels), "");
    ck_assert_int_eq(heard_level, SL_LOG_DEBUG);
    ck_assert_str_eq(heard, "four");
    sl_log_set_sink(NULL);
    ck_assert_ptr_nonnull(strstr(captured(all_levels), "one 1"));
}

static void long_line(void)
{
    char text[10000];
    memset(text, 'a', sizeof text);
    text[sizeof text - 1] = '\0';
    sl_log_error("%s", text);
    sl_log_error("after");
}

TEST(a_long_line_is_cut_and_still_one_line)
{
    const char *text = captured(long_line);
    const char *end = strchr(text, '\n');
    ck_assert_ptr_nonnull(end);
    ck_assert_int_gt(end - text, 1000);
    ck_assert_ptr_nonnull(strstr(end, "after\n"));
    ck_assert_ptr_eq(strchr(end + 1, '\n') + 1, text + strlen(text));
}

TEST(levels_have_names)
{
    enum sl_log_level level = SL_LOG_DEBUG;
    ck_assert(sl_log_find_level("warn", &level));
    ck_assert_int_eq(level, SL_LOG_WARN);
    ck_assert(!sl_log_find_level("warning", &level));
    ck_assert(!sl_log_find_level("", &level));
    ck_assert_int_eq(level, SL_LOG_WARN);
}

// systemd names the stream that it reads by device and inode.
static void journal_lines(void)
{
    struct stat st;
    char name[64];
    ck_assert_int_eq(fstat(STDERR_FILENO, &st), 0);
    snprintf(name, sizeof name, "%llu:%llu", (unsigned long long)st.st_dev,
             (unsigned long long)st.st_ino);
    setenv("JOURNAL_STREAM", name, 1);
    setenv("SLUICE_LOG", "debug", 1);
    sl_log_init("daemon");
    all_levels();
}

TEST(the_journal_gets_priorities_and_no_time)
{
    ck_assert_str_eq(captured(journal_lines),
                     "<3>daemon: one 1\n<4>daemon: two\n<6>daemon: three\n<7>daemon: four\n");
}

TEST(standard_error_that_went_elsewhere_is_no_journal)
{
    static const char *const streams[] = {"1:1", "", "8", "x:y"};
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++) {
        setenv("JOURNAL_STREAM", streams[i], 1);
        sl_log_init("daemon");
        ck_assert_ptr_nonnull(strstr(captured(all_levels), " E daemon: one 1\n"));
    }
}

RUN_TESTS(.timeout_s = 20)
