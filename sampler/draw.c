#include "sampler/draw.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "sampler/block_layout.h"
#include "sampler/mark.h"

enum { OFFSETS_AHEAD = 16 }; // vertices

int sl_drawer_init(struct sl_drawer *d, const struct sl_topology *topology,
                   const struct sl_kernels *kernels)
{
    *d = (struct sl_drawer){.kernels = kernels, .topology = topology};
    SL_TRY(sl_typed_drawer_init(&d->typed, topology, kernels));
    return sl_idmap_create(1, &d->map);
}

int sl_drawer_init_on(struct sl_drawer *d, const struct sl_topology *topology,
                      const struct sl_graph_placement *residence)
{
    *d = (struct sl_drawer){.kernels = residence->kernels,
                            .topology = topology,
                            .device = {.topology = topology, .residence = residence}};
    return sl_typed_drawer_init(&d->device.typed, topology, NULL);
}

void sl_drawer_fini(struct sl_drawer *d)
{
    sl_device_drawer_fini(&d->device);
    sl_exclusion_fini(&d->exclusion);
    sl_typed_drawer_fini(&d->typed);
    sl_forest_fini(&d->forest);
    sl_timed_rows_fini(&d->timed);
    sl_subgraph_fini(&d->subgraph);
    sl_idmap_destroy(d->map);
    for (int i = 0; i < SL_SCRATCH_ARRAYS; i++)
        sl_scratch_free(&d->scratch[i]);
    memset(d, 0, sizeof *d);
}

const struct sl_device *sl_drawer_device(const struct sl_drawer *d)
{
    return d->device.residence ? d->device.residence->device : sl_device_host();
}

uint64_t sl_drawer_bytes(const struct sl_drawer *d)
{
    if (d->device.residence)
        return sl_device_drawer_bytes(&d->device);
    uint64_t bytes = d->forest.bytes + d->subgraph.bytes + (d->map ? sl_idmap_bytes(d->map) : 0);
    bytes += sl_typed_drawer_bytes(&d->typed) + sl_timed_rows_bytes(&d->timed);
    bytes += sl_exclusion_bytes(&d->exclusion);
    for (int i = 0; i < SL_SCRATCH_ARRAYS; i++)
        bytes += d->scratch[i].bytes;
    return bytes;
}

static int reserve(struct sl_drawer *d, enum sl_scratch which, uint64_t n, uint64_t keep,
                   uint64_t most, uint64_t each)
{
    return sl_scratch_reserve(&d->scratch[which], n, keep, most, each);
}

static uint32_t *nodes_of(const struct sl_drawer *d)
{
    return d->scratch[SL_SCRATCH_NODES].p;
}

static uint32_t nodes_capacity(const struct sl_drawer *d)
{
    return (uint32_t)(d->scratch[SL_SCRATCH_NODES].bytes / sizeof(uint32_t));
}

static int reserve_nodes(struct sl_drawer *d, uint64_t n, uint32_t keep)
{
    return reserve(d, SL_SCRATCH_NODES, n, keep, d->topology->view.n_nodes, sizeof(uint32_t));
}

// In-degree of nodes[i] of n; asks for that of a later one.
static inline uint64_t degree_of(const struct sl_drawer *d, const uint32_t *nodes, uint32_t i,
                                 uint32_t n)
{
    const uint64_t *indptr = d->topology->view.indptr;
    __builtin_prefetch(&indptr[nodes[SL_MIN(i + OFFSETS_AHEAD, n - 1)]]);
    return indptr[nodes[i] + 1] - indptr[nodes[i]];
}

// Edges that rows first .. n_dst - 1 of a hop can have at most.
static uint64_t edges_bound(const struct sl_drawer *d, const struct sl_draw_plan *plan, uint32_t h,
                            uint32_t first, uint32_t n_dst)
{
    int64_t fanout = plan->fanout[h];
    if (sl_draw_plan_has_visits(plan))
        return sl_draw_plan_most_met(plan, fanout) * (n_dst - first);
    if (fanout >= 0)
        return (uint64_t)fanout * (n_dst - first);
    uint64_t edges = 0;
    for (uint32_t i = first; i < n_dst; i++)
        edges += degree_of(d, nodes_of(d), i, n_dst);
    return edges;
}

