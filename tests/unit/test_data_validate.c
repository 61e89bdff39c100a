// Every kind of bad data set is refused with a message that names file, place, found and wanted.
#include "common/data/dataset.h"

#include <inttypes.h>
#include <math.h>

#include "tests/unit/suite.h"
#include "tests/unit/test_data_fixture.h"

static void refused_need(unsigned need, int code, const char *a, const char *b)
{
    struct sl_dataset ds;
    int rc = sl_dataset_open(dir, need, SL_CHECK_FULL, 2, &ds);
    ck_assert_msg(rc == code, "got %d, wanted %d: %s", rc, code,
                  rc ? sl_error_message() : "it opened");
    assert_message_has(a);
    assert_message_has(b);
    ck_assert_ptr_null(ds.files); // nothing is left open
}

static void refused(int code, const char *a, const char *b)
{
    refused_need(SL_NEED_TRAINING, code, a, b);
}

static void accepted(void)
{
    struct sl_dataset ds;
    must(sl_dataset_open(dir, SL_NEED_TRAINING, SL_CHECK_FULL, 2, &ds));
    sl_dataset_close(&ds);
}

TEST(tiny_is_valid)
{
    accepted();
}

TEST(weights_are_needed_by_weighted_sampling_alone)
{
    const unsigned need = SL_NEED_TRAINING | SL_NEED_WEIGHTS;
    struct sl_dataset ds;
    must(sl_dataset_open(dir, need, SL_CHECK_FULL, 2, &ds));
    ck_assert_float_eq(ds.edge_weight[5], 5);
    sl_dataset_close(&ds);
    ck_assert_int_eq(remove(in_dir("edge_weight.npy")), 0);
    accepted();
    refused_need(need, SL_ENOENT, "has no edge_weight.npy: weighted sampling needs it",
                 "one weight for each edge");
}

// ---- directory and metadata ---------------------------------------------------------------------

TEST(missing_directory)
{
    struct sl_dataset ds;
    ck_assert_int_eq(sl_dataset_open(in_dir("nowhere"), SL_NEED_TRAINING, SL_CHECK_FULL, 1, &ds),
                     SL_ENOENT);
    assert_message_has("nowhere: no such directory");
    ck_assert_int_eq(sl_dataset_open(in_dir("indptr.npy"), SL_NEED_TRAINING, SL_CHECK_FULL, 1, &ds),
                     SL_ENOENT);
    assert_message_has("indptr.npy: is not a directory");
    sl_dataset_close(&ds);
}

TEST(missing_files)
{
    static const struct {
        const char *name, *hint;
    } files[] = {
        {"metadata.json", "num_nodes"},
        {"indptr.npy", "offsets"},
        {"indices.npy", "in-neighbours"},
        {"node_feat.npy", "training needs features (num_nodes x feat_dim, float32 or float16)"},
        {"node_label.npy", "training needs labels"},
        {"train_idx.npy", "training vertices"},
    };
    for (size_t i = 0; i < SL_COUNT_OF(files); i++) {
        char has_no[64];
        snprintf(has_no, sizeof has_no, "has no %s", files[i].name);
        ck_assert_int_eq(rename(in_dir(files[i].name), in_dir("aside")), 0);
        refused(SL_ENOENT, has_no, files[i].hint);
        ck_assert_int_eq(rename(in_dir("aside"), in_dir(files[i].name)), 0);
    }
    accepted();
}

TEST(files_that_are_not_needed_may_be_missing)
{
    struct sl_dataset ds;
    static const char *const names[] = {"node_feat.npy", "node_label.npy",  "train_idx.npy",
                                        "val_idx.npy",   "edge_weight.npy", "test_idx.npy"};
    for (size_t i = 0; i < SL_COUNT_OF(names); i++)
        ck_assert_int_eq(unlink(in_dir(names[i])), 0);
    must(sl_dataset_open(dir, SL_NEED_TOPOLOGY, SL_CHECK_FULL, 1, &ds));
    ck_assert_ptr_null(ds.feat);
    ck_assert_uint_eq(ds.feat_dim, 0);
    ck_assert_ptr_null(ds.label);
    ck_assert_ptr_null(ds.edge_weight);
    ck_assert_uint_eq(ds.split[SL_SPLIT_TRAIN].n, 0);
    sl_dataset_close(&ds);
}

