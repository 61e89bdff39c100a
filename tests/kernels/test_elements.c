// Heads and rows, learned numbers, maxima, running statistics: one pass over elements each.
#include "tests/kernels/harness.h"

#include <math.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"

static const uint64_t lengths[] = {0, 1, 3, 31, 32, 33, 255, 256, 257, 5000, 70001};

// ---- heads --------------------------------------------------------------------------------------

static const struct {
    uint32_t heads, width;
} head_shapes[] = {{1, 1}, {1, 64}, {2, 3}, {3, 17}, {4, 32}, {8, 8}, {8, 40}, {16, 5}, {1, 257}};

static void compare_block_diagonal(struct suite *t, uint32_t heads, uint32_t width)
{
    if (!t_affords(t, (double)heads * heads * width))
        return;
    t_begin(t, "block_diagonal heads=%u width=%u", heads, width);
    size_t n = (size_t)heads * width;
    float *a = t_random_floats(t, n), *want = t_alloc(t, n * heads * sizeof *want, 0);
    t_expect_ok(t, t->ref->block_diagonal(a, heads, width, want), "ref");
    float *got = t_alloc(t, n * heads * sizeof *got, 4);
    t_expect_ok(t, t->dev->block_diagonal(a, heads, width, got), "dev");
    t_same_bits(t, "matrix", got, want, n * heads * sizeof *got);
    float *matrix = t_random_floats(t, n * heads), *sum = t_copy(t, a, n * sizeof *a, 4);
    float *want_sum = t_copy(t, a, n * sizeof *a, 0);
    t_expect_ok(t, t->ref->add_block_diagonal(matrix, heads, width, want_sum), "ref add");
    t_expect_ok(t, t->dev->add_block_diagonal(matrix, heads, width, sum), "dev add");
    t_same_bits(t, "sum", sum, want_sum, n * sizeof *sum);
    t_end(t);
}

void test_block_diagonal(struct suite *t)
{
    for (size_t s = 0; s < SL_COUNT_OF(head_shapes); s++)
        compare_block_diagonal(t, head_shapes[s].heads, head_shapes[s].width);
    t_begin(t, "block_diagonal refuses bad arguments");
    float *a = t_random_floats(t, 4), *m = t_random_floats(t, 8);
    t_expect_code(t, t->dev->block_diagonal(a, 0, 2, m), SL_EINVAL, "no heads");
    t_expect_code(t, t->dev->block_diagonal(a, 2, 2, NULL), SL_EINVAL, "no matrix");
    t_expect_code(t, t->dev->add_block_diagonal(m, 2, 0, a), SL_EINVAL, "no columns");
    t_expect_code(t, t->dev->add_block_diagonal(NULL, 2, 2, a), SL_EINVAL, "no matrix to add");
    t_end(t);
}

static void compare_sum_heads(struct suite *t, uint64_t rows, uint32_t heads, uint32_t width)
{
    if (!t_affords(t, (double)rows * heads * width))
        return;
    t_begin(t, "sum_heads rows=%llu heads=%u width=%u", (unsigned long long)rows, heads, width);
    size_t n = rows * width, n_all = n * heads;
    const float scale = 1.0f / (float)heads;
    float *x = t_random_floats(t, n_all), *y = t_random_floats(t, n);
    for (int beta = 0; beta < 2; beta++) {
        float *want = t_copy(t, y, n * sizeof *y, 0), *first = NULL;
        t_expect_ok(t, t->ref->sum_heads(x, rows, heads, width, scale, (float)beta, want), "ref");
        for (const int *threads = t_threads; *threads; threads++) {
            sl_kernels_set_threads(*threads);
            size_t skew = t_random_below(t, 4) * 4;
            // What stands in y is not looked at where beta is 0: it is a NaN.
            float *got = beta ? t_copy(t, y, n * sizeof *y, skew) : t_alloc(t, n * sizeof *y, skew);
            t_expect_ok(t, t->dev->sum_heads(x, rows, heads, width, scale, (float)beta, got),
                        "dev");
            t_close(t, "y", got, want, n, 0, 6e-8 * (2 + heads));
            T_REPEATS(t, "y", got, first, n * sizeof *got);
        }
    }
    float *want = t_alloc(t, n_all * sizeof *want, 0), *got = t_alloc(t, n_all * sizeof *got, 4);
    t_expect_ok(t, t->ref->spread_heads(y, rows, heads, width, scale, want), "ref spread");
    t_expect_ok(t, t->dev->spread_heads(y, rows, heads, width, scale, got), "dev spread");
    t_same_bits(t, "spread", got, want, n_all * sizeof *got);
    t_end(t);
}

