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
        t_expect_ok(t, t->ref->adam(&s, n, g, p, m, v, want[0], want[1], want[2]), "ref");
        for (const int *threads = t_threads; *threads; threads++) {
            static const char *const names[] = {"p", "m", "v"};
            float *got[3];
            for (int i = 0; i < 3; i++)
                got[i] = t_alloc(t, bytes, t_random_below(t, 4) * 4);
            sl_kernels_set_threads(*threads);
            t_expect_ok(t, t->dev->adam(&s, n, g, p, m, v, got[0], got[1], got[2]), "dev");
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
    t_end(t);
}

// Three steps by the definition in Kingma and Ba's paper with a coupled weight decay, in f64, the
// state carried along: what torch.optim.Adam(lr=0.1, weight_decay=0.01) computes.
static void known_adam(struct suite *t)
{
    t_begin(t, "adam over three steps");
    static const double grads[3][2] = {{0.5, -0.25}, {-1, 0.75}, {0.1, 2}};
    double p[2] = {1, -2}, m[2] = {0, 0}, v[2] = {0, 0};
    float fp[2] = {1, -2}, fm[2] = {0, 0}, fv[2] = {0, 0};
    for (int step = 1; step <= 3; step++) {
        struct sl_adam_step s = {.lr = 0.1f,
                                 .beta1 = 0.9f,
                                 .beta2 = 0.999f,
                                 .eps = 1e-8f,
                                 .weight_decay = 0.01f,
                                 .t = (uint64_t)step};
        float g[2], np[2], nm[2], nv[2];
        for (int i = 0; i < 2; i++) {
            double grad = grads[step - 1][i] + 0.01 * p[i];
            g[i] = (float)grads[step - 1][i];
            m[i] = 0.9 * m[i] + 0.1 * grad;
            v[i] = 0.999 * v[i] + 0.001 * grad * grad;
            double mean = m[i] / (1 - pow(0.9, step)), square = v[i] / (1 - pow(0.999, step));
            p[i] -= 0.1 * mean / (sqrt(square) + 1e-8);
        }
        t_expect_ok(t, t->dev->adam(&s, 2, g, fp, fm, fv, np, nm, nv), "dev");
        for (int i = 0; i < 2; i++) {
            fp[i] = np[i];
            fm[i] = nm[i];
            fv[i] = nv[i];
            t_expect(t, fabs((double)fp[i] - p[i]) < 1e-5,
                     "p[%d] after step %d is %.8g, wanted %.8g", i, step, (double)fp[i], p[i]);
        }
    }
    struct sl_adam_step bad = {.lr = 0.1f, .beta1 = 0.9f, .beta2 = 0.999f};
    float x[1] = {0}, y[3];
    t_expect_code(t, t->dev->adam(&bad, 1, x, x, x, x, y, y + 1, y + 2), SL_EINVAL, "step 0");
    t_end(t);
}

// torch.optim.AdamW(lr=0.1, weight_decay=0.5) over three steps, by torch 2.15.
static void known_adamw(struct suite *t)
{
    t_begin(t, "adam with decoupled weight decay over three steps as torch's AdamW");
    const float grads[3][2] = {{0.5f, -0.25f}, {-1, 0.75f}, {0.1f, 2}};
    static const float want[3][2] = {
        {0.850000024f, -1.79999995f}, {0.84411037f, -1.75941885f}, {0.824397683f, -1.74489701f}};
    float p[2] = {1, -2}, m[2] = {0, 0}, v[2] = {0, 0};
    for (uint64_t step = 1; step <= 3; step++) {
        struct sl_adam_step s = {.lr = 0.1f,
                                 .beta1 = 0.9f,
                                 .beta2 = 0.999f,
                                 .eps = 1e-8f,
                                 .weight_decay = 0.5f,
                                 .decoupled = true,
                                 .t = step};
        float np[2], nm[2], nv[2];
        t_expect_ok(t, t->dev->adam(&s, 2, grads[step - 1], p, m, v, np, nm, nv), "dev");
        memcpy(p, np, sizeof p);
        memcpy(m, nm, sizeof m);
        memcpy(v, nv, sizeof v);
        t_close(t, "p", p, want[step - 1], 2, 5e-7, 0);
    }
    t_end(t);
}

void test_adam(struct suite *t)
{
    for (size_t i = 0; i < SL_COUNT_OF(counts); i++) {
        compare_adam(t, counts[i], 0.0f, false);
        compare_adam(t, counts[i], 5e-4f, false);
        compare_adam(t, counts[i], 5e-2f, true);
    }
    known_adam(t);
    known_adamw(t);
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
    t_expect_ok(t, t->ref->sgd(&s, n, g, p, m, want_p, want_m), "ref");
    for (const int *threads = t_threads; *threads; threads++) {
        float *got_p = t_alloc(t, bytes, 4), *got_m = t_alloc(t, bytes, 0);
        sl_kernels_set_threads(*threads);
        t_expect_ok(t, t->dev->sgd(&s, n, g, p, m, got_p, got_m), "dev");
        t_close(t, "p", got_p, want_p, n, 2e-7, 2e-7);
        t_close(t, "m", got_m, want_m, n, 2e-7, 2e-7);
        if (first)
            t_same_bits(t, "p with more threads", got_p, first, bytes);
        first = got_p;
    }
    t_end(t);
}

void test_sgd(struct suite *t)
{
    for (size_t i = 0; i < SL_COUNT_OF(counts); i++) {
        compare_sgd(t, counts[i], 0.0f);
        compare_sgd(t, counts[i], 0.9f);
    }
    // A buffer of zeros makes the first step torch's: velocity = gradient.
    t_begin(t, "sgd's first step");
    struct sl_sgd_step s = {.lr = 0.5f, .momentum = 0.9f};
    float g = 2, p = 1, m = 0, p_out, m_out;
    t_expect_ok(t, t->dev->sgd(&s, 1, &g, &p, &m, &p_out, &m_out), "dev");
    t_expect(t, p_out == 0.0f && m_out == 2.0f, "p %g, m %g", (double)p_out, (double)m_out);
    t_end(t);
}
