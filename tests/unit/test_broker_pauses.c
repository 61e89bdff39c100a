// When a job was paused: spans, and what of another span they take.
#include <stdlib.h>

#include "broker/epochs/pauses.h"
#include "common/base/clock.h"
#include "tests/unit/suite.h"

static struct sl_pauses p;

static uint64_t within(uint64_t from, uint64_t to)
{
    return sl_pauses_within_ns(&p, (struct sl_span){from, to});
}

TEST(without_pauses_nothing_is_taken)
{
    ck_assert_uint_eq(within(0, 100), 0);
    ck_assert_uint_eq(sl_pauses_within_ns(NULL, (struct sl_span){0, 100}), 0);
    ck_assert_double_eq(sl_pauses_seconds_without(NULL, (struct sl_span){0, 1000000000}), 1);
}

TEST(only_what_overlaps_is_taken)
{
    sl_pauses_begin(&p, 100);
    sl_pauses_end(&p, 200);
    ck_assert_uint_eq(within(0, 100), 0);
    ck_assert_uint_eq(within(200, 300), 0);
    ck_assert_uint_eq(within(0, 300), 100);
    ck_assert_uint_eq(within(150, 300), 50);
    ck_assert_uint_eq(within(0, 150), 50);
    ck_assert_uint_eq(within(120, 130), 10);
    ck_assert_uint_eq(p.total_ns, 100);
}

TEST(a_pause_that_goes_on_lasts_until_the_spans_end)
{
    sl_pauses_begin(&p, 100);
    ck_assert_uint_eq(within(0, 1000), 900);
    ck_assert_uint_eq(p.total_ns, 0);
    sl_pauses_end(&p, 150);
    ck_assert_uint_eq(within(0, 1000), 50);
    sl_pauses_end(&p, 900); // it is over
    ck_assert_uint_eq(p.total_ns, 50);
}

TEST(the_newest_are_kept_and_the_total_is_of_all)
{
    for (uint64_t i = 0; i < SL_PAUSES_KEPT + 10; i++) {
        sl_pauses_begin(&p, 100 * i);
        sl_pauses_end(&p, 100 * i + 10);
    }
    ck_assert_uint_eq(p.total_ns, 10 * (SL_PAUSES_KEPT + 10));
    ck_assert_uint_eq(within(0, UINT64_MAX), 10 * SL_PAUSES_KEPT);
    ck_assert_uint_eq(within(1000, 1100), 10);
}

TEST(a_pause_that_goes_on_is_open)
{
    const uint64_t second = 1000000000;
    ck_assert(!sl_pauses_is_open(&p));
    ck_assert_double_eq(sl_pauses_open_seconds(&p), 0);
    sl_pauses_begin(&p, sl_now_ns());
    sl_clock_advance(100 * second);
    ck_assert(sl_pauses_is_open(&p));
    ck_assert_double_ge(sl_pauses_open_seconds(&p), 100);
    ck_assert_double_ge(sl_pauses_total_seconds(&p), 100);
    sl_pauses_end(&p, sl_now_ns());
    const double total = sl_pauses_total_seconds(&p);
    sl_clock_advance(1000 * second);
    ck_assert(!sl_pauses_is_open(&p));
    ck_assert_double_eq(sl_pauses_open_seconds(&p), 0);
    ck_assert_double_eq(sl_pauses_total_seconds(&p), total); // it does not grow any more
}

RUN_TESTS()