TEST(unreadable_file)
{
    // Root may read anything, so the rest of this test's process is somebody else.
    ck_assert_int_eq(chmod(in_dir("val_idx.npy"), 0), 0);
    if (geteuid() == 0) {
        ck_assert_int_eq(chmod(scratch, 0755), 0);
        ck_assert_int_eq(chmod(dir, 0755), 0);
        ck_assert_int_eq(seteuid(65534), 0);
    }
    refused(SL_EACCESS, "val_idx.npy: cannot be opened", "Permission denied");
    if (getuid() == 0)
        ck_assert_int_eq(seteuid(0), 0);
}

TEST(metadata_that_is_no_metadata)
{
    static const struct {
        const char *text, *part;
    } cases[] = {
        {"", "not valid JSON near line 1"},
        {"{\n\"num_nodes\": 5,\n\"num_edges\" 7}", "not valid JSON near line 3"},
        {"{\"num_nodes\": 5, \"num_edges\": 7} more", "not valid JSON"},
        {"[5, 7]", "not a JSON object"},
        {"{\"num_edges\": 7}", "has no \"num_nodes\""},
        {"{\"num_nodes\": 5}", "has no \"num_edges\""},
        {"{\"num_nodes\": \"5\", \"num_edges\": 7}", "\"num_nodes\" is \"5\""},
        {"{\"num_nodes\": 5.5, \"num_edges\": 7}", "\"num_nodes\" is 5.5"},
        {"{\"num_nodes\": 5, \"num_edges\": -7}", "\"num_edges\" is -7"},
        {"{\"num_nodes\": 5, \"num_edges\": 7, \"feat_dim\": []}", "\"feat_dim\" is []"},
        {"{\"num_nodes\": 5, \"num_edges\": 7, \"name\": 3}", "\"name\" is not a string"},
        {"{\"num_nodes\": 5, \"num_edges\": 7, \"task\": 3}", "\"task\" is not a string"},
    };
    for (size_t i = 0; i < SL_COUNT_OF(cases); i++) {
        write_text("metadata.json", cases[i].text);
        refused(SL_EFORMAT, "/metadata.json", cases[i].part);
    }
}

TEST(what_is_not_supported_yet)
{
    write_text("metadata.json", "{\"num_nodes\": 4294967295, \"num_edges\": 7}");
    refused(SL_EUNSUPPORTED, "\"num_nodes\" is 4294967295", "at most 4294967294");
    write_text("metadata.json", "{\"num_nodes\": 4294967294, \"num_edges\": 7}");
    refused(SL_EFORMAT, "indptr.npy", "wanted 4294967295 elements"); // past that check
    write_text("metadata.json", "{\"num_nodes\": 1e300, \"num_edges\": 7}");
    refused(SL_EUNSUPPORTED, "num_nodes", NULL);
    write_text("metadata.json", "{\"num_nodes\": 5, \"num_edges\": 7, \"task\": \"link\"}");
    refused(SL_EUNSUPPORTED, "\"task\" is \"link\"", "\"multilabel\", \"regression\" or \"none\"");
    refused(SL_EUNSUPPORTED, "\"task\" is \"link\"", "{\"kind\": \"link\"} in the job file");
    write_text("metadata.json", "{\"num_nodes\": 5, \"num_edges\": 7, \"task\": \"links\"}");
    refused(SL_EUNSUPPORTED, "\"task\" is \"links\"", "not supported: wanted");
}

TEST(shapes_disagree_with_metadata)
{
    write_text("metadata.json", "{\"num_nodes\": 6, \"num_edges\": 7, \"feat_dim\": 3}");
    refused(SL_EFORMAT, "indptr.npy: is int64 (6,), wanted 7 elements", "num_nodes = 6");
    write_text("metadata.json", "{\"num_nodes\": 5, \"num_edges\": 8, \"feat_dim\": 3}");
    refused(SL_EFORMAT, "indices.npy: is int32 (7,), wanted 8 elements", "num_edges = 8");
    write_text("metadata.json", "{\"num_nodes\": 5, \"num_edges\": 7, \"feat_dim\": 4}");
    refused(SL_EFORMAT, "node_feat.npy: is float32 (5, 3)", "(5, 4)");
    write_text("metadata.json", "{\"num_nodes\": 5, \"num_edges\": 7}");
    refused(SL_EFORMAT, "node_feat.npy: is float32 (5, 3)", "(5, 0)");
    write_text("metadata.json", tiny_metadata);
    WRITE_F32("edge_weight.npy", 1, 2);
    refused(SL_EFORMAT, "edge_weight.npy: is float32 (2,)", "num_edges = 7");
    tiny_begin();
    WRITE_I32("node_label.npy", 1, 0, 1);
    refused(SL_EFORMAT, "node_label.npy: is int32 (3,)", "num_nodes = 5");
}

