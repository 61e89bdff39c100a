// bias_act and its backward, dropout, softmax_xent.
#include "tests/kernels/harness.h"

#include <math.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/philox.h"
#include "kernels/cpu/cpu_internal.h"

static const uint32_t dims[] = {1, 3, 15, 16, 17, 31, 64, 100, 127, 128, 256, 257, 1025};
static const uint64_t row_counts[] = {0, 1, 2, 63, 130, 700};

static struct sl_dropout random_dropout(struct suite *t, float rate)
{
    return (struct sl_dropout){.rate = rate,
                               .seed = t_random(t),
                               .epoch = t_random_below(t, 100),
                               .batch = t_random_below(t, 1000),
                               .layer = t_random_below(t, 256)};
}

static void compare_bias_act(struct suite *t, uint64_t rows, uint32_t dim, int relu, float rate)
{
    t_begin(t, "bias_act rows=%llu dim=%u relu=%d rate=%g", (unsigned long long)rows, dim, relu,
            (double)rate);
    struct sl_dropout dropout = random_dropout(t, rate);
    const struct sl_dropout *mask = rate < 0 ? NULL : &dropout;
    size_t count = rows * dim, bytes = count * sizeof(float);
    float *x = t_random_floats(t, count), *bias = t_random_floats(t, dim);
    float *grad = t_random_floats(t, count), *dbias = t_random_floats(t, dim);
    float *want = t_copy(t, x, bytes, 0), *want_dx = t_copy(t, grad, bytes, 0);
    float *want_dbias = t_copy(t, dbias, dim * sizeof(float), 0), *first_dbias = NULL;
    t_expect_ok(t, t->ref->bias_act(want, rows, dim, bias, relu, mask), "ref");
    t_expect_ok(t, t->ref->bias_act_backward(want_dx, want, rows, dim, relu, mask, want_dbias),
                "ref backward");
    for (const int *threads = t_threads; *threads; threads++) {
        size_t skew = t_random_below(t, 4) * 4;
        float *y = t_copy(t, x, bytes, skew), *dx = t_copy(t, grad, bytes, skew);
        float *db = t_copy(t, dbias, dim * sizeof(float), 0);
        sl_kernels_set_threads(*threads);
        t_expect_ok(t, t->dev->bias_act(y, rows, dim, bias, relu, mask), "dev");
        t_same_bits(t, "y", y, want, bytes);
        t_expect_ok(t, t->dev->bias_act_backward(dx, y, rows, dim, relu, mask, db), "dev backward");
        t_same_bits(t, "dx", dx, want_dx, bytes);
        t_close(t, "dbias", db, want_dbias, dim, 1e-5, 1e-6 * (double)(rows + 1));
        if (first_dbias)
            t_same_bits(t, "dbias with more threads", db, first_dbias, dim * sizeof(float));
        first_dbias = db;
        // Without a bias gradient the rest is the same.
        dx = t_copy(t, grad, bytes, skew);
        t_expect_ok(t, t->dev->bias_act_backward(dx, y, rows, dim, relu, mask, NULL),
                    "dev backward without dbias");
        t_same_bits(t, "dx without dbias", dx, want_dx, bytes);
    }
    t_end(t);
}

void test_bias_act(struct suite *t)
{
    static const float rates[] = {-1.0f, 0.0f, 0.5f, 0.1f, 0.999f}; // -1: no dropout at all
    for (size_t d = 0; d < SL_COUNT_OF(dims); d++)
        for (size_t r = 0; r < SL_COUNT_OF(row_counts); r++)
            for (int relu = 0; relu < 2; relu++)
                compare_bias_act(t, row_counts[r], dims[d], relu,
                                 rates[t_random_below(t, SL_COUNT_OF(rates))]);
    for (size_t i = 0; i < SL_COUNT_OF(rates); i++) {
        compare_bias_act(t, 900, 65, 1, rates[i]);
        compare_bias_act(t, 900, 65, 0, rates[i]);
        compare_bias_act(t, 20, 2500, 0, rates[i]); // several strips of columns
    }

    t_begin(t, "bias_act lets a NaN through and refuses bad arguments");
    float y[2] = {NAN, -1.0f}, bias[2] = {0, 0};
    t_expect_ok(t, t->dev->bias_act(y, 1, 2, bias, 1, NULL), "dev");
    t_expect(t, isnan(y[0]) && y[1] == 0.0f, "relu gave %g and %g", (double)y[0], (double)y[1]);
    struct sl_dropout bad = {.rate = 1.0f};
    t_expect_code(t, t->dev->bias_act(y, 1, 2, bias, 1, &bad), SL_EINVAL, "a rate of 1");
    bad = (struct sl_dropout){.rate = 0.5f, .layer = 256};
    t_expect_code(t, t->dev->bias_act(y, 1, 2, bias, 1, &bad), SL_EINVAL, "layer 256");
    t_expect_code(t, t->dev->bias_act(y, 1, 2, NULL, 1, NULL), SL_EINVAL, "bias of NULL");
    t_end(t);
}

