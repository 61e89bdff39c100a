#include "trainer/model/rounded_weights.h"

#include "common/base/error.h"

enum { PAD = 8 }; // words of 16 bytes

static bool is_matrix(const struct sl_tensor *t)
{
    return t->rank == 2 && t->role == SL_TENSOR_LEARNED;
}

static uint64_t pitch_of(const struct sl_tensor *t)
{
    return (t->shape[1] + PAD - 1) / PAD * PAD;
}

// Words of its copy.
static uint64_t words_of(const struct sl_tensor *t)
{
    return is_matrix(t) ? t->shape[0] * pitch_of(t) : 0;
}

void sl_rounded_weights_init(struct sl_rounded_weights *w, const struct sl_device *device,
                             const struct sl_kernels *kernels, enum sl_precision precision,
                             const struct sl_tensor *tensors, uint32_t n_tensors)
{
    *w = (struct sl_rounded_weights){.device = device, .tensor = tensors, .n_tensors = n_tensors};
    if (precision == SL_PRECISION_BF16 && !device->is_host)
        w->kernels = kernels;
    for (uint32_t t = 0; t < n_tensors; t++)
        w->n_words += words_of(&tensors[t]);
}

void sl_rounded_weights_fini(struct sl_rounded_weights *w)
{
    if (w->copy)
        w->device->memory.free(w->copy, w->n_words * sizeof *w->copy);
    *w = (struct sl_rounded_weights){0};
}

int sl_rounded_weights_take(struct sl_rounded_weights *w, const float *params)
{
    w->params = NULL;
    if (!params || w->n_words == 0 || !w->kernels)
        return SL_OK;
    if (!w->copy)
        w->copy = w->device->memory.alloc(w->n_words * sizeof *w->copy);
    if (!w->copy)
        return sl_fail_prefix(SL_ENOMEM, "trainer: weights as bf16 on the device");
    uint16_t *at = w->copy;
    for (uint32_t t = 0; t < w->n_tensors; at += words_of(&w->tensor[t++])) {
        const struct sl_tensor *of = &w->tensor[t];
        if (words_of(of) > 0)
            SL_TRY(w->kernels->bias_act_bf16(params + of->offset, of->shape[0],
                                             (uint32_t)of->shape[1], NULL, SL_ACT_NONE, NULL, NULL,
                                             at, pitch_of(of)));
    }
    w->params = params;
    return SL_OK;
}

struct sl_rounded_operand sl_rounded_weights_find(const struct sl_rounded_weights *w,
                                                  const float *weight, uint64_t ld)
{
    const struct sl_rounded_operand same = {.p = weight, .ld = ld};
    if (!w || !w->params)
        return same;
    const uint16_t *copy = w->copy;
    for (uint32_t t = 0; t < w->n_tensors; copy += words_of(&w->tensor[t++])) {
        const struct sl_tensor *of = &w->tensor[t];
        const float *begin = w->params + of->offset;
        if (!is_matrix(of) || of->shape[1] != ld || weight < begin ||
            weight >= begin + of->shape[0] * ld)
            continue;
        const uint64_t at = (uint64_t)(weight - begin), pitch = pitch_of(of);
        return (struct sl_rounded_operand){
            .p = copy + at / ld * pitch + at % ld, .ld = pitch, .bf16 = true};
    }
    return same;
}
