// Shards: the place of every vertex, its row's bytes, and what all shards share.
#include "partition/shards.h"

#include "tests/unit/partition_graph.h"
#include "tests/unit/suite.h"

enum { DIM = 3 };

static uint16_t part[GRAPH_NODES_MAX];
static uint16_t rows[GRAPH_NODES_MAX][2 * DIM]; // of float32 two words a number
static struct sl_dataset source;
static struct sl_shards shards;
static char out[600];

// A data set of n vertices with features whose bytes tell the vertex.
static void begin(uint32_t n, uint32_t n_parts, enum sl_dtype dtype)
{
    char text[160];
    write_graph(n, n_parts, 1);
    snprintf(text, sizeof text,
             "{\"name\": \"random\", \"num_nodes\": %u, \"num_edges\": %llu, \"feat_dim\": %d, "
             "\"mine\": 7}",
             n, (unsigned long long)graph.n_edges, DIM);
    write_text("metadata.json", text);
    memset(rows, 0, sizeof rows);
    static uint16_t packed[GRAPH_NODES_MAX * 2 * DIM];
    const size_t words = dtype == SL_DTYPE_F16 ? 1 : 2;
    for (uint32_t v = 0; v < n; v++) {
        for (size_t i = 0; i < DIM; i++)
            rows[v][i * words] = (uint16_t)(v * DIM + i); // tiny numbers
        memcpy(&packed[v * DIM * words], rows[v], DIM * words * 2);
    }
    write_npy("node_feat.npy", dtype, 2, (uint64_t[]){n, DIM}, packed);
    write_list("node_part.npy", SL_DTYPE_U8, 1, packed); // of an earlier partition
    write_text("notes.txt", "mine");
    must(sl_dataset_open(dir, SL_NEED_TOPOLOGY, SL_CHECK_CACHED, 1, &source));
    task.ds = &source;
    snprintf(out, sizeof out, "%s-shards", dir);
}

static void write_them(int topology)
{
    shards = (struct sl_shards){.topology = topology};
    must(sl_shards_open(&shards, out, false));
    must(sl_shards_write(&shards, &task, part));
    sl_shards_abort(&shards);
}

static void open_shard(uint32_t i, struct sl_dataset *ds)
{
    char path[sizeof source.path];
    must(sl_shard_find(out, i, task.n_parts, path, sizeof path));
    must(sl_dataset_open(path, SL_TAKES_SHARD, SL_CHECK_FULL, 1, ds));
}

// Every vertex of every shard, by a count of its own.
static void expect_shard(uint32_t i)
{
    struct sl_dataset ds;
    uint32_t n[SL_SHARDS_MAX] = {0};
    open_shard(i, &ds);
    const size_t bytes = DIM * sl_dtype_bytes(source.feat_dtype);
    for (uint32_t v = 0; v < source.n_nodes; v++) {
        const struct sl_shard_place at = sl_shard_place(&ds.shard, v);
        ck_assert_uint_eq(at.part, part[v]);
        ck_assert_uint_eq(at.row, n[part[v]]++);
        if (part[v] == i)
            ck_assert_mem_eq((const char *)ds.feat + at.row * bytes, rows[v], bytes);
    }
    ck_assert_uint_eq(ds.shard.n_local, n[i]);
    ck_assert_uint_eq(ds.shard.index, i);
    ck_assert_uint_eq(ds.shard.count, task.n_parts);
    ck_assert_uint_eq(ds.shard.digest, shards.digest);
    ck_assert_uint_eq(sl_dataset_identity(&ds), source.digest);
    ck_assert_uint_eq(ds.n_edges, source.n_edges);
    ck_assert_mem_eq(ds.indices, source.indices,
                     source.n_edges * sl_dtype_bytes(source.indices_dtype));
    sl_dataset_close(&ds);
}

CASE(.begin = scratch_begin, .end = scratch_end, .timeout_s = 60)

// Parts that have nothing, that have all, and more than are written at once.
static const struct {
    uint32_t n, n_parts, n_used;
    enum sl_dtype dtype;
} spreads[] = {
    {1, 1, 1, SL_DTYPE_F32},     {1, 3, 1, SL_DTYPE_F16},   {2, 2, 2, SL_DTYPE_F32},
    {300, 1, 1, SL_DTYPE_F16},   {300, 4, 4, SL_DTYPE_F32}, {300, 4, 2, SL_DTYPE_F16},
    {400, 66, 66, SL_DTYPE_F32},
};

LOOP_TEST(every_row_is_where_its_place_says, 0, sizeof spreads / sizeof *spreads)
{
    const uint32_t n = spreads[_i].n, n_parts = spreads[_i].n_parts;
    begin(n, n_parts, spreads[_i].dtype);
    for (uint32_t v = 0; v < n; v++) // the last ones, so that the first are empty
        part[v] = (uint16_t)(n_parts - 1 - (uint32_t)rand() % spreads[_i].n_used);
    write_them(SL_SHARDS_LINK);
    for (uint32_t i = 0; i < n_parts; i++)
        expect_shard(i);
    sl_dataset_close(&source);
    free_graph();
}

