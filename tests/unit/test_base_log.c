// Log lines: levels, names, one write a line.
#include "common/base/log.h"

#include <check.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
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

START_TEST(lines_carry_level_and_name)
{
    unsetenv("SLUICE_LOG");
    sl_log_init("sampler 3");
    const char *text = captured(all_levels);
    ck_assert_ptr_nonnull(strstr(text, " E sampler 3: one 1\n"));
    ck_assert_ptr_nonnull(strstr(text, " W sampler 3: two\n"));
    ck_assert_ptr_nonnull(strstr(text, " I sampler 3: three\n"));
    ck_assert_ptr_null(strstr(text, "four")); // info is the default
}
END_TEST

START_TEST(environment_sets_the_level)
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
END_TEST

START_TEST(level_can_be_set)
{
    sl_log_set_level(SL_LOG_WARN);
    ck_assert_int_eq(sl_log_get_level(), SL_LOG_WARN);
    ck_assert_ptr_null(strstr(captured(all_levels), "three"));
}
END_TEST

static void long_line(void)
{
    char text[10000];
    memset(text, 'a', sizeof text);
    text[sizeof text - 1] = '\0';
    sl_log_error("%s", text);
    sl_log_error("after");
}

START_TEST(a_long_line_is_cut_and_still_one_line)
{
    const char *text = captured(long_line);
    const char *end = strchr(text, '\n');
    ck_assert_ptr_nonnull(end);
    ck_assert_int_gt(end - text, 1000);
    ck_assert_ptr_nonnull(strstr(end, "after\n"));
    ck_assert_ptr_eq(strchr(end + 1, '\n') + 1, text + strlen(text));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("base log");
    TCase *t = tcase_create("log");
    tcase_set_timeout(t, 20);
    tcase_add_test(t, lines_carry_level_and_name);
    tcase_add_test(t, environment_sets_the_level);
    tcase_add_test(t, level_can_be_set);
    tcase_add_test(t, a_long_line_is_cut_and_still_one_line);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
