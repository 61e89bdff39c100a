/*
 * edge_lookup.h - whether a pair of vertices is an edge: of a data set's graph, or of that and of
 * its lists of edges. Of a typed graph the edges are those of one relation (sl_dataset_linked()),
 * and a target one of its type.
 */
#ifndef SL_DATA_EDGE_LOOKUP_H
#define SL_DATA_EDGE_LOOKUP_H

#include <stdbool.h>
#include <stdint.h>

#include "common/data/dataset.h"

struct sl_edge_lookup {
    const struct sl_dataset *ds;
    uint64_t n_listed;
    uint64_t *listed; // (n_listed) source << 32 | target, ascending; owned
};

// `lists`: edges of train_edges.npy, val_edges.npy and test_edges.npy count as well. The data set
// must outlive it. SL_ENOMEM.
int sl_edge_lookup_init(struct sl_edge_lookup *l, const struct sl_dataset *ds, bool lists);
// What that takes of memory: 8 bytes for each edge of the lists.
uint64_t sl_edge_lookup_bytes(const struct sl_dataset *ds, bool lists);
// Of n pairs (source, target) at once, whose searches go side by side.
void sl_edge_lookup_each(const struct sl_edge_lookup *l, uint32_t n, const uint32_t *pairs,
                         bool *has);
bool sl_edge_lookup_has(const struct sl_edge_lookup *l, uint32_t source, uint32_t target);
void sl_edge_lookup_fini(struct sl_edge_lookup *l); // safe on a zeroed struct

#endif