static bool is_typed(const struct sl_drawer *d)
{
    return d->topology->dataset.typed.n_types > 0;
}

// Seeds stand type after type. On devices, and where seeds have times, all are of the first.
static int check_types(const struct sl_drawer *d, const struct sl_draw_job *job)
{
    const struct sl_dataset *ds = &d->topology->dataset;
    const bool of_first = d->device.residence || job->plan->time;
    for (uint32_t i = 0, type = 0; i < job->n_seeds; i++) {
        const uint32_t of = sl_typed_type_of(&ds->typed, job->seeds[i]);
        if (of_first && of != 0)
            return sl_fail(SL_EUNSUPPORTED,
                           "sampling: seeds of type %s %s: wanted those of the first type, %s",
                           ds->typed.type[of].name,
                           job->plan->time ? "by their time" : "on a device",
                           ds->typed.type[0].name);
        if (of < type)
            return sl_fail(SL_EPROTO,
                           "sampling: seed %u is of an earlier type than the one before it: "
                           "wanted seeds type after type",
                           i);
        type = of;
    }
    return SL_OK;
}

static int check_job(const struct sl_drawer *d, const struct sl_draw_job *job)
{
    const struct sl_dataset *ds = &d->topology->dataset;
    const uint64_t n_nodes = ds->n_nodes;
    for (uint32_t i = 0; i < job->n_seeds; i++)
        if (job->seeds[i] >= n_nodes)
            return sl_fail(SL_EPROTO,
                           "sampling: seed %u is no vertex of a graph with %" PRIu64 " vertices",
                           job->seeds[i], n_nodes);
    if (is_typed(d)) {
        SL_TRY(sl_typed_check_plan(job->plan, &ds->typed));
        SL_TRY(check_types(d, job));
    }
    const bool timed = ds->node_time && (ds->edge_time || is_typed(d));
    if (job->plan->time && (!job->plan->disjoint || !timed))
        return sl_fail(SL_EPROTO, "sampling: by time, wanted disjoint trees, and a data set that "
                                  "was opened with its times");
    if (is_typed(d) && job->targets && ds->typed.linked == SL_NO_RELATION)
        return sl_fail(SL_EPROTO, "sampling: edges to leave out of a graph with several types, of "
                                  "no relation: wanted a job of links");
    if (d->device.residence && sl_draw_plan_on_cores(job->plan))
        return sl_fail(SL_EUNSUPPORTED, "sampling: a subgraph, disjoint trees or pairs on a "
                                        "device: wanted a drawer of the processor");
    if (job->targets && (d->device.residence || job->plan->disjoint))
        return sl_fail(SL_EUNSUPPORTED,
                       "sampling: edges to leave out of disjoint trees, or on a device: wanted a "
                       "drawer of the processor and batches of one piece");
    return SL_OK;
}

static int put_seeds(struct sl_drawer *d, const uint32_t *seeds, uint32_t n_seeds)
{
    uint32_t n_nodes = 0, local;
    SL_TRY(sl_idmap_reset(d->map, SL_MAX(d->largest_batch, n_seeds)));
    SL_TRY(reserve_nodes(d, n_seeds, 0));
    for (uint32_t i = 0; i < n_seeds; i++)
        SL_TRY(sl_idmap_insert(d->map, seeds[i], nodes_of(d), &n_nodes, nodes_capacity(d), &local));
    if (n_nodes != n_seeds)
        return sl_fail(SL_EPROTO,
                       "sampling: %u seeds, only %u of them different: wanted no vertex twice",
                       n_seeds, n_nodes);
    return SL_OK;
}

