// announce.h - a model's tensors as a Hello message has them; broker/rundir/params.h reads it.
#ifndef SL_TRAINER_ANNOUNCE_H
#define SL_TRAINER_ANNOUNCE_H

#include "common/bus/control.pb-c.h"
#include "trainer/model/model.h"

// Memory that a Hello points into: it must not move while the Hello is used.
struct sl_announcement {
    Sl__Control__Tensor tensor[SL_MODEL_MAX_TENSORS], *list[SL_MODEL_MAX_TENSORS];
    uint64_t shape[SL_MODEL_MAX_TENSORS][SL_TENSOR_RANK];
};

// Fills the fields of a Hello that describe the model. The model's names are borrowed.
void sl_announce_model(const struct sl_model *model, struct sl_announcement *a,
                       Sl__Control__Hello *hello);

#endif