void test_sum_heads(struct suite *t)
{
    static const uint64_t rows[] = {0, 1, 33, 700};
    for (size_t s = 0; s < SL_COUNT_OF(head_shapes); s++)
        for (size_t r = 0; r < SL_COUNT_OF(rows); r++)
            compare_sum_heads(t, rows[r], head_shapes[s].heads, head_shapes[s].width);
    t_begin(t, "sum_heads and spread_heads refuse bad arguments");
    float *x = t_random_floats(t, 4), *y = t_random_floats(t, 4);
    t_expect_code(t, t->dev->sum_heads(x, 1, 2, 2, 1, 0.5f, y), SL_EINVAL, "beta 0.5");
    t_expect_code(t, t->dev->sum_heads(x, 1, 0, 2, 1, 0, y), SL_EINVAL, "no heads");
    t_expect_code(t, t->dev->sum_heads(NULL, 1, 2, 2, 1, 0, y), SL_EINVAL, "no x");
    t_expect_code(t, t->dev->spread_heads(x, 1, 2, 2, 1, NULL), SL_EINVAL, "no y");
    t_end(t);
}

// ---- a learned number ---------------------------------------------------------------------------

static void compare_scaled(struct suite *t, uint64_t n)
{
    if (!t_affords(t, (double)n))
        return;
    t_begin(t, "fill_sum, add_scaled, add_dot n=%llu", (unsigned long long)n);
    size_t bytes = n * sizeof(float);
    float *a = t_random_floats(t, 1), *x = t_random_floats(t, n), *y = t_random_floats(t, n);
    float *want_fill = t_alloc(t, bytes, 0), *want = t_copy(t, y, bytes, 0);
    float *want_dot = t_copy(t, a, sizeof *a, 0), *first_dot = NULL;
    t_expect_ok(t, t->ref->fill_sum(n, 1.0f, a, want_fill), "ref fill");
    t_expect_ok(t, t->ref->add_scaled(n, 1.0f, a, x, want), "ref add");
    t_expect_ok(t, t->ref->add_dot(n, x, y, want_dot, &t->ws), "ref dot");
    for (const int *threads = t_threads; *threads; threads++) {
        sl_kernels_set_threads(*threads);
        size_t skew = t_random_below(t, 4) * 4;
        float *fill = t_alloc(t, bytes, skew), *got = t_copy(t, y, bytes, skew);
        float *dot = t_copy(t, a, sizeof *a, skew);
        t_expect_ok(t, t->dev->fill_sum(n, 1.0f, a, fill), "dev fill");
        t_same_bits(t, "filled", fill, want_fill, bytes);
        t_expect_ok(t, t->dev->add_scaled(n, 1.0f, a, x, got), "dev add");
        t_close(t, "y", got, want, n, 1.2e-7, 3e-7); // two roundings, cancellation
        t_expect_ok(t, t->dev->add_dot(n, x, y, dot, t_ws(t, t->dev)), "dev dot");
        t_close(t, "dot", dot, want_dot, 1, 2.5e-7, 1e-7);
        T_REPEATS(t, "dot", dot, first_dot, sizeof *dot);
    }
    t_end(t);
}

void test_add_scaled(struct suite *t)
{
    for (size_t l = 0; l < SL_COUNT_OF(lengths); l++)
        compare_scaled(t, lengths[l]);
    t_begin(t, "add_dot sums in f64, and what these refuse");
    // In f32 a small term behind a large one is lost, and the large one then taken back.
    enum { N = 3000 };
    float *x = t_alloc(t, N * sizeof *x, 0), *y = t_alloc(t, N * sizeof *y, 0);
    float *sum = t_alloc(t, sizeof *sum, 0);
    for (uint32_t i = 0; i < N; i++)
        x[i] = 1.0f, y[i] = i == 0 ? 1e9f : i == N - 1 ? -1e9f : 0.25f;
    *sum = 1.0f;
    t_expect_ok(t, t->dev->add_dot(N, x, y, sum, t_ws(t, t->dev)), "dev");
    t_expect(t, *sum == 1.0f + 0.25f * (N - 2), "the sum is %g", (double)*sum);
    t_expect_code(t, t->dev->add_dot(N, x, NULL, sum, t_ws(t, t->dev)), SL_EINVAL, "no y");
    t_expect_code(t, t->dev->add_dot(N, x, y, NULL, t_ws(t, t->dev)), SL_EINVAL, "no sum");
    t_expect_code(t, t->dev->fill_sum(N, 0, NULL, y), SL_EINVAL, "no number");
    t_expect_code(t, t->dev->add_scaled(N, 0, x, NULL, y), SL_EINVAL, "no x");
    t_end(t);
}

