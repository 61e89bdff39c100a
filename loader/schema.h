// schema.h - types and relations of a loader's graph as include/sluice.h has them.
#ifndef SL_LOADER_SCHEMA_H
#define SL_LOADER_SCHEMA_H

#include "common/data/dataset.h"
#include "config/config.h"
#include <sluice.h>

struct sl_schema {
    struct sluice_vertex_type *types; // (n_types) names are the data set's
    struct sluice_relation *relations;
};

// Of a plain graph nothing is there. The job's relations have been found
// (sl_config_find_relations()). SL_ENOMEM.
int sl_schema_init(struct sl_schema *s, const struct sl_typed *typed, const struct sl_config *c);
void sl_schema_fini(struct sl_schema *s); // safe on a zeroed struct

// What a typed block says beside sl_batch_describe().
struct sl_block;
void sl_batch_describe_types(const struct sl_block *h, struct sluice_batch *b);

#endif
