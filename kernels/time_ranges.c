#include "kernels/time_ranges.h"

#include "common/base/bits.h"

enum {
    LANES = 16, // searches at once
    ROWS_AHEAD = 32,
};

// Of each lane's range the end moves to where the edges that count end.
static void search(const int64_t *time, int64_t until, struct sl_time_range *row, uint32_t n)
{
    uint64_t length[LANES], longest = 0, from[LANES];
    for (uint32_t l = 0; l < n; l++) {
        from[l] = row[l].begin;
        length[l] = row[l].end - row[l].begin;
        longest = SL_MAX(longest, length[l]);
    }
    // What counts ends at from .. from + length. Lanes do not wait for each other's loads.
    for (; longest > 1; longest -= longest / 2) {
        for (uint32_t l = 0; l < n; l++) {
            const uint64_t half = length[l] / 2;
            // Of a lane that is done, half is 0, this is some edge of the graph.
            const bool counts = half > 0 && time[from[l] + half - 1] <= until;
            from[l] += counts ? half : 0;
            length[l] -= half;
        }
    }
    for (uint32_t l = 0; l < n; l++)
        row[l].end = from[l] + (length[l] > 0 && time[from[l]] <= until);
}

void sl_time_ranges(const uint64_t *indptr, const int64_t *time, struct sl_time_bound bound,
                    const uint32_t *nodes, uint32_t n, struct sl_time_range *out)
{
    for (uint32_t i = 0; i < n; i += LANES) {
        const uint32_t some = SL_MIN(n - i, (uint32_t)LANES);
        for (uint32_t l = 0; l < some; l++) {
            __builtin_prefetch(&indptr[nodes[SL_MIN(i + l + (uint64_t)ROWS_AHEAD, n - 1u)]]);
            const uint64_t *row = &indptr[nodes[i + l]];
            out[i + l] = (struct sl_time_range){row[0], bound.none ? row[0] : row[1]};
        }
        search(time, bound.until, out + i, some);
    }
}
