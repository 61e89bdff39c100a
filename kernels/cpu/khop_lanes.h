/*
 * khop_lanes.h - the draws of sixteen rows at once, one row a lane: Floyd's, or with replacement.
 *
 * The integers are those of kernels/khop_internal.h. Philox and the membership tests run in
 * vectors: a test costs one comparison an earlier slot for all lanes together, which is why this is
 * for small fanouts.
 */
#ifndef SL_KERNELS_CPU_KHOP_LANES_H
#define SL_KERNELS_CPU_KHOP_LANES_H

#include <stdint.h>

#include "kernels/kernels.h"

enum {
    SL_KHOP_LANES = 16,
    SL_KHOP_LANE_FANOUT_MAX = 64,
};

struct sl_khop_lanes {
    _Alignas(64) uint32_t row[SL_KHOP_LANES];                        // in: local ids
    _Alignas(64) uint32_t degree[SL_KHOP_LANES];                     // in: see below
    _Alignas(64) uint32_t x[SL_KHOP_LANE_FANOUT_MAX][SL_KHOP_LANES]; // out: (k, lanes) positions
};

// Draws k positions (1 .. SL_KHOP_LANE_FANOUT_MAX) for all lanes. Each lane, idle ones too, needs a
// degree above k, or above 0 with replacement.
void sl_khop_lanes_draw(const struct sl_khop_args *args, uint32_t k, struct sl_khop_lanes *lanes);

#endif
