// bias_act and its backward, dropout.
#include "tests/kernels/harness.h"

#include <math.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/isa.h"
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

static const char *const act_names[] = {"none", "relu", "elu", "leaky_relu"};

/*
 * What is selected and multiplied has the same bits; elu's polynomial is good to a few units in the
 * last place, and its slope is a sum with 1, so that its error is absolute.
 */
static void same_or_close(struct suite *t, const char *what, enum sl_activation act,
                          const float *got, const float *want, size_t n, double scale)
{
    if (act == SL_ACT_ELU)
        t_close(t, what, got, want, n, 5e-7, 3e-7 * scale);
    else
        t_same_bits(t, what, got, want, n * sizeof *got);
}

static void compare_bias_act(struct suite *t, uint64_t rows, uint32_t dim, enum sl_activation act,
                             int has_bias, float rate)
{
    if (!t_affords(t, (double)rows * dim))
        return;
    t_begin(t, "bias_act rows=%llu dim=%u act=%s bias=%d rate=%g", (unsigned long long)rows, dim,
            act_names[act], has_bias, (double)rate);
    struct sl_dropout dropout = random_dropout(t, rate);
    const struct sl_dropout *mask = rate < 0 ? NULL : &dropout;
    size_t count = rows * dim, bytes = count * sizeof(float);
    float *x = t_random_floats(t, count), *bias = has_bias ? t_random_floats(t, dim) : NULL;
    for (size_t i = 0; i < count; i++)
        if (t_random_below(t, 8) == 0) // where the activations bend, and far out
            x[i] = i & 1 ? 0.0f : 40.0f * x[i];
    double scale = rate > 0 ? 1.0 / (1.0 - (double)rate) : 1.0;
    float *grad = t_random_floats(t, count), *dbias = t_random_floats(t, dim);
    float *want = t_copy(t, x, bytes, 0), *want_dx = t_copy(t, grad, bytes, 0);
    float *want_dbias = t_copy(t, dbias, dim * sizeof(float), 0), *first_dbias = NULL;
    t_expect_ok(t, t->ref->bias_act(want, rows, dim, bias, act, mask), "ref");
    t_expect_ok(t,
                t->ref->bias_act_backward(want_dx, want, false, rows, dim, act, mask, want_dbias),
                "ref backward");
    for (const int *threads = t_threads; *threads; threads++) {
        size_t skew = t_random_below(t, 4) * 4;
        float *y = t_copy(t, x, bytes, skew), *dx = t_copy(t, grad, bytes, skew);
        float *db = t_copy(t, dbias, dim * sizeof(float), 0);
        sl_kernels_set_threads(*threads);
        t_expect_ok(t, t->dev->bias_act(y, rows, dim, bias, act, mask), "dev");
        same_or_close(t, "y", act, y, want, count, 0.0);
        t_expect_ok(t, t->dev->bias_act_backward(dx, y, 0, rows, dim, act, mask, db),
                    "dev backward");
        same_or_close(t, "dx", act, dx, want_dx, count, scale);
        t_close(t, "dbias", db, want_dbias, dim, 1e-5, 1e-6 * scale * (double)(rows + 1));
        T_REPEATS(t, "dbias", db, first_dbias, dim * sizeof(float));
        // Without a bias gradient the rest is the same.
        dx = t_copy(t, grad, bytes, skew);
        t_expect_ok(t, t->dev->bias_act_backward(dx, y, 0, rows, dim, act, mask, NULL),
                    "dev backward without dbias");
        same_or_close(t, "dx without dbias", act, dx, want_dx, count, scale);
    }
    t_end(t);
}

