/*
 * divergence.h - the message of a job whose numbers are not finite: the likely cause, and how to go
 * on.
 *
 * A trainer says which number of which update is not finite (trainer/model/broken_update.h), or an
 * evaluation is not; here follows, from what is known of the job, what most likely caused it and
 * which parameters are from before. All of it is a function of the job, with any workers and any
 * deaths.
 *
 * A checkpoint is from before where the loss on its parameters was not far above what can be had
 * without learning anything (baseline.h). The parameters that the parameter store holds at the end
 * are finite, but the next update fails again: they are not written where that is so, so that no
 * older checkpoint has to make room for them.
 */
#ifndef SL_BROKER_JOB_DIVERGENCE_H
#define SL_BROKER_JOB_DIVERGENCE_H

#include <stdbool.h>
#include <stddef.h>

#include <cjson/cJSON.h>

#include "broker/epochs/baseline.h"
#include "broker/epochs/phases.h"
#include "config/config.h"

// Borrowed for the call.
struct sl_divergence {
    const struct sl_config *config;
    const struct sl_phases *phases; // with the data set, the arena and its parameter store
    const cJSON *epochs;            // of the report so far
    const char *run;                // the run directory
    uint64_t version;               // whose update went wrong, or that was evaluated
    bool evaluated;
};

// Whether the training loss had left the range in which anything is learned before.
bool sl_divergence_has_grown(const struct sl_divergence *d);

// The whole message, from what is wrong: "update 7 ...: the loss of batch 2 is nan".
void sl_divergence_describe(const struct sl_divergence *d, const char *what, char *out,
                            size_t bytes);

// "lower optimizer.lr (now 1000) or set optimizer.clip_norm (now 0, which clips nothing)". Returns
// buf.
const char *sl_divergence_advice(const struct sl_config *config, char *buf, size_t bytes);

#endif
