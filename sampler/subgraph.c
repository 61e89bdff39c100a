#include "sampler/subgraph.h"

#include "common/base/error.h"

// What a hop is made of, and how far it is.
struct hop {
    const struct sl_topology *topology;
    const struct sl_idmap *map;
    const uint32_t *nodes;
    bool by_weight, edge_ids;
    struct sl_hop_room room;
    uint64_t n_edges;
};

// Whether edge e of the graph comes from a vertex of the batch, and from which.
static bool comes_from_batch(const struct hop *hop, uint64_t e, uint32_t *local)
{
    const struct sl_dataset *ds = &hop->topology->dataset;
    return sl_idmap_lookup(hop->map, sl_dataset_source(ds, e), local) &&
           !(hop->by_weight && ds->edge_weight[e] == 0);
}

static int add_edge(struct hop *hop, uint32_t source, uint64_t edge_id)
{
    if (hop->n_edges == UINT32_MAX)
        return sl_fail(SL_EUNSUPPORTED,
                       "sampling: a batch with more than %u edges between its vertices: choose a "
                       "smaller sampler.batch_size or sampler.fanout",
                       UINT32_MAX);
    if (hop->n_edges == hop->room.edges)
        return SL_EAGAIN;
    if (hop->edge_ids)
        ((uint64_t *)hop->room.second)[hop->n_edges] = edge_id;
    hop->room.indices[hop->n_edges++] = source;
    return SL_OK;
}

static int induce_row(struct hop *hop, uint32_t row)
{
    const uint64_t *indptr = &hop->topology->dataset.indptr[hop->nodes[row]];
    uint32_t source;
    for (uint64_t e = indptr[0]; e < indptr[1]; e++)
        if (comes_from_batch(hop, e, &source))
            SL_TRY(add_edge(hop, source, e));
    return SL_OK;
}

int sl_subgraph_add(const struct sl_topology *topology, const struct sl_draw_plan *plan,
                    const struct sl_idmap *map, const uint32_t *nodes, struct sl_block *block,
                    struct sl_block_cursor *c)
{
    const uint32_t h = plan->n_hops, n = block->n_nodes[h], beside = sl_draw_plan_beside(plan);
    struct hop hop = {
        .topology = topology,
        .map = map,
        .nodes = nodes,
        .by_weight = sl_sampler_flags[plan->kind] & SL_SAMPLER_BY_WEIGHT,
        .edge_ids = plan->edge_ids,
    };
    if (!sl_block_begin_hop(c, &block->hop[h], n, UINT32_MAX, beside, &hop.room))
        return SL_EAGAIN;
    sl_topology_read_ahead(topology, nodes + block->n_nodes[h - 1], n - block->n_nodes[h - 1]);
    hop.room.indptr[0] = 0;
    for (uint32_t row = 0; row < n; row++) {
        SL_TRY(induce_row(&hop, row));
        hop.room.indptr[row + 1] = (uint32_t)hop.n_edges;
    }
    sl_block_end_hop(c, &block->hop[h], (uint32_t)hop.n_edges, beside, &hop.room);
    block->n_nodes[h + 1] = n;
    block->n_edges += hop.n_edges;
    return SL_OK;
}
