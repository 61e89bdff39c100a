// batch_norm, layer_norm, their backwards, and scale_columns.
#include "tests/kernels/harness.h"

#include <math.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"

static const uint32_t dims[] = {1, 2, 3, 15, 16, 17, 31, 64, 100, 128, 257};
static const uint64_t row_counts[] = {1, 2, 63, 130, 1500};

// How the columns (or rows) that are normalised look.
enum shape {
    SHAPE_PLAIN,
    SHAPE_FAR,     // mean 1e4, deviation 1
    SHAPE_OUTLIER, // the first element, which the sums are shifted by, is far from the others
    SHAPE_EQUAL,   // no variance at all
    SHAPES,
};

static const char *const shape_names[SHAPES] = {"plain", "far", "outlier", "equal"};

// Elements below n_first are the outliers.
static float *shaped(struct suite *t, size_t n, enum shape shape, size_t n_first)
{
    float *x = t_random_floats(t, n);
    for (size_t i = 0; i < n; i++)
        if (shape == SHAPE_FAR)
            x[i] = 1e4f + 1.75f * x[i];
        else if (shape == SHAPE_EQUAL)
            x[i] = 3.7f;
        else if (shape == SHAPE_OUTLIER && i < n_first)
            x[i] *= 1e3f;
    return x;
}

/*
 * Where the mean is large beside the deviation (1e4 to 1) its own rounding is 5e-4 deviations. The
 * forwards do not see that: both keep more of the mean than they return. Backward starts from the
 * returned one in both. So the tolerances are those of the arithmetic alone, far columns or not.
 */
struct outputs {
    float *y, *mean, *inverse, *variance, *dx, *dgamma, *dbeta;
};

struct norm_case {
    uint64_t rows;
    uint32_t dim;
    int in_place;
    const float *x, *gamma, *beta, *dy, *old_gradient;
};

static struct norm_case random_case(struct suite *t, uint64_t rows, uint32_t dim, const float *x,
                                    int in_place)
{
    return (struct norm_case){.rows = rows,
                              .dim = dim,
                              .in_place = in_place,
                              .x = x,
                              .gamma = t_random_floats(t, dim),
                              .beta = t_random_floats(t, dim),
                              .dy = t_random_floats(t, rows * dim),
                              .old_gradient = t_random_floats(t, dim)};
}

// With statistics of so many columns, or rows.
static struct outputs allocate(struct suite *t, const struct norm_case *c, uint64_t n_statistics)
{
    const size_t bytes = c->rows * c->dim * sizeof(float), columns = c->dim * sizeof(float);
    return (struct outputs){.y = t_alloc(t, bytes, t_random_below(t, 4) * 4),
                            .mean = t_alloc(t, n_statistics * sizeof(float), 4),
                            .inverse = t_alloc(t, n_statistics * sizeof(float), 0),
                            .variance = t_alloc(t, n_statistics * sizeof(float), 8),
                            .dx = t_alloc(t, bytes, t_random_below(t, 4) * 4),
                            .dgamma = t_copy(t, c->old_gradient, columns, 4),
                            .dbeta = t_copy(t, c->old_gradient, columns, 0)};
}

static void repeats(struct suite *t, const struct outputs *got, struct outputs *first, size_t bytes,
                    size_t columns)
{
    T_REPEATS(t, "y", got->y, first->y, bytes);
    T_REPEATS(t, "dx", got->dx, first->dx, bytes);
    T_REPEATS(t, "dgamma", got->dgamma, first->dgamma, columns);
    T_REPEATS(t, "dbeta", got->dbeta, first->dbeta, columns);
}

static struct sl_norm_args forward_of(const struct norm_case *c, const struct outputs *o)
{
    return (struct sl_norm_args){.rows = c->rows,
                                 .dim = c->dim,
                                 .eps = 1e-5f,
                                 .x = c->in_place ? o->y : c->x,
                                 .gamma = c->gamma,
                                 .beta = c->beta,
                                 .y = o->y,
                                 .mean = o->mean,
                                 .inverse = o->inverse};
}