// The same rounded into rows of their own, which stay apart.
static void compare_rounded(struct suite *t, uint64_t rows, uint32_t dim, uint64_t ld,
                            enum sl_activation act, int has_bias, float rate)
{
    if (!t_affords(t, (double)rows * dim))
        return;
    t_begin(t, "bias_act_bf16 rows=%llu dim=%u ld=%llu act=%s bias=%d rate=%g",
            (unsigned long long)rows, dim, (unsigned long long)ld, act_names[act], has_bias,
            (double)rate);
    struct sl_dropout dropout = random_dropout(t, rate);
    size_t count = rows * dim, out_bytes = rows * ld * sizeof(uint16_t);
    float *x = t_random_floats(t, count), *bias = has_bias ? t_random_floats(t, dim) : NULL;
    const float *given = t_copy(t, x, count * sizeof *x, 0);
    uint16_t *fill = t_alloc(t, out_bytes, 0);
    uint16_t *want = t_copy(t, fill, out_bytes, 0);
    t_expect_ok(t, t->ref->bias_act_bf16(x, rows, dim, bias, act, &dropout, NULL, want, ld), "ref");
    for (size_t skew = 0; skew <= 8; skew += 2) { // none, of an element, of a group of four
        uint16_t *got = t_copy(t, fill, out_bytes, skew);
        const float *from = t_copy(t, x, count * sizeof *x, 2 * skew);
        t_expect_ok(t, t->dev->bias_act_bf16(from, rows, dim, bias, act, &dropout, NULL, got, ld),
                    "dev");
        t_same_bits(t, "out", got, want, out_bytes);
        t_same_bits(t, "x", from, given, count * sizeof *x);
    }
    // As bias_act, rounded.
    float *y = t_copy(t, x, count * sizeof *x, 0);
    t_expect_ok(t, t->dev->bias_act(y, rows, dim, bias, act, &dropout), "bias_act");
    uint16_t *then = t_copy(t, fill, out_bytes, 0);
    t_expect_ok(t, t->ref->bias_act_bf16(y, rows, dim, NULL, SL_ACT_NONE, NULL, NULL, then, ld),
                "round");
    t_same_bits(t, "bias_act, then rounded", then, want, out_bytes);
    // Both at once, in place too.
    for (size_t skew = 0; skew <= 4; skew += 4) {
        uint16_t *got = t_copy(t, fill, out_bytes, 0);
        float *both = t_copy(t, x, count * sizeof *x, skew);
        const float *from = skew ? both : x;
        t_expect_ok(t, t->dev->bias_act_bf16(from, rows, dim, bias, act, &dropout, both, got, ld),
                    "both");
        t_same_bits(t, "rounded of both", got, want, out_bytes);
        t_same_bits(t, "f32 of both", both, y, count * sizeof *y);
    }
    t_end(t);
}

// From an output that was rounded: as from one of f32 that has those values.
static void compare_backward_of_rounded(struct suite *t, uint64_t rows, uint32_t dim,
                                        enum sl_activation act, float rate)
{
    if (!t_affords(t, (double)rows * dim))
        return;
    t_begin(t, "bias_act_backward of bf16 rows=%llu dim=%u act=%s rate=%g",
            (unsigned long long)rows, dim, act_names[act], (double)rate);
    const size_t count = rows * dim, bytes = count * sizeof(float);
    struct sl_dropout dropout = random_dropout(t, rate);
    float *x = t_random_floats(t, count), *grad = t_random_floats(t, count);
    float *dbias = t_random_floats(t, dim), *wide = t_alloc(t, bytes, 0);
    uint64_t ld;
    t_expect_ok(t, t->ref->bias_act(x, rows, dim, NULL, act, &dropout), "forward");
    const uint16_t *y = t_round_rows(t, x, rows, dim, &ld);
    for (size_t i = 0; i < count; i++) {
        const uint32_t bits = (uint32_t)y[i / dim * ld + i % dim] << 16;
        memcpy(&wide[i], &bits, sizeof bits);
    }
    for (int biased = 0; biased < 2; biased++) {
        float *db[3], *dx[3];
        for (int i = 0; i < 3; i++) {
            dx[i] = t_copy(t, grad, bytes, 0);
            db[i] = biased ? t_copy(t, dbias, dim * sizeof *dbias, 0) : NULL;
        }
        t_expect_ok(t, t->dev->bias_act_backward(dx[0], y, ld, rows, dim, act, &dropout, db[0]),
                    "dev");
        t_expect_ok(t, t->dev->bias_act_backward(dx[1], wide, 0, rows, dim, act, &dropout, db[1]),
                    "dev of f32");
        t_expect_ok(t, t->ref->bias_act_backward(dx[2], y, ld, rows, dim, act, &dropout, db[2]),
                    "ref");
        t_same_bits(t, "dx", dx[0], dx[1], bytes);
        same_or_close(t, "dx by ref", act, dx[0], dx[2], count, 2);
        if (biased)
            t_close(t, "dbias", db[0], db[2], dim, 1e-5, 2e-6 * (double)(rows + 1));
    }
    t_end(t);
}

static void backward_of_rounded(struct suite *t)
{
    static const uint32_t widths[] = {1, 8, 47, 64, 130, 256};
    for (size_t d = 0; d < 3 * SL_COUNT_OF(widths); d++) // each with several distances of rows
        for (int act = SL_ACT_RELU; act <= SL_ACT_LEAKY_RELU; act++)
            compare_backward_of_rounded(t, 5 + 20 * d, widths[d % SL_COUNT_OF(widths)],
                                        (enum sl_activation)act, d & 1 ? 0.5f : 0);
}

