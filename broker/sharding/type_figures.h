/*
 * type_figures.h - of a graph of several types: what was gathered, and is held, of each type and
 * drawn of each relation (common/arena/type_counts.h), for the live view and the report. Of a job
 * on several nodes it is of this one.
 */
#ifndef SL_BROKER_SHARDING_TYPE_FIGURES_H
#define SL_BROKER_SHARDING_TYPE_FIGURES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/arena/segment.h"
#include "common/data/typed.h"
#include "common/schema/stats.h"

// The texts are the graph's.
struct sl_stats_type sl_type_figures_of(const struct sl_arena *a, const struct sl_typed *typed,
                                        uint32_t type);
struct sl_stats_relation sl_relation_figures_of(const struct sl_arena *a,
                                                const struct sl_typed *typed, uint32_t relation);

// What the cache of the trainer at this device of the job holds of a type. False: nothing.
bool sl_type_figures_held(const struct sl_arena *a, const struct sl_typed *typed, uint32_t device,
                          uint32_t type, struct sl_stats_held *out);

// Adds the figures to lists that have an object each (common/data/typed_json.h).
void sl_type_figures_add(const struct sl_arena *a, const struct sl_typed *typed, cJSON *types,
                         cJSON *relations);

#endif