static struct sl_norm_grad_args backward_of(const struct norm_case *c, const struct outputs *o,
                                            const float *mean, const float *inverse)
{
    return (struct sl_norm_grad_args){.rows = c->rows,
                                      .dim = c->dim,
                                      .x = c->x,
                                      .gamma = c->gamma,
                                      .mean = mean,
                                      .inverse = inverse,
                                      .dy = c->in_place ? o->dx : c->dy,
                                      .dx = o->dx,
                                      .dgamma = o->dgamma,
                                      .dbeta = o->dbeta};
}

static void run_bn(struct suite *t, const struct sl_kernels *k, const struct norm_case *c,
                   struct outputs *o)
{
    size_t bytes = c->rows * c->dim * sizeof(float);
    if (c->in_place)
        memcpy(o->y, c->x, bytes);
    struct sl_norm_args forward = forward_of(c, o);
    forward.variance = o->variance;
    t_expect_ok(t, k->batch_norm(&forward, t_ws(t, k)), k->name);
    if (c->in_place)
        memcpy(o->dx, c->dy, bytes);
    struct sl_norm_grad_args backward = backward_of(c, o, o->mean, o->inverse);
    t_expect_ok(t, k->batch_norm_backward(&backward, t_ws(t, k)), k->name);
    // Without gradients of parameters the rest is the same.
    float *dx = t_alloc(t, bytes, 0);
    backward.dy = c->dy;
    backward.dx = dx;
    backward.dgamma = backward.dbeta = NULL;
    t_expect_ok(t, k->batch_norm_backward(&backward, t_ws(t, k)), k->name);
    t_same_bits(t, "dx without dgamma and dbeta", dx, o->dx, bytes);
}

static void compare_batch_norm(struct suite *t, uint64_t rows, uint32_t dim, enum shape shape,
                               int in_place)
{
    if (!t_affords(t, (double)rows * dim))
        return;
    t_begin(t, "batch_norm rows=%llu dim=%u %s in_place=%d", (unsigned long long)rows, dim,
            shape_names[shape], in_place);
    size_t n = rows * dim, bytes = n * sizeof(float), columns = dim * sizeof(float);
    const struct norm_case c = random_case(t, rows, dim, shaped(t, n, shape, dim), in_place);
    struct outputs want = allocate(t, &c, dim), got, first = {0};
    run_bn(t, t->ref, &c, &want);
    for (const int *threads = t_threads; *threads; threads++) {
        got = allocate(t, &c, dim);
        sl_kernels_set_threads(*threads);
        run_bn(t, t->dev, &c, &got);
        t_same_bits(t, "mean", got.mean, want.mean, columns);
        t_close(t, "inverse", got.inverse, want.inverse, dim, 2e-7, 0);
        t_close(t, "variance", got.variance, want.variance, dim, 2e-7, 1e-12);
        t_close(t, "y", got.y, want.y, n, 1e-6, 1e-6);
        // A column without variance multiplies by 1 / sqrt(eps) = 316.
        t_close(t, "dx", got.dx, want.dx, n, 2e-6, shape == SHAPE_EQUAL || rows < 3 ? 4e-4 : 4e-6);
        t_close(t, "dgamma", got.dgamma, want.dgamma, dim, 1e-6, 1e-6);
        t_close(t, "dbeta", got.dbeta, want.dbeta, dim, 1e-6, 1e-6);
        T_REPEATS(t, "variance", got.variance, first.variance, columns);
        repeats(t, &got, &first, bytes, columns);
    }
    t_end(t);
}

