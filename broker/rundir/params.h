/*
 * params.h - the model's parameters as the broker knows them: names, shapes, initial values.
 *
 * The broker knows no model. A trainer's Hello lists the tensors in the order of the parameter
 * file; in the parameter store they lie one after another in that order, without gaps. A counter
 * (batch norm's num_batches_tracked) has no place there: it is the number of batches trained, and
 * becomes an int64 scalar in the file.
 */
#ifndef SL_BROKER_RUNDIR_PARAMS_H
#define SL_BROKER_RUNDIR_PARAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/data/safetensors.h"
#include "common/bus/control.pb-c.h"

// What an update does to a tensor: the values that trainers send (their enum sl_tensor_role).
enum sl_param_role {
    SL_PARAM_LEARNED,
    SL_PARAM_RUNNING, // a running statistic
    SL_PARAM_FIXED,
    SL_PARAM_COUNTER, // no floats: batches trained
    SL_PARAM_TWIN,    // another name of a learned one before it, whose floats it has
    SL_PARAM_ROLES,
};

struct sl_param_tensor {
    char name[256];
    enum sl_param_role role;
    uint32_t rank; // 0 for a counter alone
    uint64_t shape[SL_SAFETENSORS_MAX_DIMS];
    uint64_t offset, n; // floats; a twin has the other one's offset, and none of its own
    uint32_t twin;      // how many places before it the other one is
    float init_constant, init_bound;
};

struct sl_params {
    uint32_t n_tensors;
    struct sl_param_tensor *tensors; // owned
    uint64_t n;                      // floats in all
    // What a full evaluation keeps of a vertex: the widest hidden layer, jumping knowledge.
    uint32_t infer_width, jumping_width;
    // The relations by whose numbers tensors are stacked, ", " between them; owned, NULL: none are.
    char *stacked;
};

// SL_EPROTO when what a trainer says makes no sense.
int sl_params_from_hello(struct sl_params *params, const Sl__Control__Hello *hello);
void sl_params_fini(struct sl_params *params); // safe on a zeroed struct

// Whether another trainer says the same.
bool sl_params_agree(const struct sl_params *params, const Sl__Control__Hello *hello);

// out (n): constant + uniform(-bound, bound), keyed by (seed; tensor, element).
void sl_params_initialise(const struct sl_params *params, uint64_t seed, float *out);

/*
 * values (n) as a .safetensors file; `note` says what they are ("epoch 7, best validation").
 * batches: how many have been trained, which is what counters say.
 */
int sl_params_save(const struct sl_params *params, const float *values, uint64_t batches,
                   const char *path, const char *job, const char *note);
int sl_params_sha256(const struct sl_params *params, const float *values, uint64_t batches,
                     char hex[SL_SHA256_HEX_BYTES]);

/*
 * Reads values (n) from a .safetensors file that has exactly these tensors, in any order. Whatever
 * differs in names, shapes and types is counted, and the first ones are named: SL_EFORMAT, and
 * values are untouched. So are the relations of a file that says which ones its tensors are stacked
 * by, and in which order. SL_ENOENT, SL_EACCESS. What counters say is not asked, nor whether they
 * are there. A twin may be missing (safetensors.torch.save_model() leaves it out); one that has
 * other values than what it is the twin of is SL_EFORMAT, when values have been written.
 */
int sl_params_load(const struct sl_params *params, const char *path, float *values);

/*
 * The same of a file that was made elsewhere. `prefix` (or NULL) is taken off the names that begin
 * with it; SL_EINVAL where none does, and where all do and it was not given the message says so.
 * Values that are nan or inf and running variances below 0 are SL_EFORMAT, by tensor and place.
 * *batches (or NULL): what its counter says, 0 without.
 */
int sl_params_import(const struct sl_params *params, const char *path, const char *prefix,
                     float *values, uint64_t *batches);

// The optimizer's arrays (n_state, each n): "exp_avg.convs.0.bias" and so on, as PyTorch calls
// them, of learned tensors.
int sl_params_save_state(const struct sl_params *params, const float *const *state,
                         uint32_t n_state, const char *path, const char *job, const char *note);
int sl_params_load_state(const struct sl_params *params, const char *path, float *const *state,
                         uint32_t n_state);

#endif
