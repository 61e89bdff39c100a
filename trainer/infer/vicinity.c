#include "trainer/infer/vicinity.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/mempool.h"
#include "kernels/kernels.h"

enum { ARRAY_ALIGN = 64 };

// A type's vertices in the block.
struct sl_vicinity_part {
    struct sl_idmap *map;
    uint32_t *nodes;
    uint64_t room; // of nodes
    uint32_t n, largest;
    uint32_t after[SL_MAX_HOPS + 1]; // n after so many hops
};

// A relation's edges: those of hop h are of the first part.after[h] rows.
struct sl_vicinity_lists {
    uint32_t *indptr, *indices;
    uint64_t *edge_ids; // NULL: its edges have no features
    float *visits;      // of walks
    uint64_t rows_room, edges_room, ids_room, visits_room;
    uint32_t n_rows, n_edges;
    uint64_t indptr_at, indices_at, beside_at; // in the block: edge_ids or visits
};

static const struct sl_typed *types_of(const struct sl_vicinity *v)
{
    return &v->dataset->typed;
}

static int fail_memory(uint64_t bytes)
{
    return sl_fail(
        SL_ENOMEM,
        "no memory for %llu bytes of vertices with all their neighbours: free memory; of "
        "predictions, make --chunk smaller",
        (unsigned long long)bytes);
}

// Room for n numbers of `each` bytes where `array`, a pointer to them, is kept; those that there
// are stay.
static int grow(void *array, uint64_t *room, uint64_t n, size_t each)
{
    void *p;
    if (n <= *room)
        return SL_OK;
    n += n / 4;
    memcpy(&p, array, sizeof p);
    p = realloc(p, n * each);
    if (!p)
        return fail_memory(n * each);
    memcpy(array, &p, sizeof p);
    *room = n;
    return SL_OK;
}

int sl_vicinity_init(struct sl_vicinity *v, const struct sl_dataset *ds)
{
    const struct sl_typed *t = &ds->typed;
    *v = (struct sl_vicinity){.dataset = ds};
    v->part = calloc(t->n_types, sizeof *v->part);
    v->lists = calloc(SL_MAX(t->n_relations, 1u), sizeof *v->lists);
    if (!v->part || !v->lists)
        return sl_fail(SL_ENOMEM, "no memory for %u types", t->n_types);
    for (uint32_t i = 0; i < t->n_types; i++)
        SL_TRY(sl_idmap_create(1, &v->part[i].map));
    return SL_OK;
}

void sl_vicinity_fini(struct sl_vicinity *v)
{
    for (uint32_t t = 0; v->part && t < types_of(v)->n_types; t++) {
        sl_idmap_destroy(v->part[t].map);
        free(v->part[t].nodes);
    }
    for (uint32_t r = 0; v->lists && r < types_of(v)->n_relations; r++) {
        free(v->lists[r].indptr);
        free(v->lists[r].indices);
        free(v->lists[r].edge_ids);
        free(v->lists[r].visits);
    }
    free(v->part);
    free(v->lists);
    free(v->place);
    sl_pages_free(v->block, v->block_room);
    *v = (struct sl_vicinity){0};
}

// ---- vertices and edges -------------------------------------------------------------------------

// The number in the part of each of these vertices, which takes the vertex's place in `ids`.
static int number(struct sl_vicinity *v, uint32_t type, uint32_t *ids, uint32_t n)
{
    struct sl_vicinity_part *p = &v->part[type];
    SL_TRY(grow(&p->nodes, &p->room, SL_MIN(p->n + (uint64_t)n, types_of(v)->type[type].n),
                sizeof *p->nodes));
    const uint32_t room = (uint32_t)SL_MIN(p->room, (uint64_t)UINT32_MAX);
    for (uint32_t i = 0; i < n; i++)
        SL_TRY(sl_idmap_insert(p->map, ids[i], p->nodes, &p->n, room, &ids[i]));
    return SL_OK;
}

static int begin(struct sl_vicinity *v, uint32_t type, const struct sl_infer_range *range)
{
    for (uint32_t t = 0; t < types_of(v)->n_types; t++) {
        struct sl_vicinity_part *p = &v->part[t];
        p->largest = SL_MAX(p->largest, p->n);
        p->n = 0;
        memset(p->after, 0, sizeof p->after);
        SL_TRY(sl_idmap_reset(p->map, SL_MAX(p->largest, 1u)));
    }
    for (uint32_t r = 0; r < types_of(v)->n_relations; r++)
        v->lists[r].n_rows = v->lists[r].n_edges = 0;
    v->n_edges = 0;
    SL_TRY(grow(&v->place, &v->place_room, range->n, sizeof *v->place));
    for (uint32_t i = 0; i < range->n; i++)
        v->place[i] = (uint32_t)sl_infer_vertex(range, i);
    SL_TRY(number(v, type, v->place, range->n));
    v->part[type].after[0] = v->part[type].n;
    return SL_OK;
}

