// Vertices that two lists share, beside a naive search; data sets whose splits share some.
#include "common/data/overlap.h"

#include "common/base/philox.h"
#include "common/data/dataset.h"
#include "tests/unit/suite.h"
#include "tests/unit/test_data_fixture.h"

enum { N_NODES = 700000, MANY = 300000 };

static void *copy_as(enum sl_dtype dtype, const uint32_t *ids, uint64_t n)
{
    const size_t each = sl_dtype_bytes(dtype);
    char *out = malloc((n + 1) * each);
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t wide = ids[i];
        memcpy(out + i * each, each == 8 ? (const void *)&wide : &ids[i], each);
    }
    return out;
}

static int compare(const void *x, const void *y)
{
    const uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
    return (a > b) - (a < b);
}

// So many different ids: the first of a shuffle by `seed`, in its order or ascending.
static uint32_t *draw(uint64_t seed, uint64_t n, bool ascending)
{
    uint32_t *ids = malloc(N_NODES * sizeof *ids);
    for (uint32_t i = 0; i < N_NODES; i++)
        ids[i] = i;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t j = i + sl_philox(seed, i, 0, 0, 0).w[0] % (N_NODES - i), x = ids[i];
        ids[i] = ids[j];
        ids[j] = x;
    }
    if (ascending)
        qsort(ids, n, sizeof *ids, compare);
    return ids;
}

static void assert_as_naive(const uint32_t *x, uint64_t n_x, const uint32_t *y, uint64_t n_y,
                            const struct sl_overlap *found)
{
    static bool is_of_x[N_NODES], is_of_y[N_NODES];
    uint64_t n = 0;
    memset(is_of_x, 0, sizeof is_of_x);
    memset(is_of_y, 0, sizeof is_of_y);
    for (uint64_t i = 0; i < n_x; i++)
        is_of_x[x[i]] = true;
    for (uint64_t i = 0; i < n_y; i++)
        is_of_y[y[i]] = true;
    for (uint64_t v = 0; v < N_NODES; v++) {
        if (!is_of_x[v] || !is_of_y[v])
            continue;
        if (n < SL_OVERLAP_SHOWN)
            ck_assert_uint_eq(found->shown[n], v);
        n++;
    }
    ck_assert_uint_eq(found->n, n);
    ck_assert_uint_eq(found->n_shown, SL_MIN(n, (uint64_t)SL_OVERLAP_SHOWN));
}

static const struct {
    uint64_t n_x, n_y;
    bool x_ascends, y_ascends;
    enum sl_dtype x_type, y_type;
} pairs[] = {
    {MANY, MANY, true, true, SL_DTYPE_I64, SL_DTYPE_I64},
    {MANY, MANY, false, true, SL_DTYPE_I32, SL_DTYPE_U64},
    {MANY, MANY, true, false, SL_DTYPE_U32, SL_DTYPE_I32},
    {MANY, MANY, false, false, SL_DTYPE_I64, SL_DTYPE_I32},
    {MANY, 1000, true, true, SL_DTYPE_I32, SL_DTYPE_I32},
    {1000, MANY, true, true, SL_DTYPE_I32, SL_DTYPE_I64},
    {3, 2, true, true, SL_DTYPE_I32, SL_DTYPE_I32},
    {0, MANY, true, false, SL_DTYPE_I32, SL_DTYPE_I32},
    {MANY, 0, false, true, SL_DTYPE_I32, SL_DTYPE_I32},
    {N_NODES, N_NODES, true, true, SL_DTYPE_I32, SL_DTYPE_I32},
};

LOOP_TEST(as_a_naive_search_finds_them, 0, SL_COUNT_OF(pairs))
{
    const uint64_t n_x = pairs[_i].n_x, n_y = pairs[_i].n_y;
    uint32_t *x = draw(1, n_x, pairs[_i].x_ascends), *y = draw(2, n_y, pairs[_i].y_ascends);
    void *a = copy_as(pairs[_i].x_type, x, n_x), *b = copy_as(pairs[_i].y_type, y, n_y);
    const struct sl_overlap_list one = {a, pairs[_i].x_type, n_x}, two = {b, pairs[_i].y_type, n_y};
    for (int threads = 1; threads <= 3; threads += 2) {
        struct sl_overlap found;
        must(sl_overlap_find(&one, &two, N_NODES, threads, &found));
        assert_as_naive(x, n_x, y, n_y, &found);
    }
    free(a);
    free(b);
    free(x);
    free(y);
}

