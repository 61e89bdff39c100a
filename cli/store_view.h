/*
 * store_view.h - the plan of a dry run for GPUs that hold features together, or the graph
 * (broker/sharding/shard_plan.h): which GPU holds what, what is expected to be read over which
 * link, and the same under other placements.
 *
 * No step has been measured yet, so the rooms are the most that budgets leave: a run has less.
 */
#ifndef SL_CLI_STORE_VIEW_H
#define SL_CLI_STORE_VIEW_H

#include <stdio.h>

#include <cjson/cJSON.h>

#include "broker/sharding/shard_inputs.h"

struct sl_store_view {
    bool shown; // there are GPUs that could
    struct sl_store_curve curve;
    bool foreseen; // the curve is: else all elements count the same
    struct sl_plan_question question;
    struct sl_shard_plan plan;                          // that the job would have
    struct sl_shard_plan others[SL_STORE_ONE_COPY + 1]; // by placement; [SL_STORE_AUTO]: none
    uint64_t element_bytes;
    double epoch_bytes; // that one trainer, or sampler, reads in an epoch; 0: not known
};

// The configuration's "auto" has been settled. found: what is expected of an epoch, or NULL. `out`
// must stay where it is. SL_ENOMEM.
int sl_store_view_find(const struct sl_config *config, const struct sl_dataset *ds,
                       uint64_t available_bytes, const struct sl_store_foreseen *found,
                       struct sl_store_view out[SL_PEER_MEMORY_PLANNED]);

void sl_store_view_print(const struct sl_store_view *v, FILE *out);
// Adds keys to the plan's `store`: placement, placement_reason, proved, parts, first_rows,
// gpu_rows, held, links and placements. Of the graph: first_edges, gpu_edges.
void sl_store_view_add(const struct sl_store_view *v, cJSON *store);

#endif
