// edge.h - how the samplers read a neighbour and put an edge down.
#ifndef SL_KERNELS_REF_EDGE_H
#define SL_KERNELS_REF_EDGE_H

#include <stdint.h>

#include "common/base/dtype.h"
#include "common/base/error.h"
#include "kernels/excluded_internal.h"
#include "kernels/idmap_internal.h"
#include "kernels/khop_internal.h"

static inline uint32_t sl_ref_neighbour(const struct sl_topology_view *t, uint64_t position)
{
    if (sl_dtype_bytes(t->indices_dtype) == 4)
        return ((const uint32_t *)t->indices)[position];
    return (uint32_t)((const uint64_t *)t->indices)[position];
}

// Where in the whole row the edge stands that is number x of those that are not excluded.
static inline uint32_t sl_ref_place(struct sl_excluded_row out, uint32_t x)
{
    for (uint32_t i = 0; i < out.n && out.at[i] <= x; i++)
        x++;
    return x;
}

// The row's next neighbour is `vertex`, which gets a local id unless it has one. SL_OK, or
// SL_ERANGE when one of the capacities is reached.
static inline int sl_ref_add_neighbour(const struct sl_khop_args *args, uint32_t vertex,
                                       uint64_t *n_edges)
{
    if (*n_edges >= args->indices_capacity || *n_edges >= UINT32_MAX)
        return sl_khop_fail_indices(args, *n_edges + 1);
    uint32_t *local = &args->indices[(*n_edges)++];
    return sl_idmap_insert(args->map, vertex, args->nodes, args->n_nodes, args->nodes_capacity,
                           local);
}

// The same for the source of the edge at a position of the graph's list.
static inline int sl_ref_add_edge(const struct sl_khop_args *args, uint64_t position,
                                  uint64_t *n_edges)
{
    const uint64_t e = *n_edges;
    SL_TRY(sl_ref_add_neighbour(args, sl_ref_neighbour(args->topology, position), n_edges));
    if (args->edge_ids)
        args->edge_ids[e] = position;
    return SL_OK;
}

#endif