// ---- curves -------------------------------------------------------------------------------------

static void compare_curve(struct suite *t, enum sl_curve_kind f, uint64_t n)
{
    if (!t_affords(t, (double)n * 4))
        return;
    t_begin(t, "curve and its backward f=%d n=%llu", (int)f, (unsigned long long)n);
    size_t bytes = n * sizeof(float);
    float *x = t_random_floats(t, n), *dy = t_random_floats(t, n);
    for (uint64_t i = 0; i < n; i++) // near zero, where it bends, and where it is flat
        x[i] *= i % 3 == 0 ? 0.1f : i % 3 == 1 ? 6.0f : 200.0f;
    float *want = t_alloc(t, bytes, 0), *want_dy = t_copy(t, dy, bytes, 0), *first = NULL;
    t_expect_ok(t, t->ref->curve(f, n, x, want), "ref");
    t_expect_ok(t, t->ref->curve_backward(f, n, x, want_dy), "ref backward");
    for (const int *threads = t_threads; *threads; threads++) {
        sl_kernels_set_threads(*threads);
        size_t skew = t_random_below(t, 4) * 4;
        float *got = t_alloc(t, bytes, skew), *got_dy = t_copy(t, dy, bytes, skew);
        t_expect_ok(t, t->dev->curve(f, n, x, got), "dev");
        t_close(t, "y", got, want, n, 3e-7, 4e-7);
        T_REPEATS(t, "y", got, first, bytes);
        t_expect_ok(t, t->dev->curve_backward(f, n, x, got_dy), "dev backward");
        t_close(t, "dy", got_dy, want_dy, n, 3e-7, 4e-7);
        float *in_place = t_copy(t, x, bytes, skew);
        t_expect_ok(t, t->dev->curve(f, n, in_place, in_place), "dev in place");
        t_same_bits(t, "y in place", in_place, got, bytes);
    }
    t_end(t);
}

static void curve_by_hand(struct suite *t)
{
    // torch.nn.functional.gelu, torch.sigmoid and their gradients, in double precision.
    static const float at[] = {0, 1, -1, 3, -100, 100};
    static const float want[2][2][6] = {{{0, 0.84134475f, -0.15865525f, 2.9959503f, 0, 100},
                                         {0.5f, 1.0833155f, -0.083315471f, 1.0119457f, 0, 1}},
                                        {{0.5f, 0.73105858f, 0.26894142f, 0.95257413f, 0, 1},
                                         {0.25f, 0.19661193f, 0.19661193f, 0.045176660f, 0, 0}}};
    static const float ones[] = {1, 1, 1, 1, 1, 1};
    t_begin(t, "curve by hand, and what it refuses");
    float *x = t_copy(t, at, sizeof at, 0), *y = t_alloc(t, sizeof at, 0);
    const struct sl_kernels *both[] = {t->ref, t->dev};
    for (size_t k = 0; k < 4; k++) {
        enum sl_curve_kind f = (enum sl_curve_kind)(k / 2);
        t_expect_ok(t, both[k % 2]->curve(f, 6, x, y), both[k % 2]->name);
        t_close(t, both[k % 2]->name, y, want[f][0], 6, 2e-7, 2e-7);
        float *dy = t_copy(t, ones, sizeof ones, 0);
        t_expect_ok(t, both[k % 2]->curve_backward(f, 6, x, dy), both[k % 2]->name);
        t_close(t, "slope", dy, want[f][1], 6, 3e-7, 3e-7);
    }
    x[1] = NAN;
    t_expect_ok(t, t->dev->curve(SL_CURVE_GELU, 6, x, y), "dev");
    t_expect(t, isnan(y[1]) && y[0] == 0, "of a NaN %g", (double)y[1]);
    t_expect_code(t, t->dev->curve((enum sl_curve_kind)2, 6, x, y), SL_EINVAL, "curve 2");
    t_expect_code(t, t->dev->curve(SL_CURVE_GELU, 6, NULL, y), SL_EINVAL, "no x");
    t_expect_code(t, t->dev->curve_backward(SL_CURVE_GELU, 6, x, NULL), SL_EINVAL, "no dy");
    t_end(t);
}

