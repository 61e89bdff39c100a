// Features in several files: where a byte lies, one matrix for whoever maps them, rows for whoever
// reads them, and every way in which a file can be the wrong one.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/data/dataset_files.h"
#include "common/storage/row_reader.h"
#include "dataset/stripe.h"
#include "tests/unit/suite.h"
#include "tests/unit/test_data_fixture.h"

enum { ROWS = 9000, FILES_MAX = 5 };

static uint64_t gcd(uint64_t a, uint64_t b)
{
    return b ? gcd(b, a % b) : a;
}

TEST(a_unit_is_whole_rows_and_whole_pages)
{
    static const uint64_t row_bytes[] = {1, 2, 4, 400, 402, 512, 4095, 4096, 4097, 16388, 1 << 20};
    for (size_t i = 0; i < SL_COUNT_OF(row_bytes); i++) {
        const uint64_t row = row_bytes[i], least = row / gcd(row, 4096) * 4096;
        ck_assert_uint_eq(sl_stripes_unit(row, 0), least);
        ck_assert_uint_eq(sl_stripes_unit(row, least), least);
        ck_assert_uint_eq(sl_stripes_unit(row, least + 1), 2 * least);
        const uint64_t large = sl_stripes_unit(row, 64 << 20);
        ck_assert(large % row == 0 && large % 4096 == 0);
        ck_assert(large >= 64 << 20 && large < (64 << 20) + least);
    }
}

TEST(every_byte_has_one_place)
{
    for (uint32_t n = 1; n <= FILES_MAX; n++)
        for (uint64_t units = 0; units < 12; units++) {
            struct sl_stripes s = {
                .n = n, .unit_bytes = 8192, .matrix_bytes = units * 8192 + units * 640 % 8192};
            uint64_t all = 0, ends[FILES_MAX] = {0};
            for (uint64_t at = 0; at < s.matrix_bytes; at += 64) {
                uint32_t file;
                uint64_t offset;
                sl_stripes_place(s.unit_bytes, n, at, &file, &offset);
                ck_assert_uint_lt(file, n);
                ck_assert_uint_eq(offset, SL_MAX(ends[file], (uint64_t)SL_STRIPE_HEAD_BYTES));
                ends[file] = offset + 64;
            }
            for (uint32_t i = 0; i < n; i++) {
                const uint64_t end = SL_MAX(ends[i], (uint64_t)SL_STRIPE_HEAD_BYTES);
                ck_assert_uint_eq(sl_stripes_file_bytes(&s, i), end);
                all += end - SL_STRIPE_HEAD_BYTES;
            }
            ck_assert_uint_eq(all, s.matrix_bytes);
        }
}

// ---- a data set ---------------------------------------------------------------------------------

static char folders[FILES_MAX][1100];
static const char *to[FILES_MAX];

// A ring of vertices whose features all differ. dim is even.
static void make_dataset(uint32_t dim, enum sl_dtype dtype)
{
    static uint64_t indptr[ROWS + 1];
    static int32_t indices[ROWS], label[ROWS];
    const uint64_t n = (uint64_t)ROWS * dim;
    uint16_t *half = malloc(n * sizeof(float));
    float *x = (float *)(void *)half;
    char text[256];
    for (uint64_t i = 0; i < n; i++) {
        if (dtype == SL_DTYPE_F32)
            x[i] = (float)i;
        else
            half[i] = (uint16_t)(i * 7 % 0x7c00);
    }
    for (uint32_t v = 0; v < ROWS; v++) {
        indptr[v + 1] = v + 1;
        indices[v] = (int32_t)((v + 1) % ROWS);
    }
    snprintf(text, sizeof text,
             "{\"num_nodes\": %d, \"num_edges\": %d, \"feat_dim\": %u, \"num_classes\": 2, "
             "\"task\": \"multiclass\", \"mine\": [1, 2]}",
             ROWS, ROWS, dim);
    write_text("metadata.json", text);
    write_list("indptr.npy", SL_DTYPE_I64, ROWS + 1, indptr);
    write_list("indices.npy", SL_DTYPE_I32, ROWS, indices);
    write_list("node_label.npy", SL_DTYPE_I32, ROWS, label);
    write_npy("node_feat.npy", dtype, 2, (uint64_t[]){ROWS, dim}, half);
    remove(in_dir("edge_weight.npy"));
    free(half);
}