// Room in scratch for the rows of a hop of expand_new, behind the edges that it has already; for no
// more edges than fit the block.
static int begin_shared(struct sl_drawer *d, uint32_t n_dst, uint32_t known, uint32_t kept,
                        uint64_t bound, uint32_t beside, const struct sl_block_cursor *c,
                        struct sl_hop_room *out)
{
    const uint64_t fit = c->capacity / (sizeof *out->indices + beside);
    const uint64_t rows = (uint64_t)n_dst + 1, edges = SL_MIN(bound, fit);
    if (edges < kept)
        return SL_EAGAIN;
    SL_TRY(reserve(d, SL_SCRATCH_INDPTR, rows, known ? (uint64_t)known + 1 : 0, UINT64_MAX,
                   sizeof *out->indptr));
    SL_TRY(reserve(d, SL_SCRATCH_INDICES, edges, kept, fit, sizeof *out->indices));
    if (beside)
        SL_TRY(reserve(d, SL_SCRATCH_BESIDE, edges, kept, fit, beside));
    *out = (struct sl_hop_room){edges, d->scratch[SL_SCRATCH_INDPTR].p,
                                d->scratch[SL_SCRATCH_INDICES].p, d->scratch[SL_SCRATCH_BESIDE].p};
    return SL_OK;
}

// The arrays that all hops share, to their places.
static bool put_shared(const struct sl_drawer *d, struct sl_block *block, uint32_t n_hops,
                       uint32_t beside, struct sl_block_cursor *c)
{
    const struct sl_block_hop *last = &block->hop[n_hops - 1];
    struct sl_hop_room room;
    struct sl_block_hop all = {0};
    if (!sl_block_begin_hop(c, &all, last->n_dst, last->n_edges, beside, &room) ||
        room.edges < last->n_edges)
        return false;
    memcpy(room.indptr, d->scratch[SL_SCRATCH_INDPTR].p,
           ((size_t)last->n_dst + 1) * sizeof *room.indptr);
    if (last->n_edges) // else there may be no array
        memcpy(room.indices, d->scratch[SL_SCRATCH_INDICES].p,
               (size_t)last->n_edges * sizeof *room.indices);
    if (last->n_edges && beside)
        memcpy(room.second, d->scratch[SL_SCRATCH_BESIDE].p, (size_t)last->n_edges * beside);
    sl_block_end_hop(c, &all, last->n_edges, beside, &room);
    sl_block_share_hops(block, n_hops, &all);
    return true;
}

// SL_EAGAIN: the block's memory is too small.
static int draw_hop(struct sl_drawer *d, const struct sl_draw_plan *plan, uint32_t h,
                    struct sl_block *block, struct sl_block_cursor *c)
{
    struct sl_block_hop *hop = &block->hop[h];
    uint32_t n_nodes = block->n_nodes[h], n_edges;
    const uint32_t known = h > 0 ? block->n_nodes[h - 1] : 0;
    const bool shares = plan->expand_new, keeps = h > 0 && shares;
    const uint32_t beside = sl_draw_plan_beside(plan);
    const uint32_t first = keeps ? known : 0, kept = keeps ? block->hop[h - 1].n_edges : 0;
    const struct sl_topology_view *view = &d->topology->view;
    const uint32_t *rows = NULL;
    uint64_t fresh;
    // Of vertices that were there before the hop before has read the lists.
    const int64_t *time = d->topology->dataset.edge_time;
    sl_topology_read_ahead(d->topology, view, time, nodes_of(d) + known, n_nodes - known);
    if (plan->time) {
        const struct sl_timed_hop timed = {view,  time,    plan->time, plan->fanout[h],
                                           first, n_nodes, nodes_of(d)};
        SL_TRY(sl_timed_rows_find(&d->timed, &timed, &rows, &fresh));
        view = &d->timed.view;
    } else {
        fresh = edges_bound(d, plan, h, first, n_nodes);
    }
    const uint64_t bound = kept + fresh;
    struct sl_hop_room room;
    if (shares)
        SL_TRY(begin_shared(d, n_nodes, first, kept, bound, beside, c, &room));
    else if (!sl_block_begin_hop(c, hop, n_nodes, bound, beside, &room))
        return SL_EAGAIN;
    SL_TRY(reserve_nodes(d, n_nodes + fresh, n_nodes));
    const struct sl_khop_args args = {
        .topology = view,
        .rows = rows,
        .seed = plan->seed,
        .stream = plan->stream,
        .epoch = block->epoch,
        .batch = (uint32_t)block->batch,
        .hop = h,
        .fanout = plan->fanout[h],
        .excluded = d->excluded,
        .replace = plan->replace,
        .n_dst = n_nodes,
        .first_row = first,
        .nodes = nodes_of(d),
        .n_nodes = &n_nodes,
        .nodes_capacity = nodes_capacity(d),
        .map = d->map,
        .indptr = room.indptr,
        .indices = room.indices,
        .indices_capacity = room.edges,
        .n_edges = &n_edges,
        .paths = plan->paths,
        .length = plan->length,
        .restart = plan->restart,
        .visits = sl_draw_plan_has_visits(plan) ? room.second : NULL,
        .edge_ids = plan->edge_ids ? room.second : NULL,
    };
    int rc = d->kernels->sample[plan->kind](&args);
    if (rc == SL_ERANGE && room.edges < bound)
        return SL_EAGAIN; // scratch holds every vertex there can be, so it was the block
    SL_TRY(rc);
    if (shares)
        hop->n_dst = block->n_nodes[h], hop->n_edges = n_edges;
    else
        sl_block_end_hop(c, hop, n_edges, beside, &room);
    block->n_nodes[h + 1] = n_nodes;
    block->n_edges += n_edges;
    return SL_OK;
}

