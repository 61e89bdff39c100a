/*
 * link_metrics.h - how well the scores of pairs rank the positive ones above the negative ones:
 * Hits@K, MRR, ROC-AUC and average precision, as pure functions.
 *
 * PROBLEM. Benchmarks of links are compared by figures of one program, the evaluator of OGB 1.3.6.
 * Ties decide: a model that gives all pairs one score must not be the best one. Negatives may be a
 * billion, and there is no memory for a sorted copy of them.
 *
 * DEFINITIONS. Negatives are shared by all positives, or each positive has as many of its own.
 * `above` and `ties` count the negatives with a higher score than a positive's and with its score:
 * of the shared ones, or of its own.
 *
 *                       shared (OGB: "hits@K")        own (OGB: "mrr")
 *   rank                1 + above + ties / 2          the same: the mean of the best and the worst
 *   MRR                 mean of 1 / rank              the same
 *   Hits@K              share with above + ties < K   share with rank <= K
 *   ROC-AUC             P(positive > negative), ties being half, over all pairs of the two
 *   average precision   sum of precision * step of recall, a score being one threshold
 *
 * So with shared negatives a tie with the K-th best negative is a miss, and where there are fewer
 * than K all are hits; with own ones a positive amid 2 (K - 1) ties is a hit. ROC-AUC and average
 * precision are scikit-learn's and pool the negatives of all positives. -0 and 0 are a tie;
 * infinite scores are ranked. NaN has no rank and is refused (OGB's comparisons give it the best
 * one). Without positives or negatives nothing is defined, which is an error too.
 *
 * DESIGN. All of it follows from `above` and `ties` of each positive. Positives are sorted, and
 * each negative is counted at its place between them. With own negatives, MRR and Hits@K are
 * counted row by row. Memory: 20 bytes for a positive, and 16 for each further thread, which
 * together are no more than the scores themselves; nothing for a negative. Counts are integers, and
 * fractions are added in one order, so the values are the same for any number of threads.
 */
#ifndef SL_BROKER_EPOCHS_LINK_METRICS_H
#define SL_BROKER_EPOCHS_LINK_METRICS_H

#include <stdbool.h>
#include <stdint.h>

struct sl_link_scores {
    const float *positive; // (n_positives)
    const float *negative; // (n_negatives); own: (n_positives, n_negatives / n_positives)
    uint64_t n_positives, n_negatives;
    bool own; // each positive has negatives of its own
};

struct sl_link_metrics {
    double mrr, roc_auc, average_precision;
};

/*
 * hits (n_k): Hits@K of each K in k (n_k). threads = 0: all cores of this process. SL_EINVAL: no
 * positives or no negatives, negatives that are not as many for each positive, a K of 0;
 * SL_ENOTFINITE: NaN, with its place; SL_ENOMEM.
 */
int sl_link_metrics_compute(const struct sl_link_scores *scores, const uint64_t *k, uint32_t n_k,
                            int threads, double *hits, struct sl_link_metrics *out);

#endif
