/*
 * link_bytes.h - bytes that each device has read in each other device's memory, of features and
 * graph that GPUs share (common/arena/peer_memory.h): for the live view and the report.
 */
#ifndef SL_BROKER_SHARDING_LINK_BYTES_H
#define SL_BROKER_SHARDING_LINK_BYTES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/arena/peer_memory.h"
#include "common/schema/stats.h"

// The next link over which anything was read; *at is 0 at first. False: there are no more, or no
// arena yet. The texts stay.
bool sl_link_bytes_next(const struct sl_arena *a, uint32_t *at, struct sl_stats_link *out);

#endif
