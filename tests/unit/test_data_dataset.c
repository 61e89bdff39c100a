// Good data sets: what is seen through struct sl_dataset, and what the validation record saves.
#include "common/data/dataset.h"

#include <fcntl.h>
#include <time.h>

#include "tests/unit/suite.h"
#include "tests/unit/test_data_fixture.h"

static void open_with(struct sl_dataset *ds, enum sl_dataset_check check)
{
    must(sl_dataset_open(dir, SL_NEED_TRAINING, check, 2, ds));
}

static void assert_tiny(const struct sl_dataset *ds)
{
    static const uint64_t offsets[] = {0, 0, 3, 5, 6, 7};
    static const int32_t labels[] = {0, 1, 1, 0, -1};
    ck_assert_uint_eq(ds->n_nodes, 5);
    ck_assert_uint_eq(ds->n_edges, 7);
    ck_assert_uint_eq(ds->n_classes, 2);
    ck_assert_int_eq(ds->task, SL_TASK_MULTICLASS);
    ck_assert_mem_eq(ds->indptr, offsets, sizeof offsets);
    ck_assert_mem_eq(ds->label, labels, sizeof labels);
    ck_assert_uint_eq(ds->max_degree, 3);
    ck_assert_uint_eq(sl_dataset_degree(ds, 0), 0);
    ck_assert_uint_eq(sl_dataset_degree(ds, 1), 3);
    ck_assert_uint_eq(ds->split[SL_SPLIT_TRAIN].n, 2);
    ck_assert_uint_eq(ds->split[SL_SPLIT_TRAIN].ids[0], 3);
    ck_assert_uint_eq(ds->split[SL_SPLIT_TRAIN].ids[1], 1);
    ck_assert_uint_eq(ds->split[SL_SPLIT_TEST].ids[0], 2);
}

// The data set as it is now has the tiny one's figures.
static void expect_tiny(void)
{
    struct sl_dataset ds;
    open_with(&ds, SL_CHECK_FULL);
    assert_tiny(&ds);
    sl_dataset_close(&ds);
}

static void expect_label(uint64_t v, int32_t wanted)
{
    struct sl_dataset ds;
    open_with(&ds, SL_CHECK_FULL);
    ck_assert_int_eq(ds.label[v], wanted);
    ck_assert_int_eq(ds.task, SL_TASK_MULTICLASS); // it is what labels and classes say
    sl_dataset_close(&ds);
}

TEST(tiny_is_seen_as_written)
{
    struct sl_dataset ds;
    open_with(&ds, SL_CHECK_FULL);
    assert_tiny(&ds);
    ck_assert_str_eq(ds.name, "tiny");
    ck_assert_int_eq(ds.indices_dtype, SL_DTYPE_I32);
    ck_assert_int_eq(((const int32_t *)ds.indices)[2], 3);
    ck_assert_float_eq(ds.edge_weight[6], 6);
    ck_assert_uint_eq(ds.feat_dim, 3);
    ck_assert_int_eq(ds.feat_dtype, SL_DTYPE_F32);
    ck_assert_float_eq(((const float *)ds.feat)[14], -14);
    sl_dataset_close(&ds);
    sl_dataset_close(&ds); // a closed one is a zeroed one
    ck_assert_ptr_null(ds.indptr);
}

TEST(offsets_and_ids_may_be_of_any_width)
{
    static const enum sl_dtype types[] = {SL_DTYPE_I32, SL_DTYPE_U32, SL_DTYPE_I64, SL_DTYPE_U64};
    static const uint32_t offsets[] = {0, 0, 3, 5, 6, 7}, ids[] = {0, 2, 3, 1, 3, 0, 0};
    for (size_t i = 0; i < SL_COUNT_OF(types); i++) {
        uint64_t wide_offsets[6], wide_ids[7];
        for (int k = 0; k < 6; k++)
            wide_offsets[k] = offsets[k];
        for (int k = 0; k < 7; k++)
            wide_ids[k] = ids[k];
        bool wide = sl_dtype_bytes(types[i]) == 8;
        write_list("indptr.npy", types[i], 6, wide ? (void *)wide_offsets : (void *)offsets);
        write_list("indices.npy", types[i], 7, wide ? (void *)wide_ids : (void *)ids);
        struct sl_dataset ds;
        open_with(&ds, SL_CHECK_FULL);
        assert_tiny(&ds);
        ck_assert_int_eq(ds.indices_dtype, types[i]);
        ck_assert_mem_eq(ds.indices, wide ? (void *)wide_ids : (void *)ids, wide ? 56 : 28);
        sl_dataset_close(&ds);
    }
}

