#include "sampler/subgraph.h"

#include <string.h>

#include "common/base/error.h"
#include "common/base/mempool.h"
#include "kernels/exclusion.h"

// What a hop is made of, and how far it is.
struct hop {
    const struct sl_topology *topology;
    const struct sl_excluded *excluded; // or NULL
    const struct sl_idmap *map;
    const uint32_t *nodes;
    bool by_weight, edge_ids;
    struct sl_hop_room room;
    uint64_t n_edges;
};

// Where the list of a vertex begins.
static uint64_t first_edge(const struct hop *hop, uint64_t vertex)
{
    return hop->topology->dataset.indptr[vertex];
}

// Whether edge e of the graph comes from a vertex of the batch, and from which.
static bool comes_from_batch(const struct hop *hop, uint64_t e, uint32_t *local)
{
    const struct sl_dataset *ds = &hop->topology->dataset;
    return sl_idmap_lookup(hop->map, sl_dataset_source(ds, e), local) &&
           !(hop->by_weight && ds->edge_weight[e] == 0);
}

// The excluded places of a row's list that are still ahead.
struct excluded_places {
    const uint32_t *next, *end;
};

static struct excluded_places excluded_places(const struct hop *hop, uint32_t row)
{
    const struct sl_excluded *x = hop->excluded;
    if (!x || row >= x->n_rows)
        return (struct excluded_places){0};
    return (struct excluded_places){x->place + x->offsets[row], x->place + x->offsets[row + 1]};
}

// Whether the edge there is excluded; all places are asked about in their order.
static bool is_excluded(struct excluded_places *x, uint64_t place)
{
    if (x->next == x->end || *x->next != place)
        return false;
    x->next++;
    return true;
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
    const uint64_t end = first_edge(hop, hop->nodes[row] + 1);
    const uint64_t first = first_edge(hop, hop->nodes[row]);
    struct excluded_places out = excluded_places(hop, row);
    uint32_t source;
    for (uint64_t e = first; e < end; e++)
        if (!is_excluded(&out, e - first) && comes_from_batch(hop, e, &source))
            SL_TRY(add_edge(hop, source, e));
    return SL_OK;
}

// ---- and back -----------------------------------------------------------------------------------

// The edges that were drawn, and those that go back by the vertex that they go to.
struct back {
    const uint32_t *indptr, *indices;
    const uint64_t *edge_ids;
    uint32_t n_rows;
    uint32_t *start; // (n + 1) of those to each vertex
    uint32_t *from;  // (n_edges) where they come from: the row of a drawn edge, rising
    uint32_t *drawn; // (n_edges) which one
    uint32_t *seen;  // (n) 1 + the last row that has the vertex as a source
    uint64_t *edge;  // (n) number in the graph, of sources that one is looked for
};

#define WANTED UINT64_MAX

static int reserve(struct sl_subgraph_room *s, uint64_t bytes)
{
    if (bytes <= s->bytes)
        return SL_OK;
    void *scratch = sl_pages_alloc(bytes + bytes / 4);
    if (!scratch)
        return sl_fail(SL_ENOMEM, "sampling: no memory for the edges of a bidirectional batch");
    sl_pages_free(s->scratch, s->bytes);
    s->scratch = scratch;
    s->bytes = bytes + bytes / 4;
    return SL_OK;
}

// Those that go back, sorted by counting.
static int turn_edges(struct sl_subgraph_room *s, const struct sl_block *block, uint32_t last,
                      struct back *b)
{
    const struct sl_block_view view = sl_block_here(block);
    const uint64_t n = block->n_nodes[last + 1], n_edges = block->hop[last].n_edges;
    SL_TRY(reserve(s, n * sizeof *b->edge + (2 * n + 2 + 2 * n_edges) * sizeof *b->from));
    *b = (struct back){
        .indptr = sl_view_indptr(view, last),
        .indices = sl_view_indices(view, last),
        .edge_ids = sl_view_edge_ids(view, last),
        .n_rows = block->hop[last].n_dst,
        .edge = s->scratch,
    };
    b->seen = (uint32_t *)(b->edge + n);
    b->start = b->seen + n;
    b->from = b->start + n + 2;
    b->drawn = b->from + n_edges;
    memset(b->edge, 0, (const char *)b->from - (const char *)b->edge);
    // start[v + 1] is where the next one to v goes, and so in the end where they end.
    for (uint64_t e = 0; e < n_edges; e++)
        b->start[b->indices[e] + 2]++;
    for (uint64_t v = 1; v <= n; v++)
        b->start[v + 1] += b->start[v];
    for (uint32_t row = 0; row < b->n_rows; row++)
        for (uint32_t e = b->indptr[row]; e < b->indptr[row + 1]; e++) {
            const uint32_t at = b->start[b->indices[e] + 1]++;
            b->from[at] = row;
            b->drawn[at] = e;
        }
    return SL_OK;
}