TEST(a_few_are_named_and_all_are_counted)
{
    char text[SL_OVERLAP_TEXT_BYTES];
    const struct sl_overlap one = {1, 1, {7}}, five = {5, 5, {1, 2, 3, 4, 4000000000}},
                            more = {4000000000, 5, {1, 2, 3, 4, 4000000000}};
    ck_assert_str_eq(sl_overlap_text(&one, text), "1 vertex (7)");
    ck_assert_str_eq(sl_overlap_text(&five, text), "5 vertices (1, 2, 3, 4, 4000000000)");
    ck_assert_str_eq(sl_overlap_text(&more, text),
                     "4000000000 vertices (1, 2, 3, 4, 4000000000, ...)");
}

// ---- data sets ----------------------------------------------------------------------------------

static int open_it(enum sl_dataset_check check, struct sl_dataset *ds)
{
    return sl_dataset_open(dir, SL_NEED_TRAINING, check, 2, ds);
}

static void refused(const char *a, const char *b)
{
    struct sl_dataset ds;
    ck_assert_int_eq(open_it(SL_CHECK_CACHED, &ds), SL_EFORMAT);
    assert_message_has(a);
    assert_message_has(b);
    assert_message_has("\"splits\": \"overlap\"");
}

static void say(const char *splits)
{
    char text[256];
    snprintf(text, sizeof text,
             "{\"num_nodes\": 5, \"num_edges\": 7, \"feat_dim\": 3, \"num_classes\": 2, "
             "\"splits\": %s}",
             splits);
    write_text("metadata.json", text);
}

TEST(lists_that_share_vertices_are_refused)
{
    WRITE_I64("val_idx.npy", 1, 0);
    refused("train_idx.npy and val_idx.npy share 1 vertex (1): ", NULL);
    WRITE_I32("test_idx.npy", 3, 0);
    refused("train_idx.npy and val_idx.npy share 1 vertex (1), train_idx.npy and test_idx.npy "
            "share 1 vertex (3), val_idx.npy and test_idx.npy share 1 vertex (0): ",
            dir);
    WRITE_I64("val_idx.npy", 2);
    WRITE_I64("test_idx.npy", 1, 3);
    refused("train_idx.npy and test_idx.npy share 2 vertices (1, 3): ", NULL);
    ck_assert_int_eq(unlink(in_dir("test_idx.npy")), 0);
    struct sl_dataset ds;
    must(open_it(SL_CHECK_CACHED, &ds));
    ck_assert(!ds.may_overlap);
    sl_dataset_close(&ds);
}

TEST(a_data_set_may_say_that_they_do)
{
    struct sl_dataset ds;
    WRITE_I64("val_idx.npy", 1, 3);
    say("\"overlap\"");
    must(open_it(SL_CHECK_CACHED, &ds));
    ck_assert(ds.may_overlap);
    sl_dataset_close(&ds);
    say("\"disjoint\""); // whatever was remembered of the same files
    refused("train_idx.npy and val_idx.npy share 2 vertices (1, 3): ", NULL);
    say("null");
    refused("train_idx.npy and val_idx.npy share 2 vertices (1, 3): ", NULL);
}

TEST(another_word_for_it_is_refused)
{
    static const char *const words[] = {"\"overlaps\"", "true", "{\"train\": 2}", "[]"};
    for (size_t i = 0; i < SL_COUNT_OF(words); i++) {
        struct sl_dataset ds;
        say(words[i]);
        ck_assert_int_eq(open_it(SL_CHECK_CACHED, &ds), SL_EFORMAT);
        assert_message_has("metadata.json: \"splits\" is ");
        assert_message_has("wanted \"disjoint\", or \"overlap\"");
    }
}

RUN_TESTS(.setup = tiny_begin, .begin = scratch_begin, .end = scratch_end, .timeout_s = 60)
