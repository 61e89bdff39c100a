/*
 * baseline.h - the score without any learning: the best answer that is the same for every vertex of
 * a split, and its value by each metric.
 *
 *   multiclass   the class that occurs most often; for the loss the frequencies of the classes
 *   multilabel   of each label what most vertices have; for the loss the frequencies of the labels
 *   regression   the mean of each column
 *   links        one score for all pairs: ROC-AUC, average precision, the loss in training
 *
 * By the split's own labels, with the weights of loss.class_weights in the loss, as trainers have
 * it (kernels.h). A model that is no better has learned nothing that helps; one whose training loss
 * is far above has left the range in which it could.
 */
#ifndef SL_BROKER_EPOCHS_BASELINE_H
#define SL_BROKER_EPOCHS_BASELINE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/data/dataset.h"
#include "common/data/measure_kind.h"
#include "config/config.h"

struct sl_baseline {
    double value[SL_MEASURE_COUNT]; // NaN: not known, or does not apply
    enum sl_task task;
    uint32_t class_index; // multiclass: the most frequent class, of equals the first
};

// One pass over the split's labels. All NaN where none of them is labelled. Of links ROC-AUC and
// the loss in training. SL_ENOMEM.
int sl_baseline_find(struct sl_baseline *b, const struct sl_config *config,
                     const struct sl_dataset *dataset, const struct sl_vertex_list *list);

// Of links, so many of which are positives.
void sl_baseline_of_links(struct sl_baseline *b, uint64_t n_positives, uint64_t n_negatives);

// Whether a value is better than the baseline's, by the metric's margin at least. True where one of
// them is not known.
bool sl_baseline_is_beaten(const struct sl_baseline *b, enum sl_measure measure, double value);

// Whether a training loss is so far above the baseline's that steps were too large.
bool sl_baseline_is_far_below(const struct sl_baseline *b, double loss);

// Who has the value of this metric: "always answering class 3". Returns buf.
const char *sl_baseline_text(const struct sl_baseline *b, enum sl_measure measure, char *buf,
                             size_t bytes);

#endif
