/*
 * class_counts.h - how often each class occurs among some vertices, or each label's positives.
 *
 * Used for class weights, the choice of the metric, and the score of a constant answer.
 */
#ifndef SL_DATA_CLASS_COUNTS_H
#define SL_DATA_CLASS_COUNTS_H

#include <stdint.h>

#include "common/data/dataset.h"

struct sl_class_counts {
    uint32_t n; // classes or labels
    enum sl_task task;
    uint64_t *positive; // (n) vertices of the class, or that have the label; owned, with the next
    uint64_t *labelled; // (n) vertices of which that is known: of classes the same number for all
};

// One pass over the list's labels. The data set has labels and is of classes or of labels.
// SL_ENOMEM.
int sl_class_counts_take(struct sl_class_counts *c, const struct sl_dataset *dataset,
                         const struct sl_vertex_list *list);
void sl_class_counts_fini(struct sl_class_counts *c); // safe on a zeroed struct

/*
 * Weights (n) with which all classes count alike: scikit-learn's "balanced", n / (C * n_c) where n
 * labelled vertices are of C classes that occur, n_c of them of class c; of a label's positives
 * (labelled - positives) / positives. 0 for what does not occur.
 */
void sl_class_counts_balance(const struct sl_class_counts *c, float *weight);

#endif
