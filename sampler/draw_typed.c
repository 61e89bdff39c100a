#include "sampler/draw_typed.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/philox.h"

enum { OFFSETS_AHEAD = 16 }; // vertices

static const struct sl_typed *types_of(const struct sl_typed_drawer *d)
{
    return &d->topology->dataset.typed;
}

int sl_typed_drawer_init(struct sl_typed_drawer *d, const struct sl_topology *topology,
                         const struct sl_kernels *kernels)
{
    *d = (struct sl_typed_drawer){.kernels = kernels, .topology = topology};
    const struct sl_typed *t = types_of(d);
    if (t->n_types == 0)
        return SL_OK;
    d->part = calloc(t->n_types, sizeof *d->part);
    d->rows = calloc(SL_MAX(t->n_relations, 1u), sizeof *d->rows);
    return d->part && d->rows ? SL_OK : sl_fail(SL_ENOMEM, "sampling: no memory for types");
}

void sl_typed_drawer_fini(struct sl_typed_drawer *d)
{
    for (uint32_t t = 0; d->part && t < types_of(d)->n_types; t++) {
        sl_idmap_destroy(d->part[t].map);
        sl_scratch_free(&d->part[t].nodes);
    }
    for (uint32_t r = 0; d->rows && r < types_of(d)->n_relations; r++) {
        sl_scratch_free(&d->rows[r].indptr);
        sl_scratch_free(&d->rows[r].indices);
        sl_scratch_free(&d->rows[r].beside);
        sl_timed_rows_fini(&d->rows[r].timed);
    }
    free(d->part);
    free(d->rows);
    sl_scratch_free(&d->runs);
    sl_exclusion_fini(&d->exclusion[0]);
    sl_exclusion_fini(&d->exclusion[1]);
    *d = (struct sl_typed_drawer){0};
}

uint64_t sl_typed_drawer_bytes(const struct sl_typed_drawer *d)
{
    uint64_t bytes =
        d->runs.bytes + sl_exclusion_bytes(&d->exclusion[0]) + sl_exclusion_bytes(&d->exclusion[1]);
    for (uint32_t t = 0; d->part && t < types_of(d)->n_types; t++)
        bytes += d->part[t].nodes.bytes + (d->part[t].map ? sl_idmap_bytes(d->part[t].map) : 0);
    for (uint32_t r = 0; d->rows && r < types_of(d)->n_relations; r++)
        bytes += d->rows[r].indptr.bytes + d->rows[r].indices.bytes + d->rows[r].beside.bytes +
                 sl_timed_rows_bytes(&d->rows[r].timed);
    return bytes;
}

int sl_typed_check_plan(const struct sl_draw_plan *plan, const struct sl_typed *typed)
{
    const char *odd = plan->subgraph != SL_SUBGRAPH_DIRECTIONAL ? "a subgraph of the vertices"
                      : plan->degrees                           ? "degrees"
                                                                : NULL;
    if (odd)
        return sl_fail(SL_EUNSUPPORTED,
                       "sampling: %s of a graph with several types: wanted a plain graph", odd);
    if (sl_draw_plan_has_visits(plan) == (typed->n_walked > 0))
        return SL_OK;
    return sl_fail(SL_EUNSUPPORTED,
                   "sampling: %s of a graph with several types: wanted walks along metapaths",
                   typed->n_walked > 0 ? "edges of metapaths" : "walks along no metapath");
}

// ---- vertices -----------------------------------------------------------------------------------

static uint32_t *nodes_of(const struct sl_typed_part *p)
{
    return p->nodes.p;
}

static uint32_t capacity_of(const struct sl_typed_part *p)
{
    return (uint32_t)(p->nodes.bytes / sizeof(uint32_t));
}

static int reserve_nodes(const struct sl_typed_drawer *d, uint32_t type, uint64_t more)
{
    struct sl_typed_part *p = &d->part[type];
    return sl_scratch_reserve(&p->nodes, p->n + more, p->n, types_of(d)->type[type].n,
                              sizeof(uint32_t));
}

