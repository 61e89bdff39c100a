// aggregate_max and its backward, normalize_rows and its backward.
#include "tests/kernels/harness.h"

#include <math.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"

static const uint32_t dims[] = {1, 3, 15, 16, 17, 31, 40, 48, 63, 64, 65, 100, 128, 256, 257};

// ---- aggregate_max ------------------------------------------------------------------------------

// Sources with many equal elements, so that the first of equals matters, and a few NaN.
static const void *max_source(struct suite *t, uint64_t rows, uint32_t dim, enum sl_dtype dtype,
                              uint64_t *ld)
{
    const size_t n = rows * dim;
    if (dtype == SL_DTYPE_F16) {
        uint16_t *x = t_random_halves(t, n);
        for (size_t i = 0; i < n; i++)
            if (t_random_below(t, 3) == 0)
                x[i] = t_random_below(t, 40) ? 0xbc00 : 0x7e00; // -1, NaN
        return x;
    }
    float *x = t_random_floats(t, n);
    for (size_t i = 0; i < n; i++) {
        if (t_random_below(t, 3) == 0)
            x[i] = (float)t_random_below(t, 3) - 2.0f;
        if (t_random_below(t, 100) == 0)
            x[i] = t_random_below(t, 3) ? -INFINITY : NAN;
    }
    return dtype == SL_DTYPE_F32 ? (const void *)x : t_round_rows(t, x, rows, dim, ld);
}

// NaN for NaN and otherwise the same bits.
static void same_or_nan(struct suite *t, const char *what, const float *got, const float *want,
                        size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!(isnan(got[i]) && isnan(want[i])) &&
            !t_expect(t, memcmp(&got[i], &want[i], sizeof *got) == 0, "%s[%zu] is %g, wanted %g",
                      what, i, (double)got[i], (double)want[i]))
            return;
}

// What is rounded when it is written is y, rounded; the edges are the same.
static void compare_rounded(struct suite *t, struct sl_aggregate_max_args args,
                            const uint32_t *want_from)
{
    const uint64_t n_dst = args.csr.n_dst, n = n_dst * args.dim;
    const uint16_t *want = t_round_rows(t, args.y, n_dst, args.dim, &args.y_ld);
    const size_t bytes = n_dst * args.y_ld * sizeof *want;
    args.y = NULL;
    for (int ref = 0; ref < 2; ref++) {
        // What is behind the columns stays.
        uint16_t *got = args.y_bf16 = t_copy(t, want, bytes, t_random_below(t, 4) * 2);
        for (uint64_t i = 0; i < n; i++)
            got[i / args.dim * args.y_ld + i % args.dim] = 0x4242;
        args.from = t_alloc(t, n * sizeof *args.from, 0);
        t_expect_ok(t, (ref ? t->ref : t->dev)->aggregate_max(&args), ref ? "ref" : "dev");
        for (uint64_t i = 0; i < n_dst * args.y_ld; i++) {
            const bool nan = (got[i] & 0x7fffu) > 0x7f80u && (want[i] & 0x7fffu) > 0x7f80u;
            if (!t_expect(t, nan || got[i] == want[i], "y_bf16[%llu] is %04x, wanted %04x",
                          (unsigned long long)i, got[i], want[i]))
                break;
        }
        t_same_bits(t, "from beside bf16", args.from, want_from, n * sizeof *args.from);
    }
}