static bool put_nodes(struct sl_drawer *d, struct sl_block *block, struct sl_block_cursor *c)
{
    const uint64_t bytes = (uint64_t)block->n_input * sizeof(uint32_t);
    uint32_t *nodes = sl_block_place(c, bytes, &block->nodes_offset);
    if (nodes)
        memcpy(nodes, nodes_of(d), bytes);
    return nodes != NULL;
}

// Edges of nodes[i] that its degree counts and the batch does not see.
static uint64_t excluded_degree(const struct sl_drawer *d, const uint32_t *nodes, uint32_t i)
{
    const struct sl_dataset *ds = &d->topology->dataset;
    const struct sl_excluded *x = d->excluded;
    uint64_t n = 0;
    if (!x || i >= x->n_rows)
        return 0;
    for (uint32_t j = x->offsets[i]; j < x->offsets[i + 1]; j++) {
        const uint64_t e = ds->indptr[nodes[i]] + x->place[j];
        const bool loop = d->topology->self_loops.has && sl_dataset_source(ds, e) == nodes[i];
        n += !loop && (!ds->present || ds->present[e] > 0.0f);
    }
    return n;
}

static bool put_degrees(const struct sl_drawer *d, struct sl_block *block,
                        struct sl_block_cursor *c)
{
    const uint32_t n = block->n_input, *nodes = sl_block_nodes(block);
    uint32_t *degrees = sl_block_place(c, (uint64_t)n * sizeof *degrees, &block->degree_offset);
    const struct sl_self_loops *loops = &d->topology->self_loops;
    for (uint32_t i = 0; degrees && i < n; i++) {
        uint64_t degree = degree_of(d, nodes, i, n);
        if (loops->has || d->topology->dataset.present)
            degree = sl_topology_degree(d->topology, nodes[i]);
        degree -= excluded_degree(d, nodes, i);
        degrees[i] = (uint32_t)SL_MIN(degree, (uint64_t)UINT32_MAX);
    }
    return degrees != NULL;
}

static void begin_block(const struct sl_draw_job *job, uint32_t batch, uint32_t n_seeds,
                        struct sl_block *block)
{
    memset(block, 0, sizeof *block);
    block->magic = SL_BLOCK_MAGIC;
    block->epoch = job->epoch;
    block->batch = batch;
    block->n_hops = sl_draw_plan_hops(job->plan);
    block->n_seeds = block->n_nodes[0] = n_seeds;
    block->flags = (sl_draw_plan_has_visits(job->plan) ? SL_BLOCK_HAS_WEIGHTS : 0) |
                   (job->plan->edge_ids ? SL_BLOCK_HAS_EDGE_IDS : 0) |
                   (job->plan->disjoint ? SL_BLOCK_DISJOINT : 0);
}

// The hops, whose vertices are then in scratch. SL_EAGAIN: the block's memory is too small.
static int draw_hops(struct sl_drawer *d, const struct sl_draw_plan *plan, const uint32_t *seeds,
                     struct sl_block *block, struct sl_block_cursor *c)
{
    SL_TRY(put_seeds(d, seeds, block->n_seeds));
    for (uint32_t h = 0; h < plan->n_hops; h++)
        SL_TRY(draw_hop(d, plan, h, block, c));
    if (plan->expand_new && !put_shared(d, block, plan->n_hops, sl_draw_plan_beside(plan), c))
        return SL_EAGAIN;
    block->n_input = block->n_nodes[plan->n_hops];
    if (plan->subgraph != SL_SUBGRAPH_DIRECTIONAL)
        SL_TRY(sl_subgraph_add(&d->subgraph, d->topology, plan, d->excluded, d->map, nodes_of(d),
                               block, c));
    d->largest_batch = SL_MAX(d->largest_batch, block->n_input);
    return SL_OK;
}