static int begin_parts(struct sl_typed_drawer *d)
{
    for (uint32_t t = 0; t < types_of(d)->n_types; t++) {
        struct sl_typed_part *p = &d->part[t];
        p->n = 0;
        memset(p->after, 0, sizeof p->after);
        if (p->map)
            SL_TRY(sl_idmap_reset(p->map, SL_MAX(p->largest, 1u)));
    }
    for (uint32_t r = 0; r < types_of(d)->n_relations; r++)
        d->rows[r].n_rows = d->rows[r].n_edges = 0;
    d->n_runs = 0;
    return SL_OK;
}

static int make_map(struct sl_typed_part *p)
{
    return p->map ? SL_OK : sl_idmap_create(1, &p->map);
}

// Those of one type, (n).
static int put_seeds_of(struct sl_typed_drawer *d, uint32_t type, const uint32_t *seeds, uint32_t n)
{
    struct sl_typed_part *p = &d->part[type];
    uint32_t local;
    SL_TRY(make_map(p));
    SL_TRY(reserve_nodes(d, type, n));
    for (uint32_t i = 0; i < n; i++)
        SL_TRY(sl_idmap_insert(p->map, seeds[i], nodes_of(p), &p->n, capacity_of(p), &local));
    if (p->n != n)
        return sl_fail(SL_EPROTO,
                       "sampling: %u seeds, only %u of them different: wanted no vertex twice", n,
                       p->n);
    p->after[0] = n;
    return SL_OK;
}

static int put_seeds(struct sl_typed_drawer *d, const uint32_t *seeds, uint32_t n)
{
    uint32_t i = 0;
    for (uint32_t t = 0; t < types_of(d)->n_types; t++) {
        const struct sl_vertex_type *type = &types_of(d)->type[t];
        const uint32_t first = i;
        while (i < n && seeds[i] - type->first < type->n)
            i++;
        if (i > first)
            SL_TRY(put_seeds_of(d, t, seeds + first, i - first));
    }
    return SL_OK;
}

// ---- edges that the batch does not see ----------------------------------------------------------

// Finds those of a relation in the lists of all seeds, and keeps what is of its target type's.
static int exclude(struct sl_typed_drawer *d, const struct sl_draw_job *job, uint32_t which,
                   uint32_t relation, struct sl_target_edges targets)
{
    const struct sl_topology_view view = sl_topology_relation(d->topology, relation);
    const uint32_t target = types_of(d)->relation[relation].target;
    uint32_t first = 0;
    for (uint32_t t = 0; t < target; t++)
        first += d->part[t].after[0];
    SL_TRY(sl_exclusion_find(&d->exclusion[which], &view, job->seeds, job->n_seeds, &targets));
    d->excluded[which] = (struct sl_excluded){.n_rows = d->part[target].after[0],
                                              .offsets = d->exclusion[which].found.offsets + first,
                                              .place = d->exclusion[which].found.place};
    return SL_OK;
}

static int find_excluded(struct sl_typed_drawer *d, const struct sl_draw_job *job)
{
    const struct sl_typed *t = types_of(d);
    d->excluded[0] = d->excluded[1] = (struct sl_excluded){0};
    if (!job->targets)
        return SL_OK;
    const uint32_t reverse =
        job->targets->reverse ? sl_typed_reverse(t, t->linked) : SL_NO_RELATION;
    struct sl_target_edges of = *job->targets;
    of.reverse = reverse == t->linked;
    SL_TRY(exclude(d, job, 0, t->linked, of));
    if (reverse == SL_NO_RELATION || of.reverse)
        return SL_OK;
    of.swapped = true;
    return exclude(d, job, 1, reverse, of);
}

// What a draw of a relation does not see, or NULL.
static const struct sl_excluded *excluded_of(const struct sl_typed_drawer *d, uint32_t relation)
{
    if (d->excluded[0].n_rows > 0 && relation == types_of(d)->linked)
        return &d->excluded[0];
    const bool is_reverse =
        d->excluded[1].n_rows > 0 && relation == sl_typed_reverse(types_of(d), types_of(d)->linked);
    return is_reverse ? &d->excluded[1] : NULL;
}

// ---- one relation in one hop --------------------------------------------------------------------

struct draw {
    const struct sl_draw_plan *plan;
    uint32_t h, relation;
    int64_t fanout;
    struct sl_topology_view view;
    const struct sl_typed_part *target;
    struct sl_typed_part *source;
    uint32_t first, n_dst; // rows
    const uint32_t *rows;  // of the view; NULL: vertices, whose list may move
    uint64_t most;         // edges of these rows
    struct sl_walk_path along;
    float restart;
};