void test_bias_act_bf16(struct suite *t)
{
    uint16_t out[4] = {0};
    float x[2] = {1, 2};
    static const uint32_t widths[] = {1, 3, 8, 47, 100, 128, 130};
    static const enum sl_activation acts[] = {SL_ACT_NONE, SL_ACT_RELU, SL_ACT_LEAKY_RELU};
    for (size_t d = 0; d < SL_COUNT_OF(widths); d++)
        for (int v = 0; v < 6; v++) {
            const uint64_t pad = v % 3 == 0 ? 0 : v % 3 == 1 ? 4 : 5;
            compare_rounded(t, d * 7 + 1, widths[d], widths[d] + pad, acts[(d + (size_t)v) % 3],
                            v & 1, v >= 2 ? 0.4f : 0);
        }
    backward_of_rounded(t);
    compare_rounded(t, 3000, 64, 64, SL_ACT_RELU, 1, 0.5f);
    compare_rounded(t, 0, 64, 64, SL_ACT_RELU, 1, 0.5f);
    t_begin(t, "bias_act_bf16 of NaN, and of what is too large");
    x[0] = NAN, x[1] = 3.4e38f;
    t_expect_ok(t, t->dev->bias_act_bf16(x, 1, 2, NULL, SL_ACT_RELU, NULL, NULL, out, 2), "dev");
    t_expect(t, (out[0] & 0x7fffu) > 0x7f80u, "NaN became %04x", out[0]);
    t_expect(t, out[1] == 0x7f80u, "3.4e38 became %04x", out[1]);
    t_end(t);
    // Any bits at all, and those around ties, infinity and what is no normal number.
    for (uint32_t dim = 1; dim < 80; dim += 13) {
        static const uint32_t some[] = {0x3f808000, 0x3f818000, 0x3f808001, 0x3f807fff, 0x7f7f8000,
                                        0x7f800000, 0xff800000, 0x7f800001, 0xffffffff, 0x7fc00000,
                                        0x00000001, 0x00008000, 0x80018000, 0x007fffff, 0x80000000};
        uint64_t ld;
        t_begin(t, "bias_act_bf16 of any bits, dim=%u", dim);
        float *bits = t_random_floats(t, 40 * (size_t)dim);
        for (size_t i = 0; i < 40 * (size_t)dim; i++) {
            const uint32_t word = i % 3 ? some[i / 3 % SL_COUNT_OF(some)] : (uint32_t)t_random(t);
            memcpy(&bits[i], &word, sizeof word);
        }
        const uint16_t *want = t_round_rows(t, bits, 40, dim, &ld);
        uint16_t *got = t_copy(t, want, 40 * ld * sizeof *got, 0);
        for (size_t i = 0; i < 40 * (size_t)dim; i++)
            got[i / dim * ld + i % dim] = 0;
        t_expect_ok(t, t->dev->bias_act_bf16(bits, 40, dim, NULL, SL_ACT_NONE, NULL, NULL, got, ld),
                    "dev");
        t_same_bits(t, "any bits", got, want, 40 * ld * sizeof *got);
        t_end(t);
    }
    t_begin(t, "bias_act_bf16 refuses bad arguments");
    t_expect_code(t, t->dev->bias_act_bf16(x, 1, 2, NULL, SL_ACT_NONE, NULL, NULL, out, 1),
                  SL_EINVAL, "rows that overlap");
    t_expect_code(t, t->dev->bias_act_bf16(x, 1, 2, NULL, SL_ACT_NONE, NULL, NULL, NULL, 2),
                  SL_EINVAL, "out of NULL");
    t_end(t);
}

// elu(x) is about x there: the relative error must not grow as exp(x) - 1 would let it.
static void elu_near_zero(struct suite *t)
{
    t_begin(t, "elu from -1e-30 to -100");
    for (float x = -1e-30f; x > -100.0f; x *= 1.37f) {
        float y[17];
        for (int i = 0; i < 17; i++)
            y[i] = x;
        t_expect_ok(t, t->dev->bias_act(y, 1, 17, NULL, SL_ACT_ELU, NULL), "dev");
        double want = expm1((double)x);
        for (int i = 0; i < 17; i++)
            t_expect(t, fabs((double)y[i] - want) <= 3e-7 * fabs(want),
                     "elu(%.9g) is %.9g at lane %d, wanted %.9g", (double)x, (double)y[i], i, want);
    }
    t_end(t);
}