// Looks for the numbers of edges to a row from these sources (n), all different.
static void find_numbers(const struct hop *hop, struct back *b, uint32_t row,
                         const uint32_t *sources, uint32_t n)
{
    const uint64_t end = first_edge(hop, hop->nodes[row] + 1);
    const uint64_t first = first_edge(hop, hop->nodes[row]);
    struct excluded_places out = excluded_places(hop, row);
    uint32_t source, left = n;
    for (uint32_t i = 0; i < n; i++)
        b->edge[sources[i]] = WANTED;
    for (uint64_t e = first; e < end && left > 0; e++)
        if (!is_excluded(&out, e - first) && comes_from_batch(hop, e, &source) &&
            b->edge[source] == WANTED) {
            b->edge[source] = e;
            left--;
        }
}

// An edge from a vertex to itself is its own way back: it is seen.
static int turn_row(struct hop *hop, struct back *b, uint32_t row)
{
    const uint32_t stamp = row + 1;
    if (row < b->n_rows)
        for (uint32_t e = b->indptr[row]; e < b->indptr[row + 1]; e++) {
            b->seen[b->indices[e]] = stamp;
            SL_TRY(add_edge(hop, b->indices[e], hop->edge_ids ? b->edge_ids[e] : 0));
        }
    uint32_t *from = b->from + b->start[row], *drawn = b->drawn + b->start[row], n = 0;
    for (uint32_t i = 0; i < b->start[row + 1] - b->start[row]; i++) {
        if (b->seen[from[i]] == stamp)
            continue;
        b->seen[from[i]] = stamp;
        from[n] = from[i];
        drawn[n++] = drawn[i];
    }
    if (hop->edge_ids)
        find_numbers(hop, b, row, from, n);
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t found = b->edge[from[i]];
        b->edge[from[i]] = 0;
        SL_TRY(add_edge(hop, from[i], found == WANTED ? b->edge_ids[drawn[i]] : found));
    }
    return SL_OK;
}

void sl_subgraph_fini(struct sl_subgraph_room *s)
{
    sl_pages_free(s->scratch, s->bytes);
    *s = (struct sl_subgraph_room){0};
}

int sl_subgraph_add(struct sl_subgraph_room *s, const struct sl_topology *topology,
                    const struct sl_draw_plan *plan, const struct sl_excluded *excluded,
                    const struct sl_idmap *map, const uint32_t *nodes, struct sl_block *block,
                    struct sl_block_cursor *c)
{
    const uint32_t h = plan->n_hops, n = block->n_nodes[h], beside = sl_draw_plan_beside(plan);
    struct hop hop = {
        .topology = topology,
        .excluded = excluded,
        .map = map,
        .nodes = nodes,
        .by_weight = sl_sampler_flags[plan->kind] & SL_SAMPLER_BY_WEIGHT,
        .edge_ids = plan->edge_ids,
    };
    if (!sl_block_begin_hop(c, &block->hop[h], n, UINT32_MAX, beside, &hop.room))
        return SL_EAGAIN;
    sl_topology_read_ahead(topology, &topology->view, NULL, nodes + block->n_nodes[h - 1],
                           n - block->n_nodes[h - 1]);
    const bool turns = plan->subgraph == SL_SUBGRAPH_BIDIRECTIONAL;
    struct back back = {0};
    if (turns)
        SL_TRY(turn_edges(s, block, h - 1, &back));
    hop.room.indptr[0] = 0;
    for (uint32_t row = 0; row < n; row++) {
        SL_TRY(turns ? turn_row(&hop, &back, row) : induce_row(&hop, row));
        hop.room.indptr[row + 1] = (uint32_t)hop.n_edges;
    }
    sl_block_end_hop(c, &block->hop[h], (uint32_t)hop.n_edges, beside, &hop.room);
    block->n_nodes[h + 1] = n;
    block->n_edges += hop.n_edges;
    return SL_OK;
}