TEST(labels_may_be_of_any_integer_type)
{
    WRITE_I64("node_label.npy", 0, 1, 1, 0, -1);
    expect_tiny();
    write_list("node_label.npy", SL_DTYPE_I8, 5, (int8_t[]){0, 1, 1, 0, -1});
    expect_tiny();
    write_npy("node_label.npy", SL_DTYPE_I16, 2, (uint64_t[]){5, 1}, (int16_t[]){0, 1, 1, 0, -1});
    expect_tiny();
    write_list("node_label.npy", SL_DTYPE_U8, 5, (uint8_t[]){0, 1, 1, 0, 1});
    expect_label(4, 1);
}

TEST(narrow_labels_with_more_classes_than_they_can_name)
{
    static const int8_t edge[5] = {127, -1, 0, 1, 100};
    write_text("metadata.json", "{\"num_nodes\": 5, \"num_edges\": 7, \"feat_dim\": 3, "
                                "\"num_classes\": 70000}");
    write_list("node_label.npy", SL_DTYPE_I8, 5, edge);
    expect_label(0, 127);
    write_list("node_label.npy", SL_DTYPE_U8, 5, (uint8_t[]){255, 0, 1, 2, 3});
    expect_label(0, 255);
    write_list("node_label.npy", SL_DTYPE_U16, 5, (uint16_t[]){65535, 0, 1, 2, 3});
    expect_label(0, 65535);
    write_list("node_label.npy", SL_DTYPE_I16, 5, (int16_t[]){32767, -1, 1, 2, 3});
    expect_label(0, 32767);
}

TEST(half_precision_features_are_mapped)
{
    uint16_t h[15] = {0x3c00, 0xc000};
    struct sl_dataset ds;
    write_npy("node_feat.npy", SL_DTYPE_F16, 2, (uint64_t[]){5, 3}, h);
    open_with(&ds, SL_CHECK_FULL);
    ck_assert_int_eq(ds.feat_dtype, SL_DTYPE_F16);
    ck_assert_mem_eq(ds.feat, h, sizeof h);
    sl_dataset_close(&ds);
}

static void overwrite_end(const char *name, const void *bytes, size_t n)
{
    int fd = open(in_dir(name), O_WRONLY);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(pwrite(fd, bytes, n, lseek(fd, 0, SEEK_END) - (off_t)n), (ssize_t)n);
    ck_assert_int_eq(close(fd), 0);
}

// What lies in a file's mapping costs a second process, and a second start, nothing.
TEST(lists_are_copied_only_where_they_are_wide)
{
    static const int32_t narrow = 3;
    static const int64_t wide = 3;
    struct sl_dataset ds;
    WRITE_I32("train_idx.npy", 4, 1);
    open_with(&ds, SL_CHECK_FULL);
    ck_assert_uint_eq(ds.split[SL_SPLIT_TRAIN].n, 2);
    overwrite_end("train_idx.npy", &narrow, sizeof narrow);
    ck_assert_uint_eq(ds.split[SL_SPLIT_TRAIN].ids[0], 4);
    ck_assert_uint_eq(ds.split[SL_SPLIT_TRAIN].ids[1], 3);
    sl_dataset_close(&ds);
    WRITE_I64("train_idx.npy", 4, 1);
    open_with(&ds, SL_CHECK_FULL);
    overwrite_end("train_idx.npy", &wide, sizeof wide);
    ck_assert_uint_eq(ds.split[SL_SPLIT_TRAIN].ids[0], 4);
    ck_assert_uint_eq(ds.split[SL_SPLIT_TRAIN].ids[1], 1);
    sl_dataset_close(&ds);
}