static void refuse_batch_norm(struct suite *t)
{
    t_begin(t, "batch_norm refuses no rows and half of the parameters' gradients; shows a NaN");
    float x[2] = {NAN, 1}, gamma[1] = {1}, y[2], out[3];
    struct sl_norm_args args = {.dim = 1,
                                .x = x,
                                .gamma = gamma,
                                .beta = gamma,
                                .y = y,
                                .mean = out,
                                .inverse = out + 1,
                                .variance = out + 2};
    t_expect_code(t, t->dev->batch_norm(&args, t_ws(t, t->dev)), SL_EINVAL, "no rows");
    args.rows = 2;
    t_expect_ok(t, t->dev->batch_norm(&args, t_ws(t, t->dev)), "a NaN");
    t_expect(t, isnan(y[0]) && isnan(y[1]) && isnan(out[2]), "a NaN gave %g %g", (double)y[0],
             (double)y[1]);
    x[0] = 1;
    x[1] = NAN;
    t_expect_ok(t, t->dev->batch_norm(&args, t_ws(t, t->dev)), "a NaN");
    t_expect(t, isnan(y[0]) && isnan(out[1]), "a NaN behind the first row gave %g", (double)y[0]);
    struct sl_norm_grad_args back = {.rows = 2,
                                     .dim = 1,
                                     .x = x,
                                     .gamma = gamma,
                                     .mean = out,
                                     .inverse = out + 1,
                                     .dy = x,
                                     .dx = y,
                                     .dgamma = out + 2};
    t_expect_code(t, t->dev->batch_norm_backward(&back, t_ws(t, t->dev)), SL_EINVAL,
                  "dgamma alone");
    t_end(t);
}

void test_batch_norm(struct suite *t)
{
    for (size_t d = 0; d < SL_COUNT_OF(dims); d++)
        for (size_t r = 0; r < SL_COUNT_OF(row_counts); r++)
            for (int shape = 0; shape < SHAPES; shape++)
                compare_batch_norm(t, row_counts[r], dims[d], (enum shape)shape,
                                   (int)((d ^ r) & 1));
    compare_batch_norm(t, 20000, 40, SHAPE_FAR, 0); // every segment is long
    refuse_batch_norm(t);
}

// ---- layer_norm ---------------------------------------------------------------------------------

// Backward starts from `mean` and `inverse`, so that it is compared by itself.
static void run_ln(struct suite *t, const struct sl_kernels *k, const struct norm_case *c,
                   struct outputs *o, const float *mean, const float *inverse)
{
    size_t bytes = c->rows * c->dim * sizeof(float);
    if (c->in_place && bytes) {
        memcpy(o->y, c->x, bytes);
        memcpy(o->dx, c->dy, bytes);
    }
    struct sl_norm_args forward = forward_of(c, o);
    t_expect_ok(t, k->layer_norm(&forward), k->name);
    float *y = t_alloc(t, bytes, 0);
    forward.x = c->x;
    forward.y = y;
    forward.mean = forward.inverse = NULL;
    t_expect_ok(t, k->layer_norm(&forward), k->name);
    t_same_bits(t, "y without mean and inverse", y, o->y, bytes);
    const struct sl_norm_grad_args backward = backward_of(c, o, mean, inverse);
    t_expect_ok(t, k->layer_norm_backward(&backward, t_ws(t, k)), k->name);
}

static void compare_layer_norm(struct suite *t, uint64_t rows, uint32_t dim, enum shape shape,
                               int in_place)
{
    if (!t_affords(t, (double)rows * (dim + 64) * 2))
        return;
    t_begin(t, "layer_norm rows=%llu dim=%u %s in_place=%d", (unsigned long long)rows, dim,
            shape_names[shape], in_place);
    size_t n = rows * dim, bytes = n * sizeof(float), columns = dim * sizeof(float);
    float *x = shaped(t, n, shape, 0);
    for (uint64_t r = 0; shape == SHAPE_OUTLIER && r < rows; r++)
        x[r * dim] *= 1e3f;
    const struct norm_case c = random_case(t, rows, dim, x, in_place);
    struct outputs want = allocate(t, &c, rows), got, first = {0};
    run_ln(t, t->ref, &c, &want, want.mean, want.inverse);
    // An outlier's row is normalised to numbers near each other: of the difference from 1e3 an f32
    // keeps 1e3 * 2^-24, beside a deviation of 1e3 / sqrt(dim).
    double outlier = shape == SHAPE_OUTLIER ? 1e-5 : 0.0;
    for (const int *threads = t_threads; *threads; threads++) {
        got = allocate(t, &c, rows);
        sl_kernels_set_threads(*threads);
        run_ln(t, t->dev, &c, &got, want.mean, want.inverse);
        double widest = 0.0; // 1 / sqrt(eps) = 316 where there is no variance
        for (uint64_t r = 0; r < rows; r++)
            widest = SL_MAX(widest, (double)want.inverse[r]);
        t_close(t, "mean", got.mean, want.mean, rows, 2e-7, 1e-6 + 100 * outlier);
        t_close(t, "inverse", got.inverse, want.inverse, rows, 2e-6 + outlier, 0);
        t_close(t, "y", got.y, want.y, n, 4e-6, 4e-6 + outlier);
        t_close(t, "dx", got.dx, want.dx, n, 4e-6, 4e-6 * (1 + widest) + outlier);
        t_close(t, "dgamma", got.dgamma, want.dgamma, dim, 1e-5, 1e-6 * (double)(rows + 1));
        t_close(t, "dbeta", got.dbeta, want.dbeta, dim, 1e-5, 1e-6 * (double)(rows + 1));
        repeats(t, &got, &first, bytes, columns);
    }
    t_end(t);
}

