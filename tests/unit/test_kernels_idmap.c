// The renumbering map against a plain model: first appearances, growth, forgetting, hard keys.
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/philox.h"
#include "kernels/idmap_internal.h"
#include "kernels/kernels.h"
#include "tests/unit/sampler_rows.h"
#include "tests/unit/suite.h"

enum { KEYS_MAX = 1 << 17 };

static struct sl_idmap *map;
static uint32_t nodes[KEYS_MAX + 1], n_nodes;

static void create(uint32_t expected)
{
    ck_assert_int_eq(sl_idmap_create(expected, &map), SL_OK);
    n_nodes = 0;
}

static void forget(uint32_t expected)
{
    ck_assert_int_eq(sl_idmap_reset(map, expected), SL_OK);
    n_nodes = 0;
}

static uint32_t insert(uint32_t key)
{
    uint32_t local;
    int rc = sl_idmap_insert(map, key, nodes, &n_nodes, KEYS_MAX, &local);
    EXPECT(rc == SL_OK, "key %u: %d", key, rc);
    EXPECT(local < n_nodes && nodes[local] == key, "key %u: local id %u of %u", key, local,
           n_nodes);
    return local;
}

static void expect_id(uint32_t key, uint32_t wanted)
{
    uint32_t local = insert(key);
    EXPECT(local == wanted, "key %u: local id %u, wanted %u", key, local, wanted);
}

// Inserts keys[0 .. n), all different, and then all of them again.
static void expect_ids_in_order(const uint32_t *keys, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        expect_id(keys[i], i);
    for (uint32_t i = 0; i < n; i++)
        expect_id(keys[i], i);
    ck_assert_uint_eq(n_nodes, n);
}

static uint32_t random_word(uint32_t a, uint32_t b)
{
    return sl_philox(11, sl_rng_word0(SL_RNG_GENERATE, 1, 0), a, b, 0).w[0];
}

TEST(ids_follow_first_appearance)
{
    const uint32_t keys[] = {7, 0, UINT32_MAX - 1, 8, 1u << 31, 1};
    create(1);
    expect_ids_in_order(keys, SL_COUNT_OF(keys));
    sl_idmap_destroy(map);
}

TEST(equals_a_plain_model_over_many_batches)
{
    enum { UNIVERSE = 5000, BATCHES = 400 };
    static uint32_t model[UNIVERSE];
    static uint32_t seen_in[UNIVERSE];
    create(16);
    for (uint32_t batch = 1; batch <= BATCHES; batch++) {
        uint32_t n = random_word(batch, 0) % 3000, known = 0;
        forget(random_word(batch, 1) % 100);
        for (uint32_t i = 0; i < n; i++) {
            uint32_t v = random_word(batch, i + 2) % UNIVERSE;
            if (seen_in[v] != batch) {
                seen_in[v] = batch;
                model[v] = known++;
            }
            // Spread over all 32 bits, and back in the same place for the model.
            expect_id(v * 858993u, model[v]);
        }
        ck_assert_uint_eq(n_nodes, known);
    }
    sl_idmap_destroy(map);
}

TEST(grows_from_nothing_and_keeps_every_id)
{
    static uint32_t keys[KEYS_MAX];
    for (uint32_t i = 0; i < KEYS_MAX; i++)
        keys[i] = i * 2654435761u; // odd multiplier: all different
    create(1);
    expect_ids_in_order(keys, KEYS_MAX);
    sl_idmap_destroy(map);
}

TEST(reserves_in_the_middle_of_a_batch)
{
    create(1);
    for (uint32_t i = 0; i < 1000; i++)
        expect_id(3 * i, i);
    ck_assert_int_eq(sl_idmap_reserve(map, 1 << 16), SL_OK);
    for (uint32_t i = 0; i < 1000; i++)
        expect_id(3 * i, i);
    expect_id(1, 1000);
    sl_idmap_destroy(map);
}

// Patterns of ids that weak hashes pile up: runs, strides of powers of two, high bits only.
TEST(structured_keys)
{
    enum { N = 1 << 14 };
    static uint32_t keys[N];
    create(1);
    for (uint32_t shift = 0; shift <= 18; shift++) {
        for (uint32_t i = 0; i < N; i++)
            keys[i] = i << shift;
        forget(N);
        expect_ids_in_order(keys, N);
        for (uint32_t i = 0; i < N; i++)
            keys[i] = UINT32_MAX - 1 - (i << shift);
        forget(N);
        expect_ids_in_order(keys, N);
    }
    sl_idmap_destroy(map);
}

// Keys chosen to begin their search in the last few slots: the probe wraps and runs over others'.
TEST(keys_that_collide)
{
    enum { N = 300 };
    static uint32_t keys[N];
    create(N);
    uint32_t n = 0;
    for (uint32_t key = 0; n < N; key++)
        if (sl_idmap_hash(key, map->shift) >= map->mask - 2)
            keys[n++] = key;
    for (int batch = 0; batch < 3; batch++) {
        forget(N);
        expect_ids_in_order(keys, N);
        for (uint32_t i = 0; i < 100; i++) // bystanders at the start of the table
            insert(1000000 + i);
    }
    sl_idmap_destroy(map);
}

