// Pools: alignment, growth, and that a batch of known size allocates nothing.
#include "common/base/mempool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "tests/unit/suite.h"

enum { MIB = 1 << 20 };

TEST(blocks_are_aligned_and_apart)
{
    struct sl_mempool pool = {0};
    unsigned char *blocks[200];
    size_t sizes[200];
    for (int i = 0; i < 200; i++) {
        sizes[i] = (size_t)(i * i * 7 % 5000);
        blocks[i] = sl_mempool_alloc(&pool, sizes[i]);
        ck_assert_ptr_nonnull(blocks[i]);
        ck_assert_uint_eq((uintptr_t)blocks[i] % SL_CACHE_LINE, 0);
        memset(blocks[i], i, sizes[i]);
    }
    for (int i = 0; i < 200; i++)
        for (size_t b = 0; b < sizes[i]; b++)
            ck_assert_uint_eq(blocks[i][b], i);
    sl_mempool_fini(&pool);
}

TEST(zero_bytes_give_different_blocks)
{
    struct sl_mempool pool = {0};
    void *a = sl_mempool_alloc(&pool, 0), *b = sl_mempool_alloc(&pool, 0);
    ck_assert_ptr_nonnull(a);
    ck_assert_ptr_ne(a, b);
    sl_mempool_fini(&pool);
}

TEST(growth_keeps_what_is_there)
{
    struct sl_mempool pool = {0};
    uint64_t *blocks[40];
    for (uint64_t i = 0; i < 40; i++) { // together far more than a slab
        blocks[i] = sl_mempool_alloc(&pool, MIB);
        ck_assert_ptr_nonnull(blocks[i]);
        for (size_t w = 0; w < MIB / 8; w++)
            blocks[i][w] = i;
    }
    for (uint64_t i = 0; i < 40; i++)
        ck_assert(blocks[i][0] == i && blocks[i][MIB / 8 - 1] == i);
    sl_mempool_fini(&pool);
}

TEST(block_larger_than_a_slab)
{
    struct sl_mempool pool = {0};
    char *small = sl_mempool_alloc(&pool, 10);
    char *large = sl_mempool_alloc(&pool, (size_t)50 * MIB);
    ck_assert_ptr_nonnull(small);
    ck_assert_ptr_nonnull(large);
    large[0] = 1;
    large[(size_t)50 * MIB - 1] = 2;
    sl_mempool_fini(&pool);
}

// The addresses of a batch, in the order they were handed out.
static void batch(struct sl_mempool *pool, void *at[30])
{
    for (int i = 0; i < 30; i++) {
        at[i] = sl_mempool_alloc(pool, (size_t)(i + 1) * 100000);
        ck_assert_ptr_nonnull(at[i]);
        memset(at[i], 1, (size_t)(i + 1) * 100000);
    }
}

TEST(equal_batches_reuse_the_same_memory)
{
    struct sl_mempool pool = {0};
    void *second[30], *third[30];
    batch(&pool, second); // grows
    sl_mempool_reset(&pool);
    batch(&pool, second); // fits the merged slab
    struct sl_mempool_slab *slab = pool.head;
    sl_mempool_reset(&pool);
    batch(&pool, third);
    ck_assert_ptr_eq(pool.head, slab);
    for (int i = 0; i < 30; i++)
        ck_assert_ptr_eq(second[i], third[i]);
    sl_mempool_fini(&pool);
}

TEST(smaller_batches_keep_the_memory)
{
    struct sl_mempool pool = {0};
    void *at[30];
    batch(&pool, at);
    sl_mempool_reset(&pool);
    batch(&pool, at);
    sl_mempool_reset(&pool);
    struct sl_mempool_slab *slab = pool.head;
    ck_assert_ptr_nonnull(sl_mempool_alloc(&pool, 100));
    sl_mempool_reset(&pool);
    batch(&pool, at);
    ck_assert_ptr_eq(pool.head, slab);
    sl_mempool_fini(&pool);
}

TEST(used_and_peak_are_counted)
{
    struct sl_mempool pool = {0};
    sl_mempool_alloc(&pool, 1);
    ck_assert_uint_eq(pool.used_bytes, 64);
    sl_mempool_alloc(&pool, 65);
    ck_assert_uint_eq(pool.used_bytes, 192);
    sl_mempool_reset(&pool);
    ck_assert_uint_eq(pool.used_bytes, 0);
    ck_assert_uint_eq(pool.peak_bytes, 192);
    sl_mempool_fini(&pool);
}