static uint64_t edges_bound(const struct draw *r)
{
    if (sl_draw_plan_has_visits(r->plan))
        return sl_draw_plan_most_met(r->plan, r->fanout) * (r->n_dst - r->first);
    if (r->fanout >= 0)
        return (uint64_t)r->fanout * (r->n_dst - r->first);
    const uint32_t *rows = nodes_of(r->target);
    uint64_t edges = 0;
    for (uint32_t i = r->first; i < r->n_dst; i++) {
        __builtin_prefetch(&r->view.indptr[rows[SL_MIN(i + OFFSETS_AHEAD, r->n_dst - 1)]]);
        edges += r->view.indptr[rows[i] + (uint64_t)1] - r->view.indptr[rows[i]];
    }
    return edges;
}

// The rows that the hop draws, as they are in the graph, or were by the seed's time.
static int find_rows(struct sl_typed_drawer *d, struct draw *r)
{
    const int64_t *time = sl_topology_relation_times(d->topology, r->relation);
    struct sl_timed_rows *timed = &d->rows[r->relation].timed;
    r->view = sl_topology_relation(d->topology, r->relation);
    const uint32_t *nodes = nodes_of(r->target);
    sl_topology_read_ahead(d->topology, &r->view, time, nodes + r->first, r->n_dst - r->first);
    if (!r->plan->time || !time) {
        r->most = edges_bound(r);
        return SL_OK;
    }
    const struct sl_timed_hop hop = {&r->view, time,     r->plan->time, r->fanout,
                                     r->first, r->n_dst, nodes};
    SL_TRY(sl_timed_rows_find(timed, &hop, &r->rows, &r->most));
    r->view = timed->view;
    return SL_OK;
}

// ... what each step of its metapath does not. False: there is nothing that they do not see.
static bool excluded_along(const struct sl_typed_drawer *d, uint32_t relation,
                           struct sl_walk_excluded out[SL_PATH_STEPS_MAX])
{
    const struct sl_typed *t = types_of(d);
    const struct sl_relation *r = &t->relation[relation];
    bool any = false;
    for (uint32_t k = 0; k < r->n_steps; k++) {
        const struct sl_typed_part *p = &d->part[t->relation[r->step[k]].target];
        out[k] = (struct sl_walk_excluded){excluded_of(d, r->step[k]), p->map, nodes_of(p)};
        any |= out[k].of != NULL;
    }
    return any;
}

// *n_edges: of all rows. SL_EAGAIN: there is no room for them.
static int draw_rows(const struct sl_typed_drawer *d, const struct draw *r, uint64_t bound,
                     const struct sl_block *block, const struct sl_hop_room *room,
                     uint32_t *n_edges)
{
    const struct sl_draw_plan *plan = r->plan;
    struct sl_walk_excluded along[SL_PATH_STEPS_MAX];
    const struct sl_khop_args args = {
        .topology = &r->view,
        .seed = sl_rng_relation_seed(plan->seed, r->relation),
        .stream = plan->stream,
        .epoch = block->epoch,
        .batch = (uint32_t)block->batch,
        .hop = r->h,
        .fanout = r->fanout,
        .excluded = excluded_of(d, r->relation),
        .replace = plan->replace,
        .n_dst = r->n_dst,
        .rows = r->rows ? r->rows : nodes_of(r->target),
        .first_row = r->first,
        .nodes = nodes_of(r->source),
        .n_nodes = &r->source->n,
        .nodes_capacity = capacity_of(r->source),
        .map = r->source->map,
        .indptr = room->indptr,
        .indices = room->indices,
        .indices_capacity = room->edges,
        .n_edges = n_edges,
        .edge_ids = plan->edge_ids ? room->second : NULL,
        .paths = plan->paths,
        .length = plan->length,
        .along = r->along,
        .excluded_along = excluded_along(d, r->relation, along) ? along : NULL,
        .restart = r->restart,
        .visits = sl_draw_plan_has_visits(plan) ? room->second : NULL,
    };
    const int rc = d->kernels->sample[plan->kind](&args);
    return rc == SL_ERANGE && room->edges < bound ? SL_EAGAIN : rc;
}