TEST(types_that_are_not_accepted)
{
    double x[15] = {0};
    WRITE_F32("indptr.npy", 0, 0, 3, 5, 6, 7);
    refused(SL_EFORMAT, "indptr.npy: is float32 (6,)", "int32 or int64");
    tiny_begin();
    write_list("indices.npy", SL_DTYPE_F64, 7, x);
    refused(SL_EFORMAT, "indices.npy: is float64 (7,)", "int32 or int64");
    tiny_begin();
    write_npy("indices.npy", SL_DTYPE_I32, 2, (uint64_t[]){7, 1}, x);
    refused(SL_EFORMAT, "indices.npy: is int32 (7, 1)", "one dimension");
    tiny_begin();
    write_npy("node_feat.npy", SL_DTYPE_F64, 2, (uint64_t[]){5, 3}, x);
    refused(SL_EFORMAT, "node_feat.npy: is float64 (5, 3)", "float32 or float16");
    tiny_begin();
    write_list("edge_weight.npy", SL_DTYPE_F64, 7, x);
    refused(SL_EFORMAT, "edge_weight.npy: is float64 (7,)", "float32");
    tiny_begin();
    write_list("train_idx.npy", SL_DTYPE_U8, 5, x);
    refused(SL_EFORMAT, "train_idx.npy: is uint8 (5,)", "numpy.flatnonzero");
}

TEST(broken_npy_files)
{
    struct stat st;
    ck_assert_int_eq(stat(in_dir("node_feat.npy"), &st), 0);
    ck_assert_int_eq(truncate(in_dir("node_feat.npy"), st.st_size - 1), 0);
    refused(SL_EFORMAT, "node_feat.npy: truncated", "float32 (5, 3)");
    ck_assert_int_eq(truncate(in_dir("node_feat.npy"), st.st_size + 1), 0);
    refused(SL_EFORMAT, "node_feat.npy: has 1 bytes after", NULL);
    write_text("node_feat.npy", "hello, this is text");
    refused(SL_EFORMAT, "node_feat.npy: is not a NumPy .npy file", NULL);
}

// ---- topology -----------------------------------------------------------------------------------

TEST(offsets_must_start_at_0_rise_and_end_at_the_edges)
{
    WRITE_I64("indptr.npy", 1, 1, 3, 5, 6, 7);
    refused(SL_EFORMAT, "indptr.npy: element 0 is 1, wanted 0", NULL);
    WRITE_I64("indptr.npy", 0, 0, 3, 2, 6, 7);
    refused(SL_EFORMAT, "indptr.npy: element 3 is 2, less than element 2 (3)", NULL);
    WRITE_I64("indptr.npy", 0, 0, -3, 2, 6, 7);
    refused(SL_EFORMAT, "indptr.npy: element 2 is -3, less than element 1 (0)", NULL);
    WRITE_I32("indptr.npy", 0, 0, 3, 5, -1, 7);
    refused(SL_EFORMAT, "indptr.npy: element 4 is -1, less than element 3 (5)", NULL);
    WRITE_I32("indptr.npy", -1, 0, 3, 5, 6, 7);
    refused(SL_EFORMAT, "indptr.npy: element 0 is -1, wanted 0", NULL);
    WRITE_I64("indptr.npy", 0, 0, 3, 8, 6, 7);
    refused(SL_EFORMAT, "indptr.npy: element 3 is 8, wanted at most num_edges = 7", NULL);
    WRITE_I64("indptr.npy", 0, 0, 3, 5, 6, 6);
    refused(SL_EFORMAT, "indptr.npy: element 5 (the last) is 6, wanted num_edges = 7", NULL);
    write_list("indptr.npy", SL_DTYPE_U64, 6, (uint64_t[]){0, 0, 3, UINT64_MAX, 6, 7});
    refused(SL_EFORMAT, "element 3 is 18446744073709551615, wanted at most num_edges = 7", NULL);
}