static int stripe(uint32_t n, bool force)
{
    for (uint32_t i = 0; i < n; i++) {
        snprintf(folders[i], sizeof folders[i], "%s/drive%u", dir, i);
        mkdir(folders[i], 0700);
        to[i] = folders[i];
    }
    struct sl_stripe_making m = {
        .dataset = dir, .to = to, .n = n, .unit_bytes = 4096, .force = force, .quiet = true};
    int rc = sl_stripe_make(&m);
    sl_stripe_making_fini(&m);
    return rc;
}

static const char *stripe_path(uint32_t i)
{
    static char path[1300];
    const char *slash = strrchr(dir, '/');
    snprintf(path, sizeof path, "%s/%s.feat.%u", folders[i], slash + 1, i);
    return path;
}

static int open_it(struct sl_dataset *ds)
{
    return sl_dataset_open(dir, SL_NEED_TOPOLOGY | SL_NEED_FEATURES, SL_CHECK_FULL, 2, ds);
}

static const struct {
    uint32_t dim;
    enum sl_dtype dtype;
} shapes[] = {{100, SL_DTYPE_F32}, {128, SL_DTYPE_F32}, {331, SL_DTYPE_F16}, {1026, SL_DTYPE_F16}};

LOOP_TEST(striped_features_are_the_same_matrix, 0, SL_COUNT_OF(shapes))
{
    static const uint32_t counts[] = {1, 2, 3, 5};
    const uint32_t dim = shapes[_i].dim;
    const uint64_t row = dim * sl_dtype_bytes(shapes[_i].dtype), all = ROWS * row;
    struct sl_dataset before, ds;
    make_dataset(dim, shapes[_i].dtype);
    must(open_it(&before));
    char *wanted = malloc(all);
    memcpy(wanted, before.feat, all);
    uint64_t digest = before.digest;
    sl_dataset_close(&before);
    for (size_t c = 0; c < SL_COUNT_OF(counts); c++) {
        make_dataset(dim, shapes[_i].dtype);
        must(stripe(counts[c], true));
        remove(in_dir("node_feat.npy")); // is not read any more
        must(open_it(&ds));
        ck_assert_uint_eq(sl_dataset_stripes(ds.files, 0)->n, counts[c]);
        ck_assert_mem_eq(ds.feat, wanted, all);
        ck_assert(ds.digest != digest);
        digest = ds.digest;
        for (int way = 0; way < 4; way++) {
            const struct sl_row_options options = {
                .way = (enum sl_row_way)(way & 1), .cached = way > 1, .depth = 1 + 9 * (way & 1)};
            struct sl_row_reader *r;
            static uint32_t rows[3 * ROWS];
            char *out = malloc(3 * ROWS * row);
            must(sl_row_reader_open(&ds, &options, &r));
            const uint32_t n = way == 0 ? 3 * ROWS : 1000; // all of them, too
            for (uint32_t i = 0; i < n; i++)
                rows[i] = way == 0 ? i % ROWS : (uint32_t)((uint64_t)i * 7919 % ROWS);
            must(sl_row_reader_read(r, rows, NULL, n, out));
            for (uint32_t i = 0; i < n; i++)
                if (memcmp(out + i * row, wanted + rows[i] * row, row) != 0)
                    ck_abort_msg("row %u of %u files, way %d", rows[i], counts[c], way);
            sl_row_reader_close(r);
            free(out);
        }
        sl_dataset_close(&ds);
    }
    free(wanted);
}

