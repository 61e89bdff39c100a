// Sizes, counts and times, read and written.
#include "common/text/units.h"

#include <math.h>
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

// What f writes of x.
#define WRITES(f, x, wanted)                                                                       \
    ck_assert_str_eq(sl_units_##f((char[SL_UNITS_BYTES]){0}, (x)), (wanted))

TEST(numbers_are_written_for_people)
{
    WRITES(bytes, 0, "0 B");
    WRITES(bytes, -1, "0 B");
    WRITES(bytes, NAN, "-");
    WRITES(bytes, 1023, "1023 B");
    WRITES(bytes, 1024, "1.00 KiB");
    WRITES(bytes, (UINT64_C(1) << 30) * 3 / 2, "1.50 GiB");
    WRITES(bytes, 1048575, "1.00 MiB");
    WRITES(bytes, 1e300 * 1e300, "-");
    WRITES(count, 0.8, "0.80");
    WRITES(count, 999, "999");
    WRITES(count, 1234567, "1.23 M");
    WRITES(count, 99949, "99.9 k");
    WRITES(count, 99951, "100 k");
    WRITES(grouped, 0, "0");
    WRITES(grouped, 999, "999");
    WRITES(grouped, 1000, "1,000");
    WRITES(grouped, UINT64_MAX, "18,446,744,073,709,551,615");
    WRITES(seconds, NAN, "-");
    WRITES(seconds, 0, "0 s");
    WRITES(seconds, 2e-7, "<1 us");
    WRITES(seconds, 3.4e-5, "34 us");
    WRITES(seconds, 0.0009999, "1.0 ms");
    WRITES(seconds, 0.000476, "476 us");
    WRITES(seconds, 0.0125, "12.5 ms");
    WRITES(seconds, 0.82, "820 ms");
    WRITES(seconds, 1.23, "1.2 s");
    WRITES(seconds, 185, "3 min 05 s");
    WRITES(seconds, 59.97, "1 min 00 s");
    WRITES(seconds, 7260, "2 h 01 min");
    WRITES(clock, 3723, "1:02:03");
    WRITES(clock, 1e300, "-");
    WRITES(percent, 0.001, "<1 %");
    WRITES(percent, 0.62, "62 %");
}

TEST(numbers_of_a_view_are_short)
{
    WRITES(brief_seconds, 0, "0 us");
    WRITES(brief_seconds, 0.00012, "120 us");
    WRITES(brief_seconds, 0.0031, "3.1 ms");
    WRITES(brief_seconds, 0.0611, "61 ms");
    WRITES(brief_seconds, 1.23, "1.2 s");
    WRITES(brief_seconds, 123, "2:03");
    WRITES(brief_seconds, NAN, "-");
    WRITES(brief_bytes, 999, "999 B");
    WRITES(brief_bytes, 1023, "1.0 KiB");
    WRITES(brief_bytes, 5.5 * (1 << 30), "5.5 GiB");
    WRITES(brief_count, 1234, "1234");
    WRITES(brief_count, 1.04e6, "1.0 M");
    WRITES(brief_count, 0.8, "0.8");
}

TEST(a_word_is_that_of_its_number)
{
    ck_assert_str_eq(SL_PLURAL(1, "batch"), "1 batch");
    ck_assert_str_eq(SL_PLURAL(2, "mini-batch"), "2 mini-batches");
    ck_assert_str_eq(SL_PLURAL(0, "epoch"), "0 epochs");
}

RUN_TESTS()
