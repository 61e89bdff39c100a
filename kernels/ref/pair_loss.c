#include "kernels/kernels_internal.h"

#include <math.h>

#include "common/base/error.h"
#include "kernels/check.h"

static double weight_of(const struct sl_pair_loss_args *args, uint64_t p)
{
    return args->weight ? args->weight[p] : 1.0;
}

static double shifted(const struct sl_pair_loss_args *args, uint64_t p)
{
    return (double)args->score[p] - (args->shift ? (double)args->shift[p] : 0.0);
}

static void put(const struct sl_pair_loss_args *args, uint64_t p, double slope)
{
    if (args->dscore)
        args->dscore[p] = (float)slope;
}

// log(1 + e^x) and its derivative, both without overflow and without cancellation.
static double softplus(double x, double *slope)
{
    *slope = x >= 0.0 ? 1.0 / (1.0 + exp(-x)) : exp(x) / (1.0 + exp(x));
    return fmax(x, 0.0) + log1p(exp(-fabs(x)));
}

static void each_pair(const struct sl_pair_loss_args *args, struct sl_loss_result *out)
{
    for (uint64_t p = 0; p < args->n; p++) {
        const double weight = weight_of(args, p);
        put(args, p, 0);
        if (weight == 0)
            continue;
        const double sign = p < args->n_positive ? -1 : 1;
        double slope;
        out->loss += weight * softplus(sign * shifted(args, p), &slope);
        out->weight += weight;
        out->counted++;
        out->correct += (args->score[p] > 0) == (sign < 0);
        put(args, p, weight * sign * slope);
    }
}

// What a negative adds where it comes within the margin, or by BPR.
static double compared(const struct sl_pair_loss_args *args, double difference, double *slope)
{
    if (args->loss == SL_LOSS_PAIR_BPR)
        return softplus(difference, slope);
    const double term = args->margin + difference;
    *slope = term > 0 ? 1 : term <= 0 ? 0 : NAN;
    return term <= 0 ? 0 : term;
}

static void each_comparison(const struct sl_pair_loss_args *args, uint64_t i, double weight,
                            struct sl_loss_result *out)
{
    const uint64_t first = args->n_positive + i * args->per_positive;
    double total = 0;
    for (uint64_t p = first; p < first + args->per_positive; p++) {
        double slope;
        if (weight_of(args, p) == 0)
            continue;
        out->loss += weight * compared(args, shifted(args, p) - shifted(args, i), &slope);
        out->weight += weight;
        put(args, p, weight * slope);
        total += weight * slope;
    }
    put(args, i, -total);
}

static void softmax(const struct sl_pair_loss_args *args, uint64_t i, double weight,
                    struct sl_loss_result *out)
{
    const uint64_t first = args->n_positive + i * args->per_positive;
    const uint64_t end = first + args->per_positive;
    const double own = shifted(args, i);
    double top = own, sum = 0, others = 0;
    uint64_t there = 0;
    for (uint64_t p = first; p < end; p++)
        if (weight_of(args, p) != 0) {
            top = fmax(top, shifted(args, p));
            there++;
        }
    if (there == 0)
        return;
    for (uint64_t p = first; p < end; p++)
        sum += weight_of(args, p) != 0 ? exp(shifted(args, p) - top) : 0;
    sum += exp(own - top);
    for (uint64_t p = first; p < end; p++)
        if (weight_of(args, p) != 0) {
            const double share = exp(shifted(args, p) - top) / sum;
            put(args, p, weight * share);
            others += share;
        }
    put(args, i, -weight * others);
    out->loss += weight * (log(sum) - (own - top));
    out->weight += weight;
}

int sl_ref_pair_loss(const struct sl_pair_loss_args *args, struct sl_loss_result *out)
{
    SL_TRY(sl_check_pair_loss(args, out));
    *out = (struct sl_loss_result){0};
    if (args->loss == SL_LOSS_PAIR_BCE) {
        each_pair(args, out);
        return SL_OK;
    }
    for (uint64_t p = 0; p < args->n; p++)
        put(args, p, 0);
    for (uint64_t i = 0; i < args->n_positive; i++) {
        const double weight = weight_of(args, i);
        if (weight == 0)
            continue;
        if (args->loss == SL_LOSS_PAIR_SOFTMAX)
            softmax(args, i, weight, out);
        else
            each_comparison(args, i, weight, out);
        for (uint64_t j = 0; j < args->per_positive; j++) {
            const uint64_t p = args->n_positive + i * args->per_positive + j;
            out->counted += weight_of(args, p) != 0;
            out->correct += weight_of(args, p) != 0 && args->score[i] > args->score[p];
        }
    }
    return SL_OK;
}
