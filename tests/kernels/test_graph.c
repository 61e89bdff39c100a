// aggregate and transpose.
#include "tests/kernels/harness.h"

#include <math.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"

enum { ROW_SCALE = 1, COL_SCALE = 2, EDGE_WEIGHT = 4, SELF = 8, ALL_FLAGS = 16 };

static const void *random_rows(struct suite *t, uint64_t rows, uint32_t dim, enum sl_dtype dtype,
                               uint64_t *ld)
{
    const size_t n = rows * dim;
    if (dtype == SL_DTYPE_F16)
        return t_random_halves(t, n);
    float *x = t_random_floats(t, n);
    return dtype == SL_DTYPE_F32 ? (const void *)x : t_round_rows(t, x, rows, dim, ld);
}

// Sums that are rounded when they are written are those of f32, rounded.
static void compare_rounded(struct suite *t, struct sl_aggregate_args args, const float *y,
                            double absolute)
{
    const uint64_t n = args.csr.n_dst, ld = args.dim + (t_random(t) & 1 ? t_random_below(t, 9) : 0);
    const size_t bytes = n * ld * sizeof(uint16_t);
    uint16_t *want = t_alloc(t, bytes, 0);
    uint16_t *got = t_copy(t, want, bytes, t_random_below(t, 4) * 2);
    t_expect_ok(t, t->ref->bias_act_bf16(y, n, args.dim, NULL, SL_ACT_NONE, NULL, NULL, want, ld),
                "rounded");
    args.y = NULL;
    args.y_bf16 = got;
    args.y_ld = ld;
    t_expect_ok(t, t->dev->aggregate(&args), "dev to bf16");
    t_same_bits(t, "sums as bf16", got, want, bytes);
    // The reference's, up to a unit of eight bits, and to what f32 sums differ by.
    t_expect_ok(t, t->ref->aggregate(&args), "ref to bf16");
    for (uint64_t i = 0; i < n * args.dim; i++) {
        const uint64_t at = i / args.dim * ld + i % args.dim;
        const uint32_t bits = (uint32_t)got[at] << 16;
        float found;
        memcpy(&found, &bits, sizeof found);
        t_expect(t, fabs((double)found - (double)y[i]) <= 0x1p-8 * fabs((double)y[i]) + absolute,
                 "element %llu by ref is %g, the sum %g", (unsigned long long)i, (double)found,
                 (double)y[i]);
    }
}

static void compare_aggregate(struct suite *t, struct sl_csr_view csr, uint32_t dim,
                              enum sl_dtype dtype, int flags, uint32_t n_self)
{
    uint32_t n_edges = csr.indptr[csr.n_dst];
    size_t y_bytes = (size_t)csr.n_dst * dim * sizeof(float);
    struct sl_aggregate_args args = {.csr = csr, .dim = dim, .x_dtype = dtype};
    args.x = random_rows(t, csr.n_src, dim, dtype, &args.x_ld);
    if (flags & ROW_SCALE)
        args.row_scale = t_random_floats(t, csr.n_dst);
    if (flags & COL_SCALE)
        args.col_scale = t_random_floats(t, csr.n_src);
    if (flags & EDGE_WEIGHT)
        args.edge_weight = t_random_floats(t, n_edges);
    if (flags & SELF) {
        args.self_scale = t_random_floats(t, n_self);
        args.n_self = n_self;
    }
    float *want = t_alloc(t, y_bytes, 0), *first = NULL;
    args.y = want;
    t_expect_ok(t, t->ref->aggregate(&args), "ref");
    const uint32_t longest = t_longest_row(&csr);
    for (const int *threads = t_threads; *threads; threads++) {
        args.y = t_alloc(t, y_bytes, t_random_below(t, 4) * 4);
        sl_kernels_set_threads(*threads);
        t_expect_ok(t, t->dev->aggregate(&args), "dev");
        // Terms are at most 4 in magnitude (f16 inputs), sums of `longest` of them.
        t_close(t, "y", args.y, want, (size_t)csr.n_dst * dim, 1e-5,
                2e-7 * 4 * (double)(longest + 1));
        T_REPEATS(t, "y", args.y, first, y_bytes);
    }
    if (csr.n_dst > 0)
        compare_rounded(t, args, first, 2e-7 * 4 * (double)(longest + 1));
}

