// Shards of a data set: opened, found, refused.
#include "common/data/dataset.h"
#include "common/data/dataset_contents.h"
#include "common/data/features_kind.h"

#include <xxhash.h>

#include "tests/unit/suite.h"
#include "tests/unit/test_data_fixture.h"

static const uint8_t parts[5] = {1, 0, 1, 1, 0};
static const uint32_t rows[5] = {0, 0, 1, 2, 1};
static const float feat[9] = {0, 1, 2, 6, 7, 8, 9, 10, 11}; // of vertices 0, 2 and 3

// Keys of "shard" in metadata.json, "count" and "index" among them.
static void write_metadata(const char *keys)
{
    char text[1024];
    snprintf(text, sizeof text,
             "{\"num_nodes\": 5, \"num_edges\": 7, \"feat_dim\": 3, \"num_classes\": 2, "
             "\"task\": \"multiclass\", \"shard\": {%s, \"of\": \"/data/tiny\", "
             "\"whole\": \"000000000000002a\", \"digest\": \"0123456789abcdef\"}}",
             keys);
    write_text("metadata.json", text);
}

static const char *keys(uint32_t index, uint32_t n_rows, const void *part, size_t n)
{
    static char text[256];
    snprintf(text, sizeof text,
             "\"index\": %u, \"count\": 2, \"rows\": %u, \"partition\": \"%016llx\"", index, n_rows,
             (unsigned long long)XXH3_64bits(part, n));
    return text;
}

// Shard 1 of 2 of the tiny data set.
static void shard_begin(void)
{
    tiny_begin();
    write_list("node_part.npy", SL_DTYPE_U8, 5, parts);
    write_list("node_row.npy", SL_DTYPE_U32, 5, rows);
    write_npy("node_feat.npy", SL_DTYPE_F32, 2, (uint64_t[]){3, 3}, feat);
    write_metadata(keys(1, 3, parts, sizeof parts));
}

static int open_it(struct sl_dataset *ds)
{
    return sl_dataset_open(dir, SL_NEED_TRAINING | SL_TAKES_SHARD, SL_CHECK_CACHED, 1, ds);
}

CASE(.begin = scratch_begin, .end = scratch_end)

// One byte a vertex, and two.
LOOP_TEST(a_shard_says_where_every_row_is, 0, 2)
{
    struct sl_dataset ds;
    const uint16_t wide[5] = {1, 0, 1, 1, 0};
    shard_begin();
    if (_i == 1) {
        write_list("node_part.npy", SL_DTYPE_U16, 5, wide);
        write_metadata(keys(1, 3, wide, sizeof wide));
    }
    must(open_it(&ds));
    ck_assert_uint_eq(ds.shard.index, 1);
    ck_assert_uint_eq(ds.shard.count, 2);
    ck_assert_uint_eq(ds.shard.digest, 0x0123456789abcdef);
    ck_assert_uint_eq(sl_dataset_identity(&ds), 42);
    ck_assert_uint_eq(sl_dataset_rows(&ds), 3);
    ck_assert_uint_eq(sl_features_bytes(&ds), 3 * 3 * sizeof(float));
    for (uint32_t v = 0; v < 5; v++) {
        const struct sl_shard_place at = sl_shard_place(&ds.shard, v);
        ck_assert_uint_eq(at.part, parts[v]);
        ck_assert_uint_eq(at.row, rows[v]);
        if (at.part == 1)
            ck_assert_float_eq(((const float *)ds.feat)[3 * at.row], (float)(3 * v));
    }
    sl_dataset_close(&ds);
}

TEST(a_whole_data_set_is_no_shard_whatever_lies_beside_it)
{
    struct sl_dataset ds;
    tiny_begin();
    write_list("node_part.npy", SL_DTYPE_U8, 3, parts);
    must(sl_dataset_open(dir, SL_NEED_TRAINING, SL_CHECK_CACHED, 1, &ds));
    ck_assert_uint_eq(ds.shard.count, 0);
    ck_assert_uint_eq(sl_dataset_rows(&ds), 5);
    ck_assert_uint_eq(sl_dataset_identity(&ds), ds.digest);
    sl_dataset_close(&ds);
}