static void compare_max(struct suite *t, uint32_t n_dst, uint32_t n_src, uint32_t degree,
                        uint32_t hub, uint32_t dim, enum sl_dtype dtype)
{
    if (!t_affords(t, ((double)n_dst * degree + hub) * dim))
        return;
    t_begin(t, "aggregate_max n_dst=%u n_src=%u degree=%u hub=%u dim=%u %s", n_dst, n_src, degree,
            hub, dim,
            dtype == SL_DTYPE_F16   ? "f16"
            : dtype == SL_DTYPE_F32 ? "f32"
                                    : "bf16");
    struct sl_csr_view csr = t_random_csr(t, n_dst, n_src, degree, hub);
    size_t n = (size_t)n_dst * dim, n_x = (size_t)n_src * dim;
    struct sl_aggregate_max_args args = {.csr = csr, .dim = dim, .x_dtype = dtype};
    args.x = max_source(t, n_src, dim, dtype, &args.x_ld);
    float *want = args.y = t_alloc(t, n * sizeof(float), 0);
    uint32_t *want_from = args.from = t_alloc(t, n * sizeof(uint32_t), 0);
    t_expect_ok(t, t->ref->aggregate_max(&args), "ref");
    struct sl_aggregate_max_grad_args grad = {.csr = csr, .dim = dim, .from = want_from};
    uint32_t *t_edge;
    grad.transposed = t_transpose(t, &csr, &t_edge);
    grad.t_edge = t_edge;
    grad.dy = t_random_floats(t, n);
    float *want_dx = grad.dx = t_alloc(t, n_x * sizeof(float), 0), *first = NULL;
    t_expect_ok(t, t->ref->aggregate_max_backward(&grad), "ref backward");
    for (const int *threads = t_threads; *threads; threads++) {
        size_t skew = t_random_below(t, 4) * 4;
        sl_kernels_set_threads(*threads);
        args.y = t_alloc(t, n * sizeof(float), skew);
        args.from = t_alloc(t, n * sizeof(uint32_t), skew);
        t_expect_ok(t, t->dev->aggregate_max(&args), "dev");
        same_or_nan(t, "y", args.y, want, n);
        t_same_bits(t, "from", args.from, want_from, n * sizeof(uint32_t));
        args.from = NULL;
        args.y = t_alloc(t, n * sizeof(float), skew);
        t_expect_ok(t, t->dev->aggregate_max(&args), "dev without from");
        same_or_nan(t, "y without from", args.y, want, n);
        if (n > 0)
            compare_rounded(t, args, want_from);
        grad.dx = t_alloc(t, n_x * sizeof(float), skew);
        t_expect_ok(t, t->dev->aggregate_max_backward(&grad), "dev backward");
        t_close(t, "dx", grad.dx, want_dx, n_x, 1e-5, 2e-7 * (1 + t_longest_row(&grad.transposed)));
        T_REPEATS(t, "dx", grad.dx, first, n_x * sizeof(float));
    }
    t_end(t);
}

// By hand: the first of equals, the first NaN, -infinity, a row without neighbours.
static void special_elements(struct suite *t)
{
    static const float values[][3] = {
        {1, 2, 2},
        {-3, -1, -2},
        {NAN, 5, NAN},
        {1, NAN, 7},
        {-INFINITY, -INFINITY, -INFINITY},
        {-INFINITY, -1, -INFINITY},
        {-0.0f, 0.0f, -1},
        {INFINITY, NAN, INFINITY},
    };
    static const uint32_t winners[] = {1, 1, 0, 1, 0, 1, 0, 1};
    enum { N = SL_COUNT_OF(winners) };
    for (uint32_t dim = 1; dim <= 20; dim += 19) { // the narrow loop and the vectors
        t_begin(t, "aggregate_max of special elements, dim %u", dim);
        uint32_t indptr[N + 2] = {0}, indices[3 * N];
        float *x = t_alloc(t, (size_t)3 * N * dim * sizeof *x, 0);
        for (uint32_t k = 0; k < 3 * N; k++) {
            indices[k] = k;
            for (uint32_t c = 0; c < dim; c++)
                x[k * dim + c] = values[k / 3][k % 3];
        }
        for (uint32_t i = 0; i <= N; i++)
            indptr[i + 1] = SL_MIN(3 * (i + 1), 3 * N); // the last row is empty
        float *y = t_alloc(t, (size_t)(N + 1) * dim * sizeof *y, 0);
        uint32_t *from = t_alloc(t, (size_t)(N + 1) * dim * sizeof *from, 0);
        struct sl_aggregate_max_args args = {.csr = {N + 1, 3 * N, indptr[N + 1], indptr, indices},
                                             .dim = dim,
                                             .x_dtype = SL_DTYPE_F32,
                                             .x = x,
                                             .y = y,
                                             .from = from};
        for (int ref = 0; ref < 2; ref++) {
            t_expect_ok(t, (ref ? t->ref : t->dev)->aggregate_max(&args), ref ? "ref" : "dev");
            for (uint32_t i = 0; i < N; i++)
                for (uint32_t c = 0; c < dim; c++) {
                    float want = values[i][winners[i]], got = y[i * dim + c];
                    t_expect(t, isnan(want) ? isnan(got) : got == want, "y[%u] is %g, wanted %g", i,
                             (double)got, (double)want);
                    t_expect(t, from[i * dim + c] == 3 * i + winners[i],
                             "y[%u] came from %u, wanted %u", i, from[i * dim + c],
                             3 * i + winners[i]);
                }
            for (uint32_t c = 0; c < dim; c++)
                t_expect(t, y[N * dim + c] == 0 && from[N * dim + c] == UINT32_MAX,
                         "an empty row is %g from %u", (double)y[N * dim + c], from[N * dim + c]);
        }
        t_end(t);
    }
}