TEST(one_vertex_has_fewer_than_2_to_32_neighbours)
{
    // 16 GiB of neighbours, all of them a hole: offsets are refused before anybody reads them.
    char header[128];
    memset(header, ' ', sizeof header);
    memcpy(header, "\x93NUMPY\x01\x00\x76\x00", 10);
    memcpy(header + 10, "{'descr': '<i4', 'fortran_order': False, 'shape': (4294967296,)}", 64);
    header[127] = '\n';
    dir_begin();
    write_text("metadata.json", "{\"num_nodes\": 2, \"num_edges\": 4294967296}");
    WRITE_I64("indptr.npy", 0, 0, (int64_t)1 << 32);
    write_file("indices.npy", header, sizeof header);
    if (truncate(in_dir("indices.npy"), 128 + ((off_t)4 << 32)) < 0) {
        printf("SKIP: one_vertex_has_fewer_than_2_to_32_neighbours: no sparse files here\n");
        return;
    }
    refused_need(SL_NEED_TOPOLOGY, SL_EUNSUPPORTED, "indptr.npy: vertex 1 has 4294967296 in-edges",
                 "fewer than 2^32");
}

TEST(neighbours_must_be_vertices)
{
    WRITE_I32("indices.npy", 0, 2, 5, 1, 3, 0, 0); // the first id that is too large
    refused(SL_EFORMAT, "indices.npy: element 2 (an in-neighbour of vertex 1) is 5", "from 0 to 4");
    WRITE_I32("indices.npy", 0, 2, 3, 1, 3, 0, -1);
    refused(SL_EFORMAT, "indices.npy: element 6 (an in-neighbour of vertex 4) is -1", NULL);
    WRITE_I64("indices.npy", 0, 2, 3, -4, 3, 0, 0);
    refused(SL_EFORMAT, "indices.npy: element 3 (an in-neighbour of vertex 2) is -4", NULL);
    WRITE_I64("indices.npy", (int64_t)1 << 32, 2, 3, 4, 3, 0, 0); // 0 in its low half
    refused(SL_EFORMAT, "indices.npy: element 0 (an in-neighbour of vertex 1) is 4294967296", NULL);
    write_list("indices.npy", SL_DTYPE_U32, 7, (uint32_t[]){0, 2, 3, 1, UINT32_MAX, 0, 0});
    refused(SL_EFORMAT, "indices.npy: element 4", "is 4294967295");
    WRITE_I64("indices.npy", 4, 4, 4, 4, 4, 4, 4); // the largest id there is
    accepted();
}

TEST(weights_must_be_finite_and_not_negative)
{
    WRITE_F32("edge_weight.npy", 1, 2, 3, NAN, 5, 6, 7);
    refused(SL_EFORMAT, "edge_weight.npy: element 3 is nan", "finite");
    WRITE_F32("edge_weight.npy", 1, 2, 3, 4, 5, 6, INFINITY);
    refused(SL_EFORMAT, "edge_weight.npy: element 6 is inf", NULL);
    WRITE_F32("edge_weight.npy", -1e-30f, 2, 3, 4, 5, 6, 7);
    refused(SL_EFORMAT, "edge_weight.npy: element 0 is -1e-30", "wanted a finite number >= 0");
    WRITE_F32("edge_weight.npy", 1, -INFINITY, 3, 4, 5, 6, 7);
    refused(SL_EFORMAT, "edge_weight.npy: element 1 is -inf", NULL);
    // With a record of good ones in the cache, too: the file is another one.
    struct sl_dataset ds;
    ck_assert_int_eq(sl_dataset_open(dir, SL_NEED_TRAINING, SL_CHECK_CACHED, 2, &ds), SL_EFORMAT);
}

// A record has the figures, too.
TEST(edges_of_weight_zero_are_counted)
{
    WRITE_F32("edge_weight.npy", 1, 0, -0.0f, 0, 0, 1e-40f, 7);
    for (int i = 0; i < 2; i++) {
        struct sl_dataset ds;
        must(sl_dataset_open(dir, SL_NEED_TRAINING, SL_CHECK_CACHED, 2, &ds));
        ck_assert_uint_eq(ds.weightless_edges, 4);
        ck_assert_uint_eq(ds.weightless_vertices, 1);
        char *record = sl_dataset_record(&ds);
        sl_dataset_close(&ds);
        must(sl_dataset_open_recorded(dir, SL_NEED_TRAINING, record, 2, &ds));
        ck_assert_uint_eq(ds.weightless_edges, 4);
        ck_assert_uint_eq(ds.weightless_vertices, 1);
        sl_dataset_close(&ds);
        free(record);
    }
}