TEST(who_wants_all_features_is_refused_a_shard)
{
    struct sl_dataset ds;
    shard_begin();
    const unsigned needs[] = {0, SL_NEED_TOPOLOGY, SL_NEED_FEATURES, SL_NEED_TRAINING};
    for (size_t i = 0; i < SL_COUNT_OF(needs); i++) {
        ck_assert_int_eq(sl_dataset_open(dir, needs[i], SL_CHECK_CACHED, 1, &ds), SL_EINVAL);
        assert_message_has("is shard 1 of 2 (the first is 0)");
        assert_message_has("features of 40 % of the vertices are on other nodes");
        assert_message_has("\"nodes\": \"auto\"");
        assert_message_has("/data/tiny");
    }
}

// Whoever opens it for a job gets it as it was validated, places and all.
TEST(a_shard_opens_by_its_record)
{
    struct sl_dataset ds, again;
    shard_begin();
    must(open_it(&ds));
    char *record = sl_dataset_record(&ds);
    must(sl_dataset_open_recorded(dir, SL_NEED_TRAINING | SL_TAKES_SHARD, record, 1, &again));
    ck_assert_uint_eq(sl_shard_place(&again.shard, 3).row, 2);
    sl_dataset_close(&again);
    write_list("node_row.npy", SL_DTYPE_U32, 5, rows); // another file
    ck_assert_int_eq(
        sl_dataset_open_recorded(dir, SL_NEED_TRAINING | SL_TAKES_SHARD, record, 1, &again),
        SL_ECHANGED);
    assert_message_has("node_row.npy");
    free(record);
    sl_dataset_close(&ds);
}

TEST(nodes_compare_what_their_shards_share)
{
    struct sl_dataset ds;
    struct sl_dataset_content found[SL_DATASET_PARTS_MAX + 1];
    bool has_part = false;
    shard_begin();
    must(open_it(&ds));
    const uint32_t n = sl_dataset_contents(&ds, found);
    ck_assert_uint_eq(found[0].digest, ds.shard.digest);
    for (uint32_t i = 0; i < n; i++) {
        ck_assert_str_ne(found[i].name, "node_feat.npy");
        has_part |= strcmp(found[i].name, "node_part.npy") == 0;
    }
    ck_assert(has_part);
    sl_dataset_close(&ds);
}

// ---- damage -------------------------------------------------------------------------------------

static void no_part(void)
{
    unlink(in_dir("node_part.npy"));
}
static void no_row(void)
{
    unlink(in_dir("node_row.npy"));
}
static void short_part(void)
{
    write_list("node_part.npy", SL_DTYPE_U8, 4, parts);
}
static void other_type(void)
{
    write_list("node_part.npy", SL_DTYPE_F32, 5, feat);
}
static void short_row(void)
{
    write_list("node_row.npy", SL_DTYPE_U32, 4, rows);
}
static void signed_row(void)
{
    write_list("node_row.npy", SL_DTYPE_I32, 5, rows);
}
static void wide_part(void)
{
    write_list("node_part.npy", SL_DTYPE_U8, 5, (uint8_t[]){1, 0, 2, 1, 0});
}
static void wrong_row(void)
{
    write_list("node_row.npy", SL_DTYPE_U32, 5, (uint32_t[]){0, 0, 1, 1, 1});
}
static void other_partition(void) // as many vertices in each part
{
    write_list("node_part.npy", SL_DTYPE_U8, 5, (uint8_t[]){1, 1, 0, 1, 0});
    write_list("node_row.npy", SL_DTYPE_U32, 5, (uint32_t[]){0, 1, 0, 2, 1});
}
static void all_features(void)
{
    const float zeros[15] = {0};
    write_npy("node_feat.npy", SL_DTYPE_F32, 2, (uint64_t[]){5, 3}, zeros);
}
static void fewer_rows(void)
{
    write_metadata(keys(1, 2, parts, sizeof parts));
    write_npy("node_feat.npy", SL_DTYPE_F32, 2, (uint64_t[]){2, 3}, feat);
}
static void more_rows(void)
{
    write_metadata(keys(1, 6, parts, sizeof parts));
}
static void index_2(void)
{
    write_metadata(keys(2, 3, parts, sizeof parts));
}
static void no_count(void)
{
    write_metadata("\"index\": 1, \"rows\": 3");
}
static void bad_digest(void)
{
    write_metadata("\"index\": 1, \"count\": 2, \"rows\": 3, \"partition\": \"12\"");
}
static void not_finite(void)
{
    const float x[9] = {[8] = __builtin_inff()};
    write_npy("node_feat.npy", SL_DTYPE_F32, 2, (uint64_t[]){3, 3}, x);
}

