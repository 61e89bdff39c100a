/*
 * mask.h - the dropout mask by its definition.
 *
 * Element e = row * dim + column of a layer's (rows, dim) activations uses word e % 4 of the Philox
 * block at position e / 4; the position's high half goes into the counter's group field.
 */
#ifndef SL_KERNELS_REF_MASK_H
#define SL_KERNELS_REF_MASK_H

#include <stdint.h>

#include "common/base/philox.h"
#include "kernels/kernels.h"

// NULL and a rate of 0 mean that everything survives.
static inline int sl_ref_survives(const struct sl_dropout *dropout, uint64_t e)
{
    if (!dropout || dropout->rate == 0.0f)
        return 1;
    uint64_t position = e / 4;
    uint32_t word0 = sl_rng_word0(SL_RNG_DROPOUT, dropout->layer, (uint32_t)(position >> 32));
    struct sl_rng_block block =
        sl_philox(dropout->seed, word0, (uint32_t)position, dropout->batch, dropout->epoch);
    return sl_rng_unit(block.w[e & 3]) >= dropout->rate;
}

static inline float sl_ref_survivor_scale(const struct sl_dropout *dropout)
{
    return dropout ? 1.0f / (1.0f - dropout->rate) : 1.0f;
}

#endif
