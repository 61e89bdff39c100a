// tensor.h - a tensor of a model: its name, its place in the vector of parameters, its initial
// values.
#ifndef SL_TRAINER_MODEL_TENSOR_H
#define SL_TRAINER_MODEL_TENSOR_H

#include <stdint.h>

enum { SL_TENSOR_RANK = 4, SL_TENSOR_NAME_BYTES = 256 };

// What an update does to a tensor.
enum sl_tensor_role {
    SL_TENSOR_LEARNED, // the optimizer's step
    // A running statistic (batch norm): the gradient's place holds the batch's own statistic s, and
    // each batch in order makes of it (1 - momentum) * value + momentum * s.
    SL_TENSOR_RUNNING,
    SL_TENSOR_FIXED, // nothing
    // Has no value in the vector: in the file an int64 scalar, the number of batches trained.
    SL_TENSOR_COUNTER,
    // Another name of a tensor before it, whose floats it has: in the file it stands once more.
    SL_TENSOR_TWIN,
};

#define SL_RUNNING_MOMENTUM 0.1f // of torch.nn.BatchNorm1d
#define SL_TENSOR_NO_LAYER  UINT32_MAX

// One parameter tensor, row-major. It starts at values[offset] of the flat parameter vector.
struct sl_tensor {
    char name[SL_TENSOR_NAME_BYTES]; // PyTorch Geometric's
    enum sl_tensor_role role;
    uint32_t layer; // set by the model; SL_TENSOR_NO_LAYER for the final linear layer's
    uint32_t rank;  // 0 (COUNTER) to SL_TENSOR_RANK
    uint64_t shape[SL_TENSOR_RANK];
    uint64_t offset; // floats; set by the model
    uint32_t twin;   // of TWIN: how many places before it the other one is
    // Initial value: init_constant + uniform(-init_bound, init_bound).
    float init_constant, init_bound;
};

// Floats of its own in the vector.
static inline uint64_t sl_tensor_count(const struct sl_tensor *t)
{
    uint64_t n = t->role == SL_TENSOR_COUNTER || t->role == SL_TENSOR_TWIN ? 0 : 1;
    for (uint32_t d = 0; d < t->rank; d++)
        n *= t->shape[d];
    return n;
}

#endif
