/*
 * The losses whose elements are independent: sigmoid cross-entropy and the squared error.
 *
 * With t the target and w the weight of positives, an element's loss is
 *
 *     (1 - t) softplus(x) + w t softplus(-x),    softplus(x) = max(x, 0) + log(1 + e^-|x|)
 *
 * which is torch's BCEWithLogitsLoss written so that nothing cancels: both terms are positive, and
 * so are those of the gradient (1 - t) sigmoid(x) - w t sigmoid(-x). One exponential of a number
 * that is not positive serves all four functions, so a logit of 1e4 is as good as one of 1.
 *
 * Rows do not matter, but for the column that says which weight an element has: a batch is one span
 * of elements. It is cut into SEGMENTS ranges that depend on its length alone; each sums in f64 in
 * sixteen lanes, and they are added in order, so the result does not depend on the number of
 * threads. What is unlabelled or lies behind the end becomes an element of 0 with a mask of 0.
 */
#include "kernels/kernels_internal.h"

#include <math.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "kernels/check.h"
#include "kernels/cpu/cpu_internal.h"
#include "kernels/cpu/exp.h"
#include "kernels/cpu/vector.h"

enum { SEGMENTS = 64, SEGMENT_ELEMENTS_MIN = 2048 };

typedef double v16_f64 __attribute__((vector_size(128)));

struct job {
    const float *x, *targets;
    const float *pos_weight; // (dim) or NULL
    float *dx;               // NULL for evaluation
    uint64_t n;
    uint32_t dim;
    uint32_t n_segments;
    void (*span)(const struct job *job, uint64_t begin, uint64_t end, struct sl_loss_result *tally);
    struct sl_loss_result *tallies; // (n_segments), without weights
};

// Sixteen outputs and their targets, 0 where there is no label, and which there are.
SL_INLINE void load_pairs(const struct job *job, uint64_t at, uint32_t n, sl_v16 *x, sl_v16 *target,
                          sl_v16_i32 *labelled)
{
    const sl_v16 zero = {0};
    if (n == SL_LANES) {
        *x = *(const sl_v16_at *)(job->x + at);
        *target = *(const sl_v16_at *)(job->targets + at);
    } else {
        *x = zero;
        *target = zero + NAN;
        memcpy(x, job->x + at, n * sizeof(float));
        memcpy(target, job->targets + at, n * sizeof(float));
    }
    *labelled = *target == *target;
    sl_v16_choose(labelled, x, &zero, x);
    sl_v16_choose(labelled, target, &zero, target);
}

SL_INLINE void store_part(float *to, uint32_t n, const sl_v16 *from)
{
    if (n == SL_LANES)
        *(sl_v16_at *)to = *from;
    else
        memcpy(to, from, n * sizeof *to);
}

// The weights of sixteen elements from this column on.
SL_INLINE void load_weights(const float *weight, uint32_t dim, uint32_t column, sl_v16 *out)
{
    if (dim - column >= SL_LANES) {
        *out = *(const sl_v16_at *)(weight + column);
        return;
    }
    float lanes[SL_LANES];
    for (uint32_t l = 0; l < SL_LANES; l++) {
        lanes[l] = weight[column];
        column = column + 1 == dim ? 0 : column + 1;
    }
    memcpy(out, lanes, sizeof lanes);
}

SL_INLINE void finish(const v16_f64 *loss, const sl_v16_i32 *labelled, const sl_v16_i32 *correct,
                      struct sl_loss_result *tally)
{
    for (int l = 0; l < SL_LANES; l++) {
        tally->loss += (*loss)[l];
        tally->counted += (uint64_t)(*labelled)[l];
        tally->correct += (uint64_t)(*correct)[l];
    }
}