// Of a pool that was empty, that has room, and that has to grow meanwhile.
LOOP_TEST(what_is_given_back_is_taken_again, 0, 3)
{
    const size_t more = _i == 2 ? (size_t)3 * MIB : 1000;
    struct sl_mempool pool = {0};
    char *kept = _i ? sl_mempool_alloc(&pool, 100) : NULL;
    if (kept)
        memset(kept, 7, 100);
    const size_t used = pool.used_bytes;
    char *first[2] = {NULL};
    for (int round = 0; round < 3; round++) {
        const struct sl_mempool_mark mark = sl_mempool_mark(&pool);
        first[round > 0] = sl_mempool_alloc(&pool, more);
        memset(first[round > 0], 8, more);
        memset(sl_mempool_alloc(&pool, 200), 8, 200);
        sl_mempool_release(&pool, mark);
        ck_assert_uint_eq(pool.used_bytes, used);
        if (round > 0)
            ck_assert_ptr_eq(first[1], first[0]);
    }
    for (int i = 0; kept && i < 100; i++)
        ck_assert_int_eq(kept[i], 7);
    ck_assert_uint_eq(pool.peak_bytes, used + sl_align_up(more, (size_t)64) + 256);
    sl_mempool_fini(&pool);
}

TEST(zalloc_clears_used_memory)
{
    struct sl_mempool pool = {0};
    memset(sl_mempool_alloc(&pool, 5000), 0xff, 5000);
    sl_mempool_reset(&pool);
    unsigned char *p = sl_mempool_zalloc(&pool, 5000);
    for (int i = 0; i < 5000; i++)
        ck_assert_uint_eq(p[i], 0);
    sl_mempool_fini(&pool);
}

TEST(fini_of_an_empty_pool_and_twice)
{
    struct sl_mempool pool = {0};
    sl_mempool_fini(&pool);
    sl_mempool_alloc(&pool, 10);
    sl_mempool_fini(&pool);
    sl_mempool_fini(&pool);
    ck_assert_ptr_null(pool.head);
    ck_assert_uint_eq(pool.used_bytes, 0);
}

TEST(impossible_request_is_null_and_harms_nothing)
{
    struct sl_mempool pool = {0};
    char *before = sl_mempool_alloc(&pool, 100);
    before[99] = 7;
    const size_t sizes[] = {(size_t)1 << 60, SIZE_MAX / 2 + 1, SIZE_MAX - 10, SIZE_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        ck_assert_ptr_null(sl_mempool_alloc(&pool, sizes[i]));
    char *after = sl_mempool_alloc(&pool, 100);
    ck_assert_ptr_nonnull(after);
    ck_assert_int_eq(before[99], 7);
    sl_mempool_fini(&pool);
}

TEST(pages_are_aligned_for_huge_pages)
{
    char *p = sl_pages_alloc(3 * MIB);
    ck_assert_ptr_nonnull(p);
    ck_assert_uint_eq((uintptr_t)p % (2 * MIB), 0);
    for (size_t i = 0; i < (size_t)3 * MIB; i += 4096)
        ck_assert_int_eq(p[i], 0);
    p[3 * MIB - 1] = 1;
    sl_pages_free(p, 3 * MIB);
    sl_pages_free(NULL, 100);
}

// Whether the pages at p ask for huge ones, as /proc/self/smaps has it.
static bool asks_for_huge_pages(const char *p)
{
    FILE *f = fopen("/proc/self/smaps", "r");
    char line[4096], rest;
    unsigned long begin, end, at = (unsigned long)(uintptr_t)p;
    bool here = false, asks = false;
    ck_assert_ptr_nonnull(f);
    while (fgets(line, sizeof line, f)) {
        if (sscanf(line, "%lx-%lx %c", &begin, &end, &rest) == 3)
            here = at >= begin && at < end;
        else if (here && strncmp(line, "VmFlags:", 8) == 0)
            asks = strstr(line, " hg") != NULL;
    }
    fclose(f);
    return asks;
}

TEST(little_memory_takes_small_pages)
{
    static const size_t sizes[] = {0, 1, 5000, (size_t)256 << 10};
    for (size_t i = 0; i < SL_COUNT_OF(sizes); i++) {
        char *p = sl_pages_alloc(sizes[i]);
        ck_assert_ptr_nonnull(p);
        ck_assert_uint_eq((uintptr_t)p % 4096, 0);
        p[0] = 1;
        if (sizes[i] >= 4096)
            p[sizes[i] - 1] = 1;
        ck_assert(!asks_for_huge_pages(p));
        sl_pages_free(p, sizes[i]);
    }
}

TEST(the_end_of_pages_is_given_back)
{
    char *p = sl_pages_alloc(5 * MIB);
    p[9999] = 3;
    const size_t left = sl_pages_trim(p, 5 * MIB, 10000);
    ck_assert_uint_eq(left, 3 * 4096);
    ck_assert_int_eq(p[9999], 3);
    ck_assert_uint_eq(sl_pages_trim(p, left, 10000), left);
    sl_pages_free(p, left);
}

RUN_TESTS(.timeout_s = 60)
