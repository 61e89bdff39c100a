/*
 * norm.h - normalisation of rows, as torch.nn.BatchNorm1d and torch.nn.LayerNorm have it.
 *
 *   batch   weight, bias, running_mean, running_var, num_batches_tracked under PREFIX.module
 *           (PyTorch Geometric's BatchNorm wraps torch's)
 *   layer   weight, bias under PREFIX; PyTorch Geometric's LayerNorm with mode="node"
 *
 * A batch norm uses the statistics of its batch in training and the running ones otherwise.
 * Backward leaves the batch's own mean and unbiased variance in the gradient's places of the
 * running ones (SL_TENSOR_RUNNING): the update averages them in, in the order of the batches. A
 * batch of fewer than two rows has no variance: torch refuses it, here it is normalised with the
 * running statistics, which it leaves as they are.
 */
#ifndef SL_TRAINER_MODEL_NORM_H
#define SL_TRAINER_MODEL_NORM_H

#include <stdbool.h>
#include <stdint.h>

#include "config/config.h"
#include "trainer/model/layer.h"

enum { SL_NORM_TENSORS = 5 };

struct sl_norm {
    enum sl_norm_kind kind;
    uint32_t dim;
    const uint64_t *offset; // of its tensors in the flat vector, in the order of describe()
};

// What forward leaves for backward. Valid until the pool is reset.
struct sl_norm_tape {
    uint64_t rows;
    const float *x; // (rows, dim)
    bool batch;     // normalised with the batch's own statistics
    // batch: (dim); layer: (rows), and no variance.
    float *mean, *inverse, *variance;
};

// Fills the tensors of a norm whose names begin with `prefix` ("norms.0"); returns how many: 0 for
// SL_NORM_NONE.
uint32_t sl_norm_describe(enum sl_norm_kind kind, uint32_t dim, const char *prefix,
                          struct sl_tensor tensors[SL_NORM_TENSORS]);

// y (rows, dim) = the norm of x (rows, dim). Backward reads x again, so both differ. kind is not
// SL_NORM_NONE. SL_ENOMEM.
int sl_norm_forward(const struct sl_layer_env *env, const struct sl_norm *norm, const float *params,
                    const float *x, uint64_t rows, bool training, float *y,
                    struct sl_norm_tape *tape);

// gradient (flat) += ; dx (rows, dim) is assigned and may be dy. Only after a forward in training.
int sl_norm_backward(const struct sl_layer_env *env, const struct sl_norm *norm,
                     const float *params, const struct sl_norm_tape *tape, const float *dy,
                     float *gradient, float *dx);

// A batch without rows leaves the running statistics as they are.
int sl_norm_keep(const struct sl_layer_env *env, const struct sl_norm *norm, const float *params,
                 float *gradient);

// x (rows, dim) is normalised in place as outside training.
int sl_norm_infer(const struct sl_layer_env *env, const struct sl_norm *norm, const float *params,
                  float *x, uint64_t rows);

#endif