static int add_run(struct sl_typed_drawer *d, const struct sl_block_run *run)
{
    SL_TRY(
        sl_scratch_reserve(&d->runs, d->n_runs + (uint64_t)1, d->n_runs, UINT64_MAX, sizeof *run));
    ((struct sl_block_run *)d->runs.p)[d->n_runs++] = *run;
    return SL_OK;
}

static struct sl_block_run run_of(uint32_t h, uint32_t relation, const struct sl_block_hop *hop)
{
    return (struct sl_block_run){.hop = h,
                                 .relation = relation,
                                 .n_dst = hop->n_dst,
                                 .n_edges = hop->n_edges,
                                 .indptr_offset = hop->indptr_offset,
                                 .indices_offset = hop->indices_offset,
                                 .beside_offset = hop->beside_offset};
}

// Straight into the block.
static int draw_run(struct sl_typed_drawer *d, const struct draw *r, struct sl_block *block,
                    struct sl_block_cursor *c)
{
    const uint32_t beside = sl_draw_plan_beside(r->plan);
    const uint64_t bound = r->most;
    const struct sl_block_cursor before = *c;
    struct sl_block_hop hop = {0};
    struct sl_hop_room room;
    uint32_t n_edges;
    if (bound == 0)
        return SL_OK;
    if (!sl_block_begin_hop(c, &hop, r->n_dst, bound, beside, &room))
        return SL_EAGAIN;
    SL_TRY(draw_rows(d, r, bound, block, &room, &n_edges));
    if (n_edges == 0) {
        *c = before;
        return SL_OK;
    }
    sl_block_end_hop(c, &hop, n_edges, beside, &room);
    const struct sl_block_run run = run_of(r->h, r->relation, &hop);
    return add_run(d, &run);
}

// Rows that no hop has drawn have no edges.
static int pad_rows(struct sl_typed_rows *rows, uint32_t n)
{
    SL_TRY(sl_scratch_reserve(&rows->indptr, (uint64_t)n + 1, (uint64_t)rows->n_rows + 1,
                              UINT64_MAX, sizeof(uint32_t)));
    uint32_t *indptr = rows->indptr.p;
    indptr[0] = 0;
    while (rows->n_rows < n)
        indptr[++rows->n_rows] = rows->n_edges;
    return SL_OK;
}

// Behind the relation's rows of earlier hops.
static int draw_more(struct sl_typed_drawer *d, const struct draw *r, const struct sl_block *block,
                     const struct sl_block_cursor *c)
{
    const uint32_t beside = sl_draw_plan_beside(r->plan);
    struct sl_typed_rows *rows = &d->rows[r->relation];
    const uint64_t bound = rows->n_edges + r->most;
    const uint64_t fit = c->capacity / (sizeof(uint32_t) + beside);
    const uint64_t edges = SL_MIN(bound, fit);
    if (edges < rows->n_edges)
        return SL_EAGAIN;
    if (bound == rows->n_edges)
        return SL_OK;
    if (rows->indptr.bytes == 0)
        SL_TRY(sl_scratch_reserve(&rows->indptr, (uint64_t)r->n_dst + 1, 0, UINT64_MAX,
                                  sizeof(uint32_t)));
    SL_TRY(pad_rows(rows, r->first));
    SL_TRY(sl_scratch_reserve(&rows->indptr, (uint64_t)r->n_dst + 1, (uint64_t)r->first + 1,
                              UINT64_MAX, sizeof(uint32_t)));
    SL_TRY(sl_scratch_reserve(&rows->indices, edges, rows->n_edges, fit, sizeof(uint32_t)));
    if (beside)
        SL_TRY(sl_scratch_reserve(&rows->beside, edges, rows->n_edges, fit, beside));
    const struct sl_hop_room room = {edges, rows->indptr.p, rows->indices.p, rows->beside.p};
    SL_TRY(draw_rows(d, r, bound, block, &room, &rows->n_edges));
    rows->n_rows = r->n_dst;
    return SL_OK;
}