// Behind those that are there, the numbers of the n edges that are in a row's list.
static int number_edges(struct sl_vicinity *v, uint64_t row, uint32_t n,
                        struct sl_vicinity_lists *to)
{
    const struct sl_dataset *ds = v->dataset;
    SL_TRY(grow(&to->edge_ids, &to->ids_room, to->n_edges + (uint64_t)n, sizeof *to->edge_ids));
    uint64_t *ids = to->edge_ids + to->n_edges;
    for (uint64_t e = ds->indptr[row]; e < ds->indptr[row + 1]; e++)
        if (!ds->present || ds->present[e] > 0)
            *ids++ = e;
    return SL_OK;
}

static int add_row(struct sl_vicinity *v, uint32_t relation, uint32_t vertex,
                   struct sl_vicinity_lists *to)
{
    const struct sl_relation *r = &types_of(v)->relation[relation];
    const uint64_t row = sl_relation_row(types_of(v), r, vertex);
    const uint64_t most = v->neighbours ? sl_neighbours_bound(v->neighbours, v->layer, relation)
                                        : sl_dataset_degree(v->dataset, row);
    uint32_t n;
    if (v->n_edges + most > v->most_edges)
        return SL_ERANGE;
    SL_TRY(grow(&to->indices, &to->edges_room, to->n_edges + most, sizeof *to->indices));
    uint32_t *sources = to->indices + to->n_edges;
    if (v->neighbours) {
        SL_TRY(grow(&to->visits, &to->visits_room, to->n_edges + most, sizeof *to->visits));
        SL_TRY(sl_neighbours_draw(v->neighbours, v->layer, relation, vertex, sources,
                                  to->visits + to->n_edges, &n));
    } else {
        n = sl_infer_neighbours(v->dataset, row, sources);
    }
    SL_TRY(number(v, r->source, sources, n));
    if (r->feat_dim > 0 && n > 0)
        SL_TRY(number_edges(v, row, n, to));
    to->n_edges += n;
    v->n_edges += n;
    to->indptr[++to->n_rows] = to->n_edges;
    return SL_OK;
}

// The rows of all that the hop before has found.
static int add_hop(struct sl_vicinity *v, uint32_t h)
{
    const struct sl_typed *t = types_of(v);
    for (uint32_t i = 0; i < t->n_relations; i++) {
        const struct sl_relation *r = &t->relation[i];
        const uint32_t n_dst = v->part[r->target].after[h];
        struct sl_vicinity_lists *to = &v->lists[i];
        SL_TRY(grow(&to->indptr, &to->rows_room, n_dst + (uint64_t)1, sizeof *to->indptr));
        to->indptr[0] = 0;
        while (to->n_rows < n_dst)
            SL_TRY(add_row(v, i, v->part[r->target].nodes[to->n_rows], to));
    }
    for (uint32_t i = 0; i < t->n_types; i++)
        v->part[i].after[h + 1] = v->part[i].n;
    return SL_OK;
}

// ---- the block ----------------------------------------------------------------------------------

static uint64_t take(uint64_t *at, uint64_t bytes)
{
    const uint64_t here = *at;
    *at = sl_align_up(here + bytes, (uint64_t)ARRAY_ALIGN);
    return here;
}

// An empty one of `bytes`, or what the last one had.
static int open_block(struct sl_vicinity *v, uint64_t bytes)
{
    if (bytes > v->block_room) {
        sl_pages_free(v->block, v->block_room);
        v->block_room = bytes + bytes / 4;
        v->block = sl_pages_alloc(v->block_room);
        if (!v->block)
            return fail_memory(v->block_room);
    }
    return SL_OK;
}

