// score.h - scores of pairs of vertices by their embeddings, which are the processor's.
#ifndef SL_TRAINER_INFER_SCORE_H
#define SL_TRAINER_INFER_SCORE_H

#include <stdint.h>

#include "trainer/model/model.h"

// Pairs that are scored in one call, at most: what is needed beside the embeddings is of so many.
enum { SL_SCORE_PAIRS = 4096 };

struct sl_score_args {
    const float *params;     // the device's
    const float *embeddings; // (n_rows, n_outputs)
    uint64_t n_rows;
    uint32_t *pairs;               // (n, 2) rows; overwritten
    uint32_t n;                    // at most SL_SCORE_PAIRS
    uint32_t n_positive;           // the first so many are edges, the others none
    float *scores;                 // out (n), there when the call returns
    struct sl_loss_result *result; // binary cross-entropy, added up; NULL: not wanted
};

// Resets the model's pools.
int sl_score_pairs(struct sl_model *model, const struct sl_score_args *args);

#endif
