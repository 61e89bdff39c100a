// node_label.npy of every task: what is accepted, what is read, and how the rest is refused.
#include "common/data/dataset.h"

#include <float.h>
#include <math.h>

#include "tests/unit/suite.h"
#include "tests/unit/test_data_fixture.h"

static void refused(const char *a, const char *b)
{
    struct sl_dataset ds;
    int rc = sl_dataset_open(dir, SL_NEED_TRAINING, SL_CHECK_FULL, 2, &ds);
    ck_assert_msg(rc == SL_EFORMAT, "got %d: %s", rc, rc ? sl_error_message() : "it opened");
    assert_message_has(a);
    assert_message_has(b);
    ck_assert_ptr_null(ds.files);
}

static struct sl_dataset opened(enum sl_dataset_check check)
{
    struct sl_dataset ds;
    must(sl_dataset_open(dir, SL_NEED_TRAINING, check, 2, &ds));
    return ds;
}

static void metadata(const char *task, int num_classes)
{
    char text[256];
    snprintf(text, sizeof text,
             "{\"num_nodes\": 5, \"num_edges\": 7, \"feat_dim\": 3, \"num_classes\": %d, "
             "\"task\": \"%s\"}",
             num_classes, task);
    write_text("metadata.json", text);
}

static void write_rows(enum sl_dtype dtype, uint64_t columns, const void *values)
{
    write_npy("node_label.npy", dtype, 2, (uint64_t[]){5, columns}, values);
}

// Each element of (5, n) as sl_dataset_targets() gives it.
static void assert_targets(const struct sl_dataset *ds, const float *wanted)
{
    float row[8];
    ck_assert_uint_le(ds->n_classes, 8);
    for (uint64_t v = 0; v < 5; v++) {
        sl_dataset_targets(ds, v, row);
        for (uint32_t c = 0; c < ds->n_classes; c++) {
            float w = wanted[v * ds->n_classes + c];
            if (isnan(w))
                ck_assert_float_nan(row[c]);
            else
                ck_assert_float_eq(row[c], w);
        }
    }
}

// The data set is taken and has these targets.
static void taken(const float *wanted)
{
    struct sl_dataset ds = opened(SL_CHECK_FULL);
    assert_targets(&ds, wanted);
    sl_dataset_close(&ds);
}

// ---- one class a vertex -------------------------------------------------------------------------

TEST(classes_may_be_floats_with_nan_for_unknown)
{
    static const int32_t wanted[] = {0, 1, -1, 1, -1};
    const enum sl_dataset_check checks[] = {SL_CHECK_FULL, SL_CHECK_CACHED};
    for (int i = 0; i < 2; i++) {
        WRITE_F32("node_label.npy", 0, 1, NAN, 1, -1);
        struct sl_dataset ds = opened(checks[i]);
        ck_assert_int_eq(ds.task, SL_TASK_MULTICLASS);
        ck_assert_mem_eq(ds.label, wanted, sizeof wanted);
        ck_assert_ptr_null(ds.target);
        sl_dataset_close(&ds);
        write_npy("node_label.npy", SL_DTYPE_F64, 2, (uint64_t[]){5, 1},
                  (double[]){-0.0, 1, NAN, 1, -1});
        ds = opened(checks[i]);
        ck_assert_mem_eq(ds.label, wanted, sizeof wanted);
        sl_dataset_close(&ds);
    }
}

TEST(floats_that_are_no_classes_are_refused)
{
    WRITE_F32("node_label.npy", 0, 1, 0.5f, 1, 0);
    refused("node_label.npy: element 2 is 0.5, wanted a whole number from 0 to 1",
            "\"regression\"");
    WRITE_F32("node_label.npy", 0, 1, 1, 2, 0);
    refused("node_label.npy: element 3 is 2", "-1 or NaN");
    WRITE_F32("node_label.npy", 0, 1, 1, 1, INFINITY);
    refused("node_label.npy: element 4 is inf", NULL);
    write_list("node_label.npy", SL_DTYPE_F64, 5, (double[]){-2, 0, 0, 0, 0});
    refused("node_label.npy: element 0 is -2", NULL);
    write_list("node_label.npy", SL_DTYPE_F64, 5, (double[]){0, 1e-300, 0, 0, 0});
    refused("node_label.npy: element 1 is 1e-300,", NULL);
}