static void one_aggregate(struct suite *t, uint32_t n_dst, uint32_t n_src, uint32_t degree,
                          uint32_t hub, uint32_t dim, enum sl_dtype dtype, int flags)
{
    if (!t_affords(t, ((double)n_dst * degree + hub) * dim))
        return;
    uint32_t n_self = t_random_below(t, SL_MIN(n_dst, n_src) + 1);
    t_begin(t, "aggregate n_dst=%u n_src=%u degree=%u hub=%u dim=%u %s flags=%d n_self=%u", n_dst,
            n_src, degree, hub, dim,
            dtype == SL_DTYPE_F16   ? "f16"
            : dtype == SL_DTYPE_F32 ? "f32"
                                    : "bf16",
            flags, n_self);
    compare_aggregate(t, t_random_csr(t, n_dst, n_src, degree, hub), dim, dtype, flags, n_self);
    t_end(t);
}

// An empty row is 0 (times its scale, plus its self term), not what memory held.
static void empty_rows(struct suite *t)
{
    t_begin(t, "aggregate of rows without edges");
    static const uint32_t dims[] = {1, 7, 16, 40, 64, 130};
    for (size_t d = 0; d < SL_COUNT_OF(dims); d++) {
        uint32_t dim = dims[d], indptr[6] = {0};
        struct sl_csr_view csr = {5, 3, 0, indptr, NULL};
        float *x = t_random_floats(t, (size_t)3 * dim);
        float *y = t_alloc(t, (size_t)5 * dim * sizeof *y, 0), self[3] = {1, 2, 3};
        struct sl_aggregate_args args = {.csr = csr,
                                         .dim = dim,
                                         .x_dtype = SL_DTYPE_F32,
                                         .x = x,
                                         .self_scale = self,
                                         .n_self = 3,
                                         .y = y};
        t_expect_ok(t, t->dev->aggregate(&args), "dev");
        for (uint32_t i = 0; i < 5; i++)
            for (uint32_t c = 0; c < dim; c++) {
                float want = i < 3 ? self[i] * x[i * dim + c] : 0.0f;
                t_expect(t, y[i * dim + c] == want, "y[%u][%u] of dim %u is %g, wanted %g", i, c,
                         dim, (double)y[i * dim + c], (double)want);
            }
    }
    t_end(t);
}

// Rows of a larger adjacency: indptr does not begin at 0.
static void sliced_csr(struct suite *t)
{
    t_begin(t, "aggregate and transpose of a slice of rows");
    enum { DIM = 50, FROM = 20, ROWS = 30 };
    struct sl_csr_view whole = t_random_csr(t, 80, 60, 5, 0), part = whole;
    part.n_dst = ROWS;
    part.indptr += FROM;
    float *x = t_random_floats(t, 60 * DIM);
    float *want = t_alloc(t, 80 * DIM * sizeof(float), 0);
    float *got = t_alloc(t, ROWS * DIM * sizeof(float), 0);
    struct sl_aggregate_args args = {.csr = whole, .dim = DIM, .x_dtype = SL_DTYPE_F32, .x = x};
    args.y = want;
    t_expect_ok(t, t->dev->aggregate(&args), "dev");
    args.csr = part;
    args.y = got;
    t_expect_ok(t, t->dev->aggregate(&args), "dev");
    t_same_bits(t, "slice", got, want + FROM * DIM, ROWS * DIM * sizeof(float));

    uint32_t n_edges = part.indptr[ROWS] - part.indptr[0];
    uint32_t *indptr[2], *indices[2], *edge[2];
    for (int i = 0; i < 2; i++) {
        indptr[i] = t_alloc(t, 61 * sizeof(uint32_t), 0);
        indices[i] = t_alloc(t, n_edges * sizeof(uint32_t), 0);
        edge[i] = t_alloc(t, n_edges * sizeof(uint32_t), 0);
        const struct sl_kernels *k = i ? t->dev : t->ref;
        t_expect_ok(t, k->transpose(&part, indptr[i], indices[i], edge[i], t_ws(t, k)), k->name);
    }
    t_same_bits(t, "t_indptr", indptr[1], indptr[0], 61 * sizeof(uint32_t));
    t_same_bits(t, "t_indices", indices[1], indices[0], n_edges * sizeof(uint32_t));
    t_same_bits(t, "t_edge", edge[1], edge[0], n_edges * sizeof(uint32_t));
    t_end(t);
}

