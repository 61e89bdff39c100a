// Philox4x32-10 against the authors' known answers, and the draws made from its words.
#include "common/base/philox.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>

// The key's and counter's words in the order of Random123's kat_vectors.
static void expect_block(const uint32_t counter[4], const uint32_t key[2], const uint32_t want[4])
{
    struct sl_rng_block got =
        sl_philox((uint64_t)key[1] << 32 | key[0], counter[0], counter[1], counter[2], counter[3]);
    for (int i = 0; i < 4; i++)
        ck_assert_msg(got.w[i] == want[i], "word %d is %08x, wanted %08x", i, got.w[i], want[i]);
}

START_TEST(known_answer_of_zeros)
{
    expect_block((const uint32_t[]){0, 0, 0, 0}, (const uint32_t[]){0, 0},
                 (const uint32_t[]){0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
}
END_TEST

START_TEST(known_answer_of_ones)
{
    expect_block((const uint32_t[]){0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
                 (const uint32_t[]){0xffffffff, 0xffffffff},
                 (const uint32_t[]){0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
}
END_TEST

START_TEST(known_answer_of_pi)
{
    expect_block((const uint32_t[]){0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                 (const uint32_t[]){0xa4093822, 0x299f31d0},
                 (const uint32_t[]){0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}
END_TEST

START_TEST(first_counter_word_keeps_its_fields_apart)
{
    ck_assert_uint_eq(sl_rng_word0(SL_RNG_DROPOUT, 0x12, 0x3456), 0x03123456);
    // What does not fit a field must not leak into the next one.
    ck_assert_uint_eq(sl_rng_word0(1, 0, 0x12345), 0x01002345);
    ck_assert_uint_eq(sl_rng_word0(1, 0x102, 0), 0x01020000);
}
END_TEST

START_TEST(unit_is_in_the_half_open_interval)
{
    ck_assert(sl_rng_unit(0) == 0.0f);
    ck_assert(sl_rng_unit(0xff) == 0.0f);
    ck_assert(sl_rng_unit(0x80000000) == 0.5f);
    ck_assert(sl_rng_unit(UINT32_MAX) < 1.0f);
    ck_assert(sl_rng_unit(UINT32_MAX) == 16777215.0f / 16777216.0f);
}
END_TEST

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
        uint32_t out;
        if (!sl_rng_below((uint32_t)first, n, &out))
            kept--;
        else
            ck_assert_uint_eq(out, v);
        if (end - first > 1) {
            ck_assert_int_eq(sl_rng_below((uint32_t)first + 1, n, &out), 1);
            ck_assert_uint_eq(out, v);
            ck_assert_int_eq(sl_rng_below((uint32_t)(end - 1), n, &out), 1);
            ck_assert_uint_eq(out, v);
        }
        ck_assert_msg(kept == share, "n %u: value %llu has %llu words, wanted %llu", n,
                      (unsigned long long)v, (unsigned long long)kept, (unsigned long long)share);
    }
}

START_TEST(below_gives_every_value_the_same_number_of_words)
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
END_TEST

START_TEST(below_is_uniform_over_philox_words)
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
END_TEST

START_TEST(each_counter_word_and_the_seed_change_the_draw)
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
END_TEST

int main(void)
{
    Suite *s = suite_create("base philox");
    TCase *t = tcase_create("philox");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, known_answer_of_zeros);
    tcase_add_test(t, known_answer_of_ones);
    tcase_add_test(t, known_answer_of_pi);
    tcase_add_test(t, first_counter_word_keeps_its_fields_apart);
    tcase_add_test(t, unit_is_in_the_half_open_interval);
    tcase_add_test(t, below_gives_every_value_the_same_number_of_words);
    tcase_add_test(t, below_is_uniform_over_philox_words);
    tcase_add_test(t, each_counter_word_and_the_seed_change_the_draw);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
