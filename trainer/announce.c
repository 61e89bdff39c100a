#include "trainer/announce.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/error.h"

// Tensors that are a layer's have a relation's part at its number: names do not tell them apart.
static int name_relations(const struct sl_typed_model *m, char **out)
{
    if (!m || m->layer[0].kind->per_relation > 0)
        return SL_OK;
    const uint32_t n = m->typed->n_relations;
    const size_t room = n * sizeof(struct sl_relation_text) + 1;
    char *text = *out = calloc(1, room);
    if (!text)
        return sl_fail(SL_ENOMEM, "no memory to name %u relations", n);
    for (size_t r = 0, used = 0; r < n; r++)
        used += (size_t)snprintf(text + used, room - used, "%s%s", r ? ", " : "",
                                 sl_relation_text(m->typed, (uint32_t)r).text);
    return SL_OK;
}

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
    const int rc = name_relations(model->typed, &a->stacked);
    if (rc < 0) {
        sl_announcement_fini(a);
        return rc;
    }
    if (a->stacked)
        hello->stacked = a->stacked;
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
    free(a->stacked);
    *a = (struct sl_announcement){0};
}
