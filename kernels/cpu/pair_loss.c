/*
 * Losses of pairs' scores, sixteen at a time.
 *
 * With softplus(z) = max(z, 0) + log(1 + e^-|z|), written so that nothing cancels or overflows
 * (element_loss.c), BCE is softplus(-s) of a positive and softplus(s) of any other pair, and BPR
 * softplus(n - p). BCE goes over the pairs as they lie; MARGIN and BPR over the comparisons, which
 * lie as the negatives do, whatever their number: the positives' side is filled in lane by lane,
 * and what a positive gets of its comparisons is added up behind that. SOFTMAX takes a positive
 * after the other. Scores of pairs that are not there are put away first, so that not even a NaN of
 * theirs is met.
 *
 * The work is cut into SEGMENTS ranges that depend on its size alone; each sums in f64, and they
 * are added in order, so the result does not depend on the number of threads.
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

enum { SEGMENTS = 64, SEGMENT_PAIRS_MIN = 2048 };

typedef double v16_f64 __attribute__((vector_size(128)));

typedef void span_fn(const struct sl_pair_loss_args *args, uint64_t begin, uint64_t end,
                     struct sl_loss_result *tally);

struct job {
    const struct sl_pair_loss_args *args;
    span_fn *span;
    uint64_t n; // what `span` counts: pairs, or positives
    uint32_t n_segments;
    struct sl_loss_result *tallies; // (n_segments)
};

// Sixteen of an array from x on, of which n exist; the others, and all where x is NULL, are `rest`.
SL_INLINE void load_part(const float *x, uint32_t n, float rest, sl_v16 *out)
{
    *out = (sl_v16){0} + rest;
    if (x && n >= SL_LANES)
        *out = *(const sl_v16_at *)x;
    else if (x)
        memcpy(out, x, n * sizeof *x);
}

SL_INLINE void store_part(float *to, uint32_t n, const sl_v16 *from)
{
    if (n >= SL_LANES)
        *(sl_v16_at *)to = *from;
    else
        memcpy(to, from, n * sizeof *to);
}

// Of sixteen pairs.
struct lanes {
    sl_v16 score, shifted, weight;
    sl_v16_i32 there;
};

SL_INLINE void load_pairs(const struct sl_pair_loss_args *args, uint64_t at, uint32_t n,
                          struct lanes *out)
{
    sl_v16 shift, ones = (sl_v16){0} + 1.0f;
    load_part(args->score + at, n, 0.0f, &out->score);
    load_part(args->shift ? args->shift + at : NULL, n, 0.0f, &shift);
    if (args->weight)
        load_part(args->weight + at, n, 0.0f, &out->weight);
    else
        load_part((const float *)&ones, n, 0.0f, &out->weight);
    out->shifted = out->score - shift;
    out->there = out->weight != 0.0f;
}

SL_INLINE void softplus(const sl_v16 *z, sl_v16 *value, sl_v16 *slope)
{
    const sl_v16 zero = {0};
    sl_v16 e = (sl_v16)((sl_v16_u32)*z | 0x80000000u), log1p_e, hinge; // -|z|
    const sl_v16_i32 above = *z > zero;
    sl_v16_exp_negative(&e, &e);
    sl_v16_log1p_unit(&e, &log1p_e);
    sl_v16_choose(&above, z, &zero, &hinge);
    *value = hinge + log1p_e;
    sl_v16 large = 1.0f / (e + 1.0f), small = e * large;
    sl_v16_choose(&above, &large, &small, slope);
}

SL_INLINE uint64_t count_lanes(const sl_v16_i32 *mask)
{
    uint64_t n = 0;
    for (int l = 0; l < SL_LANES; l++)
        n -= (uint64_t)(int64_t)(*mask)[l]; // a mask's lane is -1
    return n;
}

SL_INLINE double sum_lanes(const v16_f64 *sums)
{
    double sum = 0;
    for (int l = 0; l < SL_LANES; l++)
        sum += (*sums)[l];
    return sum;
}

SL_INLINE void add_wide(v16_f64 *sums, const sl_v16 *x)
{
    *sums += __builtin_convertvector(*x, v16_f64);
}

// ---- BCE ----------------------------------------------------------------------------------------

SL_SIMD_VOID(bce_span,
             (const struct sl_pair_loss_args *args, uint64_t begin, uint64_t end,
              struct sl_loss_result *tally),
             (args, begin, end, tally))
{
    const sl_v16 zero = {0};
    v16_f64 losses = {0}, weights = {0};
    sl_v16_i32 n_counted = {0}, n_correct = {0};
    struct lanes pair;
    for (uint64_t at = begin; at < end; at += SL_LANES) {
        const uint32_t n = (uint32_t)SL_MIN(end - at, (uint64_t)SL_LANES);
        sl_v16_i32 positive;
        for (uint32_t l = 0; l < SL_LANES; l++)
            positive[l] = at + l < args->n_positive ? -1 : 0;
        load_pairs(args, at, n, &pair);
        const sl_v16_u32 sign = (sl_v16_u32)positive & 0x80000000u;
        sl_v16 z = (sl_v16)((sl_v16_u32)pair.shifted ^ sign), value, slope;
        sl_v16_choose(&pair.there, &z, &zero, &z);
        softplus(&z, &value, &slope);
        value *= pair.weight;
        add_wide(&losses, &value);
        add_wide(&weights, &pair.weight);
        n_counted += pair.there;
        n_correct += ~((pair.score > zero) ^ positive) & pair.there;
        if (args->dscore) {
            slope = (sl_v16)((sl_v16_u32)(slope * pair.weight) ^ sign);
            store_part(args->dscore + at, n, &slope);
        }
    }
    tally->loss = sum_lanes(&losses);
    tally->weight = sum_lanes(&weights);
    tally->counted = count_lanes(&n_counted);
    tally->correct = count_lanes(&n_correct);
}

// ---- MARGIN, BPR --------------------------------------------------------------------------------

// The positive of each of n comparisons from number k on.
SL_INLINE void spread_positives(const struct sl_pair_loss_args *args, uint64_t k, uint32_t n,
                                struct lanes *out)
{
    float score[SL_LANES] = {0}, shifted[SL_LANES] = {0}, weight[SL_LANES] = {0};
    uint64_t i = k / args->per_positive, j = k % args->per_positive;
    for (uint32_t l = 0; l < n; l++) {
        score[l] = args->score[i];
        shifted[l] = args->score[i] - (args->shift ? args->shift[i] : 0.0f);
        weight[l] = args->weight ? args->weight[i] : 1.0f;
        if (++j == args->per_positive) {
            j = 0;
            i++;
        }
    }
    memcpy(&out->score, score, sizeof score);
    memcpy(&out->shifted, shifted, sizeof shifted);
    memcpy(&out->weight, weight, sizeof weight);
    out->there = out->weight != 0.0f;
}

SL_INLINE void margin_terms(float margin, const sl_v16 *difference, sl_v16 *value, sl_v16 *slope)
{
    const sl_v16 zero = {0}, one = zero + 1.0f, term = *difference + margin;
    const sl_v16_i32 above = term > zero, below = term <= zero;
    sl_v16_choose(&below, &zero, &term, value);
    sl_v16_choose(&above, &one, value, slope); // a NaN is neither
}

// Positives begin .. end.
SL_SIMD_VOID(comparison_span,
             (const struct sl_pair_loss_args *args, uint64_t begin, uint64_t end,
              struct sl_loss_result *tally),
             (args, begin, end, tally))
{
    const sl_v16 zero = {0};
    const uint64_t per = args->per_positive, last = end * per;
    v16_f64 losses = {0}, weights = {0};
    sl_v16_i32 n_counted = {0}, n_correct = {0};
    struct lanes negative, positive;
    for (uint64_t k = begin * per; k < last; k += SL_LANES) {
        const uint32_t n = (uint32_t)SL_MIN(last - k, (uint64_t)SL_LANES);
        load_pairs(args, args->n_positive + k, n, &negative);
        spread_positives(args, k, n, &positive);
        const sl_v16_i32 there = negative.there & positive.there;
        sl_v16 difference = negative.shifted - positive.shifted, weight, value, slope;
        sl_v16_choose(&there, &difference, &zero, &difference);
        sl_v16_choose(&there, &positive.weight, &zero, &weight);
        if (args->loss == SL_LOSS_PAIR_BPR)
            softplus(&difference, &value, &slope);
        else
            margin_terms(args->margin, &difference, &value, &slope);
        value *= weight;
        slope *= weight;
        add_wide(&losses, &value);
        add_wide(&weights, &weight);
        n_counted += there;
        n_correct += (positive.score > negative.score) & there;
        if (args->dscore)
            store_part(args->dscore + args->n_positive + k, n, &slope);
    }
    for (uint64_t i = begin; args->dscore && i < end; i++) {
        const float *slopes = args->dscore + args->n_positive + i * per;
        double sum = 0;
        for (uint64_t j = 0; j < per; j++)
            sum += (double)slopes[j];
        args->dscore[i] = (float)-sum;
    }
    tally->loss = sum_lanes(&losses);
    tally->weight = sum_lanes(&weights);
    tally->counted = count_lanes(&n_counted);
    tally->correct = count_lanes(&n_correct);
}

// ---- SOFTMAX ------------------------------------------------------------------------------------

// Sixteen negatives from pair `at` on, those that are not there so low that they add nothing.
SL_INLINE void load_negatives(const struct sl_pair_loss_args *args, uint64_t at, uint32_t n,
                              struct lanes *out)
{
    const sl_v16 lowest = (sl_v16){0} - FLT_MAX;
    load_pairs(args, at, n, out);
    sl_v16_choose(&out->there, &out->shifted, &lowest, &out->shifted);
}

// The largest shifted score of a positive and its negatives; *there: how many of these there are.
SL_INLINE float largest(const struct sl_pair_loss_args *args, uint64_t first, float own_score,
                        float own, struct sl_loss_result *tally, uint64_t *there)
{
    sl_v16 most = (sl_v16){0} + own;
    sl_v16_i32 n_there = {0}, n_correct = {0};
    struct lanes negative;
    for (uint32_t j = 0; j < args->per_positive; j += SL_LANES) {
        load_negatives(args, first + j, args->per_positive - j, &negative);
        const sl_v16_i32 larger = negative.shifted > most;
        sl_v16_choose(&larger, &negative.shifted, &most, &most);
        n_there += negative.there;
        n_correct += (own_score > negative.score) & negative.there;
    }
    float top = own;
    for (int l = 0; l < SL_LANES; l++)
        top = most[l] > top ? most[l] : top;
    *there = count_lanes(&n_there);
    tally->counted += *there;
    tally->correct += count_lanes(&n_correct);
    return top;
}

// Returns the sum of e^(negative - top) and keeps the terms in dscore, where that is wanted.
SL_INLINE float sum_of_terms(const struct sl_pair_loss_args *args, uint64_t first, float top)
{
    const sl_v16 zero = {0};
    sl_v16 sums = {0};
    struct lanes negative;
    for (uint32_t j = 0; j < args->per_positive; j += SL_LANES) {
        const uint32_t n = SL_MIN(args->per_positive - j, (uint32_t)SL_LANES);
        load_negatives(args, first + j, n, &negative);
        sl_v16 term = negative.shifted - top;
        sl_v16_exp_negative(&term, &term);
        sl_v16_choose(&negative.there, &term, &zero, &term);
        sums += term;
        if (args->dscore)
            store_part(args->dscore + first + j, n, &term);
    }
    float sum = 0.0f;
    for (int l = 0; l < SL_LANES; l++)
        sum += sums[l];
    return sum;
}

SL_SIMD_VOID(softmax_span,
             (const struct sl_pair_loss_args *args, uint64_t begin, uint64_t end,
              struct sl_loss_result *tally),
             (args, begin, end, tally))
{
    for (uint64_t i = begin; i < end; i++) {
        const uint64_t first = args->n_positive + i * args->per_positive;
        const float weight = args->weight ? args->weight[i] : 1.0f;
        const float own = args->score[i] - (args->shift ? args->shift[i] : 0.0f);
        uint64_t there = 0;
        const float top =
            weight == 0.0f ? 0.0f : largest(args, first, args->score[i], own, tally, &there);
        if (there == 0) {
            if (args->dscore) {
                args->dscore[i] = 0.0f;
                memset(args->dscore + first, 0, args->per_positive * sizeof *args->dscore);
            }
            continue;
        }
        const float others = sum_of_terms(args, first, top);
        const float sum = others + expf(own - top), scale = weight / sum;
        tally->loss += (double)weight * (log((double)sum) - ((double)own - (double)top));
        tally->weight += (double)weight;
        if (!args->dscore)
            continue;
        args->dscore[i] = -others * scale;
        for (uint32_t j = 0; j < args->per_positive; j++)
            args->dscore[first + j] *= scale;
    }
}

// ---- all of it ----------------------------------------------------------------------------------

static void run_segment(void *context, uint32_t segment)
{
    const struct job *job = context;
    struct sl_loss_result tally = {0};
    job->span(job->args, job->n * segment / job->n_segments,
              job->n * (segment + 1) / job->n_segments, &tally);
    job->tallies[segment] = tally;
}

int sl_cpu_pair_loss(const struct sl_pair_loss_args *args, struct sl_loss_result *out)
{
    static span_fn *const spans[] = {[SL_LOSS_PAIR_BCE] = bce_span,
                                     [SL_LOSS_PAIR_MARGIN] = comparison_span,
                                     [SL_LOSS_PAIR_BPR] = comparison_span,
                                     [SL_LOSS_PAIR_SOFTMAX] = softmax_span};
    SL_TRY(sl_check_pair_loss(args, out));
    struct sl_loss_result tallies[SEGMENTS] = {0}, total = {0};
    struct job job = {.args = args,
                      .span = spans[args->loss],
                      .n = args->loss == SL_LOSS_PAIR_BCE ? args->n : args->n_positive,
                      .tallies = tallies};
    const uint64_t segments = SL_MIN(SL_MAX(args->n / SEGMENT_PAIRS_MIN, 1), SEGMENTS);
    job.n_segments = (uint32_t)SL_MIN(segments, SL_MAX(job.n, 1));
    sl_cpu_parallel_parts(job.n_segments, run_segment, &job);
    for (uint32_t s = 0; s < job.n_segments; s++) {
        total.loss += tallies[s].loss;
        total.weight += tallies[s].weight;
        total.correct += tallies[s].correct;
        total.counted += tallies[s].counted;
    }
    *out = total;
    return SL_OK;
}
