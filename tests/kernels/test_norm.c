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
struct bn_outputs {
    float *y, *mean, *inverse, *variance, *dx, *dgamma, *dbeta;
};

static void allocate_bn(struct suite *t, struct bn_outputs *o, size_t bytes, uint32_t dim,
                        const float *old_gradient)
{
    size_t columns = dim * sizeof(float);
    *o = (struct bn_outputs){.y = t_alloc(t, bytes, t_random_below(t, 4) * 4),
                             .mean = t_alloc(t, columns, 4),
                             .inverse = t_alloc(t, columns, 0),
                             .variance = t_alloc(t, columns, 8),
                             .dx = t_alloc(t, bytes, t_random_below(t, 4) * 4),
                             .dgamma = t_copy(t, old_gradient, columns, 4),
                             .dbeta = t_copy(t, old_gradient, columns, 0)};
}

struct bn_case {
    uint64_t rows;
    uint32_t dim;
    int in_place;
    const float *x, *gamma, *beta, *dy;
};

static void run_bn(struct suite *t, const struct sl_kernels *k, const struct bn_case *c,
                   struct bn_outputs *o)
{
    size_t bytes = c->rows * c->dim * sizeof(float);
    if (c->in_place)
        memcpy(o->y, c->x, bytes);
    struct sl_norm_args forward = {.rows = c->rows,
                                   .dim = c->dim,
                                   .eps = 1e-5f,
                                   .x = c->in_place ? o->y : c->x,
                                   .gamma = c->gamma,
                                   .beta = c->beta,
                                   .y = o->y,
                                   .mean = o->mean,
                                   .inverse = o->inverse,
                                   .variance = o->variance};
    t_expect_ok(t, k->batch_norm(&forward, t_ws(t, k)), k->name);
    if (c->in_place)
        memcpy(o->dx, c->dy, bytes);
    struct sl_norm_grad_args backward = {.rows = c->rows,
                                         .dim = c->dim,
                                         .x = c->x,
                                         .gamma = c->gamma,
                                         .mean = o->mean,
                                         .inverse = o->inverse,
                                         .dy = c->in_place ? o->dx : c->dy,
                                         .dx = o->dx,
                                         .dgamma = o->dgamma,
                                         .dbeta = o->dbeta};
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
    struct bn_case c = {.rows = rows,
                        .dim = dim,
                        .in_place = in_place,
                        .x = shaped(t, n, shape, dim),
                        .gamma = t_random_floats(t, dim),
                        .beta = t_random_floats(t, dim),
                        .dy = t_random_floats(t, n)};
    float *old = t_random_floats(t, dim);
    struct bn_outputs want, got, first = {0};
    allocate_bn(t, &want, bytes, dim, old);
    run_bn(t, t->ref, &c, &want);
    for (const int *threads = t_threads; *threads; threads++) {
        allocate_bn(t, &got, bytes, dim, old);
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
        if (first.y) {
            t_same_bits(t, "y with more threads", got.y, first.y, bytes);
            t_same_bits(t, "variance with more threads", got.variance, first.variance, columns);
            t_same_bits(t, "dx with more threads", got.dx, first.dx, bytes);
            t_same_bits(t, "dgamma with more threads", got.dgamma, first.dgamma, columns);
            t_same_bits(t, "dbeta with more threads", got.dbeta, first.dbeta, columns);
        }
        first = got;
    }
    t_end(t);
}

static const float known_x[12] = {1, -2, .5f, 0, 3, -1, 2, 2, -4, .25f, .5f, -.75f};
static const float known_dy[12] = {.5f, -1, .25f, 2, .75f, -.5f, -1.5f, 1, .125f, .25f, -.25f, 3};
static const float known_gamma[3] = {.5f, 2, -1}, known_beta[3] = {.1f, -.2f, .3f};

