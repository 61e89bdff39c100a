// weighted_points.h - a group of rows that are drawn by weight: their random numbers, and what they
// have drawn.
#ifndef SL_KERNELS_CPU_WEIGHTED_POINTS_H
#define SL_KERNELS_CPU_WEIGHTED_POINTS_H

#include <stdint.h>

#include "kernels/kernels.h"

enum {
    SL_WEIGHTED_ROWS = 32,  // of a group
    SL_WEIGHTED_SLOTS = 64, // for larger fanouts rows are drawn in lanes (weighted_lane.h)
};

// u of the slots 2 p and 2 p + 1 of row r: of[p][2 r] and of[p][2 r + 1].
struct sl_weighted_points {
    _Alignas(64) double of[SL_WEIGHTED_SLOTS / 2][2 * SL_WEIGHTED_ROWS];
};

static inline double sl_weighted_point_of(const struct sl_weighted_points *points, uint32_t slot,
                                          uint32_t row)
{
    return points->of[slot / 2][2 * row + slot % 2];
}

// What a row has drawn.
struct sl_weighted_drawn {
    double left;                    // weight that has not been drawn
    uint32_t n;                     // fewer than were asked for where no weight is left
    uint32_t at[SL_WEIGHTED_SLOTS]; // in the order of the slots
};

// Those of the first k slots of the rows whose local ids are first, first + 1, ..
void sl_weighted_points_make(struct sl_weighted_points *points, const struct sl_khop_args *args,
                             uint32_t first, uint32_t k);

#endif
