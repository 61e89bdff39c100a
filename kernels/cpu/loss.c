/*
 * Softmax cross-entropy in three vector passes over a row that stays in the first-level cache.
 *
 * exp() is a polynomial of our own: the vectoriser has no exp without -ffast-math. Its argument is
 * never positive (the row's maximum is subtracted), its relative error is below 2e-7. The loss is
 * summed in f64, in SEGMENTS row ranges that depend on the number of rows alone and that are added
 * in order, so it does not depend on the number of threads.
 */
#include "kernels/kernels_internal.h"

#include <math.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "kernels/check.h"
#include "kernels/cpu/cpu_internal.h"
#include "kernels/cpu/vector.h"

enum { SEGMENTS = 64, SEGMENT_ROWS_MIN = 64 };

struct tally {
    double loss;
    uint64_t correct, counted;
};

struct job {
    const float *logits;
    const int32_t *labels;
    float *dlogits;
    uint64_t rows;
    uint32_t classes;
    uint32_t n_segments;
    struct tally *tallies; // (n_segments)
};

// e^x for x <= 0; 0 below -87, where the result would leave the normal numbers.
SL_INLINE float exp_negative(float x)
{
    const float shift = 12582912.0f; // 1.5 * 2^23: adding it rounds to an integer
    float clamped = x < -87.0f ? -87.0f : x;
    float whole = (clamped * 1.44269504f + shift) - shift;
    // x = whole * ln 2 + rest, ln 2 in two parts so that the product is exact.
    float rest = (clamped - whole * 0.693359375f) + whole * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * rest + 1.3981999507e-3f;
    p = p * rest + 8.3334519073e-3f;
    p = p * rest + 4.1665795894e-2f;
    p = p * rest + 1.6666665459e-1f;
    p = p * rest + 5.0000001201e-1f;
    p = p * rest * rest + rest + 1.0f;
    int32_t exponent = ((int32_t)whole + 127) * (1 << 23);
    float power;
    memcpy(&power, &exponent, sizeof power);
    return x < -87.0f ? 0.0f : p * power;
}

SL_SIMD static float row_max(const float *x, uint32_t n)
{
    float most = x[0];
    for (uint32_t c = 1; c < n; c++)
        most = x[c] > most ? x[c] : most;
    return most;
}

SL_SIMD static float row_exp_sum(const float *x, uint32_t n, float top)
{
    float lanes[SL_LANES] = {0};
    uint32_t c = 0;
    for (; c + SL_LANES <= n; c += SL_LANES)
        for (uint32_t l = 0; l < SL_LANES; l++)
            lanes[l] += exp_negative(x[c + l] - top);
    float sum = 0.0f;
    for (uint32_t l = 0; l < SL_LANES; l++)
        sum += lanes[l];
    for (; c < n; c++)
        sum += exp_negative(x[c] - top);
    return sum;
}

// dx may be x.
SL_SIMD static void row_softmax(const float *x, uint32_t n, float top, float inverse, float *dx)
{
    for (uint32_t c = 0; c < n; c++)
        dx[c] = exp_negative(x[c] - top) * inverse;
}

static int is_first_max(const float *x, int32_t label, float top)
{
    if (x[label] != top)
        return 0;
    for (int32_t c = 0; c < label; c++)
        if (x[c] == top)
            return 0;
    return 1;
}

static void run_segment(void *context, uint32_t segment)
{
    const struct job *job = context;
    struct tally tally = {0};
    uint64_t begin = job->rows * segment / job->n_segments;
    uint64_t end = job->rows * (segment + 1) / job->n_segments;
    uint32_t classes = job->classes;
    for (uint64_t i = begin; i < end; i++) {
        const float *x = job->logits + i * classes;
        float *dx = job->dlogits ? job->dlogits + i * classes : NULL;
        int32_t label = job->labels[i];
        if (label < 0) {
            if (dx)
                memset(dx, 0, classes * sizeof *dx);
            continue;
        }
        float top = row_max(x, classes);
        float sum = row_exp_sum(x, classes, top);
        tally.loss += log((double)sum) - ((double)x[label] - (double)top);
        tally.correct += (uint64_t)is_first_max(x, label, top);
        tally.counted++;
        if (dx) {
            row_softmax(x, classes, top, 1.0f / sum, dx);
            dx[label] -= 1.0f;
        }
    }
    job->tallies[segment] = tally;
}

int sl_cpu_softmax_xent(const float *logits, const int32_t *labels, uint64_t rows, uint32_t classes,
                        float *dlogits, double *loss, uint64_t *correct, uint64_t *counted)
{
    SL_TRY(sl_check_softmax_xent(logits, labels, rows, classes, loss, correct, counted));
    struct tally tallies[SEGMENTS], total = {0};
    struct job job = {.logits = logits,
                      .labels = labels,
                      .dlogits = dlogits,
                      .rows = rows,
                      .classes = classes,
                      .tallies = tallies};
    job.n_segments = (uint32_t)SL_MIN(SL_MAX(rows / SEGMENT_ROWS_MIN, 1), SEGMENTS);
    sl_cpu_parallel_parts(job.n_segments, run_segment, &job);
    for (uint32_t s = 0; s < job.n_segments; s++) {
        total.loss += tallies[s].loss;
        total.correct += tallies[s].correct;
        total.counted += tallies[s].counted;
    }
    *loss = total.loss;
    *correct = total.correct;
    *counted = total.counted;
    return SL_OK;
}