static void bad_aggregate(struct suite *t)
{
    t_begin(t, "aggregate refuses bad arguments");
    uint32_t indptr[] = {0, 1}, index = 0;
    float x[2] = {1, 2}, y[2], self[2] = {1, 1};
    struct sl_aggregate_args good = {.csr = {1, 1, indptr[1], indptr, &index},
                                     .dim = 2,
                                     .x = x,
                                     .y = y,
                                     .x_dtype = SL_DTYPE_F32,
                                     .self_scale = self,
                                     .n_self = 1};
    struct sl_aggregate_args args = good;
    t_expect_ok(t, t->dev->aggregate(&args), "good arguments");
    args.n_self = 2;
    t_expect_code(t, t->dev->aggregate(&args), SL_EINVAL, "n_self above n_dst");
    args = good;
    args.x = NULL;
    t_expect_code(t, t->dev->aggregate(&args), SL_EINVAL, "x of NULL");
    args = good;
    args.csr.indices = NULL;
    t_expect_code(t, t->dev->aggregate(&args), SL_EINVAL, "indices of NULL");
    args = good;
    args.x_dtype = SL_DTYPE_F64;
    t_expect_code(t, t->dev->aggregate(&args), SL_EINVAL, "f64");
    args = good;
    uint16_t rounded[2];
    args.x_dtype = SL_DTYPE_BF16, args.x_ld = 1;
    t_expect_code(t, t->dev->aggregate(&args), SL_EINVAL, "bf16 rows that overlap");
    args.x_ld = 2;
    t_expect_code(t, t->dev->aggregate(&args), SL_OK, "bf16");
    args.x_dtype = SL_DTYPE_F32, args.y_bf16 = rounded, args.y_ld = 2;
    t_expect_code(t, t->dev->aggregate(&args), SL_EINVAL, "two results");
    args.y = NULL;
    t_expect_code(t, t->dev->aggregate(&args), SL_OK, "a result of bf16");
    args.y_ld = 1;
    t_expect_code(t, t->dev->aggregate(&args), SL_EINVAL, "rows that overlap");
    t_end(t);
}

static void check_aggregate(struct suite *t)
{
    static const uint32_t dims[] = {1,  3,  7,  15,  16,  17,  31,  32,  33,  47,
                                    64, 65, 80, 100, 127, 128, 129, 256, 257, 300};
    static const enum sl_dtype dtypes[] = {SL_DTYPE_F32, SL_DTYPE_F16, SL_DTYPE_BF16};
    for (size_t i = 0; i < SL_COUNT_OF(dtypes); i++) {
        enum sl_dtype dtype = dtypes[i];
        for (size_t d = 0; d < SL_COUNT_OF(dims); d++)
            for (int flags = 0; flags < ALL_FLAGS; flags++)
                one_aggregate(t, 60, 90, 6, flags & 1 ? 700 : 0, dims[d], dtype, flags);
        one_aggregate(t, 0, 5, 3, 0, 20, dtype, 0);
        one_aggregate(t, 0, 0, 3, 0, 20, dtype, 0);
        one_aggregate(t, 1, 1, 1, 1, 20, dtype, ALL_FLAGS - 1);
        one_aggregate(t, 1, 1, 1, 100, 1, dtype, ALL_FLAGS - 1);
        one_aggregate(t, 1, 1, 0, 0, 70000, dtype, 0); // fewer edges and rows than threads want
        one_aggregate(t, 2, 3, 1, 0, 70000, dtype, ROW_SCALE);
        one_aggregate(t, 3000, 2000, 8, 20000, 100, dtype, ALL_FLAGS - 1);
        one_aggregate(t, 2, 20000, 8, 50000, 64, dtype, ROW_SCALE);
    }
    empty_rows(t);
    sliced_csr(t);
    bad_aggregate(t);
}