static void spread_30(int topology)
{
    begin(30, 3, SL_DTYPE_F32);
    for (uint32_t v = 0; v < 30; v++)
        part[v] = (uint16_t)(v * 7 % 3);
    write_them(topology);
}

static struct stat look(const char *shard, const char *name)
{
    struct stat st;
    char path[700];
    snprintf(path, sizeof path, "%s%s%s", shard ? out : dir, shard ? shard : "/", name);
    ck_assert_msg(stat(path, &st) == 0, "%s", path);
    return st;
}

TEST(what_all_have_is_linked_or_copied)
{
    spread_30(SL_SHARDS_LINK);
    ck_assert_uint_eq(look("/2/", "indices.npy").st_ino, look(NULL, "indices.npy").st_ino);
    ck_assert_uint_eq(look("/2/", "node_row.npy").st_ino, look("/0/", "node_row.npy").st_ino);
    ck_assert_uint_eq(shards.shared.n_files, 3 * 3 + 2 * 2);
    ck_assert_uint_eq(shards.shared.n_copied, 0);
    ck_assert_str_eq(shards.shared.why, "");
    const uint64_t digest = shards.digest;
    snprintf(out, sizeof out, "%s-copies", dir);
    write_them(SL_SHARDS_COPY);
    for (uint32_t i = 0; i < 3; i++)
        expect_shard(i);
    ck_assert_uint_eq(look("/2/", "indices.npy").st_nlink, 1);
    ck_assert_uint_eq(look("/2/", "node_row.npy").st_nlink, 1);
    ck_assert_uint_eq(shards.shared.n_copied, shards.shared.n_files);
    ck_assert_uint_eq(shards.digest, digest);
    sl_dataset_close(&source);
}

TEST(a_digest_is_of_the_partition_and_of_the_data)
{
    spread_30(SL_SHARDS_LINK);
    const uint64_t digest = shards.digest;
    part[7] = (uint16_t)((part[7] + 1) % 3);
    snprintf(out, sizeof out, "%s-other", dir);
    write_them(SL_SHARDS_LINK);
    ck_assert_uint_ne(shards.digest, digest);
    part[7] = (uint16_t)((part[7] + 2) % 3);
    sl_dataset_close(&source);
    const float zeros[30 * DIM] = {0};
    write_npy("node_feat.npy", SL_DTYPE_F32, 2, (uint64_t[]){30, DIM}, zeros);
    must(sl_dataset_open(dir, SL_NEED_TOPOLOGY, SL_CHECK_CACHED, 1, &source));
    snprintf(out, sizeof out, "%s-zeros", dir);
    write_them(SL_SHARDS_LINK);
    ck_assert_uint_ne(shards.digest, digest);
    sl_dataset_close(&source);
}

TEST(a_data_set_without_features_is_spread_too)
{
    struct sl_dataset ds;
    write_graph(30, 3, 1);
    must(sl_dataset_open(dir, SL_NEED_TOPOLOGY, SL_CHECK_CACHED, 1, &source));
    task.ds = &source;
    snprintf(out, sizeof out, "%s-shards", dir);
    write_them(SL_SHARDS_LINK);
    open_shard(2, &ds);
    ck_assert_ptr_null(ds.feat);
    ck_assert_uint_eq(ds.shard.count, 3);
    sl_dataset_close(&ds);
    sl_dataset_close(&source);
}

TEST(a_file_that_was_replaced_since_it_was_opened_is_told)
{
    begin(30, 3, SL_DTYPE_F32);
    write_list("train_idx.npy", SL_DTYPE_I32, 1, training);
    shards = (struct sl_shards){0};
    must(sl_shards_open(&shards, out, false));
    ck_assert_int_eq(sl_shards_write(&shards, &task, part), SL_ECHANGED);
    assert_message_has("train_idx.npy: was replaced");
    sl_shards_abort(&shards);
    ck_assert_int_ne(access(out, F_OK), 0);
    ck_assert_int_ne(access(shards.st.dir, F_OK), 0);
    sl_dataset_close(&source);
}

TEST(shards_that_are_there_stay_or_are_replaced)
{
    spread_30(SL_SHARDS_LINK);
    ck_assert_int_eq(sl_shards_open(&shards, out, false), SL_EEXIST);
    task.n_parts = 2;
    for (uint32_t v = 0; v < 30; v++)
        part[v] %= 2;
    must(sl_shards_open(&shards, out, true));
    must(sl_shards_write(&shards, &task, part));
    for (uint32_t i = 0; i < 2; i++)
        expect_shard(i);
    char third[700];
    snprintf(third, sizeof third, "%s/2", out);
    ck_assert_int_ne(access(third, F_OK), 0);
    ck_assert_uint_eq(look(NULL, "indices.npy").st_nlink, 3); // of the old ones nothing is left
    sl_dataset_close(&source);
}

RUN_TESTS()
