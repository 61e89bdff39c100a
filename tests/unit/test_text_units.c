// Sizes, counts and times, read and written.
#include "common/text/units.h"

#include <stdlib.h>

#include "common/base/bits.h"
#include "tests/unit/suite.h"

static const struct {
    const char *text;
    uint64_t bytes; // UINT64_MAX = refused
} sizes[] = {
    {"0", 0},
    {"17", 17},
    {"17B", 17},
    {"64k", 64000},
    {"64KiB", 65536},
    {"64 KiB", 65536},
    {"4GiB", UINT64_C(4) << 30},
    {"1.5MB", 1500000},
    {"1.1GiB", 1181116006},
    {"1.5", UINT64_MAX},
    {"1.MiB", UINT64_MAX},
    {"2e6", 2000000},
    {"1_000", 1000},
    {"9223372036854775807", INT64_MAX},
    {"9223372036854775808", UINT64_MAX},
    {"8388608TiB", UINT64_MAX},
    {"", UINT64_MAX},
    {"-1", UINT64_MAX},
    {"GiB", UINT64_MAX},
    {"1.2.3", UINT64_MAX},
    {"1e", UINT64_MAX},
    {"0x10", UINT64_MAX},
    {"4 GiB x", UINT64_MAX},
    {"inf", UINT64_MAX},
    {"_1", UINT64_MAX},
};

LOOP_TEST(sizes_are_read, 0, SL_COUNT_OF(sizes))
{
    uint64_t bytes = UINT64_MAX;
    int rc = sl_units_parse_bytes(sizes[_i].text, &bytes);
    if (sizes[_i].bytes == UINT64_MAX) {
        ck_assert_msg(rc == -1, "'%s' was taken for %ju", sizes[_i].text, (uintmax_t)bytes);
    } else {
        ck_assert_msg(rc == 0, "'%s' was refused", sizes[_i].text);
        ck_assert_uint_eq(bytes, sizes[_i].bytes);
    }
}

TEST(counts_are_read)
{
    uint64_t n;
    ck_assert(sl_units_parse_count("100M", &n) == 0 && n == 100000000);
    ck_assert(sl_units_parse_count("2.5e3", &n) == 0 && n == 2500);
    ck_assert(sl_units_parse_count("1.5k", &n) == 0 && n == 1500);
    ck_assert_int_eq(sl_units_parse_count("1.5", &n), -1);
    ck_assert_int_eq(sl_units_parse_count("3Ki", &n), -1);
    ck_assert_int_eq(sl_units_parse_count("99999999999999999999", &n), -1);
}

TEST(numbers_are_written_for_people)
{
    char b[SL_UNITS_BYTES];
    ck_assert_str_eq(sl_units_bytes(b, 0), "0 B");
    ck_assert_str_eq(sl_units_bytes(b, 1023), "1023 B");
    ck_assert_str_eq(sl_units_bytes(b, 1024), "1.00 KiB");
    ck_assert_str_eq(sl_units_bytes(b, (UINT64_C(1) << 30) * 3 / 2), "1.50 GiB");
    ck_assert_str_eq(sl_units_bytes(b, 1048575), "1.00 MiB");
    ck_assert_str_eq(sl_units_count(b, 999), "999");
    ck_assert_str_eq(sl_units_count(b, 1234567), "1.23 M");
    ck_assert_str_eq(sl_units_grouped(b, 0), "0");
    ck_assert_str_eq(sl_units_grouped(b, 999), "999");
    ck_assert_str_eq(sl_units_grouped(b, 1000), "1,000");
    ck_assert_str_eq(sl_units_grouped(b, UINT64_MAX), "18,446,744,073,709,551,615");
    ck_assert_str_eq(sl_units_seconds(b, 0), "0 s");
    ck_assert_str_eq(sl_units_seconds(b, 2e-7), "<1 us");
    ck_assert_str_eq(sl_units_seconds(b, 3.4e-5), "34 us");
    ck_assert_str_eq(sl_units_seconds(b, 0.0009999), "1.0 ms");
    ck_assert_str_eq(sl_units_seconds(b, 0.000476), "476 us");
    ck_assert_str_eq(sl_units_seconds(b, 0.0125), "12.5 ms");
    ck_assert_str_eq(sl_units_seconds(b, 0.82), "820 ms");
    ck_assert_str_eq(sl_units_seconds(b, 1.23), "1.2 s");
    ck_assert_str_eq(sl_units_seconds(b, 185), "3 min 05 s");
    ck_assert_str_eq(sl_units_seconds(b, 59.97), "1 min 00 s");
    ck_assert_str_eq(sl_units_seconds(b, 7260), "2 h 01 min");
}

RUN_TESTS()