static int draw_hop(struct sl_typed_drawer *d, const struct sl_draw_plan *plan, uint32_t h,
                    struct sl_block *block, struct sl_block_cursor *c)
{
    const struct sl_typed *t = types_of(d);
    for (uint32_t i = 0; i < t->n_relations; i++) {
        const struct sl_relation *relation = &t->relation[i];
        struct draw r = {
            .plan = plan,
            .h = h,
            .relation = i,
            .fanout = plan->by_relation ? plan->by_relation[(uint64_t)h * t->n_relations + i]
                                        : plan->fanout[h],
            .target = &d->part[relation->target],
            .source = &d->part[relation->source],
            .restart = sl_relation_is_round(relation) ? plan->restart : 1.0f,
        };
        r.n_dst = r.target->after[h];
        r.first = plan->expand_new && h > 0 ? r.target->after[h - 1] : 0;
        if (r.fanout == 0 || r.first == r.n_dst)
            continue;
        if (sl_draw_plan_has_visits(plan))
            r.along = sl_topology_path(d->topology, i);
        SL_TRY(find_rows(d, &r));
        SL_TRY(make_map(r.source));
        SL_TRY(reserve_nodes(d, relation->source, r.most));
        SL_TRY(plan->expand_new ? draw_more(d, &r, block, c) : draw_run(d, &r, block, c));
    }
    for (uint32_t i = 0; i < t->n_types; i++)
        d->part[i].after[h + 1] = d->part[i].n;
    return SL_OK;
}

// ---- into the block -----------------------------------------------------------------------------

// The arrays of a relation that all its hops share. SL_EAGAIN.
static int put_rows(const struct sl_typed_drawer *d, const struct sl_draw_plan *plan,
                    uint32_t relation, struct sl_block_cursor *c)
{
    struct sl_typed_rows *rows = &d->rows[relation];
    const uint32_t target = types_of(d)->relation[relation].target;
    const uint32_t n_dst = d->part[target].after[plan->n_hops - 1];
    const uint32_t beside = sl_draw_plan_beside(plan);
    struct sl_block_hop all = {0};
    struct sl_hop_room room;
    SL_TRY(pad_rows(rows, n_dst));
    if (!sl_block_begin_hop(c, &all, n_dst, rows->n_edges, beside, &room) ||
        room.edges < rows->n_edges)
        return SL_EAGAIN;
    memcpy(room.indptr, rows->indptr.p, ((size_t)n_dst + 1) * sizeof *room.indptr);
    memcpy(room.indices, rows->indices.p, (size_t)rows->n_edges * sizeof *room.indices);
    if (beside)
        memcpy(room.second, rows->beside.p, (size_t)rows->n_edges * beside);
    sl_block_end_hop(c, &all, rows->n_edges, beside, &room);
    rows->placed = run_of(0, relation, &all);
    return SL_OK;
}

// A hop's run is the first part of the relation's rows, which are placed.
static int share_rows(struct sl_typed_drawer *d, const struct sl_draw_plan *plan,
                      const struct sl_block *block)
{
    const struct sl_typed *t = types_of(d);
    for (uint32_t h = 0; h < plan->n_hops; h++)
        for (uint32_t i = 0; i < t->n_relations; i++) {
            const struct sl_typed_rows *rows = &d->rows[i];
            struct sl_block_run run = rows->placed;
            if (rows->n_edges == 0)
                continue;
            run.hop = h;
            run.n_dst = d->part[t->relation[i].target].after[h];
            run.n_edges = sl_run_indptr(sl_block_here(block), &run)[run.n_dst];
            if (run.n_edges > 0)
                SL_TRY(add_run(d, &run));
        }
    return SL_OK;
}

static int put_shared(struct sl_typed_drawer *d, const struct sl_draw_plan *plan,
                      const struct sl_block *block, struct sl_block_cursor *c)
{
    for (uint32_t i = 0; i < types_of(d)->n_relations; i++)
        if (d->rows[i].n_edges > 0)
            SL_TRY(put_rows(d, plan, i, c));
    return share_rows(d, plan, block);
}

// there: a device has written them.
static bool put_nodes(const struct sl_typed_drawer *d, struct sl_block *block,
                      struct sl_block_cursor *c, bool there)
{
    uint32_t *nodes =
        sl_block_place(c, (uint64_t)block->n_input * sizeof *nodes, &block->nodes_offset);
    for (uint32_t t = 0; nodes && !there && t < types_of(d)->n_types; t++) {
        if (d->part[t].n) // else there may be no list
            memcpy(nodes, d->part[t].nodes.p, d->part[t].n * sizeof *nodes);
        nodes += d->part[t].n;
    }
    return nodes != NULL;
}