static void compare_dropout(struct suite *t, uint64_t rows, uint32_t dim, float rate)
{
    t_begin(t, "dropout rows=%llu dim=%u rate=%g", (unsigned long long)rows, dim, (double)rate);
    struct sl_dropout dropout = random_dropout(t, rate);
    size_t bytes = rows * dim * sizeof(float);
    float *x = t_random_floats(t, rows * dim), *want = t_copy(t, x, bytes, 0);
    t_expect_ok(t, t->ref->dropout(want, rows, dim, &dropout), "ref");
    for (const int *threads = t_threads; *threads; threads++) {
        float *got = t_copy(t, x, bytes, t_random_below(t, 4) * 4);
        sl_kernels_set_threads(*threads);
        t_expect_ok(t, t->dev->dropout(got, rows, dim, &dropout), "dev");
        t_same_bits(t, "x", got, want, bytes);
    }
    t_end(t);
}

// The share of survivors, their scale, and that epoch, batch, layer and seed each change the mask.
static void dropout_statistics(struct suite *t)
{
    enum { N = 400000 };
    t_begin(t, "dropout keeps the stated share and each key word matters");
    struct sl_dropout base = {.rate = 0.3f, .seed = 5, .epoch = 1, .batch = 2, .layer = 3};
    float *first = NULL;
    for (int changed = 0; changed < 5; changed++) {
        struct sl_dropout d = base;
        d.seed += changed == 1;
        d.epoch += changed == 2;
        d.batch += changed == 3;
        d.layer += changed == 4;
        float *x = t_alloc(t, N * sizeof *x, 0);
        for (size_t i = 0; i < N; i++)
            x[i] = 1.0f;
        t_expect_ok(t, t->dev->dropout(x, N / 100, 100, &d), "dev");
        size_t alive = 0, same = 0;
        for (size_t i = 0; i < N; i++) {
            alive += x[i] != 0.0f;
            same += first && (x[i] != 0.0f) == (first[i] != 0.0f);
        }
        // Five standard deviations of a binomial with p = 0.7.
        t_expect(t, fabs((double)alive - 0.7 * N) < 5 * sqrt(0.21 * N), "%zu of %d survive", alive,
                 N);
        t_expect(t, x[0] == 0.0f || fabsf(x[0] - 1.0f / 0.7f) < 1e-6f, "survivors are %g",
                 (double)x[0]);
        double p_same = 0.7 * 0.7 + 0.3 * 0.3;
        if (first)
            t_expect(t, fabs((double)same - p_same * N) < 5 * sqrt(p_same * (1 - p_same) * N),
                     "%zu of %d agree after a change of word %d", same, N, changed);
        else
            first = x;
    }
    t_end(t);
}

// The vector generators against the definition, across the border of the low position word.
static void philox_words(struct suite *t)
{
    enum { N = 4 * SL_CPU_PHILOX_LANES };
    static const enum sl_cpu_philox_path paths[] = {SL_CPU_PHILOX_AUTO, SL_CPU_PHILOX_AVX2,
                                                    SL_CPU_PHILOX_PLAIN};
    uint64_t firsts[] = {
        0, 1, 12345, UINT32_MAX - 40, UINT32_MAX - 31, (uint64_t)7 << 32, ((uint64_t)3 << 32) - 17};
    for (size_t p = 0; p < SL_COUNT_OF(paths); p++)
        for (size_t f = 0; f < SL_COUNT_OF(firsts); f++) {
            t_begin(t, "philox words, path %zu, from %llu", p, (unsigned long long)firsts[f]);
            uint32_t *words = t_alloc(t, N * 4 * sizeof *words, 0);
            uint64_t seed = t_random(t);
            sl_cpu_philox_set_path(paths[p]);
            sl_cpu_philox_words(seed, SL_RNG_DROPOUT, 9, 17, 4, firsts[f], N, words);
            for (uint32_t i = 0; i < N; i++) {
                uint64_t position = firsts[f] + i;
                uint32_t word0 = sl_rng_word0(SL_RNG_DROPOUT, 9, (uint32_t)(position >> 32));
                struct sl_rng_block want = sl_philox(seed, word0, (uint32_t)position, 17, 4);
                t_same_bits(t, "words", words + (size_t)4 * i, want.w, sizeof want.w);
            }
            t_end(t);
        }
    sl_cpu_philox_set_path(SL_CPU_PHILOX_AUTO);
}