// ---- features and labels ------------------------------------------------------------------------

TEST(features_must_be_finite)
{
    float x[15] = {0};
    x[7] = NAN;
    write_npy("node_feat.npy", SL_DTYPE_F32, 2, (uint64_t[]){5, 3}, x);
    refused(SL_EFORMAT, "node_feat.npy: row 2, column 1 is NaN", "numpy.nan_to_num");
    x[7] = 0;
    x[14] = -INFINITY;
    write_npy("node_feat.npy", SL_DTYPE_F32, 2, (uint64_t[]){5, 3}, x);
    refused(SL_EFORMAT, "node_feat.npy: row 4, column 2 is -Inf", NULL);
    x[14] = 3.4e38f;
    x[0] = -1e-45f;
    write_npy("node_feat.npy", SL_DTYPE_F32, 2, (uint64_t[]){5, 3}, x);
    accepted();
    uint16_t h[15] = {0x7bff, 0xfbff, 0x8000, 0x0001}; // largest, smallest, -0, a subnormal
    write_npy("node_feat.npy", SL_DTYPE_F16, 2, (uint64_t[]){5, 3}, h);
    accepted();
    h[4] = 0x7c00;
    write_npy("node_feat.npy", SL_DTYPE_F16, 2, (uint64_t[]){5, 3}, h);
    refused(SL_EFORMAT, "node_feat.npy: row 1, column 1 is Inf", NULL);
    h[4] = 0xfe00;
    write_npy("node_feat.npy", SL_DTYPE_F16, 2, (uint64_t[]){5, 3}, h);
    refused(SL_EFORMAT, "node_feat.npy: row 1, column 1 is NaN", NULL);
}

TEST(labels_must_be_classes)
{
    WRITE_I32("node_label.npy", 0, 1, 2, 0, -1);
    refused(SL_EFORMAT, "node_label.npy: element 2 is 2, wanted 0 to 1 (num_classes - 1)", "-1");
    WRITE_I32("node_label.npy", 0, 1, 1, -2, -1);
    refused(SL_EFORMAT, "node_label.npy: element 3 is -2", NULL);
    WRITE_I64("node_label.npy", 0, 1, 1, 0, ((int64_t)1 << 32) + 1); // 1 in its low half
    refused(SL_EFORMAT, "node_label.npy: element 4 is 4294967297", NULL);
    write_list("node_label.npy", SL_DTYPE_I8, 5, (int8_t[]){0, 1, 1, -128, -1});
    refused(SL_EFORMAT, "node_label.npy: element 3 is -128", NULL);
    write_list("node_label.npy", SL_DTYPE_I16, 5, (int16_t[]){0, 1, 1, 0, 300});
    refused(SL_EFORMAT, "node_label.npy: element 4 is 300", NULL);
    write_list("node_label.npy", SL_DTYPE_U8, 5, (uint8_t[]){0, 1, 255, 0, 0});
    refused(SL_EFORMAT, "node_label.npy: element 2 is 255", NULL);
    write_list("node_label.npy", SL_DTYPE_U16, 5, (uint16_t[]){0, 2, 1, 0, 0});
    refused(SL_EFORMAT, "node_label.npy: element 1 is 2", NULL);
    write_list("node_label.npy", SL_DTYPE_U64, 5, (uint64_t[]){0, 1, UINT64_MAX, 0, 0});
    refused(SL_EFORMAT, "node_label.npy: element 2 is 18446744073709551615", NULL);
}

TEST(labels_and_metadata_must_agree)
{
    int8_t many[15] = {0};
    write_npy("node_label.npy", SL_DTYPE_I8, 2, (uint64_t[]){5, 3}, many);
    refused(SL_EFORMAT, "node_label.npy: is int8 (5, 3)", "\"multilabel\"");
    write_npy("node_label.npy", SL_DTYPE_I8, 2, (uint64_t[]){5, 0}, many);
    refused(SL_EFORMAT, "node_label.npy: is int8 (5, 0)", NULL);
    WRITE_I32("node_label.npy", 0, 1, 1, 0, -1);
    write_text("metadata.json", "{\"num_nodes\": 5, \"num_edges\": 7, \"feat_dim\": 3}");
    refused(SL_EFORMAT, "metadata.json: \"num_classes\" is 0 or missing", NULL);
    write_text("metadata.json", "{\"num_nodes\": 5, \"num_edges\": 7, \"feat_dim\": 3, "
                                "\"num_classes\": 2, \"task\": \"none\"}");
    refused(SL_EFORMAT, "metadata.json: \"task\" is \"none\"", "node_label.npy");
}

