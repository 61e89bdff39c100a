// Shards of a graph with types: rows of every width, types with nothing in a part, damage.
#include "partition/shards.h"

#include "common/data/dataset_contents.h"
#include "common/data/features_kind.h"
#include "tests/unit/partition_graph.h"
#include "tests/unit/suite.h"

enum { PAPERS = 30, AUTHORS = 20, FIELDS = 10, BARE = 8, ALL = 68, TYPES = 5, WIDEST = 12 };

static const char metadata[] =
    "{\"num_nodes\": 68, \"num_edges\": 2, \"types\": ["
    "{\"name\": \"paper\", \"count\": 30, \"feat_dim\": 3}, "
    "{\"name\": \"author\", \"count\": 20, \"feat_dim\": 5}, "
    "{\"name\": \"bare\", \"count\": 8}, "
    "{\"name\": \"none\", \"count\": 0, \"feat_dim\": 2}, "
    "{\"name\": \"field\", \"count\": 10, \"feat_dim\": 1}], "
    "\"relations\": [{\"source\": \"author\", \"name\": \"writes\", \"target\": \"paper\", "
    "\"edges\": 2}], \"mine\": 7}";
static const uint32_t first[TYPES + 1] = {
    0, PAPERS, PAPERS + AUTHORS, PAPERS + AUTHORS + BARE, PAPERS + AUTHORS + BARE, ALL};
static const uint32_t bytes_of[TYPES] = {12, 10, 0, 8, 4}; // half precision of authors

static struct sl_dataset source;
static struct sl_shards shards;
static uint16_t part[ALL];
static char out[600];

// Small numbers that tell the vertex, whatever their width.
static void make_row(uint32_t v, uint32_t bytes, char *row)
{
    memset(row, 0, bytes);
    for (uint32_t i = 0; i < bytes; i += bytes == 10 ? 2 : 4)
        row[i] = (char)(v + 1 + i);
}

static void write_features(const char *name, enum sl_dtype dtype, uint32_t t, uint32_t dim)
{
    char rows[PAPERS * WIDEST];
    const uint32_t n = first[t + 1] - first[t];
    for (uint32_t i = 0; i < n; i++)
        make_row(first[t] + i, bytes_of[t], rows + (size_t)i * bytes_of[t]);
    write_npy(name, dtype, 2, (uint64_t[]){n, dim}, rows);
}

static void begin(uint32_t n_parts)
{
    uint64_t offsets[PAPERS + 1] = {0};
    for (uint32_t i = 1; i <= PAPERS; i++)
        offsets[i] = i < 3 ? i : 2;
    dir_begin();
    write_text("metadata.json", metadata);
    write_list("indptr.npy", SL_DTYPE_I64, PAPERS + 1, offsets);
    write_list("indices.npy", SL_DTYPE_I32, 2, (uint32_t[]){PAPERS, PAPERS + 7});
    write_features("node_feat.paper.npy", SL_DTYPE_F32, 0, 3);
    write_features("node_feat.author.npy", SL_DTYPE_F16, 1, 5);
    write_features("node_feat.none.npy", SL_DTYPE_F32, 3, 2);
    write_features("node_feat.field.npy", SL_DTYPE_F32, 4, 1);
    must(sl_dataset_open(dir, SL_NEED_TOPOLOGY, SL_CHECK_CACHED, 1, &source));
    task = (struct sl_parts_task){.ds = &source, .n_parts = n_parts, .progress = &quiet};
    sl_progress_init(&quiet, true);
    snprintf(out, sizeof out, "%s-shards", dir);
}

static void write_them(void)
{
    shards = (struct sl_shards){0};
    must(sl_shards_open(&shards, out, false));
    must(sl_shards_write(&shards, &task, part));
    sl_shards_abort(&shards);
}

static int open_shard(uint32_t i, struct sl_dataset *ds)
{
    char path[sizeof source.path];
    must(sl_shard_find(out, i, task.n_parts, path, sizeof path));
    return sl_dataset_open(path, SL_TAKES_SHARD, SL_CHECK_FULL, 1, ds);
}

static void expect_row(const struct sl_dataset *ds, uint32_t v)
{
    const struct sl_feature_table table = sl_dataset_table_of(ds, v);
    const uint32_t at = sl_shard_place(&ds->shard, v).row;
    char wanted[WIDEST];
    ck_assert_uint_lt(at, table.n_rows);
    if (table.row_bytes == 0)
        return;
    make_row(v, (uint32_t)table.row_bytes, wanted);
    ck_assert_mem_eq((const char *)table.rows + at * table.row_bytes, wanted, table.row_bytes);
}

static void expect_shard(uint32_t i)
{
    struct sl_dataset ds;
    struct sl_dataset_content content[SL_DATASET_PARTS_MAX + 1];
    uint64_t n_rows = 0, bytes = 0;
    must(open_shard(i, &ds));
    for (uint32_t t = 0; t < TYPES; t++) {
        uint32_t n[SL_SHARDS_MAX] = {0};
        for (uint32_t v = first[t]; v < first[t + 1]; v++) {
            const struct sl_shard_place at = sl_shard_place(&ds.shard, v);
            ck_assert_uint_eq(at.part, part[v]);
            ck_assert_uint_eq(at.row, n[part[v]]++);
            if (part[v] == i) {
                expect_row(&ds, v);
                ck_assert_uint_eq(sl_dataset_table_of(&ds, v).rows_before, n_rows);
            }
        }
        ck_assert_uint_eq(sl_dataset_type_rows(&ds, &ds.typed.type[t]), n[i]);
        n_rows += n[i];
        bytes += n[i] * bytes_of[t];
    }
    ck_assert_uint_eq(ds.shard.n_local, n_rows);
    ck_assert_uint_eq(sl_features_bytes(&ds), bytes);
    ck_assert_uint_eq(sl_dataset_widest_row(&ds), WIDEST);
    ck_assert_uint_eq(sl_dataset_identity(&ds), source.digest);
    for (uint32_t k = sl_dataset_contents(&ds, content); k-- > 0;)
        ck_assert_ptr_null(strstr(content[k].name, "node_feat"));
    sl_dataset_close(&ds);
}

