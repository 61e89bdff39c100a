#include "broker/params.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/error.h"
#include "common/base/philox.h"

enum { TENSORS_MAX = 4096 };

static int take_tensor(struct sl_param_tensor *t, const Sl__Control__Tensor *from, uint64_t offset)
{
    if (!from->name || !*from->name || strlen(from->name) >= sizeof t->name)
        return sl_fail(SL_EPROTO, "trainer: a parameter tensor's name is empty or too long");
    if (from->n_shape == 0 || from->n_shape > SL_SAFETENSORS_MAX_DIMS)
        return sl_fail(SL_EPROTO, "trainer: parameter '%s' of %zu dimensions, wanted 1 to %d",
                       from->name, from->n_shape, SL_SAFETENSORS_MAX_DIMS);
    snprintf(t->name, sizeof t->name, "%s", from->name);
    t->rank = (uint32_t)from->n_shape;
    t->offset = offset;
    t->n = 1;
    for (size_t d = 0; d < from->n_shape; d++) {
        t->shape[d] = from->shape[d];
        if (from->shape[d] == 0 || __builtin_mul_overflow(t->n, from->shape[d], &t->n) ||
            t->n > (uint64_t)1 << 40)
            return sl_fail(SL_EPROTO, "trainer: parameter '%s' has an impossible shape",
                           from->name);
    }
    t->init_constant = from->init_constant;
    t->init_bound = from->init_bound;
    return SL_OK;
}

int sl_params_from_hello(struct sl_params *params, const Sl__Control__Hello *hello)
{
    memset(params, 0, sizeof *params);
    if (hello->n_tensors == 0 || hello->n_tensors > TENSORS_MAX)
        return sl_fail(SL_EPROTO, "trainer: a model of %zu parameter tensors", hello->n_tensors);
    params->tensors = calloc(hello->n_tensors, sizeof *params->tensors);
    if (!params->tensors)
        return sl_fail(SL_ENOMEM, "no memory for %zu tensors", hello->n_tensors);
    for (size_t i = 0; i < hello->n_tensors; i++) {
        int rc = take_tensor(&params->tensors[i], hello->tensors[i], params->n);
        if (rc < 0) {
            sl_params_fini(params);
            return rc;
        }
        params->n += params->tensors[i].n;
    }
    params->n_tensors = (uint32_t)hello->n_tensors;
    return SL_OK;
}

void sl_params_fini(struct sl_params *params)
{
    free(params->tensors);
    memset(params, 0, sizeof *params);
}

bool sl_params_agree(const struct sl_params *params, const Sl__Control__Hello *hello)
{
    if (hello->n_tensors != params->n_tensors)
        return false;
    for (uint32_t i = 0; i < params->n_tensors; i++) {
        const struct sl_param_tensor *a = &params->tensors[i];
        const Sl__Control__Tensor *b = hello->tensors[i];
        if (strcmp(a->name, b->name) != 0 || a->rank != b->n_shape ||
            memcmp(a->shape, b->shape, a->rank * sizeof *a->shape) != 0)
            return false;
    }
    return true;
}

void sl_params_initialise(const struct sl_params *params, uint64_t seed, float *out)
{
    for (uint32_t i = 0; i < params->n_tensors; i++) {
        const struct sl_param_tensor *t = &params->tensors[i];
        float *value = out + t->offset;
        for (uint64_t e = 0; e < t->n; e += 4) {
            // Four elements share a counter; the group carries what position has no room for.
            struct sl_rng_block b = sl_philox(
                seed, sl_rng_word0(SL_RNG_INIT, 0, (uint32_t)(e >> 34)), (uint32_t)(e / 4), i, 0);
            for (uint64_t k = 0; k < 4 && e + k < t->n; k++)
                value[e + k] =
                    t->init_constant + (2.0f * sl_rng_unit(b.w[k]) - 1.0f) * t->init_bound;
        }
    }
}

static struct sl_safetensor *as_safetensors(const struct sl_params *params, const float *values)
{
    struct sl_safetensor *list = calloc(params->n_tensors, sizeof *list);
    for (uint32_t i = 0; list && i < params->n_tensors; i++) {
        const struct sl_param_tensor *t = &params->tensors[i];
        list[i].name = t->name;
        list[i].ndim = (int)t->rank;
        memcpy(list[i].shape, t->shape, sizeof t->shape);
        list[i].data = values + t->offset;
    }
    return list;
}

int sl_params_save(const struct sl_params *params, const float *values, const char *path,
                   const char *job, const char *note)
{
    struct sl_safetensor *list = as_safetensors(params, values);
    if (!list)
        return sl_fail(SL_ENOMEM, "writing '%s': no memory", path);
    const struct sl_safetensors_note notes[] = {
        {"format", "pt"}, // what PyTorch's own loader looks for
        {"job", job},
        {"parameters", note},
    };
    int rc =
        sl_safetensors_write(path, list, params->n_tensors, notes, sizeof notes / sizeof *notes);
    free(list);
    return rc;
}

int sl_params_sha256(const struct sl_params *params, const float *values,
                     char hex[SL_SHA256_HEX_BYTES])
{
    struct sl_safetensor *list = as_safetensors(params, values);
    if (!list)
        return sl_fail(SL_ENOMEM, "hashing the parameters: no memory");
    int rc = sl_safetensors_sha256(list, params->n_tensors, hex);
    free(list);
    return rc;
}
