/*
 * Losses of pairs' scores, sixteen at a time.
 *
 * With softplus(z) = max(z, 0) + log(1 + e^-|z|), written so that nothing cancels or overflows
 * (element_loss.c), BCE is softplus(-s) of a positive and softplus(s) of any other pair, and BPR
 * softplus(n - p). BCE goes over the pairs as they lie. The others have sixteen positives side by
 * side and go through their first negatives, their second ones and so on, so that it does not
 * matter how many there are. SOFTMAX computes its terms a second time where the gradient is wanted:
 * they are in no memory. Scores of pairs that are not there are put away first, so that not even a
 * NaN of theirs is met.
 *
 * The work is cut into SEGMENTS ranges that depend on its size alone; each sums in f64, and they
 * are added in order, so the result does not depend on the number of threads.
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

// What a span has come to, in lanes.
struct totals {
    v16_f64 losses, weights;
    sl_v16_i32 counted, correct;
};

SL_INLINE void finish(const struct totals *t, struct sl_loss_result *tally)
{
    tally->loss = sum_lanes(&t->losses);
    tally->weight = sum_lanes(&t->weights);
    tally->counted = count_lanes(&t->counted);
    tally->correct = count_lanes(&t->correct);
}

// ---- BCE ----------------------------------------------------------------------------------------

SL_SIMD_VOID(bce_span,
             (const struct sl_pair_loss_args *args, uint64_t begin, uint64_t end,
              struct sl_loss_result *tally),
             (args, begin, end, tally))
{
    const sl_v16 zero = {0};
    struct totals totals = {0};
    struct lanes pair;
    for (uint64_t at = begin; at < end; at += SL_LANES) {
        const uint32_t n = (uint32_t)SL_MIN(end - at, (uint64_t)SL_LANES);
        sl_v16_i32 positive = {0};
        for (uint32_t l = 0; l < SL_LANES; l++)
            positive[l] = at + l < args->n_positive ? -1 : 0;
        load_pairs(args, at, n, &pair);
        const sl_v16_u32 sign = (sl_v16_u32)positive & 0x80000000u;
        sl_v16 z = (sl_v16)((sl_v16_u32)pair.shifted ^ sign), value, slope;
        sl_v16_choose(&pair.there, &z, &zero, &z);
        softplus(&z, &value, &slope);
        value *= pair.weight;
        add_wide(&totals.losses, &value);
        add_wide(&totals.weights, &pair.weight);
        totals.counted += pair.there;
        totals.correct += ~((pair.score > zero) ^ positive) & pair.there;
        if (args->dscore) {
            slope = (sl_v16)((sl_v16_u32)(slope * pair.weight) ^ sign);
            store_part(args->dscore + at, n, &slope);
        }
    }
    finish(&totals, tally);
}

// ---- the others: sixteen positives side by side -------------------------------------------------

// Negative j of n positives from number i on; those of positives that are not there are not either.
SL_INLINE void load_negatives(const struct sl_pair_loss_args *args, uint64_t i, uint64_t j,
                              uint32_t n, const struct lanes *positive, struct lanes *out)
{
    const uint64_t per = args->per_positive, first = args->n_positive + i * per + j;
    if (per == 1) {
        load_pairs(args, first, n, out);
    } else {
        float score[SL_LANES] = {0}, shift[SL_LANES] = {0}, weight[SL_LANES] = {0};
        for (uint32_t l = 0; l < n; l++) {
            score[l] = args->score[first + l * per];
            shift[l] = args->shift ? args->shift[first + l * per] : 0.0f;
            weight[l] = args->weight ? args->weight[first + l * per] : 1.0f;
        }
        sl_v16 shifts;
        memcpy(&out->score, score, sizeof score);
        memcpy(&shifts, shift, sizeof shift);
        memcpy(&out->weight, weight, sizeof weight);
        out->shifted = out->score - shifts;
        out->there = out->weight != 0.0f;
    }
    out->there &= positive->there;
}

SL_INLINE void store_slopes(const struct sl_pair_loss_args *args, uint64_t i, uint64_t j,
                            uint32_t n, const sl_v16 *slope)
{
    const uint64_t per = args->per_positive;
    float *to = args->dscore + args->n_positive + i * per + j;
    if (per == 1)
        store_part(to, n, slope);
    else
        for (uint32_t l = 0; l < n; l++)
            to[l * per] = (*slope)[l];
}

SL_INLINE void add_comparison(struct totals *t, const struct lanes *positive,
                              const struct lanes *negative)
{
    t->counted += negative->there;
    t->correct += (positive->score > negative->score) & negative->there;
}

SL_INLINE void margin_terms(float margin, const sl_v16 *difference, sl_v16 *value, sl_v16 *slope)
{
    const sl_v16 zero = {0}, one = zero + 1.0f, term = *difference + margin;
    const sl_v16_i32 above = term > zero, below = term <= zero;
    sl_v16_choose(&below, &zero, &term, value);
    sl_v16_choose(&above, &one, value, slope); // a NaN is neither
}

// Positives begin .. end, as in the others.
SL_SIMD_VOID(comparison_span,
             (const struct sl_pair_loss_args *args, uint64_t begin, uint64_t end,
              struct sl_loss_result *tally),
             (args, begin, end, tally))
{
    const sl_v16 zero = {0};
    struct totals totals = {0};
    struct lanes positive, negative;
    for (uint64_t i = begin; i < end; i += SL_LANES) {
        const uint32_t n = (uint32_t)SL_MIN(end - i, (uint64_t)SL_LANES);
        sl_v16 slopes = zero, value, slope, weight;
        load_pairs(args, i, n, &positive);
        for (uint64_t j = 0; j < args->per_positive; j++) {
            load_negatives(args, i, j, n, &positive, &negative);
            sl_v16 difference = negative.shifted - positive.shifted;
            sl_v16_choose(&negative.there, &difference, &zero, &difference);
            sl_v16_choose(&negative.there, &positive.weight, &zero, &weight);
            if (args->loss == SL_LOSS_PAIR_BPR)
                softplus(&difference, &value, &slope);
            else
                margin_terms(args->margin, &difference, &value, &slope);
            value *= weight;
            slope *= weight;
            slopes -= slope;
            add_wide(&totals.losses, &value);
            add_wide(&totals.weights, &weight);
            add_comparison(&totals, &positive, &negative);
            if (args->dscore)
                store_slopes(args, i, j, n, &slope);
        }
        if (args->dscore)
            store_part(args->dscore + i, n, &slopes);
    }
    finish(&totals, tally);
}

// ---- SOFTMAX ------------------------------------------------------------------------------------

// The largest of each positive and its negatives; a positive that is a NaN stays. *any: which have
// a negative.
SL_INLINE void find_largest(const struct sl_pair_loss_args *args, uint64_t i, uint32_t n,
                            const struct lanes *positive, struct totals *totals, sl_v16 *top,
                            sl_v16_i32 *any)
{
    struct lanes negative;
    *top = positive->shifted;
    *any = (sl_v16_i32){0};
    for (uint64_t j = 0; j < args->per_positive; j++) {
        load_negatives(args, i, j, n, positive, &negative);
        const sl_v16_i32 larger = (negative.shifted > *top) & negative.there;
        sl_v16_choose(&larger, &negative.shifted, top, top);
        *any |= negative.there;
        add_comparison(totals, positive, &negative);
    }
}

// e^(negative - top), 0 of those that are not there.
SL_INLINE void term_of(const struct lanes *negative, const sl_v16 *top, sl_v16 *term)
{
    const sl_v16 zero = {0};
    sl_v16 below = negative->shifted - *top;
    sl_v16_choose(&negative->there, &below, &zero, &below);
    sl_v16_exp_negative(&below, &below);
    sl_v16_choose(&negative->there, &below, &zero, term);
}

// Loss and weight of positives whose sums are known.
SL_INLINE void add_softmax(const struct lanes *positive, const sl_v16 *top, const sl_v16 *sum,
                           const sl_v16_i32 *any, uint32_t n, struct totals *totals)
{
    for (uint32_t l = 0; l < n; l++) {
        if (!(*any)[l])
            continue;
        const double weight = positive->weight[l];
        totals->losses[l] +=
            weight * (log((double)(*sum)[l]) - ((double)positive->shifted[l] - (double)(*top)[l]));
        totals->weights[l] += weight;
    }
}

SL_SIMD_VOID(softmax_span,
             (const struct sl_pair_loss_args *args, uint64_t begin, uint64_t end,
              struct sl_loss_result *tally),
             (args, begin, end, tally))
{
    const sl_v16 zero = {0};
    struct totals totals = {0};
    struct lanes positive, negative;
    for (uint64_t i = begin; i < end; i += SL_LANES) {
        const uint32_t n = (uint32_t)SL_MIN(end - i, (uint64_t)SL_LANES);
        sl_v16 top, own, term, others = zero;
        sl_v16_i32 any;
        load_pairs(args, i, n, &positive);
        find_largest(args, i, n, &positive, &totals, &top, &any);
        for (uint64_t j = 0; j < args->per_positive; j++) {
            load_negatives(args, i, j, n, &positive, &negative);
            term_of(&negative, &top, &term);
            others += term;
        }
        own = positive.shifted - top;
        sl_v16_exp_negative(&own, &own);
        const sl_v16 sum = others + own;
        add_softmax(&positive, &top, &sum, &any, n, &totals);
        if (!args->dscore)
            continue;
        sl_v16 scale = positive.weight / sum, slope;
        sl_v16_choose(&any, &scale, &zero, &scale);
        for (uint64_t j = 0; j < args->per_positive; j++) {
            load_negatives(args, i, j, n, &positive, &negative);
            term_of(&negative, &top, &term);
            slope = term * scale;
            store_slopes(args, i, j, n, &slope);
        }
        slope = -others * scale;
        sl_v16_choose(&any, &slope, &zero, &slope);
        store_part(args->dscore + i, n, &slope);
    }
    finish(&totals, tally);
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
    for (uint32_t s = 0; s < job.n_segments; s++)
        sl_loss_add(&total, &tallies[s]);
    *out = total;
    return SL_OK;
}