SL_SIMD_VOID(bce_span,
             (const struct job *job, uint64_t begin, uint64_t end, struct sl_loss_result *tally),
             (job, begin, end, tally))
{
    const sl_v16 zero = {0};
    sl_v16 x, target, e, log1p_e, weight = zero + 1.0f;
    sl_v16_i32 labelled, n_labelled = {0}, n_correct = {0};
    v16_f64 losses = {0};
    for (uint64_t at = begin; at < end; at += SL_LANES) {
        uint32_t n = (uint32_t)SL_MIN(end - at, (uint64_t)SL_LANES);
        load_pairs(job, at, n, &x, &target, &labelled);
        if (job->pos_weight)
            load_weights(job->pos_weight, job->dim, (uint32_t)(at % job->dim), &weight);
        sl_v16 positive = weight * target, negative = 1.0f - target;
        sl_v16_choose(&labelled, &negative, &zero, &negative);

        e = (sl_v16)((sl_v16_u32)x | 0x80000000u); // -|x|
        sl_v16_exp_negative(&e, &e);
        sl_v16_log1p_unit(&e, &log1p_e);
        sl_v16_i32 above = x > zero;
        sl_v16 minus = -x, hinge, hinge_minus;
        sl_v16_choose(&above, &x, &zero, &hinge);
        sl_v16_choose(&above, &zero, &minus, &hinge_minus);
        sl_v16 loss = negative * (hinge + log1p_e) + positive * (hinge_minus + log1p_e);
        losses += __builtin_convertvector(loss, v16_f64);
        n_labelled -= labelled; // a mask's lane is -1
        n_correct -= ~(above ^ (target > 0.5f)) & labelled;

        if (job->dx) {
            sl_v16 large = 1.0f / (e + 1.0f), small = e * large, sigmoid, sigmoid_minus;
            sl_v16_choose(&above, &large, &small, &sigmoid);
            sl_v16_choose(&above, &small, &large, &sigmoid_minus);
            sl_v16 slope = negative * sigmoid - positive * sigmoid_minus;
            store_part(job->dx + at, n, &slope);
        }
    }
    finish(&losses, &n_labelled, &n_correct, tally);
}

SL_SIMD_VOID(square_span,
             (const struct job *job, uint64_t begin, uint64_t end, struct sl_loss_result *tally),
             (job, begin, end, tally))
{
    sl_v16 x, target;
    sl_v16_i32 labelled, n_labelled = {0}, none = {0};
    v16_f64 losses = {0};
    for (uint64_t at = begin; at < end; at += SL_LANES) {
        uint32_t n = (uint32_t)SL_MIN(end - at, (uint64_t)SL_LANES);
        load_pairs(job, at, n, &x, &target, &labelled);
        sl_v16 difference = x - target, slope = 2.0f * difference;
        v16_f64 wide = __builtin_convertvector(difference, v16_f64);
        losses += wide * wide;
        n_labelled -= labelled;
        if (job->dx)
            store_part(job->dx + at, n, &slope);
    }
    finish(&losses, &n_labelled, &none, tally);
}

static void run_segment(void *context, uint32_t segment)
{
    const struct job *job = context;
    struct sl_loss_result tally = {0};
    job->span(job, job->n * segment / job->n_segments, job->n * (segment + 1) / job->n_segments,
              &tally);
    job->tallies[segment] = tally;
}

static struct sl_loss_result run_all(struct job *job)
{
    struct sl_loss_result tallies[SEGMENTS] = {0}, total = {0};
    job->tallies = tallies;
    job->n_segments = (uint32_t)SL_MIN(SL_MAX(job->n / SEGMENT_ELEMENTS_MIN, 1), SEGMENTS);
    sl_cpu_parallel_parts(job->n_segments, run_segment, job);
    for (uint32_t s = 0; s < job->n_segments; s++)
        sl_loss_add(&total, &tallies[s]);
    return total;
}

int sl_cpu_sigmoid_bce(const float *logits, const float *targets, uint64_t rows, uint32_t dim,
                       const float *pos_weight, float *dlogits, struct sl_loss_result *out)
{
    SL_TRY(sl_check_sigmoid_bce(logits, targets, rows, dim, pos_weight, dlogits, out));
    struct job job = {.x = logits,
                      .targets = targets,
                      .pos_weight = pos_weight,
                      .dx = dlogits,
                      .n = rows * dim,
                      .dim = dim,
                      .span = bce_span};
    *out = run_all(&job);
    out->weight = (double)out->counted;
    return SL_OK;
}

int sl_cpu_squared_error(const float *outputs, const float *targets, uint64_t rows, uint32_t dim,
                         float *doutputs, struct sl_loss_result *out)
{
    SL_TRY(sl_check_squared_error(outputs, targets, rows, dim, doutputs, out));
    struct job job = {.x = outputs,
                      .targets = targets,
                      .dx = doutputs,
                      .n = rows * dim,
                      .dim = dim,
                      .span = square_span};
    struct sl_loss_result total = run_all(&job);
    *out = (struct sl_loss_result){.loss = total.loss, .weight = (double)total.counted};
    return SL_OK;
}
