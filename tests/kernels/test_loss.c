// softmax_xent, sigmoid_bce, squared_error.
#include "tests/kernels/harness.h"

#include <math.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "kernels/cpu/exp.h"

static const uint64_t row_counts[] = {0, 1, 2, 63, 130, 700};

// Sums of f32 terms against sums of f64 ones; `magnitude` bounds the sum of the terms' sizes.
static void close_results(struct suite *t, const struct sl_loss_result *got,
                          const struct sl_loss_result *want, double magnitude)
{
    t_expect(t, got->correct == want->correct && got->counted == want->counted,
             "%llu of %llu correct, wanted %llu of %llu", (unsigned long long)got->correct,
             (unsigned long long)got->counted, (unsigned long long)want->correct,
             (unsigned long long)want->counted);
    double underflow = 2e-38 * (double)want->counted; // e^-87: what is less is 0
    t_expect(t, fabs(got->loss - want->loss) <= 1e-6 * (fabs(want->loss) + magnitude) + underflow,
             "loss %.12g, wanted %.12g", got->loss, want->loss);
    t_expect(t, fabs(got->weight - want->weight) <= 1e-14 * want->weight,
             "weight %.17g, wanted %.17g", got->weight, want->weight);
}

// ---- softmax_xent -------------------------------------------------------------------------------

enum { PLAIN, TIES, LARGE, KINDS };

static void compare_xent(struct suite *t, uint64_t rows, uint32_t classes, int kind, int weighted,
                         int in_place)
{
    if (!t_affords(t, (double)rows * (classes + 64)))
        return;
    t_begin(t, "softmax_xent rows=%llu classes=%u kind=%d weighted=%d in_place=%d",
            (unsigned long long)rows, classes, kind, weighted, in_place);
    size_t count = rows * classes, bytes = count * sizeof(float);
    float *logits = t_random_floats(t, count);
    for (size_t i = 0; i < count; i++) {
        if (kind == TIES)
            logits[i] = (float)t_random_below(t, 3);
        else if (kind == LARGE)
            logits[i] *= 1e4f;
    }
    float *weight = weighted ? t_random_floats(t, classes) : NULL;
    for (uint32_t c = 0; weighted && c < classes; c++)
        weight[c] = c % 5 == 4 ? 0.0f : fabsf(weight[c]) * 4.0f; // classes that do not count too
    int32_t *labels = t_alloc(t, rows * sizeof *labels, 0);
    for (uint64_t i = 0; i < rows; i++)
        labels[i] = (int32_t)t_random_below(t, classes + 1) - 1;
    float *want = t_alloc(t, bytes, 0);
    struct sl_loss_result want_result, result, first = {0};
    int rc = t->ref->softmax_xent(logits, labels, rows, classes, weight, want, &want_result);
    t_expect_ok(t, rc, "ref");
    for (const int *threads = t_threads; *threads; threads++) {
        float *x = t_copy(t, logits, bytes, t_random_below(t, 4) * 4);
        float *got = in_place ? x : t_alloc(t, bytes, 0);
        sl_kernels_set_threads(*threads);
        rc = t->dev->softmax_xent(x, labels, rows, classes, weight, NULL, &result);
        t_expect_ok(t, rc, "dev evaluation");
        t_same_bits(t, "logits after an evaluation", x, logits, bytes);
        struct sl_loss_result evaluated = result;
        rc = t->dev->softmax_xent(x, labels, rows, classes, weight, got, &result);
        t_expect_ok(t, rc, "dev");
        t_close(t, "dlogits", got, want, count, 2e-5, 4e-6);
        close_results(t, &result, &want_result, 4 * (double)rows);
        t_same_results(t, "with a gradient", &result, &evaluated);
        if (threads != t_threads)
            t_same_results(t, "with more threads", &result, &first);
        first = result;
    }
    t_end(t);
}