// ---- index lists --------------------------------------------------------------------------------

TEST(lists_must_hold_vertices_once)
{
    WRITE_I64("val_idx.npy", 0, 5);
    refused(SL_EFORMAT, "val_idx.npy: element 1 is 5", "num_nodes = 5");
    WRITE_I32("val_idx.npy", -1, 3);
    refused(SL_EFORMAT, "val_idx.npy: element 0 is -1", NULL);
    WRITE_I64("val_idx.npy", 4, 0, 3, 0, 3);
    refused(SL_EFORMAT, "val_idx.npy: element 3 is 0, which element 1 is already", NULL);
    WRITE_I32("val_idx.npy", 2, 2);
    refused(SL_EFORMAT, "val_idx.npy: element 1 is 2, which element 0 is already", NULL);
    WRITE_I64("val_idx.npy", 4, 0); // in no order, each once
    accepted();
}

TEST(a_vertex_map_must_be_a_permutation)
{
    WRITE_I32("vertex_map.npy", 0, 1, 2, 3);
    refused(SL_EFORMAT, "vertex_map.npy: is int32 (4,)",
            "earlier id of each vertex: num_nodes = 5");
    WRITE_F32("vertex_map.npy", 0, 1, 2, 3, 4);
    refused(SL_EFORMAT, "vertex_map.npy: is float32 (5,)", "one dimension of int32 or int64");
    WRITE_I32("vertex_map.npy", 0, 1, 5, 3, 4);
    refused(SL_EFORMAT, "vertex_map.npy: element 2 is 5", "below num_nodes = 5");
    WRITE_I64("vertex_map.npy", 0, 1, -1, 3, 4);
    refused(SL_EFORMAT, "vertex_map.npy: element 2 is -1", "below num_nodes = 5");
    WRITE_I32("vertex_map.npy", 0, 1, 4, 3, 1);
    refused(SL_EFORMAT, "vertex_map.npy: element 4 is 1, which element 1 is", NULL);
    WRITE_I32("vertex_map.npy", 0, 1, 4, 3, 2);
    accepted();
}

TEST(training_set_must_hold_something)
{
    write_list("train_idx.npy", SL_DTYPE_I64, 0, "");
    refused(SL_EFORMAT, "train_idx.npy: the training set is empty", NULL);
    struct sl_dataset ds;
    must(sl_dataset_open(dir, SL_NEED_TOPOLOGY | SL_NEED_FEATURES | SL_NEED_LABELS, SL_CHECK_FULL,
                         1, &ds));
    sl_dataset_close(&ds);
    WRITE_I64("train_idx.npy", 4); // the vertex without a label
    refused(SL_EFORMAT, "train_idx.npy: none of its 1 vertices has a label", NULL);
    WRITE_I64("train_idx.npy", 4, 1);
    accepted();
}

// ---- the first bad element is the one that is named, whatever the number of threads -------------

enum { BIG_NODES = 1000, BIG_EDGES = 3000001, BIG_LIST = 600000 };

static void big_metadata(uint64_t n_nodes, uint64_t n_edges, uint64_t dim)
{
    char text[256];
    snprintf(text, sizeof text,
             "{\"num_nodes\": %" PRIu64 ", \"num_edges\": %" PRIu64 ", \"feat_dim\": %" PRIu64 "}",
             n_nodes, n_edges, dim);
    write_text("metadata.json", text);
}

static void same_for_all_threads(const char *part)
{
    static const int threads[] = {1, 2, 3, 8, 0};
    for (int round = 0; round < 6; round++) {
        for (size_t i = 0; i < SL_COUNT_OF(threads); i++) {
            struct sl_dataset ds;
            ck_assert_int_eq(sl_dataset_open(dir, SL_NEED_TOPOLOGY, SL_CHECK_FULL, threads[i], &ds),
                             SL_EFORMAT);
            assert_message_has(part);
        }
    }
}

