// From edges in any order to topology files: radix sort, external sort, CSC files.
#include <stdatomic.h>
#include <sys/resource.h>

#include "dataset/csc_writer.h"
#include "dataset/edge_sort.h"
#include "dataset/permutation.h"
#include "common/base/threads.h"
#include "tests/unit/cli_fixture.h"
#include "tests/unit/suite.h"

static uint64_t state = 88172645463325252u;

static uint64_t random_word(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static int by_key(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

// ---- radix sort ---------------------------------------------------------------------------------

static const size_t lengths[] = {0, 1, 2, 3, 255, 1000, 70000};

LOOP_TEST(radix_sort_orders_any_keys, 0, SL_COUNT_OF(lengths))
{
    size_t n = lengths[_i];
    uint64_t masks[] = {UINT64_MAX, 0xff, 0xff00ff0000000000u, 0, 1};
    for (size_t m = 0; m < SL_COUNT_OF(masks); m++) {
        struct sl_radix_array data = {.keys = malloc((n + 1) * 8)};
        struct sl_radix_array scratch_array = {.keys = malloc((n + 1) * 8)};
        uint64_t *wanted = malloc((n + 1) * 8);
        for (size_t i = 0; i < n; i++)
            data.keys[i] = wanted[i] = random_word() & masks[m];
        qsort(wanted, n, 8, by_key);
        sl_radix_sort(&data, &scratch_array, n);
        ck_assert_int_eq(memcmp(data.keys, wanted, n * 8), 0);
        free(data.keys);
        free(scratch_array.keys);
        free(wanted);
    }
}

TEST(radix_sort_is_stable_and_carries_values)
{
    enum { N = 5000 };
    struct sl_radix_array data = {malloc(N * 8), malloc(N * 4)};
    struct sl_radix_array scratch_array = {malloc(N * 8), malloc(N * 4)};
    for (size_t i = 0; i < N; i++) {
        data.keys[i] = (random_word() % 50) << 30;
        data.values[i] = (float)i;
    }
    sl_radix_sort(&data, &scratch_array, N);
    for (size_t i = 1; i < N; i++) {
        ck_assert_uint_le(data.keys[i - 1], data.keys[i]);
        if (data.keys[i - 1] == data.keys[i])
            ck_assert(data.values[i - 1] < data.values[i]);
    }
    free(data.keys);
    free(data.values);
    free(scratch_array.keys);
    free(scratch_array.values);
}

// ---- external sort ------------------------------------------------------------------------------

struct shape {
    size_t n;
    uint64_t memory;
    int lanes;
    uint64_t range; // of ids
    bool spills;
};

static const struct shape shapes[] = {
    {0, 1 << 20, 1, 10, false},        {1, 1 << 20, 3, 10, false},
    {50000, 1 << 20, 1, 1000, false},  {300000, 1 << 20, 1, 100000, true},
    {300000, 1 << 20, 4, 30, true},    {300000, 64 << 20, 4, 4294967294u, false},
    {100000, 1 << 20, 100, 500, true},
};

struct feed {
    struct sl_edge_sort *sort;
    const uint64_t *keys;
    size_t n;
    int lanes;
};

static int feed_lane(void *context, int lane)
{
    struct feed *f = context;
    // Uneven parts, so that lanes spill at different times.
    size_t begin = f->n * (size_t)lane / (size_t)f->lanes;
    size_t end = f->n * (size_t)(lane + 1) / (size_t)f->lanes;
    for (size_t i = begin; i < end;) {
        size_t take = SL_MIN(end - i, (size_t)777 + (size_t)lane);
        SL_TRY(sl_edge_sort_add(f->sort, lane, f->keys + i, NULL, take));
        i += take;
    }
    return SL_OK;
}

LOOP_TEST(edges_come_out_sorted_and_complete, 0, SL_COUNT_OF(shapes))
{
    const struct shape *s = &shapes[_i];
    uint64_t *keys = malloc((s->n + 1) * 8);
    for (size_t i = 0; i < s->n; i++)
        keys[i] =
            sl_edge_key((uint32_t)(random_word() % s->range), (uint32_t)(random_word() % s->range));
    struct feed f = {NULL, keys, s->n, s->lanes};
    must(sl_edge_sort_create(dir, s->memory, s->lanes, false, &f.sort));
    must(sl_threads_run(s->lanes, feed_lane, &f));
    must(sl_edge_sort_finish(f.sort));
    // The spill file has no name from the moment it exists.
    ck_assert_int_eq(count_entries(), 0);
    qsort(keys, s->n, 8, by_key);
    size_t at = 0, n;
    const uint64_t *got;
    for (;;) {
        must(sl_edge_sort_next(f.sort, &got, NULL, &n));
        if (n == 0)
            break;
        ck_assert_uint_le(at + n, s->n);
        ck_assert_int_eq(memcmp(got, keys + at, n * 8), 0);
        at += n;
    }
    ck_assert_uint_eq(at, s->n);
    struct sl_edge_sort_stats stats;
    sl_edge_sort_get_stats(f.sort, &stats);
    ck_assert_uint_eq(stats.n_edges, s->n);
    ck_assert_int_eq(stats.n_runs > 0, s->spills);
    sl_edge_sort_destroy(f.sort);
    free(keys);
}

// More runs than one merge takes, and weights: the order of equal edges must survive both.
TEST(equal_edges_keep_their_order_through_several_merges)
{
    enum { N = 2000000 };
    struct sl_edge_sort *sort;
    uint64_t keys[1000];
    float weights[1000];
    must(sl_edge_sort_create(dir, SL_EDGE_SORT_MIN_BYTES, 1, true, &sort));
    for (size_t i = 0; i < N; i += 1000) {
        for (size_t k = 0; k < 1000; k++) {
            keys[k] = sl_edge_key((uint32_t)(random_word() % 100), 5);
            weights[k] = (float)(i + k); // exact below 2^24
        }
        must(sl_edge_sort_add(sort, 0, keys, weights, 1000));
    }
    must(sl_edge_sort_finish(sort));
    struct sl_edge_sort_stats stats;
    sl_edge_sort_get_stats(sort, &stats);
    ck_assert_uint_gt(stats.n_runs, 45); // of which about 40 fit one merge
    const uint64_t *got;
    const float *w;
    uint64_t last = 0;
    float last_weight = -1;
    size_t total = 0, n;
    for (;;) {
        must(sl_edge_sort_next(sort, &got, &w, &n));
        if (n == 0)
            break;
        for (size_t i = 0; i < n; i++) {
            ck_assert(last < got[i] || (last == got[i] && last_weight < w[i]) || total + i == 0);
            last = got[i];
            last_weight = w[i];
        }
        total += n;
    }
    ck_assert_uint_eq(total, N);
    sl_edge_sort_destroy(sort);
}

TEST(a_full_disk_is_an_error)
{
    struct sl_edge_sort *sort;
    uint64_t keys[4096];
    for (size_t i = 0; i < 4096; i++)
        keys[i] = i;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){100000, 100000});
    must(sl_edge_sort_create(dir, SL_EDGE_SORT_MIN_BYTES, 1, false, &sort));
    int rc = SL_OK;
    for (int i = 0; i < 100 && rc == SL_OK; i++)
        rc = sl_edge_sort_add(sort, 0, keys, NULL, 4096);
    ck_assert_int_eq(rc, SL_EIO);
    assert_message_has("give more --memory");
    sl_edge_sort_destroy(sort);
}

