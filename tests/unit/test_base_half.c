// float16: every value there and back, ties, limits.
#include "common/base/half.h"
#include "tests/unit/suite.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

TEST(every_half_survives_the_way_there_and_back)
{
    for (uint32_t h = 0; h < 65536; h++) {
        float x = sl_half_to_float((uint16_t)h);
        bool nan = (h & 0x7c00) == 0x7c00 && (h & 0x3ff);
        ck_assert(nan == (isnan(x) != 0));
        if (!nan)
            ck_assert_uint_eq(sl_half_from_float(x), h);
        else
            ck_assert(isnan(sl_half_to_float(sl_half_from_float(x))));
    }
}

TEST(known_values)
{
    static const struct {
        uint16_t h;
        float x;
    } known[] = {
        {0x3c00, 1},        {0xc000, -2},         {0x7bff, 65504},           {0x0400, 0x1p-14f},
        {0x0001, 0x1p-24f}, {0x03ff, 0x3ffp-24f}, {0x3555, 0.333251953125f}, {0x7c00, INFINITY},
        {0xfc00, -INFINITY}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        ck_assert(sl_half_to_float(known[i].h) == known[i].x);
    ck_assert(signbit(sl_half_to_float(0x8000)) && sl_half_to_float(0x8000) == 0);
}

TEST(rounds_to_the_nearest_and_ties_to_even)
{
    ck_assert_uint_eq(sl_half_from_float(1 + 0x1p-11f), 0x3c00); // half way: even below
    ck_assert_uint_eq(sl_half_from_float(1 + 0x1p-11f + 0x1p-20f), 0x3c01);
    ck_assert_uint_eq(sl_half_from_float(1 + 3 * 0x1p-11f), 0x3c02); // half way: even above
    ck_assert_uint_eq(sl_half_from_float(2 - 0x1p-20f), 0x4000);     // carries over
    ck_assert_uint_eq(sl_half_from_float(0x1p-25f), 0);              // half of the smallest
    ck_assert_uint_eq(sl_half_from_float(0x1.8p-25f), 1);
    ck_assert_uint_eq(sl_half_from_float(0x1p-14f - 0x1p-26f), 0x0400); // up to a normal one
    ck_assert_uint_eq(sl_half_from_float(65519.996f), 0x7bff);
    ck_assert_uint_eq(sl_half_from_float(65520), 0x7c00);
    ck_assert_uint_eq(sl_half_from_float(-1e30f), 0xfc00);
    ck_assert_uint_eq(sl_half_from_float(-0.0f), 0x8000);
}

RUN_TESTS(.timeout_s = 20)
