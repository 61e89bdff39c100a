/*
 * prediction.h - from a model's outputs to a prediction: one rule for evaluations, `sluice predict`
 * and the scores of its files.
 *
 * A row with an output that is not finite has no class, no label and no number: metrics take it as
 * wrong, and it is counted.
 *
 * An evaluation leaves words for each vertex (sl_dataset_predict_words), which are all that metrics
 * need:
 *
 *   multiclass   the class, SL_NO_CLASS for none; of two classes the difference of their outputs
 *                (float), which ROC-AUC ranks by, NaN for none
 *   others       the outputs (float)
 */
#ifndef SL_DATA_PREDICTION_H
#define SL_DATA_PREDICTION_H

#include <stdbool.h>
#include <stdint.h>

#include "common/data/dataset.h"

enum { SL_NO_CLASS = -1 };

bool sl_outputs_are_finite(const float *row, uint32_t n);
// Of a multi-class task. Ties go to the lowest class, as in softmax_xent.
int32_t sl_outputs_class(const float *row, uint32_t n);

// A row of n outputs as words.
void sl_prediction_write(enum sl_task task, const float *row, uint32_t n, uint32_t *words);
// The class from the word of n classes; SL_NO_CLASS.
int32_t sl_prediction_class(uint32_t word, uint32_t n);
// The difference from the word of two classes; NaN for none.
float sl_prediction_margin(uint32_t word);

#endif
