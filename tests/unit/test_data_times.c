// Times of edges and seeds: edge_time.npy and node_time.npy, where they are needed.
#include "common/data/dataset.h"
#include "common/data/dataset_internal.h"
#include "tests/unit/suite.h"
#include "tests/unit/test_data_fixture.h"

enum { NEED = SL_NEED_TOPOLOGY | SL_NEED_TIMES };

static struct sl_dataset ds;

static void setup(void)
{
    tiny_begin();
    // Rows of 0, 3, 2, 1 and 1 edges: times fall from row to row, and rise in each.
    WRITE_I64("edge_time.npy", 5, 5, INT64_MAX, -2, 0, -7, INT64_MIN);
    WRITE_I64("node_time.npy", 1, 2, 3, 4, -5);
}

static int open_times(unsigned need)
{
    return sl_dataset_open(dir, need, SL_CHECK_CACHED, 2, &ds);
}

// For who validates, and for who is handed the record.
TEST(times_are_there_where_they_are_needed)
{
    char *record = NULL;
    for (int recorded = 0; recorded < 2; recorded++) {
        must(recorded ? sl_dataset_open_recorded(dir, NEED, record, 2, &ds) : open_times(NEED));
        ck_assert_int_eq(ds.validated_now, !recorded);
        ck_assert_int_eq(ds.times_rise, 1);
        ck_assert_int_eq(ds.edge_time[3], -2);
        ck_assert_int_eq(ds.node_time[4], -5);
        free(record);
        record = sl_dataset_record(&ds);
        sl_dataset_close(&ds);
    }
    free(record);
    must(open_times(SL_NEED_TOPOLOGY));
    ck_assert_int_eq(ds.times_rise, 1);
    ck_assert_ptr_null(ds.edge_time);
    ck_assert_ptr_null(ds.node_time);
    sl_dataset_close(&ds);
}

// By who validated it, and by who was handed the record.
TEST(times_that_fall_are_named)
{
    WRITE_I64("edge_time.npy", 5, 5, 6, 1, 0, 3, 2);
    must(open_times(SL_NEED_TOPOLOGY)); // nobody needs them
    ck_assert_int_eq(ds.times_rise, 0);
    char *record = sl_dataset_record(&ds);
    sl_dataset_close(&ds);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(i < 2 ? open_times(NEED)
                               : sl_dataset_open_recorded(dir, NEED, record, 2, &ds),
                         SL_EFORMAT);
        assert_message_has("edge_time.npy: element 4 (edge 1 of vertex 2) is 0, earlier than the "
                           "one before it, 1");
        assert_message_has("sort each list by time");
        ck_assert_ptr_null(ds.files);
    }
    free(record);
}

static const struct {
    const char *file;
    enum sl_dtype dtype;
    uint64_t n;
    const char *says;
} wrong[] = {
    {"edge_time.npy", SL_DTYPE_F32, 7, "edge_time.npy: is float32 (7,), wanted one dimension"},
    {"edge_time.npy", SL_DTYPE_I64, 6, "num_edges = 7"},
    {"node_time.npy", SL_DTYPE_I64, 7, "num_nodes = 5"},
    {"node_time.npy", SL_DTYPE_I32, 5, "node_time.npy: is int32 (5,)"},
};

// Who needs no times may have such files, whatever they are.
LOOP_TEST(files_of_another_shape_are_refused, 0, SL_COUNT_OF(wrong))
{
    static const int64_t words[7];
    write_list(wrong[_i].file, wrong[_i].dtype, wrong[_i].n, words);
    must(open_times(SL_NEED_TOPOLOGY));
    sl_dataset_close(&ds);
    ck_assert_int_eq(open_times(NEED), SL_EFORMAT);
    assert_message_has(wrong[_i].says);
    assert_message_has("astype(numpy.int64)");
}

TEST(files_that_are_missing_or_no_arrays)
{
    write_text("edge_time.npy", "mine");
    must(open_times(SL_NEED_TOPOLOGY));
    sl_dataset_close(&ds);
    ck_assert_int_lt(open_times(NEED), 0);
    assert_message_has("edge_time.npy");
    ck_assert_int_eq(unlink(in_dir("edge_time.npy")), 0);
    ck_assert_int_eq(open_times(NEED), SL_ENOENT);
    assert_message_has("has no edge_time.npy: sampling by time needs it");
    WRITE_I64("edge_time.npy", 5, 5, 6, 0, 0, 3, 2);
    ck_assert_int_eq(unlink(in_dir("node_time.npy")), 0);
    ck_assert_int_eq(open_times(NEED), SL_ENOENT);
    assert_message_has("has no node_time.npy");
}

// Rows across the blocks of a pass: the first edge that is too early is found, wherever it is, and
// none in rising rows, whatever the number of threads.
TEST(falls_are_found_in_large_lists)
{
    enum { NODES = 3000, EDGES = 600000 };
    static int64_t time[EDGES];
    static uint64_t indptr[NODES + 1];
    struct sl_dataset_files files = {0};
    const uint64_t places[] = {1, 100, 262143, 262144, 262145, 524288, EDGES - 1};
    for (uint64_t v = 0; v <= NODES; v++) // half of them, then 40 or none, then many again
        indptr[v] = v == 0 ? 0 : v == NODES ? EDGES : EDGES / 2 + v / 2 * 40;
    for (uint64_t v = 0; v < NODES; v++)
        for (uint64_t e = indptr[v]; e < indptr[v + 1]; e++)
            time[e] = (int64_t)(e - indptr[v]) / 2 - (int64_t)v;
    struct sl_npy *npy = &files.npy[SL_FILE_EDGE_TIME];
    *npy = (struct sl_npy){.map = time,
                           .data = time,
                           .n_elems = EDGES,
                           .head = {.dtype = SL_DTYPE_I64, .ndim = 1, .shape = {EDGES}}};
    ds = (struct sl_dataset){.n_nodes = NODES, .n_edges = EDGES, .indptr = indptr, .files = &files};
    for (int threads = 1; threads < 4; threads += 2) {
        sl_dataset_validate_times(&ds, threads);
        ck_assert_int_eq(ds.times_rise, 1);
        for (size_t i = 0; i < SL_COUNT_OF(places); i++) {
            const int64_t was = time[places[i]];
            char says[64];
            time[places[i]] = INT64_MIN;
            sl_dataset_validate_times(&ds, threads);
            bool first = false; // of a row: then it is no fall
            for (uint64_t v = 0; v < NODES; v++)
                first |= indptr[v] == places[i];
            ck_assert_int_eq(ds.times_rise, first);
            snprintf(says, sizeof says, "element %llu (", (unsigned long long)places[i]);
            if (!first) {
                ck_assert_int_eq(sl_dataset_take_times(&ds, NEED, threads), SL_EFORMAT);
                assert_message_has(says);
            }
            time[places[i]] = was;
        }
    }
    ds.files = NULL;
}

RUN_TESTS(.setup = setup, .begin = scratch_begin, .end = scratch_end, .timeout_s = 20)
