// Ctrl-C in the middle of something long.
#include "common/base/interrupt.h"

#include <check.h>
#include <signal.h>
#include <stdlib.h>

#include "common/base/error.h"

START_TEST(the_first_interrupt_is_noticed)
{
    ck_assert(!sl_interrupt_seen());
    sl_interrupt_catch();
    raise(SIGINT);
    ck_assert(sl_interrupt_seen());
    ck_assert_int_eq(sl_interrupt_check(), SL_EABORTED);
}
END_TEST

START_TEST(the_second_interrupt_kills)
{
    sl_interrupt_catch();
    raise(SIGINT);
    raise(SIGINT);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("base_interrupt");
    TCase *t = tcase_create("interrupt");
    tcase_add_test(t, the_first_interrupt_is_noticed);
    tcase_add_test_raise_signal(t, the_second_interrupt_kills, SIGINT);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