static int draw_tree_at(struct sl_drawer *d, const struct sl_draw_job *job, uint32_t s,
                        struct sl_block *tree, struct sl_block_cursor *c)
{
    const struct sl_draw_plan *plan = job->plan;
    const struct sl_dataset *ds = &d->topology->dataset;
    struct sl_time_bound bound = {0};
    begin_block(job, job->first_seed + s, 1, tree);
    if (plan->time)
        bound = sl_time_bound(ds->node_time[job->seeds[s]], plan->time_strict);
    if (is_typed(d)) {
        sl_typed_begin_tree(&d->typed, bound);
        const struct sl_draw_job of = {.plan = plan, .seeds = &job->seeds[s], .n_seeds = 1};
        return sl_typed_draw(&d->typed, &of, tree, c);
    }
    sl_timed_rows_begin(&d->timed, bound);
    SL_TRY(draw_hops(d, plan, &job->seeds[s], tree, c));
    return put_nodes(d, tree, c) ? SL_OK : SL_EAGAIN;
}

// The tree of seed s, as the next one of the forest.
static int draw_tree(struct sl_drawer *d, const struct sl_draw_job *job, uint32_t s)
{
    for (;;) {
        struct sl_block_cursor c;
        struct sl_block *tree = sl_forest_next(&d->forest, &c);
        const int rc = tree ? draw_tree_at(d, job, s, tree, &c) : SL_EAGAIN;
        if (rc == SL_OK)
            sl_forest_keep(&d->forest, &c);
        if (rc != SL_EAGAIN)
            return rc;
        SL_TRY(sl_forest_grow(&d->forest));
    }
}

static int draw_trees(struct sl_drawer *d, const struct sl_draw_job *job)
{
    SL_TRY(
        sl_forest_reset(&d->forest, job->n_seeds, SL_MAX(d->topology->dataset.typed.n_types, 1u)));
    for (uint32_t s = 0; s < job->n_seeds; s++)
        SL_TRY(draw_tree(d, job, s));
    return SL_OK;
}

// SL_EAGAIN: the block's memory is too small.
static int draw(struct sl_drawer *d, struct sl_draw_job *job)
{
    const struct sl_draw_plan *plan = job->plan;
    struct sl_block *block = job->block;
    struct sl_block_cursor *c = &job->cursor;
    const bool fits = job->pairs ? sl_block_put_pairs(job->pairs, block, c)
                                 : sl_block_put_labels(d->topology, job->seeds, block, c);
    if (!fits)
        return SL_EAGAIN;
    if (is_typed(d) && !plan->disjoint)
        return sl_typed_draw(&d->typed, job, block, c);
    d->excluded = NULL;
    if (job->targets) {
        SL_TRY(sl_exclusion_find(&d->exclusion, &d->topology->view, job->seeds, job->n_seeds,
                                 job->targets));
        d->excluded = &d->exclusion.found;
    }
    SL_TRY(plan->disjoint ? draw_trees(d, job) : draw_hops(d, plan, job->seeds, block, c));
    const uint64_t t0 = sl_now_ns();
    if (is_typed(d)) {
        SL_TRY(sl_typed_join(&d->typed, &d->forest, plan, block, c));
    } else if (plan->disjoint) {
        SL_TRY(sl_forest_join(&d->forest, sl_draw_plan_beside(plan), block, c));
    } else if (!put_nodes(d, block, c)) {
        return SL_EAGAIN;
    }
    job->copy_ns = sl_now_ns() - t0;
    if (plan->degrees) {
        block->flags |= SL_BLOCK_HAS_DEGREES;
        if (!put_degrees(d, block, c))
            return SL_EAGAIN;
    }
    return SL_OK;
}

