// reduce, sum_squares, adam, sgd.
#include "tests/kernels/harness.h"

#include <math.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"

static const uint64_t counts[] = {0, 1, 15, 16, 17, 2047, 2048, 2049, 40000};

static void compare_reduce(struct suite *t, uint64_t n, uint32_t n_slots)
{
    if (!t_affords(t, (double)n * n_slots))
        return;
    t_begin(t, "reduce n=%llu slots=%u", (unsigned long long)n, n_slots);
    const float **slots = t_alloc(t, n_slots * sizeof *slots, 0);
    for (uint32_t s = 0; s < n_slots; s++)
        slots[s] = t_random_floats(t, n);
    float scale = t_random_float(t);
    float *want = t_alloc(t, n * sizeof *want, 0);
    t_expect_ok(t, t->ref->reduce(slots, n_slots, n, scale, want), "ref");
    for (const int *threads = t_threads; *threads; threads++) {
        float *got = t_alloc(t, n * sizeof *got, t_random_below(t, 4) * 4);
        sl_kernels_set_threads(*threads);
        t_expect_ok(t, t->dev->reduce(slots, n_slots, n, scale, got), "dev");
        t_same_bits(t, "out", got, want, n * sizeof *got);
    }
    t_end(t);
}

void test_reduce(struct suite *t)
{
    static const uint32_t slots[] = {1, 2, 3, 4, 9, 16, 17, 33}; // a GPU takes 16 at a time
    for (size_t i = 0; i < SL_COUNT_OF(counts); i++)
        for (size_t s = 0; s < SL_COUNT_OF(slots); s++)
            compare_reduce(t, counts[i], slots[s]);
    t_begin(t, "reduce refuses no slots and a slot of NULL");
    float x = 1, out;
    const float *list[2] = {&x, NULL};
    t_expect_code(t, t->dev->reduce(list, 0, 1, 1, &out), SL_EINVAL, "no slots");
    t_expect_code(t, t->dev->reduce(list, 2, 1, 1, &out), SL_EINVAL, "a NULL slot");
    t_end(t);
}

static void compare_sum_squares(struct suite *t, uint64_t n)
{
    if (!t_affords(t, (double)n))
        return;
    t_begin(t, "sum_squares n=%llu", (unsigned long long)n);
    float *x = t_random_floats(t, n);
    double want, first = 0.0, rounding = 1.2e-16 * (double)(n + 1); // a step of each addition
    t_expect_ok(t, t->ref->sum_squares(n, x, &want), "ref");
    for (const int *threads = t_threads; *threads; threads++) {
        double got = NAN;
        float *copy = t_copy(t, x, n * sizeof *x, t_random_below(t, 4) * 4);
        sl_kernels_set_threads(*threads);
        t_expect_ok(t, t->dev->sum_squares(n, copy, &got), "dev");
        t_expect(t, fabs(got - want) <= rounding * want, "%.17g, wanted %.17g", got, want);
        if (threads != t_threads)
            t_expect(t, got == first, "%.17g with %d threads, %.17g with one", got, *threads,
                     first);
        first = got;
    }
    t_end(t);
}

void test_sum_squares(struct suite *t)
{
    for (size_t i = 0; i < SL_COUNT_OF(counts); i++)
        compare_sum_squares(t, counts[i]);
    compare_sum_squares(t, 1 << 21); // more than all segments
    t_begin(t, "sum_squares of what an f32 cannot square; NaN; NULL");
    const float large[2] = {3e30f, 4e30f}, bad[20] = {[19] = NAN};
    double sum;
    t_expect_ok(t, t->dev->sum_squares(2, large, &sum), "dev");
    t_expect(t, fabs(sum / 25e60 - 1) < 1e-6, "%g, wanted 2.5e61", sum);
    t_expect_ok(t, t->dev->sum_squares(20, bad, &sum), "dev");
    t_expect(t, isnan(sum), "a NaN gave %g", sum);
    t_expect_code(t, t->dev->sum_squares(1, NULL, &sum), SL_EINVAL, "x of NULL");
    t_end(t);
}

