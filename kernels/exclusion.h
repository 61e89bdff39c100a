// exclusion.h - edges that a batch does not see, and how they are found in the graph.
#ifndef SL_KERNELS_EXCLUSION_H
#define SL_KERNELS_EXCLUSION_H

#include "kernels/kernels.h"

// Edges that a batch does not see: its hops are those of the graph without them, edge_ids and the
// grid of weights (weighted_internal.h) apart, which stay those of the whole graph. They are edges
// of the vertices with the local ids 0 .. n_rows - 1.
struct sl_excluded {
    uint32_t n_rows;
    const uint32_t *offsets; // (n_rows + 1) of each row's into `place`
    const uint32_t *place;   // where in the vertex's list each stands, rising, none twice
};

// Of a step of a metapath: those of rows[0 .. of->n_rows), whose numbers `map` has. of NULL: none.
struct sl_walk_excluded {
    const struct sl_excluded *of;
    const struct sl_idmap *map;
    const uint32_t *rows;
};

// Edges that a batch is to predict and must not see: `pairs` as local ids.
struct sl_target_edges {
    const uint32_t *pairs; // (n, 2)
    uint64_t n;
    bool reverse; // neither are the edges from each pair's second vertex to its first
    bool swapped; // each pair's source is its second vertex
};

// Who excludes edges: what was found, and memory that has grown to the largest batch.
struct sl_exclusion {
    struct sl_excluded found; // valid until the next search
    uint32_t *place;
    uint64_t n, capacity;
    void *scratch;
    uint64_t scratch_bytes;
};

// Finds the target edges between the vertices nodes[0 .. n_rows), all copies of each; a pair that
// is no edge excludes nothing. SL_EINVAL for an end that is not below n_rows, SL_ENOMEM.
int sl_exclusion_find(struct sl_exclusion *x, const struct sl_topology_view *topology,
                      const uint32_t *nodes, uint32_t n_rows,
                      const struct sl_target_edges *targets);
void sl_exclusion_fini(struct sl_exclusion *x); // safe on a zeroed struct
// Memory that it holds.
static inline uint64_t sl_exclusion_bytes(const struct sl_exclusion *x)
{
    return x->scratch_bytes + x->capacity * sizeof *x->place;
}

#endif