// Small probabilities to a relative error, which the sums of other cases would hide.
static void small_probabilities(struct suite *t)
{
    enum { CLASSES = 45 };
    t_begin(t, "softmax_xent of logits far below the largest");
    float x[CLASSES], dx[CLASSES];
    double sum = 0;
    int32_t label = 0;
    struct sl_loss_result result;
    for (int c = 0; c < CLASSES; c++)
        sum += exp(x[c] = -1.96875f * (float)c); // the difference from the largest is exact
    t_expect_ok(t, t->dev->softmax_xent(x, &label, 1, CLASSES, NULL, dx, &result), "dev");
    for (int c = 1; c < CLASSES; c++) {
        double want = exp(x[c]) / sum;
        t_expect(t, fabs(dx[c] - want) <= 1e-6 * want, "dlogits[%d] is %.9g, wanted %.9g", c,
                 (double)dx[c], want);
    }
    t_end(t);
}

// torch.nn.functional.cross_entropy(weight=..., ignore_index=-1, reduction="sum"), by torch 2.15;
// its reduction="mean" of the same is loss / weight.
static void known_xent(struct suite *t)
{
    const float x[12] = {1, -2, .5f, 0, 3, -1, 2, 2, -4, .25f, .5f, -.75f};
    const int32_t labels[4] = {0, 2, -1, 1};
    const float weight[3] = {.5f, 2, 3};
    static const float want[12] = {-0.198125541f,
                                   0.0150294434f,
                                   0.183096111f,
                                   0.139837876f,
                                   2.80871868f,
                                   -2.94855642f,
                                   0,
                                   0,
                                   0,
                                   0.754174948f,
                                   -1.03162026f,
                                   0.277445436f};
    t_begin(t, "softmax_xent with class weights as torch");
    float dx[12];
    struct sl_loss_result r;
    t_expect_ok(t, t->dev->softmax_xent(x, labels, 4, 3, weight, dx, &r), "dev");
    t_close(t, "dlogits", dx, want, 12, 5e-7, 5e-7);
    t_expect(t, fabs(r.loss - 13.900507) < 2e-6, "loss %.9g", r.loss);
    t_expect(t, fabs(r.loss / r.weight - 2.52736497) < 5e-7, "mean %.9g", r.loss / r.weight);
    t_expect(t, r.weight == 5.5 && r.correct == 2 && r.counted == 3, "weight %g, %llu of %llu",
             r.weight, (unsigned long long)r.correct, (unsigned long long)r.counted);
    t_end(t);
}

void test_softmax_xent(struct suite *t)
{
    static const uint32_t classes[] = {1, 2, 3, 7, 15, 16, 17, 31, 40, 47, 64, 128, 172, 257};
    for (size_t c = 0; c < SL_COUNT_OF(classes); c++)
        for (size_t r = 0; r < SL_COUNT_OF(row_counts); r++)
            for (int kind = 0; kind < KINDS; kind++)
                compare_xent(t, row_counts[r], classes[c], kind, (int)((c ^ r) & 1), (int)(r & 1));
    compare_xent(t, 4200, 3, PLAIN, 1, 1); // more than a GPU's warps at once
    small_probabilities(t);
    known_xent(t);

    t_begin(t, "softmax_xent refuses a bad label, passes NaN on");
    float x[6] = {1, 2, 3, NAN, 0, 0}, dx[6];
    int32_t labels[2] = {2, 3};
    struct sl_loss_result result;
    int rc = t->dev->softmax_xent(x, labels, 2, 3, NULL, dx, &result);
    t_expect_code(t, rc, SL_ERANGE, "label 3 of 3 classes");
    labels[1] = -2;
    rc = t->dev->softmax_xent(x, labels, 2, 3, NULL, dx, &result);
    t_expect_code(t, rc, SL_ERANGE, "label -2");
    labels[1] = 0;
    rc = t->dev->softmax_xent(x, labels, 2, 3, NULL, dx, &result);
    t_expect_ok(t, rc, "a NaN logit");
    t_expect(t, isnan(result.loss), "the loss of a NaN is %g", result.loss);
    rc = t->dev->softmax_xent(x, labels, 2, 3, NULL, dx, NULL);
    t_expect_code(t, rc, SL_EINVAL, "a result of NULL");
    t_end(t);
}

