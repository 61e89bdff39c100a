/*
 * judging.h - which metric judges the evaluations of a job, and whether the labels define it.
 *
 * Labels are known before anything is trained. A metric that those of the validation vertices do
 * not define, such as ROC-AUC of one class, has no best epoch: patience counts nothing, and the
 * last parameters are tested and kept. That is said once, when the job starts; so are edges of a
 * job of links that have fewer negatives than Hits@K counts, or that the model sees, and what
 * evaluations of very many pairs take. Keys that cannot act since the data set has no vertices for
 * them are refused, as keys that contradict one another are.
 */
#ifndef SL_BROKER_EPOCHS_JUDGING_H
#define SL_BROKER_EPOCHS_JUDGING_H

#include <stdbool.h>

#include "common/data/dataset.h"
#include "common/data/measure_kind.h"
#include "config/config.h"

enum { SL_JUDGING_TEXT = 384 };

struct sl_judging {
    struct sl_measure_choice choice; // the metric, and why
    bool finds_best;                 // there are validation vertices, and they define the metric
    // What is said of a split that is evaluated and does not define it; "": nothing.
    char warning[SL_SPLIT_COUNT][SL_JUDGING_TEXT];
    char leak[SL_SPLIT_COUNT][SL_JUDGING_TEXT]; // of links: that edges to judge by are in the graph
};

// SL_EINVAL: a key asks for what the data set does not have. The message begins with the key.
int sl_judging_check(const struct sl_config *config, const struct sl_dataset *dataset);
// Of a job that has been checked. Labels are looked at no longer than it takes to know. SL_ENOMEM.
int sl_judging_find(struct sl_judging *j, const struct sl_config *config,
                    const struct sl_dataset *dataset);

#endif
