/*
 * symmetric.h - a data set's graph as METIS takes it: each pair of neighbours in both rows, once,
 * no vertex beside itself, in 32-bit numbers.
 *
 * METIS takes other graphs too and answers OK, with a cut that is none.
 */
#ifndef SL_PARTITION_SYMMETRIC_H
#define SL_PARTITION_SYMMETRIC_H

#include "partition/parts.h"

struct sl_symmetric_graph {
    uint64_t n_nodes, n_entries; // an edge is two entries
    int32_t *offsets;            // (n_nodes + 1)
    int32_t *neighbours;         // (n_entries), rows in no order
};

// Memory while it is made: 8 bytes an edge of the data set and 12 a vertex. What is left has 4 an
// entry and 4 a vertex.
uint64_t sl_symmetric_graph_bytes(const struct sl_dataset *ds);

/*
 * O(V + E), by one thread. SL_ERANGE for a graph that 32-bit numbers cannot hold, SL_ENOMEM,
 * SL_EABORTED.
 */
int sl_symmetric_graph_make(const struct sl_parts_task *t, struct sl_symmetric_graph *out);
void sl_symmetric_graph_free(struct sl_symmetric_graph *g); // safe on a zeroed struct

#endif
