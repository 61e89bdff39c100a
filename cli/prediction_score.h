// prediction_score.h - how good a file of predictions is, where the data set has labels.
#ifndef SL_CLI_PREDICTION_SCORE_H
#define SL_CLI_PREDICTION_SCORE_H

#include <stdbool.h>

#include "broker/epochs/metrics.h"
#include "common/data/dataset.h"

// What `sluice predict` writes; of a regression all of them are its outputs.
enum sl_prediction_kind {
    SL_PREDICTION_LOGITS,
    SL_PREDICTION_PROBABILITIES,
    SL_PREDICTION_CLASSES,
};

struct sl_prediction_score {
    bool has[SL_SPLIT_COUNT]; // it has labelled vertices
    struct sl_evaluation split[SL_SPLIT_COUNT];
};

/*
 * `path` holds a row for each vertex of one list, or of all vertices (SL_SPLIT_COUNT), and is then
 * judged on every list. What cannot be told from the kind (loss from anything but logits, ROC-AUC
 * from classes) does not apply. Data sets without labels have no scores. SL_ENOMEM, SL_EFORMAT.
 */
int sl_prediction_score(struct sl_prediction_score *score, const struct sl_dataset *dataset,
                        const char *path, enum sl_prediction_kind kind, enum sl_split only);

#endif