// Header, tables of both, nodes and lists; runs are still to be named.
static int place_arrays(struct sl_vicinity *v, uint32_t n_hops)
{
    const struct sl_typed *t = types_of(v);
    struct sl_block head = {.magic = SL_BLOCK_MAGIC,
                            .flags = SL_BLOCK_TYPED | (v->neighbours ? SL_BLOCK_HAS_WEIGHTS : 0),
                            .n_hops = n_hops};
    uint64_t first = 0;
    for (uint32_t i = 0; i < t->n_types; i++)
        for (uint32_t h = 0; h <= n_hops; h++)
            head.n_nodes[h] += v->part[i].after[h];
    head.n_seeds = head.n_nodes[0];
    head.n_input = head.n_nodes[n_hops];
    take(&head.bytes, sizeof head);
    head.typed_offset = take(&head.bytes, sizeof(struct sl_block_typed) +
                                              t->n_types * sizeof(struct sl_block_type));
    const uint64_t runs =
        take(&head.bytes, (uint64_t)n_hops * t->n_relations * sizeof(struct sl_block_run));
    head.nodes_offset = take(&head.bytes, head.n_input * sizeof(uint32_t));
    for (uint32_t i = 0; i < t->n_relations; i++) {
        struct sl_vicinity_lists *l = &v->lists[i];
        l->indptr_at = take(&head.bytes, (l->n_rows + (uint64_t)1) * sizeof *l->indptr);
        l->indices_at = take(&head.bytes, l->n_edges * sizeof *l->indices);
        if (v->neighbours)
            l->beside_at = take(&head.bytes, l->n_edges * sizeof *l->visits);
        else
            l->beside_at = l->edge_ids ? take(&head.bytes, l->n_edges * sizeof *l->edge_ids) : 0;
        head.flags |= l->edge_ids ? SL_BLOCK_HAS_EDGE_IDS : 0;
    }
    SL_TRY(open_block(v, head.bytes));
    char *base = (char *)v->block;
    *v->block = head;
    struct sl_block_typed *table = (void *)(base + head.typed_offset);
    struct sl_block_type *type = (void *)(table + 1);
    *table = (struct sl_block_typed){.n_types = t->n_types, .runs_offset = runs};
    for (uint32_t i = 0; i < t->n_types; first += v->part[i++].n) {
        const struct sl_vicinity_part *p = &v->part[i];
        type[i].first = (uint32_t)first;
        memcpy(type[i].n, p->after, sizeof type[i].n);
        if (p->n > 0)
            memcpy(base + head.nodes_offset + first * sizeof *p->nodes, p->nodes,
                   p->n * sizeof *p->nodes);
    }
    return SL_OK;
}

static void place_lists(struct sl_vicinity *v)
{
    char *base = (char *)v->block;
    for (uint32_t i = 0; i < types_of(v)->n_relations; i++) {
        const struct sl_vicinity_lists *l = &v->lists[i];
        memcpy(base + l->indptr_at, l->indptr, (l->n_rows + (size_t)1) * sizeof *l->indptr);
        if (l->n_edges > 0)
            memcpy(base + l->indices_at, l->indices, l->n_edges * sizeof *l->indices);
        if (l->n_edges > 0 && l->edge_ids)
            memcpy(base + l->beside_at, l->edge_ids, l->n_edges * sizeof *l->edge_ids);
        if (l->n_edges > 0 && v->neighbours)
            memcpy(base + l->beside_at, l->visits, l->n_edges * sizeof *l->visits);
    }
}

// A hop's run is the first part of its relation's rows.
static void place_runs(struct sl_vicinity *v)
{
    const struct sl_typed *t = types_of(v);
    struct sl_block *b = v->block;
    struct sl_block_typed *table = (void *)((char *)b + b->typed_offset);
    struct sl_block_run *run = (void *)((char *)b + table->runs_offset);
    for (uint32_t h = 0; h < b->n_hops; h++) {
        b->hop[h].n_dst = b->n_nodes[h];
        for (uint32_t i = 0; i < t->n_relations; i++) {
            const struct sl_vicinity_lists *l = &v->lists[i];
            const uint32_t n_dst = v->part[t->relation[i].target].after[h];
            if (l->indptr[n_dst] == 0)
                continue;
            run[table->n_runs++] = (struct sl_block_run){.hop = h,
                                                         .relation = i,
                                                         .n_dst = n_dst,
                                                         .n_edges = l->indptr[n_dst],
                                                         .indptr_offset = l->indptr_at,
                                                         .indices_offset = l->indices_at,
                                                         .beside_offset = l->beside_at};
            b->hop[h].n_edges += l->indptr[n_dst];
        }
    }
    b->n_edges = v->n_edges;
}

int sl_vicinity_find(struct sl_vicinity *v, uint32_t type, const struct sl_infer_range *range,
                     uint32_t n_hops, uint64_t most_edges)
{
    v->most_edges = SL_MIN(most_edges, (uint64_t)UINT32_MAX);
    SL_TRY(begin(v, type, range));
    for (uint32_t h = 0; h < n_hops; h++)
        SL_TRY(add_hop(v, h));
    SL_TRY(place_arrays(v, n_hops));
    place_lists(v);
    place_runs(v);
    return SL_OK;
}
