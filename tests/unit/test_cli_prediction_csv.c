// Predictions as text: which vertex a row is of, numbers that come back, text that needs quotes.
#include "cli/prediction_csv.h"
#include "common/base/error.h"
#include "common/data/npy.h"
#include "tests/unit/cli_fixture.h"
#include "tests/unit/suite.h"

static void save(const char *name, enum sl_dtype dtype, int ndim, uint64_t n, uint64_t width,
                 const void *data)
{
    struct sl_npy_writer *w;
    const uint64_t shape[2] = {n, width};
    ck_assert_int_eq(sl_npy_writer_open(in_dir(name), dtype, ndim, shape, &w), SL_OK);
    ck_assert_int_eq(sl_npy_writer_append(w, data, n * width * sl_dtype_bytes(dtype)), SL_OK);
    ck_assert_int_eq(sl_npy_writer_commit(w), SL_OK);
}

// What the writer makes of it; owned by the test, which ends soon.
static const char *text_of(struct sl_prediction_csv csv)
{
    static char text[1 << 20], rows[4096];
    snprintf(rows, sizeof rows, "%s", in_dir("rows.npy"));
    csv.rows = rows;
    ck_assert_int_eq(sl_prediction_csv_write(&csv, in_dir("out.csv")), SL_OK);
    FILE *f = fopen(in_dir("out.csv"), "r");
    ck_assert_ptr_nonnull(f);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    return text;
}

TEST(a_row_is_of_the_vertex_of_its_number)
{
    const float values[] = {0.25f, -1.5f, 1.0f / 3, 3.4028235e38f};
    save("rows.npy", SL_DTYPE_F32, 2, 2, 2, values);
    ck_assert_str_eq(text_of((struct sl_prediction_csv){.column = "output"}),
                     "vertex,output_0,output_1\n0,0.25,-1.5\n1,0.333333343,3.40282347e+38\n");
}

TEST(rows_of_a_list_are_named_as_before_a_reordering)
{
    const int32_t classes[] = {3, -1};
    const uint32_t ids[] = {2, 0}, map[] = {7, 8, 9};
    const struct sl_vertex_list list = {.n = 2, .ids = ids};
    save("rows.npy", SL_DTYPE_I32, 1, 2, 1, classes);
    ck_assert_str_eq(text_of((struct sl_prediction_csv){.column = "class", .list = &list}),
                     "vertex,class\n2,3\n0,-1\n");
    ck_assert_str_eq(
        text_of((struct sl_prediction_csv){.column = "class", .list = &list, .vertex_map = map}),
        "vertex,class\n9,3\n7,-1\n");
}

TEST(rows_of_a_file_of_vertices_have_its_numbers)
{
    const uint8_t labels[] = {0, 1};
    const int64_t ids[] = {4000000000, 5};
    char nodes[4096];
    save("rows.npy", SL_DTYPE_U8, 2, 2, 1, labels);
    save("nodes.npy", SL_DTYPE_I64, 1, 2, 1, ids);
    snprintf(nodes, sizeof nodes, "%s", in_dir("nodes.npy"));
    ck_assert_str_eq(text_of((struct sl_prediction_csv){.column = "class", .nodes = nodes}),
                     "vertex,class\n4000000000,0\n5,1\n");
}

static int quoted_name(void *ctx, uint64_t vertex, const char **text, size_t *n)
{
    const char *const *names = ctx;
    *text = names[vertex];
    *n = strlen(*text);
    return SL_OK;
}

TEST(names_stand_in_quotes_where_they_must)
{
    const char *names[] = {"plain", "a,b", "say \"no\"", "two\nlines"};
    const int32_t classes[] = {0, 1, 2, 3};
    save("rows.npy", SL_DTYPE_I32, 1, 4, 1, classes);
    ck_assert_str_eq(text_of((struct sl_prediction_csv){
                         .column = "class", .name = quoted_name, .name_ctx = names}),
                     "vertex,class\nplain,0\n\"a,b\",1\n\"say \"\"no\"\"\",2\n\"two\nlines\",3\n");
}