// "At least": an element whose draw equals the rate lives, the next representable rate drops it.
static void draw_equal_to_the_rate(struct suite *t)
{
    t_begin(t, "dropout at draws that equal the rate");
    for (uint32_t e = 0; e < 40; e++) {
        struct sl_rng_block r = sl_philox(21, sl_rng_word0(SL_RNG_DROPOUT, 4, 0), e / 4, 6, 5);
        float draw = sl_rng_unit(r.w[e & 3]), x[40];
        struct sl_dropout d = {.rate = draw, .seed = 21, .epoch = 5, .batch = 6, .layer = 4};
        for (int above = 0; above < 2; above++) {
            for (int i = 0; i < 40; i++)
                x[i] = 1.0f;
            d.rate = above ? nextafterf(draw, 1.0f) : draw;
            t_expect_ok(t, t->dev->dropout(x, 1, 40, &d), "dev");
            t_expect(t, (x[e] != 0.0f) == !above, "element %u, draw %.9g, rate %.9g: %g", e,
                     (double)draw, (double)d.rate, (double)x[e]);
        }
    }
    t_end(t);
}

// Elements beyond 2^34, whose position does not fit 32 bits, through the span the kernels use.
static void far_elements(struct suite *t)
{
    enum { N = 5000 };
    t_begin(t, "dropout of elements around 2^34");
    struct sl_dropout d = {.rate = 0.5f, .seed = 11, .epoch = 2, .batch = 3, .layer = 1};
    uint64_t first = ((uint64_t)1 << 34) - 2501;
    float *x = t_random_floats(t, N), *got = t_copy(t, x, N * sizeof *x, 0);
    sl_cpu_dropout_span(&d, first, N, got);
    for (uint32_t i = 0; i < N; i++) {
        uint64_t e = first + i;
        uint32_t word0 = sl_rng_word0(SL_RNG_DROPOUT, 1, (uint32_t)(e / 4 >> 32));
        struct sl_rng_block r = sl_philox(11, word0, (uint32_t)(e / 4), 3, 2);
        float want = sl_rng_unit(r.w[e & 3]) >= 0.5f ? x[i] * 2.0f : 0.0f;
        t_expect(t, got[i] == want, "element %u is %g, wanted %g", i, (double)got[i], (double)want);
    }
    t_end(t);
}

void test_dropout(struct suite *t)
{
    static const float rates[] = {0.0f, 0.5f, 0.1f, 1.0f / 3.0f, 1e-7f, 0.9999999f};
    for (size_t d = 0; d < SL_COUNT_OF(dims); d++)
        for (size_t r = 0; r < SL_COUNT_OF(row_counts); r++)
            compare_dropout(t, row_counts[r], dims[d], rates[(d + r) % SL_COUNT_OF(rates)]);
    dropout_statistics(t);
    philox_words(t);
    draw_equal_to_the_rate(t);
    far_elements(t);
}

enum { PLAIN, TIES, LARGE, KINDS };