// ---- what can be wrong --------------------------------------------------------------------------

static void expect_refused(int code, const char *a, const char *b)
{
    struct sl_dataset ds;
    ck_assert_int_eq(open_it(&ds), code);
    assert_message_has(a);
    assert_message_has(b);
}

static void swap_files(uint32_t a, uint32_t b)
{
    char from[1300], over[1300], aside[1400];
    snprintf(from, sizeof from, "%s", stripe_path(a));
    snprintf(over, sizeof over, "%s", stripe_path(b));
    snprintf(aside, sizeof aside, "%s.aside", from);
    ck_assert_int_eq(rename(from, aside), 0);
    ck_assert_int_eq(rename(over, from), 0);
    ck_assert_int_eq(rename(aside, over), 0);
}

static void patch(uint32_t file, off_t at, const void *p, size_t n)
{
    int fd = open(stripe_path(file), O_WRONLY);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(pwrite(fd, p, n, at), (ssize_t)n);
    close(fd);
}

// Eight rows of 512 bytes are a unit, so that row 9 is in the second file's first one.
TEST(a_number_that_is_not_finite_is_told_by_its_stripe)
{
    make_dataset(128, SL_DTYPE_F32);
    must(stripe(2, true));
    patch(1, SL_STRIPE_HEAD_BYTES + 512 + 12, &(float){NAN}, sizeof(float));
    expect_refused(SL_EFORMAT, stripe_path(1),
                   "at byte 4620, row 9, column 3 of the features, is NaN");
    expect_refused(SL_EFORMAT, "replace it in node_feat.npy", "`sluice stripe --force`");
}

TEST(a_file_that_is_the_wrong_one_is_told)
{
    struct sl_stripe_head head;
    struct sl_dataset ds;
    make_dataset(100, SL_DTYPE_F32);
    must(stripe(3, true));
    swap_files(0, 2);
    expect_refused(SL_EFORMAT, stripe_path(0), "is stripe 2 of 3 and stands where stripe 0");
    swap_files(0, 2);
    swap_files(1, 2);
    expect_refused(SL_EFORMAT, stripe_path(1), "is stripe 2 of 3 and stands where stripe 1");
    swap_files(1, 2);
    must(open_it(&ds));
    sl_dataset_close(&ds);

    char aside[1400];
    snprintf(aside, sizeof aside, "%s.aside", stripe_path(1));
    ck_assert_int_eq(rename(stripe_path(1), aside), 0);
    expect_refused(SL_ENOENT, stripe_path(1), "stripe 1 of 3 is missing");
    ck_assert_int_eq(rename(aside, stripe_path(1)), 0);

    int fd = open(stripe_path(2), O_RDONLY);
    ck_assert_int_eq(read(fd, &head, sizeof head), (ssize_t)sizeof head);
    close(fd);
    const struct sl_stripe_head good = head;
    head.set++;
    patch(2, 0, &head, sizeof head);
    expect_refused(SL_EFORMAT, stripe_path(2), "is of another set of stripes than");
    head = good;
    head.magic[0] = 'X';
    patch(2, 0, &head, sizeof head);
    expect_refused(SL_EFORMAT, stripe_path(2), "is not a stripe of features");
    head = good;
    head.n = 4;
    patch(2, 0, &head, sizeof head);
    expect_refused(SL_EFORMAT, stripe_path(2), "is one of 4 stripes");
    head = good;
    head.rows--;
    patch(2, 0, &head, sizeof head);
    expect_refused(SL_EFORMAT, stripe_path(2), "its head is damaged");
    patch(2, 0, &good, sizeof good);

    struct stat st;
    ck_assert_int_eq(stat(stripe_path(1), &st), 0);
    ck_assert_int_eq(truncate(stripe_path(1), st.st_size - 1), 0);
    expect_refused(SL_EFORMAT, stripe_path(1), "an incomplete copy");
    ck_assert_int_eq(truncate(stripe_path(1), 10), 0);
    expect_refused(SL_EFORMAT, stripe_path(1), "is not a stripe of features");
}

