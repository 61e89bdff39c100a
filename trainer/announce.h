// announce.h - a model's tensors as a Hello message has them; broker/rundir/params.h reads it.
#ifndef SL_TRAINER_ANNOUNCE_H
#define SL_TRAINER_ANNOUNCE_H

#include "common/bus/control.pb-c.h"
#include "trainer/model/model.h"

// Memory that a Hello points into.
struct sl_announcement {
    Sl__Control__Tensor *tensor, **list; // (n_tensors)
    uint64_t (*shape)[SL_TENSOR_RANK];
    char *stacked;
};

// Fills the fields of a Hello that describe the model. The model's names are borrowed. SL_ENOMEM.
int sl_announce_model(const struct sl_model *model, struct sl_announcement *a,
                      Sl__Control__Hello *hello);
void sl_announcement_fini(struct sl_announcement *a);

#endif
