// The order of an epoch: a permutation, a function of seed and epoch alone, unbiased.
#include "tests/unit/suite.h"
#include "tests/unit/test_data_fixture.h"

#include "common/data/shuffle.h"
#include "common/base/philox.h"

static uint32_t *iota(uint64_t n)
{
    uint32_t *list = malloc((n + 1) * sizeof *list);
    for (uint64_t i = 0; i < n; i++)
        list[i] = (uint32_t)i;
    return list;
}

static void assert_permutation(const uint32_t *order, uint64_t n)
{
    char *seen = calloc(n + 1, 1);
    for (uint64_t i = 0; i < n; i++) {
        ck_assert_uint_lt(order[i], n);
        ck_assert_msg(!seen[order[i]], "%u twice", order[i]);
        seen[order[i]] = 1;
    }
    free(seen);
}

TEST(it_is_a_permutation_of_every_size)
{
    static const uint64_t sizes[] = {0, 1, 2, 3, 31, 32, 33, 34, 63, 64, 65, 66, 1000, 200003};
    for (size_t i = 0; i < SL_COUNT_OF(sizes); i++) {
        uint64_t n = sizes[i];
        uint32_t *list = iota(n), *out = malloc((n + 1) * sizeof *out);
        ck_assert(sl_shuffle_order(7, 3, list, n, NULL, out));
        assert_permutation(out, n);
        free(list);
        free(out);
    }
}

TEST(it_permutes_the_given_vertices)
{
    static const uint32_t list[] = {4000000000u, 5, 77, 5, 9};
    uint32_t out[5];
    uint64_t sum = 0;
    ck_assert(sl_shuffle_order(1, 0, list, 5, NULL, out));
    for (int i = 0; i < 5; i++)
        sum += out[i];
    ck_assert_uint_eq(sum, 4000000000u + 5 + 77 + 5 + 9);
}

TEST(seed_and_epoch_alone_decide)
{
    enum { N = 5000 };
    uint32_t *list = iota(N), *a = malloc(N * 4), *b = malloc(N * 4);
    ck_assert(sl_shuffle_order(7, 3, list, N, NULL, a));
    // Whatever was shuffled in between.
    ck_assert(sl_shuffle_order(7, 4, list, N, NULL, b));
    ck_assert_msg(memcmp(a, b, N * 4) != 0, "epochs 3 and 4 have one order");
    ck_assert(sl_shuffle_order(8, 3, list, N, NULL, b));
    ck_assert_msg(memcmp(a, b, N * 4) != 0, "seeds 7 and 8 have one order");
    ck_assert(sl_shuffle_order(7, 3, list, N, NULL, b));
    ck_assert_int_eq(memcmp(a, b, N * 4), 0);
    free(list);
    free(a);
    free(b);
}

TEST(it_is_the_documented_fisher_yates)
{
    // Written again from the description: index from the end, Philox word 0 unless it is rejected.
    enum { N = 1000 };
    uint32_t *list = iota(N), *fast = malloc(N * 4);
    ck_assert(sl_shuffle_order(42, 9, list, N, NULL, fast));
    for (uint32_t i = N - 1; i > 0; i--) {
        uint32_t j = 0, k = 0;
        struct sl_rng_block b = sl_philox(42, sl_rng_word0(SL_RNG_SHUFFLE, 0, 0), i, 0, 9);
        while (!sl_rng_below(b.w[k], i + 1, &j))
            ck_assert_uint_lt(++k, 4);
        uint32_t swap = list[i];
        list[i] = list[j];
        list[j] = swap;
    }
    ck_assert_int_eq(memcmp(list, fast, N * 4), 0);
    free(list);
    free(fast);
}

TEST(every_place_is_equally_likely)
{
    enum { N = 8, ROUNDS = 40000 };
    uint32_t list[N], out[N], count[N][N] = {{0}};
    for (uint32_t i = 0; i < N; i++)
        list[i] = i;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        ck_assert(sl_shuffle_order(3, round, list, N, NULL, out));
        for (int i = 0; i < N; i++)
            count[i][out[i]]++;
    }
    double expected = (double)ROUNDS / N, chi2 = 0;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            chi2 += (count[i][j] - expected) * (count[i][j] - expected) / expected;
    // 49 degrees of freedom: above 100 once in 50,000 runs; the seed is fixed.
    ck_assert_msg(chi2 < 100, "chi-square %.1f", chi2);
}

TEST(it_can_be_cancelled)
{
    enum { N = 1 << 20 };
    uint32_t *list = iota(N), *out = malloc(N * sizeof *out);
    atomic_bool cancel = true;
    ck_assert(!sl_shuffle_order(1, 1, list, N, &cancel, out));
    cancel = false;
    ck_assert(sl_shuffle_order(1, 1, list, N, &cancel, out));
    free(list);
    free(out);
}

RUN_TESTS(.timeout_s = 30)