TEST(units_that_cannot_be)
{
    static const uint64_t units[] = {0, 4095, 4096, 102401, UINT64_MAX};
    struct sl_stripe_head head;
    make_dataset(100, SL_DTYPE_F32);
    must(stripe(1, true));
    int fd = open(stripe_path(0), O_RDONLY);
    ck_assert_int_eq(read(fd, &head, sizeof head), (ssize_t)sizeof head);
    close(fd);
    ck_assert_uint_eq(head.unit_bytes, 102400);
    for (size_t i = 0; i < SL_COUNT_OF(units); i++) {
        head.unit_bytes = units[i];
        patch(0, 0, &head, sizeof head);
        expect_refused(SL_EFORMAT, stripe_path(0), "its head is damaged");
    }
}

TEST(metadata_that_names_no_files)
{
    static const char *const bad[] = {"3",
                                      "{}",
                                      "{\"files\": []}",
                                      "{\"files\": [1]}",
                                      "{\"files\": [\"\"]}",
                                      "{\"files\": \"a\"}"};
    for (size_t i = 0; i < SL_COUNT_OF(bad); i++) {
        char text[256];
        struct sl_dataset ds;
        make_dataset(4, SL_DTYPE_F32);
        snprintf(text, sizeof text,
                 "{\"num_nodes\": %d, \"num_edges\": %d, \"feat_dim\": 4, \"feat_stripes\": %s}",
                 ROWS, ROWS, bad[i]);
        write_text("metadata.json", text);
        ck_assert_int_eq(open_it(&ds), SL_EFORMAT);
        assert_message_has("feat_stripes");
    }
}

LOOP_TEST(a_file_that_changes_or_ends_while_it_is_open, 0, 2)
{
    struct sl_dataset ds;
    struct sl_row_reader *r;
    static uint32_t rows[ROWS];
    make_dataset(100, SL_DTYPE_F32);
    must(stripe(2, true));
    must(open_it(&ds));
    const struct sl_row_options options = {.depth = 4, .way = (enum sl_row_way)_i};
    must(sl_row_reader_open(&ds, &options, &r));
    for (uint32_t i = 0; i < ROWS; i++)
        rows[i] = i;
    char *out = malloc((size_t)ROWS * 400);
    ck_assert_int_eq(truncate(stripe_path(1), 8192), 0);
    ck_assert_int_eq(sl_row_reader_read(r, rows, NULL, ROWS, out), SL_EFORMAT);
    assert_message_has(stripe_path(1));
    assert_message_has("ends at byte 8192, wanted");
    sl_row_reader_close(r);
    ck_assert_int_eq(sl_row_reader_open(&ds, &options, &r), SL_ECHANGED);
    assert_message_has(stripe_path(1));
    assert_message_has("was changed");
    sl_dataset_close(&ds);
    free(out);
}

TEST(making_refuses_what_would_be_lost)
{
    make_dataset(100, SL_DTYPE_F32);
    must(stripe(2, true));
    ck_assert_int_eq(stripe(2, true), SL_EEXIST); // they are what it reads
    assert_message_has("is read as features of the data set already");
    make_dataset(100, SL_DTYPE_F32); // names them no more
    ck_assert_int_eq(stripe(2, false), SL_EEXIST);
    assert_message_has("replace it with --force");
    const char *nowhere[] = {"/nowhere/at/all"};
    struct sl_stripe_making m = {
        .dataset = dir, .to = nowhere, .n = 1, .unit_bytes = 4096, .quiet = true};
    ck_assert_int_eq(sl_stripe_make(&m), SL_ENOENT);
    assert_message_has("--to /nowhere/at/all");
    sl_stripe_making_fini(&m);
    struct sl_dataset ds;
    must(open_it(&ds)); // as it was
    ck_assert_ptr_null(sl_dataset_stripes(ds.files, 0));
    sl_dataset_close(&ds);
}