TEST(first_bad_neighbour_in_a_large_file)
{
    // Blocks are 1 MiB, 262,144 ids: bad ones on both sides of a border, in the middle, at the end.
    static const int bad[] = {262143, 262144, 1500000, BIG_EDGES - 1};
    int32_t *ids = calloc(BIG_EDGES, sizeof *ids);
    int64_t *offsets = calloc(BIG_NODES + 1, sizeof *offsets);
    dir_begin();
    big_metadata(BIG_NODES, BIG_EDGES, 0);
    for (int i = 0; i <= BIG_NODES; i++)
        offsets[i] = (int64_t)BIG_EDGES * i / BIG_NODES;
    write_list("indptr.npy", SL_DTYPE_I64, BIG_NODES + 1, offsets);
    for (int i = 0; i < (int)SL_COUNT_OF(bad); i++)
        ids[bad[i]] = i % 2 ? -1 : BIG_NODES;
    for (int i = 0; i < (int)SL_COUNT_OF(bad); i++) {
        char part[64];
        write_list("indices.npy", SL_DTYPE_I32, BIG_EDGES, ids);
        snprintf(part, sizeof part, "indices.npy: element %d (", bad[i]);
        same_for_all_threads(part);
        ids[bad[i]] = 0; // mended: now the next one is the first
    }
    write_list("indices.npy", SL_DTYPE_I32, BIG_EDGES, ids);
    struct sl_dataset ds;
    must(sl_dataset_open(dir, SL_NEED_TOPOLOGY, SL_CHECK_FULL, 0, &ds));
    ck_assert_uint_eq(ds.max_degree, 3001);
    sl_dataset_close(&ds);
    free(ids);
    free(offsets);
}

TEST(first_bad_offset_and_feature_in_a_large_file)
{
    enum { N = 400000, DIM = 3 };
    int64_t *offsets = calloc(N + 1, sizeof *offsets);
    uint16_t *feat = calloc((size_t)N * DIM, sizeof *feat);
    dir_begin();
    big_metadata(N, 0, DIM);
    write_list("indices.npy", SL_DTYPE_I32, 0, "");
    offsets[131072] = offsets[131073] = offsets[399999] = -1;
    write_list("indptr.npy", SL_DTYPE_I64, N + 1, offsets);
    write_npy("node_feat.npy", SL_DTYPE_F16, 2, (uint64_t[]){N, DIM}, feat);
    same_for_all_threads("indptr.npy: element 131072 is -1");
    offsets[131072] = offsets[131073] = offsets[399999] = 0;
    write_list("indptr.npy", SL_DTYPE_I64, N + 1, offsets);
    feat[3 * 200001 + 2] = feat[3 * 200002] = feat[3 * 399999] = 0x7e00;
    write_npy("node_feat.npy", SL_DTYPE_F16, 2, (uint64_t[]){N, DIM}, feat);
    same_for_all_threads("node_feat.npy: row 200001, column 2 is NaN");
    free(offsets);
    free(feat);
}

TEST(first_duplicate_in_a_large_list)
{
    int64_t *offsets = calloc(BIG_LIST + 1, sizeof *offsets);
    uint32_t *ids = malloc(BIG_LIST * sizeof *ids);
    dir_begin();
    big_metadata(BIG_LIST, 0, 0);
    write_list("indices.npy", SL_DTYPE_I32, 0, "");
    write_list("indptr.npy", SL_DTYPE_I64, BIG_LIST + 1, offsets);
    for (uint32_t i = 0; i < BIG_LIST; i++) // a permutation: 7 does not divide 600,000
        ids[i] = (uint32_t)((uint64_t)i * 7 % BIG_LIST);
    write_list("train_idx.npy", SL_DTYPE_U32, BIG_LIST, ids);
    struct sl_dataset ds;
    must(sl_dataset_open(dir, SL_NEED_TOPOLOGY, SL_CHECK_FULL, 2, &ds));
    ck_assert_uint_eq(ds.split[SL_SPLIT_TRAIN].n, BIG_LIST);
    ck_assert_mem_eq(ds.split[SL_SPLIT_TRAIN].ids, ids, BIG_LIST * sizeof *ids);
    sl_dataset_close(&ds);
    ids[599999] = ids[1]; // of blocks far apart
    ids[300000] = ids[599998];
    write_list("train_idx.npy", SL_DTYPE_U32, BIG_LIST, ids);
    same_for_all_threads("train_idx.npy: element 599998 is 599986, which element 300000 is");
    free(offsets);
    free(ids);
}

RUN_TESTS(.setup = tiny_begin, .begin = scratch_begin, .end = scratch_end, .timeout_s = 60)
