// Integer helpers at their borders, element sizes, the clock.
#include "common/base/bits.h"

#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/dtype.h"
#include "tests/unit/suite.h"

TEST(align_up_keeps_multiples)
{
    ck_assert_uint_eq(sl_align_up(0, 64), 0);
    ck_assert_uint_eq(sl_align_up(1, 64), 64);
    ck_assert_uint_eq(sl_align_up(64, 64), 64);
    ck_assert_uint_eq(sl_align_up(65, 64), 128);
    ck_assert_uint_eq(sl_align_up(((uint64_t)1 << 40) + 1, 4096), ((uint64_t)1 << 40) + 4096);
}

TEST(div_up_does_not_overflow)
{
    ck_assert_uint_eq(sl_div_up(0, 7), 0);
    ck_assert_uint_eq(sl_div_up(7, 7), 1);
    ck_assert_uint_eq(sl_div_up(8, 7), 2);
    ck_assert_uint_eq(sl_div_up(UINT64_MAX, 2), (uint64_t)1 << 63);
}

TEST(pow2_at_least_is_the_smallest)
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

TEST(element_sizes)
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

TEST(time_does_not_run_backwards)
{
    uint64_t last = sl_now_ns();
    for (int i = 0; i < 100000; i++) {
        uint64_t now = sl_now_ns();
        ck_assert_uint_ge(now, last);
        last = now;
    }
}

RUN_TESTS(.timeout_s = 20)