// ---- of several types ---------------------------------------------------------------------------

enum { PAPERS = 5000, AUTHORS = 300, VENUES = 3700, PAPER_DIM = 100, VENUE_DIM = 331 };

static float papers[PAPERS * PAPER_DIM];
static uint16_t venues[VENUES * VENUE_DIM];

static void write_types(const char *of_venues)
{
    char text[1024];
    snprintf(
        text, sizeof text,
        "{\"num_nodes\": %d, \"num_edges\": %d, \"types\": [{\"name\": \"paper\", \"count\": %d, "
        "\"feat_dim\": %d}, {\"name\": \"author\", \"count\": %d}, {\"name\": \"venue\", "
        "\"count\": %d, \"feat_dim\": %d%s}], \"relations\": [{\"source\": \"paper\", \"name\": "
        "\"cites\", \"target\": \"paper\", \"edges\": %d}]}",
        PAPERS + AUTHORS + VENUES, PAPERS, PAPERS, PAPER_DIM, AUTHORS, VENUES, VENUE_DIM, of_venues,
        PAPERS);
    write_text("metadata.json", text);
}

static void make_typed(void)
{
    static uint64_t indptr[PAPERS + 1];
    static int32_t indices[PAPERS];
    static const char *const others[] = {"edge_weight.npy", "node_feat.npy", "node_label.npy",
                                         "train_idx.npy",   "val_idx.npy",   "test_idx.npy"};
    for (uint32_t i = 0; i < PAPERS * PAPER_DIM; i++)
        papers[i] = (float)i;
    for (uint32_t i = 0; i < VENUES * VENUE_DIM; i++)
        venues[i] = (uint16_t)(i * 7 % 0x7c00);
    for (uint32_t v = 0; v < PAPERS; v++) {
        indptr[v + 1] = v + 1;
        indices[v] = (int32_t)((v + 1) % PAPERS);
    }
    for (size_t i = 0; i < SL_COUNT_OF(others); i++)
        remove(in_dir(others[i]));
    write_types("");
    write_list("indptr.npy", SL_DTYPE_I64, PAPERS + 1, indptr);
    write_list("indices.npy", SL_DTYPE_I32, PAPERS, indices);
    write_npy("node_feat.paper.npy", SL_DTYPE_F32, 2, (uint64_t[]){PAPERS, PAPER_DIM}, papers);
    write_npy("node_feat.venue.npy", SL_DTYPE_F16, 2, (uint64_t[]){VENUES, VENUE_DIM}, venues);
}

static int open_typed(struct sl_dataset *ds)
{
    return sl_dataset_open(dir, SL_NEED_TOPOLOGY | SL_NEED_FEATURES, SL_CHECK_FULL, 2, ds);
}

// Rows of a type by a reader, of which it knows all types.
static void read_type(struct sl_row_reader *r, uint64_t first, uint32_t n, uint64_t row,
                      const void *wanted)
{
    static uint32_t rows[SL_MAX(PAPERS, VENUES)];
    char *out = malloc(n * row);
    for (uint32_t i = 0; i < n; i++)
        rows[i] = (uint32_t)(first + (uint64_t)i * 7919 % n);
    must(sl_row_reader_read(r, rows, NULL, n, out));
    for (uint32_t i = 0; i < n; i++)
        if (memcmp(out + i * row, (const char *)wanted + (rows[i] - first) * row, row) != 0)
            ck_abort_msg("row %u", rows[i]);
    free(out);
}

