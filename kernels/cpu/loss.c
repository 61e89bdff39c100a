/*
 * Softmax cross-entropy in three vector passes over a row that stays in the first-level cache.
 *
 * exp() is that of exp.h: its argument is never positive, since the row's maximum is subtracted.
 * The loss is summed in f64, in SEGMENTS row ranges that depend on the number of rows alone and
 * that are added in order, so it does not depend on the number of threads.
 */
#include "kernels/kernels_internal.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "kernels/check.h"
#include "kernels/cpu/cpu_internal.h"
#include "kernels/cpu/exp.h"
#include "kernels/cpu/vector.h"

enum { SEGMENTS = 64, SEGMENT_ROWS_MIN = 64 };

struct job {
    const float *logits;
    const int32_t *labels;
    const float *class_weight;
    float *dlogits;
    uint64_t rows;
    uint32_t classes;
    uint32_t n_segments;
    struct sl_loss_result *tallies; // (n_segments)
};

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

typedef int32_t mask_8 __attribute__((vector_size(32)));

SL_INLINE void keep_larger(const float *x, sl_v8 *most)
{
    const sl_v8 next = *(const sl_v8_at *)x;
    const mask_8 larger = next > *most;
    *most = (sl_v8)((larger & (mask_8)next) | (~larger & (mask_8)*most));
}

// In halves: exp.h says why.
SL_SIMD(float, row_max, (const float *x, uint32_t n), (x, n))
{
    sl_v16 lanes;
    load_logits(x, n, &lanes);
    sl_v8 low = *(const sl_v8_at *)&lanes, high = *((const sl_v8_at *)&lanes + 1);
    uint32_t c = SL_LANES;
    for (; c + SL_LANES <= n; c += SL_LANES) {
        keep_larger(x + c, &low);
        keep_larger(x + c + SL_LANES_8, &high);
    }
    if (c < n) {
        load_logits(x + c, n - c, &lanes);
        keep_larger((const float *)&lanes, &low);
        keep_larger((const float *)&lanes + SL_LANES_8, &high);
    }
    float top = low[0];
    for (uint32_t l = 1; l < SL_LANES; l++) {
        const float lane = l < SL_LANES_8 ? low[l] : high[l - SL_LANES_8];
        top = lane > top ? lane : top;
    }
    return top;
}

// Returns the sum of exp(x - top) and keeps the terms in e when that is not NULL; e may be x.
SL_SIMD(float, row_exp, (const float *x, uint32_t n, float top, float *e), (x, n, top, e))
{
    sl_v16 sums = {0}, term;
    for (uint32_t c = 0; c < n; c += SL_LANES) {
        load_logits(x + c, n - c, &term);
        term -= top;
        sl_v16_exp_negative(&term, &term);
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

SL_SIMD_VOID(row_scale, (float *x, uint32_t n, float scale), (x, n, scale))
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
    struct sl_loss_result tally = {0};
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
        float weight = job->class_weight ? job->class_weight[label] : 1.0f;
        tally.weight += (double)weight;
        float sum = row_exp(x, classes, top, dx); // from here on x may be gone
        tally.loss += (double)weight * (log((double)sum) - ((double)own - (double)top));
        if (dx) {
            row_scale(dx, classes, weight / sum);
            dx[label] -= weight;
        }
    }
    job->tallies[segment] = tally;
}

int sl_cpu_softmax_xent(const float *logits, const int32_t *labels, uint64_t rows, uint32_t classes,
                        const float *class_weight, float *dlogits, struct sl_loss_result *out)
{
    SL_TRY(sl_check_softmax_xent(logits, labels, rows, classes, class_weight, dlogits, out));
    struct sl_loss_result tallies[SEGMENTS], total = {0};
    struct job job = {.logits = logits,
                      .labels = labels,
                      .class_weight = class_weight,
                      .dlogits = dlogits,
                      .rows = rows,
                      .classes = classes,
                      .tallies = tallies};
    job.n_segments = (uint32_t)SL_MIN(SL_MAX(rows / SEGMENT_ROWS_MIN, 1), SEGMENTS);
    sl_cpu_parallel_parts(job.n_segments, run_segment, &job);
    for (uint32_t s = 0; s < job.n_segments; s++)
        sl_loss_add(&total, &tallies[s]);
    *out = total;
    return SL_OK;
}