static const struct {
    void (*damage)(void);
    int rc;
    const char *says[3];
} damages[] = {
    {no_part, SL_ENOENT, {"has no node_part.npy", "sluice partition --out"}},
    {no_row, SL_ENOENT, {"has no node_row.npy"}},
    {short_part, SL_EFORMAT, {"node_part.npy: is uint8 (4,)", "num_nodes = 5"}},
    {other_type, SL_EFORMAT, {"node_part.npy: is float32 (5,)", "wanted uint8 or uint16"}},
    {short_row, SL_EFORMAT, {"node_row.npy: is uint32 (4,)", "num_nodes = 5"}},
    {signed_row, SL_EFORMAT, {"node_row.npy: is int32 (5,)", "wanted uint32"}},
    {wide_part, SL_EFORMAT, {"node_part.npy: element 2 is 2", "less than shard.count = 2"}},
    {wrong_row, SL_EFORMAT, {"node_row.npy: element 3 is 1, wanted 2", "part 1"}},
    {other_partition, SL_EFORMAT, {"node_part.npy: its digest is", "another partition"}},
    {all_features, SL_EFORMAT, {"node_feat.npy: is float32 (5, 3)", "shard.rows", "(3, 3)"}},
    {fewer_rows, SL_EFORMAT, {"\"shard.rows\" is 2, wanted 3", "part 1"}},
    {more_rows, SL_EFORMAT, {"\"shard.rows\" is 6", "num_nodes = 5"}},
    {index_2, SL_EFORMAT, {"\"shard.index\" is 2", "\"shard.count\" = 2"}},
    {no_count, SL_EFORMAT, {"has no \"shard.count\""}},
    {bad_digest, SL_EFORMAT, {"\"shard.partition\" is not a text of 16"}},
    {not_finite, SL_EFORMAT, {"node_feat.npy: row 2, column 2 is Inf"}},
};

LOOP_TEST(a_damaged_shard_is_told, 0, sizeof damages / sizeof *damages)
{
    struct sl_dataset ds;
    shard_begin();
    damages[_i].damage();
    ck_assert_int_eq(open_it(&ds), damages[_i].rc);
    for (size_t i = 0; i < SL_COUNT_OF(damages[_i].says); i++)
        assert_message_has(damages[_i].says[i]);
}

// ---- which one ----------------------------------------------------------------------------------

static void parent_begin(void)
{
    dir_begin();
    write_text("metadata.json", "{\"num_nodes\": 5, \"num_edges\": 7, \"shards\": 2}");
}

TEST(a_directory_of_shards_is_no_data_set)
{
    struct sl_dataset ds;
    parent_begin();
    ck_assert_int_eq(open_it(&ds), SL_EINVAL);
    assert_message_has("holds 2 shards, one for each node");
}

TEST(each_node_finds_its_own_shard)
{
    char out[4096], wanted[4096];
    parent_begin();
    for (uint32_t i = 0; i < 2; i++) {
        must(sl_shard_find(dir, i, 2, out, sizeof out));
        snprintf(wanted, sizeof wanted, "%s/%u", dir, i);
        ck_assert_str_eq(out, wanted);
    }
    ck_assert_int_eq(sl_shard_find(dir, 0, 3, out, sizeof out), SL_EINVAL);
    assert_message_has("is of 2 shards, and the job has 3 nodes");
    ck_assert_int_eq(sl_shard_find(dir, 0, 2, out, 8), SL_EINVAL);
    shard_begin();
    must(sl_shard_find(dir, 1, 2, out, sizeof out));
    ck_assert_str_eq(out, dir);
    ck_assert_int_eq(sl_shard_find(dir, 0, 2, out, sizeof out), SL_EINVAL);
    assert_message_has("is shard 1 of 2, wanted shard 0");
    ck_assert_int_eq(sl_shard_find(dir, 1, 4, out, sizeof out), SL_EINVAL);
    assert_message_has("sluice partition /data/tiny --parts 4 --out");
    tiny_begin();
    must(sl_shard_find(dir, 7, 9, out, sizeof out));
    ck_assert_str_eq(out, dir);
    ck_assert_int_eq(sl_shard_find(in_dir("none"), 0, 2, out, sizeof out), SL_ENOENT);
}

RUN_TESTS()