TEST(half_floats_are_refused)
{
    write_list("node_label.npy", SL_DTYPE_F16, 5, (uint16_t[]){0, 0, 0, 0, 0});
    refused("node_label.npy: is float16 (5,)", "astype");
    metadata("regression", 1);
    refused("node_label.npy: is float16 (5,)", "astype(numpy.float32)");
}

// ---- several labels a vertex --------------------------------------------------------------------

TEST(several_labels_of_every_type)
{
    static const float wanted[] = {0, 1, 1, 0, NAN, 1, 0, 0, 1, NAN};
    static const float plain[] = {0, 1, 1, 0, 1, 1, 0, 0, 1, 0};
    metadata("multilabel", 2);
    write_rows(SL_DTYPE_F32, 2, (float[]){0, 1, 1, -0.0f, NAN, 1, 0, 0, 1, -1});
    struct sl_dataset ds = opened(SL_CHECK_FULL);
    ck_assert_int_eq(ds.task, SL_TASK_MULTILABEL);
    ck_assert_ptr_null(ds.label);
    ck_assert_uint_eq(ds.n_classes, 2);
    ck_assert_uint_eq(sl_dataset_predict_words(&ds), 2);
    assert_targets(&ds, wanted);
    sl_dataset_close(&ds);
    write_rows(SL_DTYPE_F64, 2, (double[]){0, 1, 1, 0, NAN, 1, 0, 0, 1, -7});
    taken(wanted);
    write_rows(SL_DTYPE_I8, 2, (int8_t[]){0, 1, 1, 0, -1, 1, 0, 0, 1, -128});
    taken(wanted);
    write_rows(SL_DTYPE_I32, 2, (int32_t[]){0, 1, 1, 0, -1, 1, 0, 0, 1, -1});
    taken(wanted);
    write_rows(SL_DTYPE_I64, 2, (int64_t[]){0, 1, 1, 0, -1, 1, 0, 0, 1, INT64_MIN});
    taken(wanted);
    write_rows(SL_DTYPE_U8, 2, (uint8_t[]){0, 1, 1, 0, 1, 1, 0, 0, 1, 0});
    taken(plain);
}

TEST(one_label_may_be_a_list)
{
    metadata("multilabel", 1);
    write_list("node_label.npy", SL_DTYPE_I8, 5, (int8_t[]){0, 1, -1, 1, 0});
    taken((float[]){0, 1, NAN, 1, 0});
}

TEST(the_file_says_how_many_where_metadata_does_not)
{
    static const int8_t many[15] = {1};
    metadata("multilabel", 0);
    write_rows(SL_DTYPE_I8, 3, many);
    struct sl_dataset ds = opened(SL_CHECK_FULL);
    ck_assert_uint_eq(ds.n_classes, 3);
    sl_dataset_close(&ds);
    metadata("multilabel", 4);
    refused("node_label.npy: is int8 (5, 3), which is 3 labels a vertex", "num_classes = 4");
}

TEST(other_labels_are_refused_with_their_place)
{
    metadata("multilabel", 2);
    write_rows(SL_DTYPE_I8, 2, (int8_t[]){0, 1, 1, 0, 0, 2, 0, 0, 1, 3});
    refused("node_label.npy: vertex 2, label 1 is 2, wanted 0 or 1", "negative or NaN");
    write_rows(SL_DTYPE_U8, 2, (uint8_t[]){255, 1, 1, 0, 0, 2, 0, 0, 1, 3});
    refused("node_label.npy: vertex 0, label 0 is 255", NULL);
    write_rows(SL_DTYPE_F32, 2, (float[]){0, 1, 1, 0, 0, 1, 0, 0, 1, 0.25f});
    refused("node_label.npy: vertex 4, label 1 is 0.25", NULL);
    write_rows(SL_DTYPE_F64, 2, (double[]){0, 1, 1, 0, 0, 1, 0, INFINITY, 1, 0});
    refused("node_label.npy: vertex 3, label 1 is inf", NULL);
    write_rows(SL_DTYPE_I64, 2, (int64_t[]){0, 1, 1, 0, 0, 1, (int64_t)1 << 32, 0, 1, 0});
    refused("node_label.npy: vertex 3, label 0 is 4294967296", NULL);
    write_rows(SL_DTYPE_U16, 2, (uint16_t[10]){0});
    refused("node_label.npy: is uint16 (5, 2), wanted float32", "astype(numpy.int8)");
    write_npy("node_label.npy", SL_DTYPE_I8, 2, (uint64_t[]){4, 2}, (int8_t[8]){0});
    refused("node_label.npy: is int8 (4, 2), wanted a row of labels a vertex", "num_nodes = 5");
    write_npy("node_label.npy", SL_DTYPE_I8, 2, (uint64_t[]){5, 0}, "");
    refused("node_label.npy: is int8 (5, 0)", NULL);
    write_npy("node_label.npy", SL_DTYPE_I8, 3, (uint64_t[]){5, 1, 1}, (int8_t[5]){0});
    refused("node_label.npy: is int8 (5, 1, 1)", NULL);
}