// Several steps, each from the state that the reference reached, so errors do not pile up.
static void compare_adam(struct suite *t, uint64_t n, float decay, bool decoupled)
{
    if (!t_affords(t, (double)n))
        return;
    t_begin(t, "adam n=%llu weight_decay=%g decoupled=%d", (unsigned long long)n, (double)decay,
            decoupled);
    size_t bytes = n * sizeof(float);
    float *p = t_random_floats(t, n), *m = t_alloc(t, bytes, 0), *v = t_alloc(t, bytes, 0);
    uint32_t broken = 0;
    for (uint64_t i = 0; i < n; i++)
        m[i] = v[i] = 0.0f;
    for (uint64_t step = 1; step <= 5; step++) {
        struct sl_adam_step s = {.lr = 0.01f,
                                 .beta1 = 0.9f,
                                 .beta2 = 0.999f,
                                 .eps = 1e-8f,
                                 .weight_decay = decay,
                                 .decoupled = decoupled,
                                 .t = step == 5 ? 100000 : step};
        float *g = t_random_floats(t, n), *want[3], *first[3] = {0};
        if (n > 0)
            g[0] = 0.0f;
        for (int i = 0; i < 3; i++)
            want[i] = t_alloc(t, bytes, 0);
        t_expect_ok(t, t->ref->adam(&s, n, g, p, m, v, want[0], want[1], want[2], &broken), "ref");
        for (const int *threads = t_threads; *threads; threads++) {
            static const char *const names[] = {"p", "m", "v"};
            float *got[3];
            for (int i = 0; i < 3; i++)
                got[i] = t_alloc(t, bytes, t_random_below(t, 4) * 4);
            sl_kernels_set_threads(*threads);
            t_expect_ok(t, t->dev->adam(&s, n, g, p, m, v, got[0], got[1], got[2], &broken), "dev");
            for (int i = 0; i < 3; i++) {
                t_close(t, names[i], got[i], want[i], n, 2e-6, i == 2 ? 1e-12 : 2e-7);
                if (first[i])
                    t_same_bits(t, names[i], got[i], first[i], bytes);
                first[i] = got[i];
            }
        }
        p = want[0];
        m = want[1];
        v = want[2];
    }
    t_expect(t, broken == 0, "numbers that are finite are said not to be");
    t_end(t);
}

// --- numbers that are not finite -----------------------------------------------------------------

// Bits of a number, and whether a step that meets it writes something that is not finite.
static const struct {
    const char *name;
    uint32_t bits;
    uint32_t breaks;
} numbers[] = {
    {"quiet NaN", 0x7fc00000u, 1},
    {"-NaN, all bits", 0xffffffffu, 1},
    {"signalling NaN", 0x7f800001u, 1},
    {"+infinity", 0x7f800000u, 1},
    {"-infinity", 0xff800000u, 1},
    {"the least subnormal", 0x00000001u, 0},
    {"-0", 0x80000000u, 0},
    {"a subnormal", 0x807fffffu, 0},
    {"1e18", 0x5d5e0b6bu, 0},
    {"-1e18", 0xdd5e0b6bu, 0},
};

enum { STEP_INPUTS = 4 }; // g, p, m, v

static float number_at(size_t i)
{
    float x;
    memcpy(&x, &numbers[i].bits, sizeof x);
    return x;
}

// One step of n numbers that are all 0.5, but for one input at one place.
static uint32_t step_with(struct suite *t, const struct sl_kernels *kernels, bool adam, uint64_t n,
                          int input, uint64_t at, float value)
{
    float *in[STEP_INPUTS], *out[3];
    uint32_t broken = 0;
    for (int i = 0; i < STEP_INPUTS; i++) {
        in[i] = t_alloc(t, n * sizeof(float), 4);
        for (uint64_t k = 0; k < n; k++)
            in[i][k] = 0.5f;
    }
    for (int i = 0; i < 3; i++)
        out[i] = t_alloc(t, n * sizeof(float), 4);
    in[input][at] = value;
    const struct sl_adam_step a = {
        .lr = 0.1f, .beta1 = 0.9f, .beta2 = 0.999f, .eps = 1e-8f, .t = 2};
    const struct sl_sgd_step s = {.lr = 0.1f, .momentum = 0.9f};
    int rc = adam
                 ? kernels->adam(&a, n, in[0], in[1], in[2], in[3], out[0], out[1], out[2], &broken)
                 : kernels->sgd(&s, n, in[0], in[1], in[2], out[0], out[1], &broken);
    t_expect_ok(t, rc, "step");
    return broken;
}

/*
 * One number among many is found wherever it is: in a full vector, in the rest behind them, in the
 * part of another thread; the first and the last one.
 */
static void find_broken(struct suite *t, bool adam)
{
    static const uint64_t sizes[] = {1, 15, 37, (1 << 15) + 3};
    for (size_t c = 0; c < SL_COUNT_OF(sizes); c++) {
        const uint64_t n = sizes[c];
        if (!t_affords(t, 40 * (double)n))
            continue;
        t_begin(t, "%s n=%llu with one number that is not finite", adam ? "adam" : "sgd",
                (unsigned long long)n);
        const uint64_t places[] = {0, n / 2, n - 1};
        for (size_t k = 0; k < SL_COUNT_OF(numbers); k++) {
            for (int input = 0; input < STEP_INPUTS - !adam; input++) {
                if (input == 3 && numbers[k].bits >> 31)
                    continue; // a mean of squares has no sign
                uint64_t at = places[(k + (size_t)input) % SL_COUNT_OF(places)];
                uint32_t ref = step_with(t, t->ref, adam, n, input, at, number_at(k));
                for (const int *threads = t_threads; *threads; threads++) {
                    sl_kernels_set_threads(*threads);
                    uint32_t dev = step_with(t, t->dev, adam, n, input, at, number_at(k));
                    t_expect(t, ref == numbers[k].breaks && dev == numbers[k].breaks,
                             "%s in input %d at %llu: ref says %u, dev %u", numbers[k].name, input,
                             (unsigned long long)at, ref, dev);
                }
            }
        }
        t_end(t);
    }
}