// ---- sigmoid_bce, squared_error -----------------------------------------------------------------

static const uint32_t dims[] = {1, 2, 3, 15, 16, 17, 47, 64, 112, 257};

// Targets of 0 and 1, some in between, some not there; with `none` none is there.
static float *random_targets(struct suite *t, size_t n, int none)
{
    float *x = t_alloc(t, n * sizeof *x, t_random_below(t, 4) * 4);
    for (size_t i = 0; i < n; i++) {
        uint32_t kind = t_random_below(t, 8);
        x[i] = kind == 0 || none ? NAN
               : kind == 1       ? 0.5f
               : kind == 2       ? fabsf(t_random_float(t))
                                 : (float)(kind & 1);
    }
    return x;
}

typedef int loss_slot(const struct sl_kernels *k, const float *x, const float *targets,
                      uint64_t rows, uint32_t dim, const float *pos_weight, float *dx,
                      struct sl_loss_result *out);

static int bce_slot(const struct sl_kernels *k, const float *x, const float *targets, uint64_t rows,
                    uint32_t dim, const float *pos_weight, float *dx, struct sl_loss_result *out)
{
    return k->sigmoid_bce(x, targets, rows, dim, pos_weight, dx, out);
}

static int square_slot(const struct sl_kernels *k, const float *x, const float *targets,
                       uint64_t rows, uint32_t dim, const float *pos_weight, float *dx,
                       struct sl_loss_result *out)
{
    return k->squared_error(x, targets, rows, dim, dx, out);
}

/*
 * One element's gradient is an exact formula of an exponential, so its error is relative where one
 * of its two terms is 0 (hard targets) and absolute, of the size of the terms, where they cancel.
 */
static void compare_elements(struct suite *t, const char *name, loss_slot *slot, uint64_t rows,
                             uint32_t dim, int kind, int weighted, int in_place, int none)
{
    if (!t_affords(t, (double)rows * dim * 2))
        return;
    t_begin(t, "%s rows=%llu dim=%u kind=%d weighted=%d in_place=%d none=%d", name,
            (unsigned long long)rows, dim, kind, weighted, in_place, none);
    size_t count = rows * dim, bytes = count * sizeof(float);
    float *x = t_random_floats(t, count), *targets = random_targets(t, count, none);
    for (size_t i = 0; i < count; i++)
        x[i] = kind == TIES ? (float)t_random_below(t, 2) : kind == LARGE ? x[i] * 1e4f : x[i] * 8;
    float *weight = weighted ? t_random_floats(t, dim) : NULL;
    for (uint32_t c = 0; weighted && c < dim; c++)
        weight[c] = fabsf(weight[c]) * 4.0f;
    float *want = t_alloc(t, bytes, 0);
    struct sl_loss_result want_result, result, first = {0};
    int rc = slot(t->ref, x, targets, rows, dim, weight, want, &want_result);
    t_expect_ok(t, rc, "ref");
    for (const int *threads = t_threads; *threads; threads++) {
        float *y = t_copy(t, x, bytes, t_random_below(t, 4) * 4);
        float *got = in_place ? y : t_alloc(t, bytes, t_random_below(t, 4) * 4);
        sl_kernels_set_threads(*threads);
        rc = slot(t->dev, y, targets, rows, dim, weight, NULL, &result);
        t_expect_ok(t, rc, "dev evaluation");
        t_same_bits(t, "logits after an evaluation", y, x, bytes);
        struct sl_loss_result evaluated = result;
        rc = slot(t->dev, y, targets, rows, dim, weight, got, &result);
        t_expect_ok(t, rc, "dev");
        t_close(t, "gradient", got, want, count, 1e-6, 1e-6);
        close_results(t, &result, &want_result, 0);
        t_same_results(t, "with a gradient", &result, &evaluated);
        if (threads != t_threads)
            t_same_results(t, "with more threads", &result, &first);
        first = result;
    }
    t_end(t);
}