TEST(classes_have_their_names)
{
    const int32_t classes[] = {1, -1, 0};
    const float values[] = {0.5f, 0.25f};
    struct sl_names_writer w;
    struct sl_names names;
    ck_assert_int_eq(sl_names_writer_open(&w, dir, SL_NAMES_CLASS), SL_OK);
    ck_assert_int_eq(sl_names_writer_put(&w, "cat", 3), SL_OK);
    ck_assert_int_eq(sl_names_writer_put(&w, "dog,big", 7), SL_OK);
    ck_assert_int_eq(sl_names_writer_close(&w, SL_OK), SL_OK);
    ck_assert_int_eq(sl_names_open(dir, SL_NAMES_CLASS, 2, &names), SL_OK);
    save("rows.npy", SL_DTYPE_I32, 1, 3, 1, classes);
    ck_assert_str_eq(text_of((struct sl_prediction_csv){.column = "class", .classes = &names}),
                     "vertex,class\n0,\"dog,big\"\n1,-1\n2,cat\n");
    save("rows.npy", SL_DTYPE_F32, 2, 1, 2, values);
    ck_assert_str_eq(text_of((struct sl_prediction_csv){.column = "output", .classes = &names}),
                     "vertex,output_cat,\"output_dog,big\"\n0,0.5,0.25\n");
    sl_names_close(&names);
}

TEST(every_float_comes_back)
{
    enum { N = 20000 }; // more than a buffer of text
    float *values = malloc(N * sizeof *values);
    uint32_t state = 12345;
    for (int i = 0; i < N; i++) {
        do {
            state = state * 1664525u + 1013904223u;
            memcpy(&values[i], &state, sizeof state);
        } while (values[i] != values[i] || values[i] - values[i] != 0);
    }
    save("rows.npy", SL_DTYPE_F32, 2, N, 1, values);
    const char *at = strchr(text_of((struct sl_prediction_csv){.column = "output"}), '\n') + 1;
    for (int i = 0; i < N; i++) {
        char *end;
        ck_assert_int_eq(strtol(at, &end, 10), i);
        ck_assert_msg(*end == ',' && strtof(end + 1, &end) == values[i], "row %d: %.20s", i, at);
        ck_assert_int_eq(*end, '\n');
        at = end + 1;
    }
    ck_assert_int_eq(*at, '\0');
    free(values);
}

TEST(other_rows_than_vertices_are_refused_and_leave_nothing)
{
    const int32_t classes[] = {0, 1};
    const uint32_t ids[] = {1, 2, 3};
    const struct sl_vertex_list list = {.n = 3, .ids = ids};
    char rows[4096];
    save("rows.npy", SL_DTYPE_I32, 1, 2, 1, classes);
    snprintf(rows, sizeof rows, "%s", in_dir("rows.npy"));
    const struct sl_prediction_csv csv = {.rows = rows, .column = "class", .list = &list};
    ck_assert_int_eq(sl_prediction_csv_write(&csv, in_dir("out.csv")), SL_EFORMAT);
    ck_assert_int_ne(access(in_dir("out.csv"), F_OK), 0);
}

TEST(rows_of_another_type_are_refused)
{
    const int64_t rows[] = {0, 1};
    char path[4096];
    save("rows.npy", SL_DTYPE_I64, 1, 2, 1, rows);
    snprintf(path, sizeof path, "%s", in_dir("rows.npy"));
    const struct sl_prediction_csv csv = {.rows = path, .column = "class"};
    ck_assert_int_eq(sl_prediction_csv_write(&csv, in_dir("out.csv")), SL_EFORMAT);
    assert_message_has("found int64 of 1 dimensions, wanted float32, int32 or uint8");
    ck_assert_int_ne(access(in_dir("out.csv"), F_OK), 0);
}

RUN_TESTS(IN_A_DIRECTORY, .timeout_s = 60)