// ---- renumbering --------------------------------------------------------------------------------

TEST(scramble_is_a_permutation_with_an_inverse)
{
    for (uint64_t n = 1; n <= 300; n++) {
        struct sl_permutation s;
        bool hit[300] = {false};
        sl_permutation_init(&s, n, 7, 0);
        for (uint64_t x = 0; x < n; x++) {
            uint64_t y = sl_permutation_apply(&s, x);
            ck_assert_uint_lt(y, n);
            ck_assert(!hit[y]);
            hit[y] = true;
            ck_assert_uint_eq(sl_permutation_invert(&s, y), x);
        }
    }
    struct sl_permutation big;
    sl_permutation_init(&big, 4294967294u, 7, 0);
    for (uint64_t x = 0; x < 1000; x++)
        ck_assert_uint_eq(sl_permutation_invert(&big, sl_permutation_apply(&big, x * 4294967)),
                          x * 4294967);
}

TEST(scrambles_of_other_seeds_differ)
{
    struct sl_permutation a, b, c;
    int same_seed = 0, same_which = 0;
    sl_permutation_init(&a, 1000, 1, 0);
    sl_permutation_init(&b, 1000, 2, 0);
    sl_permutation_init(&c, 1000, 1, 1);
    for (uint64_t x = 0; x < 1000; x++) {
        same_seed += sl_permutation_apply(&a, x) == sl_permutation_apply(&b, x);
        same_which += sl_permutation_apply(&a, x) == sl_permutation_apply(&c, x);
    }
    ck_assert_int_lt(same_seed, 20);
    ck_assert_int_lt(same_which, 20);
}

// ---- topology files -----------------------------------------------------------------------------

struct csc {
    struct sl_npy indptr, indices;
    struct sl_csc_summary summary;
};