static void compare_all_elements(struct suite *t, const char *name, loss_slot *slot)
{
    for (size_t d = 0; d < SL_COUNT_OF(dims); d++)
        for (size_t r = 0; r < SL_COUNT_OF(row_counts); r++)
            for (int kind = 0; kind < KINDS; kind++)
                compare_elements(t, name, slot, row_counts[r], dims[d], kind, (int)((d ^ r) & 1),
                                 (int)(r & 1), 0);
    compare_elements(t, name, slot, 100, 33, PLAIN, 0, 0, 1);  // nothing is labelled
    compare_elements(t, name, slot, 9000, 67, PLAIN, 1, 0, 0); // more than a GPU's blocks at once
}

// Losses and gradients far down, each by itself: sums and absolute tolerances would hide them.
static void bce_far_out(struct suite *t)
{
    t_begin(t, "sigmoid_bce of logits from -80 to 80, one at a time");
    for (float x = -80.0f; x <= 80.0f; x += 0.4375f)
        for (int target = 0; target < 2; target++) {
            float goal = (float)target, dx;
            struct sl_loss_result r;
            t_expect_ok(t, t->dev->sigmoid_bce(&x, &goal, 1, 1, NULL, &dx, &r), "dev");
            double z = target ? -(double)x : (double)x; // the loss is log(1 + e^z)
            double want = z > 0 ? z + log1p(exp(-z)) : log1p(exp(z));
            double slope = 1 / (1 + exp(-z)) * (target ? -1 : 1);
            t_expect(t, fabs(r.loss - want) <= 5e-7 * want, "loss(%g, %d) is %.9g, wanted %.9g",
                     (double)x, target, r.loss, want);
            t_expect(t, fabs((double)dx - slope) <= 5e-7 * fabs(slope),
                     "slope(%g, %d) is %.9g, wanted %.9g", (double)x, target, (double)dx, slope);
        }
    t_end(t);
}

// torch.nn.functional.binary_cross_entropy_with_logits(pos_weight=..., reduction="sum"), by torch
// 2.15.
static void known_bce(struct suite *t)
{
    const float x[9] = {1, -2, .5f, 0, 30, -100, 2, -2, 4};
    const float targets[9] = {1, 0, .25f, 1, 0, 1, 0, 1, .75f};
    const float pos_weight[3] = {.5f, 2, 3};
    static const float want[9] = {-0.134470701f, 0.119202919f, 0.183688998f, -0.25f, 1, -3,
                                  0.880797029f,  -1.76159418f, 0.205034494f};
    t_begin(t, "sigmoid_bce with weights of positives as torch");
    float dx[9];
    struct sl_loss_result r;
    t_expect_ok(t, t->dev->sigmoid_bce(x, targets, 3, 3, pos_weight, dx, &r), "dev");
    t_close(t, "dlogits", dx, want, 9, 5e-7, 5e-7);
    t_expect(t, fabs(r.loss - 339.142395) < 5e-5, "loss %.9g", r.loss);
    // Right: 1 is positive, -2 negative, 4 positive; 0 counts as negative.
    t_expect(t, r.weight == 9 && r.correct == 3 && r.counted == 9, "weight %g, %llu of %llu",
             r.weight, (unsigned long long)r.correct, (unsigned long long)r.counted);
    t_end(t);
}

// NaN of an unlabelled element is no NaN of the loss; one of a labelled logit is.
static void nan_elements(struct suite *t, const char *name, loss_slot *slot)
{
    t_begin(t, "%s ignores what has no label and shows a NaN output", name);
    float x[3] = {NAN, 1, 2}, targets[3] = {NAN, 1, 0}, dx[3];
    struct sl_loss_result r;
    t_expect_ok(t, slot(t->dev, x, targets, 1, 3, NULL, dx, &r), "dev");
    t_expect(t, isfinite(r.loss) && r.weight == 2 && dx[0] == 0.0f && isfinite(dx[1]),
             "loss %g, weight %g, gradient %g", r.loss, r.weight, (double)dx[0]);
    targets[0] = 1;
    t_expect_ok(t, slot(t->dev, x, targets, 1, 3, NULL, dx, &r), "dev");
    t_expect(t, isnan(r.loss) && r.weight == 3 && isnan(dx[0]), "loss %g, gradient %g", r.loss,
             (double)dx[0]);
    t_expect_code(t, slot(t->dev, x, targets, 1, 3, NULL, dx, NULL), SL_EINVAL, "no result");
    t_expect_code(t, slot(t->dev, x, NULL, 1, 3, NULL, dx, &r), SL_EINVAL, "no targets");
    t_expect_code(t, slot(t->dev, x, targets, 1, 0, NULL, dx, &r), SL_EINVAL, "dimension 0");
    t_end(t);
}