void test_bias_act(struct suite *t)
{
    static const float rates[] = {-1.0f, 0.0f, 0.5f, 0.1f, 0.999f}; // -1: no dropout at all
    for (size_t d = 0; d < SL_COUNT_OF(dims); d++)
        for (size_t r = 0; r < SL_COUNT_OF(row_counts); r++)
            for (size_t act = 0; act < SL_COUNT_OF(act_names); act++)
                compare_bias_act(t, row_counts[r], dims[d], (enum sl_activation)act,
                                 (int)(d + r) & 1, rates[t_random_below(t, SL_COUNT_OF(rates))]);
    for (size_t i = 0; i < SL_COUNT_OF(rates); i++)
        for (size_t act = 0; act < SL_COUNT_OF(act_names); act++)
            for (int has_bias = 0; has_bias < 2; has_bias++) {
                compare_bias_act(t, 900, 65, (enum sl_activation)act, has_bias, rates[i]);
                // several strips of columns
                compare_bias_act(t, 20, 2500, (enum sl_activation)act, has_bias, rates[i]);
            }
    // More chunks of rows than sums of them on the stack, in several strips.
    compare_bias_act(t, 4700, 1030, SL_ACT_RELU, 1, 0.0f);
    elu_near_zero(t);

    t_begin(t, "bias_act lets a NaN through and refuses bad arguments");
    float y[2] = {NAN, -1.0f}, bias[2] = {0, 0};
    for (int act = SL_ACT_RELU; act <= SL_ACT_LEAKY_RELU; act++)
        for (int has_bias = 0; has_bias < 2; has_bias++) {
            y[0] = NAN;
            y[1] = 1.0f;
            int rc =
                t->dev->bias_act(y, 1, 2, has_bias ? bias : NULL, (enum sl_activation)act, NULL);
            t_expect_ok(t, rc, "dev");
            t_expect(t, isnan(y[0]) && y[1] == 1.0f, "%s gave %g and %g", act_names[act],
                     (double)y[0], (double)y[1]);
        }
    struct sl_dropout bad = {.rate = 1.0f};
    t_expect_code(t, t->dev->bias_act(y, 1, 2, bias, SL_ACT_RELU, &bad), SL_EINVAL, "a rate of 1");
    bad = (struct sl_dropout){.rate = 0.5f, .layer = 256};
    t_expect_code(t, t->dev->bias_act(y, 1, 2, bias, SL_ACT_RELU, &bad), SL_EINVAL, "layer 256");
    t_expect_code(t, t->dev->bias_act(NULL, 1, 2, bias, SL_ACT_RELU, NULL), SL_EINVAL, "y of NULL");
    enum sl_activation none_such = (enum sl_activation)4;
    t_expect_code(t, t->dev->bias_act(y, 1, 2, bias, none_such, NULL), SL_EINVAL, "activation 4");
    t_end(t);
}

static void compare_dropout(struct suite *t, uint64_t rows, uint32_t dim, float rate)
{
    if (!t_affords(t, (double)rows * dim))
        return;
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
    if (!t_affords(t, N))
        return;
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
    uint64_t firsts[] = {
        0, 1, 12345, UINT32_MAX - 40, UINT32_MAX - 31, (uint64_t)7 << 32, ((uint64_t)3 << 32) - 17};
    for (size_t f = 0; f < SL_COUNT_OF(firsts); f++) {
        t_begin(t, "philox words, %s, from %llu", sl_isa_name(sl_isa()),
                (unsigned long long)firsts[f]);
        uint32_t *words = t_alloc(t, N * 4 * sizeof *words, 0);
        uint64_t seed = t_random(t);
        sl_cpu_philox_words(seed, SL_RNG_DROPOUT, 9, 17, 4, firsts[f], N, words);
        for (uint32_t i = 0; i < N; i++) {
            uint64_t position = firsts[f] + i;
            uint32_t word0 = sl_rng_word0(SL_RNG_DROPOUT, 9, (uint32_t)(position >> 32));
            struct sl_rng_block want = sl_philox(seed, word0, (uint32_t)position, 17, 4);
            t_same_bits(t, "words", words + (size_t)4 * i, want.w, sizeof want.w);
        }
        t_end(t);
    }
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
    t_each_isa(t, philox_words);
    draw_equal_to_the_rate(t);
    far_elements(t);
}