// Writes the edges (source, destination pairs) as a data set's topology in the test's directory.
static void write_csc(const uint32_t (*edges)[2], size_t n, uint64_t n_nodes, bool dedup,
                      struct csc *out)
{
    struct sl_staging st = {0};
    struct sl_progress quiet;
    struct sl_edge_sort *sort;
    snprintf(st.dir, sizeof st.dir, "%s", dir);
    sl_progress_init(&quiet, true);
    must(sl_edge_sort_create(dir, SL_EDGE_SORT_MIN_BYTES, 1, false, &sort));
    for (size_t i = 0; i < n; i++)
        must(sl_edge_sort_add(sort, 0, (uint64_t[]){sl_edge_key(edges[i][0], edges[i][1])}, NULL,
                              1));
    must(sl_edge_sort_finish(sort));
    const struct sl_csc_plan plan = {
        .n_nodes = n_nodes, .duplicates = dedup ? SL_DUPLICATES_FIRST : SL_DUPLICATES_KEEP};
    must(sl_csc_write(&st, sort, &plan, &quiet, &out->summary));
    sl_edge_sort_destroy(sort);
    must(sl_npy_open(in_dir("indptr.npy"), &out->indptr));
    must(sl_npy_open(in_dir("indices.npy"), &out->indices));
}

static void assert_i64(const struct sl_npy *npy, size_t n, const int64_t *wanted)
{
    ck_assert_int_eq(npy->head.dtype, SL_DTYPE_I64);
    ck_assert_uint_eq(npy->n_elems, n);
    for (size_t i = 0; i < n; i++)
        ck_assert_int_eq(((const int64_t *)npy->data)[i], wanted[i]);
}

static void assert_i32(const struct sl_npy *npy, size_t n, const int32_t *wanted)
{
    ck_assert_int_eq(npy->head.dtype, SL_DTYPE_I32);
    ck_assert_uint_eq(npy->n_elems, n);
    for (size_t i = 0; i < n; i++)
        ck_assert_int_eq(((const int32_t *)npy->data)[i], wanted[i]);
}

TEST(rows_are_sorted_and_empty_rows_have_no_edges)
{
    struct csc c;
    const uint32_t edges[][2] = {{3, 1}, {0, 1}, {2, 4}, {3, 1}, {1, 4}};
    write_csc(edges, 5, 7, false, &c);
    assert_i64(&c.indptr, 8, (int64_t[]){0, 0, 3, 3, 3, 5, 5, 5});
    assert_i32(&c.indices, 5, (int32_t[]){0, 3, 3, 1, 2});
    ck_assert_uint_eq(c.summary.n_edges, 5);
    ck_assert_uint_eq(c.summary.max_degree, 3);
    ck_assert_uint_eq(c.summary.n_isolated, 5);
}

TEST(duplicates_are_dropped_and_counted)
{
    struct csc c;
    const uint32_t edges[][2] = {{0, 0}, {0, 0}, {1, 0}, {0, 1}, {0, 1}, {0, 1}};
    write_csc(edges, 6, 2, true, &c);
    assert_i64(&c.indptr, 3, (int64_t[]){0, 2, 3});
    assert_i32(&c.indices, 3, (int32_t[]){0, 1, 0});
    ck_assert_uint_eq(c.summary.n_duplicates, 3);
    ck_assert_uint_eq(c.summary.n_isolated, 0);
}

TEST(no_edges_make_empty_rows)
{
    struct csc c;
    write_csc(NULL, 0, 3, false, &c);
    assert_i64(&c.indptr, 4, (int64_t[]){0, 0, 0, 0});
    assert_i32(&c.indices, 0, NULL);
    ck_assert_uint_eq(c.summary.n_isolated, 3);
}

TEST(the_last_vertex_may_have_edges)
{
    struct csc c;
    const uint32_t edges[][2] = {{0, 2}, {2, 2}};
    write_csc(edges, 2, 3, false, &c);
    assert_i64(&c.indptr, 4, (int64_t[]){0, 0, 0, 2});
    ck_assert_uint_eq(c.summary.n_isolated, 2);
}

// ---- threads ------------------------------------------------------------------------------------

static int fail_odd(void *context, int thread)
{
    atomic_fetch_add((_Atomic int *)context, 1);
    if (thread % 2 == 1)
        return sl_fail(SL_EIO, "thread %d failed", thread);
    return SL_OK;
}

TEST(the_first_failure_and_its_message_come_back)
{
    _Atomic int n = 0;
    ck_assert_int_eq(sl_threads_run(8, fail_odd, &n), SL_EIO);
    ck_assert_int_eq(n, 8);
    ck_assert_str_eq(sl_error_message(), "thread 1 failed");
    ck_assert_int_eq(sl_threads_run(1, fail_odd, &n), SL_OK);
}

RUN_TESTS(IN_A_DIRECTORY, .timeout_s = 60)
