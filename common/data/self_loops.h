/*
 * self_loops.h - how many in-edges of a vertex are edges from itself.
 *
 * GCN and GAT drop a graph's own self-loops and count every vertex as its own neighbour once, so
 * they need in-degrees without self-loops. Most graphs have none, which one pass over the edges
 * finds out; for others a bit a vertex says where to look. Where no vertex has several of them,
 * which is nearly always, the bit is also the number; otherwise the vertex's list is searched.
 */
#ifndef SL_DATA_SELF_LOOPS_H
#define SL_DATA_SELF_LOOPS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/data/dataset.h"

struct sl_self_loops {
    const struct sl_dataset *dataset; // borrowed
    uint64_t n_vertices;              // that have one or more
    uint64_t n_loops;                 // all of them together
    uint64_t *has;                    // a bit a vertex; NULL where n_vertices is 0
    // (n_nodes) edges from each vertex to others, modulo 2^32; NULL unless counted
    uint32_t *out_degree;
};

// Nothing where the data set's validation found none. Else a pass over the edges, two where there
// are self-loops, on `threads` threads (0: all cores).
// SL_ENOMEM.
int sl_self_loops_find(const struct sl_dataset *dataset, int threads, struct sl_self_loops *out);
void sl_self_loops_free(struct sl_self_loops *loops); // safe on a zeroed struct

// In-degree of v without self-loops.
uint64_t sl_self_loops_degree(const struct sl_self_loops *loops, uint64_t v);

// Sets out_degree: one pass over the edges, 4 bytes a vertex. SL_ENOMEM.
int sl_self_loops_count_out(struct sl_self_loops *loops, int threads);

#endif