static void bad_max(struct suite *t)
{
    t_begin(t, "aggregate_max refuses bad arguments");
    uint32_t indptr[] = {0, 1}, index = 0, edge = 0, from[2] = {0, 0};
    float x[2] = {1, 2}, y[2], dx[2];
    struct sl_csr_view csr = {1, 1, 1, indptr, &index};
    struct sl_aggregate_max_args good = {.csr = csr, .dim = 2, .x = x, .y = y}, args;
    good.x_dtype = SL_DTYPE_F32;
    t_expect_ok(t, t->dev->aggregate_max(&good), "good arguments");
    args = good;
    args.x_dtype = SL_DTYPE_I32;
    t_expect_code(t, t->dev->aggregate_max(&args), SL_EINVAL, "integers");
    args = good;
    args.dim = 0;
    t_expect_code(t, t->dev->aggregate_max(&args), SL_EINVAL, "no columns");
    args = good;
    args.x_dtype = SL_DTYPE_BF16, args.x_ld = 1;
    t_expect_code(t, t->dev->aggregate_max(&args), SL_EINVAL, "bf16 rows that overlap");
    args.x_ld = 2;
    args.y_bf16 = (uint16_t *)(void *)dx, args.y_ld = 2;
    t_expect_code(t, t->dev->aggregate_max(&args), SL_EINVAL, "two results");
    args.y_bf16 = NULL;
    t_expect_ok(t, t->dev->aggregate_max(&args), "bf16");
    struct sl_aggregate_max_grad_args grad = {
        .csr = csr, .transposed = csr, .t_edge = &edge, .dim = 2, .from = from, .dy = x, .dx = dx};
    t_expect_ok(t, t->dev->aggregate_max_backward(&grad), "good arguments of backward");
    grad.from = NULL;
    t_expect_code(t, t->dev->aggregate_max_backward(&grad), SL_EINVAL, "from of NULL");
    t_end(t);
}

static void check_max(struct suite *t)
{
    static const enum sl_dtype dtypes[] = {SL_DTYPE_F32, SL_DTYPE_F16, SL_DTYPE_BF16};
    for (size_t d = 0; d < SL_COUNT_OF(dims); d++)
        for (size_t i = 0; i < SL_COUNT_OF(dtypes); i++) {
            enum sl_dtype dtype = dtypes[i];
            compare_max(t, 120, 200, 5, 0, dims[d], dtype);
            compare_max(t, 50, 30, 3, 700, dims[d], dtype);
        }
    compare_max(t, 0, 0, 0, 0, 64, SL_DTYPE_F32);
    compare_max(t, 0, 9, 0, 0, 64, SL_DTYPE_F32);
    compare_max(t, 9, 4, 0, 0, 64, SL_DTYPE_F32);
    compare_max(t, 2000, 3000, 6, 0, 70, SL_DTYPE_F32);
    special_elements(t);
    bad_max(t);
}

void test_aggregate_max(struct suite *t)
{
    t_each_isa(t, check_max);
}

// ---- normalize_rows -----------------------------------------------------------------------------

