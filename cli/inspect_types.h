// inspect_types.h - what `sluice inspect` says of types of vertices and relations.
#ifndef SL_CLI_INSPECT_TYPES_H
#define SL_CLI_INSPECT_TYPES_H

#include <cjson/cJSON.h>
#include <stdint.h>

#include "common/data/dataset.h"

struct sl_relation_degrees {
    uint64_t max, n_empty; // rows without an edge
};

struct sl_types_summary {
    const struct sl_dataset *ds;
    struct sl_relation_degrees *degrees; // (n_relations), NULL of a plain graph
    uint64_t *unreached; // (n_types) vertices without an edge to them, of whatever relation
};

// Two passes over the offsets. SL_ENOMEM.
int sl_types_summary_make(struct sl_types_summary *s, const struct sl_dataset *ds);
void sl_types_summary_fini(struct sl_types_summary *s); // safe on a zeroed struct

// Two tables; nothing of a plain graph.
void sl_types_summary_print(const struct sl_types_summary *s);
void sl_types_summary_to_json(const struct sl_types_summary *s, cJSON *root);

#endif