static bool put_tables(const struct sl_typed_drawer *d, struct sl_block *block,
                       struct sl_block_cursor *c)
{
    const uint32_t n_types = types_of(d)->n_types;
    const uint64_t bytes = d->n_runs * sizeof(struct sl_block_run);
    struct sl_block_typed *table = sl_block_place(
        c, sizeof *table + n_types * sizeof(struct sl_block_type), &block->typed_offset);
    struct sl_block_run *runs = table ? sl_block_place(c, bytes, &table->runs_offset) : NULL;
    if (!runs)
        return false;
    struct sl_block_type *type = (struct sl_block_type *)(void *)(table + 1);
    table->n_types = n_types;
    table->n_runs = d->n_runs;
    for (uint32_t t = 0, first = 0; t < n_types; first += d->part[t++].n) {
        type[t].first = first;
        memcpy(type[t].n, d->part[t].after, sizeof type[t].n);
    }
    for (uint32_t i = 0; i < d->n_runs; i++) {
        runs[i] = ((const struct sl_block_run *)d->runs.p)[i];
        block->hop[runs[i].hop].n_edges += runs[i].n_edges;
        block->n_edges += runs[i].n_edges;
    }
    return true;
}

static void count_rows(struct sl_block *block)
{
    for (uint32_t h = 0; h < block->n_hops; h++)
        block->hop[h].n_dst = block->n_nodes[h];
    block->n_input = block->n_nodes[block->n_hops];
}

// What follows the runs, and the header's counts.
static int end_block(const struct sl_typed_drawer *d, const struct sl_draw_plan *plan,
                     struct sl_block *block, struct sl_block_cursor *c, bool there)
{
    block->flags |= SL_BLOCK_TYPED;
    for (uint32_t h = 0; h <= plan->n_hops; h++) {
        block->n_nodes[h] = 0;
        for (uint32_t t = 0; t < types_of(d)->n_types; t++)
            block->n_nodes[h] += d->part[t].after[h];
    }
    count_rows(block);
    return put_nodes(d, block, c, there) && put_tables(d, block, c) ? SL_OK : SL_EAGAIN;
}

int sl_typed_draw(struct sl_typed_drawer *d, const struct sl_draw_job *job, struct sl_block *block,
                  struct sl_block_cursor *c)
{
    const struct sl_draw_plan *plan = job->plan;
    SL_TRY(begin_parts(d));
    SL_TRY(put_seeds(d, job->seeds, block->n_seeds));
    SL_TRY(find_excluded(d, job));
    for (uint32_t h = 0; h < plan->n_hops; h++)
        SL_TRY(draw_hop(d, plan, h, block, c));
    if (plan->expand_new)
        SL_TRY(put_shared(d, plan, block, c));
    for (uint32_t t = 0; t < types_of(d)->n_types; t++)
        d->part[t].largest = SL_MAX(d->part[t].largest, d->part[t].n);
    return end_block(d, plan, block, c, false);
}

// ---- drawn by a device --------------------------------------------------------------------------

uint64_t sl_typed_drawn_end(const struct sl_typed_drawer *d, const struct sl_draw_plan *plan,
                            const struct sl_drawn *drawn)
{
    const struct sl_typed *t = types_of(d);
    uint64_t n_runs = 0;
    for (uint32_t i = 0; i < plan->n_hops * t->n_relations; i++)
        n_runs += drawn->relation_edges[i] > 0;
    const uint64_t at = sl_align_up(drawn->end, (uint64_t)SL_BLOCK_ALIGN) +
                        sizeof(struct sl_block_typed) + t->n_types * sizeof(struct sl_block_type);
    return sl_align_up(at, (uint64_t)SL_BLOCK_ALIGN) + n_runs * sizeof(struct sl_block_run);
}

// The places of a relation's arrays.
static void place_run(const struct sl_draw_plan *plan, uint32_t n_dst, uint32_t n_edges,
                      struct sl_block_cursor *c, struct sl_block_run *run)
{
    sl_block_place(c, ((uint64_t)n_dst + 1) * sizeof(uint32_t), &run->indptr_offset);
    sl_block_place(c, (uint64_t)n_edges * sizeof(uint32_t), &run->indices_offset);
    if (sl_draw_plan_beside(plan))
        sl_block_place(c, (uint64_t)n_edges * sl_draw_plan_beside(plan), &run->beside_offset);
}

