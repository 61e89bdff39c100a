// What a validation looks at: features in a sample, neighbours in one pass, and how far it is.
#include "common/data/dataset.h"

#include <math.h>
#include <stdatomic.h>

#include "common/data/dataset_internal.h"
#include "common/data/scan.h"
#include "tests/unit/suite.h"
#include "tests/unit/test_data_fixture.h"

enum { ROWS = 1 << 16, DIM = 80, BLOCK = 1 << 20 }; // features of 20 MiB

// A ring of vertices, with that one element of its features.
static void write_ring(uint64_t at, float value)
{
    static float x[(uint64_t)ROWS * DIM];
    static uint64_t indptr[ROWS + 1];
    static int32_t indices[ROWS], label[ROWS];
    memset(x, 0, sizeof x);
    if (at < SL_COUNT_OF(x))
        x[at] = value;
    for (uint32_t v = 0; v < ROWS; v++) {
        indptr[v + 1] = v + 1;
        indices[v] = (int32_t)((v + 1) % ROWS);
    }
    write_text("metadata.json", "{\"num_nodes\": 65536, \"num_edges\": 65536, \"feat_dim\": 80, "
                                "\"num_classes\": 2, \"task\": \"multiclass\"}");
    write_list("indptr.npy", SL_DTYPE_I64, ROWS + 1, indptr);
    write_list("indices.npy", SL_DTYPE_I32, ROWS, indices);
    write_list("node_label.npy", SL_DTYPE_I32, ROWS, label);
    write_npy("node_feat.npy", SL_DTYPE_F32, 2, (uint64_t[]){ROWS, DIM}, x);
    remove(in_dir("edge_weight.npy"));
}

static int open_ring(enum sl_dataset_check check, uint64_t *checked)
{
    struct sl_dataset ds;
    int rc = sl_dataset_open(dir, SL_NEED_TOPOLOGY | SL_NEED_FEATURES, check, 3, &ds);
    *checked = rc == SL_OK ? ds.feat_checked : 0;
    sl_dataset_close(&ds);
    return rc;
}

TEST(large_features_are_checked_in_a_sample_and_in_whole_when_asked)
{
    const uint64_t all = (uint64_t)ROWS * DIM, block = BLOCK / sizeof(float);
    // Of 20 blocks 5 are looked at.
    static const uint64_t seen[] = {0, 4, 9, 14, 19}, unseen[] = {1, 3, 5, 8, 10, 13, 15, 18};
    uint64_t checked;
    sl_dataset_sampling = (struct sl_dataset_sampling){all * sizeof(float) - 1, 5 * BLOCK};
    for (size_t i = 0; i < SL_COUNT_OF(seen); i++) {
        write_ring((seen[i] + 1) * block - 1, NAN);
        ck_assert_int_eq(open_ring(SL_CHECK_CACHED, &checked), SL_EFORMAT);
        assert_message_has("node_feat.npy: row");
    }
    for (size_t i = 0; i < SL_COUNT_OF(unseen); i++) {
        write_ring(unseen[i] * block, INFINITY);
        must(open_ring(SL_CHECK_CACHED, &checked));
        ck_assert_uint_eq(checked, 5 * BLOCK);
        ck_assert_int_eq(open_ring(SL_CHECK_FULL, &checked), SL_EFORMAT);
        assert_message_has("is Inf");
    }
    sl_dataset_sampling.above++; // not large any more
    write_ring(block, INFINITY);
    ck_assert_int_eq(open_ring(SL_CHECK_CACHED, &checked), SL_EFORMAT);
}

// A file that was changed a moment ago is not remembered: waits until it would be.
static uint64_t remembered(enum sl_dataset_check check)
{
    struct sl_dataset ds;
    bool again = true;
    uint64_t checked = 0;
    while (again) {
        must(sl_dataset_open(dir, SL_NEED_TOPOLOGY, check, 1, &ds));
        checked = ds.feat_checked;
        sl_dataset_close(&ds);
        must(sl_dataset_open(dir, SL_NEED_TOPOLOGY, SL_CHECK_CACHED, 1, &ds));
        again = ds.validated_now;
        ck_assert(again || ds.feat_checked == checked);
        sl_dataset_close(&ds);
    }
    return checked;
}