static struct sl_block_cursor behind_header(const struct sl_draw_job *job)
{
    return (struct sl_block_cursor){
        .base = (char *)job->block, .at = sizeof *job->block, .capacity = job->capacity};
}

// Memory that has not even room for the header: finish() says so.
static bool has_header(const struct sl_draw_job *job)
{
    return job->capacity >= sizeof *job->block;
}

uint32_t sl_drawer_depth(const struct sl_drawer *d)
{
    return d->device.residence ? SL_DEVICE_QUEUES : 1;
}

int sl_drawer_begin(struct sl_drawer *d, struct sl_draw_job *job)
{
    job->copy_ns = 0;
    job->is_mirrored = false;
    SL_TRY(check_job(d, job));
    if (!has_header(job))
        return SL_OK;
    begin_block(job, job->batch, job->n_seeds, job->block);
    job->cursor = behind_header(job);
    return d->device.residence ? sl_device_drawer_begin(&d->device, job) : SL_OK;
}

int sl_drawer_finish(struct sl_drawer *d, struct sl_draw_job *job, uint64_t *wanted_bytes)
{
    // How far a batch got says little of what it will take in all: ask for half as much again.
    *wanted_bytes = SL_MAX(job->capacity + job->capacity / 2, (uint64_t)4096);
    int rc = SL_EAGAIN;
    if (has_header(job))
        rc = d->device.residence ? sl_device_drawer_finish(&d->device, job, wanted_bytes)
                                 : draw(d, job);
    if (rc == SL_OK)
        job->block->bytes = job->cursor.at;
    if (rc == SL_EAGAIN)
        return sl_fail(SL_ERANGE, "sampling: batch %u of epoch %u does not fit %" PRIu64 " bytes",
                       job->batch, job->epoch + 1, job->capacity);
    return rc;
}

void sl_drawer_drop(struct sl_drawer *d, const struct sl_draw_job *job)
{
    if (d->device.residence && has_header(job))
        sl_device_drawer_drop(&d->device, job);
}

int sl_drawer_draw(struct sl_drawer *d, struct sl_draw_job *job, uint64_t *wanted_bytes)
{
    SL_TRY(sl_drawer_begin(d, job));
    return sl_drawer_finish(d, job, wanted_bytes);
}

uint64_t sl_drawer_marked_bytes(const struct sl_block *block)
{
    return sl_align_up(block->bytes, SL_BLOCK_ALIGN) + (uint64_t)block->n_input * sizeof(uint32_t);
}

// Type after type, as its vertices stand.
static int mark_types(const struct sl_typed *typed, const struct sl_rank_index *index,
                      const struct sl_block *block, uint32_t *ranks)
{
    const struct sl_block_type *part = sl_block_types(block);
    for (uint32_t t = 0; t < typed->n_types; t++) {
        const struct sl_rank_index of = sl_marker_index(index, typed, t);
        const uint32_t n = part[t].n[block->n_hops];
        if (n > 0)
            SL_TRY(sl_kernels_cpu()->mark_ranks(&of, sl_block_nodes(block) + part[t].first, n,
                                                ranks + part[t].first));
    }
    return SL_OK;
}

int sl_drawer_mark(struct sl_drawer *d, const struct sl_draw_job *job)
{
    const struct sl_typed *typed = &d->topology->dataset.typed;
    struct sl_block *block = job->block;
    struct sl_block_cursor c = {
        .base = (char *)block, .at = block->bytes, .capacity = job->capacity};
    uint64_t offset;
    uint32_t *ranks = sl_block_place(&c, (uint64_t)block->n_input * sizeof *ranks, &offset);
    if (!ranks)
        return sl_fail(SL_ERANGE,
                       "sampling: the ranks of batch %" PRIu64 " of epoch %u do not fit %" PRIu64
                       " bytes",
                       block->batch, block->epoch + 1, job->capacity);
    if (typed->n_types > 0)
        SL_TRY(mark_types(typed, job->ranks, block, ranks));
    else if (!d->device.residence) // otherwise they came with the batch
        SL_TRY(d->kernels->mark_ranks(job->ranks, sl_block_nodes(block), block->n_input, ranks));
    block->flags |= SL_BLOCK_HAS_RANKS;
    block->rank_generation = job->generation;
    block->rank_offset = offset;
    block->bytes = c.at;
    return SL_OK;
}