void test_layer_norm(struct suite *t)
{
    for (size_t d = 0; d < SL_COUNT_OF(dims); d++) {
        compare_layer_norm(t, 0, dims[d], SHAPE_PLAIN, 0);
        for (size_t r = 0; r < SL_COUNT_OF(row_counts); r++)
            for (int shape = 0; shape < SHAPES; shape++)
                compare_layer_norm(t, row_counts[r], dims[d], (enum shape)shape,
                                   (int)((d ^ r) & 1));
    }

    t_begin(t, "layer_norm refuses a mean without an inverse and shows a NaN in its row alone");
    float x[4] = {1, NAN, 2, 3}, gamma[2] = {1, 1}, y[4], mean[2];
    struct sl_norm_args args = {
        .rows = 2, .dim = 2, .x = x, .gamma = gamma, .beta = gamma, .y = y, .mean = mean};
    t_expect_code(t, t->dev->layer_norm(&args), SL_EINVAL, "mean alone");
    args.mean = NULL;
    t_expect_ok(t, t->dev->layer_norm(&args), "a NaN");
    t_expect(t, isnan(y[0]) && isnan(y[1]) && isfinite(y[2]) && isfinite(y[3]), "y is %g %g %g %g",
             (double)y[0], (double)y[1], (double)y[2], (double)y[3]);
    t_end(t);
}

// ---- scale_columns ------------------------------------------------------------------------------

static void compare_scale_columns(struct suite *t, uint64_t rows, uint32_t dim)
{
    if (!t_affords(t, (double)rows * dim))
        return;
    t_begin(t, "scale_columns rows=%llu dim=%u", (unsigned long long)rows, dim);
    size_t n = rows * dim, bytes = n * sizeof(float);
    float *x = t_random_floats(t, n), *want = t_copy(t, x, bytes, 0), *first = NULL;
    float *scale = t_random_floats(t, dim), *shift = t_random_floats(t, dim);
    t_expect_ok(t, t->ref->scale_columns(want, rows, dim, scale, shift), "ref");
    for (const int *threads = t_threads; *threads; threads++) {
        float *got = t_copy(t, x, bytes, t_random_below(t, 4) * 4);
        sl_kernels_set_threads(*threads);
        t_expect_ok(t, t->dev->scale_columns(got, rows, dim, scale, shift), "dev");
        t_close(t, "x", got, want, n, 2e-7, 2e-7);
        T_REPEATS(t, "x", got, first, bytes);
    }
    t_end(t);
}

void test_scale_columns(struct suite *t)
{
    for (size_t d = 0; d < SL_COUNT_OF(dims); d++) {
        compare_scale_columns(t, 0, dims[d]);
        for (size_t r = 0; r < SL_COUNT_OF(row_counts); r++)
            compare_scale_columns(t, row_counts[r], dims[d]);
    }
    t_begin(t, "scale_columns refuses a scale of NULL");
    float x[1] = {1};
    t_expect_code(t, t->dev->scale_columns(x, 1, 1, NULL, x), SL_EINVAL, "scale of NULL");
    t_end(t);
}
