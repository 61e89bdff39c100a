/*
 * metrics.h - how good the predictions of an evaluation are.
 *
 * PROBLEM. Which metric says something depends on the task, and most of them are no sums over
 * vertices or pairs: F1 needs all predictions of a class, ROC-AUC their order. Sorting millions of scores
 * must not block the broker.
 *
 * DESIGN. Trainers leave a prediction for each item of the list (sl_arena_predictions), and loss
 * and weight, which are sums, in the cells' entries. The rest is computed here from the predictions
 * and the data set's labels, on libuv's thread pool, or at once where there are few. While that
 * goes on no trainer writes predictions: what follows an evaluation is gated.
 *
 *   multiclass   accuracy, micro and macro F1, of two classes ROC-AUC of class 1, loss
 *   multilabel   the same over labelled (vertex, label) pairs; macro F1 and ROC-AUC are means over
 *                labels
 *   regression   loss (mean squared error), MAE over labelled elements, R2 as a mean over columns
 *   links        Hits@K, MRR, ROC-AUC, average precision of pairs' scores (link_metrics.h), loss
 *
 * Definitions are scikit-learn's, zero_division=0: macro F1 of a multi-class task is a mean over
 * the classes that occur among labels or predictions; ROC-AUC gives tied scores their average rank;
 * R2 of a column that does not vary is 0, or 1 where all of it is predicted exactly. Unlabelled
 * elements are left out. What is not defined is NaN: ROC-AUC without both classes (a label without
 * both is left out of the mean, as OGB has it), R2 of fewer than two targets (likewise), all of
 * them without labelled elements.
 *
 * A vertex whose outputs are not all finite (common/data/prediction.h) is counted, and right for
 * nothing: it has a class or label that is wrong, and a rank below every negative where it is a
 * positive, above every positive where it is none. What errors are summed up in - loss, MAE, R2 -
 * is NaN then.
 */
#ifndef SL_BROKER_EPOCHS_METRICS_H
#define SL_BROKER_EPOCHS_METRICS_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "common/data/dataset.h"
#include "common/data/measure_kind.h"

// What an evaluation has found.
struct sl_evaluation {
    bool applies[SL_MEASURE_COUNT];  // to the task
    double value[SL_MEASURE_COUNT];  // finite, or NaN: not defined, or does not apply
    uint64_t n_labelled, not_finite; // items, and those of them whose outputs are not
};

// "micro_f1", as the job file and the report have it; "micro-F1", as people read it.
const char *sl_measure_key(enum sl_measure measure);
const char *sl_measure_name(enum sl_measure measure);

// Sums that the cells of an evaluation have.
struct sl_evaluation_sums {
    double loss, weight;
};

// Of a task of links: the items are so many positive pairs, then the negative ones. Else all 0.
struct sl_evaluation_links {
    uint64_t n_positives;
    uint64_t k; // of Hits@K
    bool own;   // each positive has negatives of its own, positive by positive; else they share all
};

// Items whose predictions are judged.
struct sl_judged {
    const struct sl_dataset *dataset;
    const struct sl_vertex_list *list; // of links only its n counts
    const void *predictions;           // (list->n, sl_dataset_predict_words) as the arena has them
    struct sl_evaluation_links links;
    struct sl_evaluation_sums sums;
};

// Everything at once. SL_ENOMEM; of links also as sl_link_metrics_compute().
int sl_metrics_compute(const struct sl_judged *judged, struct sl_evaluation *out);

struct sl_metrics {
    struct sl_judged judged;
    bool busy;
    int rc;
    char message[256];          // when rc < 0
    struct sl_evaluation found; // when rc == SL_OK
    void (*on_done)(void *ctx); // on the loop
    void *ctx;
    uv_work_t work;
};

// The caller has set judged, on_done and ctx; the struct must stay where it is. True when it is done already; false when on_done will say so.
bool sl_metrics_start(struct sl_metrics *m, uv_loop_t *loop);

#endif