static void compare_xent(struct suite *t, uint64_t rows, uint32_t classes, int kind, int in_place)
{
    t_begin(t, "softmax_xent rows=%llu classes=%u kind=%d in_place=%d", (unsigned long long)rows,
            classes, kind, in_place);
    size_t count = rows * classes, bytes = count * sizeof(float);
    float *logits = t_random_floats(t, count);
    for (size_t i = 0; i < count; i++) {
        if (kind == TIES)
            logits[i] = (float)t_random_below(t, 3);
        else if (kind == LARGE)
            logits[i] *= 1e4f;
    }
    int32_t *labels = t_alloc(t, rows * sizeof *labels, 0);
    for (uint64_t i = 0; i < rows; i++)
        labels[i] = (int32_t)t_random_below(t, classes + 1) - 1;
    float *want = t_alloc(t, bytes, 0);
    double want_loss, loss, first_loss = 0;
    uint64_t want_correct, want_counted, correct, counted;
    t_expect_ok(t,
                t->ref->softmax_xent(logits, labels, rows, classes, want, &want_loss, &want_correct,
                                     &want_counted),
                "ref");
    for (const int *threads = t_threads; *threads; threads++) {
        float *x = t_copy(t, logits, bytes, t_random_below(t, 4) * 4);
        float *got = in_place ? x : t_alloc(t, bytes, 0);
        sl_kernels_set_threads(*threads);
        t_expect_ok(t,
                    t->dev->softmax_xent(x, labels, rows, classes, NULL, &loss, &correct, &counted),
                    "dev evaluation");
        t_same_bits(t, "logits after an evaluation", x, logits, bytes);
        double evaluated = loss;
        t_expect_ok(t,
                    t->dev->softmax_xent(x, labels, rows, classes, got, &loss, &correct, &counted),
                    "dev");
        t_close(t, "dlogits", got, want, count, 2e-5, 1e-6);
        t_expect(t, correct == want_correct && counted == want_counted,
                 "%llu of %llu correct, wanted %llu of %llu", (unsigned long long)correct,
                 (unsigned long long)counted, (unsigned long long)want_correct,
                 (unsigned long long)want_counted);
        t_expect(t, fabs(loss - want_loss) <= 1e-6 * (fabs(want_loss) + (double)rows),
                 "loss %.12g, wanted %.12g", loss, want_loss);
        t_expect(t, loss == evaluated, "loss %.17g, without gradient %.17g", loss, evaluated);
        if (threads != t_threads)
            t_expect(t, loss == first_loss, "loss %.17g with %d threads, %.17g with one", loss,
                     *threads, first_loss);
        first_loss = loss;
    }
    t_end(t);
}

// Small probabilities to a relative error, which the sums of other cases would hide.
static void small_probabilities(struct suite *t)
{
    enum { CLASSES = 45 };
    t_begin(t, "softmax_xent of logits far below the largest");
    float x[CLASSES], dx[CLASSES];
    double sum = 0, loss;
    int32_t label = 0;
    uint64_t correct, counted;
    for (int c = 0; c < CLASSES; c++)
        sum += exp(x[c] = -1.96875f * (float)c); // the difference from the largest is exact
    t_expect_ok(t, t->dev->softmax_xent(x, &label, 1, CLASSES, dx, &loss, &correct, &counted),
                "dev");
    for (int c = 1; c < CLASSES; c++) {
        double want = exp(x[c]) / sum;
        t_expect(t, fabs(dx[c] - want) <= 1e-6 * want, "dlogits[%d] is %.9g, wanted %.9g", c,
                 (double)dx[c], want);
    }
    t_end(t);
}

void test_softmax_xent(struct suite *t)
{
    static const uint32_t classes[] = {1, 2, 3, 7, 15, 16, 17, 31, 40, 47, 64, 128, 172, 257};
    for (size_t c = 0; c < SL_COUNT_OF(classes); c++)
        for (size_t r = 0; r < SL_COUNT_OF(row_counts); r++)
            for (int kind = 0; kind < KINDS; kind++)
                compare_xent(t, row_counts[r], classes[c], kind, (int)(r & 1));

    small_probabilities(t);
    t_begin(t, "softmax_xent refuses a bad label, passes NaN on");
    float x[6] = {1, 2, 3, NAN, 0, 0}, dx[6];
    int32_t labels[2] = {2, 3};
    double loss;
    uint64_t correct, counted;
    int rc = t->dev->softmax_xent(x, labels, 2, 3, dx, &loss, &correct, &counted);
    t_expect_code(t, rc, SL_ERANGE, "label 3 of 3 classes");
    labels[1] = -2;
    rc = t->dev->softmax_xent(x, labels, 2, 3, dx, &loss, &correct, &counted);
    t_expect_code(t, rc, SL_ERANGE, "label -2");
    labels[1] = 0;
    rc = t->dev->softmax_xent(x, labels, 2, 3, dx, &loss, &correct, &counted);
    t_expect_ok(t, rc, "a NaN logit");
    t_expect(t, isnan(loss), "the loss of a NaN is %g", loss);
    t_end(t);
}