static void curves(struct suite *t)
{
    for (size_t l = 0; l < SL_COUNT_OF(lengths); l++)
        for (int f = SL_CURVE_GELU; f <= SL_CURVE_SIGMOID; f++)
            compare_curve(t, (enum sl_curve_kind)f, lengths[l]);
    curve_by_hand(t);
}

void test_curve(struct suite *t)
{
    t_each_isa(t, curves);
}

// ---- maximum ------------------------------------------------------------------------------------

enum { LAYERS = 4 };

static void compare_maximum(struct suite *t, uint64_t n)
{
    if (!t_affords(t, (double)n * 4))
        return;
    t_begin(t, "maximum and its backward n=%llu", (unsigned long long)n);
    size_t bytes = n * sizeof(float);
    const float *h[LAYERS];
    float *max = NULL, *dmax = t_random_floats(t, n), *before = t_random_floats(t, n);
    for (uint32_t l = 0; l < LAYERS; l++) {
        float *x = t_random_floats(t, n);
        for (uint64_t i = 0; i < n; i++) // equals, so that the first of them matters
            x[i] = t_random_below(t, 3) ? floorf(x[i] * 3) : t_random_below(t, 40) ? x[i] : NAN;
        h[l] = x;
    }
    float *want = t_copy(t, h[0], bytes, 0), *got = t_copy(t, h[0], bytes, 4);
    for (uint32_t l = 1; l < LAYERS; l++) {
        t_expect_ok(t, t->ref->maximum(n, h[l], want), "ref");
        t_expect_ok(t, t->dev->maximum(n, h[l], got), "dev");
    }
    t_close(t, "maximum", got, want, n, 0, 0);
    max = want;
    for (uint32_t l = 0; l < LAYERS; l++) {
        float *want_dy = t_copy(t, before, bytes, 0), *dy = t_copy(t, before, bytes, 4);
        t_expect_ok(t, t->ref->maximum_backward(n, h, l, max, dmax, want_dy), "ref backward");
        t_expect_ok(t, t->dev->maximum_backward(n, h, l, max, dmax, dy), "dev backward");
        t_same_bits(t, "dy", dy, want_dy, bytes);
    }
    t_end(t);
}

void test_maximum(struct suite *t)
{
    for (size_t l = 0; l < SL_COUNT_OF(lengths); l++)
        for (const int *threads = t_threads; *threads; threads++) {
            sl_kernels_set_threads(*threads);
            compare_maximum(t, lengths[l]);
        }
    t_begin(t, "maximum_backward refuses bad arguments");
    float *x = t_random_floats(t, 4), *dy = t_random_floats(t, 4);
    const float *h[2] = {x, NULL};
    t_expect_code(t, t->dev->maximum_backward(4, h, 1, x, x, dy), SL_EINVAL, "a layer of NULL");
    t_expect_code(t, t->dev->maximum_backward(4, h, SL_MAXIMUM_LAYERS, x, x, dy), SL_EINVAL,
                  "too many layers");
    t_expect_code(t, t->dev->maximum(4, NULL, dy), SL_EINVAL, "no x");
    t_end(t);
}

// ---- running statistics -------------------------------------------------------------------------

static const float EPS = 1e-5f;

static float *variances(struct suite *t, uint32_t dim)
{
    float *v = t_random_floats(t, dim);
    for (uint32_t c = 0; c < dim; c++)
        v[c] = t_random_below(t, 8) ? v[c] * v[c] : 0.0f;
    return v;
}

