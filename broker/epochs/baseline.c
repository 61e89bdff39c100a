#include "broker/epochs/baseline.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/data/class_counts.h"

// A training loss that is so many times the baseline's is no beginner's.
static const double FAR = 2;

static double ratio(double part, double whole)
{
    return whole > 0 ? part / whole : NAN;
}

// n log(n / of), and its limit.
static double term(double n, double of)
{
    return n > 0 ? n * log(n / of) : 0;
}

// --- classes -------------------------------------------------------------------------------------

// F1 of a class that is answered for all, of which `share` are.
static double f1_of_all(double share)
{
    return 2 * share / (1 + share);
}

static void judge_classes(struct sl_baseline *b, const struct sl_class_counts *c,
                          const float *weight)
{
    double weights = 0, loss = 0, labelled = (double)c->labelled[0];
    uint32_t occur = 0;
    for (uint32_t k = 0; k < c->n; k++) {
        occur += c->positive[k] > 0;
        weights += (double)weight[k] * (double)c->positive[k];
        if (c->positive[k] > c->positive[b->class_index])
            b->class_index = k;
    }
    for (uint32_t k = 0; k < c->n; k++)
        loss -= term((double)weight[k] * (double)c->positive[k], weights);
    double share = ratio((double)c->positive[b->class_index], labelled);
    b->value[SL_MEASURE_ACCURACY] = b->value[SL_MEASURE_MICRO_F1] = share;
    b->value[SL_MEASURE_MACRO_F1] = ratio(f1_of_all(share), occur);
    if (c->n == 2)
        b->value[SL_MEASURE_ROC_AUC] = 0.5;
    b->value[SL_MEASURE_LOSS] = ratio(loss, weights);
}

// --- labels --------------------------------------------------------------------------------------

static void judge_labels(struct sl_baseline *b, const struct sl_class_counts *c,
                         const float *weight)
{
    double right = 0, known = 0, macro = 0, loss = 0;
    double hits = 0, answered = 0, positives = 0; // of the labels that are answered for all
    uint32_t labels = 0;
    for (uint32_t k = 0; k < c->n; k++) {
        const double n = (double)c->labelled[k], p = (double)c->positive[k];
        const double weighted = (double)weight[k] * p, of = weighted + n - p;
        const bool is_usual = 2 * p > n;
        right += is_usual ? p : n - p;
        known += n;
        labels += n > 0;
        positives += p;
        hits += is_usual ? p : 0;
        answered += is_usual ? n : 0;
        macro += is_usual ? f1_of_all(p / n) : 0;
        loss -= term(weighted, of) + term(n - p, of);
    }
    b->value[SL_MEASURE_ACCURACY] = ratio(right, known);
    b->value[SL_MEASURE_MICRO_F1] = answered + positives > 0 ? 2 * hits / (answered + positives)
                                    : known > 0              ? 0
                                                             : NAN;
    b->value[SL_MEASURE_MACRO_F1] = ratio(macro, labels);
    b->value[SL_MEASURE_ROC_AUC] = 0.5;
    b->value[SL_MEASURE_LOSS] = ratio(loss, known);
}

static int judge_counts(struct sl_baseline *b, const struct sl_config *config,
                        const struct sl_dataset *ds, const struct sl_vertex_list *list)
{
    struct sl_class_counts counts = {0}, training = {0};
    const bool balanced = config->loss.class_weights == SL_CLASS_WEIGHTS_BALANCED;
    const bool listed = config->loss.class_weights == SL_CLASS_WEIGHTS_LIST;
    float *weight = malloc(ds->n_classes * sizeof *weight);
    int rc = weight ? sl_class_counts_take(&counts, ds, list)
                    : sl_fail(SL_ENOMEM, "no memory for %u weights", ds->n_classes);
    if (rc == SL_OK && balanced)
        rc = sl_class_counts_take(&training, ds, &ds->split[SL_SPLIT_TRAIN]);
    for (uint32_t k = 0; rc == SL_OK && k < ds->n_classes; k++)
        weight[k] =
            listed && k < config->loss.n_class_weights ? (float)config->loss.class_weight[k] : 1;
    if (rc == SL_OK && balanced)
        sl_class_counts_balance(&training, weight);
    if (rc == SL_OK && ds->task == SL_TASK_MULTILABEL)
        judge_labels(b, &counts, weight);
    else if (rc == SL_OK)
        judge_classes(b, &counts, weight);
    sl_class_counts_fini(&counts);
    sl_class_counts_fini(&training);
    free(weight);
    return rc;
}

// --- numbers -------------------------------------------------------------------------------------