static void compare_normalize(struct suite *t, uint64_t rows, uint32_t dim, int in_place)
{
    if (!t_affords(t, (double)rows * (dim + 64)))
        return;
    t_begin(t, "normalize_rows rows=%llu dim=%u in_place=%d", (unsigned long long)rows, dim,
            in_place);
    size_t n = rows * dim, bytes = n * sizeof(float);
    float *x = t_random_floats(t, n), *grad = t_random_floats(t, n);
    for (uint32_t c = 0; rows > 2 && c < dim; c++) {
        x[c] = 0.0f;                            // a row without a direction
        x[dim + c] = c == dim / 2 ? 1e-14f : 0; // one below the bound
    }
    float *want = t_alloc(t, bytes, 0), *want_inverse = t_alloc(t, rows * sizeof(float), 0);
    float *want_dx = t_alloc(t, bytes, 0), *first = NULL, *first_dx = NULL;
    t_expect_ok(t, t->ref->normalize_rows(x, rows, dim, want, want_inverse), "ref");
    int rc = t->ref->normalize_rows_backward(grad, want, want_inverse, rows, dim, want_dx);
    t_expect_ok(t, rc, "ref backward");
    for (const int *threads = t_threads; *threads; threads++) {
        size_t skew = t_random_below(t, 4) * 4;
        float *from = t_copy(t, x, bytes, skew), *dy = t_copy(t, grad, bytes, skew);
        float *y = in_place ? from : t_alloc(t, bytes, skew);
        float *dx = in_place ? dy : t_alloc(t, bytes, skew);
        float *inverse = t_alloc(t, rows * sizeof(float), skew);
        sl_kernels_set_threads(*threads);
        t_expect_ok(t, t->dev->normalize_rows(from, rows, dim, y, inverse), "dev");
        t_close(t, "y", y, want, n, 1e-6 + 1e-8 * dim, 0);
        t_close(t, "inverse", inverse, want_inverse, rows, 1e-6 + 1e-8 * dim, 0);
        rc = t->dev->normalize_rows_backward(dy, want, want_inverse, rows, dim, dx);
        t_expect_ok(t, rc, "dev backward");
        for (uint64_t i = 0; i < rows; i++) // <y, dy> of a unit row is at most |dy|
            t_close(t, "dx", dx + i * dim, want_dx + i * dim, dim, 1e-5,
                    (double)want_inverse[i] * 1e-6 * (1 + sqrt(dim)));
        T_REPEATS(t, "y", y, first, bytes);
        T_REPEATS(t, "dx", dx, first_dx, bytes);
    }
    t_end(t);
}

void test_normalize_rows(struct suite *t)
{
    static const uint64_t row_counts[] = {0, 1, 3, 130, 700};
    for (size_t d = 0; d < SL_COUNT_OF(dims); d++)
        for (size_t r = 0; r < SL_COUNT_OF(row_counts); r++)
            compare_normalize(t, row_counts[r], dims[d], (int)(r + d) & 1);

    t_begin(t, "normalize_rows gives length one, lets a NaN through, refuses bad arguments");
    float x[6] = {3, 4, NAN, 1, 0, 0}, y[6], inverse[3], dx[2];
    t_expect_ok(t, t->dev->normalize_rows(x, 3, 2, y, inverse), "dev");
    t_expect(t, fabsf(y[0] - 0.6f) < 1e-6f && fabsf(y[1] - 0.8f) < 1e-6f, "3, 4 became %g, %g",
             (double)y[0], (double)y[1]);
    t_expect(t, isnan(y[2]) && isnan(y[3]), "a row with a NaN became %g, %g", (double)y[2],
             (double)y[3]);
    t_expect(t, y[4] == 0 && y[5] == 0, "a row of zeros became %g, %g", (double)y[4], (double)y[5]);
    t_expect_code(t, t->dev->normalize_rows(x, 3, 0, y, inverse), SL_EINVAL, "no columns");
    t_expect_code(t, t->dev->normalize_rows(x, 3, 2, y, NULL), SL_EINVAL, "inverse of NULL");
    t_expect_code(t, t->dev->normalize_rows_backward(x, y, NULL, 1, 2, dx), SL_EINVAL,
                  "inverse of NULL in backward");
    t_end(t);
}
