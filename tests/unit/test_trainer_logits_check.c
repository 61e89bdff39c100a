// Outputs beside those of the original: where they differ most, and what cannot be compared.
#include "trainer/infer/logits_check.h"

#include <math.h>

#include "tests/unit/suite.h"
#include "tests/unit/test_data_fixture.h"

enum { ROWS = 4, COLUMNS = 3 };

static const double logits[ROWS][COLUMNS] = {
    {0.5, -0.25, 0.125}, {2000, -1000, 0}, {1, 1, 1}, {-3, 0.5, 0}};
static float model[ROWS][COLUMNS];
static struct sl_logits_check check;

static void setup(void)
{
    dir_begin();
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLUMNS; c++)
            model[r][c] = (float)logits[r][c];
}

static const char *write_numbers(enum sl_dtype dtype, int ndim, uint64_t rows, uint64_t columns,
                                 const void *data)
{
    const uint64_t shape[2] = {rows, columns};
    struct sl_npy_writer *w;
    must(sl_npy_writer_open(in_dir("o.npy"), dtype, ndim, shape, &w));
    must(sl_npy_writer_append(w, data, rows * (ndim == 2 ? columns : 1) * sl_dtype_bytes(dtype)));
    must(sl_npy_writer_commit(w));
    return in_dir("o.npy");
}

// In two pieces, as a model's rows come.
static int compare(const char *path)
{
    SL_TRY(sl_logits_check_open(&check, path, ROWS, COLUMNS));
    SL_TRY(sl_logits_check_put(&check, 0, 1, model[0]));
    return sl_logits_check_put(&check, 1, ROWS - 1, model[1]);
}

TEST(the_same_has_no_difference)
{
    must(compare(write_numbers(SL_DTYPE_F64, 2, ROWS, COLUMNS, logits)));
    ck_assert(check.largest == 0 && !check.log_probabilities);
    sl_logits_check_close(&check);
    must(compare(write_numbers(SL_DTYPE_F32, 2, ROWS, COLUMNS, model)));
    ck_assert(check.largest == 0);
    sl_logits_check_close(&check);
    sl_logits_check_close(&check); // a closed one
}

// Absolute in rows within 1, relative to their largest beyond.
TEST(the_largest_difference_is_named_with_its_place)
{
    const char *path = write_numbers(SL_DTYPE_F64, 2, ROWS, COLUMNS, logits);
    model[0][2] = 0.1875f; // by 1/16
    model[1][1] += 125;    // by 125 of 2000, which is the same: the first counts
    must(compare(path));
    ck_assert_double_eq(check.largest, 0.0625);
    ck_assert(check.row == 0 && check.column == 2 && check.found == 0.1875 &&
              check.wanted == 0.125);
    sl_logits_check_close(&check);
    model[1][1] += 125;
    must(compare(path));
    ck_assert_double_eq(check.largest, 0.125);
    ck_assert(check.row == 1 && check.column == 1);
    sl_logits_check_close(&check);
    model[3][0] = NAN;
    must(compare(path));
    ck_assert(isinf(check.largest) && check.row == 3 && check.column == 0 && isnan(check.found));
    sl_logits_check_close(&check);
}

TEST(logarithms_of_probabilities_are_recognised)
{
    double logs[ROWS][COLUMNS];
    for (int r = 0; r < ROWS; r++) {
        double sum = 0;
        for (int c = 0; c < COLUMNS; c++)
            sum += exp(logits[r][c] - logits[r][0]);
        for (int c = 0; c < COLUMNS; c++)
            logs[r][c] = logits[r][c] - logits[r][0] - log(sum);
    }
    must(compare(write_numbers(SL_DTYPE_F64, 2, ROWS, COLUMNS, logs)));
    ck_assert(check.log_probabilities && check.largest > 0.1);
    sl_logits_check_close(&check);
}

TEST(what_is_not_the_originals_logits_is_refused)
{
    static const int32_t classes[ROWS] = {1, 2, 0, 1};
    double broken[ROWS][COLUMNS];
    ck_assert_int_eq(compare(write_numbers(SL_DTYPE_F64, 2, COLUMNS, ROWS, logits)), SL_EFORMAT);
    assert_message_has("found shape (3, 4), wanted (4, 3): the original's logits of all vertices");
    sl_logits_check_close(&check);
    ck_assert_int_eq(compare(write_numbers(SL_DTYPE_I32, 1, ROWS, 0, classes)), SL_EFORMAT);
    assert_message_has("found int32, wanted the original's logits in float32 or float64");
    sl_logits_check_close(&check);
    memcpy(broken, logits, sizeof broken);
    broken[2][1] = NAN;
    ck_assert_int_eq(compare(write_numbers(SL_DTYPE_F64, 2, ROWS, COLUMNS, broken)), SL_EFORMAT);
    assert_message_has("row 2, column 1: found nan");
    sl_logits_check_close(&check);
}

TEST(one_output_may_be_a_list)
{
    const float list[ROWS] = {1, 2, 3, 4};
    must(sl_logits_check_open(&check, write_numbers(SL_DTYPE_F32, 1, ROWS, 0, list), ROWS, 1));
    must(sl_logits_check_put(&check, 0, ROWS, list));
    ck_assert(check.largest == 0 && !check.log_probabilities);
    sl_logits_check_close(&check);
}

RUN_TESTS(.setup = setup, .begin = scratch_begin, .end = scratch_end)