static void compare_running(struct suite *t, uint64_t rows, uint32_t dim)
{
    if (!t_affords(t, (double)rows * dim))
        return;
    t_begin(t, "running statistics rows=%llu dim=%u", (unsigned long long)rows, dim);
    size_t n = rows * dim, vector = dim * sizeof(float);
    float *gamma = t_random_floats(t, dim), *beta = t_random_floats(t, dim);
    float *mean = t_random_floats(t, dim), *variance = variances(t, dim);
    float *want_scale = t_alloc(t, vector, 0), *want_shift = t_alloc(t, vector, 0);
    float *scale = t_alloc(t, vector, 4), *shift = t_alloc(t, vector, 4);
    int rc = t->ref->running_scale(dim, EPS, gamma, beta, mean, variance, want_scale, want_shift);
    t_expect_ok(t, rc, "ref scale");
    rc = t->dev->running_scale(dim, EPS, gamma, beta, mean, variance, scale, shift);
    t_expect_ok(t, rc, "dev scale");
    t_close(t, "scale", scale, want_scale, dim, 4e-7, 0);
    for (uint32_t c = 0; c < dim; c++)
        t_close(t, "shift", shift + c, want_shift + c, 1, 2e-7, 6e-7 * fabs((double)scale[c]));
    float *x = t_random_floats(t, n), *dy = t_random_floats(t, n);
    float *want_dx = t_alloc(t, n * sizeof(float), 0);
    float *want_g = t_copy(t, gamma, vector, 0), *want_b = t_copy(t, beta, vector, 0);
    float *g = t_copy(t, gamma, vector, 4), *b = t_copy(t, beta, vector, 4);
    float *dx = t_copy(t, dy, n * sizeof(float), 4); // in place
    rc = t->ref->running_backward(rows, dim, EPS, x, gamma, mean, variance, dy, want_g, want_b,
                                  want_dx);
    t_expect_ok(t, rc, "ref backward");
    rc = t->dev->running_backward(rows, dim, EPS, x, gamma, mean, variance, dx, g, b, dx);
    t_expect_ok(t, rc, "dev backward");
    t_close(t, "dx", dx, want_dx, n, 6e-7, 0);
    t_close(t, "dbeta", b, want_b, dim, 0, 1.2e-7 * (1 + (double)rows) * (1 + sqrt((double)rows)));
    for (uint32_t c = 0; c < dim; c++) { // terms are at most 2 / deviation
        double term = 2 / sqrt((double)variance[c] + (double)EPS);
        t_close(t, "dgamma", g + c, want_g + c, 1, 0, 2e-7 * (1 + term * (2 + (double)rows)));
    }
    t_end(t);
}

static void compare_average(struct suite *t, uint64_t n)
{
    if (!t_affords(t, (double)n))
        return;
    t_begin(t, "running_average n=%llu", (unsigned long long)n);
    float *batch = t_random_floats(t, n), *r = t_random_floats(t, n);
    float *want = t_copy(t, r, n * sizeof *r, 0), *got = t_copy(t, r, n * sizeof *r, 4);
    t_expect_ok(t, t->ref->running_average(n, 0.1f, batch, want), "ref");
    t_expect_ok(t, t->dev->running_average(n, 0.1f, batch, got), "dev");
    t_close(t, "r", got, want, n, 1.2e-7, 3e-8);
    // What a batch without statistics of its own gives is a fixed point.
    float *same = t_copy(t, r, n * sizeof *r, 0);
    t_expect_ok(t, t->dev->running_average(n, 0.1f, r, same), "dev");
    t_same_bits(t, "a fixed point", same, r, n * sizeof *r);
    t_end(t);
}

void test_running_scale(struct suite *t)
{
    static const uint32_t dims[] = {1, 3, 32, 100, 257};
    static const uint64_t rows[] = {0, 1, 2, 70};
    for (size_t d = 0; d < SL_COUNT_OF(dims); d++)
        for (size_t r = 0; r < SL_COUNT_OF(rows); r++)
            compare_running(t, rows[r], dims[d]);
    for (size_t l = 0; l < SL_COUNT_OF(lengths); l++)
        compare_average(t, lengths[l]);
    t_begin(t, "running statistics: bad arguments are refused");
    float *v = t_random_floats(t, 4), *w = t_random_floats(t, 4);
    t_expect_code(t, t->dev->running_scale(0, EPS, v, v, v, v, w, w), SL_EINVAL, "no columns");
    t_expect_code(t, t->dev->running_scale(4, -1, v, v, v, v, w, w), SL_EINVAL, "eps -1");
    t_expect_code(t, t->dev->running_scale(4, EPS, v, v, NULL, v, w, w), SL_EINVAL, "no mean");
    t_expect_code(t, t->dev->running_backward(1, 4, EPS, v, v, v, v, v, w, NULL, w), SL_EINVAL,
                  "no dbeta");
    t_expect_code(t, t->dev->running_average(4, 0.1f, NULL, w), SL_EINVAL, "no batch");
    t_end(t);
}