// Welford's sums, since means may be large.
static int judge_numbers(struct sl_baseline *b, const struct sl_dataset *ds,
                         const struct sl_vertex_list *list)
{
    const uint32_t n = ds->n_classes;
    struct column {
        double mean, m2, n;
    } *column = calloc(n, sizeof *column);
    float *target = malloc(n * sizeof *target);
    double squares = 0, known = 0;
    if (!column || !target) {
        free(column);
        free(target);
        return sl_fail(SL_ENOMEM, "no memory for %u columns", n);
    }
    for (uint64_t i = 0; i < list->n; i++) {
        sl_dataset_targets(ds, list->ids[i], target);
        for (uint32_t k = 0; k < n; k++) {
            double y = target[k], away = y - column[k].mean;
            if (isnan(y))
                continue;
            column[k].mean += away / ++column[k].n;
            column[k].m2 += away * (y - column[k].mean);
        }
    }
    for (uint32_t k = 0; k < n; k++) {
        squares += column[k].m2;
        known += column[k].n;
    }
    b->value[SL_MEASURE_LOSS] = ratio(squares, known);
    b->value[SL_MEASURE_R2] = known > 0 ? 0 : NAN;
    free(column);
    free(target);
    return SL_OK;
}

// --- all of it -----------------------------------------------------------------------------------

static void know_nothing(struct sl_baseline *b, enum sl_task task)
{
    *b = (struct sl_baseline){.task = task};
    for (int m = 0; m < SL_MEASURE_COUNT; m++)
        b->value[m] = NAN;
}

void sl_baseline_of_links(struct sl_baseline *b, uint64_t n_positives, uint64_t n_negatives)
{
    know_nothing(b, SL_TASK_LINK);
    b->value[SL_MEASURE_ROC_AUC] = 0.5;
    b->value[SL_MEASURE_AVERAGE_PRECISION] =
        ratio((double)n_positives, (double)n_positives + (double)n_negatives);
}

// The training loss where all pairs have the best one score. NaN with negatives of the batch, whose
// scores are shifted by how common they are.
static double loss_of_one_score(const struct sl_config *c)
{
    const double n = c->task.per_positive, share = 1 / (1 + n);
    if (c->task.negatives == SL_NEGATIVES_BATCH)
        return NAN;
    switch (c->task.loss) {
    case SL_PAIR_LOSS_BCE: return -share * log(share) - (1 - share) * log1p(-share);
    case SL_PAIR_LOSS_MARGIN: return c->task.margin;
    case SL_PAIR_LOSS_SOFTMAX: return log1p(n);
    default: return log(2);
    }
}

int sl_baseline_find(struct sl_baseline *b, const struct sl_config *config,
                     const struct sl_dataset *dataset, const struct sl_vertex_list *list)
{
    if (dataset->task == SL_TASK_LINK) {
        sl_baseline_of_links(b, 0, 0);
        b->value[SL_MEASURE_LOSS] = loss_of_one_score(config);
        return SL_OK;
    }
    know_nothing(b, dataset->task);
    if (list->n == 0 || !(dataset->label || dataset->target))
        return SL_OK;
    return dataset->task == SL_TASK_REGRESSION ? judge_numbers(b, dataset, list)
                                               : judge_counts(b, config, dataset, list);
}

bool sl_baseline_is_beaten(const struct sl_baseline *b, enum sl_measure measure, double value)
{
    const struct sl_measure_kind *kind = &sl_measure_kinds[measure];
    const double constant = b->value[measure];
    if (isnan(constant) || isnan(value))
        return true;
    return (kind->less_is_better ? constant - value : value - constant) > kind->margin;
}

bool sl_baseline_is_far_below(const struct sl_baseline *b, double loss)
{
    return b->value[SL_MEASURE_LOSS] > 0 && loss > FAR * b->value[SL_MEASURE_LOSS];
}

const char *sl_baseline_text(const struct sl_baseline *b, enum sl_measure measure, char *buf,
                             size_t bytes)
{
    if (b->task == SL_TASK_REGRESSION)
        snprintf(buf, bytes, "predicting the mean");
    else if (measure == SL_MEASURE_ROC_AUC || b->task == SL_TASK_LINK)
        snprintf(buf, bytes, "guessing");
    else if (measure == SL_MEASURE_LOSS)
        snprintf(buf, bytes, "guessing by how often each %s occurs",
                 b->task == SL_TASK_MULTILABEL ? "label" : "class");
    else if (b->task == SL_TASK_MULTILABEL)
        snprintf(buf, bytes, "answering what most vertices have");
    else
        snprintf(buf, bytes, "always answering class %u", b->class_index);
    return buf;
}
