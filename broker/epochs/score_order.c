#include "broker/epochs/score_order.h"

#include <string.h>

enum {
    DIGIT_BITS = 11, // three passes over a score
    DIGITS = 1 << DIGIT_BITS,
};

void sl_score_sort(uint64_t *items, uint64_t *spare, uint64_t n)
{
    uint64_t *from = items, *to = spare;
    for (uint32_t shift = 0; shift < 32; shift += DIGIT_BITS) {
        uint64_t at[DIGITS] = {0}, sum = 0;
        for (uint64_t i = 0; i < n; i++)
            at[(uint32_t)from[i] >> shift & (DIGITS - 1)]++;
        for (uint32_t d = 0; d < DIGITS; d++) {
            uint64_t count = at[d];
            at[d] = sum;
            sum += count;
        }
        for (uint64_t i = 0; i < n; i++)
            to[at[(uint32_t)from[i] >> shift & (DIGITS - 1)]++] = from[i];
        uint64_t *other = from;
        from = to;
        to = other;
    }
    memcpy(items, from, n * sizeof *items); // an odd number of passes
}
