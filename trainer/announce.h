// announce.h - what a model's trainer says of its parameter tensors, as broker/params reads it.
#ifndef SL_TRAINER_ANNOUNCE_H
#define SL_TRAINER_ANNOUNCE_H

#include "common/bus/control.pb-c.h"
#include "trainer/model/model.h"

// What a Hello points into. It must not move while the Hello is used.
struct sl_announcement {
    Sl__Control__Tensor tensor[SL_MODEL_MAX_TENSORS], *list[SL_MODEL_MAX_TENSORS];
    uint64_t shape[SL_MODEL_MAX_TENSORS][SL_TENSOR_RANK];
};

// Fills what a Hello says of the model. The model's names are borrowed.
void sl_announce_model(const struct sl_model *model, struct sl_announcement *a,
                       Sl__Control__Hello *hello);

#endif