CASE(.begin = scratch_begin, .end = scratch_end, .timeout_s = 60)

// One node; parts with rows of some types alone; a part of nothing.
LOOP_TEST(rows_of_each_type_are_where_their_places_say, 1, 5)
{
    begin((uint32_t)_i);
    for (uint32_t v = 0; v < ALL; v++)
        part[v] = (uint16_t)(_i == 2 ? v >= PAPERS : _i == 4 ? v * 7 % 3 : v * 7 % (uint32_t)_i);
    write_them();
    for (uint32_t i = 0; i < task.n_parts; i++)
        expect_shard(i);
    sl_dataset_close(&source);
}

// ---- damage -------------------------------------------------------------------------------------

static void say_rows(const char *rows, uint32_t n)
{
    char text[2048];
    const int head = (int)sizeof metadata - 2;
    struct sl_dataset ds;
    must(open_shard(1, &ds));
    snprintf(text, sizeof text,
             "%.*s, \"shard\": {\"index\": 1, \"count\": 2, \"rows\": %u%s, \"whole\": "
             "\"000000000000002a\", \"digest\": \"000000000000002a\", \"partition\": "
             "\"%016llx\"}}",
             head, metadata, n, rows, (unsigned long long)ds.files->partition);
    sl_dataset_close(&ds);
    write_text("metadata.json", text);
}
static void no_rows(void)
{
    say_rows("", 34);
}
static void few_types(void)
{
    say_rows(", \"type_rows\": [15, 10, 4, 0]", 34);
}
static void more_than_all(void)
{
    say_rows(", \"type_rows\": [15, 21, 4, 0, 5]", 45);
}
static void half_a_row(void)
{
    say_rows(", \"type_rows\": [15.5, 10, 4, 0, 5]", 34);
}
static void other_sum(void)
{
    say_rows(", \"type_rows\": [15, 10, 4, 0, 5]", 35);
}
// Of types without features one row fewer, of those with some one more.
static void of_another_type(void)
{
    say_rows(", \"type_rows\": [15, 10, 3, 0, 6]", 34);
    write_npy("node_feat.field.npy", SL_DTYPE_F32, 2, (uint64_t[]){6, 1}, (float[6]){0});
}
static void all_authors(void)
{
    write_npy("node_feat.author.npy", SL_DTYPE_F16, 2, (uint64_t[]){20, 5}, (uint16_t[100]){0});
}
static void no_authors(void)
{
    unlink(in_dir("node_feat.author.npy"));
}
// As of one type.
static void rows_by_part(void)
{
    uint32_t rows[ALL];
    for (uint32_t v = 0; v < ALL; v++)
        rows[v] = v / 2;
    write_list("node_row.npy", SL_DTYPE_U32, ALL, rows);
}

static const struct {
    void (*damage)(void);
    int rc;
    const char *says[3];
} damages[] = {
    {no_rows, SL_EFORMAT, {"\"shard.type_rows\" is a list of 0, wanted 5"}},
    {few_types, SL_EFORMAT, {"\"shard.type_rows\" is a list of 4, wanted 5"}},
    {more_than_all, SL_EFORMAT, {"\"shard.type_rows[1]\" is 21", "up to 20", "author"}},
    {half_a_row, SL_EFORMAT, {"\"shard.type_rows[0]\" is 15.5", "whole number up to 30"}},
    {other_sum, SL_EFORMAT, {"\"shard.rows\" is 35, wanted 34"}},
    {of_another_type, SL_EFORMAT, {"\"shard.type_rows[2]\" is 3, wanted 4", "\"bare\""}},
    {all_authors, SL_EFORMAT, {"node_feat.author.npy: is float16 (20, 5)", "(10, 5)", "type_rows"}},
    {no_authors, SL_ENOENT, {"has no node_feat.author.npy", "10 x 5"}},
    {rows_by_part, SL_EFORMAT, {"node_row.npy: element 30 is 15, wanted 0", "of its type"}},
};

LOOP_TEST(a_damaged_shard_of_types_is_told, 0, SL_COUNT_OF(damages))
{
    struct sl_dataset ds;
    begin(2);
    for (uint32_t v = 0; v < ALL; v++)
        part[v] = v % 2;
    write_them();
    sl_dataset_close(&source);
    snprintf(dir, sizeof dir, "%.500s/1", out);
    damages[_i].damage();
    ck_assert_int_eq(open_shard(1, &ds), damages[_i].rc);
    for (size_t i = 0; i < SL_COUNT_OF(damages[_i].says) && damages[_i].says[i]; i++)
        assert_message_has(damages[_i].says[i]);
}

RUN_TESTS()
