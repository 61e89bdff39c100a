// What a trainer that is played leaves of an evaluation.
#ifndef SL_TESTS_UNIT_BROKER_PREDICTIONS_H
#define SL_TESTS_UNIT_BROKER_PREDICTIONS_H

#include "common/base/bits.h"
#include "common/arena/arena.h"
#include "common/arena/ledger.h"

/*
 * Predictions of three classes for a cell of the validation or test list, of which the first
 * `correct` are right; of another phase nothing. Vertex `i` of the list is of class
 * (i + shift) % 3, or all are of class 0.
 */
static inline void leave_predictions(struct sl_arena *a, const struct sl_lease *l, bool all_zero,
                                     uint32_t shift, uint64_t correct)
{
    const uint32_t set = l->phase->spec.set;
    uint32_t n, *class = sl_arena_predictions(a);
    const uint64_t first = sl_phase_range(l->phase, l->cell, &n);
    for (uint64_t i = first; i < first + n && (set == SL_SET_VAL || set == SL_SET_TEST); i++) {
        const uint64_t label = all_zero ? 0 : i + shift;
        class[i] = (uint32_t)((label + (i - first >= correct)) % 3);
    }
}

#endif