// The functions of exp.h over all of their ranges, by what the losses are made of.
static void polynomials(struct suite *t)
{
    t_begin(t, "exp, expm1 and log1p in vectors against libm");
    for (float x = 0.0f; x > -90.0f; x -= 0.00537f) {
        sl_v16 lanes = (sl_v16){0} + x, e, m;
        sl_v16_exp_negative(&lanes, &e);
        sl_v16_expm1_negative(&lanes, &m);
        double want = x < -87.0f ? 0.0 : exp((double)x), less = expm1((double)x);
        t_expect(t, fabs((double)e[3] - want) <= 3e-7 * want, "exp(%.9g) is %.9g, wanted %.9g",
                 (double)x, (double)e[3], want);
        t_expect(t, fabs((double)m[3] - less) <= 3e-7 * fabs(less),
                 "expm1(%.9g) is %.9g, wanted %.9g", (double)x, (double)m[3], less);
    }
    for (float z = 1.0f; z > 1e-30f; z *= 0.9973f) {
        sl_v16 lanes = (sl_v16){0} + z, l;
        sl_v16_log1p_unit(&lanes, &l);
        double want = log1p((double)z);
        t_expect(t, fabs((double)l[7] - want) <= 3e-7 * want, "log1p(%.9g) is %.9g, wanted %.9g",
                 (double)z, (double)l[7], want);
    }
    t_end(t);
}

void test_sigmoid_bce(struct suite *t)
{
    compare_all_elements(t, "sigmoid_bce", bce_slot);
    polynomials(t);
    bce_far_out(t);
    known_bce(t);
    nan_elements(t, "sigmoid_bce", bce_slot);

    t_begin(t, "sigmoid_bce refuses targets beyond 0 and 1");
    float x[2] = {0, 0}, dx[2];
    struct sl_loss_result r;
    static const float bad[] = {-0.001f, 1.001f, INFINITY, -INFINITY};
    for (size_t i = 0; i < SL_COUNT_OF(bad); i++) {
        float targets[2] = {1, bad[i]};
        int rc = t->dev->sigmoid_bce(x, targets, 2, 1, NULL, dx, &r);
        t_expect_code(t, rc, SL_ERANGE, "a target out of range");
        t_expect(t, strstr(sl_error_message(), "row 1, column 0") != NULL,
                 "the message does not name the place: %s", sl_error_message());
    }
    t_end(t);
}

void test_squared_error(struct suite *t)
{
    compare_all_elements(t, "squared_error", square_slot);
    nan_elements(t, "squared_error", square_slot);

    t_begin(t, "squared_error of known differences");
    const float x[4] = {1, -2, 0.5f, 1e20f}, targets[4] = {3, -2, NAN, 0};
    float dx[4];
    struct sl_loss_result r;
    t_expect_ok(t, t->dev->squared_error(x, targets, 1, 3, dx, &r), "dev");
    t_expect(t, r.loss == 4 && r.weight == 2 && r.correct == 0 && r.counted == 0,
             "loss %g, weight %g", r.loss, r.weight);
    t_expect(t, dx[0] == -4 && dx[1] == 0 && dx[2] == 0, "gradient %g %g %g", (double)dx[0],
             (double)dx[1], (double)dx[2]);
    t_expect_ok(t, t->dev->squared_error(x, targets, 2, 2, dx, &r), "dev");
    t_expect(t, fabs(r.loss / 1e40 - 1) < 1e-6, "the square of 1e20 is %g", r.loss);
    t_end(t);
}
