/*
 * predict_device.h - opens the device of predictions: cores, or a GPU with a budget.
 *
 * A program that predicts has one device for all its life. Its GPU is that of the plug-in
 * (compute.h), with another message where memory runs out: a job's advice, to take smaller
 * mini-batches, does not help here.
 */
#ifndef SL_TRAINER_INFER_PREDICT_DEVICE_H
#define SL_TRAINER_INFER_PREDICT_DEVICE_H

#include <stdint.h>

#include "trainer/feed/compute.h"

// `name`: "cpu" or "cuda:N". A GPU gives at most budget_bytes, or what it has where that is 0.
// SL_EINVAL; errors as of sl_compute_open().
int sl_predict_device_open(const char *name, uint64_t budget_bytes, struct sl_compute *out);

// The parameters (n) at `host` where the device reads them: there, or a copy that is the device's
// until the process ends. SL_ENOMEM.
int sl_predict_device_params(const struct sl_compute *c, const float *host, uint64_t n,
                             const float **out);

// Returns rc. Where that is SL_ENOMEM because the GPU had no room, sets a message with what was
// wanted, what there is, and what to change.
int sl_predict_device_explain(int rc);

#endif
