// Where features are where the job does not say: by what they and the topology take of the memory.
#include <stdlib.h>

#include "common/data/features_kind.h"
#include "tests/unit/suite.h"

TEST(much_for_the_memory_is_read)
{
    static const float weight;
    struct sl_dataset ds = {.n_nodes = 1000,
                            .n_edges = 5000,
                            .indices_dtype = SL_DTYPE_I32,
                            .feat_dim = 100,
                            .feat_dtype = SL_DTYPE_F16};
    ck_assert_uint_eq(sl_features_bytes(&ds), 200000);
    ck_assert_uint_eq(sl_topology_bytes(&ds), 1001 * 8 + 5000 * 4);
    const uint64_t all = 200000 + 1001 * 8 + 5000 * 4, enough = all / 3 * 4 + 4;
    ck_assert_int_eq(sl_features_choose(&ds, enough), SL_FEATURES_MEMORY);
    ck_assert_int_eq(sl_features_choose(&ds, enough - 8), SL_FEATURES_STORAGE);
    ck_assert_int_eq(sl_features_choose(&ds, 0), SL_FEATURES_STORAGE);
    ds.edge_weight = &weight;
    ck_assert_int_eq(sl_features_choose(&ds, enough), SL_FEATURES_STORAGE);
}

// Of a shard what is not here must be read; of a whole data set nobody is asked.
TEST(shards_are_asked_for_rows)
{
    struct sl_dataset whole = {.n_nodes = 100, .feat_dim = 4, .feat_dtype = SL_DTYPE_F32};
    struct sl_dataset shard = whole;
    shard.shard = (struct sl_shard){.count = 2, .n_local = 40};
    ck_assert_uint_eq(sl_features_bytes(&shard), 40 * 16);
    ck_assert_int_eq(sl_features_settle(SL_FEATURES_MEMORY, &shard), SL_FEATURES_NODES);
    ck_assert_int_eq(sl_features_settle(SL_FEATURES_NODES, &shard), SL_FEATURES_NODES);
    ck_assert_int_eq(sl_features_settle(SL_FEATURES_STORAGE, &shard), SL_FEATURES_STORAGE);
    ck_assert_int_eq(sl_features_settle(SL_FEATURES_MEMORY, &whole), SL_FEATURES_MEMORY);
    ck_assert_int_eq(sl_features_settle(SL_FEATURES_NODES, &whole), SL_FEATURES_MEMORY);
    ck_assert_int_eq(sl_features_settle(SL_FEATURES_STORAGE, &whole), SL_FEATURES_STORAGE);
    ck_assert_int_eq(sl_features_choose(&shard, 1 << 20), SL_FEATURES_NODES);
    ck_assert_int_eq(sl_features_choose(&shard, 0), SL_FEATURES_STORAGE);
    ck_assert(sl_features_kinds[SL_FEATURES_NODES].reads);
    ck_assert(!sl_features_kinds[SL_FEATURES_NODES].drive);
}

RUN_TESTS()