void test_aggregate(struct suite *t)
{
    t_each_isa(t, check_aggregate);
}

static void compare_transpose(struct suite *t, uint32_t n_dst, uint32_t n_src, uint32_t degree,
                              uint32_t hub, int with_edge)
{
    if (!t_affords(t, (double)n_dst * degree + hub + n_src))
        return;
    t_begin(t, "transpose n_dst=%u n_src=%u degree=%u hub=%u t_edge=%d", n_dst, n_src, degree, hub,
            with_edge);
    struct sl_csr_view csr = t_random_csr(t, n_dst, n_src, degree, hub);
    size_t edge_bytes = csr.indptr[n_dst] * sizeof(uint32_t);
    size_t ptr_bytes = ((size_t)n_src + 1) * sizeof(uint32_t);
    uint32_t *want_ptr = t_alloc(t, ptr_bytes, 0), *want = t_alloc(t, edge_bytes, 0);
    uint32_t *want_edge = with_edge ? t_alloc(t, edge_bytes, 0) : NULL;
    t_expect_ok(t, t->ref->transpose(&csr, want_ptr, want, want_edge, &t->ws), "ref");

    // The reference itself: offsets cover all edges, destinations ascend, edges point back.
    t_expect(t, want_ptr[0] == 0 && want_ptr[n_src] == csr.indptr[n_dst], "ref offsets are wrong");
    for (uint32_t s = 0; s < n_src; s++)
        for (uint32_t j = want_ptr[s]; j < want_ptr[s + 1]; j++) {
            t_expect(t, j == want_ptr[s] || want[j - 1] <= want[j], "destinations do not ascend");
            if (with_edge)
                t_expect(t,
                         csr.indices[want_edge[j]] == s && csr.indptr[want[j]] <= want_edge[j] &&
                             want_edge[j] < csr.indptr[want[j] + 1],
                         "t_edge[%u] does not lead back", j);
        }

    for (const int *threads = t_threads; *threads; threads++) {
        uint32_t *ptr = t_alloc(t, ptr_bytes, 0), *got = t_alloc(t, edge_bytes, 0);
        uint32_t *edge = with_edge ? t_alloc(t, edge_bytes, 0) : NULL;
        sl_kernels_set_threads(*threads);
        t_expect_ok(t, t->dev->transpose(&csr, ptr, got, edge, t_ws(t, t->dev)), "dev");
        t_same_bits(t, "t_indptr", ptr, want_ptr, ptr_bytes);
        t_same_bits(t, "t_indices", got, want, edge_bytes);
        if (with_edge)
            t_same_bits(t, "t_edge", edge, want_edge, edge_bytes);
    }
    t_end(t);
}

void test_transpose(struct suite *t)
{
    for (int with_edge = 0; with_edge < 2; with_edge++) {
        compare_transpose(t, 0, 0, 3, 0, with_edge);
        compare_transpose(t, 0, 7, 3, 0, with_edge);
        compare_transpose(t, 7, 0, 3, 0, with_edge);
        compare_transpose(t, 1, 1, 3, 5, with_edge);
        compare_transpose(t, 50, 200, 4, 0, with_edge);
        compare_transpose(t, 200, 3, 4, 100, with_edge);
        compare_transpose(t, 20000, 30000, 10, 40000, with_edge); // several threads
        compare_transpose(t, 5000, 100, 40, 0, with_edge);
    }
}