TEST(a_record_says_how_much_was_looked_at)
{
    const uint64_t all = (uint64_t)ROWS * DIM * sizeof(float);
    uint64_t checked;
    write_ring(UINT64_MAX, 0);
    sl_dataset_sampling = (struct sl_dataset_sampling){1, 5 * BLOCK};
    ck_assert_uint_eq(remembered(SL_CHECK_CACHED), 5 * BLOCK);
    ck_assert_uint_eq(remembered(SL_CHECK_FULL), all);
    must(open_ring(SL_CHECK_CACHED, &checked));
    ck_assert_uint_eq(checked, all);
}

struct told {
    _Atomic uint64_t begun, bytes;
};

static void begin_telling(void *ctx, uint64_t bytes)
{
    ((struct told *)ctx)->begun += bytes;
}

static void add_bytes(void *ctx, uint64_t bytes)
{
    ((struct told *)ctx)->bytes += bytes;
}

TEST(a_validation_says_how_far_it_is)
{
    struct sl_dataset ds;
    struct told told = {0};
    const struct sl_dataset_watch watch = {begin_telling, add_bytes, &told};
    const uint64_t least = (uint64_t)ROWS * (DIM * sizeof(float) + 8 + 4);
    write_ring(UINT64_MAX, 0);
    must(sl_dataset_open_watched(dir, SL_NEED_TOPOLOGY, SL_CHECK_FULL, 2, &watch, &ds));
    ck_assert_uint_ge(told.bytes, least);
    ck_assert_uint_le(told.bytes, told.begun);
    ck_assert_uint_le(told.begun, least + (1 << 20));
    sl_dataset_close(&ds);
}

enum { N = 3000, EDGES_MAX = 700000 }; // several blocks

// A hub, empty rows, rows of some hundreds; nobody is its own neighbour.
static uint64_t make_rows(uint64_t *indptr, uint32_t *indices)
{
    uint64_t e = 0;
    for (uint32_t v = 0; v < N; v++) {
        const uint64_t degree = v == 17 ? 200000 : v % 5 == 0 ? 0 : 100 + v % 77;
        indptr[v] = e;
        for (uint64_t i = 0; i < degree; i++, e++)
            indices[e] = (uint32_t)((v + 1 + i % (N - 1)) % N);
    }
    indptr[N] = e;
    ck_assert_uint_gt(e, 2 * BLOCK / sizeof *indices);
    ck_assert_uint_le(e, EDGES_MAX);
    return e;
}

static void expect(const struct sl_dataset *ds, int threads, uint64_t bad, bool has_loops)
{
    struct sl_scan_lists found = {.have_loops = !has_loops};
    const struct sl_scan_rows rows = {.n_rows = ds->n_nodes, .n = ds->n_nodes};
    ck_assert_uint_eq(sl_scan_neighbours(ds, &rows, threads, NULL, &found), bad);
    if (bad == SL_SCAN_OK)
        ck_assert_int_eq(found.have_loops, has_loops);
    // In two parts, which begin within a block: as the lists of two relations.
    for (uint64_t cut = 16; cut < 20; cut++) {
        const struct sl_scan_rows parts[] = {
            {.n_rows = cut, .n = N},
            {.first_row = cut, .n_rows = N - cut, .vertex = cut, .n = N},
        };
        struct sl_scan_lists of[2];
        const uint64_t first = sl_scan_neighbours(ds, &parts[0], threads, NULL, &of[0]);
        const uint64_t second = sl_scan_neighbours(ds, &parts[1], threads, NULL, &of[1]);
        ck_assert_uint_eq(first == SL_SCAN_OK ? second : first, bad);
        if (bad == SL_SCAN_OK) {
            ck_assert_int_eq(of[0].have_loops || of[1].have_loops, has_loops);
            ck_assert_int_eq(of[0].rise && of[1].rise, found.rise);
        }
    }
}

