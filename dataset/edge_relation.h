// edge_relation.h - the relation of a graph of several types whose edges are held out, and what
// metadata.json says of it.
#ifndef SL_DATASET_EDGE_RELATION_H
#define SL_DATASET_EDGE_RELATION_H

#include <stdbool.h>
#include <stdint.h>

#include "common/data/typed.h"

struct cJSON;

// The relation of that name; *out is NULL of a plain graph, which has none. `who`: for messages.
// SL_EINVAL: it is not there, or there is no name.
int sl_edge_relation_find(const struct sl_typed *typed, const char *name, const char *who,
                          const struct sl_relation **out);

// The relation that has its reverses, as metadata.json says; NULL: none does, or nothing says so.
// `wanted`: of one within a type nothing need say so, and SL_EINVAL where there is none.
int sl_edge_relation_reverse(const struct sl_typed *typed, const struct sl_relation *linked,
                             bool wanted, const char *who, const struct sl_relation **out);

// How many edges each relation has now, whose rows end at `offsets` (n_rows + 1), and that pairs
// are of `linked`. SL_EINVAL where it and its reverse (NULL: none) have not lost the same edges.
int sl_edge_relation_write(const struct sl_typed *typed, const struct sl_relation *linked,
                           const struct sl_relation *back, const int64_t *offsets, const char *who,
                           struct cJSON *root);

#endif
