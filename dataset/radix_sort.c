#include "dataset/radix_sort.h"

#include <stdbool.h>
#include <string.h>

enum { DIGITS = 8, BINS = 256 };

static void scatter(const struct sl_radix_array *from, struct sl_radix_array *to, size_t n,
                    unsigned shift, size_t *at)
{
    if (from->values) {
        for (size_t i = 0; i < n; i++) {
            size_t to_index = at[from->keys[i] >> shift & 0xff]++;
            to->keys[to_index] = from->keys[i];
            to->values[to_index] = from->values[i];
        }
        return;
    }
    for (size_t i = 0; i < n; i++)
        to->keys[at[from->keys[i] >> shift & 0xff]++] = from->keys[i];
}

void sl_radix_sort(struct sl_radix_array *data, struct sl_radix_array *scratch, size_t n)
{
    size_t counts[DIGITS][BINS];
    memset(counts, 0, sizeof counts);
    bool sorted = true;
    for (size_t i = 0; i < n; i++) {
        uint64_t key = data->keys[i];
        sorted = sorted && (i == 0 || data->keys[i - 1] <= key);
        for (unsigned d = 0; d < DIGITS; d++)
            counts[d][key >> (8 * d) & 0xff]++;
    }
    if (sorted)
        return;
    for (unsigned d = 0; d < DIGITS; d++) {
        size_t *at = counts[d];
        if (at[data->keys[0] >> (8 * d) & 0xff] == n)
            continue; // one bin holds everything
        size_t sum = 0;
        for (size_t b = 0; b < BINS; b++) {
            size_t count = at[b];
            at[b] = sum;
            sum += count;
        }
        scatter(data, scratch, n, 8 * d, at);
        struct sl_radix_array swap = *data;
        *data = *scratch;
        *scratch = swap;
    }
}
