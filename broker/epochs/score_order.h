/*
 * score_order.h - scores in the order of their ranks, by a radix sort: ROC-AUC and the metrics of
 * links need their order, millions of them.
 */
#ifndef SL_BROKER_EPOCHS_SCORE_ORDER_H
#define SL_BROKER_EPOCHS_SCORE_ORDER_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

// A score in the low half, as an integer of the same order, and in the high one whether its element
// is a positive. NaN is the worst rank that there is, beyond the infinite ones.
static inline uint64_t sl_score_ordered(float score, bool positive)
{
    uint32_t bits;
    score += 0.0f; // -0 is 0
    memcpy(&bits, &score, sizeof bits);
    bits = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    if (isnan(score))
        bits = positive ? 0 : UINT32_MAX;
    return (uint64_t)positive << 32 | bits;
}

// By score; `spare` is as long. The result is in `items`.
void sl_score_sort(uint64_t *items, uint64_t *spare, uint64_t n);

#endif