// torch.nn.BatchNorm1d(3, momentum=1) in training with these weights, by torch 2.15.
static void known_batch_norm(struct suite *t)
{
    static const float want_y[12] = {0.220481902f, -3.25312281f,  -0.796878695f, -0.422088236f,
                                     2.05665612f,  0.110882998f,  0.863052011f,  0.994700313f,
                                     1.92640638f,  -0.261445701f, -0.598233402f, -0.040410623f};
    static const float want_dx[12] = {0.292262942f,  0.0292353425f, 0.449226737f,   0.339952648f,
                                      -0.240925729f, 0.766099691f,  -0.0767119378f, 0.450279981f,
                                      0.113849863f,  -0.555503726f, -0.23858963f,   -1.32917631f};
    static const float want_dgamma[3] = {-4.43774986f, 3.0199368f, 0.99759233f};
    static const float want_dbeta[3] = {1.25f, 0.5f, 2.875f};
    static const float want_mean[3] = {0.8125f, 0.875f, -1.3125f};
    static const float want_variance[3] = {0.807291687f, 4.72916651f, 3.640625f};
    static const float zeros[3];
    t_begin(t, "batch_norm as torch");
    struct bn_case c = {.rows = 4,
                        .dim = 3,
                        .x = t_copy(t, known_x, sizeof known_x, 0),
                        .gamma = t_copy(t, known_gamma, sizeof known_gamma, 0),
                        .beta = t_copy(t, known_beta, sizeof known_beta, 0),
                        .dy = t_copy(t, known_dy, sizeof known_dy, 0)};
    struct bn_outputs o;
    allocate_bn(t, &o, sizeof known_x, 3, zeros);
    run_bn(t, t->dev, &c, &o);
    t_close(t, "y", o.y, want_y, 12, 5e-7, 5e-7);
    t_close(t, "dx", o.dx, want_dx, 12, 1e-6, 1e-6);
    t_close(t, "dgamma", o.dgamma, want_dgamma, 3, 1e-6, 1e-6);
    t_close(t, "dbeta", o.dbeta, want_dbeta, 3, 1e-6, 1e-6);
    t_close(t, "running_mean", o.mean, want_mean, 3, 2e-7, 0);
    t_close(t, "running_var", o.variance, want_variance, 3, 2e-7, 0);
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
    known_batch_norm(t);
    refuse_batch_norm(t);
}

// ---- layer_norm ---------------------------------------------------------------------------------

struct ln_outputs {
    float *y, *mean, *inverse, *dx, *dgamma, *dbeta;
};

static void allocate_ln(struct suite *t, struct ln_outputs *o, uint64_t rows, uint32_t dim,
                        const float *old_gradient)
{
    size_t bytes = rows * dim * sizeof(float), columns = dim * sizeof(float);
    *o = (struct ln_outputs){.y = t_alloc(t, bytes, t_random_below(t, 4) * 4),
                             .mean = t_alloc(t, rows * sizeof(float), 4),
                             .inverse = t_alloc(t, rows * sizeof(float), 0),
                             .dx = t_alloc(t, bytes, t_random_below(t, 4) * 4),
                             .dgamma = t_copy(t, old_gradient, columns, 4),
                             .dbeta = t_copy(t, old_gradient, columns, 0)};
}