LOOP_TEST(each_type_has_stripes_of_its_own, 1, 4)
{
    struct sl_dataset ds;
    struct sl_row_reader *r;
    make_typed();
    must(stripe((uint32_t)_i, false));
    remove(in_dir("node_feat.paper.npy"));
    remove(in_dir("node_feat.venue.npy"));
    must(open_typed(&ds));
    const struct sl_vertex_type *t = ds.typed.type;
    ck_assert_uint_eq(sl_dataset_stripes(ds.files, 0)->n, _i);
    ck_assert_ptr_null(sl_dataset_stripes(ds.files, 1));
    ck_assert_uint_eq(sl_dataset_stripes(ds.files, 2)->n, _i);
    ck_assert_mem_eq(t[0].feat, papers, sizeof papers);
    ck_assert_mem_eq(t[2].feat, venues, sizeof venues);
    for (int way = 0; way < 2; way++) {
        const struct sl_row_options options = {.way = (enum sl_row_way)way, .depth = 4};
        must(sl_row_reader_open(&ds, &options, &r));
        read_type(r, 0, PAPERS, PAPER_DIM * sizeof *papers, papers);
        read_type(r, PAPERS + AUTHORS, VENUES, VENUE_DIM * sizeof *venues, venues);
        sl_row_reader_close(r);
    }
    // What was validated is opened again, and what has changed since is told.
    char *record = sl_dataset_record(&ds);
    struct sl_dataset again;
    must(sl_dataset_open_recorded(dir, SL_NEED_TOPOLOGY, record, 2, &again));
    sl_dataset_close(&again);
    const char *path = sl_dataset_stripes(ds.files, 2)->file[0].path;
    ck_assert_int_eq(truncate(path, SL_STRIPE_HEAD_BYTES), 0);
    ck_assert_int_eq(sl_dataset_open_recorded(dir, SL_NEED_TOPOLOGY, record, 2, &again),
                     SL_ECHANGED);
    assert_message_has(path);
    free(record);
    sl_dataset_close(&ds);
}

TEST(stripes_of_another_type_are_told)
{
    struct sl_dataset ds;
    char text[1400];
    const char *name = strrchr(dir, '/') + 1;
    make_typed();
    must(stripe(1, false));
    snprintf(text, sizeof text, ", \"feat_stripes\": {\"files\": [\"drive0/%s.feat.paper.0\"]}",
             name);
    write_types(text);
    ck_assert_int_eq(open_typed(&ds), SL_EFORMAT);
    snprintf(text, sizeof text, "%s.feat.paper.0: is float32 (%d, %d)", name, PAPERS, PAPER_DIM);
    assert_message_has(text);
    assert_message_has("(3700, 331) of type \"venue\"");
    snprintf(text, sizeof text, ", \"feat_stripes\": {\"files\": [\"nowhere\"]}");
    write_types(text);
    ck_assert_int_eq(open_typed(&ds), SL_ENOENT);
    assert_message_has("type \"venue\"");
    assert_message_has("nowhere: stripe 0 of 1 is missing");
}

TEST(units_of_all_types_are_few_enough_to_be_mapped)
{
    struct sl_dataset ds;
    struct sl_npy npy;
    make_typed();
    must(stripe(2, false));
    must(open_typed(&ds));
    struct sl_stripes *s = sl_dataset_stripes(ds.files, 0);
    const uint64_t own = sl_div_up(s->matrix_bytes, s->unit_bytes);
    uint64_t n = SL_STRIPE_UNITS_MAX - own;
    must(sl_stripes_map(s, &n, &npy));
    ck_assert_uint_eq(n, SL_STRIPE_UNITS_MAX);
    sl_npy_close(&npy);
    n = SL_STRIPE_UNITS_MAX - own + 1;
    ck_assert_int_eq(sl_stripes_map(s, &n, &npy), SL_EUNSUPPORTED);
    assert_message_has("make the stripes again with --unit");
    sl_dataset_close(&ds);
}

RUN_TESTS(.setup = tiny_begin, .begin = scratch_begin, .end = scratch_end, .timeout_s = 120)
