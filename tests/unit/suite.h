/*
 * suite.h - tests that list themselves: what stands in a file is what its program runs.
 *
 *     CASE(.setup = make, .teardown = drop)    for the tests below it, up to the next one
 *     TEST(name) { ... }
 *     LOOP_TEST(name, first, end) { ... }      a check for each _i in [first, end)
 *     SIGNAL_TEST(name, SIGABRT) { ... }       passes when that signal ends it
 *     RUN_TESTS(.timeout_s = 60)               main(); what it says holds for tests above any CASE
 */
#ifndef SL_TESTS_UNIT_SUITE_H
#define SL_TESTS_UNIT_SUITE_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>

#include "common/base/log.h"
#include "tests/unit/asserts.h"

struct unit_case {
    const char *name;
    void (*setup)(void), (*teardown)(void); // in the process of each test
    void (*begin)(void), (*end)(void);      // in that of all, once
    int timeout_s;                          // of a test; 0 = that of scripts/check
    bool (*needs)(void);                    // its tests are skipped where this says no ...
    const char *skipped;                    // ... and this is printed: what, and why
    bool quiet;                             // of RUN_TESTS: no log lines but errors
    int line;
    struct unit_case *next;
};

struct unit_test {
    const TTest *test;
    int first, end, signal, line;
    struct unit_test *next;
};

// In the order of their lines, whatever order the compiler gives the constructors.
static struct unit_case *unit_cases;
static struct unit_test *unit_tests;

static inline void unit_list_case(struct unit_case *unit)
{
    struct unit_case **place = &unit_cases;
    while (*place && (*place)->line < unit->line)
        place = &(*place)->next;
    unit->next = *place;
    *place = unit;
}

static inline void unit_list_test(struct unit_test *unit)
{
    struct unit_test **place = &unit_tests;
    while (*place && (*place)->line < unit->line)
        place = &(*place)->next;
    unit->next = *place;
    *place = unit;
}

#define UNIT_JOIN_(a, b) a##b
#define UNIT_JOIN(a, b)  UNIT_JOIN_(a, b)

#define CASE(...)                                                                                  \
    __attribute__((constructor)) static void UNIT_JOIN(list_case_, __LINE__)(void)                 \
    {                                                                                              \
        static struct unit_case it = {__VA_ARGS__, .line = __LINE__};                              \
        unit_list_case(&it);                                                                       \
    }

#define UNIT_TEST(name_, first_, end_, signal_)                                                    \
    static void name_##_fn(int);                                                                   \
    __attribute__((constructor)) static void name_##_list(void)                                    \
    {                                                                                              \
        static const TTest test = {#name_, name_##_fn, __FILE__, __LINE__};                        \
        static struct unit_test it = {.test = &test, .signal = signal_, .line = __LINE__};         \
        it.first = first_;                                                                         \
        it.end = end_;                                                                             \
        unit_list_test(&it);                                                                       \
    }                                                                                              \
    static void name_##_fn(int _i CK_ATTRIBUTE_UNUSED)

#define TEST(name)                  UNIT_TEST(name, 0, 1, 0)
#define LOOP_TEST(name, first, end) UNIT_TEST(name, first, end, 0)
#define SIGNAL_TEST(name, signal)   UNIT_TEST(name, 0, 1, signal)

#define RUN_TESTS(...)                                                                             \
    int main(void)                                                                                 \
    {                                                                                              \
        return run_tests((struct unit_case){.line = 0, __VA_ARGS__});                              \
    }

static inline bool unit_is_of(const struct unit_test *unit, const struct unit_case *of)
{
    return unit && (!of->next || unit->line < of->next->line);
}

// Of the tests from *next on; moves *next behind them.
static inline TCase *unit_make_case(const struct unit_case *of, const struct unit_test **next)
{
    TCase *made = tcase_create(of->name ? of->name : "all");
    if (of->setup || of->teardown)
        tcase_add_checked_fixture(made, of->setup, of->teardown);
    if (of->begin || of->end)
        tcase_add_unchecked_fixture(made, of->begin, of->end);
    if (of->timeout_s > 0)
        tcase_set_timeout(made, of->timeout_s);
    const bool is_there = !of->needs || of->needs();
    if (!is_there)
        printf("SKIP: %s\n", of->skipped);
    for (; unit_is_of(*next, of); *next = (*next)->next)
        if (is_there)
            _tcase_add_test(made, (*next)->test, (*next)->signal, 0, (*next)->first, (*next)->end);
    return made;
}

// Exit status of the program: 0 when all have passed.
static inline int run_tests(struct unit_case unit)
{
    Suite *made = suite_create(program_invocation_short_name);
    const struct unit_test *next = unit_tests;
    // Huge pages are a hint: of small graphs a page is used, and 2 MiB would be cleared each time.
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    if (unit.quiet)
        sl_log_set_level(SL_LOG_ERROR);
    unit_list_case(&unit);
    for (const struct unit_case *of = unit_cases; of; of = of->next)
        if (unit_is_of(next, of))
            suite_add_tcase(made, unit_make_case(of, &next));
    SRunner *runner = srunner_create(made);
    srunner_run_all(runner, CK_ENV);
    const int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed > 0;
}

#endif