TEST(bad_neighbours_and_self_loops_are_found_in_one_pass)
{
    static uint64_t indptr[N + 1], wide[EDGES_MAX];
    static uint32_t narrow[EDGES_MAX];
    const uint64_t n = make_rows(indptr, narrow), block = BLOCK / sizeof *narrow;
    const uint64_t edges[] = {0, n - 1, block - 1, block, block / 2, block / 2 - 1, n / 3, n / 7};
    struct sl_dataset ds = {.n_nodes = N, .n_edges = n, .indptr = indptr};
    for (size_t round = 0; round < 3 * SL_COUNT_OF(edges); round++) {
        const uint64_t at = edges[round / 3], kind = round % 3; // nothing, a self-loop, a bad id
        const uint32_t before = narrow[at];
        uint32_t v = 0;
        while (indptr[v + 1] <= at)
            v++;
        narrow[at] = kind == 1 ? v : kind == 2 ? N + v : before;
        for (uint64_t e = 0; e < n; e++)
            wide[e] = narrow[e];
        const int threads = 1 + (int)(round % 4);
        ds.indices = narrow;
        ds.indices_dtype = SL_DTYPE_U32;
        expect(&ds, threads, kind == 2 ? at : SL_SCAN_OK, kind == 1);
        ds.indices = wide;
        ds.indices_dtype = SL_DTYPE_I64;
        expect(&ds, threads, kind == 2 ? at : SL_SCAN_OK, kind == 1);
        narrow[at] = before;
    }
}

// In lists that rise, with equal neighbours and empty lists, one edge of many is made to fall: in
// the middle of a block, at its ends and in its list's last place. First places cannot fall.
TEST(lists_that_rise_are_told_from_others)
{
    static uint64_t indptr[N + 1], wide[EDGES_MAX];
    static uint32_t narrow[EDGES_MAX];
    const uint64_t n = make_rows(indptr, narrow), block = BLOCK / sizeof *narrow;
    const uint64_t edges[] = {0,         1,     n - 1,      block - 1,     block,
                              block + 1, n / 3, indptr[17], indptr[18] - 1};
    struct sl_dataset ds = {.n_nodes = N, .n_edges = n, .indptr = indptr};
    for (uint32_t v = 0; v < N; v++)
        for (uint64_t e = indptr[v]; e < indptr[v + 1]; e++)
            narrow[e] = 1 + N / 2 * (v % 2) +
                        (uint32_t)((e - indptr[v]) * (N / 2) / (indptr[v + 1] - indptr[v]) / 2);
    for (size_t i = 0; i <= SL_COUNT_OF(edges); i++) {
        const uint64_t at = i < SL_COUNT_OF(edges) ? edges[i] : 0;
        const uint32_t before = narrow[at];
        bool rise = true;
        narrow[at] = i < SL_COUNT_OF(edges) ? 0 : before;
        for (uint32_t v = 0; v < N; v++)
            for (uint64_t e = indptr[v]; e + 1 < indptr[v + 1]; e++)
                rise &= narrow[e] <= narrow[e + 1];
        for (uint64_t e = 0; e < n; e++)
            wide[e] = narrow[e];
        for (int is_wide = 0; is_wide < 2; is_wide++) {
            struct sl_scan_lists found = {.rise = !rise};
            ds.indices = is_wide ? (const void *)wide : (const void *)narrow;
            ds.indices_dtype = is_wide ? SL_DTYPE_I64 : SL_DTYPE_U32;
            const struct sl_scan_rows rows = {.n_rows = N, .n = N};
            ck_assert_uint_eq(sl_scan_neighbours(&ds, &rows, 2, NULL, &found), SL_SCAN_OK);
            ck_assert_msg(found.rise == rise, "edge %llu: rising %d", (unsigned long long)at, rise);
        }
        narrow[at] = before;
    }
}

static struct sl_dataset_sampling usual;

static void begin(void)
{
    usual = sl_dataset_sampling;
    tiny_begin();
}

static void end(void)
{
    sl_dataset_sampling = usual;
}

RUN_TESTS(.setup = begin, .teardown = end, .begin = scratch_begin, .end = scratch_end,
          .timeout_s = 120)
