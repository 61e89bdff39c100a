// Integer helpers at their borders, element sizes, the clock.
#include "common/base/bits.h"

#include <check.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/dtype.h"

START_TEST(align_up_keeps_multiples)
{
    ck_assert_uint_eq(sl_align_up(0, 64), 0);
    ck_assert_uint_eq(sl_align_up(1, 64), 64);
    ck_assert_uint_eq(sl_align_up(64, 64), 64);
    ck_assert_uint_eq(sl_align_up(65, 64), 128);
    ck_assert_uint_eq(sl_align_up(((uint64_t)1 << 40) + 1, 4096), ((uint64_t)1 << 40) + 4096);
}
END_TEST

START_TEST(div_up_does_not_overflow)
{
    ck_assert_uint_eq(sl_div_up(0, 7), 0);
    ck_assert_uint_eq(sl_div_up(7, 7), 1);
    ck_assert_uint_eq(sl_div_up(8, 7), 2);
    ck_assert_uint_eq(sl_div_up(UINT64_MAX, 2), (uint64_t)1 << 63);
}
END_TEST

START_TEST(pow2_at_least_is_the_smallest)
{
    ck_assert_uint_eq(sl_pow2_at_least(0), 1);
    ck_assert_uint_eq(sl_pow2_at_least(1), 1);
    ck_assert_uint_eq(sl_pow2_at_least(2), 2);
    ck_assert_uint_eq(sl_pow2_at_least(3), 4);
    for (int i = 2; i < 63; i++) {
        uint64_t p = (uint64_t)1 << i;
        ck_assert_uint_eq(sl_pow2_at_least(p - 1), p);
        ck_assert_uint_eq(sl_pow2_at_least(p), p);
        ck_assert_uint_eq(sl_pow2_at_least(p + 1), p << 1);
    }
}
END_TEST

START_TEST(element_sizes)
{
    ck_assert_uint_eq(sl_dtype_bytes(SL_DTYPE_NONE), 0);
    ck_assert_uint_eq(sl_dtype_bytes(SL_DTYPE_F16), 2);
    ck_assert_uint_eq(sl_dtype_bytes(SL_DTYPE_BF16), 2);
    ck_assert_uint_eq(sl_dtype_bytes(SL_DTYPE_F32), sizeof(float));
    ck_assert_uint_eq(sl_dtype_bytes(SL_DTYPE_F64), sizeof(double));
    ck_assert_uint_eq(sl_dtype_bytes(SL_DTYPE_U8), 1);
    ck_assert_uint_eq(sl_dtype_bytes(SL_DTYPE_U64), 8);
    ck_assert_uint_eq(sl_dtype_bytes((enum sl_dtype)99), 0);
}
END_TEST

START_TEST(time_does_not_run_backwards)
{
    uint64_t last = sl_now_ns();
    for (int i = 0; i < 100000; i++) {
        uint64_t now = sl_now_ns();
        ck_assert_uint_ge(now, last);
        last = now;
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("base bits");
    TCase *t = tcase_create("bits");
    tcase_set_timeout(t, 20);
    tcase_add_test(t, align_up_keeps_multiples);
    tcase_add_test(t, div_up_does_not_overflow);
    tcase_add_test(t, pow2_at_least_is_the_smallest);
    tcase_add_test(t, element_sizes);
    tcase_add_test(t, time_does_not_run_backwards);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
