/*
 * shard_preference.h - what a GPU that samples and trains keeps more of, where it has no room for
 * both: the graph or features (`store.prefer` "auto").
 *
 * Both are tried: who would hold which edges and rows (shard_plan.h), by how often these are
 * expected to be read, and what is then left to do for the busiest link or bus of each such GPU, by
 * their rates. What leaves less to do is taken; where it makes no difference, the graph.
 */
#ifndef SL_BROKER_SHARDING_SHARD_PREFERENCE_H
#define SL_BROKER_SHARDING_SHARD_PREFERENCE_H

#include "broker/sharding/shard_inputs.h"

// Edges that a mini-batch samples, guessed likewise.
double sl_store_guess_edges(const struct sl_config *config, const struct sl_dataset *ds);

// Decides what the job leaves open and says why. `found` is what is expected of an epoch; NULL: not
// known, it is guessed by fanouts and the mean degree, and all is read equally often. cache.policy
// is no longer "auto".
void sl_store_prefer(struct sl_config *config, const struct sl_dataset *ds,
                     uint64_t available_bytes, const struct sl_store_foreseen *found);

#endif