int sl_typed_describe(struct sl_typed_drawer *d, const struct sl_draw_plan *plan,
                      const struct sl_drawn *drawn, struct sl_block *block,
                      struct sl_block_cursor *c)
{
    const struct sl_typed *t = types_of(d);
    const uint32_t last = plan->n_hops - 1, *edges = drawn->relation_edges;
    for (uint32_t i = 0; i < t->n_types; i++) {
        memset(d->part[i].after, 0, sizeof d->part[i].after);
        for (uint32_t h = 0; h <= plan->n_hops; h++)
            d->part[i].after[h] = drawn->type_nodes[h * t->n_types + i];
        d->part[i].n = d->part[i].after[plan->n_hops];
    }
    for (uint32_t i = 0; i < t->n_relations; i++) {
        d->rows[i].placed = (struct sl_block_run){0};
        if (plan->expand_new && edges[last * t->n_relations + i] > 0)
            place_run(plan, d->part[t->relation[i].target].after[last],
                      edges[last * t->n_relations + i], c, &d->rows[i].placed);
    }
    d->n_runs = 0;
    for (uint32_t h = 0; h < plan->n_hops; h++)
        for (uint32_t i = 0; i < t->n_relations; i++) {
            struct sl_block_run run = d->rows[i].placed;
            run.hop = h;
            run.relation = i;
            run.n_dst = d->part[t->relation[i].target].after[h];
            run.n_edges = edges[h * t->n_relations + i];
            if (run.n_edges == 0)
                continue;
            if (!plan->expand_new)
                place_run(plan, run.n_dst, run.n_edges, c, &run);
            SL_TRY(add_run(d, &run));
        }
    return end_block(d, plan, block, c, true);
}

// ---- disjoint trees -----------------------------------------------------------------------------

void sl_typed_begin_tree(struct sl_typed_drawer *d, struct sl_time_bound bound)
{
    for (uint32_t r = 0; r < types_of(d)->n_relations; r++)
        sl_timed_rows_begin(&d->rows[r].timed, bound);
}

static int join_run(struct sl_typed_drawer *d, struct sl_forest *f, const struct sl_draw_plan *plan,
                    uint32_t h, uint32_t relation, const struct sl_block *block,
                    struct sl_block_cursor *c)
{
    const struct sl_relation *r = &types_of(d)->relation[relation];
    const struct sl_forest_run run = {h, relation, r->source, r->target};
    struct sl_block_hop hop = {0};
    SL_TRY(sl_forest_join_run(f, &run, sl_draw_plan_beside(plan), block, &hop, c));
    struct sl_typed_rows *rows = &d->rows[relation];
    rows->n_edges = hop.n_edges;
    rows->placed = run_of(h, relation, &hop);
    return hop.n_edges > 0 && !plan->expand_new ? add_run(d, &rows->placed) : SL_OK;
}

int sl_typed_join(struct sl_typed_drawer *d, struct sl_forest *f, const struct sl_draw_plan *plan,
                  struct sl_block *block, struct sl_block_cursor *c)
{
    const struct sl_typed *t = types_of(d);
    block->flags |= SL_BLOCK_TYPED;
    memset(block->n_nodes, 0, sizeof block->n_nodes);
    for (uint32_t i = 0; i < t->n_types; i++) {
        SL_TRY(sl_forest_number(f, i, block, d->part[i].after));
        d->part[i].n = d->part[i].after[plan->n_hops];
    }
    d->n_runs = 0;
    // With expand_new the last hop has all edges.
    for (uint32_t h = plan->expand_new ? plan->n_hops - 1 : 0; h < plan->n_hops; h++)
        for (uint32_t i = 0; i < t->n_relations; i++)
            SL_TRY(join_run(d, f, plan, h, i, block, c));
    if (plan->expand_new)
        SL_TRY(share_rows(d, plan, block));
    count_rows(block);
    uint32_t *nodes =
        sl_block_place(c, (uint64_t)block->n_input * sizeof *nodes, &block->nodes_offset);
    for (uint32_t i = 0; nodes && i < t->n_types; i++)
        nodes = sl_forest_copy_nodes(f, i, plan->n_hops, nodes);
    return nodes && put_tables(d, block, c) ? SL_OK : SL_EAGAIN;
}
