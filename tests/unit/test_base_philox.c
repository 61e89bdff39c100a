// Philox4x32-10 against the authors' known answers, and the draws made from its words.
#include "common/base/philox.h"
#include "tests/unit/suite.h"

#include <math.h>
#include <stdlib.h>

// Counter, key and block in the order of Random123's kat_vectors.
TEST(known_answers)
{
    static const uint32_t known[][10] = {
        {0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
        {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0x408f276d,
         0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
        {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0, 0xd16cfe09,
         0x94fdcceb, 0x5001e420, 0x24126ea1}, // digits of pi
    };
    for (size_t i = 0; i < 3; i++) {
        const uint32_t *k = known[i];
        struct sl_rng_block got = sl_philox((uint64_t)k[5] << 32 | k[4], k[0], k[1], k[2], k[3]);
        ck_assert_mem_eq(got.w, k + 6, 4 * sizeof *k);
    }
}

TEST(first_counter_word_keeps_its_fields_apart)
{
    ck_assert_uint_eq(sl_rng_word0(SL_RNG_DROPOUT, 0x12, 0x3456), 0x03123456);
    // What does not fit a field must not leak into the next one.
    ck_assert_uint_eq(sl_rng_word0(1, 0, 0x12345), 0x01002345);
    ck_assert_uint_eq(sl_rng_word0(1, 0x102, 0), 0x01020000);
}

TEST(unit_is_in_the_half_open_interval)
{
    ck_assert(sl_rng_unit(0) == 0.0f);
    ck_assert(sl_rng_unit(0xff) == 0.0f);
    ck_assert(sl_rng_unit(0x80000000) == 0.5f);
    ck_assert(sl_rng_unit(UINT32_MAX) < 1.0f);
    ck_assert(sl_rng_unit(UINT32_MAX) == 16777215.0f / 16777216.0f);
}

/*
 * Exact: the words that map to v are one run, and only the run's first word can be rejected. Each
 * value must keep the same number of words, floor(2^32 / n).
 */
static void expect_unbiased(uint32_t n, uint32_t step)
{
    uint64_t share = ((uint64_t)1 << 32) / n;
    for (uint64_t v = 0; v < n; v += step) {
        uint64_t first = ((v << 32) + n - 1) / n, end = (((v + 1) << 32) + n - 1) / n;
        uint64_t kept = end - first;
        uint32_t at[3] = {(uint32_t)v, (uint32_t)v, (uint32_t)v};
        bool drawn = true; // a ck_assert that holds costs a system call
        if (!sl_rng_below((uint32_t)first, n, &at[0]))
            kept--;
        if (end - first > 1)
            drawn = sl_rng_below((uint32_t)first + 1, n, &at[1]) &&
                    sl_rng_below((uint32_t)(end - 1), n, &at[2]);
        if (!drawn || at[0] != v || at[1] != v || at[2] != v || kept != share)
            ck_abort_msg("n %u: value %llu has %llu words, wanted %llu", n, (unsigned long long)v,
                         (unsigned long long)kept, (unsigned long long)share);
    }
}

TEST(below_gives_every_value_the_same_number_of_words)
{
    static const uint32_t small[] = {1, 2, 3, 5, 7, 10, 15, 16, 17, 100, 1000, 65535, 65536, 65537};
    for (size_t i = 0; i < sizeof small / sizeof small[0]; i++)
        expect_unbiased(small[i], 1);
    expect_unbiased(1000003, 1);
    expect_unbiased(0x80000000u, 1000003);
    expect_unbiased(0x80000001u, 1000003); // nearly half of the words are rejected
    expect_unbiased(0xfffffffeu, 1000003);
    expect_unbiased(UINT32_MAX, 1000003);
}

TEST(below_is_uniform_over_philox_words)
{
    enum { N = 13, DRAWS = 1 << 20 };
    uint32_t counts[N] = {0}, value;
    for (uint32_t i = 0; i < DRAWS / 4; i++) {
        struct sl_rng_block b = sl_philox(99, sl_rng_word0(SL_RNG_SAMPLE, 0, 0), i, 1, 2);
        for (int w = 0; w < 4; w++)
            if (sl_rng_below(b.w[w], N, &value))
                counts[value]++;
    }
    double chi2 = 0, want = (double)DRAWS / N;
    for (int v = 0; v < N; v++)
        chi2 += (counts[v] - want) * (counts[v] - want) / want;
    ck_assert_msg(chi2 < 32.9, "chi-square %g with 12 degrees of freedom (0.1 %% is 32.9)", chi2);
}

TEST(each_counter_word_and_the_seed_change_the_draw)
{
    struct sl_rng_block base = sl_philox(1, 2, 3, 4, 5);
    struct sl_rng_block others[] = {
        sl_philox(2, 2, 3, 4, 5), sl_philox(1 | (uint64_t)1 << 32, 2, 3, 4, 5),
        sl_philox(1, 3, 3, 4, 5), sl_philox(1, 2, 4, 4, 5),
        sl_philox(1, 2, 3, 5, 5), sl_philox(1, 2, 3, 4, 6)};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        for (int w = 0; w < 4; w++)
            ck_assert_uint_ne(others[i].w[w], base.w[w]);
}

RUN_TESTS(.timeout_s = 60)
