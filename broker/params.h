/*
 * params.h - the model's parameters as the broker knows them: names, shapes, initial values.
 *
 * The broker knows no model. A trainer's Hello lists the tensors in the order of the parameter
 * file; on the board they lie one after another in that order, without gaps.
 */
#ifndef SL_BROKER_PARAMS_H
#define SL_BROKER_PARAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/data/safetensors.h"
#include "common/ipc/control.pb-c.h"

struct sl_param_tensor {
    char name[128];
    uint32_t rank;
    uint64_t shape[SL_SAFETENSORS_MAX_DIMS];
    uint64_t offset, n; // floats
    float init_constant, init_bound;
};

struct sl_params {
    uint32_t n_tensors;
    struct sl_param_tensor *tensors; // owned
    uint64_t n;                      // floats in all
};

// SL_EPROTO when what a trainer says makes no sense.
int sl_params_from_hello(struct sl_params *params, const Sl__Control__Hello *hello);
void sl_params_fini(struct sl_params *params); // safe on a zeroed struct

// Whether another trainer says the same.
bool sl_params_agree(const struct sl_params *params, const Sl__Control__Hello *hello);

// out (n): constant + uniform(-bound, bound), keyed by (seed; tensor, element).
void sl_params_initialise(const struct sl_params *params, uint64_t seed, float *out);

// values (n) as a .safetensors file; `note` says what they are ("epoch 7, best validation").
int sl_params_save(const struct sl_params *params, const float *values, const char *path,
                   const char *job, const char *note);
int sl_params_sha256(const struct sl_params *params, const float *values,
                     char hex[SL_SHA256_HEX_BYTES]);

#endif