TEST(the_earlier_order_is_seen)
{
    static const uint32_t before[] = {4, 0, 3, 1, 2};
    struct sl_dataset ds;
    open_with(&ds, SL_CHECK_FULL);
    ck_assert_ptr_null(ds.vertex_map);
    uint64_t digest = ds.digest;
    sl_dataset_close(&ds);
    WRITE_I32("vertex_map.npy", 4, 0, 3, 1, 2);
    open_with(&ds, SL_CHECK_FULL);
    ck_assert_mem_eq(ds.vertex_map, before, sizeof before);
    ck_assert_uint_ne(ds.digest, digest);
    sl_dataset_close(&ds);
    WRITE_I64("vertex_map.npy", 4, 0, 3, 1, 2);
    open_with(&ds, SL_CHECK_CACHED);
    ck_assert_mem_eq(ds.vertex_map, before, sizeof before);
    sl_dataset_close(&ds);
}

TEST(a_graph_may_be_empty)
{
    struct sl_dataset ds;
    dir_begin();
    write_text("metadata.json", "{\"num_nodes\": 0, \"num_edges\": 0}");
    WRITE_I64("indptr.npy", 0);
    write_list("indices.npy", SL_DTYPE_I32, 0, "");
    must(sl_dataset_open(dir, SL_NEED_TOPOLOGY, SL_CHECK_FULL, 0, &ds));
    ck_assert_uint_eq(ds.n_nodes, 0);
    ck_assert_uint_eq(ds.max_degree, 0);
    ck_assert_int_eq(ds.task, SL_TASK_NONE);
    ck_assert_str_eq(ds.name, strrchr(dir, '/') + 1); // for want of another
    sl_dataset_close(&ds);
}

TEST(marks_of_encodings_are_known)
{
    struct sl_dataset ds;
    dir_begin();
    write_text("metadata.json", "\xEF\xBB\xBF{\"num_nodes\": 0, \"num_edges\": 0}");
    WRITE_I64("indptr.npy", 0);
    write_list("indices.npy", SL_DTYPE_I32, 0, "");
    must(sl_dataset_open(dir, SL_NEED_TOPOLOGY, SL_CHECK_FULL, 0, &ds));
    sl_dataset_close(&ds);
    write_text("metadata.json", "\xFF\xFE{");
    ck_assert_int_eq(sl_dataset_open(dir, SL_NEED_TOPOLOGY, SL_CHECK_FULL, 0, &ds), SL_EFORMAT);
    assert_message_has("metadata.json: found UTF-16 text: wanted UTF-8: 'iconv -f UTF-16");
}

TEST(the_path_is_made_canonical)
{
    struct sl_dataset a, b;
    char detour[1024];
    snprintf(detour, sizeof detour, "%s/../%s//", dir, strrchr(dir, '/') + 1);
    open_with(&a, SL_CHECK_FULL);
    must(sl_dataset_open(detour, SL_NEED_TRAINING, SL_CHECK_FULL, 1, &b));
    ck_assert_str_eq(a.path, b.path);
    ck_assert_uint_eq(a.digest, b.digest);
    sl_dataset_close(&a);
    sl_dataset_close(&b);
}

// ---- the record ---------------------------------------------------------------------------------

