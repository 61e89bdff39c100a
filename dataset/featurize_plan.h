/*
 * featurize_plan.h - which types of a graph get features, from which relations, in which order.
 *
 * A round fills every type that has none and that a relation reaches from a type that has some, be
 * it by an earlier round. So features spread one relation further with each round.
 */
#ifndef SL_DATASET_FEATURIZE_PLAN_H
#define SL_DATASET_FEATURIZE_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "common/data/dataset.h"

struct sl_featurize_step {
    uint32_t type, round; // round from 1
    uint32_t dim;
    enum sl_dtype dtype; // F16 where all sources have that, else F32
    uint32_t n_relations;
    uint32_t *relation; // (n_relations)
};

struct sl_featurize_plan {
    uint32_t n_steps;
    struct sl_featurize_step *step; // in the order in which they are made
    bool *wanted;                   // (n_types) types that are to get features
    bool *chosen;                   // (n_relations) relations that may be used
    uint32_t *dim;                  // (n_types) that a type has by now, 0 = none
    enum sl_dtype *dtype;           // (n_types)
    const struct sl_dataset *ds;
};

/*
 * types: names between commas, NULL: all without features. by: relations between commas, each NAME
 * or SOURCE:NAME:TARGET, NULL: all. SL_EINVAL where a name is none, a type that is named cannot get
 * features, relations to a type come from features of several widths, or there is nothing to do.
 */
int sl_featurize_plan_make(const struct sl_dataset *ds, const char *types, const char *by,
                           struct sl_featurize_plan *plan);
void sl_featurize_plan_fini(struct sl_featurize_plan *plan); // safe on a zeroed struct

#endif
