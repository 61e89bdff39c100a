/*
 * Softmax cross-entropy in three vector passes over a row that stays in the first-level cache.
 *
 * exp() is a polynomial of our own: the vectoriser has no exp without -ffast-math. Its argument is
 * never positive (the row's maximum is subtracted), its relative error is below 2e-7. The loss is
 * summed in f64, in SEGMENTS row ranges that depend on the number of rows alone and that are added
 * in order, so it does not depend on the number of threads.
 */
#include "kernels/kernels_internal.h"

#include <float.h>
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

// mask has all bits of a lane set or none.
SL_INLINE void choose(const sl_v16_i32 *mask, const sl_v16 *yes, const sl_v16 *no, sl_v16 *out)
{
    *out = (sl_v16)((*mask & (sl_v16_i32)*yes) | (~*mask & (sl_v16_i32)*no));
}

/*
 * e^x for x <= 0, after Cephes: x = n ln 2 + r, e^r by a polynomial, 2^n through the exponent bits.
 * 0 below -87, where the result would leave the normal numbers. A NaN stays one.
 */
SL_INLINE void exp_negative(const sl_v16 *x, sl_v16 *out)
{
    const float shift = 12582912.0f; // 1.5 * 2^23: adding it rounds to an integer
    const sl_v16 lowest = (sl_v16){0} - 87.0f, zero = {0};
    sl_v16_i32 below = *x < lowest;
    sl_v16 clamped;
    choose(&below, &lowest, x, &clamped);
    sl_v16 n = (clamped * 1.44269504f + shift) - shift;
    sl_v16 r = (clamped - n * 0.693359375f) + n * 2.12194440e-4f; // ln 2 in two parts
    sl_v16 p = 1.9875691500e-4f * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    sl_v16_i32 exponent = (__builtin_convertvector(n, sl_v16_i32) + 127) << 23;
    p *= (sl_v16)exponent;
    choose(&below, &zero, &p, out);
}

// Sixteen logits from x on, of which `n` exist; the others are so low that they add nothing.
SL_INLINE void load_logits(const float *x, uint32_t n, sl_v16 *out)
{
    if (n >= SL_LANES) {
        *out = *(const sl_v16_at *)x;
        return;
    }
    float lanes[SL_LANES];
    for (uint32_t l = 0; l < SL_LANES; l++)
        lanes[l] = l < n ? x[l] : -FLT_MAX;
    memcpy(out, lanes, sizeof lanes);
}

SL_SIMD static float row_max(const float *x, uint32_t n)
{
    sl_v16 most, next;
    load_logits(x, n, &most);
    for (uint32_t c = SL_LANES; c < n; c += SL_LANES) {
        load_logits(x + c, n - c, &next);
        sl_v16_i32 larger = next > most;
        choose(&larger, &next, &most, &most);
    }
    float top = most[0];
    for (uint32_t l = 1; l < SL_LANES; l++)
        top = most[l] > top ? most[l] : top;
    return top;
}

// Returns the sum of exp(x - top) and keeps the terms in e when that is not NULL; e may be x.
SL_SIMD static float row_exp(const float *x, uint32_t n, float top, float *e)
{
    sl_v16 sums = {0}, term;
    for (uint32_t c = 0; c < n; c += SL_LANES) {
        load_logits(x + c, n - c, &term);
        term -= top;
        exp_negative(&term, &term);
        sums += term;
        if (e && n - c >= SL_LANES)
            *(sl_v16_at *)(e + c) = term;
        else if (e)
            memcpy(e + c, &term, (n - c) * sizeof *e);
    }
    float sum = 0.0f;
    for (uint32_t l = 0; l < SL_LANES; l++)
        sum += sums[l];
    return sum;
}

SL_SIMD static void row_scale(float *x, uint32_t n, float scale)
{
    for (uint32_t c = 0; c < n; c++)
        x[c] *= scale;
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
        float top = row_max(x, classes), own = x[label];
        tally.correct += (uint64_t)is_first_max(x, label, top);
        tally.counted++;
        float sum = row_exp(x, classes, top, dx); // from here on x may be gone
        tally.loss += log((double)sum) - ((double)own - (double)top);
        if (dx) {
            row_scale(dx, classes, 1.0f / sum);
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