// Backward starts from `mean` and `inverse`, so that it is compared by itself.
static void run_ln(struct suite *t, const struct sl_kernels *k, const struct bn_case *c,
                   struct ln_outputs *o, const float *mean, const float *inverse)
{
    size_t bytes = c->rows * c->dim * sizeof(float);
    if (c->in_place && bytes) {
        memcpy(o->y, c->x, bytes);
        memcpy(o->dx, c->dy, bytes);
    }
    struct sl_norm_args forward = {.rows = c->rows,
                                   .dim = c->dim,
                                   .eps = 1e-5f,
                                   .x = c->in_place ? o->y : c->x,
                                   .gamma = c->gamma,
                                   .beta = c->beta,
                                   .y = o->y,
                                   .mean = o->mean,
                                   .inverse = o->inverse};
    t_expect_ok(t, k->layer_norm(&forward), k->name);
    float *y = t_alloc(t, bytes, 0);
    forward.x = c->x;
    forward.y = y;
    forward.mean = forward.inverse = NULL;
    t_expect_ok(t, k->layer_norm(&forward), k->name);
    t_same_bits(t, "y without mean and inverse", y, o->y, bytes);
    struct sl_norm_grad_args backward = {.rows = c->rows,
                                         .dim = c->dim,
                                         .x = c->x,
                                         .gamma = c->gamma,
                                         .mean = mean,
                                         .inverse = inverse,
                                         .dy = c->in_place ? o->dx : c->dy,
                                         .dx = o->dx,
                                         .dgamma = o->dgamma,
                                         .dbeta = o->dbeta};
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
    struct bn_case c = {.rows = rows,
                        .dim = dim,
                        .in_place = in_place,
                        .x = x,
                        .gamma = t_random_floats(t, dim),
                        .beta = t_random_floats(t, dim),
                        .dy = t_random_floats(t, n)};
    float *old = t_random_floats(t, dim);
    struct ln_outputs want, got, first = {0};
    allocate_ln(t, &want, rows, dim, old);
    run_ln(t, t->ref, &c, &want, want.mean, want.inverse);
    // An outlier's row is normalised to numbers near each other: of the difference from 1e3 an f32
    // keeps 1e3 * 2^-24, beside a deviation of 1e3 / sqrt(dim).
    double outlier = shape == SHAPE_OUTLIER ? 1e-5 : 0.0;
    for (const int *threads = t_threads; *threads; threads++) {
        allocate_ln(t, &got, rows, dim, old);
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
        if (first.y) {
            t_same_bits(t, "y with more threads", got.y, first.y, bytes);
            t_same_bits(t, "dx with more threads", got.dx, first.dx, bytes);
            t_same_bits(t, "dgamma with more threads", got.dgamma, first.dgamma, columns);
            t_same_bits(t, "dbeta with more threads", got.dbeta, first.dbeta, columns);
        }
        first = got;
    }
    t_end(t);
}

// torch.nn.LayerNorm(3) with these weights, by torch 2.15.
static void known_layer_norm(struct suite *t)
{
    static const float want_y[12] = {0.544499159f, -2.99399471f, -0.207998991f, -0.0961157903f,
                                     2.54562092f,  1.28057909f,  0.45355317f,   1.21421266f,
                                     1.71421266f,  0.331451058f, 1.65160835f,   1.6887064f};
    static const float want_dx[12] = {0.0460924506f, 0.00921180844f, -0.0553041399f,
                                      0.0905146599f, -0.0226277113f, -0.0678870082f,
                                      -0.486135513f, 0.486135691f,   -2.23517418e-07f,
                                      1.23995328f,   -0.991859198f,  -0.248093843f};
    static const float want_dgamma[3] = {-1.28489804f, 2.90226054f, -3.72560644f};
    static const float want_dbeta[3] = {1.25f, 0.5f, 2.875f};
    static const float zeros[3];
    t_begin(t, "layer_norm as torch");
    struct bn_case c = {.rows = 4,
                        .dim = 3,
                        .x = t_copy(t, known_x, sizeof known_x, 0),
                        .gamma = t_copy(t, known_gamma, sizeof known_gamma, 0),
                        .beta = t_copy(t, known_beta, sizeof known_beta, 0),
                        .dy = t_copy(t, known_dy, sizeof known_dy, 0)};
    struct ln_outputs o;
    allocate_ln(t, &o, 4, 3, zeros);
    run_ln(t, t->dev, &c, &o, o.mean, o.inverse);
    t_close(t, "y", o.y, want_y, 12, 5e-7, 5e-7);
    t_close(t, "dx", o.dx, want_dx, 12, 1e-6, 1e-6);
    t_close(t, "dgamma", o.dgamma, want_dgamma, 3, 1e-6, 1e-6);
    t_close(t, "dbeta", o.dbeta, want_dbeta, 3, 1e-6, 1e-6);
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
    known_layer_norm(t);

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
        if (first)
            t_same_bits(t, "x with more threads", got, first, bytes);
        first = got;
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
