// Classes of sizes of matrix products (kernels/cuda/gemm_class.h): possible with the product's
// leading dimensions, not smaller than the product, and the same for all of a class.
#include "kernels/cuda/gemm_class.h"
#include "tests/unit/suite.h"

#include <stdlib.h>

static uint64_t state = 7;

static uint64_t below(uint64_t n)
{
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (state >> 33) % n;
}

// Often small, often a little above a power of two.
static uint64_t any_size(void)
{
    uint64_t octave = 1ull << below(20);
    return octave + below(octave);
}

static uint64_t any_gap(void)
{
    return below(2) ? 0 : below(300);
}

static struct sl_gemm_sizes any_product(void)
{
    struct sl_gemm_sizes s = {.m = any_size(), .n = any_size(), .k = any_size()};
    s.ta = below(2);
    s.tb = below(2);
    s.lda = (s.ta ? s.m : s.k) + any_gap();
    s.ldb = (s.tb ? s.k : s.n) + any_gap();
    s.ldc = s.n + any_gap();
    return s;
}

static void check_possible(const struct sl_gemm_sizes *c)
{
    ck_assert_uint_le(c->ta ? c->m : c->k, c->lda);
    ck_assert_uint_le(c->tb ? c->k : c->n, c->ldb);
    ck_assert_uint_le(c->n, c->ldc);
}

static void check_same(const struct sl_gemm_sizes *a, const struct sl_gemm_sizes *b)
{
    ck_assert_uint_eq(a->m, b->m);
    ck_assert_uint_eq(a->n, b->n);
    ck_assert_uint_eq(a->k, b->k);
}

TEST(a_class_is_possible_and_not_smaller)
{
    for (int i = 0; i < 20000; i++) {
        const struct sl_gemm_sizes s = any_product(), c = sl_gemm_class(s);
        check_possible(&s);
        check_possible(&c);
        ck_assert(c.m >= s.m && c.n >= s.n && c.k >= s.k);
        ck_assert(c.lda == s.lda && c.ldb == s.ldb && c.ldc == s.ldc);
        ck_assert(c.ta == s.ta && c.tb == s.tb);
        const struct sl_gemm_sizes again = sl_gemm_class(c);
        check_same(&again, &c); // the class's own sizes are of it
    }
}

TEST(rows_alone_are_rounded_freely)
{
    const struct sl_gemm_sizes s = {
        .m = 70001, .n = 256, .k = 1433, .lda = 1433, .ldb = 1433, .ldc = 256, .tb = true};
    const struct sl_gemm_sizes c = sl_gemm_class(s);
    ck_assert_uint_eq(c.m, 73728);
    ck_assert_uint_eq(c.n, 256);
    ck_assert_uint_eq(c.k, 1433); // 1536 would be more than a row of a has
}

// Batches' numbers of rows differ: there are few classes of them.
TEST(an_octave_has_eight_classes)
{
    uint64_t n = 0, last = 0;
    for (uint64_t size = 65537; size <= 131072; size++) {
        uint64_t c = sl_gemm_size_class(size);
        ck_assert_uint_ge(c, last);
        n += c != last;
        last = c;
    }
    ck_assert_uint_eq(n, 8);
    for (uint64_t size = 1; size <= 1024; size++)
        ck_assert_uint_eq(sl_gemm_size_class(size), size);
}

RUN_TESTS()