// Files are remembered only when they are older than a tick of the kernel's clock: waits until that
// clock, which gives them their times, has ticked on for long enough.
static void settle(void)
{
    const struct timespec moment = {.tv_nsec = 1000000};
    struct timespec t;
    clock_gettime(CLOCK_REALTIME_COARSE, &t);
    const uint64_t from = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    do {
        nanosleep(&moment, NULL);
        clock_gettime(CLOCK_REALTIME_COARSE, &t);
    } while ((uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec < from + 60000000);
}

static bool validates(void)
{
    struct sl_dataset ds;
    open_with(&ds, SL_CHECK_CACHED);
    bool now = ds.validated_now;
    ck_assert_uint_eq(ds.max_degree, 3);
    sl_dataset_close(&ds);
    return now;
}

TEST(second_open_skips_the_pass)
{
    settle();
    int n = count_entries();
    ck_assert(validates());
    ck_assert(!validates());
    ck_assert(!validates());
    ck_assert_int_eq(count_entries(), n); // nothing is written into the data set
    struct sl_dataset ds;
    open_with(&ds, SL_CHECK_FULL);
    ck_assert(ds.validated_now); // always
    sl_dataset_close(&ds);
}

static bool is_loop_free(enum sl_dataset_check check)
{
    struct sl_dataset ds;
    open_with(&ds, check);
    bool free = ds.loop_free;
    sl_dataset_close(&ds);
    return free;
}

TEST(the_absence_of_self_loops_is_remembered)
{
    settle();
    ck_assert(is_loop_free(SL_CHECK_CACHED)); // validates
    ck_assert(is_loop_free(SL_CHECK_CACHED));
    WRITE_I32("indices.npy", 0, 2, 3, 2, 3, 0, 0);
    settle();
    ck_assert(!is_loop_free(SL_CHECK_CACHED));
    ck_assert(!is_loop_free(SL_CHECK_CACHED));
    ck_assert(!is_loop_free(SL_CHECK_FULL));
}

TEST(a_changed_file_is_validated_again)
{
    settle();
    ck_assert(validates());
    ck_assert(!validates());
    // In place, same size, by one element.
    FILE *f = fopen(in_dir("node_feat.npy"), "r+b");
    ck_assert_ptr_nonnull(f);
    fseek(f, -4, SEEK_END);
    fwrite("\0\0\x80\x3f", 1, 4, f);
    fclose(f);
    settle();
    ck_assert(validates());
    ck_assert(!validates());
    // A bad one is found although good contents of this very set have been remembered.
    f = fopen(in_dir("node_feat.npy"), "r+b");
    fseek(f, -4, SEEK_END);
    fwrite("\0\0\xc0\x7f", 1, 4, f);
    fclose(f);
    struct sl_dataset ds;
    ck_assert_int_eq(sl_dataset_open(dir, SL_NEED_TRAINING, SL_CHECK_CACHED, 1, &ds), SL_EFORMAT);
    assert_message_has("row 4, column 2 is NaN");
}

TEST(a_touched_replaced_or_added_file_is_validated_again)
{
    settle();
    ck_assert(validates());
    struct timespec old[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    ck_assert_int_eq(utimensat(AT_FDCWD, in_dir("indices.npy"), old, 0), 0);
    settle();
    ck_assert(validates());
    ck_assert(!validates());
    WRITE_I64("val_idx.npy", 0); // the same contents in a new file
    settle();
    ck_assert(validates());
    ck_assert(!validates());
    ck_assert_int_eq(unlink(in_dir("test_idx.npy")), 0);
    ck_assert(validates());
    ck_assert(!validates());
    WRITE_I64("test_idx.npy", 2);
    settle();
    ck_assert(validates());
}

TEST(changed_metadata_is_validated_again)
{
    struct sl_dataset a, b;
    settle();
    open_with(&a, SL_CHECK_CACHED);
    write_text("metadata.json", "{\"num_nodes\": 5, \"num_edges\": 7, \"feat_dim\": 3, "
                                "\"num_classes\": 3, \"task\": \"multiclass\"}");
    open_with(&b, SL_CHECK_CACHED);
    ck_assert(b.validated_now);
    ck_assert_uint_ne(a.digest, b.digest);
    sl_dataset_close(&a);
    sl_dataset_close(&b);
}

#define TEMPORARY(word)                                                                            \
    "{\"num_nodes\": 5, \"num_edges\": 7, \"feat_dim\": 3, \"num_classes\": 2, "                   \
    "\"temporary\": " word "}"

TEST(a_temporary_data_set_is_not_remembered)
{
    struct sl_dataset ds;
    write_text("metadata.json", TEMPORARY("true"));
    settle();
    ck_assert(validates());
    ck_assert(validates());
    write_text("metadata.json", TEMPORARY("\"yes\""));
    ck_assert_int_eq(sl_dataset_open(dir, SL_NEED_TOPOLOGY, SL_CHECK_CACHED, 1, &ds), SL_EFORMAT);
    assert_message_has("\"temporary\" is neither true nor false");
    write_text("metadata.json", TEMPORARY("false"));
    settle();
    ck_assert(validates());
    ck_assert(!validates());
}

TEST(files_that_have_just_changed_are_not_remembered)
{
    // Whether two opens so shortly after a write fall into the same tick is chance; that the second
    // of two writes is noticed is not.
    for (int round = 0; round < 20; round++) {
        WRITE_I32("node_label.npy", 0, 1, 1, 0, -1);
        (void)validates();
        FILE *f = fopen(in_dir("node_label.npy"), "r+b");
        fseek(f, -4, SEEK_END);
        fwrite("\x63\0\0\0", 1, 4, f);
        fclose(f);
        struct sl_dataset ds;
        ck_assert_int_eq(sl_dataset_open(dir, SL_NEED_TRAINING, SL_CHECK_CACHED, 1, &ds),
                         SL_EFORMAT);
    }
}

// Where this test's records go: a directory of its own.
static const char *own_cache(void)
{
    static char path[1024];
    snprintf(path, sizeof path, "%s/cache-of-test", dir);
    setenv("SLUICE_CACHE_DIR", path, 1);
    return path;
}

TEST(a_damaged_record_is_no_record)
{
    static const char *const texts[] = {"", "{", "[]", "{\"format\": 1}", "\xff\xfe", "null"};
    const char *cache = own_cache();
    settle();
    ck_assert(validates());
    DIR *d = opendir(cache);
    ck_assert_ptr_nonnull(d);
    char record[300] = "";
    for (struct dirent *e; (e = readdir(d));)
        if (strstr(e->d_name, ".json"))
            snprintf(record, sizeof record, "cache-of-test/%s", e->d_name);
    closedir(d);
    ck_assert_str_ne(record, "");
    for (size_t i = 0; i < SL_COUNT_OF(texts); i++) {
        ck_assert(!validates());
        write_text(record, texts[i]);
        ck_assert(validates());
    }
    // One character of a good one.
    char text[8192];
    FILE *f = fopen(in_dir(record), "rb");
    size_t n = fread(text, 1, sizeof text, f);
    fclose(f);
    char *at = memmem(text, n, "mtime_ns", 8);
    ck_assert_ptr_nonnull(at);
    at[13] = at[13] == '9' ? '1' : '9';
    write_file(record, text, n);
    ck_assert(validates());
    ck_assert(!validates());
}

TEST(no_place_for_the_record_is_no_error)
{
    write_text("a-file", "");
    setenv("SLUICE_CACHE_DIR", in_dir("a-file/cache"), 1);
    settle();
    ck_assert(validates());
    ck_assert(validates());
    unsetenv("SLUICE_CACHE_DIR");
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    ck_assert(validates());
}

TEST(the_record_follows_the_environment)
{
    char path[1024];
    settle();
    unsetenv("SLUICE_CACHE_DIR");
    snprintf(path, sizeof path, "%s/xdg", dir);
    setenv("XDG_CACHE_HOME", path, 1);
    ck_assert(validates());
    ck_assert(!validates());
    ck_assert_int_eq(access(in_dir("xdg/sluice"), F_OK), 0);
    unsetenv("XDG_CACHE_HOME");
    snprintf(path, sizeof path, "%s/home", dir);
    setenv("HOME", path, 1);
    ck_assert(validates());
    ck_assert(!validates());
    ck_assert_int_eq(access(in_dir("home/.cache/sluice"), F_OK), 0);
}

TEST(a_record_covers_all_needs)
{
    struct sl_dataset ds;
    settle();
    must(sl_dataset_open(dir, SL_NEED_TOPOLOGY, SL_CHECK_CACHED, 1, &ds));
    ck_assert(ds.validated_now);
    sl_dataset_close(&ds);
    ck_assert(!validates());
}

// ---- real graphs --------------------------------------------------------------------------------

static const struct {
    const char *name;
    unsigned need;
    uint64_t n_nodes, n_edges, max_degree;
    uint32_t feat_dim, n_classes;
    uint64_t n_train;
} graphs[] = {
    {"cora", SL_NEED_TRAINING, 2708, 10556, 168, 1433, 7, 140},
    {"ogbn_arxiv", SL_NEED_TRAINING, 169343, 2315598, 0, 128, 40, 90941},
    {"amazon_photo", SL_NEED_TRAINING, 7650, 238162, 0, 745, 8, 4590},
    {"tolokers", SL_NEED_TRAINING, 11758, 1038000, 0, 10, 2, 5879},
    {"usa_road_ny", SL_NEED_TOPOLOGY, 264346, 730100, 0, 0, 0, 0},
    {"cnr_2000", SL_NEED_TOPOLOGY, 325557, 3216152, 0, 0, 0, 0},
};

LOOP_TEST(real_graphs_open, 0, SL_COUNT_OF(graphs))
{
    const char *root = getenv("SLUICE_TEST_DATA");
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", root ? root : "../shared/data", graphs[_i].name);
    if (access(path, F_OK) != 0) {
        printf("SKIP: real_graphs_open: %s is not there\n", path);
        return;
    }
    struct sl_dataset ds;
    must(sl_dataset_open(path, graphs[_i].need, SL_CHECK_CACHED, 0, &ds));
    ck_assert(ds.validated_now);
    ck_assert_str_eq(ds.name, graphs[_i].name);
    ck_assert_uint_eq(ds.n_nodes, graphs[_i].n_nodes);
    ck_assert_uint_eq(ds.n_edges, graphs[_i].n_edges);
    ck_assert_uint_eq(ds.feat_dim, graphs[_i].feat_dim);
    ck_assert_uint_eq(ds.n_classes, graphs[_i].n_classes);
    ck_assert_uint_eq(ds.split[SL_SPLIT_TRAIN].n, graphs[_i].n_train);
    ck_assert_int_eq(ds.task, graphs[_i].n_train ? SL_TASK_MULTICLASS : SL_TASK_NONE);
    uint64_t most = 0;
    for (uint64_t v = 0; v < ds.n_nodes; v++)
        most = SL_MAX(most, sl_dataset_degree(&ds, v));
    ck_assert_uint_eq(ds.max_degree, most);
    if (graphs[_i].max_degree)
        ck_assert_uint_eq(ds.max_degree, graphs[_i].max_degree);
    uint64_t digest = ds.digest;
    char *record = sl_dataset_record(&ds);
    sl_dataset_close(&ds);
    must(sl_dataset_open(path, graphs[_i].need, SL_CHECK_CACHED, 0, &ds));
    ck_assert(!ds.validated_now);
    ck_assert_uint_eq(ds.max_degree, most);
    ck_assert_uint_eq(ds.digest, digest);
    sl_dataset_close(&ds);
    must(sl_dataset_open_recorded(path, graphs[_i].need, record, 1, &ds));
    ck_assert_uint_eq(ds.max_degree, most);
    sl_dataset_close(&ds);
    free(record);
    if (!(graphs[_i].need & SL_NEED_FEATURES)) {
        ck_assert_int_eq(sl_dataset_open(path, SL_NEED_TRAINING, SL_CHECK_CACHED, 0, &ds),
                         SL_ENOENT);
        assert_message_has("has no node_feat.npy: training needs features");
    }
}

RUN_TESTS(.setup = tiny_begin, .begin = scratch_begin, .end = scratch_end, .timeout_s = 60)