// ---- numbers ------------------------------------------------------------------------------------

TEST(numbers_of_every_type)
{
    metadata("regression", 1);
    write_list("node_label.npy", SL_DTYPE_F32, 5, (float[]){-1.5f, 0, NAN, FLT_MAX, -FLT_MAX});
    struct sl_dataset ds = opened(SL_CHECK_FULL);
    ck_assert_int_eq(ds.task, SL_TASK_REGRESSION);
    assert_targets(&ds, (float[]){-1.5f, 0, NAN, FLT_MAX, -FLT_MAX});
    sl_dataset_close(&ds);
    write_list("node_label.npy", SL_DTYPE_F64, 5, (double[]){0.1, -2, NAN, 1e38, 1e-60});
    taken((float[]){0.1f, -2, NAN, 1e38f, 0});
    // Integers are all known, the negative ones too.
    write_list("node_label.npy", SL_DTYPE_I64, 5, (int64_t[]){-1, 1 << 20, 0, 3, INT64_MIN});
    taken((float[]){-1, 1 << 20, 0, 3, (float)INT64_MIN});
}

TEST(several_numbers_a_vertex)
{
    metadata("regression", 0);
    write_rows(SL_DTYPE_F32, 2, (float[]){0, 1, 2, NAN, NAN, 5, 6, 7, 8, 9});
    struct sl_dataset ds = opened(SL_CHECK_FULL);
    ck_assert_uint_eq(ds.n_classes, 2);
    assert_targets(&ds, (float[]){0, 1, 2, NAN, NAN, 5, 6, 7, 8, 9});
    sl_dataset_close(&ds);
    metadata("regression", 1);
    refused("node_label.npy: is float32 (5, 2), which is 2 numbers a vertex", "num_classes = 1");
}

TEST(what_a_float_can_not_hold_is_refused)
{
    metadata("regression", 2);
    write_rows(SL_DTYPE_F32, 2, (float[]){0, 1, 2, -INFINITY, 4, 5, 6, 7, 8, 9});
    refused("node_label.npy: vertex 1, number 1 is -inf, wanted a finite number", "NaN");
    write_rows(SL_DTYPE_F64, 2, (double[]){0, 1, 2, 3, 1e39, 5, 6, 7, 8, 9});
    refused("node_label.npy: vertex 2, number 0 is 9.9999999999999994e+38", "float32");
}

// ---- training set -------------------------------------------------------------------------------

TEST(one_known_label_is_enough_and_none_is_not)
{
    metadata("multilabel", 2);
    // The training set is {3, 1}.
    write_rows(SL_DTYPE_I8, 2, (int8_t[]){1, 1, -1, -1, 1, 1, -1, -1, 1, 1});
    refused("train_idx.npy: none of its 2 vertices has a label", "negative or NaN");
    write_rows(SL_DTYPE_I8, 2, (int8_t[]){1, 1, -1, -1, 1, 1, -1, 0, 1, 1});
    struct sl_dataset ds = opened(SL_CHECK_FULL);
    sl_dataset_close(&ds);
    metadata("regression", 1);
    write_list("node_label.npy", SL_DTYPE_F32, 5, (float[]){0, NAN, 0, NAN, 0});
    refused("train_idx.npy: none of its 2 vertices has a label", NULL);
}

RUN_TESTS(.setup = tiny_begin, .begin = scratch_begin, .end = scratch_end, .timeout_s = 60)