TEST(nothing_of_an_earlier_batch_is_left)
{
    create(4);
    for (uint32_t batch = 0; batch < 2000; batch++) {
        forget(batch % 5);
        uint32_t n = batch % 37;
        for (uint32_t i = 0; i < n; i++) // the other way round than the batch before
            expect_id(batch & 1 ? i : n - i, i);
    }
    sl_idmap_destroy(map);
}

TEST(an_empty_batch_between_others)
{
    create(4);
    insert(5);
    forget(0);
    forget(0);
    expect_id(6, 0);
    expect_id(5, 1);
    sl_idmap_destroy(map);
}

// The stamp comes to its end once in 2^32 keys.
TEST(the_stamp_starts_over)
{
    create(100);
    for (uint32_t i = 0; i < 100; i++)
        insert(i);
    map->count = 0;
    memset(map->slot, 0, ((size_t)map->mask + 1) * sizeof *map->slot);
    map->base = UINT32_MAX - map->limit - 150;
    for (uint32_t batch = 0; batch < 10; batch++) {
        n_nodes = 0;
        for (uint32_t i = 0; i < 100; i++)
            expect_id(batch + i, i);
        forget(100);
        ck_assert_uint_le(map->base, UINT32_MAX - map->limit);
    }
    ck_assert_uint_lt(map->base, 2000); // it did
    sl_idmap_destroy(map);
}

TEST(a_full_list_is_out_of_range_and_changes_nothing)
{
    uint32_t local = 77, capacity = 10;
    create(4);
    for (uint32_t i = 0; i < capacity; i++)
        insert(i);
    nodes[capacity] = 0xabadcafe;
    ck_assert_int_eq(sl_idmap_insert(map, 10, nodes, &n_nodes, capacity, &local), SL_ERANGE);
    ck_assert_uint_eq(n_nodes, capacity);
    ck_assert_uint_eq(nodes[capacity], 0xabadcafe);
    // Those that are there are still found, and with room the new one comes in.
    ck_assert_int_eq(sl_idmap_insert(map, 3, nodes, &n_nodes, capacity, &local), SL_OK);
    ck_assert_uint_eq(local, 3);
    expect_id(10, 10);
    sl_idmap_destroy(map);
}

TEST(its_size_follows_the_largest_batch_alone)
{
    create(1);
    for (uint32_t i = 0; i < 50000; i++)
        insert(i * 80000u);
    size_t bytes = sl_idmap_bytes(map);
    ck_assert_uint_ge(bytes, 50000 * 8);
    ck_assert_uint_le(bytes, 50000 * 40);
    const uint64_t *slots = map->slot;
    for (uint32_t batch = 0; batch < 100; batch++) {
        forget(50000);
        for (uint32_t i = 0; i < 500; i++)
            insert(i * 7919u + batch);
    }
    ck_assert_uint_eq(sl_idmap_bytes(map), bytes);
    ck_assert_ptr_eq(map->slot, slots); // and nothing was allocated
    sl_idmap_destroy(map);
}

TEST(an_expected_batch_needs_no_growth)
{
    create(30000);
    const uint64_t *slots = map->slot;
    for (uint32_t i = 0; i < 30000; i++)
        insert(i);
    ck_assert_ptr_eq(map->slot, slots);
    forget(100000);
    slots = map->slot;
    for (uint32_t i = 0; i < 100000; i++)
        insert(i);
    ck_assert_ptr_eq(map->slot, slots);
    sl_idmap_destroy(map);
}

TEST(the_set_of_distinct_numbers)
{
    create(1);
    for (uint32_t k = 1; k <= 5000; k = k * 3 + 1) {
        for (int round = 0; round < 3; round++) {
            struct sl_distinct *set;
            ck_assert_int_eq(sl_idmap_distinct(map, k, &set), SL_OK);
            ck_assert_uint_ge(set->capacity, k);
            for (uint32_t i = 0; i < k; i++)
                EXPECT(sl_distinct_add(set, i * 12345u), "%u is there already", i);
            for (uint32_t i = 0; i < k; i++)
                EXPECT(!sl_distinct_add(set, i * 12345u), "%u is not there", i);
            sl_distinct_reset(set);
            ck_assert(sl_distinct_add(set, 0));
            set->drawn[k - 1] = 1; // its own memory
        }
    }
    struct sl_distinct *set;
    ck_assert_int_eq(sl_idmap_distinct(map, 10, &set), SL_OK);
    ck_assert(sl_distinct_add(set, 3));
    set->stamp = UINT32_MAX; // the last one before it starts over
    ck_assert(sl_distinct_add(set, 4));
    sl_distinct_reset(set);
    ck_assert_uint_eq(set->stamp, 1);
    ck_assert(sl_distinct_add(set, 3));
    ck_assert(sl_distinct_add(set, 4));
    sl_idmap_destroy(map);
}

TEST(destroying_none_is_fine)
{
    sl_idmap_destroy(NULL);
}

RUN_TESTS(.timeout_s = 60)