static void find_broken_adam(struct suite *t)
{
    find_broken(t, true);
}

static void find_broken_sgd(struct suite *t)
{
    find_broken(t, false);
}

// What overflows in the step itself, of numbers that are finite; and a note that was made before.
static void find_overflow(struct suite *t)
{
    t_begin(t, "steps that overflow");
    const float largest = 3.4e38f;
    // The square overflows, the parameter itself moves by 0: without the note nobody would see it.
    t_expect(t, step_with(t, t->dev, true, 20, 0, 7, 1e30f) == 1, "adam's square");
    t_expect(t, step_with(t, t->dev, true, 20, 1, 7, largest) == 0, "adam's large parameter");
    float g = largest, p = -largest, m = 0, out[2];
    uint32_t broken = 0;
    const struct sl_sgd_step s = {.lr = 1000};
    t_expect_ok(t, t->dev->sgd(&s, 1, &g, &p, &m, &out[0], &out[1], &broken), "dev");
    t_expect(t, broken == 1, "sgd's parameter");
    g = p = 0;
    t_expect_ok(t, t->dev->sgd(&s, 1, &g, &p, &m, &out[0], &out[1], &broken), "dev");
    t_expect(t, broken == 1, "a note is taken back");
    t_end(t);
}

void test_adam(struct suite *t)
{
    for (size_t i = 0; i < SL_COUNT_OF(counts); i++) {
        compare_adam(t, counts[i], 0.0f, false);
        compare_adam(t, counts[i], 5e-4f, false);
        compare_adam(t, counts[i], 5e-2f, true);
    }
    t_begin(t, "adam refuses step 0"); // what steps are: test_trainer_update.c
    const struct sl_adam_step bad = {.lr = 0.1f, .beta1 = 0.9f, .beta2 = 0.999f};
    float x[1] = {0}, y[3];
    t_expect_code(t, t->dev->adam(&bad, 1, x, x, x, x, y, y + 1, y + 2, NULL), SL_EINVAL, "step 0");
    t_end(t);
    t_each_isa(t, find_broken_adam);
    find_overflow(t);
}

static void compare_sgd(struct suite *t, uint64_t n, float momentum)
{
    if (!t_affords(t, (double)n))
        return;
    t_begin(t, "sgd n=%llu momentum=%g", (unsigned long long)n, (double)momentum);
    struct sl_sgd_step s = {.lr = 0.1f, .momentum = momentum, .weight_decay = 1e-3f};
    size_t bytes = n * sizeof(float);
    float *g = t_random_floats(t, n), *p = t_random_floats(t, n), *m = t_random_floats(t, n);
    float *want_p = t_alloc(t, bytes, 0), *want_m = t_alloc(t, bytes, 0), *first = NULL;
    uint32_t broken = 0;
    t_expect_ok(t, t->ref->sgd(&s, n, g, p, m, want_p, want_m, &broken), "ref");
    for (const int *threads = t_threads; *threads; threads++) {
        float *got_p = t_alloc(t, bytes, 4), *got_m = t_alloc(t, bytes, 0);
        sl_kernels_set_threads(*threads);
        t_expect_ok(t, t->dev->sgd(&s, n, g, p, m, got_p, got_m, &broken), "dev");
        t_close(t, "p", got_p, want_p, n, 2e-7, 2e-7);
        t_close(t, "m", got_m, want_m, n, 2e-7, 2e-7);
        T_REPEATS(t, "p", got_p, first, bytes);
    }
    t_expect(t, broken == 0, "numbers that are finite are said not to be");
    t_end(t);
}

void test_sgd(struct suite *t)
{
    for (size_t i = 0; i < SL_COUNT_OF(counts); i++) {
        compare_sgd(t, counts[i], 0.0f);
        compare_sgd(t, counts[i], 0.9f);
    }
    t_each_isa(t, find_broken_sgd);
    // A buffer of zeros makes the first step torch's: velocity = gradient.
    t_begin(t, "sgd's first step");
    struct sl_sgd_step s = {.lr = 0.5f, .momentum = 0.9f};
    float g = 2, p = 1, m = 0, p_out, m_out;
    t_expect_ok(t, t->dev->sgd(&s, 1, &g, &p, &m, &p_out, &m_out, NULL), "dev");
    t_expect(t, p_out == 0.0f && m_out == 2.0f, "p %g, m %g", (double)p_out, (double)m_out);
    t_end(t);
}
