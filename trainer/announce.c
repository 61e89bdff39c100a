#include "trainer/announce.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/error.h"

int sl_announce_model(const struct sl_model *model, struct sl_announcement *a,
                      Sl__Control__Hello *hello)
{
    *a = (struct sl_announcement){.tensor = calloc(model->n_tensors, sizeof *a->tensor),
                                  .list = calloc(model->n_tensors, sizeof *a->list),
                                  .shape = calloc(model->n_tensors, sizeof *a->shape)};
    if (!a->tensor || !a->list || !a->shape) {
        sl_announcement_fini(a);
        return sl_fail(SL_ENOMEM, "no memory to name %u tensors", model->n_tensors);
    }
    for (uint32_t t = 0; t < model->n_tensors; t++) {
        const struct sl_tensor *from = &model->tensor[t];
        Sl__Control__Tensor *to = &a->tensor[t];
        sl__control__tensor__init(to);
        memcpy(a->shape[t], from->shape, sizeof a->shape[t]);
        to->name = (char *)from->name; // only read
        to->n_shape = from->rank;
        to->shape = a->shape[t];
        to->role = from->role;
        to->twin = from->twin;
        to->init_constant = from->init_constant;
        to->init_bound = from->init_bound;
        a->list[t] = to;
    }
    hello->n_tensors = model->n_tensors;
    hello->tensors = a->list;
    hello->infer_width = sl_model_infer_width(model);
    hello->jumping_width = sl_jumping_width(&model->jumping);
    hello->n_layers = model->n_layers;
    return SL_OK;
}

void sl_announcement_fini(struct sl_announcement *a)
{
    free(a->tensor);
    free(a->list);
    free(a->shape);
    *a = (struct sl_announcement){0};
}
