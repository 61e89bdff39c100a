/*
 * learned.h - warnings of a job that is done but has learned nothing.
 *
 * Such a job ends with success, since it did what its file says; but it warns of a training loss
 * that is far above what can be had without learning (baseline.h), a validation or a test that is
 * no better than the best constant answer by the metric that the job is judged by.
 */
#ifndef SL_BROKER_JOB_LEARNED_H
#define SL_BROKER_JOB_LEARNED_H

#include <cjson/cJSON.h>

#include "broker/epochs/baseline.h"
#include "broker/epochs/early_stopping.h"
#include "broker/epochs/metrics.h"
#include "config/config.h"

// Borrowed for the call.
struct sl_learned {
    const struct sl_config *config;
    const struct sl_dataset *dataset;
    const cJSON *epochs; // of the report
    const struct sl_early_stopping *best;
    enum sl_measure measure;
    const struct sl_evaluation *test; // NULL: there was none
};

// Adds a sentence to `warnings` (an array) for each thing that is wrong. Labels are passed over
// once a split. SL_ENOMEM.
int sl_learned_judge(const struct sl_learned *l, cJSON *warnings);

#endif
